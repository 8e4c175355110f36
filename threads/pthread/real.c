/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds the C library's functions (real.h), and gives them to ito's own sources under the names of real_names.h.
 *
 * Before this library's constructor has run each is looked up when it is called first, and no other: a look-up in vain allocates
 * memory, and the caller may be an allocator that makes its first lock. Later none is looked up: that would wait for who loads a
 * library. Threads may race in real_find(). ORDER relaxed: all store the same addresses.
 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct real real_table;

/* In place of a function that this C library does not have: only a program that looks it up at run time calls it. It fails in that
 * function's way. None of those that return a pointer is missing anywhere. */
static int missing_error(void) {
    return ENOSYS;
}
static long missing_errno(void) {
    errno = ENOSYS;
    return -1;
}
static void *missing(const char *name) {
    bool returns_error =
        strncmp(name, "pthread_", 8) == 0 || strcmp(name, "sigwait") == 0 || strcmp(name, "clock_nanosleep") == 0;
    return returns_error ? (void *)(uintptr_t)&missing_error : (void *)(uintptr_t)&missing_errno;
}

/* On CPUs that glibc has long been on it has two versions of these, and before 2.36 plain dlsym gives the older one, whose
 * pthread_cond_t is another struct. */
static const char *const versioned[] = {"pthread_cond_init",      "pthread_cond_destroy", "pthread_cond_wait",
                                        "pthread_cond_timedwait", "pthread_cond_signal",  "pthread_cond_broadcast"};

static void *find(const char *name) {
    void *newer = NULL;
    for (size_t i = 0; i < sizeof versioned / sizeof *versioned && !newer; i++)
        if (strcmp(name, versioned[i]) == 0)
            newer = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return newer ? newer : dlsym(RTLD_NEXT, name);
}

void real_find(void **at, const char *name) {
    void *found = find(name);
    __atomic_store_n(at, found ? found : missing(name), __ATOMIC_RELAXED);
}

static __attribute__((constructor)) void find_all(void) {
#define REAL_FIND(result, name, parameters) (void)REAL(name);
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

/* Calls that ito makes for itself, in the middle of waking somebody: system calls, as the C library's functions are cancellation points,
 * and a thread that was cancelled would be unwound out of there. */
ssize_t ito__real_read(int fd, void *data, size_t bytes);
ssize_t ito__real_read(int fd, void *data, size_t bytes) {
    return syscall(SYS_read, fd, data, bytes);
}
ssize_t ito__real_write(int fd, const void *data, size_t bytes);
ssize_t ito__real_write(int fd, const void *data, size_t bytes) {
    return syscall(SYS_write, fd, data, bytes);
}
ssize_t ito__real_preadv2(int fd, const struct iovec *parts, int n, off_t at, int flags);
ssize_t ito__real_preadv2(int fd, const struct iovec *parts, int n, off_t at, int flags) {
    return syscall(SYS_preadv2, fd, parts, n, at, at,
                   flags); /* of the two halves only the first counts where it is whole */
}
ssize_t ito__real_pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags);
ssize_t ito__real_pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags) {
    return syscall(SYS_pwritev2, fd, parts, n, at, at, flags);
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
    return syscall(SYS_recvfrom, fd, data, bytes, flags, NULL, NULL);
}
ssize_t ito__real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t ito__real_send(int fd, const void *data, size_t bytes, int flags) {
    return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
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
    return (int)syscall(SYS_close, fd);
}
int ito__real_nanosleep(const struct timespec *t, struct timespec *left);
int ito__real_nanosleep(const struct timespec *t, struct timespec *left) {
    return (int)syscall(SYS_nanosleep, t, left);
}
int ito__real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms);
int ito__real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms) {
    return (int)syscall(SYS_epoll_pwait, fd, events, n, timeout_ms, NULL, 0);
}
