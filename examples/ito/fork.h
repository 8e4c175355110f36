/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork.h - one way to write a fork-join program, and what it means on each runtime.
 *
 * A kernel is a function of one pointer that says what to do and takes the answer:
 *
 *     static void fib(struct fib *f);
 *     FORK_KERNEL(fib, struct fib)
 *     static void fib(struct fib *f) {
 *         if (f->n < 2) { f->value = f->n; return; }
 *         struct fib a = {f->n - 1, 0}, b = {f->n - 2, 0};
 *         FORK_ROOM(room, 1, fib);             room for one child
 *         FORK(room, 0, fib, &a);              may run beside what follows
 *         fib(&b);
 *         FORK_JOIN(room, 1, fib);             all of them have ended
 *         f->value = a.value + b.value;
 *     }
 *
 * No kernel has a cut-off: each call of FORK is a task, or a thread. That is what the runtimes are compared by; a
 * program that is tuned for one of them would choose its own grain.
 *
 * -DFORK_x chooses, x one of
 *   TEAM       uts only: no tasks, a static split
 *   SERIAL     a call
 *   INDIRECT   a call through a pointer: the floor for "call a thread's function"
 *   ITO        ito_create, ito_join
 *   ITO_FORK   ITO_FORK, ITO_SYNC
 *   OMP        OpenMP tasks
 *   TBB        oneTBB's task_group (compile as C++)
 *   MYTH       MassiveThreads, when the user has it
 */
#ifndef FORK_H
#define FORK_H

/* So that a source is the same in C and C++. */
#ifdef __cplusplus
#define FORK_C_BEGIN extern "C" {
#define FORK_C_END }
#else
#define FORK_C_BEGIN
#define FORK_C_END
#endif

FORK_C_BEGIN
#include "../common/example.h"
FORK_C_END

typedef void fork_function(void *arg);

#if defined(FORK_SERIAL)

#define FORK_RUNTIME "serial"
#define FORK_ROOM(room, n, function)
#define FORK(room, i, function, arg) function(arg)
#define FORK_JOIN(room, n, function) ((void)0)
static inline void fork_run(int workers, fork_function *root, void *arg) {
    (void)workers;
    root(arg);
}

#elif defined(FORK_TEAM)

#include "../common/team.h"
#define FORK_RUNTIME "a static split over pthreads"
#define FORK_ROOM(room, n, function)
#define FORK(room, i, function, arg) function(arg)
#define FORK_JOIN(room, n, function) ((void)0)
static int fork_workers;
static inline void fork_run(int workers, fork_function *root, void *arg) {
    fork_workers = workers;
    root(arg);
}

#elif defined(FORK_INDIRECT)

#define FORK_RUNTIME "indirect call"
#define FORK_ROOM(room, n, function)
/* The empty statement hides where the pointer comes from: else the compiler calls what it sees. */
#define FORK(room, i, function, arg)                                                                                   \
    do {                                                                                                               \
        void (*fork_callee)(__typeof__(arg)) = (function);                                                             \
        __asm__("" : "+r"(fork_callee));                                                                               \
        fork_callee(arg);                                                                                              \
    } while (0)
#define FORK_JOIN(room, n, function) ((void)0)
static inline void fork_run(int workers, fork_function *root, void *arg) {
    (void)workers;
    root(arg);
}

#elif defined(FORK_ITO)

#include <ito.h>
#include <stdlib.h>
#ifdef ITO_INLINE
#define FORK_RUNTIME "ito threads (header)"
#else
#define FORK_RUNTIME "ito threads (shared library)"
#endif
#define FORK_KERNEL(function, type)                                                                                    \
    static void *function##_thread(void *arg) {                                                                        \
        function((type *)arg);                                                                                         \
        return 0;                                                                                                      \
    }
