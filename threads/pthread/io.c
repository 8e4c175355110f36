/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that wait, by light threads: ito's own (../include/ito/io.h) where there is one, else the C library's while the
 * worker may be given away (ito_blocking_begin). Kernel threads make the plain call.
 *
 * A light thread is cancelled before such a call, never in it: the C library's functions would unwind it out of the
 * middle of ito.
 */
#include "light.h"

#include <ito/io.h>
#include <sys/time.h>

/* Around what a light thread does instead of the plain call. As after a system call, errno is as before unless it
 * failed: ito's tries leave EAGAIN in it. */
static int enter(void) {
    int state;
    REAL(pthread_testcancel)();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}
static void leave(int state) {
    pthread_setcancelstate(state, NULL);
}
#define LIGHT_CALL(type, call)                                                                                         \
    int saved = errno, state = enter();                                                                                \
    type r = call;                                                                                                     \
    leave(state);                                                                                                      \
    if (r >= 0)                                                                                                        \
        errno = saved;                                                                                                 \
    return r

/* The C library's, while the worker may be given away. */
#define BLOCKING(type, name, parameters, arguments)                                                                    \
    static type blocking_##name parameters {                                                                           \
        ito_call call;                                                                                                 \
        ito_blocking_begin(&call, #name);                                                                              \
        type r = REAL(name) arguments;                                                                                 \
        ito_blocking_end(&call);                                                                                       \
        return r;                                                                                                      \
    }
#define BLOCKING_EXPORT(type, name, parameters, arguments)                                                             \
    BLOCKING(type, name, parameters, arguments)                                                                        \
    EXPORT type name parameters {                                                                                      \
        if (!light_here())                                                                                             \
            return REAL(name) arguments;                                                                               \
        LIGHT_CALL(type, blocking_##name arguments);                                                                   \
    }

/* ---- sockets with timeouts ---------------------------------------------------------------------------------------
 *
 * SO_RCVTIMEO and SO_SNDTIMEO end a call that waits in the kernel. Once one was set in this process, sockets are asked;
 * one that has a timeout waits there.
 */
static uint32_t timeouts_used; /* atomic; relaxed: who sets one tells the others of it by means of its own */

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes) {
    if (level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO))
        store_relaxed(&timeouts_used, 1);
    return REAL(setsockopt)(fd, level, option, value, bytes);
}

static bool has_timeout(int fd, int option) {
    struct timeval t = {0, 0};
    socklen_t bytes = sizeof t;
    if (LIKELY(load_relaxed(&timeouts_used) == 0))
        return false;
    int saved = errno, r = getsockopt(fd, SOL_SOCKET, option, &t, &bytes);
    errno = saved;
    return r == 0 && (t.tv_sec || t.tv_usec);
}

/* ---- read, write and the like ------------------------------------------------------------------------------------ */

/* X(result, name, parameters, arguments, option that may limit the wait) */
#define IO_FUNCTIONS(X)                                                                                                \
    X(ssize_t, read, (int fd, void *data, size_t bytes), (fd, data, bytes), SO_RCVTIMEO)                               \
    X(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes), SO_SNDTIMEO)                        \
    X(ssize_t, readv, (int fd, const struct iovec *parts, int n), (fd, parts, n), SO_RCVTIMEO)                         \
    X(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), SO_SNDTIMEO)                        \
    X(ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags), SO_RCVTIMEO)             \
    X(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags), SO_SNDTIMEO)       \
    X(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), SO_RCVTIMEO)                \
    X(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), SO_SNDTIMEO)          \
    X(int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags), (fd, address, length, flags),    \
      SO_RCVTIMEO)                                                                                                     \
    X(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), SO_SNDTIMEO)

#define IO_EXPORT(type, name, parameters, arguments, option)                                                           \
    BLOCKING(type, name, parameters, arguments)                                                                        \
    EXPORT type name parameters {                                                                                      \
        if (!light_here())                                                                                             \
            return REAL(name) arguments;                                                                               \
        LIGHT_CALL(type, has_timeout(fd, option) ? blocking_##name arguments : ito_##name arguments);                  \
    }
IO_FUNCTIONS(IO_EXPORT)

EXPORT int accept(int fd, struct sockaddr *address, socklen_t *length) {
    return accept4(fd, address, length, 0);
}

EXPORT ssize_t recvfrom(int fd, void *data, size_t bytes, int flags, struct sockaddr *address, socklen_t *length) {
    struct iovec part = {data, bytes};
    struct msghdr m = {.msg_name = address, .msg_iov = &part, .msg_iovlen = 1};
    if (!light_here())
        return REAL(recvfrom)(fd, data, bytes, flags, address, length);
    m.msg_namelen = address && length ? *length : 0;
    ssize_t n = recvmsg(fd, &m, flags);
    if (n >= 0 && address && length)
        *length = m.msg_namelen;
    return n;
}

EXPORT ssize_t sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *address,
                      socklen_t length) {
    struct iovec part = {(void *)data, bytes};
    struct msghdr m = {.msg_name = (void *)address, .msg_namelen = length, .msg_iov = &part, .msg_iovlen = 1};
    if (!light_here())
        return REAL(sendto)(fd, data, bytes, flags, address, length);
    return sendmsg(fd, &m, flags);
}

