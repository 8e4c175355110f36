/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fib without cut-off, by threads and by forked tasks: nothing but creations and joins. */
#ifndef FIB_H
#define FIB_H

#include <ito.h>
#include <ito/fork.h>
#include <stdlib.h>

static void *thread_fib(void *arg) {
    long n = (long)arg;
    ito_thread *t;
    void *x;
    if (n < 2)
        return arg;
    if (ito_create(&t, NULL, thread_fib, (void *)(n - 1)) != 0)
        abort();
    long y = (long)thread_fib((void *)(n - 2));
    ito_join(t, &x);
    return (void *)((long)x + y);
}

static long fork_fib(long n);
ITO_TASK(long, fork_fib, long)
FIB_INLINING static long fork_fib(long n) {
    if (n < 2)
        return n;
    ITO_FORK(x, fork_fib, n - 1);
    long y = fork_fib(n - 2);
    return ITO_SYNC(x, fork_fib) + y;
}

#endif
