/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a recorder is told (told.c). */
#ifndef ITO_PTHREAD_TOLD_H
#define ITO_PTHREAD_TOLD_H

#include <stdint.h>

struct ito__carrier;

/* 1: a recorder listens. Written by ito__told_look(), read relaxed: an old value loses an event. */
extern uint32_t ito__telling;
/* Is there a recorder? By kernel threads of the library's own: the watcher, as long as anything runs. */
void ito__told_look(void);
uint64_t ito__told_stamp(void);
#define ITO__STAMP() (UNLIKELY(load_relaxed(&ito__telling)) ? ito__told_stamp() : 0)

/* By a thread on the kernel thread of carrier `c`: its call, or its wait, that began at this stamp is over, and the worker is another's. */
void ito__told_handed_over(const struct ito__carrier *c, const char *call, uint64_t began);
/* It keeps that kernel thread for itself from now on, until now. Blocked signals, or none that it could have a handler for. */
void ito__told_pinned(const struct ito__carrier *c, const char *why);
void ito__told_unpinned(const struct ito__carrier *c);
/* By a kernel thread of the program. */
void ito__told_refused(const char *why);

#endif
