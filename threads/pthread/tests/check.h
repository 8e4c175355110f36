/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ITO_PTHREAD_CHECK_H
#define ITO_PTHREAD_CHECK_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Kernel threads of this process. */
static inline int tasks(void) {
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* For what has to happen, on a busy machine later: `while (!it_has && is_early(&give_up)) ...;`, then assert it. True for a
 * minute from the first question (*give_up == 0), which is long for everything but a defect; CTest waits longer. */
static inline int is_early(time_t *give_up) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (*give_up == 0)
        *give_up = now.tv_sec + 60;
    return now.tv_sec < *give_up;
}

struct test {
    const char *name;
    void (*run)(void);
};

static inline int run_test(const struct test *tests, size_t n, int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < n; i++)
        if (strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            return 0;
        }
    fprintf(stderr, "no such test\n");
    return 2;
}

#endif
