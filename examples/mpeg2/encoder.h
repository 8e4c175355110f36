/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The encoder: for each picture the loops draw, motion_search, transform, vlc over the rows of macroblocks, shared
 * statically by the team, with a barrier after each; then member 0 joins the slices. A slice depends on
 * its row and the picture before only, so the stream is the same for any number of threads.
 */
#ifndef ENCODER_H
#define ENCODER_H

#include "../common/team.h"
#include "film.h"
#include "syntax.h"

enum { INTRA_PERIOD = 12 };

struct encoder {
    struct sequence sequence;
    struct film film;
    struct frame *source;     /* [pictures], as drawn */
    struct frame *rebuilt;    /* [pictures], as a decoder will see them */
    struct macroblock *mb;    /* [rows][columns], of the present picture */
    struct bit_writer *slice; /* [rows] */
    struct bit_writer stream;
};

struct encoder *encoder_make(int width, int height, int pictures, int quantiser);

/** encoder_run - a team_function: the whole film. @arg is a struct encoder. */
void encoder_run(struct team *team, int member, void *arg);

void encoder_free(struct encoder *e);

/**
 * stream_verify - decode @bytes bytes of @stream and compare each picture with what the encoder rebuilt, bit for bit.
 * Any bytes will do. Return: NULL, or what is wrong; @picture is the picture it is wrong in.
 */
const char *stream_verify(const uint8_t *stream, size_t bytes, const struct encoder *e, int *picture);

#endif /* ENCODER_H */
