/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fib on libfork (https://github.com/ConorWilliams/libfork), whose tasks are coroutines. */
#define FORK_OWN
#define FORK_RUNTIME "libfork"
#include "fib.c"
#include <libfork.hpp>

static lf::lazy_pool *pool;

static inline void fork_run(int workers, fork_function *root, void *arg) {
    lf::lazy_pool mine(static_cast<std::size_t>(workers));
    pool = &mine;
    root(arg);
}

constexpr auto fib_task = [](auto self, int n) -> lf::task<std::uint64_t> {
    if (n < 2)
        co_return static_cast<std::uint64_t>(n);
    std::uint64_t a, b;
    co_await lf::fork(&a, self)(n - 1);
    co_await lf::call(&b, self)(n - 2);
    co_await lf::join;
    co_return a + b;
};

static uint64_t fib(int n) {
    return lf::sync_wait(*pool, fib_task, n);
}
