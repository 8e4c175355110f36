/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What pthread_create and pthread_join of an empty function cost a program that knows nothing of ito: CPU time of the
 * process for each thread. `run` starts it on kernel threads and with libito-pthread.so preloaded.
 *
 *   create_join WHO THREADS AT_ONCE
 *     WHO       thread: a thread creates and joins; main: main does
 *     AT_ONCE   so many are created before the first of them is joined
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AT_MOST = 10000 };
static int threads, at_once;

static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static void *empty(void *arg) {
    return arg;
}
static void some(void) {
    static pthread_t id[AT_MOST];
    for (int i = 0; i < at_once; i++)
        if (pthread_create(&id[i], NULL, empty, (void *)(long)i) != 0)
            abort();
    for (int i = 0; i < at_once; i++) {
        void *result;
        if (pthread_join(id[i], &result) != 0 || result != (void *)(long)i)
            abort();
    }
}
static void *measure(void *arg) {
    for (int i = 0; i < threads / 10; i += at_once) /* stacks are there, and warm */
        some();
    double start = cpu_ns();
    for (int i = 0; i < threads; i += at_once)
        some();
    printf("%.1f\n", (cpu_ns() - start) / threads);
    return arg;
}

int main(int argc, char **argv) {
    pthread_t id;
    if (argc != 4 || (threads = atoi(argv[2])) < 1 || (at_once = atoi(argv[3])) < 1 || at_once > AT_MOST)
        return 2;
    if (!strcmp(argv[1], "main"))
        measure(NULL);
    else if (pthread_create(&id, NULL, measure, NULL) != 0 || pthread_join(id, NULL) != 0)
        abort();
    return 0;
}
