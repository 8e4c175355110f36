/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages about threads. */
#include "core/internal.h"

#include <stdlib.h>

const void *ito__function_of(const struct ito_thread *t) {
    if (t->flags & ITO__FORKED)
        return (const void *)(uintptr_t)((struct ito__fork *)t->arg)->run;
    return (const void *)(uintptr_t)t->fn;
}

void ito__text_thread(struct ito__text *t, const struct ito_thread *thread) {
    if (thread && thread->name) {
        ito__text_add(t, thread->name);
        ito__text_add(t, " ");
    }
    ito__text_add(t, "(");
    ito__text_hex(t, (uintptr_t)thread);
    const void *function = thread ? ito__function_of(thread) : NULL;
    if (function) {
        ito__text_add(t, ", ");
        ito__text_function(t, function);
    }
    ito__text_add(t, ")");
}

const char *ito__wait_word(uint32_t kind) {
    static const char *const words[] = {
        [ITO__WAIT_NONE] = "yield",      [ITO__WAIT_JOIN] = "join",     [ITO__WAIT_MUTEX] = "mutex",
        [ITO__WAIT_COND] = "condition",  [ITO__WAIT_RWLOCK] = "rwlock", [ITO__WAIT_SEMAPHORE] = "semaphore",
        [ITO__WAIT_BARRIER] = "barrier", [ITO__WAIT_ONCE] = "once",     [ITO__WAIT_SLEEP] = "sleep",
        [ITO__WAIT_GROUP] = "group",     [ITO__WAIT_FUTURE] = "future", [ITO__WAIT_FORK] = "sync",
        [ITO__WAIT_GRAPH] = "graph",     [ITO__WAIT_IO] = "I/O",        [ITO__WAIT_CALL] = "call",
        [ITO__WAIT_CHANNEL] = "channel", [ITO__WAIT_SELECT] = "select", [ITO__WAIT_STOP] = "stop",
        [ITO__WAIT_UNCOND] = "uncond",   [ITO__WAIT_FUTEX] = "futex",
    };
    return kind < sizeof words / sizeof *words && words[kind] ? words[kind] : "";
}

/* For mistakes that no return value can report: a message, then abort. */
void ito__fatal(const char *what, const struct ito_thread *t) {
    struct ito__text text = {.n = 0};
    ito__text_add(&text, "ito: error: ");
    ito__text_add(&text, what);
    ito__text_add(&text, " (thread ");
    ito__text_thread(&text, t);
    ito__text_add(&text, ")");
    ito__text_write(&text);
    abort();
}
