/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a worker runs next: its own deque and queues first (ito__find), then what others have (search, steal), then
 * nothing (ito__park).
 *
 * A worker that finds nothing *asks*: it sets a bit in another worker's `ask` and stores null to its `end`, so that its
 * next creation finds no room and takes the slow path. There the owner *answers*: it publishes half of its deque and of
 * its ready queue, and wakes a worker.
 *
 *   asked worker's `ask` and `end`       by
 *   0, end    --> WORK, end              ito__ask(), read-modify-write
 *   WORK, end --> WORK, null             ito__ask(), relaxed store: the next creation takes the slow path
 *   WORK, any --> WORK, end              hear(), relaxed store
 *   WORK, end --> 0, end                 hear(), read-modify-write
 *
 * A null that an asker stores late, after hear() has restored `end`, costs one slow creation (ito__answer_creation).
 */
#include "core/internal.h"

/* The context of a thread that is suspended. Its queue, or the deque's lock, has ordered it before this read of sp. */
static struct ito__next resume(struct ito_thread *t) {
    return (struct ito__next){t, t->sp};
}

/* What the slot holds, ready to be resumed: a continuation as it is, or a thread made for a forked task. */
bool ito__take_slot(struct worker *w, struct ito__slot *slot, struct ito__next *next) {
    if (slot->thread & 1) {
        struct ito_thread *t = ito__above->promote(w, (struct ito__fork *)(slot->thread - 1), slot->folded_in);
        if (t == NULL)
            return false;
        ito__fork_taken((struct ito__fork *)(slot->thread - 1), slot);
        *next = resume(t);
    } else {
        *next = (struct ito__next){(struct ito_thread *)slot->thread, slot->sp};
    }
    return true;
}

/* The newest continuation or task of the own deque: depth first, and its data is in the cache. */
static bool from_deque(struct worker *w, struct ito__next *next) {
    if (w->hot.bottom == w->base)
        return false;
    struct ito__slot *slot = deque_pop(w);
    if (slot == NULL)
        return false;
    if (ito__take_slot(w, slot, next))
        return true;
    /* No memory for the task's stack. Put it back: there will be some when another thread has ended.
     * ORDER release; pairs with the acquire load in a forced ito__deque_steal(), like the push that this repeats. */
    store_release(&w->hot.bottom, slot + 1);
    return false;
}

/* The inbox first: what is in it can run nowhere else. */
static bool from_queues(struct worker *w, struct ito__next *next) {
    struct ito_thread *t = ito__inbox_pop(w);
    if (t == NULL)
        t = ito__ready_pop(w);
    if (t)
        *next = resume(t);
    return t != NULL;
}

/*
 * Local work: the deque first, as its top is warm; then the queues. Every ITO__FAIR_TICK picks the other way round, and the
 * injected threads before all, so that a deque that never empties starves nobody.
 */
bool ito__find(struct worker *w, struct ito__next *next) {
    if (UNLIKELY(++w->tick % ITO__FAIR_TICK == 0)) {
        if (UNLIKELY(load_relaxed(&ito__pool.io_waiting) > 0) && w->hot.current != &w->sched &&
            ito__above->io_is_due()) {
            w->tick--; /* the turn of the queues is not over: that context has it */
            *next = resume(&w->sched);
            return true;
        }
        struct ito_thread *t = ito__inject_pop();
        if (t) {
            *next = resume(t);
            return true;
        }
        if (from_queues(w, next))
            return true;
    }
    return from_deque(w, next) || from_queues(w, next);
}

/* ---- stealing --------------------------------------------------------------------------------------------------- */

/* A random first victim, so that thieves do not all start at the same worker. */
static uint32_t random_below(struct worker *w, uint32_t n) {
    uint64_t x = w->rng; /* xorshift64 */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    w->rng = x;
    return (uint32_t)((x >> 32) * n >> 32);
}

/* A stolen thread that is bound to another worker goes to that worker's inbox. False: nothing to run here. */
static bool stolen_thread(struct worker *w, struct ito_thread *t, struct ito__next *next) {
    if (t->bind >= 0 && (uint32_t)t->bind != w->index) {
        ito__inbox_push(&ito__pool.workers[(uint32_t)t->bind % ito__pool.n_workers], t);
        return false;
    }
    *next = resume(t);
    return true;
}

/* One attempt at one victim: its deque, then its ready queue. The continuation or task belongs to the thief from the
 * moment ito__deque_steal() returns WON; the victim's lock is free again by then. */
