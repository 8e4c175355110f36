/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The system calls of ito/io.h. Each is a `struct try`: how to make the call so that it cannot wait, how to make it as
 * it is, and what to wait for in between.
 */
#define _GNU_SOURCE
#include "io/io.h"
#include "base/counts.h"
#include "core/wait.h"

#include <ito/io.h>

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/* A call on its way. `try_` returns -1 with EAGAIN where the call would wait, with one of the errors of cannot_try()
 * where it cannot be tried. */
struct io_call {
    const char *name;
    ssize_t (*try_)(const struct io_call *);
    ssize_t (*plain)(const struct io_call *);
    int fd;
    uint32_t want; /* EPOLL* */
    int flags;
    struct iovec *parts;
    int n_parts;
    struct msghdr *message;
    struct sockaddr *address;
    socklen_t length, *length_at;
};

/* errno of the kernel thread that the caller is on now. Not inlined: a compiler may keep its address over a wait, after
 * which the thread may be on another. */
static __attribute__((noinline)) int error_now(void) {
    return errno;
}
static __attribute__((noinline)) ssize_t fails(int error) {
    errno = error;
    return -1;
}

static bool would_wait(int error) {
    return error == EAGAIN || error == EWOULDBLOCK;
}
/* What the kernel says where a kind of file does not know RWF_NOWAIT (signalfd and inotify: EINVAL; terminals, and files
 * written to: EOPNOTSUPP), or it does not know the call. If the call itself is wrong, it says so again. */
static bool cannot_try(int error) {
    return error == EOPNOTSUPP || error == EINVAL || error == ENOSYS;
}

/* As it is; the worker may be given away meanwhile. */
static ssize_t as_it_is(const struct io_call *c) {
    ito_call call;
    ito_blocking_begin(&call, c->name);
    ssize_t r = ITO__TLS_CALL_BEGAN(&call) ? c->plain(c) : fails(EINTR);
    ITO__TLS_CALL_OVER();
    ito_blocking_end(&call);
    return r;
}

/* Is it ready now? Also where poll says that something is wrong, which the call itself will tell. */
static bool is_ready(int fd, uint32_t want) {
    struct pollfd p = {fd, (short)want, 0};
    return poll(&p, 1, 0) != 0;
}

/* ito__io_await, counted. */
static int await_all(const char *name, struct ito__io_node *nodes, unsigned n, uint64_t deadline_ns) {
    uint64_t began = ITO__COUNTING ? ito_now_ns() : 0;
    int r = ito__io_await(nodes, n, deadline_ns);
    if (began && (r == 0 || r == ETIMEDOUT))
        ito__count(ITO__COUNT_IO_WAIT, name, ito_now_ns() - began);
    return r;
}

/* Sleeps until the descriptor is ready: 0, or an error. EPERM: it has to be called as it is. */
static int await(const char *name, int fd, uint32_t want) {
    struct ito__io_node node = {.fd = fd, .want = want};
    int r = await_all(name, &node, 1, ITO_FOREVER);
    return r ? r : node.got & ITO__IO_CLOSED ? EBADF : 0;
}

/* The call would wait, or it cannot be tried. Nothing of it has been done. */
static __attribute__((noinline)) ssize_t call_slow(const struct io_call *c, bool can_try) {
    int status = fcntl(c->fd, F_GETFL);
    if (status < 0)
        return -1;
    if (status & O_NONBLOCK)
        return as_it_is(c); /* it does not wait, or waits for the disk */
    for (;;) {
        if (!can_try && is_ready(c->fd, c->want))
            return as_it_is(c);
        int r = await(c->name, c->fd, c->want);
        if (r == EBADF || r == EINTR)
            return fails(r);
        if (r != 0)
            return as_it_is(c);
        ssize_t n = can_try ? c->try_(c) : -1;
        if (can_try && (n >= 0 || !would_wait(error_now())))
            return n;
    }
}

/* The try has failed with this error. */
static ssize_t call_again(const struct io_call *c, int error) {
    return would_wait(error) ? call_slow(c, true) : cannot_try(error) ? call_slow(c, false) : fails(error);
}

static ssize_t call(const struct io_call *c) {
    ssize_t n = c->try_(c);
    return LIKELY(n >= 0) ? n : call_again(c, error_now());
}

/* Does the caller sleep on a descriptor, or does its kernel thread? */
static bool is_ours(void) {
    return ito__worker() != NULL;
}

/* ---- read and write ---------------------------------------------------------------------------------------------- */

/* Of a stream socket read and recv are the same, as are write and send, and the kernel takes two thirds of the time for a try by the
 * latter. What is known of a number may be of a file that is gone: ENOTSOCK says so. */
