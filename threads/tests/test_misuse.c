/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mistakes have a defined end: an error, or a message that names the thread. What ends a process runs in a child. */
#define _GNU_SOURCE
#include "check.h"

#include <ito.h>

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
    expect_death(overflow_named, SIGSEGV, "stack overflow in thread the digger", "ito_attr.stack_bytes");
    expect_death(overflow_small, SIGSEGV, "stack overflow in thread (0x", "bytes; give it more");
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
static void *waits(void *arg) {
    ito_sem_wait(arg);
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
    CHECK_EQ(ito_create(&t, NULL, waits, &sem), 0);
    struct joined both = {t, &sem};
    CHECK_EQ(ito_create(&other, NULL, joins, &both), 0);
    int error = (int)(intptr_t)joins(&both);
    CHECK_EQ(ito_join(other, &result), 0);
    CHECK_EQ(error + (intptr_t)result, EINVAL); /* one of the two */

    CHECK_EQ(ito_create(&t, NULL, waits, &sem), 0);
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
    TEST(other_faults_are_not_ours),
    {"joining_twice_is_told", joining},
    TEST(the_root_thread_cannot_exit),
    TEST(objects_work_without_a_runtime),
    TEST(timers_start_again_after_fork),
    {NULL, NULL}};

int main(int argc, char **argv) {
    return check_main(argc, argv, tests, NULL, NULL);
}
