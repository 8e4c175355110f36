/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carriers: kernel threads that run workers. call.c has the calls for which a worker goes to another one; carrier.h the
 * states.
 */
#include "core/carrier.h"
#include "core/internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CARRIERS_MAX 256u
#define STACK_BYTES (256u * 1024)

/*
 *   field    writer           reader
 *   all, n   the watcher      same; ito__carriers_stop() when it has ended; n relaxed by others, as a hint
 *   out      K1, K2           ito_fini: threads in calls whose worker was taken, relaxed
 *   beside   K1, K2, relaxed  the watcher: threads that compute beside the workers
 *   kept     any, relaxed     the watcher: carriers that a thread keeps for itself, beyond CARRIERS_MAX
 */
static struct {
    struct ito__carrier *all;
    uint32_t n;
    uint32_t out;
    uint32_t beside;
    uint32_t kept;
} carriers;
sigset_t ito__carriers_mask;

void ito__settle(struct ito__carrier *c, struct worker *w, struct ito_thread *current) {
    c->worker = w;
    w->carrier = c;
    w->sched.stack = c->stack;
    w->hot.current = current;
    w->hot.errno_at = &errno;
    ito__set_here(w);
    ITO__TLS_WORKER(w, current);
    if (current == &w->sched)
        ITO__HOOK_WORKER(current);
}

/* Step 5 to 7; `lent`: as it was offered. False: the call is over, and the worker where it was. */
static bool adopt(struct ito__carrier *c, struct worker *w, uint32_t lent) {
    uint32_t turn = lent - lent % ITO__LENT_STATES;
    bool taken = lent % ITO__LENT_STATES == ITO__LENT_TAKEN;
    /* ORDER acq_rel; pairs with the release store in ito_blocking_begin(): shows the worker as its carrier left it. From
     * TAKEN, the watcher's look has waited until the kernel had switched that thread out, and `wake` came after. */
    if (!cas_acq_rel(&w->lent, &lent, turn | ITO__LENT_ADOPTED))
        return false;
    struct ito_thread *t = w->hot.current;
    struct ito__carrier *before = w->carrier;
    if (taken)
        save_home(before, w);
    ito__settle(c, w, &w->sched);
    ito__expose(t);
    ito__deque_disown(w, w->hot.bottom, t);
    __atomic_fetch_add(&carriers.out, 1, __ATOMIC_RELAXED);
    if (taken && w->taken_call == ITO__COMPUTES)
        __atomic_fetch_add(&carriers.beside, 1, __ATOMIC_RELAXED);
    if (taken)
        ITO__TLS_TAKE(t, before, w->taken_call);
    /* ORDER release; pairs with the acquire load in ito_blocking_end(): the thread's descriptor is its own again. */
    store_release(&w->lent, turn + ITO__LENT_STATES);
    ito__prim_name_thread(w->index);
    if (ito__pool.pin)
        ito__prim_pin(w->index);
    ITO__TRACE_WORKER(w->index);
    ITO__TRACE_IF(ito__deque_tell_moved(w));
    return true;
}

void ito__carrier_run(struct ito__carrier *c) {
    store_relaxed(&c->tid, ito__look_tid());
    for (;;) {
        if (c->worker && ito__schedule(c->worker))
            return;
        struct worker *w = ito__carrier_rest(c);
        if (w == NULL)
            return;
        if (load_relaxed(&c->job_turn) == ITO__GO_HOME)
            ito__settle(c, w, &w->sched);
        else
            adopt(c, w, load_relaxed(&c->job_turn));
    }
}

/* ---- spares ------------------------------------------------------------------------------------------------------ */

static void *spare_main(void *arg) {
    pthread_sigmask(SIG_SETMASK, &ito__carriers_mask, NULL);
    ito__overflow_worker_start();
    ito__carrier_run(arg);
    ito__overflow_worker_stop();
    return NULL;
}

/* One more kernel thread, which begins as a spare. False: no memory, no thread, or too many. */
static bool new_spare(void) {
    if (carriers.n >= CARRIERS_MAX + load_relaxed(&carriers.kept)) /* the watcher alone adds some */
        return false;
    struct ito__carrier *c = calloc(1, sizeof *c);
    if (c == NULL)
        return false;
    c->home.flags = ITO__SCHED | ITO__OWN_STACK;
    c->home.state = ITO__DETACHED;
    c->home.bind = -1;
    c->home.name = "scheduler";
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    bool ok = pthread_create(&c->kernel_thread, &attr, spare_main, c) == 0;
    pthread_attr_destroy(&attr);
    if (!ok) {
        free(c);
        return false;
    }
    c->all = carriers.all;
    carriers.all = c;
    store_relaxed(&carriers.n, carriers.n + 1);
    return true;
}

/* A spare that has just been made (*made) may not be on the list yet: then the next look offers again. */
bool ito__carrier_offer(struct worker *w, uint32_t lent, bool *made) {
    struct ito__carrier *c = ito__carrier_spare();
    if (c)
        ito__carrier_give(c, w, lent);
    else
        *made = new_spare();
    return c != NULL;
}

void ito__carriers_forget(void) {
    memset(&carriers, 0, sizeof carriers);
    ito__carriers_forget_resting();
}

void ito__carriers_stop(void) {
    for (uint32_t i = 1; i < ito__pool.n_workers; i++) {
        struct ito__carrier *c = &ito__pool.workers[i].own;
        c->all = carriers.all;
        if (ito__pool.workers[i].started)
            carriers.all = c;
    }
    /* Those that run workers end by themselves. A spare ends when it is told to, after it has come to rest. */
    for (struct ito__carrier *c = carriers.all, *next; c; c = next) {
        next = c->all;
        ito__carrier_give(c, NULL, 0);
        pthread_join(c->kernel_thread, NULL);
        struct worker *w = (struct worker *)((char *)c - offsetof(struct worker, own));
        if (w < ito__pool.workers || w >= ito__pool.workers + ito__pool.n_workers)
            free(c);
    }
    ito__carriers_forget();
}

void ito__carriers_keep(int32_t more) {
    __atomic_fetch_add(&carriers.kept, (uint32_t)more, __ATOMIC_RELAXED);
}

uint32_t ito__carriers_started(void) {
    return load_relaxed(&carriers.n);
}

uint32_t ito__carriers_beside(void) {
    return load_relaxed(&carriers.beside);
}

uint32_t ito__calls_out(void) {
    return load_relaxed(&carriers.out);
}

void ito__carriers_came_back(void) {
    __atomic_fetch_sub(&carriers.out, 1, __ATOMIC_RELAXED);
}

void ito__carriers_computed(void) {
    __atomic_fetch_sub(&carriers.beside, 1, __ATOMIC_RELAXED);
}
