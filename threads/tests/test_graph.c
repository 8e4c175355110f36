/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Graphs of tasks: every task runs once a run, after all that it waits for, and sees what they did (plain stores, so that
 * ThreadSanitizer tells when it does not); groups are kept; plans are schedules; mistakes are told.
 */
#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

static const uint32_t both[] = {ITO_GRAPH_DYNAMIC, ITO_GRAPH_STATIC};

/* -- random graphs ------------------------------------------------------------------------------------------------- */

struct job {
    struct random_graph *of;
    uint32_t number, n_before;
    uint32_t *before; /* [n_before] */
    uint64_t cost_ns;
    int runs; /* plain: so often has it run */
};
struct random_graph {
    ito_graph *graph;
    struct job *jobs; /* [n] */
    uint32_t n;
    int round; /* of runs, from 1 */
    bool with_delays;
};

static void job_main(void *arg) {
    struct job *j = arg;
    const struct random_graph *g = j->of;
    CHECK_EQ(j->runs, g->round - 1);
    for (uint32_t i = 0; i < j->n_before; i++)
        CHECK_EQ(g->jobs[j->before[i]].runs, g->round);
    uint64_t state = random_of(j->number);
    if (g->with_delays)
        delay(&state);
    j->runs++;
}

/* Each task waits for some of those before it in a random order of all; of one in 8 graphs' tasks many times for the
 * same. */
static struct random_graph random_graph(uint64_t *random, uint32_t most) {
    struct random_graph g = {.n = 1 + (uint32_t)(check_random(random) % most), .with_delays = check_random(random) % 2};
    g.jobs = calloc(g.n, sizeof *g.jobs);
    uint32_t *place = calloc(g.n, sizeof *place), density = (uint32_t)(check_random(random) % 5);
    bool twice = check_random(random) % 8 == 0;
    CHECK_EQ(ito_graph_create(&g.graph), 0);
    for (uint32_t i = 0; i < g.n; i++) {
        uint32_t k = (uint32_t)(check_random(random) % (i + 1));
        place[i] = place[k];
        place[k] = i;
    }
    for (uint32_t i = 0; i < g.n; i++) {
        ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
        struct job *j = &g.jobs[i];
        attr.cost_ns = check_random(random) % 4 ? 1 + check_random(random) % 1000 : 0;
        *j = (struct job){.number = i, .cost_ns = attr.cost_ns};
        uint32_t out;
        CHECK_EQ(ito_graph_task(g.graph, &attr, job_main, j, &out), 0);
        CHECK_EQ(out, i);
    }
    for (uint32_t at = 1; at < g.n; at++) {
        struct job *j = &g.jobs[place[at]];
        j->n_before = (uint32_t)(check_random(random) % (density + 1));
        j->before = calloc(j->n_before + 1, sizeof *j->before);
        for (uint32_t k = 0; k < j->n_before; k++) {
            j->before[k] = place[twice && k ? 0 : check_random(random) % at];
            CHECK_EQ(ito_graph_edge(g.graph, j->before[k], j->number), 0);
        }
    }
    free(place);
    return g;
}
static void free_graph(struct random_graph *g) {
    CHECK_EQ(ito_graph_destroy(g->graph), 0);
    for (uint32_t i = 0; i < g->n; i++)
        free(g->jobs[i].before);
    free(g->jobs);
}

static void run_rounds(struct random_graph *g, int rounds) {
    for (int i = 0; i < rounds; i++) {
        for (uint32_t k = 0; k < g->n; k++)
            g->jobs[k].of = g;
        g->round++;
        CHECK_EQ(ito_graph_run(g->graph, both[g->round % 2]), 0);
        for (uint32_t k = 0; k < g->n; k++)
            CHECK_EQ(g->jobs[k].runs, g->round);
    }
}

static void random_graphs_keep_the_order(void) {
    uint64_t random = check_seed;
    for (int i = check_scale(300); i > 0; i--) {
        struct random_graph g = random_graph(&random, i % 10 ? 60 : 600);
        run_rounds(&g, 4);
        free_graph(&g);
    }
}

