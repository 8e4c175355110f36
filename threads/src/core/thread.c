/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads begin, end and are joined. The hot paths are in ito/inline.h; what they leave out is here: attributes,
 * foreign callers, no stack or descriptor at hand, a request for work, ends that others may watch.
 *
 * How a thread's `state` changes is in ito/types.h. Two handshakes meet in it:
 *
 *   join    the joiner puts its address into the state after its context is saved; the thread that ends exchanges the
 *           state for ENDED. The exchange returns the joiner (make it ready), or comes first (the joiner then reads
 *           ENDED and does not sleep).
 *   sync    the same between the parent of a forked task and the worker that ran it, in ito__fork.state.
 */
#include "core/internal.h"

#include <stdlib.h>

/* ---- begin ------------------------------------------------------------------------------------------------------ */

/* First code of a thread that runs before its creator. The creator's context has just been saved, so thieves may take
 * it from here on. */
static void entry_child_first(void) {
    struct worker *w = worker_of(ito__worker());
    struct ito_thread *t = w->hot.current;
    ITO__HOOK_ENTER(t);
    /* ORDER release; pairs with the acquire load of `bottom` in a forced ito__deque_steal(). Publishes the slot and the
     * context that it points to. A thief of a public slot gets them through the lock, which the owner took to
     * publish. */
    store_release(&w->hot.bottom, w->hot.bottom + 1);
    ito__answer_creation(w);
    ITO__TRACE_START(t);
    ito__end_slow(t->fn(t->arg));
}

/* First code of a thread that was made ready before it ran. The queue it came from published its descriptor. */
static void entry_ready(void) {
    struct ito_thread *t = ito__worker()->current;
    ITO__HOOK_ENTER(t);
    ITO__TRACE_START(t);
    ito__end_slow(t->fn(t->arg));
}

/*
 * The child runs at once on this worker, and the caller's continuation goes into the deque. The slot is written here,
 * the context by ito__context_start, and both are published by the child's first code (entry_child_first), when nothing
 * runs on the caller's stack any more.
 *
 * Returns when the caller continues, maybe on another worker: `w`, `slot` and `t` are old by then.
 */
