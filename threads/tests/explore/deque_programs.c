/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The deque and forked tasks (deque.c, thread.c, ito/fork.h), the ready queue (queue.c) and parking (park.c,
 * schedule.c): the scripts of models/deque and models/park, run on the C.
 */
#include "programs.h"

/* ---- forked tasks against thieves -------------------------------------------------------------------------------- */

struct task {
    struct ito__fork fork;
    uint8_t number;
    int result; /* plain: who reads it without being ordered after the task is a race */
};

static void run(struct ito__fork *fork) {
    struct task *task = (struct task *)fork;
    ++*explore_book(task->number);
    task->result = 100 + task->number;
}
static void fork_task(struct task *task, uint8_t number) {
    task->number = number;
    task->result = 0;
    ito__fork_push(&task->fork, run, "task");
}
static void sync_task(struct task *task) {
    if (ito__fork_take(&task->fork))
        run(&task->fork);
    if (task->result != 100 + task->number)
        explore_fail("a sync returned without the task's result");
}

static void thief(bool force, unsigned attempts) {
    struct worker *me = &workers[explore_thread()], *victim = &workers[0];
    for (unsigned i = 0; i < attempts; i++) {
        struct ito__slot slot;
        struct ito__next next;
        if (ito__deque_steal(victim, force, &slot) == ITO__STEAL_WON) {
            if (!(slot.thread & 1) || slot.thread == 1)
                explore_fail("a slot was stolen that holds no task");
            if (!ito__take_slot(me, &slot, &next))
                explore_fail("no memory");
            next.thread->fn(next.thread->arg);
        } else if (!force) {
            ito__ask(victim, ITO__ASK_WORK);
        }
    }
}

static unsigned n_tasks; /* of the script */

static const char *each_ran_once(void) {
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if (t < ito__pool.n_workers && !explore_is_done(t))
            return "a thread waits for ever";
    for (unsigned i = 0; i < n_tasks; i++)
        if (*explore_book(i) != 1)
            return *explore_book(i) ? "a task ran twice" : "a task was lost";
    return NULL;
}

static void deque_start(unsigned tasks) {
    n_tasks = tasks;
    pool_start(2, true);
    EXPLORE_FIELD(workers[0].hot.bottom);
    EXPLORE_FIELD(workers[0].hot.limit);
    EXPLORE_FIELD(workers[0].hot.end);
    EXPLORE_FIELD(workers[0].hot.ask);
    EXPLORE_FIELD(workers[0].top);
    EXPLORE_FIELD(workers[0].split);
    EXPLORE_FIELD(workers[0].lock.word);
}
static void start_last(void) {
    deque_start(2);
}
static void start_two(void) {
    deque_start(2);
}
static void start_grow(void) {
    deque_start(3);
}

/* The last item, again and again: owner and thief want the same one. */
static void owner_last(void) {
    for (uint8_t i = 0; i < 2; i++) {
        struct task a;
        fork_task(&a, i);
        sync_task(&a);
    }
}
static void owner_two(void) {
    struct task a, b;
    fork_task(&a, 0);
    fork_task(&b, 1);
    sync_task(&b);
    sync_task(&a);
}
/* The first array has room for two. */
static void owner_grow(void) {
    struct task a, b, c;
    fork_task(&a, 0);
    fork_task(&b, 1);
    fork_task(&c, 2);
    sync_task(&c);
    sync_task(&b);
    sync_task(&a);
}
static void last_forced(unsigned t) {
    t == 0 ? owner_last() : thief(true, 1);
}
static void last_asked(unsigned t) {
    t == 0 ? owner_last() : thief(false, 2);
}
static void two_forced(unsigned t) {
    t == 0 ? owner_two() : thief(true, 1);
}
static void two_asked(unsigned t) {
    t == 0 ? owner_two() : thief(false, 2);
}
static void grow_forced(unsigned t) {
    t == 0 ? owner_grow() : thief(true, 1);
}

/* A recorder listens, and tasks are folded: each fork is the counting push of ito__fork_slow(). Between fork and sync the
 * owner makes the oldest that is left one of its own, whose sync is the slow one. */
