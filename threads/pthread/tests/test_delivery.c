/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals that main blocks and other threads do not, the masks of processes that threads start, and what attributes say of masks and
 * stacks; CTest runs it alone and with libito-pthread.so preloaded: the same answers.
 *   test_delivery NAME
 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 8 };
static pthread_t threads[N];
static char *alt_stacks[N];
static __thread int number = -1; /* of the thread; that of main is -1 */
static pthread_barrier_t barrier;
static atomic_int stop, handled, on_alt_stack;
static atomic_intptr_t last_value;
static char path[4096];

static void finds_its_thread(int signal, siginfo_t *info, void *unused) {
    (void)signal;
    (void)unused;
    char here;
    CHECK(number >= 0 && number < N && pthread_equal(pthread_self(), threads[number]));
    if (alt_stacks[number] && &here >= alt_stacks[number] && &here < alt_stacks[number] + SIGSTKSZ)
        atomic_fetch_add(&on_alt_stack, 1);
    atomic_store(&last_value, info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
    atomic_fetch_add(&handled, 1);
}
static void handle(int signal, int flags) {
    struct sigaction a = {.sa_sigaction = finds_its_thread, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(signal, &a, NULL) == 0);
}
static void block(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}
/* So that main, and who must not have the signal, do nothing but look. */
static void wait_for(atomic_int *what, int value) {
    while (atomic_load(what) < value)
        usleep(200);
}

static void *waits(void *i) {
    number = (int)(intptr_t)i;
    threads[number] = pthread_self();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* The handler runs in one of the threads that have the signal unblocked, with its thread-local data; what sigqueue gave is there. */
static void handlers_on_threads(void) {
    pthread_t t[N];
    CHECK(pthread_barrier_init(&barrier, NULL, N + 1) == 0);
    handle(SIGUSR1, SA_RESTART);
    for (intptr_t i = 0; i < N; i++)
        CHECK(pthread_create(&t[i], NULL, waits, (void *)i) == 0);
    pthread_barrier_wait(&barrier);
    block(SIGUSR1);
    for (int i = 1; i <= 200; i++) {
        CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = i}) == 0);
        wait_for(&handled, i);
        CHECK(atomic_load(&last_value) == i);
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

static void *computes(void *i) {
    number = (int)(intptr_t)i;
    threads[number] = pthread_self();
    atomic_fetch_add(&on_alt_stack, 1);
    for (volatile unsigned long n = 0; !atomic_load_explicit(&stop, memory_order_relaxed); n++)
        ;
    return NULL;
}

/* The same where the only threads that have it unblocked compute and call nothing. */
static void handlers_while_computing(void) {
    pthread_t t;
    handle(SIGUSR1, 0);
    CHECK(pthread_create(&t, NULL, computes, NULL) == 0);
    wait_for(&on_alt_stack, 1);
    block(SIGUSR1);
    for (int i = 1; i <= 50; i++) {
        CHECK((i % 2 ? kill(getpid(), SIGUSR1) : pthread_kill(t, SIGUSR1)) == 0);
        wait_for(&handled, i);
    }
    atomic_store(&stop, 1);
    CHECK(pthread_join(t, NULL) == 0);
}

static void *has_a_stack(void *i) {
    number = (int)(intptr_t)i;
    stack_t stack = {.ss_size = SIGSTKSZ}, now;
    alt_stacks[number] = stack.ss_sp = malloc(SIGSTKSZ);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_DISABLE);
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaltstack(NULL, &now) == 0 && now.ss_sp == stack.ss_sp &&
          now.ss_flags == 0);
    stack.ss_size = 16;
    CHECK(sigaltstack(&stack, NULL) == -1 && errno == ENOMEM);
    waits(i);
    free(alt_stacks[number]);
    return NULL;
}

/* A thread's own alternative stack, which no other thread gets. */
static void alternative_stacks(void) {
    pthread_t t[N];
    for (int round = 0; round < 2; round++) {
        CHECK(pthread_barrier_init(&barrier, NULL, N + 1) == 0);
        for (intptr_t i = 0; i < N; i++)
            CHECK(pthread_create(&t[i], NULL, has_a_stack, (void *)i) == 0);
        pthread_barrier_wait(&barrier);
        handle(SIGUSR1, SA_ONSTACK);
        for (int i = 0; i < N; i++)
            CHECK(pthread_kill(t[i], SIGUSR1) == 0);
        wait_for(&handled, N * (round + 1));
        CHECK(atomic_load(&on_alt_stack) == N * (round + 1));
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < N; i++)
            CHECK(pthread_join(t[i], NULL) == 0);
    }
}

