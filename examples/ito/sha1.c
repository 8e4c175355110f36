/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sha1.h"

static inline uint32_t rotate(uint32_t x, int n) {
    return x << n | x >> (32 - n);
}

/* The schedule W(t) is kept as the last 16 of its words; W(t) replaces W(t-16). */
static inline uint32_t schedule(uint32_t w[16], int t) {
    uint32_t next = rotate(w[(t + 13) & 15] ^ w[(t + 8) & 15] ^ w[(t + 2) & 15] ^ w[t & 15], 1);
    return w[t & 15] = next;
}

/* The five working variables take turns instead of being moved: after five steps each is back in its place. */
#define STEP(a, b, c, d, e, f, k, word)                                                                                \
    do {                                                                                                               \
        e += rotate(a, 5) + (f) + (k) + (word);                                                                        \
        b = rotate(b, 30);                                                                                             \
    } while (0)
#define CHOOSE(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define PARITY(b, c, d) ((b) ^ (c) ^ (d))
#define MAJORITY(b, c, d) (((b) & (c)) | ((d) & ((b) | (c))))
#define FIVE(f, k, w, t)                                                                                               \
    STEP(a, b, c, d, e, f(b, c, d), k, W(w, t));                                                                       \
    STEP(e, a, b, c, d, f(a, b, c), k, W(w, (t) + 1));                                                                 \
    STEP(d, e, a, b, c, f(e, a, b), k, W(w, (t) + 2));                                                                 \
    STEP(c, d, e, a, b, f(d, e, a), k, W(w, (t) + 3));                                                                 \
    STEP(b, c, d, e, a, f(c, d, e), k, W(w, (t) + 4))
#define W(w, t) ((t) < 16 ? (w)[(t)&15] : schedule(w, t))

void sha1_short(const uint32_t *message, int words, uint32_t digest[5]) {
    const uint32_t start[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint32_t w[16];
    for (int i = 0; i < 15; i++)
        w[i] = i < words ? message[i] : i == words ? 0x80000000u : 0;
    w[15] = (uint32_t)words * 32;
    uint32_t a = start[0], b = start[1], c = start[2], d = start[3], e = start[4];
    FIVE(CHOOSE, 0x5a827999, w, 0);
    FIVE(CHOOSE, 0x5a827999, w, 5);
    FIVE(CHOOSE, 0x5a827999, w, 10);
    FIVE(CHOOSE, 0x5a827999, w, 15);
    FIVE(PARITY, 0x6ed9eba1, w, 20);
    FIVE(PARITY, 0x6ed9eba1, w, 25);
    FIVE(PARITY, 0x6ed9eba1, w, 30);
    FIVE(PARITY, 0x6ed9eba1, w, 35);
    FIVE(MAJORITY, 0x8f1bbcdc, w, 40);
    FIVE(MAJORITY, 0x8f1bbcdc, w, 45);
    FIVE(MAJORITY, 0x8f1bbcdc, w, 50);
    FIVE(MAJORITY, 0x8f1bbcdc, w, 55);
    FIVE(PARITY, 0xca62c1d6, w, 60);
    FIVE(PARITY, 0xca62c1d6, w, 65);
    FIVE(PARITY, 0xca62c1d6, w, 70);
    FIVE(PARITY, 0xca62c1d6, w, 75);
    digest[0] = start[0] + a;
    digest[1] = start[1] + b;
    digest[2] = start[2] + c;
    digest[3] = start[3] + d;
    digest[4] = start[4] + e;
}
