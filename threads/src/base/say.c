/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/say.h"

#include "base/symbol.h"

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

void ito__text_write(const struct ito__text *t) {
    struct ito__text whole = *t;
    whole.line[whole.n++] = '\n';
    if (write(2, whole.line, whole.n) < 0)
        whole.n = 0; /* nobody is left to tell */
}
