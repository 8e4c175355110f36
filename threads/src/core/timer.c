/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deadlines: one pairing heap of waiters, and one kernel thread that sleeps until the earliest.
 *
 * Method: the nodes are in the waiters themselves, so arming never allocates and never fails; insertion is O(1),
 * removal O(log n) amortised (Fredman, Sedgewick, Sleator, Tarjan: "The pairing heap", Algorithmica 1986). The kernel
 * thread is started by the first deadline. It is not a worker: all workers may be in long computations, and an idle
 * worker then needs no timeout of its own. Rejected: a heap per worker, where every idle worker would have to find the
 * earliest deadline of all. While nothing is due the thread sleeps in a futex, until the earliest deadline or, without
 * one, until a deadline is armed. Deadlines are CLOCK_MONOTONIC in ns (ito_now_ns), ITO_FOREVER for none.
 *
 * The race to avoid: a waker and the timers want the same waiter. A waiter with a deadline is in the heap if and only
 * if it is on its object's queue, and both change under the object's queue bit. The timers hold their lock first and so
 * only try the bit (rule 4 of wait.h); when it is taken they let go of everything and look again.
 */
#define _GNU_SOURCE
#include "core/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 *   field      writer                        reader            rule
 *   lock       any, by its queue bit         same
 *   root       holder of lock                same
 *   wake_at    holder of lock                same              the deadline that the thread sleeps for
 *   turn       holder of lock                the kernel        futex: it has changed, so the thread does not sleep
 *   idle       the thread, holding the lock  holder of lock    it has nobody left to wake, and sleeps until `turn` changes
 *   started    holder of timers_start_lock   any (acquire)
 */
static struct {
    uint32_t lock;
    uint32_t turn;
    struct ito__waiter *root;
    uint64_t wake_at;
    bool idle;
    int started;
} timers;
static pthread_mutex_t timers_start_lock = PTHREAD_MUTEX_INITIALIZER;

/* -- the heap --
 *
 * A tree in which no node is later than its children. `child`: the first of the children; `next`: the next sibling;
 * `link`: the pointer that points at this node (the parent's `child`, a sibling's `next`, or timers.root), through
 * which a node is cut out without a search. The holder of timers.lock may touch all of it. */

/* Join two heaps, either of which may be empty: the later root becomes the first child of the earlier one. The caller
 * sets the `link` of the result. */
static struct ito__waiter *heap_join(struct ito__waiter *a, struct ito__waiter *b) {
    if (!a)
        return b;
    if (!b)
        return a;
    if (b->timer.deadline_ns < a->timer.deadline_ns) {
        struct ito__waiter *swap = a;
        a = b;
        b = swap;
    }
    b->timer.next = a->timer.child;
    if (b->timer.next)
        b->timer.next->timer.link = &b->timer.next;
    b->timer.link = &a->timer.child;
    a->timer.child = b;
    return a;
}

/* Join the children of a removed node into one heap, in two passes: neighbours in pairs, then the pairs from the last
 * to the first. This order gives the amortised O(log n). No recursion: stacks may be small. */
static struct ito__waiter *heap_join_children(struct ito__waiter *first) {
    struct ito__waiter *pairs = NULL;
    while (first) {
        struct ito__waiter *a = first, *b = a->timer.next;
        first = b ? b->timer.next : NULL;
        a->timer.next = NULL;
        if (b)
            b->timer.next = NULL;
        a = heap_join(a, b);
        a->timer.next = pairs;
        pairs = a;
    }
    struct ito__waiter *root = NULL;
    while (pairs) {
        struct ito__waiter *next = pairs->timer.next;
        pairs->timer.next = NULL;
        root = heap_join(root, pairs);
        pairs = next;
    }
    return root;
}

/* A root has no siblings; its link is the variable itself. */
static void heap_set_root(struct ito__waiter *root) {
    timers.root = root;
    if (root) {
        root->timer.next = NULL;
        root->timer.link = &timers.root;
    }
}

/* Cut a node out with its subtree, and join the rest of the subtree to the root. If the node was the root, the first
 * line leaves timers.root null. */
static void heap_remove(struct ito__waiter *w) {
    *w->timer.link = w->timer.next;
    if (w->timer.next)
        w->timer.next->timer.link = w->timer.link;
    struct ito__waiter *rest = heap_join_children(w->timer.child);
    heap_set_root(heap_join(timers.root, rest));
}

/* -- arming -- */

/*
 * Put a waiter into the heap. The caller holds the queue bit of the waiter's object, so the timers cannot take the
 * waiter out before it sleeps. The timers' thread is woken only if it would sleep beyond this deadline; `turn` changes
 * under the lock, so if that thread is just going to sleep, it finds the futex changed.
 */
