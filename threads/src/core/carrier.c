/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that wait in the kernel, and carriers. docs/design/io.md has the rules; carrier.h the states.
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
#include "core/carrier.h"
#include "base/counts.h"
#include "core/internal.h"

#include <ito/io.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CARRIERS_MAX 256u
#define STACK_BYTES (256u * 1024)
#define GO_HOME                                                                                                        \
    ((uint32_t)ITO__LENT_ADOPTED) /* in place of `lent`: the worker was given back by ito__carrier_go_home() */

/*
 *   field    writer           reader
 *   spares   holder of lock   same
 *   all, n   the watcher      same; ito__carriers_stop() when it has ended; n relaxed by others, as a hint
 *   main     holder of lock   same: worker 0's own carrier waits for its worker
 *   out      K1, K2           ito_fini: threads in calls whose worker was taken, relaxed
 *   beside   K1, K2, relaxed  the watcher: threads that compute beside the workers
 *   kept     any, relaxed     the watcher: carriers that a thread keeps for itself, beyond CARRIERS_MAX
 */
static struct {
    struct ito__spin lock;
    struct ito__carrier *spares, *all;
    uint32_t n;
    bool main;
    uint32_t out;
    uint32_t beside;
    uint32_t kept;
} carriers;

/* ---- a carrier's loop -------------------------------------------------------------------------------------------- */

static void give(struct ito__carrier *c, struct worker *job, uint32_t turn) {
    store_relaxed(&c->job, job);
    store_relaxed(&c->job_turn, turn);
    /* ORDER release; pairs with the acquire load in rest(). Publishes the job, and what was done to that worker. */
    store_release(&c->wake, 1);
    ito__prim_wake(&c->wake, 1);
}

/* Become a spare until there is a job; null: the pool stops. Worker 0's own carrier is for worker 0 alone. */
static struct worker *rest(struct ito__carrier *c) {
    ito__spin_lock(&carriers.lock);
    if (c == &ito__pool.workers[0].own) {
        carriers.main = true;
    } else {
        c->next = carriers.spares;
        carriers.spares = c;
    }
    ito__spin_unlock(&carriers.lock);
    /* ORDER acq_rel, of which acquire is needed; pairs with the release store in give(). Shows the job, the newest where
     * a second came before the first was looked at. */
    while (exchange_acq_rel(&c->wake, 0) == 0)
        ito__prim_wait(&c->wake, 0, UINT64_MAX);
    return load_relaxed(&c->job);
}

/* The context of the loop that runs on carrier c. */
static void save_home(struct ito__carrier *c, const struct worker *w) {
    c->home.sp = w->sched.sp;
    c->home.sanitizer = w->sched.sanitizer;
    c->home.stack = w->sched.stack;
}

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
        struct worker *w = rest(c);
        if (w == NULL)
            return;
        if (load_relaxed(&c->job_turn) == GO_HOME)
            ito__settle(c, w, &w->sched);
        else
            adopt(c, w, load_relaxed(&c->job_turn));
    }
}

bool ito__carrier_go_home(struct ito__carrier *c, struct worker *w) {
    ito__spin_lock(&carriers.lock);
    bool waits = carriers.main;
    carriers.main = false;
    ito__spin_unlock(&carriers.lock);
    if (!waits)
        return false;
    ITO__TRACE_SEARCH(w, 0); /* the slice is this kernel thread's */
    c->worker = NULL;
    ito__set_here(NULL);
    give(&w->own, w, GO_HOME);
    return true;
}

/* ---- spares ------------------------------------------------------------------------------------------------------ */

static void *spare_main(void *arg) {
    pthread_sigmask(SIG_SETMASK, &ito__watch_mask, NULL);
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
    ito__spin_lock(&carriers.lock);
    struct ito__carrier *c = carriers.spares;
    if (c)
        carriers.spares = c->next;
    ito__spin_unlock(&carriers.lock);
    if (c)
        give(c, w, lent);
    else
        *made = new_spare();
    return c != NULL;
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
        give(c, NULL, 0);
        pthread_join(c->kernel_thread, NULL);
        struct worker *w = (struct worker *)((char *)c - offsetof(struct worker, own));
        if (w < ito__pool.workers || w >= ito__pool.workers + ito__pool.n_workers)
            free(c);
    }
    memset(&carriers, 0, sizeof carriers);
}

void ito__carriers_forget(void) {
    memset(&carriers, 0, sizeof carriers);
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

/* ---- the calls --------------------------------------------------------------------------------------------------- */

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
    __atomic_fetch_sub(&carriers.out, 1, __ATOMIC_RELAXED);
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
        __atomic_fetch_sub(&carriers.beside, 1, __ATOMIC_RELAXED);
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
