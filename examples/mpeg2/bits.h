/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Strings of bits, and whole numbers in them as Exp-Golomb codes: n >= 0 is n + 1 in binary after as many
 * zeros as it has bits behind its first; with a sign, v > 0 is 2v - 1 and v <= 0 is -2v. */
#ifndef BITS_H
#define BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bit_writer {
    uint8_t *data;
    size_t bytes, room;
    uint64_t hold; /* the last `held` bits are not yet in data */
    int held;      /* 0..7 between calls */
};

void bits_put(struct bit_writer *w, uint32_t value, int count); /* count 0..32 */
void bits_put_unsigned(struct bit_writer *w, uint32_t value);   /* value < 2^31 */
void bits_put_signed(struct bit_writer *w, int value);
/** bits_align - zeros to the next whole byte. */
void bits_align(struct bit_writer *w);
/** bits_put_bytes - whole bytes; the writer must be aligned. */
void bits_put_bytes(struct bit_writer *w, const uint8_t *data, size_t bytes);
/** bits_reset - empty, keeping the memory. */
void bits_reset(struct bit_writer *w);

/* `bad` stays set once more bits were asked for than there are, or a code was no code; reads give 0 then. */
struct bit_reader {
    const uint8_t *data;
    size_t bytes, at; /* at: in bits */
    bool bad;
};

uint32_t bits_get(struct bit_reader *r, int count); /* count 0..32 */
uint32_t bits_get_unsigned(struct bit_reader *r);
int bits_get_signed(struct bit_reader *r);

#endif /* BITS_H */
