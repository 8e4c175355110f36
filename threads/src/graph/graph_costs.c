/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Costs of tasks out of what `kasuri plan --costs` printed: a line that says so, a line "ID NS" for each task of the
 * recording, and at the end how many these were, so that a file that was cut is known. Lines that begin with # are for
 * people. An id says which of a graph's tasks it was.
 */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "kasuri.costs/1\n"

/* What was found so far, by task. */
struct found {
    const ito_graph *g;
    uint64_t *sum, *n;
    uint64_t n_lines;
    bool is_whole; /* the last line was there */
};

/* Digits up to `end`, which is passed; false: something else, or too large a number. */
static bool number(const char **at, char end, uint64_t *out) {
    uint64_t value = 0;
    const char *digit = *at;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*digit - '0'), &value))
            return false;
    if (digit == *at || *digit != end)
        return false;
    *at = digit + 1;
    *out = value;
    return true;
}

/* A line behind the first; false: it is none of these, or stands behind the last one. */
static bool read_line(struct found *f, const char *line) {
    uint64_t id, ns;
    if (f->is_whole)
        return false;
    if (!strncmp(line, "end ", 4)) {
        line += 4;
        f->is_whole = number(&line, '\n', &ns) && *line == 0 && ns == f->n_lines;
        return f->is_whole;
    }
    if (!number(&line, ' ', &id) || !number(&line, '\n', &ns) || *line)
        return false;
    f->n_lines++;
    uint32_t task = ITO__ID_GRAPH_TASK(id);
    if ((id & ITO__ID_GRAPH) != ITO__ID_GRAPH || ITO__ID_GRAPH_NUMBER(id) != ITO__ID_GRAPH_NUMBER_OF(f->g->number) ||
        task >= f->g->n_tasks || ns == 0)
        return true;
    f->n[task]++;
    return !__builtin_add_overflow(f->sum[task], ns, &f->sum[task]);
}

static int read_costs(struct found *f, FILE *file) {
    char line[64]; /* two numbers; only lines for people are longer */
    bool is_first = true, is_good = true, in_comment = false;
    while (is_good && fgets(line, sizeof line, file)) {
        if (is_first)
            is_good = !strcmp(line, FIRST_LINE);
        else if (in_comment || line[0] == '#')
            in_comment = strchr(line, '\n') == NULL;
        else
            is_good = read_line(f, line);
        is_first = false;
    }
    if (ferror(file))
        return EIO;
    return is_good && f->is_whole ? 0 : EILSEQ;
}

static int take_costs(ito_graph *g, FILE *file, size_t *n_found) {
    struct found f = {.g = g};
    size_t tasks = (size_t)g->n_tasks + 1, found = 0; /* never 0 bytes */
    f.sum = calloc(tasks, sizeof *f.sum);
    f.n = calloc(tasks, sizeof *f.n);
    int r = f.sum && f.n ? read_costs(&f, file) : ENOMEM;
    for (uint32_t i = 0; r == 0 && i < g->n_tasks; i++)
        if (f.n[i]) {
            g->about[i].cost_ns = f.sum[i] / f.n[i];
            found++;
        }
    if (r == 0 && n_found)
        *n_found = found;
    if (found)
        ito__graph_forget(g);
    free(f.sum);
    free(f.n);
    return r;
}

int ito_graph_costs(ito_graph *g, const char *path, size_t *found) {
    if (!ito__graph_enter(g))
        return EBUSY;
    FILE *file = fopen(path, "re");
    int r = file ? take_costs(g, file, found) : errno;
    if (file)
        fclose(file);
    return ito__graph_leave(g, r);
}
