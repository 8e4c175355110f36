/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Included in front of ito's own sources, where they are compiled into libito-pthread.so: what they call by a name that
 * this library stands in front of is the C library's function (real.c).
 */
#ifndef ITO_PTHREAD_REAL_NAMES_H
#define ITO_PTHREAD_REAL_NAMES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

ssize_t ito__real_read(int fd, void *data, size_t bytes);
ssize_t ito__real_write(int fd, const void *data, size_t bytes);
ssize_t ito__real_readv(int fd, const struct iovec *parts, int n);
ssize_t ito__real_writev(int fd, const struct iovec *parts, int n);
ssize_t ito__real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t ito__real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t ito__real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t ito__real_sendmsg(int fd, const struct msghdr *message, int flags);
int ito__real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int ito__real_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t ito__real_preadv2(int fd, const struct iovec *parts, int n, off_t at, int flags);
ssize_t ito__real_pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags);
int ito__real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int ito__real_close(int fd);
int ito__real_nanosleep(const struct timespec *t, struct timespec *left);
int ito__real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms);

#define pthread_create ito__real_pthread_create
#define pthread_join ito__real_pthread_join
#define pthread_mutex_init ito__real_pthread_mutex_init
#define pthread_mutex_lock ito__real_pthread_mutex_lock
#define pthread_mutex_unlock ito__real_pthread_mutex_unlock
#define pthread_getattr_np ito__real_pthread_getattr_np
#define pthread_setname_np ito__real_pthread_setname_np
#define pthread_exit ito__real_pthread_exit
#define pthread_sigmask ito__real_pthread_sigmask
#define sched_yield ito__real_sched_yield
#define read(...) ito__real_read(__VA_ARGS__)
#define write(...) ito__real_write(__VA_ARGS__)
#define readv(...) ito__real_readv(__VA_ARGS__)
#define writev(...) ito__real_writev(__VA_ARGS__)
#define preadv2(...) ito__real_preadv2(__VA_ARGS__)
#define pwritev2(...) ito__real_pwritev2(__VA_ARGS__)
#define recv(...) ito__real_recv(__VA_ARGS__)
#define send(...) ito__real_send(__VA_ARGS__)
#define recvmsg(...) ito__real_recvmsg(__VA_ARGS__)
#define sendmsg(...) ito__real_sendmsg(__VA_ARGS__)
#define accept4(...) ito__real_accept4(__VA_ARGS__)
#define connect(...) ito__real_connect(__VA_ARGS__)
#define poll(...) ito__real_poll(__VA_ARGS__)
#define close(...) ito__real_close(__VA_ARGS__)
#define nanosleep(...) ito__real_nanosleep(__VA_ARGS__)
#define epoll_wait(...) ito__real_epoll_wait(__VA_ARGS__)

#endif
