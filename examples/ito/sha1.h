/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SHA-1 of one block (FIPS 180-4, section 6.1.2): here a source of random numbers that a tree can be grown from. */
#ifndef SHA1_H
#define SHA1_H

#include <stdint.h>

/**
 * sha1_short - the digest of a message of at most 13 words, given as big-endian words.
 * @words: how many. @message: [words]. @digest: [5], may be @message.
 */
void sha1_short(const uint32_t *message, int words, uint32_t digest[5]);

#endif /* SHA1_H */
