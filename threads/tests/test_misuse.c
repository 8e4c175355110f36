/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mistakes have a defined end: an error, or a message that names the thread. What ends a process runs in a child. */
#define _GNU_SOURCE
#include "check.h"

#include <ito.h>
#include <ito/fork.h>
#include <ito/io.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(void) {
    return ito_init(NULL);
}

static char said[4096];
/* What a child that runs fn says on stderr, in `said`; how it ended. */
static int child(void (*fn)(void)) {
    int ends[2], status;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[1]);
        fn();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n < sizeof said - 1 && (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = 0;
    close(ends[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}
static void expect_death(void (*fn)(void), int signal, const char *word, const char *other) {
    int status = child(fn);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != signal || !strstr(said, word) || !strstr(said, other)) {
        fprintf(stderr, "expected signal %d and \"%s\", \"%s\"; status %x, said: %s\n", signal, word, other, status,
                said);
        abort();
    }
}

static void *blocked(void *sem) {
    ito_sem_wait(sem);
    return NULL;
}

/* -- stack overflow -- */

static volatile int enough = 1 << 30;
static __attribute__((noinline)) int dig(int depth) {
    volatile char room[512];
    room[0] = (char)depth;
    return depth < enough ? dig(depth + 1) + room[0] : 0;
}
static void *digger(void *arg) {
    (void)arg;
    ito_yield();
    return (void *)(intptr_t)dig(0);
}
static void overflow_named(void) {
    CHECK_EQ(start(), 0);
    ito_attr attr = ITO_ATTR_INIT;
    attr.name = "the digger";
    ito_thread *t;
    CHECK_EQ(ito_create(&t, &attr, digger, NULL), 0);
    ito_join(t, NULL);
}
static void overflow_small(void) {
    CHECK_EQ(start(), 0);
    ito_attr attr = ITO_ATTR_INIT;
    attr.stack_bytes = 16384;
    ito_thread *t;
    CHECK_EQ(ito_create(&t, &attr, digger, NULL), 0);
    ito_join(t, NULL);
}
static void stack_overflow_names_the_thread(void) {
    expect_death(overflow_named, SIGSEGV, "stack overflow in thread the digger (0x",
                 "digger()), in dig(): its stack has");
    CHECK(strstr(said, "ito_attr.stack_bytes") && strstr(said, "ITO_STACK=128K"));
    expect_death(overflow_small, SIGSEGV, "stack overflow in thread (0x", "in dig(): its stack has");
    CHECK(strstr(said, "ITO_STACK=32K"));
}

/* A local array larger than the stack: the first byte written lies far below the stack, where others' stacks would be.
 * Each thread keeps a number that no other may change. */
#define LARGE 300000
static volatile char sink;
static __attribute__((noinline)) void large_array(size_t at) {
    volatile char room[LARGE];
    room[at] = 1;
    room[LARGE - 1 - at] = 1;
    sink = room[at];
}
static void *large_frame(void *arg) {
    ito_yield();
    large_array((size_t)(uintptr_t)arg);
    return arg;
}
static size_t large_at;
static void overflow_jump(void) {
    CHECK_EQ(start(), 0);
    ito_thread *t[40];
    ito_sem sem = ITO_SEM_INIT(0);
    for (int i = 0; i < 39; i++)
        CHECK_EQ(ito_create(&t[i], NULL, blocked, &sem), 0);
    CHECK_EQ(ito_create(&t[39], NULL, large_frame, (void *)(uintptr_t)large_at), 0);
    ito_join(t[39], NULL);
}
static void forked_jump(size_t at);
ITO_TASK_VOID(forked_jump, size_t)
static void forked_jump(size_t at) {
    large_array(at);
}
static void *forks_a_jump(void *arg) {
    ITO_FORK(x, forked_jump, large_at);
    ITO_SYNC(x, forked_jump);
    return arg;
}
static void overflow_forked(void) {
    CHECK_EQ(start(), 0);
    ito_thread *t;
    CHECK_EQ(ito_create(&t, NULL, forks_a_jump, NULL), 0);
    ito_join(t, NULL);
}
static void a_large_frame_does_not_jump_the_guard(void) {
    for (large_at = 0; large_at < LARGE / 2; large_at += LARGE / 2 - 1) {
        expect_death(overflow_jump, SIGSEGV, "in large_array(): its stack has", "ITO_STACK=");
        expect_death(overflow_forked, SIGSEGV, "in large_array(): its stack has", "ITO_STACK=");
    }
    /* What it advises is enough. */
    char advice[32] = "";
    CHECK_EQ(sscanf(strstr(said, "ITO_STACK="), "ITO_STACK=%31s", advice), 1);
    setenv("ITO_STACK", advice, 1);
    large_at = 0;
    int status = child(overflow_jump);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unsetenv("ITO_STACK");
    /* The control: with a guard of a page it is not seen. */
    setenv("ITO_GUARD", "4K", 1);
    child(overflow_jump);
    unsetenv("ITO_GUARD");
    CHECK(!strstr(said, "overflow"));
}

/* A wild pointer is no overflow; a handler of the program's own is left alone. */
static volatile int *nowhere;
static void *wild(void *arg) {
    *nowhere = 1;
    return arg;
}
static void wild_thread(void) {
    CHECK_EQ(start(), 0);
    ito_thread *t;
    CHECK_EQ(ito_create(&t, NULL, wild, NULL), 0);
    ito_join(t, NULL);
}
static void own_handler(int signal) {
    (void)signal;
    static const char text[] = "handler of the program";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(1);
    _exit(7);
}
static void wild_with_handler(void) {
    signal(SIGSEGV, own_handler);
    wild_thread();
}
static void other_faults_are_not_ours(void) {
    int status = child(wild_thread);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK(!strstr(said, "overflow"));
    status = child(wild_with_handler);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(strstr(said, "handler of the program"));
    struct sigaction now;
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_fini(), 0);
    CHECK_EQ(sigaction(SIGSEGV, NULL, &now), 0);
    CHECK(!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL);
}

