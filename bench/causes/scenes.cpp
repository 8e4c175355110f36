// SPDX-License-Identifier: MIT OR Apache-2.0
// Causes as public reports of programs in C++ have them (bench/causes/run): the argument says which; `cured` does what the hint says.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "grind.h"

static bool cured;

static void all(int n, void (*run)()) {
    std::vector<std::thread> threads;
    for (int i = 0; i < n; i++) {
        threads.emplace_back(run);
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

// A lock that is built of a condition; all are woken, one goes on.
struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool busy = false;

    __attribute__((noinline)) void enter() {
        std::unique_lock lock(mutex);
        while (busy) {
            changed.wait(lock);
        }
        busy = true;
    }

    __attribute__((noinline)) void leave() {
        {
            std::lock_guard lock(mutex);
            busy = false;
        }
        changed.notify_all();
    }
};

static Gate gate;

static void update_index() {
    for (int i = 0; i < 50; i++) {
        gate.enter();
        grind(5);
        gate.leave();
        grind(0.5);
    }
}

// Futures that are dropped at once: the end of each waits for its thread.
static void resize_image() {
    for (int i = 0; i < 3; i++) {
        grind(8);
    }
}

static void make_thumbnails() {
    std::vector<std::future<void>> kept;
    for (int i = 0; i < 40; i++) {
        auto image = std::async(std::launch::async, resize_image);
        if (cured) {
            kept.push_back(std::move(image));
        }
    }
}

// A server that looks at its queue from time to time.
static std::mutex queue_mutex;
static std::condition_variable answered, asked;
static std::deque<bool *> queue;
static std::atomic<int> clients{2};

static void serve() {
    while (clients > 0) {
        std::deque<bool *> batch;
        {
            std::unique_lock lock(queue_mutex);
            if (cured) {
                asked.wait(lock, [] { return !queue.empty() || clients == 0; });
            }
            batch.swap(queue);
        }
        for (bool *done : batch) {
            grind(0.3);
            std::lock_guard lock(queue_mutex);
            *done = true;
        }
        answered.notify_all();
        if (!cured) {
            usleep(10000);
        }
    }
}

static void ask() {
    for (int i = 0; i < 80; i++) {
        bool done = false;
        std::unique_lock lock(queue_mutex);
        queue.push_back(&done);
        asked.notify_one();
        answered.wait(lock, [&] { return done; });
    }
    std::lock_guard lock(queue_mutex);
    clients--;
    asked.notify_one();
}

// Memory that is asked for and given back for each request.
static void handle_requests() {
    const size_t size = 1 << 20;
    char *kept = nullptr;
    for (int i = 0; i < 1000; i++) {
        char *bytes = kept;
        if (!bytes) {
            bytes = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        }
        memset(bytes, i, size);
        if (cured) {
            kept = bytes;
        } else {
            munmap(bytes, size);
        }
    }
}

// A thread for each small part.
static void add_row() {
    grind(0.02);
}

static std::atomic<int> next_row;

static void add_rows() {
    while (next_row++ < 8000) {
        add_row();
    }
}

// Counters of threads side by side in one cache line.
struct Counter {
    std::atomic<long> hits;
};

struct alignas(64) Apart {
    std::atomic<long> hits;
};

static Counter counters[2];
static Apart apart[2];
static std::atomic<int> next_counter;

static void count_hits() {
    int mine = next_counter++;
    std::atomic<long> &hits = cured ? apart[mine].hits : counters[mine].hits;
    for (long i = 0; i < 30000000; i++) {
        hits++;
    }
}

// A pool whose threads are all woken for each task.
struct Pool {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<int> tasks;
    bool ended = false;

    bool take() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ended || !tasks.empty(); });
        if (tasks.empty()) {
            return false;
        }
        tasks.pop_front();
        return true;
    }

    void submit(int task) {
        {
            std::lock_guard lock(mutex);
            tasks.push_back(task);
        }
        if (cured) {
            changed.notify_one();
        } else {
            changed.notify_all();
        }
    }
};

static Pool pool;

static void run_tasks() {
    while (pool.take()) {
        grind(0.02);
    }
}

static void submit_tasks() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 32; i++) {
        threads.emplace_back(run_tasks);
    }
    for (int i = 0; i < 6000; i++) {
        pool.submit(i);
        grind(0.05);
    }
    {
        std::lock_guard lock(pool.mutex);
        pool.ended = true;
    }
    pool.changed.notify_all();
    for (auto &thread : threads) {
        thread.join();
    }
}

// Random numbers of a generator that threads share.
static std::atomic<long> inside;

static void sample() {
    unsigned seed = 1;
    long mine = 0;
    auto draw = [&] { return (cured ? rand_r(&seed) : rand()) / (double)RAND_MAX; };
    for (int i = 0; i < 2000000; i++) {
        double x = draw(), y = draw();
        mine += x * x + y * y < 1;
    }
    inside += mine;
}

// A limit of requests for a time, whose lock is held over the sleep.
struct RateLimiter {
    std::mutex mutex;

    __attribute__((noinline)) void acquire() {
        std::lock_guard lock(mutex);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
};

static RateLimiter limiter;

static void crawl() {
    for (int i = 0; i < 40; i++) {
        limiter.acquire();
        grind(1);
    }
}

// Whoever comes first makes what all need.
struct Settings {
    Settings() { load_settings(); }
    __attribute__((noinline)) void load_settings() {
        for (int i = 0; i < 20; i++) {
            grind(25);
        }
    }
};

__attribute__((noinline)) static void handle() {
    static Settings settings;
    for (int i = 0; i < 8; i++) {
        grind(10);
    }
}

// Each second field is told by an exception.
__attribute__((noinline)) static int parse_field(int n) {
    if (n % 2) {
        throw std::runtime_error("no number");
    }
    return n;
}

static void parse_fields() {
    int bad = 0;
    for (int i = 0; i < 600'000; i++) {
        try {
            parse_field(i);
        } catch (const std::runtime_error &) {
            bad++;
        }
    }
}

int main(int argc, char **argv) {
    const char *cause = argc > 1 ? argv[1] : "";
    cured = argc > 2 && !strcmp(argv[2], "cured");
    if (!strcmp(cause, "gate")) {
        all(4, update_index);
    } else if (!strcmp(cause, "futures")) {
        make_thumbnails();
    } else if (!strcmp(cause, "queue")) {
        std::thread server(serve);
        all(2, ask);
        server.join();
    } else if (!strcmp(cause, "faults")) {
        all(2, handle_requests);
    } else if (!strcmp(cause, "short")) {
        if (cured) {
            all(2, add_rows);
        }
        for (int i = 0; !cured && i < 2000; i++) {
            all(4, add_row);
        }
    } else if (!strcmp(cause, "line")) {
        all(2, count_hits);
    } else if (!strcmp(cause, "herd")) {
        submit_tasks();
    } else if (!strcmp(cause, "random")) {
        all(4, sample);
    } else if (!strcmp(cause, "settings")) {
        all(4, handle);
    } else if (!strcmp(cause, "exceptions")) {
        all(2, parse_fields);
    } else if (!strcmp(cause, "limit")) {
        all(4, crawl);
    } else {
        return 2;
    }
    return 0;
}
