/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_cond_wait and its variants. They release the mutex, so the hold of it ends before the sleep and a new hold
 * begins after it. The real function takes the mutex again by a call inside the C library, which cannot be
 * interposed: waiting for the mutex is part of the sleep.
 *
 * The events of one wait, in full mode:
 *   LOCK_LEFT mutex       the hold ends (stamp: before the call)
 *   WAIT_BEGIN COND       object: the condition variable; second word: the mutex
 *   WAIT_END COND         second word: 1 if the time limit ended the wait
 *   LOCK_TAKEN mutex      a new hold begins (stamp: after the call)
 * probe_wait_begin() and probe_wait_end() also serve the waits without a mutex in waits.c.
 */
#include "wait.h"

#include <errno.h>

/* Write that the wait begins and, where the hold of the mutex is recorded, that the hold ends. In light mode most holds
 * are only counted; then `w->mutex` stays null, and probe_wait_end() begins no hold either. */
void probe_wait_begin(struct probe_wait *w, uint32_t kind, const void *object, const void *mutex, uintptr_t caller) {
    uint64_t stamp = kasuri__stamp();
    struct kasuri_site *site = probe_call_site(caller);
    w->kind = kind;
    w->object = object;
    w->mutex = 0;
    w->timed_out = 0;
    /* In light mode the hold ends here only if its beginning was recorded, as with any unlock. */
    if (mutex && (!probe_is_light || (probe_self && probe_ends_recorded(probe_self, mutex)))) {
        probe_emit_left(mutex, 0, stamp);
        w->mutex = mutex;
    }
    /* ORDER relaxed for the site's id: 0 has the slow path register the site (annotate/src/emit.h). */
    kasuri__slow_at(site, site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0,
                    KASURI_EV_WAIT_BEGIN | 2u << 8 | kind << 16, 0, stamp, (uintptr_t)object, (uintptr_t)mutex);
}

/* Write that the wait has ended and the mutex is held again. Also called by a cancelled thread that unwinds: POSIX
 * (pthread_cond_wait) has it take the mutex before its first cleanup handler runs. */
void probe_wait_end(void *wait) {
    struct probe_wait *w = wait;
    uint64_t stamp = probe_is_blind() ? 0 : kasuri__stamp();
    if (!stamp)
        return;
    probe_emit_long(KASURI_EV_WAIT_END, w->kind, w->object, w->timed_out ? 1 : 0, stamp);
    if (w->mutex && (!probe_is_light || (probe_self && probe_record_hold(probe_self, w->mutex, 0))))
        probe_emit_taken(w->mutex, 0, stamp);
}

/* Whether the call returned without the mutex: the thread never held it (EPERM), or the mutex is robust and cannot be
 * recovered any more. */
static int without_mutex(int r) {
    return r == EPERM || r == ENOTRECOVERABLE;
}

/* One wait. The mutex counts as held again only where the call's result says so. PROBE_CALLER() is read here, in the
 * interposed function itself: its return address is the program's code. */
#define WAIT(c_, m_, call)                                                                                             \
    do {                                                                                                               \
        struct probe_wait w;                                                                                           \
        int r;                                                                                                         \
        if (KASURI__UNLIKELY(!probe_on()))                                                                             \
            return (call);                                                                                             \
        probe_wait_begin(&w, KASURI_WAIT_COND, c_, m_, PROBE_CALLER());                                                \
        PROBE_WAIT(r, w, call);                                                                                        \
        if (without_mutex(r))                                                                                          \
            w.mutex = 0;                                                                                               \
        w.timed_out = r == ETIMEDOUT;                                                                                  \
        probe_wait_end(&w);                                                                                            \
        return r;                                                                                                      \
    } while (0)

PROBE_EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    WAIT(c, m, REAL(pthread_cond_wait)(c, m));
}
PROBE_EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until) {
    WAIT(c, m, REAL(pthread_cond_timedwait)(c, m, until));
}
PROBE_EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                        const struct timespec *until) {
    WAIT(c, m, REAL(pthread_cond_clockwait)(c, m, clock, until));
}

/* The same for C11: other results, same objects. thrd_error may mean that the mutex was not ours; C11 does not say
 * which error it was, so no hold begins. */
#define C11_WAIT(c_, m_, call)                                                                                         \
    do {                                                                                                               \
        struct probe_wait w;                                                                                           \
        int r;                                                                                                         \
        if (KASURI__UNLIKELY(!probe_on()))                                                                             \
            return (call);                                                                                             \
        probe_wait_begin(&w, KASURI_WAIT_COND, c_, m_, PROBE_CALLER());                                                \
        PROBE_WAIT(r, w, call);                                                                                        \
        if (r == thrd_error)                                                                                           \
            w.mutex = 0;                                                                                               \
        w.timed_out = r == thrd_timedout;                                                                              \
        probe_wait_end(&w);                                                                                            \
        return r;                                                                                                      \
    } while (0)

PROBE_EXPORT int cnd_wait(cnd_t *c, mtx_t *m) {
    C11_WAIT(c, m, REAL(cnd_wait)(c, m));
}
PROBE_EXPORT int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict until) {
    C11_WAIT(c, m, REAL(cnd_timedwait)(c, m, until));
}
