/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A square matrix in tiles, and the task that wrote each tile last. Element (i, j) of a tile is tile[i * side + j].
 * L is lower triangular, U upper triangular.
 */
#ifndef EXAMPLE_TILES_H
#define EXAMPLE_TILES_H

#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one task does: writes tile (row, col) in step `step`. */
struct tile_task {
    int kind, row, col, step;
};
struct tiles {
    int n, side; /* tiles a side, numbers a side of a tile */
    double *a;   /* [n][n][side][side], row-major */
    int *writer; /* [n][n]: the task that wrote the tile last, or -1 */
    struct tile_task *tasks;
};

static inline double *tile_at(const struct tiles *t, int row, int col) {
    return t->a + (size_t)(row * t->n + col) * (size_t)t->side * (size_t)t->side;
}
static inline double *element_at(const struct tiles *t, int i, int j) {
    return &tile_at(t, i / t->side, j / t->side)[(i % t->side) * t->side + j % t->side];
}

static inline struct tiles *tiles_make(int n, int side, size_t n_tasks) {
    struct tiles *t = example_alloc(1, sizeof *t);
    size_t all = (size_t)n * (size_t)n;
    *t = (struct tiles){.n = n, .side = side};
    t->a = example_alloc(all * (size_t)side * (size_t)side, sizeof *t->a);
    t->writer = example_alloc(all, sizeof *t->writer);
    t->tasks = example_alloc(n_tasks, sizeof *t->tasks);
    memset(t->writer, -1, all * sizeof *t->writer);
    return t;
}
static inline void tiles_free(void *data) {
    struct tiles *t = data;
    free(t->a);
    free(t->writer);
    free(t->tasks);
    free(t);
}
static inline uint64_t tiles_digest(const void *data) {
    const struct tiles *t = data;
    size_t numbers = (size_t)t->n * (size_t)t->n * (size_t)t->side * (size_t)t->side;
    return example_digest(EXAMPLE_DIGEST_START, t->a, numbers * sizeof *t->a);
}

/* A task that writes (row, col); it needs who wrote that tile last, and those of up to two others (-1: none). */
static inline void tiles_task(struct graph *g, struct tiles *t, const char *name, double cost, struct tile_task task,
                              int row1, int col1, int row2, int col2) {
    int number = graph_add(g, name, cost);
    t->tasks[number] = task;
    if (row1 >= 0)
        graph_needs(g, t->writer[row1 * t->n + col1]);
    if (row2 >= 0)
        graph_needs(g, t->writer[row2 * t->n + col2]);
    graph_needs(g, t->writer[task.row * t->n + task.col]);
    t->writer[task.row * t->n + task.col] = number;
}

static inline double random_number(uint64_t *state) {
    return (double)(example_random(state) >> 11) / 9007199254740992.0;
}

/* Whether A = L U: the largest |A x - L (U x)| / n over the rows, for one random x. Numbers of A, and of the factors,
 * which the tiles hold: `lower` is asked for i >= j, `upper` for i <= j. */
static inline double tiles_error(const struct tiles *t, double (*a)(int i, int j, int n),
                                 double (*lower)(const struct tiles *, int i, int j),
                                 double (*upper)(const struct tiles *, int i, int j)) {
    int n = t->n * t->side;
    double *x = example_alloc((size_t)n, sizeof *x), *z = example_alloc((size_t)n, sizeof *z), worst = 0;
    uint64_t state = 1;
    for (int i = 0; i < n; i++)
        x[i] = random_number(&state);
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++)
            z[i] += upper(t, i, j) * x[j];
    for (int i = 0; i < n; i++) {
        double left = 0, right = 0;
        for (int j = 0; j < n; j++)
            left += a(i, j, n) * x[j];
        for (int j = 0; j <= i; j++)
            right += lower(t, i, j) * z[j];
        worst = example_worse(worst, fabs(left - right) / n);
    }
    free(x);
    free(z);
    return worst;
}

#endif
