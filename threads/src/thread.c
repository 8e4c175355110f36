/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads begin and end. The hot paths are in ito/inline.h; what they leave out is here: attributes, foreign callers,
 * no stack or descriptor at hand, a request for work, ends that others may watch.
 */
#include "internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ito__fatal(const char *what, const struct ito_thread *t) {
    char line[256];
    int n = snprintf(line, sizeof line, "ito: error: %s (thread %p%s%s)\n", what, (const void *)t,
                     t && t->name ? ", " : "", t && t->name ? t->name : "");
    if (n > 0 && write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1) < 0)
        n = 0;
    abort();
}

/* ---- begin ------------------------------------------------------------------------------------------------------ */

/* First code of a thread whose creator's context was just saved, so now thieves may have it. */
static void entry_child_first(void) {
    struct worker *w = worker_of(ito__worker());
    struct ito_thread *t = w->hot.current;
    ITO__HOOK_ENTER(t);
    /* ORDER release; pairs with the acquire load of `bottom` in a forced ito__deque_steal(). Publishes the slot and the
     * context it points to. Other thieves get them through the lock. */
    store_release(&w->hot.bottom, w->hot.bottom + 1);
    ito__answer_creation(w);
    ITO__TRACE_START(t);
    ito__end_slow(t->fn(t->arg));
}

/* First code of a thread that was made ready before it ran. */
static void entry_ready(void) {
    struct ito_thread *t = ito__worker()->current;
    ITO__HOOK_ENTER(t);
    ITO__TRACE_START(t);
    ito__end_slow(t->fn(t->arg));
}

static int child_first(struct worker *w, struct ito_thread *t) {
    struct ito__slot *slot = w->hot.bottom;
    if (slot == w->end) {
        if (!ito__deque_grow(w))
            return EAGAIN;
        slot = w->hot.bottom;
    }
    if (!(t->flags & ITO__OWN_STACK)) {
        if (slot->stack == NULL)
            slot->stack = ito__stack_get(w, 0);
        if (slot->stack == NULL)
            return EAGAIN;
        t->stack = slot->stack;
    }
    struct ito_thread *me = w->hot.current;
    slot->thread = (uintptr_t)me;
    w->hot.current = t;
    ITO__HOOK_LEAVE(me, t, 0);
    ito__context_start(&slot->sp, t->stack, entry_child_first);
    ITO__HOOK_ENTER(me);
    return 0;
}

/* Not the creator's worker will run it: make it ready there. */
static int help_first(struct worker *w, struct ito_thread *t) {
    if (!(t->flags & ITO__OWN_STACK)) {
        t->stack = ito__stack_get(w, 0);
        if (t->stack == NULL)
            return EAGAIN;
        t->flags |= ITO__OWN_STACK;
    }
    t->sp = ito__context_make(t->stack, entry_ready);
    if (t->bind >= 0)
        ito__inbox_push(&ito__pool.workers[t->bind], t);
    else
        ito__inject(t);
    return 0;
}

static bool attr_ok(const ito_attr *attr) {
    return attr->struct_size == sizeof *attr && (attr->flags & ~ITO_ATTR_DETACHED) == 0 && attr->worker >= -1 &&
           (attr->worker < 0 || (uint32_t)attr->worker < ito__pool.n_workers);
}

