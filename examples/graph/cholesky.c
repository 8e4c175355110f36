/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cholesky factorisation A = L L^T in tiles; the same tasks as ../cholesky, which runs them on plain threads. */
#include "tiles.h"

enum { FACTOR, SOLVE, UPDATE };

/* L of the tile itself, in place. */
static void factor(double *a, int n) {
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            for (int i = j; i < n; i++)
                a[i * n + j] -= a[i * n + k] * a[j * n + k];
        double root = sqrt(a[j * n + j]);
        for (int i = j; i < n; i++)
            a[i * n + j] /= root;
    }
}
/* a = a L^-T, L the factored tile. */
static void solve(double *a, const double *l, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = a[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= a[i * n + k] * l[j * n + k];
            a[i * n + j] = sum / l[j * n + j];
        }
}
/* c -= a b^T. */
static void update(double *c, const double *a, const double *b, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[j * n + k];
            c[i * n + j] -= sum;
        }
}

static void run(void *data, int task) {
    const struct tiles *t = data;
    struct tile_task what = t->tasks[task];
    double *own = tile_at(t, what.row, what.col);
    if (what.kind == FACTOR)
        factor(own, t->side);
    else if (what.kind == SOLVE)
        solve(own, tile_at(t, what.step, what.step), t->side);
    else
        update(own, tile_at(t, what.row, what.step), tile_at(t, what.col, what.step), t->side);
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

/* The largest |A x - L (L^T x)| / n over the rows, for one random x. */
static double error(const void *data) {
    const struct tiles *t = data;
    int n = t->n * t->side;
    double *x = example_alloc((size_t)n, sizeof *x), *z = example_alloc((size_t)n, sizeof *z), worst = 0;
    uint64_t state = 1;
    for (int i = 0; i < n; i++)
        x[i] = random_number(&state);
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++)
            z[j] += *element_at(t, i, j) * x[i];
    for (int i = 0; i < n; i++) {
        double left = 0, right = 0;
        for (int j = 0; j < n; j++)
            left += element(i, j, n) * x[j];
        for (int j = 0; j <= i; j++)
            right += *element_at(t, i, j) * z[j];
        worst = fmax(worst, fabs(left - right) / n);
    }
    free(x);
    free(z);
    return worst;
}

const struct kernel cholesky_kernel = {"cholesky", "tiles a side", 16, 32, make, fill, error, tiles_digest, tiles_free};
