/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C++ face: exceptions through join and over migrations, standard lock types, RAII. */
#include "check.hpp"

#include <ito.hpp>
#include <ito/fork.h>

#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;

static void thread_returns_what_it_computed() {
    ito::thread t([] { return std::string("computed"); });
    CHECK(t.get() == "computed");
    CHECK(!t.joinable());
    auto sum = ito::async([](int a, int b) { return a + b; }, 40, 2);
    CHECK_EQ(sum.get(), 42);
    auto moved = ito::async([](std::unique_ptr<int> p) { return p; }, std::make_unique<int>(7));
    CHECK_EQ(*moved.get(), 7);
}

static void exception_comes_through_join() {
    ito::thread t([]() -> int { throw std::runtime_error("lost"); });
    bool caught = false;
    try {
        t.get();
    } catch (const std::runtime_error &e) {
        caught = std::string(e.what()) == "lost";
    }
    CHECK(caught);
    ito::thread<> nobody_asks([] { throw 1; });
    CHECK(ito::thread<>([] {}).joinable());
    try {
        ito::fork_join([] { throw 1; }, [] { throw 2; });
        CHECK(false);
    } catch (int which) {
        CHECK_EQ(which, 1);
    }
}

/* Each thread is handling an exception of its own while it moves between workers. */
static void caught_exceptions_move_along() {
    std::vector<ito::thread<>> threads;
    for (int i = 0; i < 40; i++)
        threads.emplace_back([i] {
            for (int round = 0; round < check_scale(50); round++) {
                try {
                    throw std::to_string(i);
                } catch (const std::string &mine) {
                    ito::this_thread::yield();
                    if (round % 8 == 0)
                        ito::this_thread::sleep_for(20us);
                    try {
                        ito::thread<>([] { throw 5; }).get(); /* a thread inside the catch clause */
                    } catch (int five) {
                        CHECK_EQ(five, 5);
                    }
                    CHECK(mine == std::to_string(i));
                    try {
                        throw; /* what *this* thread handles */
                    } catch (const std::string &again) {
                        CHECK(again == std::to_string(i));
                    }
                }
                CHECK(!std::current_exception());
                CHECK_EQ(std::uncaught_exceptions(), 0);
            }
        });
    for (auto &t : threads)
        t.get();
}

struct joins_while_unwinding {
    ito::thread<> t{[] { ito::this_thread::sleep_for(100us); }};
    ~joins_while_unwinding() { CHECK_EQ(std::uncaught_exceptions(), 1); }
};
static void destructors_join_while_unwinding() {
    for (int i = 0; i < check_scale(100); i++) {
        int caught = 0;
        try {
            joins_while_unwinding a, b;
            throw 3;
        } catch (int three) {
            caught = three;
        }
        CHECK_EQ(caught, 3);
        CHECK_EQ(std::uncaught_exceptions(), 0);
    }
}

static void standard_locks_work() {
    ito::mutex a, b;
    ito::recursive_mutex r;
    ito::shared_mutex s;
    ito::condition_variable changed;
    long n = 0, readers_saw = 0;
    bool go = false;
    std::vector<ito::thread<>> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&, i] {
            {
                std::unique_lock<ito::mutex> lock(a);
                changed.wait(lock, [&] { return go; });
            }
            for (int round = 0; round < check_scale(200); round++) {
                {
                    std::scoped_lock both(i % 2 ? a : b, i % 2 ? b : a);
                    std::lock_guard<ito::recursive_mutex> once(r), twice(r);
                    std::unique_lock<ito::shared_mutex> write(s);
                    long before = n;
                    if (round % 16 == 0)
                        ito::this_thread::yield();
                    n = before + 1;
                }
                std::shared_lock<ito::shared_mutex> read(s);
                if (n > 0)
                    __atomic_fetch_add(&readers_saw, 1, __ATOMIC_RELAXED);
            }
        });
    {
        std::lock_guard<ito::mutex> lock(a);
        go = true;
    }
    changed.notify_all();
    for (auto &t : threads)
        t.get();
    CHECK_EQ(n, 8 * check_scale(200));
    CHECK_EQ(readers_saw, n);

    std::unique_lock<ito::mutex> lock(a);
    CHECK(changed.wait_for(lock, 1ms) == std::cv_status::timeout);
    CHECK(!changed.wait_for(lock, 1ms, [] { return false; }));
    ito::thread<>([&] { CHECK(!a.try_lock_for(1ms)); }).get();
    lock.unlock();
