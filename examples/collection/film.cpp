// SPDX-License-Identifier: MIT OR Apache-2.0
// Renders a film: each frame in parts, then its brightness, which sets the next frame's exposure.
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

static const int SIZE = 400'000, FRAMES = 40;
static std::vector<float> frame(SIZE);

static void render(int begin, int end, float exposure) {
    for (int i = begin; i < end; i++)
        frame[i] = std::sin(i * 0.001f) * exposure + std::cos(i * 0.002f);
}

static double brightness(int begin, int end) {
    double sum = 0;

    for (int i = begin; i < end; i++)
        sum += std::log1p(std::fabs(frame[i])) + std::sqrt(std::fabs(frame[i]));
    return sum;
}

int main() {
    int n = std::thread::hardware_concurrency();
    double exposure = 1;

    for (int t = 0; t < FRAMES; t++) {
        std::vector<double> sums(n);
        std::vector<std::thread> threads;
        for (int i = 0; i < n; i++)
            threads.emplace_back([=, &sums] {
                int begin = long(SIZE) * i / n, end = long(SIZE) * (i + 1) / n;
                render(begin, end, exposure);
            });
        for (auto &thread : threads)
            thread.join();
        sums[0] = brightness(0, SIZE);
        double all = 0;
        for (double sum : sums)
            all += sum;
        exposure = 1 + all / SIZE / 10;
    }
    std::printf("%f\n", exposure);
}
