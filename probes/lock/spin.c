/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_spin_*. glibc's spin lock is one word without an owner, so a request names no holder (0). glibc's own
 * functions try, take and release the lock. The ways through lock and unlock are those of mutex.c.
 */
#include "probe.h"
#include "real.h"

#include <errno.h>

/* A spin lock has no field that tells its kind. */
static uint32_t type_of(const void *lock) {
    (void)lock;
    return KASURI_LOCK_SPIN;
}

#define LOCK ((const void *)(uintptr_t)l) /* pthread_spinlock_t is volatile */

/* All but the two cheap ways. `r` is the result of the first try, or -1 if none was made. Without a recorder this is
 * the real function and nothing else. */
__attribute__((cold, noinline)) static int lock_slowly(pthread_spinlock_t *l, int r, uintptr_t caller) {
    if (!probe_on())
        return REAL(pthread_spin_lock)(l);
    if (r < 0)
        r = RESOLVED(pthread_spin_trylock)(l);
    /* With a stamp in light mode, too, which does not use it: this way is cold, and the time of one more reading of the
     * clock does not matter. */
    if (r == 0)
        return probe_taken_slowly(LOCK, type_of, caller, kasuri__stamp());
    /* The thread spins on its CPU from here to probe_acquired(). */
    probe_request(LOCK, KASURI_LOCK_EXCLUSIVE, type_of, 0, caller);
    r = RESOLVED(pthread_spin_lock)(l);
    probe_acquired(LOCK, KASURI_LOCK_EXCLUSIVE, r == 0);
    return r;
}

/* Light mode had counted the acquisition, and the lock was not free. */
__attribute__((noinline)) static int lock_counted(pthread_spinlock_t *l, int r, uintptr_t caller) {
    probe_count_back(LOCK);
    return lock_slowly(l, r, caller);
}

/* Three ways, the cheapest first: counted (light mode), recorded inline (full mode), everything else. Only tail
 * calls leave the function, so that no register is saved on the first two. */
PROBE_EXPORT int pthread_spin_lock(pthread_spinlock_t *l) {
    int r;
    if (probe_count_ahead(LOCK)) {
        r = RESOLVED(pthread_spin_trylock)(l);
        return KASURI__LIKELY(r == 0) ? 0 : lock_counted(l, r, PROBE_CALLER());
    }
    if (KASURI__UNLIKELY(kasuri__gate_load() != 1))
        return lock_slowly(l, -1, PROBE_CALLER());
    r = RESOLVED(pthread_spin_trylock)(l);
    if (KASURI__UNLIKELY(r != 0))
        return lock_slowly(l, r, PROBE_CALLER());
    PROBE_TAKEN(LOCK, type_of, PROBE_CALLER());
}

/* A try that fails waits for nothing: only one that gets the lock is recorded. */
PROBE_EXPORT int pthread_spin_trylock(pthread_spinlock_t *l) {
    int r = REAL(pthread_spin_trylock)(l);
    if (r == 0 && probe_on())
        probe_taken(LOCK, 0, type_of, PROBE_CALLER());
    return r;
}

/* The stamp is read before the release and the event is written after it: the critical section grows by one stamp. */
__attribute__((noinline)) static int unlock_recorded(pthread_spinlock_t *l) {
    uint64_t stamp = kasuri__stamp();
    int r = REAL(pthread_spin_unlock)(l);
    if (r == 0)
        probe_emit_left(LOCK, 0, stamp);
    return r;
}

/* Every release but light mode's cheap one: without a recorder, in full mode, or while a hold of the thread is
 * recorded. */
__attribute__((noinline)) static int unlock_looking(pthread_spinlock_t *l) {
    if (KASURI__UNLIKELY(kasuri__gate_load() != 1) && !probe_wake())
        return REAL(pthread_spin_unlock)(l);
    return probe_leaving(LOCK) ? unlock_recorded(l) : RESOLVED(pthread_spin_unlock)(l);
}

/* The cheap way of light mode is one load of a thread-local variable and a tail call. */
PROBE_EXPORT int pthread_spin_unlock(pthread_spinlock_t *l) {
    return KASURI__LIKELY(probe_counting != 0) ? RESOLVED(pthread_spin_unlock)(l) : unlock_looking(l);
}

PROBE_EXPORT int pthread_spin_init(pthread_spinlock_t *l, int shared) {
    int r = REAL(pthread_spin_init)(l, shared);
    if (r == 0 && probe_on())
        probe_define(LOCK, KASURI_LOCK_SPIN | (shared ? KASURI_LOCK_PSHARED : 0), PROBE_CALLER());
    return r;
}
