/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The read-write lock, phase-fair (Brandenburg and Anderson, "Spin-based reader-writer synchronization", Real-Time
 * Systems 2010): a writer that leaves lets in all readers that wait, and the last reader that leaves lets in one
 * writer. So neither side starves.
 *
 *   state              meaning                                changed by
 *   0                  free                                   readers: + 1; a writer: to WRITER (compare-and-swap)
 *   n (READERS)        n readers                              readers: + 1, - 1
 *   WRITER             one writer                             the writer: to 0
 *   ... | WAITERS      threads wait: fast paths step back     holder of the queue bit
 *   ... | QUEUE_BIT    only its holder writes                 its holder, by ito__word_unlock()
 *
 *   field      writer                       reader   rule
 *   owner      the writer, or the thread    any      relaxed: it equals a reader's own id only if the reader is the
 *              that let it in                        writer
 *   readers, writers (queues): holder of the queue bit
 *
 * An example: R1 reads, W asks, then R2 asks. W queues, since the lock is not free; R2 queues behind the bit WAITERS,
 * or readers that overlap could keep W out for ever. R1 leaves as the last reader: rwlock_admit() lets W in. W leaves:
 * all readers that wait by now enter, before any other writer. So a reader waits for at most one writer, and a writer
 * for the writers before it and one phase of readers before each turn.
 *
 * A waiter is let in by the thread that leaves: that thread changes the state for it, and it owns the lock when it
 * wakes (hand-over). No thread that comes later can overtake it.
 */
#include "core/wait.h"
#include "sync/lock_events.h"

#define WRITER 0x40000000u
#define WAITERS 0x20000000u
#define READERS 0x0fffffffu
/* Whether a reader has to wait. In libito-pthread.so, as in the C library, readers pass writers that wait while readers
 * hold the lock: a thread that reads may lock again to read. Writers then may starve; a lock whose word behind this struct
 * is 2, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, is as ito's own. */
#ifdef ITO__PTHREAD
#define READER_WAITS(l, s)                                                                                             \
    ((s)&WRITER || ((s)&WAITERS && (!((s)&READERS) || *(const uint32_t *)(const void *)((l) + 1) == 2)))
#else
#define READER_WAITS(l, s) ((s) & (WRITER | WAITERS))
#endif

/* The bit WAITERS as the queues have it. Under the queue bit. */
static uint32_t rwlock_waiters_bit(const ito_rwlock *l) {
    return l->readers.head || l->writers.head ? WAITERS : 0;
}
static void rwlock_set_owner(ito_rwlock *l, uintptr_t owner) {
    store_relaxed(&l->owner, owner);
}

/* Take all waiting readers out of their queue: they enter together, as one phase. Returns their list; *n: their number,
 * found in O(n). Under the queue bit. */
static struct ito__waiter *rwlock_admit_readers(ito_rwlock *l, uint32_t *n) {
    struct ito__waiter *list = ito__waiters_pop_all(&l->readers);
    *n = 0;
    for (struct ito__waiter *w = list; w; w = w->next)
        ++*n;
    return list;
}

/*
 * Lets in the waiters that may enter, after a reader or writer has left or a waiting writer gave up. The queue bit is
 * held on entry and given back; the waiters are woken after that, so that they do not find it taken.
 * @state: the present holders (WRITER or a number of readers), without flags. @readers_first: it is the readers' turn,
 * since a writer has left. Otherwise readers enter only where no writer waits.
 */
static void rwlock_admit(ito_rwlock *l, uint32_t state, bool readers_first) {
    struct ito__waiter *list = NULL;
    ito__waiters_drop_stale(&l->readers);
    ito__waiters_drop_stale(&l->writers);
    if (!(state & WRITER)) {
        if (l->readers.head && (readers_first || !l->writers.head)) {
            uint32_t n;
            list = rwlock_admit_readers(l, &n);
            state += n;
        } else if (!state && (list = ito__waiters_pop(&l->writers))) {
            list->next = NULL;
            state = WRITER;
            rwlock_set_owner(l, (uintptr_t)list->thread);
        }
    }
    ito__word_unlock(&l->state, state | rwlock_waiters_bit(l));
    ito__waiter_wake_all(list, 0);
}

