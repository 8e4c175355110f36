// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts how often each digit occurs, with a thread for each CPU.
#include <array>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex count_lock;
static std::array<long, 10> counts;

static void count(uint64_t seed) {
    for (int i = 0; i < 3'000'000; i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        std::lock_guard guard(count_lock);
        counts[(seed >> 33) % 10]++;
    }
}

int main() {
    std::vector<std::thread> threads;

    for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++)
        threads.emplace_back(count, i);
    for (auto &thread : threads)
        thread.join();
    for (long n : counts)
        std::printf("%ld\n", n);
}
