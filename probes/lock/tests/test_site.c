/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of addresses: site.c itself is part of this program, so that its tables can be filled. `test_site [NAME]`. */
#include "site.c"

#include "expect.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct kasuri_gate kasuri__gate = {KASURI_MAGIC_GATE, 0, 0}; /* ring.c is not part of this program */

static char initialised[] = "data", zeros[1 << 20];

static int named(const struct kasuri_site *site, const char *name, const char *marker) {
    int good = site && !strcmp(site->name, name) && !strcmp(site->func, marker);
    if (!good)
        fprintf(stderr, "%s, not %s\n", site ? site->name : "no site", name);
    return good;
}

/* The name that the loader would give an address. */
static const char *by_loader(const void *address) {
    static char name[4200];
    Dl_info info;
    if (!dladdr(address, &info) || !strrchr(info.dli_fname, '/'))
        return "?";
    snprintf(name, sizeof name, "%s+0x%lx", strrchr(info.dli_fname, '/') + 1,
             (unsigned long)((uintptr_t)address - (uintptr_t)info.dli_fbase));
    return name;
}

static int addresses_in_modules_have_names(void) {
    const void *data[] = {initialised, zeros, zeros + sizeof zeros - 1, stdout, (void *)&by_loader};
    const void *code[] = {(void *)&by_loader, dlsym(RTLD_NEXT, "puts"), dlsym(RTLD_NEXT, "dladdr"), (void *)&named};
    errno = 77;
    for (unsigned i = 0; i < sizeof data / sizeof *data; i++) {
        struct kasuri_site *site = probe_symbol((uintptr_t)data[i]);
        EXPECT(named(site, by_loader(data[i]), "kasuri.data") && site->file[0] == '/');
        EXPECT(probe_symbol((uintptr_t)data[i]) == site);
    }
    for (unsigned i = 0; i < sizeof code / sizeof *code; i++) {
        struct kasuri_site *site = probe_call_site((uintptr_t)code[i]);
        EXPECT(named(site, by_loader(code[i]), "kasuri.call"));
        EXPECT(probe_call_site((uintptr_t)code[i]) == site && site != probe_symbol((uintptr_t)code[i]));
        EXPECT(site && strstr(site->name, strrchr(site->file, '/') + 1) == site->name);
    }
    EXPECT(errno == 77);
    return failed;
}

static char *reserve(size_t pages) {
    char *p = mmap(NULL, pages << 12, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(3);
    return p;
}
/* A page of a file, or of no file if `fd` is -1. */
static void put(char *at, int fd, off_t offset, int protection) {
    if (mmap(at, 4096, protection, MAP_FIXED | MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, offset) != at)
        exit(3);
}
static int a_file(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 1 << 20) != 0)
        exit(3);
    return fd;
}

/* A module is what is mapped of one file, with the memory right behind it. */
static int a_module_ends_where_its_mappings_end(void) {
    int one = a_file("one"), two = a_file("two");
    char *p = reserve(10);
    put(p + 0x1000, one, 0, PROT_READ);
    put(p + 0x2000, one, 0x1000, PROT_READ | PROT_WRITE);
    put(p + 0x3000, -1, 0, PROT_READ | PROT_WRITE); /* as .bss */
    put(p + 0x5000, two, 0, PROT_READ);
    munmap(p, 0x1000); /* a hole: memory of no file right behind another module would count to that */
    munmap(p + 0x6000, 0x1000);
    put(p + 0x7000, -1, 0, PROT_READ | PROT_WRITE);
    munmap(p + 0x4000, 0x1000);
    EXPECT(!probe_symbol((uintptr_t)p + 0xfff));
    EXPECT(named(probe_symbol((uintptr_t)p + 0x1000), "memfd:one (deleted)+0x0", "kasuri.data"));
    EXPECT(named(probe_symbol((uintptr_t)p + 0x1fff), "memfd:one (deleted)+0xfff", "kasuri.data"));
    EXPECT(named(probe_symbol((uintptr_t)p + 0x2000), "memfd:one (deleted)+0x1000", "kasuri.data"));
    EXPECT(named(probe_symbol((uintptr_t)p + 0x3fff), "memfd:one (deleted)+0x2fff", "kasuri.data"));
    EXPECT(!probe_symbol((uintptr_t)p + 0x4000));
    EXPECT(named(probe_symbol((uintptr_t)p + 0x5010), "memfd:two (deleted)+0x10", "kasuri.data"));
    EXPECT(!probe_symbol((uintptr_t)p + 0x6000));
    EXPECT(!probe_symbol((uintptr_t)p + 0x7000)); /* not right behind `two` */
    close(one);
    close(two);
    return failed;
}

