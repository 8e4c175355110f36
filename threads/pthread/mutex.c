/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutexes: ito's, in place (mutex_layout.h). Light and kernel threads wait for each other in one queue.
 *
 * Priority inheritance and ceilings are left out, as light threads have no priorities. A mutex that is shared with other
 * processes, or robust, stays the C library's (its kind has more bits): kernel threads lock it as always. A light thread
 * tries a plain shared one again and again, since it must not hold up its worker; for one that knows its owner it is
 * pinned.
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
        protocol = PTHREAD_PRIO_NONE, ceiling = 0;
    if (attr) {
        pthread_mutexattr_gettype(attr, &type);
        pthread_mutexattr_getpshared(attr, &shared);
        pthread_mutexattr_getrobust(attr, &robust);
        pthread_mutexattr_getprotocol(attr, &protocol);
    }
    if (shared == PTHREAD_PROCESS_SHARED || robust == PTHREAD_MUTEX_ROBUST)
        return REAL(pthread_mutex_init)(mutex, attr);
    memset(mutex, 0, sizeof *mutex);
    if (protocol == PTHREAD_PRIO_PROTECT) {
        pthread_mutexattr_getprioceiling(attr, &ceiling);
        ((ito_mutex *)mutex)->reserved_too = (uint32_t)ceiling;
    }
    ((ito_mutex *)mutex)->kind = type == (int)ADAPTIVE ? ITO_MUTEX_NORMAL : (uint32_t)type;
    return 0;
}

/* A ceiling is kept, and has no effect. */
EXPORT int pthread_mutex_getprioceiling(const pthread_mutex_t *mutex, int *ceiling) {
    const ito_mutex *m = own((pthread_mutex_t *)mutex);
    if (m == NULL)
        return REAL(pthread_mutex_getprioceiling)(mutex, ceiling);
    *ceiling = (int)m->reserved_too;
    return m->reserved_too ? 0 : EINVAL;
}

EXPORT int pthread_mutex_setprioceiling(pthread_mutex_t *mutex, int ceiling, int *old) {
    ito_mutex *m = own(mutex);
    if (m == NULL)
        return REAL(pthread_mutex_setprioceiling)(mutex, ceiling, old);
    if (m->reserved_too == 0 || ceiling < sched_get_priority_min(SCHED_FIFO) ||
        ceiling > sched_get_priority_max(SCHED_FIFO))
        return EINVAL;
    int r = ito_mutex_lock(m);
    if (r)
        return r;
    *old = (int)m->reserved_too;
    m->reserved_too = (uint32_t)ceiling;
    return ito_mutex_unlock(m);
}

EXPORT int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    return m ? ito_mutex_destroy(m) : REAL(pthread_mutex_destroy)(mutex);
}

/* The C library's where a thread must be told apart from others: by its owner's number, which a pinned thread changes,
 * or by the kernel. */
static bool needs_kernel(const pthread_mutex_t *mutex) {
    int kind = load_relaxed(&mutex->__data.__kind);
    return (kind & ~0x80) != PTHREAD_MUTEX_NORMAL; /* 0x80: shared */
}
static bool is_light_for(const pthread_mutex_t *mutex) {
    return light_here() && !(needs_kernel(mutex) && light_pin("a mutex that knows its owner"));
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

/* By a thread that may be unwound anywhere: it must not lie in a queue. */
static int async_lock(ito_mutex *m) {
    for (unsigned turn = 0;; turn++) {
        int r = load_relaxed(&m->owner) == ito__me() ? ito_mutex_lock(m) : ito_mutex_trylock(m);
        if (r != EBUSY)
            return r;
        REAL(nanosleep)(&(struct timespec){0, turn < 10 ? 50000 : 1000000}, NULL);
    }
}

/* A thread that is sent a signal meanwhile is pinned, and waits on. One that holds it already is told so, or has it once
 * more, without a wait. */
static int own_lock(ito_mutex *m, uint64_t deadline_ns) {
    int r;
    if (UNLIKELY(light_self.async))
        return async_lock(m);
    if (load_relaxed(&m->owner) == ito__me())
        return ito_mutex_lock(m);
    do {
        r = ECANCELED;
        if (light_hold_begin(&m->state, &m->waiters))
            r = ito_mutex_lock_until(m, deadline_ns);
        light_hold_end();
    } while (r == ECANCELED);
    return r;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    if (LIKELY(m != NULL)) {
        int r = ito_mutex_trylock(m);
        return LIKELY(r != EBUSY) ? r : own_lock(m, ITO_FOREVER);
    }
    return is_light_for(mutex) ? shared_lock(mutex, ITO_FOREVER) : REAL(pthread_mutex_lock)(mutex);
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    if (LIKELY(m != NULL))
        return ito_mutex_trylock(m);
    is_light_for(mutex);
    return REAL(pthread_mutex_trylock)(mutex);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    ito_mutex *m = own(mutex);
    return LIKELY(m != NULL) ? ito_mutex_unlock(m) : REAL(pthread_mutex_unlock)(mutex);
}

/* A time that is no time matters only where the caller would wait. */
EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    ito_mutex *m = own(mutex);
    uint64_t deadline_ns;
    if (m == NULL && !is_light_for(mutex))
        return REAL(pthread_mutex_clocklock)(mutex, clock, until);
    if (!light_clock(clock))
        return EINVAL;
    int r = pthread_mutex_trylock(mutex);
    if (r != EBUSY)
        return r;
    if (!light_deadline(clock, until, &deadline_ns))
        return EINVAL;
    return m ? own_lock(m, deadline_ns) : shared_lock(mutex, deadline_ns);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    if (own(mutex) == NULL && !is_light_for(mutex))
        return REAL(pthread_mutex_timedlock)(mutex, until);
    return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}
