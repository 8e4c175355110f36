/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that this library stands in front of, from dlsym(RTLD_NEXT): when the library is loaded, or earlier at
 * the first call if a constructor of another library locks.
 *
 * dlsym may allocate when it fails, and a preloaded malloc may lock. So the functions that every C library has are
 * resolved first, and are in place when such a malloc calls us from inside dlsym.
 */
#ifndef KASURI_PROBE_REAL_H
#define KASURI_PROBE_REAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

/* A short name, so that each row below is one line. */
typedef struct timespec probe_ts;
/* X(name, parameters); all return int. */
/* What a preloaded malloc may call while dlsym runs: in every C library, so that looking them up does not fail, and
 * in their default version. */
#define PROBE_REAL_FIRST(X)                                                                                            \
    X(pthread_mutex_lock, (pthread_mutex_t *))                                                                         \
    X(pthread_mutex_trylock, (pthread_mutex_t *))                                                                      \
    X(pthread_mutex_unlock, (pthread_mutex_t *))                                                                       \
    X(pthread_mutex_init, (pthread_mutex_t *, const pthread_mutexattr_t *))                                            \
    X(pthread_once, (pthread_once_t *, void (*)(void)))                                                                \
    X(pthread_rwlock_init, (pthread_rwlock_t *, const pthread_rwlockattr_t *))                                         \
    X(pthread_rwlock_rdlock, (pthread_rwlock_t *))                                                                     \
    X(pthread_rwlock_wrlock, (pthread_rwlock_t *))                                                                     \
    X(pthread_rwlock_tryrdlock, (pthread_rwlock_t *))                                                                  \
    X(pthread_rwlock_trywrlock, (pthread_rwlock_t *))                                                                  \
    X(pthread_rwlock_unlock, (pthread_rwlock_t *))
/* The rest. Some C libraries lack some of them (the clock variants came with glibc 2.30, <threads.h> with 2.28):
 * missing() in real.c stands for those. */
#define PROBE_REAL_REST(X)                                                                                             \
    X(pthread_mutex_timedlock, (pthread_mutex_t *, const probe_ts *))                                                  \
    X(pthread_mutex_clocklock, (pthread_mutex_t *, clockid_t, const probe_ts *))                                       \
    X(pthread_rwlock_timedrdlock, (pthread_rwlock_t *, const probe_ts *))                                              \
    X(pthread_rwlock_timedwrlock, (pthread_rwlock_t *, const probe_ts *))                                              \
    X(pthread_rwlock_clockrdlock, (pthread_rwlock_t *, clockid_t, const probe_ts *))                                   \
    X(pthread_rwlock_clockwrlock, (pthread_rwlock_t *, clockid_t, const probe_ts *))                                   \
    X(pthread_spin_init, (pthread_spinlock_t *, int))                                                                  \
    X(pthread_spin_destroy, (pthread_spinlock_t *))                                                                    \
    X(pthread_spin_lock, (pthread_spinlock_t *))                                                                       \
    X(pthread_spin_trylock, (pthread_spinlock_t *))                                                                    \
    X(pthread_spin_unlock, (pthread_spinlock_t *))                                                                     \
    X(pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *))                                                        \
    X(pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const probe_ts *))                                 \
    X(pthread_cond_clockwait, (pthread_cond_t *, pthread_mutex_t *, clockid_t, const probe_ts *))                      \
    X(pthread_barrier_wait, (pthread_barrier_t *))                                                                     \
    X(pthread_join, (pthread_t, void **))                                                                              \
    X(pthread_timedjoin_np, (pthread_t, void **, const probe_ts *))                                                    \
    X(pthread_clockjoin_np, (pthread_t, void **, clockid_t, const probe_ts *))                                         \
    X(sem_wait, (sem_t *))                                                                                             \
    X(sem_timedwait, (sem_t *, const probe_ts *))                                                                      \
    X(sem_clockwait, (sem_t *, clockid_t, const probe_ts *))                                                           \
    X(sem_trywait, (sem_t *))                                                                                          \
    X(mtx_lock, (mtx_t *))                                                                                             \
    X(mtx_timedlock, (mtx_t *, const probe_ts *))                                                                      \
    X(mtx_trylock, (mtx_t *))                                                                                          \
    X(mtx_unlock, (mtx_t *))                                                                                           \
    X(mtx_init, (mtx_t *, int))                                                                                        \
    X(cnd_wait, (cnd_t *, mtx_t *))                                                                                    \
    X(cnd_timedwait, (cnd_t *, mtx_t *, const probe_ts *))                                                             \
    X(pthread_create, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))                                \
    X(thrd_create, (thrd_t *, thrd_start_t, void *))                                                                   \
    X(thrd_join, (thrd_t, int *))

/* What wakes or ends threads, and so on: only a library that delays threads stands in front of these. */
#ifdef PROBE_REAL_DELAYS
#define PROBE_REAL_MORE(X)                                                                                             \
    X(pthread_cond_signal, (pthread_cond_t *))                                                                         \
    X(pthread_cond_broadcast, (pthread_cond_t *))                                                                      \
    X(sem_post, (sem_t *))
#else
#define PROBE_REAL_MORE(X)
#endif

/* One pointer a function, null until probe_resolve() has run: the only writer, and of the same values each time. */
struct probe_real {
#define PROBE_REAL_FIELD(name, parameters) int(*name) parameters;
    PROBE_REAL_FIRST(PROBE_REAL_FIELD)
    PROBE_REAL_REST(PROBE_REAL_FIELD)
    PROBE_REAL_MORE(PROBE_REAL_FIELD)
#undef PROBE_REAL_FIELD
};

extern struct probe_real probe_real_table __attribute__((visibility("hidden")));
/* Looks all of them up; may be called again. See real.c. */
int probe_resolve(void) __attribute__((visibility("hidden"), cold, noinline));

/* The real function, resolved if a constructor calls before ours ran; and where probe_on() said yes, which resolves. */
#define REAL(name)                                                                                                     \
    (__builtin_expect(probe_real_table.name != 0, 1) ? (void)0 : (void)probe_resolve(), probe_real_table.name)
/* For ways that only a thread with an open gate reaches: probe_on() has resolved the table before it said yes. */
#define RESOLVED(name) (probe_real_table.name)

#endif
