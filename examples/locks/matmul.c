/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The first experiment of "Classification of Parallel Programs by Analyzing Lock Ratios": a product of matrices by
 * processes that share the result by mmap. `matmul [processes] [size]`; nothing is locked but what the kernel locks for
 * fork and page faults. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double *shared(int n) {
    void *p =
        mmap(NULL, (size_t)n * (size_t)n * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("matmul: mmap");
        exit(1);
    }
    return p;
}

/* [n][n], row-major; rows first..last-1 of c = a b. */
static void rows(const double *a, const double *b, double *c, int n, int first, int last) {
    for (int i = first; i < last; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}

int main(int argc, char **argv) {
    int processes = argc > 1 ? atoi(argv[1]) : 2, n = argc > 2 ? atoi(argv[2]) : 600, failed = 0;
    if (processes < 1 || n < 1 || n > 8192) {
        fprintf(stderr, "matmul: at least one process, size 1 to 8192\n");
        return 2;
    }
    double *a = shared(n), *b = shared(n), *c = shared(n), sum = 0, start = now();
    for (int i = 0; i < n * n; i++) {
        a[i] = (double)(i % 7);
        b[i] = (double)(i % 5);
    }
    for (int p = 0; p < processes; p++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("matmul: fork");
            return 1;
        }
        if (pid == 0) {
            rows(a, b, c, n, (int)((long)n * p / processes), (int)((long)n * (p + 1) / processes));
            _exit(0);
        }
    }
    for (int p = 0, status; p < processes; p++)
        failed |= wait(&status) < 0 || status != 0;
    for (int i = 0; i < n * n; i++)
        sum += c[i];
    printf("wall_s %.4f sum %.0f\n", now() - start, sum);
    return failed;
}