/* Code outside all modules is named by its address, data is not named; both are final. */
static int addresses_outside_modules_are_numbers(void) {
    char *p = reserve(1), name[32];
    snprintf(name, sizeof name, "%p", (void *)p);
    for (int i = 0; i < 2; i++) {
        EXPECT(!probe_symbol((uintptr_t)p));
        EXPECT(named(probe_call_site((uintptr_t)p), name, "kasuri.call"));
        EXPECT(named(probe_call_site(0x10), "0x10", "kasuri.call"));
        EXPECT(named(probe_call_site(0x7fedcba98765), "0x7fedcba98765", "kasuri.call"));
    }
    EXPECT(probe_call_site(0x10)->file[0] == 0);
    ranges[n_ranges] = (struct range){(uintptr_t)p, (uintptr_t)p + 4096, (uintptr_t)p, "/not/complete"};
    EXPECT(!probe_symbol((uintptr_t)p + 1));
    return failed;
}

/* The list of mappings is longer than the buffer that it is read into, which ends within a line. */
static int a_long_list_of_mappings_is_read_to_its_end(void) {
    static char name[200], expected[300];
    const void *behind = dlsym(RTLD_NEXT, "strtol");
    char *p = reserve(1200);
    memset(name, 'x', sizeof name - 1);
    int fd = a_file(name);
    for (int i = 0; i < 600; i++)
        put(p + 0x2000 * i, fd, 0x1000 * (i % 200), i % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
    for (unsigned i = 0; i < 600; i += 7) { /* of one file, without a mapping of another in between: one module */
        snprintf(expected, sizeof expected, "memfd:%s (deleted)+0x%x", name, 0x2000 * i + 8);
        EXPECT(named(probe_symbol((uintptr_t)p + 0x2000 * i + 8), expected, "kasuri.data"));
    }
    EXPECT((uintptr_t)behind > (uintptr_t)p); /* else this shows nothing */
    EXPECT(named(probe_call_site((uintptr_t)behind), by_loader(behind), "kasuri.call"));
    munmap(p, 1200 << 12);
    close(fd);
    return failed;
}

/* What does not fit into the tables has no name; what fitted keeps its own. */
static int full_tables_leave_the_rest_without_a_name(void) {
    char *p = reserve(1400), name[32];
    int fd = a_file("many"), in_module = 0, with_name = 0;
    uint32_t before = n_ranges;
    for (int i = 0; i < 700; i++) /* no two touch */
        put(p + 0x2000 * i, fd, 0, PROT_READ);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 700; i++)
            in_module += probe_symbol((uintptr_t)p + (uintptr_t)(0x2000 * i)) != NULL;
    munmap(p, 1400 << 12);
    EXPECT(n_ranges == N_RANGES && in_module == 2 * (int)(N_RANGES - before));
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 2 * N_SITES; i++) {
            struct kasuri_site *site = probe_call_site(0x100000 + i);
            snprintf(name, sizeof name, "0x%llx", (unsigned long long)(0x100000 + i));
            EXPECT(!site || named(site, name, "kasuri.call"));
            with_name += round && site;
        }
    EXPECT(with_name > (int)N_SITES / 2 && with_name <= (int)N_SITES);
    close(fd);
    return failed;
}

