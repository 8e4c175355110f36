/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* test_core NAME WORKERS: threads begin, end, wait, yield; the answers are the same on any number of workers. */
#define _GNU_SOURCE
#include <ito.h>
#include <ito/fork.h>

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static unsigned workers;

static void start(void) {
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = workers;
    CHECK_EQ(ito_init(&config), 0);
    CHECK_EQ(ito_n_workers(), workers);
}

static void stop(void) {
    CHECK_EQ(ito_fini(), 0);
    CHECK_EQ(ito_n_workers(), 0);
}

static ito_thread *spawn(void *(*fn)(void *), void *arg) {
    ito_thread *t;
    CHECK_EQ(ito_create(&t, NULL, fn, arg), 0);
    return t;
}

static void *join(ito_thread *t) {
    void *result;
    CHECK_EQ(ito_join(t, &result), 0);
    return result;
}

static void *fib_thread(void *arg) {
    intptr_t n = (intptr_t)arg;
    if (n < 2)
        return arg;
    ito_thread *t = spawn(fib_thread, (void *)(n - 1));
    intptr_t y = (intptr_t)fib_thread((void *)(n - 2));
    return (void *)((intptr_t)join(t) + y);
}

static void fib(void) {
    start();
    for (int round = 0; round < 5; round++)
        CHECK_EQ((intptr_t)fib_thread((void *)20), 6765);
    stop();
}

/* Threads that only yield: each must get its turns, and nothing is lost. */
enum { YIELDERS = 50, TURNS = 200 };
static int turns[YIELDERS];
static void *yielder(void *arg) {
    for (int i = 0; i < TURNS; i++) {
        turns[(intptr_t)arg]++;
        ito_yield();
    }
    return arg;
}

static void yield_rounds(void) {
    start();
    memset(turns, 0, sizeof turns);
    ito_thread *t[YIELDERS];
    for (intptr_t i = 0; i < YIELDERS; i++)
        t[i] = spawn(yielder, (void *)i);
    for (intptr_t i = 0; i < YIELDERS; i++) {
        CHECK_EQ((intptr_t)join(t[i]), i);
        CHECK_EQ(turns[i], TURNS);
    }
    stop();
}

/* A thread whose id others know is joined by one that did not create it. */
static ito_thread *published;
static void *publisher(void *arg) {
    __atomic_store_n(&published, ito_self(), __ATOMIC_RELEASE);
    for (int i = 0; i < 10; i++)
        ito_yield();
    return arg;
}
static void *other_joiner(void *arg) {
    ito_thread *t;
    (void)arg;
    while ((t = __atomic_exchange_n(&published, NULL, __ATOMIC_ACQ_REL)) == NULL)
        ito_yield();
    return join(t);
}

static void ids_escape(void) {
    start();
    for (intptr_t i = 0; i < 300; i++) {
        ito_thread *joiner = spawn(other_joiner, NULL);
        ito_thread *t = spawn(publisher, (void *)i);
        CHECK_EQ((intptr_t)join(joiner), i);
        (void)t;
    }
    ito_thread *self = ito_self();
    CHECK_EQ(ito_join(self, NULL), EDEADLK);
#ifndef ITO_INLINE /* which does not look */
    CHECK_EQ(ito_join(NULL, NULL), EINVAL);
#endif
    stop();
}

/* Many children of one thread at once, joined in the order of creation. */
static void *identity(void *arg) {
    return arg;
}
static void *yield_once(void *arg) {
    ito_yield();
    return arg;
}
static void wide(void) {
    enum { N = 20000 };
    static ito_thread *t[N];
    start();
    for (intptr_t i = 0; i < N; i++)
        t[i] = spawn(i % 2 ? identity : yield_once, (void *)i);
    for (intptr_t i = 0; i < N; i++)
        CHECK_EQ((intptr_t)join(t[i]), i);
    stop();
}