/* -- joining -- */

static void *quick(void *arg) {
    return arg;
}
static void *joins_itself(void *arg) {
    (void)arg;
    CHECK_EQ(ito_join(ito_self(), NULL), EDEADLK);
    return NULL;
}
struct joined {
    ito_thread *thread;
    ito_sem *sem;
};
/* Who comes second is told, and lets the thread end. */
static void *joins(void *arg) {
    struct joined *j = arg;
    int error = ito_join(j->thread, NULL);
    if (error == EINVAL)
        CHECK_EQ(ito_sem_post(j->sem), 0);
    return (void *)(intptr_t)error;
}
static void joining_twice_is_told(void) {
    ito_thread *t, *other;
    void *result;
    CHECK_EQ(ito_create(&t, NULL, quick, &t), 0);
    CHECK_EQ(ito_join(t, &result), 0);
    CHECK(result == &t);
    CHECK_EQ(ito_join(t, NULL), EINVAL); /* nothing was created meanwhile: it cannot be another thread yet */
    CHECK_EQ(ito_detach(t), EINVAL);
    CHECK_EQ(ito_join(NULL, NULL), EINVAL);

    ito_sem sem = ITO_SEM_INIT(0);
    CHECK_EQ(ito_create(&t, NULL, blocked, &sem), 0);
    struct joined both = {t, &sem};
    CHECK_EQ(ito_create(&other, NULL, joins, &both), 0);
    int error = (int)(intptr_t)joins(&both);
    CHECK_EQ(ito_join(other, &result), 0);
    CHECK_EQ(error + (intptr_t)result, EINVAL); /* one of the two */

    CHECK_EQ(ito_create(&t, NULL, blocked, &sem), 0);
    CHECK_EQ(ito_detach(t), 0);
    CHECK_EQ(ito_detach(t), EINVAL);
    CHECK_EQ(ito_join(t, NULL), EINVAL);
    while (ito_sem_destroy(&sem) != EBUSY) /* we were stolen: it is on its way to the wait */
        ito_yield();
    CHECK_EQ(ito_sem_post(&sem), 0);

    CHECK_EQ(ito_create(&t, NULL, joins_itself, NULL), 0);
    CHECK_EQ(ito_join(t, NULL), 0);
}
static void root_exits(void) {
    CHECK_EQ(start(), 0);
    ito_exit(NULL);
}
static void the_root_thread_cannot_exit(void) {
    expect_death(root_exits, SIGABRT, "ito_exit", "root");
}