/* Without a handler the signal ends the process, also where only such threads have it unblocked. */
static void without_a_handler(void) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t t;
        CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
        CHECK(pthread_create(&t, NULL, waits, NULL) == 0);
        pthread_barrier_wait(&barrier);
        block(SIGTERM);
        block(SIGCHLD);
        CHECK(kill(getpid(), SIGCHLD) == 0); /* is ignored */
        CHECK(kill(getpid(), SIGTERM) == 0);
        for (;;)
            pause();
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* A write barrier: the handler lets the write through. What cannot be mended is left by siglongjmp. */
static __thread char *page;
static __thread sigjmp_buf back;
static void on_fault(int signal, siginfo_t *info, void *context) {
    char *at = info->si_addr;
    finds_its_thread(signal, info, context);
    if (signal == SIGSEGV && at >= page && at < page + 4096)
        CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    else
        siglongjmp(back, signal);
}
static void *makes_faults(void *file) {
    char *beyond = mmap(NULL, 4096, PROT_READ, MAP_SHARED, *(int *)file, 0);
    number = atomic_fetch_add(&stop, 1);
    threads[number] = pthread_self();
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && beyond != MAP_FAILED);
    for (int i = 0; i < 50; i++) {
        int left;
        *(volatile char *)page = 1; /* SIGSEGV */
        CHECK(mprotect(page, 4096, PROT_READ) == 0);
        sched_yield(); /* to another worker, perhaps */
        left = sigsetjmp(back, 1);
        if (left == 0)
            (void)*(volatile char *)beyond;
        CHECK(left == SIGBUS);
        left = sigsetjmp(back, 1);
        if (left == 0)
            __builtin_trap();
        CHECK(left == SIGILL || left == SIGTRAP);
    }
    CHECK(munmap(page, 4096) == 0 && munmap(beyond, 4096) == 0);
    return NULL;
}
/* The handler runs on the thread whose instruction it was. */
static void faults(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    int file = (int)syscall(SYS_memfd_create, "empty", 0);
    pthread_t t[N];
    CHECK(file >= 0);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        CHECK(sigaction(signals[i], &a, NULL) == 0);
    for (int i = 0; i < N; i++)
        CHECK(pthread_create(&t[i], NULL, makes_faults, &file) == 0);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    CHECK(atomic_load(&handled) == N * 50 * 3);
}

/* ---- a signal that the thread blocks ------------------------------------------------------------------------------ */

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool sent; /* under the mutex */
static void *sleeps_on(void *i) {
    sigset_t set;
    struct timespec at;
    number = (int)(intptr_t)i;
    threads[number] = pthread_self();
    block(SIGUSR1);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    pthread_barrier_wait(&barrier);
    do { /* main sends while it has the mutex, so during a wait: of the first, unless main had no CPU */
        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_sec++;
        CHECK(pthread_cond_timedwait(&cond, &mutex, &at) == ETIMEDOUT); /* nothing ends it early */
    } while (!sent);
    CHECK(pthread_mutex_unlock(&mutex) == 0 && atomic_load(&handled) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(atomic_load(&handled) == 1);
    return NULL;
}
static void blocked_until_later(void) {
    pthread_t t;
    handle(SIGUSR1, 0);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&t, NULL, sleeps_on, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_kill(t, SIGUSR1) == 0);
    sent = true;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_join(t, NULL) == 0);
}

/* ---- processes that a thread starts -------------------------------------------------------------------------------- */

