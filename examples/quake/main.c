/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * quake: an earthquake below a valley of sediment, by finite elements and explicit time steps.
 * A re-creation, from scratch, of the kind of program that SPEC's equake is: loops over the rows of a sparse matrix,
 * shared statically, with barriers between. The mesh numbers corners of cells before their centres, and
 * corners have more neighbours: the thread with the first half of the nodes has two thirds of the work.
 */
#include "../common/example.h"
#include "solver.h"

#include <math.h>
#include <stdio.h>

/* Displacement along the fault at the hypocentre and east at the epicentre after so many steps, km. Computed with one
 * thread by gcc 12 on x86-64 without fused multiply-add; another compiler may differ in the last digits. */
static const struct golden {
    int steps;
    double hypocentre, epicentre;
} golden[] = {
    {48, -0.00047983759216406707, -1.1117895495241512e-08},
    {400, -0.00062098582293702387, -1.7044747382311372e-05},
};

static void print_motion(const struct solver *s, const double *peak) {
    printf("%8s %34s %34s\n", "time s", "hypocentre x y z, mm", "epicentre x y z, mm");
    int every = s->steps > 10 ? s->steps / 10 : 1;
    for (int step = every - 1; step < s->steps; step += every) {
        const vector3 *at = s->history[step];
        printf("%8.3f %11.3f %11.3f %11.3f %11.3f %11.3f %11.3f\n", (step + 1) * s->e->step_s, 1e6 * at[0][0],
               1e6 * at[0][1], 1e6 * at[0][2], 1e6 * at[1][0], 1e6 * at[1][1], 1e6 * at[1][2]);
    }
    printf("peak_velocity_mm_s: hypocentre %.3f epicentre %.3f\n", 1e6 * sqrt(peak[s->watched[0]]),
           1e6 * sqrt(peak[s->watched[1]]));
}

static bool close_to(double value, double expected) {
    return fabs(value - expected) <= 1e-9 * fabs(expected);
}

/* Did the run keep the law it must keep, and, for a known number of steps, come to the known result? */
static bool check(const struct solver *s, const struct energy *sum, double imbalance) {
    bool good = sum->brought > 0 && imbalance < 1e-9;
    if (!good)
        fprintf(stderr, "quake: error: energy brought %g, stored %g, swallowed %g: relative error %g, needed < 1e-9\n",
                sum->brought, sum->stored, sum->swallowed, imbalance);
    const vector3 *last = s->history[s->steps - 1];
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        if (golden[i].steps != s->steps)
            continue;
        if (close_to(last[0][1], golden[i].hypocentre) && close_to(last[1][0], golden[i].epicentre))
            continue;
        fprintf(stderr, "quake: error: displacement %.17g %.17g, needed %.17g %.17g\n", last[0][1], last[1][0],
                golden[i].hypocentre, golden[i].epicentre);
        good = false;
    }
    return good;
}

int main(int argc, char **argv) {
    bool by_entries = false;
    const struct example_flag flags[] = {
        {"--balance", NULL, "share the nodes by matrix entries, not by number: the cure of the imbalance", &by_entries,
         NULL},
        {0},
    };
    struct example ex = {
        .name = "quake",
        .about = "an earthquake by finite elements and explicit time steps",
        .size_help = "time steps",
        .size = 400,
        .size_max = 100000,
        .flags = flags,
    };
    example_parse(&ex, argc, argv);
    KASURI_BEGIN("assemble");
    struct mesh mesh = mesh_make();
    struct elastic elastic = elastic_assemble(&mesh);
    KASURI_END();
    struct solver solver = solver_make(&elastic, ex.size, ex.threads, by_entries);
    solver.watched[0] = mesh_nearest(&mesh, hypocentre);
    solver.watched[1] = mesh_nearest(&mesh, (double[]){hypocentre[0], hypocentre[1], 0});
    printf("quake: %zu nodes, %zu elements, %zu matrix blocks, %d steps of %.4f s, %d threads\n", mesh.n_nodes,
           mesh.n_tets, elastic.k.row_start[mesh.n_nodes], ex.size, elastic.step_s, ex.threads);

    double cpu = example_cpu_seconds(), start = example_seconds();
    team_run("quake", ex.threads, ex.pin, solver_run, &solver);
    double elapsed = example_seconds() - start;
    cpu = example_cpu_seconds() - cpu;

    struct energy sum = solver_energy(&solver);
    double imbalance = fabs(sum.stored + sum.swallowed - sum.brought) / (sum.brought + 1e-300);
    print_motion(&solver, solver.peak_velocity);
    printf("energy: brought %.6g stored %.6g swallowed %.6g error %.1e\n", sum.brought, sum.stored, sum.swallowed,
           imbalance);
    printf("digest: %016llx\n", (unsigned long long)example_digest(EXAMPLE_DIGEST_START, solver_displacement(&solver),
                                                                   mesh.n_nodes * sizeof(vector3)));
    printf("cpu_s: %.6f\nelapsed_s: %.6f\n", cpu, elapsed);
    bool good = !ex.check || check(&solver, &sum, imbalance);
    solver_free(&solver);
    elastic_free(&elastic);
    mesh_free(&mesh);
    return good ? 0 : 1;
}