/* -- all threads wait for ever -- */

static ito_mutex fork_a = ITO_MUTEX_INIT_KIND(ITO_MUTEX_ERRORCHECK), fork_b = ITO_MUTEX_INIT;
static ito_sem never_posted = ITO_SEM_INIT(0);
static void *philosopher(void *second) {
    ito_mutex *b = second, *a = b == &fork_b ? &fork_a : &fork_b;
    ito_mutex_lock(a);
    ito_sem_post(&never_posted); /* both have one */
    while (never_posted.state < 2)
        ito_yield();
    ito_mutex_lock(b);
    return NULL;
}
static void each_has_one_fork(void) {
    ito_thread *t[2];
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_create(&t[0], NULL, philosopher, &fork_a), 0);
    CHECK_EQ(ito_create(&t[1], NULL, philosopher, &fork_b), 0);
    ito_join(t[0], NULL);
}
static void locks_twice(void) {
    CHECK_EQ(start(), 0);
    ito_mutex m = ITO_MUTEX_INIT_KIND(ITO_MUTEX_NORMAL);
    ito_mutex_lock(&m);
    ito_mutex_lock(&m);
}
static void *foreign_waits(void *sem) {
    ito_sem_wait(sem);
    return NULL;
}
/* After a deadline and with a kernel thread that waits as well; one that ended was the last that could have posted. */
static void *ends_without_a_post(void *arg) {
    usleep(1500000);
    return arg;
}
static void post_is_lost(void) {
    pthread_t other;
    ito_thread *t;
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_sleep_ns(1000), 0);
    CHECK_EQ(pthread_create(&other, NULL, foreign_waits, &never_posted), 0);
    CHECK_EQ(pthread_create(&other, NULL, ends_without_a_post, NULL), 0);
    CHECK_EQ(ito_create(&t, NULL, blocked, &never_posted), 0);
    ito_join(t, NULL);
}
static void a_stall_is_told(void) {
    setenv("ITO_STALL", "2", 1);
    expect_death(each_has_one_fork, SIGABRT, "all threads wait, and nothing", "philosopher()) waits: mutex 0x");
    CHECK(strstr(said, " fork_a, held by (0x") && strstr(said, "philosopher())\n"));
    CHECK(strstr(said, "ito:   root (0x") && strstr(said, " joins (0x"));
    expect_death(locks_twice, SIGABRT, "all threads wait, and nothing", "ito:   root (0x");
    expect_death(post_is_lost, SIGABRT, "blocked()) waits: semaphore 0x", " never_posted\n");
    CHECK(strstr(said, "ito:   and 1 kernel threads that are no workers\n"));
    unsetenv("ITO_STALL");
}

/* -- counters -- */