/* Several graphs run at once, also from inside a task of another. */
static void *run_one(void *arg) {
    uint64_t random = random_of((uint64_t)((struct member *)arg)->index);
    struct random_graph g = random_graph(&random, 200);
    run_rounds(&g, 6);
    free_graph(&g);
    return NULL;
}
static void run_inside(void *arg) {
    struct member m = {.index = *(int *)arg};
    run_one(&m);
}
static void graphs_run_beside_each_other(void) {
    team_run(8, run_one, NULL);
    ito_graph *g;
    CHECK_EQ(ito_graph_create(&g), 0);
    int numbers[20];
    for (int i = 0; i < 20; i++) {
        numbers[i] = i;
        CHECK_EQ(ito_graph_task(g, NULL, run_inside, &numbers[i], NULL), 0);
    }
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), 0);
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_STATIC), 0);
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* -- shapes -------------------------------------------------------------------------------------------------------- */

static void count(void *arg) {
    __atomic_fetch_add((long *)arg, 1, __ATOMIC_RELAXED);
}

/* A chain with a leaf at each link, and as many tasks without any edge: neither may need much stack. */
static void deep_and_wide_graphs_end(void) {
    long n = 0, links = check_scale(100000);
    ito_graph *g;
    CHECK_EQ(ito_graph_create(&g), 0);
    uint32_t link, leaf, last = UINT32_MAX;
    for (long i = 0; i < links; i++) {
        CHECK_EQ(ito_graph_task(g, NULL, count, &n, &link), 0);
        CHECK_EQ(ito_graph_task(g, NULL, count, &n, &leaf), 0);
        CHECK_EQ(ito_graph_edge(g, link, leaf), 0);
        if (last != UINT32_MAX)
            CHECK_EQ(ito_graph_edge(g, last, link), 0);
        last = link;
    }
    for (long i = 0; i < links; i++)
        CHECK_EQ(ito_graph_task(g, NULL, count, &n, NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(ito_graph_run(g, both[i]), 0);
        CHECK_EQ(n, 3 * links * (i + 1));
    }
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* Two tasks without an edge wait for each other in turns: whatever is ready has to be found while a task is blocked. */
static struct { ito_future first, second; } turn;
static void wait_then_set(void *arg) {
    (void)arg;
    CHECK_EQ(ito_future_get(&turn.first, NULL), 0);
    CHECK_EQ(ito_future_set(&turn.second, NULL), 0);
}
static void set_then_wait(void *arg) {
    (void)arg;
    CHECK_EQ(ito_future_set(&turn.first, NULL), 0);
    CHECK_EQ(ito_future_get(&turn.second, NULL), 0);
}
static void nothing(void *arg) {
    (void)arg;
}
static void a_blocked_task_holds_up_no_other(void) {
    ito_graph *g;
    uint32_t root, a, b;
    CHECK_EQ(ito_graph_create(&g), 0);
    CHECK_EQ(ito_graph_task(g, NULL, nothing, NULL, &root), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(ito_graph_task(g, NULL, nothing, NULL, NULL), 0);
    CHECK_EQ(ito_graph_task(g, NULL, wait_then_set, NULL, &a), 0);
    CHECK_EQ(ito_graph_task(g, NULL, set_then_wait, NULL, &b), 0);
    CHECK_EQ(ito_graph_edge(g, root, a), 0);
    CHECK_EQ(ito_graph_edge(g, root, b), 0);
    for (int i = 0; i < 10; i++) {
        ito_future_init(&turn.first);
        ito_future_init(&turn.second);
        CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), 0);
    }
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* A run ends after the last access to the graph: it can be destroyed at once. */
static void a_graph_may_be_destroyed_after_its_run(void) {
    for (int i = check_scale(3000); i > 0; i--) {
        long n = 0;
        ito_graph *g;
        CHECK_EQ(ito_graph_create(&g), 0);
        for (uint32_t k = 0; k < 6; k++) {
            CHECK_EQ(ito_graph_task(g, NULL, count, &n, NULL), 0);
            if (k % 3)
                CHECK_EQ(ito_graph_edge(g, k % 2, k), k == 1 ? EINVAL : 0);
        }
        CHECK_EQ(ito_graph_run(g, both[i % 2]), 0);
        CHECK_EQ(n, 6);
        CHECK_EQ(ito_graph_destroy(g), 0);
    }
}

/* -- groups -------------------------------------------------------------------------------------------------------- */

struct grouped {
    const uint32_t *workers;
    size_t n;
    long runs;
};
static void in_group(void *arg) {
    struct grouped *of = arg;
    bool is_in = of->n == 0;
    for (size_t i = 0; i < of->n; i++)
        is_in |= of->workers[i] == ito_worker_index();
    CHECK(is_in);
    count(&of->runs);
}
static void tasks_stay_in_their_groups(void) {
    uint32_t n = ito_n_workers(), all[64], half = n > 1 ? n / 2 : 1;
    for (uint32_t i = 0; i < n; i++)
        all[i] = i;
    struct grouped groups[] = {
        {all, 0, 0}, {all, n, 0}, {all, half, 0}, {all + n - half, half, 0}, {all + n - 1, 1, 0}};
    ito_graph *g;
    CHECK_EQ(ito_graph_create(&g), 0);
    for (uint32_t i = 1, out; i < 5; i++) {
        CHECK_EQ(ito_graph_group(g, groups[i].workers, groups[i].n, &out), 0);
        CHECK_EQ(out, i);
    }
    uint64_t random = check_seed;
    enum { TASKS = 300 };
    for (uint32_t i = 0; i < TASKS; i++) {
        ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
        attr.group = (uint32_t)(check_random(&random) % 5);
        CHECK_EQ(ito_graph_task(g, &attr, in_group, &groups[attr.group], NULL), 0);
        for (int k = 0; i > 0 && k < 2; k++)
            CHECK_EQ(ito_graph_edge(g, (uint32_t)(check_random(&random) % i), i), 0);
    }
    for (int i = 0; i < 10; i++)
        CHECK_EQ(ito_graph_run(g, both[i % 2]), 0);
    long runs = 0;
    for (int i = 0; i < 5; i++)
        runs += groups[i].runs;
    CHECK_EQ(runs, 10 * TASKS);
    /* A worker that is not there. */
    uint32_t none;
    CHECK_EQ(ito_graph_group(g, &n, 1, &none), 0);
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), EINVAL);
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* The first task keeps its worker until all others but one have run: the group's other worker has to take them. The one
 * that was sent last may have been sent to the first worker. */
enum { OTHERS = 10 };
static long others_run;
static void hold_worker(void *arg) {
    (void)arg;
    while (__atomic_load_n(&others_run, __ATOMIC_RELAXED) < OTHERS - 1)
        sched_yield();
}
static void a_busy_worker_holds_up_no_task_of_its_group(void) {
    uint32_t workers[] = {1, 0, 1, 0, 1}, group, inner, first;
    if (ito_n_workers() < 2)
        return; /* nobody else to take them */
    ito_graph *g;
    CHECK_EQ(ito_graph_create(&g), 0);
    CHECK_EQ(ito_graph_group(g, workers, 5, &group), 0);
    CHECK_EQ(ito_graph_group(g, workers, 1, &inner), 0);
    ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
    attr.group = inner; /* all become ready on worker 1, and most have to leave it */
    CHECK_EQ(ito_graph_task(g, &attr, nothing, NULL, &first), 0);
    attr.group = group;
    for (uint32_t i = 0; i <= OTHERS; i++) {
        CHECK_EQ(ito_graph_task(g, &attr, i ? count : hold_worker, &others_run, NULL), 0);
        CHECK_EQ(ito_graph_edge(g, first, i + 1), 0);
    }
    for (int i = 0; i < 20; i++) {
        others_run = 0;
        CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), 0);
    }
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* -- plans --------------------------------------------------------------------------------------------------------- */

