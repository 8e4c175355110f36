/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "graph.h"

#include <stdlib.h>

static void *grown(void *array, int n, size_t bytes) {
    void *more = realloc(array, (size_t)n * bytes);
    if (!more)
        example_fail("no memory for a graph of %d", n);
    return more;
}

int graph_add(struct graph *g, const char *name, double cost) {
    if (g->n_tasks == g->room_tasks) {
        g->room_tasks = g->room_tasks ? 2 * g->room_tasks : 64;
        g->before_at = grown(g->before_at, g->room_tasks + 1, sizeof *g->before_at);
        g->cost = grown(g->cost, g->room_tasks, sizeof *g->cost);
        g->name = grown(g->name, g->room_tasks, sizeof *g->name);
    }
    int task = g->n_tasks++;
    g->before_at[task] = g->before_at[task + 1] = g->n_edges;
    g->cost[task] = cost;
    g->name[task] = name;
    return task;
}

void graph_needs(struct graph *g, int before) {
    int task = g->n_tasks - 1;
    if (before < 0)
        return;
    for (int e = g->before_at[task]; e < g->n_edges; e++)
        if (g->before[e] == before)
            return;
    if (g->n_edges == g->room_edges) {
        g->room_edges = g->room_edges ? 2 * g->room_edges : 64;
        g->before = grown(g->before, g->room_edges, sizeof *g->before);
    }
    g->before[g->n_edges++] = before;
    g->before_at[task + 1] = g->n_edges;
}

void graph_free(struct graph *g) {
    free(g->before_at);
    free(g->before);
    free(g->cost);
    free(g->name);
}
