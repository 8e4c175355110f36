/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that a program is linked to, and so is initialised before a preloaded one: its lock is held over forks. */
#include <pthread.h>
#include <stdlib.h>

pthread_mutex_t early_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock(void) {
    pthread_mutex_lock(&early_lock);
}
static void unlock(void) {
    pthread_mutex_unlock(&early_lock);
}
static __attribute__((constructor)) void begin(void) {
    if (pthread_atfork(lock, unlock, unlock))
        abort();
}
