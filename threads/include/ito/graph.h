/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/graph.h - tasks that wait for others before they start: built once, run many times. Included by ito.h; C11 and
 * C++11 (ito::graph in ito.hpp).
 *
 *     ito_graph *g;
 *     uint32_t load, sum;
 *     ito_graph_create(&g);
 *     ito_graph_task(g, NULL, load_fn, &data, &load);
 *     ito_graph_task(g, NULL, sum_fn, &data, &sum);
 *     ito_graph_edge(g, load, sum);                  // sum after load
 *     ito_graph_run(g, ITO_GRAPH_DYNAMIC);           // any number of times
 *     ito_graph_destroy(g);
 *
 * A task is a call of a function in an ito thread: it may do all that such a thread may, but not end it by ito_exit. A
 * graph is built and run by one thread at a time; several graphs may run at once. Tasks are numbered from 0 in the
 * order in which they were added.
 *
 * A recorder sees each task, named after its function, with its dependences; the thread that runs the graph has
 * created them all and joins them.
 */
#ifndef ITO_GRAPH_H
#define ITO_GRAPH_H

#include "sync.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ito_graph ito_graph;

#define ITO_GRAPH_TASKS_MAX (1u << 24)
#define ITO_GRAPH_ANYWHERE 0u /* the group of all workers */

typedef struct ito_graph_attr {
    uint32_t struct_size; /* sizeof(ito_graph_attr) */
    uint32_t group;       /* who may run it: ITO_GRAPH_ANYWHERE, or of ito_graph_group */
    uint64_t cost_ns;     /* how long it takes; 0: not known, taken as the mean of those that are */
    const char *name;     /* for people and recorders; not copied. NULL: that of its function */
} ito_graph_attr;
#define ITO_GRAPH_ATTR_INIT                                                                                            \
    { sizeof(ito_graph_attr), ITO_GRAPH_ANYWHERE, 0, 0 }

/* ito_graph_create - an empty graph.   Return: 0; ENOMEM. */
ITO_API int ito_graph_create(ito_graph **out);
/* ito_graph_destroy - free it. NULL is allowed.   Return: 0; EBUSY it runs. */
ITO_API int ito_graph_destroy(ito_graph *g);

/**
 * ito_graph_group - a set of workers, by their indices: those that a part of the graph is given to. Sets may overlap and
 * lie in each other: one of all CPUs of a socket, one for each half of it.
 * @workers: [@n], in any order; one that comes again counts once.   @out: the group's number, from 1.
 * Return:  0; EINVAL @n is 0; EBUSY it runs; ENOMEM.
 * Note:    a run with fewer workers than the largest index says EINVAL. In a dynamic run the group's workers share its
 *          ready tasks.
 */
ITO_API int ito_graph_group(ito_graph *g, const uint32_t *workers, size_t n, uint32_t *out);

/**
 * ito_graph_task - add a task that calls @fn(@arg).
 * @attr:   NULL for defaults.   @out: its number; may be NULL.
 * Return:  0; EINVAL bad @attr, no such group, no @fn; EBUSY it runs; ENOMEM; ENOSPC ITO_GRAPH_TASKS_MAX are there.
 */
ITO_API int ito_graph_task(ito_graph *g, const ito_graph_attr *attr, void (*fn)(void *arg), void *arg, uint32_t *out);

/**
 * ito_graph_edge - task @after starts when task @before has ended, and sees what it did.
 * Return:  0; EINVAL no such task, or both are the same; EBUSY it runs; ENOMEM.
 */
ITO_API int ito_graph_edge(ito_graph *g, uint32_t before, uint32_t after);

/**
 * ito_graph_run - run every task once, and return when all have ended.
 * @how:    ITO_GRAPH_DYNAMIC: the worker that ends a task runs one that this made ready, and offers the others to idle
 *          workers. ITO_GRAPH_STATIC: ito_graph_plan's schedule; each worker has a list, and waits before a task only
 *          for tasks of other lists.
 * Return:  0; EINVAL bad @how, a group names a worker that is not there; EPERM ito_init was not called; EBUSY it runs;
 *          EDEADLK tasks would wait for each other (ito_graph_circle), none has run; ENOMEM none has run.
 * Thread:  any; it waits like any thread of ito.
 * Note:    static lists suit tasks whose costs are known, and workers that have a CPU each. A list stands still while
 *          one of its tasks is blocked. Where no memory is left for a thread, a task may run outside its group.
 * Cost:    bench/ito/graph.   Design: docs/design/graph.md.
 */
ITO_API int ito_graph_run(ito_graph *g, uint32_t how);
#define ITO_GRAPH_DYNAMIC 0u
#define ITO_GRAPH_STATIC 1u

/**
 * ito_graph_circle - tasks of a circle: each has to wait for the one before it, the first for the last.
 * @tasks:  [@room], may be NULL.
 * Return:  how many tasks the circle has; 0: there is none, or no memory to look for it. EBUSY is not told: while it
 *          runs there is none.
 */
ITO_API size_t ito_graph_circle(ito_graph *g, uint32_t *tasks, size_t room);

/* Where and when a task is to run, ns since the begin of the run. */
struct ito_graph_planned {
    uint32_t worker;
    uint32_t reserved;
    uint64_t start_ns, end_ns;
};

/**
 * ito_graph_plan - the schedule of a static run: a worker that is free takes, of the ready tasks, that with the longest
 * chain behind it; of equal ones that with most successors (CP/MISF, as `kasuri plan --scheduler cp`).
 * @n_workers: 0: as many as there are.   @tasks: [number of tasks] by task; may be NULL.
 * @makespan_ns: end of the last task; may be NULL.
 * Return:  as ito_graph_run; EPERM: @n_workers is 0 and ito_init was not called.
 */
ITO_API int ito_graph_plan(ito_graph *g, uint32_t n_workers, struct ito_graph_planned *tasks, uint64_t *makespan_ns);

/**
 * ito_graph_costs - take costs from a recording of this program: the file @path is what `kasuri plan --costs` printed.
 * A task that ran several times gets the mean; a cost is CPU time of the task itself, without threads that it made.
 * Tasks are told by their number and their graph's (in the order of ito_graph_create, modulo 16,384), so the program has
 * to build the same graphs.
 * @found:  how many tasks have a cost from the file; may be NULL.
 * Return:  0, also if @found is 0; an errno value of fopen or read; EILSEQ the file is none of these, or cut; EBUSY it
 *          runs; ENOMEM. But for 0, costs are what they were.
 */
ITO_API int ito_graph_costs(ito_graph *g, const char *path, size_t *found);

#ifdef __cplusplus
}
#endif
#endif
