/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Coroutines and threads that wait for each other. C++20. */
#include "check.hpp"

#include <ito/coroutine.hpp>
#include <ito/io.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

static ito::task<int> fib(int n) {
    if (n < 2)
        co_return n;
    if (n > 8) /* in threads of their own */
        co_await ito::schedule();
    int x = co_await fib(n - 1);
    co_return x + co_await fib(n - 2);
}
static void a_thread_waits_for_a_coroutine() {
    CHECK_EQ(ito::sync_wait(fib(16)), 987);
    int outside = 0;
    std::thread kernel_thread([&] { outside = ito::sync_wait(fib(12)); });
    auto join = [](void *thread) -> void * { return static_cast<std::thread *>(thread)->join(), nullptr; };
    ito_blocking(join, &kernel_thread); /* the worker may have to run it */
    CHECK_EQ(outside, 144);
    auto text = []() -> ito::task<std::string> { co_return "a text that is too long for the object itself"; };
    CHECK_EQ(ito::sync_wait(text()).size(), 45);
    int ran = 0;
    auto nothing = [&]() -> ito::task<> {
        ran++;
        co_return;
    };
    ito::sync_wait(nothing());
    CHECK_EQ(ran, 1);
    CHECK_EQ(ito::sync_wait(ito::on_thread([] { return 7; })), 7);
    { auto never = nothing(); /* is not awaited, never begins, is deleted */ }
    CHECK_EQ(ran, 1);
}

static ito::task<int> deep(int depth) { /* as deep as no stack is */
    if (depth == 0)
        co_return 0;
    co_return 1 + co_await deep(depth - 1);
}
static void long_chains_need_no_stack() {
#ifdef __OPTIMIZE__ /* compilers turn the transfer into a jump when they optimise */
    CHECK_EQ(ito::sync_wait(deep(check_scale(100000))), check_scale(100000));
#else
    CHECK_EQ(ito::sync_wait(deep(100)), 100);
#endif
}

static ito::task<int> fails(const char *how) {
    co_await ito::schedule();
    throw std::runtime_error(how);
}
static std::string what_of(ito::task<int> t) {
    try {
        ito::sync_wait(std::move(t));
        CHECK(false);
    } catch (const std::runtime_error &e) {
        return e.what();
    }
    return "";
}
static void exceptions_come_through() {
    CHECK(what_of(fails("scheduled")) == "scheduled");
    auto outer = []() -> ito::task<int> {
        try {
            co_await fails("inner");
        } catch (const std::runtime_error &e) {
            CHECK(std::string(e.what()) == "inner");
        }
        co_return co_await ito::on_thread([]() -> int { throw std::runtime_error("thread"); });
    };
    CHECK(what_of(outer()) == "thread");
}

/* Coroutines that block: on a mutex, on a channel, in a sleep. The worker runs others. */
static void coroutines_block_like_threads() {
    ito::channel<int> c;
    ito::mutex m;
    long sum = 0;
    auto sends = [&](int i) -> ito::task<int> {
        co_await ito::schedule();
        c.send(i);
        std::lock_guard lock(m);
        ito::this_thread::sleep_for(std::chrono::microseconds(10));
        sum += i;
        co_return i;
    };
    std::vector<ito::task<int>> tasks;
    const int n = check_scale(200);
    for (int i = 0; i < n; i++)
        tasks.push_back(sends(i));
    ito::thread<long> receiver([&] {
        long all = 0;
        for (int i = 0; i < n; i++)
            all += *c.receive();
        return all;
    });
    auto values = ito::sync_wait(ito::when_all(std::move(tasks)));
    CHECK_EQ(receiver.get(), n * (n - 1) / 2);
    CHECK_EQ(sum, n * (n - 1) / 2);
    for (int i = 0; i < n; i++)
        CHECK_EQ(values[static_cast<std::size_t>(i)], i);
}
static void when_all_waits_for_all() {
    CHECK(ito::sync_wait(ito::when_all(std::vector<ito::task<int>>())).empty());
    std::atomic<int> ended{0};
    auto one = [&](int i) -> ito::task<int> {
        co_await ito::schedule();
        ito::this_thread::yield();
        ended++;
        if (i % 3 == 1)
            throw std::runtime_error("number " + std::to_string(i));
        co_return i;
    };
    std::vector<ito::task<int>> tasks;
    for (int i = 0; i < 30; i++)
        tasks.push_back(one(i));
    try {
        ito::sync_wait(ito::when_all(std::move(tasks)));
        CHECK(false);
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "number 1");
    }
    CHECK_EQ(ended.load(), 30);
}

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(a_thread_waits_for_a_coroutine), TEST(long_chains_need_no_stack), TEST(exceptions_come_through),
    TEST(coroutines_block_like_threads),  TEST(when_all_waits_for_all),    {nullptr, nullptr}};

int main(int argc, char **argv) {
    return check_in_runtime(argc, argv, tests);
}
