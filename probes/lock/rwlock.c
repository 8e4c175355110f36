/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_rwlock_*; C++ std::shared_mutex and shared_timed_mutex come through here.
 *
 * A read hold is recorded in mode SHARED by the long events ACQUIRED and RELEASED, a write hold in mode EXCLUSIVE by
 * the short ones TAKEN and LEFT. One function releases both kinds, so the mode of a release is read from the lock
 * (writer_of). Fields of pthread_rwlock_t: glibc's <bits/struct_rwlock.h> and the head of nptl/pthread_rwlock_common.c
 * (__readers: bit 0 write phase, bit 1 a writer has claimed the lock, bit 2 readers sleep, from bit 3 on the number of
 * readers).
 */
#include "probe.h"
#include "real.h"

#include <errno.h>
#include <string.h>

/* glibc's read-write locks are of one type for us: whether readers or writers come first does not show in their
 * holds. */
static uint32_t type_of(const void *lock) {
    const pthread_rwlock_t *l = lock;
    return KASURI_LOCK_RWLOCK | (l->__data.__shared ? KASURI_LOCK_PSHARED : 0);
}

/* The TID of the writer that holds the lock; 0: readers hold it. ORDER relaxed: before the wait it is a hint; in unlock
 * it is our own TID, or 0, since our read hold keeps writers out. */
static uint32_t writer_of(const pthread_rwlock_t *l) {
    return (uint32_t)__atomic_load_n(&l->__data.__cur_writer, __ATOMIC_RELAXED);
}

/* Try, then block. An error other than EBUSY is the blocking function's to report, so it is called at once. */
#define LOCK(l, mode, caller, try, call)                                                                               \
    do {                                                                                                               \
        int r_;                                                                                                        \
        if (KASURI__UNLIKELY(!probe_on()))                                                                             \
            return (call);                                                                                             \
        r_ = (try);                                                                                                    \
        if (r_ == EBUSY) {                                                                                             \
            probe_request(l, mode, type_of, writer_of(l), caller);                                                     \
            r_ = (call);                                                                                               \
            probe_acquired(l, mode, r_ == 0);                                                                          \
            return r_;                                                                                                 \
        }                                                                                                              \
        if (r_ != 0)                                                                                                   \
            r_ = (call);                                                                                               \
        if (r_ == 0)                                                                                                   \
            probe_taken(l, mode, type_of, caller);                                                                     \
        return r_;                                                                                                     \
    } while (0)

#define ONE_READER 8u /* of __readers: 1 << PTHREAD_RWLOCK_READER_SHIFT in glibc */
/* Whether probe_check_rwlock() has seen that the C library counts readers so. */
static int is_known = 0;

/* Take a free lock for reading by the same store as the C library's tryrdlock: __readers from 0 to one reader. That
 * tryrdlock costs 4 ns more than rdlock, since its atomic operation waits for its load. Only for a lock that is free
 * and whose last holder was a reader; all others have other bits in __readers. Return: whether the lock is ours. */
