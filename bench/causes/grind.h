// SPDX-License-Identifier: MIT OR Apache-2.0
// What the programs here compute.
#pragma once
#include <time.h>

static double cpu_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

// So many ms of CPU time.
__attribute__((noinline)) static void grind(double ms) {
    double end = cpu_ms() + ms;
    while (cpu_ms() < end) {
        for (volatile int i = 0; i < 20000; i++) {
        }
    }
}
