/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Start of the workers, fork, and the end of the process.
 *
 * The workers start at the first pthread_create. main stays a kernel thread, so ito's root thread is another: a thread
 * of this library's own starts the pool, is worker 0 from then on, and its root thread blocks for ever.
 *
 * All signals are blocked in the workers: the kernel gives the process's signals to main and other kernel threads of
 * the program (signals.c).
 *
 *   pool.state   RESTING -> RUNNING     the first pthread_create
 *                RESTING -> REFUSED     the same, where there can be no light threads
 *                RUNNING -> REFUSED     in the child of a fork: it has one kernel thread, and no workers. Threads that it
 *                                       creates are kernel threads
 */
#include "light.h"

#include "base/counts.h"
#include "core/carrier.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESTING, RUNNING, REFUSED };

static struct {
    uint32_t state;   /* atomic */
    uint32_t threads; /* atomic: main, kernel and pinned threads that have not ended; signals.c counts the light ones */
    uint32_t ending;  /* atomic: the last thread calls exit() */
    uint32_t moves;   /* atomic: how often a thread was added to `threads` */
    pthread_mutex_t lock; /* of the C library: start */
    ito_sem started;
    int error;
} pool = {.threads = 1, .lock = PTHREAD_MUTEX_INITIALIZER};

static void block_for_ever(void *unused) {
    (void)unused;
}

/* A worker that searches takes a CPU from main and other kernel threads, which are about to make the next thread ready: with ito's usual
 * 20 us, Python's main thread and a light one that take turns used 1.8 times the CPU time of two kernel threads, with this 1.2 times. */
#define SPIN_US 2

static void *host_main(void *unused) {
    (void)unused;
    ito_config config = ITO_CONFIG_INIT;
    config.spin_us = SPIN_US;
    pthread_attr_t attr;
    /* The program expects the stacks that the C library gives; pages that are not touched are free. */
    if (!getenv("ITO_STACK") && pthread_attr_init(&attr) == 0) {
        pthread_attr_getstacksize(&attr, &config.stack_bytes);
        pthread_attr_destroy(&attr);
    }
    pool.error = ito_init(&config);
    if (pool.error == 0)
        ito__watch_start(); /* without it, who waits unseen holds up a worker */
    ito_sem_post(&pool.started);
    if (pool.error == 0)
        for (;;)
            ito__block(block_for_ever, NULL);
    return NULL;
}

/* The thread pointer that the caller's kernel thread was created with; null: its own. */
static char *kernel_pointer(void) {
    struct ito__carrier *c = ito__tls_out.carrier;
    if (light_self.kind == LIGHT_NONE)
        return NULL;
    if (light_self.kind == LIGHT_PINNED)
        c = light_self.pinned.carrier;
    else if (ito__tls_worker != &ito__nobody)
        return worker_of(ito__tls_worker)->sched.stack->tls;
    return c ? c->home.stack->tls : NULL;
}

/* In the child of a fork, before the program's own handlers, which may unlock objects that threads of the parent wait for.
 * The caller, if it was light, is the kernel thread's own code from now on: it keeps its stack and its TLS block. */
static void forked(void) {
    if (!light_works())
        return;
    tls_forget_rseq(kernel_pointer());
    if (light_self.kind == LIGHT_THREAD) /* the worker blocks all */
        REAL(pthread_sigmask)(SIG_SETMASK, &light_self.mask, NULL);
    store_relaxed(&pool.state, REFUSED);
    store_relaxed(&pool.threads, 1);
    store_relaxed(&pool.ending, 0);
    light_self.kind = LIGHT_NONE;
    ito__tls_worker = &ito__nobody;
    ito__tls_out.carrier = NULL;
    memset(&ito__pool, 0, sizeof ito__pool);
    ito__fork_epoch++;
    store_relaxed(&ito__alone, 1);
    once_forked();
    futexes_forked();
    signals_forget();
}

extern void *__dso_handle __attribute__((visibility("hidden")));
static pthread_once_t forks_known = PTHREAD_ONCE_INIT;

static void know_forks(void) {
    REAL(__register_atfork)(NULL, NULL, forked, &__dso_handle);
}
/* What pthread_atfork calls. The child's handlers run in the order in which they were registered, and libraries that the program is
 * linked to are initialised before this one: so forked() is registered when the first of them does it. */
EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    pthread_once(&forks_known, know_forks);
    return REAL(__register_atfork)(prepare, parent, child, library);
}
static __attribute__((constructor)) void begin(void) {
    pthread_once(&forks_known, know_forks);
}

static pthread_key_t main_key;

static void main_ended(void *unused) {
    (void)unused;
    light_thread_ends();
}

static bool host_start(void) {
    sigset_t all, old;
    pthread_t host;
    /* Before the process has a second kernel thread: of one with several, the kernel waits until each CPU has passed a quiescent
     * state (synchronize_rcu), 10 to 40 ms. ito_init() finds it done. */
    ito__prim_membarrier_setup();
    look_make_room(); /* likewise */
    light_kicks_start();
    signals_know_code();
    light_all_signals(&all);
    REAL(pthread_sigmask)(SIG_SETMASK, &all, &old);
    int r = REAL(pthread_create)(&host, NULL, host_main, NULL);
    if (r == 0) {
        signals_know_ids();
        ito_sem_wait(&pool.started);
        r = pool.error;
        REAL(pthread_detach)(host);
    }
    REAL(pthread_sigmask)(SIG_SETMASK, &old, NULL);
    return r == 0 && REAL(pthread_key_create)(&main_key, main_ended) == 0;
}

static __attribute__((destructor)) void say_counts(void) {
    if (light_works())
        ito__counts_say(ito__carriers_started());
}

static void say(const char *why) {
    if (getenv("ITO_STATS"))
        fprintf(stderr, "ito: threads are kernel threads: %s\n", why);
}

static void start(void) {
    const char *why = light_refusal();
    if (why == NULL && !host_start())
        why = "the kernel gives no threads for its workers";
    if (why) {
        say(why);
        ito__told_refused(why);
    } else {
        ito__told_look();
    }
    /* ORDER release; pairs with the acquire load in light_start(). Publishes the pool. */
    store_release(&pool.state, why ? REFUSED : RUNNING);
}

bool light_works(void) {
    return load_relaxed(&pool.state) == RUNNING;
}

bool light_start(void) {
    /* ORDER acquire; pairs with the release store in start(). Shows the pool. */
    uint32_t state = load_acquire(&pool.state);
    if (UNLIKELY(state == RESTING)) {
        REAL(pthread_mutex_lock)(&pool.lock);
        if (load_relaxed(&pool.state) == RESTING)
            start();
        state = load_relaxed(&pool.state);
        REAL(pthread_mutex_unlock)(&pool.lock);
    }
    return state == RUNNING;
}

/* ---- the end of the process -------------------------------------------------------------------------------------- */

void light_thread_begins(void) {
    __atomic_add_fetch(&pool.threads, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&pool.moves, 1, __ATOMIC_SEQ_CST); /* ORDER seq_cst; pairs with the loads in light_last_ends() */
}

/*
 * Where main has called pthread_exit, the last thread that ends calls exit(0), as in the C library. That one counts this
 * library's workers, which never end.
 *
 * A thread that goes from one count to another (by a new mask, when it is pinned, when it has created a kernel thread) is
 * first added to pool.threads, and for ever to `moves`. So one that was on its way from a count that is read late to one that was read
 * early is seen in pool.threads, or makes the two values of `moves` differ.
 */
void light_last_ends(void) {
    uint32_t moves;
    do {
        moves = __atomic_load_n(&pool.moves, __ATOMIC_SEQ_CST); /* ORDER seq_cst; pairs with light_thread_begins() */
        /* ORDER seq_cst; pairs with the changes in light_thread_ends() and signals.c: exit handlers come after all that the
         * other threads did. */
        if (__atomic_load_n(&pool.threads, __ATOMIC_SEQ_CST) != 0 || !signals_no_thread())
            return;
    } while (moves != __atomic_load_n(&pool.moves, __ATOMIC_SEQ_CST));
    if (__atomic_exchange_n(&pool.ending, 1, __ATOMIC_RELAXED) == 0)
        exit(0);
}

void light_thread_ends(void) {
    /* ORDER seq_cst; pairs with the loads in light_last_ends(). */
    if (__atomic_fetch_sub(&pool.threads, 1, __ATOMIC_SEQ_CST) == 1)
        light_last_ends();
}

/* A key's destructor is the last that main runs. */
void light_main_exits(void) {
    signals_start();
    if (light_works())
        pthread_setspecific(main_key, &pool);
}