static int child_first(struct worker *w, struct ito_thread *t) {
    struct ito__slot *slot = w->hot.bottom;
    if (slot == w->end) { /* no room: grow, which moves every slot */
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

/* Make a thread ready while its creator goes on: in the inbox of the worker that it is bound to, in the queue of the
 * creator's, or in the common one where the creator is not a worker. Return: 0 or EAGAIN. */
static int help_first(struct worker *w, struct ito_thread *t) {
    if (!(t->flags & ITO__OWN_STACK)) {
        t->stack = ito__stack_get(w, 0);
        if (t->stack == NULL)
            return EAGAIN;
        t->flags |= ITO__OWN_STACK;
    }
    t->sp = ito__context_make(t->stack, entry_ready);
    ito__ready(t);
    return 0;
}

/* Programs of the first version have no `stack` in their attributes. */
static void *stack_given(const ito_attr *attr) {
    return attr->struct_size == sizeof *attr ? attr->stack : NULL;
}

/* Whether the attributes are of a version that is known, and in range. */
static bool attr_ok(const ito_attr *attr, bool detached) {
    return (attr->struct_size == sizeof *attr || attr->struct_size == offsetof(ito_attr, stack)) &&
           (attr->flags & ~(ITO_ATTR_DETACHED | ITO__ATTR_UNSEEN | ITO__ATTR_LATER)) == 0 && attr->worker >= -1 &&
           (attr->worker < 0 || (uint32_t)attr->worker < ito__pool.n_workers) &&
           (stack_given(attr) == NULL || (!detached && attr->stack_bytes >= ITO_STACK_LEAST));
}

/*
 * Creation with all cases: attributes, bound threads, callers that are no workers, recorders, no stack in the slot. The
 * state that the thread begins in decides how it may end: PRIVATE only if the caller's continuation will wait below it
 * in this worker's deque and nothing else has to notice the end.
 */
int ito__create_slow(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg) {
    struct worker *w = worker_of(ito__worker());
    if (ito__pool.n_workers == 0)
        return EPERM;
    bool detached = out == NULL || (attr && attr->flags & ITO_ATTR_DETACHED);
    if (fn == NULL || (attr && !attr_ok(attr, detached)))
        return EINVAL;
    struct ito_thread *t = ito__descriptor_get(w);
    if (t == NULL)
        return EAGAIN;
    t->fn = fn;
    t->arg = arg;
    t->result = NULL;
    if (attr) {
        t->name = attr->name;
        t->bind = attr->worker;
        if (attr->worker >= 0)
            store_relaxed(&ito__pool.workers[attr->worker].has_bound, 1);
        t->priority = attr->priority;
        t->id = attr->flags & ITO__ATTR_UNSEEN ? ITO__ID_UNSEEN : 0;
        if (attr->stack_bytes != 0) {
            void *given = stack_given(attr);
            t->stack = given ? ito__stack_of_caller(given, attr->stack_bytes) : ito__stack_get(w, attr->stack_bytes);
            if (t->stack)
                t->flags |= ITO__OWN_STACK;
            if (t->stack == NULL) {
                ito__descriptor_put(w, t);
                return EAGAIN;
            }
        }
    }
    /* `elsewhere`: the child cannot run first, so the caller goes on. `traced`: a recorder wants to hear of the end. */
    bool elsewhere =
        w == NULL || (t->bind >= 0 && (uint32_t)t->bind != w->index) || (attr && attr->flags & ITO__ATTR_LATER);
    bool traced = w && load_relaxed(&w->hot.ask) & ITO__ASK_TRACE;
    /* Written before the thread runs: it may have ended and be gone when the creator continues. */
    if (out && detached)
        *out = NULL;
    store_relaxed(&t->state, detached ? ITO__DETACHED : elsewhere || traced || attr ? ITO__SHARED : ITO__PRIVATE);
    ITO__TRACE_CREATE(t, w ? w->hot.current : NULL);
    int error = elsewhere ? help_first(w, t) : child_first(w, t);
    /* The creator may be on another worker now. */
    if (error == 0) {
        if (out && !detached)
            *out = t;
        return 0;
    }
    if (t->flags & ITO__OWN_STACK && !ito__stack_is_callers(t->stack))
        ito__stack_put(w, t->stack);
    ito__descriptor_put(w, t);
    return error;
}

int ito_create(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg) {
    return ito__create(out, attr, fn, arg);
}

/* ---- forked tasks ------------------------------------------------------------------------------------------------
 *
 * A forked task is a function call that other workers may take over before its parent reaches the sync. It has no
 * descriptor and no stack until then, only struct ito__fork in the parent's frame and a slot in the deque:
 *   fork    ito__fork_push(), or ito__fork_slow() where there is no room
 *   sync    pops the slot and calls the function (the usual case), or
 *   steal   ito__promote() makes a thread of the task, which runs run_fork(); the sync then waits (wait_fork)
 */

/* What the thread of a stolen task runs. After the exchange the frame, and `fork` with it, belongs to the parent. */
static void *run_fork(void *arg) {
    struct ito__fork *fork = arg;
    fork->run(fork);
    ITO__TRACE_END(ito__self());
    /* ORDER acq_rel; pairs with the acquire loads in wait_fork() and the compare-and-swap in fork_register(). The
     * release publishes the task's result to its parent, the acquire shows the context of the parent that waits. */
    uintptr_t old = exchange_acq_rel(&fork->state, ITO__ENDED);
    if (old >= ITO__STATES)
        ito__ready((struct ito_thread *)old);
    return NULL;
}

/* Make a thread of a forked task, for a worker that has taken it. It is detached: no thread joins it, and its parent
 * waits on the task's own state. Null: no memory. */
struct ito_thread *ito__promote(struct worker *w, struct ito__fork *fork, uint64_t folded_in) {
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
    t->flags |= ITO__OWN_STACK | ITO__FORKED;
    store_relaxed(&t->state, ITO__DETACHED);
    t->sp = ito__context_make(t->stack, entry_ready);
    (void)folded_in;
    ITO__TRACE_PROMOTE(t, fork, folded_in);
    return t;
}

/* The push where a task is not folded as the one before was. */
static __attribute__((noinline)) void fork_push(struct ito__fork *fork, const char *name) {
    struct worker *w = worker_of(ito__worker());
    store_relaxed(&fork->state, ITO__PRIVATE);
    if (w == NULL || (w->hot.bottom == w->end && !ito__deque_grow(w)))
        return; /* a foreign thread, or no memory */
    uint64_t folded_in = ITO__TRACING ? ito__fold(w, fork, name) : 0;
    struct ito__slot *slot = w->hot.bottom;
    store_relaxed(&fork->state, (uintptr_t)slot + (ITO__TRACING && !folded_in ? 1 : 0));
    slot->thread = (uintptr_t)fork + 1;
    slot->folded_in = folded_in;
    if (!folded_in)
        ITO__TRACE_FORK(fork, name); /* before a thief can have it, else its end may be recorded before its creation */
    (void)name;
    /* ORDER release; pairs with the acquire load in a forced ito__deque_steal(), as in ito__fork_push(). */
    store_release(&w->hot.bottom, slot + 1);
    ito__answer_creation(w);
}

/*
 * The push when the fast path found no room: the deque is full, `end` is null because the worker was asked, or the
 * caller is no worker. In the last case, and without memory, the task stays PRIVATE and its sync runs it.
 *
 * While a recorder listens, every fork comes here; most of those of small tasks end here, too (fold.h).
 */
void ito__fork_slow(struct ito__fork *fork, const char *name) {
    struct ito__worker *here = ito__here();
    struct worker *w = worker_of(here);
    /* Of ito__nobody all bits of `ask` are set, and it is no struct worker. */
    if (load_relaxed(&here->ask) != ITO__ASK_TRACE || w->fold.run != fork->run || w->fold.left == 0 ||
        here->bottom == w->end) {
        fork_push(fork, name);
        return;
    }
    struct ito__slot *slot = w->hot.bottom;
    w->fold.left--;
    store_relaxed(&fork->state, (uintptr_t)slot);
    slot->thread = (uintptr_t)fork + 1;
    slot->folded_in = w->fold.task;
    /* ORDER release; pairs with the acquire load in a forced ito__deque_steal(), as in ito__fork_push(). */
    store_release(&w->hot.bottom, slot + 1);
}

struct fork_wait {
    struct ito__fork *fork;
    struct ito_thread *me;
};

/* Called when the parent is off its stack: put its address into the state, where the thread that runs the task finds
 * it. If the task has ended meanwhile, the parent goes on at once. */
static void fork_register(void *arg) {
    struct fork_wait *f = arg;
    uintptr_t state = load_relaxed(&f->fork->state);
    /* A compare-and-swap in a loop, since the worker that takes the task, or moves its slot, may change the state, too.
     * ORDER acq_rel; pairs with the exchange in run_fork(). The release publishes the parent's context. If the loop
     * ends because the task has ended, wait_fork() reads the state once more, with an acquire. */
    while (state != ITO__ENDED)
        if (cas_acq_rel(&f->fork->state, &state, (uintptr_t)f->me))
            return;
    ito__ready(f->me);
}

/* The parent waits for a task that runs, or will run, as a thread. */
static void wait_fork(struct ito__fork *fork) {
    /* ORDER acquire; pairs with the exchange in run_fork(). Shows the task's result. */
    if (load_acquire(&fork->state) == ITO__ENDED)
        return;
    struct ito_thread *me = ito__self();
    struct fork_wait f = {fork, me};
    me->wait_kind = ITO__WAIT_FORK;
    me->wait_on = fork;
    ito__block(fork_register, &f);
    me->wait_kind = ITO__WAIT_NONE;
    me->wait_on = NULL;
    /* ORDER acquire; pairs with the exchange in run_fork(). The value is known, ENDED; the load orders the task's
     * result before what the parent does next. The parent may have been resumed through a queue that publishes its own
     * content only. */
    (void)load_acquire(&fork->state);
}

/* Whether the rest of the stack is too small for a task as a plain call (ITO__FORK_RESERVE). */
static bool stack_is_low(const struct ito_thread *t) {
    return (char *)__builtin_frame_address(0) < t->stack->fork_low;
}

/*
 * Pops a task that lies at the bottom of the deque of `w`, with the lock if need be. Null: it was taken, or is in the
 * deque of a worker that the parent has left.
 */
static struct ito__slot *pop_fork(struct worker *w, const struct ito__fork *fork) {
    if (w == NULL || (w->hot.bottom - 1)->thread != (uintptr_t)fork + 1)
        return NULL;
    struct ito__slot *above = w->hot.bottom, *slot = deque_pop(w);
    /* All stolen: the deque begins anew at its base, and threads created from now on run on its slots' stacks. A parent
     * that runs on one of them must take it out of its slot now: when it blocks, the slot would not be found any more. */
    if (slot == NULL)
        ito__deque_disown(w, above, w->hot.current);
    return slot;
}

/* The sync off the workers of a task that was forked on one: between the two the program was forked, and this is the
 * child. A task that nobody had taken is the caller's to run; one that another worker ran is lost with that worker. */
static int sync_forked(struct ito__fork *fork) {
    uintptr_t state = load_relaxed(&fork->state);
    if (state == ITO__ENDED)
        return 0;
    if (state < ITO__STATES)
        ito__fatal("a forked task ran on another worker when the process was forked: this child cannot sync it",
                   ito__self());
    return 1;
}

/*
 * The sync of a task that the fast path could not pop. Nonzero: the caller runs it, as a plain call. 0: it has run.
 *
 * A PRIVATE task was never in a slot. One that cannot be popped is waited for as a thread is.
 */
int ito__sync_slow(struct ito__fork *fork) {
    if (load_relaxed(&fork->state) == ITO__PRIVATE)
        return 1;
    struct worker *w = worker_of(ito__worker());
    if (UNLIKELY(w == NULL))
        return sync_forked(fork);
    struct ito__slot *slot = pop_fork(w, fork);
    if (slot == NULL) {
        wait_fork(fork);
    } else if (stack_is_low(w->hot.current)) {
        struct ito_thread *t = ito__promote(w, fork, slot->folded_in);
        if (t == NULL)
            return 1; /* no memory for a stack: what is left of this one must do */
        ito__fork_taken(fork, slot);
        ito__ready_push(w, t);
        wait_fork(fork);
    } else if (ITO__TRACING && load_relaxed(&fork->state) & 1) {
        struct ito__ran ran;
        ito__listener->run(fork, &ran);
        fork->run(fork);
        ito__listener->ran(fork, &ran);
    } else {
        return 1;
    }
    ITO__TRACE_SYNC(fork);
    return 0;
}

/*
 * An exception leaves the parent before the sync. A task that can be popped is dropped: to run it here would be to run
 * it while the stack is unwound, and an exception of its own would end the program. Any other has begun, or soon will,
 * and is waited for: it uses the parent's frame.
 */
int ito__fork_left(struct ito__fork *fork) {
    struct worker *w = worker_of(ito__worker());
    if (load_relaxed(&fork->state) == ITO__PRIVATE)
        return 0;
    if (UNLIKELY(w == NULL)) /* the child of a fork, as in ito__sync_slow() */
        return load_relaxed(&fork->state) == ITO__ENDED;
    if (pop_fork(w, fork) == NULL) {
        wait_fork(fork);
        ITO__TRACE_SYNC(fork);
        return 1;
    }
    if (ITO__TRACING && load_relaxed(&fork->state) & 1)
        ITO__TRACE_DROPPED(fork);
    return 0;
}

/* ---- end -------------------------------------------------------------------------------------------------------- */

/* Runs on the next thread's stack: the old one can go back to a free list only when nothing runs on it. */
static void release_stack(void *stack) {
    ito__stack_put(worker_of(ito__worker()), stack);
}

/* What an end that was published means to the one who waits for it. */
static void wake_joiner(uintptr_t old) {
    if (old & 1)
        ito__join_until_ended(old);
    else
        ito__ready((struct ito_thread *)old);
}

/* On the stack of the next thread. From the exchange on, the joiner may use the memory of the stack. */
static void end_off_stack(void *thread) {
    struct ito_thread *t = thread;
    /* ORDER acq_rel; pairs with join_register(), ito_detach() and the acquire loads in ito__join_slow(), as the exchange
     * in finish_shared(). */
    uintptr_t old = exchange_acq_rel(&t->state, ITO__ENDED);
    if (old == ITO__DETACHED)
        ito__descriptor_put(worker_of(ito__worker()), t);
    else if (old >= ITO__STATES)
        wake_joiner(old);
}

/* End a thread whose stack is the program's: published when nothing runs on that stack any more. */
static void __attribute__((noreturn))
finish_on_callers_stack(struct worker *w, struct ito_thread *t, struct ito__slot *slot) {
    struct ito__next next;
    bool have = slot && ito__take_slot(w, slot, &next);
    /* ORDER release; pairs with the acquire load in a forced ito__deque_steal(), as in finish_shared(). */
    if (slot && !have)
        store_release(&w->hot.bottom, slot + 1);
    if (!have)
        next = slot ? (struct ito__next){&w->sched, w->sched.sp} : ito__pick(w);
    w->hot.current = next.thread;
    ITO__HOOK_LEAVE(t, next.thread, 1);
    ito__context_jump(next.sp, end_off_stack, t);
}

/* End a thread that other threads may join or detach: publish the result by an atomic exchange, then continue the next
 * thread. That is the continuation in `slot` (the creator, or a forked task made a thread), else the joiner, else one
 * that ito__pick() finds. */
static void __attribute__((noreturn)) finish_shared(struct worker *w, struct ito_thread *t, struct ito__slot *slot) {
    struct ito__stack *stack = t->flags & ITO__OWN_STACK ? t->stack : NULL; /* else it stays in its slot */
    struct ito__next next;
    if (UNLIKELY(stack && ito__stack_is_callers(stack)))
        finish_on_callers_stack(w, t, slot);
    bool have = slot && ito__take_slot(w, slot, &next);
    /* No memory for that task now: put it back.
     * ORDER release; pairs with the acquire load in a forced ito__deque_steal(), like the push that this repeats. */
    if (slot && !have)
        store_release(&w->hot.bottom, slot + 1);
    /* ORDER acq_rel; pairs with join_register(), ito_detach() and the acquire loads in ito__join_slow(). The release
     * publishes the result, the acquire shows the joiner's context, which may be resumed right here. From now on `t`
     * belongs to the joiner, which may have freed it. */
    uintptr_t old = exchange_acq_rel(&t->state, ITO__ENDED);
    if (old == ITO__DETACHED) {
        ito__descriptor_put(w, t);
    } else if (old >= ITO__STATES) {
        struct ito_thread *joiner = (struct ito_thread *)old;
        if (!(old & 1) && !have && !(joiner->flags & ITO__FOREIGN) &&
            (joiner->bind < 0 || (uint32_t)joiner->bind == w->index)) {
            next = (struct ito__next){joiner, joiner->sp};
            have = true;
        } else {
            wake_joiner(old);
        }
    }
    if (!have)
        next = slot ? (struct ito__next){&w->sched, w->sched.sp} : ito__pick(w);
    w->hot.current = next.thread;
    ITO__HOOK_LEAVE(t, next.thread, 1);
    ito__context_jump(next.sp, stack ? release_stack : NULL, stack);
}

/* The end of a thread that the inline end does not finish: it may be SHARED, have keys, or its pop may have failed. */
void ito__end_slow(void *result) {
    struct worker *w = worker_of(ito__worker());
    if (UNLIKELY(w == NULL))
        ito_exit(result); /* in the child of a fork, whose only thread this is */
    struct ito_thread *t = w->hot.current;
    if (UNLIKELY(t->keys != NULL)) {
        ito__keys_end(t);
        w = worker_of(ito__worker()); /* destructors may block */
    }
    ITO__TRACE_END(t);
    ITO__HOOK_END(t);
    /* Relaxed, as ito.hpp may write it at this moment: whoever lets go of the thread. */
    store_relaxed(&t->result, result);
    /* The slot below is the creator's continuation if the thread is still PRIVATE; else any thread or task. */
    struct ito__slot *slot = w->hot.bottom == w->base ? NULL : deque_pop(w);
    if (slot == NULL || slot->thread & 1 || load_relaxed(&t->state) != ITO__PRIVATE)
        finish_shared(w, t, slot);
    /* The creator has not run since it created this thread, so no other thread knows it: docs/design/deque.md, "The
     * plain end". */
    store_relaxed(&t->state, ITO__DONE);
    struct ito_thread *creator = (struct ito_thread *)slot->thread;
    w->hot.current = creator;
    ITO__HOOK_LEAVE(t, creator, 1);
    ito__context_jump(slot->sp, NULL, NULL);
}

/* In a kernel thread that is not a worker: pthread_exit. The root thread cannot end: its stack is the program's. */
void ito_exit(void *result) {
    struct ito__worker *w = ito__worker();
    if (w == NULL) {
        struct ito_thread *forked = ito__forked();
        if (forked == NULL)
            pthread_exit(result);
        if (forked->keys)
            ito__keys_end(forked);
        exit(0); /* as POSIX has it; a thread of ito's own (timers) must not keep the process */
    }
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

/* Called when the joiner is off its stack: put its address into the state, where the thread that ends finds it. If that
 * has ended meanwhile, or another thread joins it, the joiner goes on at once. */
static void join_register(void *arg) {
    struct join *j = arg;
    uintptr_t state = load_relaxed(&j->thread->state);
    while (state == ITO__PRIVATE || state == ITO__SHARED) {
        /* ORDER acq_rel; pairs with the exchange in finish_shared(). The release publishes the joiner's context. */
        if (cas_acq_rel(&j->thread->state, &state, (uintptr_t)j->me))
            return;
    }
    j->error = has_ended(state) ? 0 : EINVAL;
    ito__ready(j->me);
}

/*
 * Join when the thread has not ended by a plain store. At most one joiner gets past the compare-and-swap; another finds
 * an address in the state and gets EINVAL. After ENDED or DONE the descriptor belongs to the joiner, which frees it.
 */
int ito__join_flags(ito_thread *thread, void **result, uint32_t *flags) {
    struct ito_thread *me = ito__self();
    if (thread == NULL)
        return EINVAL;
    if (thread == me)
        return EDEADLK;
    /* ORDER acquire; pairs with the exchange in finish_shared(). Shows the thread's result. */
    uintptr_t state = load_acquire(&thread->state);
    if (state == ITO__PRIVATE || state == ITO__SHARED) {
        if (ito__pool.n_workers == 0)
            return ESRCH; /* it was left behind by a fork */
        struct join j = {thread, me, 0};
        me->wait_kind = ITO__WAIT_JOIN;
        me->wait_on = thread;
        ito__block(join_register, &j);
        me->wait_kind = ITO__WAIT_NONE;
        me->wait_on = NULL;
        if (j.error)
            return j.error;
        /* ORDER acquire; pairs with the exchange in finish_shared(), as above, for the joiner that has waited. */
        state = load_acquire(&thread->state);
    }
    if (!has_ended(state))
        return EINVAL; /* detached, joined before, or another joiner waits */
    if (result)
        *result = load_relaxed(&thread->result);
    if (flags)
        *flags = thread->flags;
    ITO__TRACE_JOIN(thread->id);
    ito__descriptor_put(worker_of(ito__worker()), thread);
    return 0;
}

int ito__join_slow(ito_thread *thread, void **result) {
    return ito__join_flags(thread, result, NULL);
}

int ito_join(ito_thread *thread, void **result) {
    return thread ? ito__join(thread, result) : EINVAL;
}

int ito_tryjoin(ito_thread *thread, void **result) {
    if (thread == NULL)
        return EINVAL;
    if (thread == ito__self())
        return EDEADLK;
    /* ORDER acquire; pairs with the exchange in finish_shared(), as in ito__join_flags(), which looks once more. */
    uintptr_t state = load_acquire(&thread->state);
    return state == ITO__PRIVATE || state == ITO__SHARED ? EBUSY : ito_join(thread, result);
}

int ito_join_until(ito_thread *thread, void **result, uint64_t deadline_ns) {
    if (deadline_ns == ITO_FOREVER)
        return ito_join(thread, result);
    int r = ito__ended_until(thread, deadline_ns);
    return r ? r : ito_join(thread, result);
}

/* The same three cases as a join, but without waiting: running (its worker will free the descriptor), ended (free it
 * here), or not the caller's to detach. */
int ito_detach(ito_thread *thread) {
    if (thread == NULL)
        return EINVAL;
    /* ORDER acquire; pairs with the exchange in finish_shared(): if the thread has ended, its descriptor can be
     * freed. */
    uintptr_t state = load_acquire(&thread->state);
    /* ORDER acq_rel; pairs with the exchange in finish_shared(), which reads DETACHED and frees the descriptor. */
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