/* No worker has two tasks at once, no task starts early, none waits while a worker is free; so it is at most 2 - 1/P
 * times the larger of span and work / P (R. Graham 1969). */
static void check_plan(const struct random_graph *g, uint32_t workers) {
    struct ito_graph_planned *plan = calloc(g->n, sizeof *plan);
    uint64_t makespan, last = 0, work = 0, *free_at = calloc(workers, sizeof *free_at), sum = 0, known = 0;
    CHECK_EQ(ito_graph_plan(g->graph, workers, plan, &makespan), 0);
    for (uint32_t i = 0; i < g->n; i++) {
        sum += g->jobs[i].cost_ns;
        known += g->jobs[i].cost_ns > 0;
    }
    uint64_t mean = known && sum / known ? sum / known : 1;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct job *j = &g->jobs[i];
        CHECK_EQ(plan[i].end_ns - plan[i].start_ns, j->cost_ns ? j->cost_ns : mean);
        CHECK(plan[i].worker < workers);
        for (uint32_t k = 0; k < j->n_before; k++)
            CHECK(plan[j->before[k]].end_ns <= plan[i].start_ns);
        for (uint32_t k = 0; k < i; k++)
            CHECK(plan[k].worker != plan[i].worker || plan[k].end_ns <= plan[i].start_ns ||
                  plan[i].end_ns <= plan[k].start_ns);
        last = plan[i].end_ns > last ? plan[i].end_ns : last;
        work += plan[i].end_ns - plan[i].start_ns;
    }
    CHECK_EQ(makespan, last);
    uint64_t span = 0; /* with a worker for each task nothing waits for one */
    CHECK_EQ(ito_graph_plan(g->graph, g->n, NULL, &span), 0);
    CHECK(makespan >= span && makespan * workers >= work);
    CHECK(makespan <= work / workers + 1 + span * (workers - 1) / workers + 1);
    free(free_at);
    free(plan);
}
static void plans_are_schedules(void) {
    uint64_t random = check_seed;
    for (int i = check_scale(300); i > 0; i--) {
        struct random_graph g = random_graph(&random, 80);
        check_plan(&g, 1 + (uint32_t)(check_random(&random) % 9));
        free_graph(&g);
    }
    /* Three tasks of 3 after one of 1, and one of 7 beside them: the long one first, or two workers take 10. */
    ito_graph *g;
    uint64_t makespan;
    CHECK_EQ(ito_graph_create(&g), 0);
    for (int i = 0; i < 5; i++) {
        ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
        attr.cost_ns = i == 0 ? 1 : i == 4 ? 7 : 3;
        CHECK_EQ(ito_graph_task(g, &attr, nothing, NULL, NULL), 0);
        if (i % 4)
            CHECK_EQ(ito_graph_edge(g, 0, (uint32_t)i), 0);
    }
    CHECK_EQ(ito_graph_plan(g, 2, NULL, &makespan), 0);
    CHECK_EQ(makespan, 10);
    CHECK_EQ(ito_graph_plan(g, 3, NULL, &makespan), 0);
    CHECK_EQ(makespan, 7);
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* -- costs --------------------------------------------------------------------------------------------------------- */

static char path[64];
static void write_file(const char *text, size_t n) {
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(text, 1, n, file) == n && fclose(file) == 0);
}
static void costs_come_from_a_recording(void) {
    snprintf(path, sizeof path, "test_graph.%d.costs", (int)getpid());
    ito_graph *g;
    CHECK_EQ(ito_graph_create(&g), 0); /* the first of this program */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ito_graph_task(g, NULL, nothing, NULL, NULL), 0);
    char text[1024];
    uint64_t ids = 3ull << 62 | 1ull << 48 | 5ull << 24, other = 3ull << 62 | 2ull << 48;
    int length =
        snprintf(text, sizeof text,
                 "kasuri.costs/1\n# for people, as long as it likes to be: %064d\n%llu 1000\n%llu 3000\n%llu 500\n"
                 "%llu 9\n7 9\n%llu 0\nend 6\n",
                 0, (unsigned long long)ids, (unsigned long long)(ids + (1 << 24)), (unsigned long long)(ids + 2),
                 (unsigned long long)(other + 1), (unsigned long long)(ids + 1));
    write_file(text, (size_t)length);
    size_t found = 0;
    struct ito_graph_planned plan[3];
    CHECK_EQ(ito_graph_costs(g, path, &found), 0);
    CHECK_EQ(found, 2);
    for (int i = 0; i < 2; i++) { /* what is refused, and what says nothing of this graph, changes nothing */
        CHECK_EQ(ito_graph_plan(g, 1, plan, NULL), 0);
        CHECK_EQ(plan[0].end_ns - plan[0].start_ns, 2000); /* the mean of its two runs */
        CHECK_EQ(plan[1].end_ns - plan[1].start_ns, 1250); /* the mean of those known */
        CHECK_EQ(plan[2].end_ns - plan[2].start_ns, 500);
        for (int n = 0; n < length; n++) { /* cut anywhere */
            write_file(text, (size_t)n);
            CHECK_EQ(ito_graph_costs(g, path, NULL), EILSEQ);
        }
        static const char *const wrong[] = {
            "", "kasuri.costs/2\nend 0\n", "kasuri.costs/1\n1 2\nend 2\n", "kasuri.costs/1\nend 0\n1 2\n",
            "kasuri.costs/1\n1 -2\nend 1\n", "kasuri.costs/1\n1 2 3\nend 1\n", "kasuri.costs/1\n 1 2\nend 1\n",
            "kasuri.costs/1\n18446744073709551616 2\nend 1\n", "kasuri.costs/1\nend 18446744073709551616\n",
            /* together more than 64 bits */
            "kasuri.costs/1\n13835339530258874368 18446744073709551615\n13835339530258874368 1\nend 2\n"};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            write_file(wrong[k], strlen(wrong[k]));
            CHECK_EQ(ito_graph_costs(g, path, NULL), EILSEQ);
        }
        static const char nothing_of_it[] = "kasuri.costs/1\n7 100\nend 1\n";
        write_file(nothing_of_it, sizeof nothing_of_it - 1);
        CHECK_EQ(ito_graph_costs(g, path, &found), 0);
        CHECK_EQ(found, 0);
    }
    uint64_t random = check_seed;
    for (int i = 0; i < check_scale(3000); i++) { /* any bytes: no crash */
        char bad[sizeof text];
        memcpy(bad, text, (size_t)length);
        bad[check_random(&random) % (uint64_t)length] = (char)check_random(&random);
        write_file(bad, (size_t)length);
        int r = ito_graph_costs(g, path, NULL);
        CHECK(r == 0 || r == EILSEQ);
    }
    CHECK_EQ(ito_graph_costs(g, "/nonexistent/costs", NULL), ENOENT);
    CHECK_EQ(ito_graph_costs(g, "/", NULL), EIO);
    unlink(path);
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* Costs that together are no 64-bit number: no time of the plan is before another that it comes after. */
static void the_largest_costs_do_not_wrap(void) {
    ito_graph *g;
    CHECK_EQ(ito_graph_create(&g), 0);
    for (uint32_t i = 0; i < 3; i++) {
        ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
        attr.cost_ns = i == 1 ? 0 : UINT64_MAX - i;
        CHECK_EQ(ito_graph_task(g, &attr, nothing, NULL, NULL), 0);
        if (i)
            CHECK_EQ(ito_graph_edge(g, i - 1, i), 0);
    }
    struct ito_graph_planned plan[3];
    uint64_t makespan;
    CHECK_EQ(ito_graph_plan(g, 2, plan, &makespan), 0);
    for (int i = 0; i < 3; i++)
        CHECK(plan[i].start_ns == (i ? plan[i - 1].end_ns : 0) && plan[i].end_ns > plan[i].start_ns);
    CHECK_EQ(makespan, plan[2].end_ns);
    CHECK_EQ(ito_graph_destroy(g), 0);
}