#define FORK_ROOM(room, n, function) ito_thread *room[n]
#define FORK(room, i, function, arg)                                                                                   \
    do {                                                                                                               \
        if (ito_create(&(room)[i], 0, function##_thread, (arg)) != 0)                                                  \
            example_fail("no memory for a thread");                                                                    \
    } while (0)
#define FORK_JOIN(room, n, function)                                                                                   \
    do {                                                                                                               \
        for (long fork_i = (n); fork_i-- > 0;)                                                                         \
            ito_join((room)[fork_i], 0);                                                                               \
    } while (0)

#elif defined(FORK_ITO_FORK)

#define ITO_INLINE
#include <ito.h>
#include <ito/fork.h>
#define FORK_RUNTIME "ito fork and sync"
#define FORK_KERNEL(function, type) ITO_TASK_VOID(function, type *)
#define FORK_ROOM(room, n, function) struct ito_task_##function room[n]
#define FORK(room, i, function, arg) ITO_FORK_AT(&(room)[i], function, (arg))
#define FORK_JOIN(room, n, function)                                                                                   \
    do {                                                                                                               \
        for (long fork_i = (n); fork_i-- > 0;)                                                                         \
            ITO_SYNC_AT(&(room)[fork_i], function);                                                                    \
    } while (0)

#elif defined(FORK_OMP)

#define FORK_RUNTIME "OpenMP tasks"
#define FORK_ROOM(room, n, function)
/* The pointer is taken here, not in the task: an array that a task mentions would be copied into it. */
#define FORK(room, i, function, arg)                                                                                   \
    do {                                                                                                               \
        __typeof__(arg) fork_arg = (arg);                                                                              \
        _Pragma("omp task firstprivate(fork_arg)") function(fork_arg);                                                 \
    } while (0)
#define FORK_JOIN(room, n, function) _Pragma("omp taskwait")
static inline void fork_run(int workers, fork_function *root, void *arg) {
#pragma omp parallel num_threads(workers)
#pragma omp single
    root(arg);
}

#elif defined(FORK_TBB)

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#define FORK_RUNTIME "oneTBB task_group"
#define FORK_ROOM(room, n, function) tbb::task_group room
#define FORK(room, i, function, arg)                                                                                   \
    do {                                                                                                               \
        auto fork_arg = (arg);                                                                                         \
        room.run([=] { function(fork_arg); });                                                                         \
    } while (0)
#define FORK_JOIN(room, n, function) room.wait()
static inline void fork_run(int workers, fork_function *root, void *arg) {
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(workers));
    tbb::task_arena arena(workers);
    arena.execute([&] { root(arg); });
}

#elif defined(FORK_MYTH)

#include <myth/myth.h>
#include <stdlib.h>
#define FORK_RUNTIME "MassiveThreads"
#define FORK_ROOM(room, n, function) myth_thread_t room[n]
#define FORK_KERNEL(function, type)                                                                                    \
    static void *function##_thread(void *arg) {                                                                        \
        function((type *)arg);                                                                                         \
        return 0;                                                                                                      \
    }
#define FORK(room, i, function, arg) ((room)[i] = myth_create(function##_thread, (arg)))
#define FORK_JOIN(room, n, function)                                                                                   \
    do {                                                                                                               \
        for (long fork_i = (n); fork_i-- > 0;)                                                                         \
            myth_join((room)[fork_i], 0);                                                                              \
    } while (0)
static inline void fork_run(int workers, fork_function *root, void *arg) {
    myth_globalattr_t attr;
    myth_globalattr_init(&attr);
    myth_globalattr_set_n_workers(&attr, (size_t)workers);
    if (!myth_init_ex(&attr))
        example_fail("MassiveThreads does not start");
    root(arg);
    myth_fini();
}

#elif defined(FORK_OWN)

/* bench/ito/peers: tasks are written another way there; FORK_RUNTIME and this are the program's. */
static inline void fork_run(int workers, fork_function *root, void *arg);

#else
#error                                                                                                                 \
    "choose a runtime: -DFORK_SERIAL, -DFORK_INDIRECT, -DFORK_ITO, -DFORK_ITO_FORK, -DFORK_OMP, -DFORK_TBB or -DFORK_MYTH"
#endif

#if defined(FORK_ITO) || defined(FORK_ITO_FORK)
static inline void fork_run(int workers, fork_function *root, void *arg) {
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = (uint32_t)workers;
    if (ito_init(&config) != 0)
        example_fail("ito does not start");
    root(arg);
    ito_fini();
}
#endif

/* Behind each function that is forked: what some runtimes must know of it. */
#ifndef FORK_KERNEL
#define FORK_KERNEL(function, type)
#endif

#endif /* FORK_H */
