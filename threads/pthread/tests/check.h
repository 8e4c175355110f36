/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ITO_PTHREAD_CHECK_H
#define ITO_PTHREAD_CHECK_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
