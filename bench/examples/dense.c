/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dense: the price of very fine annotations. Each thread does units of work of about --annotate-us microseconds, each
 * within a begin and an end of its own, so the annotations are two per unit; 0 leaves them out. The number of units and
 * the work in each are fixed before the clock starts, so that runs compare.
 */
#include "../../examples/common/example.h"
#include "../../examples/common/team.h"

#include <stdio.h>
#include <stdlib.h>

struct dense {
    long units;     /* by each thread */
    int turns;      /* of work in one unit */
    bool annotated; /* false: no annotation at all, for the bare loop */
    uint64_t *sum;  /* [threads] */
};

/* Some arithmetic that a compiler can neither shorten nor turn into vectors. */
static uint64_t work(uint64_t state, int turns) {
    for (int i = 0; i < turns; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}

static void run(struct team *team, int member, void *arg) {
    struct dense *d = arg;
    uint64_t state = 88172645463325252ull + (uint64_t)member;
    for (long unit = 0; unit < d->units; unit++) {
        if (d->annotated)
            KASURI_BEGIN("unit");
        state = work(state, d->turns);
        if (d->annotated)
            KASURI_END();
    }
    d->sum[member] = state;
    TEAM_BARRIER(team);
}

int main(int argc, char **argv) {
    const char *us = "1", *turns = NULL;
    const struct example_flag flags[] = {
        {"--annotate-us", "US", "work in each annotation, microseconds; 0: the work of 1 us, not annotated", NULL, &us},
        {"--turns", "N", "work in each annotation, turns of its loop, in place of measuring one", NULL, &turns},
        {0},
    };
    struct example ex = {
        .name = "dense",
        .about = "units of work of a microsecond, each annotated",
        .size_help = "thousands of units by each thread",
        .size = 700,
        .size_max = 1000000,
        .flags = flags,
    };
    example_parse(&ex, argc, argv);
    struct dense d = {.units = 1000L * ex.size, .annotated = atof(us) > 0};
    d.sum = example_alloc((size_t)ex.threads, sizeof *d.sum);
    if (turns) {
        d.turns = atoi(turns);
    } else {
        double best = 1e9;
        for (int i = 0; i < 20; i++) {
            double start = example_seconds();
            d.sum[0] += work(1, 100000);
            double took = example_seconds() - start;
            best = took < best ? took : best;
        }
        d.turns = (int)(100000 * (d.annotated ? atof(us) : 1) * 1e-6 / best);
    }
    double cpu = example_cpu_seconds(), start = example_seconds();
    team_run("dense", ex.threads, ex.pin, run, &d);
    double elapsed = example_seconds() - start;
    cpu = example_cpu_seconds() - cpu;
    uint64_t digest = EXAMPLE_DIGEST_START;
    digest = example_digest(digest, d.sum, (size_t)ex.threads * sizeof *d.sum);
    printf("turns: %d\nunit_us: %.3f\ndigest: %016llx\ncpu_s: %.6f\nelapsed_s: %.6f\n", d.turns,
           1e6 * cpu / ((double)d.units * ex.threads), (unsigned long long)digest, cpu, elapsed);
    free(d.sum);
    return 0;
}