static bool steal_from(struct worker *w, struct worker *victim, bool force, struct ito__next *next) {
    struct ito__slot slot;
    if (ito__deque_steal(victim, force, &slot) == ITO__STEAL_WON) {
        w->n_steals++;
        w->n_far_steals += victim->node != w->node;
        w->n_forced_steals += force;
        if (slot.thread & 1) {
            if (ito__take_slot(w, &slot, next))
                return true;
            /* No memory for its stack. The thief's own deque is empty: keep the task there, where it will look
             * again. */
            struct ito__slot *bottom = w->hot.bottom;
            bottom->thread = slot.thread;
            bottom->folded_in = slot.folded_in;
            /* ORDER release; pairs with the acquire load in a forced ito__deque_steal(). Publishes the slot. */
            store_release(&w->hot.bottom, bottom + 1);
            return false;
        }
        struct ito_thread *t = (struct ito_thread *)slot.thread;
        t->sp = slot.sp;
        ITO__TRACE_SEARCH(w, 0);
        ITO__TRACE_STEAL(t, victim->index);
        return stolen_thread(w, t, next);
    }
    struct ito_thread *t = ito__ready_steal(w, victim, force);
    if (t == NULL)
        return false;
    w->n_ready_steals++;
    return stolen_thread(w, t, next);
}

/* Tries every other worker once, from a random one on; with several NUMA nodes those of the own node first. */
static bool steal(struct worker *w, bool force, struct ito__next *next) {
    uint32_t n = ito__pool.n_workers, first = random_below(w, n);
    for (int far = 0; far <= (ito__pool.hierarchy ? 1 : 0); far++) {
        for (uint32_t i = 0; i < n; i++) {
            struct worker *victim = &ito__pool.workers[(first + i) % n];
            if (victim == w || (ito__pool.hierarchy && (victim->node != w->node) != far))
                continue;
            if (steal_from(w, victim, force, next))
                return true;
        }
    }
    return false;
}

/* Asks every worker, also those that have nothing now: what they make next is then public at once. Asking only those
 * that have something made a thief wait for the next eighth round, as long as a task of some microseconds. A worker that
 * was asked before is only read, in a line that its owner seldom writes. Once in eight rounds. */
static void ask_all(struct worker *w) {
    for (uint32_t i = 0; i < ito__pool.n_workers; i++) {
        struct worker *v = &ito__pool.workers[i];
        if (v != w)
            ito__ask(v, ITO__ASK_WORK);
    }
}

/* Owner: clear the request for work. `end` is restored first: a worker that asks after the clear stores its null
 * later. */
static void hear(struct worker *w) {
    if (!(load_relaxed(&w->hot.ask) & ~(uint32_t)ITO__ASK_WORK))
        store_relaxed(&w->hot.end, w->end);
    /* ORDER acq_rel; pairs with the read-modify-write in ito__ask(). Its release keeps the store above before it. Its
     * acquire reads, by the same operation that wipes a parker's request, what the parker wrote before it asked: the
     * parker is in the list, where ito__notify() finds it. */
    and_acq_rel(&w->hot.ask, ~(uint32_t)ITO__ASK_WORK);
}

/* Owner, asked for work: publish half of everything and wake a worker for it. The order of the steps is that of the
 * table in park.c. */
void ito__answer(struct worker *w) {
    hear(w);
    ito__trace_poll();
    ito__deque_publish(w);
    ito__ready_share(w);
    ito__notify();
}

/* Relaxed loads, and an answer that is old at once: a loop that splits for nothing loses a creation. */
bool ito__hungry(void) {
    struct worker *w = worker_of(ito__worker());
    if (w == NULL || ito__pool.n_workers < 2)
        return w == NULL && ito__pool.n_workers > 0;
    return load_relaxed(&w->hot.ask) & ITO__ASK_WORK || !ito__deque_looks_full(w);
}

/* Owner, at a slow creation. There is something to give: the slot that was just pushed. */
void ito__answer_creation(struct worker *w) {
    if (load_relaxed(&w->hot.ask) & ITO__ASK_WORK)
        ito__answer(w);
    else if (load_relaxed(&w->hot.end) == NULL && !(load_relaxed(&w->hot.ask) & ITO__ASK_TRACE))
        hear(w); /* a null that came late: only restores `end` */
}

