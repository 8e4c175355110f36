/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that wait, for threads/tests/gdb_lists_threads: they are there when main ends by a trap. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static int fds[2];
static char byte;
static atomic_int there; /* or at their waits in a moment */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((noinline)) void waits_for_a_byte(void) {
    if (read(fds[0], &byte, 1) == 1)
        byte = 0;
}
static __attribute__((noinline)) void waits_for_the_lock(void) {
    pthread_mutex_lock(&lock);
    byte = 1;
}
static void *reads(void *unused) {
    atomic_fetch_add(&there, 1);
    waits_for_a_byte();
    return unused;
}
static void *locks(void *unused) {
    atomic_fetch_add(&there, 1);
    waits_for_the_lock();
    return unused;
}

int main(void) {
    pthread_t t[2];
    if (pipe(fds) || pthread_mutex_lock(&lock) || pthread_create(&t[0], NULL, reads, NULL) ||
        pthread_create(&t[1], NULL, locks, NULL))
        return 1;
    pthread_setname_np(t[0], "reads");
    pthread_setname_np(t[1], "locks");
    while (atomic_load(&there) < 2)
        usleep(1000);
    usleep(300000);
    __builtin_trap();
}
