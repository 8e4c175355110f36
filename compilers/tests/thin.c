/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A function that is too short to be annotated, and a loop that is not. */
#include "count.h"

static volatile long sum;

static __attribute__((noinline)) void is_short(long i) {
    sum += i;
}

static __attribute__((noinline)) void is_long(void) {
    enum { LINE = __LINE__ + 1 };
    for (long i = 0; i < 30000; i++)
        sum += i;
    if (sum < 0)
        printf("%d", LINE);
}

int main(void) {
    FUNCTION("main");
    LOOP("main");
    for (long i = 0; i < 1000000; i++)
        is_short(i);
    LOOP("main");
    for (int i = 0; i < 3000; i++)
        is_long();
    printf("result %ld\n", sum);
    count_print();
    printf("count is_short 1000000\ncount is_long 3000\ncount is_long.loop%d 3000\n", 13);
    return 0;
}
