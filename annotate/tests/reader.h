/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A recorder small enough to test against: makes a session, drains and frees chunks, counts what it finds.
 * It checks what the real recorder relies on (states, sequence numbers, zeroes) and ends the process where that is
 * broken.
 */
#ifndef KASURI_TESTS_READER_H
#define KASURI_TESTS_READER_H

#include <stdint.h>
#include <sys/types.h>

#define KASURI_DISABLE /* the reader is not annotated */
#include "kasuri.h"

/* The clock that programs of this CPU can stamp by. */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
#define READER_CLOCK KASURI_CLOCK_NATIVE
#else
#define READER_CLOCK KASURI_CLOCK_MONOTONIC
#endif

#define READER_MAX_CLIENTS 4096
#define READER_MAX_SITES 4096

struct reader_event {
    uint32_t pid, gen, stream, tid;
    uint64_t stamp;
    uint32_t kind, slots, aux, site;
    const uint64_t *payload;
};

struct reader_options {
    const char *root; /* where the session directory is made; default /dev/shm */
    uint32_t policy, clock, chunk_bytes, first_chunks, flight_chunks;
    uint64_t max_bytes;
    int no_free; /* drain nothing until the end */
    int is_live; /* the program may write while we finish */
    int no_lock; /* do not hold the recorder's lock */
};

struct reader;
typedef void reader_visit(void *context, const struct reader_event *event);

struct reader_totals {
    uint64_t kept, lost, lost_by[KASURI_LOST_CAUSES], by_kind[32];
    uint64_t open_records; /* reserved, never committed */
    uint64_t chunks, reaped, segments, clients, unnamed;
    uint64_t out_of_order; /* stamps lower than the one before, in one chunk */
};

/* Zero options take defaults: grow, READER_CLOCK, 32768, 64 chunks, 4, 256 MiB. Null: no session, errno tells. */
struct reader *reader_open(const struct reader_options *options, reader_visit *visit, void *context);
const char *reader_path(const struct reader *r);
struct kasuri_control *reader_control(struct reader *r);
void reader_poll(struct reader *r);   /* new clients and segments, FULL chunks, dead threads */
void reader_finish(struct reader *r); /* also OWNED chunks, as at the end of a recording */
const struct reader_totals *reader_totals(const struct reader *r);
/* Name of a site; null when its definition is missing. */
const char *reader_site(struct reader *r, uint32_t pid, uint32_t gen, uint32_t id);
void reader_unlock(struct reader *r);
void reader_close(struct reader *r); /* removes the session */

#endif
