/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* costs.c - measures what the simulation counts with, between two kernel threads; each the least of several readings, as
 * other programs only add to it. */
#define _GNU_SOURCE
#include "sim.h"

#include <ito.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { READINGS = 15 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static double least(double a, double b) {
    return a == 0 || b < a ? b : a;
}
static void relax(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#else
    __asm__ volatile("" : : : "memory");
#endif
}

static alignas(64) uint32_t ball, stop;
static alignas(64) uint64_t turns;

static void *empty(void *arg) {
    return arg;
}

/* Answers each odd number by the next even one. */
static void *answer_line(void *arg) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint32_t b = __atomic_load_n(&ball, __ATOMIC_ACQUIRE);
        if (b & 1)
            __atomic_store_n(&ball, b + 1, __ATOMIC_RELEASE);
    }
    return arg;
}
static void *count_turns(void *arg) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        __atomic_store_n(&turns, turns + 1, __ATOMIC_RELAXED);
    return arg;
}
/* Sleeps until the ball is odd, notes when it ran, and makes it even. */
static double ran_at;
static void *answer_futex(void *arg) {
    for (;;) {
        uint32_t b;
        while (!((b = __atomic_load_n(&ball, __ATOMIC_ACQUIRE)) & 1)) {
            if (__atomic_load_n(&stop, __ATOMIC_RELAXED))
                return arg;
            syscall(SYS_futex, &ball, FUTEX_WAIT_PRIVATE, b, NULL, NULL, 0);
        }
        ran_at = now();
        __atomic_store_n(&ball, b + 1, __ATOMIC_RELEASE);
    }
}

/* The caller on the first CPU that it may use, `fn` on the last. */
static cpu_set_t allowed;
static void pin(pthread_t t, bool last) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &allowed)) {
            if (last)
                CPU_ZERO(&one);
            CPU_SET(i, &one);
            if (!last)
                break;
        }
    }
    pthread_setaffinity_np(t, sizeof one, &one);
}
static pthread_t beside(void *(*fn)(void *)) {
    pthread_t t;
    ball = stop = 0;
    if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0 ||
        pthread_create(&t, NULL, fn, NULL) != 0)
        abort();
    pin(pthread_self(), false);
    pin(t, true);
    usleep(2000);
    return t;
}
static void end(pthread_t t) {
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&ball, 2, __ATOMIC_RELEASE); /* else it might go to sleep after the wake-up */
    syscall(SYS_futex, &ball, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_join(t, NULL);
    pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
}

static void line_costs(struct costs *c) {
    enum { N = 2000 };
    pthread_t t = beside(answer_line);
    for (int r = 0; r < READINGS; r++) {
        double start = now();
        for (int i = 0; i < N; i++) {
            uint32_t b = __atomic_load_n(&ball, __ATOMIC_RELAXED) + 1;
            __atomic_store_n(&ball, b, __ATOMIC_RELEASE);
            while (__atomic_load_n(&ball, __ATOMIC_ACQUIRE) == b) {
            }
        }
        c->line = least(c->line, (now() - start) / N / 2);
    }
    end(t);
}

static double barriers(int n) {
    double start = now();
    for (int i = 0; i < n; i++)
        syscall(SYS_membarrier, 8, 0, 0);
    return (now() - start) / n;
}
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* The median of the readings in which the other thread had its CPU: else there was nobody to interrupt. */
static void membarrier_costs(struct costs *c) {
    enum { N = 10, MANY = 20 * READINGS };
    double rate = 0, costs[MANY], lost[MANY];
    int n = 0;
    syscall(SYS_membarrier, 16, 0, 0);
    for (int r = 0; r < READINGS; r++)
        c->membarrier = least(c->membarrier, barriers(N));
    pthread_t t = beside(count_turns);
    for (int r = 0; r < READINGS; r++) { /* ns per turn, undisturbed */
        uint64_t first = __atomic_load_n(&turns, __ATOMIC_RELAXED);
        double start = now();
        while (now() - start < 1e6) {
        }
        rate = least(rate, (now() - start) / (double)(__atomic_load_n(&turns, __ATOMIC_RELAXED) - first + 1));
    }
    for (double start = now(); n < MANY && now() - start < 2e9;) {
        uint64_t first = __atomic_load_n(&turns, __ATOMIC_RELAXED);
        double cost = barriers(N), ran = (double)(__atomic_load_n(&turns, __ATOMIC_RELAXED) - first) * rate / N;
        if (ran < cost / 10)
            continue;
        costs[n] = cost;
        lost[n++] = cost > ran ? cost - ran : 0;
    }
    end(t);
    qsort(costs, (size_t)n, sizeof *costs, by_value);
    qsort(lost, (size_t)n, sizeof *lost, by_value);
    c->per_cpu = n && costs[n / 2] > c->membarrier ? costs[n / 2] - c->membarrier : 0;
    c->interrupted = n ? lost[n / 2] : 0;
}

static void wake_costs(struct costs *c) {
    enum { N = 50 };
    pthread_t t = beside(answer_futex);
    double waits[READINGS * N];
    for (int r = 0; r < READINGS * N; r++) {
        usleep(100);
        double start = now();
        uint32_t b = __atomic_add_fetch(&ball, 1, __ATOMIC_ACQ_REL);
        syscall(SYS_futex, &ball, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        c->wake = least(c->wake, now() - start);
        while (__atomic_load_n(&ball, __ATOMIC_ACQUIRE) == b)
            relax();
        waits[r] = ran_at - start;
    }
    end(t);
    /* the lower quartile: the least is that of a CPU which has not gone to sleep yet */
    qsort(waits, READINGS * N, sizeof *waits, by_value);
    c->latency = waits[READINGS * N / 4];
}

void measure_costs(struct costs *c) {
    enum { N = 20000 };
    *c = (struct costs){0};
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = 1;
    if (ito_init(&config) != 0)
        abort();
    for (int r = 0; r < READINGS; r++) {
        ito_thread *t;
        double start = now();
        for (int i = 0; i < N; i++)
            if (ito_create(&t, NULL, empty, NULL) == 0)
                ito_join(t, NULL);
        c->task = least(c->task, (now() - start) / N);
        start = now();
        for (int i = 0; i < N; i++)
            relax();
        c->pause = least(c->pause, (now() - start) / N);
    }
    if (ito_fini() != 0)
        abort();
    line_costs(c);
    membarrier_costs(c);
    wake_costs(c);
}
