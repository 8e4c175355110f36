/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parking: docs/design/park.md. Invariant: while a worker is parked, either somebody is searching (or was just told
 * to), or every other worker has been asked for work, so that whoever makes some says so.
 *
 *   parker                                   owner who was asked (ito__answer)      others (ito__inject, timers)
 *   1 in the list of parked workers          1 clear `ask`                          1 publish
 *   2 n_searching - 1                        2 publish                              2 fence
 *   3 set every `ask`                        3 fence                                3 n_searching == 0 and somebody
 *   4 membarrier                             4 as others' 3                           parked: take one from the list,
 *   5 look everywhere once more; sleep                                                n_searching + 1, wake it
 */
#include "internal.h"

void ito__search_begin(void) {
    add_acq_rel(&ito__pool.n_searching, 1);
}

/* Found something: there may be more. The last searcher sends a successor. */
void ito__search_end(void) {
    if (sub_acq_rel(&ito__pool.n_searching, 1) == 1)
        ito__notify();
}

/* park_lock held */
static void unlist(struct worker *w) {
    uint32_t last = ito__pool.parked[ito__pool.n_parked - 1];
    ito__pool.parked[w->parked_at] = last;
    ito__pool.workers[last].parked_at = w->parked_at;
    store_relaxed(&ito__pool.n_parked, ito__pool.n_parked - 1);
    store_release(&w->parked, 0);
}

/* Make `w` (or, when null, the one that parked last: its caches are warm) search. */
static void unpark(struct worker *w, bool only_if_none) {
    bool wake = false;
    ito__spin_lock(&ito__pool.park_lock);
    if (ito__pool.n_parked > 0 && !(only_if_none && load_relaxed(&ito__pool.n_searching) > 0)) {
        if (w == NULL)
            w = &ito__pool.workers[ito__pool.parked[ito__pool.n_parked - 1]];
        if (w->parked) {
            ito__search_begin(); /* on its behalf */
            unlist(w);
            wake = true;
        }
    }
    ito__spin_unlock(&ito__pool.park_lock);
    if (wake)
        ito__prim_wake(&w->parked, 1);
}

void ito__notify(void) {
    /* ORDER seq_cst; pairs with the fence in ito__park() on kernels without membarrier: either we see the parker in the
     * list, or it sees what was published before. A parker's membarrier would do it alone (models/park). */
    fence_seq_cst();
    if (load_relaxed(&ito__pool.n_parked) == 0 || load_relaxed(&ito__pool.n_searching) > 0)
        return;
    unpark(NULL, true);
}

void ito__wake_idle(void) {
    fence_seq_cst();
    if (load_relaxed(&ito__pool.n_parked) > 0)
        unpark(NULL, false);
}

void ito__wake_worker(struct worker *w) {
    fence_seq_cst();
    if (load_relaxed(&w->parked))
        unpark(w, false);
}

/* Is there anything that this worker could take? Everything that was there before the membarrier is seen. */
static bool work_exists(struct worker *w) {
    if (load_relaxed(&ito__pool.inject.n) > 0 || load_relaxed(&w->inbox.n) > 0 || load_relaxed(&ito__pool.stopping))
        return true;
    for (uint32_t i = 0; i < ito__pool.n_workers; i++) {
        struct worker *v = &ito__pool.workers[i];
        if (v == w)
            continue;
        if (load_relaxed(&v->top) < load_relaxed(&v->split) || load_relaxed(&v->shared.n) > 0)
            return true;
        /* Private work of others: only if we are able to take it. */
        if (ito__pool.membarrier && (ito__deque_looks_full(v) || ready_waits(v)))
            return true;
    }
    return false;
}

/* In: counted as searching. Out: not counted. */
void ito__park(struct worker *w, uint64_t deadline_ns) {
    ito__spin_lock(&ito__pool.park_lock);
    w->parked_at = ito__pool.n_parked;
    ito__pool.parked[ito__pool.n_parked] = w->index;
    store_relaxed(&w->parked, 1);
    store_relaxed(&ito__pool.n_parked, ito__pool.n_parked + 1);
    ito__spin_unlock(&ito__pool.park_lock);

    sub_acq_rel(&ito__pool.n_searching, 1);
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        if (i != w->index)
            ito__ask(&ito__pool.workers[i], ITO__ASK_WORK);

    /* Without membarrier an owner's last push may not be visible yet, nor could we take it: look again after a while.
     */
    uint64_t wait_ns = UINT64_MAX;
    fence_seq_cst();
    if (!ito__pool.membarrier || !ito__prim_membarrier())
        wait_ns = 1000000;
    if (!work_exists(w)) {
        if (deadline_ns != UINT64_MAX) {
            uint64_t now = ito__prim_now(), left = deadline_ns > now ? deadline_ns - now : 0;
            wait_ns = left < wait_ns ? left : wait_ns;
        }
        w->n_parks++;
        if (wait_ns > 0)
            ito__prim_wait(&w->parked, 1, wait_ns);
    }
    ito__spin_lock(&ito__pool.park_lock);
    bool listed = w->parked;
    if (listed)
        unlist(w);
    ito__spin_unlock(&ito__pool.park_lock);
    if (!listed) /* whoever took us off the list counted us; ito__schedule() counts again */
        sub_acq_rel(&ito__pool.n_searching, 1);
}
