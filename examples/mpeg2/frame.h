/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pictures: one plane of brightness and two of colour at half the width and height. */
#ifndef FRAME_H
#define FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { MACROBLOCK = 16 };

struct plane {
    int width, height;
    uint8_t *pixel; /* [height][width] */
};

struct frame {
    struct plane plane[3];
};

struct frame frame_make(int width, int height);
void frame_free(struct frame *frame);

/** frame_error - sum of the squared differences of brightness of two frames of one size. */
uint64_t frame_error(const struct frame *a, const struct frame *b);

/** frame_equal - are all three planes the same? */
int frame_equal(const struct frame *a, const struct frame *b);

static inline int clamp_pixel(int value) {
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

#endif /* FRAME_H */
