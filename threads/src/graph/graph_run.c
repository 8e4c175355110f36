/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Running a graph: docs/design/graph.md.
 *
 * Dynamic. Each task counts the tasks that it waits for (`missing`). Who ends a task takes one off each follower; who
 * takes the last one off has made that follower ready, and owns it. A thread has a list of ready tasks, that with the
 * longest chain first. It runs the first; while there are more, the first gets a thread of its own, which runs at once,
 * and the rest of the list becomes a continuation in the deque, where idle workers find it. So whatever is ready can be
 * found by idle workers, also while a task is blocked. `missing` is set for the next run by the task itself.
 *
 * A task of a group runs where it became ready if that is a worker of the group; the thread is bound to it meanwhile.
 * Else it goes into the group's list, and a carrier to a worker of the group, which runs what the list has.
 *
 * Static. Each list is a thread bound to its worker. It counts its tasks that have ended (`ended`), and waits before a
 * task until the counts of other lists are high enough: a short time by looking, then asleep.
 *
 * The end. A task without followers is an end; when all ends have ended, all tasks have. A thread's last access to the
 * graph is to count its ends, so who waits for the graph may then destroy it. In a static run that is the last task of
 * each list.
 */
#include "graph/graph.h"

/* So many threads may wait below each other in one deque for their rest of a list; then a thread keeps its list to
 * itself. A bound on stacks: a graph may have a branch at each of a million levels. */
#define DEPTH_MAX 256u
/* Looks before a list goes to sleep: a few microseconds to a few tens of them. */
#ifndef SPIN_TURNS
#define SPIN_TURNS 512u
#endif

/* -- counts -------------------------------------------------------------------------------------------------------- */

void ito__graph_advance(struct ito__graph_count *c, uint32_t to) {
    struct ito__waiter *list = NULL;
    ito__word_lock(&c->state);
    for (struct ito__waiter *w = c->waiters.head, *next; w; w = next) {
        next = w->next;
        if (w->want <= to) {
            ito__waiters_remove(w);
            w->next = list;
            list = w;
        }
    }
    /* Its release publishes the tasks so far to the acquire load in ito__graph_await(), and to its ito__word_lock(). */
    ito__word_unlock(&c->state, to);
    ito__waiter_wake_all(list, 0);
}

void ito__graph_await(struct ito__graph_count *c, uint32_t want, struct ito_graph *g) {
    /* Where workers share CPUs, the one that is waited for may need this CPU. */
    unsigned turns = ito__pool.n_workers > ito__pool.n_cpus ? 1 : SPIN_TURNS;
    for (unsigned turn = 0; turn < turns; turn++) {
        /* ORDER acquire; pairs with the release of ito__word_unlock() in ito__graph_advance(). Shows what the tasks
         * that are waited for did. While the queue bit is set the number is the old one. Without it: a task reads what
         * is not yet written (threads/tests/explore, control count_relaxed). */
        if ((load_acquire(&c->state) & ~ITO__QUEUE_BIT) >= want)
            return;
        cpu_relax();
    }
    struct ito__waiter w;
    ito__waiter_init(&w);
    w.want = want;
    uint32_t now = ito__word_lock(&c->state);
    if (now >= want) {
        ito__word_unlock(&c->state, now);
        return;
    }
    ito__waiters_push(&c->waiters, &w);
    ito__wait(&w, &c->state, now, ITO_FOREVER, ITO__WAIT_GRAPH, g, NULL);
}

/* -- one task ------------------------------------------------------------------------------------------------------ */

/* A recorder hears of the task while its function runs, and of no thread around it. */
static void __attribute__((noinline)) call_seen(struct ito_graph *g, struct ito__graph_task *t) {
    uint32_t task = ito__graph_number(t);
    const uint32_t *before = g->before + g->about[task].before;
    for (uint32_t i = 0; i < t->n_before; i++)
        ITO__TRACE_DEPENDS(g->first_id + task, g->first_id + before[i]);
    struct ito_thread *me = ito__self();
    uint64_t was = me->id;
    me->id = g->first_id + task;
    ITO__TRACE_TASK(me->id, 1);
    t->fn(t->arg);
    ITO__TRACE_TASK(me->id, 0);
    me->id = was;
}

