/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Programs whose threads meet elsewhere than in a lock, one kind each:
 *   meet compute  THREADS ROUNDS NS            each computes; thread i does i/THREADS more of it
 *   meet flags    THREADS ROUNDS NS            a pipeline: round r of a thread waits, spinning, for round r of the one before
 *   meet barrier  THREADS ROUNDS NS            all meet after each round, spinning
 *   meet yield    THREADS ROUNDS NS            the same with sched_yield
 *   meet tasks    THREADS ROUNDS NS            OpenMP: one thread makes ROUNDS tasks
 *   meet tree     THREADS ROUNDS NS            OpenMP: ROUNDS tasks, each made by another one
 *   meet loop     THREADS ROUNDS NS            OpenMP: ROUNDS regions; half of the iterations are twice as long
 *   meet pipe     PAIRS   ROUNDS NS BYTES      processes send BYTES to each other and back
 *   meet line     THREADS ROUNDS NS            all add to one counter, without a lock
 *   meet memory   THREADS ROUNDS NS MIB        each goes through MIB of its own, ROUNDS times
 *   meet random   THREADS ROUNDS NS MIB        the same, in random order
 * NS is the work of a round; it is counted in multiplications (STEPS_PER_NS in the environment), so that a run on two CPUs does
 * the very work of a run on one. Prints the seconds that the threads took. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

static int n_threads;
static long n_rounds;
static double round_ns;
static long extra = 1;
static double steps_per_ns = 1.0;
static volatile unsigned long results[MAX_THREADS][16];

struct flag {
    _Atomic long rounds;
    char pad[120];
};
static struct flag done[MAX_THREADS];
static _Atomic long arrived, generation, counter;

static unsigned long work(double ns, unsigned long x) {
    for (long n = (long)(ns * steps_per_ns); n > 0; n--) {
        x = x * 6364136223846793005ul + 1442695040888963407ul;
    }
    return x;
}

static void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void compute(int me) {
    for (long r = 0; r < n_rounds + n_rounds * me / n_threads; r++) {
        results[me][0] = work(round_ns, results[me][0]);
    }
}

static void flags(int me) {
    for (long r = 1; r <= n_rounds; r++) {
        while (me > 0 && atomic_load_explicit(&done[me - 1].rounds, memory_order_acquire) < r) {
            rest();
        }
        results[me][0] = work(round_ns, results[me][0]);
        atomic_store_explicit(&done[me].rounds, r, memory_order_release);
    }
}

static void meet_all(int yields) {
    long now = atomic_load_explicit(&generation, memory_order_acquire);
    if (atomic_fetch_add(&arrived, 1) == n_threads - 1) {
        atomic_store(&arrived, 0);
        atomic_fetch_add(&generation, 1);
        return;
    }
    while (atomic_load_explicit(&generation, memory_order_acquire) == now) {
        if (yields) {
            sched_yield();
        } else {
            rest();
        }
    }
}

static void barrier(int me) {
    for (long r = 0; r < n_rounds; r++) {
        results[me][0] = work(round_ns, results[me][0]);
        meet_all(0);
    }
}

static void yield(int me) {
    for (long r = 0; r < n_rounds; r++) {
        results[me][0] = work(round_ns, results[me][0]);
        meet_all(1);
    }
}

static void line(int me) {
    for (long r = 0; r < n_rounds; r++) {
        results[me][0] = work(round_ns, results[me][0]);
        atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    }
}

static void memory(int me) {
    long n = extra * (1 << 20) / (long)sizeof(double);
    double *a = calloc((size_t)n, sizeof(double)), *b = calloc((size_t)n, sizeof(double));
    for (long r = 0; a && b && r < n_rounds; r++) {
        for (long i = 0; i < n; i++) {
            a[i] = a[i] * 0.5 + b[i];
        }
        results[me][0] = work(round_ns, results[me][0] + (unsigned long)a[r % n]);
    }
    free(a);
    free(b);
}

static void random_order(int me) {
    size_t n = (size_t)extra * (1 << 20) / sizeof(unsigned long);
    unsigned long *a = calloc(n, sizeof *a);
    unsigned long x = (unsigned long)me + 1;
    for (long r = 0; a && r < n_rounds; r++) {
        for (size_t i = 0; i < n / 8; i++) {
            x = x * 6364136223846793005ul + 1442695040888963407ul + a[(x >> 20) % n]++;
        }
        results[me][0] = work(round_ns, x);
    }
    free(a);
}

