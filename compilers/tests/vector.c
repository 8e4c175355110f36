/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loops that compilers vectorise: check_vectorised. */
enum { N = 1024 };
float a[N], b[N], c[N];
static double m[64][64], v[64];
int table[N];

void add(void) {
    for (int i = 0; i < N; i++)
        a[i] = b[i] + c[i];
}

static void inlined(float x) {
    for (int i = 0; i < N; i++)
        a[i] += x * b[i];
}

float dot(void) {
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[i] * b[i];
    return sum;
}

void product(double *restrict out) {
    for (int i = 0; i < 64; i++) {
        double sum = 0;
        for (int k = 0; k < 64; k++)
            sum += m[i][k] * v[k];
        out[i] = sum;
    }
}

void clip(int n, const int *restrict from, int *restrict to) {
    for (int i = 0; i < n; i++)
        to[i] = from[i] > 255 ? 255 : from[i];
}

int largest(void) {
    int most = 0;
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < N; i++)
            most = table[i] > most ? table[i] : most;
    return most;
}

void all(double *out) {
    for (int turn = 0; turn < 10; turn++) {
        inlined(0.5f * (float)turn);
        add();
        product(out);
    }
}
