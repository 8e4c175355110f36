/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The verifier accepts the encoder's stream, refuses it cut short at every byte, and after every flipped bit either
 * refuses it or has decoded the same pictures (a vector over an even area may point anywhere): few may do that.
 */
#include "../common/example.h"
#include "../mpeg2/encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    struct encoder *e = encoder_make(64, 64, 3, 8);
    int picture;
    team_run("mpeg2", 1, false, encoder_run, e);
    const char *wrong = stream_verify(e->stream.data, e->stream.bytes, e, &picture);
    if (wrong)
        example_fail("the whole stream: %s in picture %d", wrong, picture);
    for (size_t bytes = 0; bytes < e->stream.bytes; bytes++) {
        /* A copy of just so many bytes, so that a sanitizer sees a read behind them. */
        uint8_t *cut = example_alloc(bytes, 1);
        memcpy(cut, e->stream.data, bytes);
        if (!stream_verify(cut, bytes, e, &picture))
            example_fail("accepted after %zu of %zu bytes", bytes, e->stream.bytes);
        free(cut);
    }
    size_t accepted = 0, bits = 8 * e->stream.bytes;
    for (size_t bit = 0; bit < bits; bit++) {
        e->stream.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        accepted += stream_verify(e->stream.data, e->stream.bytes, e, &picture) == NULL;
        e->stream.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    printf("%zu of %zu flipped bits changed no picture\n", accepted, bits);
    if (accepted * 100 > bits)
        example_fail("more than 1 in 100");
    encoder_free(e);
    return 0;
}