static void call(struct ito_graph *g, struct ito__graph_task *t) {
    if (UNLIKELY(g->seen))
        call_seen(g, t);
    else
        t->fn(t->arg);
}

/* Whether a thread was made that runs main(arg) on `worker` (-1: any). The thread is nothing that a recorder should
 * see: what it runs are tasks, which have ids of their own. */
static bool spawn(struct ito_graph *g, int32_t worker, void *(*main)(void *), void *arg) {
    if (LIKELY(worker < 0 && !g->seen))
        return ito_create(NULL, NULL, main, arg) == 0;
    ito_attr attr = ITO_ATTR_INIT;
    attr.worker = worker;
    attr.flags = ITO__ATTR_UNSEEN;
    return ito_create(NULL, &attr, main, arg) == 0;
}

/* -- dynamic ------------------------------------------------------------------------------------------------------- */

static void *carrier(void *arg) {
    struct ito__graph_task *t = arg;
    ito__graph_carry(t->graph, ito__graph_number(t), t->depth);
    return NULL;
}

/* Takes `t` off its followers; those that are ready now are put before `head`, so that the last of them, with the
 * longest chain, is the first. Touches nothing of the graph after the last of them was taken off. */
static uint32_t release_followers(struct ito_graph *g, const struct ito__graph_task *t, uint32_t head) {
    const uint32_t *at = g->followers + t->followers, *end = at + t->n_followers;
    struct ito__graph_task *tasks = g->tasks;
    for (; at < end; at++) {
        struct ito__graph_task *next = &tasks[*at];
        /* ORDER acq_rel; pairs with itself, in the threads that end the other tasks that `next` waits for. The release
         * publishes what `t` did, the acquire shows the last one what all of them did. Without it: a task reads what is
         * not yet written (threads/tests/explore, control missing_relaxed). */
        if (sub_acq_rel(&next->missing, 1) == 1) {
            next->next = head;
            head = *at;
        }
    }
    return head;
}

/* The caller's last access to the graph. */
static void count_ends(struct ito_graph *g, uint32_t n) {
    /* ORDER acq_rel; pairs with itself, in the threads that count the other ends. The release publishes what the tasks
     * of this thread did, the acquire shows it to the last one, which tells it to the thread that waits. */
    if (sub_acq_rel(&g->open, n) == n)
        ito__graph_advance(&g->done, 1);
}

/* -- groups -------------------------------------------------------------------------------------------------------- */

/* Its place in the group; UINT32_MAX: it is none of it. */
static uint32_t place_in(const struct ito__graph_group *group, uint32_t worker) {
    uint32_t from = 0, end = group->n;
    while (from < end) {
        uint32_t middle = from + (end - from) / 2;
        if (group->workers[middle] < worker)
            from = middle + 1;
        else
            end = middle;
    }
    return from < group->n && group->workers[from] == worker ? from : UINT32_MAX;
}
static bool is_in(const struct ito__graph_group *group, uint32_t worker) {
    return place_in(group, worker) != UINT32_MAX;
}

/* Where a carrier is to go: a parked worker that none is on its way to, else that to which the fewest are. So one that
 * does not come to them gets a second one only while another still has one to come. The lock is held. */
static uint32_t choose(const struct ito__graph_group *group) {
    uint32_t best = 0;
    for (uint32_t i = 0; i < group->n; i++) {
        if (group->coming[i] == 0 && load_relaxed(&ito__pool.workers[group->workers[i]].parked)) /* a hint */
            return i;
        if (group->coming[i] < group->coming[best])
            best = i;
    }
    return best;
}

