/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All threads wait, and nothing is left that could wake one: each is told with what it waits for. Without it such a
 * program hangs without a word and without using a CPU.
 *
 * The last worker to park looks, after a second and then ever more seldom (park.c): a program that stalls when a thread
 * of its own ends, which ito does not hear of, is seen later. It looks while all workers are in the list of parked
 * ones, itself too; then nothing changes that is not said here.
 *
 * There is no false alarm: whatever could wake a thread, now or later, keeps this quiet. That is
 *   - a deadline, or the timers' thread on its way to somebody
 *   - a thread that waits for I/O or in a call (ito/io.h)
 *   - a kernel thread that is neither a worker nor one of ito's own (timers, watcher, spares) nor asleep in a wait of
 *     ito's: it may do anything
 *   - a handler of a signal, but for those of faults
 * So a program with a thread of its own that sleeps for ever elsewhere is not told. Other processes cannot wake a
 * thread of ito.
 */
#include "seen/seen.h"

#include "base/say.h"
#include "base/symbol.h"
#include "core/internal.h"
#include "core/wait.h"

#include <stdlib.h>

#define MOST_TOLD 64u

static bool anything_is_left(void) {
    if (load_relaxed(&ito__pool.n_searching) > 0 || load_relaxed(&ito__pool.n_outside) > 0 ||
        load_relaxed(&ito__pool.inject.n) > 0 || load_relaxed(&ito__pool.stopping) ||
        load_relaxed(&ito__pool.io_waiting) > 0 || ito__calls_out() > 0)
        return true;
    for (uint32_t i = 0; i < ito__pool.n_workers; i++) {
        struct worker *v = &ito__pool.workers[i];
        if (ito__deque_looks_full(v) || ready_waits(v) || load_relaxed(&v->shared.n) > 0 ||
            load_relaxed(&v->inbox.n) > 0)
            return true;
    }
    return false;
}

/* The lock of the list is held: no worker leaves it meanwhile. A kernel thread that is woken is not counted from before
 * its wake-up on (ito__ready), so the numbers agree only if all of them sleep. */
static bool all_sleep(void) {
    unsigned timers;
    return ito__pool.n_parked == ito__pool.n_workers && !anything_is_left() && ito__timers_quiet(&timers) &&
           !ito__prim_handles_signals() &&
           ito__prim_n_kernel_threads() ==
               ito__pool.n_workers + timers + ito__watch_threads() + load_relaxed(&ito__n_foreign_waits);
}

static void add_object(struct ito__text *t, const struct ito_thread *thread) {
    char name[128];
    ito__text_hex(t, (uintptr_t)thread->wait_on);
    ito__symbol(thread->wait_on, name, sizeof name, NULL, 0);
    if (name[0]) {
        ito__text_add(t, " ");
        ito__text_add(t, name);
    }
}

static void add_owner(struct ito__text *t, uintptr_t owner) {
    if (owner == 0)
        return;
    ito__text_add(t, ", held by ");
    if (owner == (uintptr_t)&ito__pool.root || ito__descriptor_is_one((const void *)owner))
        ito__text_thread(t, (const struct ito_thread *)owner);
    else
        ito__text_hex(t, owner); /* a kernel thread, which may be gone */
}

static void tell(const struct ito_thread *thread, void *arg) {
    unsigned *n = arg;
    uintptr_t state = load_relaxed(&thread->state);
    bool ended = state == ITO__DONE || state == ITO__ENDED;
    if ((thread->wait_kind == ITO__WAIT_NONE && !ended) || ++*n > MOST_TOLD)
        return;
    struct ito__text t = {.n = 0};
    ito__text_add(&t, "ito:   ");
    ito__text_thread(&t, thread);
    if (ended) {
        ito__text_add(&t, " has ended, and was not joined");
        ito__text_write(&t);
        return;
    }
    if (thread->wait_kind == ITO__WAIT_JOIN) {
        ito__text_add(&t, " joins ");
        ito__text_thread(&t, thread->wait_on);
    } else {
        ito__text_add(&t, " waits: ");
        ito__text_add(&t, ito__wait_word(thread->wait_kind));
        ito__text_add(&t, " ");
        add_object(&t, thread);
    }
    /* A mutex of the normal kind has no owner. */
    if (thread->wait_kind == ITO__WAIT_MUTEX)
        add_owner(&t, load_relaxed(&((const ito_mutex *)thread->wait_on)->owner));
    else if (thread->wait_kind == ITO__WAIT_RWLOCK)
        add_owner(&t, load_relaxed(&((const ito_rwlock *)thread->wait_on)->owner));
    else if (thread->wait_kind == ITO__WAIT_ONCE)
        add_owner(&t, load_relaxed(&((const ito_once *)thread->wait_on)->owner));
    ito__text_write(&t);
}

static void tell_rest(unsigned n, const char *what) {
    struct ito__text t = {.n = 0};
    if (n == 0)
        return;
    ito__text_add(&t, "ito:   and ");
    ito__text_number(&t, n);
    ito__text_add(&t, what);
    ito__text_write(&t);
}

void ito__fini_failed(int error) {
    unsigned n = 0;
    if (error == EPERM && ito__pool.n_workers == 0)
        return; /* in the child of a fork there is nothing to stop */
    if (error != EBUSY)
        ito__fatal("ito::runtime destroyed by another thread than the one that made it", ito__self());
    struct ito__text t = {.n = 0};
    ito__text_add(&t, "ito: error: ito::runtime destroyed while there are threads:");
    ito__text_write(&t);
    ito__descriptor_each(tell, &n);
    tell_rest(n > MOST_TOLD ? n - MOST_TOLD : 0, " more");
    abort();
}

void ito__stall_look(void) {
    ito__spin_lock(&ito__pool.park_lock);
    bool stalled = !ito__pool.stall_told && all_sleep();
    if (stalled)
        ito__pool.stall_told = true;
    ito__spin_unlock(&ito__pool.park_lock);
    if (!stalled)
        return;
    struct ito__text t = {.n = 0};
    unsigned n = 0;
    ito__text_add(&t, "ito: error: all threads wait, and nothing in this process can wake one:");
    ito__text_write(&t);
    tell(&ito__pool.root, &n);
    ito__descriptor_each(tell, &n);
    tell_rest(n > MOST_TOLD ? n - MOST_TOLD : 0, " more");
    tell_rest(load_relaxed(&ito__n_foreign_waits), " kernel threads that are no workers");
    if (ito__pool.stall == ITO__STALL_ABORT)
        abort();
}
