/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Locks that guard a plain counter: the lock of a few instructions (spin.c, spin.h), mutex, condition, read-write lock,
 * semaphore, once, future, the two ways to run a graph. What one thread did before it let another go on must be ordered
 * before what that one does.
 */
#include "programs.h"

#include "graph/graph.h"

static struct {
    struct ito__spin spin;
    ito_mutex mutex;
    ito_cond cond;
    ito_rwlock rwlock;
    ito_sem sem;
    ito_once once;
    ito_future future;
    struct ito__graph_count count;
    ito_graph *graph;
    ito_channel channels[2];
    unsigned items[2];
    ito_uncond unconds[2];
    struct ito_thread *ends;
    struct ito__waiter *armed; /* under its bit, as timer.c */
    uint32_t timers;
    unsigned cells[3];
    unsigned counter;
} * shared;

static unsigned rounds; /* of all threads */

static void start(unsigned threads, unsigned turns) {
    rounds = turns;
    pool_start(threads, true);
    shared = explore_alloc(sizeof *shared);
    explore_region(&shared, sizeof shared);
    explore_constant(&shared);
    for (unsigned t = 0; t < threads; t++) { /* nobody parks here, and so nobody asks */
        explore_constant(&ito__pool.workers[t].hot.ask);
        explore_constant(&ito__pool.workers[t].parked);
    }
    explore_constant(&shared->mutex.kind);
    EXPLORE_FIELD(shared->spin.word);
    EXPLORE_FIELD(shared->mutex.state);
    EXPLORE_FIELD(shared->mutex.waiters.head);
    EXPLORE_FIELD(shared->cond.word);
    EXPLORE_FIELD(shared->cond.waiters.head);
}

static const char *all_counted(void) {
    for (unsigned t = 0; t < ito__pool.n_workers; t++)
        if (!explore_is_done(t))
            return "a thread waits for ever";
    return shared->counter == rounds ? NULL : "a turn was lost";
}

static void spin_start(void) {
    start(2, 4);
}
static void spin_thread(unsigned t) {
    (void)t;
    for (int i = 0; i < 2; i++) {
        ito__spin_lock(&shared->spin);
        shared->counter++;
        ito__spin_unlock(&shared->spin);
    }
}

static void mutex_start(void) {
    start(2, 5);
}
/* Three turns and two: a waiter that is woken finds the mutex taken again, and is handed it the next time. */
static void mutex_thread(unsigned t) {
    for (unsigned i = t; i < 3; i++) {
        ito_mutex_lock(&shared->mutex);
        shared->counter++;
        ito_mutex_unlock(&shared->mutex);
    }
}

static void try_start(void) {
    start(2, 2);
}
static void try_thread(unsigned t) {
    if (t == 0)
        ito_mutex_lock(&shared->mutex);
    while (t == 1 && ito_mutex_trylock(&shared->mutex))
        ;
    shared->counter++;
    ito_mutex_unlock(&shared->mutex);
}

static void cond_start(void) {
    start(2, 1);
}
static void cond_thread(unsigned t) {
    ito_mutex_lock(&shared->mutex);
    if (t == 0) {
        while (shared->counter == 0)
            ito_cond_wait(&shared->cond, &shared->mutex);
    } else {
        shared->counter = 1;
        ito_cond_signal(&shared->cond);
    }
    ito_mutex_unlock(&shared->mutex);
}

/* A reader must see both of the writer's stores, or neither. */
static void rwlock_start(void) {
    start(2, 2);
    EXPLORE_FIELD(shared->rwlock.state);
    EXPLORE_FIELD(shared->rwlock.owner);
}
static void rwlock_thread(unsigned t) {
    for (unsigned i = t; i < 2; i++) {
        if (t == 0) {
            ito_rwlock_wrlock(&shared->rwlock);
            shared->counter++;
        } else {
            ito_rwlock_rdlock(&shared->rwlock);
            if (shared->counter > 2)
                explore_fail("a value that was never written");
        }
        ito_rwlock_unlock(&shared->rwlock);
    }
}

/* What the poster wrote is seen by the thread that takes the unit. */
static void sem_start(void) {
    start(2, 2);
    EXPLORE_FIELD(shared->sem.state);
}
static void sem_thread(unsigned t) {
    for (unsigned i = 0; i < 2; i++) {
        if (t == 0) {
            shared->counter += i == 0; /* the second unit publishes nothing new */
            ito_sem_post(&shared->sem);
        } else {
            ito_sem_wait(&shared->sem);
        }
    }
    if (t == 1)
        shared->counter++;
}