static void tasks(void) {
#pragma omp parallel num_threads(n_threads)
#pragma omp single
    for (long r = 0; r < n_rounds; r++) {
#pragma omp task
        results[0][r % 16] = work(round_ns, (unsigned long)r);
    }
}

static void tree_of(long n) {
    if (n <= 1) {
        results[1][n] = work(round_ns, (unsigned long)n);
        return;
    }
#pragma omp task
    tree_of(n / 2);
#pragma omp task
    tree_of(n - n / 2);
#pragma omp taskwait
}

static void tree(void) {
#pragma omp parallel num_threads(n_threads)
#pragma omp single
    tree_of(n_rounds);
}

static void loop(void) {
    for (long r = 0; r < n_rounds; r++) {
#pragma omp parallel for num_threads(n_threads) schedule(static)
        for (long i = 0; i < 16; i++) {
            results[i][0] = work(round_ns / 16 * (i < 8 ? 2 : 1), results[i][0]);
        }
    }
}

static void pipe_end(int in, int out, int begins) {
    char *text = calloc(1, (size_t)extra);
    for (long r = 0; text && r < n_rounds; r++) {
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == begins) {
                results[0][0] = work(round_ns, results[0][0]);
                if (write(out, text, (size_t)extra) != extra) {
                    exit(1);
                }
            } else {
                for (long got = 0; got < extra;) {
                    long n = read(in, text, (size_t)(extra - got));
                    if (n <= 0) {
                        exit(1);
                    }
                    got += n;
                }
            }
        }
    }
    free(text);
}

static void pipes(void) {
    for (int i = 0; i < 2 * n_threads; i += 2) {
        int there[2], back[2];
        if (pipe(there) != 0 || pipe(back) != 0) {
            exit(1);
        }
        for (int side = 0; side < 2; side++) {
            if (fork() == 0) {
                pipe_end(side ? there[0] : back[0], side ? back[1] : there[1], side == 0);
                _exit(0);
            }
        }
        close(there[0]), close(there[1]), close(back[0]), close(back[1]);
    }
    for (int status; wait(&status) > 0;) {
        if (status != 0) {
            exit(1);
        }
    }
}

static void (*body)(int);

static void *thread(void *argument) {
    body((int)(size_t)argument);
    return NULL;
}

static void threads(void) {
    pthread_t all[MAX_THREADS];
    for (int i = 0; i < n_threads; i++) {
        if (pthread_create(&all[i], NULL, thread, (void *)(size_t)i) != 0) {
            exit(1);
        }
    }
    for (int i = 0; i < n_threads; i++) {
        pthread_join(all[i], NULL);
    }
}

static const struct {
    const char *name;
    void (*body)(int);
    void (*run)(void);
} kinds[] = {
    {"compute", compute, threads},
    {"flags", flags, threads},
    {"barrier", barrier, threads},
    {"yield", yield, threads},
    {"line", line, threads},
    {"memory", memory, threads},
    {"random", random_order, threads},
    {"tasks", NULL, tasks},
    {"tree", NULL, tree},
    {"loop", NULL, loop},
    {"pipe", NULL, pipes},
};

int main(int argc, char **argv) {
    const char *given = getenv("STEPS_PER_NS");
    steps_per_ns = given ? atof(given) : 1.0;
    n_threads = argc > 2 ? atoi(argv[2]) : 0;
    n_rounds = argc > 3 ? atol(argv[3]) : 0;
    round_ns = argc > 4 ? atof(argv[4]) : 0;
    extra = argc > 5 ? atol(argv[5]) : 1;
    for (size_t k = 0; n_threads >= 1 && n_threads <= MAX_THREADS && k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].name, argv[1]) == 0) {
            struct timespec a, b;
            body = kinds[k].body;
            clock_gettime(CLOCK_MONOTONIC, &a);
            kinds[k].run();
            clock_gettime(CLOCK_MONOTONIC, &b);
            printf("%.6f s\n", (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
            return 0;
        }
    }
    fprintf(stderr, "usage: meet KIND THREADS ROUNDS NS [BYTES | MIB]\n");
    return 2;
}
