/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The equation of motion of the meshed rock, M u'' + C u' + K u = f(t), from linear elements:
 * K sparse with blocks of 3 x 3, M and C lumped to the diagonal. km, s, 10^12 kg.
 */
#ifndef ELASTIC_H
#define ELASTIC_H

#include "mesh.h"

/* Rows of K in compressed form: row i has entries row_start[i] .. row_start[i + 1] - 1, by column. */
struct stiffness {
    size_t n_rows;
    size_t *row_start;  /* [n_rows + 1] */
    int32_t *column;    /* [n_entries] */
    double (*block)[9]; /* [n_entries], row-major */
};

/* The rupture of a fault: forces on nodes that grow from 0 to `force` between start_s and start_s + RISE_S. */
struct pull {
    int32_t node;
    double start_s;
    double force[3];
};
#define RISE_S 0.8

struct rupture {
    size_t n_pulls;
    struct pull *pull;  /* [n_pulls], by node, then by element */
    size_t *node_start; /* [n_nodes + 1], index into pull */
};

struct elastic {
    struct stiffness k;
    double *mass;    /* [n_nodes] */
    double *damping; /* [n_nodes] */
    struct rupture rupture;
    double step_s; /* a stable time step */
};

struct elastic elastic_assemble(const struct mesh *mesh);
void elastic_free(struct elastic *e);

#endif /* ELASTIC_H */
