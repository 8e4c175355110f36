/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The schedule of a static run, and the lists and waits made of it: docs/design/graph.md.
 *
 * A list scheduler (CP/MISF: H. Kasahara, S. Narita, IEEE Trans. Computers 1984): whenever a worker is free and a task
 * is ready that it may run, the ready task with the longest chain behind it begins; of equal ones that with most
 * followers. Of the free workers it takes the one that ran what ended last of what the task waits for: its data may
 * still be there. Nothing is transferred between workers in this model.
 *
 * Waits. A task waits for those of other lists only. Lists run in their order, so of each list the latest is enough, and
 * none that an earlier task of the own list has waited for.
 */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

void ito__graph_forget_plan(ito_graph *g) {
    free(g->lists);
    free(g->listed);
    free(g->planned);
    free(g->list_of);
    free(g->place);
    free(g->is_waited);
    free(g->start);
    free(g->waits);
    g->lists = NULL;
    g->listed = g->planned = g->list_of = g->place = NULL;
    g->is_waited = NULL;
    g->start = NULL;
    g->waits = NULL;
    g->n_lists = 0;
}

/* -- the schedule -------------------------------------------------------------------------------------------------- */

/* Ready tasks of a group; the root of the heap has the least rank. */
struct heap {
    uint32_t *rank;
    uint32_t n;
};
/* A running task; the root of the heap ends first. */
struct running {
    uint64_t end;
    uint32_t worker, task;
};
struct planner {
    ito_graph *g;
    uint32_t n_workers, n_planned, n_running;
    uint32_t *task_of;       /* [n_tasks] by rank: 0 is the first to be taken */
    uint32_t *rank_of;       /* [n_tasks] */
    uint32_t *near;          /* [n_tasks] worker of what ended last of what it waits for; UINT32_MAX: none */
    uint32_t *missing;       /* [n_tasks] */
    uint32_t *room;          /* [n_tasks] of all heaps */
    struct heap *ready;      /* [n_groups + 1] */
    bool *is_free;           /* [n_workers] */
    struct running *running; /* [n_workers] */
};

static void push(struct heap *h, uint32_t rank) {
    uint32_t at = h->n++;
    for (; at && h->rank[(at - 1) / 2] > rank; at = (at - 1) / 2)
        h->rank[at] = h->rank[(at - 1) / 2];
    h->rank[at] = rank;
}
static uint32_t pop(struct heap *h) {
    uint32_t least = h->rank[0], last = h->rank[--h->n], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < h->n; at = child) {
        child += child + 1 < h->n && h->rank[child + 1] < h->rank[child];
        if (h->rank[child] >= last)
            break;
        h->rank[at] = h->rank[child];
    }
    h->rank[at] = last;
    return least;
}

static bool ends_before(const struct running *a, const struct running *b) {
    return a->end != b->end ? a->end < b->end : a->worker < b->worker;
}
static void push_running(struct planner *p, struct running r) {
    uint32_t at = p->n_running++;
    for (; at && ends_before(&r, &p->running[(at - 1) / 2]); at = (at - 1) / 2)
        p->running[at] = p->running[(at - 1) / 2];
    p->running[at] = r;
}
static struct running pop_running(struct planner *p) {
    struct running first = p->running[0], last = p->running[--p->n_running];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < p->n_running; at = child) {
        child += child + 1 < p->n_running && ends_before(&p->running[child + 1], &p->running[child]);
        if (!ends_before(&p->running[child], &last))
            break;
        p->running[at] = p->running[child];
    }
    p->running[at] = last;
    return first;
}

/* A free worker that may run tasks of the group, `near` if it is one; UINT32_MAX: none. */
static uint32_t free_worker(const struct planner *p, uint32_t group, uint32_t near) {
    const struct ito__graph_group *of = group ? &p->g->groups[group - 1] : NULL;
    uint32_t n = of ? of->n : p->n_workers, found = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t worker = of ? of->workers[i] : i;
        if (!p->is_free[worker])
            continue;
        if (worker == near)
            return near;
        found = worker < found ? worker : found;
    }
    return found;
}

