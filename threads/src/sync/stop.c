/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stop requests: a channel that is closed, and functions to call. The channel is what threads wait for, so a stop needs
 * no waiting of its own and is one more case of any ito_select.
 *
 * The functions are called one at a time without the queue bit, as they may do anything. ito_stop_off() of the one that
 * runs waits until it has returned.
 */
#include "core/wait.h"

#include <ito/stop.h>

static void unlink_call(ito_stop_call *call) {
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    call->link = NULL;
}

int ito_stop_request(ito_stop *s) {
    if (ito_channel_close(&s->done))
        return EALREADY;
    ito__word_lock(&s->word);
    s->caller = ito__me();
    for (ito_stop_call *call; (call = s->first);) {
        unlink_call(call);
        s->current = call;
        ito__word_unlock(&s->word, 0);
        call->fn(call->arg);
        ito__word_lock(&s->word);
        s->current = NULL;
        struct ito__waiter *list = ito__waiters_pop_all(&s->waiters);
        if (list) {
            ito__word_unlock(&s->word, 0);
            ito__waiter_wake_all(list, 0);
            ito__word_lock(&s->word);
        }
    }
    ito__word_unlock(&s->word, 0);
    return 0;
}

int ito_stop_requested(const ito_stop *s) {
    return ito_channel_is_closed(&s->done);
}

int ito_stop_wait_until(ito_stop *s, uint64_t deadline_ns) {
    int r = ito_channel_receive_until(&s->done, NULL, deadline_ns);
    return r == EPIPE ? 0 : r;
}

/* The request closes the channel before it takes the bit: so a call that finds it open under the bit is in the list when
 * the request comes to look. */
int ito_stop_on(ito_stop *s, ito_stop_call *call, void (*fn)(void *), void *arg) {
    *call = (ito_stop_call){fn, arg, NULL, NULL};
    ito__word_lock(&s->word);
    bool late = ito_stop_requested(s);
    if (!late) {
        call->next = s->first;
        call->link = &s->first;
        if (call->next)
            call->next->link = &call->next;
        s->first = call;
    }
    ito__word_unlock(&s->word, 0);
    if (!late)
        return 0;
    fn(arg);
    return EALREADY;
}

int ito_stop_off(ito_stop *s, ito_stop_call *call) {
    struct ito__waiter w;
    ito__waiter_init(&w);
    ito__word_lock(&s->word);
    bool waits = call->link;
    if (waits)
        unlink_call(call);
    if (s->current != call || s->caller == ito__me()) {
        ito__word_unlock(&s->word, 0);
        return waits ? 0 : EALREADY;
    }
    ito__waiters_push(&s->waiters, &w);
    ito__wait(&w, &s->word, 0, ITO_FOREVER, ITO__WAIT_STOP, s, NULL);
    return EALREADY;
}

int ito_stop_init(ito_stop *s) {
    *s = (ito_stop)ITO_STOP_INIT;
    return 0;
}

int ito_stop_destroy(ito_stop *s) {
    if (ito_channel_destroy(&s->done))
        return EBUSY;
    ito__word_lock(&s->word);
    bool busy = s->first || s->current || s->waiters.head;
    ito__word_unlock(&s->word, 0);
    return busy ? EBUSY : 0;
}
