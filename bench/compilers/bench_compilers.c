/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of a function that a plugin annotates, its begin and its end together: calls of marked_work, which the choice names, less
 * those of plain_work, which is the same. CPU time of the thread; each round measures both, one after the other.
 * With -DHOOKS: gcc's -finstrument-functions instead, with the cheapest hooks that annotate.
 *
 * bench_compilers NAME: one JSON object, value in ns.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 9, CALLS = 1000000 };

#ifdef HOOKS
#include "kasuri.h"
#define UNHOOKED __attribute__((no_instrument_function))
/* All have one name: to find that of the address is left out, so it would cost more than this. */
UNHOOKED void __cyg_profile_func_enter(void *function, void *caller);
UNHOOKED void __cyg_profile_func_exit(void *function, void *caller);
void __cyg_profile_func_enter(void *function, void *caller) {
    (void)function;
    (void)caller;
    KASURI_BEGIN("hook");
}
void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function;
    (void)caller;
    KASURI_END();
}
#else
#define UNHOOKED
#endif

static volatile int zero;

#define WORK                                                                                                           \
    {                                                                                                                  \
        __asm__ volatile("" : : : "memory");                                                                           \
        return n + zero;                                                                                               \
    }
static __attribute__((noinline)) UNHOOKED int plain_work(int n) WORK static
    __attribute__((noinline)) int marked_work(int n) WORK

    UNHOOKED static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

UNHOOKED static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

UNHOOKED int main(int argc, char **argv) {
    double cost[ROUNDS];
    int sum = 0;
    for (int i = 0; i < 5000; i++) /* as long as it may take to be switched off */
        sum += marked_work(i);
    for (int round = 0; round < ROUNDS; round++) {
        double start = cpu_ns();
        for (int i = 0; i < CALLS; i++)
            sum += plain_work(i);
        double middle = cpu_ns();
        for (int i = 0; i < CALLS; i++)
            sum += marked_work(i);
        cost[round] = ((cpu_ns() - middle) - (middle - start)) / CALLS;
    }
    qsort(cost, ROUNDS, sizeof *cost, compare);
    printf("{\"name\": \"compilers.%s\", \"value\": %.2f, \"unit\": \"ns\", \"spread\": [%.2f, %.2f]}\n",
           argc > 1 ? argv[1] : "", cost[ROUNDS / 2], cost[0], cost[ROUNDS - 1]);
    return sum == 1;
}
