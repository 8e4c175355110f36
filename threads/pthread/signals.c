/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals of light threads. The workers block all: a handler must not run in the middle of ito, on the stack of whatever
 * thread is there. So the kernel gives the process's signals to main and the program's other kernel threads.
 *
 * A light thread's mask is what it last said, and what its creator had; it is told so, and kernel threads that it
 * creates have it. What it unblocks and every kernel thread of the program blocks is taken by a kernel thread of this
 * library, `ito signals`: it has unblocked what some light thread has, and runs handlers for them. It is there from the
 * first time that a kernel thread blocks a signal, or main ends; the kernel asks main first.
 *
 *   field      writer                                 reader
 *   mask, n    holder of `lock`; n is published       any: what lies below n does not change
 *   count      any, read-modify-write                 the signal thread: light threads with that mask
 *   started    any, read-modify-write                 any
 *   turn       whoever changed a count to or from 0   the signal thread; the futex that it sleeps on
 *   applied    the signal thread                      who waits for it: the turn that its own mask is of
 */
#include "light.h"

#include <sys/prctl.h>
#include <unistd.h>

#define MASKS 64u /* that differ, in the life of the process; threads with further ones count as blocking all */

static struct {
    uint64_t mask[MASKS];
    uint32_t count[MASKS];
    uint32_t n, started, turn, applied;
    struct ito__spin lock;
} taken;

/* Signals 1 to 64, as the kernel has them. */
static uint64_t bits(const sigset_t *set) {
    uint64_t b;
    memcpy(&b, set, sizeof b);
    return b;
}

static void *signal_main(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "ito signals");
    for (;;) {
        sigset_t blocked;
        uint64_t all = UINT64_MAX;
        /* ORDER acquire; pairs with the read-modify-write in count_changed(). Shows the counts that it tells of. */
        uint32_t turn = load_acquire(&taken.turn), n = load_acquire(&taken.n);
        for (uint32_t i = 0; i < n; i++)
            if (load_relaxed(&taken.count[i]) != 0)
                all &= taken.mask[i];
        sigfillset(&blocked);
        memcpy(&blocked, &all, sizeof all);
        REAL(pthread_sigmask)(SIG_SETMASK, &blocked, NULL); /* handlers of what waits run here */
        /* ORDER release; pairs with the acquire load in mask(): those handlers have run. */
        store_release(&taken.applied, turn);
        ito__prim_wait(&taken.turn, turn, UINT64_MAX);
    }
    return NULL;
}

void signals_start(void) {
    sigset_t all, old;
    pthread_t id;
    if (LIKELY(load_relaxed(&taken.started)) || !light_works())
        return;
    sigfillset(&all);
    REAL(pthread_sigmask)(SIG_SETMASK, &all, &old); /* a handler may come here too: no lock */
    if (__atomic_exchange_n(&taken.started, 1, __ATOMIC_RELAXED) == 0) {
        /* ORDER seq_cst; pairs with the fence in count_changed(): either the new thread sees a count, or who changed it
         * sees `started`. */
        fence_seq_cst();
        if (REAL(pthread_create)(&id, NULL, signal_main, NULL) == 0)
            REAL(pthread_detach)(id);
        else
            store_relaxed(&taken.started, 0); /* tried again at the next occasion */
    }
    REAL(pthread_sigmask)(SIG_SETMASK, &old, NULL);
}

void signals_forget(void) {
    memset(&taken, 0, sizeof taken);
}

/* Where the threads with one mask are the first or the last. Returns the turn that tells of it. */
static uint32_t count_changed(void) {
    /* ORDER seq_cst; pairs with the fence in signals_start(). */
    fence_seq_cst();
    if (!load_relaxed(&taken.started))
        return load_relaxed(&taken.applied);
    /* ORDER acq_rel; pairs with the acquire load in signal_main(). Publishes the count. */
    uint32_t turn = add_acq_rel(&taken.turn, 1) + 1;
    ito__prim_wake(&taken.turn, 1);
    return turn;
}

