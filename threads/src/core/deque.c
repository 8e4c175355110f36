/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The deque: docs/design/deque.md has the rules and their proof. In short:
 *
 *     base ... stolen ... top ... public ... split ... private ... bottom ... unused ... end
 *
 * The owner pushes and pops private slots with plain stores. Everything else happens under `lock`, which thieves try
 * and the owner takes. limit == split, or split + 1 while a thief is trying to take a private slot.
 *
 *   field                 writer                    reader                      rule
 *   hot.bottom            owner                     owner; thieves under lock   push: release store, pop: relaxed store
 *   hot.limit             holder of `lock`          owner, without lock         relaxed; the membarrier of a forced
 *                                                                               steal stands between its store and the
 *                                                                               thief's look at bottom
 *   top, split            holder of `lock`          same; others as hints       relaxed stores, for the hints' sake
 *   base, end, the array  owner, holding `lock`     owner; holders of `lock`    so the array can go when it has grown
 *   slot.sp, slot.thread  owner, slot at bottom     the one that takes it       published by the store of bottom
 *   slot.folded_in        as slot.thread; cleared by the holder of `lock`
 *   slot.stack            see ito/types.h
 *
 * A slot may be taken by the owner, with a pop that is not below `limit`, and by the holder of `lock`, which moves
 * `top`, `split` or `bottom` past it. That both take the same slot is what rule 4 of deque.md excludes.
 *
 * threads/tests/explore runs this file under every schedule (programs last_*, two_*, grow_forced); models/deque is the
 * same protocol in Rust, with two thieves and with forked tasks whose parent moves.
 */
#include "core/internal.h"

#include <string.h>

#ifndef FIRST_SLOTS /* threads/tests/explore takes fewer */
#define FIRST_SLOTS 128u
#endif

static size_t slot_bytes(size_t n) {
    size_t page = ito__prim_page();
    return (n * sizeof(struct ito__slot) + page - 1) / page * page;
}

/*
 * The sync of a task compares addresses of slots, so a task whose slot moves must be told. Its parent may be on another
 * worker by now, and be waiting for the task or about to.
 */
static void move_fork(struct ito__fork *fork, const struct ito__slot *from, const struct ito__slot *to) {
    uintptr_t state = load_relaxed(&fork->state), odd = state & 1;
    /* ORDER acq_rel; pairs with the compare-and-swap in fork_register(). If the parent registers first, this one fails
     * and its address stays. */
    if (state - odd == (uintptr_t)from)
        cas_acq_rel(&fork->state, &state, (uintptr_t)to + odd);
}

/*
 * Gives the deque an array of n slots, and moves its `used` slots there. Owner; holding the lock, unless the deque is
 * new.
 *
 * One slot lies below base, so that reading bottom - 1 of an empty deque is harmless. The slot at end never gets a
 * stack, so that a creation there takes the slow path, which grows the deque.
 */
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
    /* ORDER release; pairs with the acquire load of bottom in a forced ito__deque_steal(). Publishes the copied slots,
     * as each push did in the old array. */
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

/* Only the holder of the lock looks into another worker's array, so the old one can be unmapped at once. */
bool ito__deque_grow(struct worker *w) {
    size_t n = (size_t)(w->end - w->base) + 2;
    ito__spin_lock(&w->lock);
    bool ok = place(w, 2 * n, n);
    ito__spin_unlock(&w->lock);
    return ok;
}

/* The owner was asked for work and holds the lock: the older half of its private slots becomes public. */
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

/*
 * The pop of `slot` found it below `limit`; bottom == slot already. Under the lock no thief is at work, so `split` and
 * `top` tell what has become of it: private after all (a thief gave up), public, or stolen. If it was stolen, so were
 * all slots below it, and the deque begins anew at its base.
 */