/* Each thread creates one and waits for it: the deque must grow. */
static void *chain(void *arg) {
    intptr_t n = (intptr_t)arg;
    return n == 0 ? NULL : (void *)((intptr_t)join(spawn(chain, (void *)(n - 1))) + 1);
}
static void deep(void) {
    start();
    CHECK_EQ((intptr_t)chain((void *)5000), 5000);
    CHECK_EQ((intptr_t)chain((void *)5000), 5000);
    stop();
}

static int ended;
static void *exiter(void *arg) {
    if ((intptr_t)arg % 3 == 0)
        ito_yield();
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    ito_exit(arg);
}
static void exit_and_detach(void) {
    start();
    ended = 0;
    for (intptr_t i = 0; i < 900; i++) {
        if (i % 3 == 0) {
            CHECK_EQ(ito_create(NULL, NULL, exiter, (void *)i), 0);
        } else if (i % 3 == 1) {
            CHECK_EQ(ito_detach(spawn(exiter, (void *)i)), 0);
        } else {
            CHECK_EQ((intptr_t)join(spawn(exiter, (void *)i)), i);
        }
    }
    stop(); /* waits for the detached ones */
    CHECK_EQ(ended, 900);
}

/* Kernel threads that are no workers create and join; and wait like anybody. */
static void *stranger(void *arg) {
    CHECK_EQ(ito_worker_index(), UINT32_MAX);
    for (intptr_t i = 0; i < 200; i++)
        CHECK_EQ((intptr_t)join(spawn(i % 2 ? yield_once : fib_thread, (void *)10)), i % 2 ? 10 : 55);
    ito_yield();
    return arg;
}
static void foreign_threads(void) {
    pthread_t p[3];
    start();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&p[i], NULL, stranger, NULL), 0);
    CHECK_EQ((intptr_t)fib_thread((void *)15), 610);
    if (workers == 1) { /* the only worker must come by */
        for (int i = 0; i < 200 * 3 * 20; i++)
            ito_yield();
    }
    for (int i = 0; i < 3; i++) {
        while (pthread_tryjoin_np(p[i], NULL) != 0)
            ito_yield();
    }
    stop();
}

static void start_stop(void) {
    for (int i = 0; i < 20; i++) {
        ito_config config = ITO_CONFIG_INIT;
        ito_thread *t;
        CHECK_EQ(ito_create(&t, NULL, identity, NULL), EPERM);
        CHECK_EQ(ito_fini(), EPERM);
        start();
        CHECK_EQ(ito_init(&config), EBUSY);
        static const int fibs[] = {1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144};
        CHECK_EQ((intptr_t)fib_thread((void *)(intptr_t)(i % 12 + 1)), fibs[i % 12]);
        pthread_t before = pthread_self();
        stop();
        CHECK(pthread_equal(before, pthread_self()) || workers > 1);
    }
}

static void *on_worker(void *arg) {
    unsigned mine = (unsigned)(intptr_t)arg;
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(ito_worker_index(), mine);
        CHECK_EQ((intptr_t)join(spawn(yield_once, (void *)1)), 1);
        ito_yield();
    }
    return arg;
}
static void bound(void) {
    start();
    ito_thread *t[128];
    for (unsigned i = 0; i < 2 * workers; i++) {
        ito_attr attr = ITO_ATTR_INIT;
        attr.worker = (int32_t)(i % workers);
        attr.name = "bound";
        CHECK_EQ(ito_create(&t[i], &attr, on_worker, (void *)(intptr_t)(i % workers)), 0);
    }
    for (unsigned i = 0; i < 2 * workers; i++)
        CHECK_EQ((intptr_t)join(t[i]), i % workers);
    ito_attr bad = ITO_ATTR_INIT;
    bad.worker = (int32_t)workers;
    CHECK_EQ(ito_create(&t[0], &bad, identity, NULL), EINVAL);
    stop();
}

/* All wait for one that ends last. */
static int gate;
static void *gate_keeper(void *arg) {
    while (!__atomic_load_n(&gate, __ATOMIC_ACQUIRE))
        ito_yield();
    return arg;
}
static void *waiter(void *arg) {
    /* a chain: each joins the one before */
    return (void *)((intptr_t)join(arg) + 1);
}
static void many_blocked(void) {
    enum { N = 10000 };
    start();
    gate = 0;
    ito_thread *last = spawn(gate_keeper, (void *)1);
    for (int i = 0; i < N; i++)
        last = spawn(waiter, last);
    __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
    CHECK_EQ((intptr_t)join(last), N + 1);
    stop();
}

