/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libomp: a tool of OMPT, which the runtime finds by the name ompt_start_tool and calls at each event. Programs of clang,
 * and of gcc where libomp stands in for libgomp.
 *
 * The events are those of libgomp's side, see docs/design/openmp.md; what OMPT tells more is recorded, too: loops that the
 * compiler divides, and the ends of `single`. Chunks are seen by the functions that loops call for them.
 *
 * A region's record is made by its master in parallel_begin and freed in parallel_end. Its workers use it from the beginning
 * of their implicit task to their arrival at the region's last barrier, which comes before its master's parallel_end: what
 * they need later is in their own state. libomp tells a worker of the end of that barrier at once, or only when it is given
 * its next region; so that end is not used, but the master's stamp (thread.c).
 *
 * Data that OMPT keeps for a task: 0, or its identity with IS_EXPLICIT, IS_UNTIED and WAS_STARTED.
 */
#include "openmp.h"

#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#define IS_EXPLICIT (1ull << 63)
#define WAS_STARTED (1ull << 62)
#define IS_UNTIED (1ull << 61)
#define IDENTITY (IS_UNTIED - 1)

/* A region that is running. */
struct record {
    uint64_t id, team;
    uintptr_t place;
    struct kasuri_site *site, *barrier;
    struct openmp_thread outer; /* the master's state around it */
    struct tool_thread *outer_tool;
};

/* What a thread is in, beside openmp_self. */
struct tool_thread {
    struct record *region; /* from the beginning of the implicit task to the last barrier; else null */
    uint8_t is_master, schedule, in_taskloop;
    uintptr_t loop; /* where the loop was asked for that begins now */
    uint64_t asked; /* when it asked for the lock that it does not have yet */
};
static __thread struct tool_thread tool OPENMP_TLS_HERE;

static int is_on(void) {
    return openmp_on();
}

static uint64_t identity(const ompt_data *task) {
    return task && task->value & IS_EXPLICIT ? task->value & IDENTITY : 0;
}

/* The code of the runtime. A call at the end of a function of the program may be a jump, and then the place that the runtime
 * finds is its own: the region's place is nearer. */
static struct openmp_code libomp;
static uintptr_t place_of(const void *place) {
    uintptr_t at = (uintptr_t)place;
    int is_runtimes = at - libomp.from < libomp.bytes;
    return (!at || is_runtimes) && tool.region ? tool.region->place : at;
}

/* -- regions -- */

static void parallel_begin(ompt_data *task, const void *frame, ompt_data *parallel, unsigned n, int flags,
                           const void *place) {
    struct openmp_thread *self = &openmp_self;
    struct record *r;
    (void)task, (void)frame, (void)n;
    parallel->ptr = 0;
    if (!is_on() || !(r = malloc(sizeof *r)))
        return;
    r->id = openmp_region_begins();
    r->team = openmp_number(self);
    r->place = (uintptr_t)place;
    r->site = openmp_place(r->place, flags & OMPT_PARALLEL_LEAGUE ? OPENMP_TEAMS : OPENMP_PARALLEL);
    r->barrier = openmp_place(r->place, OPENMP_BARRIER_PARALLEL);
    r->outer = *self;
    r->outer_tool = malloc(sizeof tool);
    if (!r->outer_tool) {
        free(r);
        return;
    }
    *r->outer_tool = tool;
    tool.is_master = 1;
    parallel->ptr = r;
}

/* The thread has come to the end of its part. */
static void leave(struct openmp_thread *self) {
    struct record *r = tool.region;
    uint64_t now;
    if (!r)
        return;
    openmp_close_share(self);
    now = kasuri__stamp();
    openmp_emit1(0, KASURI_EV_END, now);
    openmp_emit2(r->barrier, KASURI_EV_WAIT_BEGIN | KASURI_WAIT_BARRIER << 16, openmp_end_of(r->team), 0, now);
    if (!tool.is_master) {
        self->left = r->id;
        self->left_team = r->team;
        self->left_at = now;
    }
    tool.region = 0;
}

