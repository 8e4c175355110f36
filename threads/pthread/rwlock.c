/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Read-write locks: ito's, in place, but readers pass waiting writers while readers hold the lock (READER_WAITS in
 * ../src/sync/rwlock.c), as in the C library: a thread that reads may lock again to read. Not so
 * where PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP was asked for. One that is shared with other
 * processes stays the C library's and is marked behind its last field; a light thread tries it again and again.
 */
#include "light.h"

#include <string.h>

#define REAL_MARK 0x69746f72u

struct rwlock {
    ito_rwlock l;
    uint32_t glibc_flags;
    uint32_t mark;
};
_Static_assert(sizeof(struct rwlock) <= sizeof(pthread_rwlock_t), "it lies in one");
_Static_assert(offsetof(struct rwlock, mark) >= offsetof(pthread_rwlock_t, __data.__flags) + sizeof(int),
               "the mark is behind the C library's fields");
_Static_assert(offsetof(struct rwlock, glibc_flags) == offsetof(pthread_rwlock_t, __data.__flags) &&
                   offsetof(struct rwlock, glibc_flags) == sizeof(ito_rwlock),
               "PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, and READER_WAITS of ../src/sync/rwlock.c");
_Static_assert(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP == 2, "there, too");

static inline ito_rwlock *own(pthread_rwlock_t *lock) {
    struct rwlock *l = (struct rwlock *)lock;
    return LIKELY(load_relaxed(&l->mark) != REAL_MARK) ? &l->l : NULL;
}

EXPORT int pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attr) {
    int shared = PTHREAD_PROCESS_PRIVATE, kind = PTHREAD_RWLOCK_PREFER_READER_NP, r = 0;
    if (attr) {
        pthread_rwlockattr_getpshared(attr, &shared);
        pthread_rwlockattr_getkind_np(attr, &kind);
    }
    memset(lock, 0, sizeof *lock);
    ((struct rwlock *)lock)->glibc_flags = (uint32_t)kind;
    if (shared == PTHREAD_PROCESS_SHARED) {
        r = REAL(pthread_rwlock_init)(lock, attr);
        ((struct rwlock *)lock)->mark = REAL_MARK;
    }
    return r;
}

EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *lock) {
    ito_rwlock *l = own(lock);
    if (l == NULL)
        return REAL(pthread_rwlock_destroy)(lock);
    ito_rwlock_destroy(l); /* EBUSY where it is held: the C library does not tell that */
    return 0;
}

/* A thread that is sent a signal meanwhile is pinned, and waits on. */
static int own_lock(ito_rwlock *l, uint64_t deadline_ns, bool reads) {
    int r = reads ? ito_rwlock_tryrdlock(l) : ito_rwlock_trywrlock(l);
    if (LIKELY(r != EBUSY))
        return r;
    do {
        r = ECANCELED;
        if (light_hold_begin(&l->state, reads ? &l->readers : &l->writers))
            r = reads ? ito_rwlock_rdlock_until(l, deadline_ns) : ito_rwlock_wrlock_until(l, deadline_ns);
        light_hold_end();
    } while (r == ECANCELED);
    return r;
}

static int shared_lock(int (*try)(pthread_rwlock_t *), pthread_rwlock_t *lock, uint64_t deadline_ns) {
    for (unsigned turn = 0;; turn++) {
        int r = try(lock);
        if (r != EBUSY)
            return r;
        if (!light_pause(turn, deadline_ns))
            return ETIMEDOUT;
    }
}

EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) {
    ito_rwlock *l = own(lock);
    return l ? ito_rwlock_tryrdlock(l) : REAL(pthread_rwlock_tryrdlock)(lock);
}

EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *lock) {
    ito_rwlock *l = own(lock);
    return l ? ito_rwlock_trywrlock(l) : REAL(pthread_rwlock_trywrlock)(lock);
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    ito_rwlock *l = own(lock);
    if (LIKELY(l != NULL))
        return own_lock(l, ITO_FOREVER, true);
    return light_here() ? shared_lock(REAL(pthread_rwlock_tryrdlock), lock, ITO_FOREVER)
                        : REAL(pthread_rwlock_rdlock)(lock);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    ito_rwlock *l = own(lock);
    if (LIKELY(l != NULL))
        return own_lock(l, ITO_FOREVER, false);
    return light_here() ? shared_lock(REAL(pthread_rwlock_trywrlock), lock, ITO_FOREVER)
                        : REAL(pthread_rwlock_wrlock)(lock);
}

/* The C library, too, looks at the time first. */
EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    ito_rwlock *l = own(lock);
    uint64_t deadline_ns;
    if (l == NULL && !light_here())
        return REAL(pthread_rwlock_clockrdlock)(lock, clock, until);
    if (!light_deadline(clock, until, &deadline_ns))
        return EINVAL;
    int r = pthread_rwlock_tryrdlock(lock);
    if (r != EBUSY)
        return r;
    return l ? own_lock(l, deadline_ns, true) : shared_lock(REAL(pthread_rwlock_tryrdlock), lock, deadline_ns);
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    ito_rwlock *l = own(lock);
    uint64_t deadline_ns;
    if (l == NULL && !light_here())
        return REAL(pthread_rwlock_clockwrlock)(lock, clock, until);
    if (!light_deadline(clock, until, &deadline_ns))
        return EINVAL;
    int r = pthread_rwlock_trywrlock(lock);
    if (r != EBUSY)
        return r;
    return l ? own_lock(l, deadline_ns, false) : shared_lock(REAL(pthread_rwlock_trywrlock), lock, deadline_ns);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until) {
    if (own(lock) == NULL && !light_here())
        return REAL(pthread_rwlock_timedrdlock)(lock, until);
    return pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, until);
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until) {
    if (own(lock) == NULL && !light_here())
        return REAL(pthread_rwlock_timedwrlock)(lock, until);
    return pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, until);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    ito_rwlock *l = own(lock);
    return LIKELY(l != NULL) ? ito_rwlock_unlock(l) : REAL(pthread_rwlock_unlock)(lock);
}
