/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* OpenMP's depend clauses: a byte for each task stands for what it writes. The tasks are created anew in each run. */
#include "graph.h"

#include <omp.h>
#include <stdlib.h>

const char *const on_name = "omp";
struct on {
    const struct graph *g;
    char *written; /* [n_tasks] */
};
struct on *on_start(const struct graph *g, int threads, bool is_static, const char *costs) {
    (void)is_static, (void)costs;
    struct on *on = example_alloc(1, sizeof *on);
    on->g = g;
    on->written = example_alloc((size_t)g->n_tasks, 1);
    omp_set_num_threads(threads);
    return on;
}
void on_run(struct on *on) {
    const struct graph *g = on->g;
    char *written = on->written;
#pragma omp parallel
#pragma omp single
    for (int t = 0; t < g->n_tasks; t++) {
        const int *before = g->before + g->before_at[t];
        int n = g->before_at[t + 1] - g->before_at[t];
        (void)before, (void)n, (void)written; /* gcc does not see their use in the clause */
#pragma omp task firstprivate(t) depend(iterator(int i = 0 : n), in : written[before[i]]) depend(out : written[t])
        g->run(g->data, t);
    }
}
void on_stop(struct on *on) {
    free(on->written);
    free(on);
}
