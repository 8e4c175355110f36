/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The inside of ito/graph.h. graph.c builds graphs, graph_plan.c has the schedule of a static run, graph_run.c the two
 * ways to run, graph_costs.c reads costs. Design: docs/design/graph.md.
 */
#ifndef ITO__GRAPH_H
#define ITO__GRAPH_H

#include "core/wait.h"
#include "prim/spin.h"

#include <ito/graph.h>

#define ITO__NO_TASK UINT32_MAX

/*
 * What a run touches of a task: a cache line.
 *
 *   field          writer                                              reader
 *   missing        tasks that it waits for, as they end; at its begin  the same; rule in graph_run.c
 *                  its own thread, for the next run
 *   next, depth    who owns the list of ready tasks that it is in      the thread that takes it from there
 *   other fields   the builder, while nothing runs                     all
 */
struct ito__graph_task {
    alignas(ITO__LINE) uint32_t missing; /* atomic: tasks that it waits for */
    uint32_t next;                       /* of a list of ready tasks, or ITO__NO_TASK */
    uint32_t depth;                      /* of the thread that was made for it */
    uint32_t n_before;
    uint32_t followers, n_followers; /* range of graph.followers */
    uint32_t group;
    uint32_t reserved;
    void (*fn)(void *);
    void *arg;
    struct ito_graph *graph;
};
/* What only building and planning need. */
struct ito__graph_about {
    const char *name;
    uint64_t cost_ns; /* 0: not known */
    uint32_t before;  /* begin of its range of graph.before; it has n_before */
    uint32_t reserved;
};
struct ito__graph_edge {
    uint32_t before, after;
};

/* A number that only grows, and threads that wait for it. `state`: the number, and the queue bit of wait.h. */
struct ito__graph_count {
    alignas(ITO__LINE) uint32_t state;
    struct ito__waiters waiters;
};

/* Before the task at `at` of its list: `count` tasks of list `list` have to have ended. */
struct ito__graph_wait {
    uint32_t at, list, count;
};
/* The tasks that a worker runs, in this order. */
struct ito__graph_list {
    struct ito__graph_count ended;
    struct ito_graph *graph;
    uint32_t worker;
    uint32_t n_tasks, n_waits;
    uint32_t *tasks;               /* [n_tasks] in graph.listed */
    struct ito__graph_wait *waits; /* [n_waits] in graph.waits, by `at` */
};
/*
 * Tasks of the group that became ready on other workers lie in its list; for each a carrier comes to one of its workers.
 *
 *   field          writer                                              reader
 *   head, last     holder of `lock`                                    the same
 *   coming         holder of `lock`                                    the same
 *   other fields   the builder, while nothing runs                     all
 */
struct ito__graph_group {
    uint32_t *workers; /* [n], ascending */
    uint32_t *coming;  /* [n] carriers on their way to each */
    uint32_t n;
    struct ito__spin lock;
    uint32_t head, last; /* ready tasks, the oldest first; ITO__NO_TASK: none */
    struct ito_graph *graph;
};

struct ito_graph {
    uint32_t busy;   /* atomic: it runs, or is changed */
    uint32_t number; /* from 1, in the order of creation */
    uint32_t n_tasks, n_edges, n_groups;
    uint32_t most_worker; /* largest worker index of a group */
    size_t room_tasks, room_edges, room_groups;
    struct ito__graph_task *tasks;
    struct ito__graph_about *about;
    struct ito__graph_edge *edges;   /* as they came */
    struct ito__graph_group *groups; /* [n_groups]; group 1 is the first */

    /* Made of the above by ito__graph_prepare(); valid while is_ready. */
    bool is_ready;
    uint32_t *followers; /* [n_edges] by task; of one task: shortest chain first */
    uint32_t *before;    /* [n_edges] by task */
    uint32_t *order;     /* [n_tasks] each after those that it waits for */
    uint64_t *level;     /* [n_tasks] the longest chain that begins with it, ns */
    uint64_t *cost;      /* [n_tasks] known or guessed, ns, at least 1 */
    uint32_t n_ends;     /* tasks that nobody waits for */

    /* Made by ito__graph_plan() for n_lists workers; valid if that is not 0. */
    uint32_t n_lists;
    struct ito__graph_list *lists;
    uint32_t *listed;   /* [n_tasks] by list */
    uint32_t *planned;  /* [n_tasks] in the order of their starts */
    uint32_t *list_of;  /* [n_tasks] */
    uint32_t *place;    /* [n_tasks] index in its list */
    uint8_t *is_waited; /* [n_tasks] another list waits for it, or it is the last of its list */
    uint64_t *start;    /* [n_tasks] ns */
    struct ito__graph_wait *waits;

    /* Of the run. */
    bool seen;                        /* a recorder listens */
    uint64_t first_id;                /* for it: of task 0 */
    alignas(ITO__LINE) uint32_t open; /* atomic: ends that have not ended, and carriers of groups */
    struct ito__graph_count done;     /* 1: none is left */
};

/* The graph belongs to the caller from one to the other, which returns `result`. False: it runs, or is changed. */
bool ito__graph_enter(struct ito_graph *g);
int ito__graph_leave(struct ito_graph *g, int result);
void ito__graph_forget(struct ito_graph *g);                  /* it has changed */
int ito__graph_prepare(struct ito_graph *g);                  /* 0, ENOMEM, EDEADLK */
int ito__graph_plan(struct ito_graph *g, uint32_t n_workers); /* prepared; 0, EINVAL, ENOMEM */
void ito__graph_forget_plan(struct ito_graph *g);
void ito__graph_run_dynamic(struct ito_graph *g);
void ito__graph_run_static(struct ito_graph *g);
/* Into the group's list, for a carrier that comes; the place in the group of the worker that it is to come to. */
uint32_t ito__graph_send(struct ito_graph *g, struct ito__graph_task *t);
/* What that carrier does, on a worker of the group. */
void ito__graph_carry_group(struct ito__graph_group *group);
/* A thread's list of ready tasks, until it is empty. */
void ito__graph_carry(struct ito_graph *g, uint32_t head, uint32_t depth);
void ito__graph_advance(struct ito__graph_count *c, uint32_t to);
void ito__graph_await(struct ito__graph_count *c, uint32_t want, struct ito_graph *g);

static inline uint32_t ito__graph_number(const struct ito__graph_task *t) {
    return (uint32_t)(t - t->graph->tasks);
}

#endif
