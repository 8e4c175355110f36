/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions by which threads wait for each other and wake each other. Each pays before it does anything that
 * another thread may see; a wait that another thread ended is credited. A wait that ended by its time limit is not: in
 * the faster program it would have taken as long.
 *
 * The result and errno are those of the real functions.
 */
#include "whatif.h"

#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_ours(int r) {
    return r == 0 || r == EOWNERDEAD;
}

/* A call that may wait. `try`: 0 when there was no need to. */
#define WAIT(try, call)                                                                                                \
    do {                                                                                                               \
        uint64_t before;                                                                                               \
        int r;                                                                                                         \
        if (!whatif_on)                                                                                                \
            return (call);                                                                                             \
        whatif_pay();                                                                                                  \
        r = (try);                                                                                                     \
        if (r != EBUSY)                                                                                                \
            return r;                                                                                                  \
        before = whatif_before_wait();                                                                                 \
        r = (call);                                                                                                    \
        if (is_ours(r))                                                                                                \
            whatif_after_wait(before);                                                                                 \
        return r;                                                                                                      \
    } while (0)

/* -- mutexes -- */

/* Robust mutexes are not tried: glibc's trylock leaves one that cannot be recovered taken (probes/lock/mutex.c). */
static int try_mutex(pthread_mutex_t *m) {
    return m->__data.__kind & 0x10 ? EBUSY : RESOLVED(pthread_mutex_trylock)(m);
}

/* Inlined into each way to lock: the hold begins where the mutex is ours. */
static int locked(pthread_mutex_t *m, int r) {
    if (is_ours(r) && whatif_is_chosen(m))
        whatif_enter();
    return r;
}
static int lock(pthread_mutex_t *m) {
    WAIT(try_mutex(m), RESOLVED(pthread_mutex_lock)(m));
}
static int timedlock(pthread_mutex_t *m, const struct timespec *until) {
    WAIT(try_mutex(m), RESOLVED(pthread_mutex_timedlock)(m, until));
}
static int clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *until) {
    WAIT(try_mutex(m), RESOLVED(pthread_mutex_clocklock)(m, clock, until));
}

WHATIF_EXPORT int pthread_mutex_lock(pthread_mutex_t *m) {
    return whatif_on ? locked(m, lock(m)) : REAL(pthread_mutex_lock)(m);
}
WHATIF_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict m, const struct timespec *restrict until) {
    return whatif_on ? locked(m, timedlock(m, until)) : REAL(pthread_mutex_timedlock)(m, until);
}
WHATIF_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict m, clockid_t clock,
                                          const struct timespec *restrict until) {
    return whatif_on ? locked(m, clocklock(m, clock, until)) : REAL(pthread_mutex_clocklock)(m, clock, until);
}
WHATIF_EXPORT int pthread_mutex_trylock(pthread_mutex_t *m) {
    if (whatif_on) {
        whatif_pay();
        return locked(m, RESOLVED(pthread_mutex_trylock)(m));
    }
    return REAL(pthread_mutex_trylock)(m);
}
WHATIF_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m) {
    if (whatif_on) {
        if (whatif_is_chosen(m))
            whatif_leave();
        whatif_pay();
    }
    return REAL(pthread_mutex_unlock)(m);
}

/* -- read-write locks: to wait for, not to choose -- */

#define RWLOCK(name, try, parameters, ...)                                                                             \
    WHATIF_EXPORT int pthread_rwlock_##name parameters {                                                               \
        WAIT(REAL(pthread_rwlock_##try)(l), REAL(pthread_rwlock_##name)(__VA_ARGS__));                                 \
    }
RWLOCK(rdlock, tryrdlock, (pthread_rwlock_t * l), l)
RWLOCK(wrlock, trywrlock, (pthread_rwlock_t * l), l)
RWLOCK(timedrdlock, tryrdlock, (pthread_rwlock_t *restrict l, const struct timespec *restrict t), l, t)
RWLOCK(timedwrlock, trywrlock, (pthread_rwlock_t *restrict l, const struct timespec *restrict t), l, t)
WHATIF_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l) {
    if (whatif_on)
        whatif_pay();
    return REAL(pthread_rwlock_unlock)(l);
}

WHATIF_EXPORT int pthread_spin_lock(pthread_spinlock_t *l) {
    WAIT(REAL(pthread_spin_trylock)(l), REAL(pthread_spin_lock)(l));
}
WHATIF_EXPORT int pthread_spin_unlock(pthread_spinlock_t *l) {
    if (whatif_on)
        whatif_pay();
    return REAL(pthread_spin_unlock)(l);
}

/* -- condition variables: the mutex is given back and taken again -- */

struct cond_wait {
    uint64_t before;
    int chosen, timed_out;
};
static void begin(struct cond_wait *w, const pthread_mutex_t *m) {
    w->chosen = whatif_is_chosen(m);
    w->timed_out = 0;
    if (w->chosen)
        whatif_leave();
    whatif_pay();
    w->before = whatif_before_wait();
}
/* Also where the waiter is cancelled: its handlers run with the mutex held. */
static void finish(void *wait) {
    struct cond_wait *w = wait;
    if (!w->timed_out)
        whatif_after_wait(w->before);
    if (w->chosen)
        whatif_enter();
}
#define COND(call)                                                                                                     \
    do {                                                                                                               \
        struct cond_wait w;                                                                                            \
        int r;                                                                                                         \
        if (!whatif_on)                                                                                                \
            return (call);                                                                                             \
        begin(&w, m);                                                                                                  \
        pthread_cleanup_push(finish, &w);                                                                              \
        r = (call);                                                                                                    \
        w.timed_out = r == ETIMEDOUT;                                                                                  \
        pthread_cleanup_pop(1);                                                                                        \
        return r;                                                                                                      \
    } while (0)
