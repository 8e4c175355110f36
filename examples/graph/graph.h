/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A graph of tasks for any runtime. A kernel (cholesky.c, lu.c, triangular.c, quake.c) says its tasks, in an order in which each
 * comes after those that it needs; a runtime (on_*.c) runs them. A program is main.c, the kernels and one runtime.
 */
#ifndef EXAMPLE_GRAPH_H
#define EXAMPLE_GRAPH_H

#include "../common/example.h"

#ifdef __cplusplus
extern "C" {
#endif

struct graph {
    void (*run)(void *data, int task); /* any thread */
    void *data;                        /* the kernel's */
    int n_tasks, n_edges;
    int *before_at;    /* [n_tasks + 1]: task t needs before[before_at[t]] ... before[before_at[t + 1] - 1] */
    int *before;       /* [n_edges], each less than t, none twice */
    double *cost;      /* [n_tasks] operations, about */
    const char **name; /* [n_tasks] */
    int room_tasks, room_edges;
};

/* graph.c: for kernels. Returns the task's number. */
int graph_add(struct graph *g, const char *name, double cost);
/* The last task needs this one; -1: none. */
void graph_needs(struct graph *g, int before);
void graph_free(struct graph *g);

/* A kernel. */
struct kernel {
    const char *name;
    const char *size_help;
    int size, tile; /* defaults */
    void *(*make)(struct graph *g, int size, int tile);
    void (*fill)(void *data);          /* before each run */
    double (*error)(const void *data); /* of the result: 0 but for rounding */
    uint64_t (*digest)(const void *data);
    void (*free)(void *data);
};
extern const struct kernel cholesky_kernel, lu_kernel, triangular_kernel, quake_kernel;

/* A runtime. */
struct on;
extern const char *const on_name;
struct on *on_start(const struct graph *g, int threads, bool is_static, const char *costs);
void on_run(struct on *on); /* every task once */
void on_stop(struct on *on);

#ifdef __cplusplus
}
#endif
#endif
