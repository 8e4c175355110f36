/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that wait, by light threads: ito's own (../include/ito/io.h) where there is one, else the C library's while the
 * worker may be given away (ito_blocking_begin). Kernel threads make the plain call.
 * calls.h has what they share with ready.c, transfer.c and kernel_waits.c.
 */
#include "calls.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/time.h>

/* ---- sockets with timeouts ---------------------------------------------------------------------------------------
 *
 * SO_RCVTIMEO and SO_SNDTIMEO end a call that waits in the kernel. Once one was set in this process, sockets are asked;
 * one that has a timeout waits there, and is ended by any handler (signal(7)).
 */
static uint32_t timeouts_used; /* atomic; relaxed: who sets one tells the others of it by means of its own */

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes) {
    if (level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO))
        store_relaxed(&timeouts_used, 1);
    return REAL(setsockopt)(fd, level, option, value, bytes);
}

uint64_t call_limit(int fd, int option) {
    struct timeval t = {0, 0};
    socklen_t bytes = sizeof t;
    if (LIKELY(load_relaxed(&timeouts_used) == 0))
        return 0;
    int saved = errno, r = getsockopt(fd, SOL_SOCKET, option, &t, &bytes);
    errno = saved;
    return r ? 0 : call_deadline(&(struct timespec){t.tv_sec, t.tv_usec * 1000});
}

bool call_in_time(int fd, int option, uint64_t limit_ns) {
    struct pollfd p = {fd, option == SO_RCVTIMEO ? POLLIN : POLLOUT, 0};
    struct timespec left;
    if (limit_ns == 0)
        return true;
    int r = REAL(ppoll)(&p, 1, call_left(limit_ns, &left), NULL);
    if (r == 0)
        errno = EAGAIN;
    return r > 0;
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
        uint64_t limit_ns = call_limit(fd, option);                                                                    \
        LIGHT_CALL(type, limit_ns ? CALL_ENDS : CALL_RESTARTS,                                                         \
                   limit_ns ? blocking_##name arguments : ito_##name arguments,                                        \
                   call_in_time(fd, option, limit_ns) ? REAL(name) arguments : -1);                                    \
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

EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room, int flags, struct sockaddr *address,
                              socklen_t *length);
EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room, int flags, struct sockaddr *address,
                              socklen_t *length) {
    return bytes <= room ? recvfrom(fd, data, bytes, flags, address, length)
                         : REAL(__recvfrom_chk)(fd, data, bytes, room, flags, address, length);
}
/* The C library's call its own read and write. */
EXPORT int eventfd_read(int fd, eventfd_t *value) {
    return read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}
EXPORT int eventfd_write(int fd, eventfd_t value) {
    return write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

EXPORT int close(int fd) {
    if (!light_works())
        return REAL(close)(fd);
    return ito_close(fd);
}

/* ---- sleeping ---------------------------------------------------------------------------------------------------- */

/* A semaphore that nobody posts; so a cancellation ends the wait. A thread that was pinned meanwhile sleeps on in the kernel, if no
 * handler has run. */
static int sleep_until(uint64_t deadline_ns) {
    ito_sem none = ITO_SEM_INIT(0);
    int r;
    light_self.handled = false;
    do {
        r = ECANCELED;
        if (light_wait_begin(&none.state, &none.waiters))
            r = ito_sem_wait_until(&none, deadline_ns);
        light_wait_end();
        if (r == ECANCELED && !light_here()) {
            struct timespec at = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
            return light_self.handled ? EINTR : REAL(clock_nanosleep)(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        }
    } while (r == ECANCELED); /* cancellation was disabled meanwhile */
    return r == ETIMEDOUT ? 0 : r;
}

/* In the kernel, until a time of that clock: so it does not begin anew where the thread is pinned meanwhile. */
static int other_clock(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    ito_call call;
    struct timespec end = *t, now = {0, 0};
    if (!(flags & TIMER_ABSTIME) && clock_gettime(clock, &now))
        return EINVAL;
    end.tv_sec += now.tv_sec + (end.tv_nsec + now.tv_nsec) / 1000000000;
    end.tv_nsec = (end.tv_nsec + now.tv_nsec) % 1000000000;
    int state = call_enter(CALL_ENDS), r = EINTR;
    ito_blocking_begin(&call, "clock_nanosleep");
    if (ito__call_began(&call))
        r = REAL(clock_nanosleep)(clock, TIMER_ABSTIME, &end, NULL);
    ito__call_over();
    ito_blocking_end(&call);
    if (call_leave(state, CALL_ENDS, r == EINTR))
        r = REAL(clock_nanosleep)(clock, TIMER_ABSTIME, &end, NULL);
    if (r == EINTR && left && !(flags & TIMER_ABSTIME)) {
        clock_gettime(clock, &now);
        int64_t ns = (end.tv_sec - now.tv_sec) * 1000000000ll + (end.tv_nsec - now.tv_nsec);
        ns = ns > 0 ? ns : 0;
        *left = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    }
    return r;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    uint64_t deadline_ns;
    if (!light_here())
        return REAL(clock_nanosleep)(clock, flags, t, left);
    if (t->tv_nsec < 0 || t->tv_nsec >= 1000000000 || t->tv_sec < 0)
        return EINVAL;
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return other_clock(clock, flags, t, left);
    if (!(flags & TIMER_ABSTIME))
        deadline_ns = call_deadline(t);
    else if (!light_deadline(clock, t, &deadline_ns))
        return EINVAL;
    int r = sleep_until(deadline_ns);
    if (r == EINTR && left && !(flags & TIMER_ABSTIME)) {
        uint64_t now = ito_now_ns(), ns = deadline_ns > now ? deadline_ns - now : 0;
        *left = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    }
    return r;
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
    return nanosleep(&t, &t) ? (unsigned)t.tv_sec + (t.tv_nsec > 0) : 0;
}
