/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* steps N - at most N slices of 5 ms. SIGUSR1: a trigger annotation after this slice. SIGTERM: this is the last one. */
#define _GNU_SOURCE
#include <kasuri.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t trigger, stop;

static void on_signal(int number) {
    if (number == SIGUSR1)
        trigger = 1;
    else
        stop = 1;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGTERM, &action, 0);
    for (int i = 0; i < n && !stop; i++) {
        struct timespec t = {0, 5000000};
        KASURI_BEGIN("step");
        nanosleep(&t, 0);
        KASURI_END();
        if (trigger) {
            trigger = 0;
            KASURI_TRIGGER("now");
        }
    }
    return 0;
}
