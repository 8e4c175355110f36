/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A lock for a few dozen instructions. Its holder may lose its CPU all the same (64 workers on 2 CPUs), so a waiter
 * spins briefly and then sleeps (U. Drepper, "Futexes are tricky").
 *
 *   word       0 free; 1 held; 2 held, and a waiter may sleep
 *   0 --> 1    ito__spin_try()
 *   any --> 2  a waiter that is about to sleep, or, when the old value was 0, that takes the lock by this
 *   any --> 0  ito__spin_unlock(); when the old value was 2 it wakes one waiter
 *
 * threads/tests/explore runs it under every schedule (program `spin`).
 */
#ifndef ITO_SPIN_H
#define ITO_SPIN_H

#include "prim/atomic.h"
#include "prim/prim.h"

struct ito__spin {
    uint32_t word;
};

void ito__spin_wait(struct ito__spin *lock);

static inline bool ito__spin_try(struct ito__spin *lock) {
    uint32_t free = 0;
    /* ORDER acquire; pairs with the exchange in ito__spin_unlock(). Shows what the last holder did. The load before it
     * is relaxed: it only spares a compare-and-swap that would fail. */
    return load_relaxed(&lock->word) == 0 &&
           __atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void ito__spin_lock(struct ito__spin *lock) {
    if (__builtin_expect(!ito__spin_try(lock), 0))
        ito__spin_wait(lock);
}

static inline void ito__spin_unlock(struct ito__spin *lock) {
    /* ORDER release; pairs with the acquire in ito__spin_try() or ito__spin_wait(). Publishes what this holder did. It
     * is an exchange because the old value says whether a waiter sleeps. */
    if (__builtin_expect(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2, 0))
        ito__prim_wake(&lock->word, 1);
}

#endif
