/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ready threads: those that yielded or were woken. First in, first out, one queue for each worker.
 *
 * The owner's lock on its queue is biased: it costs the owner two stores and a load, and a thief a membarrier.
 *
 *   owner (enter_owner)                        thief, holding rq_lock (enter_thief)
 *   1 rq_busy = 1                              1 rq_frozen = 1
 *   2 rq_frozen == 0: it is inside             2 membarrier: a full barrier on the owner's CPU
 *     else rq_busy = 0, and wait for rq_lock   3 wait until rq_busy == 0: it is inside
 *   3 rq_busy = 0: it has left                 4 rq_frozen = 0: it has left
 *
 * The membarrier falls either before the owner's step 2, and then the owner sees rq_frozen and steps back; or after the
 * owner's step 1, and then the thief sees rq_busy and waits. So never both are inside. It is the argument of the forced
 * steal in deque.c.
 *
 *   field              writer                         reader
 *   rq_busy            owner                          owner; the thief that holds rq_lock
 *   rq_frozen          holder of rq_lock              owner
 *   rq, urgent         whoever is inside              same; `n` relaxed by others, as a hint
 *   shared             holder of rq_lock              same; `n` likewise. Thieves only take from it
 *
 * threads/tests/explore runs this file under every schedule (program ready_queue).
 */
#include "core/internal.h"

/* True: inside by the biased lock. False: inside by rq_lock, because a thief was there. */
static bool enter_owner(struct worker *w) {
    store_relaxed(&w->rq_busy, 1);
    /* ORDER none in hardware: the partner is the membarrier in enter_thief(), which stands for the fence here. */
    compiler_barrier();
    /* ORDER acquire; pairs with the release of rq_frozen in ito__ready_steal(). Shows the queue as the last thief left
     * it. */
    if (LIKELY(load_acquire(&w->rq_frozen) == 0))
        return true;
    /* ORDER release; pairs with the acquire load in enter_thief(), like leave_owner(). The owner did nothing inside. */
    store_release(&w->rq_busy, 0);
    ito__spin_lock(&w->rq_lock); /* no thief is inside while the owner holds it */
    return false;
}

static void leave_owner(struct worker *w, bool biased) {
    if (LIKELY(biased)) {
        /* ORDER release; pairs with the acquire load in enter_thief(). Publishes what the owner did to the queue. */
        store_release(&w->rq_busy, 0);
    } else {
        ito__spin_unlock(&w->rq_lock);
    }
}

/* rq_lock is held. False: without a membarrier nobody can be sure that the owner is outside. */
static bool enter_thief(struct worker *w) {
    if (!ito__pool.membarrier)
        return false;
    store_relaxed(&w->rq_frozen, 1);
    /* ORDER seq_cst on the owner's CPU; the partner is the compiler barrier in enter_owner(). Puts the store above
     * before the load of rq_busy below, and the owner's store of rq_busy before its load of rq_frozen. */
    if (!ito__membarrier()) {
        /* ORDER release; pairs with the acquire load in enter_owner(). Nothing was changed inside. */
        store_release(&w->rq_frozen, 0);
        return false;
    }
    /* ORDER acquire; pairs with the release in leave_owner(). Shows the queue as the owner left it. The owner is inside
     * for a few instructions, unless it loses its CPU there. */
    for (unsigned i = 0; load_acquire(&w->rq_busy) != 0; i++)
        i < 100 ? cpu_relax() : ito__prim_yield();
    return true;
}

void ito__ready_push(struct worker *w, struct ito_thread *t) {
    bool biased = enter_owner(w);
    queue_push(t->priority > 0 ? &w->urgent : &w->rq, t);
    leave_owner(w, biased);
}

static struct ito_thread *shared_pop(struct worker *w) {
    ito__spin_lock(&w->rq_lock);
    struct ito_thread *t = queue_pop(&w->shared);
    ito__spin_unlock(&w->rq_lock);
    return t;
}

struct ito_thread *ito__ready_pop(struct worker *w) {
    bool shares = load_relaxed(&w->shared.n) != 0; /* only the owner adds to it: 0 stays 0 */
    if (!ready_waits(w) && !shares)
        return NULL;
    /* Where every worker always has a thread that yields, nobody comes to take what was shared. */
    if (UNLIKELY(shares && w->tick % ITO__FAIR_TICK == 0)) {
        struct ito_thread *t = shared_pop(w);
        if (t)
            return t;
    }
    bool biased = enter_owner(w);
    /* One pick in 16 passes the urgent threads by, so that they cannot starve the others by waking each other. */
    bool urgent_first = !w->rq.head || ++w->urgent_picks % 16 != 0;
    struct ito_thread *t = urgent_first ? queue_pop(&w->urgent) : NULL;
    if (LIKELY(t == NULL))
        t = queue_pop(&w->rq);
    leave_owner(w, biased);
    return t == NULL && load_relaxed(&w->shared.n) != 0 ? shared_pop(w) : t;
}

