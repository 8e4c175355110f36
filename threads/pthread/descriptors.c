/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The descriptors that the C library has for libthread_db (_thread_db_pthread_tid, ...). From glibc 2.34 on they are symbols that dlsym finds.
 * Before, they are local ones of libpthread.so.0, in the table of symbols that debuggers read from its file, as libthread_db has them look
 * there; distributions do not strip it.
 */
#include "light.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

static struct {
    const char *file; /* mapped; null: there is none, or it was not looked for */
    size_t bytes;
    uintptr_t base; /* where the library is loaded */
} library;

static int find_library(struct dl_phdr_info *info, size_t bytes, void *unused) {
    (void)bytes, (void)unused;
    const char *name = strrchr(info->dlpi_name, '/');
    if (name == NULL || strncmp(name, "/libpthread", 11) != 0)
        return 0;
    int fd = open(info->dlpi_name, O_RDONLY | O_CLOEXEC);
    struct stat s;
    void *at = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &s) == 0 && s.st_size > 0)
        at = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        REAL(close)(fd);
    if (at != MAP_FAILED) {
        library.file = at;
        library.bytes = (size_t)s.st_size;
        library.base = info->dlpi_addr;
    }
    return 1;
}

/* `n` things of `each` bytes of the file from `at` on; null: they are not all in it. */
static const void *part(uint64_t at, uint64_t n, uint64_t each) {
    if (at > library.bytes || at % 8 != 0 || n > (library.bytes - at) / each)
        return NULL;
    return library.file + at;
}

static const void *local_symbol(const char *name) {
    const ElfW(Ehdr) *head = part(0, 1, sizeof *head);
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    const ElfW(Shdr) *sections = part(head->e_shoff, head->e_shnum, sizeof *sections);
    for (unsigned i = 0; sections && i < head->e_shnum; i++) {
        const ElfW(Shdr) *table = &sections[i];
        if (table->sh_type != SHT_SYMTAB || table->sh_link >= head->e_shnum)
            continue;
        size_t n = table->sh_size / sizeof(ElfW(Sym)), length = strlen(name) + 1;
        uint64_t names_at = sections[table->sh_link].sh_offset, names_bytes = sections[table->sh_link].sh_size;
        const ElfW(Sym) *symbols = part(table->sh_offset, n, sizeof *symbols);
        if (symbols == NULL || names_at > library.bytes || names_bytes > library.bytes - names_at)
            return NULL;
        for (size_t k = 0; k < n; k++)
            if (symbols[k].st_shndx != SHN_UNDEF && symbols[k].st_name < names_bytes &&
                length <= names_bytes - symbols[k].st_name &&
                memcmp(library.file + names_at + symbols[k].st_name, name, length) == 0)
                return (const void *)(library.base + symbols[k].st_value);
    }
    return NULL;
}

const void *tls_descriptor(const char *name) {
    const void *found = dlsym(RTLD_DEFAULT, name);
    if (found || (library.file == NULL && (dl_iterate_phdr(find_library, NULL) == 0 || library.file == NULL)))
        return found;
    return local_symbol(name);
}

void tls_descriptors_end(void) {
    if (library.file)
        munmap((void *)library.file, library.bytes);
    library.file = NULL;
}
