/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pace.h - what an index of a loop took when the loop's body ran last: so a loop that will be over in a moment is not
 * divided.
 *
 * A row is one word, written and read whole: 32 bits of the body's address, and picoseconds. Two bodies that fall into
 * one row push each other out, and are not known then. All relaxed: a row is a guess, and needs nothing beside it.
 */
#ifndef ITO_PACE_H
#define ITO_PACE_H

#include "prim/atomic.h"

#include <stddef.h>
#include <stdint.h>

#define ITO__PACE_ROWS 256u
extern uint64_t ito__pace_rows[ITO__PACE_ROWS];

/* The bits of an address that differ between functions, all over the word. */
static inline uint64_t ito__pace_key(uintptr_t body) {
    return (uint64_t)body * 0x9e3779b97f4a7c15u;
}
static inline uint64_t *ito__pace_row(uint64_t key) {
    return &ito__pace_rows[key >> 32 & (ITO__PACE_ROWS - 1)];
}

/* Picoseconds an index; 0: not known. */
static inline uint32_t ito__pace_of(uintptr_t body) {
    uint64_t key = ito__pace_key(body), row = load_relaxed(ito__pace_row(key));
    return (row ^ key) >> 32 == 0 ? (uint32_t)row : 0;
}
/* @n indices, at least 1, took @ns. */
void ito__pace_note(uintptr_t body, uint64_t ns, size_t n);
/* The same as a number, at least 1. */
uint32_t ito__pace_from(uint64_t ns, size_t n);

#endif
