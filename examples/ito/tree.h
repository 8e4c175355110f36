/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tree.h - the trees of Unbalanced Tree Search.
 *
 * The trees are those of S. Olivier et al., "UTS: An Unbalanced Tree Search Benchmark" (LCPC 2006); their sizes are
 * published, and a run that finds another number is wrong. Definition:
 *   state of the root       SHA-1 of 16 zero bytes and the seed (32 bits, big-endian)
 *   state of child i        SHA-1 of the parent's state and i (32 bits, big-endian)
 *   a node's random number  u = (last 32 bits of its state, without the sign bit) / 2^31
 *   geometric tree          floor(log(1 - u) / log(1 - 1/(1 + b))) children, at most 100, down to a depth d
 *                           ("fixed" shape)
 *   binomial tree           the root has b children; any other node has m when u < q, else none
 */
#ifndef TREE_H
#define TREE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "sha1.h"
#ifdef __cplusplus
}
#endif
#include <math.h>
#include <stdbool.h>
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

/* Values that every node needs, computed once. */
static const struct tree *tree;
static double log_of_no_child; /* log(1 - 1/(1 + b)) */

struct node {
    uint32_t state[5];
    int depth;
    int deepest; /* below this node, itself included */
    uint64_t nodes, leaves;
};

static inline int n_children(const struct node *n) {
    double u = (double)(n->state[4] & 0x7fffffff) / 2147483648.0;
    if (!tree->is_geometric)
        return n->depth == 0 ? (int)tree->b : u < tree->q ? tree->m : 0;
    if (n->depth >= tree->d)
        return 0;
    double many = floor(log(1 - u) / log_of_no_child);
    return many < MOST_CHILDREN ? (int)many : MOST_CHILDREN;
}

/** tree_choose - work on the tree called @name; false: there is none. */
static inline bool tree_choose(const char *name) {
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        if (!strcmp(trees[i].name, name))
            tree = &trees[i];
    if (tree)
        log_of_no_child = log(1 - 1 / (1 + tree->b));
    return tree != 0;
}

static inline void tree_root(struct node *n) {
    const uint32_t message[5] = {0, 0, 0, 0, tree->seed};
    sha1_short(message, 5, n->state);
    n->depth = 0;
}

/** tree_child - make child @i of @n: state and depth. */
static inline void tree_child(const struct node *n, int i, struct node *child) {
    uint32_t message[6];
    memcpy(message, n->state, sizeof n->state);
    message[5] = (uint32_t)i;
    sha1_short(message, 6, child->state);
    child->depth = n->depth + 1;
}

static inline void tree_count_self(struct node *n, int children) {
    n->nodes = 1;
    n->leaves = !children;
    n->deepest = n->depth;
}

static inline void tree_count_child(struct node *n, const struct node *child) {
    n->nodes += child->nodes;
    n->leaves += child->leaves;
    if (n->deepest < child->deepest)
        n->deepest = child->deepest;
}

/** tree_count_children - the same for all, in registers: a store that the next child loads again costs 2 ns a child. */
static inline void tree_count_children(struct node *n, const struct node *child, int children) {
    uint64_t nodes = n->nodes, leaves = n->leaves;
    int deepest = n->deepest;
    for (int i = 0; i < children; i++) {
        nodes += child[i].nodes;
        leaves += child[i].leaves;
        if (deepest < child[i].deepest)
            deepest = child[i].deepest;
    }
    n->nodes = nodes;
    n->leaves = leaves;
    n->deepest = deepest;
}

/** tree_wrong - why the counts of the root @n are wrong; null: they are those published. */
static inline const char *tree_wrong(const struct node *n) {
    if (n->nodes != tree->nodes)
        return "not the published number of nodes";
    if (n->leaves != tree->leaves)
        return "not the published number of leaves";
    return n->deepest == tree->depth ? 0 : "not the published depth";
}

#endif /* TREE_H */