/* -- mistakes ------------------------------------------------------------------------------------------------------ */

static void change_what_runs(void *arg) {
    ito_graph *g = arg;
    uint32_t worker = 0, out;
    CHECK_EQ(ito_graph_task(g, NULL, nothing, NULL, NULL), EBUSY);
    CHECK_EQ(ito_graph_edge(g, 0, 1), EBUSY);
    CHECK_EQ(ito_graph_group(g, &worker, 1, &out), EBUSY);
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), EBUSY);
    CHECK_EQ(ito_graph_plan(g, 1, NULL, NULL), EBUSY);
    CHECK_EQ(ito_graph_destroy(g), EBUSY);
    CHECK_EQ(ito_graph_circle(g, NULL, 0), 0);
}
static void mistakes_are_told(void) {
    ito_graph *g;
    uint32_t out, workers[] = {0};
    CHECK_EQ(ito_graph_create(&g), 0);
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), 0); /* nothing to run */
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_STATIC), 0);
    CHECK_EQ(ito_graph_run(g, 2), EINVAL);
    ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
    attr.group = 1;
    CHECK_EQ(ito_graph_task(g, &attr, nothing, NULL, NULL), EINVAL);
    attr = (ito_graph_attr)ITO_GRAPH_ATTR_INIT;
    attr.struct_size--;
    CHECK_EQ(ito_graph_task(g, &attr, nothing, NULL, NULL), EINVAL);
    CHECK_EQ(ito_graph_task(g, NULL, NULL, NULL, NULL), EINVAL);
    CHECK_EQ(ito_graph_group(g, workers, 0, &out), EINVAL);
    CHECK_EQ(ito_graph_task(g, NULL, change_what_runs, g, NULL), 0);
    CHECK_EQ(ito_graph_edge(g, 0, 0), EINVAL);
    CHECK_EQ(ito_graph_edge(g, 0, 1), EINVAL);
    CHECK_EQ(ito_graph_edge(g, 1, 0), EINVAL);
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), 0);
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_STATIC), 0);
    CHECK_EQ(ito_graph_destroy(g), 0);
    CHECK_EQ(ito_graph_destroy(NULL), 0);
}

