/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What confine.c needs of the client (ring.c) and of the modules (gates.c). */
#ifndef KASURI_PROBE_CONFINE_H
#define KASURI_PROBE_CONFINE_H

#include "probe.h"

#define PROBE_TEXT_BYTES 112u /* of a text, padded with 0 */

/* An event whose room is taken before the program is confined, and which is written after. */
struct probe_text {
    uint64_t *slot; /* null: there is no room */
    uint64_t stamp;
};

/* ring.c. Takes part in the session if the process has not yet, as a forked child. */
PROBE_COLD struct probe_text probe_reserve_text(void);
/* No system call, no look at a clock. */
PROBE_COLD void probe_write_text(const struct probe_text *t, const char text[PROBE_TEXT_BYTES]);
/* Whether stamps need no system call. */
PROBE_COLD int probe_stamps_natively(void);
/* Whether this is a child of vfork, in the memory of its parent. */
PROBE_COLD int probe_is_guest(void);

/* syscall(3), before the next one is known: a malloc that is preloaded may call it under dlsym(). */
PROBE_COLD long probe_early_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* gates.c: fills `gates` and returns how many there are, at most `room`. */
PROBE_COLD unsigned probe_find_gates(struct kasuri_gate **gates, unsigned room);

#endif
