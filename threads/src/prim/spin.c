/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "prim/spin.h"

#ifndef SPIN_TURNS /* threads/tests/explore takes fewer */
#define SPIN_TURNS 64
#endif

void ito__spin_wait(struct ito__spin *lock) {
    for (int i = 0; i < SPIN_TURNS; i++) {
        if (ito__spin_try(lock))
            return;
        cpu_relax();
    }
    /* ORDER acquire; pairs with the exchange in ito__spin_unlock(). A waiter takes the lock as "a waiter may sleep",
     * since it cannot know that no other one does: at worst one wake-up too many. */
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
        ito__prim_wait_briefly(&lock->word, 2);
}