/* With -D_FORTIFY_SOURCE. One that is too large is the C library's to report. */
EXPORT ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room);
EXPORT ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room) {
    return bytes <= room ? read(fd, data, bytes) : REAL(__read_chk)(fd, data, bytes, room);
}
EXPORT ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room, int flags);
EXPORT ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room, int flags) {
    return bytes <= room ? recv(fd, data, bytes, flags) : REAL(__recv_chk)(fd, data, bytes, room, flags);
}

EXPORT int close(int fd) {
    if (!light_works())
        return REAL(close)(fd);
    if (!light_here())
        return ito_close(fd);
    LIGHT_CALL(int, ito_close(fd));
}

/* ---- poll and its relatives -------------------------------------------------------------------------------------- */

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout_ms) {
    if (!light_here())
        return REAL(poll)(fds, n, timeout_ms);
    LIGHT_CALL(int, ito_poll(fds, n, timeout_ms));
}
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room) {
    return n <= room / sizeof *fds ? poll(fds, n, timeout_ms) : REAL(__poll_chk)(fds, n, timeout_ms, room);
}
BLOCKING_EXPORT(int, select, (int n, fd_set *r_, fd_set *w_, fd_set *e_, struct timeval *left), (n, r_, w_, e_, left))
BLOCKING_EXPORT(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))

/* ---- others that wait in the kernel ------------------------------------------------------------------------------ */

BLOCKING_EXPORT(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
BLOCKING_EXPORT(pid_t, wait, (int *status), (status))
BLOCKING_EXPORT(int, flock, (int fd, int operation), (fd, operation))
BLOCKING_EXPORT(int, sigwait, (const sigset_t *set, int *signal), (set, signal))
BLOCKING_EXPORT(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info), (set, info))
BLOCKING_EXPORT(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *t), (set, info, t))

/* ---- sleeping ---------------------------------------------------------------------------------------------------- */

/* A semaphore that nobody posts; so a cancellation ends the wait. */
static int sleep_until(uint64_t deadline_ns) {
    ito_sem none = ITO_SEM_INIT(0);
    int r;
    do {
        r = ECANCELED;
        if (light_wait_begin(&none.state, &none.waiters))
            r = ito_sem_wait_until(&none, deadline_ns);
        light_wait_end();
    } while (r == ECANCELED); /* else cancellation was disabled meanwhile */
    return r == ETIMEDOUT ? 0 : r;
}

static uint64_t after(const struct timespec *t) {
    uint64_t s = (uint64_t)t->tv_sec, most = UINT64_MAX / 4;
    return ito_now_ns() + (s > most / 1000000000 ? most : s * 1000000000 + (uint64_t)t->tv_nsec);
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    uint64_t deadline_ns;
    if (!light_here())
        return REAL(clock_nanosleep)(clock, flags, t, left);
    if (t->tv_nsec < 0 || t->tv_nsec >= 1000000000 || t->tv_sec < 0)
        return EINVAL;
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) {
        ito_call call;
        int state = enter();
        ito_blocking_begin(&call, "clock_nanosleep");
        int r = REAL(clock_nanosleep)(clock, flags, t, left);
        ito_blocking_end(&call);
        leave(state);
        return r;
    }
    if (!(flags & TIMER_ABSTIME))
        deadline_ns = after(t);
    else if (!light_deadline(clock, t, &deadline_ns))
        return EINVAL;
    return sleep_until(deadline_ns);
}

EXPORT int nanosleep(const struct timespec *t, struct timespec *left) {
    if (!light_here())
        return REAL(nanosleep)(t, left);
    int r = clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
    if (r)
        errno = r;
    return r ? -1 : 0;
}

EXPORT int usleep(useconds_t us) {
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    return light_here() ? nanosleep(&t, NULL) : REAL(usleep)(us);
}

EXPORT unsigned sleep(unsigned s) {
    struct timespec t = {(time_t)s, 0};
    if (!light_here())
        return REAL(sleep)(s);
    return nanosleep(&t, NULL) ? s : 0;
}
