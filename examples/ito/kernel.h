/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the programs of this folder: runs a kernel some times, prints how long it took and whether it is right. */
#ifndef KERNEL_H
#define KERNEL_H

#include "fork.h"
#include <stdio.h>
#include <stdlib.h>

/* One run of the kernel: filled by kernel_run's caller before, by @root during the run. */
struct kernel {
    fork_function *prepare; /* before each run, not timed; may be null */
    fork_function *root;
    void *arg;
    /* Set by the program after a run: how many tasks that was (calls of FORK), what came out. */
    uint64_t (*tasks)(const void *arg);
    uint64_t (*digest)(const void *arg);
    const char *(*wrong)(const void *arg); /* why the answer is wrong; null: right, or not known */
};

struct kernel__timed {
    const struct kernel *kernel;
    int repeat;
};

/* The runtime starts once; the first run warms it (stacks, free lists, caches) and is not printed when there are
 * more. */
static void kernel__timed(void *arg) {
    const struct kernel__timed *t = (const struct kernel__timed *)arg;
    const struct kernel *k = t->kernel;
    for (int run = 0; run < t->repeat; run++) {
        if (k->prepare)
            k->prepare(k->arg);
        double start = example_seconds();
        k->root(k->arg);
        double elapsed = example_seconds() - start;
        const char *wrong = k->wrong(k->arg);
        if (wrong)
            example_fail("wrong: %s", wrong);
        if (run > 0 || t->repeat == 1) {
            printf("elapsed_s: %.6f\n", elapsed);
            printf("ns_per_task: %.3f\n", elapsed * 1e9 / (double)k->tasks(k->arg));
        }
    }
}

/** kernel_run - run @k @repeat times on @workers workers; print what bench/ito/run reads. */
static inline int kernel_run(const struct kernel *k, int workers, int repeat) {
    struct kernel__timed timed = {k, repeat};
    fork_run(workers, kernel__timed, &timed);
    printf("runtime: %s\nworkers: %d\ntasks: %llu\ndigest: %016llx\n", FORK_RUNTIME, workers,
           (unsigned long long)k->tasks(k->arg), (unsigned long long)k->digest(k->arg));
    return 0;
}

/** kernel_number - the value of an option that must be a whole number from 1 to @max; ends the program else. */
static inline int kernel_number(const char *option, const char *text, int max) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > max) {
        fprintf(stderr, "error: %s needs a number from 1 to %d, not '%s'\n", option, max, text);
        exit(2);
    }
    return (int)n;
}

/* The options that all of them have besides those of example.h. */
#define KERNEL_REPEAT(text)                                                                                            \
    { "--repeat", "R", "run R times, print all but the first (it warms up); default: once", 0, &(text) }

#endif /* KERNEL_H */