static void start_fold(void) {
    deque_start(2);
    workers[0].hot.ask = ITO__ASK_TRACE;
    workers[0].hot.end = NULL;
    workers[0].fold.run = run;
    workers[0].fold.left = 9;
    workers[0].fold.task = 1;
}
static void owner_fold(void) {
    for (uint8_t i = 0; i < 2; i++) {
        struct task a;
        fork_task(&a, i);
        ito__deque_unfold(&workers[0]);
        sync_task(&a);
    }
    if (workers[0].fold.left != 7)
        explore_fail("a fork was not counted");
}
static void fold_forced(unsigned t) {
    t == 0 ? owner_fold() : thief(true, 1);
}

/* ---- the ready queue: its owner, and a thief that freezes it out ------------------------------------------------- */

static struct ito_thread *items;

static void ready_start(void) {
    pool_start(2, true);
    items = explore_alloc(2 * sizeof *items);
    for (int i = 0; i < 2; i++)
        items[i].bind = -1;
    EXPLORE_FIELD(workers[0].rq_busy);
    EXPLORE_FIELD(workers[0].rq_frozen);
    EXPLORE_FIELD(workers[0].rq_lock.word);
    EXPLORE_FIELD(workers[0].rq.n);
    EXPLORE_FIELD(workers[0].shared.n);
    explore_constant(&workers[0].urgent.n);
    explore_constant(&workers[1].urgent.n);
}
static void take_item(struct ito_thread *t) {
    if (t)
        ++*explore_book((unsigned)(t - items));
}
static void ready_thread(unsigned t) {
    if (t == 0) {
        ito__ready_push(&workers[0], &items[0]);
        ito__ready_push(&workers[0], &items[1]);
        take_item(ito__ready_pop(&workers[0]));
        take_item(ito__ready_pop(&workers[0]));
    } else {
        take_item(ito__ready_steal(&workers[1], &workers[0], true));
        take_item(ito__ready_steal(&workers[1], &workers[0], true));
        take_item(ito__ready_pop(&workers[1]));
    }
}
static const char *ready_end(void) {
    if (!explore_is_done(0) || !explore_is_done(1))
        return "a thread waits for ever";
    size_t left = workers[0].rq.n + workers[0].shared.n + workers[1].rq.n;
    unsigned taken = *explore_book(0) + *explore_book(1);
    if (*explore_book(0) > 1 || *explore_book(1) > 1)
        return "an item was taken twice";
    return taken + left != 2 ? "an item was lost" : NULL;
}

/* ---- parking ----------------------------------------------------------------------------------------------------- */

/* Thread 0 makes work, answers if it was asked, and never looks again: a long task. The others search and park. */
static void park_busy(unsigned pieces) {
    static struct task tasks[2]; /* registered below */
    struct task *task = tasks;
    for (uint8_t i = 0; i < pieces; i++)
        fork_task(&task[i], i);
    if (load_relaxed(&workers[0].hot.ask) & ITO__ASK_WORK)
        ito__answer(&workers[0]);
}
/* Times that a worker searches: it may find the deque locked as often as it looks. */
#define PARK_ROUNDS 1
static void park_search(void) {
    struct worker *me = &workers[explore_thread()];
    struct ito__next next;
    ito__search_begin();
    for (unsigned round = 0; round < PARK_ROUNDS; round++) {
        struct ito__slot slot;
        bool found = ito__deque_steal(&workers[0], false, &slot) == ITO__STEAL_WON ||
                     ito__deque_steal(&workers[0], true, &slot) == ITO__STEAL_WON;
        if (found) {
            ito__search_end(me);
            if (!ito__take_slot(me, &slot, &next))
                explore_fail("no memory");
            next.thread->fn(next.thread->arg);
            return; /* a long task */
        }
        ito__park(me);
    }
    explore_cut();
}
static void park_1(unsigned t) {
    t == 0 ? park_busy(1) : park_search();
}
static void park_start(unsigned parkers, bool membarrier) {
    pool_start(1 + parkers, membarrier);
    EXPLORE_FIELD(workers[0].hot.bottom);
    EXPLORE_FIELD(workers[0].hot.limit);
    EXPLORE_FIELD(workers[0].hot.end);
    EXPLORE_FIELD(workers[0].hot.ask);
    EXPLORE_FIELD(workers[0].top);
    EXPLORE_FIELD(workers[0].split);
    EXPLORE_FIELD(workers[0].lock.word);
    EXPLORE_FIELD(ito__pool.n_searching);
    EXPLORE_FIELD(ito__pool.n_parked);
    EXPLORE_FIELD(ito__pool.park_lock.word);
    EXPLORE_FIELD(workers[1].parked);
    for (unsigned i = 0; i <= parkers; i++) {
        explore_constant(&workers[i].inbox.n);
        explore_constant(&workers[i].shared.n);
        explore_constant(&workers[i].rq.n);
        explore_constant(&workers[i].urgent.n);
    }
    explore_constant(&ito__pool.inject.n);
}
static void park_start_1(void) {
    park_start(1, true);
}
static const char *park_end(void) {
    return *explore_book(0) == 0 ? "work waits while a worker sleeps" : NULL;
}

