/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A frame of C with forked tasks that an exception of C++ leaves; compiled with -fexceptions, for test_cxx.cpp. */
#include <ito/fork.h>
#include <ito/sync.h>

void c_marks(int end);
long c_calls(long (*f)(int), int sleeps);

static void c_mark(int sleeps, int *marked);
ITO_TASK_VOID(c_mark, int, int *)
static void c_mark(int sleeps, int *marked) {
    c_marks(0);
    if (sleeps)
        ito_sleep_ns(50000);
    *marked = 1; /* in the parent's frame: it may go only after this */
    c_marks(1);
}

/* @f throws; if @sleeps, once both tasks have begun. */
long c_calls(long (*f)(int), int sleeps) {
    int marked[2] = {0, 0};
    ITO_FORK(x, c_mark, sleeps, &marked[0]);
    ITO_FORK(y, c_mark, sleeps, &marked[1]);
    long result = f(sleeps);
    ITO_SYNC(y, c_mark);
    ITO_SYNC(x, c_mark);
    return result + marked[0] + marked[1];
}
