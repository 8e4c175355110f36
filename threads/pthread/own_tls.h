/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito's side of own thread-local storage; internal.h includes it where ITO__OWN_TLS is defined.
 *
 * The thread pointer moves along with a thread, so `errno`, __thread variables and pthread_self() are the thread's own
 * wherever it runs. ito__tls_worker, ito's "current worker", is a __thread variable too. So it is one of each thread,
 * and a worker that is about to continue a thread writes itself into that thread's copy. Until then nobody else can
 * read it: only the thread itself reads it, and it does not run.
 *
 * A worker's own context, and the root thread, have the block of the kernel thread that they were started on.
 */
#ifndef ITO_PTHREAD_OWN_TLS_H
#define ITO_PTHREAD_OWN_TLS_H

#include "arch/x86_64.h"

/* Address of ito__tls_worker less the thread pointer: the same in all threads, as it is initial-exec. */
extern intptr_t ito__tls_worker_at;

/* Between this and the switch of the stack that follows nothing thread-local is used. */
static inline __attribute__((always_inline)) void ito__tls_enter(struct worker *w, const struct ito_thread *next) {
    char *tp = next->stack->tls;
    *(struct ito__worker **)(tp + ito__tls_worker_at) = &w->hot;
    arch_set_thread_pointer(tp);
}

/* The same for the context of a kernel thread that has lost its worker. */
static inline __attribute__((always_inline)) void ito__tls_leave(const struct ito_thread *home) {
    char *tp = home->stack->tls;
    *(struct ito__worker **)(tp + ito__tls_worker_at) = &ito__nobody;
    arch_set_thread_pointer(tp);
}

/* The calling kernel thread becomes worker w; `current`: its own context or the root thread. */
static inline void ito__tls_worker_start(struct worker *w, struct ito_thread *current) {
    char *tp = arch_thread_pointer();
    ito__tls_worker_at = (char *)&ito__tls_worker - tp; /* all workers store the same */
    if (w->sched.stack == NULL)
        w->sched.stack = &w->carrier->kernel_stack;
    w->sched.stack->tls = tp;
    if (current->stack)
        current->stack->tls = tp;
}

#endif
