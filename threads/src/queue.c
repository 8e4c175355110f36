/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ready threads: those that yielded or were woken. First in, first out, one queue for each worker.
 *
 * The owner's lock on it is biased: he sets rq_busy, looks at rq_frozen, and is in, with plain loads and stores. A
 * thief first publishes rq_frozen, then has the kernel run a full barrier on the owner (membarrier), then waits for
 * rq_busy to be 0. Either the owner sees rq_frozen and steps back, or the thief sees him busy (models/park,
 * `biased_lock`).
 */
#include "internal.h"

static bool enter_owner(struct worker *w) {
    store_relaxed(&w->rq_busy, 1);
    /* ORDER none in hardware; see above. acquire: what the last thief did to the queue. */
    compiler_barrier();
    if (LIKELY(load_acquire(&w->rq_frozen) == 0))
        return true;
    store_release(&w->rq_busy, 0);
    ito__spin_lock(&w->rq_lock); /* no thief is inside while we hold it */
    return false;
}

static void leave_owner(struct worker *w, bool biased) {
    if (LIKELY(biased)) {
        /* ORDER release; pairs with the acquire load in enter_thief(). Hands the queue over. */
        store_release(&w->rq_busy, 0);
    } else {
        ito__spin_unlock(&w->rq_lock);
    }
}

/* rq_lock held. False: cannot be sure that the owner is outside. */
static bool enter_thief(struct worker *w) {
    if (!ito__pool.membarrier)
        return false;
    store_relaxed(&w->rq_frozen, 1);
    if (!ito__prim_membarrier()) {
        store_release(&w->rq_frozen, 0);
        return false;
    }
    /* ORDER acquire; pairs with the release in leave_owner(). A few instructions, unless the owner lost his CPU inside.
     */
    for (unsigned i = 0; load_acquire(&w->rq_busy) != 0; i++)
        i < 100 ? cpu_relax() : ito__prim_yield();
    return true;
}

void ito__ready_push(struct worker *w, struct ito_thread *t) {
    bool biased = enter_owner(w);
    queue_push(t->priority > 0 ? &w->urgent : &w->rq, t);
    leave_owner(w, biased);
}

struct ito_thread *ito__ready_pop(struct worker *w) {
    if (!ready_waits(w) && load_relaxed(&w->shared.n) == 0) /* thieves only take: 0 stays 0 */
        return NULL;
    bool biased = enter_owner(w);
    /* One pick in 16 is not the urgent ones', so that they cannot starve the others by waking each other. */
    bool urgent_first = !w->rq.head || ++w->urgent_picks % 16 != 0;
    struct ito_thread *t = urgent_first ? queue_pop(&w->urgent) : NULL;
    if (LIKELY(t == NULL))
        t = queue_pop(&w->rq);
    leave_owner(w, biased);
    if (t == NULL && load_relaxed(&w->shared.n) != 0) {
        ito__spin_lock(&w->rq_lock);
        t = queue_pop(&w->shared);
        ito__spin_unlock(&w->rq_lock);
    }
    return t;
}

/* The first n of `from` go to the end of `to`. */
static void move(struct ito__queue *to, struct ito__queue *from, size_t n) {
    while (n-- > 0)
        queue_push(to, queue_pop(from));
}

/* Half of what is ready here, the urgent and the older half, becomes everybody's. rq_lock held, and nobody else inside.
 */
static void share(struct worker *w) {
    size_t n = (w->urgent.n + w->rq.n + 1) / 2, first = n < w->urgent.n ? n : w->urgent.n;
    move(&w->shared, &w->urgent, first);
    move(&w->shared, &w->rq, n - first);
}

/* Owner. */
void ito__ready_share(struct worker *w) {
    if (!ready_waits(w))
        return;
    ito__spin_lock(&w->rq_lock); /* no thief inside, and we are the owner */
    share(w);
    ito__spin_unlock(&w->rq_lock);
}

struct ito_thread *ito__ready_steal(struct worker *thief, struct worker *victim, bool force) {
    if (load_relaxed(&victim->shared.n) == 0 && (!force || !ready_waits(victim)))
        return NULL;
    if (!ito__spin_try(&victim->rq_lock))
        return NULL;
    if (victim->shared.n == 0 && force && enter_thief(victim)) {
        share(victim);
        /* ORDER release; pairs with the acquire in enter_owner(). */
        store_release(&victim->rq_frozen, 0);
    }
    struct ito_thread *t = queue_pop(&victim->shared);
    struct ito__queue more = {0};
    if (t)
        move(&more, &victim->shared, victim->shared.n / 2);
    ito__spin_unlock(&victim->rq_lock);
    while (more.n > 0)
        ito__ready_push(thief, queue_pop(&more));
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
 * A kernel thread that is no worker looks at the pool after it has made a thread ready: the last thread perhaps, which
 * may have ended meanwhile, and the root be in ito_fini. So ito_fini waits until n_outside is 0 (it joins workers).
 */
static void outside_begin(void) {
    add_acq_rel(&ito__pool.n_outside, 1); /* ORDER: before the push, so whoever runs after `t` sees it */
}
static void outside_end(void) {
    /* ORDER release; pairs with the acquire in ito_fini(). The pool may be gone after it. */
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
