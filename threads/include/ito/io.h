/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/io.h - system calls that stop a thread, not its worker.
 *
 * Each function of the first part has the arguments, the result and the errno of the system call it is named after.
 * Where that call would have to wait, the ito thread sleeps and its worker runs other threads:
 *
 *   1. the call is tried so that it cannot wait (RWF_NOWAIT, MSG_DONTWAIT). O_NONBLOCK, which belongs to the open file
 *      and so to everybody who has it open, is never changed;
 *   2. else the thread sleeps until epoll(7) says that the descriptor is ready, and tries again;
 *   3. where neither works (most files' writes, terminals, connect) the call is made as it is, between
 *      ito_blocking_begin and ito_blocking_end.
 *
 * A kernel thread that is no worker makes the plain system call. All functions may be called by any thread; errno is
 * the caller's, as after any call that may switch (docs/guide/ito.md).
 *
 * What differs from the system call:
 *   - a descriptor with O_NONBLOCK gives EAGAIN, as it must; but SO_RCVTIMEO and SO_SNDTIMEO are not looked at
 *   - a signal handler that runs meanwhile does not end the wait with EINTR
 *   - a descriptor that is closed by close(2) while a thread waits for it may leave that thread waiting, as the system
 *     call does; when its number is used again and waited for, the thread gets EBADF. ito_close wakes it at once
 */
#ifndef ITO_IO_H
#define ITO_IO_H

#include <ito.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

ssize_t ito_read(int fd, void *data, size_t bytes);
ssize_t ito_write(int fd, const void *data, size_t bytes);
ssize_t ito_readv(int fd, const struct iovec *parts, int n_parts);
ssize_t ito_writev(int fd, const struct iovec *parts, int n_parts);
ssize_t ito_recv(int fd, void *data, size_t bytes, int flags);
ssize_t ito_send(int fd, const void *data, size_t bytes, int flags);
ssize_t ito_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t ito_sendmsg(int fd, const struct msghdr *message, int flags);
int ito_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int ito_connect(int fd, const struct sockaddr *address, socklen_t length);
int ito_poll(struct pollfd *fds, nfds_t n_fds, int timeout_ms);

/* close(2); threads that wait for this descriptor in one of the calls above get EBADF (ito_poll: POLLNVAL). */
int ito_close(int fd);

/* ---- other calls that wait in the kernel ------------------------------------------------------------------------- */

/*
 * A call in progress. It lies on the caller's stack; its fields are private.
 *
 * Between begin and end the caller's worker may be given to another kernel thread, if the call takes longer than some
 * ten microseconds. The caller is then a kernel thread that is no worker, and may call whatever such a thread may. Both
 * are called by the same thread, and nothing that switches in between. They do not nest: inside, a pair has no effect.
 * Cost: two atomic operations, no system call, unless the worker is given away.
 *
 * A worker that bound threads (ito_attr.worker) were created for is never given away: they rely on its thread-local
 * variables. Neither is one when too many calls are in progress (256) or the system gives no kernel thread: then the
 * worker waits with the call.
 */
typedef struct ito_call {
    void *worker, *carrier, *thread;
    const char *name;
    uint64_t begin_ns, begin_stamp;
    uint32_t turn;
} ito_call;

/**
 * ito_blocking_begin - the caller is about to make a call that may wait in the kernel.
 * @call: private; alive until the end.
 * @name: what recordings and counters (ITO_STATS=1) call it: a literal such as "flock"; null: "call". Its first 19 bytes count
 *        in the table that ito_fini prints, 50 in a recording.
 */
void ito_blocking_begin(ito_call *call, const char *name);
/* The call has returned. errno is kept. The caller may go on on another worker. */
void ito_blocking_end(ito_call *call);

/* fn(arg) between the two; returns what it returned. */
void *ito_blocking(void *(*fn)(void *), void *arg);

#ifdef __cplusplus
}
#endif

#endif
