/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stress with faults: the 1st, 2nd, 3rd... mapping fails, or all from there on; affinity is shuffled while threads run.
 * Whatever cannot be created says so, everything else gives the same answers, and the runtime ends clean. Linked with
 * the static library, for its hook.
 */
#define _GNU_SOURCE
#include "check.h"

#include <ito.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

extern int64_t ito__prim_fail_map; /* prim/prim.h */

/* -- memory -- */

static long refused;

/* A tree of threads, each on a stack of its own because it yields; what cannot be a thread is a call. */
struct node {
    int depth;
    long leaves;
};
static void *grow(void *arg) {
    struct node *n = arg;
    if (!n->depth) {
        ito_yield();
        n->leaves = 1;
        return NULL;
    }
    struct node left = {n->depth - 1, 0}, right = left;
    ito_attr large = ITO_ATTR_INIT;
    large.stack_bytes = 1 << 20; /* a stack that is in no free list */
    ito_thread *t = NULL;
    int r = ito_create(&t, n->depth % 4 == 1 ? &large : NULL, grow, &left);
    if (r) {
        CHECK_EQ(r, EAGAIN);
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        grow(&left);
    }
    ito_yield();
    grow(&right);
    if (!r)
        CHECK_EQ(ito_join(t, NULL), 0);
    n->leaves = left.leaves + right.leaves;
    return NULL;
}
static void *root_of_tree(void *arg) {
    return grow(arg);
}

static bool run_with(int64_t fail) {
    __atomic_store_n(&ito__prim_fail_map, fail, __ATOMIC_RELAXED);
    int r = ito_init(NULL);
    if (r) {
        CHECK(r == ENOMEM || r == EAGAIN);
        __atomic_store_n(&ito__prim_fail_map, 0, __ATOMIC_RELAXED);
        CHECK_EQ(ito_n_workers(), 0);
        refused++;
        return false;
    }
    struct node tree = {7, 0};
    ito_thread *t;
    r = ito_create(&t, NULL, root_of_tree, &tree);
    if (r) {
        CHECK_EQ(r, EAGAIN);
        refused++;
        grow(&tree);
    } else {
        CHECK_EQ(ito_join(t, NULL), 0);
    }
    CHECK_EQ(tree.leaves, 128);
    int64_t left = __atomic_load_n(&ito__prim_fail_map, __ATOMIC_RELAXED);
    __atomic_store_n(&ito__prim_fail_map, 0, __ATOMIC_RELAXED);
    CHECK_EQ(ito_fini(), 0);
    return left > 0 || left < -1; /* the failure never came: the program maps less often */
}
static void every_mapping_may_fail(void) {
    int once = 0, ever = 0;
    for (int64_t n = 1; n < 400 && !run_with(n); n++)
        once++;
    for (int64_t n = 1; n < 400 && !run_with(-n); n++)
        ever++;
    CHECK(once > 5 && ever > 5); /* it bites */
    CHECK(refused > 10);
}

/* -- graphs without memory for threads -- */

/* A ladder of tasks, each of which blocks and counts its place: any thread that is missing is made up for. */
enum { RUNGS = 40 };
static int rungs[RUNGS][3];
static void climb(void *arg) {
    int *mine = arg, rung = (int)(mine - &rungs[0][0]) / 3;
    for (int i = 0; rung && i < 3; i++)
        CHECK_EQ(rungs[rung - 1][i], 1);
    ito_yield();
    *mine = 1;
}
static bool run_graph_with(int64_t fail, uint32_t how) {
    ito_graph *g;
    memset(rungs, 0, sizeof rungs);
    CHECK_EQ(ito_init(NULL), 0);
    CHECK_EQ(ito_graph_create(&g), 0);
    for (uint32_t i = 0; i < 3 * RUNGS; i++) {
        CHECK_EQ(ito_graph_task(g, NULL, climb, &rungs[i / 3][i % 3], NULL), 0);
        for (uint32_t k = 0; i >= 3 && k < 3; k++)
            CHECK_EQ(ito_graph_edge(g, 3 * (i / 3 - 1) + k, i), 0);
    }
    __atomic_store_n(&ito__prim_fail_map, fail, __ATOMIC_RELAXED);
    CHECK_EQ(ito_graph_run(g, how), 0);
    int64_t left = __atomic_load_n(&ito__prim_fail_map, __ATOMIC_RELAXED);
    __atomic_store_n(&ito__prim_fail_map, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rungs[RUNGS - 1][i], 1);
    CHECK_EQ(ito_graph_destroy(g), 0);
    CHECK_EQ(ito_fini(), 0);
    return left > 0 || left < -1;
}
static void graphs_run_without_memory_for_threads(void) {
    for (uint32_t how = ITO_GRAPH_DYNAMIC; how <= ITO_GRAPH_STATIC; how++) {
        int bites = 0;
        for (int64_t n = 1; n < 100 && !run_graph_with(n, how); n++)
            bites++;
        for (int64_t n = 1; n < 100 && !run_graph_with(-n, how); n++)
            bites++;
        CHECK(bites > 1);
    }
}

