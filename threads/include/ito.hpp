/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito.hpp - ito for C++17: threads of lambdas that carry exceptions through join, and the standard's names for the rest
 * (mutex, condition_variable, shared_mutex, counting_semaphore, barrier, future...), so that std::lock_guard,
 * std::unique_lock, std::scoped_lock and std::shared_lock work with them.
 *
 * Exceptions and migration. A C++ runtime keeps "the exceptions being handled here" in thread-local storage of the
 * kernel thread. A thread that blocks inside a catch clause, or in a destructor during unwinding, may continue on
 * another. So everything here that may switch puts that record away first and takes it back afterwards
 * (detail::exceptions); 2 to 3 ns each. A program that blocks inside a catch clause must use this header for it, not
 * the C functions.
 *
 * Errors: what std would throw: std::system_error. Mistakes that C reports as EPERM or EDEADLK throw too; destructors
 * cannot: a mutex that is destroyed while locked or waited for ends the program with a message.
 */
#ifndef ITO_HPP
#define ITO_HPP

#include <ito.h>
#include <ito/graph.h>
#include <ito/group.h>
#include <ito/start.hpp>
#include <ito/sync.h>
#include <ito/unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" void ito__fini_failed(int error);
extern "C" int ito__ended_until(ito_thread *thread, std::uint64_t deadline_ns);

