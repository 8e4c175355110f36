/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Semaphores: ito's, in place, marked by sem_init. Named ones, and those that processes share, are the C library's: a
 * light thread tries them again and again.
 *
 * A kernel thread that waits may be interrupted by a signal's handler (EINTR), which ito's own wait does not tell; so
 * its wait is here.
 */
#include "light.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN_MARK 0x69746f73u
#define SEM_WAITERS 0x40000000u /* of ito_sem.state, as in ../src/sync/sem.c */

struct sem {
    ito_sem s;
    uint32_t reserved;
    uint32_t mark;
};
_Static_assert(sizeof(struct sem) <= sizeof(sem_t), "it lies in one");

static inline ito_sem *own(sem_t *sem) {
    struct sem *s = (struct sem *)sem;
    return LIKELY(load_relaxed(&s->mark) == OWN_MARK) ? &s->s : NULL;
}

static int fail(int error) {
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

EXPORT int sem_init(sem_t *sem, int shared, unsigned value) {
    memset(sem, 0, sizeof *sem);
    if (shared || value > ITO_SEM_MAX)
        return REAL(sem_init)(sem, shared, value);
    ito_sem_init(&((struct sem *)sem)->s, value);
    ((struct sem *)sem)->mark = OWN_MARK;
    return 0;
}

EXPORT int sem_destroy(sem_t *sem) {
    ito_sem *s = own(sem);
    if (s == NULL)
        return REAL(sem_destroy)(sem);
    int r = ito_sem_destroy(s);
    if (r == 0)
        store_relaxed(&((struct sem *)sem)->mark, 0);
    return fail(r);
}

EXPORT int sem_getvalue(sem_t *sem, int *value) {
    ito_sem *s = own(sem);
    if (s == NULL)
        return REAL(sem_getvalue)(sem, value);
    *value = (int)ito_sem_value(s);
    return 0;
}

EXPORT int sem_post(sem_t *sem) {
    ito_sem *s = own(sem);
    return LIKELY(s != NULL) ? fail(ito_sem_post(s)) : REAL(sem_post)(sem);
}

EXPORT int sem_trywait(sem_t *sem) {
    ito_sem *s = own(sem);
    if (UNLIKELY(s == NULL))
        return REAL(sem_trywait)(sem);
    return fail(ito_sem_trywait(s) ? EAGAIN : 0);
}

/* Sleeps until the waiter is woken, the deadline passes, or a handler has run. 0, or the kernel's error. */
static int sleep_once(struct ito_thread *me, uint64_t deadline_ns) {
    struct timespec at = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    long r = syscall(SYS_futex, &me->wake, FUTEX_WAIT_BITSET_PRIVATE, 0, deadline_ns == ITO_FOREVER ? NULL : &at, NULL,
                     FUTEX_BITSET_MATCH_ANY);
    return r == 0 ? 0 : errno;
}

/* The wait of a kernel thread: as ito's, but it takes itself off the queue again. */
static int kernel_wait(ito_sem *s, uint64_t deadline_ns) {
    struct ito__waiter w;
    struct ito_thread *me = ito__self();
    ito__waiter_init(&w);
    uint32_t state = ito__word_lock(&s->state);
    if (state & ITO_SEM_MAX) {
        ito__word_unlock(&s->state, state - 1);
        return 0;
    }
    ito__waiters_push(&s->waiters, &w);
    __atomic_fetch_add(&ito__n_foreign_waits, 1, __ATOMIC_RELAXED); /* as block_foreign(); ito__ready() takes it off */
    ito__word_unlock(&s->state, SEM_WAITERS);
    /* ORDER acquire; pairs with the release store in ito__ready(). Shows what the poster did before. */
    while (load_acquire(&me->wake) == 0) {
        int r = sleep_once(me, deadline_ns);
        if (r != EINTR && r != ETIMEDOUT)
            continue;
        state = ito__word_lock(&s->state);
        bool queued = w.queue != NULL;
        if (queued) {
            ito__waiters_remove(&w);
            __atomic_fetch_sub(&ito__n_foreign_waits, 1, __ATOMIC_RELAXED);
        }
        ito__word_unlock(&s->state, queued && s->waiters.head == NULL ? 0 : state);
        if (queued)
            return r;
        /* A post has taken it off: the unit comes. */
    }
    store_relaxed(&me->wake, 0);
    return w.result;
}

static int shared_wait(sem_t *sem, uint64_t deadline_ns) {
    for (unsigned turn = 0;; turn++) {
        if (REAL(sem_trywait)(sem) == 0)
            return 0;
        if (errno != EAGAIN)
            return errno;
        if (!light_pause(turn, deadline_ns))
            return ETIMEDOUT;
    }
}

static int sem_wait_until(sem_t *sem, uint64_t deadline_ns) {
    ito_sem *s = own(sem);
    if (s == NULL)
        return shared_wait(sem, deadline_ns);
    if (LIKELY(ito_sem_trywait(s) == 0))
        return 0;
    light_self.handled = false;
    for (;;) {
        int r = ECANCELED;
        if (light_wait_begin(&s->state, &s->waiters))
            r = light_here() ? ito_sem_wait_until(s, deadline_ns) : kernel_wait(s, deadline_ns);
        bool was_light = light_here();
        light_wait_end();
        if (r == ECANCELED && was_light && !light_here() && light_self.handled) /* pinned, for a signal */
            return EINTR;
        if (r != ECANCELED) /* else cancellation was disabled meanwhile, or it is pinned for another reason */
            return r;
    }
}

EXPORT int sem_wait(sem_t *sem) {
    if (UNLIKELY(own(sem) == NULL && !light_here()))
        return REAL(sem_wait)(sem);
    REAL(pthread_testcancel)();
    return fail(sem_wait_until(sem, ITO_FOREVER));
}

/* A time that is no time matters only where the caller would wait. */
EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until) {
    uint64_t deadline_ns;
    if (UNLIKELY(own(sem) == NULL && !light_here()))
        return REAL(sem_clockwait)(sem, clock, until);
    if (!light_clock(clock))
        return fail(EINVAL);
    REAL(pthread_testcancel)();
    if (sem_trywait(sem) == 0)
        return 0;
    if (!light_deadline(clock, until, &deadline_ns))
        return fail(EINVAL);
    return fail(sem_wait_until(sem, deadline_ns));
}

EXPORT int sem_timedwait(sem_t *sem, const struct timespec *until) {
    if (UNLIKELY(own(sem) == NULL && !light_here()))
        return REAL(sem_timedwait)(sem, until);
    return sem_clockwait(sem, CLOCK_REALTIME, until);
}
