/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts that a traced test program keeps of its own events, in a page shared with the test. */
#ifndef KASURI_TESTS_COUNTS_H
#define KASURI_TESTS_COUNTS_H

#include <stdint.h>

struct counts {
    uint64_t started, done; /* annotations begun and finished while enabled; equal unless killed in between */
    uint64_t stop;          /* test -> program: end now */
    uint64_t gate;          /* address of the program's gate */
    uint64_t enabled;       /* kasuri_enabled(), as last seen */
    uint64_t result;        /* of the program's work */
    uint64_t handlers;      /* signal handlers that annotated */
    uint64_t hold, held;    /* test -> program: one thread stays at HOLD_POINT; program -> test: it is there */
    uint64_t left;          /* the program leaves a session while a thread is held */
    uint64_t client;        /* where the program keeps the address of its client, */
    uint64_t kept_at[2];    /* and where in it the numbers of segments kept are */
};

#endif
