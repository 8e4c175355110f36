/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_mutex_*; C++ std::mutex, recursive_mutex and timed ones come through here. */
#include "probe.h"
#include "real.h"

#include <errno.h>

static uint32_t type_of(const void *lock) {
    /* glibc's kinds: sysdeps/nptl, PTHREAD_MUTEX_*_NP. */
    static const uint8_t types[4] = {KASURI_LOCK_MUTEX, KASURI_LOCK_RECURSIVE, KASURI_LOCK_ERRORCHECK,
                                     KASURI_LOCK_ADAPTIVE};
    const pthread_mutex_t *m = lock;
    uint32_t kind = (uint32_t)m->__data.__kind;
    return types[kind & 3] | (kind & 0x10 ? KASURI_LOCK_ROBUST : 0) | (kind & 0x20 ? KASURI_LOCK_INHERIT : 0) |
           (kind & 0x40 ? KASURI_LOCK_PROTECT : 0) | (kind & 0x80 ? KASURI_LOCK_PSHARED : 0);
}

static uint32_t holder_of(const pthread_mutex_t *m) {
    return (uint32_t)__atomic_load_n(&m->__data.__owner, __ATOMIC_RELAXED);
}

static int is_ours(int r) {
    return r == 0 || r == EOWNERDEAD;
}

#define ROBUST 0x10            /* of __kind */
#define HOLDER_MASK 0x3fffffff /* of __lock: the holder's tid, robust and inheriting mutexes */

/* glibc's trylock of a robust mutex that cannot be recovered leaves it taken, and the next lock waits for ever, where
 * lock alone says ENOTRECOVERABLE. So a robust mutex is looked at and not tried. Another thread may take it in between;
 * then that wait counts as part of nothing. Return: as trylock, or -1: looks free, lock it. */
__attribute__((noinline)) static int look(const pthread_mutex_t *m) {
    return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) & HOLDER_MASK ? EBUSY : -1;
}
static inline __attribute__((always_inline)) int try_first(pthread_mutex_t *m) {
    if (KASURI__UNLIKELY(m->__data.__kind & ROBUST))
        return look(m);
    return RESOLVED(pthread_mutex_trylock)(m);
}

/* The lock was tried: `r`. What is neither ours nor busy is an error whose words are those of the function called. */
#define CONTENDED(m, r, caller, call)                                                                                  \
    do {                                                                                                               \
        if (is_ours(r)) {                                                                                              \
            probe_taken(m, 0, type_of, caller);                                                                        \
        } else if (r == EBUSY) {                                                                                       \
            probe_request(m, KASURI_LOCK_EXCLUSIVE, type_of, holder_of(m), caller);                                    \
            r = (call);                                                                                                \
            probe_acquired(m, KASURI_LOCK_EXCLUSIVE, is_ours(r));                                                      \
        } else {                                                                                                       \
            r = (call);                                                                                                \
            if (is_ours(r))                                                                                            \
                probe_taken(m, 0, type_of, caller);                                                                    \
        }                                                                                                              \
    } while (0)

__attribute__((noinline)) static int lock_contended(pthread_mutex_t *m, int r, uintptr_t caller) {
    CONTENDED(m, r, caller, REAL(pthread_mutex_lock)(m));
    return r;
}

__attribute__((cold, noinline)) static int lock_unrecorded(pthread_mutex_t *m, uintptr_t caller) {
    if (!probe_wake())
        return REAL(pthread_mutex_lock)(m);
    return lock_contended(m, try_first(m), caller);
}

/* Light mode: counts the acquisition before it is tried, so that nothing is left to do between the lock's own atomic
 * operations; a store there waits for the one and holds up the other. Return: 0 when it is to be recorded, or the lock
 * is new. A signal handler that locks in between loses at most its own count. */
