/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The earthquake of ../quake as macro-tasks: each of its four loops, a part of the nodes and a step is a task. ../quake
 * has a barrier after each loop; here a part waits for its neighbours only, so its next step may begin before another's
 * last one has ended. Same bits as ../quake.
 *
 * What is written again, and so waits for those who read it: ku and force of a part, by its integrate; the oldest of the
 * three displacements, by the neighbours' multiply of two steps before, which is long ago by the other dependences, and
 * by the part's own track of the step before.
 */
#include "../quake/solver.h"
#include "graph.h"

#include <math.h>
#include <stdlib.h>

enum { MULTIPLY, EXCITE, INTEGRATE, TRACK, LOOPS };

struct quake {
    struct mesh mesh;
    struct elastic elastic;
    struct solver solver;
    size_t n_parts, part_blocks;
};

/* Tasks are numbered by step, then by loop, then by part. */
static int task_of(const struct quake *q, int step, int loop, size_t part) {
    return (step * LOOPS + loop) * (int)q->n_parts + (int)part;
}
static struct range blocks_of(const struct quake *q, size_t part) {
    size_t end = (part + 1) * q->part_blocks;
    return (struct range){part * q->part_blocks, end < q->solver.n_blocks ? end : q->solver.n_blocks};
}

static void run(void *data, int task) {
    struct quake *q = data;
    int n = (int)q->n_parts, step = task / n / LOOPS;
    struct range blocks = blocks_of(q, (size_t)(task % n));
    switch (task / n % LOOPS) {
    case MULTIPLY:
        solver_multiply(&q->solver, step, blocks);
        break;
    case EXCITE:
        solver_excite(&q->solver, step, blocks);
        break;
    case INTEGRATE:
        solver_integrate(&q->solver, step, blocks);
        break;
    default:
        solver_track(&q->solver, step, blocks);
    }
}

/* Which parts have columns of this part's rows: flags, [n_parts]. Returns the number of entries. */
static size_t neighbours(const struct quake *q, size_t part, bool *is_near) {
    const struct stiffness *k = &q->elastic.k;
    struct range blocks = blocks_of(q, part);
    size_t last = blocks.end * BLOCK_NODES < k->n_rows ? blocks.end * BLOCK_NODES : k->n_rows;
    size_t first = k->row_start[blocks.begin * BLOCK_NODES], end = k->row_start[last];
    for (size_t entry = first; entry < end; entry++)
        is_near[(size_t)k->column[entry] / BLOCK_NODES / q->part_blocks] = true;
    return end - first;
}

static void add_step(struct graph *g, const struct quake *q, int step, const bool *is_near, const size_t *entries) {
    size_t n = q->n_parts;
    double nodes = (double)(q->part_blocks * BLOCK_NODES);
    for (size_t part = 0; part < n; part++) {
        graph_add(g, "multiply", 18 * (double)entries[part]);
        for (size_t other = 0; step && other < n; other++)
            if (is_near[part * n + other])
                graph_needs(g, task_of(q, step - 1, INTEGRATE, other));
    }
    for (size_t part = 0; part < n; part++) {
        graph_add(g, "excite", 6 * nodes);
        graph_needs(g, step ? task_of(q, step - 1, INTEGRATE, part) : -1);
    }
    for (size_t part = 0; part < n; part++) {
        graph_add(g, "integrate", 60 * nodes);
        graph_needs(g, task_of(q, step, MULTIPLY, part));
        graph_needs(g, task_of(q, step, EXCITE, part));
        graph_needs(g, step ? task_of(q, step - 1, TRACK, part) : -1);
    }
    for (size_t part = 0; part < n; part++) {
        graph_add(g, "track", 10 * nodes);
        graph_needs(g, task_of(q, step, INTEGRATE, part));
    }
}

static void *make(struct graph *g, int steps, int part_blocks) {
    struct quake *q = example_alloc(1, sizeof *q);
    q->mesh = mesh_make();
    q->elastic = elastic_assemble(&q->mesh);
    q->solver = solver_make(&q->elastic, steps, 1, false);
    q->solver.watched[0] = mesh_nearest(&q->mesh, hypocentre);
    q->solver.watched[1] = mesh_nearest(&q->mesh, (double[]){hypocentre[0], hypocentre[1], 0});
    q->part_blocks = (size_t)part_blocks;
    q->n_parts = (q->solver.n_blocks + q->part_blocks - 1) / q->part_blocks;
    g->run = run;
    g->data = q;
    bool *is_near = example_alloc(q->n_parts * q->n_parts, sizeof *is_near);
    size_t *entries = example_alloc(q->n_parts, sizeof *entries);
    for (size_t part = 0; part < q->n_parts; part++)
        entries[part] = neighbours(q, part, is_near + part * q->n_parts);
    for (int step = 0; step < steps; step++)
        add_step(g, q, step, is_near, entries);
    free(is_near);
    free(entries);
    return q;
}

static void fill(void *data) {
    solver_rest(&((struct quake *)data)->solver);
}
/* What of the energy that the rupture brought is neither there nor swallowed. */
static double error(const void *data) {
    struct energy sum = solver_energy(&((const struct quake *)data)->solver);
    return fabs(sum.stored + sum.swallowed - sum.brought) / (sum.brought + 1e-300);
}
static uint64_t digest(const void *data) {
    const struct quake *q = data;
    return example_digest(EXAMPLE_DIGEST_START, solver_displacement(&q->solver), q->mesh.n_nodes * sizeof(vector3));
}
static void release(void *data) {
    struct quake *q = data;
    solver_free(&q->solver);
    elastic_free(&q->elastic);
    mesh_free(&q->mesh);
    free(q);
}

const struct kernel quake_kernel = {"quake", "time steps", 48, 32, make, fill, error, digest, release};