/* Begins one task; false: none is ready that a free worker may run. */
static bool begin_one(struct planner *p, uint64_t now) {
    ito_graph *g = p->g;
    uint32_t best = UINT32_MAX, from = 0;
    for (uint32_t group = 0; group <= g->n_groups; group++) {
        const struct heap *h = &p->ready[group];
        if (h->n && h->rank[0] < best && free_worker(p, group, UINT32_MAX) != UINT32_MAX) {
            best = h->rank[0];
            from = group;
        }
    }
    if (best == UINT32_MAX)
        return false;
    uint32_t task = p->task_of[pop(&p->ready[from])];
    uint32_t worker = free_worker(p, from, p->near[task]);
    p->is_free[worker] = false;
    g->start[task] = now;
    g->list_of[task] = worker;
    g->place[task] = g->lists[worker].n_tasks++;
    g->planned[p->n_planned++] = task;
    push_running(p, (struct running){now + g->cost[task], worker, task});
    return true;
}

static void end_one(struct planner *p) {
    const ito_graph *g = p->g;
    struct running done = pop_running(p);
    p->is_free[done.worker] = true;
    const struct ito__graph_task *t = &g->tasks[done.task];
    for (uint32_t k = 0; k < t->n_followers; k++) {
        uint32_t next = g->followers[t->followers + k];
        p->near[next] = done.worker;
        if (--p->missing[next] == 0)
            push(&p->ready[g->tasks[next].group], p->rank_of[next]);
    }
}

struct ranked {
    uint64_t level;
    uint32_t n_followers, task;
};
static int compare_ranks(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->level != y->level)
        return x->level > y->level ? -1 : 1;
    if (x->n_followers != y->n_followers)
        return x->n_followers > y->n_followers ? -1 : 1;
    return x->task < y->task ? -1 : 1;
}
static int rank_tasks(struct planner *p) {
    const ito_graph *g = p->g;
    struct ranked *ranked = malloc(((size_t)g->n_tasks + 1) * sizeof *ranked);
    if (ranked == NULL)
        return ENOMEM;
    for (uint32_t i = 0; i < g->n_tasks; i++)
        ranked[i] = (struct ranked){g->level[i], g->tasks[i].n_followers, i};
    qsort(ranked, g->n_tasks, sizeof *ranked, compare_ranks);
    for (uint32_t i = 0; i < g->n_tasks; i++) {
        p->task_of[i] = ranked[i].task;
        p->rank_of[ranked[i].task] = i;
    }
    free(ranked);
    return 0;
}

/* Heaps as large as their groups, all empty but for the tasks that wait for nothing. */
static void start_heaps(struct planner *p) {
    const ito_graph *g = p->g;
    for (uint32_t i = 0; i < g->n_tasks; i++)
        p->ready[g->tasks[i].group].n++;
    uint32_t *room = p->room;
    for (uint32_t group = 0; group <= g->n_groups; group++) {
        p->ready[group].rank = room;
        room += p->ready[group].n;
        p->ready[group].n = 0;
    }
    for (uint32_t i = 0; i < g->n_tasks; i++) {
        p->missing[i] = g->tasks[i].n_before;
        p->near[i] = UINT32_MAX;
        if (p->missing[i] == 0)
            push(&p->ready[g->tasks[i].group], p->rank_of[i]);
    }
}

static int schedule(ito_graph *g, uint32_t n_workers) {
    size_t n = (size_t)g->n_tasks + 1;
    struct planner p = {.g = g, .n_workers = n_workers};
    p.task_of = malloc(5 * n * sizeof(uint32_t));
    p.ready = calloc((size_t)g->n_groups + 1, sizeof *p.ready);
    p.is_free = malloc(n_workers * sizeof *p.is_free);
    p.running = malloc(n_workers * sizeof *p.running);
    int r = ENOMEM;
    if (p.task_of && p.ready && p.is_free && p.running) {
        p.rank_of = p.task_of + n;
        p.near = p.rank_of + n;
        p.missing = p.near + n;
        p.room = p.missing + n;
        r = rank_tasks(&p);
    }
    if (r == 0) {
        start_heaps(&p);
        for (uint32_t i = 0; i < n_workers; i++)
            p.is_free[i] = true;
        for (uint64_t now = 0;;) {
            while (begin_one(&p, now))
                ;
            if (p.n_running == 0)
                break;
            now = p.running[0].end;
            while (p.n_running && p.running[0].end == now) /* all that end now, before the next choice */
                end_one(&p);
        }
    }
    free(p.task_of);
    free(p.ready);
    free(p.is_free);
    free(p.running);
    return r;
}

