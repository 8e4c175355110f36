/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* oneTBB's flow graph: a continue_node for each task, built once. */
#include "graph.h"

#include <memory>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <vector>

extern "C" {
const char *const on_name = "tbb";
}
namespace flow = tbb::flow;
using node = flow::continue_node<flow::continue_msg>;
struct on {
    explicit on(int threads)
        : limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads)), arena(threads) {}
    tbb::global_control limit;
    tbb::task_arena arena;
    std::unique_ptr<flow::graph> flow;
    std::vector<std::unique_ptr<node>> nodes;
    std::vector<node *> first; /* need nothing */
};

struct on *on_start(const struct graph *g, int threads, bool, const char *) {
    auto *on = new struct on(threads);
    on->arena.execute([&] {
        on->flow = std::make_unique<flow::graph>();
        for (int t = 0; t < g->n_tasks; t++) {
            on->nodes.push_back(
                std::make_unique<node>(*on->flow, [g, t](const flow::continue_msg &) { g->run(g->data, t); }));
            for (int e = g->before_at[t]; e < g->before_at[t + 1]; e++)
                flow::make_edge(*on->nodes[static_cast<std::size_t>(g->before[e])], *on->nodes.back());
            if (g->before_at[t] == g->before_at[t + 1])
                on->first.push_back(on->nodes.back().get());
        }
    });
    return on;
}
void on_run(struct on *on) {
    on->arena.execute([&] {
        for (node *n : on->first)
            n->try_put(flow::continue_msg());
        on->flow->wait_for_all();
    });
}
void on_stop(struct on *on) {
    on->arena.execute([&] {
        on->nodes.clear();
        on->flow.reset();
    });
    delete on;
}