static bool is_stream(int fd) {
    int type, kind = ito__io_kind(fd);
    socklen_t bytes = sizeof type;
    if (UNLIKELY(kind == ITO__IO_UNKNOWN)) {
        int saved = error_now();
        bool stream = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
        kind = stream ? ITO__IO_STREAM : ITO__IO_OTHER;
        ito__io_set_kind(fd, kind);
        fails(saved);
    }
    return kind == ITO__IO_STREAM;
}
/* One part with something in it: a recv of nothing waits, a read does not. */
static bool as_message(const struct io_call *c) {
    return c->n_parts == 1 && c->parts->iov_len > 0 && is_stream(c->fd);
}
static bool is_no_socket(ssize_t n, int fd) {
    if (LIKELY(n >= 0 || error_now() != ENOTSOCK))
        return false;
    ito__io_set_kind(fd, ITO__IO_OTHER);
    return true;
}

static ssize_t try_read(const struct io_call *c) {
    ssize_t n;
    if (as_message(c) && !is_no_socket(n = recv(c->fd, c->parts->iov_base, c->parts->iov_len, MSG_DONTWAIT), c->fd))
        return n;
    return preadv2(c->fd, c->parts, c->n_parts, -1, RWF_NOWAIT);
}
static ssize_t plain_read(const struct io_call *c) {
    return readv(c->fd, c->parts, c->n_parts);
}
static ssize_t try_write(const struct io_call *c) {
    ssize_t n;
    if (as_message(c) && !is_no_socket(n = send(c->fd, c->parts->iov_base, c->parts->iov_len, MSG_DONTWAIT), c->fd))
        return n;
    return pwritev2(c->fd, c->parts, c->n_parts, -1, RWF_NOWAIT);
}
static ssize_t plain_write(const struct io_call *c) {
    return writev(c->fd, c->parts, c->n_parts);
}

static struct io_call reading(int fd, struct iovec *parts, int n_parts) {
    return (struct io_call){.name = "read",
                            .try_ = try_read,
                            .plain = plain_read,
                            .fd = fd,
                            .want = POLLIN,
                            .parts = parts,
                            .n_parts = n_parts};
}
static struct io_call writing(int fd, struct iovec *parts, int n_parts) {
    return (struct io_call){.name = "write",
                            .try_ = try_write,
                            .plain = plain_write,
                            .fd = fd,
                            .want = POLLOUT,
                            .parts = parts,
                            .n_parts = n_parts};
}

/* One part after the other, of what is left after the first `done` bytes. Until an error, the end of a file, or, if
 * `once`, a call that does less than it was asked to. What was done counts, also before an error. */
static ssize_t do_rest(const struct io_call *c, const struct iovec *parts, int n_parts, size_t done, bool once) {
    struct io_call rest = *c;
    size_t skip = done;
    rest.n_parts = 1;
    rest.message = NULL;
    for (int i = 0; i < n_parts; i++) {
        struct iovec part = parts[i];
        if (skip >= part.iov_len) {
            skip -= part.iov_len;
            continue;
        }
        part.iov_base = (char *)part.iov_base + skip;
        part.iov_len -= skip;
        skip = 0;
        while (part.iov_len > 0) {
            rest.parts = &part;
            ssize_t n = once ? as_it_is(&rest) : call(&rest);
            if (n <= 0)
                return (ssize_t)done;
            done += (size_t)n;
            if (once && (size_t)n < part.iov_len)
                return (ssize_t)done;
            part.iov_base = (char *)part.iov_base + n;
            part.iov_len -= (size_t)n;
        }
    }
    return (ssize_t)done;
}

static bool is_short(ssize_t n, const struct iovec *parts, int n_parts) {
    size_t bytes = 0;
    for (int i = 0; i < n_parts; i++)
        bytes += parts[i].iov_len;
    return n > 0 && (size_t)n < bytes;
}

/* A call that waits writes everything, one that does not as much as there is room for: so what is left is written
 * again. A descriptor with O_NONBLOCK stops at the first part. */
static ssize_t write_all(const struct io_call *c, const struct iovec *parts, int n_parts) {
    ssize_t n = call(c);
    if (LIKELY(!is_short(n, parts, n_parts)) || fcntl(c->fd, F_GETFL) & O_NONBLOCK)
        return n;
    return do_rest(c, parts, n_parts, (size_t)n, false);
}

/* Of a file, a call that does not wait reads what is in memory, one that does also what is not. What has a position is
 * a file; others give what there is. */
