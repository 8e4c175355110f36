/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the tool for libomp (ompt.c) needs to know: the part of OMPT that it uses, by the OpenMP specification (5.2, chapter
 * 19: names, numbers and parameters are the specification's), and the functions by which clang's loops ask for their
 * chunks, which OMPT does not tell before LLVM 17.
 */
#ifndef KASURI_OPENMP_KMP_H
#define KASURI_OPENMP_KMP_H

#include <stdint.h>

typedef union {
    uint64_t value;
    void *ptr;
} ompt_data;

typedef void ompt_any(void);
typedef ompt_any *ompt_lookup(const char *name);
typedef struct {
    int (*initialize)(ompt_lookup *lookup, int device, ompt_data *tool);
    void (*finalize)(ompt_data *tool);
    ompt_data tool;
} ompt_tool;
__attribute__((visibility("default"))) ompt_tool *ompt_start_tool(unsigned version, const char *runtime);

enum ompt_dependence_kind {
    OMPT_DEPENDENCE_IN = 1,
    OMPT_DEPENDENCE_MUTEXINOUTSET = 4,
    OMPT_DEPENDENCE_SOURCE = 5,
    OMPT_DEPENDENCE_SINK = 6,
    OMPT_DEPENDENCE_INOUTSET = 7
};
typedef struct {
    ompt_data variable;
    int kind;
} ompt_dependence;
enum ompt_callback {
    OMPT_PARALLEL_BEGIN = 3,
    OMPT_PARALLEL_END = 4,
    OMPT_TASK_CREATE = 5,
    OMPT_TASK_SCHEDULE = 6,
    OMPT_IMPLICIT_TASK = 7,
    OMPT_TARGET = 8,
    OMPT_SYNC_REGION_WAIT = 16,
    OMPT_MUTEX_RELEASED = 17,
    OMPT_DEPENDENCES = 18,
    OMPT_WORK = 20,
    OMPT_LOCK_INIT = 24,
    OMPT_MUTEX_ACQUIRE = 26,
    OMPT_MUTEX_ACQUIRED = 27,
    OMPT_NEST_LOCK = 28,
    OMPT_CANCEL = 30
};
enum ompt_endpoint { OMPT_SCOPE_BEGIN = 1, OMPT_SCOPE_END = 2 };
enum ompt_work {
    OMPT_WORK_LOOP = 1,
    OMPT_WORK_SECTIONS = 2,
    OMPT_WORK_SINGLE_EXECUTOR = 3,
    OMPT_WORK_SINGLE_OTHER = 4,
    OMPT_WORK_WORKSHARE = 5,
    OMPT_WORK_DISTRIBUTE = 6,
    OMPT_WORK_TASKLOOP = 7,
    OMPT_WORK_SCOPE = 8,
    OMPT_WORK_LOOP_STATIC = 10,
    OMPT_WORK_LOOP_DYNAMIC = 11,
    OMPT_WORK_LOOP_GUIDED = 12,
    OMPT_WORK_LOOP_OTHER = 13
};
enum ompt_sync {
    OMPT_SYNC_BARRIER = 1,
    OMPT_SYNC_BARRIER_IMPLICIT = 2,
    OMPT_SYNC_BARRIER_EXPLICIT = 3,
    OMPT_SYNC_BARRIER_IMPLEMENTATION = 4,
    OMPT_SYNC_TASKWAIT = 5,
    OMPT_SYNC_TASKGROUP = 6,
    OMPT_SYNC_REDUCTION = 7,
    OMPT_SYNC_BARRIER_IMPLICIT_WORKSHARE = 8,
    OMPT_SYNC_BARRIER_IMPLICIT_PARALLEL = 9,
    OMPT_SYNC_BARRIER_TEAMS = 10
};
enum ompt_mutex {
    OMPT_MUTEX_LOCK = 1,
    OMPT_MUTEX_TEST_LOCK = 2,
    OMPT_MUTEX_NEST_LOCK = 3,
    OMPT_MUTEX_TEST_NEST_LOCK = 4,
    OMPT_MUTEX_CRITICAL = 5,
    OMPT_MUTEX_ATOMIC = 6,
    OMPT_MUTEX_ORDERED = 7
};
enum ompt_status { OMPT_TASK_COMPLETE = 1, OMPT_TASK_CANCEL = 3, OMPT_TASK_DETACH = 4, OMPT_TASK_SWITCH = 7 };
enum ompt_task_flag { OMPT_TASK_INITIAL = 1, OMPT_TASK_EXPLICIT = 4, OMPT_TASK_UNTIED = 0x10000000 };
enum ompt_parallel_flag { OMPT_PARALLEL_LEAGUE = 0x40000000 };

/* The runtime's numbers of schedules that a loop asks for, without the bits for modifiers. */
enum kmp_schedule {
    KMP_STATIC_CHUNKED = 33,
    KMP_STATIC = 34,
    KMP_DYNAMIC = 35,
    KMP_GUIDED = 36,
    KMP_RUNTIME = 37,
    KMP_AUTO = 38,
    KMP_ORDERED_STATIC_CHUNKED = 65,
    KMP_ORDERED_STATIC = 66,
    KMP_ORDERED_DYNAMIC = 67,
    KMP_ORDERED_GUIDED = 68,
    KMP_ORDERED_RUNTIME = 69,
    KMP_ORDERED_AUTO = 70
};

/* Loops over int, unsigned, long and unsigned long; `step` and `chunk` are signed. X as in gomp.h. */
#define KMP_LOOP(X, ending, type, step)                                                                                \
    X(void, __kmpc_dispatch_init_##ending, (void *, int32_t, int32_t, type, type, step, step))                         \
    X(int, __kmpc_dispatch_next_##ending, (void *, int32_t, int32_t *, type *, type *, step *))
#define KMP_NAMES(X)                                                                                                   \
    KMP_LOOP(X, 4, int32_t, int32_t)                                                                                   \
    KMP_LOOP(X, 4u, uint32_t, int32_t)                                                                                 \
    KMP_LOOP(X, 8, int64_t, int64_t)                                                                                   \
    KMP_LOOP(X, 8u, uint64_t, int64_t)
#define KMP_DECLARE(result, name, parameters) __attribute__((visibility("default"))) result name parameters;
KMP_NAMES(KMP_DECLARE)
#undef KMP_DECLARE

#endif
