/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mutex: one word, docs/design/sync.md, "Mutex".
 *
 *   state              meaning                                         left by
 *   0                  free                                            a lock: compare-and-swap to LOCKED
 *   LOCKED             taken                                           the unlock: compare-and-swap to 0
 *   LOCKED | WAITERS   taken, and a thread is on the queue             the unlock, under the queue bit
 *   WAITERS            free; one waiter was woken and has not run      a lock: compare-and-swap, or under the queue bit
 *                      yet, others are on the queue
 *   ... | QUEUE_BIT    a thread changes the queue; only it writes      its holder, by ito__word_unlock()
 *
 * Unlocking wakes the longest waiter but leaves the mutex free, and a thread that is running may take it meanwhile
 * (barging). So a mutex that all want is never owned by a thread that still waits for a worker. A thread that was woken
 * and found the mutex taken again waits in front, and the next unlock *hands* it the mutex: so nobody starves. A thread
 * that unlocks in order to wait on a condition hands the mutex over at once and switches to the new owner, as there is
 * no other running thread that could barge.
 *
 *   field      writer                     reader   rule
 *   state      any, as above              any      every change orders the critical sections before it
 *   kind       init                       any      constant while in use
 *   depth      the owner                  same
 *   owner      the owner                  any      relaxed: it equals a reader's own id only if the reader wrote it
 *   waiters    holder of the queue bit    same
 *
 * threads/tests/explore runs this file under every schedule (programs `mutex` and `condition`).
 */
#include "core/wait.h"
#include "sync/lock_events.h"

enum { LOCKED = 1, WAITERS = 2 };
enum { WANT_WAKE = 0, WANT_HAND_OVER = 1 };
enum { WOKEN = -1 }; /* result of a wait: look again. 0: the waiter has the mutex. */
#define SPINS 60

/* The word as the holder of the queue bit leaves it. */
static uint32_t mutex_leave(const ito_mutex *m, uint32_t locked) {
    return locked | (m->waiters.head ? WAITERS : 0);
}

/* Other workers run, so the holder may be done soon; with one worker it cannot be. True: the caller has the mutex. */
static bool mutex_spin(ito_mutex *m) {
    if (ito_n_workers() < 2)
        return false;
    for (int i = 0; i < SPINS; i++) {
        uint32_t s = load_relaxed(&m->state);
        /* ORDER acquire; pairs with the release of the last unlock, as in mutex_take(). */
        if (!(s & (LOCKED | ITO__QUEUE_BIT)) && ito__cas_acquire(&m->state, s, s | LOCKED))
            return true;
        cpu_relax();
    }
    return false;
}

/*
 * The mutex was taken. Spin, then queue. Whether to wait is decided under the queue bit: an unlock either sees WAITERS,
 * or comes before the bit was taken and leaves the mutex free, which is seen here.
 *
 * `again`: this thread was woken once and found the mutex taken by a thread that barged. It then waits in front, and
 * the next unlock hands the mutex over. So a waiter waits for two critical sections at most after its turn has come.
 */
static __attribute__((noinline)) int mutex_lock_slow(ito_mutex *m, uint64_t deadline_ns) {
    struct ito__waiter w;
    bool again = false;
    if (mutex_spin(m))
        return 0;
    int late = ito__deadline_check(deadline_ns);
    ito__waiter_init(&w);
    for (;;) {
        uint32_t s = ito__word_lock(&m->state);
        if (!(s & LOCKED) || late) { /* free: takes it. Too late: leaves it as it is, which is LOCKED too */
            ito__word_unlock(&m->state, s | LOCKED);
            return s & LOCKED ? late : 0;
        }
        /* The queue bit is held since before `s` was read, so no unlock can have missed this waiter. */
        w.want = again ? WANT_HAND_OVER : WANT_WAKE;
        if (again)
            ito__waiters_push_front(&m->waiters, &w);
        else
            ito__waiters_push(&m->waiters, &w);
        int r = ito__wait(&w, &m->state, LOCKED | WAITERS, deadline_ns, ITO__WAIT_MUTEX, m, NULL);
        if (r != WOKEN)
            return r;
        again = true;
    }
}

/* -- owners -- */

/* If the caller has @m already, what its call returns; else -1. The load of `owner` is relaxed: it reads the caller's
 * own id only if the caller wrote it, and an old value is never that id. */
static int mutex_own(ito_mutex *m, uintptr_t me, int if_errorcheck) {
    if (load_relaxed(&m->owner) != me)
        return -1;
    if (m->kind == ITO_MUTEX_ERRORCHECK)
        return if_errorcheck;
    if (m->depth == UINT16_MAX)
        return EAGAIN;
    m->depth++;
    return 0;
}
/* Relaxed: only the owner compares it with its own id, and the mutex itself orders the owners. */
static void mutex_set_owner(ito_mutex *m, uintptr_t owner) {
    store_relaxed(&m->owner, owner);
}