/* In functions of their own: glibc declares the address of errno constant, so compilers keep it over a switch. */
static __attribute__((noinline)) void set_errno(int value) {
    errno = value;
}
static __attribute__((noinline)) int get_errno(void) {
    __asm__ volatile("");
    return errno;
}
static void *errno_thread(void *arg) {
    for (int i = 0; i < 200; i++) {
        set_errno((int)(intptr_t)arg + i);
        ito_yield();
        CHECK_EQ(get_errno(), (intptr_t)arg + i);
    }
    return arg;
}
static void errno_is_kept(void) {
    start();
    ito_thread *t[40];
    for (intptr_t i = 0; i < 40; i++)
        t[i] = spawn(errno_thread, (void *)(1000 * (i + 1)));
    for (int i = 0; i < 40; i++)
        join(t[i]);
    stop();
}

/* ---- priority ---- */

enum { ORDINARY = 20, URGENT = 3, WAITERS = ORDINARY + URGENT };
static ito_sem start_line = ITO_SEM_INIT(0);
static int n_passed, place[WAITERS], laps[WAITERS];
static void *passer(void *arg) {
    ito_sem_wait(&start_line);
    place[(intptr_t)arg] = __atomic_add_fetch(&n_passed, 1, __ATOMIC_RELAXED);
    /* Two urgent threads that yield to each other for ever would starve the rest if nobody else had a turn. */
    while (workers == 1 && (intptr_t)arg >= ORDINARY && __atomic_load_n(&n_passed, __ATOMIC_RELAXED) < WAITERS) {
        laps[(intptr_t)arg]++;
        ito_yield();
    }
    return arg;
}
static void urgent_go_first(void) {
    start();
    ito_thread *t[WAITERS];
    ito_attr urgent = ITO_ATTR_INIT;
    urgent.priority = 1;
    n_passed = 0;
    for (intptr_t i = 0; i < WAITERS; i++)
        CHECK_EQ(ito_create(&t[i], i < ORDINARY ? NULL : &urgent, passer, (void *)i), 0);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(ito_sem_post(&start_line), 0);
    for (int i = 0; i < WAITERS; i++)
        join(t[i]);
    CHECK_EQ(n_passed, WAITERS);
    if (workers == 1) { /* on more, who is first is a matter of luck */
        for (int i = ORDINARY; i < WAITERS; i++) {
            CHECK(place[i] <= URGENT + 1); /* + 1: the pick that is not theirs */
            CHECK(laps[i] > 0);
        }
    }
    stop();
}

/* ---- forked tasks ---- */

static long fork_fib(long n);
ITO_TASK(long, fork_fib, long)
static long fork_fib(long n) {
    if (n < 2)
        return n;
    ITO_FORK(x, fork_fib, n - 1);
    long y = fork_fib(n - 2);
    return ITO_SYNC(x, fork_fib) + y;
}

/* A task that blocks: the syncs that follow may be on another worker. */
static long fork_mix(long n);
ITO_TASK(long, fork_mix, long)
static long fork_mix(long n) {
    if (n < 2)
        return n;
    ITO_FORK(x, fork_mix, n - 1);
    long y;
    if (n % 3 == 0) {
        y = (long)(intptr_t)join(spawn(fib_thread, (void *)(n - 2)));
    } else {
        if (n % 4 == 1)
            ito_yield();
        y = fork_mix(n - 2);
    }
    return ITO_SYNC(x, fork_mix) + y;
}

/* Nothing but tasks in tasks, each with a frame: more than the smallest stack holds, so they must move to others. */
static int fork_deep(int n);
ITO_TASK(int, fork_deep, int)
static __attribute__((noinline)) int fork_deep(int n) {
    volatile char frame[256];
    frame[n % 256] = 1;
    if (n == 0)
        return 0;
    ITO_FORK(x, fork_deep, n - 1);
    return ITO_SYNC(x, fork_deep) + frame[n % 256];
}
static void *fork_deep_thread(void *arg) {
    return (void *)(intptr_t)fork_deep((int)(intptr_t)arg);
}

