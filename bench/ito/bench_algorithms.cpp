/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bench_algorithms - scan, sort and a pipeline, beside the standard's serial functions and, with -DWITH_TBB, oneTBB.
 * Each kind takes its turn on the same numbers; CPU ns and wall ns for each element, medians, as JSON lines.
 *
 *   bench_algorithms [WORKERS]
 */
#include <ito.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <vector>
#ifdef WITH_TBB
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/parallel_scan.h>
#include <tbb/parallel_sort.h>
#endif

enum { N = 4000000, ITEMS = 20000, RUNS = 9 };

static double now(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}
static unsigned work(unsigned x) {
    for (int i = 0; i < 400; i++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static std::vector<std::uint32_t> numbers(N), sorted(N);
static std::vector<std::uint64_t> sums(N);
static std::uint64_t check;

static void std_scan() {
    std::inclusive_scan(numbers.begin(), numbers.end(), sums.begin(), std::plus<>(), std::uint64_t{0});
}
static void ito_scan() {
    ito::parallel_inclusive_scan(numbers.begin(), numbers.end(), sums.begin(), std::plus<>(), std::uint64_t{0});
}
static void std_sort() {
    sorted = numbers;
    std::sort(sorted.begin(), sorted.end());
}
static void ito_sort() {
    sorted = numbers;
    ito::parallel_sort(sorted.begin(), sorted.end());
}
static void std_pipeline() {
    check = 0;
    for (unsigned i = 0; i < ITEMS; i++)
        check = check * 31 + work(i);
}
static void ito_pipeline() {
    unsigned next = 0;
    check = 0;
    ito::pipeline(
        16, [&]() -> std::optional<unsigned> { return next < ITEMS ? std::optional(next++) : std::nullopt; },
        ito::parallel_stage{work}, ito::serial_stage{[](unsigned x) { check = check * 31 + x; }});
}
#ifdef WITH_TBB
struct scan_body {
    std::uint64_t sum = 0;
    scan_body() = default;
    scan_body(scan_body &, tbb::split) {}
    template <class Tag> void operator()(const tbb::blocked_range<std::size_t> &r, Tag) {
        std::uint64_t all = sum;
        for (std::size_t i = r.begin(); i < r.end(); i++) {
            all += numbers[i];
            if (Tag::is_final_scan())
                sums[i] = all;
        }
        sum = all;
    }
    void reverse_join(scan_body &left) { sum += left.sum; }
    void assign(scan_body &other) { sum = other.sum; }
};
static void tbb_scan() {
    scan_body body;
    tbb::parallel_scan(tbb::blocked_range<std::size_t>(0, N), body);
}
static void tbb_sort() {
    sorted = numbers;
    tbb::parallel_sort(sorted.begin(), sorted.end());
}
static void tbb_pipeline() {
    unsigned next = 0;
    check = 0;
    tbb::parallel_pipeline(
        16, tbb::make_filter<void, unsigned>(tbb::filter_mode::serial_in_order, [&](tbb::flow_control &end) {
                if (next == ITEMS)
                    end.stop();
                return next++;
            }) & tbb::make_filter<unsigned, unsigned>(tbb::filter_mode::parallel, [](unsigned x) {
                return work(x);
            }) & tbb::make_filter<unsigned, void>(tbb::filter_mode::serial_in_order, [](unsigned x) {
                check = check * 31 + x;
            }));
}
#endif

struct kind {
    const char *name;
    void (*run)();
    double per;
    std::vector<double> cpu, wall;
};
static double median(std::vector<double> &v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

int main(int argc, char **argv) {
    ito::runtime runtime(argc > 1 ? unsigned(atoi(argv[1])) : 0);
    for (auto &x : numbers)
        x = work(unsigned(&x - numbers.data())) ^ unsigned(&x - numbers.data()) * 2654435761u;
    std::vector<std::vector<kind>> sets = {
        {{"std.scan", std_scan, N, {}, {}}, {"ito.scan", ito_scan, N, {}, {}}},
        {{"std.sort", std_sort, N, {}, {}}, {"ito.sort", ito_sort, N, {}, {}}},
        {{"serial.pipeline", std_pipeline, ITEMS, {}, {}}, {"ito.pipeline", ito_pipeline, ITEMS, {}, {}}}};
#ifdef WITH_TBB
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, runtime.workers());
    sets[0].push_back({"tbb.scan", tbb_scan, N, {}, {}});
    sets[1].push_back({"tbb.sort", tbb_sort, N, {}, {}});
    sets[2].push_back({"tbb.pipeline", tbb_pipeline, ITEMS, {}, {}});
#endif
    for (auto &set : sets) {
        for (int run = 0; run <= RUNS; run++)
            for (auto &k : set) {
                double cpu = now(CLOCK_PROCESS_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
                k.run();
                std::uint64_t is = check + sums[N - 1] + sorted[N / 2];
                static std::uint64_t was;
                if (&k != &set[0] && is != was)
                    abort();
                was = is;
                if (run == 0)
                    continue; /* the first one warms up */
                k.cpu.push_back((now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / k.per);
                k.wall.push_back((now(CLOCK_MONOTONIC) - wall) / k.per);
            }
        double base = 0;
        for (auto &k : set) {
            double cpu = median(k.cpu), wall = median(k.wall);
            base = base == 0 ? cpu : base;
            std::printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"ns\",\"spread\":[%.2f,%.2f],\"wall\":%.2f,"
                        "\"ratio_to\":\"%s\",\"ratio\":%.3f}\n",
                        k.name, cpu, k.cpu.front(), k.cpu.back(), wall, set[0].name, cpu / base);
        }
    }
}
