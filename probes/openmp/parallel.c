/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parallel regions, teams and target regions of libgomp.
 *
 * A region's body is a function that libgomp calls in each thread of the team; it is given run_region() in its place.
 * Events of one thread:
 *   BEGIN parallel          run_region() was called; before it, for a worker, the end of its last region's wait (thread.c)
 *   ...                     the body
 *   END                     the body has returned
 *   WAIT_BEGIN BARRIER      the thread waits for the others; object: openmp_end_of(team)
 *   WAIT_END                master: libgomp's function has returned. Worker: see thread.c
 */
#include "openmp.h"

/* A region that is running; on its master's stack, or in the master's `old` (below). Threads of the team read it until
 * the body has returned; by then libgomp's function has not. */
struct region {
    gomp_fn *body;
    void *data;
    uint64_t id, team;
    struct kasuri_site *site, *barrier;
    const struct openmp_thread *master;
    uint64_t began;             /* 0: the gate was closed */
    struct openmp_thread outer; /* the master's state around it */
};

/* Around the body. */
static void enter(struct openmp_thread *self, const struct region *r) {
    uint64_t now = kasuri__stamp();
    if (self->left)
        openmp_leave_dock(self, now);
    self->team = r->team;
    self->task = 0;
    self->body = (uintptr_t)r->body;
    self->share = (struct openmp_share){0, 0, 0, 0, 0};
    openmp_emit1(r->site, KASURI_EV_BEGIN, now);
}
static void leave(struct openmp_thread *self, const struct region *r) {
    uint64_t now = kasuri__stamp();
    /* A loop that was cancelled, or that the program left by a jump that OpenMP does not allow. */
    if (self->share.in_chunk)
        openmp_emit1(0, KASURI_EV_END, now);
    if (self->share.is_open)
        openmp_emit1(0, KASURI_EV_END, now);
    openmp_emit1(0, KASURI_EV_END, now);
    openmp_emit2(r->barrier, KASURI_EV_WAIT_BEGIN | KASURI_WAIT_BARRIER << 16, openmp_end_of(r->team), 0, now);
}

static void run_region(void *region) {
    /* Copied: once the body has returned, the master may be gone. */
    const struct region r = *(const struct region *)region;
    struct openmp_thread *self = &openmp_self, outer;
    outer = *self;
    enter(self, &r);
    r.body(r.data);
    leave(self, &r);
    self->team = outer.team;
    self->task = outer.task;
    self->body = outer.body;
    self->share = outer.share;
    if (self != r.master) {
        self->left = r.id;
        self->left_team = r.team;
        self->left_at = kasuri__stamp();
    }
}

static void prepare(struct region *r, gomp_fn *body, void *data) {
    r->body = body;
    r->data = data;
    r->id = openmp_region_begins();
    r->team = openmp_number(&openmp_self);
    /* The address behind the function's first byte, as of a call there. */
    r->site = openmp_place((uintptr_t)body + 1, OPENMP_PARALLEL);
    r->barrier = openmp_place((uintptr_t)body + 1, OPENMP_BARRIER_PARALLEL);
    r->master = &openmp_self;
}
static void finish(const struct region *r) {
    uint64_t now = kasuri__stamp();
    openmp_region_ends(r->id, now);
    openmp_emit2(0, KASURI_EV_WAIT_END | KASURI_WAIT_BARRIER << 16, openmp_end_of(r->team), 0, now);
}

/* One function: its parameters behind body and data, and the same as arguments. */
#define PARALLEL(name, parameters, ...)                                                                                \
    void name parameters {                                                                                             \
        struct region r;                                                                                               \
        if (!openmp_gomp_on()) {                                                                                       \
            REAL(name)(body, data, __VA_ARGS__);                                                                       \
            return;                                                                                                    \
        }                                                                                                              \
        prepare(&r, body, data);                                                                                       \
        REAL(name)(run_region, &r, __VA_ARGS__);                                                                       \
        finish(&r);                                                                                                    \
    }
PARALLEL(GOMP_parallel, (gomp_fn * body, void *data, unsigned n, unsigned flags), n, flags)
PARALLEL(GOMP_parallel_sections, (gomp_fn * body, void *data, unsigned n, unsigned count, unsigned flags), n, count,
         flags)
#define PARALLEL_LOOP(kind)                                                                                            \
    PARALLEL(GOMP_parallel_loop_##kind,                                                                                \
             (gomp_fn * body, void *data, unsigned n, long from, long to, long step, long chunk, unsigned flags), n,   \
             from, to, step, chunk, flags)
PARALLEL_LOOP(static)
PARALLEL_LOOP(dynamic)
PARALLEL_LOOP(guided)
PARALLEL_LOOP(nonmonotonic_dynamic)
PARALLEL_LOOP(nonmonotonic_guided)
#define PARALLEL_LOOP_AT_RUN_TIME(kind)                                                                                \
    PARALLEL(GOMP_parallel_loop_##kind,                                                                                \
             (gomp_fn * body, void *data, unsigned n, long from, long to, long step, unsigned flags), n, from, to,     \
             step, flags)
PARALLEL_LOOP_AT_RUN_TIME(runtime)
PARALLEL_LOOP_AT_RUN_TIME(nonmonotonic_runtime)
PARALLEL_LOOP_AT_RUN_TIME(maybe_nonmonotonic_runtime)

