/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The lock probe: libkasuri-lock.so, preloaded by `kasuri record --locks`. Design: docs/design/probe.md.
 *
 * Files: mutex.c, rwlock.c, spin.c, c11.c, cond.c and waits.c have the interposed functions; real.c finds the functions
 * behind them; thread.c has what the probe keeps per thread and the choice of holds in light mode; site.c turns
 * addresses into names; ring.c is the annotation client; emit.h writes events.
 *
 * Each interposed function calls the real one and writes events into the calling thread's ring. Rules:
 *   - a lock is first tried; only after EBUSY is the blocking function called. The result and errno are those of the
 *     real functions;
 *   - a stamp is taken next to what it stamps, events are written after: RELEASED is written when the lock is free;
 *   - no allocation, no libc lock, no loader lock on any path that a program's lock call takes.
 */
#ifndef KASURI_PROBE_H
#define KASURI_PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "site.h"

#include "emit.h"

#include <stddef.h>

/* Exported functions come before the C library's. Hidden ones cannot be found by another module, and calls of them go
 * through no table. Cold functions lie together, away from the ways that every lock call takes. */
#define PROBE_EXPORT __attribute__((visibility("default")))
#define PROBE_HIDDEN __attribute__((visibility("hidden")))
#define PROBE_COLD __attribute__((cold, noinline, visibility("hidden")))
#define PROBE_CALLER() ((uintptr_t)__builtin_return_address(0))

#define PROBE_ENTRIES 256u /* locks that a thread remembers; power of two */
#define PROBE_RECORDED 64u /* holds of one thread that are recorded at once, light mode */
#define PROBE_INTERVAL 64u /* light mode: one hold in about so many is recorded */

/* A lock that this thread has used. Light mode counts down to the next hold that is recorded. */
struct probe_entry {
    uint64_t object;
    uint32_t until;    /* acquisitions to go, with the one that will be recorded */
    uint32_t interval; /* what `until` started from */
};

/* Light mode: a hold whose end must be recorded. */
struct probe_hold {
    uint64_t object;
    uint32_t nested; /* recursive acquisitions inside it */
    uint32_t mode;   /* KASURI_LOCK_SHARED, or short form */
};

/* The memory of one thread: a direct-mapped table of the locks it has used, and the recorded holds that are open, in
 * no order. Fork wipes it: a child starts afresh. Who writes and reads which field:
 *   entries, recorded, n_recorded   the owner and its signal handlers
 *   random, evictions               the owner and its signal handlers
 *   tid                             any new thread, by compare-and-swap (claim in thread.c); the owner reads it
 * A signal handler that locks may come between any two stores of its thread. Then a count is lost, or a hold is counted
 * that was to be recorded. No event is torn: the ring reserves room by one instruction. */
struct probe_thread {
    struct probe_entry entries[PROBE_ENTRIES];
    struct probe_hold recorded[PROBE_RECORDED];
    uint32_t n_recorded;
    uint32_t tid; /* 0: free */
    uint32_t random;
    uint32_t evictions;
};

/* The type of a lock, asked when a thread first uses it; the low byte and flags of enum kasuri_lock_type. */
typedef uint32_t probe_type_of(const void *lock);

extern __thread struct probe_thread *probe_self PROBE_HIDDEN __attribute__((tls_model("initial-exec")));
/* Light mode: probe_self while no hold of the thread is being recorded, the usual case; else null. So one test in lock
 * and unlock is enough to know that there is nothing to do but count. It is not reset when the gate closes: the
 * counters run down, and a thread whose counter is at its end looks at the gate. */
extern __thread struct probe_thread *probe_counting PROBE_HIDDEN __attribute__((tls_model("initial-exec")));
extern int probe_is_light PROBE_HIDDEN; /* set once, before the gate opens */

/* mutex.c, rwlock.c: whether the C library's locks have the layout that the fast paths know. Called once, after the
 * real functions were resolved. */
PROBE_COLD void probe_check_mutex(void);
PROBE_COLD void probe_check_rwlock(void);

/* thread.c */
PROBE_COLD int probe_wake(void);
PROBE_COLD struct probe_thread *probe_adopt(void);
PROBE_COLD void probe_meet(struct probe_thread *t, struct probe_entry *e, const void *lock, probe_type_of *type_of,
                           uintptr_t caller, uint64_t stamp);
PROBE_COLD void probe_define(const void *lock, uint32_t type, uintptr_t caller);
PROBE_COLD void probe_sample(struct probe_thread *t, struct probe_entry *e, uint64_t stamp, uint32_t shared);
PROBE_COLD void probe_nested(struct probe_thread *t, struct probe_entry *e, const void *lock, uint32_t shared);
/* For tail calls: these return 0. */
PROBE_COLD int probe_taken_slowly(const void *lock, probe_type_of *type_of, uintptr_t caller, uint64_t stamp);
PROBE_COLD int probe_taken_reserved(const void *lock, uint64_t stamp, uint64_t pos);
PROBE_COLD void probe_taken_shared(const void *lock, probe_type_of *type_of, uintptr_t caller, uint64_t stamp);
PROBE_COLD int probe_ends_recorded(struct probe_thread *t, const void *lock);
PROBE_COLD int probe_record_hold(struct probe_thread *t, const void *lock, uint32_t shared);
PROBE_COLD void probe_request(const void *lock, uint32_t mode, probe_type_of *type_of, uint32_t holder,
                              uintptr_t caller);
