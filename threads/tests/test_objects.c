/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Read-write locks, semaphores, barriers, once, groups, loops, futures, time; as test_sync.c. */
#define _GNU_SOURCE
#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

/* -- read-write lock -- */

struct library {
    ito_rwlock lock;
    int rounds, readers, writers, most_readers, books[4];
};
static void *library_main(void *arg) {
    struct member *me = arg;
    struct library *l = me->arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int i = 0; i < l->rounds; i++) {
        bool timed = check_random(&random) % 4 == 0;
        uint64_t deadline = ito_now_ns() + check_random(&random) % 100000;
        if (me->index % 4) {
            int r = timed ? ito_rwlock_rdlock_until(&l->lock, deadline) : ito_rwlock_rdlock(&l->lock);
            if (r) {
                CHECK(timed && r == ETIMEDOUT);
                continue;
            }
            __atomic_fetch_add(&l->readers, 1, __ATOMIC_RELAXED);
            CHECK_EQ(__atomic_load_n(&l->writers, __ATOMIC_RELAXED), 0);
            int book = l->books[0];
            delay(&random);
            for (int b = 1; b < 4; b++)
                CHECK_EQ(l->books[b], book);
            __atomic_fetch_sub(&l->readers, 1, __ATOMIC_RELAXED);
        } else {
            int r = timed ? ito_rwlock_wrlock_until(&l->lock, deadline) : ito_rwlock_wrlock(&l->lock);
            if (r) {
                CHECK(timed && r == ETIMEDOUT);
                continue;
            }
            CHECK_EQ(__atomic_fetch_add(&l->writers, 1, __ATOMIC_RELAXED), 0);
            CHECK_EQ(__atomic_load_n(&l->readers, __ATOMIC_RELAXED), 0);
            for (int b = 0; b < 4; b++) {
                l->books[b]++;
                delay(&random);
            }
            __atomic_fetch_sub(&l->writers, 1, __ATOMIC_RELAXED);
        }
        CHECK_EQ(ito_rwlock_unlock(&l->lock), 0);
        delay(&random);
    }
    return NULL;
}
static void rwlock_shares_and_excludes(void) {
    struct library l = {.lock = ITO_RWLOCK_INIT, .rounds = check_scale(400)};
    team_run(16, library_main, &l);
    CHECK_EQ(ito_rwlock_destroy(&l.lock), 0);
}

