/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two threads that take a mutex ROUNDS times each and hold it for 1 ms of CPU time, with the probes that a C library built with them has
 * in these functions. */
#include "probe.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long n_rounds;

static long cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *work(void *argument) {
    (void)argument;
    for (long i = 0; i < n_rounds; i++) {
        PROBE(libc, mutex_entry, 0, ULONG_A, &mutex, 0L);
        pthread_mutex_lock(&mutex);
        PROBE(libc, mutex_acquired, 0, ULONG_A, &mutex, 0L);
        for (long begin = cpu_ns(); cpu_ns() - begin < 1000000;)
            ;
        PROBE(libc, mutex_release, 0, ULONG_A, &mutex, 0L);
        pthread_mutex_unlock(&mutex);
        for (long begin = cpu_ns(); cpu_ns() - begin < 500000;)
            ;
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    n_rounds = argc > 1 ? atol(argv[1]) : 1;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
