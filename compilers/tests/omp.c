/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Regions of OpenMP, which compilers make functions of. Prints results, and its own counts. */
#include "count.h"

/* Whose line a loop shared out by OpenMP has: clang's the directive's, gcc's the body's. */
#ifdef __clang__
#define OMP_FOR 1
#else
#define OMP_FOR 3
#endif

static volatile int zero;
static int a[100];

static void regions(void) {
    FUNCTION("regions");
#pragma omp parallel num_threads(2)
    {
        FUNCTION("regions._omp_fn.0");
        enum { WHERE = __LINE__ + 2 };
        LOOP("regions._omp_fn.0");
        for (int turn = 0; turn < 3 + zero; turn++) {
            LOOP_IN("regions._omp_fn.0", WHERE);
            for (int k = 0; k < 4 + zero; k++) {
#pragma omp atomic
                a[k]++;
            }
        }
    }
#pragma omp parallel num_threads(2)
    {
        FUNCTION("regions._omp_fn.1");
        count_up("regions._omp_fn.1.loop%d", __LINE__ + OMP_FOR);
#pragma omp for schedule(static)
        for (int i = 10; i < 100; i++)
            a[i] = i;
    }
}

int main(void) {
    long sum = 0;
    FUNCTION("main");
    LOOP("main");
    for (int i = 0; i < 20; i++)
        regions();
    LOOP("main");
    for (int i = 0; i < 100; i++)
        sum = sum * 3 % 1000003 + a[i];
    printf("result %ld\n", sum);
    count_print();
    return 0;
}
