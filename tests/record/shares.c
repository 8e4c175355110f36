/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Four functions whose shares of the CPU time are drawn by chance, called in a pattern that a sampling clock may be in step with. Prints the
 * CPU time of each, ns, by the clock of the thread that ran it.
 *   shares FAMILY SEED SECONDS
 *   timer    a loop that is woken each period, often a simple multiple of a tick
 *   late     the same, which needs longer than its period: its timer has expired whenever it asks
 *   tick     bursts that begin at a tick of 4 or 10 ms
 *   threads  short threads, one after the other
 *   long     each function for many periods of a clock at a time
 *   crowd    four threads of different patterns, more than there may be CPUs */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARTS = 4 };

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t until(clockid_t clock, uint64_t at) {
    struct timespec t = {.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)};
    clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL);
    return at;
}

/* SplitMix64. */
static double chance(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static double steps_per_ns;

#define PART(n)                                                                                                        \
    __attribute__((noinline)) static void part##n(double ns) {                                                         \
        for (volatile long i = (long)(ns * steps_per_ns); i > 0; i--)                                                  \
            ;                                                                                                          \
    }
PART(0)
PART(1)
PART(2)
PART(3)
static void (*const part[PARTS])(double) = {part0, part1, part2, part3};

__attribute__((noinline)) static void settle(void) {
    long n = 4000000;
    uint64_t before = now(CLOCK_THREAD_CPUTIME_ID);
    for (volatile long i = n; i > 0; i--)
        ;
    steps_per_ns = (double)n / (double)(now(CLOCK_THREAD_CPUTIME_ID) - before);
}

struct pattern {
    const char *family;
    uint64_t seed, end;
    double share[PARTS];
    uint64_t ran[PARTS];
};

static void draw(struct pattern *p) {
    double sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += p->share[i] = 0.02 + chance(&p->seed) * chance(&p->seed);
    for (int i = 0; i < PARTS; i++)
        p->share[i] /= sum;
}

/* One round of all functions. */
static void all(struct pattern *p, double ns) {
    for (int i = 0; i < PARTS; i++) {
        uint64_t before = now(CLOCK_THREAD_CPUTIME_ID);
        part[i](ns * p->share[i]);
        p->ran[i] += now(CLOCK_THREAD_CPUTIME_ID) - before;
    }
}

static void *round_of(void *arg) {
    struct pattern *p = arg;
    all(p, 2e5 + 28e5 * chance(&p->seed));
    return NULL;
}

static void *run(void *arg) {
    static const double periods[] = {1e6, 2e6, 4e6, 5e6, 8e6, 10e6, 16e6, 20e6};
    struct pattern *p = arg;
    draw(p);
    double period = periods[(int)(8 * chance(&p->seed))] * (chance(&p->seed) < 0.3 ? 1.07 : 1);
    double busy = period * (0.3 + 0.4 * chance(&p->seed)), tick = chance(&p->seed) < 0.5 ? 4e6 : 10e6;
    uint64_t at = now(CLOCK_MONOTONIC);
    while (now(CLOCK_MONOTONIC) < p->end) {
        if (!strcmp(p->family, "timer")) {
            at = until(CLOCK_MONOTONIC, at + (uint64_t)period);
            all(p, busy);
        } else if (!strcmp(p->family, "late")) {
            at = until(CLOCK_MONOTONIC, at + (uint64_t)period);
            all(p, period * 1.5);
        } else if (!strcmp(p->family, "tick")) {
            at = now(CLOCK_MONOTONIC);
            until(CLOCK_MONOTONIC, at + (uint64_t)tick - at % (uint64_t)tick);
            all(p, 0.6 * tick);
        } else if (!strcmp(p->family, "threads")) {
            pthread_t t;
            pthread_create(&t, NULL, round_of, p);
            pthread_join(t, NULL);
        } else {
            all(p, 2e7 + 18e7 * chance(&p->seed));
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    static const char *const of_crowd[] = {"timer", "late", "tick", "long"};
    struct pattern p[PARTS] = {{.family = argv[1]}};
    int n = strcmp(argv[1], "crowd") ? 1 : PARTS;
    settle();
    pthread_t threads[PARTS];
    for (int i = 0; i < n; i++) {
        if (n > 1)
            p[i].family = of_crowd[i];
        p[i].seed = strtoull(argv[2], NULL, 10) * 1000 + (uint64_t)i;
        p[i].end = now(CLOCK_MONOTONIC) + (uint64_t)(1e9 * atof(argv[3]));
        pthread_create(&threads[i], NULL, run, &p[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int part = 0; part < PARTS; part++) {
        uint64_t sum = 0;
        for (int i = 0; i < n; i++)
            sum += p[i].ran[part];
        printf("part%d %llu\n", part, (unsigned long long)sum);
    }
    return 0;
}
