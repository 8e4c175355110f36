/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread runs into the guard of its stack: print which thread, how large its stack is and what to do, then die as any
 * program does that touches memory it must not (SIGSEGV, with a core file where they are on).
 *
 * The handler is installed only if the program has none, and it needs a stack of its own: each worker gets a signal
 * stack, unless the kernel thread has one already. A frame larger than the guard (stack.c) may jump over it; gcc's and
 * clang's -fstack-clash-protection touches every page on the way.
 */
#define _GNU_SOURCE
#include "base/say.h"
#include "core/internal.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIGNAL_STACK_BYTES ((size_t)65536) /* AVX-512 and AMX state alone are 11 KB */

static struct sigaction overflow_before; /* what SIGSEGV did, when `overflow_installed` */
static bool overflow_installed;
static __thread void *signal_stack; /* of this kernel thread; mapped here, not by the program */

/* Calls only what a signal handler may call. */
static void overflow_say(const struct ito_thread *thread, const char *at, const void *code) {
    size_t bytes = (size_t)((char *)thread->stack - thread->stack->low);
    size_t needed = (size_t)((char *)thread->stack - at), enough = 2 * ito__stack_bytes(thread->stack);
    while (enough < 2 * needed)
        enough *= 2;
    struct ito__text t = {.n = 0};
    ito__text_add(&t, "ito: error: stack overflow in thread ");
    ito__text_thread(&t, thread);
    if (code) {
        ito__text_add(&t, ", in ");
        ito__text_function(&t, code);
    }
    ito__text_add(&t, ": its stack has ");
    ito__text_number(&t, bytes);
    ito__text_add(&t, " bytes, it uses ");
    ito__text_number(&t, needed);
    ito__text_add(&t, " or more; give it more by ito_attr.stack_bytes, or all by ito_config.stack_bytes or ITO_STACK=");
    ito__text_number(&t, enough >> 10);
    ito__text_add(&t, "K");
    ito__text_write(&t);
}

/* Only a fault between the lowest byte of the mapping and the usable part of the running thread's own stack is an
 * overflow; the root thread's stack is the kernel's affair. */
static void overflow_handler(int signal, siginfo_t *info, void *context) {
    const struct ito__worker *w = ito__tls_worker;
    const struct ito_thread *t = w ? w->current : NULL;
    const char *at = info->si_addr;
    if (t && t->stack && !(t->flags & ITO__ROOT) && at >= t->stack->map && at < t->stack->low)
        overflow_say(t, at, ito__prim_interrupted(context));
    /* Return to the same instruction, now without a handler. */
    sigaction(signal, &overflow_before, NULL);
}

/* A program with a handler of its own keeps it. */
void ito__overflow_start(void) {
    struct sigaction now, ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = overflow_handler;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_flags & SA_SIGINFO || now.sa_handler != SIG_DFL)
        return;
    overflow_before = now;
    overflow_installed = sigaction(SIGSEGV, &ours, NULL) == 0;
}

/* Unless the program has installed another handler since. */
void ito__overflow_stop(void) {
    struct sigaction now;
    if (overflow_installed && sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
        now.sa_sigaction == overflow_handler)
        sigaction(SIGSEGV, &overflow_before, NULL);
    overflow_installed = false;
}

void ito__overflow_worker_start(void) {
    stack_t now, ours = {.ss_size = SIGNAL_STACK_BYTES};
    if (!overflow_installed || sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE))
        return;
    /* No memory: an overflow will end the program without a message. */
    if ((ours.ss_sp = ito__prim_map(SIGNAL_STACK_BYTES)) == NULL)
        return;
    if (sigaltstack(&ours, NULL) == 0)
        signal_stack = ours.ss_sp;
    else
        ito__prim_unmap(ours.ss_sp, SIGNAL_STACK_BYTES);
}

void ito__overflow_worker_stop(void) {
    stack_t now, none = {.ss_flags = SS_DISABLE};
    if (signal_stack == NULL)
        return;
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == signal_stack)
        sigaltstack(&none, NULL);
    ito__prim_unmap(signal_stack, SIGNAL_STACK_BYTES);
    signal_stack = NULL;
}
