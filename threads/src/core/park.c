/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parking: docs/design/park.md has the proof. Invariant: while a worker is parked, either another worker is searching
 * (or was just told to), or every other worker has been asked for work and will announce the next it makes.
 *
 *   a worker that parks                owner that was asked    others that make work    a searcher that found something
 *   (ito__park)                        (ito__answer)           (ito__inject, ...)       (ito__search_end)
 *   1 enter the list of parked         1 clear `ask`           1 publish the work       1 n_searching - 1
 *   2 n_searching - 1                  2 publish the work      2 fence                  2 if that made it 0: fence, and
 *   if that made it 0:                 3 fence                 3 if nobody searches       step 3 on the left
 *   3 set every other worker's `ask`   4 step 3 on the right     and one is parked:
 *   4 membarrier                                                 take it off the list,
 *   5 look everywhere once more                                  n_searching + 1, wake it
 *   6 look into its inbox; sleep if there is nothing
 *
 * The life of a worker that runs out of work, and how n_searching counts it:
 *
 *   running --(search() begins)--> searching, +1 --(found something)--> running, -1 (ito__search_end)
 *   searching --(ito__park)--> parked, -1 --(unpark(), by another)--> searching, +1 on its behalf
 *   parked --(last look finds something, or time is up)--> searching, +1
 *
 * So the count comes down to 0 in two places only, step 2 and ito__search_end(), and whoever brings it there sees to
 * it that no worker is left asleep beside work: a worker that is not the last to search may sleep at once.
 *
 *   field                  writer                              reader      rule
 *   pool.n_searching       any worker, read-modify-write       any         relaxed reads are hints but for unpark()'s
 *   pool.parked, n_parked  holder of park_lock                 any (n)     n_parked relaxed: the fences order it
 *   worker.parked          holder of park_lock                 any         also the futex the worker sleeps on
 *   worker.parked_at       holder of park_lock                 same        its place in pool.parked
 *
 * The Rust model is models/park; threads/tests/explore runs this file itself (programs `park`, `inject`, `inbox`,
 * `last_searcher`, `alone`, `alone_makes` and `alone_io`).
 */
#include "core/internal.h"

void ito__search_begin(void) {
    /* ORDER acq_rel; pairs with the fences of ito__notify() and last_look(), which order all that matters. What is
     * needed here is only that counts are not lost; the order keeps the search below the count. */
    add_acq_rel(&ito__pool.n_searching, 1);
}

/*
 * Are all other workers parked, and is there nothing left for them? Then only `w`, which leaves the count of searchers, can make private work
 * from here on: asked by itself, as the last that parks asks the others, it will announce it. What others make is announced, as nobody
 * searches any more, or is seen here. Where threads wait for I/O a successor is needed: it sleeps in epoll while this one computes.
 */
static bool is_alone(struct worker *w) {
    uint32_t parked = load_relaxed(&ito__pool.n_parked);
    if (parked == 0 || parked != ito__pool.n_workers - 1 || load_relaxed(&ito__pool.io_waiting) > 0)
        return false;
    ito__ask(w, ITO__ASK_WORK);
    /* ORDER seq_cst; pairs with the fence in ito__notify(). Puts the count before the look: either a maker of work sees that nobody
     * searches, or this sees its work (threads/tests/explore, control alone_without_fence). */
    fence_seq_cst();
    return load_relaxed(&ito__pool.inject.n) == 0 && load_relaxed(&w->shared.n) == 0 && !ready_waits(w) &&
           w->hot.bottom == w->base;
}

/*
 * The caller found something, so there may be more. While a worker searches, makers of work wake nobody; so the last
 * one to stop searching has to wake a successor, or work made meanwhile would wait (models/park, control no_successor).
 * Unless it is alone and there is nothing: each wake-up of the one worker that runs would wake a second for nothing.
 */
void ito__search_end(struct worker *w) {
    /* ORDER acq_rel; pairs with the other read-modify-writes of n_searching. Exactly one searcher reads 1 and is the
     * last. The fence in ito__notify() then orders this before its look at the list. */
    if (sub_acq_rel(&ito__pool.n_searching, 1) == 1 && !is_alone(w))
        ito__notify();
}

