/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Worksharing of libgomp: loops, sections, single, scope.
 *
 * A loop is a slice from its first call to its last; each chunk is a slice inside, with the number of its iterations. A
 * loop whose iterations the compiler divides (static, without reductions of tasks) makes no call: it is part of its
 * region. GOMP_loop_*_start is missing where the region's own call has begun the loop; then its first call is
 * GOMP_loop_*_next.
 *
 * `single` and `scope` are instants: their ends make no call.
 */
#include "openmp.h"

#include <stdarg.h>

/* A construct begins: its slice. */
void openmp_open_share(struct openmp_thread *self, enum openmp_what what, enum openmp_what chunk, uintptr_t caller) {
    self->share = (struct openmp_share){openmp_place(caller, chunk), 1, 0, (uint8_t)what, 0};
    openmp_begin(openmp_place(caller, what));
}
/* What schedule(runtime) is now: of OMP_SCHEDULE, or what the program has set. */
enum openmp_what openmp_at_run_time(void (*get_schedule)(int *, int *)) {
    static const uint8_t of[] = {OPENMP_FOR_RUNTIME, OPENMP_FOR_RUNTIME_STATIC, OPENMP_FOR_RUNTIME_DYNAMIC,
                                 OPENMP_FOR_RUNTIME_GUIDED, OPENMP_FOR_RUNTIME_AUTO};
    int schedule = 0, chunk = 0;
    if (get_schedule)
        get_schedule(&schedule, &chunk);
    /* The highest bit says monotonic. */
    schedule &= 0x7fffffff;
    return schedule < (int)sizeof of ? of[schedule] : OPENMP_FOR_RUNTIME;
}
/* Its next chunk, of `n` iterations; `first`: the loop's variable in the first of them. Chunks are not handed out in the
 * order of their iterations by every runtime, so what another schedule would do (crates/analyze/src/openmp) needs it. */
void openmp_begin_chunk(struct openmp_thread *self, uint64_t n, uint64_t first) {
    static struct kasuri_site iterations = {0, 0, "iterations", "", ""}, from = {0, 0, "first", "", ""};
    uint64_t now = kasuri__stamp();
    openmp_emit1(self->share.chunk, KASURI_EV_BEGIN, now);
    openmp_emit2(&iterations, KASURI_EV_ARG | KASURI_ARG_U64 << 16, n, 0, now);
    openmp_emit2(&from, KASURI_EV_ARG | KASURI_ARG_I64 << 16, first, 0, now);
    self->share.in_chunk = 1;
}
void openmp_end_chunk(struct openmp_thread *self) {
    if (self->share.in_chunk)
        openmp_end();
    self->share.in_chunk = 0;
}
void openmp_close_share(struct openmp_thread *self) {
    openmp_end_chunk(self);
    if (self->share.is_open)
        openmp_end();
    self->share.is_open = 0;
}

/* Iterations of a chunk: `step` apart, from `from` to before `to`. A step of 0 is not known: the chunk's length is told
 * in units of the loop's variable. */
static uint64_t count(long from, long to, long step) {
    if (step > 0)
        return to > from ? ((uint64_t)to - (uint64_t)from + (uint64_t)step - 1) / (uint64_t)step : 0;
    if (step < 0)
        return from > to ? ((uint64_t)from - (uint64_t)to - (uint64_t)step - 1) / (0 - (uint64_t)step) : 0;
    return to > from ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
}
static uint64_t count_ull(int is_up, gomp_ull from, gomp_ull to, gomp_ull step) {
    gomp_ull length = is_up ? to - from : from - to, size = is_up ? step : 0 - step;
    return size ? (length + size - 1) / size : length;
}

/* The loop's step, for the chunks to come. Its own variable and no field: only loops of libgomp have it. */
static __thread int64_t steps OPENMP_TLS_HERE;

/* A start: the loop's slice, and its first chunk, which begins at *from, if there is one. */
#define STARTED(is_first, what, step, n)                                                                               \
    do {                                                                                                               \
        struct openmp_thread *self_ = &openmp_self;                                                                    \
        steps = (int64_t)(step);                                                                                       \
        openmp_open_share(self_, what, OPENMP_CHUNK, OPENMP_CALLER());                                                 \
        if (is_first)                                                                                                  \
            openmp_begin_chunk(self_, n, (uint64_t)*from);                                                             \
    } while (0)

