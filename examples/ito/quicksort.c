/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * quicksort - sort numbers; each part, down to two numbers, is a thread. The parts' sizes are the data's whim, and
 * the first partition is serial: parallelism is about log n, whatever the runtime.
 */
#include "kernel.h"
#include <string.h>

struct part {
    int64_t *first;
    size_t n;
};

static inline void swap(int64_t *a, int64_t *b) {
    int64_t t = *a;
    *a = *b;
    *b = t;
}

/* Hoare's partition around the median of three, which is left between the two parts: both are smaller than the whole.
 * Returns its place. */
static size_t partition(int64_t *x, size_t n) {
    size_t middle = n / 2;
    if (x[middle] < x[0])
        swap(&x[middle], &x[0]);
    if (x[n - 1] < x[0])
        swap(&x[n - 1], &x[0]);
    if (x[n - 1] < x[middle])
        swap(&x[n - 1], &x[middle]);
    if (n <= 3)
        return middle;
    int64_t pivot = x[middle];
    swap(&x[middle], &x[n - 2]);
    size_t i = 0, j = n - 2;
    for (;;) {
        while (x[++i] < pivot) {
        }
        while (pivot < x[--j]) {
        }
        if (i >= j)
            break;
        swap(&x[i], &x[j]);
    }
    swap(&x[i], &x[n - 2]);
    return i;
}

static void quicksort(struct part *p);
FORK_KERNEL(quicksort, struct part)

static void quicksort(struct part *p) {
    if (p->n < 2)
        return;
    size_t at = partition(p->first, p->n);
    struct part low = {p->first, at}, high = {p->first + at + 1, p->n - at - 1};
    FORK_ROOM(room, 1, quicksort);
    FORK(room, 0, quicksort, &low);
    quicksort(&high);
    FORK_JOIN(room, 1, quicksort);
}

struct sort {
    int64_t *numbers;
    size_t n;
    uint64_t sum; /* of what was to be sorted: a sort that loses a number and doubles another keeps the order */
};

static void prepare(void *arg) {
    struct sort *s = (struct sort *)arg;
    uint64_t random = 1;
    s->sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->numbers[i] = (int64_t)(example_random(&random) >> 16);
        s->sum += (uint64_t)s->numbers[i] * (uint64_t)s->numbers[i];
    }
}

static void root(void *arg) {
    struct sort *s = (struct sort *)arg;
    struct part all = {s->numbers, s->n};
    quicksort(&all);
}

/* Each partition of two or more forks once; every number is a pivot once or is left alone: n is near enough for a
 * time per task, and does not depend on the order of anything. */
static uint64_t tasks(const void *arg) {
    return ((const struct sort *)arg)->n;
}

static uint64_t digest(const void *arg) {
    const struct sort *s = (const struct sort *)arg;
    return example_digest(EXAMPLE_DIGEST_START, s->numbers, s->n * sizeof *s->numbers);
}

static const char *wrong(const void *arg) {
    const struct sort *s = (const struct sort *)arg;
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (i && s->numbers[i] < s->numbers[i - 1])
            return "out of order";
        sum += (uint64_t)s->numbers[i] * (uint64_t)s->numbers[i];
    }
    return sum == s->sum ? 0 : "other numbers than before";
}

int main(int argc, char **argv) {
    const char *repeat = "1";
    const struct example_flag flags[] = {KERNEL_REPEAT(repeat), {0, 0, 0, 0, 0}};
    struct example ex = {
        "quicksort", "quicksort without cut-off on " FORK_RUNTIME, "numbers", 1000000, 100000000, 0, 0, 0, flags};
    example_parse(&ex, argc, argv);
    struct sort s = {(int64_t *)example_alloc((size_t)ex.size, sizeof(int64_t)), (size_t)ex.size, 0};
    struct kernel k = {prepare, root, &s, tasks, digest, wrong};
    int status = kernel_run(&k, ex.threads, kernel_number("--repeat", repeat, 1000000));
    free(s.numbers);
    return status;
}
