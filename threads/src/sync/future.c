/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The future: a value that is set once, and the threads that wait for it.
 *
 * For a recorder it is a point of the thread that sets it (docs/design/seen.md), which is joined by those who get the
 * value. Its id is the future's address, so that all is told before a waiter is woken, who may end the future.
 */
#include "core/wait.h"

/* Of `state`, beside the queue bit of wait.h. It goes from EMPTY to SET once and never back, so a thread that has
 * seen SET needs no lock. */
enum { EMPTY = 0, SET = 1 };

/* Everyone who waits is taken off the queue under the bit, and woken after it is given back: a woken thread may end
 * the future at once. */
int ito_future_set(ito_future *f, void *value) {
    uint32_t s = ito__word_lock(&f->state);
    if (s == SET) {
        ito__word_unlock(&f->state, s);
        return EALREADY;
    }
    f->value = value;
    f->seen = ITO__TRACING;
    ITO__TRACE_POINT(f, ITO__WAIT_FUTURE);
    struct ito__waiter *list = ito__waiters_pop_all(&f->waiters);
    for (struct ito__waiter *w = list; w; w = w->next) {
        w->value = value; /* the first to wake may end the future */
        ITO__TRACE_JOIN_OF(w->thread, (uintptr_t)f);
    }
    /* Its release publishes the value to the acquire load in ito_future_try_get(). */
    ito__word_unlock(&f->state, SET);
    ito__waiter_wake_all(list, 0);
    return 0;
}

int ito_future_try_get(ito_future *f, void **value) {
    for (;;) {
        /* ORDER acquire; pairs with the release of ito__word_unlock() in ito_future_set(). Shows the value. */
        uint32_t s = load_acquire(&f->state);
        if (s == EMPTY)
            return EBUSY;
        if (s == SET)
            break;
        /* The queue bit is taken: a setter may be at work. Waiting for the bit is shorter than being told EBUSY and
         * asking again. */
        ito__word_unlock(&f->state, ito__word_lock(&f->state));
    }
    if (value)
        *value = f->value;
    if (UNLIKELY(f->seen))
        ITO__TRACE_JOIN((uintptr_t)f);
    return 0;
}

/* A waiter gets the value in its own frame, written by ito_future_set() before the wake-up: the future may be gone. */
int ito_future_get_until(ito_future *f, void **value, uint64_t deadline_ns) {
    struct ito__waiter w;
    if (!ito_future_try_get(f, value))
        return 0;
    int r = ito__deadline_check(deadline_ns);
    if (r)
        return r;
    ito__waiter_init(&w);
    /* Looked at again under the bit: it may have been set since the first look, and then nobody would wake this
     * thread. */
    if (ito__word_lock(&f->state) == SET) {
        ito__word_unlock(&f->state, SET);
        return ito_future_try_get(f, value);
    }
    ito__waiters_push(&f->waiters, &w);
    r = ito__wait(&w, &f->state, EMPTY, deadline_ns, ITO__WAIT_FUTURE, f, NULL);
    if (!r && value)
        *value = w.value;
    return r;
}

int ito_future_get(ito_future *f, void **value) {
    return ito_future_get_until(f, value, ITO_FOREVER);
}

int ito_future_init(ito_future *f) {
    *f = (ito_future)ITO_FUTURE_INIT;
    return 0;
}

int ito_future_destroy(ito_future *f) {
    uint32_t s = ito__word_lock(&f->state);
    /* A thread still waits: the future stays as it is. */
    bool busy = f->waiters.head;
    ito__word_unlock(&f->state, s);
    return busy ? EBUSY : 0;
}
