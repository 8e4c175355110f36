/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A lock for a few dozen instructions. Its holder may lose his CPU all the same (64 workers on 2 CPUs), so a waiter
 * spins briefly and then sleeps: 0 free, 1 held, 2 held and somebody may sleep (U. Drepper, "Futexes are tricky").
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
    /* ORDER acquire; pairs with the exchange in ito__spin_unlock. */
    return load_relaxed(&lock->word) == 0 &&
           __atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void ito__spin_lock(struct ito__spin *lock) {
    if (__builtin_expect(!ito__spin_try(lock), 0))
        ito__spin_wait(lock);
}

static inline void ito__spin_unlock(struct ito__spin *lock) {
    /* ORDER release; pairs with the acquire of the next holder. An exchange: the old value says whether somebody
     * sleeps. */
    if (__builtin_expect(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2, 0))
        ito__prim_wake(&lock->word, 1);
}

#endif
