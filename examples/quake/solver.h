/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Explicit time steps (central differences) of the equation of motion, by a team of threads.
 * The result does not depend on the number of threads, to the last bit: each node's sums are made by
 * one thread in the order of the matrix, and the sums over all nodes block by block.
 */
#ifndef SOLVER_H
#define SOLVER_H

#include "../common/team.h"
#include "elastic.h"

/* Nodes whose share of a sum over all nodes is kept apart; a thread owns whole blocks. */
#define BLOCK_NODES 64

/* Energy of one block of nodes, 10^18 J. */
struct energy {
    double stored;    /* of motion and of strain, half a step before the step's time */
    double brought;   /* by the rupture until then */
    double swallowed; /* by damping until then */
};

typedef double vector3[3];

struct solver {
    const struct elastic *e;
    vector3 *u[3];         /* [n_nodes], displacement in km: previous, present and next step, in turn */
    vector3 *ku;           /* [n_nodes], K u */
    vector3 *force;        /* [n_nodes], of the rupture */
    double *peak_velocity; /* [n_nodes], km/s */
    size_t n_blocks;
    struct energy *energy; /* [n_blocks] */
    double (*work)[2];     /* [n_blocks], brought and swallowed until the step's end */
    size_t *share;         /* [threads + 1], first block of each thread */
    int steps;
    size_t watched[2];     /* nodes whose displacement is kept */
    vector3 (*history)[2]; /* [steps] */
};

/**
 * solver_make - rest at time 0. @threads share the nodes in equal numbers, or, when @by_entries, so that each
 * has about as many entries of the matrix.
 */
struct solver solver_make(const struct elastic *e, int steps, int threads, bool by_entries);

/** solver_rest - back to time 0. */
void solver_rest(struct solver *s);

/** solver_run - a team_function: all steps. @arg is a struct solver made for the team's size. */
void solver_run(struct team *team, int member, void *arg);

/*
 * What a step does with the nodes of @blocks, for those who order it otherwise (examples/graph/quake.c). In a step:
 * multiply and excite, then integrate, then track. multiply needs the step before integrated on its own nodes and their
 * neighbours, integrate also that one tracked.
 */
void solver_multiply(struct solver *s, int step, struct range blocks);
void solver_excite(struct solver *s, int step, struct range blocks);
void solver_integrate(struct solver *s, int step, struct range blocks);
void solver_track(struct solver *s, int step, struct range blocks);

/** solver_energy - the sums over all blocks. */
struct energy solver_energy(const struct solver *s);

/** solver_displacement - the last displacement, [n_nodes]. */
const vector3 *solver_displacement(const struct solver *s);

void solver_free(struct solver *s);

#endif /* SOLVER_H */