static int mutex_take(ito_mutex *m, uint64_t deadline_ns) {
    /* ORDER acquire; pairs with the release of the last unlock: mutex_give(), ito__word_unlock() in
     * mutex_unlock_slow(), or the inline ito__mutex_unlock(). Shows the critical sections before this one. */
    if (LIKELY(ito__cas_acquire(&m->state, 0, LOCKED)))
        return 0;
    return mutex_lock_slow(m, deadline_ns);
}

/* Error-checking and recursive mutexes. The owner is written after the lock and cleared before the unlock, so while it
 * is nonzero its thread holds the mutex. */
static __attribute__((noinline)) int mutex_lock_owned(ito_mutex *m, uint64_t deadline_ns) {
    uintptr_t me = ito__me();
    int r = mutex_own(m, me, EDEADLK);
    if (r >= 0)
        return r;
    r = mutex_take(m, deadline_ns);
    if (!r)
        mutex_set_owner(m, me);
    return r;
}

static int mutex_lock(void *mutex, uint64_t deadline_ns) {
    ito_mutex *m = mutex;
    if (m->kind == ITO_MUTEX_NORMAL)
        return mutex_take(m, deadline_ns);
    return mutex_lock_owned(m, deadline_ns);
}

/* A loop because the compare-and-swap also fails when another thread changes only WAITERS, or locks and unlocks between
 * the two. Each failure means that another thread has made progress. */
static int mutex_trylock(void *mutex) {
    ito_mutex *m = mutex;
    uintptr_t me = 0;
    if (m->kind != ITO_MUTEX_NORMAL) {
        me = ito__me();
        int r = mutex_own(m, me, EBUSY);
        if (r >= 0)
            return r;
    }
    /* Free with waiters counts as free. While the queue bit is set the word does not say whether the mutex is free, so
     * the call waits for the bit. */
    for (;;) {
        uint32_t s = load_relaxed(&m->state);
        if (s & LOCKED)
            return EBUSY;
        if (s & ITO__QUEUE_BIT) {
            s = ito__word_lock(&m->state);
            ito__word_unlock(&m->state, s | LOCKED);
            if (s & LOCKED)
                return EBUSY;
            break;
        }
        /* ORDER acquire; pairs with the release of the last unlock, as in mutex_take(). */
        if (ito__cas_acquire(&m->state, s, s | LOCKED))
            break;
    }
    if (me)
        mutex_set_owner(m, me);
    return 0;
}

static uint32_t mutex_type(const void *mutex) {
    static const uint8_t types[] = {KASURI_LOCK_MUTEX, KASURI_LOCK_ERRORCHECK, KASURI_LOCK_RECURSIVE};
    return types[((const ito_mutex *)mutex)->kind];
}
static const struct ito__lock_call mutex_call = {mutex_trylock, mutex_lock, mutex_type, KASURI_LOCK_EXCLUSIVE};

int ito_mutex_lock(ito_mutex *m) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_lock(&mutex_call, m, ITO_FOREVER, ITO__CALLER);
    if (LIKELY(m->kind == ITO_MUTEX_NORMAL))
        return mutex_take(m, ITO_FOREVER);
    return mutex_lock_owned(m, ITO_FOREVER);
}

int ito_mutex_lock_until(ito_mutex *m, uint64_t deadline_ns) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_lock(&mutex_call, m, deadline_ns, ITO__CALLER);
    return mutex_lock(m, deadline_ns);
}

int ito_mutex_trylock(ito_mutex *m) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_try(&mutex_call, m, ITO__CALLER);
    return mutex_trylock(m);
}

/* -- unlocking -- */

/*
 * There are waiters, or the queue bit was set. The longest waiter is removed under the bit and woken after the bit is
 * given back: by then the mutex may be gone, but the waiter is not, as it sleeps until this thread wakes it.
 */
static __attribute__((noinline)) int mutex_unlock_slow(ito_mutex *m) {
    uint32_t s = ito__word_lock(&m->state);
    if (!(s & LOCKED)) {
        ito__word_unlock(&m->state, s);
        return EPERM;
    }
    struct ito__waiter *w = ito__waiters_pop(&m->waiters);
    bool hand_over = w && w->want == WANT_HAND_OVER;
    /* Its release publishes the critical section to the next holder. The mutex was locked until here, so no thread may
     * have ended it; from here on another may. The waiter is on its own stack, which lives until it is woken. */
    ito__word_unlock(&m->state, mutex_leave(m, hand_over ? LOCKED : 0));
    if (w)
        ito__waiter_wake(w, hand_over ? 0 : WOKEN);
    return 0;
}

