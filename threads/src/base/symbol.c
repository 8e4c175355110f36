/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The name of a function or variable, for people. dladdr() knows exported ones only, and thread functions are mostly
 * static, so this reads the symbol table of the file on disk; of a stripped file that of what it exports. Slow: callers
 * keep the answer. Safe in a signal handler where glibc finds a file without a lock (2.35); else a fault while another
 * thread loads a library waits for it.
 */
#define _GNU_SOURCE
#include "base/symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    uintptr_t address, base;
    const char *path;
};

#ifndef DLFO_STRUCT_HAS_EH_DBASE
static int find_module(struct dl_phdr_info *info, size_t bytes, void *arg) {
    (void)bytes;
    struct place *place = arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && place->address >= start && place->address - start < p->p_memsz) {
            place->base = info->dlpi_addr;
            place->path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
            return 1;
        }
    }
    return 0;
}
static bool find_file(struct place *place) {
    return dl_iterate_phdr(find_module, place);
}
#else
static bool find_file(struct place *place) {
    struct dl_find_object found;
    if (_dl_find_object((void *)place->address, &found) != 0)
        return false;
    place->base = found.dlfo_link_map->l_addr;
    place->path = found.dlfo_link_map->l_name[0] ? found.dlfo_link_map->l_name : "/proc/self/exe";
    return true;
}
#endif

/* [offset, offset + bytes) lies in the file: it may have been replaced by anything since it was loaded. */
static bool inside(size_t file, ElfW(Off) offset, size_t bytes) {
    return offset <= file && bytes <= file - offset;
}

static bool is_named(unsigned type) {
    return type == STT_FUNC || type == STT_OBJECT;
}

static void copy(char *to, const char *from, unsigned room) {
    strncpy(to, from, room - 1);
    to[room - 1] = 0;
}

static void find_name(const char *file, size_t bytes, unsigned type, uintptr_t value, char *name, unsigned room) {
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)(const void *)file;
    if (bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_shoff % 8 ||
        head->e_shentsize != sizeof(ElfW(Shdr)) ||
        !inside(bytes, head->e_shoff, (size_t)head->e_shnum * sizeof(ElfW(Shdr))))
        return;
    const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(const void *)(file + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        const ElfW(Shdr) *table = &sections[i];
        if (table->sh_type != type || table->sh_link >= head->e_shnum || table->sh_offset % 8 ||
            !inside(bytes, table->sh_offset, table->sh_size))
            continue;
        const ElfW(Shdr) *text = &sections[table->sh_link];
        if (!inside(bytes, text->sh_offset, text->sh_size) || text->sh_size == 0 ||
            file[text->sh_offset + text->sh_size - 1] != 0)
            continue;
        const ElfW(Sym) *symbols = (const ElfW(Sym) *)(const void *)(file + table->sh_offset);
        for (size_t s = 0; s < table->sh_size / sizeof *symbols; s++)
            if (is_named(symbols[s].st_info & 15) && value - symbols[s].st_value < symbols[s].st_size &&
                symbols[s].st_name < text->sh_size) {
                copy(name, file + text->sh_offset + symbols[s].st_name, room);
                return;
            }
    }
}

void ito__symbol(const void *address, char *name, unsigned room, char *path, unsigned path_room) {
    struct place place = {(uintptr_t)address, 0, NULL};
    struct stat stat;
    name[0] = 0;
    if (path)
        path[0] = 0;
    if (!find_file(&place))
        return;
    if (path)
        copy(path, place.path, path_room);
    int fd = open(place.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &stat) == 0 && stat.st_size > 0) {
        void *file = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            uintptr_t value = place.address - place.base;
            find_name(file, (size_t)stat.st_size, SHT_SYMTAB, value, name, room);
            if (name[0] == 0)
                find_name(file, (size_t)stat.st_size, SHT_DYNSYM, value, name, room);
            munmap(file, (size_t)stat.st_size);
        }
    }
    close(fd);
}