/* The kernel's answer, not the library's. */
static uint64_t real_mask(void) {
    uint64_t mask = 0;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask) == 0);
    return mask;
}
static void tells_its_mask(void) {
    exit(real_mask() == 1u << (SIGUSR2 - 1) ? 0 : 3);
}
static void ended_well(pid_t pid) {
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
static void *starts_processes(void *unused) {
    char command[sizeof path + 32], *args[] = {path, (char *)"tells_its_mask", NULL};
    pid_t pid = fork();
    if (pid == 0)
        _exit(real_mask() == 1u << (SIGUSR2 - 1) ? 0 : 3);
    ended_well(pid);
    if ((pid = vfork()) == 0) {
        execv(path, args);
        _exit(4);
    }
    ended_well(pid);
    CHECK(posix_spawn(&pid, path, NULL, NULL, args, environ) == 0);
    ended_well(pid);
    CHECK(posix_spawnp(&pid, path, NULL, NULL, args, environ) == 0);
    ended_well(pid);
    snprintf(command, sizeof command, "exec %s tells_its_mask", path);
    CHECK(system(command) == 0);
    FILE *f = popen(command, "r");
    CHECK(f && pclose(f) == 0);
    return unused;
}

static void masks_of_children(void) {
    pthread_t t;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0);
    path[n] = 0;
    block(SIGUSR2);
    CHECK(pthread_create(&t, NULL, starts_processes, NULL) == 0 && pthread_join(t, NULL) == 0);
    starts_processes(NULL);
}

/* ---- attributes ------------------------------------------------------------------------------------------------------ */

static void *knows_its_stack(void *bytes) {
    pthread_attr_t attr;
    cpu_set_t mine, said;
    void *low;
    size_t n;
    char here;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstack(&attr, &low, &n) == 0);
    CHECK(&here > (char *)low && &here < (char *)low + n && n == *(size_t *)bytes);
    CHECK(pthread_attr_getaffinity_np(&attr, sizeof said, &said) == 0);
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof mine, &mine) == 0 && CPU_EQUAL(&mine, &said));
    return pthread_attr_destroy(&attr) == 0 ? NULL : bytes;
}
static void *knows_its_mask(void *unused) {
    sigset_t set;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 && sigismember(&set, SIGUSR2) == 1 &&
          sigismember(&set, SIGUSR1) == 0);
    return unused;
}

static void attributes(void) {
    pthread_t t;
    pthread_attr_t attr;
    size_t bytes = 5 << 18;
    struct sched_param wrong = {.sched_priority = 1};
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, bytes) == 0);
    CHECK(pthread_create(&t, &attr, knows_its_stack, &bytes) == 0 && pthread_join(t, NULL) == 0);
    CHECK(pthread_setattr_default_np(&attr) == 0);
    CHECK(pthread_create(&t, NULL, knows_its_stack, &bytes) == 0 && pthread_join(t, NULL) == 0);
    CHECK(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED) == 0);
    CHECK(pthread_attr_setschedpolicy(&attr, SCHED_FIFO) == 0 && pthread_attr_setschedparam(&attr, &wrong) == 0);
    CHECK(pthread_attr_setschedpolicy(&attr, SCHED_OTHER) == 0);
    CHECK(pthread_create(&t, &attr, knows_its_mask, NULL) == EINVAL);
#if __GLIBC_PREREQ(2, 32)
    sigset_t set;
    block(SIGUSR1);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setsigmask_np(&attr, &set) == 0);
    CHECK(pthread_create(&t, &attr, knows_its_mask, NULL) == 0 && pthread_join(t, NULL) == 0);
#endif
}

/* A clock that nothing can be timed by is an error also where there is nothing to wait for. */
static void wrong_clocks(void) {
#if __GLIBC_PREREQ(2, 30)
    sem_t sem;
    struct timespec at = {0, 0};
    CHECK(sem_init(&sem, 0, 1) == 0);
    for (int i = 0; i < 2; i++) {
        clockid_t clock = i ? CLOCK_PROCESS_CPUTIME_ID : 123456;
        CHECK(pthread_mutex_clocklock(&mutex, clock, &at) == EINVAL);
        CHECK(sem_clockwait(&sem, clock, &at) == -1 && errno == EINVAL);
    }
#endif
}

static const struct test tests[] = {
    {"handlers_on_threads", handlers_on_threads},
    {"handlers_while_computing", handlers_while_computing},
    {"alternative_stacks", alternative_stacks},
    {"without_a_handler", without_a_handler},
    {"faults", faults},
    {"blocked_until_later", blocked_until_later},
    {"masks_of_children", masks_of_children},
    {"tells_its_mask", tells_its_mask},
    {"attributes", attributes},
    {"wrong_clocks", wrong_clocks},
};

int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
