/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cost of a pair of ITT and NVTX calls: `pairs [LIBRARY]`. Without a library the calls find nobody, as in a program
 * that no tool looks at. Prints a line for each kind of pair: its name and ns of this thread's CPU time. */
#include "../../tests/collector/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 200000 };

static void load(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    if (!attach_itt(library) || !attach_nvtx(library))
        exit(1);
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
