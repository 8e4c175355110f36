/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito's locks as Kasuri's events, those of the lock probe: docs/design/probe.md, "ito".
 *
 * A lock is tried; only what is busy is a request. The events are written after what they say, with a stamp taken next
 * to it: RELEASED when the lock is free. Each function that writes an event finds the ring of the kernel thread it runs
 * on anew: a blocking call in between may have moved the caller to another worker.
 */
#include "sync/lock_events.h"

#ifndef KASURI_DISABLE

#include "emit.h"

#define N_KNOWN 4096u            /* power of two; one that is forgotten is defined again, which readers expect */
static uintptr_t known[N_KNOWN]; /* relaxed: two threads that meet a lock at the same time define it twice */

/* The slot of a lock: the top 12 bits of a product with 2^64 / the golden ratio, as N_KNOWN is 2^12. The low three
 * bits of an address are 0. */
static uintptr_t *place_of(const void *lock) {
    return &known[((uintptr_t)lock >> 3) * 0x9e3779b97f4a7c15u >> 52];
}

/* A new recorder knows no lock: each is defined again when it is used next. */
void ito__locks_forget_all(void) {
    for (uint32_t i = 0; i < N_KNOWN; i++)
        store_relaxed(&known[i], 0);
}

/* The lock begins or ends its life: the address may become another lock. */
__attribute__((noinline)) void ito__lock_forget(const void *lock) {
    if (load_relaxed(place_of(lock)) == (uintptr_t)lock)
        store_relaxed(place_of(lock), 0);
}

/* -- single events -- */

/* LOCK_DEFINE with the type and the place of the first use; a second one with the symbol's name, if the lock is a
 * variable that has one. */
__attribute__((noinline)) static void define(const void *lock, uint32_t type, const void *caller, uint64_t stamp) {
    uint32_t name = ito__listener->name(lock);
    store_relaxed(place_of(lock), (uintptr_t)lock);
    kasuri__slow_at(0, (int32_t)ito__listener->name(caller),
                    KASURI_EV_LOCK_DEFINE | 2u << 8 | (type | KASURI_LOCK_ITO) << 16, 0, stamp, (uintptr_t)lock, 0);
    if (name)
        kasuri__slow_at(0, (int32_t)name, KASURI_EV_LOCK_DEFINE | 2u << 8 | KASURI_LOCK_SYMBOL << 16, 0, stamp,
                        (uintptr_t)lock, 0);
}

static inline void meet(const void *lock, uint32_t type, const void *caller, uint64_t stamp) {
    if (UNLIKELY(load_relaxed(place_of(lock)) != (uintptr_t)lock))
        define(lock, type, caller, stamp);
}

__attribute__((noinline)) static void taken(const void *lock, uint32_t mode) {
    uint64_t stamp = kasuri__stamp();
    if (mode == KASURI_LOCK_SHARED)
        probe_emit_long(KASURI_EV_LOCK_ACQUIRED, mode, lock, 0, stamp);
    else
        probe_emit_short(KASURI_EV_LOCK_TAKEN, KASURI_EV_LOCK_ACQUIRED, lock, stamp);
}

__attribute__((noinline)) static void left(const void *lock, uint64_t stamp) {
    probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, lock, stamp);
}

/* The holder is not told (0): ito's threads have no TID. */
__attribute__((noinline)) static void request(const void *lock, uint32_t type, uint32_t mode, const void *caller) {
    uint64_t stamp = kasuri__stamp();
    meet(lock, type, caller, stamp);
    kasuri__slow_at(0, (int32_t)ito__listener->name(caller), KASURI_EV_LOCK_REQUEST | 2u << 8 | mode << 16, 0, stamp,
                    (uintptr_t)lock, 0);
}

/* The end of a request. LOCK_ACQUIRED begins the hold; without the lock the wait is still kept. */
__attribute__((noinline)) static void requested(const void *lock, uint32_t mode, bool got) {
    probe_emit_long(got ? KASURI_EV_LOCK_ACQUIRED : KASURI_EV_LOCK_GIVEN_UP, mode, lock, 0, kasuri__stamp());
}

__attribute__((noinline)) static void wait_begins(uint32_t kind, const void *object, const void *with,
                                                  const void *caller) {
    uint64_t stamp = kasuri__stamp();
    kasuri__slow_at(0, (int32_t)ito__listener->name(caller), KASURI_EV_WAIT_BEGIN | 2u << 8 | kind << 16, 0, stamp,
                    (uintptr_t)object, (uintptr_t)with);
}

__attribute__((noinline)) static void wait_ends(uint32_t kind, const void *object) {
    probe_emit_long(KASURI_EV_WAIT_END, kind, object, 0, kasuri__stamp());
}

/* -- calls -- */

int ito__seen_lock(const struct ito__lock_call *call, void *lock, uint64_t deadline_ns, const void *caller) {
    int r = call->try(lock);
    if (r == EBUSY) {
        request(lock, call->type(lock), call->mode, caller);
        r = call->lock(lock, deadline_ns);
        requested(lock, call->mode, r == 0);
        return r;
    }
    /* Any other error is returned as the function that was called returns it. */
    if (r)
        r = call->lock(lock, deadline_ns);
    return r ? r : ito__seen_taken(call, lock, caller);
}

int ito__seen_try(const struct ito__lock_call *call, void *lock, const void *caller) {
    int r = call->try(lock);
    return r ? r : ito__seen_taken(call, lock, caller);
}

int ito__seen_taken(const struct ito__lock_call *call, void *lock, const void *caller) {
    if (UNLIKELY(load_relaxed(place_of(lock)) != (uintptr_t)lock))
        define(lock, call->type(lock), caller, kasuri__stamp());
    taken(lock, call->mode);
    return 0;
}

/* The stamp is from before the release, and the event comes after it: writing it makes nobody wait. */
int ito__seen_unlock(int (*unlock)(void *), void *lock) {
    uint64_t stamp = kasuri__stamp();
    int r = unlock(lock);
    if (!r)
        left(lock, stamp);
    return r;
}

int ito__seen_cond_wait(int (*wait)(ito_cond *, ito_mutex *, uint64_t), ito_cond *c, ito_mutex *m, uint64_t deadline_ns,
                        const void *caller) {
    uint64_t stamp = kasuri__stamp();
    left(m, stamp);
    wait_begins(KASURI_WAIT_COND, c, m, caller);
    int r = wait(c, m, deadline_ns);
    wait_ends(KASURI_WAIT_COND, c);
    if (r != EPERM) /* there the caller never had it */
        taken(m, KASURI_LOCK_EXCLUSIVE);
    return r;
}

/* A semaphore has no holder, so only waits are recorded. */
int ito__seen_sem_wait(int (*try)(ito_sem *), int (*wait)(ito_sem *, uint64_t), ito_sem *s, uint64_t deadline_ns,
                       const void *caller) {
    if (!try(s))
        return 0;
    wait_begins(KASURI_WAIT_SEM, s, NULL, caller);
    int r = wait(s, deadline_ns);
    wait_ends(KASURI_WAIT_SEM, s);
    return r;
}

#endif
