/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that is loaded before the probe is ready: its malloc locks a mutex, also when dlsym calls it, and its
 * constructor, which runs first, locks everything. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static char heap[64 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t n) {
    pthread_mutex_lock(&heap_lock);
    size_t *p = (size_t *)(void *)(heap + used);
    used += (n + 16 + 15) & ~(size_t)15;
    pthread_mutex_unlock(&heap_lock);
    if (used > sizeof heap)
        return NULL;
    p[0] = n;
    return p + 2;
}
void free(void *p) {
    (void)p;
    pthread_mutex_lock(&heap_lock);
    pthread_mutex_unlock(&heap_lock);
}
void *calloc(size_t n, size_t m) {
    return malloc(n * m); /* memory that was never handed out before is zero */
}
void *realloc(void *p, size_t n) {
    void *q = malloc(n);
    if (p && q)
        memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
    return q;
}

__attribute__((constructor(101))) static void early(void) {
    pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
    pthread_spinlock_t s;
    sem_t sem;
    pthread_mutex_t m;
    /* No lock function of the probe has run before this, so it finds the C library's functions here. */
    pthread_mutex_init(&m, NULL);
    pthread_mutex_trylock(&m);
    pthread_mutex_unlock(&m);
    pthread_rwlock_rdlock(&l);
    pthread_rwlock_unlock(&l);
    pthread_spin_init(&s, 0);
    pthread_spin_lock(&s);
    pthread_spin_unlock(&s);
    sem_init(&sem, 0, 1);
    sem_wait(&sem);
    free(malloc(10));
}