/* A next: the chunk ends before the call, and the next one begins after it: finding it is neither's. */
#define NEXT(name, what, n)                                                                                            \
    do {                                                                                                               \
        struct openmp_thread *self = &openmp_self;                                                                     \
        bool more;                                                                                                     \
        if (!openmp_gomp_on())                                                                                         \
            return REAL(name)(from, to);                                                                               \
        if (!self->share.is_open) {                                                                                    \
            openmp_open_share(self, what, OPENMP_CHUNK, OPENMP_CALLER());                                              \
            steps = 0;                                                                                                 \
        }                                                                                                              \
        openmp_end_chunk(self);                                                                                        \
        more = REAL(name)(from, to);                                                                                   \
        if (more)                                                                                                      \
            openmp_begin_chunk(self, n, (uint64_t)*from);                                                              \
        return more;                                                                                                   \
    } while (0)
#define NEXTS(kind, what)                                                                                              \
    bool GOMP_loop_##kind##_next(long *from, long *to) {                                                               \
        NEXT(GOMP_loop_##kind##_next, what, count(*from, *to, steps));                                                 \
    }                                                                                                                  \
    bool GOMP_loop_ull_##kind##_next(gomp_ull *from, gomp_ull *to) {                                                   \
        NEXT(GOMP_loop_ull_##kind##_next, what, count_ull(steps >= 0, *from, *to, (gomp_ull)steps));                   \
    }
