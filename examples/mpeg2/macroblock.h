/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The work on one macroblock (16 x 16 pixels: four blocks of brightness, one of each colour, 8 x 8 each):
 * prediction from the frame before, cosine transform, quantisation, and back.
 */
#ifndef MACROBLOCK_H
#define MACROBLOCK_H

#include "frame.h"

#include <stdbool.h>

enum { BLOCKS = 6, COEFFICIENTS = 64, LEVEL_LIMIT = 2047 };

struct vector {
    int x, y; /* half pixels */
};

struct macroblock {
    bool intra;                          /* coded without prediction; `move` is 0 then */
    struct vector move;                  /* where in the frame before it comes from */
    uint8_t coded;                       /* bit b: block b has a level that is not 0 */
    int16_t level[BLOCKS][COEFFICIENTS]; /* quantised, in zig-zag order */
};

/** block_predict - a @size x @size block at @x, @y of @plane from where @move (of this plane) points in it. */
void block_predict(const struct plane *plane, int x, int y, struct vector move, int size, uint8_t *out);

/** macroblock_transform - fill @mb's levels and `coded` from @source, predicted as @mb says from @before. */
void macroblock_transform(struct macroblock *mb, const struct frame *source, const struct frame *before, int column,
                          int row, int quantiser);

/** macroblock_rebuild - write into @out what a decoder sees of @mb. @before is not read for an intra one. */
void macroblock_rebuild(const struct macroblock *mb, const struct frame *before, struct frame *out, int column, int row,
                        int quantiser);

/** macroblock_move_valid - does @move stay inside the picture? */
bool macroblock_move_valid(const struct frame *frame, int column, int row, struct vector move);

#endif /* MACROBLOCK_H */
