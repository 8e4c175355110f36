/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cost of a pair of ITT and NVTX calls: `pairs [LIBRARY]`. Without a library the calls find nobody, as in a program
 * that no tool looks at. Prints a line for each kind of pair: its name and ns of this thread's CPU time. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 200000 };

/* What a program has of ITT and of NVTX: probes/collector/itt.c and nvtx.c say where this is from. */
struct id {
    unsigned long long d1, d2, d3;
};
static void *(*domain_create)(const char *), *(*string_handle_create)(const char *);
static void (*task_begin)(void *, struct id, struct id, void *), (*task_end)(void *);
static struct api {
    const char *name;
    void **function;
    void *init, *null;
    int group;
} apis[] = {{"__itt_domain_create", (void **)(void *)&domain_create, 0, 0, 1},
            {"__itt_string_handle_create", (void **)(void *)&string_handle_create, 0, 0, 1},
            {"__itt_task_begin", (void **)(void *)&task_begin, 0, 0, 1},
            {"__itt_task_end", (void **)(void *)&task_end, 0, 0, 1},
            {0, 0, 0, 0, 0}};
static struct {
    unsigned char magic[8];
    unsigned long major, minor, build;
    char between[24 + 40 + 24]; /* three numbers, a mutex, three pointers */
    struct api *apis;
} global = {.major = 3, .apis = apis};
static int (*push)(const char *), (*pop)(void);
typedef void function(void);
static function *unused, **table[16];
static int get_module(int module, function ****out, unsigned *n) {
    for (int i = 0; i < 16; i++)
        table[i] = &unused;
    table[9] = (function **)(void *)&push;
    table[11] = (function **)(void *)&pop;
    *out = table;
    *n = 16;
    return module == 1;
}
static struct {
    size_t bytes;
    int (*module)(int, function ****, unsigned *);
} callbacks = {sizeof callbacks, get_module};
static const void *get_table(uint32_t number) {
    return number == 1 ? &callbacks : 0;
}

static void load(const char *library) {
    void *loaded = dlopen(library, RTLD_NOW);
    if (!loaded) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    void (*itt)(void *, int);
    int (*nvtx)(const void *(*)(uint32_t));
    *(void **)&itt = dlsym(loaded, "__itt_api_init");
    *(void **)&nvtx = dlsym(loaded, "InitializeInjectionNvtx2");
    itt(&global, -1);
    nvtx(get_table);
}

static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    struct id null = {0, 0, 0};
    if (argc > 1)
        load(argv[1]);
    void *domain = domain_create ? domain_create("bench") : 0;
    void *name = string_handle_create ? string_handle_create("task") : 0;
    for (int round = 0; round < 5; round++) {
        double start = cpu_ns();
        for (int i = 0; i < PAIRS; i++) {
            __asm__ volatile("" : : : "memory");
            if (task_begin)
                task_begin(domain, null, null, name);
            if (task_end)
                task_end(domain);
        }
        printf("itt_task_pair %.2f\n", (cpu_ns() - start) / PAIRS);
        start = cpu_ns();
        for (int i = 0; i < PAIRS; i++) {
            __asm__ volatile("" : : : "memory");
            if (push)
                push("forward pass");
            if (pop)
                pop();
        }
        printf("nvtx_push_pop_text %.2f\n", (cpu_ns() - start) / PAIRS);
    }
    return 0;
}