static int touched[64];
static void touch(int i, int by);
ITO_TASK_VOID(touch, int, int)
static void touch(int i, int by) {
    __atomic_fetch_add(&touched[i], by, __ATOMIC_RELAXED);
}
static void touch_all(void);
ITO_TASK_VOID(touch_all)
static void touch_all(void) {
    struct ito_task_touch room[64];
    for (int i = 0; i < 64; i++)
        ITO_FORK_AT(&room[i], touch, i, i);
    for (int i = 64; i-- > 0;)
        ITO_SYNC_AT(&room[i], touch);
}

static void *fork_stranger(void *arg) {
    return fork_fib(12) == 144 ? arg : NULL;
}

static void fork_sync(void) {
    CHECK_EQ(fork_fib(15), 610); /* no runtime: plain calls */
    start();
    CHECK_EQ(fork_fib(22), 17711);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(fork_mix(17), 1597);
    memset(touched, 0, sizeof touched);
    ITO_FORK(a, touch_all);
    ITO_FORK(b, touch_all);
    ITO_SYNC(b, touch_all);
    ITO_SYNC(a, touch_all);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(touched[i], 2 * i);
    ito_attr small = ITO_ATTR_INIT;
    ito_thread *t;
    small.stack_bytes = 16384;
    CHECK_EQ(ito_create(&t, &small, fork_deep_thread, (void *)2000), 0);
    CHECK_EQ((intptr_t)join(t), 2000);
    CHECK_EQ((intptr_t)join(spawn(fork_deep_thread, (void *)2000)), 2000);
    pthread_t p;
    void *result;
    CHECK_EQ(pthread_create(&p, NULL, fork_stranger, touched), 0);
    CHECK_EQ(pthread_join(p, &result), 0);
    CHECK(result == touched);
    stop();
}

/* Parents that switch between fork and sync, in ways that leave their tasks in the deque (a hand-over) or give them
 * away (a yield), while others fork where their slots were; below them tasks enough for the deque to grow. */
enum { MOVERS = 8, MOVES = 300 };
static ito_mutex move_lock[2] = {ITO_MUTEX_INIT, ITO_MUTEX_INIT};
static ito_cond move_turn[2];
static int moving[2];
static void count_move(long *sum, long by);
ITO_TASK_VOID(count_move, long *, long)
static void count_move(long *sum, long by) {
    *sum += by; /* its parent's: a task that ran twice, or not at all, shows in it */
}
static long move_below(int depth, int me);
ITO_TASK(long, move_below, int, int)
static long move_below(int depth, int me) {
    long a = 0, b = 0;
    ITO_FORK(x, count_move, &a, depth + 1);
    ITO_FORK(y, count_move, &b, 1);
    if (depth > 0) {
        move_below(depth - 1, me);
    } else if (me % 2) {
        ito_yield();
    } else {
        int pair = me / 4, side = me / 2 % 2; /* two take turns: a wait that wakes the other continues it at once */
        ito_mutex_lock(&move_lock[pair]);
        while (moving[pair] != side)
            ito_cond_wait(&move_turn[pair], &move_lock[pair]);
        moving[pair] = !side;
        ito_cond_signal(&move_turn[pair]);
        ito_mutex_unlock(&move_lock[pair]);
    }
    ITO_SYNC(y, count_move);
    ITO_SYNC(x, count_move);
    CHECK_EQ(a, depth + 1);
    CHECK_EQ(b, 1);
    return a;
}
static void *mover(void *arg) {
    for (int i = 0; i < MOVES; i++)
        move_below(i % 50 == 0 ? 80 : i % 7, (int)(intptr_t)arg);
    return arg;
}
static void fork_moves(void) {
    start();
    ito_thread *t[MOVERS];
    for (intptr_t i = 0; i < MOVERS; i++)
        t[i] = spawn(mover, (void *)i);
    for (int i = 0; i < MOVERS; i++)
        join(t[i]);
    stop();
}

