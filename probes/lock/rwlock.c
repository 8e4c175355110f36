/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_rwlock_*; C++ std::shared_mutex. */
#include "probe.h"
#include "real.h"

#include <errno.h>

static uint32_t type_of(const void *lock) {
    const pthread_rwlock_t *l = lock;
    return KASURI_LOCK_RWLOCK | (l->__data.__shared ? KASURI_LOCK_PSHARED : 0);
}

/* The writer that holds it; 0: readers do. */
static uint32_t writer_of(const pthread_rwlock_t *l) {
    return (uint32_t)__atomic_load_n(&l->__data.__cur_writer, __ATOMIC_RELAXED);
}

#define LOCK(l, mode, try, call)                                                                                       \
    do {                                                                                                               \
        int r_;                                                                                                        \
        if (KASURI__UNLIKELY(!probe_on()))                                                                             \
            return (call);                                                                                             \
        r_ = (try);                                                                                                    \
        if (r_ == EBUSY) {                                                                                             \
            probe_request(l, mode, type_of, writer_of(l), PROBE_CALLER());                                             \
            r_ = (call);                                                                                               \
            probe_acquired(l, mode, r_ == 0);                                                                          \
            return r_;                                                                                                 \
        }                                                                                                              \
        if (r_ != 0)                                                                                                   \
            r_ = (call);                                                                                               \
        if (r_ == 0)                                                                                                   \
            probe_taken(l, mode, type_of, PROBE_CALLER());                                                             \
        return r_;                                                                                                     \
    } while (0)

PROBE_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l) {
    LOCK(l, KASURI_LOCK_SHARED, REAL(pthread_rwlock_tryrdlock)(l), REAL(pthread_rwlock_rdlock)(l));
}
PROBE_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l) {
    LOCK(l, KASURI_LOCK_EXCLUSIVE, REAL(pthread_rwlock_trywrlock)(l), REAL(pthread_rwlock_wrlock)(l));
}
PROBE_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_SHARED, REAL(pthread_rwlock_tryrdlock)(l), REAL(pthread_rwlock_timedrdlock)(l, until));
}
PROBE_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_EXCLUSIVE, REAL(pthread_rwlock_trywrlock)(l), REAL(pthread_rwlock_timedwrlock)(l, until));
}
PROBE_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_SHARED, REAL(pthread_rwlock_tryrdlock)(l), REAL(pthread_rwlock_clockrdlock)(l, clock, until));
}
PROBE_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_EXCLUSIVE, REAL(pthread_rwlock_trywrlock)(l),
         REAL(pthread_rwlock_clockwrlock)(l, clock, until));
}

PROBE_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *l) {
    int r = REAL(pthread_rwlock_tryrdlock)(l);
    if (r == 0 && probe_on())
        probe_taken(l, KASURI_LOCK_SHARED, type_of, PROBE_CALLER());
    return r;
}
PROBE_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *l) {
    int r = REAL(pthread_rwlock_trywrlock)(l);
    if (r == 0 && probe_on())
        probe_taken(l, KASURI_LOCK_EXCLUSIVE, type_of, PROBE_CALLER());
    return r;
}

PROBE_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l) {
    uint64_t stamp;
    uint32_t mode;
    int r;
    if (KASURI__UNLIKELY(!probe_on()))
        return REAL(pthread_rwlock_unlock)(l);
    mode = writer_of(l) ? KASURI_LOCK_EXCLUSIVE : KASURI_LOCK_SHARED;
    stamp = probe_leaving(l) ? kasuri__stamp() : 0;
    r = REAL(pthread_rwlock_unlock)(l);
    if (stamp && r == 0)
        probe_emit_left(l, mode, stamp);
    return r;
}

PROBE_EXPORT int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attributes) {
    int r = REAL(pthread_rwlock_init)(l, attributes);
    if (r == 0 && probe_on())
        probe_define(l, type_of(l), PROBE_CALLER());
    return r;
}
