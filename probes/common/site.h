/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Addresses of the program as sites of the trace; see site.c. Thread: any. Signal: safe. The strings of a site never
 * change and are never freed. Null: the table is full, or there is nothing to say of the address.
 */
#ifndef KASURI_PROBE_SITE_H
#define KASURI_PROBE_SITE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define KASURI_LAZY_START
#ifndef PROBE_RING
#define KASURI_DECLARE_ONLY
#endif
#include "kasuri.h"

#define PROBE_PLACES 126u /* kinds of places: 7 bits of a key, less two kinds of other addresses */

/* Where a call returns to. The recorder names it by its function. */
struct kasuri_site *probe_call_site(uintptr_t caller) __attribute__((cold, noinline, visibility("hidden")));
/* A variable, by its symbol. */
struct kasuri_site *probe_symbol(uintptr_t address) __attribute__((cold, noinline, visibility("hidden")));
/* Where a call returns to, or the address behind the first byte of a function: the recorder names it "what
 * function:line". One string for each kind, which is below PROBE_PLACES. */
struct kasuri_site *probe_place(uintptr_t address, uint32_t kind, const char *what)
    __attribute__((cold, noinline, visibility("hidden")));

#endif