uint32_t ito__graph_send(struct ito_graph *g, struct ito__graph_task *t) {
    struct ito__graph_group *group = &g->groups[t->group - 1];
    uint32_t task = ito__graph_number(t);
    /* Relaxed: `t` has not run, so the count is above 0 until the carrier that is counted here has seen the lock. */
    __atomic_fetch_add(&g->open, 1, __ATOMIC_RELAXED);
    t->next = ITO__NO_TASK;
    ito__spin_lock(&group->lock);
    if (group->head == ITO__NO_TASK)
        group->head = task;
    else
        g->tasks[group->last].next = task;
    group->last = task;
    uint32_t at = choose(group);
    group->coming[at]++;
    ito__spin_unlock(&group->lock);
    return at;
}

/* The oldest task of the list, or ITO__NO_TASK. `at`: the place of a worker that a carrier has come to, or does not come
 * to any more; UINT32_MAX: none. */
static uint32_t take(struct ito__graph_group *group, uint32_t at) {
    ito__spin_lock(&group->lock);
    if (at != UINT32_MAX)
        group->coming[at]--;
    uint32_t task = group->head;
    if (task != ITO__NO_TASK)
        group->head = group->graph->tasks[task].next;
    ito__spin_unlock(&group->lock);
    if (task != ITO__NO_TASK)
        group->graph->tasks[task].next = ITO__NO_TASK;
    return task;
}

/* Carriers are as many as tasks were sent. One that comes too late finds nothing: a worker of the group that was free
 * earlier has run that task. It is counted in `open`, so that the graph is there for it. */
void ito__graph_carry_group(struct ito__graph_group *group) {
    struct ito_graph *g = group->graph;
    uint32_t task = take(group, place_in(group, ito_worker_index()));
    while (task != ITO__NO_TASK) {
        ito__graph_carry(g, task, 0);
        task = is_in(group, ito_worker_index()) ? take(group, UINT32_MAX) : ITO__NO_TASK;
    }
    count_ends(g, 1);
}

static void *group_carrier(void *arg) {
    ito__self()->bind = -1; /* it has come; what its tasks make ready may go on anywhere */
    ito__graph_carry_group(arg);
    return NULL;
}

/* A task of a group, on a worker of it: bound to that while the function runs, which may block. */
static void call_here(struct ito_graph *g, struct ito__graph_task *t) {
    struct ito_thread *me = ito__self();
    int32_t was = me->bind;
    me->bind = (int32_t)ito_worker_index();
    call(g, t);
    me->bind = was;
}

/* -- lists of ready tasks ------------------------------------------------------------------------------------------ */

/* A chain creates no thread, at which an idle worker that has asked would be answered: so look before each task. */
static inline void answer(void) {
    struct worker *w = worker_of(ito__worker());
    if (UNLIKELY(w && ito__can_answer(w)))
        ito__answer(w);
}

/* The thread may be on another worker after each task. */
void ito__graph_carry(struct ito_graph *g, uint32_t head, uint32_t depth) {
    uint32_t ended = 0;
    while (head != ITO__NO_TASK) {
        struct ito__graph_task *t = &g->tasks[head];
        head = t->next;
        bool is_bound = t->group != ITO_GRAPH_ANYWHERE;
        if (UNLIKELY(is_bound && !is_in(&g->groups[t->group - 1], ito_worker_index()))) {
            struct ito__graph_group *group = &g->groups[t->group - 1];
            uint32_t at = ito__graph_send(g, t);
            if (spawn(g, (int32_t)group->workers[at], group_carrier, group))
                continue;
            ended++; /* the carrier that does not come; and what it would have run runs here */
            uint32_t left = take(group, at);
            if (left == ITO__NO_TASK)
                continue;
            t = &g->tasks[left];
            is_bound = false;
        } else if (head != ITO__NO_TASK && depth < DEPTH_MAX) {
            t->next = ITO__NO_TASK;
            t->depth = depth + 1;
            if (spawn(g, -1, carrier, t))
                continue;
        }
        answer();
        /* Relaxed: the next run, which reads it, begins after all of this one has ended, through `open`. */
        store_relaxed(&t->missing, t->n_before);
        if (UNLIKELY(is_bound))
            call_here(g, t);
        else
            call(g, t);
        ended += t->n_followers == 0;
        if (t->n_followers)
            head = release_followers(g, t, head);
    }
    if (ended)
        count_ends(g, ended);
}

