/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads stop and go on. All blocking primitives are built from ito__block and ito__ready. */
#include "internal.h"

/* `me` leaves the worker's stack discipline: others may see it end, and its stack goes with it. */
void ito__expose(struct ito_thread *me) {
    uintptr_t private = ITO__PRIVATE;
    if (load_relaxed(&me->state) == ITO__PRIVATE)
        cas_acq_rel(&me->state, &private, ITO__SHARED); /* fails when the creator, stolen, has registered as joiner */
}

static void block_foreign(void (*after)(void *), void *arg) {
    struct ito_thread *me = ito__self();
    int saved = errno;
    after(arg);
    /* ORDER acquire; pairs with the release in ito__ready(). */
    while (load_acquire(&me->wake) == 0)
        ito__prim_wait(&me->wake, 0, UINT64_MAX);
    store_relaxed(&me->wake, 0);
    errno = saved;
}

/**
 * ito__block - suspend the caller until ito__ready(caller).
 * @after: runs once the caller is off its stack, so that it can let others know of it; must not block or switch. It may
 * make the caller ready again.
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
 * ito__block_to - the same, and continue `to`, which is suspended and now the caller's to make ready, at once: a
 * hand-over without a queue. Every so often, and where `to` may not run here, it is made ready instead: two threads
 * that hand something to and fro for ever must not starve the others of this worker.
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

void ito__ready(struct ito_thread *t) {
    if (UNLIKELY(t->flags & ITO__FOREIGN)) {
        /* ORDER release; pairs with the acquire in block_foreign(). `t` may be gone once it sees the 1: wake by address
         * only. */
        uint32_t *word = &t->wake;
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
            /* Nobody else here. Whoever the caller waits for may need this CPU. */
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
/* Apart, so that the fast path has no registers to save. It comes by jumps, so nobody has aligned the stack. */
static __attribute__((noinline, noreturn, force_align_arg_pointer)) void yield_at_slow(void *sp) {
    yield_slow();
    ito__context_jump(sp, NULL, NULL);
}

/*
 * The caller's context is saved at sp, above the frame of this function.
 * One visit of the owner to his queue (queue.c: rq_busy), with the switch in its middle: `me` is in the queue before it
 * is off its stack, but no thief looks until rq_busy is 0, which is stored on the next thread's stack.
 */
void ito__yield_at(void *sp) {
    struct ito__worker *hot = ito__here(); /* ito__nobody is no whole worker: `ask` is all that is read of it */
    struct worker *w = worker_of(hot);
    struct ito_thread *me = hot->current;
    /* No request, nobody's continuation below us (he goes first), our stack our own, and not the turn of the other
     * queues. */
    if (LIKELY(ITO__PEEK(hot->ask) == 0 && w->hot.bottom == w->base && me->flags & ITO__OWN_STACK &&
               --w->yields_left != 0)) {
        store_relaxed(&w->rq_busy, 1);
        compiler_barrier(); /* ORDER as in enter_owner() */
        struct ito_thread *next = w->rq.head;
        uint32_t frozen = ITO__PEEK(w->rq_frozen);
        compiler_barrier();
        if (LIKELY(frozen == 0 && next != NULL && w->urgent.head == NULL && me->priority <= 0)) {
            me->next = NULL;
            w->rq.tail->next = me; /* next->next when it is alone */
            /* Each store by itself: gcc makes one vector of the two, and the next yield's load waits for it. */
            store_relaxed(&w->rq.tail, me);
            store_relaxed(&w->rq.head, next->next);
            me->sp = sp;
            w->hot.current = next;
            ito__context_jump_release(&next->sp, &w->rq_busy);
        }
        store_release(&w->rq_busy, 0);
    }
    yield_at_slow(sp);
}

/* ito_yield itself: context/yield.c */
#endif
