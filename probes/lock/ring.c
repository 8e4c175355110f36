/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The annotation client of this module: its gate, its rings, its slow path. All other files of the library include
 * kasuri.h with KASURI_DECLARE_ONLY. */
#define PROBE_RING
#include "confine.h"

#include <errno.h>

struct probe_text probe_reserve_text(void) {
    struct probe_text text = {0, 0};
    struct kasuri__client *c;
    struct kasuri__thread *t;
    uint64_t mask[2];
    uint32_t epoch;
    if (!kasuri__begin_calls(mask))
        return text;
    c = kasuri__get_client();
    if (c) {
        kasuri__enter(c);
        epoch = kasuri__ready(c);
        t = epoch ? kasuri__this_thread(c, epoch) : 0;
        text.slot = t ? kasuri__reserve_slow(c, t, 0, 16 + PROBE_TEXT_BYTES) : 0;
        /* A reader that comes before the text is there steps over so much. */
        if (text.slot)
            kasuri__word1(text.slot, KASURI_EV_MESSAGE | (1 + PROBE_TEXT_BYTES / 16) << 8, 0);
        text.stamp = text.slot ? kasuri__now(c) : 0;
        kasuri__exit(c);
    }
    kasuri__end_calls(mask);
    return text;
}

void probe_write_text(const struct probe_text *t, const char text[PROBE_TEXT_BYTES]) {
    uint32_t length = (uint32_t)__builtin_strlen(text);
    if (!t->slot)
        return;
    kasuri__word1(t->slot, KASURI_EV_MESSAGE | (1 + PROBE_TEXT_BYTES / 16) << 8 | length << 16, 0);
    /* ORDER release; pairs with the acquire fence of a reader, as in kasuri__fill(): word 1 before the payload. */
    KASURI__FENCE(__ATOMIC_RELEASE);
    __builtin_memcpy(t->slot + 2, text, PROBE_TEXT_BYTES);
    kasuri__commit(t->slot, t->stamp);
}

int probe_stamps_natively(void) {
    /* ORDER acquire; pairs with the release in get_client(). */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE);
    return !c || kasuri__stamps_natively(c);
}

int probe_is_guest(void) {
    /* ORDER acquire; pairs with the release in get_client(). Fork wipes the client, vfork leaves it the parent's. */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE);
    return c && c->pid && c->pid != (uint32_t)KASURI__CALL(SYS_getpid, 0, 0, 0, 0);
}

long probe_early_syscall(long nr, long a, long b, long c, long d, long e, long f) {
    long r = kasuri__call(nr, a, b, c, d, e, f);
    if (r >= 0 || r < -4095)
        return r;
    errno = (int)-r;
    return -1;
}
