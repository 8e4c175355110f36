// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests come to a pool of threads, and each calls a library that has a pool of its own.
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

enum { SIZE = 1000, REQUESTS = 3000 };

static double library(double x) {
    double sum = 0;

#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < SIZE; i++) {
        double y = x + i;
        for (int k = 0; k < 40; k++)
            y = y * 0.999 + 1;
        sum += y;
    }
    return sum;
}

static void *serve(void *unused) {
    double x = 0;

    for (int i = 0; i < REQUESTS; i++)
        x = library(x * 1e-9);
    printf("%f\n", x);
    return unused;
}

int main(void) {
    pthread_t pool[64];
    int n = omp_get_num_procs() < 32 ? 2 * omp_get_num_procs() : 64;

    for (int i = 0; i < n; i++)
        pthread_create(&pool[i], NULL, serve, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(pool[i], NULL);
    return 0;
}
