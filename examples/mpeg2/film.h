/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The film to encode, in place of a camera: a still sky, ground that moves by as the camera pans, and discs
 * that cross it. Integers only: the same film on every machine.
 */
#ifndef FILM_H
#define FILM_H

#include "frame.h"

#define FILM_TEXTURE 256 /* pixels on a side; repeats */

struct film {
    uint8_t texture[FILM_TEXTURE][FILM_TEXTURE];
};

void film_make(struct film *film);

/** film_row - draw macroblock row @row of frame @number. Reads the film only. */
void film_row(const struct film *film, struct frame *out, int number, int row);

#endif /* FILM_H */