namespace ito {

namespace detail {

inline void check(int error, const char *what) {
    if (error)
        throw std::system_error(error, std::generic_category(), what);
}
inline void check_destroy(int error, const char *what) noexcept {
    if (error) {
        std::fprintf(stderr, "ito: error: %s destroyed while locked or waited for\n", what);
        std::abort();
    }
}

template <class F> auto switching(F &&f) {
    exceptions guard;
    return f();
}

template <class Clock, class Duration> std::uint64_t deadline(const std::chrono::time_point<Clock, Duration> &at) {
    auto left = at - Clock::now();
    auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    /* Rounded up: never early. */
    return ns <= 0 ? 0 : ito_now_ns() + static_cast<std::uint64_t>(ns) + 1;
}
template <class Rep, class Period> std::uint64_t deadline(const std::chrono::duration<Rep, Period> &in) {
    return deadline(std::chrono::steady_clock::now() + in);
}

} // namespace detail

/* -- the runtime --------------------------------------------------------------------------------------------------- */

/* ito_init for the life of an object. */
class runtime {
  public:
    explicit runtime(unsigned workers = 0, std::size_t stack_bytes = 0) {
        ito_config config = ITO_CONFIG_INIT;
        config.n_workers = workers;
        config.stack_bytes = stack_bytes;
        detail::check(ito_init(&config), "ito_init");
    }
    /* Aborts, and names the threads, when some are blocked or were not joined. */
    ~runtime() {
        int error = ito_fini();
        if (error)
            ito__fini_failed(error);
    }
    runtime(const runtime &) = delete;
    runtime &operator=(const runtime &) = delete;
    static unsigned workers() noexcept { return ito_n_workers(); }
};

namespace this_thread {
inline void yield() {
    detail::switching([] { return ito_yield(), 0; });
}
template <class Rep, class Period> void sleep_for(const std::chrono::duration<Rep, Period> &time) {
    detail::check(detail::switching([&] { return ito_sleep_until(detail::deadline(time)); }), "ito_sleep");
}
template <class Clock, class Duration> void sleep_until(const std::chrono::time_point<Clock, Duration> &at) {
    detail::check(detail::switching([&] { return ito_sleep_until(detail::deadline(at)); }), "ito_sleep");
}
inline ito_thread *get_id() noexcept {
    return ito_self();
}
} // namespace this_thread

/* -- threads ------------------------------------------------------------------------------------------------------- */

struct attributes {
    std::size_t stack_bytes = 0;
    const char *name = nullptr;
    int worker = -1;
    int priority = 0;
};

/*
 * A thread that returns T. It runs at once, before its creator goes on. `get` joins: what the function returned, or the
 * exception that left it. The destructor joins too (an exception that nobody asked for is dropped); `detach` lets go of
 * it. No heap block, unless T is longer than a word or not trivially copyable (one for the result), or the function
 * object is longer than 1 KiB or may throw when it is moved (one for it), or there are attributes.
 */
template <class T = void> class thread {
  public:
    thread() = default;
    template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, thread>>> explicit thread(F &&f) {
        detail::check(detail::start<T>(&handle, nullptr, std::forward<F>(f)), "ito_create");
    }
    template <class F> thread(const attributes &how, F &&f) {
        ito_attr attr = ITO_ATTR_INIT;
        attr.stack_bytes = how.stack_bytes;
        attr.name = how.name;
        attr.worker = how.worker;
        attr.priority = how.priority;
        detail::check(detail::start<T>(&handle, &attr, std::forward<F>(f)), "ito_create");
    }
    thread(thread &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
    thread &operator=(thread &&other) noexcept {
        if (this != &other) {
            finish();
            handle = std::exchange(other.handle, nullptr);
        }
        return *this;
    }
    ~thread() { finish(); }

    bool joinable() const noexcept { return handle; }
    ito_thread *native_handle() const noexcept { return handle; }
    void detach() {
        detail::check(handle ? 0 : EINVAL, "ito::thread::detach");
        detail::check(detail::let_thread_go<T>(std::exchange(handle, nullptr)), "ito_detach");
    }
    T get() {
        detail::check(handle ? 0 : EINVAL, "ito::thread::get");
        detail::joined end = detail::join_thread(handle);
        detail::check(end.error, "ito_join");
        handle = nullptr;
        if (ITO__UNLIKELY(end.threw))
            std::rethrow_exception(detail::exception_of(end.word));
        if constexpr (!std::is_void_v<T>)
            return detail::value_of<T>(end.word);
    }
    void join() { static_cast<void>(get()); }
    /* True: it has ended, and get() will not wait. */
    template <class Rep, class Period> bool wait_for(const std::chrono::duration<Rep, Period> &time) {
        return ended_at(detail::deadline(time));
    }
    template <class Clock, class Duration> bool wait_until(const std::chrono::time_point<Clock, Duration> &at) {
        return ended_at(detail::deadline(at));
    }

  private:
    bool ended_at(std::uint64_t at) {
        detail::check(handle ? 0 : EINVAL, "ito::thread::wait_until");
        int r = detail::switching([&] { return ito__ended_until(handle, at); });
        detail::check(r == ETIMEDOUT ? 0 : r, "ito::thread::wait_until");
        return !r;
    }
    void finish() noexcept {
        if (!handle)
            return;
        detail::joined end = detail::join_thread(std::exchange(handle, nullptr));
        if (end.error == 0)
            detail::drop<T>(end.word, end.threw);
    }
    ito_thread *handle = nullptr;
};
template <class F> thread(F) -> thread<std::invoke_result_t<F>>;
template <class F> thread(attributes, F) -> thread<std::invoke_result_t<F>>;

/* A thread of f(args...). */
template <class F, class... Args> auto async(F &&f, Args &&...args) {
    using result = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;
    return thread<result>([f = std::decay_t<F>(std::forward<F>(f)),
                           args = std::tuple<std::decay_t<Args>...>(std::forward<Args>(args)...)]() mutable -> result {
        return std::apply(std::move(f), std::move(args));
    });
}

namespace detail {
/* Off the workers nobody takes a forked task before its sync: a thread, and heap memory if there is need of it. */
template <class A, class B> __attribute__((noinline, cold)) void fork_join_outside(A &a, B &b) {
    thread<> first([&a] { static_cast<void>(a()); });
    std::exception_ptr second;
    try {
        b();
    } catch (...) {
        second = std::current_exception();
    }
    first.get();
    if (second)
        std::rethrow_exception(second);
}
template <class A> struct forked_side : ito__fork {
    A &f;
    thrown error;
    explicit forked_side(A &of) noexcept : ito__fork{}, f(of) {}
    /* Where a worker has taken it. */
    static void run_taken(ito__fork *fork) noexcept {
        auto *mine = static_cast<forked_side *>(fork);
        try {
            mine->f();
            mine->error.set(nullptr);
        } catch (...) {
            mine->error.set(std::current_exception());
        }
    }
};
} // namespace detail

/*
 * Runs both, at the same time where a worker is free, and returns when both have ended; if both throw, the first one's
 * exception. Allocates nothing. The second is a plain call; the first is a thread if a worker takes it, or the second
 * blocks, else a plain call after the second. Neither may call ito_exit.
 */
template <class A, class B> void fork_join(A &&a, B &&b) {
    using side = detail::forked_side<std::remove_reference_t<A>>;
    if (ITO__UNLIKELY(!detail::is_worker()))
        return detail::fork_join_outside(a, b);
    side first(a);
    std::exception_ptr second;
    ito__fork_push(&first, side::run_taken, nullptr);
    try {
        b();
    } catch (...) {
        second = std::current_exception();
    }
    if (ITO__LIKELY(ito__fork_take(&first)))
        first.f();
    else
        detail::rethrow(&first.error);
    if (ITO__UNLIKELY(second != nullptr))
        std::rethrow_exception(second);
}

/* -- mutexes ------------------------------------------------------------------------------------------------------- */

namespace detail {
template <int Kind> class mutex_of {
  public:
    constexpr mutex_of() noexcept = default;
    ~mutex_of() { check_destroy(ito_mutex_destroy(&m), "ito::mutex"); }
    mutex_of(const mutex_of &) = delete;
    mutex_of &operator=(const mutex_of &) = delete;

    void lock() {
        /* Nothing switches when it is free: no need to put exceptions away. */
        int r = ito_mutex_trylock(&m);
        if (r == EBUSY)
            r = switching([&] { return ito_mutex_lock(&m); });
        check(r, "ito_mutex_lock");
    }
    bool try_lock() {
        int r = ito_mutex_trylock(&m);
        check(r == EBUSY ? 0 : r, "ito_mutex_trylock");
        return !r;
    }
    void unlock() {
        check(switching([&] { return ito_mutex_unlock(&m); }), "ito_mutex_unlock");
    }
    template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return lock_at(deadline(time));
    }
    template <class Clock, class Duration> bool try_lock_until(const std::chrono::time_point<Clock, Duration> &at) {
        return lock_at(deadline(at));
    }
    ito_mutex *native_handle() noexcept { return &m; }

  private:
    bool lock_at(std::uint64_t at) {
        int r = switching([&] { return ito_mutex_lock_until(&m, at); });
        check(r == ETIMEDOUT ? 0 : r, "ito_mutex_lock_until");
        return !r;
    }
    ito_mutex m = ITO_MUTEX_INIT_KIND(Kind);
};
} // namespace detail

using mutex = detail::mutex_of<ITO_MUTEX_DEFAULT>;
using timed_mutex = mutex;
using recursive_mutex = detail::mutex_of<ITO_MUTEX_RECURSIVE>;

class shared_mutex {
  public:
    shared_mutex() = default;
    ~shared_mutex() { detail::check_destroy(ito_rwlock_destroy(&l), "ito::shared_mutex"); }
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    void lock() {
        detail::check(detail::switching([&] { return ito_rwlock_wrlock(&l); }), "ito_rwlock_wrlock");
    }
    void lock_shared() {
        detail::check(detail::switching([&] { return ito_rwlock_rdlock(&l); }), "ito_rwlock_rdlock");
    }
    bool try_lock() { return !ito_rwlock_trywrlock(&l); }
    bool try_lock_shared() { return !ito_rwlock_tryrdlock(&l); }
    void unlock() {
        detail::check(detail::switching([&] { return ito_rwlock_unlock(&l); }), "ito_rwlock_unlock");
    }
    void unlock_shared() { unlock(); }
    template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return timed(ito_rwlock_wrlock_until, time);
    }
    template <class Rep, class Period> bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time) {
        return timed(ito_rwlock_rdlock_until, time);
    }
    ito_rwlock *native_handle() noexcept { return &l; }

  private:
    template <class Time> bool timed(int (*lock_until)(ito_rwlock *, std::uint64_t), const Time &time) {
        int r = detail::switching([&] { return lock_until(&l, detail::deadline(time)); });
        detail::check(r == ETIMEDOUT ? 0 : r, "ito_rwlock_lock_until");
        return !r;
    }
    ito_rwlock l = ITO_RWLOCK_INIT;
};