/* -- readers -- */

/* Return: 0; EBUSY: a writer holds the lock or threads wait; EAGAIN: 2^28 - 1 readers hold it. */
static int rwlock_try_read(void *lock) {
    ito_rwlock *l = lock;
    for (;;) {
        uint32_t s = load_relaxed(&l->state);
        if (s & ITO__QUEUE_BIT) {
            ito__word_unlock(&l->state, ito__word_lock(&l->state)); /* wait until it is given back */
            continue;
        }
        if (READER_WAITS(l, s))
            return EBUSY;
        if ((s & READERS) == READERS)
            return EAGAIN;
        /* ORDER acquire; pairs with the release of the last writer in rwlock_unlock(). Shows what it wrote. */
        if (ito__cas_acquire(&l->state, s, s + 1))
            return 0;
    }
}

/* A reader steps back while any thread waits, also behind a waiting writer: that is what lets the writer have its
 * turn. */
static int rwlock_read(void *lock, uint64_t deadline_ns) {
    ito_rwlock *l = lock;
    struct ito__waiter w;
    int r = rwlock_try_read(l);
    if (LIKELY(r != EBUSY))
        return r;
    if (load_relaxed(&l->owner) == ito__me())
        return EDEADLK;
    if ((r = ito__deadline_check(deadline_ns)))
        return r;
    ito__waiter_init(&w);
    uint32_t s = ito__word_lock(&l->state);
    if (!READER_WAITS(l, s) && (s & READERS) != READERS) { /* it became free before the queue bit was taken */
        ito__word_unlock(&l->state, s + 1);
        return 0;
    }
    ito__waiters_push(&l->readers, &w);
    return ito__wait(&w, &l->state, s | WAITERS, deadline_ns, ITO__WAIT_RWLOCK, l, NULL);
}

/* For lock_events.c, which tries and blocks through read_call and write_call while locks are recorded. */
static uint32_t rwlock_type(const void *lock) {
    (void)lock;
    return KASURI_LOCK_RWLOCK;
}
static const struct ito__lock_call read_call = {rwlock_try_read, rwlock_read, rwlock_type, KASURI_LOCK_SHARED};

int ito_rwlock_rdlock(ito_rwlock *l) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_lock(&read_call, l, ITO_FOREVER, ITO__CALLER);
    return rwlock_read(l, ITO_FOREVER);
}
int ito_rwlock_rdlock_until(ito_rwlock *l, uint64_t deadline_ns) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_lock(&read_call, l, deadline_ns, ITO__CALLER);
    return rwlock_read(l, deadline_ns);
}
int ito_rwlock_tryrdlock(ito_rwlock *l) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_try(&read_call, l, ITO__CALLER);
    return rwlock_try_read(l);
}

/* -- writers -- */

/* One compare-and-swap, from free to WRITER. It fails, too, while the queue bit is set for a moment. */
static int rwlock_try_write(ito_rwlock *l) {
    /* ORDER acquire; pairs with the releases in rwlock_unlock(), of the last writer and of all readers since: each
     * reader's is a read-modify-write, so it continues the release sequences of those before it. */
    if (!ito__cas_acquire(&l->state, 0, WRITER))
        return EBUSY;
    rwlock_set_owner(l, ito__me());
    return 0;
}

/* A writer enters at once only if the lock is free and no thread waits. Otherwise it queues, and is let in by the last
 * reader that leaves or by the writer before it (rwlock_admit), which has set WRITER and the owner on its behalf.
 * Return: 0, EDEADLK if the thread is the writer already, or an error of the wait (ETIMEDOUT). */
static int rwlock_write(void *lock, uint64_t deadline_ns) {
    ito_rwlock *l = lock;
    struct ito__waiter w;
    if (LIKELY(!rwlock_try_write(l)))
        return 0;
    if (load_relaxed(&l->owner) == ito__me())
        return EDEADLK;
    int r = ito__deadline_check(deadline_ns);
    if (r)
        return r;
    ito__waiter_init(&w);
    uint32_t s = ito__word_lock(&l->state);
    if (!(s & ~WAITERS) && !rwlock_waiters_bit(l)) {
        ito__word_unlock(&l->state, WRITER);
        rwlock_set_owner(l, (uintptr_t)w.thread);
        return 0;
    }
    ito__waiters_push(&l->writers, &w);
    r = ito__wait(&w, &l->state, s | WAITERS, deadline_ns, ITO__WAIT_RWLOCK, l, NULL);
    if (r) /* the writer gave up: readers may have waited only for its turn to pass */
        rwlock_admit(l, ito__word_lock(&l->state) & ~WAITERS, false);
    return r;
}