static void *rwlock_others(void *arg) {
    struct member *me = arg;
    ito_rwlock *l = me->arg;
    CHECK_EQ(ito_rwlock_unlock(l), EPERM); /* another's */
    CHECK_EQ(ito_rwlock_tryrdlock(l), EBUSY);
    CHECK_EQ(ito_rwlock_trywrlock(l), EBUSY);
    CHECK_EQ(ito_rwlock_rdlock_until(l, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_rwlock_wrlock_until(l, in_ms(1)), ETIMEDOUT);
    return NULL;
}
static void rwlock_says_what_is_wrong(void) {
    ito_rwlock l = ITO_RWLOCK_INIT;
    CHECK_EQ(ito_rwlock_unlock(&l), EPERM);
    CHECK_EQ(ito_rwlock_wrlock(&l), 0);
    CHECK_EQ(ito_rwlock_wrlock(&l), EDEADLK);
    CHECK_EQ(ito_rwlock_rdlock(&l), EDEADLK);
    CHECK_EQ(ito_rwlock_destroy(&l), EBUSY);
    team_run(4, rwlock_others, &l);
    CHECK_EQ(ito_rwlock_unlock(&l), 0);
    CHECK_EQ(ito_rwlock_rdlock(&l), 0);
    CHECK_EQ(ito_rwlock_tryrdlock(&l), 0);
    CHECK_EQ(ito_rwlock_trywrlock(&l), EBUSY);
    CHECK_EQ(ito_rwlock_unlock(&l), 0);
    CHECK_EQ(ito_rwlock_unlock(&l), 0);
    CHECK_EQ(ito_rwlock_unlock(&l), EPERM);
    CHECK_EQ(ito_rwlock_destroy(&l), 0);
}

/* A writer that gives up must let in the readers that queued behind it. */
struct given_up {
    ito_rwlock lock;
    int step;
};
static void *given_up_main(void *arg) {
    struct member *me = arg;
    struct given_up *g = me->arg;
    if (me->index == 0) {
        CHECK_EQ(ito_rwlock_wrlock_until(&g->lock, in_ms(20)), ETIMEDOUT);
    } else {
        CHECK_EQ(ito_rwlock_rdlock(&g->lock), 0);
        __atomic_fetch_add(&g->step, 1, __ATOMIC_RELAXED);
        CHECK_EQ(ito_rwlock_unlock(&g->lock), 0);
    }
    return NULL;
}
static void *given_up_holder(void *arg) {
    struct given_up *g = ((struct member *)arg)->arg;
    CHECK_EQ(ito_rwlock_rdlock(&g->lock), 0);
    team_run(5, given_up_main, g); /* we read all the time; so the readers get in only past the writer */
    CHECK_EQ(g->step, 4);
    CHECK_EQ(ito_rwlock_unlock(&g->lock), 0);
    return NULL;
}
static void rwlock_readers_pass_a_writer_that_gave_up(void) {
    struct given_up g = {.lock = ITO_RWLOCK_INIT};
    team_run(1, given_up_holder, &g);
}

/* -- semaphore -- */

struct pool {
    ito_sem sem;
    int rounds, inside, most;
};
static void *pool_main(void *arg) {
    struct member *me = arg;
    struct pool *p = me->arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int i = 0; i < p->rounds;) {
        int r;
        switch (check_random(&random) % 3) {
        case 0:
            r = ito_sem_trywait(&p->sem);
            break;
        case 1:
            r = ito_sem_wait_until(&p->sem, ito_now_ns() + check_random(&random) % 100000);
            break;
        default:
            r = ito_sem_wait(&p->sem);
        }
        if (r) {
            CHECK(r == EBUSY || r == ETIMEDOUT);
            ito_yield();
            continue;
        }
        CHECK(__atomic_add_fetch(&p->inside, 1, __ATOMIC_RELAXED) <= 3);
        delay(&random);
        __atomic_fetch_sub(&p->inside, 1, __ATOMIC_RELAXED);
        CHECK_EQ(ito_sem_post(&p->sem), 0);
        i++;
    }
    return NULL;
}
static void sem_keeps_its_units(void) {
    struct pool p = {.sem = ITO_SEM_INIT(3), .rounds = check_scale(400)};
    team_run(12, pool_main, &p);
    CHECK_EQ(ito_sem_value(&p.sem), 3);
    CHECK_EQ(ito_sem_destroy(&p.sem), 0);
}
static void sem_says_what_is_wrong(void) {
    ito_sem s;
    CHECK_EQ(ito_sem_init(&s, ITO_SEM_MAX + 1u), EINVAL);
    CHECK_EQ(ito_sem_init(&s, ITO_SEM_MAX), 0);
    CHECK_EQ(ito_sem_post(&s), EOVERFLOW);
    CHECK_EQ(ito_sem_init(&s, 0), 0);
    CHECK_EQ(ito_sem_trywait(&s), EBUSY);
    CHECK_EQ(ito_sem_wait_until(&s, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_sem_post(&s), 0);
    CHECK_EQ(ito_sem_wait(&s), 0);
}

/* The waiter ends the semaphore as soon as it returns. */
static void *post_it(void *arg) {
    CHECK_EQ(ito_sem_post(arg), 0);
    return NULL;
}
static void sem_may_end_after_the_wait(void) {
    for (int i = 0; i < check_scale(3000); i++) {
        ito_sem *s = malloc(sizeof *s);
        ito_thread *t;
        ito_sem_init(s, 0);
        CHECK_EQ(ito_create(&t, NULL, post_it, s), 0);
        CHECK_EQ(ito_sem_wait(s), 0);
        memset(s, 0xff, sizeof *s);
        free(s);
        CHECK_EQ(ito_join(t, NULL), 0);
    }
}

/* -- barrier, once -- */

struct laps {
    ito_barrier barrier;
    int n, rounds, at[17], last;
};
static void *laps_main(void *arg) {
    struct member *me = arg;
    struct laps *l = me->arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int i = 1; i <= l->rounds; i++) {
        l->at[me->index] = i;
        delay(&random);
        int r = ito_barrier_wait(&l->barrier);
        CHECK(r == 0 || r == ITO_BARRIER_LAST);
        if (r)
            __atomic_fetch_add(&l->last, 1, __ATOMIC_RELAXED);
        for (int j = 0; j < l->n; j++)
            CHECK_EQ(l->at[j], i);
        ito_barrier_wait(&l->barrier);
    }
    return NULL;
}
static void barrier_holds_every_turn(void) {
    struct laps l = {.n = 17, .rounds = check_scale(300)};
    CHECK_EQ(ito_barrier_init(&l.barrier, 0), EINVAL);
    CHECK_EQ(ito_barrier_init(&l.barrier, 17), 0);
    team_run(17, laps_main, &l);
    CHECK_EQ(l.last, l.rounds);
    CHECK_EQ(ito_barrier_destroy(&l.barrier), 0);
}

