/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bench_loops - what ito_for and ito_reduce cost beside the plain loop, on 1, 2, 8 and 16 workers of which all but one
 * are idle. CPU time of the whole process, so that workers that are woken for nothing count. Serial and parallel take
 * turns; the median of the ratios is printed, as a JSON line, with their quartiles, and the median of those of wall time.
 *
 *   bench_loops [INDICES...]   loops of so many indices; default 1,000, 10,000 and 1,000,000
 */
#include <ito.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 41, INDICES_A_RUN = 1000000, MOST = 1 << 24 };
static unsigned *numbers;
static volatile unsigned sink;

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Not vectorised: a body that the compiler makes 4 times faster is one of a 4 times shorter loop. */
static void increment(size_t begin, size_t end, void *arg) {
    (void)arg;
    for (size_t i = begin; i < end; i++) {
        numbers[i]++;
        __asm__ volatile("" : : : "memory");
    }
}
static void sum_up(size_t begin, size_t end, void *sum, void *arg) {
    (void)arg;
    unsigned s = *(unsigned *)sum;
    for (size_t i = begin; i < end; i++) {
        s += numbers[i];
        __asm__ volatile("" : "+r"(s));
    }
    *(unsigned *)sum = s;
}
static void add(void *left, const void *right, void *arg) {
    (void)arg;
    *(unsigned *)left += *(const unsigned *)right;
}

static void serial_for(size_t n) {
    increment(0, n, NULL);
}
static void ito_for_0(size_t n) {
    ito_for(0, n, 0, increment, NULL);
}
static void ito_for_1(size_t n) {
    ito_for(0, n, 1, increment, NULL);
}
static void serial_reduce(size_t n) {
    unsigned s = 0;
    sum_up(0, n, &s, NULL);
    sink = s;
}
static void ito_reduce_0(size_t n) {
    struct ito_reduction how = {.size = sizeof(unsigned), .body = sum_up, .join = add};
    unsigned s;
    ito_reduce(0, n, 0, &how, &s);
    sink = s;
}

static const struct kind {
    const char *name;
    void (*serial)(size_t), (*parallel)(size_t);
} kinds[] = {
    {"for", serial_for, ito_for_0}, {"for_grain_1", serial_for, ito_for_1}, {"reduce", serial_reduce, ito_reduce_0}};

/* CPU ns of one loop, and its wall time */
static double once(void (*loop)(size_t), size_t n, double *wall) {
    size_t times = INDICES_A_RUN / n + 1;
    double start = now(CLOCK_PROCESS_CPUTIME_ID), wall_start = now(CLOCK_MONOTONIC);
    for (size_t i = 0; i < times; i++)
        loop(n);
    *wall = (now(CLOCK_MONOTONIC) - wall_start) / (double)times;
    return (now(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)times;
}
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void measure(const struct kind *kind, size_t n, unsigned workers) {
    double serial[RUNS], parallel[RUNS], ratio[RUNS], wall[RUNS], serial_wall, parallel_wall;
    once(kind->parallel, n, &parallel_wall);
    for (int i = 0; i < RUNS; i++) {
        serial[i] = once(kind->serial, n, &serial_wall);
        parallel[i] = once(kind->parallel, n, &parallel_wall);
        ratio[i] = parallel[i] / serial[i];
        wall[i] = parallel_wall / serial_wall;
    }
    qsort(serial, RUNS, sizeof *serial, by_value);
    qsort(parallel, RUNS, sizeof *parallel, by_value);
    qsort(ratio, RUNS, sizeof *ratio, by_value);
    qsort(wall, RUNS, sizeof *wall, by_value);
    printf("{\"name\":\"ito.%s_%zu.%uw\",\"value\":%.1f,\"unit\":\"ns CPU\",\"spread\":[%.1f,%.1f],"
           "\"ratio_to\":\"serial, %.1f "
           "ns\",\"ratio\":%.3f,\"quartiles\":[%.3f,%.3f],\"wall_ratio\":%.3f,\"goal\":\"%s\"}\n",
           kind->name, n, workers, parallel[RUNS / 2], parallel[0], parallel[RUNS - 1], serial[RUNS / 2],
           ratio[RUNS / 2], ratio[RUNS / 4], ratio[3 * RUNS / 4], wall[RUNS / 2], n <= 1000 ? "<= 1.05 of serial" : "");
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const unsigned workers[] = {1, 2, 8, 16};
    numbers = calloc(MOST, sizeof *numbers);
    if (numbers == NULL)
        abort();
    for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
        ito_config config = ITO_CONFIG_INIT;
        config.n_workers = workers[w];
        if (ito_init(&config) != 0)
            abort();
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            for (int i = 1; i < argc; i++)
                if (atol(argv[i]) > 0 && atol(argv[i]) <= MOST)
                    measure(&kinds[k], (size_t)atol(argv[i]), workers[w]);
            for (size_t n = 1000; argc < 2 && n <= 1000000; n *= n == 1000 ? 10 : 100)
                measure(&kinds[k], n, workers[w]);
        }
        if (ito_fini() != 0)
            abort();
    }
    return 0;
}
