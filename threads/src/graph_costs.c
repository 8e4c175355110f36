/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Costs of tasks out of what `kasuri plan --json` printed (docs/schema/plan-1.json): each object of the array "lateness"
 * is a task of the recording. Its id says which of a graph's it was, its planned start and end how long it ran.
 *
 * A reader of JSON that knows no more than this needs: strings are not decoded, numbers are whole, all else is passed
 * over. Memory is the file's size.
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NESTED_MAX 64

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

/* Text that ends with a zero byte; `at` stops there, and at the first thing that is no JSON. */
struct text {
    const char *at;
    bool is_bad;
};

static char look(struct text *t) {
    while (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r')
        t->at++;
    return *t->at;
}
static bool take(struct text *t, char c) {
    if (look(t) != c)
        return false;
    t->at++;
    return true;
}
static void need(struct text *t, char c) {
    if (!take(t, c))
        t->is_bad = true;
}

/* A string as it is written, without its quotes. */
static size_t string(struct text *t, const char **begin) {
    need(t, '"');
    *begin = t->at;
    while (!t->is_bad && *t->at != '"') {
        if (*t->at == '\\' && t->at[1])
            t->at++;
        if (*t->at == 0)
            t->is_bad = true;
        else
            t->at++;
    }
    size_t n = (size_t)(t->at - *begin);
    need(t, '"');
    return n;
}

static void pass(struct text *t, unsigned nested);

/* The next member of an object or element of an array; false: there is none. `first`: none has been seen. */
static bool more(struct text *t, char close, bool first) {
    if (t->is_bad || take(t, close))
        return false;
    if (!first)
        need(t, ',');
    return !t->is_bad;
}

static void pass_nested(struct text *t, char close, unsigned nested) {
    const char *key;
    t->at++;
    for (bool first = true; more(t, close, first); first = false) {
        if (close == '}') {
            string(t, &key);
            need(t, ':');
        }
        pass(t, nested + 1);
    }
}

static void pass(struct text *t, unsigned nested) {
    const char *ignored;
    char c = look(t);
    if (nested > NESTED_MAX)
        t->is_bad = true;
    else if (c == '{' || c == '[')
        pass_nested(t, c == '{' ? '}' : ']', nested);
    else if (c == '"')
        string(t, &ignored);
    else if (strspn(t->at, "+-.0123456789Eaeflnrstu")) /* a number, true, false, null */
        t->at += strspn(t->at, "+-.0123456789Eaeflnrstu");
    else
        t->is_bad = true;
}

static bool is(const char *begin, size_t n, const char *word) {
    return n == strlen(word) && !memcmp(begin, word, n);
}

/* -- the plan ------------------------------------------------------------------------------------------------------ */

/* What was found so far, by task. */
struct found {
    ito_graph *g;
    uint64_t *sum;
    uint32_t *n;
    bool is_plan;
};

static uint64_t number(struct text *t) {
    char c = look(t);
    if (c < '0' || c > '9') { /* nothing that we ask for is negative */
        pass(t, 0);
        return 0;
    }
    char *end;
    uint64_t value = strtoull(t->at, &end, 10);
    t->at = end + strspn(end, ".0123456789Ee+-"); /* a fraction */
    return value;
}

static void read_task(struct text *t, struct found *f) {
    uint64_t id = 0, start = 0, end = 0;
    const char *key;
    need(t, '{');
    for (bool first = true; more(t, '}', first); first = false) {
        size_t n = string(t, &key);
        need(t, ':');
        if (is(key, n, "id"))
            id = number(t);
        else if (is(key, n, "planned_start_ns"))
            start = number(t);
        else if (is(key, n, "planned_end_ns"))
            end = number(t);
        else
            pass(t, 2);
    }
    uint32_t task = ITO__ID_GRAPH_TASK(id);
    if ((id & ITO__ID_GRAPH) == ITO__ID_GRAPH && ITO__ID_GRAPH_NUMBER(id) == (f->g->number & 0x3fffu) &&
        task < f->g->n_tasks && end > start) {
        f->sum[task] += end - start;
        f->n[task]++;
    }
}

static void read_plan(struct text *t, struct found *f) {
    const char *key, *value;
    need(t, '{');
    for (bool first = true; more(t, '}', first); first = false) {
        size_t n = string(t, &key);
        need(t, ':');
        if (is(key, n, "schema")) {
            n = string(t, &value);
            f->is_plan = is(value, n, "kasuri.plan/1");
        } else if (is(key, n, "lateness")) {
            need(t, '[');
            for (bool none = true; more(t, ']', none); none = false)
                read_task(t, f);
        } else {
            pass(t, 1);
        }
    }
    if (look(t))
        t->is_bad = true;
}

/* The whole file with a zero byte behind it. NULL: *error says why. */
static char *read_all(const char *path, int *error) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        *error = errno;
        return NULL;
    }
    char *text = NULL;
    size_t n = 0, room = 0;
    *error = 0;
    for (;;) {
        if (n + 1 >= room) {
            room = room ? 2 * room : 65536;
            char *more = realloc(text, room);
            if (more == NULL) {
                *error = ENOMEM;
                break;
            }
            text = more;
        }
        size_t got = fread(text + n, 1, room - n - 1, file);
        n += got;
        if (got == 0) {
            *error = ferror(file) ? EIO : 0;
            break;
        }
    }
    fclose(file);
    if (*error == 0) {
        text[n] = 0;
        return text;
    }
    free(text);
    return NULL;
}

static int take_costs(ito_graph *g, char *text, size_t *n_found) {
    struct found f = {.g = g};
    f.sum = calloc((size_t)g->n_tasks + 1, sizeof *f.sum);
    f.n = calloc((size_t)g->n_tasks + 1, sizeof *f.n);
    int r = f.sum && f.n ? 0 : ENOMEM;
    size_t found = 0;
    if (r == 0) {
        struct text t = {text, false};
        read_plan(&t, &f);
        r = t.is_bad || !f.is_plan ? EILSEQ : 0;
    }
    for (uint32_t i = 0; r == 0 && i < g->n_tasks; i++)
        if (f.n[i]) {
            g->about[i].cost_ns = f.sum[i] / f.n[i];
            found++;
        }
    if (r == 0 && n_found)
        *n_found = found;
    free(f.sum);
    free(f.n);
    return r;
}

int ito_graph_costs(ito_graph *g, const char *path, size_t *found) {
    if (!ito__graph_enter(g))
        return EBUSY;
    int r;
    char *text = read_all(path, &r);
    if (text)
        r = take_costs(g, text, found);
    free(text);
    if (r == 0)
        ito__graph_forget(g);
    return ito__graph_leave(g, r);
}
