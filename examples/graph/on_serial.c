/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* No runtime: the tasks in the order in which they were said. */
#include "graph.h"

#include <stdlib.h>

const char *const on_name = "serial";
struct on {
    const struct graph *g;
};
struct on *on_start(const struct graph *g, int threads, bool is_static, const char *costs) {
    (void)threads, (void)is_static, (void)costs;
    struct on *on = example_alloc(1, sizeof *on);
    on->g = g;
    return on;
}
void on_run(struct on *on) {
    for (int t = 0; t < on->g->n_tasks; t++)
        on->g->run(on->g->data, t);
}
void on_stop(struct on *on) {
    free(on);
}
