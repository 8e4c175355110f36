/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of libgomp that this library stands in front of: names, results and parameters as in libgomp's ABI
 * (documented by what gcc's -fopenmp calls, and by `nm -D libgomp.so.1`). tests/check_names compares the names with
 * those of the libgomp that is installed.
 *
 * X(result, name, parameters)
 */
#ifndef KASURI_OPENMP_GOMP_H
#define KASURI_OPENMP_GOMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned long long gomp_ull;
typedef void gomp_fn(void *);
typedef void gomp_copy(void *, void *);
typedef uintptr_t gomp_red; /* what reductions of a construct need; passed on */

#define GOMP_PARALLEL_NAMES(X)                                                                                         \
    X(void, GOMP_parallel, (gomp_fn *, void *, unsigned, unsigned))                                                    \
    X(unsigned, GOMP_parallel_reductions, (gomp_fn *, void *, unsigned, unsigned))                                     \
    X(void, GOMP_parallel_sections, (gomp_fn *, void *, unsigned, unsigned, unsigned))                                 \
    X(void, GOMP_parallel_loop_static, (gomp_fn *, void *, unsigned, long, long, long, long, unsigned))                \
    X(void, GOMP_parallel_loop_dynamic, (gomp_fn *, void *, unsigned, long, long, long, long, unsigned))               \
    X(void, GOMP_parallel_loop_guided, (gomp_fn *, void *, unsigned, long, long, long, long, unsigned))                \
    X(void, GOMP_parallel_loop_nonmonotonic_dynamic, (gomp_fn *, void *, unsigned, long, long, long, long, unsigned))  \
    X(void, GOMP_parallel_loop_nonmonotonic_guided, (gomp_fn *, void *, unsigned, long, long, long, long, unsigned))   \
    X(void, GOMP_parallel_loop_runtime, (gomp_fn *, void *, unsigned, long, long, long, unsigned))                     \
    X(void, GOMP_parallel_loop_nonmonotonic_runtime, (gomp_fn *, void *, unsigned, long, long, long, unsigned))        \
    X(void, GOMP_parallel_loop_maybe_nonmonotonic_runtime, (gomp_fn *, void *, unsigned, long, long, long, unsigned))  \
    X(void, GOMP_parallel_start, (gomp_fn *, void *, unsigned))                                                        \
    X(void, GOMP_parallel_loop_static_start, (gomp_fn *, void *, unsigned, long, long, long, long))                    \
    X(void, GOMP_parallel_loop_dynamic_start, (gomp_fn *, void *, unsigned, long, long, long, long))                   \
    X(void, GOMP_parallel_loop_guided_start, (gomp_fn *, void *, unsigned, long, long, long, long))                    \
    X(void, GOMP_parallel_loop_runtime_start, (gomp_fn *, void *, unsigned, long, long, long))                         \
    X(void, GOMP_parallel_sections_start, (gomp_fn *, void *, unsigned, unsigned))                                     \
    X(void, GOMP_parallel_end, (void))                                                                                 \
    X(void, GOMP_teams_reg, (gomp_fn *, void *, unsigned, unsigned, unsigned))                                         \
    X(void, GOMP_target, (int, gomp_fn *, const void *, size_t, void **, size_t *, unsigned char *))                   \
    X(void, GOMP_target_ext,                                                                                           \
      (int, gomp_fn *, size_t, void **, size_t *, unsigned short *, unsigned, void **, void **))                       \
    X(void, GOMP_target_data_ext, (int, size_t, void **, size_t *, unsigned short *))                                  \
    X(void, GOMP_target_update_ext, (int, size_t, void **, size_t *, unsigned short *, unsigned, void **))             \
    X(void, GOMP_target_enter_exit_data, (int, size_t, void **, size_t *, unsigned short *, unsigned, void **))

#define GOMP_START_NAMES(X, kind)                                                                                      \
    X(bool, GOMP_loop_##kind##_start, (long, long, long, long, long *, long *))                                        \
    X(bool, GOMP_loop_##kind##_next, (long *, long *))                                                                 \
    X(bool, GOMP_loop_ull_##kind##_start, (bool, gomp_ull, gomp_ull, gomp_ull, gomp_ull, gomp_ull *, gomp_ull *))      \
    X(bool, GOMP_loop_ull_##kind##_next, (gomp_ull *, gomp_ull *))
#define GOMP_RUNTIME_NAMES(X, kind)                                                                                    \
    X(bool, GOMP_loop_##kind##_start, (long, long, long, long *, long *))                                              \
    X(bool, GOMP_loop_##kind##_next, (long *, long *))                                                                 \
    X(bool, GOMP_loop_ull_##kind##_start, (bool, gomp_ull, gomp_ull, gomp_ull, gomp_ull *, gomp_ull *))                \
    X(bool, GOMP_loop_ull_##kind##_next, (gomp_ull *, gomp_ull *))
#define GOMP_DOACROSS_NAMES(X, kind)                                                                                   \
    X(bool, GOMP_loop_doacross_##kind##_start, (unsigned, long *, long, long *, long *))                               \
    X(bool, GOMP_loop_ull_doacross_##kind##_start, (unsigned, gomp_ull *, gomp_ull, gomp_ull *, gomp_ull *))

#define GOMP_LOOP_NAMES(X)                                                                                             \
    GOMP_START_NAMES(X, static)                                                                                        \
    GOMP_START_NAMES(X, dynamic)                                                                                       \
    GOMP_START_NAMES(X, guided)                                                                                        \
    GOMP_START_NAMES(X, nonmonotonic_dynamic)                                                                          \
    GOMP_START_NAMES(X, nonmonotonic_guided)                                                                           \
    GOMP_START_NAMES(X, ordered_static)                                                                                \
    GOMP_START_NAMES(X, ordered_dynamic)                                                                               \
    GOMP_START_NAMES(X, ordered_guided)                                                                                \
    GOMP_RUNTIME_NAMES(X, runtime)                                                                                     \
    GOMP_RUNTIME_NAMES(X, nonmonotonic_runtime)                                                                        \
    GOMP_RUNTIME_NAMES(X, maybe_nonmonotonic_runtime)                                                                  \
    GOMP_RUNTIME_NAMES(X, ordered_runtime)                                                                             \
    GOMP_DOACROSS_NAMES(X, static)                                                                                     \
    GOMP_DOACROSS_NAMES(X, dynamic)                                                                                    \
    GOMP_DOACROSS_NAMES(X, guided)                                                                                     \
    X(bool, GOMP_loop_doacross_runtime_start, (unsigned, long *, long *, long *))                                      \
    X(bool, GOMP_loop_ull_doacross_runtime_start, (unsigned, gomp_ull *, gomp_ull *, gomp_ull *))                      \
    X(bool, GOMP_loop_start, (long, long, long, long, long, long *, long *, gomp_red *, void **))                      \
    X(bool, GOMP_loop_ordered_start, (long, long, long, long, long, long *, long *, gomp_red *, void **))              \
    X(bool, GOMP_loop_doacross_start, (unsigned, long *, long, long, long *, long *, gomp_red *, void **))             \
    X(bool, GOMP_loop_ull_start,                                                                                       \
      (bool, gomp_ull, gomp_ull, gomp_ull, long, gomp_ull, gomp_ull *, gomp_ull *, gomp_red *, void **))               \
    X(bool, GOMP_loop_ull_ordered_start,                                                                               \
      (bool, gomp_ull, gomp_ull, gomp_ull, long, gomp_ull, gomp_ull *, gomp_ull *, gomp_red *, void **))               \
    X(bool, GOMP_loop_ull_doacross_start,                                                                              \
      (unsigned, gomp_ull *, long, gomp_ull, gomp_ull *, gomp_ull *, gomp_red *, void **))                             \
    X(void, GOMP_loop_end, (void))                                                                                     \
    X(bool, GOMP_loop_end_cancel, (void))                                                                              \
    X(void, GOMP_loop_end_nowait, (void))                                                                              \
    X(void, GOMP_doacross_post, (long *))                                                                              \
    X(void, GOMP_doacross_wait, (long, ...))                                                                           \
    X(void, GOMP_doacross_ull_post, (gomp_ull *))                                                                      \
    X(void, GOMP_doacross_ull_wait, (gomp_ull, ...))                                                                   \
    X(unsigned, GOMP_sections_start, (unsigned))                                                                       \
    X(unsigned, GOMP_sections2_start, (unsigned, gomp_red *, void **))                                                 \
    X(unsigned, GOMP_sections_next, (void))                                                                            \
    X(void, GOMP_sections_end, (void))                                                                                 \
    X(bool, GOMP_sections_end_cancel, (void))                                                                          \
    X(void, GOMP_sections_end_nowait, (void))                                                                          \
    X(bool, GOMP_single_start, (void))                                                                                 \
    X(void *, GOMP_single_copy_start, (void))                                                                          \
    X(void, GOMP_single_copy_end, (void *))                                                                            \
    X(void, GOMP_scope_start, (gomp_red *))                                                                            \
    X(void, GOMP_workshare_task_reduction_unregister, (bool))

#define GOMP_SYNC_NAMES(X)                                                                                             \
    X(void, GOMP_barrier, (void))                                                                                      \
    X(bool, GOMP_barrier_cancel, (void))                                                                               \
    X(void, GOMP_critical_start, (void))                                                                               \
    X(void, GOMP_critical_end, (void))                                                                                 \
    X(void, GOMP_critical_name_start, (void **))                                                                       \
    X(void, GOMP_critical_name_end, (void **))                                                                         \
    X(void, GOMP_atomic_start, (void))                                                                                 \
    X(void, GOMP_atomic_end, (void))                                                                                   \
    X(void, GOMP_ordered_start, (void))                                                                                \
    X(void, GOMP_ordered_end, (void))

#define GOMP_TASK_NAMES(X)                                                                                             \
    X(void, GOMP_task, (gomp_fn *, void *, gomp_copy *, long, long, bool, unsigned, void **, int, void *))             \
    X(void, GOMP_taskloop,                                                                                             \
      (gomp_fn *, void *, gomp_copy *, long, long, unsigned, unsigned long, int, long, long, long))                    \
    X(void, GOMP_taskloop_ull,                                                                                         \
      (gomp_fn *, void *, gomp_copy *, long, long, unsigned, unsigned long, int, gomp_ull, gomp_ull, gomp_ull))        \
    X(void, GOMP_taskwait, (void))                                                                                     \
    X(void, GOMP_taskwait_depend, (void **))                                                                           \
    X(void, GOMP_taskgroup_start, (void))                                                                              \
    X(void, GOMP_taskgroup_end, (void))                                                                                \
    X(void, GOMP_taskyield, (void))

/* omp_*lock: functions of the program's own calls; in libomp, too. Fortran's end in an underscore. */
#define OMP_LOCK_NAMES(X)                                                                                              \
    X(void, omp_init_lock, (void *))                                                                                   \
    X(void, omp_set_lock, (void *))                                                                                    \
    X(void, omp_unset_lock, (void *))                                                                                  \
    X(int, omp_test_lock, (void *))                                                                                    \
    X(void, omp_init_nest_lock, (void *))                                                                              \
    X(void, omp_set_nest_lock, (void *))                                                                               \
    X(void, omp_unset_nest_lock, (void *))                                                                             \
    X(int, omp_test_nest_lock, (void *))                                                                               \
    X(void, omp_init_lock_, (void *))                                                                                  \
    X(void, omp_set_lock_, (void *))                                                                                   \
    X(void, omp_unset_lock_, (void *))                                                                                 \
    X(int, omp_test_lock_, (void *))                                                                                   \
    X(void, omp_init_nest_lock_, (void *))                                                                             \
    X(void, omp_set_nest_lock_, (void *))                                                                              \
    X(void, omp_unset_nest_lock_, (void *))                                                                            \
    X(int, omp_test_nest_lock_, (void *))

/* What this library asks, and does not stand in front of. */
#define OMP_ASK_NAMES(X) X(void, omp_get_schedule, (int *, int *))

#define GOMP_NAMES(X)                                                                                                  \
    GOMP_PARALLEL_NAMES(X)                                                                                             \
    GOMP_LOOP_NAMES(X)                                                                                                 \
    GOMP_SYNC_NAMES(X)                                                                                                 \
    GOMP_TASK_NAMES(X)

/* Prototypes of what this library exports. */
#define GOMP_DECLARE(result, name, parameters) __attribute__((visibility("default"))) result name parameters;
GOMP_NAMES(GOMP_DECLARE)
OMP_LOCK_NAMES(GOMP_DECLARE)
#undef GOMP_DECLARE

#endif
