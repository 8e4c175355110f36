/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Joins that do not wait for ever. The joiner of ito_join puts the address of its thread into the state of the one that
 * it waits for (ito/types.h); here it is the address of a wait, plus 1, as the timers need a queue to take a waiter
 * from:
 *
 *   the thread ends          exchanges the state, takes the bit of the wait, and wakes the waiter if it is still there
 *   the deadline passes      the waiter puts SHARED back; if the thread has ended meanwhile, it waits for that one to be
 *                            done with the wait, which lies in its frame
 */
#include "core/wait.h"

struct join_wait {
    uint32_t word; /* the queue bit alone; what follows is under it */
    bool ended;
    struct ito__waiters queue;
};

static bool has_ended(uintptr_t state) {
    return state == ITO__DONE || state == ITO__ENDED;
}

void ito__join_until_ended(uintptr_t state) {
    struct join_wait *j = (struct join_wait *)(state - 1);
    ito__word_lock(&j->word);
    j->ended = true;
    struct ito__waiter *w = ito__waiters_pop(&j->queue);
    /* Its last access, if nobody waits. */
    ito__word_unlock(&j->word, 0);
    if (w)
        ito__waiter_wake(w, 0);
}

/* Sleeps until ito__join_until_ended() has run, or the deadline. The bit is held. */
static int join_sleep(struct join_wait *j, ito_thread *thread, uint64_t deadline_ns) {
    struct ito__waiter w;
    ito__waiter_init(&w);
    ito__waiters_push(&j->queue, &w);
    return ito__wait(&w, &j->word, 0, deadline_ns, ITO__WAIT_JOIN, thread, NULL);
}

/* As ito_join_until, but whoever joins the thread comes later. */
int ito__ended_until(ito_thread *thread, uint64_t deadline_ns) {
    if (thread == NULL)
        return EINVAL;
    if (thread == ito__self())
        return EDEADLK;
    uintptr_t state = load_relaxed(&thread->state);
    if (has_ended(state))
        return 0;
    if (ito__pool.n_workers == 0)
        return ESRCH; /* as ito__join_flags() */
    int r = ito__deadline_check(deadline_ns);
    if (r)
        return r;
    struct join_wait j = {.word = 0};
    uintptr_t mine = (uintptr_t)&j + 1;
    /* Held until the waiter is asleep: whoever ends the thread waits for it. */
    ito__word_lock(&j.word);
    /* ORDER acq_rel; pairs with the exchange in finish_shared(). Publishes the wait. */
    while (state == ITO__PRIVATE || state == ITO__SHARED)
        if (cas_acq_rel(&thread->state, &state, mine))
            break;
    if (state != ITO__PRIVATE && state != ITO__SHARED)
        return has_ended(state) ? 0 : EINVAL; /* another joins, or it was detached */
    if (join_sleep(&j, thread, deadline_ns) == 0)
        return 0;
    state = mine;
    /* ORDER acq_rel; pairs with the exchange in finish_shared(): it does not find the wait any more. */
    if (cas_acq_rel(&thread->state, &state, ITO__SHARED))
        return ETIMEDOUT;
    ito__word_lock(&j.word);
    if (j.ended)
        ito__word_unlock(&j.word, 0);
    else
        join_sleep(&j, thread, ITO_FOREVER);
    return 0;
}