/* -- condition variable -------------------------------------------------------------------------------------------- */

class condition_variable {
  public:
    condition_variable() = default;
    ~condition_variable() { detail::check_destroy(ito_cond_destroy(&c), "ito::condition_variable"); }
    condition_variable(const condition_variable &) = delete;
    condition_variable &operator=(const condition_variable &) = delete;

    void notify_one() noexcept {
        detail::switching([&] { return ito_cond_signal(&c); });
    }
    void notify_all() noexcept {
        detail::switching([&] { return ito_cond_broadcast(&c); });
    }
    template <class Lock> void wait(Lock &lock) {
        detail::check(detail::switching([&] { return ito_cond_wait(&c, lock.mutex()->native_handle()); }),
                      "ito_cond_wait");
    }
    template <class Lock, class Predicate> void wait(Lock &lock, Predicate done) {
        while (!done())
            wait(lock);
    }
    template <class Lock, class Clock, class Duration>
    std::cv_status wait_until(Lock &lock, const std::chrono::time_point<Clock, Duration> &at) {
        return wait_at(lock, detail::deadline(at));
    }
    template <class Lock, class Rep, class Period>
    std::cv_status wait_for(Lock &lock, const std::chrono::duration<Rep, Period> &time) {
        return wait_at(lock, detail::deadline(time));
    }
    template <class Lock, class Clock, class Duration, class Predicate>
    bool wait_until(Lock &lock, const std::chrono::time_point<Clock, Duration> &at, Predicate done) {
        while (!done())
            if (wait_until(lock, at) == std::cv_status::timeout)
                return done();
        return true;
    }
    template <class Lock, class Rep, class Period, class Predicate>
    bool wait_for(Lock &lock, const std::chrono::duration<Rep, Period> &time, Predicate done) {
        return wait_until(lock, std::chrono::steady_clock::now() + time, std::move(done));
    }
    ito_cond *native_handle() noexcept { return &c; }

