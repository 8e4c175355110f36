// SPDX-License-Identifier: MIT OR Apache-2.0
// Three stages in a row: read, press, pack. Each has a thread; between them are short queues.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

struct Queue {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<double> items;

    void put(double item) {
        std::unique_lock guard(lock);
        changed.wait(guard, [&] { return items.size() < 4; });
        items.push_back(item);
        changed.notify_all();
    }
    double take() {
        std::unique_lock guard(lock);
        changed.wait(guard, [&] { return !items.empty(); });
        double item = items.front();
        items.pop_front();
        changed.notify_all();
        return item;
    }
};

static const int ITEMS = 240;
static const int PRESSES = 1;

static double turn(double x, int times) {
    for (int i = 0; i < times; i++)
        x = x * 0.999 + 1;
    return x;
}

static double read_one(int i) {
    return turn(i, 200'000);
}
static double press(double x) {
    return turn(x, 1'600'000);
}
static double pack(double x) {
    return turn(x, 200'000);
}

int main() {
    Queue raw, flat;
    double sum = 0;
    std::vector<std::thread> threads;

    threads.emplace_back([&] {
        for (int i = 0; i < ITEMS; i++)
            raw.put(read_one(i));
    });
    for (int p = 0; p < PRESSES; p++)
        threads.emplace_back([&] {
            for (int i = 0; i < ITEMS / PRESSES; i++)
                flat.put(press(raw.take()));
        });
    threads.emplace_back([&] {
        for (int i = 0; i < ITEMS; i++)
            sum += pack(flat.take());
    });
    for (auto &thread : threads)
        thread.join();
    std::printf("%f\n", sum);
}