unsigned GOMP_parallel_reductions(gomp_fn *body, void *data, unsigned n, unsigned flags) {
    struct region r;
    unsigned result;
    if (!openmp_gomp_on())
        return REAL(GOMP_parallel_reductions)(body, data, n, flags);
    prepare(&r, body, data);
    result = REAL(GOMP_parallel_reductions)(run_region, &r, n, flags);
    finish(&r);
    return result;
}

/* -- programs of gcc before 4.9: the master calls the body itself, between two calls -- */

#define N_OLD 8 /* regions within regions of one thread; deeper ones are not recorded */
static __thread struct region old[N_OLD] OPENMP_TLS_HERE;
static __thread uint32_t n_old OPENMP_TLS_HERE;

/* The region, or null where it is not recorded. Each start has one GOMP_parallel_end. */
static struct region *start_old(gomp_fn *body, void *data) {
    struct region *r = n_old < N_OLD ? &old[n_old] : 0;
    n_old++;
    if (!r)
        return 0;
    r->began = 0;
    if (!openmp_gomp_on())
        return 0;
    prepare(r, body, data);
    r->outer = openmp_self;
    r->began = kasuri__stamp();
    return r;
}
#define PARALLEL_START(name, parameters, ...)                                                                          \
    void name parameters {                                                                                             \
        struct region *r = start_old(body, data);                                                                      \
        if (!r) {                                                                                                      \
            REAL(name)(body, data, __VA_ARGS__);                                                                       \
            return;                                                                                                    \
        }                                                                                                              \
        REAL(name)(run_region, r, __VA_ARGS__);                                                                        \
        enter(&openmp_self, r);                                                                                        \
    }
PARALLEL_START(GOMP_parallel_start, (gomp_fn * body, void *data, unsigned n), n)
PARALLEL_START(GOMP_parallel_sections_start, (gomp_fn * body, void *data, unsigned n, unsigned count), n, count)
#define PARALLEL_LOOP_START(kind)                                                                                      \
    PARALLEL_START(GOMP_parallel_loop_##kind##_start,                                                                  \
                   (gomp_fn * body, void *data, unsigned n, long from, long to, long step, long chunk), n, from, to,   \
                   step, chunk)
PARALLEL_LOOP_START(static)
PARALLEL_LOOP_START(dynamic)
PARALLEL_LOOP_START(guided)
PARALLEL_START(GOMP_parallel_loop_runtime_start,
               (gomp_fn * body, void *data, unsigned n, long from, long to, long step), n, from, to, step)

void GOMP_parallel_end(void) {
    struct openmp_thread *self = &openmp_self;
    struct region *r;
    n_old -= n_old > 0;
    r = n_old < N_OLD && old[n_old].began ? &old[n_old] : 0;
    if (r)
        leave(self, r);
    REAL(GOMP_parallel_end)();
    if (r) {
        self->team = r->outer.team;
        self->task = r->outer.task;
        self->body = r->outer.body;
        self->share = r->outer.share;
        r->began = 0;
        finish(r);
    }
}

/* -- teams on the host, and code that may run on another device: slices of the calling thread -- */

void GOMP_teams_reg(gomp_fn *body, void *data, unsigned n_teams, unsigned n_threads, unsigned flags) {
    int is_on = openmp_gomp_on();
    if (is_on)
        openmp_begin(openmp_place((uintptr_t)body + 1, OPENMP_TEAMS));
    REAL(GOMP_teams_reg)(body, data, n_teams, n_threads, flags);
    if (is_on)
        openmp_end();
}

#define TARGET(name, parameters, ...)                                                                                  \
    void name parameters {                                                                                             \
        int is_on = openmp_gomp_on();                                                                                  \
        if (is_on)                                                                                                     \
            openmp_begin(openmp_place(OPENMP_CALLER(), OPENMP_TARGET));                                                \
        REAL(name)(__VA_ARGS__);                                                                                       \
        if (is_on)                                                                                                     \
            openmp_end();                                                                                              \
    }
TARGET(GOMP_target,
       (int device, gomp_fn *body, const void *unused, size_t n, void **hosts, size_t *sizes, unsigned char *kinds),
       device, body, unused, n, hosts, sizes, kinds)
TARGET(GOMP_target_ext,
       (int device, gomp_fn *body, size_t n, void **hosts, size_t *sizes, unsigned short *kinds, unsigned flags,
        void **depend, void **args),
       device, body, n, hosts, sizes, kinds, flags, depend, args)
TARGET(GOMP_target_data_ext, (int device, size_t n, void **hosts, size_t *sizes, unsigned short *kinds), device, n,
       hosts, sizes, kinds)
TARGET(GOMP_target_update_ext,
       (int device, size_t n, void **hosts, size_t *sizes, unsigned short *kinds, unsigned flags, void **depend),
       device, n, hosts, sizes, kinds, flags, depend)
TARGET(GOMP_target_enter_exit_data,
       (int device, size_t n, void **hosts, size_t *sizes, unsigned short *kinds, unsigned flags, void **depend),
       device, n, hosts, sizes, kinds, flags, depend)
