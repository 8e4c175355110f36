/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What all calls that wait have in common (io.c, ready.c, transfer.c, kernel_waits.c).
 *
 * A light thread is cancelled before such a call, or when the call has failed with EINTR because of that; never in it: the C
 * library's functions would unwind it out of the middle of ito. So cancellation is disabled meanwhile.
 */
#ifndef ITO_PTHREAD_CALLS_H
#define ITO_PTHREAD_CALLS_H

#include "light.h"

/* A handler without SA_RESTART ends the first kind of calls, any handler the second (signal(7)). The flag: no cancellation point. */
enum call_kind { CALL_RESTARTS, CALL_ENDS, CALL_NO_POINT = 2 };

static inline int call_enter(int kind) {
    int state;
    if (!(kind & CALL_NO_POINT))
        REAL(pthread_testcancel)();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    light_self.may_cancel = !(kind & CALL_NO_POINT) && state == PTHREAD_CANCEL_ENABLE;
    light_self.handled = light_self.ended_call = false;
    return state;
}
/* `interrupted`: the call has failed with EINTR. True: make it again; the thread is pinned by now. */
static inline bool call_leave(int state, int kind, bool interrupted) {
    struct light *me = &light_self;
    me->may_cancel = false;
    pthread_setcancelstate(state, NULL);
    if (UNLIKELY(interrupted && !(kind & CALL_NO_POINT)))
        REAL(pthread_testcancel)();
    return light_asked() && interrupted && !(kind & CALL_ENDS ? me->handled : me->ended_call);
}

/* The body of a call of a light thread. `again`: the C library's, for when it is pinned. As after a system call, errno is as before
 * unless it failed: ito's tries leave EAGAIN in it. */
#define LIGHT_CALL(type, kind, call, again)                                                                            \
    int saved = errno, state = call_enter(kind);                                                                       \
    type r = call;                                                                                                     \
    int error = errno;                                                                                                 \
    if (call_leave(state, kind, r < 0 && error == EINTR))                                                              \
        return again;                                                                                                  \
    errno = r < 0 ? error : saved;                                                                                     \
    return r

/* blocking_NAME: the C library's, while the worker may be given away. */
#define BLOCKING(type, name, parameters, arguments)                                                                    \
    static type blocking_##name parameters {                                                                           \
        ito_call call;                                                                                                 \
        type r = -1;                                                                                                   \
        ito_blocking_begin(&call, #name);                                                                              \
        if (ito__call_began(&call))                                                                                    \
            r = REAL(name) arguments;                                                                                  \
        else                                                                                                           \
            errno = EINTR;                                                                                             \
        ito__call_over();                                                                                              \
        ito_blocking_end(&call);                                                                                       \
        return r;                                                                                                      \
    }
#define BLOCKING_EXPORT(type, name, kind, parameters, arguments)                                                       \
    BLOCKING(type, name, parameters, arguments)                                                                        \
    EXPORT type name parameters {                                                                                      \
        if (!light_here())                                                                                             \
            return REAL(name) arguments;                                                                               \
        LIGHT_CALL(type, kind, blocking_##name arguments, REAL(name) arguments);                                       \
    }

/* io.c: the deadline of a socket with SO_RCVTIMEO or SO_SNDTIMEO; 0: it has none. */
uint64_t call_limit(int fd, int option);
/* Such a call of a thread that was pinned meanwhile is to be made again. False: too late, and errno says so. */
bool call_in_time(int fd, int option, uint64_t limit_ns);

/* Nanoseconds of ito's clock; 0 where the time is 0 (do not wait), ITO_FOREVER where there is none. */
static inline uint64_t call_deadline(const struct timespec *t) {
    uint64_t most = UINT64_MAX / 4;
    if (t == NULL)
        return ITO_FOREVER;
    if (t->tv_sec == 0 && t->tv_nsec == 0)
        return 0;
    uint64_t s = (uint64_t)t->tv_sec;
    return ito_now_ns() + (s > most / 1000000000 ? most : s * 1000000000 + (uint64_t)t->tv_nsec);
}
static inline uint64_t call_deadline_ms(int ms) {
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    return call_deadline(ms < 0 ? NULL : &t);
}

/* What is left of it, for a call that is made again. A call's deadline is found once, before it is made first. */
static inline struct timespec *call_left(uint64_t deadline_ns, struct timespec *left) {
    uint64_t now = ito_now_ns(), ns = deadline_ns > now ? deadline_ns - now : 0;
    if (deadline_ns == ITO_FOREVER)
        return NULL;
    *left = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return left;
}

#endif
