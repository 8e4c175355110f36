/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sections of a module's file, for what wants a module's gates or symbols. The file is read while the program runs, so by
 * system calls, which are no cancellation points. */
#ifndef KASURI_PROBE_SECTIONS_H
#define KASURI_PROBE_SECTIONS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct file {
    const char *bytes;
    uint64_t size;
    const ElfW(Shdr) * sections;
    unsigned n_sections;
};

/* Whether `bytes` from `at` lie in the file. */
static inline const void *part(const struct file *f, uint64_t at, uint64_t bytes) {
    return at <= f->size && bytes <= f->size - at ? f->bytes + at : 0;
}

static inline int open_file(struct file *f, const char *path) {
    struct stat st;
    const ElfW(Ehdr) * header;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    void *p;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        syscall(SYS_close, fd);
        return 0;
    }
    f->size = (uint64_t)st.st_size;
    p = mmap(0, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    syscall(SYS_close, fd);
    if (p == MAP_FAILED)
        return 0;
    f->bytes = p;
    header = part(f, 0, sizeof *header);
    if (header && !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_shentsize == sizeof(ElfW(Shdr)) &&
        header->e_shoff % _Alignof(ElfW(Shdr)) == 0) {
        f->n_sections = header->e_shnum;
        f->sections = part(f, header->e_shoff, f->n_sections * sizeof(ElfW(Shdr)));
        if (f->sections && header->e_shstrndx < f->n_sections)
            return 1;
    }
    munmap(p, f->size);
    return 0;
}

/* A text in a table of strings, or "". */
static inline const char *text(const struct file *f, const ElfW(Shdr) * strings, uint64_t at) {
    const char *s = at < strings->sh_size ? part(f, strings->sh_offset + at, strings->sh_size - at) : 0;
    return s && memchr(s, 0, strings->sh_size - at) ? s : "";
}

#endif
