/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Unbalanced tree search on libfork (https://github.com/ConorWilliams/libfork), whose tasks are coroutines. */
#define FORK_OWN
#define FORK_RUNTIME "libfork"
#include "uts.c"
#include <libfork.hpp>

static lf::lazy_pool *pool;

static inline void fork_run(int workers, fork_function *root, void *arg) {
    lf::lazy_pool mine(static_cast<std::size_t>(workers));
    pool = &mine;
    root(arg);
}

constexpr auto visit_task = [](auto self, struct node *n) -> lf::task<void> {
    int children = n_children(n);
    tree_count_self(n, children);
    if (children > 0) {
        auto [child] = co_await lf::co_new<struct node>(static_cast<std::size_t>(children));
        for (int i = 0; i < children; i++) {
            tree_child(n, i, &child[i]);
            if (i + 1 == children)
                co_await lf::call(self)(&child[i]);
            else
                co_await lf::fork(self)(&child[i]);
        }
        co_await lf::join;
        tree_count_children(n, &child[0], children);
    }
};

static void visit(struct node *n) {
    lf::sync_wait(*pool, visit_task, n);
}
