/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* thread_local objects and exceptions of an ordinary C++ program; see test_threads.c. */
#include "check.h"

#include <atomic>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
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

static const test tests[] = {{"objects", objects}};
int main(int argc, char **argv) {
    return run_test(tests, 1, argc, argv);
}
