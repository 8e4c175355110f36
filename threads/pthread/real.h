/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C library's functions behind those of this library. They may be called before any constructor has run. */
#ifndef ITO_PTHREAD_REAL_H
#define ITO_PTHREAD_REAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <aio.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* X(result, name, parameters) */
#define REAL_FUNCTIONS(X)                                                                                              \
    X(int, pthread_create, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))                           \
    X(int, pthread_join, (pthread_t, void **))                                                                         \
    X(int, pthread_tryjoin_np, (pthread_t, void **))                                                                   \
    X(int, pthread_timedjoin_np, (pthread_t, void **, const struct timespec *))                                        \
    X(int, pthread_clockjoin_np, (pthread_t, void **, clockid_t, const struct timespec *))                             \
    X(int, pthread_detach, (pthread_t))                                                                                \
    X(void, pthread_exit, (void *))                                                                                    \
    X(int, pthread_cancel, (pthread_t))                                                                                \
    X(void, pthread_testcancel, (void))                                                                                \
    X(int, pthread_setcanceltype, (int, int *))                                                                        \
    X(int, __register_atfork, (void (*)(void), void (*)(void), void (*)(void), void *))                                \
    X(int, raise, (int))                                                                                               \
    X(int, sigsuspend, (const sigset_t *))                                                                             \
    X(int, posix_spawn,                                                                                                \
      (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,            \
       char *const *))                                                                                                 \
    X(int, posix_spawnp,                                                                                               \
      (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,            \
       char *const *))                                                                                                 \
    X(int, system, (const char *))                                                                                     \
    X(FILE *, popen, (const char *, const char *))                                                                     \
    X(pid_t, vfork, (void))                                                                                            \
    X(int, pause, (void))                                                                                              \
    X(int, sigaltstack, (const stack_t *, stack_t *))                                                                  \
    X(int, sigpending, (sigset_t *))                                                                                   \
    X(int, pthread_mutex_getprioceiling, (const pthread_mutex_t *, int *))                                             \
    X(int, pthread_mutex_setprioceiling, (pthread_mutex_t *, int, int *))                                              \
    X(int, pthread_kill, (pthread_t, int))                                                                             \
    X(int, pthread_attr_getsigmask_np, (const pthread_attr_t *, sigset_t *))                                           \
    X(int, pthread_getattr_default_np, (pthread_attr_t *))                                                             \
    X(int, pthread_setattr_default_np, (const pthread_attr_t *))                                                       \
    X(int, pthread_getattr_np, (pthread_t, pthread_attr_t *))                                                          \
    X(int, pthread_setname_np, (pthread_t, const char *))                                                              \
    X(int, pthread_getname_np, (pthread_t, char *, size_t))                                                            \
    X(int, pthread_setschedparam, (pthread_t, int, const struct sched_param *))                                        \
    X(int, pthread_getschedparam, (pthread_t, int *, struct sched_param *))                                            \
    X(int, pthread_setschedprio, (pthread_t, int))                                                                     \
    X(int, pthread_getcpuclockid, (pthread_t, clockid_t *))                                                            \
    X(int, pthread_setaffinity_np, (pthread_t, size_t, const cpu_set_t *))                                             \
    X(int, pthread_getaffinity_np, (pthread_t, size_t, cpu_set_t *))                                                   \
    X(int, pthread_key_create, (pthread_key_t *, void (*)(void *)))                                                    \
    X(int, pthread_key_delete, (pthread_key_t))                                                                        \
    X(int, pthread_mutex_init, (pthread_mutex_t *, const pthread_mutexattr_t *))                                       \
    X(int, pthread_mutex_destroy, (pthread_mutex_t *))                                                                 \
    X(int, pthread_mutex_lock, (pthread_mutex_t *))                                                                    \
    X(int, pthread_mutex_trylock, (pthread_mutex_t *))                                                                 \
    X(int, pthread_mutex_clocklock, (pthread_mutex_t *, clockid_t, const struct timespec *))                           \
    X(int, pthread_mutex_timedlock, (pthread_mutex_t *, const struct timespec *))                                      \
    X(int, pthread_mutex_unlock, (pthread_mutex_t *))                                                                  \
    X(int, pthread_cond_init, (pthread_cond_t *, const pthread_condattr_t *))                                          \
    X(int, pthread_cond_destroy, (pthread_cond_t *))                                                                   \
    X(int, pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *))                                                   \
    X(int, pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))                     \
    X(int, pthread_cond_clockwait, (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))          \
    X(int, pthread_cond_signal, (pthread_cond_t *))                                                                    \
    X(int, pthread_cond_broadcast, (pthread_cond_t *))                                                                 \
    X(int, pthread_rwlock_init, (pthread_rwlock_t *, const pthread_rwlockattr_t *))                                    \
    X(int, pthread_rwlock_destroy, (pthread_rwlock_t *))                                                               \
    X(int, pthread_rwlock_rdlock, (pthread_rwlock_t *))                                                                \
    X(int, pthread_rwlock_wrlock, (pthread_rwlock_t *))                                                                \
    X(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t *))                                                             \
    X(int, pthread_rwlock_trywrlock, (pthread_rwlock_t *))                                                             \
    X(int, pthread_rwlock_timedrdlock, (pthread_rwlock_t *, const struct timespec *))                                  \
    X(int, pthread_rwlock_timedwrlock, (pthread_rwlock_t *, const struct timespec *))                                  \
    X(int, pthread_rwlock_clockrdlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))                       \
    X(int, pthread_rwlock_clockwrlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))                       \
    X(int, pthread_rwlock_unlock, (pthread_rwlock_t *))                                                                \
    X(int, pthread_barrier_init, (pthread_barrier_t *, const pthread_barrierattr_t *, unsigned))                       \
    X(int, pthread_barrier_destroy, (pthread_barrier_t *))                                                             \
    X(int, pthread_barrier_wait, (pthread_barrier_t *))                                                                \
    X(int, pthread_spin_trylock, (pthread_spinlock_t *))                                                               \
    X(int, sem_init, (sem_t *, int, unsigned))                                                                         \
    X(int, sem_destroy, (sem_t *))                                                                                     \
    X(int, sem_getvalue, (sem_t *, int *))                                                                             \
    X(int, sem_post, (sem_t *))                                                                                        \
    X(int, sem_wait, (sem_t *))                                                                                        \
    X(int, sem_trywait, (sem_t *))                                                                                     \
    X(int, sem_timedwait, (sem_t *, const struct timespec *))                                                          \
    X(int, sem_clockwait, (sem_t *, clockid_t, const struct timespec *))                                               \
    X(int, pthread_sigmask, (int, const sigset_t *, sigset_t *))                                                       \
    X(int, sigprocmask, (int, const sigset_t *, sigset_t *))                                                           \
    X(ssize_t, read, (int, void *, size_t))                                                                            \
    X(ssize_t, write, (int, const void *, size_t))                                                                     \
    X(ssize_t, readv, (int, const struct iovec *, int))                                                                \
    X(ssize_t, writev, (int, const struct iovec *, int))                                                               \
    X(ssize_t, recv, (int, void *, size_t, int))                                                                       \
    X(ssize_t, send, (int, const void *, size_t, int))                                                                 \
    X(ssize_t, recvmsg, (int, struct msghdr *, int))                                                                   \
    X(ssize_t, sendmsg, (int, const struct msghdr *, int))                                                             \
    X(ssize_t, recvfrom, (int, void *, size_t, int, struct sockaddr *, socklen_t *))                                   \
    X(ssize_t, sendto, (int, const void *, size_t, int, const struct sockaddr *, socklen_t))                           \
    X(ssize_t, __read_chk, (int, void *, size_t, size_t))                                                              \
    X(ssize_t, __recv_chk, (int, void *, size_t, size_t, int))                                                         \
    X(ssize_t, __recvfrom_chk, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *))                     \
    X(int, __poll_chk, (struct pollfd *, nfds_t, int, size_t))                                                         \
    X(int, accept4, (int, struct sockaddr *, socklen_t *, int))                                                        \
    X(int, connect, (int, const struct sockaddr *, socklen_t))                                                         \
    X(int, setsockopt, (int, int, int, const void *, socklen_t))                                                       \
    X(int, close, (int))                                                                                               \
    X(int, poll, (struct pollfd *, nfds_t, int))                                                                       \
    X(int, select, (int, fd_set *, fd_set *, fd_set *, struct timeval *))                                              \
    X(int, pselect, (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))                    \
    X(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))                                \
    X(int, __ppoll_chk, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t))                  \
    X(int, epoll_wait, (int, struct epoll_event *, int, int))                                                          \
    X(int, epoll_pwait, (int, struct epoll_event *, int, int, const sigset_t *))                                       \
    X(int, epoll_pwait2, (int, struct epoll_event *, int, const struct timespec *, const sigset_t *))                  \
    X(pid_t, wait4, (pid_t, int *, int, struct rusage *))                                                              \
    X(int, waitid, (idtype_t, id_t, siginfo_t *, int))                                                                 \
    X(int, fcntl, (int, int, ...))                                                                                     \
    X(int, fcntl64, (int, int, ...))                                                                                   \
    X(ssize_t, msgrcv, (int, void *, size_t, long, int))                                                               \
    X(int, msgsnd, (int, const void *, size_t, int))                                                                   \
    X(int, semop, (int, struct sembuf *, size_t))                                                                      \
    X(int, semtimedop, (int, struct sembuf *, size_t, const struct timespec *))                                        \
    X(long, ptrace, (enum __ptrace_request, ...))                                                                      \
    X(ssize_t, sendfile, (int, int, off_t *, size_t))                                                                  \
    X(ssize_t, splice, (int, off64_t *, int, off64_t *, size_t, unsigned))                                             \
    X(ssize_t, tee, (int, int, size_t, unsigned))                                                                      \
    X(ssize_t, vmsplice, (int, const struct iovec *, size_t, unsigned))                                                \
    X(int, recvmmsg, (int, struct mmsghdr *, unsigned, int, struct timespec *))                                        \
    X(int, sendmmsg, (int, struct mmsghdr *, unsigned, int))                                                           \
    X(int, flock, (int, int))                                                                                          \
    X(int, aio_suspend, (const struct aiocb *const *, int, const struct timespec *))                                   \
    X(ssize_t, mq_receive, (mqd_t, char *, size_t, unsigned *))                                                        \
    X(int, mq_send, (mqd_t, const char *, size_t, unsigned))                                                           \
    X(ssize_t, mq_timedreceive, (mqd_t, char *, size_t, unsigned *, const struct timespec *))                          \
    X(int, mq_timedsend, (mqd_t, const char *, size_t, unsigned, const struct timespec *))                             \
    X(int, __sigpause, (int, int))                                                                                     \
    X(int, sigwait, (const sigset_t *, int *))                                                                         \
    X(int, sigwaitinfo, (const sigset_t *, siginfo_t *))                                                               \
    X(int, sigtimedwait, (const sigset_t *, siginfo_t *, const struct timespec *))                                     \
    X(FILE *, fopen, (const char *, const char *))                                                                     \
    X(FILE *, fopen64, (const char *, const char *))                                                                   \
    X(int, fclose, (FILE *))                                                                                           \
    X(int, fflush, (FILE *))                                                                                           \
    X(size_t, fread, (void *, size_t, size_t, FILE *))                                                                 \
    X(size_t, fwrite, (const void *, size_t, size_t, FILE *))                                                          \
    X(int, fputs, (const char *, FILE *))                                                                              \
    X(int, puts, (const char *))                                                                                       \
    X(int, fputc, (int, FILE *))                                                                                       \
    X(int, putc, (int, FILE *))                                                                                        \
    X(int, putchar, (int))                                                                                             \
    X(int, fgetc, (FILE *))                                                                                            \
    X(int, getc, (FILE *))                                                                                             \
    X(int, getchar, (void))                                                                                            \
    X(char *, fgets, (char *, int, FILE *))                                                                            \
    X(ssize_t, getline, (char **, size_t *, FILE *))                                                                   \
    X(ssize_t, getdelim, (char **, size_t *, int, FILE *))                                                             \
    X(int, vfprintf, (FILE *, const char *, va_list))                                                                  \
    X(int, vdprintf, (int, const char *, va_list))                                                                     \
    X(int, __vfprintf_chk, (FILE *, int, const char *, va_list))                                                       \
    X(char *, __fgets_chk, (char *, size_t, int, FILE *))                                                              \
    X(size_t, __fread_chk, (void *, size_t, size_t, size_t, FILE *))                                                   \
    X(void, flockfile, (FILE *))                                                                                       \
    X(int, fsync, (int))                                                                                               \
    X(int, fdatasync, (int))                                                                                           \
    X(int, lockf, (int, int, off_t))                                                                                   \
    X(int, lockf64, (int, int, off64_t))                                                                               \
    X(int, getaddrinfo, (const char *, const char *, const struct addrinfo *, struct addrinfo **))                     \
    X(int, getnameinfo, (const struct sockaddr *, socklen_t, char *, socklen_t, char *, socklen_t, int))               \
    X(int, clock_nanosleep, (clockid_t, int, const struct timespec *, struct timespec *))                              \
    X(int, nanosleep, (const struct timespec *, struct timespec *))                                                    \
    X(int, usleep, (useconds_t))                                                                                       \
    X(unsigned, sleep, (unsigned))                                                                                     \
    X(int, sched_yield, (void))

int __sigpause(int signal_or_mask, int is_signal);

struct real {
#define REAL_FIELD(result, name, parameters) result(*name) parameters;
    REAL_FUNCTIONS(REAL_FIELD)
#undef REAL_FIELD
};
extern struct real real_table;
void real_find(void **at, const char *name) __attribute__((cold, noinline));

/* The C library's function `name`. */
#define REAL(name)                                                                                                     \
    (__builtin_expect(real_table.name != 0, 1) ? (void)0 : real_find((void **)&real_table.name, #name), real_table.name)

#endif