PROBE_COLD void probe_acquired(const void *lock, uint32_t mode, int got);

/* Whether to record. The first call decides, see probe_wake. */
static inline __attribute__((always_inline)) int probe_on(void) {
    return KASURI__LIKELY(kasuri__gate_load() == 1) || probe_wake();
}

/* Whether a signal handler that interrupted a wait has confined the program so that no clock may be read (confine.c). */
static inline int probe_is_blind(void) {
    return KASURI__UNLIKELY(kasuri__is_confined() && kasuri__gate_load() != 1);
}

/* The hold begins. The short event is what nearly all holds are written as; it has no room for a mode. */
static inline __attribute__((always_inline)) void probe_emit_taken(const void *lock, uint32_t shared, uint64_t stamp) {
    if (shared)
        probe_emit_long(KASURI_EV_LOCK_ACQUIRED, KASURI_LOCK_SHARED, lock, 0, stamp);
    else
        probe_emit_short(KASURI_EV_LOCK_TAKEN, KASURI_EV_LOCK_ACQUIRED, lock, stamp);
}
/* The hold ends, in the form in which it began. */
static inline __attribute__((always_inline)) void probe_emit_left(const void *lock, uint32_t shared, uint64_t stamp) {
    if (shared)
        probe_emit_long(KASURI_EV_LOCK_RELEASED, KASURI_LOCK_SHARED, lock, 0, stamp);
    else
        probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, lock, stamp);
}

static inline __attribute__((always_inline)) struct probe_entry *probe_entry_of(struct probe_thread *t,
                                                                                const void *lock) {
    /* Locks are aligned, so the low bits say nothing; the upper ones part locks that lie in equal structures. */
    return &t->entries[((uintptr_t)lock >> 3 ^ (uintptr_t)lock >> 11) % PROBE_ENTRIES];
}

/* What `until` of an entry says:
 *   > 1   that many acquisitions until one is recorded, this one not counted: count it here and go on
 *   1     this acquisition is to be recorded
 *   0     as 1; a signal handler that locked between the look and the store below has counted the last one
 *
 * Light mode: counts the acquisition before it is tried, so that nothing is left to do between the lock's own atomic
 * operations; a store there waits for the one and holds up the other. Return: null when it is to be recorded, or the
 * lock is new, or the mode is another; else the thread. A signal handler that locks in between loses at most its own
 * count. The pointer is the parent's in a forked child; the entries are wiped then, and none is ours. */
static inline __attribute__((always_inline)) const struct probe_thread *probe_count_ahead(const void *lock) {
    struct probe_thread *t = probe_counting;
    struct probe_entry *e;
    if (KASURI__UNLIKELY(!t))
        return 0;
    e = probe_entry_of(t, lock);
    if (KASURI__UNLIKELY(e->object != (uintptr_t)lock || e->until <= 1))
        return 0;
    /* No atomic operation: the entry is the thread's own. */
    e->until--;
    return t;
}
/* The try that was counted failed. */
static inline __attribute__((always_inline)) void probe_count_back(const void *lock) {
    probe_entry_of(probe_self, lock)->until++;
}

/* The lock was free and is ours, and was not counted ahead. In full mode this writes LOCK_TAKEN inline, inside the
 * critical section, with no call and few registers; all rarer cases are behind one tail call. It ends the function that
 * uses it, with result 0. Addresses of more than 47 bits do not fit into word 1 and take the long event. */
#define PROBE_TAKEN(lock, type_of, caller)                                                                             \
    do {                                                                                                               \
        struct probe_thread *t_ = probe_self;                                                                          \
        const uint64_t stamp_ = probe_is_light ? 0 : kasuri__stamp();                                                  \
        struct kasuri__writer *w_ = kasuri__writer;                                                                    \
        if (KASURI__LIKELY(stamp_ && t_ && w_ && probe_entry_of(t_, lock)->object == (uintptr_t)(lock) &&              \
                           !((uintptr_t)(lock) >> 47))) {                                                              \
            /* Word 1 has the address in place of aux and site. */                                                     \
            const uint64_t word_ = KASURI_EV_LOCK_TAKEN | 1u << 8 | (uint64_t)(uintptr_t)(lock) << 16;                 \
            kasuri__word pos_;                                                                                         \
            if (kasuri__write1_at(w_, &pos_, (uint32_t)word_, (int32_t)(word_ >> 32), stamp_))                         \
                return 0;                                                                                              \
            return probe_taken_reserved(lock, stamp_, pos_);                                                           \
        }                                                                                                              \
        return probe_taken_slowly(lock, type_of, caller, stamp_);                                                      \
    } while (0)

/* The same where a few ns more do not matter, and for the shared mode. */
static inline __attribute__((always_inline)) void probe_taken(const void *lock, uint32_t shared, probe_type_of *type_of,
                                                              uintptr_t caller) {
    if (shared)
        probe_taken_shared(lock, type_of, caller, probe_is_light ? 0 : kasuri__stamp());
    else
        (void)probe_taken_slowly(lock, type_of, caller, probe_is_light ? 0 : kasuri__stamp());
}

/* Before the real unlock: whether its release is to be recorded. */
static inline __attribute__((always_inline)) int probe_leaving(const void *lock) {
    struct probe_thread *t;
    if (KASURI__LIKELY(!probe_is_light))
        return 1;
    t = probe_self;
    return KASURI__UNLIKELY(t && t->n_recorded) && probe_ends_recorded(t, lock);
}

#endif
