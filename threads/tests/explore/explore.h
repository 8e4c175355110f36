/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * explore.h - run the shipped C under every schedule, and under every value that C11 lets an atomic load return.
 *
 * A program is a few threads and what must hold. Its file includes the sources of libito that it checks (`#include
 * "deque.c"`) and is compiled with -fsanitize=thread, which puts a call in front of every access to memory. explore.c
 * answers those calls instead of ThreadSanitizer's run time: each atomic operation is a point where another thread may
 * go on, a relaxed load may return any value that is not yet overwritten for the reading thread, and a plain access
 * that is not ordered with one of another thread is reported as a race. So a missing release, acquire, fence or
 * membarrier is found in the C itself. README.md says what is not modelled.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_THREADS 4

struct explore_program {
    const char *name;
    unsigned n_threads;
    void (*start)(void);             /* builds the first state; nothing else runs yet */
    void (*thread)(unsigned thread); /* what each thread does */
    const char *(*end)(void);        /* no thread can go on: what is wrong, or null */
};
/* Ends with a null name. */
extern const struct explore_program explore_programs[];

/* ---- for start() ------------------------------------------------------------------------------------------------- */

/* Memory that is part of the state; zeroed. Only what is registered here, or lies on a thread's stack, may change. */
void *explore_alloc(size_t bytes);
void explore_region(void *at, size_t bytes);
/* A name for an atomic field, for messages. Registering the fields first also keeps the number of states small. */
void explore_name(const void *field, size_t bytes, const char *name);
#define EXPLORE_FIELD(field) explore_name(&(field), sizeof(field), #field)
/* A field that nobody writes while the threads run: reading it is no point to switch at. */
void explore_constant(const void *field);

/* ---- for threads ------------------------------------------------------------------------------------------------- */

unsigned explore_thread(void);
void explore_fail(const char *what) __attribute__((noreturn));
/* This schedule is followed no further: a bound on loops that could go on for ever. */
void explore_cut(void) __attribute__((noreturn));
/* Memory that goes back to explore_alloc(); touching it afterwards is a failure. */
void explore_free(void *at, size_t bytes);
/* A sequentially consistent fence; with another thread's number a membarrier, as far as it concerns that thread. */
void explore_fence_on(unsigned thread);
/* futex: sleep if *word == value; wake up to n sleepers. */
void explore_wait(uint32_t *word, uint32_t value);
void explore_wake(uint32_t *word, int n);
/* Counters outside the modelled memory, for end(). */
uint8_t *explore_book(unsigned i);

/* ---- for end() --------------------------------------------------------------------------------------------------- */

bool explore_is_done(unsigned thread);

#endif
