/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Channels, and select. A send or receive is a select of one case, and waits as one, so there is one protocol: docs/design/channel.md.
 *
 * A select locks all its channels, in the order of their addresses; does the first case that can be done; or else puts
 * its cases into the lists of their channels, and sleeps. What makes it go on, once, is a *claim*: whoever takes its
 * waiter out of its own queue, under its own queue bit, has it. Those are a thread that finds one of its cases in a list,
 * which does the case and wakes it, and the timers.
 *
 * Lock order: queue bits of channels by address, the bit of a select, the timers' lock.
 */
#include "core/wait.h"

#include <string.h>

#define CLOSED 1u /* of ito_channel.word */

/*
 * A select that sleeps, in its caller's frame. It is there until its caller has taken the bit of each channel once more:
 * so whoever finds one of its cases in a list, and holds the bit of that channel, may look at it.
 *
 *   word    the queue bit alone
 *   queue   the waiter alone, or nothing: then it was claimed
 *   waiter  its `value` is the case that was done
 */
struct ito__select {
    uint32_t word;
    struct ito__waiters queue;
    struct ito__waiter waiter;
};

static void list_push(struct ito__case_list *list, ito_select_case *k) {
    k->queued = 1;
    k->next = NULL;
    k->prev = list->tail;
    if (list->tail)
        list->tail->next = k;
    else
        list->head = k;
    list->tail = k;
}
static void list_remove(struct ito__case_list *list, ito_select_case *k) {
    k->queued = 0;
    if (k->prev)
        k->prev->next = k->next;
    else
        list->head = k->next;
    if (k->next)
        k->next->prev = k->prev;
    else
        list->tail = k->prev;
}
static struct ito__case_list *list_of(const ito_select_case *k) {
    return k->op == ITO_SELECT_SEND ? &k->channel->senders : &k->channel->receivers;
}

/* The first in @list that no other channel, nor the timers, has claimed. It is out of the list and out of the heap of
 * deadlines, and the caller must wake *waiter, after which the case is gone. Null: nobody waits. */
static ito_select_case *claim(struct ito__case_list *list, struct ito__waiter **waiter) {
    ito_select_case *k;
    while ((k = list->head)) {
        list_remove(list, k);
        ito__word_lock(&k->select->word);
        *waiter = ito__waiters_pop(&k->select->queue);
        ito__word_unlock(&k->select->word, 0);
        if (*waiter) {
            (*waiter)->value = k;
            k->result = 0;
            return k;
        }
    }
    return NULL;
}

static void move_item(const ito_channel *c, void *to, void *from) {
    if (c->move)
        c->move(to, from);
    else if (c->item_bytes == sizeof(void *))
        memcpy(to, from, sizeof(void *)); /* no call */
    else if (c->item_bytes)
        memcpy(to, from, c->item_bytes);
}
static void *place(const ito_channel *c, uint32_t i) {
    uint64_t at = (uint64_t)c->first + i;
    return (char *)c->buffer + (at < c->room ? at : at - c->room) * c->item_bytes;
}
static void drop_first(ito_channel *c) {
    c->first = c->first + 1 == c->room ? 0 : c->first + 1;
    c->n--;
}

/* Does the case if it can be done now; its result is set. The channel's bit is held; *wake: to be woken when it is not. */
static bool try_send(ito_select_case *k, struct ito__waiter **wake) {
    ito_channel *c = k->channel;
    k->result = 0;
    if (load_relaxed(&c->word) & CLOSED) {
        k->result = EPIPE;
        return true;
    }
    ito_select_case *receiver = claim(&c->receivers, wake);
    if (receiver) {
        move_item(c, receiver->item, k->item);
        return true;
    }
    if (c->n == c->room)
        return false;
    move_item(c, place(c, c->n), k->item);
    c->n++;
    return true;
}
static bool try_receive(ito_select_case *k, struct ito__waiter **wake) {
    ito_channel *c = k->channel;
    ito_select_case *sender;
    k->result = 0;
    if (c->n) {
        move_item(c, k->item, place(c, 0));
        drop_first(c);
        /* Room for one that waits: its item comes after those in the buffer. */
        if ((sender = claim(&c->senders, wake))) {
            move_item(c, place(c, c->n), sender->item);
            c->n++;
        }
        return true;
    }
    if ((sender = claim(&c->senders, wake))) {
        move_item(c, k->item, sender->item);
        return true;
    }
    k->result = EPIPE;
    return load_relaxed(&c->word) & CLOSED;
}
static bool try_case(ito_select_case *k, struct ito__waiter **wake) {
    return k->op == ITO_SELECT_SEND ? try_send(k, wake) : try_receive(k, wake);
}

