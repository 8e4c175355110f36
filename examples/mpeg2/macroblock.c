/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The transform is the orthonormal 8 x 8 cosine transform in whole numbers, rows then columns, with 13 bits for
 * the cosines: encoder and decoder get the same bits on every machine. Bounds: a first pass shifted by
 * 11 leaves |x| < 2^15 for levels within LEVEL_LIMIT, so no sum of the second leaves 32 bits.
 */
#include "macroblock.h"

#include <stdlib.h>
#include <string.h>

/* 2^13 / 2 * cos(m pi / 16), and 2^13 / sqrt(8) for m = 0, which only the constant row uses. */
static const int cosine[9] = {2896, 4017, 3784, 3406, 2896, 2276, 1567, 799, 0};

static int basis(int frequency, int n) {
    int m = (2 * n + 1) * frequency % 32;
    if (m > 16)
        m = 32 - m;
    return m > 8 ? -cosine[16 - m] : cosine[m];
}

static int rounded(int value, int shift) {
    return (value + (1 << (shift - 1))) >> shift;
}

/* out[k][i] = sum over n of in[i][n] * basis, turned: twice gives the whole transform. */
static void forward_pass(const int *in, int *out, int shift) {
    for (int k = 0; k < 8; k++) {
        int b[8];
        for (int n = 0; n < 8; n++)
            b[n] = basis(k, n);
        for (int i = 0; i < 8; i++) {
            int sum = 0;
            for (int n = 0; n < 8; n++)
                sum += in[8 * i + n] * b[n];
            out[8 * k + i] = rounded(sum, shift);
        }
    }
}

static void inverse_pass(const int *in, int *out, int shift) {
    for (int n = 0; n < 8; n++) {
        int b[8];
        for (int k = 0; k < 8; k++)
            b[k] = basis(k, n);
        for (int i = 0; i < 8; i++) {
            int sum = 0;
            for (int k = 0; k < 8; k++)
                sum += in[8 * i + k] * b[k];
            out[8 * n + i] = rounded(sum, shift);
        }
    }
}

static void forward_transform(int *block) {
    int turned[COEFFICIENTS];
    forward_pass(block, turned, 9);
    forward_pass(turned, block, 17);
}

static void inverse_transform(int *block) {
    int turned[COEFFICIENTS];
    inverse_pass(block, turned, 11);
    inverse_pass(turned, block, 15);
}

/* Position of the i-th coefficient on the zig-zag through the block, from low frequencies to high ones. */
static int zigzag(int i) {
    static const uint8_t path[COEFFICIENTS] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                               12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                               35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                               58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
    return path[i];
}

/* Fine steps for the low frequencies, where the eye is sharp. */
static int step_of(int position, bool intra, int quantiser) {
    int frequency = position % 8 + position / 8;
    if (intra && position == 0)
        return 8;
    return (16 + (intra ? 3 : 1) * frequency) * quantiser / 8;
}

static int quantise(int coefficient, int step, bool intra) {
    int level = (abs(coefficient) + (intra ? step / 2 : 0)) / step;
    if (level > LEVEL_LIMIT)
        level = LEVEL_LIMIT;
    return coefficient < 0 ? -level : level;
}

static int dequantise(int level, int step, bool intra) {
    if (level == 0)
        return 0;
    int size = abs(level) * step + (intra ? 0 : step / 2);
    if (size > LEVEL_LIMIT)
        size = LEVEL_LIMIT;
    return level < 0 ? -size : size;
}

void block_predict(const struct plane *plane, int x, int y, struct vector move, int size, uint8_t *out) {
    int x2 = 2 * x + move.x, y2 = 2 * y + move.y;
    int right = x2 & 1, below = (y2 & 1) * plane->width;
    const uint8_t *from = plane->pixel + (y2 >> 1) * plane->width + (x2 >> 1);
    for (int row = 0; row < size; row++, from += plane->width, out += size) {
        if (!right && !below)
            memcpy(out, from, (size_t)size);
        else if (!right || !below)
            for (int i = 0; i < size; i++)
                out[i] = (uint8_t)((from[i] + from[i + right + below] + 1) >> 1);
        else
            for (int i = 0; i < size; i++)
                out[i] = (uint8_t)((from[i] + from[i + 1] + from[i + below] + from[i + below + 1] + 2) >> 2);
    }
}

/* The plane of block @b of a macroblock, and its corner there. */
static int block_place(int b, int column, int row, int *x, int *y) {
    if (b >= 4) {
        *x = 8 * column;
        *y = 8 * row;
        return b - 3;
    }
    *x = MACROBLOCK * column + 8 * (b & 1);
    *y = MACROBLOCK * row + 8 * (b >> 1);
    return 0;
}

/* The prediction of block @b; mid-grey where there is none. */
static void predict(const struct macroblock *mb, int b, const struct frame *before, int plane, int x, int y,
                    uint8_t *out) {
    if (mb->intra) {
        memset(out, 128, COEFFICIENTS);
        return;
    }
    struct vector move = mb->move;
    if (b >= 4)
        move = (struct vector){move.x / 2, move.y / 2};
    block_predict(&before->plane[plane], x, y, move, 8, out);
}

void macroblock_transform(struct macroblock *mb, const struct frame *source, const struct frame *before, int column,
                          int row, int quantiser) {
    mb->coded = 0;
    for (int b = 0; b < BLOCKS; b++) {
        int x, y, block[COEFFICIENTS], plane = block_place(b, column, row, &x, &y);
        const struct plane *from = &source->plane[plane];
        uint8_t predicted[COEFFICIENTS];
        predict(mb, b, before, plane, x, y, predicted);
        for (int i = 0; i < COEFFICIENTS; i++)
            block[i] = from->pixel[(y + i / 8) * from->width + x + i % 8] - predicted[i];
        forward_transform(block);
        for (int i = 0; i < COEFFICIENTS; i++) {
            int at = zigzag(i);
            mb->level[b][i] = (int16_t)quantise(block[at], step_of(at, mb->intra, quantiser), mb->intra);
            if (mb->level[b][i])
                mb->coded |= (uint8_t)(1 << b);
        }
    }
}

void macroblock_rebuild(const struct macroblock *mb, const struct frame *before, struct frame *out, int column, int row,
                        int quantiser) {
    for (int b = 0; b < BLOCKS; b++) {
        int x, y, block[COEFFICIENTS] = {0}, plane = block_place(b, column, row, &x, &y);
        struct plane *to = &out->plane[plane];
        uint8_t predicted[COEFFICIENTS];
        predict(mb, b, before, plane, x, y, predicted);
        if (mb->coded & 1 << b) {
            for (int i = 0; i < COEFFICIENTS; i++) {
                int at = zigzag(i);
                block[at] = dequantise(mb->level[b][i], step_of(at, mb->intra, quantiser), mb->intra);
            }
            inverse_transform(block);
        }
        for (int i = 0; i < COEFFICIENTS; i++)
            to->pixel[(y + i / 8) * to->width + x + i % 8] = (uint8_t)clamp_pixel(predicted[i] + block[i]);
    }
}

bool macroblock_move_valid(const struct frame *frame, int column, int row, struct vector move) {
    int x2 = 2 * MACROBLOCK * column + move.x, y2 = 2 * MACROBLOCK * row + move.y;
    return x2 >= 0 && y2 >= 0 && x2 <= 2 * (frame->plane[0].width - MACROBLOCK) &&
           y2 <= 2 * (frame->plane[0].height - MACROBLOCK);
}