void ito__graph_run_dynamic(struct ito_graph *g) {
    uint32_t head = ITO__NO_TASK;
    for (uint32_t i = g->n_tasks; i-- > 0;) { /* those that begin it; longest chain first is not worth a sort */
        struct ito__graph_task *t = &g->tasks[i];
        if (t->n_before == 0) {
            t->next = head;
            head = i;
        }
    }
    store_relaxed(&g->open, g->n_ends);
    g->done = (struct ito__graph_count){0};
    struct ito__graph_task *first = &g->tasks[head];
    first->depth = 0;
    if (!spawn(g, -1, carrier, first))
        ito__graph_carry(g, head, 0);
    ito__graph_await(&g->done, 1, g);
}

/* -- static -------------------------------------------------------------------------------------------------------- */

/* One task of a list, once all that it waits for has ended. `wait`: the next of the list's waits; returns the one after
 * those that were for this task. */
static uint32_t list_step(struct ito__graph_list *list, uint32_t at, uint32_t wait) {
    struct ito_graph *g = list->graph;
    for (; wait < list->n_waits && list->waits[wait].at == at; wait++)
        ito__graph_await(&g->lists[list->waits[wait].list].ended, list->waits[wait].count, g);
    uint32_t task = list->tasks[at];
    bool is_waited = g->is_waited[task];
    call(g, &g->tasks[task]);
    if (is_waited) /* for the last of the list, the last access to the graph */
        ito__graph_advance(&list->ended, at + 1);
    return wait;
}

static void *list_main(void *arg) {
    struct ito__graph_list *list = arg;
    uint32_t wait = 0, n = list->n_tasks;
    for (uint32_t at = 0; at < n; at++)
        wait = list_step(list, at, wait);
    return NULL;
}

/* The lists that got no thread, by the caller: their tasks in the order of their planned starts, in which no task comes
 * before one that it waits for. */
static void run_rest(struct ito_graph *g, const bool *is_started) {
    for (uint32_t i = 0; i < g->n_tasks; i++) {
        uint32_t task = g->planned[i];
        struct ito__graph_list *list = &g->lists[g->list_of[task]];
        if (is_started[g->list_of[task]])
            continue;
        uint32_t at = g->place[task], wait = 0, end = list->n_waits; /* its first wait, found by halves */
        while (wait < end) {
            uint32_t middle = wait + (end - wait) / 2;
            if (list->waits[middle].at < at)
                wait = middle + 1;
            else
                end = middle;
        }
        list_step(list, at, wait);
    }
}

void ito__graph_run_static(struct ito_graph *g) {
    uint32_t n = g->n_lists, here = ito_worker_index();
    for (uint32_t i = 0; i < n; i++)
        g->lists[i].ended = (struct ito__graph_count){0};
    /* The caller's own list last: it begins at once, and the caller goes on when it waits. */
    bool all = true, is_started[n];
    for (uint32_t i = 0; i < n; i++)
        is_started[i] = g->lists[i].n_tasks == 0;
    for (uint32_t i = 0; i < n; i++)
        if (!is_started[i] && g->lists[i].worker != here)
            all &= is_started[i] = spawn(g, (int32_t)g->lists[i].worker, list_main, &g->lists[i]);
    for (uint32_t i = 0; i < n; i++)
        if (!is_started[i] && g->lists[i].worker == here)
            all &= is_started[i] = spawn(g, (int32_t)here, list_main, &g->lists[i]);
    if (!all)
        run_rest(g, is_started);
    for (uint32_t i = 0; i < n; i++)
        ito__graph_await(&g->lists[i].ended, g->lists[i].n_tasks, g);
}