int ito__create_slow(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg) {
    struct worker *w = worker_of(ito__worker());
    if (ito__pool.n_workers == 0)
        return EPERM;
    if (fn == NULL || (attr && !attr_ok(attr)))
        return EINVAL;
    struct ito_thread *t = ito__descriptor_get(w);
    if (t == NULL)
        return EAGAIN;
    bool detached = out == NULL || (attr && attr->flags & ITO_ATTR_DETACHED);
    t->fn = fn;
    t->arg = arg;
    t->result = NULL;
    if (attr) {
        t->name = attr->name;
        t->bind = attr->worker;
        t->priority = attr->priority;
        if (attr->stack_bytes != 0) {
            t->stack = ito__stack_get(w, attr->stack_bytes);
            if (t->stack)
                t->flags |= ITO__OWN_STACK;
            if (t->stack == NULL) {
                ito__descriptor_put(w, t);
                return EAGAIN;
            }
        }
    }
    bool elsewhere = w == NULL || (t->bind >= 0 && (uint32_t)t->bind != w->index);
    bool traced = w && load_relaxed(&w->hot.ask) & ITO__ASK_TRACE;
    /* Written before it runs: once it runs it may be gone when we come back. */
    if (out && detached)
        *out = NULL;
    store_relaxed(&t->state, detached ? ITO__DETACHED : elsewhere || traced || attr ? ITO__SHARED : ITO__PRIVATE);
    ITO__TRACE_CREATE(t, w ? w->hot.current : NULL);
    int error = elsewhere ? help_first(w, t) : child_first(w, t);
    /* Maybe on another worker now. */
    if (error == 0) {
        if (out && !detached)
            *out = t;
        return 0;
    }
    if (t->flags & ITO__OWN_STACK)
        ito__stack_put(w, t->stack);
    ito__descriptor_put(w, t);
    return error;
}

int ito_create(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg) {
    return ito__create(out, attr, fn, arg);
}

/* ---- forked tasks ------------------------------------------------------------------------------------------------ */

static void *run_fork(void *arg) {
    struct ito__fork *fork = arg;
    fork->run(fork);
    ITO__TRACE_END(ito__self());
    /* ORDER acq_rel; release publishes the result to the acquire load in wait_fork(), acquire: the waiter's context. */
    uintptr_t old = exchange_acq_rel(&fork->state, ITO__ENDED);
    if (old >= ITO__STATES)
        ito__ready((struct ito_thread *)old);
    return NULL;
}

struct ito_thread *ito__promote(struct worker *w, struct ito__fork *fork) {
    struct ito_thread *t = ito__descriptor_get(w);
    if (t == NULL)
        return NULL;
    t->stack = ito__stack_get(w, 0);
    if (t->stack == NULL) {
        ito__descriptor_put(w, t);
        return NULL;
    }
    t->fn = run_fork;
    t->arg = fork;
    t->flags |= ITO__OWN_STACK;
    store_relaxed(&t->state, ITO__DETACHED);
    t->sp = ito__context_make(t->stack, entry_ready);
    ITO__TRACE_PROMOTE(t, fork);
    return t;
}

void ito__fork_taken(struct ito__fork *fork, const struct ito__slot *slot) {
    uintptr_t state = load_relaxed(&fork->state);
    /* Not its slot: taken before, or the parent, on another worker by now, waits for it already. */
    if ((state & ~(uintptr_t)1) == (uintptr_t)slot)
        cas_acq_rel(&fork->state, &state, ITO__SHARED);
}

void ito__fork_slow(struct ito__fork *fork, const char *name) {
    struct worker *w = worker_of(ito__worker());
    store_relaxed(&fork->state, ITO__PRIVATE);
    if (w == NULL || (w->hot.bottom == w->end && !ito__deque_grow(w)))
        return; /* a foreign thread, or no memory */
    struct ito__slot *slot = w->hot.bottom;
    store_relaxed(&fork->state, (uintptr_t)slot + (ITO__TRACING ? 1 : 0));
    slot->thread = (uintptr_t)fork + 1;
    ITO__TRACE_FORK(fork, name); /* before a thief can have it: or its end may come before its creation */
    (void)name;
    /* ORDER release; as in entry_child_first(). */
    store_release(&w->hot.bottom, slot + 1);
    ito__answer_creation(w);
}

struct fork_wait {
    struct ito__fork *fork;
    struct ito_thread *me;
};

