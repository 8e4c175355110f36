/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cholesky factorisation A = L L^T in tiles; the same tasks as ../cholesky, which runs them on plain threads. */
#include "../cholesky/tile.h"
#include "tiles.h"

enum { FACTOR, SOLVE, UPDATE };

static void run(void *data, int task) {
    const struct tiles *t = data;
    struct tile_task what = t->tasks[task];
    double *own = tile_at(t, what.row, what.col);
    if (what.kind == FACTOR)
        tile_factor(own, t->side);
    else if (what.kind == SOLVE)
        tile_solve(own, tile_at(t, what.step, what.step), t->side);
    else
        tile_update(own, tile_at(t, what.row, what.step), tile_at(t, what.col, what.step), t->side);
}

static void *make(struct graph *g, int n, int side) {
    struct tiles *t = tiles_make(n, side, (size_t)n * (size_t)(n + 1) * (size_t)(n + 2) / 6);
    double cubed = (double)side * side * side;
    g->run = run;
    g->data = t;
    for (int k = 0; k < n; k++) {
        tiles_task(g, t, "factor", cubed / 3, (struct tile_task){FACTOR, k, k, k}, -1, -1, -1, -1);
        for (int i = k + 1; i < n; i++)
            tiles_task(g, t, "solve", cubed, (struct tile_task){SOLVE, i, k, k}, k, k, -1, -1);
        for (int i = k + 1; i < n; i++)
            for (int j = k + 1; j <= i; j++)
                tiles_task(g, t, "update", 2 * cubed, (struct tile_task){UPDATE, i, j, k}, i, k, j, k);
    }
    return t;
}

/* Symmetric, random, and positive definite by its diagonal. */
static double element(int i, int j, int n) {
    int low = i > j ? i : j, high = i > j ? j : i;
    uint64_t state = (uint64_t)low << 32 | (uint64_t)high;
    return random_number(&state) + (i == j ? n : 0);
}
static void fill(void *data) {
    const struct tiles *t = data;
    int n = t->n * t->side;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            *element_at(t, i, j) = i / t->side >= j / t->side ? element(i, j, n) : 0;
}

static double lower(const struct tiles *t, int i, int j) {
    return *element_at(t, i, j);
}
static double upper(const struct tiles *t, int i, int j) {
    return *element_at(t, j, i);
}
static double error(const void *data) {
    return tiles_error(data, element, lower, upper);
}

const struct kernel cholesky_kernel = {"cholesky", "tiles a side", 16, 32, make, fill, error, tiles_digest, tiles_free};
