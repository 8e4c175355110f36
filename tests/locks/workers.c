/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two threads whose use of locks is known, in CPU time, whatever else the machine does.
 *   workers ratio PERCENT ROUNDS   each round computes 1 ms, PERCENT of it inside `shared`
 *   workers asleep                 the holder of `napping` sleeps while the other waits for it
 *   workers orders                 `left` then `right` by one, `right` then `left` by the other, one after the other */
#define _GNU_SOURCE
#include "compute.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Not static: their names are in the symbol table also of a stripped program. */
pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER, napping = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static long inside_us, rounds;

static void *ratio(void *p) {
    for (long i = 0; i < rounds; i++) {
        compute(1000 - inside_us);
        pthread_mutex_lock(&shared);
        compute(inside_us);
        pthread_mutex_unlock(&shared);
    }
    return p;
}

/* The nap begins when it is waited for, however long the other takes to come. */
static int somebody_waits(pthread_mutex_t *m) {
    return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) > 1; /* glibc's word: 2 when it is slept on */
}

static void *asleep(void *p) {
    if (p) {
        pthread_mutex_lock(&napping);
        pthread_barrier_wait(&both);
        while (!somebody_waits(&napping))
            usleep(1000);
        usleep(60000);
        pthread_mutex_unlock(&napping);
    } else {
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&napping);
        pthread_mutex_unlock(&napping);
    }
    return NULL;
}

static void *orders(void *p) {
    if (!p)
        pthread_barrier_wait(&both);
    pthread_mutex_lock(p ? &left : &right);
    pthread_mutex_lock(p ? &right : &left);
    compute(1000);
    pthread_mutex_unlock(p ? &right : &left);
    pthread_mutex_unlock(p ? &left : &right);
    if (p)
        pthread_barrier_wait(&both);
    return NULL;
}

int main(int argc, char **argv) {
    void *(*run)(void *) = NULL;
    if (argc > 3 && !strcmp(argv[1], "ratio")) {
        inside_us = 10 * atol(argv[2]);
        rounds = atol(argv[3]);
        run = ratio;
    } else if (argc > 1) {
        run = !strcmp(argv[1], "asleep") ? asleep : !strcmp(argv[1], "orders") ? orders : NULL;
    }
    if (!run || inside_us < 0 || inside_us > 1000) {
        fprintf(stderr, "usage: workers ratio PERCENT ROUNDS | asleep | orders\n");
        return 2;
    }
    pthread_t t[2];
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&t[i], NULL, run, i ? argv : NULL) != 0)
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    puts("done");
    return 0;
}
