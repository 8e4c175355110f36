/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tasks of a Cholesky factorisation do, on tiles of n by n numbers, row-major. */
#ifndef EXAMPLE_CHOLESKY_TILE_H
#define EXAMPLE_CHOLESKY_TILE_H

#include <math.h>
#include <stdbool.h>

/* L of the tile itself, in place; false: it is not positive definite. */
static inline bool tile_factor(double *a, int n) {
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            for (int i = j; i < n; i++)
                a[i * n + j] -= a[i * n + k] * a[j * n + k];
        if (!(a[j * n + j] > 0))
            return false;
        double root = sqrt(a[j * n + j]);
        for (int i = j; i < n; i++)
            a[i * n + j] /= root;
    }
    return true;
}

/* a = a L^-T, L the factored tile. */
static inline void tile_solve(double *a, const double *l, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = a[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= a[i * n + k] * l[j * n + k];
            a[i * n + j] = sum / l[j * n + j];
        }
}

/* c -= a b^T. */
static inline void tile_update(double *c, const double *a, const double *b, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[j * n + k];
            c[i * n + j] -= sum;
        }
}

#endif
