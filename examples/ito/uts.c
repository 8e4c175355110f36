/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * uts - Unbalanced Tree Search: count the nodes of a tree that is made while it is walked. How many children a node
 * has follows from a SHA-1 digest, so nobody can know where the work is; each node is a thread.
 *
 * The trees are those of S. Olivier et al., "UTS: An Unbalanced Tree Search Benchmark" (LCPC 2006); their sizes are
 * published, and a run that finds another number is wrong. Definition:
 *   state of the root       SHA-1 of 16 zero bytes and the seed (32 bits, big-endian)
 *   state of child i        SHA-1 of the parent's state and i (32 bits, big-endian)
 *   a node's random number  u = (last 32 bits of its state, without the sign bit) / 2^31
 *   geometric tree          floor(log(1 - u) / log(1 - 1/(1 + b))) children, at most 100, down to a depth d ("fixed"
 * shape) binomial tree           the root has b children; any other node has m when u < q, else none
 */
#include "kernel.h"
FORK_C_BEGIN
#include "sha1.h"
FORK_C_END
#include <math.h>
#include <string.h>

enum { MOST_CHILDREN = 100, MOST_ROOT_CHILDREN = 2000 };

struct tree {
    const char *name;
    bool is_geometric;
    double b; /* mean number of children; binomial: children of the root */
    int d;    /* geometric: depth at which it stops */
    double q; /* binomial */
    int m;
    uint32_t seed;
    uint64_t nodes, leaves; /* published */
    int depth;
};

/* leaves 0 and depth 0: not published there, nodes alone are compared. */
static const struct tree trees[] = {
    {"T1", true, 4, 10, 0, 0, 19, 4130071, 3305118, 10},
    {"T3", false, 2000, 0, 0.124875, 8, 42, 4112897, 3599034, 1572},
    {"T1L", true, 4, 13, 0, 0, 29, 102181082, 81746377, 13},
    {"T3L", false, 2000, 0, 0.200014, 5, 7, 111345631, 89076904, 17844},
    {"T1XXL", true, 4, 15, 0, 0, 19, 4230646601, 3384495738, 15},
    {"T3XXL", false, 2000, 0, 0.499995, 2, 316, 2793220501, 1396611250, 99049},
};

/* What every node needs, worked out once. */
static const struct tree *tree;
static double log_of_no_child; /* log(1 - 1/(1 + b)) */

struct node {
    uint32_t state[5];
    int depth;
    int deepest; /* below this node, itself included */
    uint64_t nodes, leaves;
};

static int n_children(const struct node *n) {
    double u = (double)(n->state[4] & 0x7fffffff) / 2147483648.0;
    if (!tree->is_geometric)
        return n->depth == 0 ? (int)tree->b : u < tree->q ? tree->m : 0;
    if (n->depth >= tree->d)
        return 0;
    double many = floor(log(1 - u) / log_of_no_child);
    return many < MOST_CHILDREN ? (int)many : MOST_CHILDREN;
}

static void visit(struct node *n);
FORK_KERNEL(visit, struct node)

/* Apart from visit(), so that a leaf, which most nodes are, needs no room on its stack. */
static __attribute__((noinline)) void visit_children(struct node *n, int children) {
    struct node child[children];
    FORK_ROOM(room, children, visit);
    for (int i = 0; i < children; i++) {
        uint32_t message[6];
        memcpy(message, n->state, sizeof n->state);
        message[5] = (uint32_t)i;
        sha1_short(message, 6, child[i].state);
        child[i].depth = n->depth + 1;
        FORK(room, i, visit, &child[i]);
    }
    FORK_JOIN(room, children, visit);
    for (int i = 0; i < children; i++) {
        n->nodes += child[i].nodes;
        n->leaves += child[i].leaves;
        if (n->deepest < child[i].deepest)
            n->deepest = child[i].deepest;
    }
}

static void visit(struct node *n) {
    int children = n_children(n);
    n->nodes = 1;
    n->leaves = !children;
    n->deepest = n->depth;
    if (children)
        visit_children(n, children);
}

#ifdef FORK_TEAM
/* What a program without tasks does: the root's children in equal parts over as many threads, then a barrier. */
struct share {
    struct node *root, *child;
    int children;
};

static void visit_share(struct team *team, int member, void *arg) {
    struct share *s = (struct share *)arg;
    struct range mine = team_split((size_t)s->children, team->size, member);
    KASURI_BEGIN("search");
    for (size_t i = mine.begin; i < mine.end; i++) {
        uint32_t message[6];
        memcpy(message, s->root->state, sizeof s->root->state);
        message[5] = (uint32_t)i;
        sha1_short(message, 6, s->child[i].state);
        s->child[i].depth = 1;
        visit(&s->child[i]);
    }
    KASURI_END();
    TEAM_BARRIER(team);
}

static void visit_by_team(struct node *n) {
    int children = n_children(n);
    struct node *child = (struct node *)example_alloc((size_t)children, sizeof *child);
    struct share share = {n, child, children};
    n->nodes = 1;
    n->leaves = !children;
    n->deepest = 0;
    team_run("uts", fork_workers, false, visit_share, &share);
    for (int i = 0; i < children; i++) {
        n->nodes += child[i].nodes;
        n->leaves += child[i].leaves;
        if (n->deepest < child[i].deepest)
            n->deepest = child[i].deepest;
    }
    free(child);
}
#endif

static void root(void *arg) {
    struct node *n = (struct node *)arg;
    const uint32_t message[5] = {0, 0, 0, 0, tree->seed};
    sha1_short(message, 5, n->state);
    n->depth = 0;
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
    const struct node *n = (const struct node *)arg;
    if (n->nodes != tree->nodes)
        return "not the published number of nodes";
    if (n->leaves != tree->leaves)
        return "not the published number of leaves";
    return n->deepest == tree->depth ? 0 : "not the published depth";
}

int main(int argc, char **argv) {
    const char *repeat = "1", *name = "T1";
    const struct example_flag flags[] = {{"--tree", "NAME", "T1 (default), T3, T1L, T3L, T1XXL or T3XXL", 0, &name},
                                         KERNEL_REPEAT(repeat),
                                         {0, 0, 0, 0, 0}};
    struct example ex = {"uts", "unbalanced tree search on " FORK_RUNTIME, "nothing", 1, 1, 0, 0, 0, flags};
    example_parse(&ex, argc, argv);
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        if (!strcmp(trees[i].name, name))
            tree = &trees[i];
    if (!tree) {
        fprintf(stderr, "uts: error: no tree '%s'; see --help\n", name);
        return 2;
    }
    log_of_no_child = log(1 - 1 / (1 + tree->b));
    struct node n;
    memset(&n, 0, sizeof n);
    struct kernel k = {0, root, &n, nodes, digest, wrong};
    int status = kernel_run(&k, ex.threads, kernel_number("--repeat", repeat, 1000000));
    printf("nodes: %llu\nleaves: %llu\ndepth: %d\n", (unsigned long long)n.nodes, (unsigned long long)n.leaves,
           n.deepest);
    return status;
}
