/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Work of a known length, in CPU time of the calling thread. */
#ifndef COMPUTE_H
#define COMPUTE_H

#include <time.h>

static void compute(long us) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    long end = t.tv_sec * 1000000 + t.tv_nsec / 1000 + us;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec * 1000000 + t.tv_nsec / 1000 < end);
}

#endif
