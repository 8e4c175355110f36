/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The gates of all annotated modules of this process (annotate/src/emit.h), and of the probe itself. They are hidden
 * symbols, so they are found as the recorder finds them: by section .kasuri.gate in the files of the modules.
 */
#include "confine.h"

#include "sections.h"

#include <errno.h>

struct search {
    struct kasuri_gate **gates;
    unsigned n, room;
};

static void gates_of(const struct file *f, uintptr_t base, struct search *search) {
    const ElfW(Shdr) *names = &f->sections[((const ElfW(Ehdr) *)(const void *)f->bytes)->e_shstrndx];
    for (unsigned i = 0; i < f->n_sections; i++) {
        const ElfW(Shdr) *s = &f->sections[i];
        struct kasuri_gate *gate = (struct kasuri_gate *)(base + s->sh_addr);
        if (!(s->sh_flags & SHF_ALLOC) || s->sh_type != SHT_PROGBITS ||
            strcmp(text(f, names, s->sh_name), ".kasuri.gate"))
            continue;
        for (uint64_t k = 0; k < s->sh_size / sizeof *gate && search->n < search->room; k++)
            if (gate[k].magic == KASURI_MAGIC_GATE)
                search->gates[search->n++] = &gate[k];
    }
}

static int look(struct dl_phdr_info *info, size_t size, void *arg) {
    struct file f;
    (void)size;
    if (!open_file(&f, info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe"))
        return 0;
    gates_of(&f, info->dlpi_addr, arg);
    munmap((void *)(uintptr_t)f.bytes, f.size);
    return 0;
}

/* This waits for the loader's lock, where another thread loads a library. */
unsigned probe_find_gates(struct kasuri_gate **gates, unsigned room) {
    struct search search = {gates, 0, room};
    int own = 0;
    dl_iterate_phdr(look, &search);
    for (unsigned i = 0; i < search.n; i++)
        own |= gates[i] == &kasuri__gate;
    /* Whatever became of our own file. */
    if (!own && room)
        gates[search.n < room ? search.n++ : room - 1] = &kasuri__gate;
    return search.n;
}
