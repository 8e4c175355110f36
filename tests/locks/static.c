/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A lock that no preloaded library can record: built -static, with a spin lock of its own that yields. Two threads, each ROUNDS
 * times 1 ms of CPU time, PERCENT of it with the lock held. static PERCENT ROUNDS */
#define _GNU_SOURCE
#include "compute.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

struct turnstile {
    int taken;
};
static struct turnstile queue;
static long inside_us, rounds;

__attribute__((noinline)) void turnstile_enter(struct turnstile *t) {
    while (__atomic_exchange_n(&t->taken, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

__attribute__((noinline)) void turnstile_leave(struct turnstile *t) {
    __atomic_store_n(&t->taken, 0, __ATOMIC_RELEASE);
}

static void *worker(void *p) {
    for (long i = 0; i < rounds; i++) {
        compute(1000 - inside_us);
        turnstile_enter(&queue);
        compute(inside_us);
        turnstile_leave(&queue);
    }
    return p;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    if (argc != 3)
        return 2;
    inside_us = strtol(argv[1], NULL, 10) * 10;
    rounds = strtol(argv[2], NULL, 10);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
