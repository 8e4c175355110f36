/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that ask for what a kernel thread alone has: they get one, and stay themselves (pin.c). */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void *run(void *(*fn)(void *), void *arg) {
    pthread_t t;
    void *result;
    CHECK(pthread_create(&t, NULL, fn, arg) == 0 && pthread_join(t, &result) == 0);
    return result;
}

/* ---- asynchronous cancellation ----------------------------------------------------------------------------------- */

static volatile int computing, cleaned;

static void clean(void *unused) {
    (void)unused;
    cleaned++;
}

static void *compute(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean, NULL);
    computing++;
    for (volatile int i = 0;; i++)
        ;
    pthread_cleanup_pop(0);
    return unused;
}

static sem_t never;
static void *waits_asynchronously(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean, NULL);
    computing++;
    sem_wait(&never);
    pthread_cleanup_pop(0);
    return unused;
}

static void cancelled_anywhere(void) {
    void *(*what[])(void *) = {compute, waits_asynchronously};
    CHECK(sem_init(&never, 0, 0) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        void *result;
        computing = cleaned = 0;
        CHECK(pthread_create(&t, NULL, what[i % 2], NULL) == 0);
        while (!computing)
            usleep(100);
        CHECK(pthread_cancel(t) == 0);
        CHECK(pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1);
    }
    CHECK(sem_post(&never) == 0 && sem_trywait(&never) == 0); /* nobody is left in its queue */
}

/* ---- locks and identity ------------------------------------------------------------------------------------------ */

static volatile pthread_t handled_by;
static void handler(int signal) {
    (void)signal;
    handled_by = pthread_self();
}

static void *holds_locks(void *unused) {
    pthread_mutexattr_t kind;
    pthread_mutex_t m, again;
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    pthread_t me = pthread_self();
    static __thread int mine = 7;
    int *at = &mine;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    CHECK(pthread_mutex_init(&m, &kind) == 0);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    CHECK(pthread_mutex_init(&again, &kind) == 0);
    CHECK(pthread_mutex_lock(&m) == 0 && pthread_mutex_lock(&again) == 0 && pthread_rwlock_wrlock(&rw) == 0);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(pthread_equal(handled_by, me) && pthread_equal(me, pthread_self()) && at == &mine && mine == 7);
    CHECK(pthread_mutex_lock(&m) == EDEADLK && pthread_mutex_unlock(&m) == 0 && pthread_mutex_unlock(&m) == EPERM);
    CHECK(pthread_mutex_lock(&again) == 0 && pthread_mutex_unlock(&again) == 0 && pthread_mutex_unlock(&again) == 0);
    CHECK(pthread_mutex_unlock(&again) == EPERM && pthread_rwlock_unlock(&rw) == 0);
    return unused;
}

static void keeps_what_it_holds(void) {
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    for (int i = 0; i < 20; i++)
        run(holds_locks, NULL);
}

/* ---- signals of its own ------------------------------------------------------------------------------------------ */

static void *blocks_and_raises(void *unused) {
    sigset_t set, old, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGKILL); /* which stays unblocked */
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &old) == 0 && sigismember(&old, SIGUSR1) && !sigismember(&old, SIGKILL));
    handled_by = 0;
    CHECK(raise(SIGUSR1) == 0 && handled_by == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0 && pthread_equal(handled_by, pthread_self()));
    return unused;
}

static sem_t waiting;
static void *waits_for_signal(void *unused) {
    sigset_t set;
    int got = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    sigpending(&(sigset_t){0}); /* pinned, so that what is sent to it waits for it */
    sem_post(&waiting);
    CHECK(sigwait(&set, &got) == 0 && got == SIGUSR2);
    return unused;
}

static void own_signals(void) {
    pthread_t t[2];
    CHECK(signal(SIGUSR1, handler) != SIG_ERR && sem_init(&waiting, 0, 0) == 0);
    for (int i = 0; i < 10; i++)
        run(blocks_and_raises, NULL);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, waits_for_signal, NULL) == 0 && sem_wait(&waiting) == 0);
    for (int i = 1; i >= 0; i--) /* to this one, not to the other */
        CHECK(pthread_kill(t[i], SIGUSR2) == 0 && pthread_join(t[i], NULL) == 0);
}

