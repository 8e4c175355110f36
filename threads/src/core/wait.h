/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wait.h - what every object that is waited on is made of: a word with a queue bit, a queue, and waiters on the stacks
 * of the threads that wait.
 *
 * Goal: an object is some words of the program's memory. It is valid when zero, nothing is ever allocated for it, and
 * it is not touched any more once another thread could have ended it. A waiter may be an ito thread or any kernel
 * thread.
 *
 * Rules (docs/design/sync.md has the proofs):
 *  1. The thread that holds the queue bit of a word is the only one that writes the word, and may change the object's
 *     queues.
 *  2. The thread that removes a waiter from its queue, under the queue bit, wakes it, exactly once. Nobody else does.
 *  3. The queue bit is given back after the waiter's context is saved. So no thread is woken that has not gone to
 *     sleep.
 *  4. Lock order: a condition's bit, a mutex's bit, the timers' lock. The timers, which hold their lock first, only
 *     *try* a bit.
 *
 * The life of a waiter:
 *
 *   on the waiter's stack --(ito__waiters_push)--> on a queue --(ito__wait)--> asleep, the bit given back
 *   asleep --(ito__waiters_pop, or the timers)--> removed --(ito__waiter_wake: its last access)--> gone, with its frame
 */
#ifndef ITO__WAIT_H
#define ITO__WAIT_H

#include "core/internal.h"

#include <ito/group.h>
#include <ito/sync.h>

#include <errno.h>
#include <stdbool.h>

#define ITO__QUEUE_BIT 0x80000000u

/*
 * All plain: the queue bit orders the accesses of those who hold it in turn, and making a thread ready orders the waker
 * before the waiter.
 *
 *   field          writer                                    reader
 *   next, prev     holder of the bit of the queue it is on   same
 *   queue          same                                      same; NULL: on none. Only that of the first and of the last
 *                                                            waiter must be right: those between may have come with
 *                                                            others from a queue that is gone (ito__waiters_append)
 *   word, leave    the waiter, before it is on a queue       the waiter; the timers (word)
 *   thread         the waiter, before it is on a queue       its waker
 *   result         its waker, before it makes it ready       the waiter
 *   want           the waiter, before it is on a queue       the thread that removes it
 *   epoch          the waiter, before it is on a queue       who removes it: of another, its thread was left behind by a fork
 *   mutex          the waiter, before it is on a queue       the thread that moves it from a condition to its mutex
 *   value          its waker, before it makes it ready       the waiter (futures)
 *   armed          holder of the bit of its object           same: the waiter is in the heap of deadlines
 *   timer          holder of the timers' lock                same
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
    uint32_t epoch;
    ito_thread *thread;
    bool armed;
    ito_mutex *mutex;
    void *value;
    struct ito__timer timer;
};

/* -- queues: under the queue bit; only `head` is also read without it, as a hint whether anyone waits -- */

/* An empty queue has a null head; its tail is null too, since the last removal copies the null `prev`. A waiter at an end
 * knows the queue it is on, so the timers can remove any without knowing the object. */
static inline void ito__waiters_set_head(struct ito__waiters *q, struct ito__waiter *w) {
    store_relaxed(&q->head, w);
}
static inline bool ito__waiters_is_empty_hint(const struct ito__waiters *q) {
    return !load_relaxed(&q->head);
}

/*
 * Forks, counted, and whether the process is the child of one and has one thread yet. Both change in the child alone, while it has that
 * thread. Its queues still have the parent's threads on them, and bits of theirs may be set.
 */
extern uint32_t ito__fork_epoch;
extern uint32_t ito__alone;

