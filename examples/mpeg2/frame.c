/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "frame.h"

#include "../common/example.h"

#include <stdlib.h>
#include <string.h>

struct frame frame_make(int width, int height) {
    struct frame f;
    for (int p = 0; p < 3; p++) {
        f.plane[p].width = p ? width / 2 : width;
        f.plane[p].height = p ? height / 2 : height;
        f.plane[p].pixel = example_alloc((size_t)f.plane[p].height, (size_t)f.plane[p].width);
    }
    return f;
}

void frame_free(struct frame *frame) {
    for (int p = 0; p < 3; p++)
        free(frame->plane[p].pixel);
}

uint64_t frame_error(const struct frame *a, const struct frame *b) {
    uint64_t sum = 0;
    size_t count = (size_t)a->plane[0].width * (size_t)a->plane[0].height;
    for (size_t i = 0; i < count; i++) {
        int difference = a->plane[0].pixel[i] - b->plane[0].pixel[i];
        sum += (uint64_t)(difference * difference);
    }
    return sum;
}

int frame_equal(const struct frame *a, const struct frame *b) {
    for (int p = 0; p < 3; p++)
        if (memcmp(a->plane[p].pixel, b->plane[p].pixel, (size_t)a->plane[p].width * (size_t)a->plane[p].height))
            return 0;
    return 1;
}