static void fork_register(void *arg) {
    struct fork_wait *f = arg;
    uintptr_t state = load_relaxed(&f->fork->state);
    while (state != ITO__ENDED) /* its slot, or SHARED: whoever takes it, or moves its slot, may be at it now */
        /* ORDER acq_rel; release publishes the waiter's context to the exchange in run_fork(). */
        if (cas_acq_rel(&f->fork->state, &state, (uintptr_t)f->me))
            return;
    ito__ready(f->me);
}

static void wait_fork(struct ito__fork *fork) {
    /* ORDER acquire; pairs with the exchange in run_fork(). Makes the result visible. */
    if (load_acquire(&fork->state) == ITO__ENDED)
        return;
    struct ito_thread *me = ito__self();
    struct fork_wait f = {fork, me};
    me->wait_kind = ITO__WAIT_FORK;
    me->wait_on = fork;
    ito__block(fork_register, &f);
    me->wait_kind = ITO__WAIT_NONE;
    me->wait_on = NULL;
    (void)load_acquire(&fork->state);
}

static bool stack_is_low(const struct ito_thread *t) {
    return (char *)__builtin_frame_address(0) < t->stack->fork_low;
}

int ito__sync_slow(struct ito__fork *fork) {
    if (load_relaxed(&fork->state) == ITO__PRIVATE)
        return 1;
    struct worker *w = worker_of(ito__worker());
    struct ito__slot *slot = NULL;
    if (w && (w->hot.bottom - 1)->thread == (uintptr_t)fork + 1) {
        struct ito__slot *above = w->hot.bottom;
        slot = deque_pop(w);
        /* All stolen: the deque begins anew at its base, and threads created from now on run on its slots' stacks. If
         * we run on one of them it must leave its slot now: when we block it would not be found any more. */
        if (slot == NULL)
            ito__deque_disown(w, above, w->hot.current);
    }
    if (slot == NULL) {
        wait_fork(fork); /* stolen, or we are no longer on the worker whose deque it is in */
    } else if (stack_is_low(w->hot.current)) {
        struct ito_thread *t = ito__promote(w, fork);
        if (t == NULL)
            return 1; /* no memory for a stack: what is left of this one must do */
        ito__fork_taken(fork, slot);
        ito__ready_push(w, t);
        wait_fork(fork);
    } else if (ITO__TRACING) {
        ITO__TRACE_RUN(fork, 1);
        fork->run(fork);
        ITO__TRACE_RUN(fork, 0);
    } else {
        return 1;
    }
    ITO__TRACE_SYNC(fork);
    return 0;
}

/* ---- end -------------------------------------------------------------------------------------------------------- */

static void release_stack(void *stack) {
    ito__stack_put(worker_of(ito__worker()), stack);
}

/* Somebody may be watching: hand the result over by an atomic exchange, then continue whoever is next. */
static void __attribute__((noreturn)) finish_shared(struct worker *w, struct ito_thread *t, struct ito__slot *slot) {
    struct ito__stack *stack = t->flags & ITO__OWN_STACK ? t->stack : NULL; /* else it stays in its slot */
    struct ito__next next;
    bool have = slot && ito__take_slot(w, slot, &next);
    if (slot && !have)
        store_release(&w->hot.bottom, slot + 1); /* no memory for that task now: put it back */
    /* ORDER acq_rel; release publishes the result to the joiner, acquire: his context, which we may resume. After it
     * `t` is his: he may have freed it. */
    uintptr_t old = exchange_acq_rel(&t->state, ITO__ENDED);
    if (old == ITO__DETACHED) {
        ito__descriptor_put(w, t);
    } else if (old >= ITO__STATES) {
        struct ito_thread *joiner = (struct ito_thread *)old;
        if (!have && !(joiner->flags & ITO__FOREIGN) && (joiner->bind < 0 || (uint32_t)joiner->bind == w->index)) {
            next = (struct ito__next){joiner, joiner->sp};
            have = true;
        } else {
            ito__ready(joiner);
        }
    }
    if (!have)
        next = slot ? (struct ito__next){&w->sched, w->sched.sp} : ito__pick(w);
    w->hot.current = next.thread;
    ITO__HOOK_LEAVE(t, next.thread, 1);
    ito__context_jump(next.sp, stack ? release_stack : NULL, stack);
}

