/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every schedule of what threads/src/io/io_wait.c and carrier.c do, in single steps:
 *
 *   wait      a thread that waits for a descriptor, the event, and with `deadline` the timers: it is woken once, after its
 *             context is saved, is not left asleep, and its frame is not touched once it has returned
 *   call      a thread in two calls, one after the other, and two spare carriers that were offered the worker, one of
 *             them late: one carrier has the worker, and one at a time writes the thread's descriptor
 *
 *   model_io wait|deadline|call [CONTROL]     a broken step, which must be found: the exit status is 1
 *
 * Steps follow each other in sequence. The words are changed by atomic operations and by the holders of their bits, so
 * there is nothing else to reorder; the watcher's sleep, which needs fences, is not in here.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACTORS = 3, FREE = 0xff, STATES_MAX = 1 << 16 };

/* wait: the bits are held by an actor or FREE. call: lent is turn * 4 + state. */
struct state {
    uint8_t step[ACTORS], own[ACTORS];
    uint8_t fd_bit, wait_bit, timers_bit;
    uint8_t listed, registered, fired, queued, armed, saved, woken, gone;
    uint8_t lent, worker, writing;
};

static const char *control = "";
static bool with_deadline;
static bool is(const char *name) {
    return !strcmp(control, name);
}
static void fail(const char *what) {
    printf("%s%s%s\n", what, *control ? ": control " : "", control);
    exit(1);
}

static bool take(uint8_t *bit, uint8_t i) {
    if (*bit != FREE)
        return false;
    *bit = i;
    return true;
}

/* ---- a wait ------------------------------------------------------------------------------------------------------ */

enum { WAITER, EVENT, TIMERS };

/* An access to the wait, which lies in the waiter's frame. */
static void touch(const struct state *s) {
    if (s->gone)
        fail("touched after its frame was gone");
}
static void wake(struct state *s) {
    if (!s->saved)
        fail("woken before its context was saved");
    if (s->woken)
        fail("woken twice");
    s->woken = 1;
}

enum { W_LIST, W_REGISTER, W_LOOK, W_QUEUE, W_SAVE, W_RELEASE, W_ASLEEP, W_DELIST, W_RETURN, W_END };

/* enlist(), ito__io_await(), wait_release(), delist(). */
static bool waiter(struct state *s) {
    switch (s->step[WAITER]) {
    case W_LIST:
        if (!take(&s->fd_bit, WAITER))
            return false;
        s->listed = 1;
        break;
    case W_REGISTER:
        s->registered = 1;
        s->fd_bit = FREE;
        break;
    case W_LOOK:
        if (!take(&s->wait_bit, WAITER))
            return false;
        if (s->fired && !is("fired_not_seen")) {
            s->wait_bit = FREE;
            s->step[WAITER] = W_DELIST;
            return true;
        }
        break;
    case W_QUEUE:
        s->queued = 1;
        s->armed = with_deadline;
        if (is("release_before_saved"))
            s->wait_bit = FREE;
        break;
    case W_SAVE:
        s->saved = 1;
        break;
    case W_RELEASE:
        if (!is("release_before_saved"))
            s->wait_bit = FREE;
        break;
    case W_ASLEEP:
        if (!s->woken)
            return false;
        break;
    case W_DELIST:
        if (is("return_without_bit"))
            break;
        if (s->fd_bit != FREE)
            return false;
        s->listed = 0;
        break;
    case W_RETURN:
        s->gone = 1;
        break;
    default:
        return false;
    }
    s->step[WAITER]++;
    return true;
}

enum { E_BIT, E_NODE, E_WAIT_BIT, E_FIRE, E_DISARM, E_WAIT_FREE, E_FREE, E_WAKE, E_END };

/* one_event(), fire(), and making ready whom it took off the queue. */
static bool event(struct state *s) {
    switch (s->step[EVENT]) {
    case E_BIT:
        if (!s->registered || !take(&s->fd_bit, EVENT))
            return false;
        break;
    case E_NODE:
        if (!s->listed) {
            s->step[EVENT] = E_FREE;
            return true;
        }
        touch(s);
        s->listed = 0;
        if (is("bit_given_back_early"))
            s->fd_bit = FREE;
        break;
    case E_WAIT_BIT:
        touch(s);
        if (!take(&s->wait_bit, EVENT))
            return false;
        break;
    case E_FIRE:
        touch(s);
        s->fired = 1;
        s->own[EVENT] = s->queued;
        s->queued = 0;
        break;
    case E_DISARM: /* takes the timers' lock */
        if (s->own[EVENT] && s->armed) {
            if (s->timers_bit != FREE)
                return false;
            s->armed = is("not_disarmed");
        }
        break;
    case E_WAIT_FREE:
        touch(s);
        s->wait_bit = FREE;
        break;
    case E_FREE:
        if (s->fd_bit == EVENT)
            s->fd_bit = FREE;
        break;
    case E_WAKE:
        if (s->own[EVENT])
            wake(s);
        break;
    default:
        return false;
    }
    s->step[EVENT]++;
    return true;
}

enum { T_LOCK, T_TRY, T_REMOVE, T_FREE, T_WAKE, T_END };

