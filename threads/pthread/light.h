/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The inside of libito-pthread.so: pthread_create makes threads of ito. docs/design/pthread.md has the method.
 *
 *   light thread    a thread of ito that pthread_create made; it has a TLS block of its own and is switched in user
 *                   space
 *   kernel thread   main, and each thread that cannot be light (refuse.c says why); ito calls it foreign
 *
 * The files: pool.c (start, fork), tls.c (TLS blocks), thread.c (create, end, join), attr.c (what is asked of and set
 * for a thread), keys.c, signals.c, refuse.c, real.c;
 * cancel.c, mutex.c, cond.c, rwlock.c, sem.c, objects.c; io.c, stdio.c. Only functions marked EXPORT are seen by programs.
 */
#ifndef ITO_PTHREAD_LIGHT_H
#define ITO_PTHREAD_LIGHT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "real.h"
#include "wait.h"

#include <signal.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum light_kind {
    LIGHT_NONE = 0, /* a kernel thread */
    LIGHT_THREAD = 1,
};

/* light.word, under its queue bit (wait.h) */
enum {
    LIGHT_ENDED = 1,    /* off its stack for good */
    LIGHT_DETACHED = 2, /* nobody may join it; its stack goes back when it ends */
    LIGHT_JOINED = 4,   /* a thread waits for it, or has got its result */
};

/*
 * What this library knows of a thread. It is a __thread variable, so it lies at one distance from each pthread_t, light
 * or not, and lives as long as the thread's TLS block: until it is joined.
 *
 *   field            writer                             reader
 *   kind .. arg      its creator, before it is ready    any
 *   mask, its number its creator, then itself           itself
 *   result, name     itself; name: any, under word      its joiner, after LIGHT_ENDED
 *   word             holder of its queue bit            any
 *   joiners          same: at most one                  same
 *   self, wait_*     itself, under the bit              any, under the bit: what it waits for (cancel.c); null: nothing
 *   joiner_id        the joiner, under the bit          the thread itself (who would wait for itself?)
 */
struct light {
    uint32_t kind;
    uint32_t word;
    struct ito__waiters joiners;
    pthread_t joiner_id;
    struct ito_thread *self;
    uint32_t *wait_word;
    struct ito__waiters *wait_queue;
    struct ito_thread *thread;
    struct ito__stack *stack;
    char *stack_high; /* below the TLS block */
    size_t guard_bytes;
    void *(*fn)(void *);
    void *arg;
    sigset_t mask;
    uint32_t mask_number; /* of `mask`, in signals.c */
    void *result;
    char name[16];
};
extern __thread struct light light_self __attribute__((tls_model("initial-exec")));

static inline bool light_here(void) {
    return light_self.kind == LIGHT_THREAD;
}
/* Of any thread that has not been joined, light or not. */
struct light *light_of(pthread_t id);

/* pool.c */
bool light_start(void);          /* workers run; false: there are none, make kernel threads */
const char *light_refusal(void); /* refuse.c: why this program gets no light threads; null: it does */
void light_thread_begins(void);  /* one more thread of the program */
void light_thread_ends(void);    /* one less: if it was the last and main has ended, the process ends */
void light_main_exits(void);     /* main calls pthread_exit */

/* Threads that are created from now on are kernel threads; the first reason is told. */
void light_stop(const char *why);
bool light_works(void); /* there are workers, whether or not new threads are light */

/* tls.c */
bool tls_cancelled(void); /* the caller has been cancelled, and has not disabled that */
int tls_tid(void);        /* what the C library takes for the caller's thread id */
bool tls_setup(void);     /* false: this C library cannot (refuse.c) */
bool tls_ready(struct ito__stack *stack, char **stack_high); /* a fresh block in stack->tls; false: no memory */
size_t tls_bytes(void);
void tls_begin(void);
void tls_end(void); /* thread_local destructors of the caller */

/* cancel.c: around a wait in the queue of an object whose bit is in `word`. begin: false, do not wait; end follows in any
 * case, and does not return if the caller was cancelled. A wait that was cut short gives ECANCELED. */
bool light_wait_begin(uint32_t *word, struct ito__waiters *queue);
void light_wait_end(void);
/* mutex.c: ito's mutex in it; null: it is the C library's. */
ito_mutex *light_mutex(pthread_mutex_t *mutex);
/* objects.c */
void once_forked(void);
/* A light thread has tried in vain, for the turn-th time: let others run, then some time pass. False: too late. */
bool light_pause(unsigned turn, uint64_t deadline_ns);

/* signals.c */
void signals_start(void); /* signals that only light threads have unblocked are taken from now on */
void signals_forget(void);
void signals_thread_begins(struct light *l); /* l->mask is set */
void signals_thread_ends(const struct light *l);

/* keys.c */
void keys_end(void);

/* pthread_*_np deadlines: an absolute time of a clock as ito's, CLOCK_MONOTONIC ns. False: EINVAL. */
bool light_deadline(clockid_t clock, const struct timespec *at, uint64_t *deadline_ns);

#endif