/* A worker that searches, in its own inbox or where others put threads for anybody. */
static void take_or_park(struct worker *me, bool own) {
    for (unsigned round = 0; round < PARK_ROUNDS; round++) {
        struct ito_thread *found = own ? ito__inbox_pop(me) : ito__inject_pop();
        if (found) {
            take_item(found);
            ito__search_end(me);
            return;
        }
        ito__park(me);
    }
    explore_cut();
}

/*
 * A kernel thread that is no worker makes a thread ready. Without membarrier, so that the fences of ito__notify() and
 * ito__park() are all there is; the parker's time limit, which would find the thread a millisecond later, is ignored.
 */
static void inject_start(void) {
    pool_start(1, false);
    items = explore_alloc(sizeof *items);
    EXPLORE_FIELD(ito__pool.n_searching);
    EXPLORE_FIELD(ito__pool.n_parked);
    EXPLORE_FIELD(ito__pool.n_outside);
    EXPLORE_FIELD(ito__pool.inject.n);
    EXPLORE_FIELD(ito__pool.inject_lock.word);
    EXPLORE_FIELD(ito__pool.park_lock.word);
    EXPLORE_FIELD(workers[0].parked);
    explore_constant(&workers[0].inbox.n);
}
static void inject_thread(unsigned t) {
    if (t == 1) {
        ito__inject(&items[0]);
        return;
    }
    ito__search_begin();
    take_or_park(&workers[0], false);
}

/* The thread that was made ready so is the last and ends at once: the pool is taken apart, as in ito_fini(), when the
 * kernel thread has looked at it for the last time. */
static void outside_thread(unsigned t) {
    if (t == 1) {
        ito__inject(&items[0]);
    } else if (ito__inject_pop()) {
        while (load_acquire(&ito__pool.n_outside) != 0) {
        }
        explore_free(&ito__pool.n_parked, sizeof ito__pool.n_parked);
    }
}
static const char *outside_end(void) {
    return explore_is_done(0) && explore_is_done(1) ? NULL : "a thread waits for ever";
}

/*
 * Worker 0 parks while worker 1 searches, so that it does not look once more itself; worker 1 puts a thread into the inbox of worker 0,
 * which no other may take.
 */
static void inbox_start(void) {
    pool_start(2, false);
    items = explore_alloc(sizeof *items);
    ito__pool.n_searching = 2;
    EXPLORE_FIELD(ito__pool.n_searching);
    EXPLORE_FIELD(ito__pool.n_parked);
    EXPLORE_FIELD(ito__pool.park_lock.word);
    EXPLORE_FIELD(workers[0].inbox.n);
    EXPLORE_FIELD(workers[0].inbox_lock.word);
    EXPLORE_FIELD(workers[0].parked);
}
static void inbox_thread(unsigned t) {
    if (t == 1) {
        ito__inbox_push(&workers[0], &items[0]);
        return;
    }
    take_or_park(&workers[0], true);
}

/*
 * Two workers search. Thread 0 has found something; before it stops it makes a thread ready, which wakes nobody, as
 * somebody searches. Thread 1 finds nothing, and parks. Whoever brings the count to 0 has to see to it that the thread
 * runs: thread 0 by sending a successor, thread 1 by looking once more.
 */
