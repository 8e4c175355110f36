/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The deque: docs/design/deque.md. In short: slots [base, top) are stolen, [top, split) public, [split, bottom)
 * private. The owner pushes and pops private slots with plain stores; everything else happens under `lock`, which
 * thieves try and the owner takes. limit == split, or split + 1 while a thief is trying to take a private slot.
 */
#include "internal.h"

#include <string.h>

#define FIRST_SLOTS 128u

static size_t slot_bytes(size_t n) {
    size_t page = ito__prim_page();
    return (n * sizeof(struct ito__slot) + page - 1) / page * page;
}

/* Its parent's sync compares addresses of slots. It may be on another worker, waiting or about to. */
static void move_fork(struct ito__fork *fork, const struct ito__slot *from, const struct ito__slot *to) {
    uintptr_t state = load_relaxed(&fork->state), odd = state & 1;
    if (state - odd == (uintptr_t)from)
        cas_acq_rel(&fork->state, &state, (uintptr_t)to + odd);
}

/* One slot lies below base, so that reading bottom - 1 of an empty deque is harmless; the one at end never gets a
 * stack, so that a creation there takes the slow path, which grows the deque. */
static bool place(struct worker *w, size_t n, size_t used) {
    struct ito__slot *slots = ito__prim_map(slot_bytes(n));
    if (slots == NULL)
        return false;
    n = slot_bytes(n) / sizeof *slots;
    struct ito__slot *old = w->base ? w->base - 1 : NULL, *base = slots + 1;
    size_t top = 0, split = 0, bottom = 0;
    if (old) {
        memcpy(slots, old, used * sizeof *slots);
        top = (size_t)(w->top - w->base);
        split = (size_t)(w->split - w->base);
        bottom = (size_t)(w->hot.bottom - w->base);
    }
    size_t old_n = old ? (size_t)(w->end - old) + 1 : 0;
    w->base = base;
    store_relaxed(&w->top, base + top);
    store_relaxed(&w->split, base + split);
    store_relaxed(&w->hot.limit, w->split);
    store_release(&w->hot.bottom, base + bottom);
    for (size_t i = top; i < bottom; i++)
        if (base[i].thread & 1)
            move_fork((struct ito__fork *)(base[i].thread - 1), old + 1 + i, base + i);
    w->end = slots + n - 1;
    if (load_relaxed(&w->hot.end) != NULL || old == NULL)
        store_relaxed(&w->hot.end, w->end);
    if (old)
        ito__prim_unmap(old, slot_bytes(old_n));
    return true;
}

bool ito__deque_start(struct worker *w) {
    w->base = NULL;
    return place(w, FIRST_SLOTS, 0);
}

void ito__deque_stop(struct worker *w) {
    if (w->base)
        ito__prim_unmap(w->base - 1, slot_bytes((size_t)(w->end - w->base) + 2));
    w->base = NULL;
}

/* Under the lock no thief looks at a slot, so the old array can go at once. */
bool ito__deque_grow(struct worker *w) {
    size_t n = (size_t)(w->end - w->base) + 2;
    ito__spin_lock(&w->lock);
    bool ok = place(w, 2 * n, n);
    ito__spin_unlock(&w->lock);
    return ok;
}

/* Owner, lock held, asked for work: publish the older half. */
static void publish_locked(struct worker *w) {
    ptrdiff_t n = w->hot.bottom - w->split;
    if (n > 0)
        store_relaxed(&w->split, w->split + (n + 1) / 2);
    store_relaxed(&w->hot.limit, w->split);
}

void ito__deque_publish(struct worker *w) {
    ito__spin_lock(&w->lock);
    publish_locked(w);
    ito__spin_unlock(&w->lock);
}

/* bottom == slot already. */
struct ito__slot *ito__deque_pop_slow(struct worker *w, struct ito__slot *slot) {
    ito__spin_lock(&w->lock);
    if (slot < w->split) {
        if (slot >= w->top) { /* public and still there: take it back, and half of the rest, which we shall soon want */
            store_relaxed(&w->split, w->top + (slot - w->top) / 2);
        } else { /* all stolen */
            store_relaxed(&w->top, w->base);
            store_relaxed(&w->split, w->base);
            store_relaxed(&w->hot.bottom, w->base);
            slot = NULL;
        }
        store_relaxed(&w->hot.limit, w->split);
    }
    ito__spin_unlock(&w->lock);
    return slot;
}

void ito__deque_disown(struct worker *w, struct ito__slot *above, struct ito_thread *thread) {
    if (thread->flags & ITO__OWN_STACK)
        return;
    thread->flags |= ITO__OWN_STACK;
    /* Between the slot a thread was created at and `above` lie only tasks it forked. */
    struct ito__slot *slot = above - 1;
    while (slot >= w->base && (slot->thread & 1))
        slot--;
    if (slot >= w->base && load_relaxed(&slot->stack) == thread->stack)
        store_relaxed(&slot->stack, NULL);
}

/* The stolen thread is no longer alone with its creator. He may be joining it at this moment. */
static void share(struct ito_thread *t) {
    uintptr_t private = ITO__PRIVATE;
    cas_acq_rel(&t->state, &private, ITO__SHARED);
}

static void take(struct worker *victim, struct ito__slot *slot, struct ito__slot *out) {
    out->sp = slot->sp; /* not `stack`: its owner may be taking it along at this moment */
    out->thread = slot->thread;
    if (slot->thread & 1) {
        ito__fork_taken((struct ito__fork *)(slot->thread - 1), slot);
    } else {
        struct ito_thread *t = (struct ito_thread *)slot->thread;
        share(t);
        ito__deque_disown(victim, slot, t);
    }
}

enum ito__steal ito__deque_steal(struct worker *victim, bool force, struct ito__slot *out) {
    if (!force && load_relaxed(&victim->top) >= load_relaxed(&victim->split))
        return ITO__STEAL_EMPTY; /* a guess: the next round guesses again, and parking looks with force */
    if (!ito__spin_try(&victim->lock))
        return ITO__STEAL_LOST;
    enum ito__steal result = ITO__STEAL_EMPTY;
    struct ito__slot *slot = victim->top;
    if (slot < victim->split) {
        take(victim, slot, out);
        store_relaxed(&victim->top, slot + 1);
        result = ITO__STEAL_WON;
    } else if (force && ito__pool.membarrier && load_relaxed(&victim->hot.bottom) > victim->split) {
        /* The owner does not answer: a long task. Claim his oldest slot as in Dekker's algorithm, the fence on his side
         * being the membarrier: either he sees the new limit and waits for the lock, or we see that he has popped. */
        slot = victim->split;
        store_relaxed(&victim->hot.limit, slot + 1);
        /* ORDER acquire on bottom; pairs with the release of the push. Makes the slot's content visible. */
        if (ito__prim_membarrier() && load_acquire(&victim->hot.bottom) > slot) {
            take(victim, slot, out);
            store_relaxed(&victim->top, slot + 1);
            store_relaxed(&victim->split, slot + 1);
            result = ITO__STEAL_WON;
        } else {
            store_relaxed(&victim->hot.limit, slot);
        }
    }
    ito__spin_unlock(&victim->lock);
    return result;
}

bool ito__deque_looks_full(struct worker *victim) {
    return load_relaxed(&victim->hot.bottom) > load_relaxed(&victim->top);
}
