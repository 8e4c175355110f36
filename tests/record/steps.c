/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* steps N [TRIGGER_AT] - N slices of 5 ms; a trigger annotation after slice TRIGGER_AT. */
#define _GNU_SOURCE
#include <kasuri.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100, at = argc > 2 ? atoi(argv[2]) : -1;
    for (int i = 0; i < n; i++) {
        struct timespec t = {0, 5000000};
        KASURI_BEGIN("step");
        nanosleep(&t, 0);
        KASURI_END();
        if (i == at)
            KASURI_TRIGGER("now");
    }
    return 0;
}
