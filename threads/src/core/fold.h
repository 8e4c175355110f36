/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Small forked tasks of a recorded program are *folded*: counted, and part of the task that runs there. Rules: fold.c
 * and docs/design/seen.md.
 */
#ifndef ITO_FOLD_H
#define ITO_FOLD_H

#include <stdbool.h>
#include <stdint.h>

struct worker;
struct ito__fork;

/* Functions whose tasks may be folded; those of further ones are recorded one by one. */
#define ITO__FOLD_FUNCTIONS 32u

/*
 * What a worker knows of the forks that it folds; its owner's.
 *
 *   run     function of the last one folded; null: ask ito__fold() before the next
 *   task    the recorded task that runs now, for which forks are counted
 *   left    further forks of `run` that need no look; the worker counts by it
 *   given   what `left` was at the last count
 *   index   of `run` in the table of functions
 *   counts  forks that the recorder was not told of yet, by function; `untold` has a bit for each that is not 0
 */
struct ito__fold {
    void (*run)(struct ito__fork *);
    uint64_t task;
    uint32_t left, given, index, untold;
    uint64_t looked;  /* when it last looked at the clock, ns */
    uint32_t due;     /* the next fork is recorded */
    uint32_t moves;   /* times another thread came to run here */
    uint64_t inner;   /* ns of recorded tasks that ran inside of the one that runs now */
    uint64_t n_inner; /* forks folded since it began, without those of recorded tasks inside of it */
    uint32_t counts[ITO__FOLD_FUNCTIONS];
};

/* A forked task that is recorded and runs at its sync: from ito__trace_run() to ito__trace_ran(). */
struct ito__ran {
    uint64_t outer; /* ito_thread.in_place around it */
    uint64_t began, inner, n_inner;
    struct worker *worker;
    uint32_t moves;
};

#define ITO__FOLD_FN __attribute__((noinline, cold))
/* Whether small tasks may be folded at all: ITO_FOLD=0 in the environment says no. Called when a recorder comes. */
ITO__FOLD_FN void ito__fold_allow(void);
/* Id of the task that `fork` is to be counted for; 0: it is recorded. Afterwards the fork may count itself (above). */
ITO__FOLD_FN uint64_t ito__fold(struct worker *w, const struct ito__fork *fork, const char *name);
/* Tells what was counted. Called before the task that runs on `w` changes. */
ITO__FOLD_FN void ito__fold_tell(struct worker *w);
ITO__FOLD_FN void ito__fold_began(struct ito__ran *ran);
ITO__FOLD_FN void ito__fold_ended(const struct ito__ran *ran, const struct ito__fork *fork);
/* Interned name of a folded task's function; 0: none. */
ITO__FOLD_FN uint32_t ito__fold_name(const struct ito__fork *fork);

#endif
