/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * With v = (u+ - u-) / 2 dt the scheme keeps this balance exactly but for rounding, and `--check` asks it:
 *     E(n+1/2) - E(n-1/2) = dt v.(f - C v),
 *     E(n+1/2) = 1/2 w.M w + 1/2 u(n).K u(n+1),  w = (u(n+1) - u(n)) / dt.
 */
#include "solver.h"

#include "../common/example.h"

#include <stdlib.h>
#include <string.h>

/* The loop that takes the time. How often the while turns is data: 6 times for a node in the middle of a face
 * of the surface, 27 times for a corner between cells of two sizes. */
static void smvp(const struct stiffness *k, const vector3 *u, vector3 *ku, struct range rows) {
    for (size_t row = rows.begin; row < rows.end; row++) {
        double sum0 = 0, sum1 = 0, sum2 = 0;
        size_t entry = k->row_start[row];
        while (entry < k->row_start[row + 1]) {
            const double *b = k->block[entry];
            const double *x = u[k->column[entry]];
            sum0 += b[0] * x[0] + b[1] * x[1] + b[2] * x[2];
            sum1 += b[3] * x[0] + b[4] * x[1] + b[5] * x[2];
            sum2 += b[6] * x[0] + b[7] * x[1] + b[8] * x[2];
            entry++;
        }
        ku[row][0] = sum0;
        ku[row][1] = sum1;
        ku[row][2] = sum2;
    }
}

/* From 0 to 1 with a smooth start and end; a polynomial, so that every machine computes the same bits. */
static double slip(double t) {
    double x = t / RISE_S;
    if (x <= 0)
        return 0;
    if (x >= 1)
        return 1;
    return x * x * x * (10 + x * (6 * x - 15));
}

static void excite(const struct rupture *r, double time, vector3 *force, struct range nodes) {
    for (size_t i = nodes.begin; i < nodes.end; i++) {
        double f[3] = {0};
        size_t pull = r->node_start[i];
        while (pull < r->node_start[i + 1]) {
            double part = slip(time - r->pull[pull].start_s);
            for (int k = 0; k < 3; k++)
                f[k] += part * r->pull[pull].force[k];
            pull++;
        }
        for (int k = 0; k < 3; k++)
            force[i][k] = f[k];
    }
}

/* The next displacement of one block's nodes, and the block's energy. */
static void integrate_block(struct solver *s, int step, size_t block) {
    const struct elastic *e = s->e;
    const vector3 *before = s->u[step % 3], *now = s->u[(step + 1) % 3];
    vector3 *next = s->u[(step + 2) % 3];
    double dt = e->step_s, stored = 0, brought = 0, swallowed = 0;
    size_t end = (block + 1) * BLOCK_NODES < e->k.n_rows ? (block + 1) * BLOCK_NODES : e->k.n_rows;
    for (size_t i = block * BLOCK_NODES; i < end; i++) {
        double m = e->mass[i] / (dt * dt), c = e->damping[i] / (2 * dt);
        for (int k = 0; k < 3; k++) {
            double change = now[i][k] - before[i][k];
            next[i][k] = (s->force[i][k] - s->ku[i][k] + m * (now[i][k] + change) + c * before[i][k]) / (m + c);
            double moved = (next[i][k] - before[i][k]) / 2;
            stored += m * change * change / 2 + before[i][k] * s->ku[i][k] / 2;
            brought += moved * s->force[i][k];
            swallowed += 2 * c * moved * moved;
        }
    }
    s->energy[block] = (struct energy){stored, s->work[block][0], s->work[block][1]};
    s->work[block][0] += brought;
    s->work[block][1] += swallowed;
}

static void track_peak(struct solver *s, int step, struct range nodes) {
    const vector3 *before = s->u[step % 3], *next = s->u[(step + 2) % 3];
    double scale = 1 / (2 * s->e->step_s);
    for (size_t i = nodes.begin; i < nodes.end; i++) {
        double squared = 0;
        for (int k = 0; k < 3; k++) {
            double v = scale * (next[i][k] - before[i][k]);
            squared += v * v;
        }
        if (squared > s->peak_velocity[i])
            s->peak_velocity[i] = squared;
    }
}

/* In millimetres for a curve with readable numbers. */
static void watch(struct solver *s, int step, int w) {
    const vector3 *next = s->u[(step + 2) % 3];
    for (int k = 0; k < 3; k++)
        s->history[step][w][k] = next[s->watched[w]][k];
    if (w == 0)
        KASURI_COUNTER("hypocentre mm", 1e6 * next[s->watched[w]][1]);
    else
        KASURI_COUNTER("epicentre mm", 1e6 * next[s->watched[w]][1]);
}

