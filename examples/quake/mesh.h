/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A graded, unstructured mesh of tetrahedra for a valley of soft sediment in hard rock.
 * The region is a cube; x and y are horizontal, z is the depth below the free surface. All lengths in km.
 */
#ifndef MESH_H
#define MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGION_KM 20.0

struct mesh {
    size_t n_nodes, n_tets, n_sides;
    double (*node)[3];  /* [n_nodes], km: corners of cells first, then their centres, then centres of faces */
    int32_t (*tet)[4];  /* [n_tets], nodes; no order of orientation */
    int32_t (*side)[3]; /* [n_sides], triangles of the region's boundary but for the free surface */
};

/* Rock at a place: speeds of compression and shear waves in km/s, density in g/cm^3. */
struct rock {
    double vp, vs, density;
};

/** The earthquake's first point of rupture, and the point of the surface above it. */
extern const double hypocentre[3];

/** rock_at - the rock at @x. Pure. */
struct rock rock_at(const double x[3]);

/** mesh_make - the mesh; the same on every call and machine. */
struct mesh mesh_make(void);

/** mesh_nearest - the node nearest to @x; of equals the first. */
size_t mesh_nearest(const struct mesh *mesh, const double x[3]);

void mesh_free(struct mesh *mesh);

#endif /* MESH_H */
