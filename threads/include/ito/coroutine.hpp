/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/coroutine.hpp - C++20 coroutines and ito's threads: each may wait for the other. Header only; gcc 11, clang 14 or
 * newer. Not included by ito.hpp.
 *
 * A coroutine that is resumed by a light thread runs on its stack, so it may call whatever blocks (mutexes, channels,
 * ito_read): its worker runs others meanwhile. So what a bridge needs is little: a coroutine that goes to a thread
 * (schedule, on_thread), a thread that waits for a coroutine (sync_wait), and several at once (when_all).
 *
 * Rejected: a scheduler of std::execution (P2300). No standard library has it in the compilers that this must build with,
 * so it would bring a reference implementation along; libraries of coroutines are there, and wrap into senders.
 */
#ifndef ITO_COROUTINE_HPP
#define ITO_COROUTINE_HPP

#include <ito.hpp>

#include <coroutine>

namespace ito {

template <class T = void> class task;

namespace detail {

/* What awaiting an A gives. */
template <class A> decltype(auto) awaiter_of(A &&a) {
    if constexpr (requires { static_cast<A &&>(a).operator co_await(); })
        return static_cast<A &&>(a).operator co_await();
    else if constexpr (requires { operator co_await(static_cast<A &&>(a)); })
        return operator co_await(static_cast<A &&>(a));
    else
        return static_cast<A &&>(a);
}
template <class A> using awaited = decltype(awaiter_of(std::declval<A>()).await_resume());

template <class T> struct result_of {
    std::optional<T> value;
    std::exception_ptr error;
    template <class V> void return_value(V &&v) { value.emplace(std::forward<V>(v)); }
    void unhandled_exception() noexcept { error = std::current_exception(); }
    T take() {
        if (error)
            std::rethrow_exception(error);
        return std::move(*value);
    }
};
template <> struct result_of<void> {
    std::exception_ptr error;
    void return_void() noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }
    void take() {
        if (error)
            std::rethrow_exception(error);
    }
};

/* A coroutine that awaited another goes on when that one ends, on the thread where it ends. */
template <class T> struct task_promise : result_of<T> {
    std::coroutine_handle<> next;
    task<T> get_return_object() noexcept;
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct at_end {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<task_promise> ended) noexcept {
            return ended.promise().next;
        }
        void await_resume() noexcept {}
    };
    at_end final_suspend() noexcept { return {}; }
};

/* Runs in a light thread of its own, which nobody joins. */
inline void resume_in_thread(std::coroutine_handle<> coroutine) {
    auto main = [](void *address) -> void * {
        std::coroutine_handle<>::from_address(address).resume();
        return nullptr;
    };
    check(switching([&] { return ito_create(nullptr, nullptr, main, coroutine.address()); }), "ito_create");
}

} // namespace detail

/*
 * A coroutine that begins when it is awaited, and gives a T or throws. One awaits it, once.
 *
 *     ito::task<int> twice(int n) { co_await ito::schedule(); co_return 2 * n; }
 */
template <class T> class [[nodiscard]] task {
  public:
    using promise_type = detail::task_promise<T>;
    task(task &&other) noexcept : coroutine(std::exchange(other.coroutine, nullptr)) {}
    task &operator=(task &&other) noexcept {
        std::swap(coroutine, other.coroutine);
        return *this;
    }
    ~task() {
        if (coroutine)
            coroutine.destroy();
    }

    auto operator co_await() &&noexcept {
        struct awaiter {
            std::coroutine_handle<promise_type> coroutine;
            bool await_ready() noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> next) noexcept {
                coroutine.promise().next = next;
                return coroutine;
            }
            T await_resume() { return coroutine.promise().take(); }
        };
        return awaiter{coroutine};
    }

  private:
    friend promise_type;
    explicit task(std::coroutine_handle<promise_type> of) noexcept : coroutine(of) {}
    std::coroutine_handle<promise_type> coroutine;
};
template <class T> task<T> detail::task_promise<T>::get_return_object() noexcept {
    return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}

/* co_await ito::schedule(): goes on in a light thread of its own. Whoever resumed the coroutine goes on too. */
inline auto schedule() noexcept {
    struct awaiter {
        bool await_ready() noexcept { return false; }
        /* The coroutine, and this object in it, may be gone when it returns. */
        void await_suspend(std::coroutine_handle<> coroutine) { detail::resume_in_thread(coroutine); }
        void await_resume() noexcept {}
    };
    return awaiter{};
}

