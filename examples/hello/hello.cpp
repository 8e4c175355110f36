// SPDX-License-Identifier: MIT OR Apache-2.0
// hello.c in C++. Build: c++ -O2 -I annotate/include hello.cpp -lpthread; run: kasuri record ./a.out
#include <cstdio>
#include <kasuri.h>
#include <thread>

// The harmonic series, so that there is something to compute.
static double add_up(int half) {
    double sum = 0;
    KASURI_THREAD_NAME(half ? "odd" : "even");
    for (int part = 0; part < 10; part++) {
        KASURI_SCOPE("part");
        KASURI_ARG_I64("number", part);
        for (int i = 1 + half; i <= 2000000; i += 2)
            sum += 1.0 / (i + 2000000.0 * part);
        KASURI_COUNTER("sum", sum);
    }
    return sum;
}

int main() {
    double odd = 0;
    std::thread thread([&odd] { odd = add_up(1); });
    double even = add_up(0);
    KASURI_WAIT_BEGIN(KASURI_WAIT_JOIN, &thread);
    thread.join();
    KASURI_WAIT_END(KASURI_WAIT_JOIN, &thread);
    std::printf("%.6f\n", even + odd);
}
