/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Conditions: ito's, in place. One that is shared with other processes stays the C library's, which marks it by bit 0 of
 * a word, __wrefs. Where that lies depends on the C library that is loaded (behind 36 bytes, from 2.41 on behind 28): it
 * is looked up in a condition that the C library makes. ito's has bit 0 clear in both places.
 */
#include "light.h"

#include <string.h>

struct cond {
    ito_cond c;
    uint32_t clock; /* clockid_t of pthread_cond_timedwait */
    uint32_t zero;
};
_Static_assert(sizeof(struct cond) <= sizeof(pthread_cond_t), "it lies in one");
#if UINTPTR_MAX > UINT32_MAX
_Static_assert(offsetof(ito_cond, timed) == 28 && offsetof(struct cond, zero) == 36, "no pointer lies over the mark");
#endif

static size_t mark_at = offsetof(pthread_cond_t, __data.__wrefs) / sizeof(uint32_t);

static __attribute__((constructor)) void find_mark(void) {
    uint32_t words[sizeof(pthread_cond_t) / sizeof(uint32_t)] = {0};
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    REAL(pthread_cond_init)((pthread_cond_t *)words, &attr);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i] == 1)
            mark_at = i;
}

/* Bit 0: it is shared. Bit 1: it is timed by CLOCK_MONOTONIC. */
static inline uint32_t mark_of(const pthread_cond_t *cond) {
    return load_relaxed((const uint32_t *)cond + mark_at);
}
static inline struct cond *own(pthread_cond_t *cond) {
    return LIKELY((mark_of(cond) & 1) == 0) ? (struct cond *)cond : NULL;
}

EXPORT int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr) {
    int shared = PTHREAD_PROCESS_PRIVATE;
    clockid_t clock = CLOCK_REALTIME;
    if (attr) {
        pthread_condattr_getpshared(attr, &shared);
        pthread_condattr_getclock(attr, &clock);
    }
    if (shared == PTHREAD_PROCESS_SHARED)
        return REAL(pthread_cond_init)(cond, attr);
    memset(cond, 0, sizeof *cond);
    ((struct cond *)cond)->clock = (uint32_t)clock;
    return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *cond) {
    struct cond *c = own(cond);
    return c ? ito_cond_destroy(&c->c) : REAL(pthread_cond_destroy)(cond);
}

/*
 * The C library's, by a light thread: it waits a millisecond, then lets others run and returns. POSIX allows a wait to
 * return without a signal, and programs look whether what they wait for has come.
 */
static int shared_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_ns) {
    struct timespec soon;
    if (light_mutex(mutex))
        return EINVAL; /* a condition that processes share, with a mutex that they do not */
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 1000000;
    if (soon.tv_nsec >= 1000000000)
        soon.tv_sec++, soon.tv_nsec -= 1000000000;
    int r = REAL(pthread_cond_clockwait)(cond, mutex, CLOCK_REALTIME, &soon); /* whatever clock it was made with */
    if (r != ETIMEDOUT)
        return r;
    pthread_mutex_unlock(mutex);
    ito_yield();
    r = pthread_mutex_lock(mutex);
    return r ? r : ito__passed(deadline_ns) ? ETIMEDOUT : 0;
}

static int cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_ns) {
    struct cond *c = own(cond);
    ito_mutex *m = light_mutex(mutex);
    REAL(pthread_testcancel)();
    if (UNLIKELY(c == NULL))
        return shared_wait(cond, mutex, deadline_ns);
    if (UNLIKELY(m == NULL))
        return EINVAL; /* the other way round */
    int r = 0;
    /* Cut short by a cancellation it returns 0, and holds the mutex. */
    if (light_wait_begin(&c->c.word, &c->c.waiters))
        r = deadline_ns == ITO_FOREVER ? ito_cond_wait(&c->c, m) : ito_cond_wait_until(&c->c, m, deadline_ns);
    light_wait_end();
    return r;
}

EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    if (UNLIKELY(own(cond) == NULL && !light_here()))
        return REAL(pthread_cond_wait)(cond, mutex);
    return cond_wait(cond, mutex, ITO_FOREVER);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *until) {
    uint64_t deadline_ns;
    if (UNLIKELY(own(cond) == NULL && !light_here()))
        return REAL(pthread_cond_clockwait)(cond, mutex, clock, until);
    if (!light_deadline(clock, until, &deadline_ns))
        return EINVAL;
    return cond_wait(cond, mutex, deadline_ns);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    struct cond *c = own(cond);
    if (UNLIKELY(c == NULL && !light_here()))
        return REAL(pthread_cond_timedwait)(cond, mutex, until);
    clockid_t of_shared = mark_of(cond) & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return pthread_cond_clockwait(cond, mutex, c ? (clockid_t)c->clock : of_shared, until);
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond) {
    struct cond *c = own(cond);
    return LIKELY(c != NULL) ? ito_cond_signal(&c->c) : REAL(pthread_cond_signal)(cond);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond) {
    struct cond *c = own(cond);
    return LIKELY(c != NULL) ? ito_cond_broadcast(&c->c) : REAL(pthread_cond_broadcast)(cond);
}
