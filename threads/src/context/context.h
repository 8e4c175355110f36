/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A context is a stack pointer: callee-saved registers and the address to continue at lie on the stack it points to.
 * docs/design/context.md has the layouts, one for each CPU. Control words of the floating-point unit are not part of it
 * (stmxcsr + ldmxcsr cost 3.4 ns, more than the rest); a thread that changes them must not switch until it has set them
 * back.
 *
 *   ito__context_switch  save the caller's context to *save, continue `to`; there, before it goes on, run after(arg)
 *                        (null: nothing)
 *   ito__context_jump    the same without saving
 *   ito__context_start   save the caller's context to *save, run entry() on the empty stack whose high end is `high`
 *   ito__context_make    a context that will run entry() on an empty stack
 * entry() never returns.
 */
#ifndef ITO_CONTEXT_H
#define ITO_CONTEXT_H

#if defined(__x86_64__) && !defined(__ILP32__) && !defined(ITO_UCONTEXT)
#include "context/x86_64.h"
#else
#if defined(ITO_UCONTEXT) ||                                                                                           \
    !(defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64) || (defined(__arm__) && __ARM_ARCH >= 7))
#define ITO__CONTEXT_C 1
#endif
void ito__context_switch(void **save, void *to, void (*after)(void *), void *arg);
void ito__context_jump(void *to, void (*after)(void *), void *arg) __attribute__((noreturn));
void ito__context_start(void **save, void *high, void (*entry)(void));
void *ito__context_make(void *high, void (*entry)(void));
#endif

#endif