void ito__end_slow(void *result) {
    struct worker *w = worker_of(ito__worker());
    struct ito_thread *t = w->hot.current;
    if (UNLIKELY(t->keys != NULL)) {
        ito__keys_end(t);
        w = worker_of(ito__worker()); /* destructors may block */
    }
    ITO__TRACE_END(t);
    ITO__HOOK_END(t);
    t->result = result;
    struct ito__slot *slot = w->hot.bottom == w->base ? NULL : deque_pop(w);
    if (slot == NULL || slot->thread & 1 || load_relaxed(&t->state) != ITO__PRIVATE)
        finish_shared(w, t, slot);
    /* Our creator has not run since he created us, so nobody else knows us: docs/design/deque.md, "the plain exit". */
    store_relaxed(&t->state, ITO__DONE);
    struct ito_thread *creator = (struct ito_thread *)slot->thread;
    w->hot.current = creator;
    ITO__HOOK_LEAVE(t, creator, 1);
    ito__context_jump(slot->sp, NULL, NULL);
}

void ito_exit(void *result) {
    struct ito__worker *w = ito__worker();
    if (w == NULL)
        pthread_exit(result);
    if (w->current->flags & ITO__ROOT)
        ito__fatal("ito_exit called by the root thread: return from main, or call ito_fini", w->current);
    ito__end_slow(result);
}

/* ---- join ------------------------------------------------------------------------------------------------------- */

static bool has_ended(uintptr_t state) {
    return state == ITO__DONE || state == ITO__ENDED;
}

struct join {
    struct ito_thread *thread, *me;
    int error;
};

/* The joiner is off its stack. */
static void join_register(void *arg) {
    struct join *j = arg;
    uintptr_t state = load_relaxed(&j->thread->state);
    while (state == ITO__PRIVATE || state == ITO__SHARED) {
        /* ORDER acq_rel; release publishes the joiner's context to the exchange in finish_shared(). */
        if (cas_acq_rel(&j->thread->state, &state, (uintptr_t)j->me))
            return;
    }
    j->error = has_ended(state) ? 0 : EINVAL;
    ito__ready(j->me);
}

int ito__join_slow(ito_thread *thread, void **result) {
    struct ito_thread *me = ito__self();
    if (thread == NULL)
        return EINVAL;
    if (thread == me)
        return EDEADLK;
    /* ORDER acquire; pairs with the release when the thread ended. Makes its result visible. */
    uintptr_t state = load_acquire(&thread->state);
    if (state == ITO__PRIVATE || state == ITO__SHARED) {
        struct join j = {thread, me, 0};
        me->wait_kind = ITO__WAIT_JOIN;
        me->wait_on = thread;
        ito__block(join_register, &j);
        me->wait_kind = ITO__WAIT_NONE;
        me->wait_on = NULL;
        if (j.error)
            return j.error;
        state = load_acquire(&thread->state);
    }
    if (!has_ended(state))
        return EINVAL; /* detached, joined before, or somebody else waits */
    if (result)
        *result = thread->result;
    ITO__TRACE_JOIN(thread->id);
    ito__descriptor_put(worker_of(ito__worker()), thread);
    return 0;
}

int ito_join(ito_thread *thread, void **result) {
    return thread ? ito__join(thread, result) : EINVAL;
}

int ito_detach(ito_thread *thread) {
    if (thread == NULL)
        return EINVAL;
    uintptr_t state = load_acquire(&thread->state);
    while (state == ITO__PRIVATE || state == ITO__SHARED)
        if (cas_acq_rel(&thread->state, &state, ITO__DETACHED))
            return 0;
    if (!has_ended(state))
        return EINVAL;
    ito__descriptor_put(worker_of(ito__worker()), thread);
    return 0;
}

const char *ito_name(const ito_thread *thread) {
    return thread->name;
}
