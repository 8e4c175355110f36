/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bench_cxx - the cost of the C++ face on one worker: fib without cut-off, CPU ns for each creation and join, beside the
 * same by the C functions and, with -DWITH_TBB, by oneTBB's task_group. The kinds take turns; medians of many short
 * runs, as JSON lines.
 */
#include <ito.hpp>

#include <cstdio>
#include <cstdlib>
#include <time.h>
#ifdef WITH_TBB
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#endif

enum { N = 20, RUNS = 101, FIB = 6765, OPS = 10945 };

static void *create_fib(void *arg) {
    long n = (long)arg;
    if (n < 2)
        return arg;
    ito_thread *t;
    void *x;
    if (ito__create(&t, nullptr, create_fib, (void *)(n - 1)) != 0)
        abort();
    long y = (long)create_fib((void *)(n - 2));
    ito__join(t, &x);
    return (void *)((long)x + y);
}
static long fork_join_fib(long n) {
    if (n < 2)
        return n;
    long x, y;
    ito::fork_join([&] { x = fork_join_fib(n - 1); }, [&] { y = fork_join_fib(n - 2); });
    return x + y;
}
static long async_fib(long n) {
    if (n < 2)
        return n;
    auto x = ito::async(async_fib, n - 1);
    long y = async_fib(n - 2);
    return x.get() + y;
}
static long group_fib(long n) {
    if (n < 2)
        return n;
    long x, y;
    ito::task_group group;
    group.run([&] { x = group_fib(n - 1); });
    y = group_fib(n - 2);
    group.wait();
    return x + y;
}
struct c_half {
    long n, x;
};
static long c_group_fib(long n) {
    if (n < 2)
        return n;
    ito_group group = ITO_GROUP_INIT;
    c_half half = {n - 1, 0};
    ito_group_run(
        &group,
        [](void *arg) {
            auto *mine = static_cast<c_half *>(arg);
            mine->x = c_group_fib(mine->n);
        },
        &half);
    long y = c_group_fib(n - 2);
    ito_group_wait(&group);
    return half.x + y;
}
#ifdef WITH_TBB
static long tbb_fib(long n) {
    if (n < 2)
        return n;
    long x, y;
    tbb::task_group group;
    group.run([&] { x = tbb_fib(n - 1); });
    y = tbb_fib(n - 2);
    group.wait();
    return x + y;
}
#endif

static const struct kind {
    const char *name;
    long (*fib)(long);
    const char *goal;
} kinds[] = {
    {"ito.cxx_create_join", [](long n) { return (long)create_fib((void *)n); }, ""},
    {"ito.cxx_fork_join", fork_join_fib, "<= 6 ns"},
    {"ito.cxx_async", async_fib, "<= 20 ns"},
    {"ito.cxx_task_group", group_fib, "<= 20 ns"},
    {"ito.cxx_c_group", c_group_fib, ""},
#ifdef WITH_TBB
    {"tbb.task_group", tbb_fib, ""},
#endif
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double cpu_now() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main() {
    static double v[KINDS][RUNS];
#ifdef WITH_TBB
    tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
#endif
    ito::runtime runtime(1);
    for (int run = -1; run < RUNS; run++)
        for (int k = 0; k < KINDS; k++) {
            double start = cpu_now();
            if (kinds[k].fib(N) != FIB)
                abort();
            v[k][run < 0 ? 0 : run] = (cpu_now() - start) / OPS;
        }
    for (int k = 0; k < KINDS; k++) {
        qsort(v[k], RUNS, sizeof *v[k], by_value);
        printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"ns\",\"spread\":[%.2f,%.2f],\"ratio_to\":\"%s\","
               "\"ratio\":%.2f,\"goal\":\"%s\"}\n",
               kinds[k].name, v[k][RUNS / 2], v[k][0], v[k][RUNS - 1], kinds[0].name, v[k][RUNS / 2] / v[0][RUNS / 2],
               kinds[k].goal);
    }
    return 0;
}
