/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A function that is too short to be annotated, and a loop that is not. */
#include "count.h"

#ifndef THREADS
#define THREADS 1
#endif
#define SHORT 400000L
#define LONG 1000

static __thread volatile long sum;

static __attribute__((noinline)) void is_short(long i) {
    sum += i;
}

static __attribute__((noinline)) void is_long(void) {
    for (long i = 0; i < 30000; i++)
        sum += i;
}
enum { LINE_OF_LOOP = __LINE__ - 3 };

static void *run(void *result) {
    FUNCTION("run");
    LOOP("run");
    for (long i = 0; i < SHORT; i++)
        is_short(i);
    LOOP("run");
    for (int i = 0; i < LONG; i++)
        is_long();
    *(long *)result = sum;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    long sums[THREADS], all = 0;
    FUNCTION("main");
    LOOP("main");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, &sums[i]);
    LOOP("main");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += sums[i];
    }
    printf("result %ld\n", all);
    count_print();
    printf("count is_short %ld\ncount is_long %d\ncount is_long.loop%d %d\n", THREADS * SHORT, THREADS * LONG,
           LINE_OF_LOOP, THREADS * LONG);
    return 0;
}
