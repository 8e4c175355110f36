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
 * Exceptions. Where C++ has exceptions (and in C with -fexceptions, for ITO_FORK), a function that an exception leaves
 * between fork and sync gives its tasks back, the last first: one that has not begun never runs, one that has is waited
 * for, and an exception of its own is dropped. In C++ an exception of a task comes out of its ITO_SYNC, also if the task
 * was stolen; a stolen task of C that throws ends the program. Where nothing is thrown it costs a frame for calls that
 * fork nothing (docs/guide/ito.md), and with ITO_FORK_AT a flag that is stored and looked at. longjmp over a fork that is
 * not synced stays forbidden.
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
/* The parent's frame goes before the sync. Nonzero: the task has run; 0: it never will. */
int ito__fork_left(struct ito__fork *fork);
#ifdef __cplusplus
}
#endif

/*
 * What a C or C++ file with exceptions adds. A guard beside each task knows whether the task is synced. It is a variable
 * whose address goes nowhere, so that optimising compilers see its value on each path, and look at it on none:
 *
 *   ITO__PLAIN(fn)    type of a task of ITO_FORK; that of arrays, ito_task_fn, is one with a flag in C++
 *   ITO__ROOM(fn)     the declaration of the latter
 *   ITO__THROWN       where such a task keeps an exception; ITO__RUN sets it, ITO__RETHROW takes it
 *   ITO__GUARD(x), ITO__SYNCED(x)   behind the fork of x, before its sync
 *   ITO__SYNC_SLOW    ito__sync_slow, where the caller may be handling an exception
 */
#if defined(__EXCEPTIONS)
#include <ito/unwind.h>
#endif
#if defined(__cplusplus) && defined(__EXCEPTIONS)
#include <exception>
#include <new>
#include <utility>

namespace ito {
namespace detail {

/* Memory for an exception_ptr, which exists from set(), in a task that ran elsewhere, to take(). */
class thrown {
  public:
    void set(std::exception_ptr &&error) noexcept { new (at) std::exception_ptr(std::move(error)); }
    std::exception_ptr take() noexcept {
        auto *error = reinterpret_cast<std::exception_ptr *>(at);
        std::exception_ptr taken(std::move(*error));
        error->~exception_ptr();
        return taken;
    }

  private:
    alignas(std::exception_ptr) unsigned char at[sizeof(std::exception_ptr)];
};
__attribute__((noinline, cold)) inline void rethrow(thrown *from) {
    std::exception_ptr error = from->take();
    if (error)
        std::rethrow_exception(std::move(error));
}
__attribute__((noinline, cold)) inline int sync_slow(ito__fork *fork) noexcept {
    exceptions guard;
    return ito__sync_slow(fork);
}
__attribute__((noinline, cold)) inline void leave(ito__fork *fork, thrown *error) noexcept {
    exceptions guard;
    if (ito__fork_left(fork))
        error->take();
}

class forked {
  public:
    __attribute__((always_inline)) forked(ito__fork *f, thrown *t) noexcept : fork(f), error(t) {}
    __attribute__((always_inline)) ~forked() {
        if (fork)
            leave(fork, error);
    }
    __attribute__((always_inline)) void synced() noexcept { fork = nullptr; }
    forked(const forked &) = delete;
    forked &operator=(const forked &) = delete;

  private:
    ito__fork *fork;
    thrown *error;
};
template <class Task> ITO__INLINE Task *synced(Task *task) noexcept {
    task->ito_open = false;
    return task;
}

} // namespace detail
} // namespace ito

#define ITO__PLAIN(fn) ito__task_##fn
#define ITO__ROOM(fn)                                                                                                  \
    struct ito_task_##fn : ito__task_##fn {                                                                            \
        bool ito_open = false;                                                                                         \
        ito_task_##fn() = default;                                                                                     \
        ito_task_##fn(const ito_task_##fn &) = delete;                                                                 \
        ito_task_##fn &operator=(const ito_task_##fn &) = delete;                                                      \
        ~ito_task_##fn() {                                                                                             \
            if (ito_open)                                                                                              \
                ito::detail::leave(&ito, &ito_thrown);                                                                 \
        }                                                                                                              \
    };
#define ITO__THROWN ito::detail::thrown ito_thrown;
#define ITO__RUN(t, ...)                                                                                               \
    try {                                                                                                              \
        __VA_ARGS__;                                                                                                   \
        (t)->ito_thrown.set(nullptr);                                                                                  \
    } catch (...) {                                                                                                    \
        (t)->ito_thrown.set(std::current_exception());                                                                 \
    }
