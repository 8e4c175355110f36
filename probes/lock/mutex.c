/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_mutex_*; C++ std::mutex, recursive_mutex and timed ones come through here.
 *
 * The ways through pthread_mutex_lock, the cheapest first:
 *   pthread_mutex_lock    light mode, known lock, counted: try_normal() and return
 *   lock_counted          the same, but the mutex is of another kind or not free: the count may be taken back
 *   lock_recorded         full mode, or light mode's sampled hold: try, then an event written inline (PROBE_TAKEN)
 *   lock_contended        not free: LOCK_REQUEST, the real function, LOCK_ACQUIRED or LOCK_GIVEN_UP
 *   lock_unrecorded       no recorder, or the first lock of the process, which attaches
 * Each is a function of its own that is left by a tail call, so that the cheap ways save no registers for the dear
 * ones. Fields of pthread_mutex_t: glibc's <bits/struct_mutex.h> (__lock: 0 free, 1 taken, 2 taken and perhaps waited
 * for; __owner: TID; __nusers: holders; __kind: type and flags).
 */
#include "probe.h"
#include "real.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The type from glibc's __kind: bits 0 and 1 are PTHREAD_MUTEX_*_NP of <pthread.h>, in the order of `types`; the flags
 * above them are those of nptl/pthreadP.h (ROBUST_NORMAL, PRIO_INHERIT, PRIO_PROTECT, PSHARED). */
static uint32_t type_of(const void *lock) {
    static const uint8_t types[4] = {KASURI_LOCK_MUTEX, KASURI_LOCK_RECURSIVE, KASURI_LOCK_ERRORCHECK,
                                     KASURI_LOCK_ADAPTIVE};
    const pthread_mutex_t *m = lock;
    uint32_t kind = (uint32_t)m->__data.__kind;
    return types[kind & 3] | (kind & 0x10 ? KASURI_LOCK_ROBUST : 0) | (kind & 0x20 ? KASURI_LOCK_INHERIT : 0) |
           (kind & 0x40 ? KASURI_LOCK_PROTECT : 0) | (kind & 0x80 ? KASURI_LOCK_PSHARED : 0);
}

/* The TID of the thread that holds the mutex, 0: none. ORDER relaxed: a hint; the holder may be another at the next
 * instant. */
static uint32_t holder_of(const pthread_mutex_t *m) {
    return (uint32_t)__atomic_load_n(&m->__data.__owner, __ATOMIC_RELAXED);
}

/* A robust mutex whose owner died is ours, with an error that the program must see. */
static int is_ours(int r) {
    return r == 0 || r == EOWNERDEAD;
}

#define ROBUST 0x10            /* of __kind */
#define HOLDER_MASK 0x3fffffff /* of __lock: the holder's tid, robust and inheriting mutexes */

/* The first look at a robust mutex, in place of a try. glibc's trylock of a robust mutex that cannot be recovered
 * leaves it taken, and the next lock waits for ever, where lock alone returns ENOTRECOVERABLE. Another thread may take
 * the mutex between the look and the lock; then that wait is not recorded. ORDER relaxed: the lock function that
 * follows decides. Return: EBUSY as trylock, or -1: looks free, lock it. */
__attribute__((noinline)) static int look(const pthread_mutex_t *m) {
    return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) & HOLDER_MASK ? EBUSY : -1;
}

/* The __kind of normal mutexes, process-private and without elision: 0, as nearly all are. It is -1, which no mutex
 * has, until probe_check_mutex() has seen that the C library treats them as try_normal() does. Written by the thread
 * that attaches and read without order: a thread that still reads -1 takes the C library's trylock, which is right for
 * every mutex. */
static int normal_kind = -1;

/* Take a normal mutex by the same stores as the C library's trylock. Its call, its jump table, and its load before the
 * atomic operation cost 3 ns more than its lock does, so a probe that called it would cost as much even if it did
 * nothing else. Return: as trylock, or -1 for another kind of mutex. */
