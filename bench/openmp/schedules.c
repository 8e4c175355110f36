/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loops whose schedule is OMP_SCHEDULE's, for bench/openmp/schedules. Prints the seconds of the fastest execution: on a machine
 * with other work, the one that had its CPUs to itself.
 * usage: schedules CASE [ROUNDS] */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double spin(long n) {
    double x = 1;
    for (long i = 0; i < n; i++)
        x = x * 1.0000001 + 1e-9;
    return x;
}
/* Iteration i of n costs so many steps of spin(), 500 on average but for `fine`. */
static long cost(const char *name, long i, long n) {
    unsigned long hash = ((unsigned long)i + 1) * 0x9e3779b97f4a7c15ul;
    hash ^= hash >> 29;
    if (!strcmp(name, "rising"))
        return i * 1000 / n;
    if (!strcmp(name, "falling"))
        return (n - i) * 1000 / n;
    if (!strcmp(name, "random"))
        return 50 + (long)(hash % 900);
    if (!strcmp(name, "every-other"))
        return i % 2 ? 990 : 10;
    if (!strcmp(name, "tail"))
        return i < n - n / 32 ? 250 : 8250;
    if (!strcmp(name, "fine"))
        return 10;
    return 500;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "even";
    long rounds = argc > 2 ? atol(argv[2]) : 60, n = strcmp(name, "fine") ? 2048 : 50000;
    double sum = 0, fastest = 1e9;
    for (long round = 0; round < rounds; round++) {
        double start = omp_get_wtime();
#pragma omp parallel for schedule(runtime) reduction(+ : sum)
        for (long i = 0; i < n; i++)
            sum += spin(cost(name, i, n));
        fastest = omp_get_wtime() - start < fastest ? omp_get_wtime() - start : fastest;
    }
    printf("%.7f\n", fastest);
    return sum == 0;
}
