/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that wait in the kernel. docs/design/io.md has the rules; carrier.h the states; adopt() is in carrier.c.
 *
 *   the thread in its call (K1)              the watcher             a spare carrier (K2)
 *   1 save the loop's context in `home`
 *   2 current worker = none
 *   3 lent = CALL                            sees CALL twice:
 *   4 the call                               gives K2 the job
 *                                                                    5 lent: CALL -> ADOPTED, or back to sleep
 *                                                                    6 take the thread off the worker
 *                                                                    7 lent = HOME, next turn; run the worker
 *   8 lent: CALL -> HOME: go on.
 *     Else wait until it is not ADOPTED:
 *     switch to `home`, make the thread ready, become a spare
 *
 * Steps 5 and 8 are compare-and-swaps of one word, so one of the two has the worker. Step 6 writes the thread's
 * descriptor, so 8 waits for 7; it is some dozen instructions.
 */
#include "base/counts.h"
#include "core/carrier.h"
#include "core/internal.h"

#include <ito/io.h>

void ito_blocking_begin(ito_call *call, const char *name) {
    struct worker *w = worker_of(ito__worker());
    int saved = errno;
    call->worker = NULL;
    call->name = name ? name : "call";
    call->begin_ns = ITO__COUNTING ? ito_now_ns() : 0;
    call->begin_stamp = ITO__STAMP();
    if (w == NULL || w->hot.current->flags & ITO__SCHED || ito__watch_start() != 0)
        return;
    struct ito__carrier *c = w->carrier;
    call->worker = w;
    call->carrier = c;
    call->thread = w->hot.current;
    call->turn = load_relaxed(&w->lent) & ~(uint32_t)(ITO__LENT_STATES - 1); /* the watcher may just have set TAKEN */
    w->hot.current->wait_kind = ITO__WAIT_CALL;
    save_home(c, w);
    ito__set_here(NULL);
    /* ORDER release; pairs with the compare-and-swap in adopt(). Publishes the worker, as it is left, and `home`. */
    store_release(&w->lent, call->turn | ITO__LENT_CALL);
    ito__watch_look(true);
    errno = saved;
}

/* Runs in the carrier's own loop, when the thread's context is saved. */
static void give_back(void *thread) {
    ito__ready(thread);
    ito__carriers_came_back();
}

/* The worker is another carrier's: the thread goes into a queue, and this kernel thread, carrier c, back to its loop. */
static __attribute__((noinline)) void change_carrier(struct ito__carrier *c, struct ito_thread *me, int error) {
    c->worker = NULL;
    me->saved_errno = error;
    ITO__TRACE_BLOCK(me);
    ITO__HOOK_LEAVE(me, &c->home, 0);
    errno = error;
    ITO__TLS_LEAVE(&c->home);
    ito__context_switch(&me->sp, c->home.sp, give_back, me);
    ITO__HOOK_ENTER(me);
    ITO__TLS_RESTORE(me);
    me->wait_kind = ITO__WAIT_NONE;
    ITO__TRACE_RESUME(me);
}

void ito_blocking_end(ito_call *call) {
    struct worker *w = call->worker;
    struct ito_thread *me = call->thread;
    uint32_t lent = call->turn | ITO__LENT_CALL, spins = 0;
    int saved = errno;
    if (w == NULL || ito__pool.n_workers == 0) /* the second: in the child, where the call was a fork */
        return;
    /* ORDER acq_rel; pairs with the compare-and-swap in adopt(): one of the two has the worker. */
    if (LIKELY(cas_acq_rel(&w->lent, &lent, call->turn + ITO__LENT_STATES))) {
        ito__set_here(w);
        me->wait_kind = ITO__WAIT_NONE;
        errno = saved;
        return;
    }
    /* ORDER acquire; pairs with the release store in adopt(). Shows what it did to this thread's descriptor. */
    while (load_acquire(&w->lent) == (call->turn | ITO__LENT_ADOPTED))
        ++spins % 64 ? cpu_relax() : ito__prim_yield();
    if (call->begin_ns)
        ito__count(ITO__COUNT_HANDED_OVER, call->name, ito_now_ns() - call->begin_ns);
    if (call->begin_stamp)
        ITO__TRACE_HANDED_OVER(call->carrier, call->name, call->begin_stamp);
    change_carrier(call->carrier, me, saved);
}

#ifdef ITO__OWN_TLS
__thread struct ito__tls_out ito__tls_out;

void ito__come_home(void) {
    int saved = errno;
    struct ito__worker *hot;
    /* ORDER acquire; pairs with the release store in ito__tls_take(). Shows ito__tls_out. */
    for (unsigned spins = 0; (hot = load_acquire(&ito__tls_worker)) != &ito__nobody;) {
        struct worker *w = worker_of(hot);
        /* ORDER acquire; pairs with the release store in adopt(): if it is HOME again by that, ito__tls_worker, which is
         * read anew, is ito__nobody. */
        uint32_t lent = load_acquire(&w->lent), state = lent % ITO__LENT_STATES;
        if (state == ITO__LENT_ADOPTED)
            ++spins % 64 ? cpu_relax() : ito__prim_yield();
        /* ORDER acq_rel; pairs with the compare-and-swap in adopt(): one of the two has the worker. */
        else if (state != ITO__LENT_TAKEN ? load_relaxed(&ito__tls_worker) == hot
                                          : cas_acq_rel(&w->lent, &lent, lent - state + ITO__LENT_STATES))
            return;
    }
    struct ito__tls_out out = ito__tls_out;
    if (out.carrier == NULL)
        return; /* a kernel thread, or a thread inside a call that it has told of */
    ito__tls_out.carrier = NULL;
    if (out.call == ITO__COMPUTES)
        ito__carriers_computed();
    if (ITO__COUNTING)
        ito__count(ITO__COUNT_HANDED_OVER, ito__look_name(out.call), ito_now_ns() - out.begin_ns);
    if (out.begin_stamp)
        ITO__TRACE_HANDED_OVER(out.carrier, ito__look_name(out.call), out.begin_stamp);
    change_carrier(out.carrier, out.thread, saved);
}
#endif

void *ito_blocking(void *(*fn)(void *), void *arg) {
    ito_call call;
    ito_blocking_begin(&call, NULL);
    void *result = fn(arg);
    ito_blocking_end(&call);
    return result;
}