#ifndef NDEBUG
    bool refused = false;
    try {
        a.unlock();
    } catch (const std::system_error &e) {
        refused = e.code().value() == EPERM;
    }
    CHECK(refused);
#endif
}

static void graphs_run_lambdas() {
    ito::graph graph;
    std::vector<int> seen(100);
    auto here = graph.group({0});
    auto first = graph.task([&] { seen[0]++; }, 100, "first", here);
    auto last = graph.task([&] { CHECK_EQ(std::accumulate(seen.begin(), seen.end(), 0), 99 * seen[0]); });
    for (std::size_t i = 1; i < 99; i++) {
        auto middle = graph.task([&seen, i] {
            if (++seen[i] == 3 && i == 7)
                throw std::out_of_range("seven");
        });
        graph.edge(first, middle);
        graph.edge(middle, last);
    }
    graph.run();
    graph.run(ITO_GRAPH_STATIC);
    bool caught = false;
    try {
        graph.run();
    } catch (const std::out_of_range &) {
        caught = true;
    }
    CHECK(caught);
    graph.run(ITO_GRAPH_STATIC);
    CHECK_EQ(seen[98], 4);
    caught = false;
    graph.edge(last, first);
    try {
        graph.run();
    } catch (const std::system_error &e) {
        caught = e.code() == std::errc::resource_deadlock_would_occur;
    }
    CHECK(caught);
}

static void groups_loops_and_futures() {
    std::atomic<int> ran{0};
    ito::task_group group;
    for (int i = 0; i < 100; i++)
        group.run([&ran, i] {
            ran++;
            if (i == 50)
                throw std::out_of_range("fifty");
        });
    bool caught = false;
    try {
        group.wait();
    } catch (const std::out_of_range &) {
        caught = true;
    }
    CHECK(caught);
    CHECK_EQ(ran, 100);
    group.run([&ran] { ran++; });
    group.wait();
    CHECK_EQ(ran, 101);

    std::vector<int> marks(10000);
    ito::parallel_for(0, marks.size(), 16, [&](std::size_t from, std::size_t to) {
        for (; from < to; from++)
            marks[from]++;
    });
    CHECK_EQ(std::accumulate(marks.begin(), marks.end(), 0), 10000);
    caught = false;
    try {
        ito::parallel_for(0, 100, 1, [](std::size_t from, std::size_t to) {
            for (; from < to; from++)
                if (from == 33)
                    throw from;
        });
    } catch (std::size_t which) {
        caught = which == 33;
    }
    CHECK(caught);
    auto body = [](std::size_t from, std::size_t to) {
        double sum = 0;
        for (; from < to; from++)
            sum += 1.0 / static_cast<double>(from + 1);
        return sum;
    };
    double once = ito::parallel_reduce(0, 100000, 100, 0.0, body, std::plus<>());
    for (int i = 0; i < 10; i++)
        CHECK(ito::parallel_reduce(0, 100000, 100, 0.0, body, std::plus<>()) == once);

    ito::promise<int> promise;
    auto future = promise.get_future();
    CHECK(!future.wait_for(1ms));
    ito::thread waits([future] { return future.get(); });
    promise.set_value(9);
    CHECK_EQ(waits.get(), 9);
    CHECK_EQ(future.get(), 9);
    auto broken = ito::promise<void>().get_future();
    caught = false;
    try {
        broken.get();
    } catch (const std::future_error &e) {
        caught = e.code() == std::future_errc::broken_promise;
    }
    CHECK(caught);
}

/* Counts what is alive, in whatever thread, and how often it was copied. */
static std::atomic<int> alive{0}, copies{0};
struct counted_object {
    int value;
    explicit counted_object(int v) : value(v) { alive++; }
    counted_object(const counted_object &o) : value(o.value) {
        alive++;
        copies++;
    }
    counted_object(counted_object &&o) noexcept : value(o.value) { alive++; }
    ~counted_object() { alive--; }
};
/* Its copy throws, and so may its move. */
struct throwing_copy {
    bool throws;
    explicit throwing_copy(bool t) : throws(t) {}
    throwing_copy(const throwing_copy &o) : throws(o.throws) {
        if (throws)
            throw std::domain_error("copied");
    }
};

