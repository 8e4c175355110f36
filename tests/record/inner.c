/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that give their name to the kernel (comm) and in annotations (messages of the same text): in a recording the
 * thread of a message must have that name. Text: LABEL-N, the main thread is LABEL-0.
 *
 *     inner LABEL THREADS WORK_MS [PAUSE_MS]
 *
 * The threads run side by side; with WORK_MS 0 one after the other, each for some microseconds. With PAUSE_MS all is
 * done again after such a pause, until standard input ends.
 */
#define _GNU_SOURCE
#include "kasuri.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static const char *label;
static int work_ms;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000l + t.tv_nsec / 1000;
}

static void *work(void *number) {
    char text[16];
    snprintf(text, sizeof text, "%s-%ld", label, (long)number);
    prctl(PR_SET_NAME, text);
    long until = now_us() + work_ms * 1000l;
    do {
        KASURI_SCOPE("work");
        KASURI_MESSAGE(text);
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        for (volatile int i = 0; i < 20000; i++)
            ;
    } while (now_us() < until);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    label = argv[1];
    int threads = atoi(argv[2]), pause_ms = argc > 4 ? atoi(argv[4]) : 0;
    work_ms = atoi(argv[3]);
    struct pollfd in = {.fd = 0, .events = POLLIN | POLLHUP};
    do {
        // New threads begin with their maker's name.
        prctl(PR_SET_NAME, "inner");
        pthread_t *ids = calloc((size_t)threads + 1, sizeof *ids);
        for (long n = 1; n <= threads; n++) {
            if (pthread_create(&ids[n], 0, work, (void *)n))
                return 1;
            if (!work_ms)
                pthread_join(ids[n], 0);
        }
        work(0);
        for (long n = 1; work_ms && n <= threads; n++)
            pthread_join(ids[n], 0);
        free(ids);
    } while (pause_ms && poll(&in, 1, pause_ms) == 0);
    return 0;
}
