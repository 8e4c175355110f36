/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The bare hand-over: one word, and no queue bit, as there is no queue.
 *
 *   from                 event                               to                   by
 *   0                    a signal                            SIGNALLED            compare-and-swap of the signaller
 *   0                    a thread waits, its context saved   its address          compare-and-swap of the waiter
 *   SIGNALLED            a wait                              0                    compare-and-swap of the waiter
 *   the address          a signal                            0                    compare-and-swap of the signaller, which
 *                                                                                 then makes the thread ready
 */
#include "core/wait.h"

#define SIGNALLED 1u

static bool change(ito_uncond *u, uintptr_t from, uintptr_t to) {
    /* ORDER acq_rel; pairs with itself: of a signal and a wait, whichever comes second sees the first. The release
     * publishes what the signaller did, or the context of the waiter; the acquire shows it. */
    return cas_acq_rel(&u->state, &from, to);
}

struct uncond_wait {
    ito_uncond *u;
    ito_thread *me;
    int result;
};

/* Runs when the context of the waiter is saved. Without a change of the word the waiter goes on at once. */
static void uncond_register(void *arg) {
    struct uncond_wait *w = arg;
    for (;;) {
        uintptr_t state = load_relaxed(&w->u->state);
        if (state == 0 && change(w->u, 0, (uintptr_t)w->me))
            return;
        if (state == SIGNALLED && change(w->u, SIGNALLED, 0))
            break;
        if (state > SIGNALLED) {
            w->result = EBUSY;
            break;
        }
    }
    ito__ready(w->me);
}

int ito_uncond_wait(ito_uncond *u) {
    if (load_relaxed(&u->state) == SIGNALLED && change(u, SIGNALLED, 0))
        return 0;
    struct uncond_wait w = {u, ito__self(), 0};
    ito__set_wait(w.me, ITO__WAIT_UNCOND, u);
    ito__block(uncond_register, &w);
    ito__set_wait(w.me, ITO__WAIT_NONE, NULL);
    return w.result;
}

/* Gives the signal. Return: 0, with the thread to be made ready, or null; EALREADY. */
static int give(ito_uncond *u, ito_thread **waiter) {
    for (;;) {
        uintptr_t state = load_relaxed(&u->state);
        *waiter = NULL;
        if (state == SIGNALLED)
            return EALREADY;
        if (state == 0 && change(u, 0, SIGNALLED))
            return 0;
        if (state > SIGNALLED && change(u, state, 0)) {
            *waiter = (ito_thread *)state;
            return 0;
        }
    }
}

int ito_uncond_signal(ito_uncond *u) {
    ito_thread *waiter;
    int r = give(u, &waiter);
    if (waiter)
        ito__ready(waiter);
    return r;
}

int ito_uncond_pass(ito_uncond *to, ito_uncond *mine) {
    ito_thread *waiter;
    if (load_relaxed(&mine->state) > SIGNALLED)
        return EBUSY;
    int r = give(to, &waiter);
    if (r)
        return r;
    if (!waiter)
        return ito_uncond_wait(mine);
    struct uncond_wait w = {mine, ito__self(), 0};
    ito__set_wait(w.me, ITO__WAIT_UNCOND, mine);
    ito__block_to(waiter, uncond_register, &w);
    ito__set_wait(w.me, ITO__WAIT_NONE, NULL);
    return w.result;
}