static int once_fn(void *arg) {
    (void)arg;
    shared->counter++;
    return (*explore_book(0))++ == 0 ? 1 : 0; /* fails the first time */
}
static void once_start(void) {
    start(2, 2);
    EXPLORE_FIELD(shared->once.state);
    EXPLORE_FIELD(shared->once.owner);
}
static void once_thread(unsigned t) {
    (void)t;
    while (ito_once_call(&shared->once, once_fn, NULL) != 0)
        ;
    if (shared->counter != 2)
        explore_fail("a call returned before the function was done");
}

static void future_start(void) {
    start(2, 1);
    EXPLORE_FIELD(shared->future.state);
}
static void future_thread(unsigned t) {
    void *value;
    if (t == 0) {
        shared->counter = 1;
        ito_future_set(&shared->future, &shared->counter);
    } else {
        ito_future_get(&shared->future, &value);
        if (value != &shared->counter || *(unsigned *)value != 1)
            explore_fail("a future without its value");
    }
}

/* Tasks 0 and 1, each in a thread of its own, and task 2 after both, in that which ends last; task 3 in thread 0 beside
 * them. Then thread 0 runs the graph once more by itself, and frees it: nobody touches it any more. */
#define ALONE (1u << 30) /* as deep as no thread gets another for its list */
static void graph_task(void *arg) {
    unsigned *cell = arg;
    if (cell == &shared->counter && shared->cells[0] != shared->cells[1])
        explore_fail("a task before what it waits for");
    (*cell)++;
}
static void graph_start(void) {
    start(2, 2);
    static const uint32_t followers[] = {2, 2};
    ito_graph *g = explore_alloc(sizeof *g);
    g->tasks = explore_alloc(4 * sizeof *g->tasks);
    for (uint32_t i = 0; i < 4; i++)
        g->tasks[i] = (struct ito__graph_task){.missing = i == 2 ? 2 : 0,
                                               .next = i == 0 ? 3 : ITO__NO_TASK,
                                               .n_before = i == 2 ? 2 : 0,
                                               .followers = i,
                                               .n_followers = i < 2,
                                               .fn = graph_task,
                                               .arg = i == 2 ? &shared->counter : &shared->cells[i == 3 ? 2 : i],
                                               .graph = g};
    g->followers = (uint32_t *)(uintptr_t)followers;
    g->n_tasks = 4;
    g->open = g->n_ends = 2;
    shared->graph = g;
    explore_constant(&shared->graph);
    EXPLORE_FIELD(g->open);
    EXPLORE_FIELD(g->done.state);
    EXPLORE_FIELD(g->tasks[2].missing);
}
static void graph_thread(unsigned t) {
    ito_graph *g = shared->graph;
    ito__graph_carry(g, t, ALONE);
    if (t == 1)
        return;
    ito__graph_await(&g->done, 1, g);
    if (shared->cells[2] != 1 || shared->counter != 1)
        explore_fail("a run before all has ended");
    store_relaxed(&g->open, 2);
    store_relaxed(&g->done.state, 0);
    g->tasks[0].next = 1;
    g->tasks[1].next = 3;
    g->tasks[3].next = ITO__NO_TASK;
    ito__graph_carry(g, 0, ALONE);
    explore_free(g->tasks, 4 * sizeof *g->tasks);
    explore_free(g, sizeof *g);
}

/* Two tasks of a group, sent by thread 0; a carrier on each worker. The one that comes last may find nothing, and thread 0
 * frees the graph as soon as its wait is over. */
static void group_start(void) {
    start(2, 1);
    static const uint32_t both[] = {0, 1};
    ito_graph *g = explore_alloc(sizeof *g);
    g->tasks = explore_alloc(2 * sizeof *g->tasks);
    g->groups = explore_alloc(sizeof *g->groups);
    for (uint32_t i = 0; i < 2; i++)
        g->tasks[i] = (struct ito__graph_task){
            .next = ITO__NO_TASK, .group = 1, .fn = graph_task, .arg = &shared->cells[2 * i], .graph = g};
    g->groups[0] = (struct ito__graph_group){.workers = (uint32_t *)(uintptr_t)both,
                                             .coming = explore_alloc(2 * sizeof(uint32_t)),
                                             .n = 2,
                                             .head = ITO__NO_TASK,
                                             .last = ITO__NO_TASK,
                                             .graph = g};
    g->groups[0].coming[0] = g->groups[0].coming[1] = 0;
    g->n_tasks = g->open = g->n_ends = 2;
    g->n_groups = 1;
    shared->graph = g;
    explore_constant(&shared->graph);
    EXPLORE_FIELD(g->open);
    EXPLORE_FIELD(g->done.state);
    EXPLORE_FIELD(g->groups[0].lock);
    EXPLORE_FIELD(shared->count.state);
}
static void group_thread(unsigned t) {
    ito_graph *g = shared->graph;
    if (t == 1) {
        ito__graph_await(&shared->count, 1, g); /* in the inbox that the carrier comes by */
        ito__graph_carry_group(&g->groups[0]);
        return;
    }
    ito__graph_send(g, &g->tasks[0]);
    ito__graph_advance(&shared->count, 1);
    ito__graph_send(g, &g->tasks[1]);
    ito__graph_carry_group(&g->groups[0]);
    ito__graph_await(&g->done, 1, g);
    if (shared->cells[0] != 1 || shared->cells[2] != 1)
        explore_fail("a run before all has ended");
    shared->counter++;
    explore_free(g->tasks, 2 * sizeof *g->tasks);
    explore_free(g->groups[0].coming, 2 * sizeof(uint32_t));
    explore_free(g->groups, sizeof *g->groups);
    explore_free(g, sizeof *g);
}

