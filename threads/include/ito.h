/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito.h - threads light enough to make every task a thread.
 *
 * Guide: docs/guide/ito.md. Everything here may be called by ito threads and by any other thread of the process, unless
 * said otherwise. Functions that can fail return 0 or a positive errno value, as pthread_* do.
 *
 * Define ITO_INLINE before the #include to have the hot paths (ito_create, ito_join, ito_yield, mutexes) compiled into
 * the caller. It is the same source that the library is built from.
 */
#ifndef ITO_H
#define ITO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ITO_VERSION_MAJOR 0
#define ITO_VERSION_MINOR 1

typedef struct ito_thread ito_thread;

/* ---- runtime ---------------------------------------------------------------------------------------------------- */

typedef struct ito_config {
    uint32_t struct_size; /* sizeof(ito_config) */
    uint32_t n_workers;   /* 0: as many as the affinity mask and the cgroup's CPU quota allow, or $ITO_WORKERS */
    size_t stack_bytes; /* of threads without a size of their own; 0: $ITO_STACK or 64 KiB. Untouched pages are free */
    uint32_t spin_us;   /* how long an idle worker searches before it sleeps; 0: default, 20 */
    uint32_t flags;     /* ITO_CONFIG_* */
    uint64_t seed;      /* of the choice of victims; 0: from the clock */
} ito_config;

#define ITO_CONFIG_PIN 1u           /* bind each worker to a CPU of the affinity mask */
#define ITO_CONFIG_NO_MEMBARRIER 2u /* as on a kernel without membarrier(2): for tests */
#define ITO_CONFIG_INIT                                                                                                \
    { sizeof(ito_config), 0, 0, 0, 0, 0 }

/**
 * ito_init - start the workers; the caller becomes the root thread.
 * @config: null for defaults.
 * Return:  0; EBUSY already started; EINVAL bad config or environment (then told on stderr); ENOMEM, EAGAIN as pthread_create.
 * Thread:  any kernel thread. Blocks: no. From then on the root thread may continue on any worker, as all threads may.
 */
int ito_init(const ito_config *config);

/**
 * ito_fini - stop the workers and give all memory back; ito_init may follow.
 * Return:  0; EPERM not the root thread; EBUSY threads are still blocked (the runtime goes on).
 * Thread:  the root thread; it returns on the kernel thread that called ito_init.
 */
int ito_fini(void);

/* Number of workers; 0 before ito_init. Index of the caller's worker; UINT32_MAX off the workers. */
unsigned ito_n_workers(void);
unsigned ito_worker_index(void);

/* ---- threads ---------------------------------------------------------------------------------------------------- */

typedef struct ito_attr {
    uint32_t struct_size; /* sizeof(ito_attr) */
    uint32_t flags;       /* ITO_ATTR_* */
    size_t stack_bytes;   /* 0: the default */
    const char *name;     /* not copied: a literal, or alive as long as the thread */
    int32_t worker;       /* the only worker it may run on; -1: any */
    int32_t priority;     /* hint: above 0, once it is ready it goes before others of its worker, most times */
    void *
        stack; /* stack_bytes of the caller's memory to run on, ITO_STACK_LEAST or more; null: the library's. The caller's
                    again when the thread was joined; without a guard. Not for detached threads */
} ito_attr;
#define ITO_STACK_LEAST 8192

#define ITO_ATTR_DETACHED 1u
#define ITO_ATTR_INIT                                                                                                  \
    { sizeof(ito_attr), 0, 0, 0, -1, 0, 0 }

/**
 * ito_create - run fn(arg) as a thread. It runs first; the caller continues when it ends or blocks, or on another
 * worker.
 * @out:    the thread, for ito_join; null: it is detached.
 * @attr:   null for defaults.
 * Return:  0; EAGAIN no memory for a stack; EINVAL bad attr; EPERM ito_init was not called.
 * Thread:  any. errno and thread_local of the caller may be those of another kernel thread afterwards.
 * Cost:    bench/ito.   Order: docs/design/deque.md.
 */
int ito_create(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg);

/**
 * ito_join - wait until a thread has ended.
 * @result: what fn returned or ito_exit got; may be null.
 * Return:  0; EDEADLK @thread is the caller; ESRCH it is of the process that forked this one; EINVAL detached, joined before, or another thread waits in ito_join for
 *          it.
 */
int ito_join(ito_thread *thread, void **result);

/**
 * ito_tryjoin - join a thread if it has ended.   ito_join_until - wait for it until @deadline_ns (ito/sync.h) at most.
 * Return:  as ito_join. try: EBUSY it has not ended. until: ETIMEDOUT, EAGAIN. Then it is as before: join it later.
 */
int ito_tryjoin(ito_thread *thread, void **result);
int ito_join_until(ito_thread *thread, void **result, uint64_t deadline_ns);

/**
 * ito_create_many - a thread for each of @n arguments: fn(args), fn(args + arg_bytes)...
 * @out:    [n], the threads; null: they are detached.
 * @attr:   of each; null for defaults. A stack cannot be given: they would share it.
 * Return:  0; as ito_create: those before the failure run, the rest of @out is null.
 * Note:    for many short calls ito_for costs less: a thread for those alone that another worker takes.
 */
int ito_create_many(ito_thread **out, size_t n, const ito_attr *attr, void *(*fn)(void *), void *args,
                    size_t arg_bytes);

/**
 * ito_join_many - join each, leave out null.
 * @results: [n], or null.
 * Return:  0; else the first error of ito_join; the others are joined all the same.
 */
int ito_join_many(ito_thread *const *threads, size_t n, void **results);

/* No thread will join `thread`; its memory is free when it ends. Returns 0, or EINVAL as ito_join. */
int ito_detach(ito_thread *thread);

/* Let other ready threads of this worker run. errno is kept. In a kernel thread that is no worker: sched_yield. */
void ito_yield(void);

/* The calling thread. A kernel thread that is no worker has a descriptor of its own. */
ito_thread *ito_self(void);

/* End the calling thread; frames are not unwound. In the root thread it aborts the process with a message, as there is
 * nothing to return to; in a kernel thread that is no worker it is pthread_exit. */
void ito_exit(void *result) __attribute__((noreturn));

/* Its name, or null. */
const char *ito_name(const ito_thread *thread);

#ifdef __cplusplus
}
#endif

#include <ito/channel.h>
#include <ito/graph.h>
#include <ito/group.h>
#include <ito/local.h>
#include <ito/stop.h>
#include <ito/sync.h>

#ifdef ITO_INLINE
#include <ito/inline.h>
#endif

#endif
