/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Once. NEW --(a call)--> RUNNING --(the function returns 0)--> DONE, or back to NEW if it fails. Threads that wait
 * look again when they are woken.
 */
#include "core/wait.h"

enum { NEW = 0, RUNNING = 1, DONE = 2 };

static void once_end(ito_once *o, uint32_t state) {
    ito__word_lock(&o->state);
    struct ito__waiter *list = ito__waiters_pop_all(&o->waiters);
    /* Its release publishes what the function did to the acquire load in ito_once_call(). */
    ito__word_unlock(&o->state, state);
    ito__waiter_wake_all(list, 0);
}

/* The owner is written under the queue bit, and cleared by the owner, so a thread that finds its own id there is inside
 * @fn. Waiters are woken all at once and look again: after a failure one of them runs the function. */
static __attribute__((noinline)) int once_slow(ito_once *o, int (*fn)(void *), void *arg) {
    uintptr_t me = ito__me();
    for (;;) {
        uint32_t s = ito__word_lock(&o->state);
        if (s == NEW) {
            store_relaxed(&o->owner, me);
            ito__word_unlock(&o->state, RUNNING);
            break;
        }
        if (s == DONE || load_relaxed(&o->owner) == me) {
            ito__word_unlock(&o->state, s);
            return s == DONE ? 0 : EDEADLK;
        }
        struct ito__waiter w;
        ito__waiter_init(&w);
        ito__waiters_push(&o->waiters, &w);
        ito__wait(&w, &o->state, RUNNING, ITO_FOREVER, ITO__WAIT_ONCE, o, NULL);
    }
    int r = fn(arg);
    store_relaxed(&o->owner, 0);
    once_end(o, r ? NEW : DONE);
    return r;
}

int ito_once_call(ito_once *o, int (*fn)(void *), void *arg) {
    /* ORDER acquire; pairs with the release of ito__word_unlock() in once_end(). Shows what the function did. */
    if (LIKELY(load_acquire(&o->state) == DONE))
        return 0;
    return once_slow(o, fn, arg);
}