#define LOOP(kind, what)                                                                                               \
    bool GOMP_loop_##kind##_start(long start, long end, long step, long chunk, long *from, long *to) {                 \
        bool more = REAL(GOMP_loop_##kind##_start)(start, end, step, chunk, from, to);                                 \
        if (openmp_gomp_on())                                                                                          \
            STARTED(more, what, step, count(*from, *to, step));                                                        \
        return more;                                                                                                   \
    }                                                                                                                  \
    bool GOMP_loop_ull_##kind##_start(bool is_up, gomp_ull start, gomp_ull end, gomp_ull step, gomp_ull chunk,         \
                                      gomp_ull *from, gomp_ull *to) {                                                  \
        bool more = REAL(GOMP_loop_ull_##kind##_start)(is_up, start, end, step, chunk, from, to);                      \
        if (openmp_gomp_on())                                                                                          \
            STARTED(more, what, step, count_ull(is_up, *from, *to, step));                                             \
        return more;                                                                                                   \
    }                                                                                                                  \
    NEXTS(kind, what)
#define LOOP_AT_RUN_TIME(kind, what)                                                                                   \
    bool GOMP_loop_##kind##_start(long start, long end, long step, long *from, long *to) {                             \
        bool more = REAL(GOMP_loop_##kind##_start)(start, end, step, from, to);                                        \
        if (openmp_gomp_on())                                                                                          \
            STARTED(more, what, step, count(*from, *to, step));                                                        \
        return more;                                                                                                   \
    }                                                                                                                  \
    bool GOMP_loop_ull_##kind##_start(bool is_up, gomp_ull start, gomp_ull end, gomp_ull step, gomp_ull *from,         \
                                      gomp_ull *to) {                                                                  \
        bool more = REAL(GOMP_loop_ull_##kind##_start)(is_up, start, end, step, from, to);                             \
        if (openmp_gomp_on())                                                                                          \
            STARTED(more, what, step, count_ull(is_up, *from, *to, step));                                             \
        return more;                                                                                                   \
    }                                                                                                                  \
    NEXTS(kind, what)
LOOP(static, OPENMP_FOR_STATIC)
LOOP(dynamic, OPENMP_FOR_DYNAMIC)
LOOP(guided, OPENMP_FOR_GUIDED)
LOOP(nonmonotonic_dynamic, OPENMP_FOR_DYNAMIC)
LOOP(nonmonotonic_guided, OPENMP_FOR_GUIDED)
LOOP(ordered_static, OPENMP_FOR_ORDERED_STATIC)
LOOP(ordered_dynamic, OPENMP_FOR_ORDERED_DYNAMIC)
LOOP(ordered_guided, OPENMP_FOR_ORDERED_GUIDED)
#define WHAT_IT_IS openmp_at_run_time(REAL(omp_get_schedule))
LOOP_AT_RUN_TIME(runtime, WHAT_IT_IS)
LOOP_AT_RUN_TIME(nonmonotonic_runtime, WHAT_IT_IS)
LOOP_AT_RUN_TIME(maybe_nonmonotonic_runtime, WHAT_IT_IS)
LOOP_AT_RUN_TIME(ordered_runtime, OPENMP_FOR_ORDERED_RUNTIME)

/* -- OpenMP 5.0: the schedule is a number, and there may be reductions -- */

/* libgomp's numbers of schedules (enum omp_sched_t; the highest bit says monotonic). */
static enum openmp_what scheduled(long schedule, int is_ordered, void (*get_schedule)(int *, int *)) {
    static const uint8_t plain[] = {OPENMP_FOR_RUNTIME, OPENMP_FOR_STATIC, OPENMP_FOR_DYNAMIC, OPENMP_FOR_GUIDED,
                                    OPENMP_FOR_AUTO},
                         ordered[] = {OPENMP_FOR_ORDERED_RUNTIME, OPENMP_FOR_ORDERED_STATIC, OPENMP_FOR_ORDERED_DYNAMIC,
                                      OPENMP_FOR_ORDERED_GUIDED, OPENMP_FOR_ORDERED_AUTO};
    uint32_t number = (uint32_t)schedule & 0x7fffffff;
    if (!number && !is_ordered)
        return openmp_at_run_time(get_schedule);
    return number < sizeof plain ? (is_ordered ? ordered : plain)[number] : OPENMP_FOR;
}
/* Without `from` the compiler divides the iterations: the loop has no chunks, and its first call is its only one but for
 * the end. */
#define GENERAL_LOOP(name, is_ordered)                                                                                 \
    bool GOMP_loop_##name(long start, long end, long step, long schedule, long chunk, long *from, long *to,            \
                          gomp_red *reductions, void **memory) {                                                       \
        bool more = REAL(GOMP_loop_##name)(start, end, step, schedule, chunk, from, to, reductions, memory);           \
        if (openmp_gomp_on())                                                                                          \
            STARTED(more &&from, scheduled(schedule, is_ordered, REAL(omp_get_schedule)), step,                        \
                    count(*from, *to, step));                                                                          \
        return more;                                                                                                   \
    }                                                                                                                  \
    bool GOMP_loop_ull_##name(bool is_up, gomp_ull start, gomp_ull end, gomp_ull step, long schedule, gomp_ull chunk,  \
                              gomp_ull *from, gomp_ull *to, gomp_red *reductions, void **memory) {                     \
        bool more =                                                                                                    \
            REAL(GOMP_loop_ull_##name)(is_up, start, end, step, schedule, chunk, from, to, reductions, memory);        \
        if (openmp_gomp_on())                                                                                          \
            STARTED(more &&from, scheduled(schedule, is_ordered, REAL(omp_get_schedule)), step,                        \
                    count_ull(is_up, *from, *to, step));                                                               \
        return more;                                                                                                   \
    }
GENERAL_LOOP(start, 0)
GENERAL_LOOP(ordered_start, 1)

/* -- doacross loops: threads wait for iterations of others -- */

/* Their iterations are numbered from 0, one by one. */
#define DOACROSS_STARTED(is_first)                                                                                     \
    do {                                                                                                               \
        STARTED(is_first, OPENMP_FOR_DOACROSS, 1, (uint64_t)(*to - *from));                                            \
        openmp_self.share.n_loops = n_loops;                                                                           \
    } while (0)
#define DOACROSS(kind)                                                                                                 \
    bool GOMP_loop_doacross_##kind##_start(unsigned n_loops, long *counts, long chunk, long *from, long *to) {         \
        bool more = REAL(GOMP_loop_doacross_##kind##_start)(n_loops, counts, chunk, from, to);                         \
        if (openmp_gomp_on())                                                                                          \
            DOACROSS_STARTED(more);                                                                                    \
        return more;                                                                                                   \
    }                                                                                                                  \
    bool GOMP_loop_ull_doacross_##kind##_start(unsigned n_loops, gomp_ull *counts, gomp_ull chunk, gomp_ull *from,     \
                                               gomp_ull *to) {                                                         \
        bool more = REAL(GOMP_loop_ull_doacross_##kind##_start)(n_loops, counts, chunk, from, to);                     \
        if (openmp_gomp_on())                                                                                          \
            DOACROSS_STARTED(more);                                                                                    \
        return more;                                                                                                   \
    }
DOACROSS(static)
DOACROSS(dynamic)
DOACROSS(guided)
bool GOMP_loop_doacross_runtime_start(unsigned n_loops, long *counts, long *from, long *to) {
    bool more = REAL(GOMP_loop_doacross_runtime_start)(n_loops, counts, from, to);
    if (openmp_gomp_on())
        DOACROSS_STARTED(more);
    return more;
}
bool GOMP_loop_ull_doacross_runtime_start(unsigned n_loops, gomp_ull *counts, gomp_ull *from, gomp_ull *to) {
    bool more = REAL(GOMP_loop_ull_doacross_runtime_start)(n_loops, counts, from, to);
    if (openmp_gomp_on())
        DOACROSS_STARTED(more);
    return more;
}
bool GOMP_loop_doacross_start(unsigned n_loops, long *counts, long schedule, long chunk, long *from, long *to,
                              gomp_red *reductions, void **memory) {
    bool more = REAL(GOMP_loop_doacross_start)(n_loops, counts, schedule, chunk, from, to, reductions, memory);
    if (openmp_gomp_on())
        DOACROSS_STARTED(more && from);
    return more;
}
bool GOMP_loop_ull_doacross_start(unsigned n_loops, gomp_ull *counts, long schedule, gomp_ull chunk, gomp_ull *from,
                                  gomp_ull *to, gomp_red *reductions, void **memory) {
    bool more = REAL(GOMP_loop_ull_doacross_start)(n_loops, counts, schedule, chunk, from, to, reductions, memory);
    if (openmp_gomp_on())
        DOACROSS_STARTED(more && from);
    return more;
}

/* A wait passes as many numbers as the loop has nested loops; libgomp reads no more than those. They are read from the
 * call and passed on; those beyond them are 0. */
#define N_NUMBERS 16
#define PASS(n) n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14], n[15]
#define DOACROSS_WAIT(name, type)                                                                                        \
    void name(type first, ...) {                                                                                         \
        type numbers[N_NUMBERS] = {first};                                                                               \
        uint32_t n = openmp_self.share.n_loops;                                                                          \
        int is_on = openmp_gomp_on();                                                                                    \
        va_list list;                                                                                                    \
        va_start(list, first);                                                                                           \
        /* A loop that began before the recorder came: its number is not known. What is read beyond the arguments is   \
         * the caller's stack, and libgomp does not look at it. */ \
        n = n && n < N_NUMBERS ? n : N_NUMBERS;                                                                          \
        for (uint32_t i = 1; i < n; i++)                                                                                 \
            numbers[i] = va_arg(list, type);                                                                             \
        va_end(list);                                                                                                    \
        if (is_on)                                                                                                       \
            openmp_wait(openmp_place(OPENMP_CALLER(), OPENMP_DOACROSS), KASURI_WAIT_OTHER,                               \
                        openmp_barrier_of(openmp_self.team));                                                            \
        REAL(name)(first, PASS(numbers));                                                                                \
        if (is_on)                                                                                                       \
            openmp_waited(KASURI_WAIT_OTHER, openmp_barrier_of(openmp_self.team));                                       \
    }
DOACROSS_WAIT(GOMP_doacross_wait, long)
DOACROSS_WAIT(GOMP_doacross_ull_wait, gomp_ull)
void GOMP_doacross_post(long *counts) {
    REAL(GOMP_doacross_post)(counts);
}
void GOMP_doacross_ull_post(gomp_ull *counts) {
    REAL(GOMP_doacross_ull_post)(counts);
}

/* -- ends; those without `nowait` have a barrier -- */

#define BARRIER(call, what)                                                                                            \
    do {                                                                                                               \
        uint64_t object_ = openmp_barrier_of(openmp_self.team);                                                        \
        openmp_wait(openmp_place(OPENMP_CALLER(), what), KASURI_WAIT_BARRIER, object_);                                \
        call;                                                                                                          \
        openmp_waited(KASURI_WAIT_BARRIER, object_);                                                                   \
    } while (0)
#define ENDS(construct, what)                                                                                          \
    void GOMP_##construct##_end(void) {                                                                                \
        if (!openmp_gomp_on()) {                                                                                       \
            REAL(GOMP_##construct##_end)();                                                                            \
            return;                                                                                                    \
        }                                                                                                              \
        openmp_close_share(&openmp_self);                                                                              \
        BARRIER(REAL(GOMP_##construct##_end)(), what);                                                                 \
    }                                                                                                                  \
    bool GOMP_##construct##_end_cancel(void) {                                                                         \
        bool is_cancelled;                                                                                             \
        if (!openmp_gomp_on())                                                                                         \
            return REAL(GOMP_##construct##_end_cancel)();                                                              \
        openmp_close_share(&openmp_self);                                                                              \
        BARRIER(is_cancelled = REAL(GOMP_##construct##_end_cancel)(), what);                                           \
        return is_cancelled;                                                                                           \
    }                                                                                                                  \
    void GOMP_##construct##_end_nowait(void) {                                                                         \
        if (openmp_gomp_on())                                                                                          \
            openmp_close_share(&openmp_self);                                                                          \
        REAL(GOMP_##construct##_end_nowait)();                                                                         \
    }
ENDS(loop, OPENMP_BARRIER_FOR)
ENDS(sections, OPENMP_BARRIER_SECTIONS)

/* -- sections: the construct's slice, and one for each section that the thread runs, with its number -- */

static unsigned begin_section(unsigned section) {
    static struct kasuri_site number = {0, 0, "number", "", ""};
    struct openmp_thread *self = &openmp_self;
    uint64_t now;
    if (!section)
        return section;
    now = kasuri__stamp();
    openmp_emit1(self->share.chunk, KASURI_EV_BEGIN, now);
    openmp_emit2(&number, KASURI_EV_ARG | KASURI_ARG_U64 << 16, section, 0, now);
    self->share.in_chunk = 1;
    return section;
}
unsigned GOMP_sections_start(unsigned n) {
    unsigned section = REAL(GOMP_sections_start)(n);
    if (!openmp_gomp_on())
        return section;
    openmp_open_share(&openmp_self, OPENMP_SECTIONS, OPENMP_SECTION, OPENMP_CALLER());
    return begin_section(section);
}
unsigned GOMP_sections2_start(unsigned n, gomp_red *reductions, void **memory) {
    unsigned section = REAL(GOMP_sections2_start)(n, reductions, memory);
    if (!openmp_gomp_on())
        return section;
    openmp_open_share(&openmp_self, OPENMP_SECTIONS, OPENMP_SECTION, OPENMP_CALLER());
    return begin_section(section);
}
unsigned GOMP_sections_next(void) {
    struct openmp_thread *self = &openmp_self;
    if (!openmp_gomp_on())
        return REAL(GOMP_sections_next)();
    /* The first call where the region's own call has begun the sections. */
    if (!self->share.is_open)
        openmp_open_share(self, OPENMP_SECTIONS, OPENMP_SECTION, OPENMP_CALLER());
    openmp_end_chunk(self);
    return begin_section(REAL(GOMP_sections_next)());
}

/* -- single, scope -- */

static void instant(enum openmp_what what, uintptr_t caller) {
    openmp_emit1(openmp_place(caller, what), KASURI_EV_INSTANT, kasuri__stamp());
}
/* True in the thread that runs the block. */
bool GOMP_single_start(void) {
    bool is_ours = REAL(GOMP_single_start)();
    if (is_ours && openmp_gomp_on())
        instant(OPENMP_SINGLE, OPENMP_CALLER());
    return is_ours;
}
/* Null in the thread that runs the block; the others wait here for what it copies to them. */
void *GOMP_single_copy_start(void) {
    uint64_t before, object;
    void *copied;
    if (!openmp_gomp_on())
        return REAL(GOMP_single_copy_start)();
    object = openmp_barrier_of(openmp_self.team);
    before = kasuri__stamp();
    copied = REAL(GOMP_single_copy_start)();
    if (!copied) {
        instant(OPENMP_SINGLE, OPENMP_CALLER());
        return copied;
    }
    openmp_emit2(openmp_place(OPENMP_CALLER(), OPENMP_BARRIER_SINGLE), KASURI_EV_WAIT_BEGIN | KASURI_WAIT_BARRIER << 16,
                 object, 0, before);
    openmp_waited(KASURI_WAIT_BARRIER, object);
    return copied;
}
void GOMP_single_copy_end(void *data) {
    if (openmp_gomp_on())
        BARRIER(REAL(GOMP_single_copy_end)(data), OPENMP_BARRIER_SINGLE);
    else
        REAL(GOMP_single_copy_end)(data);
}
void GOMP_scope_start(gomp_red *reductions) {
    REAL(GOMP_scope_start)(reductions);
    if (openmp_gomp_on())
        instant(OPENMP_SCOPE, OPENMP_CALLER());
}
/* The end of a loop, of sections or of a scope with reductions of tasks: a barrier, unless it was cancelled. */
void GOMP_workshare_task_reduction_unregister(bool is_cancelled) {
    if (is_cancelled || !openmp_gomp_on()) {
        REAL(GOMP_workshare_task_reduction_unregister)(is_cancelled);
        return;
    }
    BARRIER(REAL(GOMP_workshare_task_reduction_unregister)(is_cancelled), OPENMP_REDUCTION);
}