static void last_searcher_start(void) {
    pool_start(2, false);
    items = explore_alloc(sizeof *items);
    ito__pool.n_searching = 2;
    EXPLORE_FIELD(ito__pool.n_searching);
    EXPLORE_FIELD(ito__pool.n_parked);
    EXPLORE_FIELD(ito__pool.inject.n);
    EXPLORE_FIELD(ito__pool.inject_lock.word);
    EXPLORE_FIELD(ito__pool.park_lock.word);
    EXPLORE_FIELD(ito__pool.n_outside);
    EXPLORE_FIELD(workers[0].hot.ask);
    EXPLORE_FIELD(workers[0].hot.end);
    EXPLORE_FIELD(workers[1].parked);
    for (unsigned i = 0; i < 2; i++) {
        explore_constant(&workers[i].inbox.n);
        explore_constant(&workers[i].shared.n);
        explore_constant(&workers[i].rq.n);
        explore_constant(&workers[i].urgent.n);
        explore_constant(&workers[i].top);
        explore_constant(&workers[i].split);
    }
}
static void last_searcher_thread(unsigned t) {
    if (t == 0) {
        ito__inject(&items[0]);
        ito__search_end(&workers[0]);
        return;
    }
    take_or_park(&workers[1], false);
}

/*
 * Thread 0 is a worker, alone: worker 1 is parked. It has found something, and stops searching for a long task. `alone`: thread 1, which is
 * no worker, makes a thread ready meanwhile. `alone_makes`: thread 0 does. It may not wait while worker 1 sleeps.
 */
static void alone_start(void) {
    pool_start(2, false);
    items = explore_alloc(sizeof *items);
    items->bind = -1;
    ito__pool.n_searching = 1;
    ito__pool.n_parked = 1;
    ito__pool.parked[0] = 1;
    workers[1].parked = 1;
    EXPLORE_FIELD(ito__pool.n_searching);
    EXPLORE_FIELD(ito__pool.n_parked);
    EXPLORE_FIELD(ito__pool.n_outside);
    EXPLORE_FIELD(ito__pool.inject.n);
    EXPLORE_FIELD(ito__pool.inject_lock.word);
    EXPLORE_FIELD(ito__pool.park_lock.word);
    EXPLORE_FIELD(workers[0].hot.ask);
    EXPLORE_FIELD(workers[0].hot.end);
    EXPLORE_FIELD(workers[1].parked);
}
static void alone_thread(unsigned t) {
    t == 0 ? ito__search_end(&workers[0]) : ito__inject(&items[0]);
}
static void alone_makes_thread(unsigned t) {
    if (t == 1)
        return;
    ito__search_end(&workers[0]);
    ito__ready_push(&workers[0], &items[0]);
    if (load_relaxed(&workers[0].hot.ask) & ITO__ASK_WORK)
        ito__answer(&workers[0]);
}
/* `alone_io`: a thread waits for I/O. Somebody has to sleep in epoll while worker 0 is at its task. */
static void alone_io_start(void) {
    alone_start();
    ito__pool.io_waiting = 1;
}
static void alone_io_thread(unsigned t) {
    if (t == 0)
        ito__search_end(&workers[0]);
}
static const char *alone_io_end(void) {
    return workers[1].parked ? "nobody looks after I/O" : NULL;
}
static const char *alone_end(void) {
    return workers[1].parked ? "work waits while a worker sleeps" : NULL;
}

const struct explore_program explore_programs[] = {
    {"last_forced", 2, start_last, last_forced, each_ran_once},
    {"last_asked", 2, start_last, last_asked, each_ran_once},
    {"two_forced", 2, start_two, two_forced, each_ran_once},
    {"two_asked", 2, start_two, two_asked, each_ran_once},
    {"grow_forced", 2, start_grow, grow_forced, each_ran_once},
    {"fold_forced", 2, start_fold, fold_forced, each_ran_once},
    {"ready_queue", 2, ready_start, ready_thread, ready_end},
    {"park", 2, park_start_1, park_1, park_end},
    {"inject", 2, inject_start, inject_thread, park_end},
    {"outside", 2, inject_start, outside_thread, outside_end},
    {"inbox", 2, inbox_start, inbox_thread, park_end},
    {"last_searcher", 2, last_searcher_start, last_searcher_thread, park_end},
    {"alone", 2, alone_start, alone_thread, alone_end},
    {"alone_makes", 2, alone_start, alone_makes_thread, alone_end},
    {"alone_io", 2, alone_io_start, alone_io_thread, alone_io_end},
    {0},
};