/* -- lists and waits ----------------------------------------------------------------------------------------------- */

static void fill_lists(ito_graph *g) {
    uint32_t at = 0;
    for (uint32_t l = 0; l < g->n_lists; l++) {
        g->lists[l].tasks = g->listed + at;
        at += g->lists[l].n_tasks;
    }
    for (uint32_t i = 0; i < g->n_tasks; i++)
        g->lists[g->list_of[i]].tasks[g->place[i]] = i;
}

/* The waits of one list, counted, and written where there is room. `known`: how many tasks of each list have been
 * waited for; all 0. */
static uint32_t waits_of(ito_graph *g, struct ito__graph_list *list, uint32_t *known, struct ito__graph_wait *out) {
    uint32_t n = 0;
    for (uint32_t at = 0; at < list->n_tasks; at++) {
        uint32_t task = list->tasks[at], first = n;
        const uint32_t *before = g->before + g->about[task].before;
        for (uint32_t k = 0; k < g->tasks[task].n_before; k++) {
            uint32_t other = g->list_of[before[k]], want = g->place[before[k]] + 1;
            if (&g->lists[other] == list || want <= known[other])
                continue;
            known[other] = want;
            if (out == NULL) {
                n++; /* at most: the same list may come again */
                continue;
            }
            uint32_t w = first;
            while (w < n && out[w].list != other)
                w++;
            out[w] = (struct ito__graph_wait){at, other, want};
            n += w == n;
        }
    }
    return n;
}

static int fill_waits(ito_graph *g) {
    uint32_t *known = calloc(g->n_lists, sizeof *known);
    if (known == NULL)
        return ENOMEM;
    size_t n = 0;
    for (uint32_t l = 0; l < g->n_lists; l++) {
        memset(known, 0, g->n_lists * sizeof *known);
        n += waits_of(g, &g->lists[l], known, NULL);
    }
    g->waits = malloc((n + 1) * sizeof *g->waits);
    struct ito__graph_wait *at = g->waits;
    for (uint32_t l = 0; at && l < g->n_lists; l++) {
        struct ito__graph_list *list = &g->lists[l];
        memset(known, 0, g->n_lists * sizeof *known);
        list->waits = at;
        list->n_waits = waits_of(g, list, known, at);
        for (uint32_t w = 0; w < list->n_waits; w++)
            g->is_waited[g->lists[at[w].list].tasks[at[w].count - 1]] = 1;
        at += list->n_waits;
        if (list->n_tasks)
            g->is_waited[list->tasks[list->n_tasks - 1]] = 1;
    }
    free(known);
    return g->waits ? 0 : ENOMEM;
}

int ito__graph_plan(ito_graph *g, uint32_t n_workers) {
    if (g->n_lists == n_workers)
        return 0;
    ito__graph_forget_plan(g);
    size_t n = (size_t)g->n_tasks + 1; /* never 0 bytes */
    void *lists = NULL;
    if (posix_memalign(&lists, ITO__LINE, n_workers * sizeof *g->lists) == 0)
        memset(lists, 0, n_workers * sizeof *g->lists);
    g->lists = lists;
    g->listed = malloc(n * sizeof *g->listed);
    g->planned = malloc(n * sizeof *g->planned);
    g->list_of = malloc(n * sizeof *g->list_of);
    g->place = malloc(n * sizeof *g->place);
    g->is_waited = calloc(n, sizeof *g->is_waited);
    g->start = malloc(n * sizeof *g->start);
    int r = ENOMEM;
    if (g->lists && g->listed && g->planned && g->list_of && g->place && g->is_waited && g->start) {
        g->n_lists = n_workers;
        for (uint32_t l = 0; l < n_workers; l++) {
            g->lists[l].graph = g;
            g->lists[l].worker = l;
        }
        r = schedule(g, n_workers);
    }
    if (r == 0) {
        fill_lists(g);
        r = fill_waits(g);
    }
    if (r)
        ito__graph_forget_plan(g);
    return r;
}
