/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Start and stop of the pool.
 *
 *   ito_init   the calling kernel thread becomes worker 0 and its code the root thread; the other workers start
 *   ito_fini   the root thread moves to worker 0, waits until all workers are parked and no thread is left, sets
 *              `stopping`, wakes and joins the workers, waits for kernel threads that still look at the pool
 *              (n_outside), and gives the memory back
 *
 * The pool's configuration is written before pthread_create, which publishes it to the workers, and is constant until
 * they were joined. There is one pool per process; after ito_fini it may be started again.
 *
 * A worker is a kernel thread with a scheduler context of its own (`sched`), on which it looks for work when it has
 * none (schedule.c). A worker other than 0 has that context on the stack that pthread_create gave it. Worker 0's kernel
 * thread runs the root thread on the program's stack, so its scheduler context gets a stack of ito's.
 *
 * Environment, where the configuration has 0: ITO_WORKERS (default: ito__prim_n_cpus()), ITO_STACK (65536). ITO_GUARD:
 * bytes of each stack's guard (stack.c has the default). ITO_FOLD: fold.c. ITO_STALL: stall.c. ITO_STATS: counts.c. One that is wrong is told on stderr.
 */
#include "base/counts.h"
#include "core/internal.h"
#include "core/wait.h"

#include <string.h>

/* What the environment may say. A stack has four pages at least (stack.c); more than a quarter of the address space is
 * a mistake. */
#define MOST_WORKERS 4096u
#define MOST_BYTES (sizeof(void *) == 8 ? (size_t)1 << 45 : (size_t)1 << 30)
static const struct ito__variable env_workers = {"ITO_WORKERS", false, 1, MOST_WORKERS};
static const struct ito__variable env_stack = {"ITO_STACK", true, 16384, MOST_BYTES};
static const struct ito__variable env_guard = {"ITO_GUARD", true, 4096, MOST_BYTES};
static const struct ito__variable env_stall = {"ITO_STALL", false, ITO__STALL_QUIET, ITO__STALL_ABORT};
static const struct ito__variable env_fold = {"ITO_FOLD", false, 0, 1};
static const struct ito__variable env_stats = {"ITO_STATS", false, 0, 1};

/* The kernel thread of each worker but worker 0, which is the caller of ito_init. ito__schedule() returns here when the
 * pool stops. */
static void *worker_main(void *arg) {
    struct worker *w = arg;
    ito__prim_name_thread(w->index);
    if (ito__pool.pin)
        ito__prim_pin(w->index);
    ito__settle(&w->own, w, &w->sched);
    ITO__TRACE_WORKER(w->index);
    ito__overflow_worker_start();
    ito__carrier_run(&w->own);
    ito__overflow_worker_stop();
    return NULL;
}

/* Worker 0's own context; it is left for good when the root thread stops the pool. */
static void worker_0_sched(void) {
    ITO__HOOK_ENTER(&ito__pool.workers[0].sched);
    for (;;)
        ito__carrier_run(&ito__pool.workers[0].own);
}

/* Set a worker up. No worker runs yet, so all stores are plain; pthread_create publishes them. Each worker gets its own
 * random numbers (victims of steals) from the pool's seed; the generator's state must not be 0. False: no memory. */
static bool prepare(struct worker *w, uint32_t index) {
    w->index = index;
    w->hot.pool = &ito__pool;
    w->rng = ito__pool.seed * 0x9e3779b97f4a7c15u + (index + 1) * 0xbf58476d1ce4e5b9u;
    if (w->rng == 0)
        w->rng = 1;
    w->node = ito__prim_node_of(index);
    w->sched.flags = ITO__SCHED | ITO__OWN_STACK;
    w->sched.state = ITO__DETACHED;
    w->sched.bind = -1;
    w->sched.name = "scheduler";
    w->own.worker = w;
    w->own.home = w->sched;
    w->carrier = &w->own;
    w->hot.ask = 0;
    w->yields_left = 1;
    return ito__deque_start(w);
}

/* Give back all memory of the pool, after all workers were joined or before one was started: no other thread looks at
 * the pool. The zeroed pool is that of a process that has not called ito_init. */
static void dismantle(uint32_t n_prepared) {
    ito__overflow_worker_stop();
    ito__overflow_stop();
    for (uint32_t i = 0; i < n_prepared; i++)
        ito__deque_stop(&ito__pool.workers[i]);
    if (ito__pool.workers)
        ito__prim_unmap(ito__pool.workers, ito__pool.workers_bytes);
    ito__stack_stop();
    ito__descriptor_stop();
    ito__above->io_stop();
    ito__set_here(NULL);
    memset(&ito__pool, 0, sizeof ito__pool);
}

