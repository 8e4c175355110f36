/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits for child processes, locks of files and System V's queues. A child with a number is waited for by its pidfd; for the rest only
 * the kernel can wait, and the worker is given away meanwhile.
 */
#include "calls.h"

#include "io/io.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/syscall.h>

/* ---- children ---------------------------------------------------------------------------------------------------- */

/* A child that somebody traces stops, which its pidfd does not tell. */
#define CHILD_NS 100000000u

/* Sleeps until the process may have ended. False: it cannot be waited for so, or EINTR. */
static bool sleep_until_ended(int *pidfd, pid_t pid) {
    if (*pidfd < 0 && (*pidfd = (int)syscall(SYS_pidfd_open, pid, 0)) < 0)
        return false;
    struct pollfd p = {*pidfd, POLLIN, 0};
    return ito__poll_until(&p, 1, ito_now_ns() + CHILD_NS) >= 0;
}

static void close_quietly(int fd) {
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
}

BLOCKING(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage), (pid, status, options, usage))
static pid_t light_wait4(pid_t pid, int *status, int options, struct rusage *usage) {
    int pidfd = -1;
    pid_t r = -1;
    bool whole = pid <= 0 || options & ~(__WALL | __WCLONE | __WNOTHREAD);
    while (!whole && (r = REAL(wait4)(pid, status, options | WNOHANG, usage)) == 0)
        if (!sleep_until_ended(&pidfd, pid)) {
            whole = errno != EINTR;
            r = -1;
            break;
        }
    close_quietly(pidfd);
    return whole ? blocking_wait4(pid, status, options, usage) : r;
}
EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage) {
    if (options & WNOHANG || !light_here())
        return REAL(wait4)(pid, status, options, usage);
    LIGHT_CALL(pid_t, CALL_RESTARTS, light_wait4(pid, status, options, usage),
               REAL(wait4)(pid, status, options, usage));
}
EXPORT pid_t wait3(int *status, int options, struct rusage *usage) {
    return wait4(-1, status, options, usage);
}
EXPORT pid_t waitpid(pid_t pid, int *status, int options) {
    return wait4(pid, status, options, NULL);
}
EXPORT pid_t wait(int *status) {
    return wait4(-1, status, 0, NULL);
}

BLOCKING(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options), (type, id, info, options))
static int light_waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
    siginfo_t none, *at = info ? info : &none;
    int pidfd = -1, r = -1;
    bool whole = type != P_PID || options & ~(WEXITED | WNOWAIT | __WALL | __WCLONE | __WNOTHREAD);
    while (!whole) {
        at->si_pid = 0;
        if ((r = REAL(waitid)(type, id, at, options | WNOHANG)) != 0 || at->si_pid != 0)
            break;
        if (!sleep_until_ended(&pidfd, (pid_t)id)) {
            whole = errno != EINTR;
            r = -1;
            break;
        }
    }
    close_quietly(pidfd);
    return whole ? blocking_waitid(type, id, info, options) : r;
}
EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
    if (options & WNOHANG || !light_here())
        return REAL(waitid)(type, id, info, options);
    LIGHT_CALL(int, CALL_RESTARTS, light_waitid(type, id, info, options), REAL(waitid)(type, id, info, options));
}

/* ---- locks of files ---------------------------------------------------------------------------------------------- */

BLOCKING_EXPORT(int, flock, CALL_RESTARTS | CALL_NO_POINT, (int fd, int operation), (fd, operation))

static bool waits_for_lock(int command) {
    return command == F_SETLKW || command == F_OFD_SETLKW;
}
#define FCNTL_EXPORT(name)                                                                                             \
    BLOCKING(int, name, (int fd, int command, void *arg), (fd, command, arg))                                          \
    static int light_##name(int fd, int command, void *arg) {                                                          \
        LIGHT_CALL(int, CALL_RESTARTS, blocking_##name(fd, command, arg), REAL(name)(fd, command, arg));               \
    }                                                                                                                  \
    EXPORT int name(int fd, int command, ...) {                                                                        \
        va_list args;                                                                                                  \
        va_start(args, command);                                                                                       \
        void *arg = va_arg(args, void *);                                                                              \
        va_end(args);                                                                                                  \
        return waits_for_lock(command) && light_here() ? light_##name(fd, command, arg)                                \
                                                       : REAL(name)(fd, command, arg);                                 \
    }
