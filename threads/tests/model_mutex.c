/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every schedule of three threads that lock and unlock a mutex twice, in the steps of threads/src/sync/mutex.c and wait.c.
 * At most one thread is in the critical section, none is woken before its context is saved, none is left asleep.
 *
 * Steps are single accesses to the one word, in sequence: that word is only changed by atomic operations and by the
 * holder of its queue bit, so there is nothing else to reorder. explore/ runs the C itself, with two threads; there a
 * context is never saved, since a thread that waits sleeps in the kernel.
 *
 *   model_mutex [CONTROL]   a broken step, which must be found: the exit status is 1
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, ROUNDS = 2 };
enum { LOCKED = 1, WAITERS = 2, QUEUE = 4 };
enum step { FAST, TAKE_BIT, CHECK, SAVE, RELEASE, ASLEEP, INSIDE, UNLOCK, UNLOCK_BIT, POP, STORE, WAKE, END };

struct thread {
    uint8_t step, round, again, saved, woken, granted, next, hand_over, late;
};
struct state {
    uint8_t word, n_queue, queue[THREADS];
    struct thread t[THREADS];
};

static const char *control = "";
static bool is(const char *name) {
    return !strcmp(control, name);
}

static void fail(const char *what) {
    printf("%s%s%s\n", what, *control ? ": control " : "", control);
    exit(1);
}

static void push(struct state *s, uint8_t me, bool front) {
    if (front) {
        memmove(s->queue + 1, s->queue, s->n_queue);
        s->queue[0] = me;
    } else {
        s->queue[s->n_queue] = me;
    }
    s->n_queue++;
}

static void inside(struct state *s) {
    int n = 0;
    for (int i = 0; i < THREADS; i++)
        n += s->t[i].step == INSIDE;
    if (n > 1)
        fail("two in the critical section");
}

/* From the fast path to the critical section: mutex_take(), mutex_lock_slow(). */
static bool step_to_lock(struct state *s, uint8_t i) {
    struct thread *t = &s->t[i];
    switch (t->step) {
    case FAST:
        t->step = s->word == 0 ? INSIDE : TAKE_BIT;
        t->late = is("check_without_bit") && s->word & LOCKED; /* decided before it has the bit */
        if (s->word == 0)
            s->word = LOCKED;
        break;
    case TAKE_BIT:
        if (s->word & QUEUE)
            return false;
        s->word |= QUEUE;
        t->step = CHECK;
        break;
    case CHECK:
        if (!(s->word & LOCKED) && !t->late) {
            s->word = (uint8_t)((s->word | LOCKED) & ~QUEUE);
            t->step = INSIDE;
        } else {
            push(s, i, t->again);
            t->step = is("release_before_saved") ? RELEASE : SAVE;
        }
        break;
    case SAVE:
        t->saved = 1;
        t->step = is("release_before_saved") ? ASLEEP : RELEASE;
        break;
    case RELEASE:
        s->word = is("no_waiters_flag") ? LOCKED : LOCKED | WAITERS;
        t->step = is("release_before_saved") ? SAVE : ASLEEP;
        break;
    case ASLEEP:
        if (!t->woken)
            return false;
        t->step = t->granted ? INSIDE : TAKE_BIT;
        t->again = 1;
        t->woken = t->saved = t->granted = t->late = 0;
        break;
    default:
        return false;
    }
    return true;
}

/* From the critical section to the next round: mutex_give(), mutex_unlock_slow(). */
static bool step_to_unlock(struct state *s, uint8_t i) {
    struct thread *t = &s->t[i];
    switch (t->step) {
    case INSIDE:
        t->step = UNLOCK;
        t->again = 0;
        break;
    case UNLOCK:
        t->step = s->word == LOCKED ? FAST : UNLOCK_BIT;
        if (s->word == LOCKED)
            s->word = 0;
        break;
    case UNLOCK_BIT:
        if (s->word & QUEUE)
            return false;
        s->word |= QUEUE;
        t->step = POP;
        break;
    case POP:
        t->next = THREADS;
        if (s->n_queue) {
            t->next = s->queue[0];
            memmove(s->queue, s->queue + 1, --s->n_queue);
            s->queue[s->n_queue] = 0;
        }
        t->hand_over = t->next < THREADS && s->t[t->next].again;
        t->step = STORE;
        break;
    case STORE:
        s->word = (uint8_t)((t->hand_over && !is("hand_over_unlocked") ? LOCKED : 0) | (s->n_queue ? WAITERS : 0));
        t->step = t->next < THREADS && !is("no_wake") ? WAKE : FAST;
        break;
    case WAKE:
        if (!s->t[t->next].saved)
            fail("woken before its context was saved");
        s->t[t->next].woken = 1;
        s->t[t->next].granted = t->hand_over;
        t->step = FAST;
        break;
    default:
        return false;
    }
    return true;
}

/* One step of thread i; false: it cannot go on now. */
static bool step(struct state *s, uint8_t i) {
    struct thread *t = &s->t[i];
    if (!(t->step < INSIDE ? step_to_lock(s, i) : step_to_unlock(s, i)))
        return false;
    if (t->step == FAST) {
        t->next = t->hand_over = 0;
        if (++t->round == ROUNDS)
            t->step = END;
    }
    inside(s);
    return true;
}

/* -- all states -- */

#define SLOTS (1u << 22)
static struct state *seen, *todo;
static uint8_t *used;
static size_t n_todo, n_seen;

static void visit(const struct state *s) {
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ ((const uint8_t *)s)[i]) * 1099511628211u;
    size_t at = hash % SLOTS;
    for (; used[at]; at = (at + 1) % SLOTS)
        if (!memcmp(&seen[at], s, sizeof *s))
            return;
    if (++n_seen > SLOTS / 2)
        fail("too many states");
    used[at] = 1;
    seen[at] = todo[n_todo++] = *s;
}

int main(int argc, char **argv) {
    control = argc > 1 ? argv[1] : "";
    seen = calloc(SLOTS, sizeof *seen);
    todo = calloc(SLOTS, sizeof *todo);
    used = calloc(SLOTS, 1);
    if (!seen || !todo || !used)
        return 2;
    struct state first;
    memset(&first, 0, sizeof first);
    visit(&first);
    size_t ends = 0, hand_overs = 0;
    while (n_todo) {
        struct state s = todo[--n_todo];
        bool moved = false, all = true;
        for (uint8_t i = 0; i < THREADS; i++) {
            struct state next = s;
            all &= s.t[i].step == END;
            hand_overs += s.t[i].step == STORE && s.t[i].hand_over;
            if (step(&next, i)) {
                moved = true;
                visit(&next);
            }
        }
        if (!moved && !all)
            fail("somebody sleeps for ever");
        ends += all;
    }
    if (!ends || !hand_overs)
        fail("the model does not reach what it is for");
    printf("%zu states, all end well\n", n_seen);
    return 0;
}
