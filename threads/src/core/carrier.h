/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carriers: the kernel threads that run workers, and how a worker goes from one to another while a call waits in the
 * kernel (docs/design/io.md).
 *
 * Each worker starts with a carrier of its own (worker.own). A *spare* carrier runs no worker at the moment.
 */
#ifndef ITO_CARRIER_H
#define ITO_CARRIER_H

#include <ito/types.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;
struct ito_call;

/*
 *   field          writer                                     reader
 *   worker         the carrier                                same; null: it lost its worker, or has none yet
 *   home           the carrier, in ito_blocking_begin         same: the context of its own loop
 *   stack          fixed: of that loop; null: the kernel thread's own stack
 *   next           holder of the list's lock                  same
 *   job, job_turn  who gives it a job, before `wake`          the carrier, after `wake`; null: end. Relaxed: the pool's stop
 *                                                             may come while an offer that is too late is read
 *   wake           set by who gives it a job, cleared by it   also the futex it sleeps on; 1: there is a job
 *   all            fixed: the list of carriers to be joined
 *   tid            itself, before it runs a worker            the watcher, relaxed
 *   look_*         the watcher                                same: 1 + the descriptor of its system calls, and which file
 *                                                             it is (pthread/look.c)
 */
struct ito__carrier {
    struct worker *worker;
    struct ito_thread home;
    struct ito__stack *stack;
    struct ito__carrier *next;
    struct worker *job;
    uint32_t job_turn;
    uint32_t wake;
    uint32_t tid;
    int32_t look_fd;
    uint64_t look_dev, look_ino;
    struct ito__carrier *all;
    pthread_t kernel_thread;
#ifdef ITO__OWN_TLS
    struct ito__stack kernel_stack; /* stands for the kernel thread's own stack: only `tls` is used */
#endif
};

/*
 * worker.lent: a turn, which counts the worker's calls, and in the two low bits one of these.
 *
 *   from      to         by                                                      meaning
 *   HOME      CALL       its carrier, ito_blocking_begin                         a call may wait in the kernel
 *   CALL      HOME, +1   its carrier, ito_blocking_end      compare-and-swap     the call is over, nothing happened
 *   CALL      ADOPTED    a spare carrier                    compare-and-swap     the worker is this carrier's now
 *   ADOPTED   HOME, +1   that carrier                       release store        it has taken the thread off the worker
 *
 * Only in libito-pthread.so, where a thread may wait in the kernel without having said so (docs/design/pthread.md):
 *
 *   HOME      TAKEN      the watcher                        compare-and-swap     its thread seems to wait in the kernel
 *   TAKEN     HOME       the watcher                        compare-and-swap     it does not
 *   TAKEN     HOME, +1   the thread, when it enters ito     compare-and-swap     it does not any more
 *   TAKEN     ADOPTED    a spare carrier                    compare-and-swap     as from CALL
 */
enum { ITO__LENT_HOME, ITO__LENT_CALL, ITO__LENT_ADOPTED, ITO__LENT_TAKEN, ITO__LENT_STATES = 4 };

/* The calling kernel thread, which is carrier `c`, runs worker `w` from now on, and there `current`: the worker's own
 * context or the root thread. */
void ito__settle(struct ito__carrier *c, struct worker *w, struct ito_thread *current);
/* A carrier's life: runs its worker, then those that it is given, until the pool stops. */
void ito__carrier_run(struct ito__carrier *c);
/* The watcher: a call has been in progress since the last look, and `lent` was this. False: no spare carrier; *made: but
 * soon. */
bool ito__carrier_offer(struct worker *w, uint32_t lent, bool *made);
/* Joins the kernel threads of all carriers but worker 0's. All workers have been told to stop. */
void ito__carriers_stop(void);
/* Threads in calls whose worker was taken meanwhile; a hint. */
uint32_t ito__calls_out(void);
uint32_t ito__carriers_started(void);
/* The caller keeps its carrier for itself (1), or not any more (-1): its number does not count against the bound. */
void ito__carriers_keep(int32_t more);
void ito__carriers_forget(void); /* in the child after fork: no spare has come along */
/* A thread whose worker was taken is in a queue again; its computation beside the workers is over. */
void ito__carriers_came_back(void);
void ito__carriers_computed(void);
extern sigset_t ito__carriers_mask; /* of signals, of the kernel thread that started the watcher: that of spares */

/* ---- at rest (rest.c) -------------------------------------------------------------------------------------------- */

/* In place of `lent`: the worker was given back by ito__carrier_go_home(). */
#define ITO__GO_HOME ((uint32_t)ITO__LENT_ADOPTED)
/* `c`, which rests or will, runs `job` next, offered with `turn`; null: it ends. */
void ito__carrier_give(struct ito__carrier *c, struct worker *job, uint32_t turn);
/* Become a spare until there is a job; null: the pool stops. Worker 0's own carrier is for worker 0 alone. */
struct worker *ito__carrier_rest(struct ito__carrier *c);
/* One that rests, for a job; null: none does. */
struct ito__carrier *ito__carrier_spare(void);
/* The scheduler of worker 0, which is not on the carrier that began with it: give it back. False: not possible now. */
bool ito__carrier_go_home(struct ito__carrier *c, struct worker *w);
void ito__carriers_forget_resting(void);

/* ---- the watcher (watch.c) --------------------------------------------------------------------------------------- */

int ito__watch_start(void); /* 0, or EAGAIN: no kernel thread */
void ito__watch_stop(void);
unsigned ito__watch_threads(void); /* the watcher, and all carriers that it started */
/* A call (true) or a wait for I/O has begun; the caller has told of it. */
void ito__watch_look(bool call);

/* In place of a system call's number: the thread computes. */
#define ITO__COMPUTES UINT32_MAX
uint32_t ito__carriers_beside(void); /* threads that compute, and whose worker was taken */

#ifdef ITO__OWN_TLS
/* Threads that wait in the kernel without having said so (pthread/look.c). The watcher: look at all workers. *running: a
 * thread runs on one. Return: something was found, look again soon. */
bool ito__look_at_workers(bool *running);
bool ito__look_is_needed(void);
uint32_t ito__look_tid(void);
/* The name of a system call for ITO_STATS; static. */
const char *ito__look_name(uint32_t number);
#else
static inline bool ito__look_at_workers(bool *running) {
    *running = false;
    return false;
}
static inline bool ito__look_is_needed(void) {
    return false;
}
static inline uint32_t ito__look_tid(void) {
    return 0;
}
#endif

#endif