/* The number of a mask, a new one where none is like it. */
static uint32_t mask_number(uint64_t mask) {
    /* ORDER acquire; pairs with the release store below. Shows the masks below n. */
    uint32_t i = 0, n = load_acquire(&taken.n);
    while (i < n && taken.mask[i] != mask)
        i++;
    if (i < n)
        return i;
    ito__spin_lock(&taken.lock);
    for (n = taken.n; i < n && taken.mask[i] != mask;)
        i++;
    if (i == n && n == MASKS) {
        i = MASKS - 1;
    } else if (i == n) {
        taken.mask[n] = n == MASKS - 1 ? UINT64_MAX : mask;
        /* ORDER release; pairs with the acquire loads above and in signal_main(). Publishes the mask. */
        store_release(&taken.n, n + 1);
    }
    ito__spin_unlock(&taken.lock);
    return i;
}

void signals_thread_begins(struct light *l) {
    l->mask_number = mask_number(bits(&l->mask));
    if (__atomic_fetch_add(&taken.count[l->mask_number], 1, __ATOMIC_RELAXED) == 0)
        count_changed();
}

void signals_thread_ends(const struct light *l) {
    if (__atomic_fetch_sub(&taken.count[l->mask_number], 1, __ATOMIC_RELAXED) == 1)
        count_changed();
}

/* The mask has changed. Returns when the signal thread knows, and so has run handlers of signals that waited for that;
 * but not where one of those waits itself. */
static void tell(void) {
    uint32_t was = light_self.mask_number, turn;
    uint32_t number = mask_number(bits(&light_self.mask));
    if (number == was)
        return;
    light_self.mask_number = number;
    __atomic_fetch_add(&taken.count[number], 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&taken.count[was], 1, __ATOMIC_RELAXED);
    turn = count_changed();
    uint64_t deadline_ns = ito_now_ns() + 10000000;
    /* ORDER acquire; pairs with the release store in signal_main(). */
    for (unsigned i = 0; (int32_t)(load_acquire(&taken.applied) - turn) < 0; i++)
        if (!light_pause(i, deadline_ns))
            return;
}

static int mask(int how, const sigset_t *set, sigset_t *old) {
    sigset_t *now = &light_self.mask, was = *now;
    if (set && how == SIG_BLOCK)
        sigorset(now, &was, set);
    else if (set && how == SIG_SETMASK)
        *now = *set;
    else if (set && how == SIG_UNBLOCK)
        for (int s = 1; s < NSIG; s++)
            sigismember(set, s) == 1 ? sigdelset(now, s) : 0;
    else if (set)
        return EINVAL;
    if (old)
        *old = was;
    if (set)
        tell();
    return 0;
}

/* A kernel thread has changed its own. */
static void kernel_blocks(const sigset_t *set, int how) {
    if (set && how != SIG_UNBLOCK && bits(set) != 0)
        signals_start();
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    if (!light_here()) {
        kernel_blocks(set, how);
        return REAL(pthread_sigmask)(how, set, old);
    }
    return mask(how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    if (!light_here()) {
        kernel_blocks(set, how);
        return REAL(sigprocmask)(how, set, old);
    }
    int r = mask(how, set, old);
    if (r)
        errno = r;
    return r ? -1 : 0;
}

/* Of a light thread: to the process, whose kernel threads take it. 0 asks whether the thread is there. */
EXPORT int pthread_kill(pthread_t id, int signal) {
    struct light *l = light_of(id);
    if (l->kind != LIGHT_THREAD)
        return REAL(pthread_kill)(id, signal);
    if (signal < 0 || signal >= NSIG)
        return EINVAL;
    if (signal == 0 || load_relaxed(&l->word) & LIGHT_ENDED)
        return 0;
    return kill(getpid(), signal) ? errno : 0;
}
