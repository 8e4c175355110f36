/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Another way to wait for a mutex: libkasuri-mutex.so, which `kasuri try` preloads. Guide: docs/guide/try.md.
 *
 * KASURI_MUTEX is one of
 *   spin     a thread that finds the mutex taken spins for some microseconds before it sleeps
 *   queue    waiters get the mutex in the order of arrival (a ticket lock in front of it), and newcomers wait
 *            behind them; the first in the queue sleeps in the mutex, the others on their tickets
 *
 * The mutex is always the C library's own, locked and unlocked by it: condition variables, timed locks and trylock work
 * with it as they do, and go past the queue. Only plain mutexes of one process are waited for in another way (__kind
 * 0); for all others, and for all that goes wrong here, the C library's function is called as the program called it.
 *
 * A thread that leaves pthread_mutex_lock by longjmp out of a signal handler, which POSIX does not allow, would leave
 * its place in the queue taken.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "real.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* About what two switches of a thread cost: then spinning costs twice what the better way does, at most. */
#define SPIN_NS 10000u
#define QUEUES 4096u /* power of two; mutexes beyond them are waited for as usual */
#define STEPS 8u
#define LOOKS 100 /* at a ticket before sleeping */

static enum { OFF, SPIN, QUEUE } way;

static void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#else
    /* ORDER none: only keeps the compiler from leaving the loop out; there is no partner. */
    __asm__ volatile("" : : : "memory");
#endif
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A plain mutex looks free. ORDER relaxed: a hint; the try that follows decides. */
static int looks_free(const pthread_mutex_t *m) {
    return !__atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED);
}

static int spin(pthread_mutex_t *m) {
    uint64_t until = now() + SPIN_NS;
    do {
        for (int i = 0; i < 50; i++) {
            if (looks_free(m) && RESOLVED(pthread_mutex_trylock)(m) == 0)
                return 0;
            rest();
        }
    } while (now() < until);
    return RESOLVED(pthread_mutex_lock)(m);
}

/* -- queues -- */

/* The waiters of one mutex. next - serving of them; the one with ticket `serving` is in the mutex's own wait. Each
 * mutex has a queue of its own for ever: were two to share one, the first in the queue could wait for a mutex whose
 * holder waits behind it.
 *   mutex    any thread, once, by compare-and-swap
 *   next     any waiter, by fetch-add
 *   serving  the first waiter alone, when it has the mutex
 *   sleeping any waiter, by fetch-add and fetch-sub: how many sleep or are about to */
struct queue {
    uintptr_t mutex;
    uint32_t next, serving, sleeping;
};
static struct queue queues[QUEUES];

static struct queue *queue_of(const pthread_mutex_t *m) {
    uint64_t hash = (uint64_t)(uintptr_t)m * 0x9e3779b97f4a7c15u >> 40;
    for (uint32_t i = 0; i < STEPS; i++) {
        struct queue *q = &queues[(hash + i) % QUEUES];
        uintptr_t found = __atomic_load_n(&q->mutex, __ATOMIC_RELAXED);
        if (found == (uintptr_t)m)
            return q;
        /* ORDER relaxed, here and above: the address publishes nothing, the queue is zeros until somebody waits. */
        if (!found &&
            __atomic_compare_exchange_n(&q->mutex, &found, (uintptr_t)m, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return q;
        if (found == (uintptr_t)m)
            return q;
    }
    return 0;
}

/* Sleep until the ticket is served. The waiter with ticket t is woken by bit t mod 32. */
static void wait_for(struct queue *q, uint32_t ticket) {
    for (int i = 0; i < LOOKS; i++) {
        /* ORDER acquire; pairs with the seq_cst store of `serving`. Not needed for the program's data, which the mutex
         * itself publishes. */
        if (__atomic_load_n(&q->serving, __ATOMIC_ACQUIRE) == ticket)
            return;
        rest();
    }
    /* ORDER seq_cst; pairs with the store of `serving` and the load of `sleeping` in served(): one of the two sees the
     * other. Either we find our ticket, or we are woken. */
    __atomic_fetch_add(&q->sleeping, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        /* ORDER seq_cst, as above. */
        uint32_t serving = __atomic_load_n(&q->serving, __ATOMIC_SEQ_CST);
        if (serving == ticket)
            break;
        syscall(SYS_futex, &q->serving, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, serving, 0, 0, 1u << ticket % 32);
    }
    __atomic_fetch_sub(&q->sleeping, 1, __ATOMIC_RELAXED);
}

/* The first one has the mutex: the next one is the first. */
static void served(struct queue *q, uint32_t ticket) {
    /* ORDER seq_cst, store and load; pair with those in wait_for(). */
    __atomic_store_n(&q->serving, ticket + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&q->sleeping, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &q->serving, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, INT32_MAX, 0, 0,
                1u << (ticket + 1) % 32);
}

static int queued(pthread_mutex_t *m) {
    struct queue *q = queue_of(m);
    uint32_t ticket;
    int r, saved = errno;
    if (!q)
        return RESOLVED(pthread_mutex_lock)(m);
    /* Nobody waits: no queue. ORDER relaxed: a stale value lets this thread pass a waiter that comes at the
     * same time. */
    if (__atomic_load_n(&q->next, __ATOMIC_RELAXED) == __atomic_load_n(&q->serving, __ATOMIC_RELAXED) &&
        RESOLVED(pthread_mutex_trylock)(m) == 0)
        return 0;
    ticket = __atomic_fetch_add(&q->next, 1, __ATOMIC_RELAXED);
    wait_for(q, ticket);
    r = RESOLVED(pthread_mutex_lock)(m);
    served(q, ticket);
    errno = saved;
    return r;
}

/* The waiters are not in the child. */
static void in_child(void) {
    memset(queues, 0, sizeof queues);
}

/* The environment of a set-user-id program comes from somebody else. */
__attribute__((constructor(102))) static void start(void) {
    const char *name = getenv("KASURI_MUTEX");
    int saved = errno;
    if (!name || getauxval(AT_SECURE) || !probe_resolve())
        return;
    if (!strcmp(name, "spin") && sysconf(_SC_NPROCESSORS_ONLN) > 1)
        way = SPIN;
    else if (!strcmp(name, "queue") && pthread_atfork(0, 0, in_child) == 0)
        way = QUEUE;
    errno = saved;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *m) {
    if (way == OFF || m->__data.__kind != 0)
        return REAL(pthread_mutex_lock)(m);
    if (way == QUEUE)
        return queued(m);
    return RESOLVED(pthread_mutex_trylock)(m) == 0 ? 0 : spin(m);
}
