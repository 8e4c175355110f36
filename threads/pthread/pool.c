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
 *                RUNNING -> CLOSED      light_stop(): light threads go on, new ones are kernel threads
 *                RESTING -> REFUSED     the same, before the first pthread_create
 *                RUNNING, CLOSED -> REFUSED  in the child of a fork: it has one kernel thread, and no workers. Threads that it
 *                                       creates are kernel threads
 */
#include "light.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESTING, RUNNING, CLOSED, REFUSED };

static struct {
    uint32_t state;       /* atomic */
    uint32_t threads;     /* atomic: of the program that have not ended, main with them */
    pthread_mutex_t lock; /* of the C library: start */
    ito_sem started;
    int error;
} pool = {.threads = 1, .lock = PTHREAD_MUTEX_INITIALIZER};

static void block_for_ever(void *unused) {
    (void)unused;
}

static void *host_main(void *unused) {
    (void)unused;
    ito_config config = ITO_CONFIG_INIT;
    pthread_attr_t attr;
    /* The program expects the stacks that the C library gives; pages that are not touched are free. */
    if (!getenv("ITO_STACK") && pthread_attr_init(&attr) == 0) {
        pthread_attr_getstacksize(&attr, &config.stack_bytes);
        pthread_attr_destroy(&attr);
    }
    pool.error = ito_init(&config);
    ito_sem_post(&pool.started);
    if (pool.error == 0)
        for (;;)
            ito__block(block_for_ever, NULL);
    return NULL;
}

/* In the child of a fork. The caller, if it was light, is the kernel thread's own code from now on: it keeps its stack
 * and its TLS block. */
static void forked(void) {
    if (!light_works())
        return;
    store_relaxed(&pool.state, REFUSED);
    store_relaxed(&pool.threads, 1);
    light_self.kind = LIGHT_NONE;
    ito__tls_worker = &ito__nobody;
    memset(&ito__pool, 0, sizeof ito__pool);
    once_forked();
    signals_forget();
}

static pthread_key_t main_key;

static void main_ended(void *unused) {
    (void)unused;
    light_thread_ends();
}

static bool host_start(void) {
    sigset_t all, old;
    pthread_t host;
    sigfillset(&all);
    REAL(pthread_sigmask)(SIG_SETMASK, &all, &old);
    int r = REAL(pthread_create)(&host, NULL, host_main, NULL);
    if (r == 0) {
        ito_sem_wait(&pool.started);
        r = pool.error;
        REAL(pthread_detach)(host);
    }
    REAL(pthread_sigmask)(SIG_SETMASK, &old, NULL);
    return r == 0 && pthread_atfork(NULL, NULL, forked) == 0 && REAL(pthread_key_create)(&main_key, main_ended) == 0;
}

static void say(const char *why) {
    if (getenv("ITO_STATS"))
        fprintf(stderr, "ito: threads are kernel threads: %s\n", why);
}

static void start(void) {
    const char *why = light_refusal();
    if (why == NULL && !host_start())
        why = "the kernel gives no threads for its workers";
    if (why)
        say(why);
    /* ORDER release; pairs with the acquire load in light_start(). Publishes the pool. */
    store_release(&pool.state, why ? REFUSED : RUNNING);
}

void light_stop(const char *why) {
    REAL(pthread_mutex_lock)(&pool.lock);
    uint32_t state = load_relaxed(&pool.state);
    if (state < CLOSED) {
        say(why);
        /* ORDER release; pairs with the acquire load in light_start(), as in start(). */
        store_release(&pool.state, state == RUNNING ? CLOSED : REFUSED);
    }
    REAL(pthread_mutex_unlock)(&pool.lock);
}

bool light_works(void) {
    uint32_t state = load_relaxed(&pool.state);
    return state == RUNNING || state == CLOSED;
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
}

/* Where main has called pthread_exit, the last thread that ends calls exit(0), as in the C library. That one counts this
 * library's workers, which never end. */
void light_thread_ends(void) {
    /* ORDER acq_rel; pairs with the other decrements: exit handlers come after all that the other threads did. */
    if (sub_acq_rel(&pool.threads, 1) == 1)
        exit(0);
}

/* A key's destructor is the last that main runs. */
void light_main_exits(void) {
    signals_start();
    if (light_works())
        pthread_setspecific(main_key, &pool);
}