/* Two tasks of a list, and another list that waits for the second of them. */
static void lists_start(void) {
    start(2, 1);
    EXPLORE_FIELD(shared->count.state);
}
static void lists_thread(unsigned t) {
    if (t == 0) {
        shared->cells[0]++;
        ito__graph_advance(&shared->count, 1);
        shared->cells[1]++;
        ito__graph_advance(&shared->count, 2);
    } else {
        ito__graph_await(&shared->count, 2, NULL);
        if (shared->cells[0] != 1 || shared->cells[1] != 1)
            explore_fail("a task before what it waits for");
        shared->counter++;
    }
}

/* Two items through a buffer of one: the second waits for the first to be taken. What the sender did is seen. */
static void channel_start_of(unsigned threads, unsigned turns, uint32_t room) {
    start(threads, turns);
    for (int c = 0; c < 2; c++) {
        ito_channel_init(&shared->channels[c], &shared->items[c], sizeof(unsigned), room);
        EXPLORE_FIELD(shared->channels[c].word);
    }
}
static void channel_start(void) {
    channel_start_of(2, 2, 1);
}
static void channel_thread(unsigned t) {
    for (unsigned i = 0; i < 2; i++) {
        unsigned item = 0;
        if (t == 0) {
            if (i == 0)
                shared->cells[0] = 1;
            item = i + 1;
            ito_channel_send(&shared->channels[0], &item);
        } else {
            ito_channel_receive(&shared->channels[0], &item);
            if (item != i + 1 || shared->cells[0] != 1)
                explore_fail("an item without what came before it");
            shared->counter++;
        }
    }
}

/* A rendezvous, then a close: the item first, then the end. */
static void close_start(void) {
    channel_start_of(2, 1, 0);
}
static void close_thread(unsigned t) {
    unsigned item = 7;
    if (t == 0) {
        ito_channel_send(&shared->channels[0], &item);
        ito_channel_close(&shared->channels[0]);
    } else {
        while (ito_channel_receive(&shared->channels[0], &item) == 0)
            shared->counter++;
    }
}

/* Who asks whether it is closed sees what was done before. */
static void closed_start(void) {
    channel_start_of(2, 0, 0);
}
static void closed_thread(unsigned t) {
    if (t == 0) {
        shared->cells[0] = 1;
        ito_channel_close(&shared->channels[0]);
    } else if (ito_channel_is_closed(&shared->channels[0]) && shared->cells[0] != 1) {
        explore_fail("old data");
    }
}

/* One waits for either of two channels, and two others give it an item at the same time: the second item waits in its
 * channel for the second select. */
static void select_start(void) {
    channel_start_of(3, 2, 1);
}
static void select_thread(unsigned t) {
    unsigned items[2] = {0, 0}, one = 1;
    if (t > 0) {
        ito_channel_send(&shared->channels[t - 1], &one);
        return;
    }
    for (int i = 0; i < 2; i++) {
        ito_select_case cases[] = {ITO_RECEIVE_FROM(&shared->channels[0], &items[0]),
                                   ITO_RECEIVE_FROM(&shared->channels[1], &items[1])};
        size_t which;
        ito_select(cases, 2, &which, ITO_FOREVER);
        shared->counter += items[which];
        items[which] = 0;
    }
}