static ssize_t read_some(const struct io_call *c) {
    ssize_t n = c->try_(c);
    if (n < 0)
        return call_again(c, error_now()); /* epoll takes no file, and as it is the call is whole */
    if (!is_short(n, c->parts, c->n_parts) || as_message(c) || lseek(c->fd, 0, SEEK_CUR) < 0)
        return n;
    return do_rest(c, c->parts, c->n_parts, (size_t)n, true);
}

ssize_t ito_read(int fd, void *data, size_t bytes) {
    if (!is_ours())
        return read(fd, data, bytes);
    struct iovec part = {data, bytes};
    struct io_call c = reading(fd, &part, 1);
    return read_some(&c);
}

ssize_t ito_readv(int fd, const struct iovec *parts, int n_parts) {
    if (!is_ours())
        return readv(fd, parts, n_parts);
    struct io_call c = reading(fd, (struct iovec *)parts, n_parts);
    return read_some(&c);
}

ssize_t ito_write(int fd, const void *data, size_t bytes) {
    if (!is_ours())
        return write(fd, data, bytes);
    struct iovec part = {(void *)data, bytes};
    struct io_call c = writing(fd, &part, 1);
    return write_all(&c, &part, 1);
}

ssize_t ito_writev(int fd, const struct iovec *parts, int n_parts) {
    if (!is_ours())
        return writev(fd, parts, n_parts);
    struct io_call c = writing(fd, (struct iovec *)parts, n_parts);
    return write_all(&c, parts, n_parts);
}

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

/* `message` null: one part, as recv and send. */
static ssize_t socket_recv(const struct io_call *c, int flags) {
    return c->message ? recvmsg(c->fd, c->message, flags) : recv(c->fd, c->parts->iov_base, c->parts->iov_len, flags);
}
static ssize_t socket_send(const struct io_call *c, int flags) {
    return c->message ? sendmsg(c->fd, c->message, flags) : send(c->fd, c->parts->iov_base, c->parts->iov_len, flags);
}
static ssize_t try_recv(const struct io_call *c) {
    return socket_recv(c, c->flags | MSG_DONTWAIT);
}
static ssize_t plain_recv(const struct io_call *c) {
    return socket_recv(c, c->flags);
}
static ssize_t try_send(const struct io_call *c) {
    return socket_send(c, c->flags | MSG_DONTWAIT);
}
static ssize_t plain_send(const struct io_call *c) {
    return socket_send(c, c->flags);
}

static ssize_t receive(const struct io_call *c) {
    if (c->flags & (MSG_DONTWAIT | MSG_ERRQUEUE) || !is_ours())
        return plain_recv(c);
    /* A call that waits until everything is there may take part of it and wait on: no tries. */
    return c->flags & MSG_WAITALL ? as_it_is(c) : call(c);
}

static ssize_t transmit(const struct io_call *c, const struct iovec *parts, int n_parts) {
    return c->flags & MSG_DONTWAIT || !is_ours() ? plain_send(c) : write_all(c, parts, n_parts);
}

ssize_t ito_recv(int fd, void *data, size_t bytes, int flags) {
    struct iovec part = {data, bytes};
    struct io_call c = {.name = "recv",
                        .try_ = try_recv,
                        .plain = plain_recv,
                        .fd = fd,
                        .want = POLLIN,
                        .flags = flags,
                        .parts = &part};
    return receive(&c);
}

ssize_t ito_recvmsg(int fd, struct msghdr *message, int flags) {
    struct io_call c = {.name = "recvmsg",
                        .try_ = try_recv,
                        .plain = plain_recv,
                        .fd = fd,
                        .want = POLLIN,
                        .flags = flags,
                        .message = message};
    return receive(&c);
}

ssize_t ito_send(int fd, const void *data, size_t bytes, int flags) {
    struct iovec part = {(void *)data, bytes};
    struct io_call c = {.name = "send",
                        .try_ = try_send,
                        .plain = plain_send,
                        .fd = fd,
                        .want = POLLOUT,
                        .flags = flags,
                        .parts = &part};
    return transmit(&c, &part, 1);
}

ssize_t ito_sendmsg(int fd, const struct msghdr *message, int flags) {
    struct io_call c = {.name = "sendmsg",
                        .try_ = try_send,
                        .plain = plain_send,
                        .fd = fd,
                        .want = POLLOUT,
                        .flags = flags,
                        .message = (struct msghdr *)message};
    return message ? transmit(&c, message->msg_iov, (int)message->msg_iovlen) : plain_send(&c);
}

static ssize_t plain_accept(const struct io_call *c) {
    return accept4(c->fd, c->address, c->length_at, c->flags);
}
/* There is no flag for accept: it is made when the listener is ready. If another takes the connection first, it
 * waits, and the worker is given away. */
static ssize_t cannot(const struct io_call *c) {
    (void)c;
    errno = EOPNOTSUPP;
    return -1;
}