/* co_await ito::on_thread(f): f() in a light thread, whose stack is its own: recursion, large arrays, calls that block. The
 * coroutine goes on there, with what f returns or throws. */
template <class F> auto on_thread(F f) {
    using result = std::invoke_result_t<F &>;
    struct awaiter {
        F f;
        detail::result_of<result> out{};
        std::coroutine_handle<> coroutine{};
        bool await_ready() noexcept { return false; }
        void await_suspend(std::coroutine_handle<> of) {
            coroutine = of;
            auto main = [](void *self) -> void * {
                auto *mine = static_cast<awaiter *>(self);
                try {
                    if constexpr (std::is_void_v<result>)
                        mine->f();
                    else
                        mine->out.return_value(mine->f());
                } catch (...) {
                    mine->out.unhandled_exception();
                }
                mine->coroutine.resume();
                return nullptr;
            };
            detail::check(detail::switching([&] { return ito_create(nullptr, nullptr, main, this); }), "ito_create");
        }
        result await_resume() { return out.take(); }
    };
    return awaiter{std::move(f)};
}

namespace detail {

/* A coroutine whose end signals a thread, which then destroys it. */
template <class T> struct waited {
    struct promise_type : result_of<T> {
        ito_uncond *done = nullptr; /* of the thread that waits: this frame may be gone right after the signal */
        waited get_return_object() noexcept { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        struct at_end {
            bool await_ready() noexcept { return false; }
            void await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
                ito_uncond_signal(ended.promise().done);
            }
            void await_resume() noexcept {}
        };
        at_end final_suspend() noexcept { return {}; }
    };
    std::coroutine_handle<promise_type> coroutine;
};
template <class T, class A> waited<T> wait_for(A &a) {
    co_return co_await static_cast<A &&>(a);
}

/* A coroutine that destroys itself at its end. */
struct unowned {
    struct promise_type {
        unowned get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

} // namespace detail

/* Waits for an awaitable of any library, and returns what it gives or throws what it throws. Blocks the calling thread, not
 * its worker; a kernel thread that is no worker waits in the kernel. */
template <class A> detail::awaited<A> sync_wait(A &&a) {
    using T = detail::awaited<A>;
    static_assert(!std::is_reference_v<T>, "ito::sync_wait: what is awaited gives a reference");
    ito_uncond done = ITO_UNCOND_INIT;
    auto waits = detail::wait_for<T, std::remove_reference_t<A>>(a);
    struct destroys {
        decltype(waits.coroutine) coroutine;
        ~destroys() { coroutine.destroy(); }
    } destroys{waits.coroutine};
    waits.coroutine.promise().done = &done;
    waits.coroutine.resume();
    detail::switching([&] { return ito_uncond_wait(&done); });
    return waits.coroutine.promise().take();
}

/* Runs all, each in a light thread of its own; gives what they give, in order. The first exception, by order, when all have
 * ended. */
template <class T> task<std::vector<T>> when_all(std::vector<task<T>> tasks) {
    struct all {
        std::vector<task<T>> tasks;
        std::vector<detail::result_of<T>> results;
        std::atomic<std::size_t> left;
        std::coroutine_handle<> next;

        explicit all(std::vector<task<T>> &&of) : tasks(std::move(of)), results(tasks.size()), left(tasks.size() + 1) {}
        void leave() {
            /* ORDER acq_rel; pairs with itself: the last one sees the results of all. */
            if (left.fetch_sub(1, std::memory_order_acq_rel) == 1)
                next.resume();
        }
        static detail::unowned run(all *mine, std::size_t i) {
            try {
                co_await schedule();
                mine->results[i].return_value(co_await std::move(mine->tasks[i]));
            } catch (...) {
                mine->results[i].unhandled_exception();
            }
            mine->leave();
        }
        bool await_ready() noexcept { return false; }
        void await_suspend(std::coroutine_handle<> of) {
            next = of;
            for (std::size_t i = 0, n = tasks.size(); i < n; i++)
                run(this, i);
            leave(); /* this object may be gone after it */
        }
        void await_resume() noexcept {}
    } all(std::move(tasks));
    co_await all;
    std::vector<T> values;
    for (auto &result : all.results)
        values.push_back(result.take());
    co_return values;
}

} // namespace ito

#endif