void ito__timer_arm(struct ito__waiter *w, uint64_t deadline_ns) {
    w->timer.deadline_ns = deadline_ns;
    w->timer.child = w->timer.next = NULL;
    w->armed = true;
    ito__word_lock(&timers.lock);
    heap_set_root(heap_join(timers.root, w));
    bool earlier = deadline_ns < timers.wake_at;
    if (earlier) {
        timers.wake_at = deadline_ns;
        store_relaxed(&timers.turn, timers.turn + 1);
    }
    ito__word_unlock(&timers.lock, 0);
    if (earlier)
        syscall(SYS_futex, &timers.turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Take a waiter out of the heap, if it is in it. The caller holds the queue bit of the waiter's object. When this
 * returns the timers will not touch the waiter again. */
void ito__timer_disarm(struct ito__waiter *w) {
    if (LIKELY(!w->armed))
        return;
    w->armed = false;
    ito__word_lock(&timers.lock);
    heap_remove(w);
    ito__word_unlock(&timers.lock, 0);
}

/* -- the thread -- */

/*
 * Takes the waiters that are due out of the heap and out of their queues. Returns them as a list, to be woken without
 * any lock held. *again: an object's queue bit was taken.
 *
 * The timers' lock is held. That is the wrong order for an object's bit, whose holder may be waiting for the timers'
 * lock in ito__timer_disarm(); hence the bit is only tried. A waiter that is removed here cannot be woken by another
 * thread, since both happen under its object's bit.
 */
static struct ito__waiter *timers_due(uint64_t now, bool *again) {
    struct ito__waiter *due = NULL, *w;
    while ((w = timers.root) && w->timer.deadline_ns <= now) {
        if (!ito__word_trylock(w->word)) {
            *again = true;
            break;
        }
        heap_remove(w);
        w->armed = false;
        if (w->queue)
            ito__waiters_remove(w);
        ito__word_unlock(w->word, load_relaxed(w->word) & ~ITO__QUEUE_BIT);
        w->next = due;
        due = w;
    }
    return due;
}

/* One round: take out the waiters that are due, note the next deadline, wake the waiters without any lock held, sleep.
 * If an object's queue bit was taken, its holder is about to let go of it: give it the CPU and begin again. */
static void *timers_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "ito timers");
    for (;;) {
        bool again = false;
        ito__word_lock(&timers.lock);
        struct ito__waiter *due = timers_due(ito_now_ns(), &again);
        uint64_t until = timers.root ? timers.root->timer.deadline_ns : ITO_FOREVER;
        timers.wake_at = until;
        timers.idle = due == NULL && until == ITO_FOREVER;
        uint32_t turn = timers.turn;
        ito__word_unlock(&timers.lock, 0);
        ito__waiter_wake_all(due, ETIMEDOUT);
        if (again)
            sched_yield();
        if (again || (due && until == ITO_FOREVER))
            continue; /* in the second case to be idle */
        /* If a deadline was armed since the lock was given back, `turn` has changed, and the kernel does not sleep. */
        struct timespec at = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
        syscall(SYS_futex, &timers.turn, FUTEX_WAIT_BITSET_PRIVATE, turn, until == ITO_FOREVER ? NULL : &at, NULL,
                FUTEX_BITSET_MATCH_ANY);
    }
    return NULL;
}

bool ito__timers_quiet(unsigned *n_threads) {
    ito__word_lock(&timers.lock);
    /* ORDER acquire; pairs with the release store in timers_start_slow(), as in ito__timers_start(). */
    bool started = load_acquire(&timers.started), quiet = timers.root == NULL && (!started || timers.idle);
    ito__word_unlock(&timers.lock, 0);
    *n_threads = started;
    return quiet;
}

/* Runs in the child after fork, which has neither the timers' thread nor a thread that waits: all begins anew. */
static void timers_forget(void) {
    timers.lock = 0;
    timers.root = NULL;
    timers.started = 0;
    timers.idle = false;
    store_relaxed(&ito__pool.n_outside, 0); /* the timers' thread may have been counted while it woke a waiter */
    pthread_mutex_init(&timers_start_lock, NULL);
}

/* Start the timers' thread, detached: it lives until the process ends, also between two pools. Return: 0 or EAGAIN. */
static int timers_start_slow(void) {
    static bool forks_known;
    sigset_t all, old;
    int r = 0, saved = errno; /* the caller finds its errno as it was, the first time too */
    pthread_mutex_lock(&timers_start_lock);
    if (!timers.started) {
        if (!forks_known)
            forks_known = !pthread_atfork(NULL, NULL, timers_forget);
        pthread_attr_t attr;
        pthread_t thread;
        timers.wake_at = ITO_FOREVER;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        /* Signals of the program are not for this thread. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        if (pthread_create(&thread, &attr, timers_main, NULL))
            r = EAGAIN;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attr);
        /* ORDER release; pairs with the acquire load in ito__timers_start(). Publishes wake_at. */
        store_release(&timers.started, !r);
    }
    pthread_mutex_unlock(&timers_start_lock);
    errno = saved;
    return r;
}

/* Called before a wait with a deadline. Return: 0, or EAGAIN where the kernel gives no thread. */
int ito__timers_start(void) {
    /* ORDER acquire; pairs with the release store in timers_start_slow(). Shows wake_at. */
    if (LIKELY(load_acquire(&timers.started)))
        return 0;
    return timers_start_slow();
}
