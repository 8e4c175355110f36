/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program each of whose names would steer a terminal, or turn its text around: annotations of all kinds, tasks, threads, messages, and
 * the file that its debug information names. It computes for some ms, so that samples find its functions, too. */
#include <kasuri.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define BAD "\033[31m\007\r\n\342\200\256\302\233<b>;\""

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#line 12 "f\033[31m\007\342\200\256\302\233.c"
static void compute(long ms) {
    for (long until = now_ms() + ms; now_ms() < until;)
        ;
}

static void *work(void *argument) {
    long n = (long)argument;
    KASURI_THREAD_NAME("thread" BAD);
    for (long i = 0; i < 10; i++) {
        long task = 100 * n + i + 1;
        KASURI_TASK_CREATE("task" BAD, task, 0);
        KASURI_TASK_START(task);
        KASURI_BEGIN("slice" BAD);
        KASURI_ARG_STR("key", "value" BAD);
        KASURI_LOCK_REQUEST(&lock);
        pthread_mutex_lock(&lock);
        KASURI_LOCK_ACQUIRED(&lock);
        compute(3);
        pthread_mutex_unlock(&lock);
        KASURI_LOCK_RELEASED(&lock);
        KASURI_MESSAGE("message" BAD);
        KASURI_COUNTER("counter" BAD, (double)i);
        KASURI_INSTANT("instant" BAD);
        KASURI_FLOW_OUT("flow" BAD, task);
        KASURI_FLOW_IN("flow" BAD, task);
        KASURI_END();
        KASURI_TASK_END(task);
    }
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (long n = 0; n < 2; n++)
        pthread_create(&threads[n], 0, work, (void *)n);
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], 0);
    return 0;
}