/* A thread whose every task was stolen, and the continuation of its creator before them, still runs on the stack of the
 * slot it was created at; the deque is empty, so that slot is the next to be used. */
static int n_taken, creator_runs;
static void be_taken(int by);
ITO_TASK_VOID(be_taken, int)
static void be_taken(int by) {
    __atomic_fetch_add(&n_taken, by, __ATOMIC_RELEASE);
}
static void do_nothing(void);
ITO_TASK_VOID(do_nothing)
static void do_nothing(void) {}
static void *write_much(void *arg) {
    volatile char frame[6000];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (char)0xa5;
    return frame[17] == (char)0xa5 ? arg : NULL;
}
static void wait_for(const int *what, int value) {
    while (workers > 1 && __atomic_load_n(what, __ATOMIC_ACQUIRE) != value) {
        ITO_FORK(x, do_nothing); /* a thief who asks is answered here */
        ITO_SYNC(x, do_nothing);
    }
}
static void *loses_all(void *arg) {
    volatile char frame[256];
    int before = __atomic_load_n(&n_taken, __ATOMIC_RELAXED);
    memset((char *)frame, 0x5a, sizeof frame);
    wait_for(&creator_runs, 1);
    ITO_FORK(x, be_taken, 1);
    ITO_FORK(y, be_taken, 1);
    wait_for(&n_taken, before + 2);
    ITO_SYNC(y, be_taken);
    ITO_SYNC(x, be_taken);
    CHECK(join(spawn(write_much, arg)) == arg);
    for (size_t i = 0; i < sizeof frame; i++)
        CHECK_EQ(frame[i], 0x5a);
    return arg;
}
static void fork_all_stolen(void) {
    start();
    for (intptr_t i = 1; i <= 20; i++) {
        creator_runs = 0;
        ito_thread *t = spawn(loses_all, (void *)i);
        __atomic_store_n(&creator_runs, 1, __ATOMIC_RELEASE);
        CHECK_EQ((intptr_t)join(t), i);
    }
    CHECK_EQ(n_taken, 40);
    stop();
}

/* One worker has all the threads, most of them bound to it, and the others nothing: a thief that halves its queue leaves
 * those where they are. */
static void *stay_or_not(void *arg) {
    int bind = (int)(intptr_t)arg - 1;
    for (int i = 0; i < 200; i++) {
        ito_yield();
        for (volatile int work = 0; i % 16 == 0 && work < 2000; work++)
            ;
        CHECK(bind < 0 || ito_worker_index() == (unsigned)bind);
    }
    return NULL;
}
static void bound_stay(void) {
    enum { N = 120 };
    ito_thread *threads[N];
    start();
    for (int i = 0; i < N; i++) {
        ito_attr attr = ITO_ATTR_INIT;
        attr.worker = i % 8 ? 0 : -1;
        CHECK_EQ(ito_create(&threads[i], &attr, stay_or_not, (void *)(intptr_t)(attr.worker + 1)), 0);
    }
    for (int i = 0; i < N; i++)
        join(threads[i]);
    stop();
}

#define TEST(f)                                                                                                        \
    { #f, f }
static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    TEST(fib),
    TEST(yield_rounds),
    TEST(ids_escape),
    TEST(wide),
    TEST(deep),
    TEST(bound),
    TEST(bound_stay),
    TEST(start_stop),
    TEST(exit_and_detach),
    TEST(foreign_threads),
    TEST(many_blocked),
    TEST(errno_is_kept),
    TEST(urgent_go_first),
    TEST(fork_sync),
    TEST(fork_moves),
    TEST(fork_all_stolen),
};

int main(int argc, char **argv) {
    if (argc != 3 || (workers = (unsigned)atoi(argv[2])) == 0) {
        fprintf(stderr, "usage: test_core NAME WORKERS\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (strcmp(tests[i].name, argv[1]) == 0) {
            tests[i].run();
            return 0;
        }
    }
    fprintf(stderr, "no test %s\n", argv[1]);
    return 2;
}
