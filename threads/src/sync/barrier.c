/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The barrier: a count and a queue, both under the queue bit. The last thread to arrive takes the whole queue, so the
 * next turn can begin before the others have left. */
#include "core/wait.h"

int ito_barrier_wait(ito_barrier *b) {
    struct ito__waiter w;
    if (!b->n)
        return EINVAL;
    ito__word_lock(&b->word);
    /* ito__wait() gives the bit back when this thread is asleep: the last to arrive finds it on the queue and in a
     * state that can be woken. */
    if (++b->arrived < b->n) {
        ito__waiter_init(&w);
        ito__waiters_push(&b->waiters, &w);
        ito__wait(&w, &b->word, 0, ITO_FOREVER, ITO__WAIT_BARRIER, b, NULL);
        return 0;
    }
    struct ito__waiter *list = ito__waiters_pop_all(&b->waiters);
    /* Before the bit is free: a thread that is woken may arrive for the next turn at once. */
    b->arrived = 0;
    ito__word_unlock(&b->word, 0);
    ito__waiter_wake_all(list, 0);
    return ITO_BARRIER_LAST;
}

int ito_barrier_init(ito_barrier *b, uint32_t n) {
    if (!n)
        return EINVAL;
    *b = (ito_barrier)ITO_BARRIER_INIT(n);
    return 0;
}

int ito_barrier_destroy(ito_barrier *b) {
    ito__word_lock(&b->word);
    bool busy = b->arrived;
    ito__word_unlock(&b->word, 0);
    return busy ? EBUSY : 0;
}
