/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A first annotated program. Build: cc -O2 -I annotate/include hello.c -lpthread; run: kasuri record ./a.out */
#include <kasuri.h>
#include <pthread.h>
#include <stdio.h>

static double sum[2];

/* The harmonic series, so that there is something to compute. */
static void *add_up(void *arg) {
    int half = *(int *)arg;
    KASURI_THREAD_NAME(half ? "odd" : "even");
    for (int part = 0; part < 10; part++) {
        KASURI_SCOPE("part");
        KASURI_ARG_I64("number", part);
        for (int i = 1 + half; i <= 2000000; i += 2)
            sum[half] += 1.0 / (i + 2000000.0 * part);
        KASURI_COUNTER("sum", sum[half]);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    int even = 0, odd = 1;
    pthread_create(&thread, NULL, add_up, &odd);
    add_up(&even);
    KASURI_WAIT_BEGIN(KASURI_WAIT_JOIN, &thread);
    pthread_join(thread, NULL);
    KASURI_WAIT_END(KASURI_WAIT_JOIN, &thread);
    printf("%.6f\n", sum[0] + sum[1]);
}