  private:
    template <class Lock> std::cv_status wait_at(Lock &lock, std::uint64_t at) {
        int r = detail::switching([&] { return ito_cond_wait_until(&c, lock.mutex()->native_handle(), at); });
        detail::check(r == ETIMEDOUT ? 0 : r, "ito_cond_wait_until");
        return r ? std::cv_status::timeout : std::cv_status::no_timeout;
    }
    ito_cond c = ITO_COND_INIT;
};

/* -- semaphore, barrier, once -------------------------------------------------------------------------------------- */

class counting_semaphore {
  public:
    explicit counting_semaphore(std::uint32_t units) { detail::check(ito_sem_init(&s, units), "ito_sem_init"); }
    ~counting_semaphore() { detail::check_destroy(ito_sem_destroy(&s), "ito::counting_semaphore"); }
    counting_semaphore(const counting_semaphore &) = delete;
    counting_semaphore &operator=(const counting_semaphore &) = delete;
    static constexpr std::uint32_t max() noexcept { return ITO_SEM_MAX; }

    void acquire() {
        detail::switching([&] { return ito_sem_wait(&s); });
    }
    bool try_acquire() noexcept { return !ito_sem_trywait(&s); }
    template <class Rep, class Period> bool try_acquire_for(const std::chrono::duration<Rep, Period> &time) {
        int r = detail::switching([&] { return ito_sem_wait_until(&s, detail::deadline(time)); });
        detail::check(r == ETIMEDOUT ? 0 : r, "ito_sem_wait_until");
        return !r;
    }
    void release(std::uint32_t n = 1) {
        while (n--)
            detail::check(detail::switching([&] { return ito_sem_post(&s); }), "ito_sem_post");
    }

  private:
    ito_sem s = ITO_SEM_INIT(0);
};

class barrier {
  public:
    explicit barrier(std::uint32_t threads) { detail::check(ito_barrier_init(&b, threads), "ito_barrier_init"); }
    ~barrier() { detail::check_destroy(ito_barrier_destroy(&b), "ito::barrier"); }
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;
    /* True in the thread that came last. */
    bool arrive_and_wait() {
        return detail::switching([&] { return ito_barrier_wait(&b); }) == ITO_BARRIER_LAST;
    }

  private:
    ito_barrier b = ITO_BARRIER_INIT(1);
};

using once_flag = ito_once;
/* As std::call_once: an exception leaves it not done, the next caller tries again. */
template <class F> void call_once(once_flag &flag, F &&f) {
    struct call {
        std::remove_reference_t<F> &f;
        std::exception_ptr error;
    } call{f, nullptr};
    int r = detail::switching([&] {
        return ito_once_call(
            &flag,
            [](void *arg) -> int {
                auto *mine = static_cast<struct call *>(arg);
                try {
                    mine->f();
                } catch (...) {
                    mine->error = std::current_exception();
                }
                return mine->error ? ECANCELED : 0;
            },
            &call);
    });
    if (call.error)
        std::rethrow_exception(call.error);
    detail::check(r, "ito_once_call");
}

