/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Algorithms, pipelines, channels, select and stop requests in C++; built as C++17 and as C++20, which has stop tokens. */
#include "check.hpp"

#include <ito.hpp>

#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;

static std::vector<std::uint32_t> some_numbers(std::size_t n, std::uint64_t seed, std::uint32_t different) {
    std::vector<std::uint32_t> v(n);
    for (auto &x : v)
        x = static_cast<std::uint32_t>(check_random(&seed)) % different;
    return v;
}
static const std::size_t lengths[] = {0, 1, 2, 3, 4095, 4096, 4097, 8192, 100001};

/* -- algorithms -- */

static void scans_are_those_of_the_standard() {
    for (std::size_t n : lengths) {
        auto v = some_numbers(n, check_seed, 1000);
        std::vector<std::uint32_t> mine(n), theirs(n);
        std::inclusive_scan(v.begin(), v.end(), theirs.begin());
        CHECK(ito::parallel_inclusive_scan(v.begin(), v.end(), mine.begin()) == mine.end());
        CHECK(mine == theirs);
        std::exclusive_scan(v.begin(), v.end(), theirs.begin(), 7u);
        CHECK(ito::parallel_exclusive_scan(v.begin(), v.end(), mine.begin(), 7u) == mine.end());
        CHECK(mine == theirs);
        std::inclusive_scan(v.begin(), v.end(), theirs.begin(), std::plus<>(), 9u);
        ito::parallel_inclusive_scan(v.begin(), v.end(), v.begin(), std::plus<>(), 9u); /* over the input */
        CHECK(v == theirs);
    }
    /* Not commutative, and no default constructor. */
    struct affine { /* x -> a x + b */
        affine(std::uint32_t a, std::uint32_t b) : a(a), b(b) {}
        std::uint32_t a, b;
        bool operator==(const affine &o) const { return a == o.a && b == o.b; }
    };
    auto after = [](const affine &f, const affine &g) { return affine(f.a * g.a, f.b * g.a + g.b); };
    std::vector<affine> maps, mine(20000, affine(0, 0)), theirs(mine);
    auto a = some_numbers(20000, check_seed, 1 << 30), b = some_numbers(20000, check_seed + 1, 1 << 30);
    for (std::size_t i = 0; i < a.size(); i++)
        maps.emplace_back(a[i] | 1, b[i]);
    std::inclusive_scan(maps.begin(), maps.end(), theirs.begin(), after);
    ito::parallel_inclusive_scan(maps.begin(), maps.end(), mine.begin(), after);
    CHECK(mine == theirs);
    try {
        ito::parallel_inclusive_scan(a.begin(), a.end(), b.begin(), [](std::uint32_t x, std::uint32_t y) {
            if (y % 128 == 5)
                throw std::runtime_error("scan");
            return x + y;
        });
        CHECK(false);
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "scan");
    }
}
/* Floating-point results of blocks that were read once and of blocks that were read twice are the same bits. */
static void scans_give_the_same_bits() {
    std::vector<double> v(200000), first(v.size()), again(v.size());
    std::uint64_t seed = check_seed;
    for (auto &x : v)
        x = static_cast<double>(check_random(&seed)) / 3e9;
    ito::parallel_inclusive_scan(v.begin(), v.end(), first.begin());
    double carry = 0, by_hand = 0;
    for (std::size_t b = 0; b < v.size(); b += 4096) { /* the definition: blocks of 4096, each folded alone */
        double fold = 0;
        by_hand = carry;
        for (std::size_t i = b; i < std::min(v.size(), b + 4096); i++) {
            by_hand = i == 0 ? v[0] : by_hand + v[i];
            fold = i == b ? v[i] : fold + v[i];
            CHECK(first[i] == by_hand);
        }
        carry = b ? carry + fold : fold;
    }
    for (int turn = 0; turn < check_scale(20); turn++) {
        ito::parallel_inclusive_scan(v.begin(), v.end(), again.begin());
        CHECK(!std::memcmp(first.data(), again.data(), v.size() * sizeof(double)));
    }
}
static void sorts_sort() {
    for (std::size_t n : lengths)
        for (std::uint32_t different : {1u, 2u, 100u, ~0u}) {
            auto v = some_numbers(n, check_seed + n, different), w = v;
            std::sort(w.begin(), w.end());
            ito::parallel_sort(v.begin(), v.end());
            CHECK(v == w);
            ito::parallel_sort(v.begin(), v.end()); /* sorted before */
            CHECK(v == w);
            ito::parallel_sort(v.begin(), v.end(), std::greater<>());
            std::reverse(w.begin(), w.end());
            CHECK(v == w);
        }
    std::vector<std::string> names;
    for (auto x : some_numbers(30000, check_seed, ~0u))
        names.push_back("a name that is on the heap " + std::to_string(x));
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    ito::parallel_sort(names.begin(), names.end());
    CHECK(names == sorted);
    /* Organ pipes: bad for many choices of a pivot. */
    std::vector<int> pipes;
    for (int i = 0; i < 100000; i++)
        pipes.push_back(i < 50000 ? i : 100000 - i);
    ito::parallel_sort(pipes.begin(), pipes.end());
    CHECK(std::is_sorted(pipes.begin(), pipes.end()));
    auto v = some_numbers(50000, check_seed, ~0u);
    std::atomic<int> left{20000};
    try {
        ito::parallel_sort(v.begin(), v.end(), [&](auto x, auto y) {
            if (left-- == 0)
                throw 42;
            return x < y;
        });
        CHECK(false);
    } catch (int which) {
        CHECK_EQ(which, 42);
    }
}
/* Against a comparison that makes every pivot bad (M. D. McIlroy: "A killer adversary for quicksort"), the work stays
 * within a factor of n log n. Run by one thread, as the adversary has a state. */