static inline __attribute__((always_inline)) int try_normal(pthread_mutex_t *m, uint32_t tid) {
    int free = 0;
    if (KASURI__UNLIKELY(m->__data.__kind != normal_kind))
        return -1;
    /* ORDER acquire; pairs with the release in the C library's unlock. Publishes what the last holder wrote. Until
     * __owner is stored the mutex is taken and names no holder, as in glibc's lock: a thread that has to wait in this
     * moment records its request without one. */
    if (KASURI__UNLIKELY(
            !__atomic_compare_exchange_n(&m->__data.__lock, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        return EBUSY;
    /* Plain stores, as in glibc: only the holder writes these two, and the next holder reads them after its acquire. */
    m->__data.__owner = (int)tid;
    m->__data.__nusers++;
    return 0;
}

/* The first try of a mutex of any kind. Return: as trylock, or -1: a robust mutex that looks free. */
static inline __attribute__((always_inline)) int try_first(pthread_mutex_t *m) {
    if (KASURI__UNLIKELY(m->__data.__kind & ROBUST))
        return look(m);
    return RESOLVED(pthread_mutex_trylock)(m);
}

/* Whether the fields of a normal mutex have these values. */
static int looks(const pthread_mutex_t *m, int lock, int owner, unsigned users) {
    return m->__data.__kind == 0 && m->__data.__lock == lock && m->__data.__owner == owner &&
           m->__data.__nusers == users;
}
/* Lock, try and unlock a mutex of our own by the C library's functions, and compare its fields after each call with
 * those that try_normal() relies on. Any difference (another C library, or a later glibc) leaves normal_kind at -1, and
 * every mutex takes the C library's trylock. */
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

/* After the first try, which returned `r`: record the acquisition, or the wait and its end. A result that is neither
 * ours nor EBUSY is an error, or -1 for a robust mutex that looks free: then the function that the program called
 * decides, and its result is returned. */
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

/* Light mode: the acquisition was counted ahead, but the mutex is not a normal one (`r` is -1) or not free. If it
 * cannot be taken at once, the count is taken back: an acquisition that waits is always recorded whole. */
__attribute__((noinline)) static int lock_counted(pthread_mutex_t *m, int r, uintptr_t caller) {
    if (r < 0)
        r = try_first(m);
    if (KASURI__LIKELY(r == 0))
        return 0;
    /* The count comes back before the wait, not after it: a signal handler that locks meanwhile counts from the right
     * number. */
    probe_count_back(m);
    return lock_contended(m, r, caller);
}

/* The gate is not open, perhaps since this is the first lock of the process: probe_wake() then attaches. */
__attribute__((cold, noinline)) static int lock_unrecorded(pthread_mutex_t *m, uintptr_t caller) {
    if (!probe_wake())
        return REAL(pthread_mutex_lock)(m);
    return lock_contended(m, try_first(m), caller);
}

/* Full mode; in light mode the holds that are to be recorded, and locks that are new to the thread; and processes
 * without a recorder. Each call loads the gate, since the recorder may have left. Counted acquisitions do not: their
 * counters run down to one that does. */
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

/* Light mode's way is all in this function. Tail calls only, here and in unlock, so that it saves no registers. */
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

/* As lock, but rarely called: light mode has no way of its own here, and probe_taken() counts. */
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

/* Release and record it, with the stamp from before the release. The real unlock is called in between, so a waiting
 * thread does not wait for the event to be written. */
__attribute__((noinline)) static int unlock_recorded(pthread_mutex_t *m) {
    uint64_t stamp = kasuri__stamp();
    int r = RESOLVED(pthread_mutex_unlock)(m);
    if (KASURI__LIKELY(r == 0))
        probe_emit_left(m, 0, stamp);
    return r;
}
__attribute__((cold, noinline)) static int unlock_unrecorded(pthread_mutex_t *m) {
    /* A recorder may have come between the lock and this unlock: readers ignore an end without a beginning. */
    return probe_wake() && probe_leaving(m) ? unlock_recorded(m) : REAL(pthread_mutex_unlock)(m);
}

/* Light mode while some hold of the thread is recorded, perhaps this one; or a thread without memory of its own. */
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

/* An address may be used for one mutex after another: each initialisation begins a new life, and LOCK_DEFINE separates
 * their holds in the recording. */
PROBE_EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attributes) {
    int r = REAL(pthread_mutex_init)(m, attributes);
    if (r == 0 && probe_on())
        probe_define(m, type_of(m), PROBE_CALLER());
    return r;
}
