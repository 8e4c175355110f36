/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lock events with a stamp taken before: the lock probe's, and ito's own (threads/src/lock_events.c). Include kasuri.h
 * first.
 *
 * Both functions are the client's fast path (annotate/src/emit.h) with the caller's stamp in place of the present time:
 * reserve, word 1, payload, commit. Where the reservation does not fit or the thread has no ring yet, kasuri__slow_at
 * goes on with the position and keeps the stamp. Format of the events: enum kasuri_kind in annotate/src/abi.h.
 */
#ifndef KASURI_PROBE_EMIT_H
#define KASURI_PROBE_EMIT_H

/* An event of 32 bytes: any kind, mode and address, and one word more. */
static inline __attribute__((always_inline)) void probe_emit_long(uint32_t kind, uint32_t mode, const void *lock,
                                                                  uint64_t b, uint64_t stamp) {
    /* Word 1: kind in bits 0-7, size in units of 16 bytes from bit 8 on, mode from bit 16 on, no site. */
    uint32_t word = kind | 2u << 8 | mode << 16;
    struct kasuri__writer *w = kasuri__writer;
    kasuri__word pos = 0;
    if (KASURI__LIKELY(w != 0)) {
        pos = kasuri__reserve(w, 32);
        if (KASURI__LIKELY(kasuri__fits(w, pos, 32))) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__word1(slot, word, 0);
            kasuri__payload(slot, (uintptr_t)lock, b);
            kasuri__commit(slot, stamp);
            return;
        }
    }
    kasuri__slow_at(0, 0, word, pos, stamp, (uintptr_t)lock, b);
}

/* LOCK_TAKEN or LOCK_LEFT: 16 bytes, as the lock's address takes the place of the site. ORDER relaxed for word 1: as in
 * kasuri__word1. `otherwise`: the kind to use for addresses of more than 47 bits. */
static inline __attribute__((always_inline)) void probe_emit_short(uint32_t kind, uint32_t otherwise, const void *lock,
                                                                   uint64_t stamp) {
    struct kasuri__writer *w = kasuri__writer;
    kasuri__word pos = 0;
    uint64_t address = (uintptr_t)lock, word = kind | 1u << 8 | address << 16;
    /* User space has 47 bits, and 56 where the kernel uses page tables of five levels. */
    if (KASURI__UNLIKELY(address >> 47)) {
        probe_emit_long(otherwise, KASURI_LOCK_EXCLUSIVE, lock, 0, stamp);
        return;
    }
    if (KASURI__LIKELY(w != 0)) {
        pos = kasuri__reserve(w, 16);
        if (KASURI__LIKELY(kasuri__fits(w, pos, 16))) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__put(slot + 1, word);
            kasuri__commit(slot, stamp);
            return;
        }
    }
    kasuri__slow_at(0, (int32_t)(word >> 32), (uint32_t)word, pos, stamp, 0, 0);
}

#endif
