/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Atomics with the order in the name. They work on plain objects, so that inline code and C++ see plain types.
 *
 * Each use of one that is not relaxed has a note, ORDER, that names its partner (CONTRIBUTING.md; tests/lint checks
 * it). A compare-and-swap that fails acquires, since its callers look at the value that they found instead.
 */
#ifndef ITO_PRIM_ATOMIC_H
#define ITO_PRIM_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#define load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define exchange_acq_rel(p, v) __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)
#define add_acq_rel(p, v) __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL)
#define sub_acq_rel(p, v) __atomic_fetch_sub(p, v, __ATOMIC_ACQ_REL)
#define or_acq_rel(p, v) __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL)
#define and_acq_rel(p, v) __atomic_fetch_and(p, v, __ATOMIC_ACQ_REL)
#define cas_acq_rel(p, expected, v)                                                                                    \
    __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#ifdef __SANITIZE_THREAD__
/* What clang compiles a fence to under ThreadSanitizer. gcc does too, but says that the sanitizer does not know of fences,
 * which is an error here: what they order are the atomics of ito's own protocols, which it checks nothing of. */
void __tsan_atomic_thread_fence(int order); /* in a header of clang's, not of gcc's */
#define fence_seq_cst() __tsan_atomic_thread_fence(__ATOMIC_SEQ_CST)
#else
#define fence_seq_cst() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
/* Keeps the compiler, not the CPU, from moving accesses across it. Its partner is a membarrier(2) of another thread,
 * which makes the CPU run a full barrier here. */
#define compiler_barrier() __asm__ volatile("" : : : "memory")

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#else
    compiler_barrier(); /* ORDER none; it pairs with nothing: a loop that waits must read memory again */
#endif
}

#endif
