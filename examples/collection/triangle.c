// SPDX-License-Identifier: MIT OR Apache-2.0
// Distances between all pairs of points: the first rows are the longest.
#include <math.h>
#include <stdio.h>

enum { N = 6000, ROUNDS = 3 };
static float x[N], y[N], row[N];

int main(void) {
    for (int i = 0; i < N; i++) {
        x[i] = i % 97;
        y[i] = i % 89;
    }
    for (int round = 0; round < ROUNDS; round++)
#pragma omp parallel for
        for (int i = 0; i < N; i++)
            for (int j = i + 1; j < N; j++)
                row[i] += sqrtf((x[i] - x[j]) * (x[i] - x[j]) + (y[i] - y[j]) * (y[i] - y[j])) + cosf(x[j]);
    printf("%f\n", row[0]);
    return 0;
}
