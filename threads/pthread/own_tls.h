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

/* Of the C library's control block of a thread (struct pthread). Set once, when blocks are made first. */
extern size_t ito__tls_sizeof_pthread;

#if defined(__x86_64__)
#include "arch/x86_64.h"
#elif defined(__aarch64__)
#include "arch/aarch64.h"
#else
#error "arch/ has no file for this CPU: CMakeLists.txt does not build the library there"
#endif
#include "told.h"

/* Address of ito__tls_worker less the thread pointer: the same in all threads, as it is initial-exec. */
extern intptr_t ito__tls_worker_at, ito__tls_out_at;

/*
 * A thread whose worker was given to another carrier while it waited in the kernel, although it had not told of it
 * (carrier.c, look.c): which carrier it is on. Written by whoever takes the worker, before ito__tls_worker; the thread
 * itself reads it, and clears `carrier`, when it enters ito again.
 */
struct ito__tls_out {
    struct ito__carrier *carrier;
    struct ito_thread *thread;
    uint64_t begin_ns, begin_stamp;
    uint32_t call;
};
extern __thread struct ito__tls_out ito__tls_out __attribute__((tls_model("initial-exec")));

/* Between this and the switch of the stack that follows nothing thread-local is used. */
static inline __attribute__((always_inline)) void ito__tls_enter(struct worker *w, const struct ito_thread *next) {
    char *tp = next->stack->tls;
    store_relaxed(&w->moves, w->moves + 1);
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
    ito__tls_out_at = (char *)&ito__tls_out - tp;
    if (w->sched.stack == NULL)
        w->sched.stack = &w->carrier->kernel_stack;
    w->sched.stack->tls = tp;
    if (current->stack)
        current->stack->tls = tp;
}

static inline void ito__tls_take(const struct ito_thread *t, struct ito__carrier *before, uint32_t call) {
    char *tp = t->stack->tls;
    struct ito__tls_out *out = (struct ito__tls_out *)(tp + ito__tls_out_at);
    *out = (struct ito__tls_out){before, (struct ito_thread *)t, ito_now_ns(), ITO__STAMP(), call};
    /* ORDER release; pairs with the acquire load in ito__come_home(). Publishes *out, and what the taker did to t. */
    store_release((struct ito__worker **)(tp + ito__tls_worker_at), &ito__nobody);
}

void ito__come_home(void);

/*
 * What a cancellation, or a signal for the thread, may end (cancel.c). A wait for a descriptor: begin tells where it is found; false:
 * do not wait. A call that waits in the kernel: began comes after ito_blocking_begin; false: do not make it, but fail with EINTR.
 */
struct ito__waiters;
struct ito_call;
bool ito__io_wait_begin(uint32_t *word, struct ito__waiters *queue);
void ito__io_wait_end(void);
bool ito__call_began(const struct ito_call *call);
void ito__call_over(void);

/* Whoever enters ito's code has its worker from then on until it waits, or leaves that code: a worker is only taken
 * from a thread that waits outside of it. The first check is three loads. */
static inline void ito__be_home(void) {
    struct ito__worker *hot = load_relaxed(&ito__tls_worker);
    if (hot == &ito__nobody) {
        if (UNLIKELY(ito__tls_out.carrier != NULL))
            ito__come_home();
        return;
    }
    /* ORDER acquire; pairs with the release store in adopt(), as in ito__come_home(). */
    uint32_t lent = load_acquire(&worker_of(hot)->lent);
    if (UNLIKELY(lent % ITO__LENT_STATES != ITO__LENT_HOME || load_relaxed(&ito__tls_worker) != hot))
        ito__come_home();
}

#endif
