/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* threads N - N threads one after another, 16 at a time, each with three annotations. */
#include <kasuri.h>
#include <pthread.h>
#include <stdlib.h>

static void *work(void *argument) {
    (void)argument;
    KASURI_BEGIN("life");
    KASURI_INSTANT("middle");
    KASURI_END();
    return 0;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 0; i < n; i += 16) {
        pthread_t threads[16];
        for (int j = 0; j < 16; j++)
            pthread_create(&threads[j], 0, work, 0);
        for (int j = 0; j < 16; j++)
            pthread_join(threads[j], 0);
    }
    return 0;
}