struct first {
    ito_once once;
    int calls, fail, value;
};
static int first_call(void *arg) {
    struct first *f = arg;
    __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
    CHECK_EQ(ito_once_call(&f->once, first_call, f), EDEADLK);
    ito_sleep_ns(100000);
    if (f->fail && f->calls < 3)
        return 5;
    f->value = 42;
    return 0;
}
static void *first_main(void *arg) {
    struct first *f = ((struct member *)arg)->arg;
    int r;
    while ((r = ito_once_call(&f->once, first_call, f)))
        CHECK_EQ(r, 5);
    CHECK_EQ(f->value, 42);
    return NULL;
}
static void once_is_once(void) {
    for (int i = 0; i < 20; i++) {
        struct first f = {.once = ITO_ONCE_INIT, .fail = i % 2};
        team_run(10, first_main, &f);
        CHECK_EQ(f.calls, f.fail ? 3 : 1);
    }
}

/* -- groups, loops, reductions, futures -- */

struct tree {
    ito_group group;
    int nodes;
};
struct tree_node {
    struct tree *tree;
    int depth;
};
static void tree_grow(void *arg) {
    struct tree_node node = *(struct tree_node *)arg;
    free(arg);
    __atomic_fetch_add(&node.tree->nodes, 1, __ATOMIC_RELAXED);
    for (int i = 0; node.depth && i < 2; i++) {
        struct tree_node *child = malloc(sizeof *child);
        *child = (struct tree_node){node.tree, node.depth - 1};
        CHECK_EQ(ito_group_run(&node.tree->group, tree_grow, child), 0);
    }
}
static void group_waits_for_all(void) {
    struct tree tree = {.group = ITO_GROUP_INIT};
    CHECK_EQ(ito_group_wait(&tree.group), 0);
    struct tree_node *root = malloc(sizeof *root);
    *root = (struct tree_node){&tree, 9};
    CHECK_EQ(ito_group_run(&tree.group, tree_grow, root), 0);
    CHECK_EQ(ito_group_wait(&tree.group), 0);
    CHECK_EQ(tree.nodes, 1023);
    CHECK_EQ(ito_group_destroy(&tree.group), 0);
}
static void waits_for_unit(void *arg) {
    CHECK_EQ(ito_sem_wait(arg), 0);
}
static void group_wait_gives_up(void) {
    ito_group g = ITO_GROUP_INIT;
    ito_sem s = ITO_SEM_INIT(0);
    CHECK_EQ(ito_group_run(&g, waits_for_unit, &s), 0);
    CHECK_EQ(ito_group_wait_until(&g, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_group_destroy(&g), EBUSY);
    CHECK_EQ(ito_sem_post(&s), 0);
    CHECK_EQ(ito_group_wait(&g), 0);
}

static void mark(size_t begin, size_t end, void *arg) {
    unsigned char *marks = arg;
    for (size_t i = begin; i < end; i++)
        marks[i]++;
}
static void loop_covers_once(void) {
    enum { N = 100000 };
    unsigned char *marks = calloc(N, 1);
    size_t ranges[][3] = {{0, N, 0}, {0, N, 1}, {5, N - 7, 64}, {0, 10, 100}, {0, 1, 0}, {10, 10, 0}, {0, N, N / 2}};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        memset(marks, 0, N);
        CHECK_EQ(ito_for(ranges[r][0], ranges[r][1], ranges[r][2], mark, marks), 0);
        for (size_t i = 0; i < N; i++)
            CHECK_EQ(marks[i], i >= ranges[r][0] && i < ranges[r][1]);
    }
    free(marks);
}

/* The first time nothing is known of the body, then it is known as short, then as long; no piece may be smaller than the
 * grain, unless the loop is. */
struct paced {
    unsigned char marks[4096];
    size_t n, grain, small, spins;
};
static void mark_paced(size_t begin, size_t end, void *arg) {
    struct paced *p = arg;
    if (end - begin < p->grain && p->n >= p->grain)
        __atomic_fetch_add(&p->small, 1, __ATOMIC_RELAXED);
    for (size_t i = begin; i < end; i++) {
        p->marks[i]++;
        for (size_t k = 0; k < p->spins; k++)
            __asm__ volatile("" : : : "memory");
    }
}
static void loop_covers_once_at_any_pace(void) {
    static struct paced p;
    static const size_t spins[] = {0, 0, 20000, 0};
    for (size_t s = 0; s < sizeof spins / sizeof *spins; s++)
        for (p.grain = 1; p.grain <= 4096; p.grain *= 8)
            for (int round = 0; round < (spins[s] ? 2 : 100); round++) {
                p.n = (size_t)(spins[s] ? 64 : 1 + round * 37);
                p.spins = spins[s];
                memset(p.marks, 0, sizeof p.marks);
                CHECK_EQ(ito_for(0, p.n, p.grain, mark_paced, &p), 0);
                for (size_t i = 0; i < sizeof p.marks; i++)
                    CHECK_EQ(p.marks[i], i < p.n);
            }
    CHECK_EQ(p.small, 0);
}

