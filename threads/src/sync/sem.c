/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The semaphore: units in the low bits of one word. Units and waiters are never there together: a post hands its unit
 * to the longest waiter.
 *
 *   state                  meaning                       left by
 *   0                      no unit, no waiter            a post: + 1 (compare-and-swap); a wait, under the queue bit
 *   n (UNITS)              n units                       a wait: - 1, a post: + 1 (compare-and-swap)
 *   WAITERS                no unit, threads wait         a post, under the queue bit
 *   ... | QUEUE_BIT        only its holder writes        its holder, by ito__word_unlock()
 */
#include "core/wait.h"
#include "sync/lock_events.h"

#define WAITERS 0x40000000u
#define UNITS ITO_SEM_MAX

/* Takes a unit; 0, or EBUSY: none. */
static int sem_try(ito_sem *s) {
    for (;;) {
        uint32_t state = load_relaxed(&s->state);
        if (state & ITO__QUEUE_BIT) {
            state = ito__word_lock(&s->state);
            ito__word_unlock(&s->state, state & UNITS ? state - 1 : state);
            return state & UNITS ? 0 : EBUSY;
        }
        if (!(state & UNITS))
            return EBUSY;
        /* ORDER acquire; pairs with the release in ito_sem_post(). Shows what the poster did before it gave the
         * unit. */
        if (ito__cas_acquire(&s->state, state, state - 1))
            return 0;
    }
}

/* Units are looked at again under the queue bit: a post that came before the bit was taken has left its unit in the
 * word, and one that comes later finds the waiter on the queue. */
static int sem_wait(ito_sem *s, uint64_t deadline_ns) {
    struct ito__waiter w;
    if (LIKELY(!sem_try(s)))
        return 0;
    int late = ito__deadline_check(deadline_ns);
    if (late)
        return late;
    ito__waiter_init(&w);
    uint32_t state = ito__word_lock(&s->state);
    if (state & UNITS) {
        ito__word_unlock(&s->state, state - 1);
        return 0;
    }
    ito__waiters_push(&s->waiters, &w);
    return ito__wait(&w, &s->state, WAITERS, deadline_ns, ITO__WAIT_SEMAPHORE, s, NULL);
}

int ito_sem_wait(ito_sem *s) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_sem_wait(sem_try, sem_wait, s, ITO_FOREVER, ITO__CALLER);
    return sem_wait(s, ITO_FOREVER);
}
int ito_sem_wait_until(ito_sem *s, uint64_t deadline_ns) {
    if (ITO__LOCKS_SEEN)
        return ito__seen_sem_wait(sem_try, sem_wait, s, deadline_ns, ITO__CALLER);
    return sem_wait(s, deadline_ns);
}
int ito_sem_trywait(ito_sem *s) {
    return sem_try(s);
}

int ito_sem_post(ito_sem *s) {
    for (;;) {
        uint32_t state = load_relaxed(&s->state);
        if (state & (WAITERS | ITO__QUEUE_BIT))
            break;
        if ((state & UNITS) == UNITS)
            return EOVERFLOW;
        /* ORDER release; pairs with the acquire in sem_try(). Publishes what the caller did. It is the last access to
         * *s, since the thread that takes the unit may end the semaphore. */
        if (ito__cas_release(&s->state, state, state + 1))
            return 0;
    }
    uint32_t state = ito__word_lock(&s->state);
    struct ito__waiter *w = ito__waiters_pop(&s->waiters);
    if (w) {
        ito__word_unlock(&s->state, s->waiters.head ? WAITERS : 0);
        ito__waiter_wake(w, 0);
        return 0;
    }
    /* The last waiter gave up, or another post took it. */
    bool full = (state & UNITS) == UNITS;
    ito__word_unlock(&s->state, (state & UNITS) + !full);
    return full ? EOVERFLOW : 0;
}

uint32_t ito_sem_value(const ito_sem *s) {
    return load_relaxed(&s->state) & UNITS;
}

int ito_sem_init(ito_sem *s, uint32_t value) {
    if (value > ITO_SEM_MAX)
        return EINVAL;
    *s = (ito_sem)ITO_SEM_INIT(value);
    return 0;
}

int ito_sem_destroy(ito_sem *s) {
    uint32_t state = ito__word_lock(&s->state);
    bool busy = s->waiters.head;
    ito__word_unlock(&s->state, state);
    return busy ? EBUSY : 0;
}
