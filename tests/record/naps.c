/* A program whose CPUs fall idle between short runs: THREADS threads, each on a CPU of its own as far as there are as many, work a
 * little and sleep a little, ROUNDS times. Each prints, last thing it does, its CPU time as the kernel counts it: "thread TID NS". */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int n_rounds;

static unsigned work(unsigned seed, int n) {
    for (int i = 0; i < n; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static void pin(int nth) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    nth %= CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && nth-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static void *naps(void *arg) {
    int nth = (int)(size_t)arg;
    unsigned seed = (unsigned)nth + 1;
    pin(nth);
    for (int i = 0; i < n_rounds; i++) {
        struct timespec nap = {0, 50000 + (long)(seed % 50000)};
        seed = work(seed, 5000 + (int)(seed % 20000));
        nanosleep(&nap, NULL);
    }
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    printf("thread %ld %lld\n", syscall(SYS_gettid), used.tv_sec * 1000000000ll + used.tv_nsec);
    return (void *)(size_t)seed;
}

int main(int argc, char **argv) {
    int n_threads = argc > 1 ? atoi(argv[1]) : 2;
    n_rounds = argc > 2 ? atoi(argv[2]) : 1000;
    pthread_t threads[64];
    if (n_threads < 1 || n_threads > 64)
        return 2;
    for (int i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i], NULL, naps, (void *)(size_t)i) != 0)
            return 2;
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
