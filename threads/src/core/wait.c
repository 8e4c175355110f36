/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Going to sleep on an object, with a deadline or without. */
#include "core/wait.h"

/* Runs when the context of the waiter is saved. After the store the waiter may be woken, and @arg be gone. */
static void wait_release(void *arg) {
    struct ito__waiter *w = arg;
    /* Its release publishes the saved context and the queue: rule 3. */
    ito__word_unlock(w->word, w->leave);
}

/* The deadline is armed before the waiter sleeps, under the queue bit, which the timers need to take the waiter out. */
int ito__wait(struct ito__waiter *w, uint32_t *word, uint32_t leave, uint64_t deadline_ns, uint32_t kind, void *object,
              struct ito__waiter *next) {
    w->word = word;
    w->leave = leave;
    if (deadline_ns != ITO_FOREVER)
        ito__timer_arm(w, deadline_ns);
    ito__set_wait(w->thread, kind, object);
    if (next) {
        next->result = 0;
        ito__block_to(next->thread, wait_release, w);
    } else {
        ito__block(wait_release, w);
    }
    ito__set_wait(w->thread, ITO__WAIT_NONE, NULL);
    return w->result;
}

struct ito__waiter *ito__waiters_pop_all(struct ito__waiters *q) {
    ito__waiters_drop_stale(q);
    struct ito__waiter *list = q->head;
    for (struct ito__waiter *w = list; w; w = w->next)
        ito__timer_disarm(w);
    ito__waiters_set_head(q, NULL);
    q->tail = NULL;
    return list;
}