/* The older names of masks: what one thread blocks is no other's business, also where they share a worker. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static atomic_int others;
static void other_handler(int signal) {
    (void)signal;
    atomic_fetch_add(&others, 1);
}
static void *holds(void *unused) {
    const int other = 1 << (SIGUSR2 - 1);
    sigset_t now;
    CHECK(signal(SIGUSR2, other_handler) != SIG_ERR);
    CHECK(sigblock(other) == 0 && sigblock(0) == other && sigsetmask(0) == other && sigsetmask(other) == 0);
    CHECK(sigset(SIGUSR1, handler) != SIG_ERR && sighold(SIGUSR1) == 0 && sigset(SIGUSR1, SIG_HOLD) == SIG_HOLD);
    CHECK(sighold(-1) == -1 && errno == EINVAL && sigset(SIGKILL, SIG_DFL) == SIG_ERR && errno == EINVAL);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) == 1);
    CHECK(sem_post(&waiting) == 0);
    CHECK(sigpause(SIGUSR1) == -1 && errno == EINTR && others == 0); /* until the second of the other's pthread_kill */
    CHECK(sigrelse(SIGUSR2) == 0 && others == 1);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) == 1);
    CHECK(sigrelse(SIGUSR1) == 0 && pthread_sigmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) == 0);
    CHECK(sigset(SIGUSR1, SIG_HOLD) == (sighandler_t)handler && sigset(SIGUSR1, handler) == SIG_HOLD);
    return unused;
}
static void *holds_nothing(void *unused) {
    sigset_t now;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) == 0);
    return unused;
}
static void older_names(void) {
    pthread_t t;
    CHECK(sem_init(&waiting, 0, 0) == 0);
    CHECK(pthread_create(&t, NULL, holds, NULL) == 0 && sem_wait(&waiting) == 0);
    run(holds_nothing, NULL);
    CHECK(pthread_kill(t, SIGUSR2) == 0 && pthread_kill(t, SIGUSR1) == 0 && pthread_join(t, NULL) == 0);
}

/* ---- scheduling -------------------------------------------------------------------------------------------------- */

static void *own_cpu(void *unused) {
    cpu_set_t all, one, now;
    clockid_t clock;
    struct timespec a, b;
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    CHECK(pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0);
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof now, &now) == 0 && CPU_EQUAL(&one, &now));
    CHECK(pthread_getcpuclockid(pthread_self(), &clock) == 0 && clock_gettime(clock, &a) == 0);
    for (volatile int i = 0; i < 1000000; i++)
        ;
    CHECK(clock_gettime(clock, &b) == 0);
    CHECK(b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec > a.tv_nsec));
    return unused;
}

static void *any_cpu(void *all) {
    cpu_set_t now;
    CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL((cpu_set_t *)all, &now));
    return NULL;
}

/* What the first does to its kernel thread is gone for those that come later. */
static void scheduling(void) {
    cpu_set_t all;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int i = 0; i < 20; i++) {
        run(own_cpu, NULL);
        run(any_cpu, &all);
    }
}

/* ---- mutexes of the C library ------------------------------------------------------------------------------------ */

static pthread_mutex_t shared_mutex;
static void *dies_with_it(void *unused) {
    CHECK(pthread_mutex_lock(&shared_mutex) == 0);
    return unused;
}
static void *finds_it(void *unused) {
    CHECK(pthread_mutex_lock(&shared_mutex) == EOWNERDEAD && pthread_mutex_consistent(&shared_mutex) == 0);
    CHECK(pthread_mutex_unlock(&shared_mutex) == 0);
    return unused;
}

static void robust(void) {
    pthread_mutexattr_t kind;
    int ceiling;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_mutex_init(&shared_mutex, &kind) == 0);
    for (int i = 0; i < 10; i++) {
        run(dies_with_it, NULL);
        run(finds_it, NULL);
    }
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_STALLED);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_PROTECT);
    pthread_mutexattr_setprioceiling(&kind, 7);
    CHECK(pthread_mutex_init(&shared_mutex, &kind) == 0);
    CHECK(pthread_mutex_getprioceiling(&shared_mutex, &ceiling) == 0 && ceiling == 7);
    CHECK(pthread_mutex_setprioceiling(&shared_mutex, 9, &ceiling) == 0 && ceiling == 7);
    CHECK(pthread_mutex_getprioceiling(&shared_mutex, &ceiling) == 0 && ceiling == 9);
    CHECK(pthread_mutex_setprioceiling(&shared_mutex, 1000, &ceiling) == EINVAL);
}

/* ---- signals to a thread that waits ------------------------------------------------------------------------------ */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static volatile int released, about_to_wait, has_ended;