/* -- the channels of a select -- */

/* Cases that name a channel, by the address of it; few, so inserted one by one. */
static ito_select_case *put_in_order(ito_select_case *cases, size_t n) {
    ito_select_case *first = NULL;
    for (size_t i = 0; i < n; i++) {
        ito_select_case **at = &first, *k = &cases[i];
        k->queued = 0;
        if (!k->channel)
            continue;
        while (*at && (uintptr_t)(*at)->channel < (uintptr_t)k->channel)
            at = &(*at)->in_order;
        k->in_order = *at;
        *at = k;
    }
    return first;
}
static void lock_all(ito_select_case *first) {
    const ito_channel *last = NULL;
    for (ito_select_case *k = first; k; k = k->in_order)
        if (k->channel != last) {
            ito__word_lock(&k->channel->word);
            last = k->channel;
        }
}
static void unlock(ito_channel *c) {
    ito__word_unlock(&c->word, load_relaxed(&c->word) & CLOSED);
}
static void unlock_all(ito_select_case *first) {
    while (first) {
        ito_channel *c = first->channel;
        while (first && first->channel == c)
            first = first->in_order;
        unlock(c);
    }
}

/* Of several cases that can be done, each gets its turn. Not a thread's own: it may switch, and the turn is that of a
 * kernel thread; never inlined, as its address must not be kept over a switch. */
static __attribute__((noinline)) size_t next_turn(size_t n) {
    static __thread uint32_t turn;
    turn = turn * 1664525u + 1013904223u; /* full period, W. H. Press and others: "Numerical Recipes" */
    return (turn >> 8) % n;
}

static ito_select_case *try_all(ito_select_case *cases, size_t n, struct ito__waiter **wake) {
    size_t turn = n > 1 ? next_turn(n) : 0;
    for (size_t i = 0; i < n; i++) {
        ito_select_case *k = &cases[turn + i < n ? turn + i : turn + i - n];
        if (k->channel && try_case(k, wake))
            return k;
    }
    return NULL;
}

/* Puts the cases into the lists, gives the channels back, sleeps. The bits of the channels are held. Return: 0, with the
 * case that was done; ETIMEDOUT. */
static int sleep_on(ito_select_case *first, uint64_t deadline_ns, ito_select_case **done) {
    struct ito__select s;
    bool alone = !first->in_order;
    ito__waiter_init(&s.waiter);
    s.queue.tail = NULL;
    ito__waiters_set_head(&s.queue, NULL);
    store_relaxed(&s.word, 0); /* nobody knows it yet */
    /* Whoever finds a case from here on waits for this bit, which is given back when the thread is asleep. */
    ito__word_lock(&s.word);
    ito__waiters_push(&s.queue, &s.waiter);
    for (ito_select_case *k = first; k; k = k->in_order) {
        k->select = &s;
        list_push(list_of(k), k);
    }
    unlock_all(first);
    int r = ito__wait(&s.waiter, &s.word, 0, deadline_ns, alone ? ITO__WAIT_CHANNEL : ITO__WAIT_SELECT, first->channel,
                      NULL);
    *done = s.waiter.value;
    if (r == 0 && alone)
        return 0; /* the one that has done it has taken it out of its list */
    for (ito_select_case *k = first; k; k = k->in_order) {
        ito__word_lock(&k->channel->word);
        if (k->queued)
            list_remove(list_of(k), k);
        unlock(k->channel);
    }
    return r;
}

