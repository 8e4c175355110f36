/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The condition: a queue. A signal moves the longest waiter to the queue of the mutex, where the signaller's unlock (or
 * its own wait) finds it. So a woken thread never runs into a mutex that its waker holds.
 */
#include "core/wait.h"
#include "sync/lock_events.h"

/* Joins the queue, gives the mutex to its next waiter, sleeps. Return: 0 or ETIMEDOUT with the mutex held; EPERM and
 * EINVAL leave it as it was. */
static int cond_wait(ito_cond *c, ito_mutex *m, uint64_t deadline_ns) {
    struct ito__waiter w;
    int r = ito__mutex_check_held(m);
    if (r)
        return r;
    if (deadline_ns != ITO_FOREVER && (r = ito__timers_start()))
        return r;
    ito__waiter_init(&w);
    w.mutex = m;
    /* A recursive mutex is given up whole, and taken again to the same depth. */
    uint16_t depth = m->depth;
    ito__word_lock(&c->word);
    /* All who wait at one time must use one mutex: a signal moves waiters to its queue without asking each. */
    ito__waiters_drop_stale(&c->waiters);
    if (c->waiters.head && c->mutex != m) {
        ito__word_unlock(&c->word, 0);
        return EINVAL;
    }
    c->mutex = m;
    c->timed = (c->waiters.head && c->timed) || deadline_ns != ITO_FOREVER ? 2 : 0;
    ito__waiters_push(&c->waiters, &w);
    /* A signal that comes from here on waits for the queue bit, which is given back when this thread is asleep. */
    m->depth = 0;
    struct ito__waiter *next = ito__mutex_give_to_next(m);
    r = ito__wait(&w, &c->word, 0, deadline_ns, ITO__WAIT_COND, c, next);
    /* 0: the mutex was handed over. ETIMEDOUT, or woken while it was free: take it. */
    int taken = ito__mutex_take_again(m, depth, r == 0);
    return taken ? taken : r == ETIMEDOUT ? ETIMEDOUT : 0;
}

int ito_cond_wait(ito_cond *c, ito_mutex *m) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_cond_wait(cond_wait, c, m, ITO_FOREVER, ITO__CALLER);
    return cond_wait(c, m, ITO_FOREVER);
}
int ito_cond_wait_until(ito_cond *c, ito_mutex *m, uint64_t deadline_ns) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_cond_wait(cond_wait, c, m, deadline_ns, ITO__CALLER);
    return cond_wait(c, m, deadline_ns);
}

/*
 * Takes no lock when nobody waits. The race with a thread that is about to wait is the program's: if it changes what is
 * waited for under the mutex, a waiter that saw the old state was on the queue before the mutex was free. The mutex
 * then orders that push before this relaxed load.
 */
static bool cond_is_empty(const ito_cond *c) {
    return ito__waiters_is_empty_hint(&c->waiters);
}

/* The condition's bit is given back before the mutex's is taken. The waiter is on no queue in between, so only this
 * thread can wake it; a waiter with a deadline has left the heap, as ito__waiters_pop() disarms it. */
int ito_cond_signal(ito_cond *c) {
    if (cond_is_empty(c))
        return 0;
    ito__word_lock(&c->word);
    struct ito__waiter *w = ito__waiters_pop(&c->waiters);
    ito__word_unlock(&c->word, 0);
    if (w)
        ito__mutex_requeue(w->mutex, w, w);
    return 0;
}

/* All waiters go to the queue of the mutex in one step, however many they are; each unlock wakes the next. Waking all at
 * once would have them all run into the mutex. Where one has or had a deadline, each is looked at. */
int ito_cond_broadcast(ito_cond *c) {
    if (cond_is_empty(c))
        return 0;
    ito__word_lock(&c->word);
    ito__waiters_drop_stale(&c->waiters);
    struct ito__waiter *first = c->waiters.head, *last = c->waiters.tail;
    if (c->timed) {
        ito__waiters_pop_all(&c->waiters);
    } else {
        ito__waiters_set_head(&c->waiters, NULL);
        c->waiters.tail = NULL;
    }
    ito__word_unlock(&c->word, 0);
    if (first)
        ito__mutex_requeue(first->mutex, first, last);
    return 0;
}

int ito_cond_init(ito_cond *c) {
    *c = (ito_cond)ITO_COND_INIT;
    return 0;
}

/* Takes the bit, so it comes after a broadcast that is still at work on the condition. */
int ito_cond_destroy(ito_cond *c) {
    ito__word_lock(&c->word);
    ito__waiters_drop_stale(&c->waiters);
    bool busy = c->waiters.head;
    ito__word_unlock(&c->word, 0);
    return busy ? EBUSY : 0;
}
