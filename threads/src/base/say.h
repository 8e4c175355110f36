/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages to people, on stderr. They are put together without stdio and the heap, which may be what is broken, and
 * written by one system call: a signal handler may use all of it.
 */
#ifndef ITO_SAY_H
#define ITO_SAY_H

#include <stddef.h>
#include <stdint.h>

/* What does not fit is cut. Starts as {.n = 0}. */
struct ito__text {
    size_t n;
    char line[600];
};
void ito__text_add(struct ito__text *t, const char *s);
void ito__text_number(struct ito__text *t, uint64_t value);
void ito__text_hex(struct ito__text *t, uint64_t value);
/* "dig()", or where in memory it is: the function that @code lies in. */
void ito__text_function(struct ito__text *t, const void *code);
void ito__text_write(const struct ito__text *t); /* adds the end of the line */

#endif
