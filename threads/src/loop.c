/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loops and reductions.
 *
 * Lazy binary splitting (Tzannes, Caragea, Barua, Vishkin: "Lazy binary-splitting: a run-time adaptive work-stealing
 * scheduler", PPoPP 2010): a range is halved only while a worker is hungry; otherwise one grain of it is run and the
 * question is asked again. So a loop makes almost no threads on a busy machine, and log2(n / grain) at once on an idle
 * one.
 *
 * A reduction has a fixed tree over the range, so its result does not depend on which worker was hungry: each inner
 * node either makes a thread of its left half or runs it first, runs the right half, and joins the two. Halves that run
 * one after the other still keep accumulators of their own: equal bits cost one accumulator per level on the stack.
 */
#include "wait.h"

#include <string.h>

/* Pieces per worker that make the longest piece's imbalance small when the library chooses the grain. */
#define PIECES_PER_WORKER 64
/* A reduction's grain must not depend on the workers: this many pieces. */
#define PIECES_REDUCE 4096

/* -- loops -- */

struct loop {
    size_t grain;
    void (*body)(size_t, size_t, void *);
    void *arg;
};
struct loop_range {
    const struct loop *loop;
    size_t begin, end;
};

static void *loop_range(void *arg) {
    const struct loop_range *range = arg;
    const struct loop *loop = range->loop;
    size_t begin = range->begin, end = range->end;
    while (end - begin > loop->grain) {
        if (end - begin > 2 * loop->grain && ito__hungry()) {
            /* Both halves live until the join below, in this frame. */
            size_t middle = begin + (end - begin) / 2;
            struct loop_range left = {loop, begin, middle}, right = {loop, middle, end};
            ito_thread *thread;
            if (!ito_create(&thread, NULL, loop_range, &left)) {
                loop_range(&right);
                ito_join(thread, NULL);
                return NULL;
            }
        }
        loop->body(begin, begin + loop->grain, loop->arg);
        begin += loop->grain;
    }
    if (end > begin)
        loop->body(begin, end, loop->arg);
    return NULL;
}

int ito_for(size_t begin, size_t end, size_t grain, void (*body)(size_t, size_t, void *), void *arg) {
    if (begin >= end)
        return 0;
    if (!grain)
        grain = (end - begin) / ((size_t)(ito_n_workers() ? ito_n_workers() : 1) * PIECES_PER_WORKER) + 1;
    struct loop loop = {grain, body, arg};
    struct loop_range range = {&loop, begin, end};
    loop_range(&range);
    return 0;
}

/* -- reductions -- */

struct reduce {
    size_t grain;
    const struct ito_reduction *how;
};
struct reduce_range {
    const struct reduce *reduce;
    size_t begin, end;
    void *accumulator; /* not started yet */
};

static void *reduce_range(void *arg) {
    const struct reduce_range *range = arg;
    const struct ito_reduction *how = range->reduce->how;
    size_t n = range->end - range->begin;
    if (n <= range->reduce->grain) {
        if (how->start)
            how->start(range->accumulator, how->arg);
        else
            memset(range->accumulator, 0, how->size);
        how->body(range->begin, range->end, range->accumulator, how->arg);
        return NULL;
    }
    size_t middle = range->begin + n / 2;
    _Alignas(max_align_t) char right_accumulator[ITO_REDUCE_MAX];
    struct reduce_range left = {range->reduce, range->begin, middle, range->accumulator};
    struct reduce_range right = {range->reduce, middle, range->end, right_accumulator};
    ito_thread *thread;
    bool split = ito__hungry() && !ito_create(&thread, NULL, reduce_range, &left);
    if (!split)
        reduce_range(&left);
    reduce_range(&right);
    if (split)
        ito_join(thread, NULL);
    how->join(range->accumulator, right_accumulator, how->arg);
    return NULL;
}

int ito_reduce(size_t begin, size_t end, size_t grain, const struct ito_reduction *how, void *result) {
    if (!how->size || how->size > ITO_REDUCE_MAX)
        return EINVAL;
    if (begin > end)
        end = begin;
    if (!grain)
        grain = (end - begin) / PIECES_REDUCE + 1;
    struct reduce reduce = {grain, how};
    struct reduce_range range = {&reduce, begin, end, result};
    reduce_range(&range);
    return 0;
}
