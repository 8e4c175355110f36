/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Going to sleep on an object, and waking. */
#define _GNU_SOURCE
#include "core/wait.h"

#include <sched.h>
#include <time.h>

uint64_t ito_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t ito__fork_epoch, ito__alone;

/* The list may have been cut in the middle of a change, so only `next` is followed. A waiter of this process came behind them, or was put
 * back in front. */
void ito__waiters_drop_slow(struct ito__waiters *q) {
    struct ito__waiter *w = q->head;
    while (w && w->epoch != ito__fork_epoch)
        w = w->next;
    ito__waiters_set_head(q, w);
    if (w) {
        w->prev = NULL;
        w->queue = q;
    } else {
        q->tail = NULL;
    }
}

/* The holder has a few instructions to go, unless the kernel took its CPU: then yielding or sleeping lets it finish. */
void ito__word_lock_slow(uint32_t *word) {
    if (load_relaxed(&ito__alone))
        return; /* the bit is that of a thread that the fork has left behind: it is the caller's now */
    for (unsigned turn = 0;; turn++) {
        if (!(load_relaxed(word) & ITO__QUEUE_BIT) && ito__word_trylock(word))
            return;
        if (turn < 64) {
            cpu_relax();
        } else if (turn < 96) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){0, 20000}, NULL);
        }
    }
}

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

/* After ito__ready() the waiter may have returned, and its frame with @w be gone: so `thread` is read first. */
void ito__waiter_wake(struct ito__waiter *w, int result) {
    ito_thread *thread = w->thread;
    w->result = result;
    ito__ready(thread);
}

void ito__waiter_wake_all(struct ito__waiter *list, int result) {
    while (list) {
        struct ito__waiter *next = list->next;
        ito__waiter_wake(list, result);
        list = next;
    }
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