/* A chain of a group runs where it is: each task in a thread of its own, below that of the one before it, took a stack
 * a task. */
static uint32_t chain_worker;
static void link_of_chain(void *arg) {
    CHECK_EQ(ito_worker_index(), chain_worker);
    ++*(long *)arg;
}
static void chains_of_a_group_need_no_stacks(void) {
    enum { LINKS = 40000 };
    const int64_t many = 1 << 20; /* none fails; it counts them */
    long n = 0;
    ito_graph *g;
    ito_graph_attr attr = ITO_GRAPH_ATTR_INIT;
    CHECK_EQ(ito_init(NULL), 0);
    chain_worker = ito_n_workers() - 1;
    CHECK_EQ(ito_graph_create(&g), 0);
    CHECK_EQ(ito_graph_group(g, &chain_worker, 1, &attr.group), 0);
    for (uint32_t i = 0; i < LINKS; i++) {
        CHECK_EQ(ito_graph_task(g, &attr, link_of_chain, &n, NULL), 0);
        if (i)
            CHECK_EQ(ito_graph_edge(g, i - 1, i), 0);
    }
    __atomic_store_n(&ito__prim_fail_map, many, __ATOMIC_RELAXED);
    CHECK_EQ(ito_graph_run(g, ITO_GRAPH_DYNAMIC), 0);
    int64_t left = __atomic_load_n(&ito__prim_fail_map, __ATOMIC_RELAXED);
    __atomic_store_n(&ito__prim_fail_map, 0, __ATOMIC_RELAXED);
    CHECK_EQ(n, LINKS);
    CHECK(many - left < 20 + 2 * (int64_t)(chain_worker + 1)); /* and what workers need to begin */
    CHECK_EQ(ito_graph_destroy(g), 0);
    CHECK_EQ(ito_fini(), 0);
}

/* -- affinity, delays, parking -- */

