/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_key_*: the C library's own, since they use the thread's own control block. Only what happens at a thread's
 * end is done here, as its function for that is hidden: destructors in rounds, then no value is left for the thread
 * that gets the block next.
 *
 * destructor[k] is written by the thread that creates key k and read by threads that end. ORDER relaxed: a thread has a
 * value for a key only after the program has told it of the key, which orders the two.
 */
#include "light.h"

#include <limits.h>

static void (*destructor[PTHREAD_KEYS_MAX])(void *);
static uint32_t n_keys; /* atomic: above all keys that were ever created */

EXPORT int pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) {
    int r = REAL(pthread_key_create)(key, destroy);
    if (r || *key >= PTHREAD_KEYS_MAX)
        return r;
    __atomic_store_n(&destructor[*key], destroy, __ATOMIC_RELAXED);
    uint32_t n = load_relaxed(&n_keys);
    while (n <= *key && !__atomic_compare_exchange_n(&n_keys, &n, *key + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return 0;
}

EXPORT int pthread_key_delete(pthread_key_t key) {
    if (key < PTHREAD_KEYS_MAX)
        __atomic_store_n(&destructor[key], NULL, __ATOMIC_RELAXED);
    return REAL(pthread_key_delete)(key);
}

/* One round. Return: whether a destructor was called, which may have set values again. */
static bool keys_round(void) {
    bool called = false;
    for (uint32_t k = 0; k < load_relaxed(&n_keys); k++) {
        void *value = pthread_getspecific(k);
        if (value == NULL)
            continue;
        pthread_setspecific(k, NULL);
        void (*destroy)(void *) = __atomic_load_n(&destructor[k], __ATOMIC_RELAXED);
        if (destroy) {
            destroy(value);
            called = true;
        }
    }
    return called;
}

void keys_end(void) {
    for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS && keys_round(); round++)
        ;
    for (uint32_t k = 0; k < load_relaxed(&n_keys); k++)
        if (pthread_getspecific(k))
            pthread_setspecific(k, NULL);
}