static void no_order_makes_a_sort_slow() {
    const int n = 20000;
    std::vector<int> value(n, n), order(n);
    int solid = 0, candidate = 0;
    long compared = 0;
    std::iota(order.begin(), order.end(), 0);
    ito_mutex lock = ITO_MUTEX_INIT_KIND(ITO_MUTEX_NORMAL);
    ito::parallel_sort(order.begin(), order.end(), [&](int x, int y) {
        ito_mutex_lock(&lock);
        compared++;
        if (value[x] == n && value[y] == n)
            value[x == candidate ? x : y] = solid++;
        if (value[x] == n)
            candidate = x;
        else if (value[y] == n)
            candidate = y;
        bool less = value[x] < value[y];
        ito_mutex_unlock(&lock);
        return less;
    });
    CHECK(compared < 30l * n * 15);
}
static void invokes_run_all() {
    std::atomic<int> ran{0};
    auto one = [&] { ran++; };
    ito::parallel_invoke(one);
    ito::parallel_invoke(one, one, one, one, one, [&] { ito::parallel_invoke(one, one, one); });
    CHECK_EQ(ran.load(), 9);
    try {
        ito::parallel_invoke(
            one, [] { throw 2; }, one, [] { throw 4; });
        CHECK(false);
    } catch (int which) {
        CHECK_EQ(which, 2);
    }
    CHECK_EQ(ran.load(), 11);
}

/* -- pipelines -- */