/* Stop and join all workers but the caller, worker 0. Each leaves ito__schedule() at its next look at `stopping`. */
static void stop_workers(void) {
    ito__watch_stop();
    /* ORDER release; pairs with the acquire load in ito__schedule(). ito__wake_worker() then orders it before its look
     * at `parked`, so a worker that is about to park sees it at its last look. */
    store_release(&ito__pool.stopping, 1);
    for (uint32_t i = 1; i < ito__pool.n_workers; i++)
        if (ito__pool.workers[i].started)
            ito__wake_worker(&ito__pool.workers[i]);
    ito__carriers_stop();
}

/* The caller of ito_init becomes a thread like others, on the stack that it has. Its state is SHARED from the start: it
 * has no creator that could wait below it in a deque. `fork_low`: below it, forked tasks no longer run as plain calls
 * on this stack but get stacks of their own; not known (null) where the system does not tell the stack's lower end. */
static void root_thread(void) {
    struct ito_thread *root = &ito__pool.root;
    struct ito__stack *stack = &ito__pool.root_stack;
    stack->low = ito__prim_stack_low();
    stack->fork_low = stack->low ? stack->low + 4 * ITO__FORK_RESERVE : NULL;
    root->flags = ITO__ROOT | ITO__OWN_STACK;
    root->state = ITO__SHARED;
    root->stack = stack;
    root->bind = -1;
    root->name = "root";
    ITO__HOOK_WORKER(root);
}

/* Start `n` workers. All allocations come before the first worker is started, so a failure has little to undo. One
 * mapping holds the workers and, behind them, the list of parked ones (`parked`, n numbers). */
static int start(uint32_t n) {
    size_t page = ito__prim_page();
    size_t bytes = n * sizeof(struct worker);
    ito__pool.workers_bytes = (bytes + n * sizeof(uint32_t) + page - 1) / page * page;
    ito__pool.workers = ito__prim_map(ito__pool.workers_bytes);
    if (ito__pool.workers == NULL) {
        dismantle(0);
        return ENOMEM;
    }
    ito__pool.parked = (uint32_t *)((char *)ito__pool.workers + bytes);
    for (uint32_t i = 0; i < n; i++) {
        if (!prepare(&ito__pool.workers[i], i)) {
            dismantle(i);
            return ENOMEM;
        }
        ito__pool.hierarchy |= ito__pool.workers[i].node != ito__pool.workers[0].node;
    }
    struct worker *w = &ito__pool.workers[0];
    w->sched_stack = ito__stack_get(w, 0);
    if (w->sched_stack == NULL) {
        dismantle(n);
        return ENOMEM;
    }
    w->sched.stack = w->own.stack = w->own.home.stack = w->sched_stack;
    w->sched.sp = ito__context_make(w->sched_stack, worker_0_sched);
    root_thread();
    ito__pool.n_workers = n;
    ito__settle(&w->own, w, &ito__pool.root);
    ito__overflow_start();
    ito__overflow_worker_start();
    ito__trace_forget();
    ito__trace_poll();
    ITO__TRACE_START(&ito__pool.root);
    for (uint32_t i = 1; i < n; i++) {
        int error = pthread_create(&ito__pool.workers[i].own.kernel_thread, NULL, worker_main, &ito__pool.workers[i]);
        if (error) {
            stop_workers();
            dismantle(n);
            return error;
        }
        ito__pool.workers[i].started = 1;
    }
    if (ito__pool.pin)
        ito__prim_pin(0);
    return 0;
}

/*
 * Runs in the child of fork(2), which has the caller's kernel thread alone: the pool is as before ito_init, and the
 * caller a kernel thread that is no worker, on whatever stack it runs. It goes on with what it has, its locks and keys,
 * gets EPERM from ito_create, and may call ito_init. Nothing that others may have been changing is looked at: their
 * stacks, deques and descriptors stay where they are, untouched.
 */
static void forked(void) {
    if (ito__pool.n_workers == 0)
        return;
    ito__leave_worker();
    struct ito_thread root = ito__pool.root;
    struct ito__stack root_stack = ito__pool.root_stack;
    memset(&ito__pool, 0, sizeof ito__pool);
    if (ito__forked() == &ito__pool.root) {
        ito__pool.root = root;
        ito__pool.root_stack = root_stack;
    }
    ito__stack_forget();
    ito__descriptor_forget();
    ito__trace_forget();
    ito__counts_start(false);
    ito__n_foreign_waits = 0;
    ITO__FORK_EPOCH();
}

