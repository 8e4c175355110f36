/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The watcher: one kernel thread that looks after what nobody else can, from the first call or wait for I/O until the
 * pool stops.
 *
 *   - a call that was there at its last look: its worker is offered to a spare carrier
 *   - threads wait for I/O, and no worker has looked for a while (all compute): one that is parked is woken for it, or
 *     the watcher looks itself
 *
 * It looks after 50 us, then after twice as long each time, up to 5 ms; when there was nothing to do for a while it
 * sleeps for longer, or until a call begins (ito__watch_look).
 *
 *   field     writer                                    reader
 *   slow      the watcher; any: AWAKE                   any: it sleeps for long, and has to be woken
 *   turn      whoever wakes it, read-modify-write       the futex it sleeps on
 *   stop      ito__watch_stop                           the watcher
 *   started   holder of start_lock                      any (acquire)
 */
#define _GNU_SOURCE
#include "core/carrier.h"
#include "core/internal.h"

#include <signal.h>

#define FIRST_NS 50000u
#define LAST_NS 5000000u
#define AGAIN_NS 1000000u     /* after a sleep that no call has ended */
#define SLOW_NS 10000000u     /* where threads wait for I/O */
#define SLEPT_ON_NS 50000000u /* the same, and a parked worker sleeps until it comes */
#define QUIET_LOOKS 8u

enum { AWAKE, UNTIL_A_CALL, UNTIL_ANYTHING };

static struct {
    uint32_t slow, turn, stop, started;
    pthread_t thread;
} watch;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* Looks at every worker. *calls: a call is in progress. Returns whether a worker was offered. */
static bool look_at_calls(bool *calls) {
    bool offered = false;
    for (uint32_t i = 0; i < ito__pool.n_workers; i++) {
        struct worker *w = &ito__pool.workers[i];
        /* Relaxed: the carrier that takes the worker reads it anew, with a compare-and-swap. */
        uint32_t lent = load_relaxed(&w->lent);
        if (lent % ITO__LENT_STATES != ITO__LENT_CALL)
            continue;
        *calls = true;
        if (lent != w->seen)
            w->seen = lent;
        else if (lent != w->offered && !load_relaxed(&w->has_bound)) {
            bool made = false;
            if (ito__carrier_offer(w, lent, &made))
                w->offered = lent, made = true;
            offered |= made;
        }
    }
    return offered;
}

static bool is_call(void) {
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        if (load_relaxed(&ito__pool.workers[i].lent) % ITO__LENT_STATES == ITO__LENT_CALL)
            return true;
    return false;
}

static bool is_needed(void) {
    return is_call() || ito__look_is_needed();
}

static void *watch_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "ito watch");
    uint64_t ns = FIRST_NS;
    /* ORDER acquire, of `stop`; pairs with the release store in ito__watch_stop(). */
    for (unsigned quiet = 0; !load_acquire(&watch.stop);) {
        bool calls = false, running = false;
        uint32_t turn = load_relaxed(&watch.turn);
        ito__told_look();
        bool busy = look_at_calls(&calls);
        busy |= ito__look_at_workers(&running);
        busy |= ito__above->io_rescue();
        quiet = calls || running || busy ? 0 : quiet + 1;
        if (busy)
            ns = FIRST_NS;
        else if (ns < LAST_NS)
            ns *= 2;
        if (quiet < QUIET_LOOKS) {
            ito__prim_wait(&watch.turn, turn, ns);
            continue;
        }
        bool io = load_relaxed(&ito__pool.io_waiting) > 0;
        store_relaxed(&watch.slow, io ? UNTIL_A_CALL : UNTIL_ANYTHING);
        /* ORDER seq_cst; pairs with the fence in ito__watch_look(). Puts `slow` before the last look: either that look
         * sees the call or the wait, or whoever began it sees `slow`. */
        fence_seq_cst();
        bool late = is_needed() || (!io && load_relaxed(&ito__pool.io_waiting) > 0);
        if (!late)
            ito__prim_wait(&watch.turn, turn, !io ? UINT64_MAX : ito__above->io_is_slept_on() ? SLEPT_ON_NS : SLOW_NS);
        if (late || load_relaxed(&watch.slow) == AWAKE) {
            quiet = 0;
            ns = is_call() ? FIRST_NS : AGAIN_NS;
        }
        store_relaxed(&watch.slow, AWAKE);
    }
    return NULL;
}

static void wake(void) {
    store_relaxed(&watch.slow, AWAKE);
    __atomic_fetch_add(&watch.turn, 1, __ATOMIC_RELAXED);
    ito__prim_wake(&watch.turn, 1);
}

void ito__watch_look(bool call) {
    /* ORDER seq_cst; pairs with the fence in watch_main(). Puts what the caller has told of before the load. */
    fence_seq_cst();
    uint32_t slow = load_relaxed(&watch.slow);
    if (UNLIKELY(slow == UNTIL_ANYTHING || (call && slow == UNTIL_A_CALL)))
        wake();
}

/* Runs in the child after fork, which has neither the watcher nor a carrier but the caller's. */
static void forget(void) {
    watch.started = watch.slow = 0;
    pthread_mutex_init(&start_lock, NULL);
    ito__carriers_forget();
}

static int start_slow(void) {
    static bool forks_known;
    sigset_t all;
    int r = 0, saved = errno;
    pthread_mutex_lock(&start_lock);
    if (!watch.started) {
        if (!forks_known)
            forks_known = !pthread_atfork(NULL, NULL, forget);
        /* Signals of the program are not for this thread. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &ito__carriers_mask);
        if (pthread_create(&watch.thread, NULL, watch_main, NULL))
            r = EAGAIN;
        pthread_sigmask(SIG_SETMASK, &ito__carriers_mask, NULL);
        /* ORDER release; pairs with the acquire load in ito__watch_start(). */
        store_release(&watch.started, !r);
    }
    pthread_mutex_unlock(&start_lock);
    errno = saved;
    return r;
}

int ito__watch_start(void) {
    /* ORDER acquire; pairs with the release store in start_slow(). */
    return LIKELY(load_acquire(&watch.started)) ? 0 : start_slow();
}

void ito__watch_stop(void) {
    if (!watch.started)
        return;
    /* ORDER release; pairs with the acquire load in watch_main(). wake() then has the kernel look at `turn`. */
    store_release(&watch.stop, 1);
    wake();
    pthread_join(watch.thread, NULL);
    /* The last look of a detached thread that has ended comes before nothing here until its worker is joined. */
    store_relaxed(&watch.slow, AWAKE);
    store_relaxed(&watch.stop, 0);
    store_relaxed(&watch.started, 0);
}

unsigned ito__watch_threads(void) {
    /* ORDER acquire; pairs with the release store in start_slow(). */
    return load_acquire(&watch.started) + ito__carriers_started();
}