static inline __attribute__((always_inline)) int take_read(pthread_rwlock_t *l) {
    uint32_t none = 0;
    /* The compiler must not know that this is 0: it would use the value that the load below has just found, and the
     * compare-and-swap would wait for that load. */
    __asm__("" : "+r"(none));
    /* Without this look, a lock that others read would cost two atomic operations, of which the first fails. ORDER
     * relaxed: the compare-and-swap decides. */
    if (!is_known || __atomic_load_n(&l->__data.__readers, __ATOMIC_RELAXED))
        return 0;
    /* ORDER acquire; pairs with the release in the C library's unlock. Publishes what the last writer wrote under the
     * lock. Where it fails, the caller tries by the C library. */
    return __atomic_compare_exchange_n(&l->__data.__readers, &none, ONE_READER, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
/* Lock and unlock a lock of our own by the C library's functions, and compare all its bytes with those that take_read()
 * relies on: a read lock changes __readers and nothing else, and the unlock restores it. */
void probe_check_rwlock(void) {
    pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER, fresh, read;
    int ok;
    /* All bytes and not only the fields: a field that a later glibc adds shows up as a difference. */
    memcpy(&fresh, &l, sizeof l);
    ok = RESOLVED(pthread_rwlock_tryrdlock)(&l) == 0;
    memcpy(&read, &l, sizeof l);
    ok &= RESOLVED(pthread_rwlock_unlock)(&l) == 0 && !memcmp(&l, &fresh, sizeof l);
    fresh.__data.__readers = ONE_READER;
    is_known = ok && !memcmp(&read, &fresh, sizeof l);
}

/* Record a read lock. A function of its own, like the next, so that the ways that only count save no registers. */
__attribute__((noinline)) static int read_recorded(pthread_rwlock_t *l, uintptr_t caller) {
    LOCK(l, KASURI_LOCK_SHARED, caller, REAL(pthread_rwlock_tryrdlock)(l), REAL(pthread_rwlock_rdlock)(l));
}
/* Light mode had counted the acquisition, and the short way did not get the lock. */
__attribute__((noinline)) static int read_counted(pthread_rwlock_t *l, uintptr_t caller) {
    if (RESOLVED(pthread_rwlock_tryrdlock)(l) == 0)
        return 0;
    probe_count_back(l);
    return read_recorded(l, caller);
}
PROBE_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l) {
    if (KASURI__LIKELY(probe_count_ahead(l)))
        return KASURI__LIKELY(take_read(l)) ? 0 : read_counted(l, PROBE_CALLER());
    return read_recorded(l, PROBE_CALLER());
}

/* Write locks have no inlined way: the try is the C library's, and light mode saves the clock and the event only. */
__attribute__((noinline)) static int write_recorded(pthread_rwlock_t *l, uintptr_t caller) {
    LOCK(l, KASURI_LOCK_EXCLUSIVE, caller, REAL(pthread_rwlock_trywrlock)(l), REAL(pthread_rwlock_wrlock)(l));
}
/* The try also serves the counted way: where it succeeds there is nothing else to do; where it fails the count is
 * taken back, since a wait is always recorded whole. */
PROBE_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l) {
    uintptr_t caller = PROBE_CALLER();
    if (KASURI__LIKELY(probe_count_ahead(l))) {
        if (KASURI__LIKELY(RESOLVED(pthread_rwlock_trywrlock)(l) == 0))
            return 0;
        probe_count_back(l);
    }
    return write_recorded(l, caller);
}
/* The variants with a time limit have no counted way: probe_taken() counts them in light mode. A wait that ends by its
 * limit is recorded as LOCK_GIVEN_UP. */
PROBE_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_SHARED, PROBE_CALLER(), REAL(pthread_rwlock_tryrdlock)(l),
         REAL(pthread_rwlock_timedrdlock)(l, until));
}
PROBE_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_EXCLUSIVE, PROBE_CALLER(), REAL(pthread_rwlock_trywrlock)(l),
         REAL(pthread_rwlock_timedwrlock)(l, until));
}
PROBE_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_SHARED, PROBE_CALLER(), REAL(pthread_rwlock_tryrdlock)(l),
         REAL(pthread_rwlock_clockrdlock)(l, clock, until));
}
PROBE_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *until) {
    LOCK(l, KASURI_LOCK_EXCLUSIVE, PROBE_CALLER(), REAL(pthread_rwlock_trywrlock)(l),
         REAL(pthread_rwlock_clockwrlock)(l, clock, until));
}

/* A try that fails waits for nothing: only one that gets the lock is recorded. */
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

/* Release and record it. The mode is read before the release: afterwards the lock may be another thread's. */
__attribute__((noinline)) static int unlock_recorded(pthread_rwlock_t *l) {
    uint64_t stamp;
    uint32_t mode;
    int r;
    if (KASURI__UNLIKELY(!probe_on()))
        return REAL(pthread_rwlock_unlock)(l);
    /* Only the holder calls unlock, so the lock cannot change its kind between this line and the release. */
    mode = writer_of(l) ? KASURI_LOCK_EXCLUSIVE : KASURI_LOCK_SHARED;
    /* The stamp is from before the release: what follows it may be another thread's hold. */
    stamp = probe_leaving(l) ? kasuri__stamp() : 0;
    r = REAL(pthread_rwlock_unlock)(l);
    if (stamp && r == 0)
        probe_emit_left(l, mode, stamp);
    return r;
}
/* In light mode, while no hold of the thread is recorded, there is nothing to write and nothing to find out. */
PROBE_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l) {
    return KASURI__LIKELY(probe_counting != 0) ? RESOLVED(pthread_rwlock_unlock)(l) : unlock_recorded(l);
}

/* A new life of the address, as in pthread_mutex_init(). */
PROBE_EXPORT int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attributes) {
    int r = REAL(pthread_rwlock_init)(l, attributes);
    if (r == 0 && probe_on())
        probe_define(l, type_of(l), PROBE_CALLER());
    return r;
}