/* -- thread-local -------------------------------------------------------------------------------------------------- */

/* A T of its own for each thread, made when it is first asked for, destroyed when the thread ends; unlike a
 * thread_local, it moves along. */
template <class T> class thread_specific {
  public:
    thread_specific() { detail::check(ito_key_create(&key, destroy), "ito_key_create"); }
    ~thread_specific() {
        delete static_cast<T *>(ito_key_get(key));
        ito_key_delete(key);
    }
    thread_specific(const thread_specific &) = delete;
    thread_specific &operator=(const thread_specific &) = delete;
    T &operator*() {
        auto *value = static_cast<T *>(ito_key_get(key));
        if (!value) {
            auto made = std::make_unique<T>();
            detail::check(ito_key_set(key, made.get()), "ito_key_set");
            value = made.release();
        }
        return *value;
    }
    T *operator->() { return &**this; }

  private:
    static void destroy(void *value) { delete static_cast<T *>(value); }
    ito_key key;
};

/* -- groups, loops ------------------------------------------------------------------------------------------------- */

/*
 * Threads that are waited for together. The first exception that leaves one of them comes out of `wait`. Threads of a
 * group may start others in it. Several threads may wait, but none of the group's own.
 *
 * A thread that has ended when its creator goes on, as most do, is joined at once. The others are in a list.
 */
class task_group {
  public:
    task_group() = default;
    ~task_group() {
        if (is_open.load(std::memory_order_relaxed))
            join_all();
    }
    task_group(const task_group &) = delete;
    task_group &operator=(const task_group &) = delete;

    template <class F> void run(F &&f) {
        using object = std::decay_t<F>;
        struct call {
            object f;
            task_group *group;
            void operator()() noexcept {
                try {
                    f();
                } catch (...) {
                    group->keep(std::current_exception());
                }
            }
        };
        ito_thread *thread;
        detail::check(detail::start<void>(&thread, nullptr, call{std::forward<F>(f), this}), "ito_group_run");
#ifndef ITO__GENERIC
        /* ORDER acquire; pairs with no release, and needs none, as in ito__join(). */
        if (ITO__LIKELY(__atomic_load_n(&thread->state, __ATOMIC_ACQUIRE) == ITO__DONE)) {
            ito__join(thread, nullptr);
            return;
        }
#endif
        remember(thread);
    }
    void wait() {
        /* Relaxed: the caller has started the group's threads, or was told of them, and a thread that has ended has done
         * so before its creator went on. */
        if (ITO__LIKELY(!is_open.load(std::memory_order_relaxed)))
            return;
        int error_of_join = join_all();
        std::unique_lock<plain_mutex> lock(list_mutex);
        if (auto first = std::exchange(error, nullptr)) {
            lock.unlock();
            std::rethrow_exception(first);
        }
        lock.unlock();
        detail::check(error_of_join, "ito::task_group::wait");
    }