static inline __attribute__((always_inline)) int count_ahead(const pthread_mutex_t *m) {
    struct probe_thread *t = probe_self;
    struct probe_entry *e;
    if (KASURI__UNLIKELY(!t))
        return 0;
    e = probe_entry_of(t, m);
    if (KASURI__UNLIKELY(e->object != (uintptr_t)m || t->n_recorded || e->until <= 1))
        return 0;
    e->until--;
    return 1;
}

PROBE_EXPORT int pthread_mutex_lock(pthread_mutex_t *m) {
    int r;
    if (KASURI__UNLIKELY(kasuri__gate_load() != 1))
        return lock_unrecorded(m, PROBE_CALLER());
    if (KASURI__UNLIKELY(m->__data.__kind & ROBUST))
        return lock_contended(m, look(m), PROBE_CALLER());
    if (probe_is_light && count_ahead(m)) {
        r = RESOLVED(pthread_mutex_trylock)(m);
        if (KASURI__LIKELY(r == 0))
            return 0;
        probe_entry_of(probe_self, m)->until++;
        return lock_contended(m, r, PROBE_CALLER());
    }
    r = RESOLVED(pthread_mutex_trylock)(m);
    if (KASURI__UNLIKELY(r != 0))
        return lock_contended(m, r, PROBE_CALLER());
    PROBE_TAKEN(m, type_of);
}

PROBE_EXPORT int pthread_mutex_trylock(pthread_mutex_t *m) {
    int r = REAL(pthread_mutex_trylock)(m);
    if (is_ours(r) && probe_on())
        probe_taken(m, 0, type_of, PROBE_CALLER());
    return r;
}

PROBE_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *until) {
    int r;
    if (!probe_on())
        return REAL(pthread_mutex_timedlock)(m, until);
    r = try_first(m);
    if (r == 0)
        probe_taken(m, 0, type_of, PROBE_CALLER());
    else
        CONTENDED(m, r, PROBE_CALLER(), REAL(pthread_mutex_timedlock)(m, until));
    return r;
}

PROBE_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *until) {
    int r;
    /* An unsupported clock is an error also where the lock is free. */
    if (!probe_on() || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
        return REAL(pthread_mutex_clocklock)(m, clock, until);
    r = try_first(m);
    if (r == 0)
        probe_taken(m, 0, type_of, PROBE_CALLER());
    else
        CONTENDED(m, r, PROBE_CALLER(), REAL(pthread_mutex_clocklock)(m, clock, until));
    return r;
}

/* A function of its own, so that the light mode's way through the next one saves no registers. */
__attribute__((noinline)) static int unlock_recorded(pthread_mutex_t *m) {
    uint64_t stamp = kasuri__stamp();
    int r = RESOLVED(pthread_mutex_unlock)(m);
    if (KASURI__LIKELY(r == 0))
        probe_emit_left(m, 0, stamp);
    return r;
}
__attribute__((cold, noinline)) static int unlock_unrecorded(pthread_mutex_t *m) {
    return probe_wake() && probe_leaving(m) ? unlock_recorded(m) : REAL(pthread_mutex_unlock)(m);
}

/* Light mode while some hold of the thread is recorded: perhaps this one. */
__attribute__((noinline)) static int unlock_sampled(pthread_mutex_t *m) {
    return probe_ends_recorded(probe_self, m) ? unlock_recorded(m) : RESOLVED(pthread_mutex_unlock)(m);
}

/* Tail calls only: no register is saved on the way of the light mode. */
PROBE_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m) {
    struct probe_thread *t;
    if (KASURI__UNLIKELY(kasuri__gate_load() != 1))
        return unlock_unrecorded(m);
    if (KASURI__LIKELY(!probe_is_light))
        return unlock_recorded(m);
    t = probe_self;
    if (KASURI__UNLIKELY(t && t->n_recorded))
        return unlock_sampled(m);
    return RESOLVED(pthread_mutex_unlock)(m);
}

PROBE_EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attributes) {
    int r = REAL(pthread_mutex_init)(m, attributes);
    if (r == 0 && probe_on())
        probe_define(m, type_of(m), PROBE_CALLER());
    return r;
}
