/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads stop and go on. All blocking primitives are built from ito__block and ito__ready.
 *
 *   running --(ito__block)--> off its stack, after() has run --(ito__ready, by anyone)--> in a ready queue --> running
 *
 * A thread that blocks must not be made ready before its context is complete. So the caller of ito__block passes a
 * function, after(), that lets others know of the thread, and that runs on the next thread's stack.
 *
 * A kernel thread that is no worker has no context to switch to; it sleeps on its descriptor's futex, `wake`, which is
 * 1 when it was made ready and which only it sets back to 0.
 */
#include "core/internal.h"

uint32_t ito__n_foreign_waits;

static void block_foreign(void (*after)(void *), void *arg) {
    struct ito_thread *me = ito__self();
    int saved = errno;
    /* Counted before it can be woken; from here on it only gives back the bit of what it waits for. ito__ready() takes
     * it off. Relaxed: a number, read when all workers sleep (stall.c). */
    __atomic_fetch_add(&ito__n_foreign_waits, 1, __ATOMIC_RELAXED);
    after(arg);
    /* ORDER acquire; pairs with the release store in ito__ready(). Shows what the waker did, the result of the wait. */
    while (load_acquire(&me->wake) == 0)
        ito__prim_wait(&me->wake, 0, UINT64_MAX);
    store_relaxed(&me->wake, 0);
    errno = saved;
}

/**
 * ito__block - suspend the caller until ito__ready(caller).
 * @after: runs once the caller is off its stack, to let others know of it. It must not block or switch. It may make the
 *         caller ready again.
 */
void ito__block(void (*after)(void *), void *arg) {
    struct worker *w = worker_of(ito__worker());
    if (w == NULL) {
        block_foreign(after, arg);
        return;
    }
    struct ito_thread *me = w->hot.current;
    ito__expose(me);
    ito__deque_disown(w, w->hot.bottom, me);
    ITO__TRACE_BLOCK(me);
    switch_to(w, me, ito__pick(w), after, arg);
    ITO__TRACE_RESUME(me);
}

/**
 * ito__block_to - the same, but continue `to` at once: a hand-over without a queue.
 * @to:    a suspended thread that the caller alone may make ready.
 * Note:   every so often, and where `to` may not run on this worker, it is made ready instead. Otherwise two threads
 *         that hand something to and fro for ever would starve the other threads of this worker.
 */
void ito__block_to(struct ito_thread *to, void (*after)(void *arg), void *arg) {
    struct worker *w = worker_of(ito__worker());
    if (w == NULL || to->flags & ITO__FOREIGN || (to->bind >= 0 && (uint32_t)to->bind != w->index) ||
        w->tick++ % ITO__HAND_OVERS == 0) {
        ito__ready(to);
        ito__block(after, arg);
        return;
    }
    struct ito_thread *me = w->hot.current;
    if (UNLIKELY(load_relaxed(&w->hot.ask) & ITO__ASK_WORK))
        ito__answer(w);
    ito__expose(me);
    ito__deque_disown(w, w->hot.bottom, me);
    ITO__TRACE_BLOCK(me);
    switch_to(w, me, (struct ito__next){to, to->sp}, after, arg);
    ITO__TRACE_RESUME(me);
}

/**
 * ito__ready - let a suspended thread go on; it may be running, and gone, before this returns.
 * Thread:  any. The caller must be the only one that may make @t ready.
 */
void ito__ready(struct ito_thread *t) {
    if (UNLIKELY(t->flags & ITO__FOREIGN)) {
        /* ORDER release; pairs with the acquire load in block_foreign(). Publishes the result of the wait. `t` may be
         * gone once it sees the 1, so the wake-up uses the address only. */
        uint32_t *word = &t->wake;
        __atomic_fetch_sub(&ito__n_foreign_waits, 1, __ATOMIC_RELAXED);
        store_release(word, 1);
        ito__prim_wake(word, 1);
        return;
    }
    struct worker *w = worker_of(ito__worker());
    if (UNLIKELY(t->bind >= 0 && (w == NULL || (uint32_t)t->bind != w->index))) {
        ito__inbox_push(&ito__pool.workers[t->bind], t);
    } else if (UNLIKELY(w == NULL)) {
        ito__inject(t);
    } else {
        ito__ready_push(w, t);
        if (UNLIKELY(load_relaxed(&w->hot.ask) & ITO__ASK_WORK))
            ito__answer(w);
    }
}