#define ITO__RETHROW(t) ito::detail::rethrow(&(t)->ito_thrown);
#define ITO__GUARD(name)                                                                                               \
    ;                                                                                                                  \
    ito::detail::forked name##__ito_guard(&name.ito, &name.ito_thrown)
#define ITO__SYNCED(name) name##__ito_guard.synced(),
#define ITO__SYNC_SLOW ito::detail::sync_slow
/* A function may be left while tasks of an array are forked: each has a flag, and gives itself back. */
#define ITO__FORK_AT(task, fn, ...)                                                                                    \
    ((void)(static_cast<struct ito_task_##fn *>(fn##__ito_fork(task, ##__VA_ARGS__))->ito_open = true))
#define ITO__SYNC_AT(task, fn) fn##__ito_sync(ito::detail::synced(task))

#else

#define ITO__PLAIN(fn) ito_task_##fn
#define ITO__ROOM(fn)
#define ITO__THROWN
#define ITO__RUN(t, ...) __VA_ARGS__;
#define ITO__RETHROW(t)
#define ITO__SYNC_SLOW ito__sync_slow
#define ITO__FORK_AT(task, fn, ...) ((void)fn##__ito_fork(task, ##__VA_ARGS__))
#define ITO__SYNC_AT(task, fn) fn##__ito_sync(task)

#if defined(__EXCEPTIONS)
static __attribute__((noinline, cold, unused)) void ito__fork_leave(struct ito__fork *fork) {
    struct ito__unwind saved, none = {0};
    saved = ito__unwind_exchange(none);
    ito__fork_left(fork);
    ito__unwind_exchange(saved);
}
ITO__INLINE void ito__fork_unguard(struct ito__fork **guard) {
    if (*guard)
        ito__fork_leave(*guard);
}
#define ITO__GUARD(name)                                                                                               \
    ;                                                                                                                  \
    struct ito__fork *name##__ito_guard __attribute__((cleanup(ito__fork_unguard))) = &name.ito
#define ITO__SYNCED(name) name##__ito_guard = 0,
#else
#define ITO__GUARD(name)
#define ITO__SYNCED(name)
#endif
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
    return ITO__SYNC_SLOW(fork);
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
    struct ITO__PLAIN(fn) { struct ito__fork ito; ITO__THROWN RESULT ITO__CAT(ITO__FIELDS_, n)(__VA_ARGS__) }; \
    ITO__ROOM(fn)                                                                                  \
    static __attribute__((unused)) void fn##__ito_run(struct ito__fork *fork) {                    \
        struct ITO__PLAIN(fn) *t = (struct ITO__PLAIN(fn) *)fork;                                  \
        (void)t;                                                                                   \
        ITO__RUN(t, STORE fn(ITO__CAT(ITO__USES_, n)))                                             \
    }                                                                                              \
    ITO__INLINE struct ITO__PLAIN(fn) *fn##__ito_fork(struct ITO__PLAIN(fn) *t ITO__CAT(ITO__PARAMS_, n)(__VA_ARGS__)) { \
        ITO__CAT(ITO__STORES_, n)                                                                  \
        ito__fork_push(&t->ito, fn##__ito_run, #fn);                                               \
        return t;                                                                                  \
    }                                                                                              \
    ITO__INLINE RETURN fn##__ito_sync(struct ITO__PLAIN(fn) *t) {                                  \
        if (ITO__LIKELY(ito__fork_take(&t->ito)))                                                  \
            STORE fn(ITO__CAT(ITO__USES_, n));                                                     \
        else {                                                                                     \
            ITO__RETHROW(t)                                                                        \
        }                                                                                          \
        VALUE                                                                                      \
    }
/* clang-format on */

#define ITO_TASK(type, fn, ...)                                                                                        \
    ITO__TASK(ITO__COUNT(0, ##__VA_ARGS__), type result;, t->result =, type, return t->result;, fn, ##__VA_ARGS__)
#define ITO_TASK_VOID(fn, ...) ITO__TASK(ITO__COUNT(0, ##__VA_ARGS__), , , void, , fn, ##__VA_ARGS__)
#define ITO_FORK(name, fn, ...)                                                                                        \
    struct ITO__PLAIN(fn) name;                                                                                        \
    fn##__ito_fork(&name, ##__VA_ARGS__) ITO__GUARD(name)
#define ITO_SYNC(name, fn) (ITO__SYNCED(name) fn##__ito_sync(&name))
/* The same for tasks in an array: `struct ito_task_fn room[n]`, @task a pointer to one of them. */
#define ITO_FORK_AT(task, fn, ...) ITO__FORK_AT(task, fn, ##__VA_ARGS__)
#define ITO_SYNC_AT(task, fn) ITO__SYNC_AT(task, fn)

#endif