/* The first n of `from` go to the end of `to`. */
static void move(struct ito__queue *to, struct ito__queue *from, size_t n) {
    while (n-- > 0)
        queue_push(to, queue_pop(from));
}

/* Half of what is ready here, urgent threads and old ones first, may be taken by any worker from now on. rq_lock is
 * held, and nobody else is inside. */
static void share(struct worker *w) {
    size_t n = (w->urgent.n + w->rq.n + 1) / 2, first = n < w->urgent.n ? n : w->urgent.n;
    move(&w->shared, &w->urgent, first);
    move(&w->shared, &w->rq, n - first);
}

/* The owner was asked for work. */
void ito__ready_share(struct worker *w) {
    if (!ready_waits(w))
        return;
    ito__spin_lock(&w->rq_lock); /* keeps thieves out; the caller is the owner, so nobody is inside */
    share(w);
    ito__spin_unlock(&w->rq_lock);
}

/*
 * Takes a thread that is ready at `victim`, and half of what is left there for the thief's own queue. Without force
 * only what the victim has shared.
 */
struct ito_thread *ito__ready_steal(struct worker *thief, struct worker *victim, bool force) {
    if (load_relaxed(&victim->shared.n) == 0 && (!force || !ready_waits(victim)))
        return NULL;
    if (!ito__spin_try(&victim->rq_lock))
        return NULL;
    if (victim->shared.n == 0 && force && enter_thief(victim)) {
        share(victim);
        /* ORDER release; pairs with the acquire load in enter_owner(). Publishes what the thief did to the queue. */
        store_release(&victim->rq_frozen, 0);
    }
    struct ito_thread *t = queue_pop(&victim->shared);
    struct ito__queue more = {0};
    if (t)
        move(&more, &victim->shared, victim->shared.n / 2);
    ito__spin_unlock(&victim->rq_lock);
    while (more.n > 0) {
        struct ito_thread *other = queue_pop(&more);
        if (UNLIKELY(other->bind >= 0 && (uint32_t)other->bind != thief->index))
            ito__inbox_push(&ito__pool.workers[other->bind], other);
        else
            ito__ready_push(thief, other);
    }
    return t;
}

static void locked_push(struct ito__spin *lock, struct ito__queue *q, struct ito_thread *t) {
    ito__spin_lock(lock);
    queue_push(q, t);
    ito__spin_unlock(lock);
}

static struct ito_thread *locked_pop(struct ito__spin *lock, struct ito__queue *q) {
    if (load_relaxed(&q->n) == 0)
        return NULL;
    ito__spin_lock(lock);
    struct ito_thread *t = queue_pop(q);
    ito__spin_unlock(lock);
    return t;
}

/*
 * A kernel thread that is no worker looks at the pool once more after it has made a thread ready, to wake a worker for
 * it. That thread may have run and ended meanwhile, and have been the last, so the root may be in ito_fini. Therefore
 * ito_fini waits until n_outside is 0 before it takes the pool apart; workers it joins.
 */
static void outside_begin(void) {
    /* ORDER acq_rel; pairs with the acquire load in ito_fini(), by way of the queue's lock, whose release comes after
     * it: whoever runs after the thread that is pushed sees the count raised. */
    add_acq_rel(&ito__pool.n_outside, 1);
}
static void outside_end(void) {
    /* ORDER acq_rel, of which release is needed; pairs with the acquire load in ito_fini(). It comes after the last
     * look at the pool, which may be gone afterwards. */
    sub_acq_rel(&ito__pool.n_outside, 1);
}

void ito__inbox_push(struct worker *w, struct ito_thread *t) {
    bool outside = ito__worker() == NULL;
    if (outside)
        outside_begin();
    locked_push(&w->inbox_lock, &w->inbox, t);
    ito__wake_worker(w);
    if (outside)
        outside_end();
}

struct ito_thread *ito__inbox_pop(struct worker *w) {
    return locked_pop(&w->inbox_lock, &w->inbox);
}

void ito__inject(struct ito_thread *t) {
    outside_begin();
    locked_push(&ito__pool.inject_lock, &ito__pool.inject, t);
    ito__notify();
    outside_end();
}

struct ito_thread *ito__inject_pop(void) {
    return locked_pop(&ito__pool.inject_lock, &ito__pool.inject);
}