static void implicit_task(int endpoint, ompt_data *parallel, ompt_data *task, unsigned n, unsigned index, int flags) {
    struct openmp_thread *self = &openmp_self;
    (void)n, (void)index;
    if (flags & OMPT_TASK_INITIAL)
        return;
    if (endpoint != OMPT_SCOPE_BEGIN) {
        /* A team of one has no last barrier. */
        leave(self);
        if (!tool.is_master)
            self->team = self->task = 0;
        return;
    }
    task->value = 0;
    tool.region = parallel ? parallel->ptr : 0;
    if (!tool.region)
        return;
    if (self->left)
        openmp_leave_dock(self, kasuri__stamp());
    self->team = tool.region->team;
    self->task = 0;
    self->share = (struct openmp_share){0, 0, 0, 0, 0};
    tool.in_taskloop = 0;
    openmp_begin(tool.region->site);
}

static void parallel_end(ompt_data *parallel, ompt_data *task, int flags, const void *place) {
    struct openmp_thread *self = &openmp_self;
    struct record *r = parallel ? parallel->ptr : 0;
    uint64_t now, next = self->next;
    (void)task, (void)flags, (void)place;
    if (!r)
        return;
    leave(self);
    now = kasuri__stamp();
    openmp_region_ends(r->id, now);
    openmp_emit2(0, KASURI_EV_WAIT_END | KASURI_WAIT_BARRIER << 16, openmp_end_of(r->team), 0, now);
    *self = r->outer;
    self->next = next;
    tool = *r->outer_tool;
    free(r->outer_tool);
    free(r);
    parallel->ptr = 0;
}

/* -- worksharing -- */

static enum openmp_what loop_of(int work) {
    enum openmp_what what = tool.schedule;
    tool.schedule = 0;
    if (what)
        return what;
    switch (work) {
    case OMPT_WORK_LOOP_DYNAMIC:
        return OPENMP_FOR_DYNAMIC;
    case OMPT_WORK_LOOP_GUIDED:
        return OPENMP_FOR_GUIDED;
    case OMPT_WORK_LOOP_OTHER:
        return OPENMP_FOR;
    default:
        return OPENMP_FOR_STATIC;
    }
}
static void work(int work, int endpoint, ompt_data *parallel, ompt_data *task, uint64_t n, const void *place) {
    static const uint8_t slices[] = {[OMPT_WORK_SINGLE_EXECUTOR] = OPENMP_SINGLE,
                                     [OMPT_WORK_WORKSHARE] = OPENMP_WORKSHARE,
                                     [OMPT_WORK_DISTRIBUTE] = OPENMP_DISTRIBUTE,
                                     [OMPT_WORK_TASKLOOP] = OPENMP_TASKLOOP,
                                     [OMPT_WORK_SCOPE] = OPENMP_SCOPE};
    struct openmp_thread *self = &openmp_self;
    int begins = endpoint == OMPT_SCOPE_BEGIN;
    (void)parallel, (void)task, (void)n;
    if (!is_on())
        return;
    if (work == OMPT_WORK_TASKLOOP)
        tool.in_taskloop = (uint8_t)begins;
    if (work == OMPT_WORK_LOOP || work >= OMPT_WORK_LOOP_STATIC || work == OMPT_WORK_SECTIONS) {
        if (begins)
            openmp_open_share(self, work == OMPT_WORK_SECTIONS ? OPENMP_SECTIONS : loop_of(work), OPENMP_CHUNK,
                              tool.loop ? tool.loop : place_of(place));
        else
            openmp_close_share(self);
    } else if (work > 0 && work < (int)sizeof slices && slices[work]) {
        if (begins)
            openmp_begin(openmp_place(place_of(place), slices[work]));
        else
            openmp_end();
    }
}