static int bytes[2];
static void *waits_in_a_call(void *name) {
    ito_call call;
    char c;
    ito_blocking_begin(&call, name);
    CHECK_EQ(read(bytes[0], &c, 1), 1);
    ito_blocking_end(&call);
    return NULL;
}
static void *waits_for_io(void *arg) {
    char c;
    CHECK_EQ(ito_read(bytes[0], &c, 1), 1);
    return arg;
}
/* The caller, on the one worker, goes on when the thread waits for I/O or has lost the worker. */
static void wakes(void *(*fn)(void *), void *arg) {
    ito_thread *t;
    CHECK_EQ(ito_create(&t, NULL, fn, arg), 0);
    CHECK_EQ(write(bytes[1], "a", 1), 1);
    CHECK_EQ(ito_join(t, NULL), 0);
}
static void calls_of_many_names(void) {
    char name[] = "n..";
    CHECK_EQ(start(), 0);
    CHECK_EQ(pipe(bytes), 0);
    for (int i = 0; i < 3; i++)
        wakes(waits_in_a_call, "flock");
    wakes(waits_in_a_call, "getaddrinfo");
    wakes(waits_for_io, NULL);
    wakes(waits_for_io, NULL);
    for (int i = 0; i < 31; i++) { /* three names have rows of their own; two of these share the last */
        name[1] = (char)('a' + i / 10), name[2] = (char)('0' + i % 10);
        wakes(waits_in_a_call, name);
    }
    CHECK_EQ(ito_fini(), 0);
}
/* The numbers of a row, in the order of its columns. */
static void expect_row(const char *name, int handed_over, int io_waits) {
    char start_of_row[32];
    int got[2];
    double ms[2];
    snprintf(start_of_row, sizeof start_of_row, "ito: %-20s ", name);
    const char *row = strstr(said, start_of_row);
    if (row == NULL ||
        sscanf(row + strlen(start_of_row), "%d %lf ms %d %lf ms\n", &got[0], &ms[0], &got[1], &ms[1]) != 4)
        fprintf(stderr, "no row of %s: %s\n", name, said), abort();
    CHECK_EQ(got[0], handed_over);
    CHECK_EQ(got[1], io_waits);
    CHECK((ms[0] == 0 || handed_over) && (ms[1] == 0 || io_waits));
}
static void hand_overs_and_waits_are_counted(void) {
    const char *before = getenv("ITO_WORKERS");
    char *workers = before ? strdup(before) : NULL;
    setenv("ITO_WORKERS", "1", 1);
    CHECK_EQ(child(calls_of_many_names), 0);
    CHECK_EQ(said[0], 0);
    setenv("ITO_STATS", "1", 1);
    CHECK_EQ(child(calls_of_many_names), 0);
    unsetenv("ITO_STATS");
    expect_row("flock", 3, 0);
    expect_row("getaddrinfo", 1, 0);
    expect_row("read", 0, 2);
    expect_row("na0", 1, 0);
    expect_row("nc8", 1, 0);
    expect_row("other calls", 2, 0);
    CHECK(strstr(said, "nc9") == NULL);
    CHECK(atoi(strstr(said, "spare kernel threads made: ") + 27) > 0);
    if (workers)
        setenv("ITO_WORKERS", workers, 1);
    else
        unsetenv("ITO_WORKERS");
    free(workers);
}

