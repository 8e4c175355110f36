/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* examples/graph on Taskflow, which bench/ito/graph compiles where TASKFLOW_INCLUDE says that it is. */
#include "graph.h"

#include <taskflow/taskflow.hpp>
#include <vector>

extern "C" {
const char *const on_name = "taskflow";
}
struct on {
    explicit on(int threads) : executor(static_cast<std::size_t>(threads)) {}
    tf::Executor executor;
    tf::Taskflow flow;
};

struct on *on_start(const struct graph *g, int threads, bool, const char *) {
    auto *on = new struct on(threads);
    std::vector<tf::Task> tasks;
    for (int t = 0; t < g->n_tasks; t++) {
        tasks.push_back(on->flow.emplace([g, t] { g->run(g->data, t); }));
        for (int e = g->before_at[t]; e < g->before_at[t + 1]; e++)
            tasks.back().succeed(tasks[static_cast<std::size_t>(g->before[e])]);
    }
    return on;
}
void on_run(struct on *on) {
    on->executor.run(on->flow).wait();
}
void on_stop(struct on *on) {
    delete on;
}
