/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that move data from one descriptor to another, or many messages at once. The kernel has no way to try the first, so they are
 * made when poll says ready; if they wait nevertheless, the worker may be given away.
 */
#include "calls.h"

#include "io/io.h"

#include <fcntl.h>
#include <sys/sendfile.h>

/* Sleeps until the descriptor is ready, or is one that does not wait. False: EINTR. */
static bool sleep_until_ready(int fd, short want) {
    struct pollfd p = {fd, want, 0};
    int status = fcntl(fd, F_GETFL);
    if (status < 0 || status & O_NONBLOCK)
        return true;
    return ito__poll_until(&p, 1, ITO_FOREVER) >= 0 || errno != EINTR;
}

/* ---- sendfile, splice -------------------------------------------------------------------------------------------- */

/* A socket that is ready has room for this much, mostly. */
#define SENDFILE_BYTES ((size_t)64 * 1024)

BLOCKING(ssize_t, sendfile, (int out, int in, off_t *at, size_t bytes), (out, in, at, bytes))
static ssize_t send_parts(int out, int in, off_t *at, size_t bytes) {
    size_t done = 0;
    int status = fcntl(out, F_GETFL);
    if (status < 0 || status & O_NONBLOCK || bytes == 0)
        return blocking_sendfile(out, in, at, bytes);
    while (done < bytes) {
        size_t part = bytes - done < SENDFILE_BYTES ? bytes - done : SENDFILE_BYTES;
        ssize_t n = sleep_until_ready(out, POLLOUT) ? blocking_sendfile(out, in, at, part) : -1;
        if (n <= 0)
            return done ? (ssize_t)done : n;
        done += (size_t)n;
    }
    return (ssize_t)done;
}
EXPORT ssize_t sendfile(int out, int in, off_t *at, size_t bytes) {
    if (!light_here())
        return REAL(sendfile)(out, in, at, bytes);
    LIGHT_CALL(ssize_t, CALL_RESTARTS | CALL_NO_POINT, send_parts(out, in, at, bytes),
               REAL(sendfile)(out, in, at, bytes));
}
EXPORT ssize_t sendfile64(int out, int in, off64_t *at, size_t bytes) {
    return sendfile(out, in, at, bytes);
}

#define SPLICE_EXPORT(type, name, parameters, arguments, ready)                                                        \
    BLOCKING(type, name, parameters, arguments)                                                                        \
    static type ready_##name parameters {                                                                              \
        return (ready) ? blocking_##name arguments : -1;                                                               \
    }                                                                                                                  \
    EXPORT type name parameters {                                                                                      \
        if (flags & SPLICE_F_NONBLOCK || !light_here())                                                                \
            return REAL(name) arguments;                                                                               \
        LIGHT_CALL(type, CALL_RESTARTS, ready_##name arguments, REAL(name) arguments);                                 \
    }
SPLICE_EXPORT(ssize_t, splice, (int in, off64_t *in_at, int out, off64_t *out_at, size_t bytes, unsigned flags),
              (in, in_at, out, out_at, bytes, flags), sleep_until_ready(in, POLLIN) && sleep_until_ready(out, POLLOUT))
SPLICE_EXPORT(ssize_t, tee, (int in, int out, size_t bytes, unsigned flags), (in, out, bytes, flags),
              sleep_until_ready(in, POLLIN) && sleep_until_ready(out, POLLOUT))
SPLICE_EXPORT(ssize_t, vmsplice, (int fd, const struct iovec *parts, size_t n, unsigned flags), (fd, parts, n, flags),
              true)

/* ---- many messages ----------------------------------------------------------------------------------------------- */

/* It waits until all have come, or, after each, the time is over. */
static int receive_many(int fd, struct mmsghdr *messages, unsigned n, int flags, uint64_t deadline_ns) {
    unsigned done = 0;
    int status = fcntl(fd, F_GETFL);
    bool waits = status >= 0 && !(status & O_NONBLOCK);
    for (;;) {
        int r = REAL(recvmmsg)(fd, messages + done, n - done, (flags & ~MSG_WAITFORONE) | MSG_DONTWAIT, NULL);
        if (r > 0)
            done += (unsigned)r;
        if (r < 0 && ((errno != EAGAIN && errno != EWOULDBLOCK) || !waits))
            return done ? (int)done : r;
        if (done == n || (done && (flags & MSG_WAITFORONE || ito_now_ns() >= deadline_ns)))
            return (int)done;
        if (r < 0 && !sleep_until_ready(fd, POLLIN))
            return done ? (int)done : -1;
    }
}
BLOCKING(int, recvmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *t),
         (fd, messages, n, flags, t))
EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *t) {
    if (flags & (MSG_DONTWAIT | MSG_ERRQUEUE) || n == 0 || !light_here())
        return REAL(recvmmsg)(fd, messages, n, flags, t);
    struct timespec left;
    uint64_t deadline_ns = call_deadline(t);
    uint64_t limit_ns = call_limit(fd, SO_RCVTIMEO);
    LIGHT_CALL(int, limit_ns ? CALL_ENDS : CALL_RESTARTS,
               limit_ns || flags & MSG_WAITALL ? blocking_recvmmsg(fd, messages, n, flags, t)
                                               : receive_many(fd, messages, n, flags, deadline_ns),
               call_in_time(fd, SO_RCVTIMEO, limit_ns)
                   ? REAL(recvmmsg)(fd, messages, n, flags, call_left(deadline_ns, &left))
                   : -1);
}

/* What a try has sent of a message of a stream is not the whole: so one by one there. */
static int send_many(int fd, struct mmsghdr *messages, unsigned n, int flags) {
    int type = SOCK_STREAM;
    socklen_t bytes = sizeof type;
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
    unsigned done = 0;
    while (done < n) {
        int r = type == SOCK_STREAM ? -1 : REAL(sendmmsg)(fd, messages + done, n - done, flags | MSG_DONTWAIT);
        if (r > 0) {
            done += (unsigned)r;
            continue;
        }
        ssize_t sent = ito_sendmsg(fd, &messages[done].msg_hdr, flags);
        if (sent < 0)
            return done ? (int)done : -1;
        messages[done++].msg_len = (unsigned)sent;
    }
    return (int)done;
}
BLOCKING(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags), (fd, messages, n, flags))
EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags) {
    if (flags & MSG_DONTWAIT || !light_here())
        return REAL(sendmmsg)(fd, messages, n, flags);
    uint64_t limit_ns = call_limit(fd, SO_SNDTIMEO);
    LIGHT_CALL(int, limit_ns ? CALL_ENDS : CALL_RESTARTS,
               limit_ns ? blocking_sendmmsg(fd, messages, n, flags) : send_many(fd, messages, n, flags),
               call_in_time(fd, SO_SNDTIMEO, limit_ns) ? REAL(sendmmsg)(fd, messages, n, flags) : -1);
}
