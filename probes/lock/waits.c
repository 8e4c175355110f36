/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits that are not for locks: semaphores, barriers, joins, pthread_once. Each gives a pair WAIT_BEGIN, WAIT_END with
 * the object: the address of the semaphore, barrier or once control; for a join the pthread_t of the other thread. The
 * site of WAIT_BEGIN is the caller. Condition variables are in cond.c, since they also release a mutex.
 */
#include "wait.h"

#include <errno.h>

/* A semaphore has no owner, so it has waits and no holds. It is tried first, and only a call that has to wait is
 * recorded. sem_* return -1 and set errno, so errno is kept over the try and over the writing of events. */
#define SEM_WAIT(s, call)                                                                                              \
    do {                                                                                                               \
        struct probe_wait w;                                                                                           \
        int r, saved = errno;                                                                                          \
        if (!probe_on())                                                                                               \
            return (call);                                                                                             \
        if (REAL(sem_trywait)(s) == 0)                                                                                 \
            return 0;                                                                                                  \
        errno = saved;                                                                                                 \
        probe_wait_begin(&w, KASURI_WAIT_SEM, s, 0, PROBE_CALLER());                                                   \
        PROBE_WAIT(r, w, call);                                                                                        \
        saved = errno;                                                                                                 \
        probe_wait_end(&w);                                                                                            \
        errno = saved;                                                                                                 \
        return r;                                                                                                      \
    } while (0)

/* POSIX makes sem_wait a cancellation point even if it need not wait, and sem_trywait is none: so test first. */
PROBE_EXPORT int sem_wait(sem_t *s) {
    pthread_testcancel();
    SEM_WAIT(s, REAL(sem_wait)(s));
}
PROBE_EXPORT int sem_timedwait(sem_t *restrict s, const struct timespec *restrict until) {
    pthread_testcancel();
    SEM_WAIT(s, REAL(sem_timedwait)(s, until));
}
/* An unsupported clock is an error also where the semaphore is free. */
PROBE_EXPORT int sem_clockwait(sem_t *restrict s, clockid_t clock, const struct timespec *restrict until) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return REAL(sem_clockwait)(s, clock, until);
    pthread_testcancel();
    SEM_WAIT(s, REAL(sem_clockwait)(s, clock, until));
}

/* Waits that are always recorded, however short: they wait for the arrival or the end of another thread. */
#define WAIT(kind, object, call)                                                                                       \
    do {                                                                                                               \
        struct probe_wait w;                                                                                           \
        int r;                                                                                                         \
        if (!probe_on())                                                                                               \
            return (call);                                                                                             \
        probe_wait_begin(&w, kind, object, 0, PROBE_CALLER());                                                         \
        PROBE_WAIT(r, w, call);                                                                                        \
        probe_wait_end(&w);                                                                                            \
        return r;                                                                                                      \
    } while (0)

/* Returns 0, or PTHREAD_BARRIER_SERIAL_THREAD in one thread: both end the wait. */
PROBE_EXPORT int pthread_barrier_wait(pthread_barrier_t *b) {
    WAIT(KASURI_WAIT_BARRIER, b, REAL(pthread_barrier_wait)(b));
}

/* The object of a join is the pthread_t, a pointer in glibc; it is used as a name and never followed. */
#define THREAD(t) ((const void *)(uintptr_t)(t))
PROBE_EXPORT int pthread_join(pthread_t t, void **result) {
    WAIT(KASURI_WAIT_JOIN, THREAD(t), REAL(pthread_join)(t, result));
}
PROBE_EXPORT int pthread_timedjoin_np(pthread_t t, void **result, const struct timespec *until) {
    WAIT(KASURI_WAIT_JOIN, THREAD(t), REAL(pthread_timedjoin_np)(t, result, until));
}
PROBE_EXPORT int pthread_clockjoin_np(pthread_t t, void **result, clockid_t clock, const struct timespec *until) {
    WAIT(KASURI_WAIT_JOIN, THREAD(t), REAL(pthread_clockjoin_np)(t, result, clock, until));
}
PROBE_EXPORT int thrd_join(thrd_t t, int *result) {
    WAIT(KASURI_WAIT_JOIN, THREAD(t), REAL(thrd_join)(t, result));
}

/* -- once: the thread that runs the function works, the others wait -- */

/* One call of pthread_once. The function that the C library calls has no argument, so run_once finds the program's
 * function here, through a thread-local variable. `outer`: the function may itself call pthread_once. */
struct once_call {
    void (*function)(void);
    uint64_t started;
    struct once_call *outer;
};
static __thread struct once_call *once_now __attribute__((tls_model("initial-exec")));

/* Runs in place of the program's function. `started` then tells once_slowly() that this thread ran the function and did
 * not wait for another. */
static void run_once(void) {
    struct once_call *call = once_now;
    call->started = kasuri__stamp();
    call->function();
}

/* Another thread was running the function when the caller looked. If this thread runs the function after all (the other
 * was cancelled, or threw), no wait is recorded. The events are written after the call, WAIT_BEGIN with the stamp from
 * before it. */
static int once_slowly(pthread_once_t *control, void (*function)(void), uintptr_t caller) {
    struct once_call call = {function, 0, once_now};
    struct kasuri_site *site = probe_call_site(caller);
    uint64_t stamp = kasuri__stamp();
    int r;
    once_now = &call;
    /* No cleanup handler: an exception that leaves the function would leave it registered. `once_now` is then stale,
     * which does no harm: each call that can reach run_once sets it first. */
    r = REAL(pthread_once)(control, run_once);
    once_now = call.outer;
    if (!call.started) {
        kasuri__slow_at(site, site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0,
                        KASURI_EV_WAIT_BEGIN | 2u << 8 | KASURI_WAIT_ONCE << 16, 0, stamp, (uintptr_t)control, 0);
        probe_emit_long(KASURI_EV_WAIT_END, KASURI_WAIT_ONCE, control, 0, kasuri__stamp());
    }
    return r;
}

PROBE_EXPORT int pthread_once(pthread_once_t *control, void (*function)(void)) {
    /* glibc's values (nptl/pthread_once.c): 0 new, bit 0 being done (with a fork generation above bit 1), 2 done. The
     * thread waits only while another runs the function. The call that runs it may throw a C++ exception through here,
     * so it is not touched. ORDER acquire; pairs with the release of the C library when the function is done: a caller
     * that returns from here sees what the function did. The real pthread_once would do the same. */
    if (KASURI__LIKELY(!(__atomic_load_n(control, __ATOMIC_ACQUIRE) & 1)) || !probe_on())
        return REAL(pthread_once)(control, function);
    return once_slowly(control, function, PROBE_CALLER());
}
