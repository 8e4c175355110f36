/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* thread_local objects and exceptions of an ordinary C++ program; see test_threads.c. */
#include "check.h"

#include <atomic>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<int> made, gone;
struct Local {
    std::string text = "a text that is too long to lie in the string itself";
    Local() { made++; }
    ~Local() { gone++; }
};
static thread_local Local local;
static thread_local int count = 3;

static void work(int me) {
    CHECK(count == 3);
    local.text += std::to_string(me);
    std::string expected = local.text;
    for (int i = 0; i < 1000; i++) {
        count = me + i;
        try {
            sched_yield();
            if (i % 10 == 0)
                throw std::runtime_error(std::to_string(me));
        } catch (const std::runtime_error &e) {
            sched_yield(); /* the exception in flight is the thread's own */
            CHECK(std::stoi(e.what()) == me);
        }
        CHECK(local.text == expected && count == me + i);
    }
}

static void objects() {
    for (int turn = 0; turn < 3; turn++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 50; i++)
            threads.emplace_back(work, i + 1);
        for (auto &t : threads)
            t.join();
        CHECK(made == 50 * (turn + 1) && gone == made);
    }
}

/* A function of pthread_once that is left in the middle: the next caller runs it. */
static pthread_once_t thrown = PTHREAD_ONCE_INIT, exited = PTHREAD_ONCE_INIT, cancelled = PTHREAD_ONCE_INIT;
static std::atomic<int> n_thrown, n_exited, n_cancelled;

static void throws() {
    if (n_thrown++ == 0)
        throw std::runtime_error("once");
}
static void exits() {
    if (n_exited++ == 0)
        pthread_exit(nullptr);
}
static void is_cancelled() {
    if (n_cancelled++ == 0)
        for (;;)
            pause();
}

static void *catches(void *) {
    try {
        pthread_once(&thrown, throws);
        CHECK(false);
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "once");
    }
    return nullptr;
}
static void *is_left(void *) {
    pthread_once(&exited, exits);
    CHECK(false);
    return nullptr;
}
static void *waits(void *) {
    pthread_once(&cancelled, is_cancelled);
    CHECK(false);
    return nullptr;
}

static void once() {
    pthread_t t;
    void *result;
#if !__GLIBC_PREREQ(2, 34)
    if (!getenv("LIGHT"))
        return; /* after an exception this C library's own function waits for ever (2.31) */
#endif
    CHECK(pthread_create(&t, nullptr, catches, nullptr) == 0 && pthread_join(t, nullptr) == 0);
    CHECK(pthread_create(&t, nullptr, is_left, nullptr) == 0 && pthread_join(t, nullptr) == 0);
    CHECK(pthread_create(&t, nullptr, waits, nullptr) == 0);
    while (n_cancelled == 0)
        sched_yield();
    CHECK(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pthread_once(&thrown, throws) == 0 && pthread_once(&exited, exits) == 0 &&
          pthread_once(&cancelled, is_cancelled) == 0);
    CHECK(n_thrown == 2 && n_exited == 2 && n_cancelled == 2);
}

static const test tests[] = {{"objects", objects}, {"once", once}};
int main(int argc, char **argv) {
    return run_test(tests, 2, argc, argv);
}