static int mutex_give(ito_mutex *m) {
    /* ORDER release; pairs with the acquire of whoever locks next: mutex_take(), mutex_spin(), mutex_trylock(), the
     * inline ito__mutex_lock(). Publishes the critical section. Nothing of *m is touched after it. */
    if (LIKELY(ito__cas_release(&m->state, LOCKED, 0)))
        return 0;
    return mutex_unlock_slow(m);
}

/* May the caller unlock? *last: the mutex becomes free, and its owner is already cleared. */
static int mutex_leave_owned(ito_mutex *m, bool *last) {
    if (load_relaxed(&m->owner) != ito__me())
        return EPERM;
    *last = !m->depth;
    if (m->depth)
        m->depth--;
    else
        mutex_set_owner(m, 0);
    return 0;
}

static __attribute__((noinline)) int mutex_unlock_owned(ito_mutex *m) {
    bool last;
    int r = mutex_leave_owned(m, &last);
    return r || !last ? r : mutex_give(m);
}

static int mutex_unlock(void *mutex) {
    ito_mutex *m = mutex;
    return m->kind == ITO_MUTEX_NORMAL ? mutex_give(m) : mutex_unlock_owned(m);
}

/* The fast path saves no register: a locked instruction waits until all earlier stores have left their buffer. */
int ito_mutex_unlock(ito_mutex *m) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_unlock(mutex_unlock, m);
    if (LIKELY(m->kind == ITO_MUTEX_NORMAL))
        return mutex_give(m);
    return mutex_unlock_owned(m);
}

/* -- for conditions -- */

/* 0 if the caller may wait with @m. The loads are relaxed: the holder reads what it wrote itself. */
int ito__mutex_check_held(ito_mutex *m) {
    if (!(load_relaxed(&m->state) & LOCKED))
        return EPERM;
    return m->kind == ITO_MUTEX_NORMAL || load_relaxed(&m->owner) == ito__me() ? 0 : EPERM;
}

struct ito__waiter *ito__mutex_give_to_next(ito_mutex *m) {
    if (m->kind != ITO_MUTEX_NORMAL)
        mutex_set_owner(m, 0);
    /* Look first: a compare-and-swap that fails costs as much as one that does not.
     * ORDER release; pairs with the acquire of whoever locks next, as in mutex_give(). */
    if (load_relaxed(&m->state) == LOCKED && ito__cas_release(&m->state, LOCKED, 0))
        return NULL;
    ito__word_lock(&m->state);
    struct ito__waiter *w = ito__waiters_pop(&m->waiters);
    ito__word_unlock(&m->state, mutex_leave(m, w ? LOCKED : 0));
    return w;
}

/* After a wait: @m is locked as deep as before. @is_mine: it was handed over, so only the owner is left to write. */
int ito__mutex_take_again(ito_mutex *m, uint16_t depth, bool is_mine) {
    int r = is_mine ? 0 : mutex_take(m, ITO_FOREVER);
    if (m->kind != ITO_MUTEX_NORMAL)
        mutex_set_owner(m, ito__me());
    m->depth = depth;
    return r;
}

/*
 * The first of them is woken if @m is free; then it, not the caller, has to find out who gets the mutex. The others
 * wait without a wake-up each, which would only make them queue here one by one. They are not looked at: each lies on a
 * stack that has left the caches. Their `want` is as ito__waiter_init() leaves it, WANT_WAKE.
 */
void ito__mutex_requeue(ito_mutex *m, struct ito__waiter *first, struct ito__waiter *last) {
    struct ito__waiter *woken = NULL, *list = first;
    uint32_t s = ito__word_lock(&m->state);
    if (!(s & LOCKED)) {
        woken = first;
        list = first == last ? NULL : first->next;
    }
    if (list)
        ito__waiters_append(&m->waiters, list, last);
    ito__word_unlock(&m->state, mutex_leave(m, s & LOCKED));
    if (woken)
        ito__waiter_wake(woken, WOKEN);
}

/* -- life -- */

int ito_mutex_init(ito_mutex *m, int kind) {
    if (kind != ITO_MUTEX_NORMAL && kind != ITO_MUTEX_ERRORCHECK && kind != ITO_MUTEX_RECURSIVE)
        return EINVAL;
    if (ITO__LOCKS_SEEN)
        ito__lock_forget(m);
    *m = (ito_mutex)ITO_MUTEX_INIT_KIND(kind);
    return 0;
}

int ito_mutex_destroy(ito_mutex *m) {
    uint32_t s = ito__word_lock(&m->state);
    bool busy = (s & LOCKED) || m->waiters.head;
    ito__word_unlock(&m->state, s);
    return busy ? EBUSY : 0;
}
