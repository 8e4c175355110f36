/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Graphs: tasks and edges as they come, and what is made of them before the first run. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* -- room ---------------------------------------------------------------------------------------------------------- */

/* Room for one more at *at; on ENOMEM nothing has changed. Lines of `aligned` bytes. */
static int grow(void *at, size_t n, size_t *room, size_t bytes, size_t aligned) {
    void **array = at;
    if (n < *room)
        return 0;
    size_t more = *room ? 2 * *room : 16;
    void *new = NULL;
    if (more > SIZE_MAX / bytes || posix_memalign(&new, aligned, more * bytes))
        return ENOMEM;
    if (n)
        memcpy(new, *array, n * bytes);
    free(*array);
    *array = new;
    *room = more;
    return 0;
}

/* The graph belongs to the caller until ito__graph_leave(). False: it runs. */
bool ito__graph_enter(ito_graph *g) {
    uint32_t free = 0;
    /* ORDER acq_rel; pairs with the release store in ito__graph_leave(). Shows what the last caller did. */
    return cas_acq_rel(&g->busy, &free, 1);
}
int ito__graph_leave(ito_graph *g, int result) {
    /* ORDER release; pairs with the compare-and-swap in ito__graph_enter(). Publishes the graph as the caller leaves it. */
    store_release(&g->busy, 0);
    return result;
}

/* -- building ------------------------------------------------------------------------------------------------------ */

static uint32_t n_created;

int ito_graph_create(ito_graph **out) {
    void *at = NULL;
    if (posix_memalign(&at, ITO__LINE, sizeof(ito_graph)))
        return ENOMEM;
    ito_graph *g = at;
    memset(g, 0, sizeof *g);
    g->number = __atomic_add_fetch(&n_created, 1, __ATOMIC_RELAXED); /* a number for each; nothing comes with it */
    *out = g;
    return 0;
}

/* What ito__graph_prepare() and the plan made is old. */
void ito__graph_forget(ito_graph *g) {
    ito__graph_forget_plan(g);
    g->is_ready = false;
    free(g->followers);
    free(g->before);
    free(g->order);
    free(g->level);
    free(g->cost);
    g->followers = g->before = g->order = NULL;
    g->level = g->cost = NULL;
}

int ito_graph_destroy(ito_graph *g) {
    if (g == NULL)
        return 0;
    if (!ito__graph_enter(g))
        return EBUSY;
    ito__graph_forget(g);
    for (uint32_t i = 0; i < g->n_groups; i++)
        free(g->groups[i].workers);
    free(g->groups);
    free(g->tasks);
    free(g->about);
    free(g->edges);
    free(g);
    return 0;
}

static int compare_workers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int add_group(ito_graph *g, const uint32_t *workers, size_t n, uint32_t *out) {
    if (grow(&g->groups, g->n_groups, &g->room_groups, sizeof *g->groups, alignof(max_align_t)))
        return ENOMEM;
    uint32_t *copy = calloc(n, 2 * sizeof *copy);
    if (copy == NULL)
        return ENOMEM;
    memcpy(copy, workers, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, compare_workers);
    size_t given = n;
    n = 1;
    for (size_t i = 1; i < given; i++) /* each once: it has one place */
        if (copy[i] != copy[n - 1])
            copy[n++] = copy[i];
    g->most_worker = copy[n - 1] > g->most_worker ? copy[n - 1] : g->most_worker;
    g->groups[g->n_groups] = (struct ito__graph_group){.workers = copy,
                                                       .coming = copy + given,
                                                       .n = (uint32_t)n,
                                                       .head = ITO__NO_TASK,
                                                       .last = ITO__NO_TASK,
                                                       .graph = g};
    *out = ++g->n_groups;
    ito__graph_forget_plan(g);
    return 0;
}

int ito_graph_group(ito_graph *g, const uint32_t *workers, size_t n, uint32_t *out) {
    if (workers == NULL || out == NULL || n == 0 || n > UINT32_MAX)
        return EINVAL;
    return ito__graph_enter(g) ? ito__graph_leave(g, add_group(g, workers, n, out)) : EBUSY;
}

