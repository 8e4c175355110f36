/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The collector: receives the annotations of programs that were written for another tool, and records them as Kasuri's.
 *
 *   itt.c    Intel's ITT, which loads the library that INTEL_LIBITTNOTIFY64 names
 *   nvtx.c   NVIDIA's NVTX, which loads the one that NVTX_INJECTION64_PATH names
 *   names.c  texts -> names of the trace
 *   spans.c  what a thread keeps; its slices, which nest in each domain and not among domains
 *
 * Rules. Nothing that a program passes is trusted to be sensible (null, ends without begins, another thread's), but
 * pointers are valid, as for any tool. No lock: a program's threads never wait for each other here. The program's errno
 * is left alone by the client of annotate/. What has no counterpart in Kasuri is not recorded; docs/guide/itt-nvtx.md
 * lists it.
 */
#ifndef KASURI_COLLECTOR_H
#define KASURI_COLLECTOR_H

#include "kasuri.h"

#include <stddef.h>

/* Names that are told apart; all beyond are NAME_OTHERS. kasuri_intern is linear in their number. */
#define NAMES_MAX 4096u
#define NAME_OTHERS "(more names)"
/* Slices of a thread that are open at once and told apart; deeper ones are not recorded, which is said once. */
#define DEPTH_MAX 64

/* The id of a text for kasuri_begin() and others; 0 for null. About 1 ns a byte from the second use on. Any thread. */
uint32_t name_of(const char *text);
/* The same for wide characters, as far as they are Unicode. */
uint32_t name_of_wide(const wchar_t *text);

/* Locks that a thread holds at once and that are told apart. */
#define HELD_MAX 8

/* What a thread keeps, in memory of its own: thread-local storage of a library that is loaded later is scarce. */
struct thread {
    uint32_t depth; /* open slices; those beyond DEPTH_MAX have no entry */
    struct span {
        const void *domain;
        uint32_t name;
        uint32_t is_recorded; /* a recorder was there when it began */
    } spans[DEPTH_MAX];
    uintptr_t asked, held[HELD_MAX]; /* objects of itt.c; 0: none */
    int asked_barrier;               /* what was asked for began as a wait at a barrier: it ends as one */
};
/* This thread's; null: no memory. */
struct thread *this_thread(void);

/* A slice of this thread begins. Return: how many of the same domain were open before, or -1 without memory. */
int span_begin(const void *domain, uint32_t name);
/* Ends this thread's innermost slice of the domain. Those of other domains above it go on: they are ended and begun
 * again. Return: how many of the domain stay open, or -1: there was none. */
int span_end(const void *domain);

/* Something that begins on one thread and may end on another, or outlive a slice around it: an arrow. */
void arrow_begin(uint32_t name, uint64_t id);
void arrow_end(uint64_t id);

#endif