static void pipelines_keep_the_order() {
    for (std::size_t width : {1, 2, 7, 64}) {
        int next = 0, in_source = 0, expected = 0, middle = 0;
        std::atomic<int> on_their_way{0}, most{0};
        const int items = check_scale(2000);
        auto source = [&]() -> std::optional<int> {
            CHECK_EQ(in_source++, 0);
            int n = next < items ? next++ : -1;
            in_source--;
            if (n < 0)
                return std::nullopt;
            int now = ++on_their_way, seen = most;
            while (now > seen && !most.compare_exchange_weak(seen, now))
                ;
            return n;
        };
        ito::pipeline(width, source, ito::parallel_stage{[](int n) {
                          if (n % 7 == 0)
                              ito::this_thread::yield();
                          if (n % 64 == 3)
                              ito::this_thread::sleep_for(20us);
                          return std::make_unique<int>(n * 2);
                      }},
                      ito::serial_stage{[&](std::unique_ptr<int> p) {
                          CHECK_EQ(*p, 2 * middle++);
                          return *p / 2;
                      }},
                      ito::parallel_stage{[](int n) { return std::to_string(n); }},
                      ito::serial_stage{[&](const std::string &s) {
                          CHECK(s == std::to_string(expected++));
                          on_their_way--;
                      }});
        CHECK_EQ(expected, items);
        CHECK(most <= static_cast<int>(width));
    }
}
static void pipelines_end_when_a_stage_throws() {
    for (int where = 0; where < 4; where++) {
        int next = 0;
        std::atomic<int> ran{0};
        auto may_throw = [&](int stage, int n) {
            if (where == stage && n == 100)
                throw std::runtime_error("stage " + std::to_string(stage));
            return n;
        };
        try {
            ito::pipeline(
                8, [&]() -> std::optional<int> { return may_throw(0, next++); },
                ito::parallel_stage{[&](int n) { return may_throw(1, n); }},
                ito::serial_stage{[&](int n) { return may_throw(2, n); }}, ito::serial_stage{[&](int n) {
                    may_throw(3, n);
                    ran++;
                }});
            CHECK(false);
        } catch (const std::runtime_error &e) {
            CHECK(std::string(e.what()) == "stage " + std::to_string(where));
        }
        CHECK(ran <= 100 + 8);
    }
}

/* -- channels -- */

static void channels_carry_what_moves() {
    ito::channel<std::unique_ptr<std::string>> c(2), meet;
    ito::thread sender([&] {
        for (int i = 0; i < 100; i++)
            CHECK((i % 2 ? c : meet).send(std::make_unique<std::string>(std::to_string(i))));
        c.close();
    });
    for (int i = 0; i < 50; i++) {
        CHECK(**meet.receive() == std::to_string(2 * i));
        CHECK(**c.receive() == std::to_string(2 * i + 1));
    }
    CHECK(!c.receive());
    sender.get();
    CHECK(!c.close());
    auto item = std::make_unique<std::string>("kept");
    CHECK(!c.try_send(std::move(item)));
    CHECK(item && *item == "kept"); /* it was not sent */
    CHECK(meet.send_for(std::move(item), 1ms) == ito::channel_status::timeout);
    CHECK(item && *item == "kept");
    std::optional<std::unique_ptr<std::string>> got;
    CHECK(meet.receive_for(got, 1ms) == ito::channel_status::timeout);
    CHECK(c.receive_for(got, 1ms) == ito::channel_status::closed);
    CHECK(!got && !meet.try_receive());
    ito::channel<int> numbers(4);
    ito::thread counts([&] {
        for (int i = 1; i <= 100; i++)
            numbers.send(i);
        numbers.close();
    });
    int sum = 0;
    for (int n : numbers)
        sum += n;
    CHECK_EQ(sum, 5050);
    counts.get();
    ito::channel<std::string> left(3); /* what nobody receives is deleted */
    left.send("one that is too long for the object itself");
    left.send("another that is too long for the object itself");
}
static void selects_call_one_function() {
    ito::channel<std::string> names(1);
    ito::channel<int> numbers;
    ito::stop stop;
    int received = 0, sent = 0, late = 0, not_now = 0;
    ito::select(ito::on_receive(names, [&](auto) { received++; }), ito::otherwise([&] { not_now++; }));
    ito::select(ito::on_receive(numbers, [&](auto) { received++; }), ito::on_timeout(1ms, [&] { late++; }));
    CHECK(late == 1 && not_now == 1);
    ito::select(
        ito::on_send(names, std::string("a name that is too long for the object"), [&](bool ok) { sent += ok; }),
        ito::on_receive(numbers, [&](auto) { received++; }));
    CHECK_EQ(sent, 1);
    ito::select(
        ito::on_send(names, std::string("no room for another name, which is deleted"), [&](bool) { sent += 100; }),
        ito::on_timeout(1ms, [&] { late++; }));
    ito::select(ito::on_receive(names, [&](std::optional<std::string> name) {
        CHECK(name && name->substr(0, 6) == "a name");
        received++;
    }));
    CHECK(sent == 1 && late == 2 && received == 1);
    std::vector<ito::thread<int>> workers;
    for (int i = 0; i < 5; i++)
        workers.emplace_back([&] {
            int sum = 0;
            for (bool on = true; on;)
                ito::select(ito::on_receive(numbers, [&](std::optional<int> n) { sum += n.value_or(0); }),
                            ito::on_stop(stop, [&] { on = false; }));
            return sum;
        });
    for (int i = 1; i <= 200; i++)
        numbers.send(i);
    CHECK(!stop.requested() && !stop.wait_for(1ms));
    CHECK(stop.request() && !stop.request());
    int sum = 0;
    for (auto &w : workers)
        sum += w.get();
    CHECK_EQ(sum, 20100);
    CHECK(stop.requested() && stop.wait_for(1h));
    names.close();
    bool closed = false;
    ito::select(ito::on_receive(names, [&](auto name) { closed = !name; }));
    ito::select(ito::on_send(names, std::string("to nobody"), [&](bool ok) { closed = closed && !ok; }));
    CHECK(closed);
}
static void threads_are_waited_for_in_time() {
    ito::counting_semaphore may_end(0);
    ito::thread t([&] {
        may_end.acquire();
        return std::string("in the end");
    });
    CHECK(!t.wait_for(100us));
    may_end.release();
    CHECK(t.wait_for(1h));
    CHECK(t.wait_for(0s)); /* as often as one likes */
    CHECK(t.get() == "in the end");
    try {
        t.wait_for(1s);
        CHECK(false);
    } catch (const std::system_error &e) {
        CHECK_EQ(e.code().value(), EINVAL);
    }
}
static void workers_have_values_of_any_type() {
    ito::worker_local<std::vector<int>> seen;
    ito::parallel_for(0, 1000, 1, [&](std::size_t begin, std::size_t end) {
        for (; begin < end; begin++)
            seen.here().push_back(static_cast<int>(begin));
    });
    auto all = seen.combine([](auto a, const auto &b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    });
    std::sort(all.begin(), all.end());
    CHECK_EQ(all.size(), 1000);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(all[static_cast<std::size_t>(i)], i);
}

