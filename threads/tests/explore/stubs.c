/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What stands in for the parts of libito that are not explored: the operating system, memory, blocking. Not
 * instrumented, so nothing in here is a point to switch at, but for the explorer's own operations.
 */
#include "programs.h"

struct ito__pool ito__pool;
struct worker *workers;
static struct ito_thread *threads;

size_t ito__stack_default;
static const struct ito__listener listener;

void pool_start(unsigned n_workers, bool membarrier) {
    explore_region(&ito__pool, sizeof ito__pool);
    workers = explore_alloc(n_workers * sizeof *workers);
    threads = explore_alloc(n_workers * sizeof *threads);
    ito__pool.workers = workers;
    ito__pool.n_workers = n_workers;
    ito__pool.membarrier = membarrier;
    ito__pool.parked = explore_alloc(EXPLORE_THREADS * sizeof *ito__pool.parked);
    explore_constant(&ito__pool.workers);
    explore_constant(&ito__pool.n_workers);
    explore_constant(&ito__pool.membarrier);
    explore_constant(&ito__pool.parked);
    explore_constant(&ito__pool.stopping);
    explore_constant(&ito__pool.spin_ns);
    explore_constant(&ito__pool.hierarchy);
    explore_constant(&ito__pool.stall);
    explore_constant(&ito__pool.io_waiting);
    explore_constant(&ito__pool.home_wanted);
    explore_constant(&ito__pool.barrier_ns); /* the time stands still */
    explore_constant(&ito__tracing);
    ito__listener = &listener;
    explore_constant(&ito__listener);
    explore_constant(&ito__above);
    explore_constant(&ito__seeing_locks);
    for (unsigned i = 0; i < n_workers; i++) {
        struct ito_thread *t = &threads[i];
        t->state = ITO__SHARED;
        t->flags = ITO__ROOT | ITO__OWN_STACK;
        t->bind = -1;
        t->stack = explore_alloc(sizeof *t->stack);
        t->stack->fork_low = NULL; /* never low */
        workers[i].index = i;
        workers[i].rng = i + 1;
        workers[i].hot.current = t;
        if (!ito__deque_start(&workers[i]))
            explore_fail("no deque");
        explore_constant(&t->flags);
        explore_constant(&t->bind);
        explore_constant(&t->stack);
        explore_constant(&t->stack->fork_low);
        explore_constant(&workers[i].node);
        explore_constant(&workers[i].index);
        explore_constant(&workers[i].hot.current);
    }
}

/* ---- who runs here ----------------------------------------------------------------------------------------------- */

struct ito__worker *ito__here_slow(void) {
    return &workers[explore_thread()].hot;
}
struct ito__worker *ito__worker(void) {
    return ito__here_slow();
}
struct ito_thread *ito__self(void) {
    return &threads[explore_thread()];
}
unsigned ito_n_workers(void) {
    return 1; /* so that a mutex does not spin, which would be the same schedules over again */
}

unsigned ito_worker_index(void) {
    return explore_thread();
}

/* ---- the operating system ---------------------------------------------------------------------------------------- */

size_t ito__prim_page(void) {
    return 4 * sizeof(struct ito__slot);
}
void *ito__prim_map(size_t bytes) {
    return explore_alloc(bytes);
}
void ito__prim_unmap(void *at, size_t bytes) {
    explore_free(at, bytes);
}
uint64_t ito__prim_now(void) {
    return 0;
}
void ito__prim_yield(void) {}
void ito__prim_wait_briefly(uint32_t *word, uint32_t value) {
    ito__prim_wait(word, value, UINT64_MAX);
}
void ito__prim_wait(uint32_t *word, uint32_t value, uint64_t ns) {
    (void)ns;
    explore_wait(word, value);
}
void ito__prim_wake(uint32_t *word, int n) {
    explore_wake(word, n);
}
/* Each other CPU runs a full barrier, at a moment of its own. */
bool ito__prim_membarrier(void) {
    for (unsigned t = 0; t < ito__pool.n_workers; t++)
        if (t != explore_thread())
            explore_fence_on(t);
    return true;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Room for the few words of a first context below the descriptor; nobody ever runs on it. */
struct ito__stack *ito__stack_get(struct worker *w, size_t bytes) {
    (void)w, (void)bytes;
    return (struct ito__stack *)((char *)explore_alloc(256 + sizeof(struct ito__stack)) + 256);
}
void ito__stack_put(struct worker *w, struct ito__stack *stack) {
    (void)w, (void)stack;
}
struct ito_thread *ito__descriptor_get(struct worker *w) {
    (void)w;
    struct ito_thread *t = explore_alloc(sizeof *t);
    t->bind = -1;
    return t;
}
void ito__descriptor_put(struct worker *w, struct ito_thread *t) {
    (void)w;
    explore_free(t, sizeof *t);
}

/* ---- left out ---------------------------------------------------------------------------------------------------- */

void ito__keys_end(struct ito_thread *t) {
    (void)t;
}
/* A program may have timers of its own (sync_programs.c). */
__attribute__((weak)) void ito__timer_arm(struct ito__waiter *w, uint64_t deadline_ns) {
    (void)w, (void)deadline_ns;
}
__attribute__((weak)) void ito__timer_disarm(struct ito__waiter *w) {
    (void)w;
}
struct ito__stack *ito__stack_of_caller(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
    return NULL;
}
bool ito__stack_is_callers(const struct ito__stack *stack) {
    (void)stack;
    return false;
}
int ito_sleep_until(uint64_t deadline_ns) {
    (void)deadline_ns;
    explore_fail("slept");
}
int ito__timers_start(void) {
    return 0;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

void ito__fatal(const char *what, const struct ito_thread *t) {
    (void)t;
    explore_fail(what);
}
static void looked_for_a_stall(void) {
    explore_fail("looked for a stall");
}

/* No I/O, and no carriers but those that the workers start with. */
static unsigned io_poll(struct worker *w, bool now) {
    (void)w, (void)now;
    return 0;
}
static bool io_is_due(void) {
    return false;
}
static int io_wait(struct worker *w, uint64_t wait_ns) {
    (void)w, (void)wait_ns;
    return -1;
}
static void io_deliver(struct worker *w, int n_events) {
    (void)w, (void)n_events;
}
static void io_interrupt(void) {}
static const struct ito__above above = {
    .promote = ito__promote,
    .io_poll = io_poll,
    .io_is_due = io_is_due,
    .io_wait = io_wait,
    .io_deliver = io_deliver,
    .io_interrupt = io_interrupt,
    .all_parked = looked_for_a_stall,
};
const struct ito__above *ito__above = &above;

/* Nobody listens, and yet a task was folded. */
static void look(void) {}
static void unfold(struct ito__fork *fork, uint64_t folded_in) {
    (void)fork, (void)folded_in;
}
static const struct ito__listener listener = {.look = look, .unfold = unfold};

bool ito__carrier_go_home(struct ito__carrier *c, struct worker *w) {
    (void)c, (void)w;
    return false;
}
struct ito_thread *ito__forked(void) {
    return NULL;
}

/* -fsanitize=thread makes hooks.h tell ThreadSanitizer of switches, of which there are none here. */
void *ito__fiber_of(struct ito_thread *t);
void ito__fiber_left(void);
void ito__hook_end(struct ito_thread *t);
void *ito__fiber_of(struct ito_thread *t) {
    (void)t;
    return NULL;
}
void ito__fiber_left(void) {}
void ito__hook_end(struct ito_thread *t) {
    (void)t;
}