/* Takes `w` off the list. park_lock held. */
static void unlist(struct worker *w) {
    uint32_t last = ito__pool.parked[ito__pool.n_parked - 1];
    ito__pool.parked[w->parked_at] = last;
    ito__pool.workers[last].parked_at = w->parked_at;
    store_relaxed(&ito__pool.n_parked, ito__pool.n_parked - 1);
    /* ORDER release; pairs with the kernel's look at the futex word, and with park_lock for all other readers. The
     * worker that wakes finds the count of searchers that was raised for it. */
    store_release(&w->parked, 0);
}

/*
 * Wakes `w`, or, if it is null, the worker that parked last, as its caches are warm. It counts as searching from here
 * on, so that two makers of work do not both wake somebody for the same piece. only_if_none: not when somebody
 * searches.
 */
static void unpark(struct worker *w, bool only_if_none) {
    bool wake = false, polls = false;
    ito__spin_lock(&ito__pool.park_lock);
    if (ito__pool.n_parked > 0 && !(only_if_none && load_relaxed(&ito__pool.n_searching) > 0)) {
        if (w == NULL)
            w = &ito__pool.workers[ito__pool.parked[ito__pool.n_parked - 1]];
        if (w->parked) {
            ito__search_begin(); /* on behalf of w */
            unlist(w);
            wake = true;
            polls = w->polls;
        }
    }
    ito__spin_unlock(&ito__pool.park_lock);
    if (polls)
        ito__above->io_interrupt();
    else if (wake)
        ito__prim_wake(&w->parked, 1);
}

/*
 * Work was published: wake a worker if none searches.
 *
 * This is the left half of a Dekker handshake. The caller has published its work and now looks for parked workers; a
 * parker has entered the list and now looks for work. Both fences are sequentially consistent, so one comes first, and
 * the thread whose fence is second sees what the other did before its own: either the caller sees the parker in the
 * list and wakes it, or the parker sees the work and does not sleep.
 *
 * A searching worker is enough too. It counted itself before it looked, and it goes through the parker's half before it
 * sleeps.
 */
void ito__notify(void) {
    /* ORDER seq_cst; pairs with the fence in last_look(). Puts the publication before the loads below. Where there is a
     * membarrier, the parker's is a fence of this thread as well, and would do it alone; this one is for kernels
     * without (threads/tests/explore, control notify_without_fence). */
    fence_seq_cst();
    if (load_relaxed(&ito__pool.n_parked) == 0 || load_relaxed(&ito__pool.n_searching) > 0)
        return;
    unpark(NULL, true);
}

/* Nobody looks after I/O: one parked worker has to, searchers or not. */
void ito__wake_idle(void) {
    /* ORDER seq_cst; pairs with the fence in ito__park(), as in ito__notify(): what it is to see comes before this load. */
    fence_seq_cst();
    if (load_relaxed(&ito__pool.n_parked) > 0)
        unpark(NULL, false);
}

/* Something was put into the inbox of `w`, which no other worker may take. */
void ito__wake_worker(struct worker *w) {
    /* ORDER seq_cst; pairs with the fence in ito__park(), as in ito__notify(). `w` stored its `parked` before that
     * fence, so either this load sees it or `w` sees its inbox. */
    fence_seq_cst();
    if (load_relaxed(&w->parked))
        unpark(w, false);
}

/*
 * Is there anything that any worker could take? The loads are relaxed: the fence and the membarrier in last_look() come
 * right before, so they see everything that was published before those. Work that is published later is announced,
 * since its maker sees this worker in the list.
 */
static bool work_exists(struct worker *w) {
    if (load_relaxed(&ito__pool.inject.n) > 0)
        return true;
    for (uint32_t i = 0; i < ito__pool.n_workers; i++) {
        struct worker *v = &ito__pool.workers[i];
        if (v == w)
            continue;
        if (load_relaxed(&v->top) < load_relaxed(&v->split) || load_relaxed(&v->shared.n) > 0)
            return true;
        /* Private work of others counts only where it can be taken. */
        if (ito__pool.membarrier && (ito__deque_looks_full(v) || ready_waits(v)))
            return true;
    }
    return false;
}

