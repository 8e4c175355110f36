/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Unbalanced tree search on Lace (https://github.com/trolando/lace), whose tasks need its macros. */
#define FORK_OWN
#define FORK_RUNTIME "Lace"
#include "uts.c"
#include <lace.h>

static inline void fork_run(int workers, fork_function *root, void *arg) {
    lace_set_stacksize(256 << 20); /* stolen tasks run on the thief's stack, and T3 is deep */
    lace_start((unsigned)workers, 1000000);
    root(arg);
    lace_stop();
}

VOID_TASK_1(lace_visit, struct node *, n) {
    int children = n_children(n);
    tree_count_self(n, children);
    if (children == 0)
        return;
    struct node child[children];
    for (int i = 0; i < children; i++) {
        tree_child(n, i, &child[i]);
        SPAWN(lace_visit, &child[i]);
    }
    for (int i = children; i-- > 0;) {
        SYNC(lace_visit);
        tree_count_child(n, &child[i]);
    }
}

static void visit(struct node *n) {
    RUN(lace_visit, n);
}
