/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * nqueens - in how many ways n queens stand on an n x n board and none attacks another: row by row, each legal
 * square of a row a thread.
 */
#include "kernel.h"

/* Boards up to 18: their numbers of solutions are OEIS A000170. */
static const uint64_t solutions[] = {1,   1,    0,     0,     2,      10,      4,        40,       92,       352,
                                     724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104, 666090624};

struct queens {
    uint32_t all;               /* one bit for each column */
    uint32_t columns, down, up; /* attacked in this row: by column, by the two diagonals */
    uint64_t solutions, tasks;
};

static void queens(struct queens *q);
FORK_KERNEL(queens, struct queens)

static void queens(struct queens *q) {
    uint32_t open = q->all & ~(q->columns | q->down | q->up);
    if (q->columns == q->all)
        q->solutions = 1;
    if (!open)
        return;
    int n = __builtin_popcount(open);
    struct queens child[18];
    FORK_ROOM(room, 18, queens);
    for (int i = 0; i < n; i++) {
        uint32_t square = open & -open;
        open &= open - 1;
        child[i].all = q->all;
        child[i].columns = q->columns | square;
        child[i].down = (q->down | square) << 1;
        child[i].up = (q->up | square) >> 1;
        child[i].solutions = 0;
        child[i].tasks = 0;
        FORK(room, i, queens, &child[i]);
    }
    FORK_JOIN(room, n, queens);
    q->tasks += (uint64_t)n;
    for (int i = 0; i < n; i++) {
        q->solutions += child[i].solutions;
        q->tasks += child[i].tasks;
    }
}

static void prepare(void *arg) {
    struct queens *q = (struct queens *)arg;
    q->columns = q->down = q->up = 0;
    q->solutions = q->tasks = 0;
}

static void root(void *arg) {
    queens((struct queens *)arg);
}

static uint64_t value(const void *arg) {
    return ((const struct queens *)arg)->solutions;
}

static uint64_t tasks(const void *arg) {
    return ((const struct queens *)arg)->tasks;
}

static const char *wrong(const void *arg) {
    const struct queens *q = (const struct queens *)arg;
    return q->solutions == solutions[__builtin_popcount(q->all)] ? 0 : "not the known number of solutions";
}

int main(int argc, char **argv) {
    const char *repeat = "1";
    const struct example_flag flags[] = {KERNEL_REPEAT(repeat), {0, 0, 0, 0, 0}};
    struct example ex = {"nqueens", "n-queens without cut-off on " FORK_RUNTIME, "rows and columns", 12, 18, 0, 0, 0,
                         flags};
    example_parse(&ex, argc, argv);
    struct queens q = {(1u << ex.size) - 1, 0, 0, 0, 0, 0};
    struct kernel k = {prepare, root, &q, tasks, value, wrong};
    return kernel_run(&k, ex.threads, kernel_number("--repeat", repeat, 1000000));
}