/* 0 -> 1 -> 2 -> 3 -> 1, and 3 -> 4: the circle is 1 2 3 in some turn of it, nothing runs, and without the last edge
 * all does. */
static void circles_are_told(void) {
    ito_graph *g;
    long n = 0;
    uint32_t circle[4] = {9, 9, 9, 9};
    for (int with = 0; with < 2; with++) {
        CHECK_EQ(ito_graph_create(&g), 0);
        for (int i = 0; i < 5; i++)
            CHECK_EQ(ito_graph_task(g, NULL, count, &n, NULL), 0);
        for (uint32_t i = 0; i < 4; i++)
            CHECK_EQ(ito_graph_edge(g, i, i + 1), 0);
        CHECK_EQ(ito_graph_circle(g, circle, 4), 0);
        if (with)
            CHECK_EQ(ito_graph_edge(g, 3, 1), 0);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(ito_graph_run(g, both[i]), with ? EDEADLK : 0);
        CHECK_EQ(n, 10);
        if (with) {
            CHECK_EQ(ito_graph_circle(g, NULL, 0), 3);
            CHECK_EQ(ito_graph_circle(g, circle, 2), 3);
            CHECK_EQ(circle[2], 9);
            CHECK_EQ(ito_graph_circle(g, circle, 4), 3);
            for (int i = 0; i < 3; i++)
                CHECK_EQ(circle[(i + 1) % 3], circle[i] == 3 ? 1 : circle[i] + 1);
        }
        CHECK_EQ(ito_graph_destroy(g), 0);
    }
}

