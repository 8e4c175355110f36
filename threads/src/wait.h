/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wait.h - what every object that is waited on is made of: a word with a queue bit, a queue, and waiters on the stacks
 * of those who wait.
 *
 * Goal: an object is some words of the program's memory, valid when zero, never allocated for, and not touched any more
 * once another thread could have ended it. A waiter may be an ito thread or any kernel thread.
 *
 * Rules (proofs: docs/design/sync.md):
 *  1. Who holds the queue bit of a word is the only one to write that word, and may change the queues of the object.
 *  2. A waiter leaves its queue by one hand only: whoever removes it under the queue bit wakes it, exactly once.
 *  3. The queue bit is given back after the waiter's context is saved; so nobody can wake a thread that has not gone to
 * sleep.
 *  4. Lock order: a condition's bit, a mutex's bit, the timers' lock. The timers only *try* a bit while they have their
 * lock.
 */
#ifndef ITO__WAIT_H
#define ITO__WAIT_H

#include "internal.h"

#include <ito/group.h>
#include <ito/sync.h>

#include <errno.h>
#include <stdbool.h>

#define ITO__QUEUE_BIT 0x80000000u

/*
 * field          writer                                    reader
 * next, prev     holder of the bit of the queue it is on   same
 * queue          same                                      same; NULL: on none
 * word, leave    the waiter, before it is on a queue       the waiter; the timers (word)
 * thread         the waiter, before it is on a queue       who wakes it
 * result         who wakes it, before it wakes             the waiter
 * want           the waiter, before it is on a queue       who removes it
 * mutex          the waiter, before it is on a queue       who moves it from a condition to its mutex
 * value          who wakes it, before it wakes             the waiter (futures)
 * armed          holder of the bit of its object           same: the waiter is in the heap
 * timer          holder of the timers' lock                same
 */
struct ito__timer {
    uint64_t deadline_ns;
    struct ito__waiter *child, *next, **link;
};
struct ito__waiter {
    struct ito__waiter *next, *prev;
    struct ito__waiters *queue;
    uint32_t *word;
    uint32_t leave;
    int result;
    uint32_t want;
    ito_thread *thread;
    bool armed;
    ito_mutex *mutex;
    void *value;
    struct ito__timer timer;
};

/* -- queues: under the queue bit; only `head` is read without it, to see whether it is worth while -- */

static inline void ito__waiters_set_head(struct ito__waiters *q, struct ito__waiter *w) {
    store_relaxed(&q->head, w);
}
static inline bool ito__waiters_is_empty_hint(const struct ito__waiters *q) {
    return !load_relaxed(&q->head);
}

static inline void ito__waiters_push(struct ito__waiters *q, struct ito__waiter *w) {
    w->next = NULL;
    w->prev = q->tail;
    w->queue = q;
    if (q->tail)
        q->tail->next = w;
    else
        ito__waiters_set_head(q, w);
    q->tail = w;
}
static inline void ito__waiters_push_front(struct ito__waiters *q, struct ito__waiter *w) {
    w->prev = NULL;
    w->next = q->head;
    w->queue = q;
    if (q->head)
        q->head->prev = w;
    else
        q->tail = w;
    ito__waiters_set_head(q, w);
}
static inline void ito__waiters_remove(struct ito__waiter *w) {
    struct ito__waiters *q = w->queue;
    if (w->prev)
        w->prev->next = w->next;
    else
        ito__waiters_set_head(q, w->next);
    if (w->next)
        w->next->prev = w->prev;
    else
        q->tail = w->prev;
    w->queue = NULL;
}

/* -- the word -- */