static int add_task(ito_graph *g, const ito_graph_attr *attr, void (*fn)(void *), void *arg, uint32_t *out) {
    if (attr && (attr->struct_size != sizeof *attr || attr->group > g->n_groups))
        return EINVAL;
    if (g->n_tasks == ITO_GRAPH_TASKS_MAX)
        return ENOSPC;
    size_t room = g->room_tasks;
    if (grow(&g->about, g->n_tasks, &room, sizeof *g->about, alignof(max_align_t)) ||
        grow(&g->tasks, g->n_tasks, &g->room_tasks, sizeof *g->tasks, ITO__LINE))
        return ENOMEM; /* if only `about` has grown, it grows once more the next time */
    uint32_t task = g->n_tasks++;
    g->tasks[task] = (struct ito__graph_task){.next = ITO__NO_TASK, .fn = fn, .arg = arg, .graph = g};
    g->about[task] = (struct ito__graph_about){0};
    if (attr) {
        g->tasks[task].group = attr->group;
        g->about[task].name = attr->name;
        g->about[task].cost_ns = attr->cost_ns;
    }
    if (out)
        *out = task;
    ito__graph_forget(g);
    return 0;
}

int ito_graph_task(ito_graph *g, const ito_graph_attr *attr, void (*fn)(void *), void *arg, uint32_t *out) {
    if (fn == NULL)
        return EINVAL;
    return ito__graph_enter(g) ? ito__graph_leave(g, add_task(g, attr, fn, arg, out)) : EBUSY;
}

static int add_edge(ito_graph *g, uint32_t before, uint32_t after) {
    if (before >= g->n_tasks || after >= g->n_tasks || before == after)
        return EINVAL;
    if (g->n_edges == UINT32_MAX || grow(&g->edges, g->n_edges, &g->room_edges, sizeof *g->edges, alignof(max_align_t)))
        return ENOMEM;
    g->edges[g->n_edges++] = (struct ito__graph_edge){before, after};
    ito__graph_forget(g);
    return 0;
}

int ito_graph_edge(ito_graph *g, uint32_t before, uint32_t after) {
    return ito__graph_enter(g) ? ito__graph_leave(g, add_edge(g, before, after)) : EBUSY;
}

/* -- before a run -------------------------------------------------------------------------------------------------- */

/* One list with a range for each task: what it waits for. */
static void fill_before(ito_graph *g) {
    for (uint32_t i = 0; i < g->n_tasks; i++)
        g->tasks[i].n_before = g->tasks[i].n_followers = 0;
    for (uint32_t e = 0; e < g->n_edges; e++) {
        g->tasks[g->edges[e].after].n_before++;
        g->tasks[g->edges[e].before].n_followers++;
    }
    uint32_t before = 0, followers = 0;
    g->n_ends = 0;
    for (uint32_t i = 0; i < g->n_tasks; i++) {
        struct ito__graph_task *t = &g->tasks[i];
        g->about[i].before = before;
        t->followers = followers;
        before += t->n_before;
        followers += t->n_followers;
        g->n_ends += t->n_followers == 0;
        t->missing = 0; /* so far: how many of its range are written */
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        uint32_t after = g->edges[e].after;
        g->before[g->about[after].before + g->tasks[after].missing++] = g->edges[e].before;
    }
}

/* followers[]: those of each task in the order of `by`, a list of all tasks. */
static void fill_followers(ito_graph *g, const uint32_t *by) {
    for (uint32_t i = 0; i < g->n_tasks; i++)
        g->tasks[i].missing = 0;
    for (uint32_t i = 0; i < g->n_tasks; i++) {
        const uint32_t *before = g->before + g->about[by[i]].before;
        for (uint32_t k = 0; k < g->tasks[by[i]].n_before; k++) {
            struct ito__graph_task *t = &g->tasks[before[k]];
            g->followers[t->followers + t->missing++] = by[i];
        }
    }
}

