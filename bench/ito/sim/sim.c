/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sim.c - ito's scheduler as a discrete-event simulation, for numbers of workers that no machine at hand has.
 *
 * Each worker takes one step at a time (a leaf with the creations that lead to it, a round of a search, a membarrier);
 * the step's effect happens when it begins, and the worker's next step comes when its cost is over. The decisions are
 * those of threads/src/core/{deque,schedule,park}.c. What costs: a cache line that another CPU wrote since (a reader pays, and
 * the owner when it writes next), counters that all change (one after another), a membarrier (the caller, and each CPU
 * that it interrupts), waking. CPUs may be fewer than workers: then they take turns of QUANTUM.
 *
 * Not simulated: memory beyond these lines (caches shared by some CPUs, sockets, bandwidth), joins that wait, blocking,
 * the kernel's choice of a CPU, CPUs that become slower when more of them run, or sleep deeper. So it compares ways to
 * schedule; its times are no predictions.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define QUANTUM 3e6
#define SPIN 20e3      /* how long a worker searches, at least */
#define BATCH 16       /* limits that one membarrier may stand for */
#define SLOTS 64       /* of a deque; a tree of 2^32 leaves needs 32 */
#define LOCKED_NS 15.0 /* a locked instruction in a line that the CPU has */

enum state { RUN, LEAF, SEARCH, FORCED, FORCED_LOOK, PARK_LOOK, PARK_SLEEP, PARKED };
struct worker {
    enum state state;
    unsigned range, top, split, bottom, slots[SLOTS];
    bool serial, ask, hot_shared, listed, counted, raised;
    unsigned version; /* of the line that thieves read */
    double locked_until, search_start, got_cpu, owed;
    unsigned round, first, tried, victims[BATCH], n_victims;
};
struct event {
    double at;
    unsigned worker;
};

static struct {
    const struct costs *c;
    const struct workload *load;
    const struct policy *policy;
    struct worker *workers;
    unsigned *seen; /* [n][n]: the version of a victim's line that a worker saw last */
    struct event *heap;
    unsigned n, n_events, *parked, n_parked, *ready, first_ready, n_ready, free_cpus;
    unsigned n_searching, phase, leaves_left;
    double now, barrier_took, count_line, list_line; /* the lines of n_searching and of the list: busy until */
    uint64_t random;
    bool over;
    struct counts counts;
} s;

/* ---- time and CPUs ---------------------------------------------------------------------------------------------- */

static bool before(struct event a, struct event b) {
    return a.at < b.at || (a.at == b.at && a.worker < b.worker);
}
static void schedule(unsigned worker, double at) {
    unsigned i = s.n_events++;
    struct event e = {at, worker};
    for (; i > 0 && before(e, s.heap[(i - 1) / 2]); i = (i - 1) / 2)
        s.heap[i] = s.heap[(i - 1) / 2];
    s.heap[i] = e;
}
static struct event next_event(void) {
    struct event first = s.heap[0], last = s.heap[--s.n_events];
    unsigned i = 0;
    for (unsigned child; (child = 2 * i + 1) < s.n_events; i = child) {
        child += child + 1 < s.n_events && before(s.heap[child + 1], s.heap[child]);
        if (!before(s.heap[child], last))
            break;
        s.heap[i] = s.heap[child];
    }
    s.heap[i] = last;
    return first;
}
static void get_cpu(unsigned worker, double at) {
    s.workers[worker].got_cpu = at;
    schedule(worker, at);
}
static void queue_for_cpu(unsigned worker) {
    s.ready[(s.first_ready + s.n_ready++) % s.n] = worker;
}
static void leave_cpu(void) {
    if (s.n_ready == 0) {
        s.free_cpus++;
        return;
    }
    unsigned next = s.ready[s.first_ready];
    s.first_ready = (s.first_ready + 1) % s.n;
    s.n_ready--;
    get_cpu(next, s.now);
}

/* ---- what things cost -------------------------------------------------------------------------------------------- */