static struct range nodes_of(const struct solver *s, struct range blocks) {
    size_t n = s->e->k.n_rows, end = blocks.end * BLOCK_NODES;
    return (struct range){blocks.begin * BLOCK_NODES, end < n ? end : n};
}

void solver_multiply(struct solver *s, int step, struct range blocks) {
    smvp(&s->e->k, (const vector3 *)s->u[(step + 1) % 3], s->ku, nodes_of(s, blocks));
}
void solver_excite(struct solver *s, int step, struct range blocks) {
    excite(&s->e->rupture, step * s->e->step_s, s->force, nodes_of(s, blocks));
}
void solver_integrate(struct solver *s, int step, struct range blocks) {
    for (size_t block = blocks.begin; block < blocks.end; block++)
        integrate_block(s, step, block);
}
void solver_track(struct solver *s, int step, struct range blocks) {
    struct range nodes = nodes_of(s, blocks);
    track_peak(s, step, nodes);
    for (int w = 0; w < 2; w++)
        if (s->watched[w] >= nodes.begin && s->watched[w] < nodes.end)
            watch(s, step, w);
}

void solver_run(struct team *team, int member, void *arg) {
    struct solver *s = arg;
    struct range blocks = {s->share[member], s->share[member + 1]};
    for (int step = 0; step < s->steps; step++) {
        KASURI_BEGIN("smvp");
        solver_multiply(s, step, blocks);
        KASURI_END();
        TEAM_BARRIER(team);

        KASURI_BEGIN("excite");
        solver_excite(s, step, blocks);
        KASURI_END();
        TEAM_BARRIER(team);

        KASURI_BEGIN("integrate");
        solver_integrate(s, step, blocks);
        KASURI_END();
        TEAM_BARRIER(team);

        KASURI_BEGIN("track_peak");
        solver_track(s, step, blocks);
        KASURI_END();
        TEAM_BARRIER(team);
    }
}

/* First block of each of @threads threads, by count of blocks or of matrix entries. */
static size_t *share_blocks(const struct stiffness *k, size_t n_blocks, int threads, bool by_entries) {
    size_t *share = example_alloc((size_t)threads + 1, sizeof *share);
    for (int t = 0; t < threads; t++) {
        share[t] = team_split(n_blocks, threads, t).begin;
        if (!by_entries)
            continue;
        size_t wanted = team_split(k->row_start[k->n_rows], threads, t).begin;
        share[t] = 0;
        while (share[t] < n_blocks && k->row_start[share[t] * BLOCK_NODES] < wanted)
            share[t]++;
    }
    share[threads] = n_blocks;
    return share;
}

struct solver solver_make(const struct elastic *e, int steps, int threads, bool by_entries) {
    size_t n = e->k.n_rows;
    struct solver s = {.e = e, .steps = steps, .n_blocks = (n + BLOCK_NODES - 1) / BLOCK_NODES};
    for (int i = 0; i < 3; i++)
        s.u[i] = example_alloc(n, sizeof *s.u[i]);
    s.ku = example_alloc(n, sizeof *s.ku);
    s.force = example_alloc(n, sizeof *s.force);
    s.peak_velocity = example_alloc(n, sizeof *s.peak_velocity);
    s.energy = example_alloc(s.n_blocks, sizeof *s.energy);
    s.work = example_alloc(s.n_blocks, sizeof *s.work);
    s.history = example_alloc((size_t)steps, sizeof *s.history);
    s.share = share_blocks(&e->k, s.n_blocks, threads, by_entries);
    return s;
}

void solver_rest(struct solver *s) {
    size_t n = s->e->k.n_rows;
    for (int i = 0; i < 3; i++)
        memset(s->u[i], 0, n * sizeof *s->u[i]);
    memset(s->peak_velocity, 0, n * sizeof *s->peak_velocity);
    memset(s->energy, 0, s->n_blocks * sizeof *s->energy);
    memset(s->work, 0, s->n_blocks * sizeof *s->work);
}

struct energy solver_energy(const struct solver *s) {
    struct energy sum = {0};
    for (size_t i = 0; i < s->n_blocks; i++) {
        sum.stored += s->energy[i].stored;
        sum.brought += s->energy[i].brought;
        sum.swallowed += s->energy[i].swallowed;
    }
    return sum;
}

const vector3 *solver_displacement(const struct solver *s) {
    return (const vector3 *)s->u[(s->steps + 1) % 3];
}

void solver_free(struct solver *s) {
    for (int i = 0; i < 3; i++)
        free(s->u[i]);
    free(s->ku);
    free(s->force);
    free(s->peak_velocity);
    free(s->energy);
    free(s->work);
    free(s->history);
    free(s->share);
}