static void function_objects_of_all_kinds_run() {
    alive = copies = 0;
    for (int i = 0; i < check_scale(200); i++) {
        /* move-only, with a result that is no word */
        auto boxed = std::make_unique<counted_object>(i);
        ito::thread moved([b = std::move(boxed)] { return std::make_unique<counted_object>(b->value + 1); });
        CHECK_EQ(moved.get()->value, i + 1);
        CHECK_EQ(alive, 0);
        /* larger than what goes to the child's stack */
        std::array<char, 5000> large{};
        large[4999] = static_cast<char>(i);
        ito::thread big([large] { return large; });
        CHECK(big.get() == large);
        /* copied once, in the caller; words of several types */
        counted_object object(i);
        auto from_copy = [object] { return object.value; };
        copies = 0;
        ito::thread copied(from_copy);
        CHECK_EQ(copied.get(), i);
        CHECK_EQ(copies, 1);
        CHECK(ito::thread([] { return 0.5; }).get() == 0.5);
        CHECK_EQ(ito::thread([] { return -1L; }).get(), -1L);
        CHECK(ito::thread([] { return true; }).get());
        CHECK(ito::thread([&] { return &object; }).get() == &object);
        ito::thread<>([] {}).get();
    }
    CHECK_EQ(alive, 0);
    throwing_copy good(false), bad(true);
    ito::thread fine([good] { return good.throws; });
    CHECK(!fine.get());
    auto holds = [p = std::make_shared<throwing_copy>(true)] { return throwing_copy(*p); };
    bool caught = false;
    try {
        ito::thread(holds).get(); /* thrown by the result's copy, in the thread */
    } catch (const std::domain_error &) {
        caught = true;
    }
    CHECK(caught);
    caught = false;
    try {
        ito::async([](const throwing_copy &) {}, bad); /* here, in the caller: no thread */
    } catch (const std::domain_error &) {
        caught = true;
    }
    CHECK(caught);
    ito::attributes named;
    named.name = "named";
    named.stack_bytes = 32768;
    ito::thread with(named, [] { return std::string(ito_name(ito_self())); });
    CHECK(with.get() == "named");
}

/* Results and exceptions are deleted once, whoever is last: the thread, or who lets go of it. */
static void what_nobody_asks_for_is_deleted() {
    alive = 0;
    std::atomic<int> ended{0};
    int n = 0;
    for (int i = 0; i < check_scale(300); i++)
        for (int kind = 0; kind < 6; kind++) {
            auto body = [&ended, kind, i] {
                if (kind % 2)
                    ito::this_thread::yield();
                if (i % 7 == kind)
                    ito::this_thread::sleep_for(std::chrono::microseconds(i % 50));
                struct at_end {
                    std::atomic<int> &n;
                    ~at_end() { n++; }
                } at_end{ended};
                if (kind >= 4)
                    throw counted_object(i);
                return counted_object(i);
            };
            ito::thread thread(body);
            if (kind == 2)
                ito::this_thread::yield();
            if (kind == 0)
                thread = ito::thread(body), n++;
            else
                thread.detach();
            n++;
        }
    while (ended != n || alive != 0) /* hangs if one is left */
        ito::this_thread::sleep_for(100us);
    CHECK_EQ(ito::thread([] { return 5; }).get(), 5); /* detached threads leave nothing in their descriptors */
}

