/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Contexts by <ucontext.h>: for CPUs without assembly here, and to test that path anywhere (-DITO_UCONTEXT). Slow: each
 * switch is a system call, since ucontexts carry a signal mask. The ucontext_t lies on the stack it belongs to.
 */
#include "context/context.h"

#include <stddef.h>
#include <stdint.h>

#ifdef ITO__CONTEXT_C
#include <ucontext.h>

/* Left by the context that switches for the one it switches to, which reads it at once, on the same kernel thread. */
static __thread void (*pending_after)(void *);
static __thread void *pending_arg;

static __attribute__((noinline)) void run_pending(void) {
    void (*after)(void *) = pending_after;
    void *arg = pending_arg;
    pending_after = NULL;
    if (after)
        after(arg);
}

static __attribute__((noinline)) void leave_pending(void (*after)(void *), void *arg) {
    pending_after = after;
    pending_arg = arg;
}

void ito__context_switch(void **save, void *to, void (*after)(void *), void *arg) {
    ucontext_t here;
    *save = &here;
    leave_pending(after, arg);
    swapcontext(&here, to);
    run_pending();
}

void ito__context_jump(void *to, void (*after)(void *), void *arg) {
    leave_pending(after, arg);
    setcontext(to);
    __builtin_unreachable();
}

static void first(unsigned high, unsigned low) {
    void (*entry)(void) = (void (*)(void))(uintptr_t)((uint64_t)high << 32 | low);
    run_pending();
    entry();
}

/* The first context of a stack lies at its high end, below it the stack proper. `low` is not needed: makecontext only
 * computes the initial stack pointer from it. */
static ucontext_t *make(void *high, void (*entry)(void)) {
    ucontext_t *context = (ucontext_t *)(((uintptr_t)high - sizeof *context) & ~(uintptr_t)63);
    size_t bytes = 8192;
    getcontext(context);
    context->uc_link = NULL;
    context->uc_stack.ss_sp = (char *)context - bytes;
    context->uc_stack.ss_size = bytes;
    uint64_t address = (uintptr_t)entry;
    makecontext(context, (void (*)(void))first, 2, (unsigned)(address >> 32), (unsigned)address);
    return context;
}

void ito__context_start(void **save, void *high, void (*entry)(void)) {
    ucontext_t here;
    *save = &here;
    leave_pending(NULL, NULL);
    swapcontext(&here, make(high, entry));
    run_pending();
}

void *ito__context_make(void *high, void (*entry)(void)) {
    return make(high, entry);
}
#endif
