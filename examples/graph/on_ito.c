/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "graph.h"

#include <ito.h>
#include <stdlib.h>
#include <string.h>

const char *const on_name = "ito";
struct job {
    const struct graph *g;
    int task;
};
struct on {
    ito_graph *graph;
    struct job *jobs;
    uint32_t how;
};

static void job_main(void *arg) {
    const struct job *j = arg;
    j->g->run(j->g->data, j->task);
}
static void check(int error, const char *what) {
    if (error)
        example_fail("%s: %s", what, strerror(error));
}

struct on *on_start(const struct graph *g, int threads, bool is_static, const char *costs) {
    struct on *on = example_alloc(1, sizeof *on);
    on->jobs = example_alloc((size_t)g->n_tasks, sizeof *on->jobs);
    on->how = is_static ? ITO_GRAPH_STATIC : ITO_GRAPH_DYNAMIC;
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = (uint32_t)threads;
    check(ito_init(&config), "ito_init");
    check(ito_graph_create(&on->graph), "ito_graph_create");
    for (int t = 0; t < g->n_tasks; t++) {
        ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
        attr.cost_ns = (uint64_t)g->cost[t] + 1;
        attr.name = g->name[t];
        on->jobs[t] = (struct job){g, t};
        check(ito_graph_task(on->graph, &attr, job_main, &on->jobs[t], NULL), "ito_graph_task");
        for (int e = g->before_at[t]; e < g->before_at[t + 1]; e++)
            check(ito_graph_edge(on->graph, (uint32_t)g->before[e], (uint32_t)t), "ito_graph_edge");
    }
    if (costs)
        check(ito_graph_costs(on->graph, costs, NULL), costs);
    return on;
}
void on_run(struct on *on) {
    check(ito_graph_run(on->graph, on->how), "ito_graph_run");
}
void on_stop(struct on *on) {
    check(ito_graph_destroy(on->graph), "ito_graph_destroy");
    check(ito_fini(), "ito_fini");
    free(on->jobs);
    free(on);
}
