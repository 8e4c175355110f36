// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads that lose their CPUs to the cause that is the argument (bench/causes/run).
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

constexpr int kRounds = 25;

static double cpu_ms() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

__attribute__((noinline)) static void grind(double ms) {
    for (double end = cpu_ms() + ms; cpu_ms() < end;) {
        for (volatile int i = 0; i < 20000; i = i + 1) {
        }
    }
}

// Room for two values.
class Channel {
  public:
    void put(int value) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return queue_.size() < 2; });
        queue_.push_back(value);
        changed_.notify_all();
    }
    int take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !queue_.empty(); });
        int value = queue_.front();
        queue_.pop_front();
        changed_.notify_all();
        return value;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<int> queue_;
};

static void both(const std::function<void(int)> &work) {
    std::vector<std::thread> threads;
    for (int id = 0; id < 2; id++) {
        threads.emplace_back(work, id);
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

static void each_round(const std::function<void(int)> &work) {
    for (int i = 0; i < kRounds; i++) {
        work(i);
    }
}

__attribute__((noinline)) static void relax(int id) {
    grind(id == 0 ? 6 : 24);
}
__attribute__((noinline)) static void load_input() {
    grind(24);
}
__attribute__((noinline)) static void pack_block() {
    grind(24);
}
__attribute__((noinline)) static void read_block() {
    grind(3);
}

int main(int argc, char **argv) {
    std::string cause = argc > 1 ? argv[1] : "";
    if (cause == "imbalance") {
        std::barrier gate(2);
        both([&](int id) {
            for (int i = 0; i < kRounds; i++) {
                relax(id);
                gate.arrive_and_wait();
            }
        });
    } else if (cause == "join") {
        each_round([](int) { both(relax); });
    } else if (cause == "lock") {
        std::mutex mutex;
        both([&](int) {
            for (int i = 0; i < kRounds; i++) {
                {
                    std::lock_guard guard(mutex);
                    grind(12);
                }
                grind(1);
            }
        });
    } else if (cause == "nap") {
        both([](int) {
            for (int i = 0; i < kRounds; i++) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                grind(1);
            }
        });
    } else if (cause == "serial") {
        each_round([](int) {
            load_input();
            both([](int) { grind(4); });
        });
    } else if (cause == "stage") {
        Channel channel;
        both([&](int id) {
            for (int i = 0; i < kRounds; i++) {
                if (id == 0) {
                    read_block();
                    channel.put(i);
                } else {
                    channel.take();
                    pack_block();
                }
            }
        });
    } else if (cause == "poll") {
        std::atomic<int> done{0};
        both([&](int id) {
            for (int i = 0; i < kRounds; i++) {
                if (id == 0) {
                    while (done.load() <= i) {
                        std::this_thread::sleep_for(std::chrono::microseconds(500));
                    }
                    grind(1);
                } else {
                    pack_block();
                    done = i + 1;
                }
            }
        });
    } else {
        return 2;
    }
}