static uint8_t scheduled(int32_t schedule, void (*get_schedule)(int *, int *)) {
    switch (schedule & 0xff) {
    case KMP_STATIC:
    case KMP_STATIC_CHUNKED:
        return OPENMP_FOR_STATIC;
    case KMP_DYNAMIC:
        return OPENMP_FOR_DYNAMIC;
    case KMP_GUIDED:
        return OPENMP_FOR_GUIDED;
    case KMP_RUNTIME:
        return (uint8_t)openmp_at_run_time(get_schedule);
    case KMP_AUTO:
        return OPENMP_FOR_AUTO;
    case KMP_ORDERED_STATIC:
    case KMP_ORDERED_STATIC_CHUNKED:
        return OPENMP_FOR_ORDERED_STATIC;
    case KMP_ORDERED_DYNAMIC:
        return OPENMP_FOR_ORDERED_DYNAMIC;
    case KMP_ORDERED_GUIDED:
        return OPENMP_FOR_ORDERED_GUIDED;
    case KMP_ORDERED_RUNTIME:
        return OPENMP_FOR_ORDERED_RUNTIME;
    case KMP_ORDERED_AUTO:
        return OPENMP_FOR_ORDERED_AUTO;
    default:
        return OPENMP_FOR;
    }
}

/* The loop's slice begins and ends by work(), which the real functions call: the first in init, the last in the next that
 * finds nothing. Bounds are both part of the chunk. */