#ifdef ITO__STOP_TOKEN
static void stop_tokens_are_followed() {
    std::stop_source source;
    ito::thread sleeps([token = source.get_token()] { return ito::this_thread::sleep_for(1h, token); });
    ito::thread reads([token = source.get_token()] {
        ito::channel<int> never;
        ito::stop stop(token);
        bool stopped = false;
        ito::select(ito::on_receive(never, [](auto) {}), ito::on_stop(stop, [&] { stopped = true; }));
        return stopped;
    });
    ito::this_thread::sleep_for(1ms);
    source.request_stop();
    CHECK(!sleeps.get());
    CHECK(reads.get());
    CHECK(ito::this_thread::sleep_for(1us, std::stop_token()));
    std::atomic<int> rounds{0};
    {
        ito::jthread t([&](std::stop_token token) {
            while (!token.stop_requested()) {
                rounds++;
                ito::this_thread::yield();
            }
        });
        while (rounds < 3)
            ito::this_thread::yield();
    } /* asked to stop, and joined */
    ito::jthread<int> plain([] { return 5; });
    CHECK_EQ(plain.get(), 5);
}
#endif

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(scans_are_those_of_the_standard),
    TEST(scans_give_the_same_bits),
    TEST(sorts_sort),
    TEST(no_order_makes_a_sort_slow),
    TEST(invokes_run_all),
    TEST(pipelines_keep_the_order),
    TEST(pipelines_end_when_a_stage_throws),
    TEST(channels_carry_what_moves),
    TEST(selects_call_one_function),
    TEST(threads_are_waited_for_in_time),
    TEST(workers_have_values_of_any_type),
#ifdef ITO__STOP_TOKEN
    TEST(stop_tokens_are_followed),
#endif
    {nullptr, nullptr}};

int main(int argc, char **argv) {
    return check_in_runtime(argc, argv, tests);
}
