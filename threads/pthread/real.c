/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds the C library's functions (real.h), and gives them to ito's own sources under the names of real_names.h.
 *
 * Threads may race in real_resolve() before a constructor has run. ORDER relaxed: all store the same addresses.
 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct real real_table;

/* In place of a function that this C library does not have: only a program that looks it up at run time calls it. */
static int missing(void) {
    return ENOSYS;
}

/* glibc has two versions of pthread_cond_*, and before 2.36 plain dlsym gives the older one, whose pthread_cond_t is
 * another struct. */
static void *find(const char *name) {
    void *found = strncmp(name, "pthread_cond_", 13) == 0 ? dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2") : NULL;
    return found ? found : dlsym(RTLD_NEXT, name);
}

void real_resolve(void) {
    void *found;
#define REAL_FIND(result, name, parameters)                                                                            \
    found = find(#name);                                                                                               \
    __atomic_store_n((void **)&real_table.name, found ? found : (void *)(unsigned long)&missing, __ATOMIC_RELAXED);
    REAL_FUNCTIONS(REAL_FIND)
}

int ito__real_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int ito__real_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
    return REAL(pthread_create)(id, attr, fn, arg);
}
int ito__real_pthread_join(pthread_t id, void **result);
int ito__real_pthread_join(pthread_t id, void **result) {
    return REAL(pthread_join)(id, result);
}
void ito__real_pthread_exit(void *result) __attribute__((noreturn));
void ito__real_pthread_exit(void *result) {
    REAL(pthread_exit)(result);
    __builtin_unreachable();
}
int ito__real_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int ito__real_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr) {
    return REAL(pthread_mutex_init)(m, attr);
}
int ito__real_pthread_mutex_lock(pthread_mutex_t *m);
int ito__real_pthread_mutex_lock(pthread_mutex_t *m) {
    return REAL(pthread_mutex_lock)(m);
}
int ito__real_pthread_mutex_unlock(pthread_mutex_t *m);
int ito__real_pthread_mutex_unlock(pthread_mutex_t *m) {
    return REAL(pthread_mutex_unlock)(m);
}
int ito__real_pthread_getattr_np(pthread_t id, pthread_attr_t *attr);
int ito__real_pthread_getattr_np(pthread_t id, pthread_attr_t *attr) {
    return REAL(pthread_getattr_np)(id, attr);
}
int ito__real_pthread_setname_np(pthread_t id, const char *name);
int ito__real_pthread_setname_np(pthread_t id, const char *name) {
    return REAL(pthread_setname_np)(id, name);
}
int ito__real_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int ito__real_pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    return REAL(pthread_sigmask)(how, set, old);
}
int ito__real_sched_yield(void);
int ito__real_sched_yield(void) {
    return REAL(sched_yield)();
}
ssize_t ito__real_read(int fd, void *data, size_t bytes);
ssize_t ito__real_read(int fd, void *data, size_t bytes) {
    return REAL(read)(fd, data, bytes);
}
ssize_t ito__real_write(int fd, const void *data, size_t bytes);
ssize_t ito__real_write(int fd, const void *data, size_t bytes) {
    return REAL(write)(fd, data, bytes);
}
ssize_t ito__real_readv(int fd, const struct iovec *parts, int n);
ssize_t ito__real_readv(int fd, const struct iovec *parts, int n) {
    return REAL(readv)(fd, parts, n);
}
ssize_t ito__real_writev(int fd, const struct iovec *parts, int n);
ssize_t ito__real_writev(int fd, const struct iovec *parts, int n) {
    return REAL(writev)(fd, parts, n);
}
ssize_t ito__real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t ito__real_recv(int fd, void *data, size_t bytes, int flags) {
    return REAL(recv)(fd, data, bytes, flags);
}
ssize_t ito__real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t ito__real_send(int fd, const void *data, size_t bytes, int flags) {
    return REAL(send)(fd, data, bytes, flags);
}
ssize_t ito__real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t ito__real_recvmsg(int fd, struct msghdr *message, int flags) {
    return REAL(recvmsg)(fd, message, flags);
}
ssize_t ito__real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t ito__real_sendmsg(int fd, const struct msghdr *message, int flags) {
    return REAL(sendmsg)(fd, message, flags);
}
int ito__real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int ito__real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    return REAL(accept4)(fd, address, length, flags);
}
int ito__real_connect(int fd, const struct sockaddr *address, socklen_t length);
int ito__real_connect(int fd, const struct sockaddr *address, socklen_t length) {
    return REAL(connect)(fd, address, length);
}
int ito__real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int ito__real_poll(struct pollfd *fds, nfds_t n, int timeout_ms) {
    return REAL(poll)(fds, n, timeout_ms);
}
int ito__real_close(int fd);
int ito__real_close(int fd) {
    return REAL(close)(fd);
}
int ito__real_nanosleep(const struct timespec *t, struct timespec *left);
int ito__real_nanosleep(const struct timespec *t, struct timespec *left) {
    return REAL(nanosleep)(t, left);
}
int ito__real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms);
int ito__real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms) {
    return REAL(epoll_wait)(fd, events, n, timeout_ms);
}