static int stop_shuffling;
static cpu_set_t all_cpus;
static pid_t workers_pid;
/* Moves worker 0 from CPU to CPU; the threads below move whatever worker they are on. */
static void *shuffler(void *arg) {
    uint64_t random = check_seed;
    unsigned *shuffles = arg;
    while (!__atomic_load_n(&stop_shuffling, __ATOMIC_RELAXED)) {
        cpu_set_t some;
        CPU_ZERO(&some);
        int n = CPU_COUNT(&all_cpus), pick = (int)(check_random(&random) % (unsigned)n);
        for (int cpu = 0, k = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &all_cpus) && (k++ == pick || check_random(&random) % 3 == 0))
                CPU_SET(cpu, &some);
        sched_setaffinity(workers_pid, sizeof some, &some); /* the process's first kernel thread: worker 0 */
        __atomic_fetch_add(shuffles, 1, __ATOMIC_RELAXED);  /* a count: nothing is published with it */
        struct timespec nap = {0, (long)(check_random(&random) % 300000)};
        nanosleep(&nap, NULL);
    }
    return NULL;
}
static ito_mutex mutex = ITO_MUTEX_INIT;
static ito_cond cond = ITO_COND_INIT;
static ito_key key;
static long counted, tokens;
static void *restless(void *arg) {
    long id = (long)arg;
    uint64_t random = check_seed ^ (uint64_t)id * 0x9e3779b97f4a7c15u;
    CHECK_EQ(ito_key_set(key, arg), 0);
    for (int i = 0; i < check_scale(150); i++) {
        switch (check_random(&random) % 5) {
        case 0:
            ito_yield();
            break;
        case 1: /* long enough for workers to park */
            CHECK_EQ(ito_sleep_ns(check_random(&random) % 400000), 0);
            break;
        case 2: { /* another kernel thread's CPU */
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET((int)(check_random(&random) % (unsigned)CPU_COUNT(&all_cpus)), &one);
            sched_setaffinity(0, sizeof one, &one);
            break;
        }
        default:
            for (volatile unsigned spin = 0; spin < check_random(&random) % 2000; spin++)
                ;
        }
        CHECK((long)ito_key_get(key) == id);
        CHECK_EQ(ito_mutex_lock(&mutex), 0);
        counted++;
        if (id % 2) { /* makers and takers, as many */
            tokens++;
            ito_cond_signal(&cond);
        } else {
            while (tokens == 0)
                CHECK_EQ(ito_cond_wait(&cond, &mutex), 0);
            tokens--;
        }
        CHECK_EQ(ito_mutex_unlock(&mutex), 0);
    }
    return NULL;
}
static void shuffled_and_parked_lose_nothing(void) {
    enum { THREADS = 32 };
    ito_thread *t[THREADS];
    pthread_t shuffling;
    unsigned shuffles = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof all_cpus, &all_cpus), 0);
    workers_pid = getpid();
    CHECK_EQ(ito_init(NULL), 0);
    CHECK_EQ(ito_key_create(&key, NULL), 0);
    CHECK_EQ(pthread_create(&shuffling, NULL, shuffler, &shuffles), 0);
    /* All could be over before it gets a CPU. */
    while (!__atomic_load_n(&shuffles, __ATOMIC_RELAXED))
        sched_yield();
    for (long i = 0; i < THREADS; i++)
        CHECK_EQ(ito_create(&t[i], NULL, restless, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(ito_join(t[i], NULL), 0);
    CHECK_EQ(counted, THREADS * check_scale(150));
    __atomic_store_n(&stop_shuffling, 1, __ATOMIC_RELAXED);
    CHECK_EQ(pthread_join(shuffling, NULL), 0);
    CHECK_EQ(ito_fini(), 0);
}

/* -- many blocked -- */

static long blocked, woken, go;
static void *blocker(void *arg) {
    ito_mutex_lock(&mutex);
    blocked++;
    while (!go)
        ito_cond_wait(&cond, &mutex);
    woken++;
    ito_mutex_unlock(&mutex);
    return arg;
}
/* 20,000 here; bench/ito/bench_sync has the million. */
static void many_blocked_are_woken_at_once(void) {
    long n = check_scale(20000);
    ito_config config = ITO_CONFIG_INIT;
    config.stack_bytes = CHECK_SLOW > 1 ? 65536 : 16384;
    CHECK_EQ(ito_init(&config), 0);
    for (long i = 0; i < n; i++)
        CHECK_EQ(ito_create(NULL, NULL, blocker, NULL), 0);
    for (bool all = false; !all; ito_yield()) {
        ito_mutex_lock(&mutex);
        all = blocked == n;
        ito_mutex_unlock(&mutex);
    }
    ito_mutex_lock(&mutex);
    go = 1;
    ito_cond_broadcast(&cond);
    ito_mutex_unlock(&mutex);
    for (bool all = false; !all; ito_yield()) {
        ito_mutex_lock(&mutex);
        all = woken == n;
        ito_mutex_unlock(&mutex);
    }
    CHECK_EQ(ito_cond_destroy(&cond), 0);
    CHECK_EQ(ito_fini(), 0);
}

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(every_mapping_may_fail),           TEST(graphs_run_without_memory_for_threads),
    TEST(chains_of_a_group_need_no_stacks), TEST(shuffled_and_parked_lose_nothing),
    TEST(many_blocked_are_woken_at_once),   {NULL, NULL}};

int main(int argc, char **argv) {
    return check_main(argc, argv, tests, NULL, NULL);
}