/* A read-modify-write of a line that all write. */
static double shared_write(double *busy_until, double after) {
    double start = s.now + after, wait = *busy_until > start ? *busy_until - start : 0;
    *busy_until = start + wait + s.c->line;
    return wait + s.c->line;
}
static double look(unsigned me, unsigned victim) {
    unsigned *seen = &s.seen[(size_t)me * s.n + victim], version = s.workers[victim].version;
    bool old = *seen != version;
    *seen = version;
    return old ? s.c->line : 1;
}
static double membarrier(unsigned me) {
    unsigned others = 0;
    for (unsigned i = 0; i < s.n_events; i++) { /* whoever has a CPU has an event to come */
        struct worker *w = &s.workers[s.heap[i].worker];
        if (s.heap[i].worker != me) {
            w->owed += s.c->interrupted;
            others++;
        }
    }
    s.counts.membarriers++;
    s.barrier_took = s.c->membarrier + others * s.c->per_cpu;
    return s.barrier_took;
}
static unsigned random_below(unsigned n) {
    s.random ^= s.random << 13;
    s.random ^= s.random >> 7;
    s.random ^= s.random << 17;
    return (unsigned)((s.random >> 32) * n >> 32);
}

/* ---- parked workers ---------------------------------------------------------------------------------------------- */

