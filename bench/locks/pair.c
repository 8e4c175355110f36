/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a lock and an unlock cost. `pair KIND ROUNDS`: an uncontended pair, CPU ns, one number for each round; KIND
 * mutex, rdlock, spin. `pair contended HOLD_NS THINK_NS PAIRS`: two threads with one mutex, wall ns per pair. */
#define _GNU_SOURCE
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

#define PAIRS 200000
#define TIME(lock, unlock)                                                                                             \
    do {                                                                                                               \
        double start = now(CLOCK_THREAD_CPUTIME_ID);                                                                   \
        for (int i = 0; i < PAIRS; i++) {                                                                              \
            lock;                                                                                                      \
            unlock;                                                                                                    \
        }                                                                                                              \
        printf("%.3f\n", (now(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS);                                              \
    } while (0)

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
    for (int r = -2; r < rounds; r++) { /* two to warm up, told apart by the reader */
        if (!strcmp(kind, "mutex"))
            TIME(pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex));
        else if (!strcmp(kind, "rdlock"))
            TIME(pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock));
        else
            TIME(pthread_spin_lock(&spinlock), pthread_spin_unlock(&spinlock));
    }
    return 0;
}
