/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See pace.h. */
#include "sync/pace.h"

/* One loop in which the kernel took the CPU away must not make the body look long for many loops to come. */
#define MOST_AT_ONCE 8u

uint64_t ito__pace_rows[ITO__PACE_ROWS];

uint32_t ito__pace_from(uint64_t ns, size_t n) {
    uint64_t ps = ns < UINT64_MAX / 1000 ? ns * 1000 / n : UINT32_MAX;
    return ps == 0 ? 1 : ps < UINT32_MAX ? (uint32_t)ps : UINT32_MAX;
}

/* Up at once, down by a quarter of the way: a body whose cost changes counts as the longer one. */
void ito__pace_note(uintptr_t body, uint64_t ns, size_t n) {
    uint64_t key = ito__pace_key(body), now = ito__pace_from(ns, n), before = ito__pace_of(body);
    if (before != 0) {
        if (now > before * MOST_AT_ONCE)
            now = before * MOST_AT_ONCE < UINT32_MAX ? before * MOST_AT_ONCE : UINT32_MAX;
        else if (now < before)
            now = before - (before - now + 3) / 4;
    }
    store_relaxed(ito__pace_row(key), (key >> 32 << 32) | now);
}
