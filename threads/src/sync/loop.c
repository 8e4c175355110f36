/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loops and reductions.
 *
 * Lazy binary splitting (Tzannes, Caragea, Barua, Vishkin: "Lazy binary-splitting: a run-time adaptive work-stealing
 * scheduler", PPoPP 2010): a range is halved only while a worker is hungry; otherwise a piece of it is run and the
 * question is asked again. So a loop makes almost no threads on a busy machine, and log2(n / grain) at once on an idle
 * one.
 *
 * A range that will be over in a moment is not halved at all: to wake a worker takes longer than it would help. What is
 * left of a range is predicted from its own last piece, at its beginning from what the body took before (pace.h):
 *
 *   predicted            what happens
 *   not known            a few indices: divided as soon as a worker is hungry. Many: one grain is run first, and timed
 *   below SHORT_NS       an eighth, then the rest. No clock but the kernel's tick: if it moves in between, the rest is
 *                        taken for long. One such loop in SAMPLE is timed
 *   below AWAKE_NS       an eighth is timed, and then the rest if that was right
 *   below ASLEEP_NS      divided where a worker is awake; where all that have nothing to do are asleep, when there were
 *                        loops of ASLEEP_NS together since the last time (`loop_credit_ns`)
 *   longer               divided
 *
 * Other programs may want the CPUs: then the worker that is woken takes the waker's. So a divided loop is judged: each
 * that was not an eighth faster than predicted doubles AWAKE_NS and ASLEEP_NS for the worker that ran it, up to 64
 * times, and each that was halves them (`loop_doubt`).
 *
 * A reduction has a fixed tree over the range, so its result does not depend on which worker was hungry: each inner
 * node either makes a thread of its left half or runs it first, runs the right half, and joins the two. Halves that run
 * one after the other still keep accumulators of their own: equal bits cost one accumulator per level on the stack.
 */
#include "core/wait.h"
#include "sync/pace.h"

#include <string.h>

/* Pieces per worker that make the longest piece's imbalance small when the library chooses the grain. */
#define PIECES_PER_WORKER 64
/* A reduction's grain must not depend on the workers: so many pieces, of so many indices. */
#define PIECES_REDUCE_LEAST 8
#define PIECES_REDUCE_MOST 4096
#define INDICES_REDUCE 4096

#define SHORT_NS 2000u
#define AWAKE_NS 20000u
#define ASLEEP_NS 50000u /* waking a worker takes its waker 1 to 2.5 us: a twentieth */
#define PIECE_NS 5000u   /* the clock is read, and hungry workers are looked for, so often */
#define SAMPLE 64u
#define MOST_DOUBT 6u
#define MOST_CREDIT_NS ((uint64_t)ASLEEP_NS << MOST_DOUBT)

/* ns that n indices take at this pace; that of an unknown pace has no end. */
static uint64_t predicted(uint32_t pace, uint64_t n) {
    if (pace == 0)
        return UINT64_MAX;
    return n < UINT64_MAX / UINT32_MAX ? n * pace / 1000 : UINT64_MAX;
}

/* May a range that takes `ns` be divided? Asked right before: it spends the credit. */
static bool worth_a_thread(uint64_t ns) {
    if (!ito__hungry())
        return false;
    struct worker *w = worker_of(ito__worker());
    if (w == NULL)
        return true;
    uint64_t asleep = (uint64_t)ASLEEP_NS << w->loop_doubt, awake = (uint64_t)AWAKE_NS << w->loop_doubt;
    if (ns >= asleep || (ns >= awake && load_relaxed(&ito__pool.n_searching) > 0))
        return true;
    if (ns < AWAKE_NS || w->loop_credit_ns < asleep)
        return false;
    w->loop_credit_ns = 0;
    return true;
}

/* A loop of this length begins here. */
static void give_credit(uint64_t ns) {
    struct worker *w = worker_of(ito__worker());
    if (w && ns >= AWAKE_NS)
        w->loop_credit_ns += ns < MOST_CREDIT_NS ? ns : MOST_CREDIT_NS;
    if (w && w->loop_credit_ns > MOST_CREDIT_NS)
        w->loop_credit_ns = MOST_CREDIT_NS;
}

/* A loop was divided. */
static void judge(uint64_t predicted_ns, uint64_t ns) {
    struct worker *w = worker_of(ito__worker());
    if (w == NULL || predicted_ns == UINT64_MAX)
        return;
    if (ns > predicted_ns - predicted_ns / 8)
        w->loop_doubt += w->loop_doubt < MOST_DOUBT;
    else
        w->loop_doubt -= w->loop_doubt > 0;
}

/* Whether nobody could take a part, or the loop is so short that it is run without a clock. `w` null: a kernel thread
 * that is no worker. */
static bool is_alone(const struct worker *w) {
    return ito__pool.n_workers < (w ? 2 : 1);
}
static bool is_short(struct worker *w, uint64_t ns) {
    return w && ns < SHORT_NS && ++w->n_short_loops % SAMPLE != 0;
}

/* The pieces of a loop took so long. Threads that share a CPU make each other's pieces look longer than they are, never
 * shorter: without that, a body that looked long once would be divided, and faster than predicted, for ever. */
static void note_pace(uintptr_t body, uint32_t pace, bool is_divided, uint64_t ns, size_t n) {
    uint32_t seen = ito__pace_from(ns, n);
    if (!is_divided || pace == 0 || seen < pace || seen / 2 > pace)
        ito__pace_note(body, ns, n);
}

/* -- loops -- */

struct loop {
    size_t grain;
    void (*body)(size_t, size_t, void *);
    void *arg;
};
struct loop_range {
    const struct loop *loop;
    size_t begin, end;
    uint32_t pace; /* in: as far as it is known; out: of its last piece */
    uint64_t ns;   /* out: of its pieces, together */
    size_t n;      /* out: their indices */
    bool is_divided;
};

static void *loop_range(void *arg);

/* False: no memory for a thread. Both halves live until the join, in this frame. */
static bool divide(struct loop_range *range, size_t begin, size_t end) {
    size_t middle = begin + (end - begin) / 2;
    struct loop_range left = {range->loop, begin, middle, range->pace, 0, 0, false};
    struct loop_range right = {range->loop, middle, end, range->pace, 0, 0, false};
    ito_thread *thread;
    if (ito_create(&thread, NULL, loop_range, &left))
        return false;
    loop_range(&right);
    ito_join(thread, NULL);
    range->ns += left.ns + right.ns;
    range->n += left.n + right.n;
    range->pace = left.pace > right.pace ? left.pace : right.pace;
    range->is_divided = true;
    return true;
}

/* How many of `left` indices to run until the next look. What is less than a grain goes with the piece before; the last
 * pieces become shorter, as the last indices may take longer than others. */
static size_t piece_of(const struct loop_range *range, size_t left, bool is_first) {
    uint64_t ns = predicted(range->pace, left);
    size_t n = range->loop->grain;
    if (ns < AWAKE_NS && !is_first)
        return left;
    if (range->pace != 0) {
        uint64_t most = (uint64_t)PIECE_NS * 1000 / range->pace;
        size_t part = is_first ? left / 8 : left / 4;
        if (part > most)
            part = (size_t)most;
        if (part > n)
            n = part;
    }
    return left > n && left - n >= range->loop->grain ? n : left;
}

static void *loop_range(void *arg) {
    struct loop_range *range = arg;
    const struct loop *loop = range->loop;
    size_t begin = range->begin, end = range->end;
    /* The first of many pieces may tell what the others take. */
    bool ask = range->pace != 0 || (end - begin) / loop->grain < (size_t)ito__pool.n_workers * PIECES_PER_WORKER;
    uint64_t before = ito__prim_now();
    for (bool is_first = true; begin < end; is_first = false) {
        if (ask && (end - begin) / 2 >= loop->grain && worth_a_thread(predicted(range->pace, end - begin)) &&
            divide(range, begin, end))
            break;
        size_t n = piece_of(range, end - begin, is_first);
        loop->body(begin, begin + n, loop->arg);
        uint64_t now = ito__prim_now();
        range->pace = ito__pace_from(now - before, n);
        range->ns += now - before;
        range->n += n;
        before = now;
        begin += n;
        ask = true;
    }
    return NULL;
}

int ito_for(size_t begin, size_t end, size_t grain, void (*body)(size_t, size_t, void *), void *arg) {
    if (begin >= end)
        return 0;
    struct worker *w = worker_of(ito__worker());
    if (is_alone(w)) {
        body(begin, end, arg);
        return 0;
    }
    uint32_t pace = ito__pace_of((uintptr_t)body);
    uint64_t ns = predicted(pace, end - begin);
    if (is_short(w, ns)) {
        size_t part = (end - begin) / 8 > grain ? (end - begin) / 8 : grain + !grain;
        size_t middle = (end - begin) / 2 >= part ? begin + part : end;
        uint64_t tick = ito__prim_tick();
        body(begin, middle, arg);
        if (middle == end)
            return 0;
        if (ito__prim_tick() == tick) {
            body(middle, end, arg);
            return 0;
        }
        begin = middle;
        pace = 0;
    }
    give_credit(ns);
    if (!grain)
        grain = (end - begin) / ((size_t)ito__pool.n_workers * PIECES_PER_WORKER) + 1;
    struct loop loop = {grain, body, arg};
    struct loop_range range = {&loop, begin, end, pace, 0, 0, false};
    uint64_t before = ito__prim_now();
    loop_range(&range);
    if (range.is_divided)
        judge(ns, ito__prim_now() - before);
    note_pace((uintptr_t)body, pace, range.is_divided, range.ns, range.n);
    return 0;
}

/* -- reductions -- */

struct reduce {
    size_t grain;
    const struct ito_reduction *how;
    uint32_t pace;
    bool is_divided; /* relaxed: a hint */
    bool is_short;
    size_t part;   /* one look at the tick, after the first left half of so many indices or more */
    uint64_t tick; /* at the beginning */
};
struct reduce_range {
    struct reduce *reduce;
    size_t begin, end;
    void *accumulator; /* not started yet */
    /* out: what its pieces took together, less what its own thread took from beginning to end. So the sum of both is that
     * of the pieces: without the waits for others, and without creations, in which the other thread runs. Modulo 2^64. */
    uint64_t ns;
};

static void *reduce_thread(void *range);

static void *reduce_range(void *arg) {
    struct reduce_range *range = arg;
    struct reduce *reduce = range->reduce;
    const struct ito_reduction *how = reduce->how;
    size_t n = range->end - range->begin;
    if (n <= reduce->grain) {
        if (how->start)
            how->start(range->accumulator, how->arg);
        else
            memset(range->accumulator, 0, how->size);
        how->body(range->begin, range->end, range->accumulator, how->arg);
        return NULL;
    }
    size_t middle = range->begin + n / 2;
    _Alignas(max_align_t) char right_accumulator[ITO_REDUCE_MAX];
    struct reduce_range left = {reduce, range->begin, middle, range->accumulator, 0};
    struct reduce_range right = {reduce, middle, range->end, right_accumulator, 0};
    ito_thread *thread = NULL;
    if (!reduce->is_short && worth_a_thread(predicted(reduce->pace, n))) {
        uint64_t before = ito__prim_now();
        if (ito_create(&thread, NULL, reduce_thread, &left))
            thread = NULL;
        range->ns -= ito__prim_now() - before;
    }
    if (thread)
        store_relaxed(&reduce->is_divided, true);
    else
        reduce_range(&left);
    /* Only the caller's thread is here while it is short: it was not divided. */
    if (reduce->is_short && n / 2 >= reduce->part) {
        reduce->part = SIZE_MAX;
        if (ito__prim_tick() != reduce->tick) {
            reduce->is_short = false;
            reduce->pace = 0;
        }
    }
    reduce_range(&right);
    if (thread) {
        uint64_t before = ito__prim_now();
        ito_join(thread, NULL);
        range->ns -= ito__prim_now() - before;
    }
    range->ns += left.ns + right.ns;
    how->join(range->accumulator, right_accumulator, how->arg);
    return NULL;
}

static void *reduce_thread(void *arg) {
    struct reduce_range *range = arg;
    uint64_t before = ito__prim_now();
    reduce_range(range);
    range->ns += ito__prim_now() - before;
    return NULL;
}

static size_t reduce_grain(size_t n) {
    size_t pieces = n / INDICES_REDUCE;
    if (pieces < PIECES_REDUCE_LEAST)
        pieces = PIECES_REDUCE_LEAST;
    if (pieces > PIECES_REDUCE_MOST)
        pieces = PIECES_REDUCE_MOST;
    return (n + pieces - 1) / pieces;
}

int ito_reduce(size_t begin, size_t end, size_t grain, const struct ito_reduction *how, void *result) {
    if (!how->size || how->size > ITO_REDUCE_MAX)
        return EINVAL;
    if (begin > end)
        end = begin;
    size_t n = end - begin;
    struct reduce reduce = {grain ? grain : reduce_grain(n), how, 0, false, true, SIZE_MAX, 0};
    struct reduce_range range = {&reduce, begin, end, result, 0};
    struct worker *w = worker_of(ito__worker());
    if (n <= reduce.grain || is_alone(w)) {
        reduce_range(&range);
        return 0;
    }
    reduce.pace = ito__pace_of((uintptr_t)how->body);
    uint64_t ns = predicted(reduce.pace, n);
    reduce.is_short = is_short(w, ns);
    if (reduce.is_short) {
        reduce.part = n / 8;
        reduce.tick = ito__prim_tick();
        reduce_range(&range);
        return 0;
    }
    give_credit(ns);
    uint64_t before = ito__prim_now();
    reduce_range(&range);
    uint64_t took = ito__prim_now() - before;
    if (load_relaxed(&reduce.is_divided))
        judge(ns, took);
    note_pace((uintptr_t)how->body, reduce.pace, load_relaxed(&reduce.is_divided), range.ns + took, n);
    return 0;
}
