/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Full search of whole pixels, then the eight half pixels around the best. A place is given up as soon as it is
 * worse than the best so far, and the search ends at a place that is good enough: a still sky costs a
 * hundredth of what moving ground does.
 */
#include "motion.h"

#include <limits.h>
#include <stdlib.h>

enum { GOOD_ENOUGH = 192, INTRA_BONUS = 512 };

struct search {
    const struct plane *source, *before;
    const uint8_t *block; /* the macroblock's first pixel in source */
    int x, y;             /* its place */
    int best;             /* sum of absolute differences at `move` */
    struct vector move;
};

/* Sum of absolute differences with whole pixels at @from; INT_MAX when it would reach @limit. */
static int difference(const uint8_t *block, const uint8_t *from, int width, int limit) {
    int sum = 0;
    for (int y = 0; y < MACROBLOCK; y++, block += width, from += width) {
        for (int x = 0; x < MACROBLOCK; x++)
            sum += abs(block[x] - from[x]);
        if (sum >= limit)
            return INT_MAX;
    }
    return sum;
}

static void try_whole(struct search *s, int dx, int dy) {
    int width = s->before->width, x = s->x + dx, y = s->y + dy;
    if (x < 0 || y < 0 || x > width - MACROBLOCK || y > s->before->height - MACROBLOCK)
        return;
    int sum = difference(s->block, s->before->pixel + y * width + x, width, s->best);
    if (sum >= s->best)
        return;
    s->best = sum;
    s->move = (struct vector){2 * dx, 2 * dy};
}

static void search_whole(struct search *s) {
    int candidate = 0, side = 2 * SEARCH_REACH + 1;
    while (candidate < side * side && s->best > GOOD_ENOUGH) {
        try_whole(s, candidate % side - SEARCH_REACH, candidate / side - SEARCH_REACH);
        candidate++;
    }
}

static void search_half(struct search *s, const struct frame *frame, int column, int row) {
    struct vector centre = s->move;
    uint8_t guess[MACROBLOCK * MACROBLOCK];
    for (int i = 0; i < 9 && s->best > GOOD_ENOUGH; i++) {
        struct vector move = {centre.x + i % 3 - 1, centre.y + i / 3 - 1};
        if (i == 4 || !macroblock_move_valid(frame, column, row, move))
            continue;
        block_predict(s->before, s->x, s->y, move, MACROBLOCK, guess);
        int sum = 0;
        for (int y = 0; y < MACROBLOCK && sum < s->best; y++)
            for (int x = 0; x < MACROBLOCK; x++)
                sum += abs(s->block[y * s->source->width + x] - guess[y * MACROBLOCK + x]);
        if (sum >= s->best)
            continue;
        s->best = sum;
        s->move = move;
    }
}

/* Sum of absolute differences from the mean: about what coding without a prediction costs. */
static int deviation(const struct search *s) {
    int sum = 0, mean = 0;
    for (int i = 0; i < MACROBLOCK * MACROBLOCK; i++)
        mean += s->block[i / MACROBLOCK * s->source->width + i % MACROBLOCK];
    mean /= MACROBLOCK * MACROBLOCK;
    for (int i = 0; i < MACROBLOCK * MACROBLOCK; i++)
        sum += abs(s->block[i / MACROBLOCK * s->source->width + i % MACROBLOCK] - mean);
    return sum;
}

void motion_search(struct macroblock *mb, const struct frame *source, const struct frame *before, int column, int row,
                   struct vector left) {
    struct search s = {
        .source = &source->plane[0],
        .before = &before->plane[0],
        .x = MACROBLOCK * column,
        .y = MACROBLOCK * row,
        .best = INT_MAX,
    };
    s.block = s.source->pixel + s.y * s.source->width + s.x;
    try_whole(&s, 0, 0);
    try_whole(&s, left.x / 2, left.y / 2);
    search_whole(&s);
    search_half(&s, before, column, row);
    mb->intra = deviation(&s) + INTRA_BONUS < s.best;
    mb->move = mb->intra ? (struct vector){0, 0} : s.move;
}