#define DISPATCH(ending, type, stride)                                                                                 \
    void __kmpc_dispatch_init_##ending(void *source, int32_t thread, int32_t schedule, type from, type to,             \
                                       stride step, stride chunk) {                                                    \
        tool.schedule = openmp_on() ? scheduled(schedule, REAL(omp_get_schedule)) : 0;                                 \
        tool.loop = OPENMP_CALLER();                                                                                   \
        REAL(__kmpc_dispatch_init_##ending)(source, thread, schedule, from, to, step, chunk);                          \
        tool.schedule = 0;                                                                                             \
        tool.loop = 0;                                                                                                 \
    }                                                                                                                  \
    int __kmpc_dispatch_next_##ending(void *source, int32_t thread, int32_t *is_last, type *from, type *to,            \
                                      stride *step) {                                                                  \
        struct openmp_thread *self = &openmp_self;                                                                     \
        stride by = 0;                                                                                                 \
        int more;                                                                                                      \
        if (!openmp_on() || !self->share.is_open)                                                                      \
            return REAL(__kmpc_dispatch_next_##ending)(source, thread, is_last, from, to, step);                       \
        openmp_end_chunk(self);                                                                                        \
        more = REAL(__kmpc_dispatch_next_##ending)(source, thread, is_last, from, to, step ? step : &by);              \
        if (more && self->share.is_open)                                                                               \
            openmp_begin_chunk(self, iterations((uint64_t)*from, (uint64_t)*to, (int64_t)(step ? *step : by)),         \
                               (uint64_t)*from);                                                                       \
        return more;                                                                                                   \
    }
static uint64_t iterations(uint64_t from, uint64_t to, int64_t step) {
    if (step < 0)
        return (from - to) / (0 - (uint64_t)step) + 1;
    return step ? (to - from) / (uint64_t)step + 1 : 0;
}
DISPATCH(4, int32_t, int32_t)
DISPATCH(4u, uint32_t, int32_t)
DISPATCH(8, int64_t, int64_t)
DISPATCH(8u, uint64_t, int64_t)

/* -- waits -- */

static void sync_wait(int kind, int endpoint, ompt_data *parallel, ompt_data *task, const void *place) {
    struct openmp_thread *self = &openmp_self;
    uint64_t barrier, join;
    int begins = endpoint == OMPT_SCOPE_BEGIN, is_implicit;
    enum openmp_what what;
    (void)parallel, (void)task;
    if (!is_on() || kind == OMPT_SYNC_REDUCTION)
        return;
    barrier = openmp_barrier_of(self->team);
    join = self->task ? self->task : barrier;
    if (kind == OMPT_SYNC_TASKWAIT || kind == OMPT_SYNC_TASKGROUP) {
        what = kind == OMPT_SYNC_TASKWAIT ? OPENMP_TASKWAIT : OPENMP_TASKGROUP;
        if (begins)
            openmp_wait(openmp_place(place_of(place), what), KASURI_WAIT_JOIN, join);
        else
            openmp_waited(KASURI_WAIT_JOIN, join);
        return;
    }
    /* The region's last barrier: before LLVM 16 it has the kind of the others, and the region's place, or none. Its end:
     * the thread has left the region already. */
    is_implicit = kind == OMPT_SYNC_BARRIER_IMPLICIT || kind == OMPT_SYNC_BARRIER_IMPLICIT_PARALLEL;
    if (is_implicit && (!tool.region || !place || (uintptr_t)place == tool.region->place)) {
        leave(self);
        return;
    }
    if (!tool.region)
        return;
    what = kind == OMPT_SYNC_BARRIER_EXPLICIT || kind == OMPT_SYNC_BARRIER ? OPENMP_BARRIER : OPENMP_BARRIER_IMPLICIT;
    if (begins)
        openmp_wait(openmp_place(place_of(place), what), KASURI_WAIT_BARRIER, barrier);
    else
        openmp_waited(KASURI_WAIT_BARRIER, barrier);
}

/* -- exclusion -- */

/* Waits shorter than this (counts of the clock of stamps) are the cost of taking a free lock, some 300 ns: OMPT does not
 * tell whether the lock was free. */
static uint64_t shortest_wait(void) {
#if defined(__aarch64__)
    uint64_t hz;
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz / 3333333;
#else
    return 1024;
#endif
}

static void define(int kind, uint64_t lock, uintptr_t place) {
    static const uint8_t words[] = {[OMPT_MUTEX_CRITICAL] = OPENMP_CRITICAL,
                                    [OMPT_MUTEX_ATOMIC] = OPENMP_ATOMIC,
                                    [OMPT_MUTEX_ORDERED] = OPENMP_ORDERED};
    int is_lock = kind < OMPT_MUTEX_CRITICAL || kind > OMPT_MUTEX_ORDERED;
    int nests = kind == OMPT_MUTEX_NEST_LOCK || kind == OMPT_MUTEX_TEST_NEST_LOCK;
    struct kasuri_site *name = probe_symbol(lock);
    if (!name && place)
        name = openmp_place(place, is_lock ? OPENMP_LOCK : words[kind]);
    openmp_define_lock(lock,
                       nests     ? KASURI_LOCK_RECURSIVE
                       : is_lock ? KASURI_LOCK_MUTEX
                                 : KASURI_LOCK_OTHER,
                       place, name);
}
static void lock_init(int kind, unsigned hint, unsigned how, uint64_t lock, const void *place) {
    (void)hint, (void)how;
    if (is_on())
        define(kind, lock, place_of(place));
}
/* Nothing is written before the lock is held: whether there was a wait is known then. */
static void mutex_acquire(int kind, unsigned hint, unsigned how, uint64_t lock, const void *place) {
    (void)kind, (void)hint, (void)how, (void)lock, (void)place;
    tool.asked = is_on() ? kasuri__stamp() : 0;
}
static void mutex_acquired(int kind, uint64_t lock, const void *place) {
    uint64_t now;
    if (!is_on())
        return;
    now = kasuri__stamp();
    if (KASURI__UNLIKELY(openmp_is_new_lock(lock)))
        define(kind, lock, place_of(place));
    if (tool.asked && now - tool.asked >= shortest_wait()) {
        openmp_emit2(openmp_call_site(place_of(place)), KASURI_EV_LOCK_REQUEST, lock, 0, tool.asked);
        probe_emit_long(KASURI_EV_LOCK_ACQUIRED, KASURI_LOCK_EXCLUSIVE, (const void *)(uintptr_t)lock, 0, now);
    } else {
        probe_emit_short(KASURI_EV_LOCK_TAKEN, KASURI_EV_LOCK_ACQUIRED, (const void *)(uintptr_t)lock, now);
    }
    tool.asked = 0;
}
static void mutex_released(int kind, uint64_t lock, const void *place) {
    (void)kind, (void)place;
    if (is_on())
        probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, (const void *)(uintptr_t)lock, kasuri__stamp());
}
/* A lock that nests, taken by its owner: a hold within the hold. */
static void nest_lock(int endpoint, uint64_t lock, const void *place) {
    (void)place;
    if (!is_on())
        return;
    if (endpoint == OMPT_SCOPE_BEGIN)
        probe_emit_short(KASURI_EV_LOCK_TAKEN, KASURI_EV_LOCK_ACQUIRED, (const void *)(uintptr_t)lock, kasuri__stamp());
    else
        probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, (const void *)(uintptr_t)lock, kasuri__stamp());
    tool.asked = 0;
}

