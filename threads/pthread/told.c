/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a recorder is told of a preloaded program: calls whose worker was given away, pinned threads, and why there are no light
 * threads. docs/design/pthread.md, "Seen".
 *
 * The rings of kasuri.h know a kernel thread by a thread-local variable, and a light thread has that of nobody. So the events are
 * written with the thread pointer of the kernel thread that the caller is on: nothing thread-local of the caller's is used in between,
 * and kasuri.h makes system calls by their numbers, so none of this library's functions is entered.
 */
#include "light.h"

#include "core/carrier.h"
#include "told.h"

#undef KASURI_DISABLE
#include <kasuri.h>

uint32_t ito__telling;

void ito__told_look(void) {
    uint32_t gate = kasuri__gate_load();
    if (gate > 1) { /* a recorder asks the program to attach: any annotation does that */
        KASURI_INSTANT("ito: a recorder came");
        gate = kasuri__gate_load();
    }
    store_relaxed(&ito__telling, gate == 1);
}

uint64_t ito__told_stamp(void) {
    return kasuri__stamp();
}

struct name {
    char text[96];
};
/* The thread pointer may change between two of these functions: so each is a call. */
static __attribute__((noinline)) void set_thread_pointer(char *tp) {
    arch_set_thread_pointer(tp);
}

static __attribute__((noinline)) void begin_slice(const struct name *name, uint64_t began) {
    kasuri__slow_at(0, (int32_t)kasuri_intern(name->text), KASURI_EV_BEGIN | 1u << 8, 0, began, 0, 0);
}
static __attribute__((noinline)) void end_slice(void) {
    KASURI_END();
}

/* "WHAT: WHY", as in futex where the watcher says "in futex". */
static void compose(struct name *name, const char *what, const char *why) {
    size_t n = strlen(what);
    memcpy(name->text, what, n);
    if (strncmp(why, "in ", 3) == 0)
        why += 3;
    for (; *why && n < sizeof name->text - 1; why++)
        name->text[n++] = *why;
    name->text[n] = 0;
}

/* The context of the loop of that carrier is no thread's, so nobody is its worker. */
static char *enter(const struct ito__carrier *c) {
    char *mine = arch_thread_pointer(), *tp = c->home.stack->tls;
    *(struct ito__worker **)(tp + ito__tls_worker_at) = &ito__nobody;
    set_thread_pointer(tp);
    return mine;
}

void ito__told_handed_over(const struct ito__carrier *c, const char *call, uint64_t began) {
    struct name name;
    compose(&name, "handed over: ", call);
    char *mine = enter(c);
    begin_slice(&name, began);
    end_slice();
    set_thread_pointer(mine);
}

void ito__told_pinned(const struct ito__carrier *c, const char *why) {
    struct name name;
    compose(&name, "pinned: ", why);
    char *mine = enter(c);
    begin_slice(&name, 0);
    set_thread_pointer(mine);
}

void ito__told_unpinned(const struct ito__carrier *c) {
    char *mine = enter(c);
    end_slice();
    set_thread_pointer(mine);
}

void ito__told_refused(const char *why) {
    struct name name;
    ito__told_look();
    if (!load_relaxed(&ito__telling))
        return;
    compose(&name, "no light threads: ", why);
    begin_slice(&name, 0);
    end_slice();
}
