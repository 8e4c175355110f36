/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A sparse triangular solve L x = b: many small tasks. A task has a block of rows, and needs the blocks of all columns
 * that its rows have entries in. The entries of a row are near the diagonal, with a few anywhere to the left, as in a
 * factor after nested dissection.
 */
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 12, FAR = 2 }; /* a row, beside the diagonal; of these anywhere */

struct sparse {
    int n, block;
    int *begin;    /* [n + 1] */
    int *column;   /* [begin[n]], all less than their row */
    double *value; /* the same; the diagonal is 1 */
    double *b, *x; /* [n] */
};

static void run(void *data, int task) {
    const struct sparse *s = data;
    int first = task * s->block, last = first + s->block < s->n ? first + s->block : s->n;
    for (int i = first; i < last; i++) {
        double sum = s->b[i];
        for (int e = s->begin[i]; e < s->begin[i + 1]; e++)
            sum -= s->value[e] * s->x[s->column[e]];
        s->x[i] = sum;
    }
}

/* A column of a block before the last one, so that there is something to run at once: of the eight blocks before that,
 * or of one of the FAR blocks that the row's block has links to. -1: there is none. */
static int random_column(uint64_t *state, int row, int block, const int far[FAR], bool is_far) {
    int blocks = row / block - 1;
    if (blocks <= 0)
        return -1;
    uint64_t random = example_random(state);
    int from = is_far ? far[random % FAR] % blocks : blocks - 1 - (int)(random % (uint64_t)(blocks < 8 ? blocks : 8));
    return from * block + (int)(example_random(state) % (uint64_t)block);
}

static void *make(struct graph *g, int n_blocks, int block) {
    struct sparse *s = example_alloc(1, sizeof *s);
    size_t n = (size_t)n_blocks * (size_t)block;
    *s = (struct sparse){.n = (int)n, .block = block};
    s->begin = example_alloc(n + 1, sizeof *s->begin);
    s->column = example_alloc(n * ENTRIES, sizeof *s->column);
    s->value = example_alloc(n * ENTRIES, sizeof *s->value);
    s->b = example_alloc(n, sizeof *s->b);
    s->x = example_alloc(n, sizeof *s->x);
    uint64_t state = 7;
    int entries = 0;
    int far[FAR] = {0};
    for (int i = 0; i < s->n; i++) {
        for (int k = 0; i % block == 0 && k < FAR; k++)
            far[k] = (int)(example_random(&state) % (uint64_t)n_blocks);
        for (int k = 0; k < ENTRIES; k++) {
            int column = random_column(&state, i, block, far, k < FAR);
            if (column < 0)
                continue;
            s->column[entries] = column;
            s->value[entries++] = (double)(example_random(&state) % 1000) / 12000.0; /* the sum of a row is below 1 */
        }
        s->begin[i + 1] = entries;
        s->b[i] = 1 + (double)(example_random(&state) % 1000) / 1000.0;
    }
    g->run = run;
    g->data = s;
    for (int task = 0; task < n_blocks; task++) {
        int first = s->begin[task * block], last = s->begin[(task + 1) * block];
        graph_add(g, "rows", 2.0 * (last - first) + block);
        for (int e = first; e < last; e++)
            graph_needs(g, s->column[e] / block);
    }
    return s;
}

static void fill(void *data) {
    struct sparse *s = data;
    memset(s->x, 0, (size_t)s->n * sizeof *s->x);
}
static double error(const void *data) {
    const struct sparse *s = data;
    double worst = 0;
    for (int i = 0; i < s->n; i++) {
        double sum = s->x[i];
        for (int e = s->begin[i]; e < s->begin[i + 1]; e++)
            sum += s->value[e] * s->x[s->column[e]];
        worst = example_worse(worst, fabs(sum - s->b[i]));
    }
    return worst;
}
static uint64_t digest(const void *data) {
    const struct sparse *s = data;
    return example_digest(EXAMPLE_DIGEST_START, s->x, (size_t)s->n * sizeof *s->x);
}
static void release(void *data) {
    struct sparse *s = data;
    free(s->begin);
    free(s->column);
    free(s->value);
    free(s->b);
    free(s->x);
    free(s);
}

const struct kernel triangular_kernel = {"triangular", "blocks of rows", 2000, 32, make, fill, error, digest, release};
