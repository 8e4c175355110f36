/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bench_core - the cost of a thread, a forked task and a switch on one worker. Compiled twice: with ITO_INLINE and without.
 * One line of JSON for each result: the median of many short runs, so that a CPU that is taken away for some
 * milliseconds falls into few of them. The kinds take turns, so that a machine that slows down slows all of them.
 * Threads and tasks: fib without cut-off, ns for each create + join.
 */
#include <ito.h>
#include <ito/fork.h>

#define FIB_INLINING
#include "fib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 25, RUNS = 151, YIELDS = 100000, SWITCHES = 200000, WORDS = 8192 };
static const double OPS = 121392; /* F(N + 1) - 1 */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double fib_took(double start, long result) {
    if (result != 75025)
        abort();
    return (now() - start) / OPS;
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
static double pointer_call(void) {
    double start = now();
    return fib_took(start, serial_fib(N));
}

static double threads(void) {
    double start = now();
    return fib_took(start, (long)thread_fib((void *)(long)N));
}

#ifdef ITO_INLINE
/* The baseline of a fork and a sync that cost nothing: both calls are calls. (Compilers make a loop of the second
 * call of serial_fib; a task's frame must outlive its call, so they cannot there.) */
static __attribute__((noinline)) long plain_fib(long n) {
    if (n < 2)
        return n;
    long y = plain_fib(n - 2);
    __asm__ volatile("" : "+r"(y));
    long x = plain_fib(n - 1);
    __asm__ volatile("" : "+r"(x));
    return x + y;
}
static double plain_calls(void) {
    double start = now();
    return fib_took(start, plain_fib(N));
}

static double forks(void) {
    double start = now();
    return fib_took(start, fork_fib(N));
}

static volatile int stop;
static void *yielder(void *arg) {
    while (!stop)
        ito_yield();
    return arg;
}
/* Two threads take turns: each turn is one yield. */
static double yields(void) {
    ito_thread *t;
    stop = 0;
    if (ito_create(&t, NULL, yielder, NULL) != 0)
        abort();
    double start = now();
    for (int i = 0; i < YIELDS / 2; i++)
        ito_yield();
    double ns = (now() - start) / YIELDS;
    stop = 1;
    ito_join(t, NULL);
    return ns;
}

#if defined(__x86_64__) && !defined(__ILP32__)
#define SWITCH_HERE 1
#include "../../threads/src/context/x86_64.h"
/* The switch alone, inlined as in the library: no queue, no worker. */
static void *here, *there;
static void other_side(void) {
    for (;;)
        ito__context_switch(&there, here, NULL, NULL);
}
static double switches(void) {
    static long stack[WORDS];
    if (!there)
        ito__context_start(&here, stack + WORDS, other_side);
    double start = now();
    for (int i = 0; i < SWITCHES / 2; i++)
        ito__context_switch(&here, there, NULL, NULL);
    return (now() - start) / SWITCHES;
}
#endif
#endif

static const struct kind {
    const char *name;
    double (*once)(void);
    const char *goal;
} kinds[] = {
#ifdef ITO_INLINE
    {"ito.pointer_call", pointer_call, ""},
    {"ito.plain_calls", plain_calls, ""},
    {"ito.create_join_header", threads, "<= 10 ns"},
    {"ito.fork_sync", forks, "<= 2.6 ns"},
    {"ito.yield", yields, "<= 8 ns"},
#ifdef SWITCH_HERE
    {"ito.switch", switches, "<= 3 ns"},
#endif
#else
    {"ito.pointer_call", pointer_call, ""},
    {"ito.create_join_shared", threads, "<= 14 ns"},
#endif
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static double v[KINDS][RUNS];
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = 1;
    if (ito_init(&config) != 0)
        abort();
    for (int run = -1; run < RUNS; run++)
        for (int k = 0; k < KINDS; k++)
            v[k][run < 0 ? 0 : run] = kinds[k].once();
    for (int k = 0; k < KINDS; k++) {
        qsort(v[k], RUNS, sizeof *v[k], by_value);
        double middle = v[k][RUNS / 2];
        printf(
            "{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"ns\",\"spread\":[%.2f,%.2f],\"ratio_to\":\"ito.pointer_call\","
            "\"ratio\":%.2f,\"goal\":\"%s\"}\n",
            kinds[k].name, middle, v[k][0], v[k][RUNS - 1], middle / v[0][RUNS / 2], kinds[k].goal);
    }
    return ito_fini() != 0;
}
