/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the planted program knows about its own locks; in shared memory that the test reads afterwards. */
#ifndef KASURI_LOCK_TRUTH_H
#define KASURI_LOCK_TRUTH_H

#include <stdint.h>

#define TRUTH_MAX 60000

/* One critical section: stamps right before and after both calls. */
struct truth {
    uint64_t object, pid, tid;
    uint64_t before_lock, after_lock, before_unlock, after_unlock;
};

struct truths {
    uint32_t n;                   /* atomic */
    uint32_t acquisitions, waits; /* what a mode wants to tell */
    uint32_t holder;
    struct truth rows[TRUTH_MAX];
};

#endif
