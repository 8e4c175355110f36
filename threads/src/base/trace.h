/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a recorder is told: docs/design/seen.md. Called on slow paths only. While a recorder listens, ITO__ASK_TRACE in
 * every worker's `ask` keeps creations off the fast path, and threads created there are not PRIVATE, which keeps their
 * ends and joins off it. So the fast paths have nothing to test without a recorder.
 */
#ifndef ITO_TRACE_H
#define ITO_TRACE_H

#include <stdint.h>

struct worker;
struct ito_thread;
struct ito__fork;
struct ito__ran;

/* 1: a recorder listens. Written by the listener, read relaxed: an old value loses an event or adds one. */
extern uint32_t ito__tracing;
/* The same for events of locks: `kasuri record --locks`. */
extern uint32_t ito__seeing_locks;
#define ITO__TRACING __builtin_expect(__atomic_load_n(&ito__tracing, __ATOMIC_RELAXED), 0)

/*
 * Who tells the recorder (seen/trace.c), which knows all other rooms, where they know this header alone. All but look()
 * are called while ITO__TRACING. None is inlined: each finds the thread-local ring of the kernel thread it runs on, and
 * a switch may follow it.
 */
struct ito__listener {
    void (*look)(void); /* is there a recorder? */
    void (*create)(struct ito_thread *thread, struct ito_thread *parent);
    void (*start)(struct ito_thread *thread);
    void (*end)(struct ito_thread *thread);
    void (*block)(struct ito_thread *thread);
    void (*resume)(struct ito_thread *thread);
    void (*steal)(struct ito_thread *thread);
    void (*join)(uint64_t joined);
    void (*worker)(unsigned index);
    void (*search)(struct worker *w, int begin);
    void (*fork)(struct ito__fork *fork, const char *name);
    void (*run)(struct ito__fork *fork, struct ito__ran *ran);
    void (*ran)(struct ito__fork *fork, const struct ito__ran *ran);
    /* It will never run: readers get a run of no time, behind which its id, the address of a frame, is free again. */
    void (*dropped)(struct ito__fork *fork);
    /* A folded task becomes one of its own. The caller has taken it, or holds the lock of the deque that it is in. */
    void (*unfold)(struct ito__fork *fork, uint64_t folded_in);
    uint32_t (*name)(const void *address); /* interned, of a function or variable; 0: none is known */
    /* The name of a task, interned; null: that of the function which runs it. */
    uint32_t (*task_name)(const struct ito__fork *fork, const char *name);
    uint64_t (*running)(void); /* the task that runs here */
    void (*point)(const void *object, uint32_t kind);
    void (*join_of)(struct ito_thread *joiner, uint64_t joined);
    void (*left)(const void *object);
    uint64_t (*graph_ids)(uint32_t graph);
    void (*new_task)(uint64_t id, const char *name, const void *fn);
    void (*depends)(uint64_t id, uint64_t on);
    void (*task)(uint64_t id, int begin);
    uint64_t (*stamp)(void);
    void (*handed_over)(const char *call, uint64_t began);
};
/* Null: nobody can listen (a CPU without rings). Set before the first worker, and then the same for ever. */
extern const struct ito__listener *ito__listener;

/* Is there a recorder? Called by workers that have nothing better to do or were asked for work. */
static inline void ito__trace_poll(void) {
    if (ito__listener)
        ito__listener->look();
}
/* In the child of a fork, and when there is a new pool, whose workers have been asked nothing yet: nobody listens, until
 * one looks. */
void ito__trace_forget(void);

#define ITO__TRACE_IF(call)                                                                                            \
    do {                                                                                                               \
        if (ITO__TRACING)                                                                                              \
            call;                                                                                                      \
    } while (0)

/* Created by `parent` (null: a kernel thread that is no worker); started, in its own stack; ended. */
#define ITO__TRACE_CREATE(thread, parent) ITO__TRACE_IF(ito__listener->create(thread, parent))
#define ITO__TRACE_START(thread) ITO__TRACE_IF(ito__listener->start(thread))
#define ITO__TRACE_END(thread) ITO__TRACE_IF(ito__listener->end(thread))
/* Leaves its worker, for thread->wait_kind (none: yields); has come back to a worker. Both called by the thread
 * itself. */
