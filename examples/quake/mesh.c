/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Goal: elements as small as a shear wave needs them - many in soft rock, few in hard - without a
 * gap or an overlap. Method: an octree whose neighbouring leaves differ by at most one level. Each leaf
 * gets a node at its centre; each triangle of its surface and that centre make a tetrahedron. A
 * face is cut from the corners alone that lie on its rim (with those of finer neighbours), so both
 * leaves that share it cut it alike. Rejected: Delaunay, ten times the code for the same loops.
 *
 * Coordinates in the tree are in half cells of the finest level, so that all nodes have integer ones.
 */
#include "mesh.h"

#include "../common/example.h"

#include <stdlib.h>
#include <string.h>

enum { LEVEL_BASE = 3, LEVEL_MAX = 6, CELLS = 1 << LEVEL_MAX, POINTS = 2 * CELLS + 1, NO_NODE = -1 };

const double hypocentre[3] = {6.25, 8.75, 5.0};

struct builder {
    uint8_t level[CELLS][CELLS][CELLS]; /* level of the leaf that covers each finest cell */
    int32_t node_at[POINTS][POINTS][POINTS];
    struct mesh mesh;
    size_t nodes_room, tets_room, sides_room;
    size_t n_corners;
    int leaf[CELLS * CELLS * CELLS][4]; /* x, y, z, level; in order of a walk through the tree */
    size_t n_leaves;
};

static const double KM_PER_UNIT = REGION_KM / (2 * CELLS);

/* The valley is half an ellipsoid below the surface. Its sediment hardens with depth. */
struct rock rock_at(const double x[3]) {
    double dx = (x[0] - 11.0) / 5.0, dy = (x[1] - 10.0) / 7.0, dz = x[2] / 1.6;
    if (dx * dx + dy * dy + dz * dz < 1.0)
        return (struct rock){.vp = 1.8 + 0.5 * x[2], .vs = 0.7 + 0.3 * x[2], .density = 2.0};
    return (struct rock){.vp = 5.2 + 0.05 * x[2], .vs = 3.0 + 0.03 * x[2], .density = 2.7};
}

static bool wants_split(const int leaf[4]) {
    double half = (double)(CELLS >> leaf[3]) * KM_PER_UNIT, centre[3], to_source = 0;
    for (int i = 0; i < 3; i++) {
        centre[i] = 2 * leaf[i] * KM_PER_UNIT + half;
        to_source += (centre[i] - hypocentre[i]) * (centre[i] - hypocentre[i]);
    }
    if (leaf[3] < LEVEL_BASE)
        return true;
    if (leaf[3] == LEVEL_MAX)
        return false;
    if (to_source < 9 * half * half)
        return true;
    /* Six cells for the shortest wave, of 2 s. */
    return 2 * half * 6 > 2.0 * rock_at(centre).vs;
}

/* Does a leaf that touches this one, by a corner even, lie more than one level deeper? */
static bool neighbour_forces_split(const struct builder *b, const int leaf[4]) {
    int size = CELLS >> leaf[3];
    for (int x = leaf[0] - 1; x <= leaf[0] + size; x++)
        for (int y = leaf[1] - 1; y <= leaf[1] + size; y++)
            for (int z = leaf[2] - 1; z <= leaf[2] + size; z++)
                if (x >= 0 && y >= 0 && z >= 0 && x < CELLS && y < CELLS && z < CELLS &&
                    b->level[x][y][z] > leaf[3] + 1)
                    return true;
    return false;
}

static void walk(struct builder *b, int x, int y, int z, int level) {
    if (b->level[x][y][z] == level) {
        int *leaf = b->leaf[b->n_leaves++];
        leaf[0] = x, leaf[1] = y, leaf[2] = z, leaf[3] = level;
        return;
    }
    int half = CELLS >> (level + 1);
    for (int i = 0; i < 8; i++)
        walk(b, x + half * (i >> 2 & 1), y + half * (i >> 1 & 1), z + half * (i & 1), level + 1);
}

static bool split_leaves(struct builder *b) {
    bool changed = false;
    b->n_leaves = 0;
    walk(b, 0, 0, 0, 0);
    for (size_t i = 0; i < b->n_leaves; i++) {
        const int *leaf = b->leaf[i];
        int size = CELLS >> leaf[3];
        if (!wants_split(leaf) && !neighbour_forces_split(b, leaf))
            continue;
        for (int x = leaf[0]; x < leaf[0] + size; x++)
            for (int y = leaf[1]; y < leaf[1] + size; y++)
                memset(&b->level[x][y][leaf[2]], leaf[3] + 1, (size_t)size);
        changed = true;
    }
    return changed;
}

/* Room for one more: the arrays double. */
static void *grow(void *array, size_t count, size_t *room, size_t bytes) {
    if (count < *room)
        return array;
    *room = *room ? 2 * *room : 4096;
    array = realloc(array, *room * bytes);
    if (!array)
        example_fail("no memory for a mesh of %zu parts", *room);
    return array;
}

static int32_t node_make(struct builder *b, const int p[3]) {
    struct mesh *m = &b->mesh;
    int32_t *id = &b->node_at[p[0]][p[1]][p[2]];
    if (*id != NO_NODE)
        return *id;
    m->node = grow(m->node, m->n_nodes, &b->nodes_room, sizeof *m->node);
    for (int i = 0; i < 3; i++)
        m->node[m->n_nodes][i] = p[i] * KM_PER_UNIT;
    return *id = (int32_t)m->n_nodes++;
}

