/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/fork.h - fork and sync for calls whose function the compiler sees: no thread unless a worker steals the task.
 *
 *     long fib(int n);
 *     ITO_TASK(long, fib, int)             // once, at file scope: result, function, up to 6 argument types
 *
 *     long fib(int n) {
 *         if (n < 2)
 *             return n;
 *         ITO_FORK(x, fib, n - 1);         // declares x: fib(n - 1) may run from here on
 *         long y = fib(n - 2);
 *         return ITO_SYNC(x, fib) + y;     // runs it now, as a plain call, unless it was stolen
 *     }
 *
 * Functions without a result: ITO_TASK_VOID(fn, types...). Many tasks at once: ITO_FORK_AT, ITO_SYNC_AT.
 *
 * A function syncs its tasks in the reverse order of their forks, all of them, before it returns. A task may block,
 * create threads and be stolen; then it becomes a full thread. A task that would run on a nearly full stack gets a
 * stack of its own. In a kernel thread that is no worker, a task runs at its sync.
 *
 * Cost: bench/ito. Design: docs/design/deque.md, "Forked tasks"; after Lace (T. van Dijk, J. van de Pol, 2014).
 */
#ifndef ITO_FORK_H
#define ITO_FORK_H

#include <ito/inline.h>

#ifdef __cplusplus
extern "C" {
#endif
void ito__fork_slow(struct ito__fork *fork, const char *name);
int ito__sync_slow(struct ito__fork *fork);
#ifdef __cplusplus
}
#endif

ITO__INLINE void ito__fork_push(struct ito__fork *fork, void (*run)(struct ito__fork *), const char *name) {
    struct ito__worker *w = ito__here();
    /* Only the owner writes `bottom`, so a plain load would do. The load is atomic because gcc counts an atomic load as
     * a call when it guesses which way a branch goes, and then splits a function that begins `if (leaf) return` there:
     * a leaf is no call any more, which saves fib a tenth to a quarter of its time (docs/design/notes/deque.md). */
    struct ito__slot *slot = __atomic_load_n(&w->bottom, __ATOMIC_RELAXED);
    fork->run = run;
    if (ITO__UNLIKELY(slot >= ITO__PEEK(w->end))) {
        ito__fork_slow(fork, name);
        return;
    }
    __atomic_store_n(&fork->state, (uintptr_t)slot, __ATOMIC_RELAXED);
    slot->thread = (uintptr_t)fork + 1;
    /* ORDER release; pairs with the acquire load of `bottom` in a forced ito__deque_steal(). Publishes the slot and the
     * task's frame. Without it a thief reads an unwritten slot (threads/tests/explore, control push_relaxed). */
    __atomic_store_n(&w->bottom, slot + 1, __ATOMIC_RELEASE);
}

/* Is too little left of the stack to run a task on it? On x86 the stack pointer is compared, not the frame's address:
 * so no register has to keep that address over the calls. */
ITO__INLINE int ito__fork_is_low(const struct ito__fork *fork, const struct ito__stack *stack) {
#if !defined(ITO__GENERIC) && defined(__GCC_ASM_FLAG_OUTPUTS__)
    int low;
    (void)fork;
    __asm__ volatile("cmpq %1, %%rsp" : "=@ccb"(low) : "m"(stack->fork_low));
    return low;
#else
    return (const char *)fork < stack->fork_low;
#endif
}

/*
 * Nonzero: the caller runs the task now. 0: it was stolen and has run.
 *
 * The state names the task's slot until the task is taken. So one comparison with `bottom` tells both that this is
 * still the worker whose deque the task is in and that nothing lies above it. The load is relaxed: an old value names a
 * slot that a thief has taken, which the limit tells, as for every pop.
 */
ITO__INLINE int ito__fork_take(struct ito__fork *fork) {
    uintptr_t slot = __atomic_load_n(&fork->state, __ATOMIC_RELAXED);
    struct ito__worker *w = ito__here();
    if (ITO__LIKELY((uintptr_t)w->bottom == slot + sizeof(struct ito__slot) &&
                    !ito__fork_is_low(fork, w->current->stack))) {
        __atomic_store_n(&w->bottom, (struct ito__slot *)slot, __ATOMIC_RELAXED);
        /* ORDER none in hardware: the partner is the membarrier of a forced ito__deque_steal(), as in deque_pop(). */
        __asm__ volatile("" : : : "memory");
        if (ITO__LIKELY(slot >= (uintptr_t)ITO__PEEK(w->limit)))
            return 1;
        /* The slow path pops it again, holding the lock.
         * ORDER release; pairs with the acquire load in a forced ito__deque_steal(), like the push that this
         * repeats. */
        __atomic_store_n(&w->bottom, (struct ito__slot *)slot + 1, __ATOMIC_RELEASE);
    }
    return ito__sync_slow(fork);
}