static void *gives_the_table_back(void *p) {
    while (__atomic_load_n(&patience, __ATOMIC_RELAXED) == 1 << 30) /* until the other has found it taken */
        usleep(100);
    __atomic_store_n(&reading, 0, __ATOMIC_RELEASE);
    return p;
}

/* The holder of the table may be this very thread, below a signal handler: the wait ends, the name comes later. */
static int a_table_in_use_is_waited_for_a_while(void) {
    uintptr_t address = (uintptr_t)&by_loader + 1;
    errno = 77;
    reading = 1;
    patience = 3;
    EXPECT(!probe_call_site(address) && patience == 0 && reading == 1);
    EXPECT(!probe_call_site(address) && patience == 0 && reading == 1);
    reading = 0;
    EXPECT(named(probe_call_site(address), by_loader((void *)address), "kasuri.call"));
    EXPECT(reading == 0 && errno == 77);
    pthread_t t; /* another thread is done soon */
    reading = 1;
    patience = 1 << 30;
    pthread_create(&t, NULL, gives_the_table_back, NULL);
    EXPECT(named(probe_call_site(address + 1), by_loader((void *)(address + 1)), "kasuri.call"));
    EXPECT(patience < 1 << 30 && patience > 0);
    __atomic_store_n(&patience, 0, __ATOMIC_RELAXED); /* should nobody have waited */
    pthread_join(t, NULL);
    return failed;
}

static int open_files(void) {
    int n = 0;
    for (int fd = 0; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

/* No file, no memory: no name, and nothing else happens. */
static int without_files_or_memory_there_is_no_name(void) {
    struct rlimit files, memory, none = {0, 0};
    int open = open_files(), low = -1;
    uint64_t left;
    EXPECT(probe_symbol((uintptr_t)initialised + 1) && open_files() == open);
    char *p = reserve(2);
    int fd = a_file("late");
    put(p, fd, 0, PROT_READ);
    getrlimit(RLIMIT_NOFILE, &files);
    none.rlim_max = files.rlim_max;
    errno = 77;
    setrlimit(RLIMIT_NOFILE, &none);
    EXPECT(!probe_symbol((uintptr_t)p) && named(probe_call_site(0x20), "0x20", "kasuri.call"));
    setrlimit(RLIMIT_NOFILE, &files);
    EXPECT(errno == 77 && open_files() == open + 1);
    close(fd);
    /* The file that it opens may have the lowest number. */
    low = dup(0);
    close(0);
    EXPECT(probe_symbol((uintptr_t)p + 1) && fcntl(0, F_GETFD) == -1);
    if (low >= 0)
        dup2(low, 0);
    getrlimit(RLIMIT_AS, &memory);
    none.rlim_max = memory.rlim_max;
    left = heap_left;
    errno = 77;
    heap_left = 0;
    setrlimit(RLIMIT_AS, &none);
    EXPECT(!probe_call_site(0x30) && !probe_call_site(0x30) && errno == 77);
    setrlimit(RLIMIT_AS, &memory);
    heap_left = left;
    EXPECT(named(probe_call_site(0x40), "0x40", "kasuri.call"));
    return failed;
}

static const struct {
    const char *name;
    int (*run)(void);
} tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(addresses_in_modules_have_names),           TEST(a_module_ends_where_its_mappings_end),
    TEST(addresses_outside_modules_are_numbers),     TEST(a_long_list_of_mappings_is_read_to_its_end),
    TEST(full_tables_leave_the_rest_without_a_name), TEST(a_table_in_use_is_waited_for_a_while),
    TEST(without_files_or_memory_there_is_no_name),
};

int main(int argc, char **argv) {
    for (unsigned i = 0; argc == 2 && i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, argv[1]))
            return tests[i].run();
    for (unsigned i = 0; argc == 1 && i < sizeof tests / sizeof *tests; i++)
        puts(tests[i].name);
    return 2;
}
