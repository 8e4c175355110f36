/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * check.h - what the tests of ito share. A program has named tests and runs one: `test_sync NAME`. The number of
 * workers comes from ITO_WORKERS, the seed of random delays from ITO_SEED; both are printed when a test fails.
 */
#ifndef ITO_TESTS_CHECK_H
#define ITO_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
#define CHECK_C extern "C"
#else
#define CHECK_C
#endif

static uint64_t check_seed;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            check_fail(__FILE__, __LINE__, #condition, 0, 0);                                                          \
    } while (0)
#define CHECK_EQ(a, b)                                                                                                 \
    do {                                                                                                               \
        long long check_a = (long long)(a), check_b = (long long)(b);                                                  \
        if (check_a != check_b)                                                                                        \
            check_fail(__FILE__, __LINE__, #a " == " #b, check_a, check_b);                                            \
    } while (0)

static inline void check_fail(const char *file, int line, const char *what, long long a, long long b) {
    const char *workers = getenv("ITO_WORKERS");
    fprintf(stderr, "%s:%d: %s (%lld, %lld); ITO_WORKERS=%s ITO_SEED=%llu\n", file, line, what, a, b,
            workers ? workers : "", (unsigned long long)check_seed);
    fflush(stderr);
    abort();
}

/* splitmix64: a state per thread, so runs with one seed delay alike. */
static inline uint64_t check_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Thirty-fold slower programs do less. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CHECK_SLOW 10
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define CHECK_SLOW 10
#endif
#endif
#ifndef CHECK_SLOW
#define CHECK_SLOW 1
#endif
static inline int check_scale(int n) {
    const char *divide = getenv("ITO_TEST_DIVIDE"); /* emulators */
    n /= CHECK_SLOW * (divide ? atoi(divide) : 1);
    return n ? n : 1;
}

/* For what has to happen, on a busy machine later: `while (!it_has && check_is_early(&give_up)) ...;`, then assert it. True
 * for a minute from the first question (*give_up == 0), which is long for everything but a defect; CTest waits longer. */
static inline int check_is_early(uint64_t *give_up) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (*give_up == 0)
        *give_up = (uint64_t)now.tv_sec + 60;
    return (uint64_t)now.tv_sec < *give_up;
}

struct check_test {
    const char *name;
    void (*run)(void);
};

static inline int check_main(int argc, char **argv, const struct check_test *tests, int (*start)(void),
                             int (*stop)(void)) {
    const char *seed = getenv("ITO_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    check_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)now.tv_nsec * 2654435761u + (uint64_t)now.tv_sec;
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (; tests->name; tests++)
            puts(tests->name);
        return 0;
    }
    for (; tests->name; tests++)
        if (argc >= 2 && !strcmp(argv[1], tests->name)) {
            if (argc > 2)
                setenv("ITO_WORKERS", argv[2], 1);
            if (start)
                CHECK_EQ(start(), 0);
            tests->run();
            if (stop)
                CHECK_EQ(stop(), 0);
            return 0;
        }
    fprintf(stderr, "usage: %s TEST [WORKERS], or --list\n", argv[0]);
    return 2;
}

#endif
