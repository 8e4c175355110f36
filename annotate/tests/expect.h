/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* EXPECT, for C tests: says what is not true and where, and goes on; a test returns `failed`. */
#ifndef KASURI_TESTS_EXPECT_H
#define KASURI_TESTS_EXPECT_H

#include <stdio.h>

static int failed;
#define EXPECT(ok)                                                                                                     \
    do {                                                                                                               \
        if (!(ok)) {                                                                                                   \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #ok);                                         \
            failed = 1;                                                                                                \
        }                                                                                                              \
    } while (0)

#endif
