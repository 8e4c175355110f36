/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The decoder, to check the encoder with: it reads the stream alone, and every picture must be the one that the encoder
 * predicted from, to the bit. Two pictures are kept, as one is predicted from the other. A damaged stream gives a
 * message and never a crash: every length is checked against the stream, every vector against the picture.
 */
#include "../common/example.h"
#include "encoder.h"

#include <stdlib.h>

struct decoder {
    struct bit_reader reader;
    struct sequence sequence;
    struct frame frame[2]; /* of even and of odd pictures */
    struct macroblock *mb; /* [columns] */
};

static const char *decode_row(struct decoder *d, int picture, int row, bool all_intra) {
    size_t bytes = bits_get(&d->reader, 32), start = d->reader.at / 8;
    if (d->reader.bad || bytes > d->reader.bytes - start)
        return "a slice longer than the stream";
    struct bit_reader slice = {.data = d->reader.data + start, .bytes = bytes};
    if (!slice_get(&slice, d->mb, d->sequence.columns, all_intra))
        return "bits that are no slice";
    if ((slice.at + 7) / 8 != bytes || bits_get(&slice, (int)(8 * bytes - slice.at)) != 0)
        return "more than zeros behind a slice";
    d->reader.at += 8 * bytes;
    const struct frame *before = &d->frame[(picture + 1) % 2];
    for (int column = 0; column < d->sequence.columns; column++) {
        if (!macroblock_move_valid(before, column, row, d->mb[column].move))
            return "a vector that leaves the picture";
        macroblock_rebuild(&d->mb[column], before, &d->frame[picture % 2], column, row, d->sequence.quantiser);
    }
    return NULL;
}

static const char *decode_picture(struct decoder *d, int picture) {
    uint32_t type = bits_get(&d->reader, 8);
    if (type != 'I' && (type != 'P' || picture == 0))
        return "an unknown type of picture";
    const char *wrong = NULL;
    for (int row = 0; row < d->sequence.rows && !wrong; row++)
        wrong = decode_row(d, picture, row, type == 'I');
    return wrong;
}

static bool same_sequence(const struct sequence *a, const struct sequence *b) {
    return a->columns == b->columns && a->rows == b->rows && a->pictures == b->pictures && a->quantiser == b->quantiser;
}

const char *stream_verify(const uint8_t *stream, size_t bytes, const struct encoder *e, int *picture) {
    struct decoder d = {.reader = {.data = stream, .bytes = bytes}};
    const char *wrong = NULL;
    *picture = 0;
    if (!sequence_get(&d.reader, &d.sequence) || !same_sequence(&d.sequence, &e->sequence))
        return "another sequence header";
    for (int i = 0; i < 2; i++)
        d.frame[i] = frame_make(d.sequence.columns * MACROBLOCK, d.sequence.rows * MACROBLOCK);
    d.mb = example_alloc((size_t)d.sequence.columns, sizeof *d.mb);
    for (; *picture < d.sequence.pictures && !wrong; ++*picture) {
        wrong = decode_picture(&d, *picture);
        if (!wrong && !frame_equal(&d.frame[*picture % 2], &e->rebuilt[*picture]))
            wrong = "a picture that differs from the encoder's";
    }
    if (!wrong && d.reader.at != 8 * d.reader.bytes)
        wrong = "bits after the last picture";
    *picture -= wrong != NULL;
    for (int i = 0; i < 2; i++)
        frame_free(&d.frame[i]);
    free(d.mb);
    return wrong;
}
