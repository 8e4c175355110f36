/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Numbers from the environment. A variable that is missing or empty leaves the default; one that is wrong is told, and
 * refused, since a program that silently runs with other values than asked for is worse than one that does not start.
 */
#include "base/env.h"

#include "base/say.h"

#include <errno.h>
#include <stdlib.h>

static void add_size(struct ito__text *t, size_t bytes) {
    unsigned unit = 0;
    while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0)
        bytes /= 1024, unit++;
    ito__text_number(t, bytes);
    ito__text_add(t, (const char *[]){"", "K", "M", "G", "T"}[unit]);
}

static bool refuse(const struct ito__variable *v, const char *text) {
    struct ito__text t = {.n = 0};
    ito__text_add(&t, "ito: error: ");
    ito__text_add(&t, v->name);
    ito__text_add(&t, "=");
    ito__text_add(&t, text);
    ito__text_add(&t,
                  v->is_size ? ": expected a size in bytes, as 65536, 64K or 1M, from " : ": expected a number from ");
    if (v->is_size)
        add_size(&t, v->least);
    else
        ito__text_number(&t, v->least);
    ito__text_add(&t, " to ");
    if (v->is_size)
        add_size(&t, v->most);
    else
        ito__text_number(&t, v->most);
    ito__text_write(&t);
    return false;
}

/* "K", "KB", "KiB", in either case: all mean 1,024. Also M, G, T. 0: none of them. */
static size_t unit_of(const char *text) {
    static const char units[] = "KMGT";
    size_t bytes = 1;
    if (*text == 0)
        return bytes;
    for (unsigned i = 0; units[i]; i++) {
        bytes = bytes <= SIZE_MAX / 1024 ? bytes * 1024 : 0;
        if ((*text & ~32) != units[i])
            continue;
        text++;
        if ((*text & ~32) == 'I')
            text++;
        if ((*text & ~32) == 'B')
            text++;
        return *text == 0 ? bytes : 0;
    }
    return 0;
}

bool ito__env(const struct ito__variable *v, size_t *value) {
    const char *text = getenv(v->name);
    char *end;
    int saved = errno;
    if (text == NULL || *text == 0)
        return true;
    if (*text < '0' || *text > '9') /* strtoull takes signs and spaces */
        return refuse(v, text);
    unsigned long long n = strtoull(text, &end, 10); /* too large: ULLONG_MAX, which is more than `most` */
    errno = saved;
    size_t unit = v->is_size ? unit_of(end) : *end == 0;
    if (unit == 0 || n > v->most / unit || n * unit < v->least)
        return refuse(v, text);
    *value = (size_t)n * unit;
    return true;
}
