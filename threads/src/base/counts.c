/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ITO_STATS=1: hand-overs and waits for I/O by the name of their call, told by ito_fini. Names are compared by their text
 * and copied, since a name may lie in memory that is used again; a program may make up any number of them, so those after
 * the first N_ROWS count as one row.
 */
#include "base/counts.h"

#include "base/say.h"
#include "prim/spin.h"

#include <string.h>

#define N_ROWS 32u
#define NAME_BYTES 20u

/* Under `lock`. The last row is that of all further names. */
static struct {
    struct ito__spin lock;
    uint32_t n;
    struct row {
        char name[NAME_BYTES];
        uint64_t n[ITO__N_COUNTED], ns[ITO__N_COUNTED];
    } rows[N_ROWS + 1];
} counts;
uint32_t ito__counting;

void ito__counts_start(bool on) {
    memset(&counts, 0, sizeof counts);
    store_relaxed(&ito__counting, on);
}

static struct row *row_of(const char *name) {
    uint32_t i = 0;
    while (i < counts.n && strncmp(counts.rows[i].name, name, NAME_BYTES - 1) != 0)
        i++;
    if (i == counts.n && i < N_ROWS)
        strncpy(counts.rows[counts.n++].name, name, NAME_BYTES - 1);
    return &counts.rows[i];
}

void ito__count(enum ito__counted what, const char *name, uint64_t ns) {
    ito__spin_lock(&counts.lock);
    struct row *row = row_of(name);
    row->n[what]++;
    row->ns[what] += ns;
    ito__spin_unlock(&counts.lock);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* In a column that ends `width` bytes further on. */
static void add_right(struct ito__text *t, const struct ito__text *what, size_t width) {
    for (size_t n = what->n; n < width; n++)
        ito__text_add(t, " ");
    ito__text_add(t, what->line);
}

/* "190" and "1234.5 ms". */
static void add_counted(struct ito__text *t, const struct row *row, enum ito__counted what) {
    struct ito__text number = {.n = 0}, ms = {.n = 0};
    ito__text_number(&number, row->n[what]);
    add_right(t, &number, 12);
    ito__text_number(&ms, row->ns[what] / 1000000u);
    ito__text_add(&ms, ".");
    ito__text_number(&ms, row->ns[what] / 100000u % 10u);
    ito__text_add(&ms, " ms");
    add_right(t, &ms, 15);
}

static void say_row(const struct row *row) {
    struct ito__text t = {.n = 0};
    ito__text_add(&t, "ito: ");
    ito__text_add(&t, row->name);
    while (t.n < 5 + NAME_BYTES)
        ito__text_add(&t, " ");
    add_counted(&t, row, ITO__COUNT_HANDED_OVER);
    add_counted(&t, row, ITO__COUNT_IO_WAIT);
    ito__text_write(&t);
}

void ito__counts_say(uint32_t spares) {
    struct ito__text title = {.n = 0}, last = {.n = 0};
    if (!ITO__COUNTING)
        return;
    ito__text_add(&title, "ito: call                 handed over            for   I/O waits            for");
    ito__text_write(&title);
    strcpy(counts.rows[N_ROWS].name, "other calls");
    for (uint32_t i = 0; i <= N_ROWS; i++)
        if (counts.rows[i].n[ITO__COUNT_HANDED_OVER] + counts.rows[i].n[ITO__COUNT_IO_WAIT] > 0)
            say_row(&counts.rows[i]);
    ito__text_add(&last, "ito: spare kernel threads made: ");
    ito__text_number(&last, spares);
    ito__text_write(&last);
}
