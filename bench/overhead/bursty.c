/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A program whose rate of scheduler events changes a hundredfold while it runs: by turns it computes, with a short nap
 * every 10 ms, and passes a byte to and fro between two processes on one CPU. Usage: bursty SECONDS PHASE_SECONDS */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void compute(double until) {
    volatile unsigned long work = 0;
    while (now() < until) {
        double nap = now() + 0.01;
        while (now() < nap)
            for (int i = 0; i < 1000; i++)
                work += (unsigned long)i;
        struct timespec tenth = {0, 100000};
        nanosleep(&tenth, NULL);
    }
}

static long pass(int to, int from, double until) {
    long trips = 0;
    char byte = 0;
    while (now() < until) {
        for (int i = 0; i < 100; i++, trips++)
            if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
                exit(1);
    }
    return trips;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 8, phase = argc > 2 ? atof(argv[2]) : 2;
    int there[2], back[2];
    if (pipe(there) || pipe(back))
        return 1;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(there[1]);
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {
        }
        _exit(0);
    }
    long trips = 0;
    for (double start = now(), t = 0; t < seconds; t += 2 * phase) {
        compute(start + t + phase);
        trips += pass(there[1], back[0], start + t + 2 * phase);
    }
    close(there[1]);
    waitpid(child, NULL, 0);
    printf("%ld round trips\n", trips);
    return 0;
}
