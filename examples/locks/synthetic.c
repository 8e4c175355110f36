/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with the lock ratio that you ask for:
 *   synthetic [-t threads] [-n sections of each thread] [-r lock ratio] [-h hold ns] [-l locks] [-d
 * constant|exponential|bimodal]
 *             [-k mutex|adaptive|spin|rwlock|sem|none] [-s sleep ns between sections]
 * Sections and the work between them are loops of calibrated length, so that the ratio is one of CPU time, also when
 * another program preempts it. It prints what it did: wall and CPU time, sections per second, the ratio as made. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum kind { MUTEX, ADAPTIVE, SPIN, RWLOCK, SEM, NONE };
static const char *const kinds[] = {"mutex", "adaptive", "spin", "rwlock", "sem", "none"};
static const char *const distributions[] = {"constant", "exponential", "bimodal"};

struct lock {
    pthread_mutex_t mutex;
    pthread_spinlock_t spin;
    pthread_rwlock_t rwlock;
    sem_t sem;
} __attribute__((aligned(128)));

static struct {
    int threads, sections, locks, kind, distribution;
    double ratio, hold_ns, sleep_ns, loops_per_ns;
} o = {2, 20000, 1, MUTEX, 0, 0.2, 2000, 0, 0};
static struct lock *locks;
static uint64_t inside[256], outside[256]; /* loops, by thread */

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void loops(uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        __asm__ volatile("" : : : "memory");
}

static void calibrate(void) {
    double best = 1e9;
    for (int i = 0; i < 15; i++) {
        double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        loops(2000000);
        double took = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
        best = took < best ? took : best;
    }
    o.loops_per_ns = 2000000 / (best * 1e9);
}

static double uniform(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* Mean 1. Bimodal: nine short ones and a long one. */
static double draw(uint64_t *state) {
    double u = uniform(state);
    if (o.distribution == 1)
        return -log(1 - u);
    return o.distribution == 2 ? (u < 0.9 ? 0.4 : 6.4) : 1;
}

static void take(struct lock *l) {
    switch (o.kind) {
    case SPIN:
        pthread_spin_lock(&l->spin);
        break;
    case RWLOCK:
        pthread_rwlock_wrlock(&l->rwlock);
        break;
    case SEM:
        sem_wait(&l->sem);
        break;
    case NONE:
        break;
    default:
        pthread_mutex_lock(&l->mutex);
    }
}
static void give(struct lock *l) {
    switch (o.kind) {
    case SPIN:
        pthread_spin_unlock(&l->spin);
        break;
    case RWLOCK:
        pthread_rwlock_unlock(&l->rwlock);
        break;
    case SEM:
        sem_post(&l->sem);
        break;
    case NONE:
        break;
    default:
        pthread_mutex_unlock(&l->mutex);
    }
}

static void *work(void *argument) {
    long self = (long)argument;
    uint64_t state = 88172645463325252u + (uint64_t)self * 1099511628211u;
    double think_ns = o.ratio > 0 ? o.hold_ns * (1 - o.ratio) / o.ratio : o.hold_ns;
    for (int i = 0; i < o.sections; i++) {
        uint64_t in = (uint64_t)(draw(&state) * o.hold_ns * o.loops_per_ns);
        uint64_t out = (uint64_t)(draw(&state) * think_ns * o.loops_per_ns);
        struct lock *l = &locks[o.locks > 1 ? (int)(uniform(&state) * o.locks) : 0];
        take(l);
        loops(in);
        give(l);
        loops(out);
        inside[self] += in;
        outside[self] += out;
        if (o.sleep_ns > 0) {
            struct timespec t = {0, (long)o.sleep_ns};
            nanosleep(&t, NULL);
        }
    }
    return NULL;
}

static int choose(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    fprintf(stderr, "synthetic: no such kind: %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    for (int c; (c = getopt(argc, argv, "t:n:r:h:l:d:k:s:")) != -1;) {
        switch (c) {
        case 't':
            o.threads = atoi(optarg);
            break;
        case 'n':
            o.sections = atoi(optarg);
            break;
        case 'r':
            o.ratio = atof(optarg);
            break;
        case 'h':
            o.hold_ns = atof(optarg);
            break;
        case 'l':
            o.locks = atoi(optarg);
            break;
        case 'd':
            o.distribution = choose(distributions, 3, optarg);
            break;
        case 'k':
            o.kind = choose(kinds, 6, optarg);
            break;
        case 's':
            o.sleep_ns = atof(optarg);
            break;
        default:
            return 2;
        }
    }
    if (o.threads < 1 || o.threads > 256 || o.locks < 1 || o.ratio < 0 || o.ratio > 1 || o.sections < 1) {
        fprintf(stderr, "synthetic: 1 to 256 threads, at least one lock and section, a ratio from 0 to 1\n");
        return 2;
    }
    calibrate();
    if (posix_memalign((void **)&locks, 128, (size_t)o.locks * sizeof *locks) != 0)
        return 1;
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    if (o.kind == ADAPTIVE)
        pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ADAPTIVE_NP);
    for (int i = 0; i < o.locks; i++) {
        pthread_mutex_init(&locks[i].mutex, &a);
        pthread_spin_init(&locks[i].spin, PTHREAD_PROCESS_PRIVATE);
        pthread_rwlock_init(&locks[i].rwlock, NULL);
        sem_init(&locks[i].sem, 0, 1);
    }
    pthread_t threads[256];
    double wall = seconds(CLOCK_MONOTONIC), in = 0, all = 0;
    for (long i = 0; i < o.threads; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < o.threads; i++) {
        pthread_join(threads[i], NULL);
        in += (double)inside[i];
        all += (double)(inside[i] + outside[i]);
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    printf("wall_s %.4f cpu_s %.4f sections_per_s %.0f lock_ratio %.4f\n", wall, seconds(CLOCK_PROCESS_CPUTIME_ID),
           (double)o.threads * o.sections / wall, all > 0 ? in / all : 0);
    return 0;
}