/* Each of these can go on, or may: nothing is said in the time in which a stall is. */
static void waits_for_a_deadline(void) {
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_sleep_ns(3600000000000), 0);
}
static void waits_with_a_deadline(void) {
    CHECK_EQ(start(), 0);
    ito_sem_wait_until(&never_posted, ito_now_ns() + 3600000000000);
}
static void *posts_later(void *sem) {
    int ends[2];
    char byte;
    if (pipe(ends) == 0 && read(ends[0], &byte, 1) > 0)
        ito_sem_post(sem);
    return NULL;
}
static void waits_for_a_kernel_thread(void) {
    pthread_t other;
    CHECK_EQ(start(), 0);
    CHECK_EQ(pthread_create(&other, NULL, posts_later, &never_posted), 0);
    ito_sem_wait(&never_posted);
}
static void *foreign_with_deadline(void *sem) {
    ito_sem_wait_until(sem, ito_now_ns() + 3600000000000);
    ito_sem_post(sem);
    return NULL;
}
static void waits_for_a_kernel_thread_with_a_deadline(void) {
    pthread_t other;
    CHECK_EQ(start(), 0);
    CHECK_EQ(pthread_create(&other, NULL, foreign_with_deadline, &never_posted), 0);
    ito_sem_wait(&never_posted);
}
static void handler(int signal) {
    (void)signal;
}
static void waits_for_a_signal(void) {
    signal(SIGUSR1, handler);
    CHECK_EQ(start(), 0);
    ito_sem_wait(&never_posted);
}
static void *reads_for_ever(void *arg) {
    int ends[2];
    char byte;
    return pipe(ends) == 0 && read(ends[0], &byte, 1) > 0 ? arg : NULL;
}
static void waits_in_a_system_call(void) {
    ito_thread *t;
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_create(&t, NULL, reads_for_ever, NULL), 0);
    ito_join(t, NULL);
}
static void *computes(void *arg) {
    for (;;)
        sink = 1;
    return arg;
}
static void waits_for_a_computation(void) {
    ito_thread *t;
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_create(&t, NULL, computes, NULL), 0);
    ito_join(t, NULL);
}
static void is_quiet(void) {
    setenv("ITO_STALL", "0", 1);
    each_has_one_fork();
}
static void no_stall_is_told_where_none_is(void) {
    static void (*const each[])(void) = {waits_for_a_deadline,      waits_with_a_deadline,
                                         waits_for_a_kernel_thread, waits_for_a_kernel_thread_with_a_deadline,
                                         waits_for_a_signal,        waits_in_a_system_call,
                                         waits_for_a_computation,   is_quiet};
    enum { N = sizeof each / sizeof *each };
    pid_t pids[N];
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < N; i++) {
        CHECK((pids[i] = fork()) >= 0);
        if (pids[i] == 0) {
            dup2(ends[1], 2);
            close(ends[1]);
            each[i]();
            static const char text[] = "went on";
            _exit(write(2, text, sizeof text) < 0);
        }
    }
    close(ends[1]);
    usleep(2500000);
    for (int i = 0; i < N; i++)
        kill(pids[i], SIGKILL);
    ssize_t n = read(ends[0], said, sizeof said - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
    for (int i = 0; i < N; i++)
        CHECK_EQ(waitpid(pids[i], NULL, 0), pids[i]);
    if (*said)
        fprintf(stderr, "%s\n", said);
    CHECK(!*said);
}

/* -- the environment -- */

static void starts(void) {
    int error = start();
    _exit(error == 0 ? (int)ito_n_workers() : error == EINVAL ? 100 : 101);
}
static void expect_variable(const char *name, const char *value, int workers, const char *words) {
    setenv(name, value, 1);
    int status = child(starts);
    unsetenv(name);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != workers || !strstr(said, words) || (!*words && *said)) {
        fprintf(stderr, "%s=%s: expected %d and \"%s\"; status %x, said: %s\n", name, value, workers, words, status,
                said);
        abort();
    }
}
static void variables_are_told_when_wrong(void) {
    static const char sizes[] = ": expected a size in bytes, as 65536, 64K or 1M, from 16K to ";
    static const char numbers[] = ": expected a number from 1 to 4096\n";
    const char *before = getenv("ITO_WORKERS");
    char *workers = before ? strdup(before) : NULL;
    static const char *const wrong_numbers[] = {"abc", "-1", "0", "4097", "2x", "2K", " 2", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong_numbers / sizeof *wrong_numbers; i++)
        expect_variable("ITO_WORKERS", wrong_numbers[i], 100, numbers);
    expect_variable("ITO_WORKERS", "7", 7, "");
    setenv("ITO_WORKERS", "2", 1);
    static const char *const wrong_sizes[] = {"abc", "1000", "64Q", "K", "64KX", "-64K", "9999999T", "64 K", "16383"};
    for (size_t i = 0; i < sizeof wrong_sizes / sizeof *wrong_sizes; i++)
        expect_variable("ITO_STACK", wrong_sizes[i], 100, sizes);
    static const char *const sizes_ok[] = {"", "65536", "64K", "64k", "64KB", "64KiB", "1M", "1G"};
    for (size_t i = 0; i < sizeof sizes_ok / sizeof *sizes_ok; i++)
        expect_variable("ITO_STACK", sizes_ok[i], 2, "");
    expect_variable("ITO_GUARD", "1M", 2, "");
    expect_variable("ITO_GUARD", "1", 100, "ITO_GUARD=1: expected a size in bytes, as 65536, 64K or 1M, from 4K to ");
    expect_variable("ITO_FOLD", "0", 2, "");
    expect_variable("ITO_FOLD", "no", 100, "ITO_FOLD=no: expected a number from 0 to 1\n");
    expect_variable("ITO_STATS", "2", 100, "ITO_STATS=2: expected a number from 0 to 1\n");
    if (workers)
        setenv("ITO_WORKERS", workers, 1);
    else
        unsetenv("ITO_WORKERS");
    free(workers);
}