  private:
    /* Without a destructor: most groups never lock it. */
    struct plain_mutex {
        ito_mutex m;
        void lock() noexcept {
            detail::switching([&] { return ito_mutex_lock(&m); });
        }
        void unlock() noexcept {
            detail::switching([&] { return ito_mutex_unlock(&m); });
        }
    };
    void keep(std::exception_ptr e) {
        std::lock_guard<plain_mutex> lock(list_mutex);
        if (!error)
            error = std::move(e);
        is_open.store(true, std::memory_order_relaxed);
    }
    /* Not ended when its creator went on. Without memory for the list it is waited for here. */
    __attribute__((noinline)) void remember(ito_thread *thread) {
        std::unique_lock<plain_mutex> lock(list_mutex);
        is_open.store(true, std::memory_order_relaxed);
        if (list.size() >= sweep_at)
            sweep();
        try {
            list.push_back(thread);
        } catch (const std::bad_alloc &) {
            lock.unlock();
            detail::join_thread(thread);
        }
    }
    /* The list holds twice the threads that run, at most. A recorder's threads stay: it would take this for a wait. */
    void sweep() {
        auto is_left = [](ito_thread *t) {
            /* ORDER acquire; pairs with the exchange of the thread's end, as in ito_join. */
            std::uintptr_t state = __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);
            if ((state != ITO__ENDED && state != ITO__DONE) || t->id)
                return true;
            detail::join_thread(t);
            return false;
        };
        list.erase(std::stable_partition(list.begin(), list.end(), is_left), list.end());
        sweep_at = std::max<std::size_t>(64, 2 * list.size());
    }
    /* A thread that ends may have started others before. The second of two that wait waits for the first. */
    int join_all() noexcept {
        std::lock_guard<plain_mutex> one(wait_mutex);
        std::vector<ito_thread *> now;
        for (;;) {
            {
                std::lock_guard<plain_mutex> lock(list_mutex);
                now.clear();
                now.swap(list);
                if (now.empty()) {
                    is_open.store(false, std::memory_order_relaxed);
                    return 0;
                }
            }
            for (std::size_t i = 0; i < now.size(); i++)
                if (int r = detail::join_thread(now[i]).error) {
                    std::lock_guard<plain_mutex> lock(list_mutex);
                    list.insert(list.end(), now.begin() + static_cast<std::ptrdiff_t>(i), now.end());
                    return r;
                }
        }
    }
    std::atomic<bool> is_open{false};                                 /* something is in `list` or in `error` */
    plain_mutex list_mutex = {ITO_MUTEX_INIT_KIND(ITO_MUTEX_NORMAL)}; /* of list, sweep_at and error */
    plain_mutex wait_mutex = {ITO_MUTEX_INIT_KIND(ITO_MUTEX_NORMAL)};
    std::vector<ito_thread *> list;
    std::size_t sweep_at = 64;
    std::exception_ptr error;
};

/*
 * Tasks that wait for others before they start: ito/graph.h. Tasks and groups are numbers, as there. The first exception
 * that leaves a task comes out of `run`, after the other tasks have run.
 */
class graph {
  public:
    graph() { detail::check(ito_graph_create(&g), "ito_graph_create"); }
    ~graph() { detail::check_destroy(ito_graph_destroy(g), "ito::graph"); }
    graph(const graph &) = delete;
    graph &operator=(const graph &) = delete;

    /* `f` is called once in each run. `name` is not copied. */
    template <class F>
    std::uint32_t task(F &&f, std::uint64_t cost_ns = 0, const char *name = nullptr,
                       std::uint32_t of_group = ITO_GRAPH_ANYWHERE) {
        calls.push_back(call{this, std::forward<F>(f)});
        auto main = [](void *arg) {
            auto *mine = static_cast<call *>(arg);
            try {
                mine->f();
            } catch (...) {
                std::lock_guard<mutex> lock(mine->of->error_mutex);
                if (!mine->of->error)
                    mine->of->error = std::current_exception();
            }
        };
        ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
        attr.cost_ns = cost_ns;
        attr.name = name;
        attr.group = of_group;
        std::uint32_t number;
        int r = ito_graph_task(g, &attr, main, &calls.back(), &number);
        if (r)
            calls.pop_back();
        detail::check(r, "ito_graph_task");
        return number;
    }
    void edge(std::uint32_t before, std::uint32_t after) {
        detail::check(ito_graph_edge(g, before, after), "ito_graph_edge");
    }
    std::uint32_t group(const std::vector<std::uint32_t> &workers) {
        std::uint32_t number;
        detail::check(ito_graph_group(g, workers.data(), workers.size(), &number), "ito_graph_group");
        return number;
    }
    void run(std::uint32_t how = ITO_GRAPH_DYNAMIC) {
        detail::check(detail::switching([&] { return ito_graph_run(g, how); }), "ito_graph_run");
        if (auto first = std::exchange(error, nullptr))
            std::rethrow_exception(first);
    }
    ito_graph *native_handle() noexcept { return g; }

  private:
    struct call {
        graph *of;
        std::function<void()> f;
    };
    ito_graph *g = nullptr;
    std::deque<call> calls;
    mutex error_mutex;
    std::exception_ptr error;
};

/* body(begin, end) for pieces of [begin, end), of `grain` indices or more; the first exception comes out, after the other
 * pieces have run. */