/* -- tasks -- */

static void task_create(ompt_data *parent, const void *frame, ompt_data *task, int flags, int has_depend,
                        const void *place) {
    struct openmp_thread *self = &openmp_self;
    uint64_t id;
    (void)parent, (void)frame, (void)has_depend;
    task->value = 0;
    if (!(flags & OMPT_TASK_EXPLICIT) || !is_on())
        return;
    id = openmp_new_id(self);
    task->value = IS_EXPLICIT | (flags & OMPT_TASK_UNTIED ? IS_UNTIED : 0) | id;
    openmp_emit2(openmp_place(place_of(place), tool.in_taskloop ? OPENMP_TASKLOOP : OPENMP_TASK), KASURI_EV_TASK_CREATE,
                 id, self->task, kasuri__stamp());
}
static enum openmp_depend how(int kind) {
    return kind == OMPT_DEPENDENCE_IN              ? OPENMP_DEPEND_IN
           : kind == OMPT_DEPENDENCE_MUTEXINOUTSET ? OPENMP_DEPEND_MUTEX
           : kind == OMPT_DEPENDENCE_INOUTSET      ? OPENMP_DEPEND_SET
                                                   : OPENMP_DEPEND_ALONE;
}
/* Before the task may start; the calling thread's task creates it. */
static void dependences(ompt_data *task, const ompt_dependence *list, int n) {
    if (!is_on() || !(task->value & IS_EXPLICIT))
        return;
    for (int alone = 1; alone >= 0; alone--)
        for (int i = 0; i < n; i++) {
            int kind = list[i].kind;
            if (kind != OMPT_DEPENDENCE_SOURCE && kind != OMPT_DEPENDENCE_SINK &&
                (how(kind) == OPENMP_DEPEND_ALONE) == alone)
                openmp_depends(task->value & IDENTITY, list[i].variable.ptr, how(kind));
        }
}
/* The thread goes from one task to another. A task that waits for others stays below them, so going back to it when one of
 * them is over is no event. An untied task runs in parts: at the end of one it is switched to what was below, and for the
 * next it is switched to, perhaps on another thread. */
