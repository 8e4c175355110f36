/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "net.h"

#include "../common/example.h"

#include <math.h>
#include <string.h>

/* The names of the paper. A and B feed F1 back, C weighs F2's opinion in the match, D is an active F2 node's output. */
#define A 5.0
#define B 5.0
#define C 0.1
#define D 0.9
/* The threshold of noise: a pixel that is not brighter than a flat image's by a fifth is background. */
#define THETA (1.2 / WINDOW)
#define SETTLED 1e-4
#define TURNS_MAX 200

/* Four sums, so that the compiler may use vectors and every machine adds in the same order. */
static double inner(const double *x, const double *y) {
    double sum[4] = {0};
    for (int i = 0; i < F1_NODES; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += x[i + k] * y[i + k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* 1 / length, or 0 for a vector of nothing. */
static double scale_of(const double *x) {
    double squared = inner(x, x);
    return squared > 1e-30 ? 1 / sqrt(squared) : 0;
}

static inline double above_threshold(double x) {
    return x > THETA ? x : 0;
}

/* F1 alone, from rest, until nothing moves: u becomes the input's shape without its level and its noise.
 * The number of turns depends on the image: one for an empty sky, tens for clutter. */
static int settle(const double *input, double *u) {
    double w[F1_NODES], v[F1_NODES];
    double moved = 1;
    int turns = 0;
    memset(u, 0, F1_NODES * sizeof *u);
    while (moved > SETTLED && turns < TURNS_MAX) {
        for (int i = 0; i < F1_NODES; i++)
            w[i] = input[i] + A * u[i];
        double w_scale = scale_of(w);
        /* With F2 silent p = u, and u has length 1: q = p. */
        for (int i = 0; i < F1_NODES; i++)
            v[i] = above_threshold(w[i] * w_scale) + B * above_threshold(u[i]);
        double v_scale = scale_of(v);
        moved = 0;
        for (int i = 0; i < F1_NODES; i++) {
            double next = v[i] * v_scale;
            moved = fmax(moved, fabs(next - u[i]));
            u[i] = next;
        }
        turns++;
    }
    return turns;
}

/* Does class @j, sent down, agree with u? The length of r = (u + C p) / (|u| + |C p|) with p = u + D z_j. */
static double agreement(const struct net *net, int j, const double *u) {
    double r[F1_NODES], p[F1_NODES];
    for (int i = 0; i < F1_NODES; i++) {
        p[i] = u[i] + D * net->down[j][i];
        r[i] = u[i] + C * p[i];
    }
    return sqrt(inner(r, r)) / (1 + C * sqrt(inner(p, p)));
}

/* F2: the class with the largest input wins; on a mismatch it is reset and the next one tries. */
static struct match search(const struct net *net, const double *u) {
    struct match best = {.label = -1};
    double activity[F2_NODES_MAX];
    for (int j = 0; j < net->n_classes; j++)
        activity[j] = inner(u, net->up[j]);
    for (int tried = 0; tried < net->n_classes; tried++) {
        int winner = 0;
        for (int j = 1; j < net->n_classes; j++)
            if (activity[j] > activity[winner])
                winner = j;
        if (activity[winner] <= 0)
            break;
        double confidence = agreement(net, winner, u);
        if (confidence > best.confidence)
            best.confidence = confidence;
        if (confidence >= NET_VIGILANCE) {
            best.label = winner;
            break;
        }
        activity[winner] = -1;
    }
    return best;
}

struct match net_match(const struct net *net, const double input[F1_NODES]) {
    double u[F1_NODES];
    int turns = settle(input, u);
    struct match match = search(net, u);
    match.turns = turns;
    return match;
}

/* Fast learning: the weights go to their fixed point u / (1 - D) at once. */
int net_learn(struct net *net, const double input[F1_NODES]) {
    double u[F1_NODES];
    settle(input, u);
    int label = search(net, u).label;
    if (label < 0) {
        if (net->n_classes == F2_NODES_MAX)
            example_fail("more than %d classes to learn", F2_NODES_MAX);
        label = net->n_classes++;
    }
    for (int i = 0; i < F1_NODES; i++)
        net->up[label][i] = net->down[label][i] = u[i] / (1 - D);
    return label;
}