static void unlist(unsigned worker) {
    for (unsigned i = 0; i < s.n_parked; i++) {
        if (s.parked[i] == worker) {
            s.parked[i] = s.parked[--s.n_parked];
            break;
        }
    }
    s.workers[worker].listed = false;
    s.workers[worker].counted = true;
    s.n_searching++;
}
/* Wakes the worker that parked last; what that costs. */
static double wake_one(void) {
    unsigned woken = s.parked[s.n_parked - 1];
    struct worker *w = &s.workers[woken];
    unlist(woken);
    s.counts.wakes++;
    double cost = shared_write(&s.list_line, 0) + s.c->wake;
    if (w->state == PARKED) { /* else it is on its way to sleep, and will not */
        w->state = SEARCH;
        w->search_start = s.now + s.c->latency;
        w->round = 0;
        if (s.free_cpus > 0) {
            s.free_cpus--;
            get_cpu(woken, s.now + s.c->latency);
        } else {
            queue_for_cpu(woken);
        }
    }
    return cost;
}
/* Work was published: what it costs to tell of it. */
static double notify(void) {
    return s.n_parked > 0 && s.n_searching == 0 ? wake_one() : LOCKED_NS;
}
/* `more`: there was more where this worker found something. */
static double search_end(struct worker *w, bool more) {
    double cost = shared_write(&s.count_line, 0);
    w->counted = false;
    if (--s.n_searching == 0)
        cost += notify();
    if (more && s.policy->two_by_two && s.n_parked > 0 && 2 * s.n_searching < s.n - s.n_parked)
        cost += wake_one();
    return cost;
}
static double ask_all(unsigned me) {
    double cost = 0;
    for (unsigned i = 0; i < s.n; i++) {
        struct worker *v = &s.workers[i];
        if (i == me)
            continue;
        if (s.policy->ask_is_hot || !v->ask) { /* a line that its owner writes all the time; or two writes */
            cost += s.c->line;
            v->hot_shared = true;
        } else {
            cost += 1;
        }
        v->ask = true;
    }
    return cost;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static double push(struct worker *w, unsigned range) {
    double cost = s.c->task + (w->hot_shared ? s.c->line : 0);
    w->hot_shared = false;
    w->slots[w->bottom++] = range;
    if (w->ask) {
        w->ask = false;
        w->split += (w->bottom - w->split + 1) / 2;
        w->version++;
        cost += 2 * LOCKED_NS + s.c->line + notify();
    }
    return cost;
}
/* The creations that lead to the next leaf, and the leaf. */
static double expand(struct worker *w) {
    double cost = 0;
    if (s.load->flat) {
        if (w->range > 1)
            cost += push(w, w->range - 1);
    } else {
        for (; w->range > 1; w->range /= 2)
            cost += push(w, w->range - w->range / 2);
    }
    w->state = LEAF;
    return cost + s.load->leaf;
}
static double begin_search(struct worker *w, double cost) {
    if (s.policy->capped && s.n_searching > 0 && 2 * s.n_searching >= s.n - s.n_parked) {
        w->state = FORCED; /* parks at once: no round, nobody tried */
        w->tried = s.n;
        return cost;
    }
    s.n_searching++;
    w->counted = true;
    w->state = SEARCH;
    w->search_start = s.now + cost;
    w->round = 0;
    return cost + shared_write(&s.count_line, cost);
}
/* The next of its own, or a search. */
static double pop(struct worker *w) {
    double cost = 0;
    if (w->bottom > 0 && (w->bottom - 1 < w->split + w->raised)) { /* the slow pop, under the lock */
        if (w->locked_until > s.now)
            return w->locked_until - s.now; /* and tries again */
        cost += 2 * LOCKED_NS + s.c->line;
        w->version++;
        if (w->bottom - 1 < w->split) {
            if (w->bottom - 1 >= w->top)
                w->split = w->top + (w->bottom - 1 - w->top) / 2;
            else
                w->top = w->split = w->bottom = 0;
        }
    }
    if (w->bottom == 0)
        return begin_search(w, cost);
    w->range = w->slots[--w->bottom];
    w->state = RUN;
    return cost + (w->hot_shared ? s.c->line : 0);
}
static double leaf_done(struct worker *w) {
    if (--s.leaves_left > 0)
        return pop(w);
    if (++s.phase == s.load->phases) {
        s.over = true;
        return 0;
    }
    w->serial = true;
    w->state = RUN;
    return s.load->serial;
}
static double run(struct worker *w) {
    if (w->serial) {
        w->serial = false;
        w->range = s.leaves_left = s.load->leaves;
    }
    return expand(w);
}

/* ---- stealing ---------------------------------------------------------------------------------------------------- */

/* The oldest slot of the victim, or half of the public ones, the oldest first. */
static void take(struct worker *w, struct worker *v) {
    unsigned n = v->split - v->top;
    n = s.policy->steals_half && n > 1 ? (n + 1) / 2 : 1;
    w->range = v->slots[v->top++];
    w->top = w->split = w->bottom = 0;
    for (; n > 1; n--)
        w->slots[w->bottom++] = v->slots[v->top++];
    if (v->split < v->top)
        v->split = v->top;
    v->version++;
    w->state = RUN;
    s.counts.steals++;
}
static double search_round(unsigned me) {
    struct worker *w = &s.workers[me];
    double cost = 32 * s.c->pause + 25;
    unsigned first = random_below(s.n);
    for (unsigned i = 0; i < s.n; i++) {
        unsigned victim = (first + i) % s.n;
        struct worker *v = &s.workers[victim];
        if (v == w)
            continue;
        cost += look(me, victim);
        if (v->top < v->split && v->locked_until <= s.now) {
            cost += 3 * s.c->line;
            v->locked_until = s.now + cost;
            take(w, v);
            return cost + search_end(w, v->top < v->split);
        }
    }
    if (s.now - w->search_start >= (!s.policy->impatient && s.barrier_took > SPIN ? s.barrier_took : SPIN)) {
        w->state = FORCED;
        w->tried = 0;
        w->first = first;
    } else if (w->round++ % 8 == 0) {
        cost += ask_all(me);
    }
    return cost;
}
static bool has_private(const struct worker *v) {
    return v->bottom > v->split;
}
static double park(unsigned me, double cost) {
    struct worker *w = &s.workers[me];
    cost += shared_write(&s.list_line, cost) + LOCKED_NS;
    s.parked[s.n_parked++] = me;
    w->listed = true;
    bool last = false;
    if (w->counted) {
        cost += shared_write(&s.count_line, cost);
        w->counted = false;
        last = --s.n_searching == 0;
    }
    w->state = last || s.policy->all_look ? PARK_LOOK : PARK_SLEEP;
    return w->state == PARK_LOOK ? cost + ask_all(me) + membarrier(me) : cost;
}
/* Raises the limits of one or of several victims that have something private, and has a membarrier. */
static double force(unsigned me) {
    struct worker *w = &s.workers[me];
    double cost = 0;
    w->n_victims = 0;
    while (w->tried < s.n && w->n_victims < (s.policy->one_barrier ? BATCH : 1)) {
        unsigned victim = (w->first + w->tried++) % s.n;
        struct worker *v = &s.workers[victim];
        if (v == w)
            continue;
        bool full = has_private(v);
        cost += s.c->line + (full || s.policy->locks_empty ? s.c->line : 0);
        v->hot_shared = true;
        if (full && v->locked_until <= s.now) {
            v->raised = true;
            w->victims[w->n_victims++] = victim;
        }
    }
    if (w->n_victims == 0)
        return park(me, cost);
    cost += membarrier(me);
    for (unsigned i = 0; i < w->n_victims; i++)
        s.workers[w->victims[i]].locked_until = s.now + cost;
    w->state = FORCED_LOOK;
    return cost;
}
static double force_look(unsigned me) {
    struct worker *w = &s.workers[me];
    w->state = FORCED; /* the next victims, if it got nothing */
    for (unsigned i = 0; i < w->n_victims; i++) {
        struct worker *v = &s.workers[w->victims[i]];
        v->raised = false;
        v->locked_until = s.now;
        if (w->state == FORCED && has_private(v)) {
            v->split++;
            take(w, v);
            s.counts.forced++;
        }
    }
    return w->state == RUN ? 2 * s.c->line + search_end(w, false) : s.c->line;
}

/* ---- parking ----------------------------------------------------------------------------------------------------- */

static double search_again(struct worker *w) {
    w->state = SEARCH;
    w->search_start = s.now;
    w->round = 0;
    return LOCKED_NS;
}
static double park_look(unsigned me) {
    struct worker *w = &s.workers[me];
    double cost = 0;
    bool work = false;
    for (unsigned i = 0; i < s.n && !work; i++) {
        struct worker *v = &s.workers[i];
        if (v != w) {
            cost += look(me, i) + s.c->line;
            v->hot_shared = true;
            work = v->bottom > v->top;
        }
    }
    if (!work) {
        w->state = PARK_SLEEP;
        return cost;
    }
    if (w->listed) {
        cost += shared_write(&s.list_line, cost);
        unlist(me);
    }
    search_again(w);
    return cost;
}

/* The worker's next step; negative: it sleeps. */
static double step(unsigned me) {
    struct worker *w = &s.workers[me];
    switch (w->state) {
    case RUN:
        return run(w);
    case LEAF:
        return leaf_done(w);
    case SEARCH:
        return search_round(me);
    case FORCED:
        return force(me);
    case FORCED_LOOK:
        return force_look(me);
    case PARK_LOOK:
        return park_look(me);
    case PARK_SLEEP:
        if (!w->listed)
            return search_again(w);
        w->state = PARKED;
        s.counts.parks++;
        return -1;
    case PARKED:
        break;
    }
    abort();
}

struct counts simulate(const struct costs *c, const struct workload *load, const struct policy *policy,
                       unsigned workers, unsigned cpus, uint64_t seed) {
    memset(&s, 0, sizeof s);
    s.c = c, s.load = load, s.policy = policy, s.n = workers, s.free_cpus = cpus - 1;
    s.random = seed;
    s.workers = calloc(workers, sizeof *s.workers);
    s.seen = calloc((size_t)workers * workers, sizeof *s.seen);
    s.heap = calloc(workers, sizeof *s.heap);
    s.parked = calloc(workers, sizeof *s.parked);
    s.ready = calloc(workers, sizeof *s.ready);
    if (!s.workers || !s.seen || !s.heap || !s.parked || !s.ready)
        abort();
    for (unsigned i = 1; i < workers; i++) {
        s.workers[i].state = PARKED;
        s.workers[i].listed = true;
        s.parked[s.n_parked++] = i;
        s.workers[i].ask = true;
    }
    s.workers[0].serial = s.workers[0].ask = true;
    schedule(0, load->serial);
    s.counts.cpu = load->serial;
    while (!s.over) {
        struct event e = next_event();
        struct worker *w = &s.workers[e.worker];
        s.now = e.at;
        if (w->owed > 0) {
            s.counts.cpu += w->owed;
            schedule(e.worker, s.now + w->owed);
            w->owed = 0;
            continue;
        }
        if (s.n_ready > 0 && s.now - w->got_cpu > QUANTUM) {
            queue_for_cpu(e.worker);
            leave_cpu();
            continue;
        }
        double cost = step(e.worker);
        if (cost < 0) {
            leave_cpu();
            continue;
        }
        s.counts.cpu += cost;
        schedule(e.worker, s.now + cost);
    }
    s.counts.wall = s.now;
    free(s.workers), free(s.seen), free(s.heap), free(s.parked), free(s.ready);
    return s.counts;
}