/* clang-format off */
#define ITO__CAT(a, b) ITO__CAT_(a, b)
#define ITO__CAT_(a, b) a##b
#define ITO__COUNT(...) ITO__COUNT_(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)
#define ITO__COUNT_(a, b, c, d, e, f, g, n, ...) n

/* For each number of arguments: the fields of the frame, the parameters, the stores into the frame, the uses. */
#define ITO__FIELDS_0()
#define ITO__FIELDS_1(A) A a;
#define ITO__FIELDS_2(A, B) A a; B b;
#define ITO__FIELDS_3(A, B, C) A a; B b; C c;
#define ITO__FIELDS_4(A, B, C, D) A a; B b; C c; D d;
#define ITO__FIELDS_5(A, B, C, D, E) A a; B b; C c; D d; E e;
#define ITO__FIELDS_6(A, B, C, D, E, F) A a; B b; C c; D d; E e; F f;
#define ITO__PARAMS_0()
#define ITO__PARAMS_1(A) , A a
#define ITO__PARAMS_2(A, B) , A a, B b
#define ITO__PARAMS_3(A, B, C) , A a, B b, C c
#define ITO__PARAMS_4(A, B, C, D) , A a, B b, C c, D d
#define ITO__PARAMS_5(A, B, C, D, E) , A a, B b, C c, D d, E e
#define ITO__PARAMS_6(A, B, C, D, E, F) , A a, B b, C c, D d, E e, F f
#define ITO__STORES_0
#define ITO__STORES_1 t->a = a;
#define ITO__STORES_2 ITO__STORES_1 t->b = b;
#define ITO__STORES_3 ITO__STORES_2 t->c = c;
#define ITO__STORES_4 ITO__STORES_3 t->d = d;
#define ITO__STORES_5 ITO__STORES_4 t->e = e;
#define ITO__STORES_6 ITO__STORES_5 t->f = f;
#define ITO__USES_0
#define ITO__USES_1 t->a
#define ITO__USES_2 ITO__USES_1, t->b
#define ITO__USES_3 ITO__USES_2, t->c
#define ITO__USES_4 ITO__USES_3, t->d
#define ITO__USES_5 ITO__USES_4, t->e
#define ITO__USES_6 ITO__USES_5, t->f

#define ITO__TASK(n, RESULT, STORE, RETURN, VALUE, fn, ...)                                        \
    struct ito_task_##fn { struct ito__fork ito; RESULT ITO__CAT(ITO__FIELDS_, n)(__VA_ARGS__) };  \
    static __attribute__((unused)) void fn##__ito_run(struct ito__fork *fork) {                    \
        struct ito_task_##fn *t = (struct ito_task_##fn *)fork;                                    \
        (void)t;                                                                                   \
        STORE fn(ITO__CAT(ITO__USES_, n));                                                         \
    }                                                                                              \
    ITO__INLINE void fn##__ito_fork(struct ito_task_##fn *t ITO__CAT(ITO__PARAMS_, n)(__VA_ARGS__)) { \
        ITO__CAT(ITO__STORES_, n)                                                                  \
        ito__fork_push(&t->ito, fn##__ito_run, #fn);                                               \
    }                                                                                              \
    ITO__INLINE RETURN fn##__ito_sync(struct ito_task_##fn *t) {                                   \
        if (ITO__LIKELY(ito__fork_take(&t->ito)))                                                  \
            STORE fn(ITO__CAT(ITO__USES_, n));                                                     \
        VALUE                                                                                      \
    }
/* clang-format on */

#define ITO_TASK(type, fn, ...)                                                                                        \
    ITO__TASK(ITO__COUNT(0, ##__VA_ARGS__), type result;, t->result =, type, return t->result;, fn, ##__VA_ARGS__)
#define ITO_TASK_VOID(fn, ...) ITO__TASK(ITO__COUNT(0, ##__VA_ARGS__), , , void, , fn, ##__VA_ARGS__)
#define ITO_FORK(name, fn, ...)                                                                                        \
    struct ito_task_##fn name;                                                                                         \
    fn##__ito_fork(&name, ##__VA_ARGS__)
#define ITO_SYNC(name, fn) fn##__ito_sync(&name)
/* The same for tasks in an array: `struct ito_task_fn room[n]`, @task a pointer to one of them. */
#define ITO_FORK_AT(task, fn, ...) fn##__ito_fork(task, ##__VA_ARGS__)
#define ITO_SYNC_AT(task, fn) fn##__ito_sync(task)

#endif
