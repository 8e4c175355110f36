/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stream. Shaped as MPEG-2 video is - sequence, picture, slice, macroblock, block - with simpler codes.
 *
 *   sequence    "KMV1", u16 macroblock columns, u16 rows, u16 pictures, u8 quantiser; then the pictures
 *   picture     u8 'I' (all macroblocks intra) or 'P'; then for each row u32 bytes of its slice, and the slice
 *   slice       its macroblocks from left to right, then zeros to a whole byte. Nothing is predicted over its start.
 *   macroblock  'P' only: 1 bit, 1 = skipped (as the picture before, nothing follows)
 *               'P' only: 1 bit, 1 = intra
 *               if not intra: signed x and y of the vector, half pixels, less those of the macroblock to the left
 *               6 bits coded, first the one of block 5; then the coded blocks, 0 to 5
 *   block       intra: signed level 0 less that of the last coded intra block of the same plane in the slice
 *               then for each level that is not 0: unsigned 1 + the number of zeros before it,
 *                   unsigned |level| - 1, 1 bit sign (1 = negative)
 *               unsigned 0 ends the block
 *
 * Whole bytes have the highest byte first; "signed" and "unsigned" are the codes of bits.h.
 */
#ifndef SYNTAX_H
#define SYNTAX_H

#include "bits.h"
#include "macroblock.h"

struct sequence {
    int columns, rows, pictures, quantiser;
};

void sequence_put(struct bit_writer *w, const struct sequence *sequence);
bool sequence_get(struct bit_reader *r, struct sequence *sequence);

/** slice_put - the @columns macroblocks of one row. */
void slice_put(struct bit_writer *w, const struct macroblock *mb, int columns, bool all_intra);

/** slice_get - read them back. Return: false when the bits are no slice. Vectors are not checked. */
bool slice_get(struct bit_reader *r, struct macroblock *mb, int columns, bool all_intra);

#endif /* SYNTAX_H */
