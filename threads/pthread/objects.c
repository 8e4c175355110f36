/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Barriers, spin locks, and functions that are called once. */
#include "light.h"

#include <string.h>

/* ---- barriers: ito's, in place, marked where the C library says whether processes share it ------------------------ */

#define OWN_MARK 0x69746f62u
_Static_assert(sizeof(ito_barrier) <= sizeof(pthread_barrier_t), "it lies in one");

static ito_barrier *own(pthread_barrier_t *barrier) {
    ito_barrier *b = (ito_barrier *)barrier;
    return b->reserved >> 8 == OWN_MARK >> 8 ? b : NULL; /* the low byte is a turn */
}

/* ito_barrier_wait(), which can be cut short: the thread has arrived in a turn then, and comes back for its end. */
static int wait_in_turn(ito_barrier *b, uint32_t *turn, bool *arrived) {
    struct ito__waiter w;
    ito__word_lock(&b->word);
    if (*arrived && b->reserved != *turn) {
        ito__word_unlock(&b->word, 0);
        return 0;
    }
    *turn = b->reserved;
    if (!*arrived && ++b->arrived == b->n) {
        struct ito__waiter *list = ito__waiters_pop_all(&b->waiters);
        b->arrived = 0;
        b->reserved = (*turn & ~255u) | ((*turn + 1) & 255u);
        ito__word_unlock(&b->word, 0);
        ito__waiter_wake_all(list, 0);
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    *arrived = true;
    ito__waiter_init(&w);
    ito__waiters_push(&b->waiters, &w);
    return ito__wait(&w, &b->word, 0, ITO_FOREVER, ITO__WAIT_BARRIER, b, NULL);
}

/* A thread that is sent a signal meanwhile is pinned, and waits on. */
static int own_wait(ito_barrier *b) {
    uint32_t turn = 0;
    bool arrived = false;
    int r;
    do {
        r = ECANCELED;
        if (light_hold_begin(&b->word, &b->waiters))
            r = wait_in_turn(b, &turn, &arrived);
        light_hold_end();
    } while (r == ECANCELED);
    return r;
}

EXPORT int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attr, unsigned n) {
    int shared = PTHREAD_PROCESS_PRIVATE;
    if (attr)
        pthread_barrierattr_getpshared(attr, &shared);
    memset(barrier, 0, sizeof *barrier);
    if (shared == PTHREAD_PROCESS_SHARED) {
        return REAL(pthread_barrier_init)(barrier, attr, n);
    }
    int r = n > INT32_MAX ? EINVAL : ito_barrier_init((ito_barrier *)barrier, n);
    if (r == 0)
        ((ito_barrier *)barrier)->reserved = OWN_MARK;
    return r;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier) {
    ito_barrier *b = own(barrier);
    return b ? ito_barrier_destroy(b) : REAL(pthread_barrier_destroy)(barrier);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier) {
    ito_barrier *b = own(barrier);
    if (b)
        return own_wait(b);
    light_pin("a shared barrier");
    return REAL(pthread_barrier_wait)(barrier);
}
_Static_assert(PTHREAD_BARRIER_SERIAL_THREAD == ITO_BARRIER_LAST, "one of them is told");

/* ---- spin locks: the C library's; but the holder may be a light thread that waits for this very worker ------------- */

EXPORT int pthread_spin_lock(pthread_spinlock_t *lock) {
    for (unsigned turn = 1;; turn++) {
        int r = REAL(pthread_spin_trylock)(lock);
        if (LIKELY(r != EBUSY))
            return r;
        cpu_relax();
        if (turn % 100 == 0)
            sched_yield();
    }
}

/* ---- once ---------------------------------------------------------------------------------------------------------
 *
 * A pthread_once_t is an int, so those who wait do it at one of a few conditions, by its address. Values: 0, 2 (done) as
 * the C library's, and 1 for a call that runs. After a fork such a call does not run any more: the child's turn, from
 * 0 by two, lies above it.
 */
enum { ONCE_RUNS = 1, ONCE_DONE = 2 };
static struct {
    ito_mutex mutex;
    ito_cond changed;
} once_waits[64];
static uint32_t once_turn; /* forks before this process began */

void once_forked(void) {
    store_relaxed(&once_turn, once_turn + 1);
    memset(once_waits, 0, sizeof once_waits);
}

static void once_set(uint32_t *once, uint32_t value) {
    size_t i = ((uintptr_t)once >> 2) % 64;
    ito_mutex_lock(&once_waits[i].mutex);
    /* ORDER release; pairs with the acquire load in pthread_once(). Publishes what the function did. */
    store_release(once, value);
    ito_cond_broadcast(&once_waits[i].changed);
    ito_mutex_unlock(&once_waits[i].mutex);
}

/* The function was left by pthread_exit, a cancellation or an exception: the next caller tries again. */
static void once_undo(void *once) {
    once_set(once, 0);
}

/* False: it is done. True: the caller has to do it. */
static bool once_mine(uint32_t *once) {
    size_t i = ((uintptr_t)once >> 2) % 64;
    uint32_t runs = load_relaxed(&once_turn) * 4 + ONCE_RUNS;
    ito_mutex_lock(&once_waits[i].mutex);
    while (load_relaxed(once) == runs)
        ito_cond_wait(&once_waits[i].changed, &once_waits[i].mutex);
    bool mine = load_relaxed(once) != ONCE_DONE;
    if (mine)
        store_relaxed(once, runs);
    ito_mutex_unlock(&once_waits[i].mutex);
    return mine;
}

EXPORT int pthread_once(pthread_once_t *control, void (*fn)(void)) {
    uint32_t *once = (uint32_t *)control;
    /* ORDER acquire; pairs with the release store in once_set(). Shows what the function did. */
    if (LIKELY(load_acquire(once) == ONCE_DONE) || !once_mine(once))
        return 0;
    pthread_cleanup_push(once_undo, once);
    fn();
    pthread_cleanup_pop(0);
    once_set(once, ONCE_DONE);
    return 0;
}
