/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "say.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ito__text_add(struct ito__text *t, const char *s) {
    while (*s && t->n < sizeof t->line - 1) /* one for the end of the line */
        t->line[t->n++] = *s++;
}

static void add_number(struct ito__text *t, uint64_t value, unsigned base) {
    char digits[24], *at = digits + sizeof digits;
    *--at = 0;
    do
        *--at = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    ito__text_add(t, at);
}

void ito__text_number(struct ito__text *t, uint64_t value) {
    add_number(t, value, 10);
}

void ito__text_hex(struct ito__text *t, uint64_t value) {
    ito__text_add(t, "0x");
    add_number(t, value, 16);
}

void ito__text_function(struct ito__text *t, const void *code) {
    char name[128], path[128];
    ito__symbol(code, name, sizeof name, path, sizeof path);
    char *task = strstr(name, "__ito_run"); /* what ITO_TASK makes of a function */
    if (task && strcmp(task, "__ito_run") == 0)
        *task = 0;
    if (name[0]) {
        ito__text_add(t, name);
        ito__text_add(t, "()");
        return;
    }
    ito__text_hex(t, (uintptr_t)code);
    if (path[0]) {
        ito__text_add(t, " of ");
        ito__text_add(t, path);
    }
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

void ito__text_write(const struct ito__text *t) {
    struct ito__text whole = *t;
    whole.line[whole.n++] = '\n';
    if (write(2, whole.line, whole.n) < 0)
        whole.n = 0; /* nobody is left to tell */
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
