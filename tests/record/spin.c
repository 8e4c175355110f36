/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads, each bound to a CPU of its own, that want it for a part of the time and never wait for each other.
 *
 *     spin THREADS SHARE_PERCENT WALL_MS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long share, wall_ms;

static long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000l + t.tv_nsec / 1000;
}

/* Binds the thread to the n-th CPU that it may use, as long as there are enough. */
static void bind(intptr_t n) {
    cpu_set_t may, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof may, &may))
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &may) && n-- == 0) {
            CPU_SET(cpu, &own);
            sched_setaffinity(0, sizeof own, &own);
        }
}

static void *spin(void *arg) {
    bind((intptr_t)arg);
    long begin = now_us(), end = begin + wall_ms * 1000, length = 50000;
    for (long from = begin; from < end; from += length) {
        while (now_us() < from + length * share / 100)
            ;
        for (long rest; (rest = from + length - now_us()) > 0;)
            usleep((useconds_t)rest);
    }
    return arg;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    int threads = atoi(argv[1]);
    share = atol(argv[2]);
    wall_ms = atol(argv[3]);
    pthread_t ids[64];
    for (intptr_t i = 0; i < threads && i < 64; i++)
        if (pthread_create(&ids[i], 0, spin, (void *)i))
            return 1;
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(ids[i], 0);
    return 0;
}
