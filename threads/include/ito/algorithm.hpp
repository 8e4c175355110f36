/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/algorithm.hpp - scan, sort, invoke and pipelines of threads, for C++17. Included by ito.hpp, which has
 * parallel_for and parallel_reduce. What the functions throw comes out of the call, as there.
 *
 * Each is what the standard's function of that name does, at the same time where workers are free. Costs:
 * bench/ito/bench_algorithms.cpp.
 */
#ifndef ITO_ALGORITHM_HPP
#define ITO_ALGORITHM_HPP

#include <ito.hpp>

#include <iterator>

namespace ito {

/* -- invoke -------------------------------------------------------------------------------------------------------- */

/* Runs all of them, and returns when all have ended; the first one's exception, in the order in which they are given. */
template <class F> void parallel_invoke(F &&f) {
    static_cast<void>(f());
}
template <class F, class G, class... More> void parallel_invoke(F &&f, G &&g, More &&...more) {
    fork_join(f, [&] { parallel_invoke(g, more...); });
}

/* -- scan ---------------------------------------------------------------------------------------------------------- */

namespace detail {

/*
 * A scan over blocks of a fixed length. The *carry* of a block is what comes before it: that of the block before, joined
 * with the fold of that block alone. A block whose carry is known when it is come to is read once: scanned and folded in
 * one go. Blocks that a thief takes are folded alone, and scanned in a second round. So on one worker everything is read
 * once, and the operations on each element, and thus the bits of a floating-point result, are the same on any number.
 */
template <bool Inclusive, class T, class In, class Out, class Op> class scan {
  public:
    static constexpr std::size_t block = 4096;

    scan(In from, std::size_t n, Out to, Op &op, std::optional<T> before)
        : from(from), to(to), op(op), n(n), blocks((n + block - 1) / block), states(blocks) {
        states[0].carry = std::move(before);
        states[0].known.store(true, std::memory_order_relaxed); /* relaxed: nobody else runs yet */
    }
    void run() {
        parallel_for(0, blocks, 1, [this](std::size_t b, std::size_t end) {
            for (; b < end; b++)
                first_round(b);
        });
        std::size_t late = 0;
        while (late < blocks && states[late].done)
            late++;
        for (std::size_t b = late; b + 1 < blocks; b++)
            states[b + 1].carry = join(states[b].carry, *states[b].fold);
        parallel_for(late, blocks, 1, [this](std::size_t b, std::size_t end) {
            for (; b < end; b++)
                if (!states[b].done)
                    write<false>(b);
        });
    }

  private:
    struct state {
        std::optional<T> carry; /* none: nothing comes before */
        std::optional<T> fold;
        std::atomic<bool> known{false}; /* the carry is there */
        bool done = false;
    };
    T join(const std::optional<T> &left, const T &right) { return left ? T(op(*left, right)) : right; }
    void first_round(std::size_t b) {
        state &s = states[b];
        /* ORDER acquire; pairs with the release store below, by whoever has done the block before. Shows the carry. */
        if (!s.known.load(std::memory_order_acquire)) {
            s.fold = fold_of(b);
            return;
        }
        s.fold = write<true>(b);
        s.done = true;
        if (b + 1 < blocks) {
            states[b + 1].carry = join(s.carry, *s.fold);
            /* ORDER release; pairs with the acquire load above. */
            states[b + 1].known.store(true, std::memory_order_release);
        }
    }
    std::size_t end_of(std::size_t b) const { return std::min(n, (b + 1) * block); }
    T fold_of(std::size_t b) {
        In at = from + difference(b * block);
        T all = *at;
        for (std::size_t i = b * block + 1; i < end_of(b); i++)
            all = op(std::move(all), *++at);
        return all;
    }
    static auto difference(std::size_t i) { return static_cast<typename std::iterator_traits<In>::difference_type>(i); }

    /* The results of a block, each from the one before it; returns its fold, where that is wanted. */
    template <bool Fold> std::optional<T> write(std::size_t b) {
        In at = from + difference(b * block);
        Out out = to + difference(b * block);
        T value = *at; /* before it is written over: the ranges may be the same */
        std::optional<T> fold;
        if constexpr (Fold)
            fold = value;
        if constexpr (!Inclusive)
            *out = *states[b].carry;
        T running = join(states[b].carry, value);
        if constexpr (Inclusive)
            *out = running;
        for (std::size_t i = b * block + 1; i < end_of(b); i++) {
            value = *++at;
            ++out;
            if constexpr (Fold)
                *fold = op(std::move(*fold), value);
            if constexpr (!Inclusive)
                *out = running;
            running = op(std::move(running), value);
            if constexpr (Inclusive)
                *out = running;
        }
        return fold;
    }

    In from;
    Out to;
    Op &op;
    std::size_t n;
    std::size_t blocks;
    std::vector<state> states;
};

} // namespace detail

/*
 * As std::inclusive_scan and std::exclusive_scan: random-access iterators, an associative op, the result may be written
 * over the input. The same bits on any number of workers.
 */
template <class In, class Out, class Op, class T>
Out parallel_inclusive_scan(In first, In last, Out out, Op op, T init) {
    auto n = last - first;
    if (n > 0)
        detail::scan<true, T, In, Out, Op>(first, static_cast<std::size_t>(n), out, op, std::move(init)).run();
    return out + n;
}
template <class In, class Out, class Op = std::plus<>>
Out parallel_inclusive_scan(In first, In last, Out out, Op op = {}) {
    using T = typename std::iterator_traits<In>::value_type;
    auto n = last - first;
    if (n > 0)
        detail::scan<true, T, In, Out, Op>(first, static_cast<std::size_t>(n), out, op, std::nullopt).run();
    return out + n;
}
template <class In, class Out, class T, class Op = std::plus<>>
Out parallel_exclusive_scan(In first, In last, Out out, T init, Op op = {}) {
    auto n = last - first;
    if (n > 0)
        detail::scan<false, T, In, Out, Op>(first, static_cast<std::size_t>(n), out, op, std::move(init)).run();
    return out + n;
}

/* -- sort ---------------------------------------------------------------------------------------------------------- */

namespace detail {

/* Fewer elements are sorted by std::sort. */
inline constexpr std::ptrdiff_t sort_alone = 4096;

template <class I, class Less> I median_of(I a, I b, I c, Less &less) {
    if (less(*a, *b))
        return less(*b, *c) ? b : less(*a, *c) ? c : a;
    return less(*a, *c) ? a : less(*b, *c) ? c : b;
}
/* Of nine elements, three from the beginning, the middle and the end. */
template <class I, class Less> I pivot_of(I first, I last, Less &less) {
    auto n = last - first, step = n / 8;
    return median_of(median_of(first, first + step, first + 2 * step, less),
                     median_of(first + n / 2 - step, first + n / 2, first + n / 2 + step, less),
                     median_of(last - 1 - 2 * step, last - 1 - step, last - 1, less), less);
}

/*
 * Quicksort whose sides are forks. Elements that equal the pivot go to both sides, so many equal ones do no harm. A side
 * that is split badly too often is left to std::sort, which is O(n log n) in any case.
 */
template <class I, class Less> void sort(I first, I last, Less &less, int bad_splits_left) {
    auto n = last - first;
    if (n <= sort_alone || bad_splits_left < 0) {
        std::sort(first, last, less);
        return;
    }
    std::iter_swap(first, pivot_of(first, last, less));
    /* [first + 1, low) is not above the pivot, which lies at first; [high, last) is not below it. */
    I low = first + 1, high = last;
    for (;;) {
        while (low < high && less(*low, *first))
            ++low;
        while (low < high && less(*first, *(high - 1)))
            --high;
        if (high - low < 2)
            break;
        std::iter_swap(low++, --high);
    }
    if (low < high && !less(*first, *low)) /* one is left, and equals the pivot or is below it */
        ++low;
    I middle = low - 1;
    std::iter_swap(first, middle);
    bool bad = middle - first < n / 8 || last - middle < n / 8;
    fork_join([&] { sort(first, middle, less, bad_splits_left - bad); },
              [&] { sort(middle + 1, last, less, bad_splits_left - bad); });
}

} // namespace detail

/* As std::sort: in place, not stable, random-access iterators. */
template <class I, class Less = std::less<>> void parallel_sort(I first, I last, Less less = {}) {
    int splits = 8;
    for (auto n = last - first; n > detail::sort_alone; n /= 2)
        splits++;
    detail::sort(first, last, less, splits);
}

/* -- pipeline ------------------------------------------------------------------------------------------------------ */

/* A stage that runs one item at a time, in the order of the source; one that runs several at a time. */
template <class F> struct serial_stage {
    F f;
    static constexpr bool in_order = true;
};
template <class F> serial_stage(F) -> serial_stage<F>;
template <class F> struct parallel_stage {
    F f;
    static constexpr bool in_order = false;
};
template <class F> parallel_stage(F) -> parallel_stage<F>;

namespace detail {

/* Lets items in by number: each leaves with a signal to the place of the next. There are as many places as items may be
 * on their way, so a place is free again before it is needed. */
class gate {
  public:
    explicit gate(std::size_t items) : places(items) { ito_uncond_signal(&places[0]); }
    void enter(std::uint64_t number) {
        switching([&] { return ito_uncond_wait(&places[number % places.size()]); });
    }
    void leave(std::uint64_t number) noexcept { ito_uncond_signal(&places[(number + 1) % places.size()]); }

