/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_mutex_*; C++ std::mutex, recursive_mutex and timed ones come through here. */
#include "probe.h"
#include "real.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t type_of(const void *lock) {
    /* glibc's kinds: sysdeps/nptl, PTHREAD_MUTEX_*_NP. */
    static const uint8_t types[4] = {KASURI_LOCK_MUTEX, KASURI_LOCK_RECURSIVE, KASURI_LOCK_ERRORCHECK,
                                     KASURI_LOCK_ADAPTIVE};
    const pthread_mutex_t *m = lock;
    uint32_t kind = (uint32_t)m->__data.__kind;
    return types[kind & 3] | (kind & 0x10 ? KASURI_LOCK_ROBUST : 0) | (kind & 0x20 ? KASURI_LOCK_INHERIT : 0) |
           (kind & 0x40 ? KASURI_LOCK_PROTECT : 0) | (kind & 0x80 ? KASURI_LOCK_PSHARED : 0);
}

/* ORDER relaxed: a hint; the holder may be another at the next instant. */
static uint32_t holder_of(const pthread_mutex_t *m) {
    return (uint32_t)__atomic_load_n(&m->__data.__owner, __ATOMIC_RELAXED);
}

/* A robust mutex whose owner died is ours, with an error that the program must see. */
static int is_ours(int r) {
    return r == 0 || r == EOWNERDEAD;
}

#define ROBUST 0x10            /* of __kind */
#define HOLDER_MASK 0x3fffffff /* of __lock: the holder's tid, robust and inheriting mutexes */

/* glibc's trylock of a robust mutex that cannot be recovered leaves it taken, and the next lock waits for ever,
 * where lock alone says ENOTRECOVERABLE. So a robust mutex is looked at and not tried. Another thread may take it in
 * between; then that wait is not recorded. ORDER relaxed: the lock function that follows decides. Return: as
 * trylock, or -1: looks free, lock it. */
__attribute__((noinline)) static int look(const pthread_mutex_t *m) {
    return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) & HOLDER_MASK ? EBUSY : -1;
}

/* __kind of normal mutexes, process-private, without elision: nearly all. Another, which no mutex has, until
 * probe_check_mutex() has seen that the C library treats them as below. */
static int normal_kind = -1;

/* What the C library's trylock does with them, here: its call and jump table, and its load before the atomic operation,
 * cost 3 ns more than its lock, so a probe that tried and did nothing else would cost as much. Return: as trylock, or
 * -1 for another kind of mutex. */