/* Sleeps until it is woken, or for so long. The last worker to park looks now and then whether it can be woken at all:
 * after a second, which no living program notices, and in the end once a minute. */
static void sleep_parked(struct worker *w, uint64_t wait_ns) {
    uint64_t look_ns = 1000000000, most_ns = 64 * look_ns;
    if (wait_ns != UINT64_MAX || ito__pool.stall == ITO__STALL_QUIET ||
        load_relaxed(&ito__pool.n_parked) != ito__pool.n_workers) {
        ito__prim_wait(&w->parked, 1, wait_ns);
        return;
    }
    for (;; look_ns = look_ns < most_ns ? 2 * look_ns : most_ns) {
        ito__prim_wait(&w->parked, 1, look_ns);
        if (!load_relaxed(&w->parked)) /* the lock of the list, taken next, orders what follows */
            return;
        ito__above->all_parked();
    }
}

/* What only this worker may take, or must heed. Relaxed: the fence in ito__park() comes right before, and pairs with
 * that in ito__wake_worker(). */
static bool is_called(struct worker *w) {
    return load_relaxed(&w->inbox.n) > 0 || load_relaxed(&ito__pool.stopping);
}

/* Steps 3 to 5: the caller was the last to search. False: there is nothing. *wait_ns: how long that will stay seen. */
static bool last_look(struct worker *w, uint64_t *wait_ns) {
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        if (i != w->index)
            ito__ask(&ito__pool.workers[i], ITO__ASK_WORK);
    /* ORDER seq_cst; pairs with the fence in ito__notify(). Puts the entry in the list, and the count, before the looks
     * below (threads/tests/explore, control park_without_fence). */
    fence_seq_cst();
    /* ORDER seq_cst on every running thread; the partner is an owner's push, a plain store, and its test of `ask`, a
     * plain load. The store may still wait in that CPU's buffer: the membarrier empties it, so the look sees the push;
     * or the push comes after the membarrier, and then the test sees `ask`, which was set before. Without membarrier
     * the push may stay unseen, so the worker looks again after a millisecond. */
    if (ito__pool.n_workers > 1 && (!ito__pool.membarrier || !ito__membarrier()))
        *wait_ns = 1000000;
    return work_exists(w);
}

/* Sleeps until there may be something. Return: events of I/O that it found asleep, or -1. */
static int sleep_until_called(struct worker *w, uint64_t wait_ns) {
    int events = -1;
    w->n_parks++;
    if (load_relaxed(&ito__pool.io_waiting) > 0)
        events = ito__above->io_wait(w, wait_ns);
    if (events < 0 && wait_ns > 0)
        sleep_parked(w, wait_ns);
    return events;
}

/* The steps of the table above. The caller counts as searching, on entry and on return. */
void ito__park(struct worker *w) {
    ito__spin_lock(&ito__pool.park_lock);
    w->parked_at = ito__pool.n_parked;
    ito__pool.parked[ito__pool.n_parked] = w->index;
    store_relaxed(&w->parked, 1);
    store_relaxed(&ito__pool.n_parked, ito__pool.n_parked + 1);
    ito__spin_unlock(&ito__pool.park_lock);

    uint64_t wait_ns = UINT64_MAX;
    /* ORDER acq_rel; pairs with itself and with ito__search_end() of the workers that search still: the one that brings
     * the count to 0 sees this worker in the list, as it entered before (control count_before_list). A maker of work
     * that reads the count without this worker finds it there too, by way of the fences on both sides. */
    bool last = sub_acq_rel(&ito__pool.n_searching, 1) == 1;
    bool found = last && last_look(w, &wait_ns);
    /* ORDER seq_cst; pairs with the fences in ito__wake_worker() and ito__wake_idle(). Puts the entry in the list before
     * the look into the inbox. */
    fence_seq_cst();
    int events = found || is_called(w) ? -1 : sleep_until_called(w, wait_ns);
    ito__spin_lock(&ito__pool.park_lock);
    if (w->parked) { /* nobody took it off the list, and counted it */
        ito__search_begin();
        unlist(w);
    }
    w->polls = 0;
    ito__spin_unlock(&ito__pool.park_lock);
    ITO__RUNS_AGAIN();
    if (events >= 0)
        ito__above->io_deliver(w, events);
}
