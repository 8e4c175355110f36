/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The pool, the calling thread and its worker. These functions are in a file of their own and never inlined: compilers keep the
 * address of a thread-local variable over calls, but a thread may be on another kernel thread, with other thread-local
 * variables, after any call that may switch.
 */
#include "core/internal.h"

struct ito__pool ito__pool;
const struct ito__above *ito__above;

static struct ito__slot no_slots[3];
static int no_errno; /* read and written by the inline ito_yield of foreign threads: each writes what it read */
struct ito__worker ito__nobody = {
    .errno_at = &no_errno,
    .bottom = no_slots + 1,
    .limit = no_slots + 2,
    .end = no_slots + 1,
    .ask = ~0u,
    .n_free = ITO__FREE_MAX,
};
__thread struct ito__worker *ito__tls_worker __attribute__((tls_model("initial-exec"))) = &ito__nobody;
static __thread struct ito_thread foreign;
/* In the child of a fork: the thread that forked, which is no worker's any more but keeps its id, locks and keys. */
static __thread struct ito_thread *adopted;

__attribute__((noinline)) struct ito__worker *ito__here_slow(void) {
    ito__be_home();
    struct ito__worker *w = ito__tls_worker;
    __asm__ volatile("" : "+r"(w)); /* not pure, whatever the compiler finds out */
    return w;
}

__attribute__((noinline)) struct ito__worker *ito__worker(void) {
    ito__be_home();
    struct ito__worker *w = ito__tls_worker;
    __asm__ volatile("" : "+r"(w));
    return w == &ito__nobody ? NULL : w;
}

__attribute__((noinline)) void ito__set_here(struct worker *w) {
    ito__tls_worker = w ? &w->hot : &ito__nobody;
}

/* The descriptor of a kernel thread that is no worker is thread-local and set up at its first use; it lives as long as
 * the kernel thread, so a waker may use it until the thread has been woken. */
__attribute__((noinline)) struct ito_thread *ito__self(void) {
    ito__be_home();
    struct ito__worker *w = ito__tls_worker;
    __asm__ volatile("" : "+r"(w));
    if (w != &ito__nobody)
        return w->current;
    struct ito_thread *me = adopted ? adopted : &foreign;
    if (!(me->flags & ITO__FOREIGN)) {
        me->flags = ITO__FOREIGN;
        me->state = ITO__DETACHED;
        me->bind = -1;
    }
    return me;
}

struct ito_thread *ito__forked(void) {
    return adopted;
}

#ifdef ITO__OWN_TLS
/* The caller, a thread that is no worker's for a time, keeps its id, locks and keys; null: it is a worker's again. */
__attribute__((noinline)) void ito__keep_self(struct ito_thread *t) {
    struct ito_thread *kept = t ? t : adopted;
    kept->flags = t ? kept->flags | ITO__FOREIGN : kept->flags & ~(uint32_t)ITO__FOREIGN;
    adopted = t;
}
#endif

void ito__leave_worker(void) {
    struct ito__worker *w = ito__worker();
    if (w == NULL)
        return;
    adopted = w->current;
    adopted->flags = 0; /* foreign at its next use */
    ito__set_here(NULL);
}

ito_thread *ito_self(void) {
    struct ito_thread *me = ito__self();
    ito__expose(me); /* the id escapes */
    return me;
}

unsigned ito_worker_index(void) {
    struct ito__worker *w = ito__worker();
    return w ? worker_of(w)->index : UINT32_MAX;
}

unsigned ito_n_workers(void) {
    return ito__pool.n_workers;
}
