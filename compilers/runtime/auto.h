/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the compiler plugins insert, and what it calls. Read this first; the design is docs/design/compilers.md.
 *
 * At the begin of a function or loop, and at its ends, a program of a plugin has this, inline:
 *
 *     token = kasuri__gate.gate && !site.off ? kasuri_auto_begin(&site) : 0;
 *     ...
 *     if (token) kasuri_auto_end(&site, token);
 *
 * Where control arrives by other ways than edges of the function's graph, at landing pads and after setjmp():
 *
 *     kasuri_auto_rewind(token of the innermost annotated loop or function that goes on here, or its depth at entry);
 *
 * All functions: any thread, also in signal handlers; errno is kept.
 */
#ifndef KASURI_AUTO_H
#define KASURI_AUTO_H

#include "kasuri.h"

/* A function or loop, in section kasuri_auto_sites of its module; the plugins make it, field by field. */
struct kasuri_auto_site {
    struct kasuri_site site;
    uint32_t off;     /* not 0: too short to be annotated; stays so until the program ends */
    uint32_t mean_ns; /* then: the mean that was too short */
};

/** kasuri_auto_begin - the function or loop begins. Return: its token, or 0: it is not recorded. */
uint32_t kasuri_auto_begin(struct kasuri_auto_site *site);
/** kasuri_auto_end - it ends, and whatever began in it and has not. A token that is not its own is ignored. */
void kasuri_auto_end(struct kasuri_auto_site *site, uint32_t token);
/** kasuri_auto_depth - how many slices of plugins the thread has open. */
uint32_t kasuri_auto_depth(void);
/** kasuri_auto_rewind - all slices end that were begun after there were @depth. A token is such a depth. */
void kasuri_auto_rewind(uint32_t depth);

#endif
