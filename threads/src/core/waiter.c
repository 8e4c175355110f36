/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What waits and deadlines share: the bit of a word, queues that a fork has cut, waking, the clock. */
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