static void tet_make(struct builder *b, int32_t n0, int32_t n1, int32_t n2, int32_t n3) {
    struct mesh *m = &b->mesh;
    m->tet = grow(m->tet, m->n_tets, &b->tets_room, sizeof *m->tet);
    int32_t *tet = m->tet[m->n_tets++];
    tet[0] = n0, tet[1] = n1, tet[2] = n2, tet[3] = n3;
}

/* One triangle of a leaf's surface and the leaf's centre; on the boundary the triangle is a side as well. */
static void triangle_make(struct builder *b, const int32_t n[3], int32_t centre, bool boundary) {
    struct mesh *m = &b->mesh;
    tet_make(b, n[0], n[1], n[2], centre);
    if (!boundary)
        return;
    m->side = grow(m->side, m->n_sides, &b->sides_room, sizeof *m->side);
    memcpy(m->side[m->n_sides++], n, sizeof *m->side);
}

/* The square of side @size at @origin across @axis. */
static void face_cut(struct builder *b, int32_t centre, const int origin[3], int axis, int size, bool boundary) {
    static const int corner[5][2] = {{0, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 0}};
    int u = (axis + 1) % 3, v = (axis + 2) % 3, n = 0, first = 0;
    int32_t rim[8];
    for (int i = 0; i < 4; i++) {
        int p[3] = {origin[0], origin[1], origin[2]}, mid[3] = {origin[0], origin[1], origin[2]};
        p[u] += size * corner[i][0];
        p[v] += size * corner[i][1];
        mid[u] += size * (corner[i][0] + corner[i + 1][0]) / 2;
        mid[v] += size * (corner[i][1] + corner[i + 1][1]) / 2;
        rim[n++] = b->node_at[p[0]][p[1]][p[2]];
        int32_t between = b->node_at[mid[0]][mid[1]][mid[2]];
        if (between != NO_NODE && (size_t)between < b->n_corners)
            rim[n++] = between;
    }
    if (n == 4) {
        /* The diagonal starts at the smallest number: the leaf on the other side sees it too. */
        for (int i = 1; i < 4; i++)
            if (rim[i] < rim[first])
                first = i;
        for (int i = 1; i < 3; i++)
            triangle_make(b, (int32_t[]){rim[first], rim[(first + i) % 4], rim[(first + i + 1) % 4]}, centre, boundary);
        return;
    }
    int p[3] = {origin[0], origin[1], origin[2]};
    p[u] += size / 2;
    p[v] += size / 2;
    int32_t middle = node_make(b, p);
    for (int i = 0; i < n; i++)
        triangle_make(b, (int32_t[]){rim[i], rim[(i + 1) % n], middle}, centre, boundary);
}

/* One of a leaf's six faces; in four parts when the leaf behind it is smaller. */
static void face_make(struct builder *b, const int leaf[4], int32_t centre, int axis, int far) {
    int cells = CELLS >> leaf[3], beyond[3] = {leaf[0], leaf[1], leaf[2]};
    int origin[3] = {2 * leaf[0], 2 * leaf[1], 2 * leaf[2]};
    origin[axis] += far * 2 * cells;
    beyond[axis] += far ? cells : -1;
    if (beyond[axis] < 0 || beyond[axis] == CELLS) {
        face_cut(b, centre, origin, axis, 2 * cells, axis != 2 || far);
    } else if (b->level[beyond[0]][beyond[1]][beyond[2]] <= leaf[3]) {
        face_cut(b, centre, origin, axis, 2 * cells, false);
    } else {
        for (int i = 0; i < 4; i++) {
            int part[3] = {origin[0], origin[1], origin[2]};
            part[(axis + 1) % 3] += cells * (i & 1);
            part[(axis + 2) % 3] += cells * (i >> 1);
            face_cut(b, centre, part, axis, cells, false);
        }
    }
}

static void leaf_point(const int leaf[4], int dx, int dy, int dz, int p[3]) {
    int cells = CELLS >> leaf[3];
    p[0] = 2 * leaf[0] + dx * cells;
    p[1] = 2 * leaf[1] + dy * cells;
    p[2] = 2 * leaf[2] + dz * cells;
}

struct mesh mesh_make(void) {
    struct builder *b = example_alloc(1, sizeof *b);
    int p[3];
    while (split_leaves(b))
        ;
    memset(b->node_at, 0xff, sizeof b->node_at);
    for (size_t i = 0; i < b->n_leaves; i++)
        for (int c = 0; c < 8; c++) {
            leaf_point(b->leaf[i], c >> 1 & 2, c & 2, c << 1 & 2, p);
            node_make(b, p);
        }
    b->n_corners = b->mesh.n_nodes;
    for (size_t i = 0; i < b->n_leaves; i++) {
        leaf_point(b->leaf[i], 1, 1, 1, p);
        node_make(b, p);
    }
    for (size_t i = 0; i < b->n_leaves; i++) {
        leaf_point(b->leaf[i], 1, 1, 1, p);
        int32_t centre = b->node_at[p[0]][p[1]][p[2]];
        for (int face = 0; face < 6; face++)
            face_make(b, b->leaf[i], centre, face / 2, face % 2);
    }
    struct mesh mesh = b->mesh;
    free(b);
    return mesh;
}

size_t mesh_nearest(const struct mesh *mesh, const double x[3]) {
    size_t best = 0;
    double best_distance = 1e300;
    for (size_t i = 0; i < mesh->n_nodes; i++) {
        double distance = 0;
        for (int k = 0; k < 3; k++)
            distance += (mesh->node[i][k] - x[k]) * (mesh->node[i][k] - x[k]);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}

void mesh_free(struct mesh *mesh) {
    free(mesh->node);
    free(mesh->tet);
    free(mesh->side);
}
