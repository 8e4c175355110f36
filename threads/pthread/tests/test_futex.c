/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that wait by syscall(SYS_futex), as those of Rust and C++20 do; see test_threads.c. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long futex(_Atomic uint32_t *at, int op, uint32_t value, const struct timespec *t, uint32_t bits) {
    return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, t, NULL, bits);
}
static long wait_while(_Atomic uint32_t *at, uint32_t value) {
    return futex(at, FUTEX_WAIT, value, NULL, 0);
}
static long wake(_Atomic uint32_t *at, uint32_t n) {
    return futex(at, FUTEX_WAKE, n, NULL, 0);
}

/* ---- a mutex as Rust's ------------------------------------------------------------------------------------------- */

enum { THREADS = 12, ROUNDS = 3000 };
static _Atomic uint32_t lock; /* 0 free, 1 locked, 2 others may wait */
static int counter;

static void take(void) {
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(&lock, &free, 1))
        return;
    while (atomic_exchange(&lock, 2) != 0)
        wait_while(&lock, 2);
}
static void give(void) {
    if (atomic_exchange(&lock, 0) == 2)
        wake(&lock, 1);
}

static void *counts(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        take();
        int now = counter;
        if (i % 16 == 0)
            sched_yield();
        counter = now + 1;
        give();
    }
    return unused;
}

/* main is a kernel thread, and is not passed by. */
static void futex_mutex(void) {
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, counts, NULL) == 0);
    counts(NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    CHECK(counter == (THREADS + 1) * ROUNDS);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static _Atomic uint32_t turn;
enum { TURNS = 20000 };

static void *takes_turns(void *me) {
    for (uint32_t i = (uint32_t)(uintptr_t)me; i < TURNS; i += 2) {
        for (uint32_t now; (now = turn) != i;)
            CHECK(wait_while(&turn, now) == 0 || errno == EAGAIN);
        turn = i + 1;
        wake(&turn, 1);
    }
    return me;
}

static void futex_turns(void) {
    pthread_t even, odd;
    CHECK(pthread_create(&even, NULL, takes_turns, (void *)0) == 0);
    CHECK(pthread_create(&odd, NULL, takes_turns, (void *)1) == 0);
    CHECK(pthread_join(even, NULL) == 0 && pthread_join(odd, NULL) == 0 && turn == TURNS);
}

/* ---- what the call says ------------------------------------------------------------------------------------------ */

static _Atomic uint32_t word, other, arrived;

static struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void *asks(void *unused) {
    struct timespec ms = {0, 2000000}, none = {0, 0}, wrong = {0, 1000000000}, at;
    CHECK(wait_while(&word, 1) == -1 && errno == EAGAIN);
    CHECK(futex(&word, FUTEX_WAIT, 0, &ms, 0) == -1 && errno == ETIMEDOUT);
    CHECK(futex(&word, FUTEX_WAIT, 0, &none, 0) == -1 && errno == ETIMEDOUT);
    CHECK(futex(&word, FUTEX_WAIT, 1, &none, 0) == -1 && errno == EAGAIN);
    CHECK(futex(&word, FUTEX_WAIT, 0, &wrong, 0) == -1 && errno == EINVAL);
    at = in_ms(CLOCK_MONOTONIC, 2);
    CHECK(futex(&word, FUTEX_WAIT_BITSET, 0, &at, 1) == -1 && errno == ETIMEDOUT);
    at = in_ms(CLOCK_REALTIME, 2);
    CHECK(futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &at, 1) == -1 && errno == ETIMEDOUT);
    CHECK(futex(&word, FUTEX_WAIT_BITSET, 0, NULL, 0) == -1 && errno == EINVAL);
    CHECK(futex((_Atomic uint32_t *)((char *)&word + 1), FUTEX_WAIT, 0, NULL, 0) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(wake(&word, 1) == 0 && errno == 0 && syscall(SYS_getpid) == getpid());
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    return unused;
}

static void *waits_for_bits(void *bits) {
    arrived++;
    while (futex(&word, FUTEX_WAIT_BITSET, 0, NULL, (uint32_t)(uintptr_t)bits) != 0)
        CHECK(errno == EINTR);
    return bits;
}

/* The other has come to its wait when a wake finds it. */
static void wake_bits(uint32_t bits, uint32_t n) {
    for (uint32_t woken = 0; woken < n; sched_yield()) {
        long r = futex(&word, FUTEX_WAKE_BITSET, n - woken, NULL, bits);
        CHECK(r >= 0 && (uint32_t)r <= n - woken);
        woken += (uint32_t)r;
    }
}

static void futex_answers(void) {
    pthread_t t, two, four[2];
    CHECK(pthread_create(&t, NULL, asks, NULL) == 0 && pthread_join(t, NULL) == 0);
    asks(NULL);
    CHECK(pthread_create(&two, NULL, waits_for_bits, (void *)2) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&four[i], NULL, waits_for_bits, (void *)4) == 0);
    wake_bits(4, 2);
    CHECK(pthread_join(four[0], NULL) == 0 && pthread_join(four[1], NULL) == 0);
    wake_bits(3, 1);
    CHECK(pthread_join(two, NULL) == 0);
}

