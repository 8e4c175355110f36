/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What `kasuri record --locks` is told about ito's locks. ITO__LOCKS_SEEN is one load and one branch in front of each
 * call; everything behind it is cold. The functions here end by calling the ones that run without a recorder.
 */
#ifndef ITO_LOCK_EVENTS_H
#define ITO_LOCK_EVENTS_H

#include "core/internal.h"

#include <ito/sync.h>
#include <kasuri.h>

#include <errno.h>
#include <stdbool.h>

/* A kind of lock in one mode; functions for the general pointer. */
struct ito__lock_call {
    int (*try)(void *lock); /* 0, EBUSY, or an error */
    int (*lock)(void *lock, uint64_t deadline_ns);
    uint32_t (*type)(const void *lock); /* enum kasuri_lock_type */
    uint32_t mode;                      /* enum kasuri_lock_mode */
};

#ifdef KASURI_DISABLE
#define ITO__LOCKS_SEEN 0
#else
#define ITO__LOCKS_SEEN __builtin_expect(__atomic_load_n(&ito__seeing_locks, __ATOMIC_RELAXED), 0)
#endif
#define ITO__CALLER __builtin_return_address(0)
#define ITO__SEEN_FN __attribute__((noinline, cold))

ITO__SEEN_FN int ito__seen_lock(const struct ito__lock_call *call, void *lock, uint64_t deadline_ns,
                                const void *caller);
ITO__SEEN_FN int ito__seen_try(const struct ito__lock_call *call, void *lock, const void *caller);
ITO__SEEN_FN int ito__seen_taken(const struct ito__lock_call *call, void *lock, const void *caller);
ITO__SEEN_FN int ito__seen_unlock(int (*unlock)(void *), void *lock);
ITO__SEEN_FN int ito__seen_cond_wait(int (*wait)(ito_cond *, ito_mutex *, uint64_t), ito_cond *c, ito_mutex *m,
                                     uint64_t deadline_ns, const void *caller);
ITO__SEEN_FN int ito__seen_sem_wait(int (*try)(ito_sem *), int (*wait)(ito_sem *, uint64_t), ito_sem *s,
                                    uint64_t deadline_ns, const void *caller);
/* A new recorder knows no lock; a new lock begins its life at this address. */
ITO__SEEN_FN void ito__locks_forget_all(void);
ITO__SEEN_FN void ito__lock_forget(const void *lock);

#endif
