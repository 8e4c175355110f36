/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/inline.h - the hot paths of ito_create and ito_join, in the caller (#define ITO_INLINE) or in libito: one source.
 *
 * The child runs first, without a fence, a locked instruction or a system call: docs/design/deque.md has the proof.
 * What happens on one worker:
 *
 *   create   take a descriptor; save the caller's context in the slot at the bottom; switch to the slot's stack;
 *            bottom + 1; call fn(arg)
 *   end      bottom - 1; if it is not below `limit` and nobody else knows the thread: store result and DONE, and go
 *            back to the caller's stack
 *   join     if DONE: read the result, give the descriptor back
 *
 * Everything else is a call of ito__create_slow, ito__end_slow, ito__join_slow.
 */
#ifndef ITO_INLINE_H
#define ITO_INLINE_H

#include <ito.h>
#include <ito/types.h>

#ifdef __cplusplus
extern "C" {
#endif
int ito__create_slow(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg);
int ito__join_slow(ito_thread *thread, void **result);
/* The same, and @flags: those of the thread when it ended. */
int ito__join_flags(ito_thread *thread, void **result, uint32_t *flags);
void ito__end_slow(void *result) __attribute__((noreturn));
struct ito__worker *ito__here_slow(void);
void ito__yield_at(void *sp) __attribute__((noreturn));
#ifdef __cplusplus
}
#endif

/* ITO__GENERIC: no fast path. Sanitizers must be told of every switch, and other CPUs have no assembly here. */
#if !defined(ITO__GENERIC)
#if !defined(__x86_64__) || defined(__ILP32__) || defined(ITO_UCONTEXT) || defined(__SANITIZE_ADDRESS__) ||            \
    defined(__SANITIZE_THREAD__)
#define ITO__GENERIC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ITO__GENERIC 1
#endif
#endif
#endif

#define ITO__INLINE static inline __attribute__((always_inline, unused))
#define ITO__LIKELY(x) __builtin_expect(!!(x), 1)
#define ITO__UNLIKELY(x) __builtin_expect(!!(x), 0)

#ifdef __x86_64__
#ifdef __GCC_HAVE_DWARF2_CFI_ASM
/* From the other stack this function's frame cannot be found: tell unwinders that the backtrace ends here. */
#define ITO__CFI_END ".cfi_remember_state\n\t.cfi_undefined rip\n\t"
#define ITO__CFI_BACK ".cfi_restore_state\n\t"
#else
#define ITO__CFI_END
#define ITO__CFI_BACK
#endif

#ifdef __AVX512F__
#define ITO__CLOBBER_WIDE                                                                                              \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",      \
        "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define ITO__CLOBBER_WIDE
#endif
#define ITO__CLOBBER_VECTOR                                                                                            \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",         \
        "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)",                         \
        "st(7)" ITO__CLOBBER_WIDE

#endif

/* The calling kernel thread's worker; &ito__nobody if it is none. By assembly, so that it is read anew each time: a
 * compiler would keep the address of a thread-local variable over a switch, after which another kernel thread runs. */
#ifndef ITO__GENERIC
ITO__INLINE struct ito__worker *ito__here(void) {
    struct ito__worker *w;
    __asm__ volatile("movq ito__tls_worker@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(w));
    return w;
}
#else
ITO__INLINE struct ito__worker *ito__here(void) {
    return ito__here_slow();
}
#endif

/* A relaxed load of what thieves write. Plain on the fast path, where it is one instruction anyway: gcc does not fold
 * an atomic load into the compare. The general path has the atomic load, so ThreadSanitizer and the explorer
 * (threads/tests/explore) see what C11 asks for. */
#ifndef ITO__GENERIC
#define ITO__PEEK(x) (x)
#else
#define ITO__PEEK(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#endif

#ifndef ITO__GENERIC

/*
 * Save the caller's context as context/x86_64.h lays it out, run fn(arg) on the stack `high`, and end the thread.
 *
 * The caller continues at label 1 in one of two ways. If its continuation is still in the deque, the end falls through
 * to it; fn, an ordinary function, has preserved the caller's registers. Otherwise the worker that took the
 * continuation resumes it and pops the registers from its stack.
 *
 * fn preserves rbx (the bottom while it runs) and r12 (the thread), so the end does not wait for loads through the
 * worker: a chain of stores and loads of one word costs 5 cycles a link. A thread that is still PRIVATE at its end has
 * never left the worker it began on. If that worker's deque has grown meanwhile, rbx is not its bottom, and the end
 * takes the slow path.
 *
 * The orders, which assembly cannot name:
 *   the store of `bottom` before the call   release, as every store of x86; pairs with the acquire load of `bottom` in
 *                                           a forced ito__deque_steal(). Publishes the slot and the saved context
 *   the store of `bottom` after the call    relaxed, and so is the load of `limit` that follows. The CPU may swap the
 *                                           two: the partner is the membarrier of a forced steal, as in deque_pop()
 *   result, then DONE                       relaxed: the creator is on this worker, and nobody else knows the thread
 *
 * The asm pushes below the stack pointer, where a leaf function may keep variables (red zone). The function that this
 * is inlined into is no leaf: it contains the call of the slow path.
 */
ITO__INLINE void ito__run_child(struct ito__worker *w, struct ito__slot *slot, struct ito__stack *high,
                                struct ito_thread *t, void *(*fn)(void *), void *arg) {
    register struct ito__stack *r_high __asm__("r8") = high;
    register struct ito_thread *r_t __asm__("r9") = t;
    __asm__ volatile(
        "pushq %%r15\n\tpushq %%r14\n\tpushq %%r13\n\tpushq %%r12\n\tpushq %%rbp\n\tpushq %%rbx\n\t"
        "leaq 1f(%%rip), %%rax\n\tpushq %%rax\n\t"
        "movq %%rsp, %c[sp](%[slot])\n\t" ITO__CFI_END "movq %[high], %%rsp\n\t"
        "leaq %c[slot_size](%[slot]), %%rbx\n\tmovq %[t], %%r12\n\t"
        "movq %%rbx, %c[bottom](%[w])\n\t" /* the push */
        "call *%[fn]\n\t"
        /* The end of the thread, perhaps on another worker. rax: its result. */
        "movq ito__tls_worker@gottpoff(%%rip), %%rcx\n\tmovq %%fs:(%%rcx), %%rcx\n\t"
        "cmpq %[fresh], %c[state](%%r12)\n\tjne 2f\n\t"
        "cmpq %%rbx, %c[bottom](%%rcx)\n\tjne 2f\n\t"
        "subq %[slot_size], %%rbx\n\tmovq %%rbx, %c[bottom](%%rcx)\n\t"
        "cmpq %c[limit](%%rcx), %%rbx\n\tjb 3f\n\t"
        "movq %%rax, %c[result](%%r12)\n\tmovq %[done], %c[state](%%r12)\n\t"
        "movq %c[thread](%%rbx), %%rdi\n\tmovq %%rdi, %c[current](%%rcx)\n\t"
        "movq %c[sp](%%rbx), %%rsp\n\t"
        "movq 8(%%rsp), %%rbx\n\tmovq 24(%%rsp), %%r12\n\taddq $56, %%rsp\n\t"
        ".subsection 1\n\t"
        "3:\n\taddq %[slot_size], %%rbx\n\tmovq %%rbx, %c[bottom](%%rcx)\n\t" /* the slow path pops it, with the lock */
        "2:\n\tmovq %%rax, %%rdi\n\tcall *ito__end_slow@GOTPCREL(%%rip)\n\tud2\n\t"
        ".subsection 0\n\t" ITO__CFI_BACK "1:\n\t"
        : [w] "+c"(w), [slot] "+d"(slot), [fn] "+S"(fn), "+D"(arg), [high] "+r"(r_high), [t] "+r"(r_t)
        : [sp] "i"(offsetof(struct ito__slot, sp)), [thread] "i"(offsetof(struct ito__slot, thread)),
          [slot_size] "i"(sizeof(struct ito__slot)), [bottom] "i"(offsetof(struct ito__worker, bottom)),
          [limit] "i"(offsetof(struct ito__worker, limit)), [current] "i"(offsetof(struct ito__worker, current)),
          [state] "i"(offsetof(struct ito_thread, state)), [result] "i"(offsetof(struct ito_thread, result)),
          [fresh] "i"(ITO__PRIVATE), [done] "i"(ITO__DONE)
        : "rax", "r10", "r11", "memory", "cc", ITO__CLOBBER_VECTOR);
}

/*
 * Three tests keep everything unusual off this path. No free descriptor: n_free is 0. No stack in the slot at the
 * bottom: the thread that was created here last took it along, or there was none yet. No room, a request for work, or a
 * recorder: `end` is at or below the bottom, or null.
 *
 * The stores before ito__run_child are plain: they concern a descriptor and a slot that only this worker knows until
 * the push. After it this code may run on another worker, so it uses `t` and `out` only.
 */
ITO__INLINE int ito__create(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg) {
    struct ito__worker *w = ito__here();
    if (ITO__UNLIKELY(attr != NULL || out == NULL))
        return ito__create_slow(out, attr, fn, arg);
    struct ito__slot *slot = w->bottom;
    struct ito__stack *stack = slot->stack;
    uint32_t n = w->n_free;
    if (ITO__UNLIKELY(n == 0 || stack == NULL || slot >= ITO__PEEK(w->end)))
        return ito__create_slow(out, attr, fn, arg);
    struct ito_thread *t = w->free[n - 1];
    w->n_free = n - 1;
    t->stack = stack;
    t->fn = fn; /* for people: overflow.c, stall.c */
    __atomic_store_n(&t->state, (uintptr_t)ITO__PRIVATE, __ATOMIC_RELAXED);
    slot->thread = (uintptr_t)w->current;
    w->current = t;
    ito__run_child(w, slot, stack, t, fn, arg);
    *out = t;
    return 0;
}

ITO__INLINE int ito__join(ito_thread *thread, void **result) {
    struct ito__worker *w = ito__here();
    uint32_t n = w->n_free;
    /* ORDER acquire; pairs with no release, and needs none: DONE is stored while the creator's continuation waits on
     * the same worker, so the creator, and whoever has the id from it, comes after. The acquire costs nothing on x86
     * and keeps the load of the result below it. */
    if (ITO__UNLIKELY(__atomic_load_n(&thread->state, __ATOMIC_ACQUIRE) != ITO__DONE || n == ITO__FREE_MAX))
        return ito__join_slow(thread, result);
    if (result)
        *result = thread->result;
    __atomic_store_n(&thread->state, ITO__FREE, __ATOMIC_RELAXED);
    w->free[n] = thread;
    w->n_free = n + 1;
    return 0;
}

/*
 * Save the caller's context on its stack and go to ito__yield_at(sp), which does not return: it leaves sp for the
 * worker that resumes the caller. By a jump, not a call: a call without its ret makes the predictor miss later rets (15
 * ns).
 */
ITO__INLINE void ito__leave_to_yield(void) {
    __asm__ volatile(
        "pushq %%r15\n\tpushq %%r14\n\tpushq %%r13\n\tpushq %%r12\n\tpushq %%rbp\n\tpushq %%rbx\n\t"
        "leaq 1f(%%rip), %%rax\n\tpushq %%rax\n\t"
        "movq %%rsp, %%rdi\n\t" ITO__CFI_END "jmp *ito__yield_at@GOTPCREL(%%rip)\n\t" ITO__CFI_BACK "1:\n\t"
        :
        :
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc", ITO__CLOBBER_VECTOR);
}

/* errno belongs to the kernel thread: carry the caller's over. */
ITO__INLINE void ito__yield(void) {
    int saved = *ito__here()->errno_at;
    ito__leave_to_yield();
    *ito__here()->errno_at = saved;
}

#else

ITO__INLINE int ito__create(ito_thread **out, const ito_attr *attr, void *(*fn)(void *), void *arg) {
    return ito__create_slow(out, attr, fn, arg);
}
ITO__INLINE int ito__join(ito_thread *thread, void **result) {
    return ito__join_slow(thread, result);
}

#endif

/* A mutex without an owner takes one locked instruction when it is free. Everything else is in mutex.c. */
ITO__INLINE int ito__mutex_lock(ito_mutex *m) {
    uint32_t free = 0;
    /* ORDER acquire; pairs with the release of whoever unlocked it: ito__mutex_unlock(), mutex_give() or
     * ito__word_unlock(). Shows the critical sections before this one. */
    if (ITO__LIKELY(m->kind == ITO_MUTEX_NORMAL &&
                    __atomic_compare_exchange_n(&m->state, &free, 1u, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        return 0;
    return (ito_mutex_lock)(m);
}
ITO__INLINE int ito__mutex_unlock(ito_mutex *m) {
    uint32_t locked = 1;
    /* ORDER release; pairs with the acquire of whoever locks next. Publishes the critical section, and is the last
     * access to *m: the next holder may destroy it. */
    if (ITO__LIKELY(m->kind == ITO_MUTEX_NORMAL &&
                    __atomic_compare_exchange_n(&m->state, &locked, 0u, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)))
        return 0;
    return (ito_mutex_unlock)(m);
}

#if defined(ITO_INLINE) && !defined(ITO__BUILDING)
#ifndef ITO__GENERIC
#define ito_yield() ito__yield()
#endif
#define ito_create(out, attr, fn, arg) ito__create(out, attr, fn, arg)
#define ito_mutex_lock(m) ito__mutex_lock(m)
#define ito_mutex_unlock(m) ito__mutex_unlock(m)
#define ito_join(thread, result) ito__join(thread, result)
#endif

#endif