static long forked_sum(long from, long to) {
    if (to - from == 1) {
        if (from % 97 == 13)
            throw from;
        return from;
    }
    long middle = from + (to - from) / 2, x = 0, y = 0;
    ito::fork_join([&] { x = forked_sum(from, middle); }, [&] { y = forked_sum(middle, to); });
    return x + y;
}
static void forks_join_and_throw() {
    for (int i = 0; i < check_scale(20); i++) {
        long which = -1;
        CHECK_EQ(forked_sum(14, 110), (14 + 109) * 96 / 2);
        try {
            forked_sum(0, 1000);
        } catch (long first) {
            which = first;
        }
        CHECK_EQ(which, 13); /* the first in the order of the program, of eleven */
        /* Each waits for the other: the first becomes a thread, if need be. */
        ito::counting_semaphore a(0), b(0);
        ito::fork_join([&] { a.release(), b.acquire(); }, [&] { a.acquire(), b.release(); });
        /* While an exception is handled, and one that is thrown beside it. */
        try {
            throw std::string("outer");
        } catch (const std::string &) {
            try {
                ito::fork_join([&] { ito::this_thread::yield(), throw 1; },
                               [&] { ito::this_thread::yield(), throw 2; });
                CHECK(false);
            } catch (int one) {
                CHECK_EQ(one, 1);
            }
            try {
                throw;
            } catch (const std::string &again) {
                CHECK(again == "outer");
            }
        }
        CHECK_EQ(std::uncaught_exceptions(), 0);
    }
    std::thread outside([] {
        ito::counting_semaphore a(0), b(0);
        ito::fork_join([&] { a.release(), b.acquire(); }, [&] { a.acquire(), b.release(); });
        ito::task_group group;
        std::atomic<int> n{0};
        for (int i = 0; i < 20; i++)
            group.run([&n, large = std::array<char, 3000>()] { n += 1 + large[7]; });
        group.wait();
        CHECK_EQ(n, 20);
        CHECK(ito::async([](std::string s) { return s + "!"; }, "off the workers").get() == "off the workers!");
    });
    /* Off the workers a thread runs on one; so this one must not wait in the kernel. */
    std::atomic<bool> done{false};
    std::thread joiner([&] {
        outside.join();
        done = true;
    });
    while (!done)
        ito::this_thread::yield();
    joiner.join();
}

static void grow(ito::task_group &group, std::atomic<int> &n, int depth) {
    n++;
    for (int i = 0; depth > 0 && i < 3; i++)
        group.run([&group, &n, depth, i] {
            if (i == 1)
                ito::this_thread::yield();
            grow(group, n, depth - 1);
        });
}
static void groups_wait_for_threads_of_threads() {
    for (int i = 0; i < check_scale(10); i++) {
        std::atomic<int> n{0};
        ito::task_group group;
        grow(group, n, 5);
        group.wait();
        CHECK_EQ(n, (243 * 3 - 1) / 2);
        group.wait();
        /* Many that wait at once, more than one waiter, and one that throws long after. */
        ito::counting_semaphore go(0);
        for (int k = 0; k < 500; k++)
            group.run([&, k] {
                go.acquire();
                n++;
                if (k == 77)
                    throw k;
            });
        std::atomic<int> threw{0};
        auto waits = [&] {
            try {
                group.wait();
            } catch (int which) {
                CHECK_EQ(which, 77);
                threw++;
            }
            CHECK_EQ(n, 864);
        };
        ito::thread<> second(waits);
        go.release(500);
        waits();
        second.get();
        CHECK_EQ(threw, 1);
        /* Those that have ended go from the list while others run on. */
        std::atomic<int> ran{0};
        ito::task_group long_lived;
        for (int k = 0; k < 3000; k++)
            long_lived.run([&] {
                ito::this_thread::yield();
                ran++;
            });
    }
    alive = 0;
    {
        ito::task_group dropped; /* its destructor waits, and deletes the exception */
        dropped.run([] {
            ito::this_thread::yield();
            throw counted_object(1);
        });
    }
    CHECK_EQ(alive, 0);
}

static void once_semaphore_barrier_and_specific() {
    ito::once_flag flag = ITO_ONCE_INIT;
    int calls = 0;
    for (int i = 0; i < 3; i++) {
        try {
            ito::call_once(flag, [&] {
                if (++calls == 1)
                    throw 1;
            });
        } catch (int) {
            CHECK_EQ(calls, 1);
        }
    }
    CHECK_EQ(calls, 2);

    static std::atomic<int> alive{0};
    struct counted {
        int n = 0;
        counted() { alive++; }
        ~counted() { alive--; }
    };
    ito::thread_specific<counted> mine;
    ito::counting_semaphore sem(2);
    ito::barrier barrier(6);
    std::atomic<int> last{0}, inside{0};
    {
        std::vector<ito::thread<>> threads;
        for (int i = 0; i < 6; i++)
            threads.emplace_back([&] {
                for (int round = 0; round < 50; round++) {
                    sem.acquire();
                    CHECK(++inside <= 2);
                    ito::this_thread::yield();
                    inside--;
                    sem.release();
                    CHECK_EQ(mine->n++, round);
                }
                last += barrier.arrive_and_wait();
            });
    }
    CHECK_EQ(last, 1);
    CHECK_EQ(alive, 0);
    CHECK(sem.try_acquire() && sem.try_acquire() && !sem.try_acquire() && !sem.try_acquire_for(1ms));
}

