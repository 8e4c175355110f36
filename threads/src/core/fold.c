/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which forked tasks a recorder hears of one by one, and which are counted: docs/design/seen.md, "Small tasks".
 *
 * Of each function, the first WARM tasks are recorded, and their time without that of the tasks in them is measured. While
 * its mean is below SMALL_NS, tasks of the function are *folded*: the fork is the usual push, by a call that counts. At its
 * sync such a task is a plain call, by the fast path, and its time is that of the recorded task that runs there.
 *
 * Every PERIOD_NS the oldest folded task that is still in the deque, the largest where work is divided, and the next fork are
 * recorded: the first so that parallelism shows, the second so that the measure goes on. So what is written is bounded by time.
 * Who takes a folded task from the deque otherwise, by a steal or because its parent waits, writes its creation first.
 */
#include "core/internal.h"

#include <kasuri.h>

#include <stdlib.h>
#include <string.h>

#ifdef KASURI_DISABLE

void ito__fold_allow(void) {}
uint64_t ito__fold(struct worker *w, const struct ito__fork *fork, const char *name) {
    (void)w, (void)fork, (void)name;
    return 0;
}
void ito__fold_tell(struct worker *w) {
    (void)w;
}
void ito__fold_began(struct ito__ran *ran) {
    (void)ran;
}
void ito__fold_ended(const struct ito__ran *ran, const struct ito__fork *fork) {
    (void)ran, (void)fork;
}
uint32_t ito__fold_name(const struct ito__fork *fork) {
    (void)fork;
    return 0;
}

#else

#define WARM 32u
#define SMALL_NS 2000u
#define MOST_NS 16000u /* a longer task counts as this long: it was interrupted, or its function is not small anyway */
#define PERIOD_NS 100000u /* see above */
#define UNSEEN_FORKS 64u  /* so many folded forks, and the clock is looked at */

/* A function whose tasks were forked. `run` is set once; the others are guesses that any worker may overwrite. */
struct function {
    uintptr_t run;
    uint32_t name; /* interned */
    uint32_t n;    /* measured, up to WARM */
    uint32_t mean; /* ns */
};
static struct function functions[ITO__FOLD_FUNCTIONS];
static uint32_t is_allowed;

void ito__fold_allow(void) {
    const char *text = getenv("ITO_FOLD");
    store_relaxed(&is_allowed, !(text && strcmp(text, "0") == 0));
}

/* Its row, a new one if there is room, else null. */
static struct function *function_of(const struct ito__fork *fork) {
    uintptr_t run = (uintptr_t)fork->run;
    uint32_t at = (uint32_t)((run >> 4) * 0x9e3779b97f4a7c15u >> 59);
    for (uint32_t i = 0; i < ITO__FOLD_FUNCTIONS; i++) {
        struct function *f = &functions[(at + i) % ITO__FOLD_FUNCTIONS];
        uintptr_t has = load_relaxed(&f->run);
        /* Relaxed: each value of the row is good alone. */
        if (has == run ||
            (has == 0 &&
             (__atomic_compare_exchange_n(&f->run, &has, run, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || has == run)))
            return f;
    }
    return NULL;
}

/* Takes over what the forks have counted since. */
static void count(struct ito__fold *fold) {
    uint32_t n = fold->given - fold->left;
    fold->given = fold->left;
    fold->n_inner += n;
    fold->counts[fold->index] += n;
    if (n)
        fold->untold |= 1u << fold->index;
}

void ito__fold_tell(struct worker *w) {
    struct ito__fold *fold = &w->fold;
    count(fold);
    fold->run = NULL;
    while (fold->untold) {
        unsigned i = (unsigned)__builtin_ctz(fold->untold);
        fold->untold &= fold->untold - 1;
        kasuri_task_event(KASURI_EV_TASK_FOLDED, load_relaxed(&functions[i].name), fold->task, fold->counts[i]);
        fold->counts[i] = 0;
    }
}

/* Whether PERIOD_NS are over. */
static bool is_due(struct ito__fold *fold) {
    fold->left = fold->given = UNSEEN_FORKS;
    uint64_t now = ito__prim_now();
    if (now - fold->looked < PERIOD_NS)
        return false;
    fold->looked = now;
    return true;
}

uint64_t ito__fold(struct worker *w, const struct ito__fork *fork, const char *name) {
    struct ito__fold *fold = &w->fold;
    struct function *f = load_relaxed(&is_allowed) ? function_of(fork) : NULL;
    if (f == NULL)
        return 0;
    if (load_relaxed(&f->name) == 0)
        store_relaxed(&f->name, ito__listener->task_name(fork, name));
    count(fold);
    if (fold->left == 0 && is_due(fold)) {
        ito__deque_unfold(w);
        fold->due = 1;
    }
    bool is_small = load_relaxed(&f->n) >= WARM && load_relaxed(&f->mean) < SMALL_NS;
    if (!is_small || fold->due) {
        fold->due = 0;
        return 0;
    }
    uint64_t task = ito__listener->running();
    if (task == 0)
        return 0;
    if (task != fold->task)
        ito__fold_tell(w);
    fold->task = task;
    fold->run = fork->run;
    fold->index = (uint32_t)(f - functions);
    fold->left--;
    return task;
}

uint32_t ito__fold_name(const struct ito__fork *fork) {
    const struct function *f = function_of(fork);
    return f ? load_relaxed(&f->name) : 0;
}

/* ---- how long a task takes ---------------------------------------------------------------------------------------- */

void ito__fold_began(struct ito__ran *ran) {
    struct worker *w = worker_of(ito__worker());
    ran->worker = w;
    ran->moves = w->fold.moves;
    ran->inner = w->fold.inner;
    ran->n_inner = w->fold.n_inner;
    w->fold.inner = w->fold.n_inner = 0;
    ran->began = ito__prim_now();
}

/* The tasks folded in it are as many parts of its time as it is itself. One that waited, or went to another worker, tells
 * nothing. */
void ito__fold_ended(const struct ito__ran *ran, const struct ito__fork *fork) {
    struct worker *w = worker_of(ito__worker());
    struct ito__fold *fold = &w->fold;
    if (w != ran->worker || fold->moves != ran->moves)
        return;
    uint64_t ns = ito__prim_now() - ran->began, own = (ns - fold->inner) / (fold->n_inner + 1);
    fold->inner = ran->inner + ns;
    fold->n_inner = ran->n_inner;
    struct function *f = function_of(fork);
    if (f == NULL)
        return;
    uint32_t n = load_relaxed(&f->n), mean = load_relaxed(&f->mean), now = own < MOST_NS ? (uint32_t)own : MOST_NS;
    n += n < WARM;
    store_relaxed(&f->mean, (mean * (n - 1) + now) / n);
    store_relaxed(&f->n, n);
}

#endif