static void *in_mutex(void *unused) {
    about_to_wait = 1;
    CHECK(pthread_mutex_lock(&mutex) == 0 && released && pthread_mutex_unlock(&mutex) == 0);
    return unused;
}
static void *in_reader(void *unused) {
    about_to_wait = 1;
    CHECK(pthread_rwlock_rdlock(&rwlock) == 0 && released && pthread_rwlock_unlock(&rwlock) == 0);
    return unused;
}
static void *in_writer(void *unused) {
    about_to_wait = 1;
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0 && released && pthread_rwlock_unlock(&rwlock) == 0);
    return unused;
}
static void *in_barrier(void *unused) {
    about_to_wait = 1;
    pthread_barrier_wait(&barrier);
    CHECK(released);
    return unused;
}
static void *in_cond(void *unused) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    about_to_wait = 1;
    while (!released)
        CHECK(pthread_cond_wait(&cond, &mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return unused;
}
static void *in_sem(void *unused) {
    about_to_wait = 1;
    CHECK(sem_wait(&never) == -1 && errno == EINTR);
    has_ended = 1;
    return unused;
}
static void *in_sleep(void *unused) {
    struct timespec left = {0, 0};
    about_to_wait = 1;
    CHECK(nanosleep(&(struct timespec){1000, 0}, &left) == -1 && errno == EINTR && left.tv_sec > 900 &&
          left.tv_sec < 1000);
    has_ended = 1;
    return unused;
}

static void hold(void) {
    released = 0;
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_rwlock_wrlock(&rwlock) == 0);
}
static void release(void) {
    released = 1;
    CHECK(pthread_cond_broadcast(&cond) == 0 && pthread_mutex_unlock(&mutex) == 0 &&
          pthread_rwlock_unlock(&rwlock) == 0);
    pthread_barrier_wait(&barrier);
}
/* For in_cond() main must not hold the mutex while the thread begins to wait. */
static void signal_in(void *(*wait)(void *), bool ends_by_itself, int sleep_us) {
    pthread_t t;
    handled_by = 0;
    about_to_wait = has_ended = 0;
    hold();
    if (wait == in_cond)
        pthread_mutex_unlock(&mutex);
    CHECK(pthread_create(&t, NULL, wait, NULL) == 0);
    while (!about_to_wait)
        usleep(50);
    usleep((useconds_t)sleep_us);
    CHECK(pthread_kill(t, SIGUSR1) == 0);
    while (!handled_by)
        usleep(50);
    while (ends_by_itself &&
           !has_ended) { /* the handler may have run before the wait had begun, as often as it likes */
        CHECK(pthread_kill(t, SIGUSR1) == 0);
        usleep(1000);
    }
    CHECK(pthread_equal(handled_by, t));
    if (wait == in_cond)
        CHECK(pthread_mutex_lock(&mutex) == 0);
    if (ends_by_itself)
        CHECK(pthread_join(t, NULL) == 0);
    if (wait != in_barrier) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, in_barrier, NULL) == 0);
        release();
        CHECK(pthread_join(other, NULL) == 0);
    } else {
        release();
    }
    if (!ends_by_itself)
        CHECK(pthread_join(t, NULL) == 0);
}

/* A handler runs in the thread that the signal was sent to, and its wait goes on, or ends by EINTR where POSIX says so. */
static void signals_in_waits(void) {
    struct sigaction a = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0 && sem_init(&never, 0, 0) == 0);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    void *(*waits[])(void *) = {in_mutex, in_reader, in_writer, in_barrier, in_cond};
    for (int i = 0; i < 50; i++)
        signal_in(waits[i % 5], false, i * 20);
    for (int i = 0; i < 4; i++)
        signal_in(i % 2 ? in_sem : in_sleep, true, 0);
    CHECK(sem_post(&never) == 0 && sem_trywait(&never) == 0);
}

/* ---- what another asks for --------------------------------------------------------------------------------------- */

static void *asks_for_clock(void *t) {
    clockid_t clock;
    struct timespec now;
    CHECK(pthread_getcpuclockid(*(pthread_t *)t, &clock) == 0 && clock_gettime(clock, &now) == 0);
    return NULL;
}

static void others_clock(void) {
    pthread_t t;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    released = 1;
    CHECK(pthread_create(&t, NULL, in_barrier, NULL) == 0);
    usleep(1000);
    run(asks_for_clock, &t);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(t, NULL) == 0);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
}

