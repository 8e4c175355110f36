/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/sync.h - objects that ito threads wait on. Included by ito.h; C11 and C++11.
 *
 * Every function here may be called by an ito thread, which gives its worker to another thread while it waits, and by
 * any other kernel thread of the process (the main thread of a program, a thread of another library), which waits in
 * the kernel.
 *
 * Return values  0, or a value of errno.h, as pthread_* functions do. A function returns no value that is not listed.
 * Deadlines      nanoseconds of CLOCK_MONOTONIC, as ito_now_ns() returns them. ITO_FOREVER never comes. Functions that
 *                end in _until also return ETIMEDOUT, when the deadline passes first, and EAGAIN, when the kernel gives
 *                no thread for the timers.
 * Objects        zero bytes are a valid object (ITO_..._INIT). None allocates. The destroy functions only return EBUSY
 *                where a thread still waits or holds.
 * errno          and thread-local storage: docs/design/sync.md, "errno and __thread".
 */
#ifndef ITO_SYNC_H
#define ITO_SYNC_H

#include <stddef.h>
#include <stdint.h>

#ifndef ITO_API
#define ITO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct ito__waiter;
struct ito__waiters {
    struct ito__waiter *head, *tail;
};

/* -- time ---------------------------------------------------------------------------------------------------------- */

#define ITO_FOREVER UINT64_MAX

/**
 * ito_now_ns - CLOCK_MONOTONIC now, the clock of all deadlines.
 */
ITO_API uint64_t ito_now_ns(void);

/**
 * ito_sleep_ns - let @ns nanoseconds pass. Other threads run meanwhile, and an idle worker sleeps in the kernel.
 * Return:  0; EAGAIN the kernel gave no thread for the timers.
 * Cost:    docs/design/sync.md, "timers".
 */
ITO_API int ito_sleep_ns(uint64_t ns);

/**
 * ito_sleep_until - return at @deadline_ns, at once when it has passed.
 * Return:  as ito_sleep_ns.
 */
ITO_API int ito_sleep_until(uint64_t deadline_ns);

/* -- mutex --------------------------------------------------------------------------------------------------------- */

#ifdef ITO__PTHREAD /* in libito-pthread.so a mutex lies in a pthread_mutex_t */
#include <mutex_layout.h>
#else
enum ito_mutex_kind {
    ITO_MUTEX_NORMAL = 0,     /* has no owner: locking it twice waits for ever, any thread may unlock it */
    ITO_MUTEX_ERRORCHECK = 1, /* locking twice is EDEADLK, unlocking another's is EPERM */
    ITO_MUTEX_RECURSIVE = 2   /* the owner may lock it 65,535 more times; unlocking another's is EPERM */
};
/* In a program that is not compiled for release (NDEBUG), mistakes are return values. */
#ifdef NDEBUG
#define ITO_MUTEX_DEFAULT ITO_MUTEX_NORMAL
#else
#define ITO_MUTEX_DEFAULT ITO_MUTEX_ERRORCHECK
#endif

/*
 * field      writer                             reader   rule
 * state      any thread, atomically             any      bits: docs/design/sync.md, "Mutex"
 * kind       init                               any      constant while in use
 * depth      the owner                          owner
 * owner      the owner (kinds with an owner)    any      relaxed: a reader finds its own id only if it wrote it
 * waiters    holder of the queue bit of state   same
 */
typedef struct ito_mutex {
    uint32_t state;
    uint16_t kind, depth;
    uintptr_t owner;
    struct ito__waiters waiters;
} ito_mutex;

