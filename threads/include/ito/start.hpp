/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/start.hpp - how ito.hpp starts the thread of a function object and gets back what it returned or threw, without a
 * heap block. Included by ito.hpp.
 *
 * The child runs first, on the creator's worker, so it moves the function object from its creator's frame to its own
 * stack. A thief may have the creator before that; so the creator looks at `begun` before it goes on, and almost never
 * has to wait. Where the child cannot run first (attributes, a creator that is no worker), where the object is large or
 * its move may throw, it lies in a heap block.
 *
 * What comes back is one word, ito_thread.result:
 *
 *   void                                       null
 *   a trivially copyable T of a word or less   its bytes
 *   another T                                  address of a T on the heap
 *   an exception (flag ITO__THREW)             the std::exception_ptr
 *
 * The last two are *owned* by whoever joins. A thread that is let go of has nobody who joins, so it and the one who lets
 * go of it exchange the word: the second of the two, who sees what the first has left, deletes it.
 */
#ifndef ITO_START_HPP
#define ITO_START_HPP

#include <ito/fork.h>
#include <ito/unwind.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ito {
namespace detail {

/* Between a creator and its child, in the frame of the creator. */
struct handed {
    void *function;
    unsigned begun;

    /* The child's last look at the creator's frame. */
    void begin() noexcept {
        /* ORDER release; pairs with the acquire load in wait(). The object was moved; the frame may go. */
        __atomic_store_n(&begun, 1u, __ATOMIC_RELEASE);
    }
    __attribute__((always_inline)) void wait() noexcept {
        /* ORDER acquire; pairs with the release store in begin(). */
        if (ITO__UNLIKELY(!__atomic_load_n(&begun, __ATOMIC_ACQUIRE)))
            wait_slow();
    }
    /* The child was interrupted between its first instruction and its move, which cannot last. */
    __attribute__((noinline, cold)) void wait_slow() noexcept {
        exceptions guard;
        /* ORDER acquire; pairs with the release store in begin(). */
        while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
            (ito_yield)();
    }
};

/* Whether the object goes to the child's stack. A large one would take a good part of it. */
template <class F>
inline constexpr bool is_movable_to_child = std::is_nothrow_move_constructible_v<F> && sizeof(F) <= 1024;
inline bool is_worker() noexcept {
    return ito__here() != &ito__nobody;
}

/* -- the word ------------------------------------------------------------------------------------------------------ */

template <class T>
inline constexpr bool is_word = std::is_void_v<T> || (std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(void *));
template <> inline constexpr bool is_word<void> = true;

static_assert(sizeof(std::exception_ptr) == sizeof(void *), "ito.hpp: this C++ library's exception_ptr is no pointer");

/* The result of a thread that was let go of while it ran. No object has this address. */
inline void *let_go() noexcept {
    return reinterpret_cast<void *>(std::uintptr_t{1});
}

inline void *word_of(std::exception_ptr &&error) noexcept {
    alignas(std::exception_ptr) unsigned char at[sizeof error];
    void *word;
    new (at) std::exception_ptr(std::move(error));
    std::memcpy(&word, at, sizeof word);
    return word;
}
inline std::exception_ptr exception_of(void *word) noexcept {
    alignas(std::exception_ptr) unsigned char at[sizeof word];
    std::memcpy(at, &word, sizeof word);
    auto *from = std::launder(reinterpret_cast<std::exception_ptr *>(at));
    std::exception_ptr error(std::move(*from));
    from->~exception_ptr();
    return error;
}
template <class T> T value_of(void *word) {
    if constexpr (is_word<T>) {
        alignas(T) unsigned char at[sizeof(T)];
        std::memcpy(at, &word, sizeof(T));
        return *std::launder(reinterpret_cast<T *>(at));
    } else {
        std::unique_ptr<T> value(static_cast<T *>(word));
        return std::move(*value);
    }
}
template <class T> void drop(void *word, bool threw) noexcept {
    if (threw)
        exception_of(word);
    else if constexpr (!is_word<T>)
        delete static_cast<T *>(word);
}

/* -- the child ----------------------------------------------------------------------------------------------------- */

/* Leaves what somebody has to delete. Returns what the thread is to end with. */
template <class T> __attribute__((noinline)) void *leave_owned(void *word, bool threw) noexcept {
    ito_thread *me = ito__here()->current;
    if (threw) {
        me->flags |= ITO__THREW;
        ito_self(); /* joined by the slow path, which looks at the flag */
    }
    /* ORDER acq_rel; pairs with the exchange in let_thread_go(): one of the two sees the other's. */
    if (__atomic_exchange_n(&me->result, word, __ATOMIC_ACQ_REL) != let_go())
        return word;
    drop<T>(word, threw);
    return nullptr;
}

template <class T, class F> void *run(F &f) noexcept {
    try {
        if constexpr (std::is_void_v<T>) {
            f();
            return nullptr;
        } else if constexpr (is_word<T>) {
            T value = f();
            void *word = nullptr;
            std::memcpy(&word, &value, sizeof value);
            return word;
        } else {
            return leave_owned<T>(new T(f()), false);
        }
    } catch (...) {
        return leave_owned<T>(word_of(std::current_exception()), true);
    }
}

template <class T, class F> void *child_main(void *arg) noexcept {
    auto *from = static_cast<handed *>(arg);
    F f(std::move(*static_cast<F *>(from->function)));
    /* Relaxed: the creator, who may let go of this thread, has not gone on. */
    __atomic_store_n(&ito__here()->current->result, nullptr, __ATOMIC_RELAXED);
    from->begin();
    return run<T>(f);
}
template <class T, class F> void *child_main_of_heap(void *arg) noexcept {
    std::unique_ptr<F> f(static_cast<F *>(arg));
    return run<T>(*f);
}

/* -- its creator --------------------------------------------------------------------------------------------------- */

/* The child runs main(&to) first, and calls to.begin(). */
inline int start_here(ito_thread **out, void *(*main)(void *), handed &to) noexcept {
    exceptions guard;
    int error = ito__create(out, nullptr, main, &to);
    if (ITO__LIKELY(error == 0))
        to.wait();
    return error;
}
/* `f` may be moved from when the call has succeeded. Returns an error of ito_create; throws what copying `f` does. */
template <class T, class F> int start(ito_thread **out, const ito_attr *attr, F &&f) {
    using object = std::decay_t<F>;
    if constexpr (is_movable_to_child<object>) {
        if (ITO__LIKELY(attr == nullptr && is_worker())) {
            if constexpr (std::is_same_v<F, object>) {
                handed to = {&f, 0};
                return start_here(out, child_main<T, object>, to);
            } else {
                object copy(std::forward<F>(f));
                handed to = {&copy, 0};
                return start_here(out, child_main<T, object>, to);
            }
        }
    }
    auto copy = std::make_unique<object>(std::forward<F>(f));
    exceptions guard;
    int error = ito__create_slow(out, attr, child_main_of_heap<T, object>, copy.get());
    if (error == 0)
        copy.release();
    return error;
}

struct joined {
    int error;
    bool threw;
    void *word;
};
ITO__INLINE joined join_thread(ito_thread *thread) noexcept {
    joined end = {0, false, nullptr};
#ifndef ITO__GENERIC
    /* ORDER acquire; pairs with no release, and needs none, as in ito__join(). */
    if (ITO__LIKELY(__atomic_load_n(&thread->state, __ATOMIC_ACQUIRE) == ITO__DONE)) {
        ito__join(thread, &end.word);
        return end;
    }
#endif
    exceptions guard;
    std::uint32_t flags = 0;
    end.error = ito__join_flags(thread, &end.word, &flags);
    end.threw = flags & ITO__THREW;
    return end;
}

/* As ito_detach. */
template <class T> int let_thread_go(ito_thread *thread) noexcept {
    /* ORDER acq_rel; pairs with the exchange in leave_owned(): one of the two sees the other's. */
    void *word = __atomic_exchange_n(&thread->result, let_go(), __ATOMIC_ACQ_REL);
    if (word == nullptr)
        return ito_detach(thread);
    /* It has ended, or is about to. */
    joined end = join_thread(thread);
    if (end.error == 0)
        drop<T>(word, end.threw);
    return end.error;
}

} // namespace detail
} // namespace ito

#endif