/* ---- a writer that waits goes before readers that come later, where that was asked for --------------------------- */

static pthread_rwlock_t prefers_writer = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static void *writes(void *unused) {
    about_to_wait = 1;
    CHECK(pthread_rwlock_wrlock(&prefers_writer) == 0 && pthread_rwlock_unlock(&prefers_writer) == 0);
    return unused;
}
static void writers_first(void) {
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    for (int prefer = 0; prefer < 2; prefer++) {
        pthread_t t;
        if (!prefer)
            CHECK(pthread_rwlock_init(&prefers_writer, &kind) == 0);
        else if (pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0)
            CHECK(pthread_rwlock_init(&prefers_writer, &kind) == 0);
        about_to_wait = 0;
        CHECK(pthread_rwlock_rdlock(&prefers_writer) == 0);
        CHECK(pthread_create(&t, NULL, writes, NULL) == 0);
        while (!about_to_wait)
            usleep(50);
        int r = 0;
        time_t give_up = 0;
        for (int i = 0; r == 0 && (prefer ? is_early(&give_up) : i < 200); i++) { /* until the writer waits */
            usleep(prefer ? 1000 : 10);
            if ((r = pthread_rwlock_tryrdlock(&prefers_writer)) == 0)
                pthread_rwlock_unlock(&prefers_writer);
        }
        CHECK(r == (prefer ? EBUSY : 0));
        CHECK(pthread_rwlock_unlock(&prefers_writer) == 0 && pthread_join(t, NULL) == 0);
        CHECK(pthread_rwlock_destroy(&prefers_writer) == 0);
    }
}

static void *nothing(void *unused) {
    return unused;
}
static void joined_twice(void) {
    pthread_t t;
    CHECK(pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0);
    CHECK(pthread_detach(t) == ESRCH && pthread_join(t, NULL) == ESRCH);
}

/* ---- deadlines of calls in which a thread is pinned ---------------------------------------------------------------
 *
 * All wait at a time, and are pinned near their end, by what is no signal for the program: then nobody is woken early, nor waits
 * for the whole time again. On a loaded machine any of them may be late, so the latter is tried for a minute: each must once have
 * been in time. One that begins anew always ends WAIT_NS after it was pinned, or later.
 */
#define WAIT_NS 500000000ll
#define PINNED_AFTER_NS 400000000

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}
static const struct timespec wait_time = {0, WAIT_NS};

static void polls(void) {
    CHECK(poll(NULL, 0, WAIT_NS / 1000000) == 0);
}
static void ppolls(void) {
    CHECK(ppoll(NULL, 0, &wait_time, NULL) == 0);
}
static void selects(void) {
    struct timeval t = {0, WAIT_NS / 1000};
    CHECK(select(0, NULL, NULL, NULL, &t) == 0);
}
static void pselects(void) {
    CHECK(pselect(0, NULL, NULL, NULL, &wait_time, NULL) == 0);
}
static void epolls(void) {
    struct epoll_event event;
    int fd = epoll_create1(0);
    CHECK(epoll_wait(fd, &event, 1, WAIT_NS / 1000000) == 0);
    CHECK(close(fd) == 0);
}
static void epolls_masked(void) {
    struct epoll_event event;
    sigset_t mine;
    int fd = epoll_create1(0);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mine) == 0);
    CHECK(epoll_pwait(fd, &event, 1, WAIT_NS / 1000000, &mine) == 0);
    CHECK(close(fd) == 0);
}
static void waits_for_semaphores(void) {
    struct sembuf take = {0, -1, 0};
    int id = semget(IPC_PRIVATE, 1, 0600);
    CHECK(id >= 0 && semtimedop(id, &take, 1, &wait_time) == -1 && errno == EAGAIN);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
}
static void sleeps(void) {
    struct timespec left = {7, 7};
    CHECK(nanosleep(&wait_time, &left) == 0 && left.tv_sec == 7);
}
static void sleeps_by_another_clock(void) {
    struct timespec left = {7, 7};
    CHECK(clock_nanosleep(CLOCK_BOOTTIME, 0, &wait_time, &left) == 0 && left.tv_sec == 7);
}
static void waits_for_a_post(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += WAIT_NS;
    at.tv_sec += at.tv_nsec / 1000000000, at.tv_nsec %= 1000000000;
    CHECK(sem_timedwait(&never, &at) == -1 && errno == ETIMEDOUT);
}