/* Owner, at a switch: there may be nothing to give, and then the request stands. */
bool ito__can_answer(struct worker *w) {
    /* The load of `split` is relaxed: a hint. A forced steal may raise it at this moment; then the owner answers for
     * nothing, since ito__deque_publish() looks again under the lock. */
    return load_relaxed(&w->hot.ask) & ITO__ASK_WORK && (w->hot.bottom > load_relaxed(&w->split) || ready_waits(w));
}

/* What the caller's worker runs when the caller stops: local work, else the worker's own context, which searches. */
struct ito__next ito__pick(struct worker *w) {
    struct ito__next next;
    if (UNLIKELY(ito__can_answer(w)))
        ito__answer(w);
    if (!ito__find(w, &next))
        next = resume(&w->sched);
    return next;
}

/* ---- the worker's own context ------------------------------------------------------------------------------------ */

/*
 * Looks for work everywhere for spin_ns, at the end by force. Where a membarrier takes longer than that, as long as one
 * takes: so waiting for an answer costs at most as much again as what it may spare. The caller counts as searching, and still does when
 * nothing was found (false); then ito__park() takes over the count.
 */
static bool search(struct worker *w, struct ito__next *next) {
    uint64_t start = ito__prim_now(), now = start, barrier = load_relaxed(&ito__pool.barrier_ns);
    uint64_t patience = barrier > ito__pool.spin_ns ? barrier : ito__pool.spin_ns;
    ito__trace_poll();
    for (unsigned round = 0;; round++) {
        bool io = load_relaxed(&ito__pool.io_waiting) > 0;
        if (io)
            ito__above->io_poll(w, true);
        struct ito_thread *t = ito__inject_pop();
        if (t) {
            *next = resume(t);
            break;
        }
        if (ito__find(w, next) || steal(w, false, next))
            break;
        /* One worker finds what I/O there is by going to sleep. */
        if (now - start >= patience || (io && ito__pool.n_workers == 1)) {
            if (steal(w, true, next))
                break;
            return false;
        }
        if (round % 8 == 0)
            ask_all(w);
        for (int i = 0; i < 32; i++)
            cpu_relax();
        now = ito__prim_now();
    }
    ito__search_end(w);
    return true;
}

/*
 * Leaves the worker's own context for `next`. False: the worker was taken by another carrier meanwhile, and only this
 * carrier's loop goes on here. What is on the stack belongs to the carrier; `w` may not be touched then.
 */
static bool leave_for(struct worker *w, struct ito__next next) {
    struct ito__carrier *c = w->carrier;
    w->hot.current = next.thread;
    ITO__HOOK_LEAVE(&w->sched, next.thread, 0);
    ITO__TLS_ENTER(w, next.thread);
    ito__context_switch(&w->sched.sp, next.sp, NULL, NULL);
    if (UNLIKELY(c->worker == NULL)) {
        ITO__HOOK_ENTER(&c->home);
        return false;
    }
    ITO__HOOK_ENTER(&w->sched);
    return true;
}

/* Worker 0 is on a carrier that is not its own, and ito_fini waits for it there. */
static bool goes_home(struct worker *w) {
    return UNLIKELY(load_relaxed(&ito__pool.home_wanted)) && w->index == 0 && w->carrier != &w->own &&
           ito__carrier_go_home(w->carrier, w);
}

/*
 * The worker's own context: runs what there is until the pool stops. `searching`: this worker counts as searching. A
 * worker that was woken does so before it looks at anything, and those that make work, or go to sleep, rely on it; so
 * it gives that up only by ito__search_end(), also where what it found is its own.
 */
bool ito__schedule(struct worker *w) {
    bool searching = false;
    for (;;) {
        struct ito__next next;
        if (goes_home(w)) {
            if (searching)
                ito__search_end(w);
            return false;
        }
        ITO__TRACE_SEARCH(w, 1);
        if (UNLIKELY(load_relaxed(&ito__pool.io_waiting) > 0))
            ito__above->io_poll(w, false);
        bool found = ito__find(w, &next);
        if (found && searching) {
            ito__search_end(w);
        } else if (!found) {
            if (!searching)
                ito__search_begin();
            searching = true;
            found = search(w, &next);
        }
        /* ORDER acquire, of `stopping`; pairs with the release store in stop_workers(). This worker ends, and is
         * joined. */
        if (found) {
            searching = false;
            ITO__TRACE_SEARCH(w, 0);
            if (!leave_for(w, next))
                return false;
        } else if (load_acquire(&ito__pool.stopping))
            break;
        else
            ito__park(w);
    }
    ito__search_end(w);
    return true;
}
