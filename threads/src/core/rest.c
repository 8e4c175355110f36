/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carriers that run no worker: how they rest, and how they are given one. carrier.h has the states.
 *
 *   field    writer           reader
 *   spares   holder of lock   same
 *   main     holder of lock   same: worker 0's own carrier waits for its worker
 */
#include "core/carrier.h"
#include "core/internal.h"

#include <string.h>

static struct {
    struct ito__spin lock;
    struct ito__carrier *spares;
    bool main;
} resting;

void ito__carrier_give(struct ito__carrier *c, struct worker *job, uint32_t turn) {
    store_relaxed(&c->job, job);
    store_relaxed(&c->job_turn, turn);
    /* ORDER release; pairs with the acquire load in ito__carrier_rest(). Publishes the job, and what was done to that
     * worker. */
    store_release(&c->wake, 1);
    ito__prim_wake(&c->wake, 1);
}

struct worker *ito__carrier_rest(struct ito__carrier *c) {
    ito__spin_lock(&resting.lock);
    if (c == &ito__pool.workers[0].own) {
        resting.main = true;
    } else {
        c->next = resting.spares;
        resting.spares = c;
    }
    ito__spin_unlock(&resting.lock);
    /* ORDER acq_rel, of which acquire is needed; pairs with the release store in ito__carrier_give(). Shows the job, the
     * newest where a second came before the first was looked at. */
    while (exchange_acq_rel(&c->wake, 0) == 0)
        ito__prim_wait(&c->wake, 0, UINT64_MAX);
    return load_relaxed(&c->job);
}

bool ito__carrier_go_home(struct ito__carrier *c, struct worker *w) {
    ito__spin_lock(&resting.lock);
    bool waits = resting.main;
    resting.main = false;
    ito__spin_unlock(&resting.lock);
    if (!waits)
        return false;
    ITO__TRACE_SEARCH(w, 0); /* the slice is this kernel thread's */
    c->worker = NULL;
    ito__set_here(NULL);
    ito__carrier_give(&w->own, w, ITO__GO_HOME);
    return true;
}

struct ito__carrier *ito__carrier_spare(void) {
    ito__spin_lock(&resting.lock);
    struct ito__carrier *c = resting.spares;
    if (c)
        resting.spares = c->next;
    ito__spin_unlock(&resting.lock);
    return c;
}

void ito__carriers_forget_resting(void) {
    memset(&resting, 0, sizeof resting);
}