/* Each task after those that it waits for (A. Kahn 1962). Returns how many could be put in order; the others are in
 * circles or wait for those. Needs followers[]; leaves in `missing` what is missing. */
static uint32_t sort_tasks(ito_graph *g) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_tasks; i++) {
        g->tasks[i].missing = g->tasks[i].n_before;
        if (g->tasks[i].n_before == 0)
            g->order[n++] = i;
    }
    for (uint32_t at = 0; at < n; at++) {
        const struct ito__graph_task *t = &g->tasks[g->order[at]];
        for (uint32_t k = 0; k < t->n_followers; k++) {
            uint32_t next = g->followers[t->followers + k];
            if (--g->tasks[next].missing == 0)
                g->order[n++] = next;
        }
    }
    return n;
}

static void fill_levels(ito_graph *g) {
    uint64_t sum = 0, known = 0,
             most = UINT64_MAX / g->n_tasks; /* so that the sum of all is a number, and any chain's */
    for (uint32_t i = 0; i < g->n_tasks; i++) {
        uint64_t cost = g->about[i].cost_ns;
        g->cost[i] = cost < most ? cost : most;
        sum += g->cost[i];
        known += cost != 0;
    }
    uint64_t mean = known ? sum / known : 1;
    for (uint32_t i = 0; i < g->n_tasks; i++)
        g->cost[i] = g->cost[i] ? g->cost[i] : mean;
    for (uint32_t at = g->n_tasks; at-- > 0;) {
        uint32_t task = g->order[at];
        const struct ito__graph_task *t = &g->tasks[task];
        uint64_t below = 0;
        for (uint32_t k = 0; k < t->n_followers; k++) {
            uint64_t level = g->level[g->followers[t->followers + k]];
            below = level > below ? level : below;
        }
        g->level[task] = below + g->cost[task];
    }
}

struct by_level {
    uint64_t level;
    uint32_t task;
};
static int compare_levels(const void *a, const void *b) {
    const struct by_level *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return x->task < y->task ? 1 : -1; /* of equal ones the older is taken first: it is put there last */
}

/* The followers of each task again, those with the shortest chain first. */
static int sort_followers(ito_graph *g) {
    struct by_level *sorted = malloc((size_t)g->n_tasks * sizeof *sorted);
    uint32_t *by = malloc((size_t)g->n_tasks * sizeof *by);
    if (sorted && by) {
        for (uint32_t i = 0; i < g->n_tasks; i++)
            sorted[i] = (struct by_level){g->level[i], i};
        qsort(sorted, g->n_tasks, sizeof *sorted, compare_levels);
        for (uint32_t i = 0; i < g->n_tasks; i++)
            by[i] = sorted[i].task;
        fill_followers(g, by);
    }
    int r = sorted && by ? 0 : ENOMEM;
    free(sorted);
    free(by);
    return r;
}

int ito__graph_prepare(ito_graph *g) {
    if (g->is_ready)
        return 0;
    ito__graph_forget(g);
    size_t tasks = (size_t)g->n_tasks + 1, edges = (size_t)g->n_edges + 1; /* never 0 bytes */
    g->followers = malloc(edges * sizeof *g->followers);
    g->before = malloc(edges * sizeof *g->before);
    g->order = malloc(tasks * sizeof *g->order);
    g->level = malloc(tasks * sizeof *g->level);
    g->cost = malloc(tasks * sizeof *g->cost);
    if (!g->followers || !g->before || !g->order || !g->level || !g->cost)
        return ENOMEM;
    fill_before(g);
    for (uint32_t i = 0; i < g->n_tasks; i++)
        g->order[i] = i;
    fill_followers(g, g->order);
    if (sort_tasks(g) < g->n_tasks)
        return EDEADLK;
    if (g->n_tasks) {
        fill_levels(g);
        if (sort_followers(g))
            return ENOMEM;
    }
    for (uint32_t i = 0; i < g->n_tasks; i++)
        g->tasks[i].missing = g->tasks[i].n_before;
    g->is_ready = true;
    return 0;
}

