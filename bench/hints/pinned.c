/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pinned [--together]: two threads share a fixed amount of work; --together keeps both on the first CPU that they may
 * use. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>

static void *work(void *arg) {
    volatile double x = 1.0;
    (void)arg;
    for (long i = 0; i < 150000000; i++)
        x = x * 0.999 + 0.001;
    return 0;
}

int main(int argc, char **argv) {
    cpu_set_t all, one;
    pthread_t threads[2];
    int first = 0;
    sched_getaffinity(0, sizeof all, &all);
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], 0, work, 0);
        if (argc > 1 && strcmp(argv[1], "--together") == 0)
            pthread_setaffinity_np(threads[i], sizeof one, &one);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
