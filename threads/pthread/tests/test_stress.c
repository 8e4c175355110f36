/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that do what threads do, in random order, while others signal and cancel them. After each step what is thread-local is still the
 * thread's own, and at the end every lock is free and every cleanup has run once. ITO_STRESS_STEPS: steps in all (default 30,000);
 * ITO_STRESS_SEED: the seed, which is printed where something is wrong. See test_threads.c. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 24, LOCKS = 4 };

static pthread_mutex_t lock[LOCKS];
static pthread_cond_t changed[LOCKS];
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static long counted[LOCKS];
static atomic_long steps_left, counts, begun, cleaned, handled;
static sem_t units;
static int pair[THREADS][2], epoll[THREADS];
static uint64_t seed;
static __thread uint64_t mine, state;
static __thread int *errno_at;

static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void unlock(void *m) {
    CHECK(pthread_mutex_unlock(m) == 0);
}
static void unlock_shared(void *l) {
    CHECK(pthread_rwlock_unlock(l) == 0);
}

/* Counts under a lock, and sometimes waits for others, or is woken late. */
static void under_lock(uint64_t r) {
    int i = (int)(r % LOCKS);
    CHECK(pthread_mutex_lock(&lock[i]) == 0);
    pthread_cleanup_push(unlock, &lock[i]);
    long before = counted[i];
    if (r & 16)
        sched_yield();
    counted[i] = before + 1;
    atomic_fetch_add(&counts, 1);
    if (r & 32)
        pthread_cond_broadcast(&changed[i]);
    else if (r & 64) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += (long)(r >> 8 & 0xfffff);
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        int e = pthread_cond_timedwait(&changed[i], &lock[i], &t);
        CHECK(e == 0 || e == ETIMEDOUT);
    }
    pthread_cleanup_pop(1);
}
static void under_shared(uint64_t r) {
    CHECK((r & 16 ? pthread_rwlock_wrlock(&shared) : pthread_rwlock_rdlock(&shared)) == 0);
    pthread_cleanup_push(unlock_shared, &shared);
    if (r & 32)
        usleep(r >> 8 & 0xff);
    pthread_cleanup_pop(1);
}
static void wait_for_time(uint64_t r, int me) {
    struct timespec t = {0, (long)(r >> 8 & 0xfffff)};
    struct pollfd p = {pair[me][0], POLLIN, 0};
    struct epoll_event e;
    fd_set set;
    switch (r & 7) {
    case 0:
        nanosleep(&t, NULL);
        break;
    case 1:
        poll(&p, 1, (int)(r >> 8 & 1));
        break;
    case 2:
        ppoll(&p, 1, &t, NULL);
        break;
    case 3:
        epoll_wait(epoll[me], &e, 1, (int)(r >> 8 & 1));
        break;
    case 4:
        FD_ZERO(&set);
        FD_SET(pair[me][0], &set);
        pselect(pair[me][0] + 1, &set, NULL, NULL, &t, NULL);
        break;
    default:
        sched_yield();
    }
}
/* A byte to a neighbour, or one that has come; or a unit of a semaphore. */
static void pass_on(uint64_t r, int me) {
    char c = 0;
    struct timespec t;
    if (r & 8) {
        ssize_t n = send(pair[(r >> 8 & 0xff) % THREADS][1], &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        CHECK(n == 1 || errno == EAGAIN);
    } else if (r & 16) {
        if (recv(pair[me][0], &c, 1, MSG_DONTWAIT) < 0)
            CHECK(errno == EAGAIN);
    } else if (r & 32) {
        CHECK(sem_post(&units) == 0);
    } else {
        clock_gettime(CLOCK_REALTIME, &t);
        CHECK(sem_timedwait(&units, &t) == 0 || errno == ETIMEDOUT || errno == EINTR);
    }
}
static void in_memory(uint64_t r) {
    size_t n = r >> 8 & 0xfff;
    char *m = malloc(n + 1);
    memset(m, (int)n, n);
    CHECK(n == 0 || m[n - 1] == (char)n);
    free(m);
}

static void clean(void *unused) {
    (void)unused;
    CHECK(errno_at == &errno);
    atomic_fetch_add(&cleaned, 1);
}

static void *works(void *arg) {
    int me = (int)(intptr_t)arg;
    atomic_fetch_add(&begun, 1);
    errno_at = &errno;
    pthread_cleanup_push(clean, NULL);
    state = seed * 6364136223846793005u + (uint64_t)me * 1442695040888963407u + (uint64_t)begun + 1;
    while (atomic_fetch_sub(&steps_left, 1) > 0) {
        uint64_t r = next_random(&state);
        mine = r;
        errno = (int)(r & 0xff);
        if (r >> 60 < 6)
            under_lock(r);
        else if (r >> 60 < 8)
            under_shared(r);
        else if (r >> 60 < 11)
            wait_for_time(r, me);
        else if (r >> 60 < 14)
            pass_on(r, me);
        else if (r >> 60 < 15)
            in_memory(r);
        else
            CHECK(errno == (int)(r & 0xff));
        CHECK(mine == r && errno_at == &errno);
        if (r >> 40 & 1)
            pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static uint64_t number(const char *name, uint64_t usual) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : usual;
}

static void stress(void) {
    pthread_t t[THREADS];
    void *result;
    seed = number("ITO_STRESS_SEED", (uint64_t)time(NULL) << 8 | ((uint64_t)getpid() & 0xff));
    fprintf(stderr, "ITO_STRESS_SEED=%llu\n", (unsigned long long)seed);
    atomic_store(&steps_left, (long)number("ITO_STRESS_STEPS", 30000));
    struct sigaction a = {.sa_handler = handler, .sa_flags = seed & 1 ? SA_RESTART : 0};
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0 && sem_init(&units, 0, 3) == 0);
    for (int i = 0; i < LOCKS; i++)
        CHECK(pthread_mutex_init(&lock[i], NULL) == 0 && pthread_cond_init(&changed[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) {
        struct epoll_event e = {.events = EPOLLIN};
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]) == 0 && (epoll[i] = epoll_create1(0)) >= 0);
        CHECK(epoll_ctl(epoll[i], EPOLL_CTL_ADD, pair[i][0], &e) == 0);
    }
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, works, (void *)i) == 0);
    uint64_t mine_too = seed * 2 + 1;
    int cancelled = 0;
    /* Main may have no CPU while the others make their steps: then they get more, until both have happened that are asserted
     * below. */
    for (time_t give_up = 0;
         atomic_load(&steps_left) > 0 || ((cancelled == 0 || atomic_load(&handled) == 0) && is_early(&give_up));) {
        if (atomic_load(&steps_left) <= 0)
            atomic_store(&steps_left, 1000);
        uint64_t r = next_random(&mine_too);
        intptr_t i = (intptr_t)(r >> 8 & 0xffff) % THREADS;
        if (r & 1) {
            pthread_kill(t[i], SIGUSR1);
        } else if (r & 2) {
            CHECK(pthread_cancel(t[i]) == 0 && pthread_join(t[i], &result) == 0);
            CHECK(result == PTHREAD_CANCELED || result == NULL);
            cancelled += result == PTHREAD_CANCELED;
            CHECK(pthread_create(&t[i], NULL, works, (void *)i) == 0);
        } else {
            usleep(r >> 32 & 0x3ff);
        }
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    long sum = 0;
    for (int i = 0; i < LOCKS; i++) {
        CHECK(pthread_mutex_trylock(&lock[i]) == 0);
        sum += counted[i];
    }
    CHECK(pthread_rwlock_trywrlock(&shared) == 0);
    CHECK(sum == atomic_load(&counts) && atomic_load(&begun) == atomic_load(&cleaned));
    CHECK(cancelled > 0 && atomic_load(&handled) > 0);
}

static const struct test tests[] = {{"stress", stress}};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