static inline bool ito__cas_acquire(uint32_t *word, uint32_t old, uint32_t value) {
    return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
static inline bool ito__cas_release(uint32_t *word, uint32_t old, uint32_t value) {
    return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void ito__word_lock_slow(uint32_t *word);

static inline bool ito__word_trylock(uint32_t *word) {
    return !(__atomic_fetch_or(word, ITO__QUEUE_BIT, __ATOMIC_ACQUIRE) & ITO__QUEUE_BIT);
}
/* Takes the queue bit; returns the word's other bits, which only the caller may change now. */
static inline uint32_t ito__word_lock(uint32_t *word) {
    /* ORDER acquire; pairs with the release in ito__word_unlock(): the queue as its last holder left it. */
    if (UNLIKELY(!ito__word_trylock(word)))
        ito__word_lock_slow(word);
    return load_relaxed(word) & ~ITO__QUEUE_BIT;
}
/* A plain store: nobody else writes the word while the bit is held (rule 1). The last access to the object. */
static inline void ito__word_unlock(uint32_t *word, uint32_t value) {
    store_release(word, value);
}

/* -- waiting -- */

static inline void ito__set_wait(ito_thread *t, uint32_t kind, void *object) {
    t->wait_kind = kind;
    t->wait_on = object;
}

/* Who calls: an id that no other living thread has; never 0. */
static inline uintptr_t ito__me(void) {
    return (uintptr_t)ito__self();
}

/* A waiter for the calling thread. */
static inline void ito__waiter_init(struct ito__waiter *w) {
    w->queue = NULL;
    w->want = 0;
    w->thread = ito__self();
    w->mutex = NULL;
    w->armed = false;
}

/*
 * Sleeps until ito__waiter_wake() or the deadline. The caller holds the queue bit of @word, has @w on a queue of that
 * object;
 * @word becomes @leave when @w can be woken. Returns what the waker gave, or ETIMEDOUT.
 * With a deadline: ito__timers_start() has succeeded before. @next: a waiter to wake, and to switch to at once, or
 * NULL.
 */
int ito__wait(struct ito__waiter *w, uint32_t *word, uint32_t leave, uint64_t deadline_ns, uint32_t kind, void *object,
              struct ito__waiter *next);

/* Wakes @w, which the caller removed from its queue; @w is gone after it. No bit needs to be held. */
void ito__waiter_wake(struct ito__waiter *w, int result);

/* Wakes a list of removed waiters, linked by `next`. */
void ito__waiter_wake_all(struct ito__waiter *list, int result);

/* -- what conditions need of mutexes (mutex.c) -- */

int ito__mutex_check_held(ito_mutex *m);
/* Unlocks whole; who waits longest owns it now and must be woken with result 0. NULL: nobody waits, it is free. */
struct ito__waiter *ito__mutex_give_to_next(ito_mutex *m);
int ito__mutex_take_again(ito_mutex *m, uint16_t depth, bool is_mine);
/* A list of removed waiters waits for @m from now on. Their `word` is not used any more: they have no deadline. */
void ito__mutex_requeue(ito_mutex *m, struct ito__waiter *list);

/* -- timers -- */

int ito__timers_start(void);
void ito__timer_arm(struct ito__waiter *w, uint64_t deadline_ns);
void ito__timer_disarm(struct ito__waiter *w);

/* Removes the first waiter of @q, not to be timed out any more. Under the queue bit. */
static inline struct ito__waiter *ito__waiters_pop(struct ito__waiters *q) {
    struct ito__waiter *w = q->head;
    if (!w)
        return NULL;
    ito__waiters_remove(w);
    ito__timer_disarm(w);
    return w;
}
/* All of them, as a list linked by `next`. */
struct ito__waiter *ito__waiters_pop_all(struct ito__waiters *q);

static inline bool ito__passed(uint64_t deadline_ns) {
    return deadline_ns != ITO_FOREVER && ito_now_ns() >= deadline_ns;
}

/* What each timed call does first: EAGAIN without timers, ETIMEDOUT when it is too late to wait. */
static inline int ito__deadline_check(uint64_t deadline_ns) {
    if (deadline_ns == ITO_FOREVER)
        return 0;
    if (ito__passed(deadline_ns))
        return ETIMEDOUT;
    return ito__timers_start();
}

#endif
