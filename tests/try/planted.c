/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs with a fault that a setting cures, and programs without one: what tests/try/check gives to `kasuri try`.
 *
 *     planted CASE [-t THREADS]
 *
 * Each prints a result that does not depend on the setting.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t spin(uint64_t seed, long rounds) {
    for (long i = 0; i < rounds; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
    }
    return seed;
}

/* Parallel regions with a barrier each, equal work. */
static uint64_t equal(int rounds) {
    uint64_t sum = 0;
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel for schedule(static) reduction(^ : sum)
        for (int i = 0; i < 64; i++)
            sum ^= spin((uint64_t)i + 1, 4000);
    }
    return sum;
}

/* One long loop of short iterations, whose schedule is a setting. */
static uint64_t chunks(void) {
    uint64_t sum = 0;
#pragma omp parallel for schedule(runtime) reduction(^ : sum)
    for (int i = 0; i < 3000000; i++)
        sum ^= spin((uint64_t)i + 1, 3);
    return sum;
}

/* Iterations of growing length. */
static uint64_t uneven(void) {
    uint64_t sum = 0;
#pragma omp parallel for schedule(runtime) reduction(^ : sum)
    for (int i = 0; i < 400; i++)
        sum ^= spin((uint64_t)i + 1, (long)i * i * 4);
    return sum;
}

/* A large block taken from the kernel and given back, again and again. */
static uint64_t faults(void) {
    uint64_t sum = 0;
    for (int round = 0; round < 6; round++) {
        enum { BYTES = 48 << 20 };
        char *block = malloc(BYTES);
        memset(block, round, BYTES);
        sum += (uint64_t)block[(round * 7919) % BYTES];
        free(block);
    }
    return sum;
}

/* Many blocks of one size, taken and given back in batches. */
static uint64_t batches(void) {
    enum { BATCH = 4000 };
    static uint64_t *block[BATCH];
    uint64_t sum = 0;
    for (int round = 0; round < 150; round++) {
        for (int i = 0; i < BATCH; i++) {
            block[i] = malloc(200 + (size_t)(i % 16) * 32);
            *block[i] = (uint64_t)i;
        }
        for (int i = 0; i < BATCH; i++) {
            sum += *block[i];
            free(block[i]);
        }
    }
    return sum;
}

/* One block, taken and given back again and again: malloc keeps it, unless somebody told it not to. */
static uint64_t middling(void) {
    enum { BYTES = 100000 };
    uint64_t sum = 0;
    for (int i = 0; i < 8000; i++) {
        /* volatile: the compiler would leave malloc out. */
        volatile char *block = malloc(BYTES);
        for (int at = 0; at < BYTES; at += 1024)
            block[at] = (char)i;
        sum += (uint64_t)block[1024];
        free((void *)block);
    }
    return sum;
}

/* Touches of memory all over a large block. */
static uint64_t pages(void) {
    const size_t n = (size_t)96 << 20 >> 3;
    uint64_t *block = malloc(n * sizeof *block);
    for (size_t i = 0; i < n; i += 64)
        block[i] = i;
    uint64_t at = 1, sum = 0;
    for (int i = 0; i < 2000000; i++) {
        at = spin(at, 1);
        sum += block[(at % (n / 64)) * 64];
    }
    free(block);
    return sum;
}

/* Threads that spin at a barrier of their own: more than CPUs wait for each other in vain. */
static struct {
    _Atomic int come, round;
    int threads;
    long work;
} team;

static void *member(void *arg) {
    uint64_t *sum = arg;
    for (int round = 0; round < 12; round++) {
        *sum = spin(*sum, team.work);
        if (++team.come == team.threads * (round + 1))
            team.round = round + 1;
        else
            while (team.round <= round) {
            }
    }
    return NULL;
}

static uint64_t threads(int n) {
    pthread_t id[64];
    uint64_t sum[64];
    team.threads = n < 1 ? 1 : n > 64 ? 64 : n;
    team.work = 800000 / team.threads;
    for (int i = 0; i < team.threads; i++) {
        sum[i] = 1;
        pthread_create(&id[i], NULL, member, &sum[i]);
    }
    for (int i = 0; i < team.threads; i++)
        pthread_join(id[i], NULL);
    return 0;
}

static void *half(void *arg) {
    uint64_t *sum = arg;
    *sum = spin(*sum, 30000000);
    return NULL;
}

/* Threads that hold a mutex for some microseconds, often: they sleep and wake each other all the time. */
static pthread_mutex_t convoy_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t convoy_sum;

static void *in_convoy(void *arg) {
    uint64_t own = (uint64_t)(uintptr_t)arg + 1;
    for (int i = 0; i < 25000; i++) {
        pthread_mutex_lock(&convoy_lock);
        convoy_sum += spin(7, 600) & 1;
        pthread_mutex_unlock(&convoy_lock);
        own = spin(own, 600);
    }
    return own ? NULL : arg;
}

static uint64_t convoy(void) {
    pthread_t id[2];
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&id[i], NULL, in_convoy, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(id[i], NULL);
    return convoy_sum;
}

/* Two threads with work for a CPU each. */
static uint64_t two(void) {
    pthread_t id[2];
    uint64_t sum[2] = {1, 2};
    for (int i = 0; i < 2; i++)
        pthread_create(&id[i], NULL, half, &sum[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(id[i], NULL);
    return sum[0] ^ sum[1];
}

/* The same by OpenMP. */
static uint64_t two_omp(void) {
    uint64_t sum = 0;
#pragma omp parallel for num_threads(2) reduction(^ : sum)
    for (int i = 0; i < 2; i++)
        sum ^= spin((uint64_t)i + 1, 30000000);
    return sum;
}

static uint64_t sleeper(void) {
    for (int i = 0; i < 8; i++)
        nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
    return 8;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    uint64_t told;
    if (!strcmp(name, "equal"))
        told = equal(40);
    else if (!strcmp(name, "chunks"))
        told = chunks();
    else if (!strcmp(name, "uneven"))
        told = uneven();
    else if (!strcmp(name, "faults"))
        told = faults();
    else if (!strcmp(name, "batches"))
        told = batches();
    else if (!strcmp(name, "middling"))
        told = middling();
    else if (!strcmp(name, "pages"))
        told = pages();
    else if (!strcmp(name, "threads"))
        told = threads(argc > 3 ? atoi(argv[3]) : 2);
    else if (!strcmp(name, "convoy"))
        told = convoy();
    else if (!strcmp(name, "two"))
        told = two();
    else if (!strcmp(name, "two_omp"))
        told = two_omp();
    else if (!strcmp(name, "serial"))
        told = spin(1, 30000000) ^ two();
    else if (!strcmp(name, "work"))
        told = spin(1, 40000000);
    else if (!strcmp(name, "sleep"))
        told = sleeper();
    else
        return fprintf(stderr, "planted: no such case: %s\n", name), 2;
    printf("%llx\n", (unsigned long long)told);
    return 0;
}