static void uncond_start(void) {
    start(2, 2);
    EXPLORE_FIELD(shared->unconds[0].state);
    EXPLORE_FIELD(shared->unconds[1].state);
}
static void uncond_thread(unsigned t) {
    if (t == 0)
        shared->counter++;
    else
        ito_uncond_wait(&shared->unconds[0]);
    if (t == 0)
        ito_uncond_pass(&shared->unconds[0], &shared->unconds[1]);
    else
        shared->counter++;
    if (t == 1)
        ito_uncond_signal(&shared->unconds[1]);
    else if (shared->counter != 2)
        explore_fail("woken without what came before");
}

/* Timers of one deadline, which passes at any moment or never; the rules are those of timer.c. */
void ito__timer_arm(struct ito__waiter *w, uint64_t deadline_ns) {
    (void)deadline_ns;
    ito__word_lock(&shared->timers);
    w->armed = true;
    shared->armed = w;
    ito__word_unlock(&shared->timers, 0);
}
void ito__timer_disarm(struct ito__waiter *w) {
    if (!w->armed)
        return;
    w->armed = false;
    ito__word_lock(&shared->timers);
    shared->armed = NULL;
    ito__word_unlock(&shared->timers, 0);
}
static void deadline_passes(void) {
    ito__word_lock(&shared->timers);
    struct ito__waiter *w = shared->armed;
    if (w && ito__word_trylock(w->word)) {
        shared->armed = NULL;
        w->armed = false;
        ito__waiters_remove(w);
        ito__word_unlock(w->word, 0);
    } else {
        w = NULL;
    }
    ito__word_unlock(&shared->timers, 0);
    if (w)
        ito__waiter_wake(w, ETIMEDOUT);
}

/* A thread ends while another joins it until a deadline; then that one joins it without. Its descriptor is the joiner's
 * from the join on. */
static void join_start(void) {
    start(3, 1);
    shared->ends = explore_alloc(sizeof *shared->ends);
    shared->ends->state = ITO__SHARED;
    explore_constant(&shared->ends);
    EXPLORE_FIELD(shared->ends->state);
}
static void join_thread(unsigned t) {
    void *result = NULL;
    if (t == 0) {
        if (ito_join_until(shared->ends, &result, UINT64_MAX - 1) == ETIMEDOUT)
            while (ito_tryjoin(shared->ends, &result) == EBUSY)
                ;
        if (result != &shared->counter)
            explore_fail("joined before the end");
        shared->counter++;
    } else if (t == 1) { /* as finish_shared() of thread.c */
        store_relaxed(&shared->ends->result, (void *)&shared->counter);
        uintptr_t old = exchange_acq_rel(&shared->ends->state, ITO__ENDED);
        if (old >= ITO__STATES)
            ito__join_until_ended(old);
    } else {
        deadline_passes();
    }
}

/* A thread ends while another detaches it: the one that comes second gives its descriptor back. */
static void detach_start(void) {
    start(2, 0);
    shared->ends = explore_alloc(sizeof *shared->ends);
    shared->ends->state = ITO__SHARED;
    explore_constant(&shared->ends);
    EXPLORE_FIELD(shared->ends->state);
}
static void detach_thread(unsigned t) {
    if (t == 0) {
        if (ito_detach(shared->ends))
            explore_fail("it could not be detached");
    } else { /* as finish_shared() of thread.c */
        shared->ends->sp = NULL;
        if (exchange_acq_rel(&shared->ends->state, ITO__ENDED) == ITO__DETACHED)
            ito__descriptor_put(NULL, shared->ends);
    }
}
const struct explore_program explore_programs[] = {
    {"spin", 2, spin_start, spin_thread, all_counted},
    {"mutex", 2, mutex_start, mutex_thread, all_counted},
    {"mutex_try", 2, try_start, try_thread, all_counted},
    {"condition", 2, cond_start, cond_thread, all_counted},
    {"rwlock", 2, rwlock_start, rwlock_thread, all_counted},
    {"semaphore", 2, sem_start, sem_thread, all_counted},
    {"once", 2, once_start, once_thread, all_counted},
    {"future", 2, future_start, future_thread, all_counted},
    {"channel", 2, channel_start, channel_thread, all_counted},
    {"channel_close", 2, close_start, close_thread, all_counted},
    {"channel_closed", 2, closed_start, closed_thread, all_counted},
    {"select", 3, select_start, select_thread, all_counted},
    {"uncond", 2, uncond_start, uncond_thread, all_counted},
    {"join_until", 3, join_start, join_thread, all_counted},
    {"graph", 2, graph_start, graph_thread, all_counted},
    {"graph_group", 2, group_start, group_thread, all_counted},
    {"graph_lists", 2, lists_start, lists_thread, all_counted},
    {"detach", 2, detach_start, detach_thread, all_counted},
    {0},
};
