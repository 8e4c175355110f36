/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with thread-local variables, loaded by test_threads.c: built twice, so that they lie in the static block
 * (initial-exec) or are allocated at their first use. */
#include <stddef.h>

static __thread long first = 42;
static __thread char zeros[200];

long library_counts(void);
/* How often the caller has called it, from 42 on; 0: one of the variables was not as it should be. */
long library_counts(void) {
    for (size_t i = 0; i < sizeof zeros; i++)
        if (zeros[i] != (char)(first - 42))
            return 0;
    first++;
    for (size_t i = 0; i < sizeof zeros; i++)
        zeros[i]++;
    return first;
}
