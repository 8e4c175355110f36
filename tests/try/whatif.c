/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs with annotated slices and a lock, for which it is known what halving one of them does: what tests/try/what-if
 * gives to `kasuri try --what-if`.
 *
 *     whatif CASE [HALVED [ROUNDS]]
 *
 * HALVED does half its work: the true answer, by measurement. Lengths are in units of about a millisecond.
 *
 *   case      what it does                                              halved: run is so much faster
 *   barrier   "long" 10 beside "short" 6, a barrier after each          long 1.67, short 1.00
 *   lock      two threads: 3 with lock `table`, 2 without               table 1.71, "outside" 1.00
 *   pipeline  "produce" 3, a queue of two, "consume" 5                  consume 1.67, produce 1.00
 *   serial    "first" 3, then "second" 6 in two threads                 first 1.20, second 1.50
 */
#define _GNU_SOURCE
#include "kasuri.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT = 300000 };

static const char *halved = "";
static int rounds = 12;
static volatile uint64_t sink;

static void work(const char *name, int units) {
    uint64_t seed = 88172645463325252u;
    long n = (long)units * UNIT / (strcmp(name, halved) ? 1 : 2);
    for (long i = 0; i < n; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
    }
    sink = seed;
}

static void two(void *(*a)(void *), void *(*b)(void *)) {
    pthread_t id[2];
    pthread_create(&id[0], NULL, a, NULL);
    pthread_create(&id[1], NULL, b, NULL);
    pthread_join(id[0], NULL);
    pthread_join(id[1], NULL);
}

/* -- barrier -- */
static pthread_barrier_t barrier;
static void *long_side(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        KASURI_BEGIN("long");
        work("long", 10);
        KASURI_END();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}
static void *short_side(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        KASURI_BEGIN("short");
        work("short", 6);
        KASURI_END();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* -- lock -- */
pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static void *locker(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&table);
        work("table", 3);
        pthread_mutex_unlock(&table);
        KASURI_BEGIN("outside");
        work("outside", 2);
        KASURI_END();
    }
    return NULL;
}

/* -- pipeline -- */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int queued;
static void *producer(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        KASURI_BEGIN("produce");
        work("produce", 3);
        KASURI_END();
        pthread_mutex_lock(&queue_lock);
        while (queued == 2)
            pthread_cond_wait(&changed, &queue_lock);
        queued++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&queue_lock);
    }
    return NULL;
}
static void *consumer(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&queue_lock);
        while (!queued)
            pthread_cond_wait(&changed, &queue_lock);
        queued--;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&queue_lock);
        KASURI_BEGIN("consume");
        work("consume", 5);
        KASURI_END();
    }
    return NULL;
}

/* -- serial -- */
static void *second(void *unused) {
    (void)unused;
    KASURI_BEGIN("second");
    work("second", 6);
    KASURI_END();
    return NULL;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (argc > 2)
        halved = argv[2];
    if (argc > 3)
        rounds = atoi(argv[3]);
    pthread_barrier_init(&barrier, NULL, 2);
    if (!strcmp(name, "barrier"))
        two(long_side, short_side);
    else if (!strcmp(name, "lock"))
        two(locker, locker);
    else if (!strcmp(name, "pipeline"))
        two(producer, consumer);
    else if (!strcmp(name, "serial"))
        for (int i = 0; i < rounds; i++) {
            KASURI_BEGIN("first");
            work("first", 3);
            KASURI_END();
            two(second, second);
        }
    else
        return fprintf(stderr, "whatif: no such case: %s\n", name), 2;
    printf("%d rounds\n", rounds);
    return 0;
}
