/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mtx_*: the mutexes of C11's <threads.h>. In glibc a mtx_t is the same object as a pthread_mutex_t, but its functions
 * call internal names of the C library and not the exported pthread ones, so they are interposed on their own. Results
 * are thrd_success, thrd_busy, thrd_timedout and thrd_error in place of errno values. cnd_* are in cond.c, thrd_join in
 * waits.c.
 */
#include "probe.h"
#include "real.h"

/* C11 has plain and recursive mutexes; bit 0 of glibc's __kind tells them apart. mtx_timed leaves no trace in the
 * object. */
static uint32_t type_of(const void *lock) {
    const pthread_mutex_t *m = lock;
    return m->__data.__kind & 1 ? KASURI_LOCK_RECURSIVE : KASURI_LOCK_MUTEX;
}

/* Try, then block, as CONTENDED in mutex.c. A try that fails for another reason than thrd_busy leads to the function
 * that the program called, so that its result comes back. */
#define LOCK(m, call)                                                                                                  \
    do {                                                                                                               \
        int r;                                                                                                         \
        if (!probe_on())                                                                                               \
            return (call);                                                                                             \
        r = REAL(mtx_trylock)(m);                                                                                      \
        if (r == thrd_success) {                                                                                       \
            probe_taken(m, 0, type_of, PROBE_CALLER());                                                                \
        } else if (r == thrd_busy) {                                                                                   \
            probe_request(m, KASURI_LOCK_EXCLUSIVE, type_of, (uint32_t)((pthread_mutex_t *)m)->__data.__owner,         \
                          PROBE_CALLER());                                                                             \
            r = (call);                                                                                                \
            probe_acquired(m, KASURI_LOCK_EXCLUSIVE, r == thrd_success);                                               \
        } else {                                                                                                       \
            r = (call);                                                                                                \
            if (r == thrd_success)                                                                                     \
                probe_taken(m, 0, type_of, PROBE_CALLER());                                                            \
        }                                                                                                              \
        return r;                                                                                                      \
    } while (0)

/* The result of mtx_lock is thrd_success or thrd_error, never thrd_busy: that comes from the try alone. */
PROBE_EXPORT int mtx_lock(mtx_t *m) {
    LOCK(m, REAL(mtx_lock)(m));
}
PROBE_EXPORT int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict until) {
    LOCK(m, REAL(mtx_timedlock)(m, until));
}
/* A try that fails waits for nothing: only one that gets the mutex is recorded. */
PROBE_EXPORT int mtx_trylock(mtx_t *m) {
    int r = REAL(mtx_trylock)(m);
    if (r == thrd_success && probe_on())
        probe_taken(m, 0, type_of, PROBE_CALLER());
    return r;
}
/* The stamp is read before the release, the event is written after it: the critical section does not grow by the time
 * that writing takes. Only a hold whose end is recorded (probe_leaving) needs the stamp. */
PROBE_EXPORT int mtx_unlock(mtx_t *m) {
    uint64_t stamp;
    int r;
    if (!probe_on())
        return REAL(mtx_unlock)(m);
    stamp = probe_leaving(m) ? kasuri__stamp() : 0;
    r = REAL(mtx_unlock)(m);
    if (stamp && r == thrd_success)
        probe_emit_left(m, 0, stamp);
    return r;
}
/* A new life of the address, as in pthread_mutex_init(). */
PROBE_EXPORT int mtx_init(mtx_t *m, int type) {
    int r = REAL(mtx_init)(m, type);
    if (r == thrd_success && probe_on())
        probe_define(m, type_of(m), PROBE_CALLER());
    return r;
}
