/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "spin.h"

#define SPINS 64

void ito__spin_wait(struct ito__spin *lock) {
    for (int i = 0; i < SPINS; i++) {
        if (ito__spin_try(lock))
            return;
        cpu_relax();
    }
    /* ORDER acquire; as in ito__spin_try. Who sleeps takes the lock as "somebody may sleep": at worst one wake-up too
     * many. */
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
        ito__prim_wait(&lock->word, 2, UINT64_MAX);
}
