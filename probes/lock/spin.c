/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_spin_*. */
#include "probe.h"
#include "real.h"

#include <errno.h>

static uint32_t type_of(const void *lock) {
    (void)lock;
    return KASURI_LOCK_SPIN;
}

PROBE_EXPORT int pthread_spin_lock(pthread_spinlock_t *l) {
    int r;
    if (KASURI__UNLIKELY(!probe_on()))
        return REAL(pthread_spin_lock)(l);
    r = REAL(pthread_spin_trylock)(l);
    if (KASURI__UNLIKELY(r != 0)) {
        probe_request((const void *)l, KASURI_LOCK_EXCLUSIVE, type_of, 0, PROBE_CALLER());
        r = REAL(pthread_spin_lock)(l);
        probe_acquired((const void *)l, KASURI_LOCK_EXCLUSIVE, r == 0);
        return r;
    }
    probe_taken((const void *)l, 0, type_of, PROBE_CALLER());
    return 0;
}

PROBE_EXPORT int pthread_spin_trylock(pthread_spinlock_t *l) {
    int r = REAL(pthread_spin_trylock)(l);
    if (r == 0 && probe_on())
        probe_taken((const void *)l, 0, type_of, PROBE_CALLER());
    return r;
}

PROBE_EXPORT int pthread_spin_unlock(pthread_spinlock_t *l) {
    uint64_t stamp;
    int r;
    if (KASURI__UNLIKELY(!probe_on()))
        return REAL(pthread_spin_unlock)(l);
    stamp = probe_leaving((const void *)l);
    r = REAL(pthread_spin_unlock)(l);
    if (stamp && r == 0)
        probe_emit_left((const void *)l, 0, stamp);
    return r;
}

PROBE_EXPORT int pthread_spin_init(pthread_spinlock_t *l, int shared) {
    int r = REAL(pthread_spin_init)(l, shared);
    if (r == 0 && probe_on())
        probe_define((const void *)l, KASURI_LOCK_SPIN | (shared ? KASURI_LOCK_PSHARED : 0), PROBE_CALLER());
    return r;
}
