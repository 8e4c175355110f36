/* Most of its CPU time in grind, a fifth of it called by polish. */
#include <stdio.h>

static __attribute__((noinline)) unsigned long grind(unsigned long n) {
    unsigned long x = 88172645463325252ul;
    for (unsigned long i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

static __attribute__((noinline)) unsigned long polish(unsigned long n) {
    unsigned long r = grind(n);
    __asm__ volatile("" ::"r"(r));
    return r + 1;
}

int main(void) {
    unsigned long sum = 0;
    for (int i = 0; i < 100; i++)
        sum += grind(800000) + polish(200000);
    printf("%lu\n", sum);
    return 0;
}