static inline __attribute__((always_inline)) int try_normal(pthread_mutex_t *m, uint32_t tid) {
    int free = 0;
    if (KASURI__UNLIKELY(m->__data.__kind != normal_kind))
        return -1;
    /* ORDER acquire; pairs with the release in the C library's unlock. */
    if (KASURI__UNLIKELY(
            !__atomic_compare_exchange_n(&m->__data.__lock, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        return EBUSY;
    m->__data.__owner = (int)tid;
    m->__data.__nusers++;
    return 0;
}

/* The first look at any mutex. */
static inline __attribute__((always_inline)) int try_first(pthread_mutex_t *m) {
    if (KASURI__UNLIKELY(m->__data.__kind & ROBUST))
        return look(m);
    return RESOLVED(pthread_mutex_trylock)(m);
}

static int looks(const pthread_mutex_t *m, int lock, int owner, unsigned users) {
    return m->__data.__kind == 0 && m->__data.__lock == lock && m->__data.__owner == owner &&
           m->__data.__nusers == users;
}
/* Lock, try and unlock one of our own by the C library's functions, and compare its fields after each with what
 * try_normal() relies on. Any difference leaves normal_kind at -1, and every mutex takes the C library's trylock. */
void probe_check_mutex(void) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    int tid = (int)syscall(SYS_gettid);
    int ok = looks(&m, 0, 0, 0);
    ok &= RESOLVED(pthread_mutex_lock)(&m) == 0 && looks(&m, 1, tid, 1);
    ok &= RESOLVED(pthread_mutex_unlock)(&m) == 0 && looks(&m, 0, 0, 0);
    ok &= RESOLVED(pthread_mutex_trylock)(&m) == 0 && looks(&m, 1, tid, 1);
    ok &= RESOLVED(pthread_mutex_trylock)(&m) == EBUSY && looks(&m, 1, tid, 1);
    ok &= RESOLVED(pthread_mutex_unlock)(&m) == 0 && looks(&m, 0, 0, 0);
    if (ok)
        normal_kind = 0;
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

/* The first try failed, or the mutex is of a kind whose first try is more than one line. */
__attribute__((noinline)) static int lock_contended(pthread_mutex_t *m, int r, uintptr_t caller) {
    CONTENDED(m, r, caller, REAL(pthread_mutex_lock)(m));
    return r;
}

/* Light mode, counted ahead, and not a normal mutex, or not free. */
__attribute__((noinline)) static int lock_counted(pthread_mutex_t *m, int r, uintptr_t caller) {
    if (r < 0)
        r = try_first(m);
    if (KASURI__LIKELY(r == 0))
        return 0;
    probe_count_back(m);
    return lock_contended(m, r, caller);
}

/* The gate is not open: perhaps since nobody has asked yet whether there is a recorder. */
__attribute__((cold, noinline)) static int lock_unrecorded(pthread_mutex_t *m, uintptr_t caller) {
    if (!probe_wake())
        return REAL(pthread_mutex_lock)(m);
    return lock_contended(m, try_first(m), caller);
}

/* The full mode; light mode's holds that are to be recorded, and locks that are new; a process that nobody records. */
__attribute__((noinline)) static int lock_recorded(pthread_mutex_t *m, uintptr_t caller) {
    struct probe_thread *t = probe_self;
    int r = -1;
    if (KASURI__UNLIKELY(kasuri__gate_load() != 1))
        return lock_unrecorded(m, caller);
    if (KASURI__LIKELY(t && t->tid))
        r = try_normal(m, t->tid);
    if (KASURI__UNLIKELY(r < 0))
        r = try_first(m);
    if (KASURI__UNLIKELY(r != 0))
        return lock_contended(m, r, caller);
    PROBE_TAKEN(m, type_of, caller);
}

/* Tail calls only, here and in unlock: no register is saved on the way of the light mode. */
PROBE_EXPORT int pthread_mutex_lock(pthread_mutex_t *m) {
    const struct probe_thread *t = probe_count_ahead(m);
    int r;
    if (KASURI__UNLIKELY(!t))
        return lock_recorded(m, PROBE_CALLER());
    r = try_normal(m, t->tid);
    return KASURI__LIKELY(r == 0) ? 0 : lock_counted(m, r, PROBE_CALLER());
}

/* A try that fails waits for nothing, so only one that gets the mutex is recorded. */
PROBE_EXPORT int pthread_mutex_trylock(pthread_mutex_t *m) {
    int r = REAL(pthread_mutex_trylock)(m);
    if (is_ours(r) && probe_on())
        probe_taken(m, 0, type_of, PROBE_CALLER());
    return r;
}

/* As lock, but rarely called: so no way of its own for light mode. */
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

/* Light mode while some hold of the thread is recorded, perhaps this one; or a thread that has recorded none. */
__attribute__((noinline)) static int unlock_sampled(pthread_mutex_t *m) {
    return probe_leaving(m) ? unlock_recorded(m) : RESOLVED(pthread_mutex_unlock)(m);
}

/* Three ways. In light mode, while no hold of the thread is being recorded, there is nothing to do. In full mode every
 * release is recorded. Otherwise it depends on whether this hold is one of those recorded. */
PROBE_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m) {
    if (KASURI__LIKELY(probe_counting != 0))
        return RESOLVED(pthread_mutex_unlock)(m);
    if (KASURI__UNLIKELY(kasuri__gate_load() != 1))
        return unlock_unrecorded(m);
    return probe_is_light ? unlock_sampled(m) : unlock_recorded(m);
}

/* An address may be used for one mutex after the other: each begins a life of its own. */
PROBE_EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attributes) {
    int r = REAL(pthread_mutex_init)(m, attributes);
    if (r == 0 && probe_on())
        probe_define(m, type_of(m), PROBE_CALLER());
    return r;
}
