/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "syntax.h"

#include <stdlib.h>
#include <string.h>

static const char magic[4] = "KMV1";

/* Carried from one macroblock of a slice to the next, which is coded by its difference to it: the constant level of each
 * plane, and the vector. Zero at a slice's start, so that slices can be coded and decoded in any order. */
struct memory {
    int constant[3]; /* level 0 by plane */
    struct vector move;
};

static int plane_of(int block) {
    return block < 4 ? 0 : block - 3;
}

void sequence_put(struct bit_writer *w, const struct sequence *sequence) {
    bits_put_bytes(w, (const uint8_t *)magic, sizeof magic);
    bits_put(w, (uint32_t)sequence->columns, 16);
    bits_put(w, (uint32_t)sequence->rows, 16);
    bits_put(w, (uint32_t)sequence->pictures, 16);
    bits_put(w, (uint32_t)sequence->quantiser, 8);
}

bool sequence_get(struct bit_reader *r, struct sequence *sequence) {
    for (size_t i = 0; i < sizeof magic; i++)
        if (bits_get(r, 8) != (uint32_t)magic[i])
            return false;
    sequence->columns = (int)bits_get(r, 16);
    sequence->rows = (int)bits_get(r, 16);
    sequence->pictures = (int)bits_get(r, 16);
    sequence->quantiser = (int)bits_get(r, 8);
    return !r->bad && sequence->columns > 0 && sequence->rows > 0 && sequence->quantiser > 0;
}

static void block_put(struct bit_writer *w, const struct macroblock *mb, int block, struct memory *memory) {
    const int16_t *level = mb->level[block];
    int *constant = &memory->constant[plane_of(block)], zeros = 0;
    if (mb->intra) {
        bits_put_signed(w, level[0] - *constant);
        *constant = level[0];
    }
    for (int i = mb->intra ? 1 : 0; i < COEFFICIENTS; i++) {
        if (level[i] == 0) {
            zeros++;
            continue;
        }
        bits_put_unsigned(w, (uint32_t)zeros + 1);
        bits_put_unsigned(w, (uint32_t)abs(level[i]) - 1);
        bits_put(w, level[i] < 0, 1);
        zeros = 0;
    }
    bits_put_unsigned(w, 0);
}

void slice_put(struct bit_writer *w, const struct macroblock *mb, int columns, bool all_intra) {
    struct memory memory = {0};
    for (int column = 0; column < columns; column++, mb++) {
        bool skipped = !mb->intra && !mb->coded && !mb->move.x && !mb->move.y;
        if (!all_intra)
            bits_put(w, skipped, 1);
        if (!all_intra && !skipped)
            bits_put(w, mb->intra, 1);
        if (!mb->intra && !skipped) {
            bits_put_signed(w, mb->move.x - memory.move.x);
            bits_put_signed(w, mb->move.y - memory.move.y);
        }
        memory.move = mb->move;
        if (skipped)
            continue;
        bits_put(w, mb->coded, BLOCKS);
        for (int block = 0; block < BLOCKS; block++)
            if (mb->coded & 1 << block)
                block_put(w, mb, block, &memory);
    }
    bits_align(w);
}

static void block_get(struct bit_reader *r, struct macroblock *mb, int block, struct memory *memory) {
    int16_t *level = mb->level[block];
    int *constant = &memory->constant[plane_of(block)], i = 0;
    if (mb->intra) {
        long value = (long)*constant + bits_get_signed(r);
        r->bad |= labs(value) > LEVEL_LIMIT;
        level[0] = (int16_t)(*constant = r->bad ? 0 : (int)value);
        i = 1;
    }
    for (;;) {
        uint32_t run = bits_get_unsigned(r);
        if (run == 0)
            return;
        uint32_t size = bits_get_unsigned(r);
        bool negative = bits_get(r, 1);
        r->bad |= run > (uint32_t)(COEFFICIENTS - i) || size >= LEVEL_LIMIT;
        if (r->bad)
            return;
        i += (int)run;
        level[i - 1] = (int16_t)(negative ? -(int)size - 1 : (int)size + 1);
    }
}

bool slice_get(struct bit_reader *r, struct macroblock *mb, int columns, bool all_intra) {
    struct memory memory = {0};
    for (int column = 0; column < columns; column++, mb++) {
        memset(mb, 0, sizeof *mb);
        bool skipped = !all_intra && bits_get(r, 1);
        mb->intra = all_intra || (!skipped && bits_get(r, 1));
        if (!mb->intra && !skipped) {
            long x = (long)memory.move.x + bits_get_signed(r), y = (long)memory.move.y + bits_get_signed(r);
            r->bad |= labs(x) > 65535 || labs(y) > 65535;
            mb->move = r->bad ? (struct vector){0, 0} : (struct vector){(int)x, (int)y};
        }
        memory.move = mb->move;
        if (skipped)
            continue;
        mb->coded = (uint8_t)bits_get(r, BLOCKS);
        for (int block = 0; block < BLOCKS && !r->bad; block++)
            if (mb->coded & 1 << block)
                block_get(r, mb, block, &memory);
        if (r->bad)
            return false;
    }
    return !r->bad;
}