struct ito__slot *ito__deque_pop_slow(struct worker *w, struct ito__slot *slot) {
    ito__spin_lock(&w->lock);
    if (slot < w->split) {
        if (slot >= w->top) { /* public and still there: take it back, and half of the rest, which are wanted soon */
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

#define LOOKED_AT 256 /* slots: the lock is not held for long */

/* Under the lock no thief has one of them, so that a thief's event comes after. */
void ito__deque_tell_moved(struct worker *w) {
    ito__spin_lock(&w->lock);
    struct ito__slot *slot = w->top;
    for (; slot < w->hot.bottom; slot++)
        if (!(slot->thread & 1))
            ito__listener->steal((struct ito_thread *)slot->thread);
    ito__spin_unlock(&w->lock);
}

/* Owner. Under the lock no thief has the slot, nor sees the task before its creation is written. */
void ito__deque_unfold(struct worker *w) {
    ito__spin_lock(&w->lock);
    for (struct ito__slot *slot = w->top; slot < w->hot.bottom && slot < w->top + LOOKED_AT; slot++) {
        uintptr_t state = (uintptr_t)slot;
        struct ito__fork *fork = (struct ito__fork *)(slot->thread - 1);
        if (!(slot->thread & 1) || slot->folded_in == 0)
            continue;
        /* Odd from now on: its sync takes the slow path. ORDER acq_rel; pairs with the compare-and-swap in fork_register():
         * if the parent, on another worker by now, registers first, this one fails and its address stays. */
        if (cas_acq_rel(&fork->state, &state, (uintptr_t)slot + 1)) {
            ito__listener->unfold(fork, slot->folded_in);
            slot->folded_in = 0;
            break;
        }
    }
    ito__spin_unlock(&w->lock);
}

/* Note in the task's state that it has left its slot, so that its parent does not look for it there. */
void ito__fork_taken(struct ito__fork *fork, const struct ito__slot *slot) {
    uintptr_t state = load_relaxed(&fork->state);
    /* If the state is not the slot, the task was taken before, or its parent, on another worker by now, waits already.
     * ORDER acq_rel; pairs with the compare-and-swap in fork_register(). If the parent registers first, this one fails
     * and its address stays. Publishes nothing: the task's frame came with the slot. */
    if ((state & ~(uintptr_t)1) == (uintptr_t)slot)
        cas_acq_rel(&fork->state, &state, ITO__SHARED);
}

/* Copies the slot, which is now the caller's, and tells what was in it that it moves. The victim's lock is held. */
static void take(struct worker *victim, struct ito__slot *slot, struct ito__slot *out) {
    out->sp = slot->sp; /* not `stack`: its owner may be taking it along at this moment */
    out->thread = slot->thread;
    out->folded_in = slot->folded_in;
    if (slot->thread & 1) {
        ito__fork_taken((struct ito__fork *)(slot->thread - 1), slot);
    } else {
        struct ito_thread *t = (struct ito_thread *)slot->thread;
        ito__expose(t); /* no longer alone with its creator, which may be joining it at this moment */
        ito__deque_disown(victim, slot, t);
    }
}

/*
 * Takes the oldest public slot of `victim`; with force, if none is public, its oldest private one.
 *
 * The forced steal is Dekker's algorithm with the owner's fence moved to the thief's side. The owner's pop stores
 * `bottom` and then loads `limit`, with no fence between; the thief stores `limit`, has the kernel run a full barrier
 * on the owner's CPU, and loads `bottom`. The barrier falls either after the owner's store, and then the thief sees
 * that the slot was popped and gives up; or before the owner's load, and then the owner sees the new limit and waits
 * for the lock. If both happen, the thief gives up and the owner, holding the lock, finds the slot private.
 */
enum ito__steal ito__deque_steal(struct worker *victim, bool force, struct ito__slot *out) {
    /* A guess, so that nobody takes the locks of empty deques: the next round guesses again, and the last to park looks
     * after a membarrier. */
    struct ito__slot *split = load_relaxed(&victim->split);
    if (load_relaxed(&victim->top) >= split && !(force && load_relaxed(&victim->hot.bottom) > split))
        return ITO__STEAL_EMPTY;
    if (!ito__spin_try(&victim->lock))
        return ITO__STEAL_LOST;
    enum ito__steal result = ITO__STEAL_EMPTY;
    struct ito__slot *slot = victim->top;
    if (slot < victim->split) {
        take(victim, slot, out);
        store_relaxed(&victim->top, slot + 1);
        result = ITO__STEAL_WON;
    } else if (force && ito__pool.membarrier && load_relaxed(&victim->hot.bottom) > victim->split) {
        /* The owner does not answer: it runs a long task. */
        slot = victim->split;
        store_relaxed(&victim->hot.limit, slot + 1);
        /* ORDER seq_cst by the membarrier; its partner is the compiler barrier in deque_pop() and ito__fork_take().
         * ORDER acquire on bottom; pairs with the release store of a push (ito__fork_push, entry_child_first). Shows
         * the slot's content, also of a push that came after the membarrier. */
        if (ito__membarrier() && load_acquire(&victim->hot.bottom) > slot) {
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

/* Sets a bit of v->ask and makes its next creation take the slow path. A bit that is set stays until `v` clears it. */
void ito__ask(struct worker *v, uint32_t why) {
    if (load_relaxed(&v->hot.ask) & why)
        return;
    /* ORDER acq_rel; pairs with the read-modify-write in hear(). Its release publishes that the caller has entered the
     * list of parked workers (park.c, steps 1 and 3). */
    or_acq_rel(&v->hot.ask, why);
    store_relaxed(&v->hot.end, NULL);
}
