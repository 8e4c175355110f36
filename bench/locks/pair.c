/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a lock and an unlock cost. `pair KIND ROUNDS`: an uncontended pair, CPU ns, one number for each round; KIND
 * mutex, rdlock, spin. `pair contended HOLD_NS THINK_NS PAIRS`: two threads with one mutex, wall ns per pair. */
#define _GNU_SOURCE
#include "kasuri.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define PAIRS 50000
typedef int call(void *);

static double pair_ns(call *lock, call *unlock, void *object) {
    double start = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < PAIRS; i++) {
        lock(object);
        unlock(object);
    }
    return (now(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS;
}

static double stamp_ns(void) {
    double start = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < PAIRS; i++)
        __asm__ volatile("" : : "r"(kasuri__stamp()) : "memory");
    return (now(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS;
}

/* In turns, so that both meet the same machine: C library alone, through whatever is preloaded, a bare stamp. */
static void compare(void *object, const char *lock, const char *unlock, int rounds) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    call *plain[2], *preloaded[2];
    *(void **)&plain[0] = dlsym(libc, lock);
    *(void **)&plain[1] = dlsym(libc, unlock);
    *(void **)&preloaded[0] = dlsym(RTLD_DEFAULT, lock);
    *(void **)&preloaded[1] = dlsym(RTLD_DEFAULT, unlock);
    for (int r = -3; r < rounds; r++) {
        double base = pair_ns(plain[0], plain[1], object), with = pair_ns(preloaded[0], preloaded[1], object);
        if (r >= 0)
            printf("%.3f %.3f %.3f\n", base, with, stamp_ns());
    }
}

static long hold_loops, think_loops, pairs;
static volatile unsigned long shared;

static void loops(long n) {
    for (long i = 0; i < n; i++)
        __asm__ volatile("" : : : "memory");
}

static void *contend(void *p) {
    for (long i = 0; i < pairs; i++) {
        pthread_mutex_lock(&mutex);
        shared = shared + 1;
        loops(hold_loops);
        pthread_mutex_unlock(&mutex);
        loops(think_loops);
    }
    return p;
}

static double loops_per_ns(void) {
    double best = 1e18;
    for (int i = 0; i < 9; i++) {
        double start = now(CLOCK_THREAD_CPUTIME_ID);
        loops(1000000);
        double took = now(CLOCK_THREAD_CPUTIME_ID) - start;
        best = took < best ? took : best;
    }
    return 1e6 / best;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "mutex";
    int rounds = argc > 2 ? atoi(argv[2]) : 9;
    pthread_spin_init(&spinlock, 0);
    if (!strcmp(kind, "contended") && argc > 4) {
        double rate = loops_per_ns();
        pthread_t t[2];
        hold_loops = (long)(rate * atof(argv[2]));
        think_loops = (long)(rate * atof(argv[3]));
        pairs = atol(argv[4]);
        double start = now(CLOCK_MONOTONIC);
        for (int i = 0; i < 2; i++)
            pthread_create(&t[i], NULL, contend, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(t[i], NULL);
        printf("%.3f\n", (now(CLOCK_MONOTONIC) - start) / (double)(2 * pairs));
        return 0;
    }
    if (!strcmp(kind, "mutex"))
        compare(&mutex, "pthread_mutex_lock", "pthread_mutex_unlock", rounds);
    else if (!strcmp(kind, "rwlock"))
        compare(&rwlock, "pthread_rwlock_rdlock", "pthread_rwlock_unlock", rounds);
    else
        compare((void *)(uintptr_t)&spinlock, "pthread_spin_lock", "pthread_spin_unlock", rounds);
    return 0;
}
