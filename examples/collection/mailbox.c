// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread makes letters, another one answers them, one after the other.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_full;

static double think(double x) {
    for (int i = 0; i < 1000000; i++)
        x = x * 0.999 + 1;
    return x;
}

static void wait_until(bool full) {
    pthread_mutex_lock(&lock);
    while (is_full != full) {
        pthread_mutex_unlock(&lock);
        usleep(10000);
        pthread_mutex_lock(&lock);
    }
    is_full = !full;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void *answer(void *unused) {
    double x = 0;

    for (int i = 0; i < 60; i++) {
        wait_until(true);
        x = think(x);
    }
    printf("%f\n", x);
    return unused;
}

int main(void) {
    pthread_t thread;
    double x = 0;

    pthread_create(&thread, NULL, answer, NULL);
    for (int i = 0; i < 60; i++) {
        x = think(x);
        wait_until(false);
    }
    pthread_join(thread, NULL);
    printf("%f\n", x);
    return 0;
}