FCNTL_EXPORT(fcntl)
FCNTL_EXPORT(fcntl64)

/* ---- System V queues and semaphores ------------------------------------------------------------------------------ */

BLOCKING_EXPORT(ssize_t, msgrcv, CALL_ENDS, (int id, void *message, size_t bytes, long type, int flags),
                (id, message, bytes, type, flags))
BLOCKING_EXPORT(int, msgsnd, CALL_ENDS, (int id, const void *message, size_t bytes, int flags),
                (id, message, bytes, flags))
BLOCKING_EXPORT(int, semop, CALL_ENDS | CALL_NO_POINT, (int id, struct sembuf *operations, size_t n),
                (id, operations, n))
BLOCKING(int, semtimedop, (int id, struct sembuf *operations, size_t n, const struct timespec *t),
         (id, operations, n, t))
EXPORT int semtimedop(int id, struct sembuf *operations, size_t n, const struct timespec *t) {
    if (!light_here())
        return REAL(semtimedop)(id, operations, n, t);
    struct timespec left;
    uint64_t deadline_ns = call_deadline(t);
    LIGHT_CALL(int, CALL_ENDS | CALL_NO_POINT, blocking_semtimedop(id, operations, n, t),
               REAL(semtimedop)(id, operations, n, call_left(deadline_ns, &left)));
}

/* ---- POSIX queues and asynchronous input ------------------------------------------------------------------------- */

BLOCKING_EXPORT(ssize_t, mq_receive, CALL_RESTARTS, (mqd_t queue, char *message, size_t bytes, unsigned *priority),
                (queue, message, bytes, priority))
BLOCKING_EXPORT(int, mq_send, CALL_RESTARTS, (mqd_t queue, const char *message, size_t bytes, unsigned priority),
                (queue, message, bytes, priority))
BLOCKING_EXPORT(ssize_t, mq_timedreceive, CALL_RESTARTS,
                (mqd_t queue, char *message, size_t bytes, unsigned *priority, const struct timespec *end),
                (queue, message, bytes, priority, end))
BLOCKING_EXPORT(int, mq_timedsend, CALL_RESTARTS,
                (mqd_t queue, const char *message, size_t bytes, unsigned priority, const struct timespec *end),
                (queue, message, bytes, priority, end))

BLOCKING(int, aio_suspend, (const struct aiocb *const *list, int n, const struct timespec *t), (list, n, t))
EXPORT int aio_suspend(const struct aiocb *const list[], int n, const struct timespec *t) {
    if (!light_here())
        return REAL(aio_suspend)(list, n, t);
    struct timespec left;
    uint64_t deadline_ns = call_deadline(t);
    LIGHT_CALL(int, t ? CALL_ENDS : CALL_RESTARTS, blocking_aio_suspend(list, n, t),
               REAL(aio_suspend)(list, n, call_left(deadline_ns, &left)));
}
EXPORT int aio_suspend64(const struct aiocb64 *const list[], int n, const struct timespec *t)
    __attribute__((alias("aio_suspend")));

/* ---- ptrace: the tracer is a kernel thread ----------------------------------------------------------------------- */

EXPORT long ptrace(enum __ptrace_request request, ...) {
    va_list args;
    va_start(args, request);
    pid_t pid = va_arg(args, pid_t);
    void *address = va_arg(args, void *), *data = va_arg(args, void *);
    va_end(args);
    light_pin("ptrace");
    return REAL(ptrace)(request, pid, address, data);
}
