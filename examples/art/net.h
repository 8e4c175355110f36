/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An adaptive-resonance network for grey images (ART 2, after G. Carpenter and S. Grossberg, 1987): a
 * field F1 of one node per pixel that normalises and sharpens its input, a field F2 of one node per learned
 * class, weights up (F1 to F2: which class?) and down (F2 to F1: is it really?).
 */
#ifndef NET_H
#define NET_H

#include <stddef.h>

#define WINDOW 16 /* pixels on a side */
#define F1_NODES (WINDOW * WINDOW)
#define F2_NODES_MAX 8

struct net {
    int n_classes;
    double up[F2_NODES_MAX][F1_NODES];
    double down[F2_NODES_MAX][F1_NODES];
};

/* The net's verdict on one window. */
struct match {
    int label;         /* class, or -1: nothing known */
    double confidence; /* length of the match vector, 0..1; above NET_VIGILANCE where label >= 0 */
    int turns;         /* of F1 until it settled */
};

#define NET_VIGILANCE 0.985

/** net_match - what is in @input? Reads the net only, so any number of threads may ask at once. */
struct match net_match(const struct net *net, const double input[F1_NODES]);

/** net_learn - show @input: teaches the class that resonates with it, else a new one. Return: the class. */
int net_learn(struct net *net, const double input[F1_NODES]);

#endif /* NET_H */
