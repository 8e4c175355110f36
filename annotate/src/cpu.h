/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- what differs from CPU to CPU --
 *
 * The session's files are the same on all: numbers in the machine's byte order, words of 64 bits at the offsets of part
 * 1. A CPU with registers of 64 bits stores such a word at once. Others store two halves, and the order in which they do
 * it tells a reader when the word is whole; a reader loads it at once, or takes its halves in the opposite order.
 *
 *   kasuri__word        a register: positions, and sizes of what is mapped
 *   kasuri__put         a word that needs no order; its low half is first, which has a record's length
 *   kasuri__publish     a word with all that was stored before it; its low half is last, and not 0: a stamp commits by it
 *   kasuri__is_open     whether a stamp is not stored yet
 */

/* Inline always: the fast path is meant to be part of the program's own code, also in builds without optimisation. */
#define KASURI__INLINE static inline __attribute__((always_inline, unused))

typedef uintptr_t kasuri__word;

/* A position is one word: the page of the chunk, and in its low bits how much of the chunk is taken, in units. Failed
 * reservations raise it further: from OFF_HIGH on it is brought back to OFF_LOST, which is still beyond what is used of
 * any chunk (kasuri__clamp). With 32 bits 20 are the page's, and 12 remain for 64 KiB in units of a slot: of larger
 * chunks 32 KiB are used. */
#if UINTPTR_MAX > 0xffffffffu
#define KASURI__OFF_BITS 24
#define KASURI__OFF_UNIT 1u
#define KASURI__ROOM_MAX (1u << 20)
#define KASURI__OFF_LOST 0x200000u
#define KASURI__OFF_HIGH 0x400000u
#else
#define KASURI__OFF_BITS 12
#define KASURI__OFF_UNIT 16u
#define KASURI__ROOM_MAX (32u << 10)
#define KASURI__OFF_LOST 0x840u
#define KASURI__OFF_HIGH 0x900u
#endif
#define KASURI__OFF_MASK (((kasuri__word)1 << KASURI__OFF_BITS) - 1)

KASURI__INLINE kasuri__word kasuri__position(const void *chunk, uint32_t bytes) {
    return (kasuri__word)(uintptr_t)chunk << (KASURI__OFF_BITS - 12) | bytes / KASURI__OFF_UNIT;
}
/* Chunks are aligned to 4 KiB; null: the position lies in no chunk. */
KASURI__INLINE char *kasuri__chunk_of(kasuri__word pos) {
    return (char *)(uintptr_t)(pos >> KASURI__OFF_BITS << 12);
}
KASURI__INLINE kasuri__word kasuri__offset_of(kasuri__word pos) {
    return (pos & KASURI__OFF_MASK) * KASURI__OFF_UNIT;
}

#if UINTPTR_MAX > 0xffffffffu
/* ORDER relaxed: of a record's word 1; its stamp publishes it to readers of the event, and the payload's release to
 * readers that ask how long an open record is. */
KASURI__INLINE void kasuri__put(uint64_t *to, uint64_t value) {
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
/* ORDER release; pairs with an acquire load of the word: what was stored before it is seen. See the callers. */
KASURI__INLINE void kasuri__publish(uint64_t *to, uint64_t value) {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
/* ORDER relaxed: of a word 1, whose low half has the length. */
KASURI__INLINE uint32_t kasuri__low(const uint64_t *word) {
    return (uint32_t)__atomic_load_n(word, __ATOMIC_RELAXED);
}
/* ORDER acquire; pairs with the release of kasuri__commit: the emit that committed has left the slot. */
KASURI__INLINE int kasuri__is_open(const uint64_t *stamp) {
    return __atomic_load_n(stamp, __ATOMIC_ACQUIRE) == 0;
}
#else
typedef uint32_t __attribute__((may_alias)) kasuri__half;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define KASURI__LOW 1
#else
#define KASURI__LOW 0
#endif
#define KASURI__LOW_OF(p) ((kasuri__half *)(void *)(uintptr_t)(p) + KASURI__LOW)
#define KASURI__HIGH_OF(p) ((kasuri__half *)(void *)(uintptr_t)(p) + !KASURI__LOW)
/* ORDER relaxed: as above. ORDER none in hardware; pairs with whatever reads the chunk after a kill in between: the
 * compiler must keep the low half first. */
KASURI__INLINE void kasuri__put(uint64_t *to, uint64_t value) {
    __atomic_store_n(KASURI__LOW_OF(to), (uint32_t)value, __ATOMIC_RELAXED);
    __asm__ volatile("" : : : "memory");
    __atomic_store_n(KASURI__HIGH_OF(to), (uint32_t)(value >> 32), __ATOMIC_RELAXED);
}
/* A word whose low half is 0 is not published: one unit of time in four thousand million is a unit late. ORDER release;
 * pairs with an acquire load of the word: with the low half its high half is seen, and what was stored before. */
KASURI__INLINE void kasuri__publish(uint64_t *to, uint64_t value) {
    uint32_t low = (uint32_t)value;
    __atomic_store_n(KASURI__HIGH_OF(to), (uint32_t)(value >> 32), __ATOMIC_RELAXED);
    __atomic_store_n(KASURI__LOW_OF(to), low ? low : 1, __ATOMIC_RELEASE);
}
/* ORDER relaxed: as above. */
KASURI__INLINE uint32_t kasuri__low(const uint64_t *word) {
    return __atomic_load_n(KASURI__LOW_OF(word), __ATOMIC_RELAXED);
}
/* ORDER acquire; pairs with the release of kasuri__commit: as above. */
KASURI__INLINE int kasuri__is_open(const uint64_t *stamp) {
    return __atomic_load_n(KASURI__LOW_OF(stamp), __ATOMIC_ACQUIRE) == 0;
}
#endif

/* The clock of stamps. Each is one instruction that does not wait for those before it, so a stamp may be a little earlier
 * than the end of the work before it. A CPU without a counter that all user code may read takes the slow path and its
 * clock; so does a session whose recorder found the counter unfit. A program of 32-bit ARM takes no part in a session of
 * ARM's counter, which its CPU may not have. */
#if defined(__x86_64__) || defined(__i386__)
#define KASURI__NATIVE 1
KASURI__INLINE uint64_t kasuri__stamp(void) {
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define KASURI__NATIVE 1
KASURI__INLINE uint64_t kasuri__stamp(void) {
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
}
#elif defined(__riscv) && __riscv_xlen == 64
#define KASURI__NATIVE 1
KASURI__INLINE uint64_t kasuri__stamp(void) {
    uint64_t t;
    __asm__ volatile("rdtime %0" : "=r"(t));
    return t;
}
#else
#define KASURI__NATIVE 0
KASURI__INLINE uint64_t kasuri__stamp(void) {
    return 1;
}
#endif
