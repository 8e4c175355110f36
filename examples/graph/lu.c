/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* LU factorisation A = L U in tiles, without pivoting: the diagonal outweighs its row. L has ones on its diagonal. */
#include "tiles.h"

enum { FACTOR, SOLVE_RIGHT, SOLVE_BELOW, UPDATE };

/* L and U of the tile itself, in its place. */
static void factor(double *a, int n) {
    for (int k = 0; k < n; k++)
        for (int i = k + 1; i < n; i++) {
            double l = a[i * n + k] /= a[k * n + k];
            for (int j = k + 1; j < n; j++)
                a[i * n + j] -= l * a[k * n + j];
        }
}
/* a = L^-1 a, L of the factored tile. */
static void solve_right(double *a, const double *l, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            for (int j = 0; j < n; j++)
                a[i * n + j] -= l[i * n + k] * a[k * n + j];
}
/* a = a U^-1, U of the factored tile. */
static void solve_below(double *a, const double *u, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            double x = a[i * n + k] /= u[k * n + k];
            for (int j = k + 1; j < n; j++)
                a[i * n + j] -= x * u[k * n + j];
        }
}
/* c -= a b. */
static void update(double *c, const double *a, const double *b, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                c[i * n + j] -= a[i * n + k] * b[k * n + j];
}

static void run(void *data, int task) {
    const struct tiles *t = data;
    struct tile_task what = t->tasks[task];
    double *own = tile_at(t, what.row, what.col), *diagonal = tile_at(t, what.step, what.step);
    if (what.kind == FACTOR)
        factor(own, t->side);
    else if (what.kind == SOLVE_RIGHT)
        solve_right(own, diagonal, t->side);
    else if (what.kind == SOLVE_BELOW)
        solve_below(own, diagonal, t->side);
    else
        update(own, tile_at(t, what.row, what.step), tile_at(t, what.step, what.col), t->side);
}

static void *make(struct graph *g, int n, int side) {
    struct tiles *t = tiles_make(n, side, (size_t)n * (size_t)(n + 1) * (size_t)(2 * n + 1) / 6);
    double cubed = (double)side * side * side;
    g->run = run;
    g->data = t;
    for (int k = 0; k < n; k++) {
        tiles_task(g, t, "factor", cubed * 2 / 3, (struct tile_task){FACTOR, k, k, k}, -1, -1, -1, -1);
        for (int i = k + 1; i < n; i++) {
            tiles_task(g, t, "solve right", cubed, (struct tile_task){SOLVE_RIGHT, k, i, k}, k, k, -1, -1);
            tiles_task(g, t, "solve below", cubed, (struct tile_task){SOLVE_BELOW, i, k, k}, k, k, -1, -1);
        }
        for (int i = k + 1; i < n; i++)
            for (int j = k + 1; j < n; j++)
                tiles_task(g, t, "update", 2 * cubed, (struct tile_task){UPDATE, i, j, k}, i, k, k, j);
    }
    return t;
}

static double element(int i, int j, int n) {
    uint64_t state = (uint64_t)i << 32 | (uint64_t)j;
    return random_number(&state) + (i == j ? n : 0);
}
static void fill(void *data) {
    const struct tiles *t = data;
    int n = t->n * t->side;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            *element_at(t, i, j) = element(i, j, n);
}

static double lower(const struct tiles *t, int i, int j) {
    return i == j ? 1 : *element_at(t, i, j);
}
static double upper(const struct tiles *t, int i, int j) {
    return *element_at(t, i, j);
}
static double error(const void *data) {
    return tiles_error(data, element, lower, upper);
}

const struct kernel lu_kernel = {"lu", "tiles a side", 12, 32, make, fill, error, tiles_digest, tiles_free};
