/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counters of what takes long and that nobody sees, for ITO_STATS=1: docs/design/io.md. */
#ifndef ITO_COUNTS_H
#define ITO_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

/* Written by ito_init, read relaxed by any thread, also by one that is no worker. */
extern uint32_t ito__counting;
#define ITO__COUNTING __builtin_expect(__atomic_load_n(&ito__counting, __ATOMIC_RELAXED), 0)

enum ito__counted { ITO__COUNT_HANDED_OVER, ITO__COUNT_IO_WAIT, ITO__N_COUNTED };

void ito__counts_start(bool on);
/* It took so long in a call of this name, which is copied. Any thread. */
void ito__count(enum ito__counted what, const char *name, uint64_t ns);
/* The table, on stderr; nothing unless ITO_STATS=1. The pool has nothing left to run. */
void ito__counts_say(uint32_t spares);

#endif