/* -- outside of a runtime -- */

static void objects_work_without_a_runtime(void) {
    ito_mutex m = ITO_MUTEX_INIT;
    ito_cond c = ITO_COND_INIT;
    ito_thread *t;
    CHECK_EQ(ito_create(&t, NULL, quick, NULL), EPERM);
    CHECK_EQ(ito_mutex_lock(&m), 0);
    CHECK_EQ(ito_cond_wait_until(&c, &m, ito_now_ns() + 1000000), ETIMEDOUT);
    CHECK_EQ(ito_mutex_unlock(&m), 0);
    CHECK_EQ(ito_sleep_ns(1000), 0);
    CHECK_EQ(ito_fini(), EPERM);
    ito_yield();
}

/* A process that forked: the child may start a runtime of its own; timers too. */
static void *sleeps(void *arg) {
    CHECK_EQ(ito_sleep_ns(1000000), 0);
    return arg;
}
static void run_one_sleeper(void) {
    ito_thread *t;
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_create(&t, NULL, sleeps, NULL), 0);
    CHECK_EQ(ito_join(t, NULL), 0);
    CHECK_EQ(ito_fini(), 0);
}
static void timers_start_again_after_fork(void) {
    run_one_sleeper();
    int status = child(run_one_sleeper);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run_one_sleeper();
}