static void receives(void) {
    struct timeval t = {0, WAIT_NS / 1000};
    char byte;
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
    CHECK(recv(fds[0], &byte, 1, 0) == -1 && errno == EAGAIN);
    CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
}
static void sends_on(void) {
    struct timeval t = {0, WAIT_NS / 1000};
    char bytes[4096] = {0};
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    while (send(fds[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    CHECK(setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) == 0);
    CHECK(write(fds[0], bytes, sizeof bytes) == -1 && errno == EAGAIN);
    CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
}

static void (*const waits[])(void) = {receives,
                                      sends_on,
                                      polls,
                                      ppolls,
                                      selects,
                                      pselects,
                                      epolls,
                                      epolls_masked,
                                      waits_for_semaphores,
                                      sleeps,
                                      sleeps_by_another_clock,
                                      waits_for_a_post};
enum { WAITS = sizeof waits / sizeof *waits };

static void *waits_once(void *end) {
    long long *at = end, begin = now_ns();
    waits[*at]();
    *at = now_ns();
    CHECK(*at - begin >= WAIT_NS - 1000000); /* CLOCK_REALTIME may be slewed */
    return NULL;
}

static void deadlines_stand(void) {
    long long end[WAITS], pinned[WAITS];
    bool in_time[WAITS] = {false}, all = false;
    cpu_set_t cpus;
    CHECK(sem_init(&never, 0, 0) == 0 && sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    for (time_t give_up = 0; !all && is_early(&give_up);) {
        pthread_t t[WAITS];
        for (int i = 0; i < WAITS; i++) {
            end[i] = i;
            CHECK(pthread_create(&t[i], NULL, waits_once, &end[i]) == 0);
        }
        nanosleep(&(struct timespec){0, PINNED_AFTER_NS}, NULL);
        for (int i = 0; i < WAITS; i++) {
            pinned[i] = now_ns();
            (void)pthread_setaffinity_np(t[i], sizeof cpus, &cpus); /* it may have ended */
        }
        all = true;
        for (int i = 0; i < WAITS; i++) {
            CHECK(pthread_join(t[i], NULL) == 0);
            in_time[i] |= end[i] < pinned[i] + WAIT_NS;
            all &= in_time[i];
        }
    }
    for (int i = 0; i < WAITS; i++)
        if (!in_time[i])
            fprintf(stderr, "wait %d began anew\n", i);
    CHECK(all);
}

/* A thread that computes hears of it by a signal, which may come when it is pinned already, or when another thread runs there. */
static volatile bool all_asked;
static void sleeps_whole(void) {
    CHECK(clock_nanosleep(CLOCK_BOOTTIME, 0, &(struct timespec){0, 1000000}, NULL) == 0);
}
static void *sleeps_again(void *unused) {
    while (!all_asked)
        sleeps_whole();
    return unused;
}
static void *yields_and_sleeps(void *ns) {
    for (long long end = now_ns() + (intptr_t)ns; now_ns() < end; sched_yield())
        ;
    sleeps_whole();
    return NULL;
}
static void sleeps_are_whole(void) {
    pthread_t sleepers[4], t;
    cpu_set_t cpus;
    unsigned seed = 1;
    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&sleepers[i], NULL, sleeps_again, NULL) == 0);
    for (long long end_ns = now_ns() + 2000000000; now_ns() < end_ns;) { /* an attempt, as often as it can be made */
        CHECK(pthread_create(&t, NULL, yields_and_sleeps, (void *)(intptr_t)(rand_r(&seed) % 60000)) == 0);
        for (long long end = now_ns() + rand_r(&seed) % 60000; now_ns() < end;)
            ;
        (void)pthread_setaffinity_np(t, sizeof cpus, &cpus); /* it may have ended */
        CHECK(pthread_join(t, NULL) == 0);
    }
    all_asked = true;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(sleepers[i], NULL) == 0);
}

static const struct test tests[] = {{"cancelled_anywhere", cancelled_anywhere},
                                    {"keeps_what_it_holds", keeps_what_it_holds},
                                    {"own_signals", own_signals},
                                    {"older_names", older_names},
                                    {"scheduling", scheduling},
                                    {"robust", robust},
                                    {"signals_in_waits", signals_in_waits},
                                    {"others_clock", others_clock},
                                    {"writers_first", writers_first},
                                    {"joined_twice", joined_twice},
                                    {"deadlines_stand", deadlines_stand},
                                    {"sleeps_are_whole", sleeps_are_whole}};

int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof tests[0], argc, argv);
}