/* Checks the configuration and fills in the defaults; start() does the rest. */
int ito__start(const ito_config *config) {
    ito_config c = ITO_CONFIG_INIT;
    if (config) {
        if (config->struct_size != sizeof c || config->flags & ~(ITO_CONFIG_PIN | ITO_CONFIG_NO_MEMBARRIER))
            return EINVAL;
        c = *config;
    }
    static bool forks_known;
    if (ito__pool.n_workers != 0)
        return EBUSY;
    if (!forks_known && pthread_atfork(NULL, NULL, forked) != 0)
        return ENOMEM;
    forks_known = true;
    ito__pool.n_cpus = ito__prim_n_cpus();
    size_t n = ito__pool.n_cpus < MOST_WORKERS ? ito__pool.n_cpus : MOST_WORKERS, stack = 65536, guard = 0, fold = 1;
    size_t stall = ITO__STALL_TELL, stats = 0;
    if ((c.n_workers == 0 && !ito__env(&env_workers, &n)) || (c.stack_bytes == 0 && !ito__env(&env_stack, &stack)) ||
        !ito__env(&env_guard, &guard) || !ito__env(&env_fold, &fold) || !ito__env(&env_stall, &stall) ||
        !ito__env(&env_stats, &stats))
        return EINVAL;
    n = c.n_workers ? c.n_workers : n;
    if (n > MOST_WORKERS)
        return EINVAL;
    ito__pool.spin_ns = 1000u * (uint64_t)(c.spin_us ? c.spin_us : 20);
    ito__pool.stall = (uint32_t)stall;
    ito__counts_start(stats);
    ito__pool.pin = c.flags & ITO_CONFIG_PIN;
    ito__pool.seed = c.seed ? c.seed : ito__prim_random();
    ito__pool.membarrier = !(c.flags & ITO_CONFIG_NO_MEMBARRIER) && ito__prim_membarrier_setup();
    ito__stack_start(c.stack_bytes ? c.stack_bytes : stack, guard);
    return start((uint32_t)n);
}

/* Called when the root thread is off its stack: worker 0 may continue it. */
static void go_to_worker_0(void *root) {
    ito__inbox_push(&ito__pool.workers[0], root);
}

/* Whether all other workers are parked and nothing is ready here. It yields first, so that threads of this worker
 * run, and looks for I/O.
 * Relaxed loads: ito_fini asks again. */
static bool quiet(struct worker *w) {
    ito_yield();
    if (load_relaxed(&ito__pool.io_waiting) > 0 && ito__above->io_poll(w, true) > 0)
        return false;
    return load_relaxed(&ito__pool.n_parked) == ito__pool.n_workers - 1 && load_relaxed(&ito__pool.n_searching) == 0 &&
           load_relaxed(&ito__pool.inject.n) == 0 && ito__calls_out() == 0 && !ready_waits(w) &&
           w->hot.bottom == w->base;
}

/*
 * The root thread ends the pool, on worker 0, whose kernel thread called ito_init. Descriptors that are not free belong
 * to threads that run, are ready, or are blocked. The first two kinds end if they are left to run; when all workers are
 * parked twice in a row and descriptors are still in use, their threads are blocked for good: EBUSY.
 */
int ito_fini(void) {
    struct ito_thread *root = ito__self();
    if (ito__pool.n_workers == 0 || !(root->flags & ITO__ROOT))
        return EPERM;
    root->bind = 0;
    struct worker *w = &ito__pool.workers[0];
    while (worker_of(ito__worker()) != w || w->carrier != &w->own) {
        store_relaxed(&ito__pool.home_wanted, 1); /* relaxed: the inbox comes after it */
        ito__block(go_to_worker_0, root);
    }
    store_relaxed(&ito__pool.home_wanted, 0);
    /* Detached threads may still run: let them. Workers that were just woken for nothing park again: look twice. */
    for (int times = 0; ito__descriptor_live() > 0 && times < 2;) {
        if (quiet(w))
            times++;
        else
            times = 0;
        ito__prim_yield();
    }
    if (ito__descriptor_live() > 0) {
        root->bind = -1;
        return EBUSY;
    }
    if (root->keys)
        ito__keys_end(root); /* it ends as a thread of ito; the kernel thread goes on */
    ito__counts_say(ito__carriers_started());
    stop_workers();
    /* ORDER acquire; pairs with the release in outside_end(): that kernel thread has looked at the pool for the last
     * time, and what follows takes the pool apart. */
    while (load_acquire(&ito__pool.n_outside) != 0)
        ito__prim_yield();
    ITO__TRACE_END(root);
    dismantle(ito__pool.n_workers);
    return 0;
}