template <class F> void parallel_for(std::size_t begin, std::size_t end, std::size_t grain, F &&body) {
    struct loop {
        std::remove_reference_t<F> &body;
        std::atomic<bool> has_thrown;
        std::exception_ptr error; /* of the one that set it */
    } loop{body, {false}, nullptr};
    auto piece = [](std::size_t from, std::size_t to, void *arg) {
        auto *mine = static_cast<struct loop *>(arg);
        try {
            mine->body(from, to);
        } catch (...) {
            /* ORDER relaxed: the end of the loop orders the exception before its caller's look. */
            if (!mine->has_thrown.exchange(true, std::memory_order_relaxed))
                mine->error = std::current_exception();
        }
    };
    detail::check(detail::switching([&] { return ito_for(begin, end, grain, piece, &loop); }), "ito_for");
    if (loop.error)
        std::rethrow_exception(loop.error);
}

/*
 * join(...) of body(begin, end) over pieces. T: trivially copyable, at most ITO_REDUCE_MAX bytes. Pieces and order
 * depend on the range and `grain` alone: the same bits on any number of workers. body and join must not throw.
 */
template <class T, class Body, class Join>
T parallel_reduce(std::size_t begin, std::size_t end, std::size_t grain, T identity, Body body, Join join) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= ITO_REDUCE_MAX,
                  "ito::parallel_reduce: T is too large or not trivial");
    struct reduction {
        T identity;
        Body &body;
        Join &join;
    } reduction{identity, body, join};
    using R = struct reduction;
    ito_reduction how = {};
    how.size = sizeof(T);
    how.arg = &reduction;
    how.start = [](void *a, void *arg) { ::new (a) T(static_cast<R *>(arg)->identity); };
    how.body = [](std::size_t from, std::size_t to, void *a, void *arg) {
        auto *value = static_cast<T *>(a);
        *value = static_cast<R *>(arg)->join(*value, static_cast<R *>(arg)->body(from, to));
    };
    how.join = [](void *left, const void *right, void *arg) {
        auto *value = static_cast<T *>(left);
        *value = static_cast<R *>(arg)->join(*value, *static_cast<const T *>(right));
    };
    T result = identity;
    detail::check(detail::switching([&] { return ito_reduce(begin, end, grain, &how, &result); }), "ito_reduce");
    return result;
}

/* -- promise and future -------------------------------------------------------------------------------------------- */

template <class T> class future;

namespace detail {
template <class T> struct future_state {
    ito_future done = ITO_FUTURE_INIT;
    std::optional<std::conditional_t<std::is_void_v<T>, char, T>> value;
    std::exception_ptr error;
};
} // namespace detail

template <class T> class promise {
  public:
    promise() : state(std::make_shared<detail::future_state<T>>()) {}
    promise(promise &&) noexcept = default;
    promise &operator=(promise &&) noexcept = default;
    /* A broken promise is reported to the threads that wait, as std::promise does. */
    ~promise() {
        if (state && !set)
            set_exception(std::make_exception_ptr(std::future_error(std::future_errc::broken_promise)));
    }
    future<T> get_future() const { return future<T>(state); }
    template <class... V> void set_value(V &&...v) {
        once();
        if constexpr (std::is_void_v<T>)
            state->value.emplace('\0');
        else
            state->value.emplace(std::forward<V>(v)...);
        publish();
    }
    void set_exception(std::exception_ptr e) {
        once();
        state->error = std::move(e);
        publish();
    }

  private:
    void once() {
        if (std::exchange(set, true))
            throw std::future_error(std::future_errc::promise_already_satisfied);
    }
    void publish() {
        detail::switching([&] { return ito_future_set(&state->done, nullptr); });
    }
    std::shared_ptr<detail::future_state<T>> state;
    bool set = false;
};

/* Any number of copies, in any number of threads. */
template <class T> class future {
  public:
    void wait() const {
        detail::switching([&] { return ito_future_get(&state->done, nullptr); });
    }
    template <class Rep, class Period> bool wait_for(const std::chrono::duration<Rep, Period> &time) const {
        int r = detail::switching([&] { return ito_future_get_until(&state->done, nullptr, detail::deadline(time)); });
        detail::check(r == ETIMEDOUT ? 0 : r, "ito_future_get_until");
        return !r;
    }
    decltype(auto) get() const {
        wait();
        if (state->error)
            std::rethrow_exception(state->error);
        if constexpr (!std::is_void_v<T>)
            return static_cast<const T &>(*state->value);
    }

  private:
    friend class promise<T>;
    explicit future(std::shared_ptr<detail::future_state<T>> from) : state(std::move(from)) {}
    std::shared_ptr<detail::future_state<T>> state;
};

} // namespace ito

#include <ito/algorithm.hpp>
#include <ito/channel.hpp>

#endif
