/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Linear tetrahedra: the shape functions N_a have constant gradients g_a, so that the block of K
 * between nodes a and b of one element of volume V is
 *     V (lambda g_a g_b' + mu (g_b g_a' + (g_a . g_b) I)).
 * The time step comes from the largest eigenvalue of M^-1 K, bounded by its largest absolute row
 * sum (Gershgorin); 2 / omega_max is the limit of the central difference.
 */
#include "elastic.h"

#include "../common/example.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUPTURE_KM_S 2.4    /* speed at which the fault tears */
#define FAULT_RADIUS_KM 2.5 /* of the part that slips */
#define MOMENT 1.0          /* 10^18 N m, as 10^12 kg km^2/s^2 */
#define MASS_DAMPING 0.05   /* 1/s */

/* An element's volume and the gradients of its four shape functions. */
struct shape {
    double volume;
    double gradient[4][3];
    double centre[3];
};

static void cross(const double a[3], const double b[3], double out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static struct shape shape_of(const struct mesh *mesh, const int32_t tet[4]) {
    struct shape s = {0};
    double edge[3][3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            edge[i][k] = mesh->node[tet[i + 1]][k] - mesh->node[tet[0]][k];
    for (int i = 0; i < 3; i++)
        cross(edge[(i + 1) % 3], edge[(i + 2) % 3], s.gradient[i + 1]);
    double six_volumes = dot(edge[0], s.gradient[1]);
    for (int k = 0; k < 3; k++) {
        for (int i = 1; i < 4; i++) {
            s.gradient[i][k] /= six_volumes;
            s.gradient[0][k] -= s.gradient[i][k];
        }
        for (int i = 0; i < 4; i++)
            s.centre[k] += mesh->node[tet[i]][k] / 4;
    }
    s.volume = fabs(six_volumes) / 6;
    return s;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The tetrahedra that touch node i are [start[i], start[i + 1]) of the array returned. */
static int32_t *tets_by_node(const struct mesh *mesh, size_t *start) {
    int32_t *tets = example_alloc(4 * mesh->n_tets, sizeof *tets);
    for (size_t t = 0; t < mesh->n_tets; t++)
        for (int a = 0; a < 4; a++)
            start[mesh->tet[t][a] + 1]++;
    for (size_t i = 0; i < mesh->n_nodes; i++)
        start[i + 1] += start[i];
    size_t *next = example_alloc(mesh->n_nodes, sizeof *next);
    memcpy(next, start, mesh->n_nodes * sizeof *next);
    for (size_t t = 0; t < mesh->n_tets; t++)
        for (int a = 0; a < 4; a++)
            tets[next[mesh->tet[t][a]]++] = (int32_t)t;
    free(next);
    return tets;
}

static void stiffness_layout(struct stiffness *k, const struct mesh *mesh) {
    size_t n = mesh->n_nodes, used = 0;
    size_t *start = example_alloc(n + 1, sizeof *start);
    int32_t *tets = tets_by_node(mesh, start);
    int32_t *seen_by = example_alloc(n, sizeof *seen_by);
    k->n_rows = n;
    k->row_start = example_alloc(n + 1, sizeof *k->row_start);
    k->column = example_alloc(16 * mesh->n_tets, sizeof *k->column);
    for (size_t i = 0; i < n; i++) {
        k->row_start[i] = used;
        for (size_t j = start[i]; j < start[i + 1]; j++)
            for (int a = 0; a < 4; a++) {
                int32_t other = mesh->tet[tets[j]][a];
                if (seen_by[other] == (int32_t)i + 1)
                    continue;
                seen_by[other] = (int32_t)i + 1;
                k->column[used++] = other;
            }
        qsort(k->column + k->row_start[i], used - k->row_start[i], sizeof *k->column, by_number);
    }
    k->row_start[n] = used;
    k->block = example_alloc(used, sizeof *k->block);
    free(seen_by);
    free(tets);
    free(start);
}

static double *stiffness_block(struct stiffness *k, int32_t row, int32_t column) {
    size_t entry = k->row_start[row];
    while (k->column[entry] != column)
        entry++;
    return k->block[entry];
}

static void add_element(struct elastic *e, const int32_t tet[4], const struct shape *s) {
    struct rock rock = rock_at(s->centre);
    double mu = rock.density * rock.vs * rock.vs;
    double lambda = rock.density * rock.vp * rock.vp - 2 * mu;
    for (int a = 0; a < 4; a++) {
        e->mass[tet[a]] += rock.density * s->volume / 4;
        for (int b = 0; b < 4; b++) {
            const double *ga = s->gradient[a], *gb = s->gradient[b];
            double *block = stiffness_block(&e->k, tet[a], tet[b]);
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    block[3 * i + j] +=
                        s->volume * (lambda * ga[i] * gb[j] + mu * gb[i] * ga[j] + (i == j ? mu * dot(ga, gb) : 0.0));
        }
    }
}

/* The region ends, the rock does not: dashpots at its sides swallow most of a wave that leaves. */
static void add_dashpots(struct elastic *e, const struct mesh *mesh) {
    for (size_t i = 0; i < mesh->n_sides; i++) {
        const int32_t *n = mesh->side[i];
        double edge[2][3], normal[3], centre[3];
        for (int k = 0; k < 3; k++) {
            edge[0][k] = mesh->node[n[1]][k] - mesh->node[n[0]][k];
            edge[1][k] = mesh->node[n[2]][k] - mesh->node[n[0]][k];
            centre[k] = (mesh->node[n[0]][k] + mesh->node[n[1]][k] + mesh->node[n[2]][k]) / 3;
        }
        cross(edge[0], edge[1], normal);
        struct rock rock = rock_at(centre);
        double area = sqrt(dot(normal, normal)) / 2;
        for (int a = 0; a < 3; a++)
            e->damping[n[a]] += rock.density * (rock.vp + 2 * rock.vs) / 3 * area / 3;
    }
}

/* The fault is the vertical plane x = hypocentre's; elements it cuts within FAULT_RADIUS_KM slip along y. */
static bool on_fault(const struct mesh *mesh, const int32_t tet[4], const double centre[3], double *distance) {
    double low = 1e300, high = -1e300, squared = 0;
    for (int a = 0; a < 4; a++) {
        low = fmin(low, mesh->node[tet[a]][0]);
        high = fmax(high, mesh->node[tet[a]][0]);
    }
    for (int k = 1; k < 3; k++)
        squared += (centre[k] - hypocentre[k]) * (centre[k] - hypocentre[k]);
    *distance = sqrt(squared);
    return low <= hypocentre[0] && high > hypocentre[0] && *distance < FAULT_RADIUS_KM;
}

/* Moment tensor M_xy = M_yx, shared by volume: node a of an element gets M g_a. */
static void rupture_make(struct elastic *e, const struct mesh *mesh) {
    struct rupture *r = &e->rupture;
    size_t n = mesh->n_nodes;
    double volume = 0, distance;
    r->node_start = example_alloc(n + 1, sizeof *r->node_start);
    for (size_t t = 0; t < mesh->n_tets; t++) {
        struct shape s = shape_of(mesh, mesh->tet[t]);
        if (!on_fault(mesh, mesh->tet[t], s.centre, &distance))
            continue;
        volume += s.volume;
        for (int a = 0; a < 4; a++)
            r->node_start[mesh->tet[t][a] + 1]++;
    }
    for (size_t i = 0; i < n; i++)
        r->node_start[i + 1] += r->node_start[i];
    r->n_pulls = r->node_start[n];
    r->pull = example_alloc(r->n_pulls, sizeof *r->pull);
    size_t *next = example_alloc(n, sizeof *next);
    memcpy(next, r->node_start, n * sizeof *next);
    for (size_t t = 0; t < mesh->n_tets; t++) {
        const int32_t *tet = mesh->tet[t];
        struct shape s = shape_of(mesh, tet);
        if (!on_fault(mesh, tet, s.centre, &distance))
            continue;
        for (int a = 0; a < 4; a++) {
            double share = MOMENT * s.volume / volume;
            r->pull[next[tet[a]]++] = (struct pull){
                .node = tet[a],
                .start_s = distance / RUPTURE_KM_S,
                .force = {share * s.gradient[a][1], share * s.gradient[a][0], 0},
            };
        }
    }
    free(next);
}

static double stable_step(const struct elastic *e) {
    double largest = 0;
    for (size_t i = 0; i < e->k.n_rows; i++)
        for (int row = 0; row < 3; row++) {
            double sum = 0;
            for (size_t j = e->k.row_start[i]; j < e->k.row_start[i + 1]; j++)
                for (int column = 0; column < 3; column++)
                    sum += fabs(e->k.block[j][3 * row + column]);
            largest = fmax(largest, sum / e->mass[i]);
        }
    return 0.95 * 2 / sqrt(largest);
}

struct elastic elastic_assemble(const struct mesh *mesh) {
    struct elastic e = {0};
    e.mass = example_alloc(mesh->n_nodes, sizeof *e.mass);
    e.damping = example_alloc(mesh->n_nodes, sizeof *e.damping);
    stiffness_layout(&e.k, mesh);
    for (size_t t = 0; t < mesh->n_tets; t++) {
        struct shape s = shape_of(mesh, mesh->tet[t]);
        add_element(&e, mesh->tet[t], &s);
    }
    for (size_t i = 0; i < mesh->n_nodes; i++)
        e.damping[i] = MASS_DAMPING * e.mass[i];
    add_dashpots(&e, mesh);
    rupture_make(&e, mesh);
    e.step_s = stable_step(&e);
    return e;
}

void elastic_free(struct elastic *e) {
    free(e->k.row_start);
    free(e->k.column);
    free(e->k.block);
    free(e->mass);
    free(e->damping);
    free(e->rupture.pull);
    free(e->rupture.node_start);
}
