/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * uts - Unbalanced Tree Search: count the nodes of a tree that is made while it is walked. How many children a node
 * has follows from a SHA-1 digest, so no split made in advance can be even; each node is a thread.
 */
#include "kernel.h"
#include "tree.h"

#ifdef FORK_OWN
/* bench/ito/peers: the program defines it. */
static void visit(struct node *n);
#else
static void visit(struct node *n);
FORK_KERNEL(visit, struct node)

/* Apart from visit(), so that a leaf, which most nodes are, needs no room on its stack. */
static __attribute__((noinline)) void visit_children(struct node *n, int children) {
    struct node child[children];
    FORK_ROOM(room, children, visit);
    for (int i = 0; i < children; i++) {
        tree_child(n, i, &child[i]);
        FORK(room, i, visit, &child[i]);
    }
    FORK_JOIN(room, children, visit);
    tree_count_children(n, child, children);
}

static void visit(struct node *n) {
    int children = n_children(n);
    tree_count_self(n, children);
    if (children)
        visit_children(n, children);
}
#endif

#ifdef FORK_TEAM
/* The way of a program without tasks: the root's children in equal parts over as many threads, then a barrier. */
struct share {
    struct node *root, *child;
    int children;
};

static void visit_share(struct team *team, int member, void *arg) {
    struct share *s = (struct share *)arg;
    struct range mine = team_split((size_t)s->children, team->size, member);
    KASURI_BEGIN("search");
    for (size_t i = mine.begin; i < mine.end; i++) {
        tree_child(s->root, (int)i, &s->child[i]);
        visit(&s->child[i]);
    }
    KASURI_END();
    TEAM_BARRIER(team);
}

static void visit_by_team(struct node *n) {
    int children = n_children(n);
    struct node *child = (struct node *)example_alloc((size_t)children, sizeof *child);
    struct share share = {n, child, children};
    tree_count_self(n, children);
    team_run("uts", fork_workers, false, visit_share, &share);
    tree_count_children(n, child, children);
    free(child);
}
#endif

static void root(void *arg) {
    struct node *n = (struct node *)arg;
    tree_root(n);
#ifdef FORK_TEAM
    visit_by_team(n);
#else
    visit(n);
#endif
}

static uint64_t nodes(const void *arg) {
    return ((const struct node *)arg)->nodes;
}

static uint64_t digest(const void *arg) {
    const struct node *n = (const struct node *)arg;
    const uint64_t facts[3] = {n->nodes, n->leaves, (uint64_t)n->deepest};
    return example_digest(EXAMPLE_DIGEST_START, facts, sizeof facts);
}

static const char *wrong(const void *arg) {
    return tree_wrong((const struct node *)arg);
}

int main(int argc, char **argv) {
    const char *repeat = "1", *name = "T1";
    const struct example_flag flags[] = {{"--tree", "NAME", "T1 (default), T3, T1L, T3L, T1XXL or T3XXL", 0, &name},
                                         KERNEL_REPEAT(repeat),
                                         {0, 0, 0, 0, 0}};
    struct example ex = {"uts", "unbalanced tree search on " FORK_RUNTIME, "nothing", 1, 1, 0, 0, 0, flags};
    example_parse(&ex, argc, argv);
    if (!tree_choose(name)) {
        fprintf(stderr, "uts: error: no tree '%s'; see --help\n", name);
        return 2;
    }
    struct node n;
    memset(&n, 0, sizeof n);
    struct kernel k = {0, root, &n, nodes, digest, wrong};
    int status = kernel_run(&k, ex.threads, kernel_number("--repeat", repeat, 1000000));
    printf("nodes: %llu\nleaves: %llu\ndepth: %d\n", (unsigned long long)n.nodes, (unsigned long long)n.leaves,
           n.deepest);
    return status;
}
