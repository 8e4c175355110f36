/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The chosen region in this process, and the report at its end.
 *
 * KASURI_WHATIF is `slice NAME` or `lock SYMBOL[+N]`. Slices come by the gates of annotated modules, locks by the
 * symbols of their variables; both are read from the files of the modules that are there when the program starts.
 */
#include "whatif.h"

#define KASURI_DECLARE_ONLY
#include "kasuri.h"
#include "real.h"
#include "sections.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_BYTES 256
#define LOCKS 16u
#define LEVELS 64u /* of nested slices; deeper ones are never the chosen one */

int whatif_on;
static char slice[NAME_MAX_BYTES];
static struct { uintptr_t from, to; } locks[LOCKS];
static unsigned n_locks;

/* -- slices -- */

/* The open slices of a thread: one bit each, set for the chosen one. */
static __thread struct {
    uint64_t chosen;
    uint32_t depth;
} open_slices __attribute__((tls_model("initial-exec")));

/* Each event of a module whose gate is 3 comes here. A slice of a task that goes on in another thread stays open in
 * the first: such programs are not for this library. */
static void take(const struct kasuri_site *site, uint32_t kind, const void *payload, uint64_t bytes) {
    uint32_t depth = open_slices.depth;
    (void)payload;
    (void)bytes;
    if (!whatif_on)
        return;
    switch (kind & 0xff) {
    case KASURI_EV_BEGIN:
        open_slices.depth++;
        if (depth < LEVELS && site && site->name && !strcmp(site->name, slice)) {
            open_slices.chosen |= 1ull << depth;
            whatif_enter();
        }
        break;
    case KASURI_EV_END:
        if (!depth)
            break;
        open_slices.depth = --depth;
        if (depth < LEVELS && open_slices.chosen >> depth & 1) {
            open_slices.chosen &= ~(1ull << depth);
            whatif_leave();
        }
        break;
    default:
        break;
    }
}

/* Opens the gates in a section of this process's memory. Hooks first. */
static unsigned open_gates(char *from, uint64_t bytes) {
    unsigned gates = 0, hooks = 0;
    for (uint64_t at = 0; at + sizeof(struct kasuri_hook) <= bytes; at += sizeof(struct kasuri_hook)) {
        struct kasuri_hook *hook = (struct kasuri_hook *)(void *)(from + at);
        if (hook->magic == KASURI_MAGIC_HOOK) {
            hook->u.take = take;
            hooks++;
        }
    }
    /* A module that was built with a header before hooks would call nothing. */
    for (uint64_t at = 0; hooks && at + sizeof(struct kasuri_gate) <= bytes; at += sizeof(struct kasuri_gate)) {
        struct kasuri_gate *gate = (struct kasuri_gate *)(void *)(from + at);
        if (gate->magic == KASURI_MAGIC_GATE) {
            /* ORDER release; pairs with the acquire load in kasuri__emit_slow(): the hook is there. */
            __atomic_store_n(&gate->gate, 3, __ATOMIC_RELEASE);
            gates++;
        }
    }
    return gates;
}

/* -- files of modules -- */

static unsigned gates_of(const struct file *f, uintptr_t base) {
    const ElfW(Shdr) *names = &f->sections[((const ElfW(Ehdr) *)(const void *)f->bytes)->e_shstrndx];
    unsigned gates = 0;
    for (unsigned i = 0; i < f->n_sections; i++) {
        const ElfW(Shdr) *s = &f->sections[i];
        if (s->sh_flags & SHF_ALLOC && s->sh_type == SHT_PROGBITS &&
            !strcmp(text(f, names, s->sh_name), ".kasuri.gate"))
            gates += open_gates((char *)(base + s->sh_addr), s->sh_size);
    }
    return gates;
}

