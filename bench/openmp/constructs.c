/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints for each construct of OpenMP the CPU time that one takes in a team of one, ns: what the runtime and what stands in front
 * of it cost, without waits. */
#include <omp.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static volatile long z;
#define N 200000
#define MEASURE(name, body)                                                                                            \
    do {                                                                                                               \
        double from = now();                                                                                           \
        body;                                                                                                          \
        printf("%s %.2f\n", name, (now() - from) / N);                                                                 \
    } while (0)

static void constructs(void) {
#pragma omp parallel num_threads(1)
    {
        MEASURE(
            "critical", for (int i = 0; i < N; i++) { _Pragma("omp critical") z++; });
        MEASURE(
            "critical named", for (int i = 0; i < N; i++) { _Pragma("omp critical(name)") z++; });
        MEASURE("chunk", _Pragma("omp for schedule(dynamic, 1)") for (int i = 0; i < N; i++) z++);
        MEASURE("barrier", for (int i = 0; i < N; i++){_Pragma("omp barrier")});
        MEASURE(
            "single", for (int i = 0; i < N; i++) { _Pragma("omp single nowait") z++; });
        MEASURE(
            "task", for (int i = 0; i < N; i++) { _Pragma("omp task") z++; });
        MEASURE("taskwait", for (int i = 0; i < N; i++){_Pragma("omp taskwait")});
    }
}

int main(void) {
    omp_lock_t lock;
    omp_init_lock(&lock);
    MEASURE(
        "parallel", for (int i = 0; i < N; i++) { _Pragma("omp parallel num_threads(1)") z++; });
    constructs();
    MEASURE(
        "lock", for (int i = 0; i < N; i++) {
            omp_set_lock(&lock);
            omp_unset_lock(&lock);
        });
    return 0;
}