/* -- forked tasks and exceptions ----------------------------------------------------------------------------------- */

static long fork_fib(long n);
ITO_TASK(long, fork_fib, long)
static long fork_fib(long n) {
    if (n < 2)
        return n;
    ITO_FORK(x, fork_fib, n - 1);
    long y = fork_fib(n - 2);
    return ITO_SYNC(x, fork_fib) + y;
}

static std::atomic<int> begun, ended;
static void mark(int sleeps);
ITO_TASK_VOID(mark, int)
static void mark(int sleeps) {
    begun++;
    if (sleeps)
        ito::this_thread::sleep_for(50us);
    ended++;
}
static long fail(int depth, int sleeps);
ITO_TASK(long, fail, int, int)
static long fail(int depth, int sleeps) {
    begun++;
    if (sleeps)
        ito::this_thread::sleep_for(50us);
    ended++;
    throw std::out_of_range(std::to_string(depth));
}
/* Until others have begun `n` tasks: this one's worker, as the parent sleeps, or another. */
static void let_begin(int n) {
    while (begun < n)
        ito::this_thread::sleep_for(20us);
}
/* What it throws passes `depth` frames, each with two forked tasks. */
static long falls(int depth);
ITO_TASK(long, falls, int)
static long falls(int depth) {
    ITO_FORK(x, mark, 0);
    ITO_FORK(y, fork_fib, 5);
    if (depth == 0)
        throw std::out_of_range("bottom");
    long below = falls(depth - 1);
    long sum = ITO_SYNC(y, fork_fib);
    ITO_SYNC(x, mark);
    return sum + below;
}
template <class F> static std::string what_comes_out(F &&f) {
    CHECK_EQ(std::uncaught_exceptions(), 0);
    try {
        f();
    } catch (const std::out_of_range &e) {
        CHECK_EQ(begun, ended); /* nothing that was forked still runs */
        return e.what();
    }
    return "nothing";
}
static void a_fork_is_given_back() {
    for (int i = 0; i < check_scale(200); i++) {
        begun = ended = 0;
        CHECK(what_comes_out([&] { falls(i % 40); }) == "bottom");
        CHECK_EQ(fork_fib(10), 55);
        /* The task throws as a plain call, with two forks around it. */
        CHECK(what_comes_out([] {
                  ITO_FORK(x, mark, 0);
                  ITO_FORK(y, fail, 7, 0);
                  ITO_SYNC(y, fail);
                  ITO_SYNC(x, mark);
              }) == "7");
        CHECK_EQ(fork_fib(10), 55);
    }
}

/* Tasks that have begun are waited for, and what they throw comes out of their sync, or is dropped. */
static void a_task_that_was_taken_throws() {
    for (int i = 0; i < check_scale(100); i++) {
        begun = ended = 0;
        CHECK(what_comes_out([] {
                  ITO_FORK(x, mark, 1);
                  ITO_FORK(y, mark, 1);
                  let_begin(2);
                  throw std::out_of_range("parent");
              }) == "parent");
        CHECK_EQ(ended, 2);
        CHECK_EQ(fork_fib(10), 55);

        begun = ended = 0;
        std::string came = "nothing";
        try {
            ITO_FORK(x, mark, 1);
            ITO_FORK(y, fail, 8, 1);
            let_begin(2);
            long none = ITO_SYNC(y, fail);
            ITO_SYNC(x, mark);
            CHECK_EQ(none, -1);
        } catch (const std::out_of_range &e) {
            came = e.what();
        }
        CHECK(came == "8");
        CHECK_EQ(ended, 2);

        begun = ended = 0;
        came = "nothing";
        try {
            ITO_FORK(y, fail, 9, 1);
            let_begin(1);
            throw std::string("parent");
        } catch (const std::string &e) {
            came = e;
        }
        CHECK(came == "parent");
        CHECK_EQ(std::uncaught_exceptions(), 0);
        CHECK_EQ(fork_fib(10), 55);
    }
}
static void arrays_of_forks_are_given_back() {
    for (int i = 0; i < check_scale(200); i++) {
        begun = ended = 0;
        int n = i % 9;
        CHECK(what_comes_out([n] {
                  struct ito_task_mark room[8];
                  int at = 0;
                  for (; at < n; at++)
                      ITO_FORK_AT(&room[at], mark, at % 2);
                  if (n % 3 == 1)
                      let_begin(1);
                  if (n % 3 != 2)
                      throw std::out_of_range("between");
                  while (at > 0)
                      ITO_SYNC_AT(&room[--at], mark);
                  CHECK_EQ(begun, n);
                  throw std::out_of_range("between");
              }) == "between");
        CHECK_EQ(fork_fib(10), 55);
    }
}
/* Many of them, so that the forks of one lie where those of others lay; each handles an exception while it forks. */
static void threads_fork_in_catch_clauses() {
    begun = ended = 0;
    std::vector<ito::thread<>> threads;
    for (int i = 0; i < 20; i++)
        threads.emplace_back([i] {
            for (int round = 0; round < check_scale(60); round++) {
                try {
                    throw std::to_string(i);
                } catch (const std::string &mine) {
                    ITO_FORK(x, mark, round % 2);
                    try {
                        ITO_FORK(y, mark, 1);
                        if (round % 3 == 0)
                            ito::this_thread::sleep_for(20us);
                        falls(round % 5);
                        ITO_SYNC(y, mark);
                    } catch (const std::out_of_range &) {
                    }
                    ITO_SYNC(x, mark);
                    try {
                        throw;
                    } catch (const std::string &again) {
                        CHECK(again == std::to_string(i));
                        CHECK(&again == &mine);
                    }
                }
                CHECK_EQ(std::uncaught_exceptions(), 0);
            }
        });
    for (auto &t : threads)
        t.get();
    CHECK_EQ(begun, ended);
    CHECK_EQ(fork_fib(15), 610);
}