/* Threads are counted by where the body runs: a loop of a microsecond stays in its caller, however many workers sleep. */
struct stays {
    ito_thread *caller;
    size_t elsewhere;
};
static void see_where(size_t begin, size_t end, void *arg) {
    struct stays *s = arg;
    if (ito_self() != s->caller)
        __atomic_fetch_add(&s->elsewhere, end - begin, __ATOMIC_RELAXED);
}
/* The kernel may take the CPU away, which makes a loop long, and some of those after it: so one thousand in a row of many has
 * to stay, each begun when the others have had the time to become idle. Where loops are divided whatever they take, each
 * thousand has tens of thousands of indices elsewhere. */
static void short_loops_stay_where_they_are(void) {
    struct stays s = {ito_self(), 0};
    uint64_t give_up = 0;
    do {
        CHECK_EQ(ito_sleep_ns(MS), 0);
        s.elsewhere = 0;
        for (int i = 0; i < 1000; i++)
            ito_for(0, 100, 1, see_where, &s);
    } while (s.elsewhere >= 100 * 1000 / 10 && check_is_early(&give_up));
    CHECK(s.elsewhere < 100 * 1000 / 10);
}

/* Two indices that last are two threads, also if nothing was known of them; each waits until the other has begun. */
static void meet(size_t begin, size_t end, void *arg) {
    ito_sem *begun = arg;
    CHECK_EQ(end - begin, 1);
    ito_sem_post(&begun[begin]);
    ito_sem_wait(&begun[1 - begin]);
}
static void two_long_indices_run_beside_each_other(void) {
    ito_sem begun[2] = {ITO_SEM_INIT(0), ITO_SEM_INIT(0)};
    if (ito_n_workers() > 1)
        CHECK_EQ(ito_for(0, 2, 1, meet, begun), 0);
}

static void add_thirds(size_t begin, size_t end, void *sum, void *arg) {
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *(double *)sum += 1.0 / (3.0 + (double)i);
}
static void add_sums(void *left, const void *right, void *arg) {
    (void)arg;
    *(double *)left += *(const double *)right;
}
/* The documented tree, without the library: halves down to the grain. */
static double thirds(size_t begin, size_t end, size_t grain) {
    double sum = 0;
    if (end - begin <= grain) {
        add_thirds(begin, end, &sum, NULL);
        return sum;
    }
    size_t middle = begin + (end - begin) / 2;
    return thirds(begin, middle, grain) + thirds(middle, end, grain);
}
/* A body that took long once, so that it was divided, and has become short is not divided for ever. */
static uint64_t index_ns;
static uint32_t elsewhere;
static ito_thread *reducer;
static void takes_long_at_first(size_t begin, size_t end, void *sum, void *arg) {
    (void)arg;
    uint64_t until = ito_now_ns() + (end - begin) * index_ns;
    while (index_ns != 0 && ito_now_ns() < until)
        ;
    *(double *)sum += (double)(end - begin);
    if (ito_self() != reducer)
        __atomic_fetch_add(&elsewhere, 1, __ATOMIC_RELAXED);
}
static void reduce_does_not_stay_divided(void) {
    struct ito_reduction how = {.size = sizeof(double), .body = takes_long_at_first, .join = add_sums};
    double sum;
    uint64_t give_up = 0;
    reducer = ito_self();
    index_ns = 10000;
    do
        CHECK_EQ(ito_reduce(0, 100, 1, &how, &sum), 0);
    while (ito_n_workers() > 1 && elsewhere == 0 && check_is_early(&give_up));
    CHECK(ito_n_workers() == 1 || elsewhere > 0);
    index_ns = 0;
    give_up = 0;
    do { /* the first ones until its pace is known; then as in short_loops_stay_where_they_are() */
        CHECK_EQ(ito_sleep_ns(MS), 0);
        elsewhere = 0;
        for (int i = 0; i < 1000; i++)
            CHECK_EQ(ito_reduce(0, 100, 1, &how, &sum), 0);
        CHECK(sum == 100);
    } while (elsewhere >= 100 * 1000 / 10 && check_is_early(&give_up));
    CHECK(elsewhere < 100 * 1000 / 10);
}