static int select_until(ito_select_case *cases, size_t n, size_t *which, uint64_t deadline_ns, bool may_wait) {
    struct ito__waiter *wake = NULL;
    ito_select_case *first = put_in_order(cases, n), *done;
    if (!first) {
        if (!may_wait || deadline_ns == ITO_FOREVER)
            return EINVAL;
        int r = ito_sleep_until(deadline_ns);
        return r ? r : ETIMEDOUT;
    }
    /* The timers' thread may have to be started, which is not for under the bits. */
    int late = may_wait ? ito__deadline_check(deadline_ns) : EBUSY;
    lock_all(first);
    done = try_all(cases, n, &wake);
    if (!done && !late) {
        int r = sleep_on(first, deadline_ns, &done);
        if (r)
            return r;
    } else {
        unlock_all(first);
        if (wake)
            ito__waiter_wake(wake, 0);
        if (!done)
            return late;
    }
    if (which)
        *which = (size_t)(done - cases);
    return done->result;
}

int ito_select(ito_select_case *cases, size_t n, size_t *which, uint64_t deadline_ns) {
    return select_until(cases, n, which, deadline_ns, true);
}

/* -- one channel: as a select of one case, which needs no order -- */

static int alone(ito_channel *c, uint32_t op, void *item, uint64_t deadline_ns, bool may_wait) {
    struct ito__waiter *wake = NULL;
    ito_select_case k = {.channel = c, .item = item, .op = op}, *done;
    int late = may_wait ? ito__deadline_check(deadline_ns) : EBUSY;
    ito__word_lock(&c->word);
    if (LIKELY(try_case(&k, &wake))) {
        unlock(c);
        if (wake)
            ito__waiter_wake(wake, 0);
        return k.result;
    }
    if (late) {
        unlock(c);
        return late;
    }
    int r = sleep_on(&k, deadline_ns, &done);
    return r ? r : k.result;
}

int ito_channel_send(ito_channel *c, const void *item) {
    return alone(c, ITO_SELECT_SEND, (void *)(uintptr_t)item, ITO_FOREVER, true);
}
int ito_channel_try_send(ito_channel *c, const void *item) {
    return alone(c, ITO_SELECT_SEND, (void *)(uintptr_t)item, 0, false);
}
int ito_channel_send_until(ito_channel *c, const void *item, uint64_t deadline_ns) {
    return alone(c, ITO_SELECT_SEND, (void *)(uintptr_t)item, deadline_ns, true);
}
int ito_channel_receive(ito_channel *c, void *item) {
    return alone(c, ITO_SELECT_RECEIVE, item, ITO_FOREVER, true);
}
int ito_channel_try_receive(ito_channel *c, void *item) {
    return alone(c, ITO_SELECT_RECEIVE, item, 0, false);
}
int ito_channel_receive_until(ito_channel *c, void *item, uint64_t deadline_ns) {
    return alone(c, ITO_SELECT_RECEIVE, item, deadline_ns, true);
}

/* All who wait are claimed under the bit, and woken when it is free. Who waits to receive does so since the buffer is
 * empty; what is in it stays for receivers to come. */
int ito_channel_close(ito_channel *c) {
    struct ito__waiter *all = NULL, *w;
    ito_select_case *k;
    if (ito__word_lock(&c->word) & CLOSED) {
        ito__word_unlock(&c->word, CLOSED);
        return EALREADY;
    }
    while ((k = claim(&c->receivers, &w)) || (k = claim(&c->senders, &w))) {
        k->result = EPIPE;
        w->next = all;
        all = w;
    }
    ito__word_unlock(&c->word, CLOSED);
    ito__waiter_wake_all(all, 0);
    return 0;
}

int ito_channel_is_closed(const ito_channel *c) {
    /* ORDER acquire; pairs with the release of ito__word_unlock() in ito_channel_close(). What was done before the close
     * is seen. */
    return load_acquire(&c->word) & CLOSED;
}

uint32_t ito_channel_count(ito_channel *c) {
    uint32_t state = ito__word_lock(&c->word), n = c->n;
    ito__word_unlock(&c->word, state);
    return n;
}

int ito_channel_init(ito_channel *c, void *buffer, size_t item_bytes, uint32_t room) {
    if (room > (uint32_t)1 << 31 || (room && item_bytes && !buffer))
        return EINVAL;
    *c = (ito_channel)ITO_CHANNEL_INIT(buffer, item_bytes, room);
    return 0;
}

int ito_channel_destroy(ito_channel *c) {
    uint32_t state = ito__word_lock(&c->word);
    bool busy = c->senders.head || c->receivers.head;
    ito__word_unlock(&c->word, state);
    return busy ? EBUSY : 0;
}
