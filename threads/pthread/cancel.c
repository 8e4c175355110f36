/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deferred cancellation. Whether a thread is cancelled, and the unwinding, are the C library's; but a thread that waits
 * in one of ito's queues does not notice, so it is taken out and woken.
 *
 * A wait that may be cancelled is put down in the thread's struct light for its time, under the queue bit of
 * light.word. The thread cannot leave such a wait while another holds that bit, so the object that it waits for is
 * there.
 *
 *   waiter (light_wait)                    canceller (pthread_cancel)
 *   1 puts the object down                 1 sets CANCELED
 *   2 CANCELED: gives up                   2 under the bit: is an object put down, and is the waiter on its queue?
 *   3 goes onto the queue, wait_kind       3 yes: takes it off, wakes it
 *   4 sleeps                               4 no, and wait_kind is NONE: it is on its way, or on its way back: again
 *
 * Either 2 on the left comes after 1 on the right, or the canceller finds the object, and looks until the waiter has
 * gone onto the queue or away.
 */
#include "light.h"

bool light_wait_begin(uint32_t *word, struct ito__waiters *queue) {
    struct light *me = &light_self;
    uint32_t s = ito__word_lock(&me->word);
    me->self = ito__self();
    me->wait_word = word;
    me->wait_queue = queue;
    ito__word_unlock(&me->word, s);
    /* ORDER seq_cst; pairs with the read-modify-write of the C library's pthread_cancel and the lock that follows it in
     * pthread_cancel() below: the object is put down before CANCELED is looked at. */
    fence_seq_cst();
    return !tls_cancelled();
}

void light_wait_end(void) {
    struct light *me = &light_self;
    uint32_t s = ito__word_lock(&me->word);
    me->wait_word = NULL;
    ito__word_unlock(&me->word, s);
    REAL(pthread_testcancel)();
}

/* The thread's waiter on the queue, taken off; null: it is not there. The queue's bit is held. */
static struct ito__waiter *take_off(struct ito__waiters *queue, const struct ito_thread *thread) {
    struct ito__waiter *w = queue->head;
    while (w && w->thread != thread)
        w = w->next;
    if (w) {
        ito__waiters_remove(w);
        ito__timer_disarm(w);
    }
    return w;
}

/* False: look again, it is about to wait or has just done so. */
static bool interrupt(struct light *l) {
    struct ito__waiter *w = NULL;
    bool done = true;
    uint32_t s = ito__word_lock(&l->word);
    if (l->wait_word) {
        uint32_t state = ito__word_lock(l->wait_word);
        w = take_off(l->wait_queue, l->self);
        done = w || load_relaxed(&l->self->wait_kind) != ITO__WAIT_NONE;
        ito__word_unlock(l->wait_word, state);
    }
    ito__word_unlock(&l->word, s);
    if (w)
        ito__waiter_wake(w, ECANCELED);
    return done;
}

EXPORT int pthread_cancel(pthread_t id) {
    struct light *l = light_of(id);
    int r = REAL(pthread_cancel)(id);
    if (l->kind == LIGHT_THREAD && r == ESRCH)
        r = 0; /* asynchronous: it has no kernel thread that could be interrupted, and finds out later */
    while (r == 0 && !interrupt(l))
        sched_yield();
    return r;
}
