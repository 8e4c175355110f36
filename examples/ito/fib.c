/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fib - the n-th Fibonacci number by its definition, each call a thread. Nearly no work: what it takes is what
 * a create and a join take.
 */
#include "kernel.h"

struct fib {
    int n;
    uint64_t value;
};

#if defined(FORK_OWN)
/* bench/ito/peers: the program defines it. */
static uint64_t fib(int n);
#elif defined(FORK_ITO_FORK)
/* Tasks that return values, as Lace, libfork and Cilk have them; the others take and leave all through a pointer. */
static uint64_t fib(int n);
ITO_TASK(uint64_t, fib, int)
static uint64_t fib(int n) {
    if (n < 2)
        return (uint64_t)n;
    ITO_FORK(a, fib, n - 1);
    uint64_t b = fib(n - 2);
    return ITO_SYNC(a, fib) + b;
}
#else
static void fib(struct fib *f);
FORK_KERNEL(fib, struct fib)

static void fib(struct fib *f) {
    if (f->n < 2) {
        f->value = (uint64_t)f->n;
        return;
    }
    struct fib a = {f->n - 1, 0}, b = {f->n - 2, 0};
    FORK_ROOM(room, 1, fib);
    FORK(room, 0, fib, &a);
    fib(&b);
    FORK_JOIN(room, 1, fib);
    f->value = a.value + b.value;
}
#endif

static void root(void *arg) {
    struct fib *f = (struct fib *)arg;
#if defined(FORK_OWN) || defined(FORK_ITO_FORK)
    f->value = fib(f->n);
#else
    fib(f);
#endif
}

/* By the recurrence, in a loop. */
static uint64_t fibonacci(int n) {
    uint64_t a = 0, b = 1;
    for (int i = 0; i < n; i++) {
        uint64_t next = a + b;
        a = b;
        b = next;
    }
    return a;
}

static uint64_t value(const void *arg) {
    return ((const struct fib *)arg)->value;
}

/* Calls with n >= 2 fork once each: F(n+1) - 1. */
static uint64_t tasks(const void *arg) {
    uint64_t n = fibonacci(((const struct fib *)arg)->n + 1) - 1;
    return n ? n : 1;
}

static const char *wrong(const void *arg) {
    const struct fib *f = (const struct fib *)arg;
    return f->value == fibonacci(f->n) ? 0 : "not the Fibonacci number";
}

int main(int argc, char **argv) {
    const char *repeat = "1";
    const struct example_flag flags[] = {KERNEL_REPEAT(repeat), {0, 0, 0, 0, 0}};
    struct example ex = {"fib", "Fibonacci number without cut-off on " FORK_RUNTIME, "the number", 32, 60, 0, 0, 0,
                         flags};
    example_parse(&ex, argc, argv);
    struct fib f = {ex.size, 0};
    struct kernel k = {0, root, &f, tasks, value, wrong};
    return kernel_run(&k, ex.threads, kernel_number("--repeat", repeat, 1000000));
}
