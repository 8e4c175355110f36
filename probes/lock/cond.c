/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_cond_wait and its variants. They release the mutex, so the hold of it ends before the sleep and a new hold
 * begins after it. The real function takes the mutex again by a call inside the C library, which cannot be
 * interposed: waiting for the mutex is part of the sleep. */
#include "wait.h"

#include <errno.h>

/* Write that the wait begins; and, where the hold of the mutex is recorded, that the hold ends. */
void probe_wait_begin(struct probe_wait *w, uint32_t kind, const void *object, const void *mutex, uintptr_t caller) {
    uint64_t stamp = kasuri__stamp();
    struct kasuri_site *site = probe_call_site(caller);
    w->kind = kind;
    w->object = object;
    w->mutex = 0;
    w->timed_out = 0;
    if (mutex && (!probe_is_light || (probe_self && probe_ends_recorded(probe_self, mutex)))) {
        probe_emit_left(mutex, 0, stamp);
        w->mutex = mutex;
    }
    kasuri__slow_at(site, site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0,
                    KASURI_EV_WAIT_BEGIN | 2u << 8 | kind << 16, 0, stamp, (uintptr_t)object, (uintptr_t)mutex);
}

/* Write that the wait has ended and the mutex is held again. Also called by a cancelled thread that unwinds: it
 * holds the mutex then, as POSIX says. */
void probe_wait_end(void *wait) {
    struct probe_wait *w = wait;
    uint64_t stamp = kasuri__stamp();
    probe_emit_long(KASURI_EV_WAIT_END, w->kind, w->object, w->timed_out ? 1 : 0, stamp);
    if (w->mutex && (!probe_is_light || (probe_self && probe_record_hold(probe_self, w->mutex, 0))))
        probe_emit_taken(w->mutex, 0, stamp);
}

/* Whether the mutex is not ours although the call returned: it never was, or it can not be repaired. */
static int without_mutex(int r) {
    return r == EPERM || r == ENOTRECOVERABLE;
}

/* The mutex counts as held again only where the call says that it is. */
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

/* C11: other results, same objects. */
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