static void reduce_gives_the_same_bits(void) {
    struct ito_reduction how = {.size = sizeof(double), .body = add_thirds, .join = add_sums};
    for (size_t grain = 1; grain < 100000; grain *= 7) {
        double sum = 0;
        CHECK_EQ(ito_reduce(0, 100003, grain, &how, &sum), 0);
        double expected = thirds(0, 100003, grain);
        CHECK(!memcmp(&sum, &expected, sizeof sum));
    }
    double sum = 1;
    CHECK_EQ(ito_reduce(7, 7, 0, &how, &sum), 0);
    CHECK(sum == 0);
    how.size = ITO_REDUCE_MAX + 1;
    CHECK_EQ(ito_reduce(0, 1, 0, &how, &sum), EINVAL);
}

struct promise {
    ito_future future;
    int got;
};
static void *promise_main(void *arg) {
    struct member *me = arg;
    struct promise *p = me->arg;
    void *value = NULL;
    if (me->index == 5) {
        CHECK_EQ(ito_future_try_get(&p->future, &value), EBUSY);
        CHECK_EQ(ito_future_get_until(&p->future, &value, in_ms(1)), ETIMEDOUT);
        CHECK_EQ(ito_future_set(&p->future, p), 0);
        CHECK_EQ(ito_future_set(&p->future, NULL), EALREADY);
    } else {
        CHECK_EQ(ito_future_get(&p->future, &value), 0);
        CHECK(value == p);
        __atomic_fetch_add(&p->got, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}
static void future_reaches_all(void) {
    struct promise p = {.future = ITO_FUTURE_INIT};
    team_run(10, promise_main, &p);
    CHECK_EQ(p.got, 9);
    CHECK_EQ(ito_future_destroy(&p.future), 0);
}

/* -- time -- */

/* Not inlined: a compiler keeps the address of errno over a call, and after that call we may be on another kernel
 * thread. */
static __attribute__((noinline)) void errno_set(int e) {
    errno = e;
    __asm__ volatile("" ::: "memory");
}
static __attribute__((noinline)) int errno_get(void) {
    __asm__ volatile("" ::: "memory");
    return errno;
}
static void *sleep_main(void *arg) {
    struct member *me = arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int i = 0; i < 5; i++) {
        uint64_t ns = check_random(&random) % (10 * MS), before = ito_now_ns();
        errno_set(me->index);
        CHECK_EQ(ito_sleep_ns(ns), 0);
        CHECK_EQ(errno_get(), me->index);
        CHECK(ito_now_ns() - before >= ns);
    }
    return NULL;
}
static void sleep_is_never_short(void) {
    team_run(200, sleep_main, NULL);
    CHECK_EQ(ito_sleep_ns(0), 0);
    CHECK_EQ(ito_sleep_until(0), 0);
}
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void *sleep_long(void *arg) {
    (void)arg;
    CHECK_EQ(ito_sleep_ns(300 * MS), 0);
    return NULL;
}
/* Not a speed: sleepers that keep a CPU busy use 300 ms and more each time. Time that a virtual machine's host takes
 * away counts as ours, so one quiet turn of many is enough. */
static void sleepers_use_no_cpu(void) {
    uint64_t used = UINT64_MAX;
    for (int turn = 0; turn < 20 && used >= 200 * MS; turn++) {
        uint64_t before = cpu_ns();
        team_run(50, sleep_long, NULL);
        used = cpu_ns() - before;
    }
    CHECK(used < 200 * MS);
}

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(rwlock_shares_and_excludes),
    TEST(rwlock_says_what_is_wrong),
    TEST(rwlock_readers_pass_a_writer_that_gave_up),
    TEST(sem_keeps_its_units),
    TEST(sem_says_what_is_wrong),
    TEST(sem_may_end_after_the_wait),
    TEST(barrier_holds_every_turn),
    TEST(once_is_once),
    TEST(group_waits_for_all),
    TEST(group_wait_gives_up),
    TEST(loop_covers_once),
    TEST(loop_covers_once_at_any_pace),
    TEST(short_loops_stay_where_they_are),
    TEST(two_long_indices_run_beside_each_other),
    TEST(reduce_gives_the_same_bits),
    TEST(reduce_does_not_stay_divided),
    TEST(future_reaches_all),
    TEST(sleep_is_never_short),
    TEST(sleepers_use_no_cpu),
    {NULL, NULL}};

static int start(void) {
    return ito_init(NULL);
}

int main(int argc, char **argv) {
    return check_main(argc, argv, tests, start, ito_fini);
}