/* Members in order: designated initialisers are not C++11. */
#define ITO_MUTEX_INIT_KIND(kind)                                                                                      \
    {                                                                                                                  \
        0, (uint16_t)(kind), 0, 0, {                                                                                   \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }
#endif
#define ITO_MUTEX_INIT ITO_MUTEX_INIT_KIND(ITO_MUTEX_DEFAULT)

/**
 * ito_mutex_init - make @m a free mutex of @kind (ITO_MUTEX_DEFAULT if in doubt).
 * Return:  0; EINVAL no such kind.
 */
ITO_API int ito_mutex_init(ito_mutex *m, int kind);

/**
 * ito_mutex_destroy - end the use of @m.
 * Return:  0; EBUSY locked or waited for: @m is unchanged.
 */
ITO_API int ito_mutex_destroy(ito_mutex *m);

/**
 * ito_mutex_lock - take @m, wait while another thread has it.
 * Return:  0; EDEADLK the caller has it (ERRORCHECK); EAGAIN locked too often (RECURSIVE).
 * Thread:  any. Signal: not safe. Blocks: yes, the thread, not its worker. Allocates: never.
 * Cost:    one locked instruction when free (bench/ito, ito.mutex).
 * Order:   what was done before the unlock is seen after the lock.
 * Note:    a running thread may take @m before one that was woken. A thread that was woken in vain is served next.
 */
ITO_API int ito_mutex_lock(ito_mutex *m);

/**
 * ito_mutex_trylock - take @m if it is free.
 * Return:  0; EBUSY; EAGAIN as ito_mutex_lock.
 */
ITO_API int ito_mutex_trylock(ito_mutex *m);

/**
 * ito_mutex_lock_until - take @m, wait until @deadline_ns at most.
 * Return:  as ito_mutex_lock; ETIMEDOUT; EAGAIN.
 */
ITO_API int ito_mutex_lock_until(ito_mutex *m, uint64_t deadline_ns);

/**
 * ito_mutex_unlock - give @m back.
 * Return:  0; EPERM it is not locked (any kind), or another thread has it (ERRORCHECK, RECURSIVE): @m is unchanged.
 * Note:    @m is not touched once another thread could have locked it: that thread may destroy it.
 */
ITO_API int ito_mutex_unlock(ito_mutex *m);

/* -- condition ----------------------------------------------------------------------------------------------------- */

typedef struct ito_cond {
    struct ito__waiters waiters;
    ito_mutex *mutex; /* that all waiters gave */
    uint32_t word;    /* the queue bit alone; the others are under it */
    uint32_t timed;   /* 2: since it was last empty, somebody has waited with a deadline. Bit 0 is never set */
} ito_cond;
#define ITO_COND_INIT                                                                                                  \
    { {NULL, NULL}, NULL, 0, 0 }

ITO_API int ito_cond_init(ito_cond *c);

/**
 * ito_cond_destroy - end the use of @c; may follow a broadcast at once.
 * Return:  0; EBUSY a thread waits: @c is unchanged.
 */
ITO_API int ito_cond_destroy(ito_cond *c);

/**
 * ito_cond_wait - unlock @m and wait for a signal in one step; @m is locked again on return.
 * Return:  0; EPERM the caller does not hold @m; EINVAL others wait on @c with another mutex.
 * Note:    never returns without a signal, but what the caller waits for may be gone again: loop. A recursive mutex is
 *          unlocked whole, and locked as deep as before.
 * Cost:    bench/ito, ito.handover.
 */
ITO_API int ito_cond_wait(ito_cond *c, ito_mutex *m);

/**
 * ito_cond_wait_until - the same, until @deadline_ns at most.
 * Return:  as ito_cond_wait; ETIMEDOUT (@m is locked); EAGAIN.
 */
ITO_API int ito_cond_wait_until(ito_cond *c, ito_mutex *m, uint64_t deadline_ns);

/**
 * ito_cond_signal - wake the thread that has waited longest.   ito_cond_broadcast - wake all.
 * Return:  0.
 * Note:    if the mutex is locked, a woken thread goes over to the mutex's queue without running.
 */
ITO_API int ito_cond_signal(ito_cond *c);
ITO_API int ito_cond_broadcast(ito_cond *c);

/* -- read-write lock ----------------------------------------------------------------------------------------------- */

typedef struct ito_rwlock {
    uint32_t state;
    uint32_t reserved;
    uintptr_t owner; /* the writer */
    struct ito__waiters readers, writers;
} ito_rwlock;
#define ITO_RWLOCK_INIT                                                                                                \
    {                                                                                                                  \
        0, 0, 0, {NULL, NULL}, {                                                                                       \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

ITO_API int ito_rwlock_init(ito_rwlock *l);
ITO_API int ito_rwlock_destroy(ito_rwlock *l); /* EBUSY: held or waited for */

/**
 * ito_rwlock_rdlock - share @l with other readers.   ito_rwlock_wrlock - have it alone.
 * Return:  0; EDEADLK the caller is its writer; EAGAIN too many readers (2^28). try: EBUSY. until: ETIMEDOUT, EAGAIN.
 * Note:    readers and writers take turns: a reader waits for one writer at most, a writer for one turn of readers per
 *          writer before it. So a thread that already reads must not read-lock again: with a writer between, both would
 *          wait for ever.
 */
ITO_API int ito_rwlock_rdlock(ito_rwlock *l);
ITO_API int ito_rwlock_wrlock(ito_rwlock *l);
ITO_API int ito_rwlock_tryrdlock(ito_rwlock *l);
ITO_API int ito_rwlock_trywrlock(ito_rwlock *l);
ITO_API int ito_rwlock_rdlock_until(ito_rwlock *l, uint64_t deadline_ns);
ITO_API int ito_rwlock_wrlock_until(ito_rwlock *l, uint64_t deadline_ns);

/**
 * ito_rwlock_unlock - give back the caller's share, or the whole if it is the writer.
 * Return:  0; EPERM not locked, or another thread writes.
 */
ITO_API int ito_rwlock_unlock(ito_rwlock *l);

/* -- semaphore ----------------------------------------------------------------------------------------------------- */

#define ITO_SEM_MAX 0x3fffffffu
typedef struct ito_sem {
    uint32_t state;
    uint32_t reserved;
    struct ito__waiters waiters;
} ito_sem;
/* @value: 0..ITO_SEM_MAX */
#define ITO_SEM_INIT(value)                                                                                            \
    {                                                                                                                  \
        (value), 0, {                                                                                                  \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

ITO_API int ito_sem_init(ito_sem *s, uint32_t value); /* EINVAL: above ITO_SEM_MAX */
ITO_API int ito_sem_destroy(ito_sem *s);              /* EBUSY: waited for */

/**
 * ito_sem_wait - take one unit, wait until there is one.
 * Return:  0. try: EBUSY there is none. until: ETIMEDOUT, EAGAIN.
 * Note:    units go to waiters in the order in which they came; none overtakes another.
 */
ITO_API int ito_sem_wait(ito_sem *s);
ITO_API int ito_sem_trywait(ito_sem *s);
ITO_API int ito_sem_wait_until(ito_sem *s, uint64_t deadline_ns);

/**
 * ito_sem_post - give one unit, to the thread that has waited longest if any waits.
 * Return:  0; EOVERFLOW there are ITO_SEM_MAX already.
 * Note:    @s is not touched once the unit could have been taken: the thread that takes it may destroy @s.
 */
ITO_API int ito_sem_post(ito_sem *s);
ITO_API uint32_t ito_sem_value(const ito_sem *s); /* units at this moment; may have changed when it is read */

/* -- barrier ------------------------------------------------------------------------------------------------------- */

typedef struct ito_barrier {
    uint32_t word;    /* the queue bit alone; what follows is under it */
    uint32_t n;       /* threads per turn */
    uint32_t arrived; /* in this turn */
    uint32_t reserved;
    struct ito__waiters waiters;
} ito_barrier;
#define ITO_BARRIER_INIT(n)                                                                                            \
    {                                                                                                                  \
        0, (n), 0, 0, {                                                                                                \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }
#define ITO_BARRIER_LAST (-1)

ITO_API int ito_barrier_init(ito_barrier *b, uint32_t n); /* EINVAL: n is 0 */
ITO_API int ito_barrier_destroy(ito_barrier *b);          /* EBUSY: waited on */

/**
 * ito_barrier_wait - wait until @n threads have called it; then it is ready for the next turn.
 * Return:  ITO_BARRIER_LAST (negative) in the thread that came last, 0 in the others; EINVAL @n is 0.
 */
ITO_API int ito_barrier_wait(ito_barrier *b);

/* -- once ---------------------------------------------------------------------------------------------------------- */

typedef struct ito_once {
    uint32_t state;
    uint32_t reserved;
    uintptr_t owner; /* the thread that runs it */
    struct ito__waiters waiters;
} ito_once;
#define ITO_ONCE_INIT                                                                                                  \
    {                                                                                                                  \
        0, 0, 0, {                                                                                                     \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

/**
 * ito_once_call - call @fn(@arg) unless a call with @o has succeeded before; other callers wait meanwhile.
 * @fn:     returns 0 if it has succeeded: it is never called again. Otherwise its value is returned, and the next
 *          caller, or one that waits, tries again.
 * Return:  0; what @fn returned; EDEADLK @fn called this function with the same @o.
 */
ITO_API int ito_once_call(ito_once *o, int (*fn)(void *arg), void *arg);

/* -- full/empty lock ------------------------------------------------------------------------------------------------ */

/*
 * A mutex with a status of two values, EMPTY and FULL, at first EMPTY: a place that one thread fills and another empties,
 * over and over. An ito_future is set once; this is for what goes to and fro. With a buffer in between: ito_channel.
 */
enum { ITO_EMPTY = 0, ITO_FULL = 1 };
typedef struct ito_felock {
    ito_mutex mutex;
    ito_cond turned[2]; /* to EMPTY, to FULL */
    uint32_t status;    /* under the mutex */
    uint32_t reserved;
} ito_felock;
#define ITO_FELOCK_INIT                                                                                                \
    { ITO_MUTEX_INIT, {ITO_COND_INIT, ITO_COND_INIT}, ITO_EMPTY, 0 }

ITO_API int ito_felock_init(ito_felock *l);
ITO_API int ito_felock_destroy(ito_felock *l); /* EBUSY: held or waited for */

/**
 * ito_felock_lock - take the lock, whatever the status.   ito_felock_unlock - give it back, the status as it is.
 * Return:  as ito_mutex_lock and ito_mutex_unlock.
 */
ITO_API int ito_felock_lock(ito_felock *l);
ITO_API int ito_felock_unlock(ito_felock *l);

/**
 * ito_felock_wait_and_lock - wait until the status is @status, and have the lock then.
 * Return:  0; EINVAL no such status; EDEADLK as ito_mutex_lock. until: ETIMEDOUT, EAGAIN: the lock is not held.
 */
ITO_API int ito_felock_wait_and_lock(ito_felock *l, int status);
ITO_API int ito_felock_wait_and_lock_until(ito_felock *l, int status, uint64_t deadline_ns);

/**
 * ito_felock_mark_and_unlock - set the status, let one thread go on that waits for it, and give the lock back.
 * Return:  0; EINVAL no such status; EPERM the caller does not hold it.
 */
ITO_API int ito_felock_mark_and_unlock(ito_felock *l, int status);
ITO_API int ito_felock_status(ito_felock *l); /* the holder's to ask */

/* -- bare hand-over ------------------------------------------------------------------------------------------------- */

/*
 * One word on which one thread waits and another wakes it: the cheapest way, for programs that know who waits where. A
 * signal that comes first is kept, one at most.
 *
 * state: 0; 1, a signal is kept; or the address of the thread that waits. Atomic.
 */
typedef struct ito_uncond {
    uintptr_t state;
} ito_uncond;
#define ITO_UNCOND_INIT                                                                                                \
    { 0 }

/**
 * ito_uncond_wait - sleep until a signal, or take the one that is kept.
 * Return:  0; EBUSY another thread waits.
 * Order:   what was done before the signal is seen.
 */
ITO_API int ito_uncond_wait(ito_uncond *u);

/**
 * ito_uncond_signal - let the thread that waits go on, or the next that will.
 * Return:  0; EALREADY a signal is kept.
 * Note:    @u is not touched once a thread has taken the signal: that thread may end it.
 */
ITO_API int ito_uncond_signal(ito_uncond *u);

/**
 * ito_uncond_pass - signal @to and wait on @mine in one step: if a thread waits on @to, the worker goes on with it at once.
 * Return:  0; EALREADY a signal is kept in @to, EBUSY another thread waits on @mine: nothing was done.
 */
ITO_API int ito_uncond_pass(ito_uncond *to, ito_uncond *mine);

/* -- thread-local keys --------------------------------------------------------------------------------------------- */

#define ITO_KEYS_MAX 1024
#define ITO_KEY_ROUNDS 4 /* of destructors at exit, while they set new values */
typedef uint32_t ito_key;

/**
 * ito_key_create - a new name for one value per thread, NULL at first in all.
 * @destroy: called with the value of a thread that ends, if not NULL; may use all of ito; may be NULL.
 * Return:  0; EAGAIN ITO_KEYS_MAX are in use.
 */
ITO_API int ito_key_create(ito_key *key, void (*destroy)(void *value));

/**
 * ito_key_delete - end the use of @key. The program frees the values that are left.
 * Return:  0; EINVAL no such key.
 * Note:    a key that is created later starts at NULL in all threads.
 */
ITO_API int ito_key_delete(ito_key key);

/**
 * ito_key_set - set the calling thread's value.   ito_key_get - the calling thread's value, or NULL.
 * Return:  (set) 0; EINVAL no such key; ENOMEM.
 * Thread:  any. Unlike a __thread variable, the value of an ito thread moves along with it from worker to worker.
 */
ITO_API int ito_key_set(ito_key key, const void *value);
ITO_API void *ito_key_get(ito_key key);

#ifdef __cplusplus
}
#endif
#endif