static void task_schedule(ompt_data *prior, int status, ompt_data *next) {
    struct openmp_thread *self = &openmp_self;
    uint64_t was = prior ? prior->value : 0, now;
    int is_switch = status == OMPT_TASK_SWITCH,
        starts = next && (next->value & (IS_EXPLICIT | WAS_STARTED)) == IS_EXPLICIT;
    int is_over = status == OMPT_TASK_COMPLETE || status == OMPT_TASK_CANCEL || status == OMPT_TASK_DETACH;
    if ((was & WAS_STARTED) && is_over) {
        openmp_emit2(0, KASURI_EV_TASK_END, was & IDENTITY, 0, kasuri__stamp());
        /* One that waits for an event is complete a second time. */
        prior->value = 0;
    }
    if (is_switch && (was & (WAS_STARTED | IS_UNTIED)) == (WAS_STARTED | IS_UNTIED) && prior != next && !starts)
        openmp_emit2(0, KASURI_EV_TASK_SUSPEND, was & IDENTITY, 0, kasuri__stamp());
    self->task = identity(next);
    if (!self->task)
        return;
    now = kasuri__stamp();
    if (starts)
        openmp_emit2(0, KASURI_EV_TASK_START, self->task, 0, now);
    else if (is_switch && next->value & IS_UNTIED)
        openmp_emit2(0, KASURI_EV_TASK_RESUME, self->task, 0, now);
    next->value |= WAS_STARTED;
}

static void target(int kind, int endpoint, int device, ompt_data *task, uint64_t id, const void *place) {
    (void)kind, (void)device, (void)task, (void)id;
    if (!is_on())
        return;
    if (endpoint == OMPT_SCOPE_BEGIN)
        openmp_begin(openmp_place(place_of(place), OPENMP_TARGET));
    else
        openmp_end();
}
static void cancel(ompt_data *task, int flags, const void *place) {
    (void)task, (void)flags;
    if (is_on())
        openmp_emit1(openmp_place(place_of(place), OPENMP_CANCEL), KASURI_EV_INSTANT, kasuri__stamp());
}

/* -- the tool -- */

static int initialize(ompt_lookup *lookup, int device, ompt_data *data) {
    typedef int set_callback(int event, ompt_any *callback);
    set_callback *set = (set_callback *)lookup("ompt_set_callback");
    (void)device, (void)data;
    if (!set)
        return 0;
    libomp.from = (uintptr_t)set;
    dl_iterate_phdr(openmp_find_code, &libomp);
#define CALL(event, function) set(event, (ompt_any *)(function))
    CALL(OMPT_PARALLEL_BEGIN, parallel_begin);
    CALL(OMPT_PARALLEL_END, parallel_end);
    CALL(OMPT_IMPLICIT_TASK, implicit_task);
    CALL(OMPT_WORK, work);
    CALL(OMPT_SYNC_REGION_WAIT, sync_wait);
    CALL(OMPT_LOCK_INIT, lock_init);
    CALL(OMPT_MUTEX_ACQUIRE, mutex_acquire);
    CALL(OMPT_MUTEX_ACQUIRED, mutex_acquired);
    CALL(OMPT_MUTEX_RELEASED, mutex_released);
    CALL(OMPT_NEST_LOCK, nest_lock);
    CALL(OMPT_TASK_CREATE, task_create);
    CALL(OMPT_DEPENDENCES, dependences);
    CALL(OMPT_TASK_SCHEDULE, task_schedule);
    CALL(OMPT_TARGET, target);
    CALL(OMPT_CANCEL, cancel);
    return 1;
}
static void finalize(ompt_data *data) {
    (void)data;
}

/* Null where nothing is to be recorded: the runtime then looks for other tools, and calls none. Without a session, or with one whose
 * directory its recorder has removed, there is no recorder to come: the client takes its name from the environment alone. A tool cannot
 * leave later, when the recorder has: a thread that has seen a callback's bit calls it, and OMPT has no order between the two. Nor would
 * that help: libomp 14 takes its 20 ns a region for a tool without callbacks as well (bench/openmp/idle). */
ompt_tool *ompt_start_tool(unsigned version, const char *runtime) {
    static ompt_tool ours = {initialize, finalize, {0}};
    const char *session = getenv("KASURI_SESSION");
    (void)version, (void)runtime;
    return getenv("KASURI_OPENMP") && session && *session && access(session, F_OK) == 0 ? &ours : 0;
}
