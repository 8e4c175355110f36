/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cost of a lock and an unlock. `pair KIND ROUNDS`: an uncontended pair, CPU ns, one number for each round; KIND
 * mutex, rwlock, spin. `pair contended HOLD_NS THINK_NS ROUNDS`: two threads with one mutex, wall ns per pair. Each
 * line: with the C library's own functions, through what is preloaded, a stamp. */
#define _GNU_SOURCE
#include "kasuri.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
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

/* The C library's own, and what is preloaded before it. */
static void functions(const char *name, call **plain, call **preloaded) {
    *(void **)plain = dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), name);
    *(void **)preloaded = dlsym(RTLD_DEFAULT, name);
}

/* In turns, so that both meet the same machine: C library alone, through whatever is preloaded, a bare stamp. */
static void compare(void *object, const char *lock, const char *unlock, int rounds) {
    call *plain[2], *preloaded[2];
    functions(lock, &plain[0], &preloaded[0]);
    functions(unlock, &plain[1], &preloaded[1]);
    for (int r = -3; r < rounds; r++) {
        double base = pair_ns(plain[0], plain[1], object), with = pair_ns(preloaded[0], preloaded[1], object);
        if (r >= 0)
            printf("%.3f %.3f %.3f\n", base, with, stamp_ns());
    }
}

struct contest {
    long hold_loops, think_loops, pairs;
    call *lock, *unlock;
    pthread_barrier_t *start;
};
static volatile unsigned long shared;

static void loops(long n) {
    for (long i = 0; i < n; i++)
        __asm__ volatile("" : : : "memory");
}

static void *contend(void *p) {
    struct contest *c = p;
    pthread_barrier_wait(c->start);
    for (long i = 0; i < c->pairs; i++) {
        c->lock(&mutex);
        shared = shared + 1;
        loops(c->hold_loops);
        c->unlock(&mutex);
        loops(c->think_loops);
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

static double contend_ns(struct contest *c) {
    pthread_t other;
    pthread_create(&other, NULL, contend, c);
    double start = now(CLOCK_MONOTONIC);
    contend(c);
    pthread_join(other, NULL);
    return (now(CLOCK_MONOTONIC) - start) / (double)(2 * c->pairs);
}

/* In turns of a few ms: a machine that changes its speed changes it for both. */
static void compare_contended(double hold_ns, double think_ns, int rounds) {
    double rate = loops_per_ns();
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    struct contest plain = {
        (long)(rate * hold_ns), (long)(rate * think_ns), (long)(1e7 / (hold_ns + think_ns)), 0, 0, &start};
    struct contest preloaded = plain;
    functions("pthread_mutex_lock", &plain.lock, &preloaded.lock);
    functions("pthread_mutex_unlock", &plain.unlock, &preloaded.unlock);
    for (int r = -3; r < rounds; r++) {
        double base = contend_ns(&plain), with = contend_ns(&preloaded);
        if (r >= 0)
            printf("%.3f %.3f 0\n", base, with);
    }
}

static void *sleeper(void *p) {
    sem_wait(p);
    return p;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "mutex";
    int rounds = argc > 2 ? atoi(argv[2]) : 9;
    if (!strcmp(kind, "contended") && argc > 4) {
        compare_contended(atof(argv[2]), atof(argv[3]), atoi(argv[4]));
        return 0;
    }
    /* The C library's lock of a process with one thread is no atomic operation. Locks are for programs with more. */
    static sem_t end;
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, &end);
    pthread_spin_init(&spinlock, 0);
    if (!strcmp(kind, "mutex"))
        compare(&mutex, "pthread_mutex_lock", "pthread_mutex_unlock", rounds);
    else if (!strcmp(kind, "rwlock"))
        compare(&rwlock, "pthread_rwlock_rdlock", "pthread_rwlock_unlock", rounds);
    else
        compare((void *)(uintptr_t)&spinlock, "pthread_spin_lock", "pthread_spin_unlock", rounds);
    sem_post(&end);
    pthread_join(thread, NULL);
    return 0;
}