/* timers_due(), timers_main(). */
static bool timers(struct state *s) {
    switch (s->step[TIMERS]) {
    case T_LOCK:
        if (!s->armed || !take(&s->timers_bit, TIMERS))
            return false;
        break;
    case T_TRY:
        if (!s->armed || s->wait_bit != FREE) { /* looks again later */
            if (is("timers_wait_for_the_bit") && s->armed)
                return false;
            s->timers_bit = FREE;
            s->step[TIMERS] = T_LOCK;
            return true;
        }
        touch(s);
        s->wait_bit = TIMERS;
        break;
    case T_REMOVE:
        touch(s);
        s->armed = 0;
        s->queued = 0;
        break;
    case T_FREE:
        touch(s);
        s->wait_bit = FREE;
        s->timers_bit = FREE;
        break;
    case T_WAKE:
        wake(s);
        break;
    default:
        return false;
    }
    s->step[TIMERS]++;
    return true;
}

static bool wait_step(struct state *s, int i) {
    return i == WAITER ? waiter(s) : i == EVENT ? event(s) : timers(s);
}
static void wait_ended(const struct state *s) {
    if (s->step[WAITER] != W_END)
        fail(s->step[WAITER] == W_ASLEEP && s->wait_bit == FREE ? "left asleep" : "stuck");
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

enum { HOME, CALL, ADOPTED };
enum { C_BEGIN, C_END, C_GO_ON, C_WAIT, C_WRITE, C_WRITTEN, C_DONE };
enum { S_ADOPT, S_WRITE, S_WRITTEN, S_RUN, S_DONE };

static void begin_writing(struct state *s) {
    if (s->writing)
        fail("two write the thread's descriptor");
    s->writing = 1;
}

/* ito_blocking_begin(), ito_blocking_end(). own: the turn. */
static bool caller(struct state *s) {
    uint8_t call = (uint8_t)(s->own[0] * 4 + CALL), *step = &s->step[0];
    switch (*step) {
    case C_BEGIN:
        s->lent = call;
        *step = C_END;
        break;
    case C_END:
        if (s->lent != call && !is("end_without_looking")) {
            *step = C_WAIT;
            break;
        }
        s->lent = (uint8_t)(call - CALL + 4);
        *step = C_GO_ON;
        break;
    case C_GO_ON:
        if (s->worker != 0)
            fail("two carriers have the worker");
        s->own[0]++;
        *step = s->own[0] == 2 ? C_DONE : C_BEGIN;
        break;
    case C_WAIT:
        if (s->lent == call - CALL + ADOPTED && !is("does_not_wait"))
            return false;
        *step = C_WRITE;
        break;
    case C_WRITE:
        begin_writing(s);
        *step = C_WRITTEN;
        break;
    case C_WRITTEN:
        s->writing = 0;
        *step = C_DONE;
        break;
    default:
        return false;
    }
    return true;
}

/* adopt() with the turn that it was offered: 0 or 1. */
static bool spare(struct state *s, int i) {
    uint8_t turn = (uint8_t)(i - 1);
    switch (s->step[i]) {
    case S_ADOPT:
        if (s->step[0] == C_BEGIN && s->own[0] <= turn)
            return false;                 /* it was not offered yet */
        if (s->lent != turn * 4 + CALL) { /* the turn keeps it from a later call that it was not offered */
            s->step[i] = S_DONE;
            return true;
        }
        if (s->worker != 0)
            fail("two carriers have the worker");
        s->lent = (uint8_t)(s->lent / 4 * 4 + ADOPTED);
        s->worker = (uint8_t)i;
        break;
    case S_WRITE:
        begin_writing(s);
        break;
    case S_WRITTEN:
        s->writing = 0;
        break;
    case S_RUN:
        s->lent = (uint8_t)(turn * 4 + 4);
        break;
    default:
        return false;
    }
    s->step[i]++;
    return true;
}

static bool call_step(struct state *s, int i) {
    return i == 0 ? caller(s) : spare(s, i);
}
static void call_ended(const struct state *s) {
    if (s->step[0] != C_DONE)
        fail("stuck");
}

/* ---- all schedules ----------------------------------------------------------------------------------------------- */

static struct state found[STATES_MAX];
static unsigned n_found;

static void add(const struct state *s) {
    for (unsigned i = 0; i < n_found; i++)
        if (!memcmp(&found[i], s, sizeof *s))
            return;
    if (n_found == STATES_MAX)
        fail("too many states");
    found[n_found++] = *s;
}

int main(int argc, char **argv) {
    bool call = argc > 1 && !strcmp(argv[1], "call");
    with_deadline = argc > 1 && !strcmp(argv[1], "deadline");
    if (argc < 2 || !(call || with_deadline || !strcmp(argv[1], "wait"))) {
        fprintf(stderr, "usage: model_io wait|deadline|call [CONTROL]\n");
        return 2;
    }
    control = argc > 2 ? argv[2] : "";
    struct state first;
    memset(&first, 0, sizeof first);
    first.fd_bit = first.wait_bit = first.timers_bit = FREE;
    add(&first);
    for (unsigned at = 0; at < n_found; at++) {
        bool moved = false;
        for (int i = 0; i < ACTORS; i++) {
            struct state s = found[at];
            if (call ? call_step(&s, i) : wait_step(&s, i)) {
                moved = true;
                add(&s);
            }
        }
        if (!moved)
            call ? call_ended(&found[at]) : wait_ended(&found[at]);
    }
    printf("%s: %u states\n", argv[1], n_found);
    return 0;
}
