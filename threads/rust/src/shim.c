/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the crate calls of libito that is inline in C, and the rule that makes it sound: a thread stays on the worker on which
 * it begins. Rust keeps references to thread-local variables over calls, and values that are not Send over a join, so a
 * closure may not be moved to another kernel thread once it runs. Only what has not begun is taken by others: forked tasks,
 * and threads that wait for their first turn.
 */
#include "core/internal.h"

#include <ito/fork.h>

#include <stdlib.h>

_Static_assert(sizeof(ito_sem) <= 24, "Sem in lib.rs");

static void stay(void) {
    struct worker *w = worker_of(ito__worker());
    if (w)
        w->hot.current->bind = (int32_t)w->index;
}

/* Starts the pool: the caller is its root thread from then on, and never returns if that succeeds. */
int ito_rs_serve(uint32_t workers, size_t stack_bytes, void (*started)(void *), void *arg) {
    static ito_uncond never = ITO_UNCOND_INIT;
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = workers;
    config.stack_bytes = stack_bytes;
    int error = ito_init(&config);
    if (error)
        return error;
    /* No worker goes to another kernel thread: theirs is what its threads stay on. */
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        store_relaxed(&ito__pool.workers[i].has_bound, 1);
    started(arg);
    for (;;)
        ito_uncond_wait(&never);
}

/* A task in the caller's frame; `run` is called by the thread that takes it. Its first field is a struct ito__fork, its
 * second the function. */
struct rs_task {
    struct ito__fork fork;
    void (*run)(struct rs_task *);
};
static void run_taken(struct ito__fork *fork) {
    struct rs_task *task = (struct rs_task *)fork;
    stay();
    task->run(task);
}
void ito_rs_fork(struct rs_task *task) {
    ito__fork_push(&task->fork, run_taken, NULL);
}
/* 1: nobody has taken it, the caller runs it. 0: it has run. */
int ito_rs_sync(struct rs_task *task) {
    return ito__fork_take(&task->fork);
}
/* 1: it has run, or runs: waited for. 0: it was taken back, and will not run. */
int ito_rs_leave(struct rs_task *task) {
    return ito__fork_left(&task->fork);
}

/* A thread of its own, which begins later. */
struct rs_start {
    void *(*fn)(void *);
    void *arg;
};
static void *run_thread(void *arg) {
    struct rs_start start = *(struct rs_start *)arg;
    free(arg);
    stay();
    return start.fn(start.arg);
}
int ito_rs_spawn(ito_thread **out, void *(*fn)(void *), void *arg) {
    ito_attr attr = ITO_ATTR_INIT;
    struct rs_start *start = malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = (struct rs_start){fn, arg};
    attr.flags = ITO__ATTR_LATER;
    int error = ito_create(out, &attr, run_thread, start);
    if (error)
        free(start);
    return error;
}