/* Among the tasks that could not be put in order each has one before it that could not either: going back from any of
 * them ends in a circle. */
static size_t find_circle(ito_graph *g, uint32_t *tasks, size_t room) {
    uint32_t at = 0;
    while (at < g->n_tasks && g->tasks[at].missing == 0)
        at++;
    if (at == g->n_tasks)
        return 0;
    for (uint32_t i = 0; i < g->n_tasks; i++)
        g->tasks[i].next = ITO__NO_TASK;
    while (g->tasks[at].next == ITO__NO_TASK) { /* next: the one after it, as the way back goes */
        const uint32_t *before = g->before + g->about[at].before;
        while (g->tasks[*before].missing == 0)
            before++;
        g->tasks[at].next = *before;
        at = *before;
    }
    size_t n = 0;
    uint32_t first = at;
    do {
        n++;
        at = g->tasks[at].next;
    } while (at != first);
    /* From the last to the first, so that each waits for the one before it. */
    for (size_t i = n; i-- > 0; at = g->tasks[at].next)
        if (tasks && i < room)
            tasks[i] = at;
    return n;
}

size_t ito_graph_circle(ito_graph *g, uint32_t *tasks, size_t room) {
    if (!ito__graph_enter(g))
        return 0;
    size_t n = ito__graph_prepare(g) == EDEADLK ? find_circle(g, tasks, room) : 0;
    ito__graph_leave(g, 0);
    return n;
}

/* -- running ------------------------------------------------------------------------------------------------------- */

/* Prepared, and planned for `n_workers` if that is wanted. */
static int make_ready(ito_graph *g, uint32_t n_workers, bool with_plan) {
    if (n_workers == 0)
        return EPERM;
    if (g->n_groups && g->most_worker >= n_workers)
        return EINVAL;
    int r = ito__graph_prepare(g);
    return r || !with_plan ? r : ito__graph_plan(g, n_workers);
}

int ito_graph_plan(ito_graph *g, uint32_t n_workers, struct ito_graph_planned *tasks, uint64_t *makespan_ns) {
    if (!ito__graph_enter(g))
        return EBUSY;
    int r = make_ready(g, n_workers ? n_workers : ito_n_workers(), true);
    uint64_t last = 0;
    for (uint32_t i = 0; r == 0 && i < g->n_tasks; i++) {
        uint64_t end = g->start[i] + g->cost[i];
        last = end > last ? end : last;
        if (tasks)
            tasks[i] = (struct ito_graph_planned){g->lists[g->list_of[i]].worker, 0, g->start[i], end};
    }
    if (r == 0 && makespan_ns)
        *makespan_ns = last;
    return ito__graph_leave(g, r);
}

/* The recorder hears of all tasks at once, from the thread that runs the graph. */
static void tell_begin(ito_graph *g) {
    g->first_id = ito__listener->graph_ids(g->number);
    for (uint32_t i = 0; i < g->n_tasks; i++)
        ITO__TRACE_NEW_TASK(g->first_id + i, g->about[i].name, (const void *)(uintptr_t)g->tasks[i].fn);
}
static void tell_end(ito_graph *g) {
    for (uint32_t i = 0; i < g->n_tasks; i++)
        if (g->tasks[i].n_followers == 0)
            ITO__TRACE_JOIN(g->first_id + i);
}

int ito_graph_run(ito_graph *g, uint32_t how) {
    if (how > ITO_GRAPH_STATIC)
        return EINVAL;
    if (!ito__graph_enter(g))
        return EBUSY;
    int r = make_ready(g, ito_n_workers(), how == ITO_GRAPH_STATIC);
    if (r || g->n_tasks == 0)
        return ito__graph_leave(g, r);
    g->seen = ITO__TRACING;
    if (g->seen)
        tell_begin(g);
    if (how == ITO_GRAPH_STATIC)
        ito__graph_run_static(g);
    else
        ito__graph_run_dynamic(g);
    if (g->seen)
        tell_end(g);
    return ito__graph_leave(g, 0);
}