/* ---- other ends of a wait ---------------------------------------------------------------------------------------- */

static _Atomic int handled;
static void handler(int signal) {
    (void)signal;
    handled++;
}

static void *waits_until_set(void *unused) {
    arrived++;
    while (word == 0)
        CHECK(wait_while(&word, 0) == 0 || errno == EAGAIN || errno == EINTR);
    return unused;
}
static void *is_interrupted(void *unused) {
    arrived++;
    CHECK(wait_while(&word, 0) == -1 && errno == EINTR);
    return unused;
}

static void futex_signals(void) {
    struct sigaction a = {.sa_handler = handler};
    pthread_t t;
    sigaction(SIGUSR1, &a, NULL);
    CHECK(pthread_create(&t, NULL, is_interrupted, NULL) == 0);
    while (arrived == 0)
        sched_yield();
    /* Again until it comes while the thread waits. */
    while (pthread_tryjoin_np(t, NULL) == EBUSY) {
        pthread_kill(t, SIGUSR1);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    CHECK(handled > 0);
    a.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &a, NULL);
    int before = handled;
    CHECK(pthread_create(&t, NULL, waits_until_set, NULL) == 0);
    while (handled == before) {
        pthread_kill(t, SIGUSR1);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    word = 1;
    wake(&word, 1);
    CHECK(pthread_join(t, NULL) == 0);
}

static void *requeued(void *unused) {
    arrived++;
    while (word == 0)
        wait_while(&word, 0);
    while (other == 0)
        wait_while(&other, 0);
    return unused;
}

/* Waiters that are to be moved to another word may wake, but none is lost. */
static void futex_requeue(void) {
    enum { N = 4 };
    pthread_t t[N];
    for (int i = 0; i < N; i++)
        CHECK(pthread_create(&t[i], NULL, requeued, NULL) == 0);
    while (arrived < N)
        sched_yield();
    word = 1;
    CHECK(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE_PRIVATE, 1, INT_MAX, &other, 1) >= 0);
    other = 1;
    wake(&other, INT_MAX);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

/* A child has the words, and none of those who wait. */
static void *forks(void *unused) {
    pid_t child = fork();
    if (child == 0) {
        struct timespec ms = {0, 1000000};
        bool right = wake(&word, INT_MAX) == 0 && futex(&word, FUTEX_WAIT, 0, &ms, 0) == -1 && errno == ETIMEDOUT;
        _exit(right ? 7 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return unused;
}

/* Threads that wait so have no kernel thread. */
static void futex_many(void) {
    enum { N = 200 };
    pthread_t t[N], parent;
    const char *light = getenv("LIGHT");
    for (int i = 0; i < N; i++)
        CHECK(pthread_create(&t[i], NULL, waits_until_set, NULL) == 0);
    while (arrived < N)
        sched_yield();
    CHECK(light ? tasks() < N / 4 : tasks() == N + 1);
    CHECK(pthread_create(&parent, NULL, forks, NULL) == 0 && pthread_join(parent, NULL) == 0);
    word = 1;
    wake(&word, INT_MAX);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

static const struct test tests[] = {
    {"futex_mutex", futex_mutex},     {"futex_turns", futex_turns},     {"futex_answers", futex_answers},
    {"futex_signals", futex_signals}, {"futex_requeue", futex_requeue}, {"futex_many", futex_many},
};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
