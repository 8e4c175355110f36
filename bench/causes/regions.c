// SPDX-License-Identifier: MIT OR Apache-2.0
// A program of OpenMP that loses its CPUs to the cause that is the argument (bench/causes/run).
#define _GNU_SOURCE
#include <omp.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "grind.h"

enum { ROUNDS = 25 };

// A triangle, whose second half has three times the work of the first.
__attribute__((noinline)) static void relax(void) {
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < 40; i++) {
        grind(i * 0.04);
    }
}

// The same, with a barrier in the region.
__attribute__((noinline)) static void sweep(void) {
#pragma omp parallel
    for (int step = 0; step < ROUNDS; step++) {
#pragma omp for schedule(static)
        for (int i = 0; i < 40; i++) {
            grind(i * 0.04);
        }
    }
}

__attribute__((noinline)) static void add(void) {
#pragma omp parallel
    for (int i = 0; i < ROUNDS; i++) {
#pragma omp critical(total)
        grind(12);
        grind(1);
    }
}

// Most of each part of the loop is done in order.
__attribute__((noinline)) static void encode(void) {
#pragma omp parallel for ordered schedule(static, 1)
    for (int i = 0; i < 12 * ROUNDS; i++) {
        grind(1);
#pragma omp ordered
        grind(4);
    }
}

// Parts of a loop that are shorter than to hand them out takes.
__attribute__((noinline)) static void scale(bool cured) {
    static double cells[1 << 16];
    omp_set_schedule(omp_sched_dynamic, cured ? 64 : 1);
    for (int round = 0; round < 10 * ROUNDS; round++) {
#pragma omp parallel for schedule(runtime)
        for (int i = 0; i < 1 << 16; i++) {
            cells[i] = cells[i] * 0.5 + i;
        }
    }
}

__attribute__((noinline)) static void smooth(void) {
#pragma omp parallel
    grind(4);
}

__attribute__((noinline)) static void load_input(void) {
    grind(24);
}

int main(int argc, char **argv) {
    const char *cause = argc > 1 ? argv[1] : "";
    bool cured = argc > 2 && !strcmp(argv[2], "cured");
    omp_set_schedule(cured ? omp_sched_dynamic : omp_sched_static, 0);
    if (!strcmp(cause, "join")) {
        for (int i = 0; i < ROUNDS; i++) {
            relax();
        }
    } else if (!strcmp(cause, "imbalance")) {
        sweep();
    } else if (!strcmp(cause, "lock")) {
        add();
    } else if (!strcmp(cause, "ordered")) {
        encode();
    } else if (!strcmp(cause, "parts")) {
        scale(cured);
    } else if (!strcmp(cause, "serial")) {
        for (int i = 0; i < ROUNDS; i++) {
            load_input();
            smooth();
        }
    } else if (!strcmp(cause, "nap")) {
#pragma omp parallel
        for (int i = 0; i < ROUNDS; i++) {
            usleep(20000);
            grind(1);
        }
    } else {
        return 2;
    }
    return 0;
}
