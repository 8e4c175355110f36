/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* real.c - the workloads of the simulation on ito itself, counted: steals and parks by the workers' own counters,
 * membarriers and wake-ups by the calls that the library makes. */
#define _GNU_SOURCE
#include "sim.h"

#include "core/internal.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

static uint64_t n_membarriers, n_wakes;

/* In place of the C library's. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (real == NULL)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_membarrier)
        __atomic_fetch_add(&n_membarriers, 1, __ATOMIC_RELAXED);
    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE)
        __atomic_fetch_add(&n_wakes, 1, __ATOMIC_RELAXED);
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* So many turns take a nanosecond. */
static double turns_per_ns;
static void spend(double ns) {
    for (uint64_t n = (uint64_t)(ns * turns_per_ns); n > 0; n--)
        __asm__ volatile("" : : : "memory");
}
static void calibrate(void) {
    turns_per_ns = 1;
    double best = 0;
    for (int i = 0; i < 20; i++) {
        double start = now(CLOCK_MONOTONIC);
        spend(1e5);
        double took = now(CLOCK_MONOTONIC) - start;
        best = best == 0 || took < best ? took : best;
    }
    turns_per_ns = 1e5 / best;
}

static const struct workload *load;
static void *leaf(void *arg) {
    spend(load->leaf);
    return arg;
}
static void *tree(void *arg) {
    uintptr_t n = (uintptr_t)arg;
    ito_thread *left;
    if (n == 1)
        return leaf(arg);
    bool created = ito_create(&left, NULL, tree, (void *)(n / 2)) == 0;
    tree((void *)(n - n / 2));
    if (created)
        ito_join(left, NULL);
    return NULL;
}
static void flat(unsigned n) {
    ito_thread **all = malloc(n * sizeof *all);
    for (unsigned i = 0; all && i < n; i++)
        if (ito_create(&all[i], NULL, leaf, NULL) != 0)
            abort();
    for (unsigned i = 0; all && i < n; i++)
        ito_join(all[i], NULL);
    free(all);
}

struct counts run_real(const struct workload *of, unsigned workers) {
    struct counts n = {0};
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = workers;
    load = of;
    if (turns_per_ns == 0)
        calibrate();
    if (ito_init(&config) != 0)
        abort();
    struct timespec settle = {0, 20000000};
    nanosleep(&settle, NULL); /* all park */
    for (unsigned i = 0; i < workers; i++) {
        struct worker *w = &ito__pool.workers[i];
        n.steals -= w->n_steals, n.forced -= w->n_forced_steals, n.parks -= w->n_parks;
    }
    n_membarriers = n_wakes = 0;
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < load->phases; i++) {
        spend(load->serial);
        if (load->flat)
            flat(load->leaves);
        else
            tree((void *)(uintptr_t)load->leaves);
    }
    n.wall = now(CLOCK_MONOTONIC) - wall;
    n.cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    n.membarriers = n_membarriers, n.wakes = n_wakes;
    for (unsigned i = 0; i < workers; i++) {
        struct worker *w = &ito__pool.workers[i];
        n.steals += w->n_steals, n.forced += w->n_forced_steals, n.parks += w->n_parks;
    }
    if (ito_fini() != 0)
        abort();
    return n;
}