/* The same as rwlock_try_write, but a queue bit that is set for a moment does not count as busy. */
static int rwlock_try_write_any(void *lock) {
    ito_rwlock *l = lock;
    for (;;) {
        if (!rwlock_try_write(l))
            return 0;
        uint32_t s = load_relaxed(&l->state);
        if (s & ~ITO__QUEUE_BIT)
            return EBUSY;
        if (s & ITO__QUEUE_BIT)
            ito__word_unlock(&l->state, ito__word_lock(&l->state));
    }
}
static const struct ito__lock_call write_call = {rwlock_try_write_any, rwlock_write, rwlock_type,
                                                 KASURI_LOCK_EXCLUSIVE};

int ito_rwlock_wrlock(ito_rwlock *l) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_lock(&write_call, l, ITO_FOREVER, ITO__CALLER);
    return rwlock_write(l, ITO_FOREVER);
}
int ito_rwlock_wrlock_until(ito_rwlock *l, uint64_t deadline_ns) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_lock(&write_call, l, deadline_ns, ITO__CALLER);
    return rwlock_write(l, deadline_ns);
}

int ito_rwlock_trywrlock(ito_rwlock *l) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_try(&write_call, l, ITO__CALLER);
    return rwlock_try_write_any(l);
}

/* -- both -- */

/*
 * The writer leaves by a compare-and-swap that fails when threads wait; then, under the queue bit, all readers enter,
 * or else one writer. A reader leaves by a compare-and-swap too; the last one, if threads wait, lets a writer in.
 *
 * The owner is cleared before the lock is free: afterwards the field may be the next writer's. Readers are counted and
 * not listed, so an unlock by a thread that is not a reader is found (EPERM) only where no thread reads.
 */
static int rwlock_unlock(void *lock) {
    ito_rwlock *l = lock;
    uint32_t s = load_relaxed(&l->state);
    if (s & WRITER) {
        if (load_relaxed(&l->owner) != ito__me())
            return EPERM;
        rwlock_set_owner(l, 0);
        /* ORDER release; pairs with the acquire of the next reader or writer. Publishes the critical section. */
        if (LIKELY(ito__cas_release(&l->state, WRITER, 0)))
            return 0;
        ito__word_lock(&l->state);
        rwlock_admit(l, 0, true);
        return 0;
    }
    for (;;) {
        if (!(s & READERS))
            return EPERM;
        if (s & (WAITERS | ITO__QUEUE_BIT))
            break;
        /* ORDER release; pairs with the acquire in rwlock_try_write(). This reader's loads come before what the next
         * writer stores. */
        if (ito__cas_release(&l->state, s, s - 1))
            return 0;
        s = load_relaxed(&l->state);
    }
    s = ito__word_lock(&l->state) & ~WAITERS;
    if (!(s & READERS)) {
        ito__word_unlock(&l->state, s | rwlock_waiters_bit(l));
        return EPERM;
    }
    rwlock_admit(l, s - 1, false);
    return 0;
}

int ito_rwlock_unlock(ito_rwlock *l) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_unlock(rwlock_unlock, l);
    return rwlock_unlock(l);
}

/* A recorder of locks may know an earlier lock at this address: the next event begins a new life. */
int ito_rwlock_init(ito_rwlock *l) {
    if (ITO__LOCKS_SEEN)
        ito__lock_forget(l);
    *l = (ito_rwlock)ITO_RWLOCK_INIT;
    return 0;
}

/* Frees nothing: it only reports a lock that is held or waited for. */
int ito_rwlock_destroy(ito_rwlock *l) {
    uint32_t s = ito__word_lock(&l->state);
    bool busy = (s & ~WAITERS) || rwlock_waiters_bit(l);
    ito__word_unlock(&l->state, s);
    return busy ? EBUSY : 0;
}
