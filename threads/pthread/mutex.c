/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutexes: ito's, in place (mutex_layout.h). Light and kernel threads wait for each other in one queue.
 *
 * Priority inheritance and ceilings are left out, as light threads have no priorities. A mutex that is shared with other
 * processes stays the C library's (its kind has more bits): kernel threads lock it as always, and a light thread tries
 * it again and again, since it must not hold up its worker. Robust ones need the kernel to know their owner: threads
 * that are created after the first of them are kernel threads.
 */
#include "light.h"

#define ADAPTIVE 3u

_Static_assert(sizeof(ito_mutex) <= sizeof(pthread_mutex_t), "it lies in one");
_Static_assert(offsetof(ito_mutex, kind) == offsetof(pthread_mutex_t, __data.__kind), "static initialisers fit");

/* ito's mutex; null: the C library's. Adaptive is a hint, which a static initialiser may give: racing threads all store
 * the same. */
static inline ito_mutex *own(pthread_mutex_t *mutex) {
    ito_mutex *m = (ito_mutex *)mutex;
    uint32_t kind = load_relaxed(&m->kind);
    if (UNLIKELY(kind == ADAPTIVE))
        store_relaxed(&m->kind, ITO_MUTEX_NORMAL);
    else if (UNLIKELY(kind > ITO_MUTEX_ERRORCHECK))
        return NULL;
    return m;
}

ito_mutex *light_mutex(pthread_mutex_t *mutex) {
    return own(mutex);
}

EXPORT int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr) {
    int type = PTHREAD_MUTEX_NORMAL, shared = PTHREAD_PROCESS_PRIVATE, robust = PTHREAD_MUTEX_STALLED,
        protocol = PTHREAD_PRIO_NONE;
    if (attr) {
        pthread_mutexattr_gettype(attr, &type);
        pthread_mutexattr_getpshared(attr, &shared);
        pthread_mutexattr_getrobust(attr, &robust);
        pthread_mutexattr_getprotocol(attr, &protocol);
    }
    if (robust == PTHREAD_MUTEX_ROBUST)
        light_stop("it has robust mutexes");
    else if (shared == PTHREAD_PROCESS_SHARED && protocol != PTHREAD_PRIO_NONE)
        light_stop("it has mutexes with priorities that other processes share");
    if (shared == PTHREAD_PROCESS_SHARED || robust == PTHREAD_MUTEX_ROBUST)
        return REAL(pthread_mutex_init)(mutex, attr);
    memset(mutex, 0, sizeof *mutex);
    ((ito_mutex *)mutex)->kind = type == (int)ADAPTIVE ? ITO_MUTEX_NORMAL : (uint32_t)type;
    return 0;
}

EXPORT int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    return m ? ito_mutex_destroy(m) : REAL(pthread_mutex_destroy)(mutex);
}

/* The C library's, by a light thread. One that has it already is told so, or has it once more, at once. */
static int shared_lock(pthread_mutex_t *mutex, uint64_t deadline_ns) {
    if (mutex->__data.__owner == tls_tid() && mutex->__data.__kind % 4 != PTHREAD_MUTEX_NORMAL)
        return REAL(pthread_mutex_lock)(mutex);
    for (unsigned turn = 0;; turn++) {
        int r = REAL(pthread_mutex_trylock)(mutex);
        if (r != EBUSY)
            return r;
        if (!light_pause(turn, deadline_ns))
            return ETIMEDOUT;
    }
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    if (LIKELY(m != NULL))
        return ito_mutex_lock(m);
    return light_here() ? shared_lock(mutex, ITO_FOREVER) : REAL(pthread_mutex_lock)(mutex);
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    return LIKELY(m != NULL) ? ito_mutex_trylock(m) : REAL(pthread_mutex_trylock)(mutex);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    return LIKELY(m != NULL) ? ito_mutex_unlock(m) : REAL(pthread_mutex_unlock)(mutex);
}

/* A time that is no time matters only where the caller would wait. */
EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    ito_mutex *m = own(mutex);
    uint64_t deadline_ns;
    if (m == NULL && !light_here())
        return REAL(pthread_mutex_clocklock)(mutex, clock, until);
    int r = pthread_mutex_trylock(mutex);
    if (r != EBUSY)
        return r;
    if (!light_deadline(clock, until, &deadline_ns))
        return EINVAL;
    return m ? ito_mutex_lock_until(m, deadline_ns) : shared_lock(mutex, deadline_ns);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    if (own(mutex) == NULL && !light_here())
        return REAL(pthread_mutex_timedlock)(mutex, until);
    return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}