/* fork_left.c, where forks are those of C */
extern "C" {
long c_calls(long (*f)(int), int sleeps);
void c_marks(int end) {
    (end ? ended : begun)++;
}
}
static long throws_below(int sleeps) {
    if (sleeps)
        let_begin(2);
    throw std::out_of_range("through C");
}
static void forks_of_c_are_given_back() {
    for (int i = 0; i < check_scale(200); i++) {
        begun = ended = 0;
        CHECK(what_comes_out([i] { c_calls(throws_below, i % 2); }) == "through C");
        CHECK_EQ(fork_fib(10), 55);
    }
}

/* A runtime that is left while threads are there says which; in a process of its own, since it aborts. */
static std::string what_is_said(void (*f)()) {
    int ends[2], status;
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        f();
        _exit(0);
    }
    close(ends[1]);
    std::string said;
    char part[512];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;)
        said.append(part, static_cast<std::size_t>(n));
    close(ends[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return said;
}
static ito_sem never = ITO_SEM_INIT(0);
static void *waits_for_ever(void *) {
    ito_sem_wait(&never);
    return nullptr;
}
static void *ends_at_once(void *) {
    return nullptr;
}
static void leaves_threads() {
    ito::runtime r;
    ito_thread *t;
    ito_create(&t, nullptr, waits_for_ever, nullptr);
    ito_create(&t, nullptr, ends_at_once, nullptr);
}
static void a_runtime_that_is_left_names_its_threads() {
    std::string said = what_is_said(leaves_threads);
    CHECK(said.find("ito: error: ito::runtime destroyed while there are threads:\n") == 0);
    CHECK(said.find("waits_for_ever") != std::string::npos && said.find("waits: semaphore") != std::string::npos);
    CHECK(said.find("ends_at_once") != std::string::npos &&
          said.find(" has ended, and was not joined\n") != std::string::npos);
}

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(thread_returns_what_it_computed),
    TEST(exception_comes_through_join),
    TEST(caught_exceptions_move_along),
    TEST(destructors_join_while_unwinding),
    TEST(standard_locks_work),
    TEST(groups_loops_and_futures),
    TEST(graphs_run_lambdas),
    TEST(function_objects_of_all_kinds_run),
    TEST(what_nobody_asks_for_is_deleted),
    TEST(forks_join_and_throw),
    TEST(groups_wait_for_threads_of_threads),
    TEST(once_semaphore_barrier_and_specific),
    TEST(a_fork_is_given_back),
    TEST(a_task_that_was_taken_throws),
    TEST(arrays_of_forks_are_given_back),
    TEST(threads_fork_in_catch_clauses),
    TEST(forks_of_c_are_given_back),
    TEST(a_runtime_that_is_left_names_its_threads),
    {nullptr, nullptr}};

int main(int argc, char **argv) {
    return check_in_runtime(argc, argv, tests);
}