int ito_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    struct io_call c = {.name = "accept",
                        .try_ = cannot,
                        .plain = plain_accept,
                        .fd = fd,
                        .want = POLLIN,
                        .flags = flags,
                        .address = address,
                        .length_at = length};
    int made = (int)(is_ours() ? call(&c) : plain_accept(&c));
    if (made >= 0)
        ito__io_set_kind(made, ITO__IO_UNKNOWN);
    return made;
}

static ssize_t plain_connect(const struct io_call *c) {
    return connect(c->fd, c->address, c->length);
}

int ito_connect(int fd, const struct sockaddr *address, socklen_t length) {
    struct io_call c = {
        .name = "connect", .plain = plain_connect, .fd = fd, .address = (struct sockaddr *)address, .length = length};
    return (int)(is_ours() ? as_it_is(&c) : plain_connect(&c));
}

/* ---- poll, close ------------------------------------------------------------------------------------------------- */

#define NODES_ON_STACK 8u

struct poll_call {
    struct pollfd *fds;
    nfds_t n;
    uint64_t deadline_ns;
};

/* Milliseconds until the deadline, rounded up; -1: none. */
static int ms_left(uint64_t deadline_ns) {
    uint64_t now = deadline_ns == ITO_FOREVER ? 0 : ito_now_ns();
    if (deadline_ns == ITO_FOREVER)
        return -1;
    uint64_t ms = deadline_ns > now ? (deadline_ns - now + 999999u) / 1000000u : 0;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static int plain_poll(struct poll_call *p) {
    ito_call call;
    ito_blocking_begin(&call, "poll");
    int r = ITO__TLS_CALL_BEGAN(&call) ? poll(p->fds, p->n, ms_left(p->deadline_ns)) : (int)fails(EINTR);
    ITO__TLS_CALL_OVER();
    ito_blocking_end(&call);
    return r;
}

/* Sleeps until one of them is ready; 0, or an error. */
static int poll_await(struct poll_call *p, struct ito__io_node *nodes) {
    unsigned n = 0;
    for (nfds_t i = 0; i < p->n; i++)
        if (p->fds[i].fd >= 0)
            nodes[n++] = (struct ito__io_node){.fd = p->fds[i].fd, .want = (uint16_t)p->fds[i].events};
    return await_all("poll", nodes, n, p->deadline_ns);
}

/* Descriptors closed by ito_close while the caller slept. */
static int poll_closed(struct poll_call *p, const struct ito__io_node *nodes) {
    int n_closed = 0;
    unsigned n = 0;
    for (nfds_t i = 0; i < p->n; i++) {
        p->fds[i].revents = 0;
        if (p->fds[i].fd >= 0 && nodes[n++].got & ITO__IO_CLOSED) {
            p->fds[i].revents = POLLNVAL;
            n_closed++;
        }
    }
    return n_closed;
}

/* Until one is ready, or the deadline has passed. */
static int poll_sleep(struct poll_call *p, struct ito__io_node *nodes) {
    for (;;) {
        int error = poll_await(p, nodes), r = 0;
        if (error == EINTR)
            return (int)fails(error);
        if (error == EBADF || (r = poll_closed(p, nodes)) == 0)
            r = poll(p->fds, p->n, 0);
        if (r != 0 || error == ETIMEDOUT)
            return r;
        if (error && error != EBADF) /* one that epoll does not take, and that is not ready */
            return plain_poll(p);
    }
}

int ito__poll_until(struct pollfd *fds, nfds_t n_fds, uint64_t deadline_ns) {
    struct poll_call p = {fds, n_fds, deadline_ns};
    struct ito__io_node few[NODES_ON_STACK], *nodes = few;
    int r = poll(fds, n_fds, 0);
    if (r != 0 || deadline_ns == 0)
        return r;
    if (n_fds > NODES_ON_STACK && (nodes = malloc(n_fds * sizeof *nodes)) == NULL)
        return (int)fails(ENOMEM);
    r = poll_sleep(&p, nodes);
    int error = error_now();
    if (nodes != few)
        free(nodes);
    if (r < 0)
        fails(error);
    return r;
}

int ito_poll(struct pollfd *fds, nfds_t n_fds, int timeout_ms) {
    if (!is_ours() || timeout_ms == 0)
        return poll(fds, n_fds, timeout_ms);
    return ito__poll_until(fds, n_fds, timeout_ms < 0 ? ITO_FOREVER : ito_now_ns() + (uint64_t)timeout_ms * 1000000u);
}

int ito_close(int fd) {
    ito__io_forget(fd);
    int r = close(fd), error = error_now();
    ito__io_closed(fd);
    if (r != 0)
        fails(error);
    return r;
}
