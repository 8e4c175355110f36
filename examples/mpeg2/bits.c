/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "bits.h"

#include "../common/example.h"

#include <stdlib.h>
#include <string.h>

static void make_room(struct bit_writer *w, size_t more) {
    if (w->bytes + more <= w->room)
        return;
    while (w->bytes + more > w->room)
        w->room = w->room ? 2 * w->room : 1024;
    w->data = realloc(w->data, w->room);
    if (!w->data)
        example_fail("no memory for a stream of %zu bytes", w->room);
}

void bits_put(struct bit_writer *w, uint32_t value, int count) {
    make_room(w, 8);
    w->hold = w->hold << count | value;
    w->held += count;
    while (w->held >= 8) {
        w->held -= 8;
        w->data[w->bytes++] = (uint8_t)(w->hold >> w->held);
    }
}

void bits_put_unsigned(struct bit_writer *w, uint32_t value) {
    int behind = 31 - __builtin_clz(value + 1);
    bits_put(w, 0, behind);
    bits_put(w, value + 1, behind + 1);
}

void bits_put_signed(struct bit_writer *w, int value) {
    bits_put_unsigned(w, value > 0 ? 2 * (uint32_t)value - 1 : 2 * (uint32_t)-value);
}

void bits_align(struct bit_writer *w) {
    if (w->held)
        bits_put(w, 0, 8 - w->held);
}

void bits_put_bytes(struct bit_writer *w, const uint8_t *data, size_t bytes) {
    make_room(w, bytes);
    if (bytes)
        memcpy(w->data + w->bytes, data, bytes);
    w->bytes += bytes;
}

void bits_reset(struct bit_writer *w) {
    w->bytes = 0;
    w->held = 0;
}

uint32_t bits_get(struct bit_reader *r, int count) {
    uint32_t value = 0;
    if (r->bad || r->at + (size_t)count > 8 * r->bytes) {
        r->bad = true;
        return 0;
    }
    for (int i = 0; i < count; i++, r->at++)
        value = value << 1 | (r->data[r->at / 8] >> (7 - r->at % 8) & 1);
    return value;
}

uint32_t bits_get_unsigned(struct bit_reader *r) {
    int behind = 0;
    while (!r->bad && bits_get(r, 1) == 0)
        if (++behind > 30)
            r->bad = true;
    uint32_t value = (1u << (behind > 30 ? 0 : behind)) | bits_get(r, behind > 30 ? 0 : behind);
    return r->bad ? 0 : value - 1;
}

int bits_get_signed(struct bit_reader *r) {
    uint32_t code = bits_get_unsigned(r);
    return code & 1 ? (int)(code / 2) + 1 : -(int)(code / 2);
}