  private:
    std::vector<ito_uncond> places;
};

/*
 * Each of `width` threads takes an item from the source and carries it through all stages: it waits for others nowhere but
 * at gates, and items need no queues. Once something has thrown, the items on their way still pass the gates, so that
 * nobody waits for ever, but no function is called any more.
 */
template <class Source, class... Stages> class pipeline {
  public:
    pipeline(std::size_t width, Source &source, Stages &...stages)
        : width(width), source(source), stages(stages...), gates(sizeof...(Stages), gate(width)) {}
    void run() {
        std::vector<thread<>> others;
        for (std::size_t i = 1; i < width; i++)
            others.emplace_back([this] { carry(); });
        carry();
        for (auto &t : others)
            t.get();
        if (error)
            std::rethrow_exception(error);
    }

  private:
    void carry() {
        for (;;) {
            std::unique_lock lock(source_mutex);
            if (is_over)
                return;
            auto item = attempt([&] { return source(); });
            if (!item || !*item) {
                is_over = true;
                return;
            }
            std::uint64_t number = next++;
            lock.unlock();
            pass<0>(number, std::move(*item));
        }
    }
    template <std::size_t I, class T> void pass(std::uint64_t number, std::optional<T> item) {
        if constexpr (I < sizeof...(Stages)) {
            auto &stage = std::get<I>(stages);
            constexpr bool in_order = std::remove_reference_t<decltype(stage)>::in_order;
            if constexpr (in_order)
                gates[I].enter(number);
            if constexpr (I + 1 == sizeof...(Stages)) {
                if (item)
                    attempt([&] { return static_cast<void>(stage.f(std::move(*item))), 0; });
                if constexpr (in_order)
                    gates[I].leave(number);
            } else {
                std::optional<std::decay_t<decltype(stage.f(std::move(*item)))>> result;
                if (item)
                    result = attempt([&] { return stage.f(std::move(*item)); });
                if constexpr (in_order)
                    gates[I].leave(number);
                pass<I + 1>(number, std::move(result));
            }
        }
    }
    template <class F> auto attempt(F &&f) -> std::optional<decltype(f())> {
        /* ORDER relaxed: only whether a function is called that need not be. */
        if (has_thrown.load(std::memory_order_relaxed))
            return std::nullopt;
        try {
            return f();
        } catch (...) {
            /* ORDER relaxed: the joins order the exception before the caller's look. */
            if (!has_thrown.exchange(true, std::memory_order_relaxed))
                error = std::current_exception();
            return std::nullopt;
        }
    }

    std::size_t width;
    Source &source;
    std::tuple<Stages &...> stages;
    std::vector<gate> gates;
    mutex source_mutex;
    bool is_over = false;   /* under the mutex */
    std::uint64_t next = 0; /* under the mutex */
    std::atomic<bool> has_thrown{false};
    std::exception_ptr error; /* of the one that set it */
};

} // namespace detail

/*
 * Items from source(), a std::optional that is empty at the end, through the stages; each gets what the one before
 * returned. At most `width` are on their way at a time, each in a thread, which may block. The source is called by one
 * thread at a time. The first exception ends it.
 *
 *     ito::pipeline(16, read_line, ito::parallel_stage{parse}, ito::serial_stage{write});
 */
template <class Source, class... Stages> void pipeline(std::size_t width, Source &&source, Stages &&...stages) {
    static_assert(sizeof...(Stages) > 0, "ito::pipeline: no stage");
    detail::check(width ? 0 : EINVAL, "ito::pipeline");
    detail::pipeline<std::remove_reference_t<Source>, std::remove_reference_t<Stages>...>(width, source, stages...)
        .run();
}

} // namespace ito

#endif
