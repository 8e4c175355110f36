/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "encoder.h"

#include "../common/example.h"
#include "motion.h"

#include <stdlib.h>

/*
 * motion_search reads the rebuilt picture before, also in neighbouring rows, which other members wrote. It predicts from
 * that and not from the source, because the decoder has only that. Not every barrier of encode_picture() is needed: each
 * loop has one, as a parallelising compiler would write it.
 */
struct encoder *encoder_make(int width, int height, int pictures, int quantiser) {
    struct encoder *e = example_alloc(1, sizeof *e);
    e->sequence = (struct sequence){width / MACROBLOCK, height / MACROBLOCK, pictures, quantiser};
    film_make(&e->film);
    e->source = example_alloc((size_t)pictures, sizeof *e->source);
    e->rebuilt = example_alloc((size_t)pictures, sizeof *e->rebuilt);
    for (int i = 0; i < pictures; i++) {
        e->source[i] = frame_make(width, height);
        e->rebuilt[i] = frame_make(width, height);
    }
    e->mb = example_alloc((size_t)(e->sequence.rows * e->sequence.columns), sizeof *e->mb);
    e->slice = example_alloc((size_t)e->sequence.rows, sizeof *e->slice);
    sequence_put(&e->stream, &e->sequence);
    return e;
}

static struct macroblock *row_of(struct encoder *e, int row) {
    return e->mb + row * e->sequence.columns;
}

static void search_row(struct encoder *e, int picture, int row) {
    struct macroblock *mb = row_of(e, row);
    struct vector left = {0, 0};
    for (int column = 0; column < e->sequence.columns; column++) {
        motion_search(&mb[column], &e->source[picture], &e->rebuilt[picture - 1], column, row, left);
        left = mb[column].move;
    }
}

static void transform_row(struct encoder *e, int picture, int row) {
    struct macroblock *mb = row_of(e, row);
    const struct frame *before = picture ? &e->rebuilt[picture - 1] : NULL;
    for (int column = 0; column < e->sequence.columns; column++) {
        if (picture % INTRA_PERIOD == 0) {
            mb[column].intra = true;
            mb[column].move = (struct vector){0, 0};
        }
        macroblock_transform(&mb[column], &e->source[picture], before, column, row, e->sequence.quantiser);
        macroblock_rebuild(&mb[column], before, &e->rebuilt[picture], column, row, e->sequence.quantiser);
    }
}

static void join_slices(struct encoder *e, bool all_intra) {
    size_t start = e->stream.bytes;
    bits_put(&e->stream, all_intra ? 'I' : 'P', 8);
    for (int row = 0; row < e->sequence.rows; row++) {
        bits_put(&e->stream, (uint32_t)e->slice[row].bytes, 32);
        bits_put_bytes(&e->stream, e->slice[row].data, e->slice[row].bytes);
    }
    KASURI_COUNTER("picture bytes", (double)(e->stream.bytes - start));
}

static void encode_picture(struct team *team, struct encoder *e, int picture, int first, int last) {
    bool all_intra = picture % INTRA_PERIOD == 0;
    KASURI_BEGIN("draw");
    for (int row = first; row < last; row++)
        film_row(&e->film, &e->source[picture], picture, row);
    KASURI_END();
    TEAM_BARRIER(team);
    if (!all_intra) {
        KASURI_BEGIN("motion_search");
        for (int row = first; row < last; row++)
            search_row(e, picture, row);
        KASURI_END();
        TEAM_BARRIER(team);
    }
    KASURI_BEGIN("transform");
    for (int row = first; row < last; row++)
        transform_row(e, picture, row);
    KASURI_END();
    TEAM_BARRIER(team);
    KASURI_BEGIN("vlc");
    for (int row = first; row < last; row++) {
        bits_reset(&e->slice[row]);
        slice_put(&e->slice[row], row_of(e, row), e->sequence.columns, all_intra);
    }
    KASURI_END();
    TEAM_BARRIER(team);
    if (first == 0 && last > 0) {
        KASURI_BEGIN("join_slices");
        join_slices(e, all_intra);
        KASURI_END();
    }
    TEAM_BARRIER(team);
}

void encoder_run(struct team *team, int member, void *arg) {
    struct encoder *e = arg;
    struct range rows = team_split((size_t)e->sequence.rows, team->size, member);
    for (int picture = 0; picture < e->sequence.pictures; picture++)
        encode_picture(team, e, picture, (int)rows.begin, (int)rows.end);
}

void encoder_free(struct encoder *e) {
    for (int i = 0; i < e->sequence.pictures; i++) {
        frame_free(&e->source[i]);
        frame_free(&e->rebuilt[i]);
    }
    for (int row = 0; row < e->sequence.rows; row++)
        free(e->slice[row].data);
    free(e->source);
    free(e->rebuilt);
    free(e->mb);
    free(e->slice);
    free(e->stream.data);
    free(e);
}
