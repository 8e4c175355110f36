/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A wait as a pair of events. A cancelled thread may leave the real function by unwinding, so the end of the wait is
 * written in a cleanup handler, which the unwinder runs before the program's own handlers. Use:
 *   struct probe_wait w;
 *   probe_wait_begin(&w, kind, object, mutex or 0, PROBE_CALLER());
 *   PROBE_WAIT(r, w, the real call);
 *   probe_wait_end(&w);
 */
#ifndef KASURI_PROBE_WAIT_H
#define KASURI_PROBE_WAIT_H

#include "probe.h"
#include "real.h"

struct probe_wait {
    uint32_t kind; /* enum kasuri_wait_kind */
    const void *object;
    const void *mutex; /* that a condition variable gives back; else null */
    int timed_out;     /* the time limit ended the wait, and no other thread */
};

/* The wait begins; a mutex is about to be released by it. */
PROBE_COLD void probe_wait_begin(struct probe_wait *w, uint32_t kind, const void *object, const void *mutex,
                                 uintptr_t caller);
/* struct probe_wait *: the wait is over, and the mutex ours again. */
PROBE_COLD void probe_wait_end(void *wait);

/* pthread_cleanup_push opens a block and _pop closes it: so a macro, and no function. */
#define PROBE_WAIT(r, w, call)                                                                                         \
    do {                                                                                                               \
        pthread_cleanup_push(probe_wait_end, &(w));                                                                    \
        (r) = (call);                                                                                                  \
        pthread_cleanup_pop(0);                                                                                        \
    } while (0)

#endif