static void lock_of(const struct file *f, uintptr_t base, const char *name, long inside) {
    for (unsigned i = 0; i < f->n_sections; i++) {
        const ElfW(Shdr) *s = &f->sections[i];
        const ElfW(Sym) * symbols;
        if ((s->sh_type != SHT_SYMTAB && s->sh_type != SHT_DYNSYM) || s->sh_link >= f->n_sections)
            continue;
        symbols = part(f, s->sh_offset, s->sh_size);
        for (uint64_t k = 0; symbols && k < s->sh_size / sizeof *symbols && n_locks < LOCKS; k++) {
            uintptr_t from = base + symbols[k].st_value;
            if ((symbols[k].st_info & 0xf) != STT_OBJECT || symbols[k].st_shndx == SHN_UNDEF ||
                strcmp(text(f, &f->sections[s->sh_link], symbols[k].st_name), name))
                continue;
            if (whatif_is_chosen((const void *)(from + (inside < 0 ? 0 : (uintptr_t)inside))))
                continue; /* it stands in both tables */
            locks[n_locks].from = inside < 0 ? from : from + (uintptr_t)inside;
            locks[n_locks].to = inside < 0 ? from + symbols[k].st_size : locks[n_locks].from + 1;
            n_locks++;
        }
    }
}

struct search {
    const char *lock; /* null: gates */
    long inside;      /* bytes from the symbol to the lock, -1: anywhere in it */
    unsigned found;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg) {
    struct search *search = arg;
    struct file f;
    (void)size;
    if (!open_file(&f, info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe"))
        return 0;
    if (search->lock)
        lock_of(&f, info->dlpi_addr, search->lock, search->inside);
    else
        search->found += gates_of(&f, info->dlpi_addr);
    munmap((void *)(uintptr_t)f.bytes, f.size);
    return 0;
}

int whatif_is_chosen(const void *lock) {
    for (unsigned i = 0; i < n_locks; i++)
        if ((uintptr_t)lock >= locks[i].from && (uintptr_t)lock < locks[i].to)
            return 1;
    return 0;
}

unsigned whatif_find(const char *what) {
    struct search search = {0, -1, 0};
    char symbol[NAME_MAX_BYTES], *plus, *end;
    if (!strncmp(what, "slice ", 6) && strlen(what + 6) < sizeof slice) {
        strcpy(slice, what + 6);
        dl_iterate_phdr(look, &search);
        return search.found;
    }
    if (strncmp(what, "lock ", 5) || strlen(what + 5) >= sizeof symbol)
        return 0;
    strcpy(symbol, what + 5);
    plus = strrchr(symbol, '+');
    if (plus) {
        search.inside = strtol(plus + 1, &end, 10);
        if (*end || end == plus + 1 || search.inside < 0)
            search.inside = -1;
        else
            *plus = 0;
    }
    search.lock = symbol;
    dl_iterate_phdr(look, &search);
    return n_locks;
}

/* -- start and end -- */

static char report_path[4096];
static unsigned n_found;

/* A child that does not execute another program has one thread, and perhaps a lock that a thread held which it does not
 * have: it runs undelayed. */
static void in_child(void) {
    whatif_on = 0;
    *report_path = 0;
}

/* The environment of a set-user-id program comes from somebody else. */
__attribute__((constructor(102))) static void start(void) {
    const char *what = getenv("KASURI_WHATIF"), *percent = getenv("KASURI_WHATIF_PERCENT"),
               *path = getenv("KASURI_WHATIF_REPORT");
    int saved = errno;
    if (!what || getauxval(AT_SECURE) || !probe_resolve())
        return;
    if (path && strlen(path) < sizeof report_path)
        strcpy(report_path, path);
    whatif_start(percent && atoi(percent) > 0 ? (unsigned)atoi(percent) % 101 : 0);
    n_found = whatif_find(what);
    whatif_on = n_found > 0 && pthread_atfork(0, 0, in_child) == 0;
    errno = saved;
}

/* One line, in one write: several processes may append to the file. */
__attribute__((destructor(102))) static void end(void) {
    struct whatif_sums sums = {0, 0, 0, 0, 0};
    char line[256];
    int fd, n;
    if (!*report_path)
        return;
    if (whatif_on) {
        whatif_pay();
        sums = whatif_sums();
    }
    n = snprintf(line, sizeof line,
                 "%ld found %u entries %llu region_ns %llu slept_ns %llu delay_ns %lld unpaid %llu\n", (long)getpid(),
                 n_found, (unsigned long long)sums.entries, (unsigned long long)sums.region_ns,
                 (unsigned long long)sums.slept_ns, (long long)sums.delay_ns, (unsigned long long)sums.unpaid);
    fd = open(report_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)n) < 0)
        *report_path = 0; /* nothing can be said, and the program is over */
    close(fd);
}
