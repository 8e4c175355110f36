/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with OpenMP whose places, counts and one slow thread are known to crates/cli/tests/openmp.rs. Comments mark
 * the lines that it looks for. */
#include <omp.h>
#include <stdio.h>

static volatile double sink;
__attribute__((noinline)) static double work(long n) {
    double x = 1;
    for (long i = 0; i < n; i++) {
        x = x * 1.0000001 + 1e-9;
        sink = x;
    }
    return x;
}

__attribute__((noinline)) static void uneven(double *sum) {
#pragma omp parallel num_threads(2) /* line: region */
    {
#pragma omp for schedule(dynamic, 4)
        for (int i = 0; i < 32; i++) /* line: loop */
            work(5000);
#pragma omp critical(total)
        *sum += work(2000);
        if (omp_get_thread_num() == 0)
            work(400000);
#pragma omp barrier /* line: barrier */
    }
}

int main(void) {
    double sum = 0;
    for (int round = 0; round < 10; round++) {
        uneven(&sum);
        work(100000);
    }
#pragma omp parallel num_threads(2) /* line: tasks */
#pragma omp single
    for (int i = 0; i < 8; i++) {
#pragma omp task firstprivate(i)
        work(1000 * i); /* line: task */
    }
    printf("%.3f\n", sum);
    return 3;
}
