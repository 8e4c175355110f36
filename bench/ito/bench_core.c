/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bench_core - what a thread, a forked task, a switch cost. Compiled twice: with ITO_INLINE and without.
 * One line of JSON for each result. fib without cut-off; ns for each create + join.
 */
#include <ito.h>
#include <ito/fork.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef ITO_INLINE
#define CREATE_JOIN "ito.create_join_header"
#define GOAL_CREATE "<= 10 ns"
#else
#define CREATE_JOIN "ito.create_join_shared"
#define GOAL_CREATE "<= 14 ns"
#endif

enum { N = 32, RUNS = 9 };
static const double OPS = 3524577; /* F(N + 1) - 1 */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- the baseline: a call through a pointer in memory ---- */
static long serial_fib(long n);
static long (*volatile serial_pointer)(long) = serial_fib;
static __attribute__((noinline)) long serial_fib(long n) {
    if (n < 2)
        return n;
    long x = serial_pointer(n - 1);
    return x + serial_fib(n - 2);
}

static void *thread_fib(void *arg) {
    long n = (long)arg;
    ito_thread *t;
    void *x;
    if (n < 2)
        return arg;
    if (ito_create(&t, NULL, thread_fib, (void *)(n - 1)) != 0)
        abort();
    long y = (long)thread_fib((void *)(n - 2));
    ito_join(t, &x);
    return (void *)((long)x + y);
}

static long fork_fib(long n);
ITO_TASK(long, fork_fib, long)
static __attribute__((noinline)) long fork_fib(long n) {
    if (n < 2)
        return n;
    ITO_FORK(x, fork_fib, n - 1);
    long y = fork_fib(n - 2);
    return ITO_SYNC(x, fork_fib) + y;
}

static volatile int stop;
static void *yielder(void *arg) {
    while (!stop)
        ito_yield();
    return arg;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double once(int kind) {
    double start = now();
    long result = 0;
    switch (kind) {
    case 0:
        result = serial_fib(N);
        break;
    case 1:
        result = (long)thread_fib((void *)(long)N);
        break;
    case 2:
        result = fork_fib(N);
        break;
    case 3: { /* two threads take turns: each turn is one yield */
        enum { YIELDS = 1000000 };
        ito_thread *t;
        stop = 0;
        if (ito_create(&t, NULL, yielder, NULL) != 0)
            abort();
        start = now();
        for (int i = 0; i < YIELDS / 2; i++)
            ito_yield();
        double ns = (now() - start) / YIELDS;
        stop = 1;
        ito_join(t, NULL);
        return ns;
    }
    }
    if (result != 2178309)
        abort();
    return (now() - start) / OPS;
}

static double median(int kind, double spread[2]) {
    double v[RUNS];
    once(kind);
    for (int i = 0; i < RUNS; i++)
        v[i] = once(kind);
    qsort(v, RUNS, sizeof *v, by_value);
    spread[0] = v[0];
    spread[1] = v[RUNS - 1];
    return v[RUNS / 2];
}

static void start(unsigned workers) {
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = workers;
    if (ito_init(&config) != 0)
        abort();
}

static void print(const char *name, double value, const char *unit, double low, double high, const char *to,
                  double ratio, const char *goal) {
    printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"spread\":[%.2f,%.2f],\"ratio_to\":\"%s\",\"ratio\":%.2f,"
           "\"goal\":\"%s\"}\n",
           name, value, unit, low, high, to, ratio, goal);
}

int main(void) {
    double s[2], base, one[3], two;
    start(1);
    base = median(0, s);
#ifdef ITO_INLINE
    print("ito.pointer_call", base, "ns", s[0], s[1], "ito.pointer_call", 1, "");
#endif
    one[1] = median(1, s);
    print(CREATE_JOIN, one[1], "ns", s[0], s[1], "ito.pointer_call", one[1] / base, GOAL_CREATE);
#ifdef ITO_INLINE
    one[2] = median(2, s);
    print("ito.fork_sync", one[2], "ns", s[0], s[1], "ito.pointer_call", one[2] / base, "<= 2.6 ns");
    double y = median(3, s);
    print("ito.yield", y, "ns", s[0], s[1], "ito.pointer_call", y / base, "<= 8 ns");
    ito_fini();
    start(2);
    two = median(1, s);
    print("ito.fib_2workers", one[1] / two, "x", one[1] / s[1], one[1] / s[0], "one worker", one[1] / two, ">= 1.95");
    two = median(2, s);
    print("ito.fork_2workers", one[2] / two, "x", one[2] / s[1], one[2] / s[0], "one worker", one[2] / two, ">= 1.95");
#else
    (void)two;
#endif
    return ito_fini() != 0;
}