struct foreign {
    struct random_graph graph;
    ito_future done;
};
static void *run_foreign(void *arg) {
    struct foreign *f = arg;
    run_rounds(&f->graph, 6);
    CHECK_EQ(ito_future_set(&f->done, NULL), 0);
    return NULL;
}
static void a_foreign_thread_runs_graphs(void) {
    uint64_t random = check_seed;
    struct foreign f = {random_graph(&random, 200), ITO_FUTURE_INIT};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, run_foreign, &f), 0);
    /* pthread_join would hold up this worker, on which lists may have to run. */
    CHECK_EQ(ito_future_get(&f.done, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    free_graph(&f.graph);
}

static int start(void) {
    ito_config config = ITO_CONFIG_INIT;
    return ito_init(&config);
}
static const struct check_test tests[] = {
    {"random_graphs_keep_the_order", random_graphs_keep_the_order},
    {"graphs_run_beside_each_other", graphs_run_beside_each_other},
    {"deep_and_wide_graphs_end", deep_and_wide_graphs_end},
    {"a_blocked_task_holds_up_no_other", a_blocked_task_holds_up_no_other},
    {"a_graph_may_be_destroyed_after_its_run", a_graph_may_be_destroyed_after_its_run},
    {"tasks_stay_in_their_groups", tasks_stay_in_their_groups},
    {"a_busy_worker_holds_up_no_task_of_its_group", a_busy_worker_holds_up_no_task_of_its_group},
    {"plans_are_schedules", plans_are_schedules},
    {"costs_come_from_a_recording", costs_come_from_a_recording},
    {"the_largest_costs_do_not_wrap", the_largest_costs_do_not_wrap},
    {"mistakes_are_told", mistakes_are_told},
    {"circles_are_told", circles_are_told},
    {"a_foreign_thread_runs_graphs", a_foreign_thread_runs_graphs},
    {NULL, NULL},
};
int main(int argc, char **argv) {
    return check_main(argc, argv, tests, start, ito_fini);
}
