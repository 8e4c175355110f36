/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mesh fills the region once: its volumes add up to the cube, each triangle inside belongs to two tetrahedra and
 * each other one lies in the cube's surface; the sides are those of the surface but for the top. K is symmetric and a
 * shift of the whole region costs no force.
 */
#include "../common/example.h"
#include "../quake/elastic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct triangle {
    int32_t node[3];
};

static int by_number(const void *a, const void *b) {
    return memcmp(a, b, sizeof(struct triangle));
}

/* Nodes in falling order; only equality matters. */
static struct triangle triangle_of(const int32_t tet[4], int without) {
    struct triangle t;
    for (int i = 0, n = 0; i < 4; i++)
        if (i != without)
            t.node[n++] = tet[i];
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 2; i++)
            if (t.node[i] < t.node[i + 1]) {
                int32_t swap = t.node[i];
                t.node[i] = t.node[i + 1];
                t.node[i + 1] = swap;
            }
    return t;
}

/* 0: inside; 1: in the surface; 2: in its top, where there are no dashpots. */
static int surface_of(const struct mesh *m, const struct triangle *t) {
    for (int axis = 0; axis < 3; axis++)
        for (int far = 0; far < 2; far++) {
            int in = 0;
            for (int i = 0; i < 3; i++)
                in += m->node[t->node[i]][axis] == far * REGION_KM;
            if (in == 3)
                return axis == 2 && !far ? 2 : 1;
        }
    return 0;
}

static double volume_of(const struct mesh *m, const int32_t tet[4]) {
    double e[3][3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            e[i][k] = m->node[tet[i + 1]][k] - m->node[tet[0]][k];
    return fabs(e[0][0] * (e[1][1] * e[2][2] - e[1][2] * e[2][1]) - e[0][1] * (e[1][0] * e[2][2] - e[1][2] * e[2][0]) +
                e[0][2] * (e[1][0] * e[2][1] - e[1][1] * e[2][0])) /
           6;
}

static void check_triangles(const struct mesh *m) {
    size_t count = 4 * m->n_tets, sides = 0;
    struct triangle *all = example_alloc(count, sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = triangle_of(m->tet[i / 4], (int)(i % 4));
    qsort(all, count, sizeof *all, by_number);
    for (size_t i = 0, shared; i < count; i += shared) {
        for (shared = 1; i + shared < count && !by_number(&all[i], &all[i + shared]);)
            shared++;
        int surface = surface_of(m, &all[i]);
        if (shared != (surface ? 1 : 2))
            example_fail("a triangle of %zu tetrahedra %s", shared, surface ? "in the surface" : "inside");
        sides += surface == 1;
    }
    if (sides != m->n_sides)
        example_fail("%zu sides, needed %zu", m->n_sides, sides);
    free(all);
}

static const double *block_at(const struct stiffness *k, size_t row, size_t column) {
    for (size_t entry = k->row_start[row]; entry < k->row_start[row + 1]; entry++)
        if ((size_t)k->column[entry] == column)
            return k->block[entry];
    example_fail("entry %zu %zu has no twin", row, column);
}

static void check_stiffness(const struct stiffness *k) {
    for (size_t row = 0; row < k->n_rows; row++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                double sum = 0, size = 0;
                for (size_t entry = k->row_start[row]; entry < k->row_start[row + 1]; entry++) {
                    double here = k->block[entry][3 * i + j];
                    double twin = block_at(k, (size_t)k->column[entry], row)[3 * j + i];
                    sum += here;
                    size += fabs(k->block[entry][4 * i]);
                    if (fabs(here - twin) > 1e-12 * fabs(k->block[entry][4 * i]) + 1e-12)
                        example_fail("row %zu: %g against %g", row, here, twin);
                }
                if (fabs(sum) > 1e-12 * size)
                    example_fail("row %zu: a shift costs %g of %g", row, sum, size);
            }
}

int main(void) {
    struct mesh mesh = mesh_make();
    double volume = 0;
    for (size_t i = 0; i < mesh.n_tets; i++)
        volume += volume_of(&mesh, mesh.tet[i]);
    if (fabs(volume - REGION_KM * REGION_KM * REGION_KM) > 1e-6)
        example_fail("volume %g km^3, needed %g", volume, REGION_KM * REGION_KM * REGION_KM);
    check_triangles(&mesh);
    struct elastic elastic = elastic_assemble(&mesh);
    check_stiffness(&elastic.k);
    printf("%zu tetrahedra fill %g km^3\n", mesh.n_tets, volume);
    elastic_free(&elastic);
    mesh_free(&mesh);
    return 0;
}
