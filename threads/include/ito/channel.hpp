/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/channel.hpp - channels of any type, select with a function for each case, stop requests, values of workers; for
 * C++17. Included by ito.hpp. With C++20 a std::stop_token can be waited for, and jthread has one.
 */
#ifndef ITO_CHANNEL_HPP
#define ITO_CHANNEL_HPP

#include <ito.hpp>
#include <ito/local.h>
#include <ito/stop.h>

#if __cplusplus >= 202002L && __has_include(<stop_token>)
#include <stop_token>
#endif
#ifdef __cpp_lib_jthread
#define ITO__STOP_TOKEN 1
#endif

namespace ito {

/* -- channels ------------------------------------------------------------------------------------------------------ */

enum class channel_status { done, closed, timeout };

namespace detail {
/* Room for a T that is there or not. */
template <class T> union item_room {
    T value;
    item_room() noexcept {}
    ~item_room() {}
};
inline channel_status status_of(int error) {
    check(error == EPIPE || error == ETIMEDOUT || error == EBUSY ? 0 : error, "ito::channel");
    return error == 0 ? channel_status::done : error == EPIPE ? channel_status::closed : channel_status::timeout;
}
} // namespace detail

/*
 * Items of T, in order, from some threads to others; see ito/channel.h. T is moved while a lock of a few instructions is
 * held: its move constructor must not throw, block or take long.
 */
template <class T> class channel {
    static_assert(std::is_nothrow_move_constructible_v<T>, "ito::channel: moving a T may throw");

  public:
    /* @room: items that are kept; 0: a send ends when a receiver has the item. */
    explicit channel(std::uint32_t room = 0) : buffer(room ? std::allocator<T>().allocate(room) : nullptr), room(room) {
        detail::check(ito_channel_init(&c, buffer, sizeof(T), room), "ito::channel");
        c.move = [](void *to, void *from) {
            auto *item = static_cast<T *>(from);
            ::new (to) T(std::move(*item));
            item->~T();
        };
    }
    ~channel() {
        detail::check_destroy(ito_channel_destroy(&c), "ito::channel");
        while (c.n && try_receive())
            ;
        if (buffer)
            std::allocator<T>().deallocate(buffer, room);
    }
    channel(const channel &) = delete;
    channel &operator=(const channel &) = delete;

    /* False: it is closed. */
    bool send(T item) {
        return send_at(item, [&](void *from) { return ito_channel_send(&c, from); }) == channel_status::done;
    }
    /* Empty: it is closed, and all has been received. */
    std::optional<T> receive() {
        return receive_at([&](void *to) { return ito_channel_receive(&c, to); });
    }
    /* False, empty: it would have to wait, or is closed; @item is as it was. */
    bool try_send(T &&item) {
        return send_at(item, [&](void *from) { return ito_channel_try_send(&c, from); }) == channel_status::done;
    }
    std::optional<T> try_receive() {
        return receive_at([&](void *to) { return ito_channel_try_receive(&c, to); });
    }
    /* @item is moved from only if it was sent. */
    template <class Time> channel_status send_until(T &&item, const Time &at) {
        return send_at(item, [&](void *from) { return ito_channel_send_until(&c, from, detail::deadline(at)); });
    }
    template <class Time> channel_status send_for(T &&item, const Time &time) {
        return send_until(std::move(item), time);
    }
    template <class Time> channel_status receive_until(std::optional<T> &item, const Time &at) {
        channel_status status;
        item = receive_at([&](void *to) { return ito_channel_receive_until(&c, to, detail::deadline(at)); }, &status);
        return status;
    }
    template <class Time> channel_status receive_for(std::optional<T> &item, const Time &time) {
        return receive_until(item, time);
    }

    /* False: it is closed already. */
    bool close() noexcept {
        return !detail::switching([&] { return ito_channel_close(&c); });
    }
    bool is_closed() const noexcept { return ito_channel_is_closed(&c); }
    ito_channel *native_handle() noexcept { return &c; }

    /* for (T &item : channel): until it is closed and empty. */
    class iterator {
      public:
        using value_type = T;
        using reference = T &;
        using pointer = T *;
        using difference_type = std::ptrdiff_t;
        using iterator_category = std::input_iterator_tag;
        iterator() = default;
        explicit iterator(channel *of) : of(of), item(of->receive()) {}
        T &operator*() { return *item; }
        iterator &operator++() {
            item = of->receive();
            return *this;
        }
        bool operator!=(const iterator &) const { return item.has_value(); } /* with the end alone */
        bool operator==(const iterator &) const { return !item; }

      private:
        channel *of = nullptr;
        std::optional<T> item;
    };
    iterator begin() { return iterator(this); }
    iterator end() { return {}; }

  private:
    /* The item that is sent lies in a room of its own: it is gone from there if it was sent. */
    template <class F> channel_status send_at(T &item, F &&f) {
        detail::item_room<T> from;
        ::new (&from.value) T(std::move(item));
        int r = detail::switching([&] { return f(&from.value); });
        if (r) {
            give_back(item, from.value);
            from.value.~T();
        }
        return detail::status_of(r);
    }
    static void give_back(T &item, T &from) {
        item.~T();
        ::new (&item) T(std::move(from));
    }
    template <class F> std::optional<T> receive_at(F &&f, channel_status *status = nullptr) {
        detail::item_room<T> to;
        int r = detail::switching([&] { return f(&to.value); });
        auto is = detail::status_of(r);
        if (status)
            *status = is;
        if (r)
            return std::nullopt;
        std::optional<T> item(std::move(to.value));
        to.value.~T();
        return item;
    }
    ito_channel c;
    T *buffer;
    std::uint32_t room;
};

/* -- stop ---------------------------------------------------------------------------------------------------------- */

/* ito_stop for the life of an object; from a std::stop_token, it follows that one. */
class stop {
  public:
    stop() = default;
#ifdef ITO__STOP_TOKEN
    explicit stop(const std::stop_token &token) {
        follows.emplace(token, ask{&s});
    }
#endif
    ~stop() {
#ifdef ITO__STOP_TOKEN
        follows.reset();
#endif
        detail::check_destroy(ito_stop_destroy(&s), "ito::stop");
    }
    stop(const stop &) = delete;
    stop &operator=(const stop &) = delete;