WHATIF_EXPORT int pthread_cond_wait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m) {
    COND(REAL(pthread_cond_wait)(c, m));
}
WHATIF_EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                                         const struct timespec *restrict until) {
    COND(REAL(pthread_cond_timedwait)(c, m, until));
}
WHATIF_EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t clock,
                                         const struct timespec *restrict until) {
    COND(REAL(pthread_cond_clockwait)(c, m, clock, until));
}
WHATIF_EXPORT int pthread_cond_signal(pthread_cond_t *c) {
    if (whatif_on)
        whatif_pay();
    return REAL(pthread_cond_signal)(c);
}
WHATIF_EXPORT int pthread_cond_broadcast(pthread_cond_t *c) {
    if (whatif_on)
        whatif_pay();
    return REAL(pthread_cond_broadcast)(c);
}

/* -- semaphores, barriers, joins -- */

#define SEM(name, parameters, ...)                                                                                     \
    WHATIF_EXPORT int name parameters {                                                                                \
        uint64_t before;                                                                                               \
        int r, saved = errno;                                                                                          \
        if (!whatif_on)                                                                                                \
            return REAL(name)(__VA_ARGS__);                                                                            \
        pthread_testcancel();                                                                                          \
        whatif_pay();                                                                                                  \
        if (REAL(sem_trywait)(s) == 0)                                                                                 \
            return 0;                                                                                                  \
        errno = saved;                                                                                                 \
        before = whatif_before_wait();                                                                                 \
        r = REAL(name)(__VA_ARGS__);                                                                                   \
        if (r == 0)                                                                                                    \
            whatif_after_wait(before);                                                                                 \
        return r;                                                                                                      \
    }
SEM(sem_wait, (sem_t * s), s)
SEM(sem_timedwait, (sem_t *restrict s, const struct timespec *restrict until), s, until)
SEM(sem_clockwait, (sem_t *restrict s, clockid_t clock, const struct timespec *restrict until), s, clock, until)
WHATIF_EXPORT int sem_post(sem_t *s) {
    if (whatif_on)
        whatif_pay();
    return REAL(sem_post)(s);
}

/* Whether the caller waited or came last: what fell due is credited. Nothing does to the last one. */
WHATIF_EXPORT int pthread_barrier_wait(pthread_barrier_t *b) {
    uint64_t before;
    int r;
    if (!whatif_on)
        return REAL(pthread_barrier_wait)(b);
    whatif_pay();
    before = whatif_before_wait();
    r = REAL(pthread_barrier_wait)(b);
    whatif_after_wait(before);
    return r;
}
WHATIF_EXPORT int pthread_join(pthread_t t, void **result) {
    uint64_t before;
    int r;
    if (!whatif_on)
        return REAL(pthread_join)(t, result);
    whatif_pay();
    before = whatif_before_wait();
    r = REAL(pthread_join)(t, result);
    if (r == 0)
        whatif_after_wait(before);
    return r;
}

/* -- futexes, where they are used by the C library's syscall(): C++20's atomics, latches and semaphores -- */

WHATIF_EXPORT long syscall(long number, ...) {
    static long (*real)(long, ...);
    long (*function)(long, ...) = __atomic_load_n(&real, __ATOMIC_RELAXED), a[6], r;
    uint64_t before = 0;
    int operation;
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long); /* those that the caller did not give are not read by the kernel */
    va_end(list);
    if (!function) {
        /* ORDER relaxed: the address of code that was there before. */
        function = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
        __atomic_store_n(&real, function, __ATOMIC_RELAXED);
    }
    operation = number == SYS_futex && whatif_on ? (int)a[1] & FUTEX_CMD_MASK : -1;
    if (operation >= 0)
        whatif_pay();
    if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET)
        before = whatif_before_wait();
    r = function(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    /* 0: woken. The value may have changed before (EAGAIN), and a time limit is nobody's. */
    if (r == 0 && (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET))
        whatif_after_wait(before);
    return r;
}

/* -- threads -- */

struct birth {
    void *(*start)(void *);
    void *argument;
    int64_t delay;
};

/* The end of a thread is seen by the thread that joins it. */
static void last(void *unused) {
    (void)unused;
    whatif_pay();
    whatif_dies();
}
static void *first(void *arg) {
    struct birth birth = *(struct birth *)arg;
    void *result;
    free(arg);
    whatif_born(birth.delay);
    pthread_cleanup_push(last, 0);
    result = birth.start(birth.argument);
    pthread_cleanup_pop(1);
    return result;
}

WHATIF_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                                 void *(*start)(void *), void *restrict argument) {
    struct birth *birth = whatif_on ? malloc(sizeof *birth) : 0;
    int r;
    if (!birth)
        return REAL(pthread_create)(thread, attributes, start, argument);
    whatif_pay();
    *birth = (struct birth){start, argument, whatif_delay()};
    r = REAL(pthread_create)(thread, attributes, first, birth);
    if (r != 0)
        free(birth);
    return r;
}
