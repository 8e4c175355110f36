/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls that -fsanitize=thread puts in front of every access, as gcc and clang name them; answered by explore.c. */
#include "explore_hooks.h"

#include "core/internal.h"

#include <string.h>

#define CALLER __builtin_return_address(0)

/* ---- plain accesses ---------------------------------------------------------------------------------------------- */

#define PLAIN(bytes)                                                                                                   \
    void __tsan_read##bytes(void *at) {                                                                                \
        explore_plain(at, bytes, false);                                                                               \
    }                                                                                                                  \
    void __tsan_write##bytes(void *at) {                                                                               \
        explore_plain(at, bytes, true);                                                                                \
    }                                                                                                                  \
    void __tsan_unaligned_read##bytes(void *at) {                                                                      \
        explore_plain(at, bytes, false);                                                                               \
    }                                                                                                                  \
    void __tsan_unaligned_write##bytes(void *at) {                                                                     \
        explore_plain(at, bytes, true);                                                                                \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
/* Vectors of two words: the fields they cover are words. */
void __tsan_read16(void *at) {
    explore_plain(at, 8, false);
    explore_plain((char *)at + 8, 8, false);
}
void __tsan_write16(void *at) {
    explore_plain(at, 8, true);
    explore_plain((char *)at + 8, 8, true);
}
void __tsan_unaligned_read16(void *at) {
    __tsan_read16(at);
}
void __tsan_unaligned_write16(void *at) {
    __tsan_write16(at);
}

/* Word by word: what libito copies and clears are arrays of words. */
void __tsan_read_range(void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 8)
        explore_plain((char *)at + i, 8, false);
}
void __tsan_write_range(void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 8)
        explore_plain((char *)at + i, 8, true);
}
void *explore_memcpy(void *to, const void *from, size_t bytes) {
    __tsan_read_range((char *)(uintptr_t)from, bytes);
    __tsan_write_range(to, bytes);
    return memcpy(to, from, bytes);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    return explore_memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
    __tsan_write_range(to, bytes);
    return memset(to, value, bytes);
}

/* ---- atomic operations ------------------------------------------------------------------------------------------- */

#define RMW(bits, type, name, which)                                                                                   \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order) {                                      \
        return (type)explore_rmw((void *)(uintptr_t)at, bits / 8, which, value, order);                                \
    }
#define ATOMIC(bits, type)                                                                                             \
    type __tsan_atomic##bits##_load(const volatile type *at, int order) {                                              \
        return (type)explore_load((void *)(uintptr_t)at, bits / 8, order, CALLER);                                     \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order) {                                       \
        explore_store((void *)(uintptr_t)at, bits / 8, value, order);                                                  \
    }                                                                                                                  \
    RMW(bits, type, exchange, EXPLORE_EXCHANGE)                                                                        \
    RMW(bits, type, fetch_add, EXPLORE_ADD)                                                                            \
    RMW(bits, type, fetch_sub, EXPLORE_SUB)                                                                            \
    RMW(bits, type, fetch_and, EXPLORE_AND)                                                                            \
    RMW(bits, type, fetch_or, EXPLORE_OR)                                                                              \
    RMW(bits, type, fetch_xor, EXPLORE_XOR)                                                                            \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type value, int order,           \
                                                    int order_failed) {                                                \
        return (type)explore_cas((void *)(uintptr_t)at, bits / 8, expected, value, order, order_failed);               \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected, type value, int order,        \
                                                      int order_failed) {                                              \
        type old = __tsan_atomic##bits##_compare_exchange_val(at, *expected, value, order, order_failed);              \
        int same = old == *expected;                                                                                   \
        *expected = old;                                                                                               \
        return same;                                                                                                   \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type value, int order,          \
                                                    int order_failed) {                                                \
        return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, order, order_failed);                \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order) {
    (void)order; /* libito has full fences only */
    explore_fence_on(explore_thread());
}
void __tsan_atomic_signal_fence(int order) {
    (void)order;
}

/* In this file, so that explore.c's compiler cannot know which of its variables are used on the other side. */
void explore_switch(void **save, void *to) {
    ito__context_switch(save, to, NULL, NULL);
}

/* ---- what the explorer has no use for ---------------------------------------------------------------------------- */

void __tsan_init(void) {}
void __tsan_func_entry(void *caller) {
    (void)caller;
}
void __tsan_func_exit(void) {}
void *__tsan_get_current_fiber(void) {
    return NULL;
}
void *__tsan_create_fiber(unsigned flags) {
    (void)flags;
    return NULL;
}
void __tsan_destroy_fiber(void *fiber) {
    (void)fiber;
}
void __tsan_switch_to_fiber(void *fiber, unsigned flags) {
    (void)fiber, (void)flags;
}
