/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Threads that compute and take locks in turn: a known lock ratio, hold and think time.
 *   locked THREADS ROUNDS THINK_NS HOLD_NS [LOCKS [random]]
 * Each round computes THINK_NS, then holds one of LOCKS mutexes for HOLD_NS (random: both exponentially distributed).
 * The work is counted in multiplications, calibrated once: it takes the same instructions however slow the machine is
 * meanwhile. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_LOCKS = 64, MAX_THREADS = 256 };

static struct {
    pthread_mutex_t mutex;
    char pad[128];
} locks[MAX_LOCKS];
static volatile unsigned long shared[MAX_LOCKS][16];
static long n_rounds;
static double think_ns, hold_ns, steps_per_ns;
static int n_locks = 1, is_random;

static unsigned long spin(double ns, unsigned long x) {
    for (long n = (long)(ns * steps_per_ns); n > 0; n--) {
        x = x * 6364136223846793005ul + 1442695040888963407ul;
    }
    return x;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double draw(double mean, unsigned long *state) {
    if (!is_random) {
        return mean;
    }
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return -mean * log(1.0 - (double)(*state >> 11) / (double)(1ul << 53));
}

static void *work(void *argument) {
    unsigned long x = (unsigned long)(size_t)argument + 1, state = x * 977;
    for (long round = 0; round < n_rounds; round++) {
        x = spin(draw(think_ns, &state), x);
        int k = (int)((x >> 33) % (unsigned long)n_locks);
        double hold = draw(hold_ns, &state);
        pthread_mutex_t *lock = &locks[k].mutex;
        pthread_mutex_lock(lock);
        shared[k][0] = spin(hold, shared[k][0] + x);
        pthread_mutex_unlock(lock);
    }
    return (void *)x;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: locked THREADS ROUNDS THINK_NS HOLD_NS [LOCKS [random]]\n");
        return 2;
    }
    int n = atoi(argv[1]);
    n_rounds = atol(argv[2]);
    think_ns = atof(argv[3]);
    hold_ns = atof(argv[4]);
    if (argc > 5) {
        n_locks = atoi(argv[5]);
    }
    is_random = argc > 6;
    if (n < 1 || n > MAX_THREADS || n_locks < 1 || n_locks > MAX_LOCKS) {
        fprintf(stderr, "locked: 1..%d threads, 1..%d locks\n", MAX_THREADS, MAX_LOCKS);
        return 2;
    }
    for (int i = 0; i < n_locks; i++) {
        pthread_mutex_init(&locks[i].mutex, NULL);
    }
    /* LOCKED_STEPS, when set: a run on two CPUs does the very work of the run on one. */
    const char *given = getenv("LOCKED_STEPS");
    steps_per_ns = 1.0;
    double best = 1e9;
    for (int i = 0; i < 20 && !given; i++) {
        double begin = seconds();
        shared[0][1] = spin(1e6, shared[0][1]);
        double took = seconds() - begin;
        best = took < best ? took : best;
    }
    steps_per_ns = given ? atof(given) : 1e6 / (best * 1e9);
    pthread_t threads[MAX_THREADS];
    double begin = seconds();
    for (int i = 0; i < n; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)(size_t)i) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%.6f s, %.4f steps/ns\n", seconds() - begin, steps_per_ns);
    return 0;
}