    bool request() {
        return !detail::switching([&] { return ito_stop_request(&s); });
    }
    bool requested() const noexcept {
        return ito_stop_requested(&s);
    }
    /* True: it was requested. To sleep that long unless it is. */
    template <class Time> bool wait_for(const Time &time) {
        int r = detail::switching([&] { return ito_stop_wait_until(&s, detail::deadline(time)); });
        detail::check(r == ETIMEDOUT ? 0 : r, "ito_stop_wait_until");
        return !r;
    }
    ito_stop *native_handle() noexcept {
        return &s;
    }

  private:
    ito_stop s = ITO_STOP_INIT;
#ifdef ITO__STOP_TOKEN
    struct ask {
        ito_stop *s;
        void operator()() const noexcept { ito_stop_request(s); }
    };
    std::optional<std::stop_callback<ask>> follows;
#endif
};

#ifdef ITO__STOP_TOKEN
namespace this_thread {
/* False: it was asked to stop. */
template <class Time> bool sleep_for(const Time &time, const std::stop_token &token) {
    stop s(token);
    return !s.wait_for(time);
}
} // namespace this_thread

/* As std::jthread: its function may take a std::stop_token, and the destructor asks it to stop before it joins. */
template <class T = void> class jthread {
  public:
    jthread() = default;
    template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, jthread>>> explicit jthread(F &&f) {
        if constexpr (std::is_invocable_v<std::decay_t<F> &, std::stop_token>)
            t = thread<T>([f = std::decay_t<F>(std::forward<F>(f)), token = source.get_token()]() mutable -> T {
                return f(std::move(token));
            });
        else
            t = thread<T>(std::forward<F>(f));
    }
    jthread(jthread &&) noexcept = default;
    jthread &operator=(jthread &&other) noexcept {
        if (this != &other) {
            finish();
            source = std::move(other.source);
            t = std::move(other.t);
        }
        return *this;
    }
    ~jthread() { finish(); }
    bool request_stop() noexcept { return source.request_stop(); }
    std::stop_token get_stop_token() const noexcept { return source.get_token(); }
    std::stop_source get_stop_source() const noexcept { return source; }
    bool joinable() const noexcept { return t.joinable(); }
    T get() { return t.get(); }
    void join() { t.join(); }
    void detach() { t.detach(); }

  private:
    void finish() noexcept {
        if (t.joinable())
            source.request_stop(); /* the join is the thread's own destructor */
    }
    std::stop_source source;
    thread<T> t;
};
#endif

/* -- select -------------------------------------------------------------------------------------------------------- */

/* One thing to wait for. Use the functions below. */
namespace detail {
template <class T, class F> struct receive_case {
    channel<T> &from;
    F f;
    item_room<T> room;
    receive_case(channel<T> &from, F f) : from(from), f(std::move(f)) {}
    void fill(ito_select_case &k, std::uint64_t &) noexcept { k = ITO_RECEIVE_FROM(from.native_handle(), &room.value); }
    void done(int error) {
        std::optional<T> item;
        if (error == 0) {
            item.emplace(std::move(room.value));
            room.value.~T();
        }
        f(std::move(item));
    }
    void left() noexcept {}
};
template <class T, class F> struct send_case {
    channel<T> &to;
    F f;
    item_room<T> room;
    send_case(channel<T> &to, T item, F f) : to(to), f(std::move(f)) { ::new (&room.value) T(std::move(item)); }
    void fill(ito_select_case &k, std::uint64_t &) noexcept { k = ITO_SEND_TO(to.native_handle(), &room.value); }
    void done(int error) {
        if (error)
            left();
        f(error == 0);
    }
    void left() noexcept { room.value.~T(); }
};
template <class F> struct stop_case {
    ito_channel *asked;
    F f;
    void fill(ito_select_case &k, std::uint64_t &) noexcept { k = ITO_RECEIVE_FROM(asked, nullptr); }
    void done(int) { f(); }
    void left() noexcept {}
};
/* Its channel is null: it is done when nothing else is, in time. */
template <class F> struct time_case {
    std::uint64_t at;
    F f;
    void fill(ito_select_case &k, std::uint64_t &deadline_ns) noexcept {
        k = ITO_RECEIVE_FROM(nullptr, nullptr);
        deadline_ns = std::min(deadline_ns, at);
    }
    void done(int) { f(); }
    void left() noexcept {}
    static constexpr bool is_time = true;
};
template <class C, class = void> inline constexpr bool is_time_case = false;
template <class C> inline constexpr bool is_time_case<C, std::void_t<decltype(C::is_time)>> = true;
} // namespace detail

/* f(std::optional<T>): empty when the channel is closed. */
template <class T, class F> auto on_receive(channel<T> &from, F f) {
    return detail::receive_case<T, F>(from, std::move(f));
}
/* f(bool sent). The item is gone if another case was done. */
template <class T, class F> auto on_send(channel<T> &to, T item, F f) {
    return detail::send_case<T, F>(to, std::move(item), std::move(f));
}
template <class F> auto on_stop(stop &s, F f) {
    return detail::stop_case<F>{&s.native_handle()->done, std::move(f)};
}
template <class Time, class F> auto on_timeout(const Time &time, F f) {
    return detail::time_case<F>{detail::deadline(time), std::move(f)};
}
/* Where nothing can be done at once. */
template <class F> auto otherwise(F f) {
    return detail::time_case<F>{0, std::move(f)};
}

/*
 * Does one of them, and calls its function; waits until one can be done. At most one of on_timeout and otherwise.
 *
 *     ito::select(ito::on_receive(jobs, [&](auto job) { ... }), ito::on_timeout(1s, [] { ... }));
 */
template <class... Cases> void select(Cases &&...cases) {
    static_assert(sizeof...(Cases) > 0, "ito::select: no case");
    static_assert((detail::is_time_case<std::remove_reference_t<Cases>> + ...) <= 1, "ito::select: two timeouts");
    ito_select_case list[sizeof...(Cases)];
    std::uint64_t deadline_ns = ITO_FOREVER;
    std::size_t i = 0, which = 0;
    (cases.fill(list[i++], deadline_ns), ...);
    int r = detail::switching([&] { return ito_select(list, sizeof...(Cases), &which, deadline_ns); });
    bool late = r == ETIMEDOUT, failed = r && !late && r != EPIPE;
    i = 0;
    auto end = [&](auto &of) {
        bool mine = !failed && (late ? detail::is_time_case<std::remove_reference_t<decltype(of)>> : i == which);
        i++;
        if (!mine)
            of.left();
    };
    (end(cases), ...);
    detail::check(failed ? r : 0, "ito_select");
    i = 0;
    auto call = [&](auto &of) {
        bool mine = late ? detail::is_time_case<std::remove_reference_t<decltype(of)>> : i == which;
        i++;
        if (mine)
            of.done(late ? 0 : r);
    };
    (call(cases), ...);
}

/* -- values of workers --------------------------------------------------------------------------------------------- */

/* A T for each worker: see ito/local.h. `here` throws where the caller is no worker's. */
template <class T> class worker_local {
  public:
    worker_local() : worker_local([] { return T(); }) {}
    template <class F, class = std::enable_if_t<std::is_invocable_r_v<T, F &>>> explicit worker_local(F make) {
        detail::check(ito_local_create(&l, sizeof(T), nullptr, nullptr), "ito_local_create");
        static_assert(alignof(T) <= 128, "ito::worker_local: T is aligned too widely");
        for (n = 0; void *at = ito_local_at(l, n); n++)
            ::new (at) T(make());
    }
    ~worker_local() {
        for (unsigned i = 0; i < n; i++)
            at(i).~T();
        ito_local_destroy(l);
    }
    worker_local(const worker_local &) = delete;
    worker_local &operator=(const worker_local &) = delete;

    /* Of the worker that runs the caller, until it may switch. */
    T &here() {
        void *at = ito_local_here(l);
        detail::check(at ? 0 : EPERM, "ito_local_here");
        return *static_cast<T *>(at);
    }
    T &at(unsigned worker) { return *static_cast<T *>(ito_local_at(l, worker)); }
    /* All of them, while no thread uses any. */
    template <class Op> T combine(Op op) {
        T all = at(0);
        for (unsigned i = 1; i < n; i++)
            all = op(std::move(all), at(i));
        return all;
    }

  private:
    ito_local *l = nullptr;
    unsigned n = 0;
};

} // namespace ito

#endif
