/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A system call between two annotations, N times: Kasuri's (-DWITH_KASURI), lttng-ust's (-DWITH_LTTNG), or none. Prints
 * ns per operation, the shortest of ten parts. Usage: annotated N */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(WITH_KASURI)
#include <kasuri.h>
#define BEGIN() KASURI_BEGIN("operation")
#define END() KASURI_END()
#elif defined(WITH_LTTNG)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "annotated-tp.h"
#define BEGIN() lttng_ust_tracepoint(kasuri_bench, begin, "operation")
#define END() lttng_ust_tracepoint(kasuri_bench, end)
#else
#define BEGIN() ((void)0)
#define END() ((void)0)
#endif

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 20000;
    double best = 1e18;
    for (int part = 0; part < 10; part++) {
        double start = now();
        for (long i = 0; i < n; i++) {
            BEGIN();
            syscall(SYS_getppid);
            END();
        }
        double took = now() - start;
        best = took < best ? took : best;
    }
    printf("%.2f\n", best / (double)n);
    return 0;
}
