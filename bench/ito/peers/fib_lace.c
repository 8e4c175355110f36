/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fib on Lace (https://github.com/trolando/lace), whose tasks need its macros. */
#define FORK_OWN
#define FORK_RUNTIME "Lace"
#include "fib.c"
#include <lace.h>

static inline void fork_run(int workers, fork_function *root, void *arg) {
    lace_start((unsigned)workers, 1000000);
    root(arg);
    lace_stop();
}

TASK_1(uint64_t, lace_fib, int, n) {
    if (n < 2)
        return (uint64_t)n;
    SPAWN(lace_fib, n - 1);
    uint64_t b = CALL(lace_fib, n - 2);
    return SYNC(lace_fib) + b;
}

static uint64_t fib(int n) {
    return RUN(lace_fib, n);
}