#define ITO__TRACE_BLOCK(thread) ITO__TRACE_IF(ito__listener->block(thread))
#define ITO__TRACE_RESUME(thread) ITO__TRACE_IF(ito__listener->resume(thread))
/* Its continuation was taken from another worker's deque and goes on here. Called by the thief. */
#define ITO__TRACE_STEAL(thread, victim) ITO__TRACE_IF(ito__listener->steal(thread))
/* The caller has joined the thread that had this id, having waited or not. */
#define ITO__TRACE_JOIN(id) ITO__TRACE_IF(ito__listener->join(id))
/* A call between ito_blocking_begin and _end is over, whose worker was given away; it began at this stamp, which
 * ITO__STAMP() gave (0: nobody listened). Called by its kernel thread, whose carrier is that. */
#ifdef ITO__OWN_TLS /* libito-pthread.so: pthread/told.c */
#define ITO__TRACE_HANDED_OVER(carrier, call, began) ito__told_handed_over(carrier, call, began)
#else
#define ITO__STAMP() (ITO__TRACING ? ito__listener->stamp() : 0)
#define ITO__TRACE_HANDED_OVER(carrier, call, began) ITO__TRACE_IF(ito__listener->handed_over(call, began))
static inline void ito__told_look(void) {}
#endif
/* A worker's kernel thread begins; it has nothing to run from now (1) or until now (0). */
#define ITO__TRACE_WORKER(index) ITO__TRACE_IF(ito__listener->worker(index))
#define ITO__TRACE_SEARCH(worker, begin) ITO__TRACE_IF(ito__listener->search(worker, begin))
/* ITO_FORK: a task was forked; ITO_SYNC is over; a thread was made for it. Between ito__listener->run() and ito__listener->ran(),
 * which gets what the first returned, the caller runs it in place, at its ITO_SYNC. */
#define ITO__TRACE_FORK(fork, name) ITO__TRACE_IF(ito__listener->fork(fork, name))
#define ITO__TRACE_SYNC(fork) ITO__TRACE_IF(ito__listener->join((uintptr_t)(fork)))
#define ITO__TRACE_DROPPED(fork) ITO__TRACE_IF(ito__listener->dropped(fork))
#define ITO__TRACE_PROMOTE(thread, fork, folded_in)                                                                    \
    do {                                                                                                               \
        (thread)->id = ITO__TRACING ? (uintptr_t)(fork) : 0;                                                           \
        if ((folded_in) != 0)                                                                                          \
            ITO__TRACE_IF(ito__listener->unfold(fork, folded_in));                                                     \
    } while (0)

/* ito/graph.h. A graph's tasks have ids of their own: these bits, 14 of the graph's number, 24 of the run's, 24 of the
 * task's. The caller has created the task; it waits for the end of another; it begins (1) or ends (0) here. */
#define ITO__ID_GRAPH ((uint64_t)3 << 62)
#define ITO__ID_GRAPH_NUMBER_OF(graph) ((graph)&0x3fffu)
#define ITO__ID_GRAPH_NUMBER(id) ITO__ID_GRAPH_NUMBER_OF((uint32_t)((id) >> 48))
#define ITO__ID_GRAPH_TASK(id) ((uint32_t)(id)&0xffffffu)
#define ITO__TRACE_NEW_TASK(id, name, fn) ITO__TRACE_IF(ito__listener->new_task(id, name, fn))
#define ITO__TRACE_DEPENDS(id, on) ITO__TRACE_IF(ito__listener->depends(id, on))
#define ITO__TRACE_TASK(id, begin) ITO__TRACE_IF(ito__listener->task(id, begin))
/* The id of a thread that a recorder does not hear of, or not any more. */
#define ITO__ID_UNSEEN ((uint64_t)1 << 63)

/* A point of the caller that others will join, with the object's address as its id (docs/design/seen.md): `kind` as in
 * internal.h. A thread that waited goes on after it, or after any task; the caller, which ends, is joined by it. */
#define ITO__TRACE_POINT(object, kind) ITO__TRACE_IF(ito__listener->point(object, kind))
#define ITO__TRACE_JOIN_OF(thread, id) ITO__TRACE_IF(ito__listener->join_of(thread, id))
#define ITO__TRACE_LEFT(object) ITO__TRACE_IF(ito__listener->left(object))

#endif
