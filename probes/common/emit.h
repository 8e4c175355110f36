/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lock events with a stamp taken before: the lock probe's, and ito's own (threads/src/sync/lock_events.c). Include kasuri.h
 * first. Format of the events: enum kasuri_kind in annotate/src/abi.h.
 */
#ifndef KASURI_PROBE_EMIT_H
#define KASURI_PROBE_EMIT_H

/* An event of 32 bytes: any kind, mode and address, and one word more. */
static inline __attribute__((always_inline)) void probe_emit_long(uint32_t kind, uint32_t mode, const void *lock,
                                                                  uint64_t b, uint64_t stamp) {
    kasuri__emit2_at(0, 0, kind | mode << 16, (uintptr_t)lock, b, stamp);
}

/* LOCK_TAKEN or LOCK_LEFT: 16 bytes, as the lock's address takes the upper bits of word 1, of aux and site. `otherwise`:
 * the kind to use for addresses of more than 47 bits. */
static inline __attribute__((always_inline)) void probe_emit_short(uint32_t kind, uint32_t otherwise, const void *lock,
                                                                   uint64_t stamp) {
    uint64_t address = (uintptr_t)lock, word = kind | address << 16;
    /* User space has 47 bits, and 56 where the kernel uses page tables of five levels. */
    if (KASURI__UNLIKELY(address >> 47))
        probe_emit_long(otherwise, KASURI_LOCK_EXCLUSIVE, lock, 0, stamp);
    else
        kasuri__emit1_at(0, (int32_t)(word >> 32), (uint32_t)word, stamp);
}

#endif