static void ready_again(void *thread) {
    ito__ready_push(worker_of(ito__worker()), thread);
}

static void yield_slow(void) {
    struct worker *w = worker_of(ito__worker());
    struct ito__next next;
    if (w == NULL) {
        ito__prim_yield();
        return;
    }
    w->yields_left = 64;
    struct ito_thread *me = w->hot.current;
    ito__expose(me);
    ito__deque_disown(w, w->hot.bottom, me); /* before a slot is popped: it looks below the bottom */
    if (UNLIKELY(ito__can_answer(w)))
        ito__answer(w);
    if (!ito__find(w, &next)) {
        struct ito_thread *t = ito__inject_pop();
        if (t == NULL) {
            /* No other thread is ready. The one that the caller waits for may need this CPU. */
            if (w->tick % 16 == 0)
                ito__prim_yield();
            return;
        }
        next = (struct ito__next){t, t->sp};
    }
    ITO__TRACE_BLOCK(me);
    switch_to(w, me, next, ready_again, me);
    ITO__TRACE_RESUME(me);
}

#ifdef ITO__GENERIC
void ito_yield(void) {
    yield_slow();
}
#else
/* A function of its own, so that the fast path has no registers to save. It is reached by jumps, so the stack is not
 * aligned yet. */
static __attribute__((noinline, noreturn, force_align_arg_pointer)) void yield_at_slow(void *sp) {
    yield_slow();
    ito__context_jump(sp, NULL, NULL);
}

/*
 * The fast yield. The caller's context is saved at sp, above the frame of this function.
 *
 * It is one visit of the owner to its ready queue (queue.c, enter_owner and leave_owner) with the switch in its middle:
 * `me` enters the queue before it is off its stack, but no thief looks until rq_busy is 0, which is stored on the next
 * thread's stack.
 */
void ito__yield_at(void *sp) {
    struct ito__worker *hot = ito__here(); /* ito__nobody is no whole worker: `ask` is all that is read of it */
    struct worker *w = worker_of(hot);
    struct ito_thread *me = hot->current;
    /* No request; no continuation in the deque, which would go first; the stack is the thread's own; and it is not the
     * turn of the other queues. */
    if (LIKELY(ITO__PEEK(hot->ask) == 0 && w->hot.bottom == w->base && me->flags & ITO__OWN_STACK &&
               --w->yields_left != 0)) {
        store_relaxed(&w->rq_busy, 1);
        /* ORDER none in hardware: the partner is the membarrier in enter_thief(), as in enter_owner(). The second
         * barrier is the acquire of rq_frozen, which x86 gives every load; it pairs with the release in
         * ito__ready_steal(). */
        compiler_barrier();
        struct ito_thread *next = w->rq.head;
        uint32_t frozen = ITO__PEEK(w->rq_frozen);
        compiler_barrier();
        if (LIKELY(frozen == 0 && next != NULL && w->urgent.head == NULL && me->priority <= 0)) {
            me->next = NULL;
            w->rq.tail->next = me; /* next->next when it is alone */
            /* Atomic, so that they stay two stores: gcc makes one vector store of them, for which the next yield's load
             * would have to wait. */
            store_relaxed(&w->rq.tail, me);
            store_relaxed(&w->rq.head, next->next);
            me->sp = sp;
            w->hot.current = next;
            /* ORDER release, as every store of x86; pairs with the acquire load in enter_thief(). Publishes the queue
             * and the context of `me`, when its stack is left. */
            ito__context_jump_release(&next->sp, &w->rq_busy);
        }
        /* ORDER release; pairs with the acquire load in enter_thief(), like leave_owner(). Nothing was changed. */
        store_release(&w->rq_busy, 0);
    }
    yield_at_slow(sp);
}

/* ito_yield itself: context/yield.c */
#endif