void ito__waiters_drop_slow(struct ito__waiters *q);
/* Takes waiters whose threads a fork has left behind off the head of the queue. */
static inline void ito__waiters_drop_stale(struct ito__waiters *q) {
    if (UNLIKELY(q->head && q->head->epoch != ito__fork_epoch))
        ito__waiters_drop_slow(q);
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
/* A list of waiters that are on no queue, linked both ways. */
static inline void ito__waiters_append(struct ito__waiters *q, struct ito__waiter *first, struct ito__waiter *last) {
    first->prev = q->tail;
    first->queue = last->queue = q;
    last->next = NULL;
    if (q->tail)
        q->tail->next = first;
    else
        ito__waiters_set_head(q, first);
    q->tail = last;
}
static inline void ito__waiters_remove(struct ito__waiter *w) {
    struct ito__waiters *q = w->queue;
    if (w->prev) {
        w->prev->next = w->next;
    } else {
        ito__waiters_set_head(q, w->next);
        if (w->next)
            w->next->queue = q;
    }
    if (w->next) {
        w->next->prev = w->prev;
    } else {
        q->tail = w->prev;
        if (w->prev)
            w->prev->queue = q;
    }
    w->queue = NULL;
}

/* -- the word -- */

/* A fast path's change of the word, which fails while the queue bit is set or anything else has changed. */
static inline bool ito__cas_acquire(uint32_t *word, uint32_t old, uint32_t value) {
    /* ORDER acquire; what it pairs with is said at each call: ito__cas_release() or ito__word_unlock() of the word. */
    return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
static inline bool ito__cas_release(uint32_t *word, uint32_t old, uint32_t value) {
    /* ORDER release; what it pairs with is said at each call: ito__cas_acquire() or ito__word_lock() of the word. */
    return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void ito__word_lock_slow(uint32_t *word);

static inline bool ito__word_trylock(uint32_t *word) {
    /* ORDER acquire; pairs with the release in ito__word_unlock(), and with ito__cas_release() of a fast path. Shows
     * the queue as its last holder left it, and what was done before the word got its value. */
    return !(__atomic_fetch_or(word, ITO__QUEUE_BIT, __ATOMIC_ACQUIRE) & ITO__QUEUE_BIT);
}
/* Takes the queue bit; returns the word's other bits, which only the caller may change now. So the load is relaxed. */
static inline uint32_t ito__word_lock(uint32_t *word) {
    ito__be_home(); /* before: the thread may have to switch for it, and others wait for the bit */
    if (UNLIKELY(!ito__word_trylock(word)))
        ito__word_lock_slow(word);
    return load_relaxed(word) & ~ITO__QUEUE_BIT;
}
/* Gives the queue bit back and sets the word, in one store, since nobody else writes the word while the bit is held
 * (rule 1). It is the last access to the object. */
static inline void ito__word_unlock(uint32_t *word, uint32_t value) {
    /* ORDER release; pairs with the acquire in ito__word_trylock(), and with ito__cas_acquire() of a fast path.
     * Publishes the queue, the saved context of a waiter (rule 3), and the critical section that ends. */
    store_release(word, value);
}

/* -- waiting -- */

static inline void ito__set_wait(ito_thread *t, uint32_t kind, void *object) {
    t->wait_kind = kind;
    t->wait_on = object;
}

/* The caller's id, which no other living thread has; never 0. */
static inline uintptr_t ito__me(void) {
    return (uintptr_t)ito__self();
}

/* A waiter for the calling thread. */
static inline void ito__waiter_init(struct ito__waiter *w) {
    w->queue = NULL;
    w->want = 0;
    w->epoch = ito__fork_epoch;
    w->thread = ito__self();
    w->mutex = NULL;
    w->armed = false;
}

/*
 * Sleeps until ito__waiter_wake() or the deadline. Returns what the waker gave, or ETIMEDOUT.
 *
 * The caller holds the queue bit of @word and has put @w on a queue of that object. @word becomes @leave when @w can be
 * woken. With a deadline, ito__timers_start() has succeeded before. @next: a waiter to wake, and to switch to at once,
 * or NULL.
 */
int ito__wait(struct ito__waiter *w, uint32_t *word, uint32_t leave, uint64_t deadline_ns, uint32_t kind, void *object,
              struct ito__waiter *next);

/* Wakes @w, which the caller removed from its queue; @w is gone after it. No bit needs to be held. */
void ito__waiter_wake(struct ito__waiter *w, int result);

/* Wakes a list of removed waiters, linked by `next`. */
void ito__waiter_wake_all(struct ito__waiter *list, int result);

/* -- what conditions need of mutexes (mutex.c) -- */

int ito__mutex_check_held(ito_mutex *m);
/* Unlocks it whole. The longest waiter owns it now, is returned, and must be woken with result 0. NULL: nobody waits,
 * and it is free. */
struct ito__waiter *ito__mutex_give_to_next(ito_mutex *m);
int ito__mutex_take_again(ito_mutex *m, uint16_t depth, bool is_mine);
/* A list of removed waiters, linked both ways, waits for @m from now on. Their `word` is not used any more: they have no
 * deadline. */
void ito__mutex_requeue(ito_mutex *m, struct ito__waiter *first, struct ito__waiter *last);

/* -- timers -- */

int ito__timers_start(void);
void ito__timer_arm(struct ito__waiter *w, uint64_t deadline_ns);
void ito__timer_disarm(struct ito__waiter *w);

/* Removes the first waiter of @q, not to be timed out any more. Under the queue bit. */
static inline struct ito__waiter *ito__waiters_pop(struct ito__waiters *q) {
    ito__waiters_drop_stale(q);
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

/* Called first by each timed call: EAGAIN without timers, ETIMEDOUT when it is too late to wait. */
static inline int ito__deadline_check(uint64_t deadline_ns) {
    if (deadline_ns == ITO_FOREVER)
        return 0;
    if (ito__passed(deadline_ns))
        return ETIMEDOUT;
    return ito__timers_start();
}

#endif
