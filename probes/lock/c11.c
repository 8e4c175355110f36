/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* mtx_*: in glibc the same object as pthread_mutex_t, but its functions do not go through the pthread ones. */
#include "probe.h"
#include "real.h"

/* C11 has two kinds. Whether a mutex can be waited for with a time limit does not show in its memory. */
static uint32_t type_of(const void *lock) {
    const pthread_mutex_t *m = lock;
    return m->__data.__kind & 1 ? KASURI_LOCK_RECURSIVE : KASURI_LOCK_MUTEX;
}

/* Try, then block, as for pthread_mutex_t; the results have other names. */
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

PROBE_EXPORT int mtx_lock(mtx_t *m) {
    LOCK(m, REAL(mtx_lock)(m));
}
PROBE_EXPORT int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict until) {
    LOCK(m, REAL(mtx_timedlock)(m, until));
}
PROBE_EXPORT int mtx_trylock(mtx_t *m) {
    int r = REAL(mtx_trylock)(m);
    if (r == thrd_success && probe_on())
        probe_taken(m, 0, type_of, PROBE_CALLER());
    return r;
}
/* The stamp is read before the release, the event is written after it. */
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
PROBE_EXPORT int mtx_init(mtx_t *m, int type) {
    int r = REAL(mtx_init)(m, type);
    if (r == thrd_success && probe_on())
        probe_define(m, type_of(m), PROBE_CALLER());
    return r;
}