/* A process that forks while its workers create, steal, sleep and wait: the child has one thread, which goes on. */
static volatile int churning;
static void *churn_leaf(void *arg) {
    return arg;
}
static void *churn(void *arg) {
    for (uintptr_t i = 0; churning; i++) {
        ito_thread *t[8];
        for (int k = 0; k < 8; k++)
            CHECK_EQ(ito_create(&t[k], NULL, k % 4 ? churn_leaf : sleeps, arg), 0);
        for (int k = 0; k < 8; k++)
            CHECK_EQ(ito_join(t[k], NULL), 0);
        ito_yield();
    }
    return arg;
}
static long forked_sum(long n);
ITO_TASK(long, forked_sum, long)
static long forked_sum(long n) {
    if (n < 2)
        return n;
    ITO_FORK(x, forked_sum, n - 1);
    long y = forked_sum(n - 2);
    return ITO_SYNC(x, forked_sum) + y;
}
static void *add_one(void *arg) {
    ++*(int *)arg;
    return arg;
}
static void child_goes_on(ito_mutex *held, ito_key key, ito_thread *other) {
    ito_thread *t;
    int n = 0;
    CHECK_EQ(ito_n_workers(), 0);
    CHECK_EQ(ito_create(&t, NULL, add_one, &n), EPERM);
    CHECK_EQ(ito_fini(), EPERM);
    CHECK_EQ(ito_join(other, NULL), ESRCH);
    CHECK(ito_key_get(key) == held);
    CHECK_EQ(ito_mutex_unlock(held), 0); /* of the error-checking kind: the caller is still its owner */
    CHECK_EQ(ito_sleep_ns(1000), 0);
    CHECK_EQ(forked_sum(10), 55);
    ito_yield();
    for (int round = 0; round < 2; round++) {
        CHECK_EQ(start(), 0);
        CHECK_EQ(ito_create(&t, NULL, add_one, &n), 0);
        CHECK_EQ(ito_join(t, NULL), 0);
        CHECK_EQ(forked_sum(10), 55);
        CHECK_EQ(ito_sleep_ns(1000), 0);
        CHECK_EQ(ito_fini(), 0);
        CHECK_EQ(n, round + 1);
    }
}
/* Where the fork is made: the root thread, a thread with a stack of ito's, a kernel thread that is no worker. */
struct forker {
    ito_key key;
    ito_thread *other;
    bool of_ito;
    pid_t pid;
};
static void *forks(void *arg) {
    struct forker *f = arg;
    ito_mutex held = ITO_MUTEX_INIT_KIND(ITO_MUTEX_ERRORCHECK);
    CHECK_EQ(ito_key_set(f->key, &held), 0);
    CHECK_EQ(ito_mutex_lock(&held), 0);
    f->pid = fork();
    CHECK(f->pid >= 0);
    if (f->pid == 0) {
        alarm(200); /* a child that hangs fails */
        child_goes_on(&held, f->key, f->other);
        if (!f->of_ito)
            _exit(0);
        return NULL; /* the end of the only thread: the child exits with 0 */
    }
    CHECK_EQ(ito_mutex_unlock(&held), 0);
    CHECK_EQ(ito_key_set(f->key, NULL), 0);
    return arg;
}
static void ends_well(pid_t pid) {
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}
static void a_forked_child_goes_on(void) {
    struct forker f;
    ito_thread *churners[6], *t;
    pthread_t kernel_thread;
    CHECK_EQ(start(), 0);
    CHECK_EQ(ito_key_create(&f.key, NULL), 0);
    churning = 1;
    for (int i = 0; i < 6; i++)
        CHECK_EQ(ito_create(&churners[i], NULL, churn, NULL), 0);
    f.other = churners[0];
    for (int i = 0; i < check_scale(100); i++) {
        f.of_ito = true;
        CHECK_EQ(ito_create(&t, NULL, forks, &f), 0);
        CHECK_EQ(ito_join(t, NULL), 0);
        ends_well(f.pid);
        if (i % 4)
            continue;
        f.of_ito = false;
        CHECK_EQ(pthread_create(&kernel_thread, NULL, forks, &f), 0);
        CHECK_EQ(pthread_join(kernel_thread, NULL), 0);
        ends_well(f.pid);
        forks(&f);
        ends_well(f.pid);
    }
    churning = 0;
    for (int i = 0; i < 6; i++)
        CHECK_EQ(ito_join(churners[i], NULL), 0);
    CHECK_EQ(ito_fini(), 0);
}

/* A task that was forked before the process was: in its deque it is the child's to run. */
static void a_forked_child_syncs(void) {
    CHECK_EQ(start(), 0);
    for (int i = 0; i < 50; i++) {
        ITO_FORK(x, forked_sum, 12);
        ITO_FORK(y, forked_sum, 10);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(200);
            close(2); /* a task that was stolen is told, and the child ends by abort */
        }
        CHECK_EQ(ITO_SYNC(y, forked_sum), 55);
        CHECK_EQ(ITO_SYNC(x, forked_sum), 144);
        if (pid == 0)
            _exit(0);
        int status;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(status == 0 || (ito_n_workers() > 1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    }
    CHECK_EQ(ito_fini(), 0);
}

static void with_runtime(void (*test)(void)) {
    CHECK_EQ(start(), 0);
    test();
    CHECK_EQ(ito_fini(), 0);
}
static void joining(void) {
    with_runtime(joining_twice_is_told);
}

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(stack_overflow_names_the_thread),
    TEST(a_large_frame_does_not_jump_the_guard),
    TEST(other_faults_are_not_ours),
    {"joining_twice_is_told", joining},
    TEST(the_root_thread_cannot_exit),
    TEST(a_stall_is_told),
    TEST(no_stall_is_told_where_none_is),
    TEST(variables_are_told_when_wrong),
    TEST(hand_overs_and_waits_are_counted),
    TEST(objects_work_without_a_runtime),
    TEST(timers_start_again_after_fork),
    TEST(a_forked_child_goes_on),
    TEST(a_forked_child_syncs),
    {NULL, NULL}};

int main(int argc, char **argv) {
    return check_main(argc, argv, tests, NULL, NULL);
}
