/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What threads wait for each other with, in an ordinary pthread program; see test_threads.c. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 20 };

static void run(int n, void *(*fn)(void *)) {
    pthread_t t[200];
    for (intptr_t i = 0; i < n; i++)
        CHECK(pthread_create(&t[i], NULL, fn, (void *)i) == 0);
    for (int i = 0; i < n; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}
static struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_nsec += ms % 1000 * 1000000;
    at.tv_sec += ms / 1000 + at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}
static const struct timespec no_time = {0, 1000000000};

/* ---- mutexes ----------------------------------------------------------------------------------------------------- */

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                       checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
                       adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t *mutexes[] = {&normal, &recursive, &checked, &adaptive};
static long counts[4];

static void *increments(void *arg) {
    for (int i = 0; i < 2000; i++) {
        int m = (int)((intptr_t)arg + i) % 4;
        if (i % 3 == 0) {
            while (pthread_mutex_trylock(mutexes[m]) == EBUSY)
                sched_yield();
        } else if (i % 3 == 1) {
            struct timespec at = in_ms(CLOCK_REALTIME, 60000);
            CHECK(pthread_mutex_timedlock(mutexes[m], &at) == 0);
        } else {
            CHECK(pthread_mutex_lock(mutexes[m]) == 0);
        }
        long seen = counts[m];
        if (i % 50 == 0)
            sched_yield(); /* a light thread is switched away while it holds it */
        counts[m] = seen + 1;
        CHECK(pthread_mutex_unlock(mutexes[m]) == 0);
    }
    return NULL;
}
static void *finds_it_locked(void *unused) {
    (void)unused;
    struct timespec past = {1, 0}, soon = in_ms(CLOCK_MONOTONIC, 5);
    for (int m = 0; m < 4; m++)
        CHECK(pthread_mutex_trylock(mutexes[m]) == EBUSY);
    CHECK(pthread_mutex_timedlock(&normal, &past) == ETIMEDOUT);
    CHECK(pthread_mutex_timedlock(&normal, &no_time) == EINVAL);
    CHECK(pthread_mutex_clocklock(&recursive, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    CHECK(pthread_mutex_unlock(&checked) == EPERM && pthread_mutex_unlock(&recursive) == EPERM);
    return NULL;
}
static void mutex_kinds(void) {
    run(N, increments);
    for (int m = 0; m < 4; m++)
        CHECK(counts[m] == N * 2000 / 4);
    for (int m = 0; m < 4; m++)
        CHECK(pthread_mutex_lock(mutexes[m]) == 0);
    run(1, finds_it_locked);
    CHECK(pthread_mutex_lock(&checked) == EDEADLK);
    CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_trylock(&recursive) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_mutex_unlock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == EPERM);
    CHECK(pthread_mutex_destroy(&normal) == EBUSY);
    CHECK(pthread_mutex_unlock(&normal) == 0 && pthread_mutex_timedlock(&normal, &no_time) == 0);
    CHECK(pthread_mutex_unlock(&normal) == 0 && pthread_mutex_destroy(&normal) == 0);
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int queue[4], n_queued;
static long sum;

static void *produces(void *arg) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&m);
        while (n_queued == 4)
            CHECK(pthread_cond_wait(&emptied, &m) == 0);
        queue[n_queued++] = (int)(intptr_t)arg + i;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&m);
    }
    return NULL;
}
static void *consumes(void *unused) {
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        struct timespec at = in_ms(CLOCK_REALTIME, 60000);
        pthread_mutex_lock(&m);
        while (n_queued == 0)
            CHECK(pthread_cond_timedwait(&filled, &m, &at) == 0);
        sum += queue[--n_queued];
        pthread_cond_broadcast(&emptied);
        pthread_mutex_unlock(&m);
    }
    return NULL;
}
static void *both(void *arg) {
    return (intptr_t)arg % 2 ? produces(arg) : consumes(arg);
}
static void conditions(void) {
    run(N, both);
    long expected = 0;
    for (int i = 1; i < N; i += 2)
        for (int k = 0; k < 1000; k++)
            expected += i + k;
    CHECK(sum == expected && n_queued == 0);
    pthread_condattr_t attr;
    pthread_cond_t c;
    pthread_condattr_init(&attr);
    CHECK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 && pthread_cond_init(&c, &attr) == 0);
    struct timespec at = in_ms(CLOCK_MONOTONIC, 20), now;
    pthread_mutex_lock(&m);
    CHECK(pthread_cond_timedwait(&c, &m, &no_time) == EINVAL);
    int r;
    while ((r = pthread_cond_timedwait(&c, &m, &at)) == 0)
        ;
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(r == ETIMEDOUT && (now.tv_sec > at.tv_sec || (now.tv_sec == at.tv_sec && now.tv_nsec >= at.tv_nsec)));
    pthread_mutex_unlock(&m);
    CHECK(pthread_cond_destroy(&c) == 0);
}

/* ---- read-write locks -------------------------------------------------------------------------------------------- */

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static long pair[2];
static atomic_int reads;
static void *reads_and_writes(void *arg) {
    for (int i = 0; i < 1000; i++) {
        if (((intptr_t)arg + i) % 4 == 0) {
            CHECK(pthread_rwlock_wrlock(&rw) == 0);
            pair[0]++;
            if (i % 40 == 0)
                sched_yield();
            pair[1]++;
        } else {
            CHECK(pthread_rwlock_rdlock(&rw) == 0);
            CHECK(pair[0] == pair[1]);
        }
        CHECK(pthread_rwlock_unlock(&rw) == 0);
    }
    return NULL;
}
static void *writes_once(void *unused) {
    (void)unused;
    atomic_fetch_add(&reads, 1);
    CHECK(pthread_rwlock_wrlock(&rw) == 0);
    CHECK(pthread_rwlock_unlock(&rw) == 0);
    return NULL;
}
static void *times_out(void *unused) {
    (void)unused;
    struct timespec at = in_ms(CLOCK_REALTIME, 5);
    CHECK(pthread_rwlock_trywrlock(&rw) == EBUSY);
    CHECK(pthread_rwlock_timedwrlock(&rw, &at) == ETIMEDOUT);
    CHECK(pthread_rwlock_timedwrlock(&rw, &no_time) == EINVAL);
    CHECK(pthread_rwlock_timedrdlock(&rw, &no_time) == EINVAL);
    CHECK(pthread_rwlock_timedrdlock(&rw, &at) == 0 && pthread_rwlock_unlock(&rw) == 0);
    return NULL;
}
static void rwlocks(void) {
    run(N, reads_and_writes);
    CHECK(pair[0] == N * 1000 / 4);
    /* A thread that reads may read once more, though a writer waits. */
    pthread_t t;
    CHECK(pthread_rwlock_rdlock(&rw) == 0);
    run(1, times_out);
    CHECK(pthread_create(&t, NULL, writes_once, NULL) == 0);
    while (atomic_load(&reads) == 0)
        sched_yield();
    usleep(20000);
    CHECK(pthread_rwlock_rdlock(&rw) == 0 && pthread_rwlock_tryrdlock(&rw) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_rwlock_unlock(&rw) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    CHECK(pthread_rwlock_destroy(&rw) == 0);
}

/* ---- semaphores, barriers, spin locks, once ---------------------------------------------------------------------- */

static sem_t ping[N], done;
static void *passes_on(void *arg) {
    intptr_t me = (intptr_t)arg;
    for (int i = 0; i < 500; i++) {
        CHECK(sem_wait(&ping[me]) == 0);
        CHECK(sem_post(&ping[(me + 1) % N]) == 0);
    }
    CHECK(sem_post(&done) == 0);
    return NULL;
}
static void nothing(int signal) {
    (void)signal;
}
static void semaphores(void) {
    int value;
    CHECK(sem_init(&done, 0, 0) == 0);
    for (int i = 0; i < N; i++)
        CHECK(sem_init(&ping[i], 0, 0) == 0);
    CHECK(sem_trywait(&ping[0]) == -1 && errno == EAGAIN);
    sem_post(&ping[0]);
    run(N, passes_on);
    for (int i = 0; i < N; i++)
        CHECK(sem_wait(&done) == 0);
    struct timespec at = in_ms(CLOCK_REALTIME, 10);
    CHECK(sem_timedwait(&done, &at) == -1 && errno == ETIMEDOUT);
    CHECK(sem_timedwait(&done, &no_time) == -1 && errno == EINVAL);
    CHECK(sem_getvalue(&ping[0], &value) == 0 && value == 1);
    /* A handler interrupts main's wait. */
    struct sigaction sa = {.sa_handler = nothing};
    sigaction(SIGALRM, &sa, NULL);
    /* Again and again: on a busy machine the first may come before it waits. */
    ualarm(10000, 10000);
    CHECK(sem_wait(&done) == -1 && errno == EINTR);
    ualarm(0, 0);
    CHECK(sem_getvalue(&done, &value) == 0 && value == 0);
    CHECK(sem_destroy(&done) == 0);
}

static pthread_barrier_t barrier;
static atomic_int arrived, serial;
static void *meets(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        atomic_fetch_add(&arrived, 1);
        int r = pthread_barrier_wait(&barrier);
        CHECK(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK(atomic_load(&arrived) >= N * (i + 1));
        atomic_fetch_add(&serial, r != 0);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}
static void barriers(void) {
    CHECK(pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    CHECK(pthread_barrier_init(&barrier, NULL, N) == 0);
    run(N, meets);
    CHECK(atomic_load(&serial) == 200 && pthread_barrier_destroy(&barrier) == 0);
}

enum { SPINS = 300 };
static pthread_spinlock_t spin;
static long spun;
static void *spins(void *unused) {
    (void)unused;
    for (int i = 0; i < SPINS; i++) {
        CHECK(pthread_spin_lock(&spin) == 0);
        long seen = spun;
        if (i % 100 == 0) /* seldom: kernel threads spin for their whole time slices then */
            sched_yield();
        spun = seen + 1;
        CHECK(pthread_spin_unlock(&spin) == 0);
    }
    return NULL;
}
static pthread_once_t once = PTHREAD_ONCE_INIT, left = PTHREAD_ONCE_INIT;
static int times, left_times;
static void once_slowly(void) {
    for (int i = 0; i < 20; i++)
        sched_yield();
    times++;
}
static void leaves_at_first(void) {
    sched_yield();
    if (++left_times < 3)
        pthread_exit(NULL);
}
static void *does_once(void *unused) {
    (void)unused;
    CHECK(pthread_once(&once, once_slowly) == 0);
    CHECK(times == 1);
    CHECK(pthread_once(&left, leaves_at_first) == 0);
    CHECK(left_times == 3);
    return NULL;
}
static void spin_and_once(void) {
    CHECK(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    run(N, spins);
    CHECK(spun == N * SPINS);
    run(100, does_once);
    CHECK(times == 1 && left_times == 3);
}

/* ---- cancellation of waits --------------------------------------------------------------------------------------- */

static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t no_unit;
static atomic_int cleaned, waiting;
static void unlock(void *mutex) {
    atomic_fetch_add(&cleaned, 1);
    CHECK(pthread_mutex_unlock(mutex) == 0);
}
static void *waits_for_ever(void *arg) {
    if ((intptr_t)arg % 2) {
        pthread_mutex_lock(&m);
        pthread_cleanup_push(unlock, &m);
        atomic_fetch_add(&waiting, 1);
        for (;;)
            pthread_cond_wait(&never, &m);
        pthread_cleanup_pop(0);
    }
    atomic_fetch_add(&waiting, 1);
    for (;;)
        sem_wait(&no_unit);
    return NULL;
}
static void *joins(void *id) {
    atomic_fetch_add(&waiting, 1);
    pthread_join(*(pthread_t *)id, NULL);
    return NULL;
}
static void cancelled_waits(void) {
    pthread_t t[N], joiner;
    void *result;
    CHECK(sem_init(&no_unit, 0, 0) == 0);
    for (int turn = 1; turn <= 20; turn++) {
        atomic_store(&waiting, 0);
        for (intptr_t i = 0; i < N; i++)
            CHECK(pthread_create(&t[i], NULL, waits_for_ever, (void *)i) == 0);
        while (turn % 2 && atomic_load(&waiting) < N)
            sched_yield();
        CHECK(pthread_create(&joiner, NULL, joins, &t[0]) == 0);
        while (turn % 2 && atomic_load(&waiting) < N + 1)
            sched_yield();
        if (turn % 4 == 1)
            usleep(2000);
        CHECK(pthread_cancel(joiner) == 0);
        CHECK(pthread_join(joiner, &result) == 0 && result == PTHREAD_CANCELED);
        for (int i = 0; i < N; i++)
            CHECK(pthread_cancel(t[i]) == 0);
        for (int i = 0; i < N; i++)
            CHECK(pthread_join(t[i], &result) == 0 && result == PTHREAD_CANCELED);
        if (turn == 1)
            CHECK(atomic_load(&cleaned) == N / 2);
    }
    CHECK(pthread_mutex_trylock(&m) == 0);
}

/* ---- what processes share ---------------------------------------------------------------------------------------- */

struct shared {
    pthread_mutex_t m;
    pthread_cond_t c;
    pthread_rwlock_t rw;
    sem_t s;
    long count, waited;
};
static struct shared *shared;
static void *works_with_the_other(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        CHECK(pthread_mutex_lock(&shared->m) == 0);
        long seen = shared->count;
        if (i % 20 == 0)
            sched_yield();
        shared->count = seen + 1;
        CHECK(pthread_mutex_unlock(&shared->m) == 0);
        CHECK(pthread_rwlock_wrlock(&shared->rw) == 0);
        CHECK(pthread_rwlock_unlock(&shared->rw) == 0);
        CHECK(sem_wait(&shared->s) == 0 && sem_post(&shared->s) == 0);
    }
    CHECK(pthread_mutex_lock(&shared->m) == 0);
    shared->waited++;
    pthread_cond_broadcast(&shared->c);
    while (shared->waited < 8)
        CHECK(pthread_cond_wait(&shared->c, &shared->m) == 0);
    CHECK(pthread_mutex_unlock(&shared->m) == 0);
    return NULL;
}
static void sharing(void) {
    pthread_mutexattr_t ma;
    pthread_condattr_t ca;
    pthread_rwlockattr_t ra;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pthread_mutexattr_init(&ma);
    pthread_condattr_init(&ca);
    pthread_rwlockattr_init(&ra);
    pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_rwlockattr_setpshared(&ra, PTHREAD_PROCESS_SHARED);
    CHECK(pthread_mutex_init(&shared->m, &ma) == 0 && pthread_cond_init(&shared->c, &ca) == 0);
    CHECK(pthread_rwlock_init(&shared->rw, &ra) == 0 && sem_init(&shared->s, 1, 2) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    run(4, works_with_the_other);
    if (child == 0)
        _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(shared->count == 2 * 4 * 200);
}

/* A condition that processes share, and that was made for CLOCK_MONOTONIC. */
static pthread_cond_t by_the_clock;
static pthread_mutex_t shared_lock;
static int clock_said;
static void *waits_by_the_clock(void *arg) {
    struct timespec start, until, now;
    int r = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    until = start;
    until.tv_sec += 1;
    CHECK(pthread_mutex_lock(&shared_lock) == 0);
    while (!clock_said)
        CHECK(pthread_cond_wait(&by_the_clock, &shared_lock) == 0);
    while (r == 0)
        r = pthread_cond_timedwait(&by_the_clock, &shared_lock, &until);
    CHECK(pthread_mutex_unlock(&shared_lock) == 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(r == ETIMEDOUT);
    CHECK(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
    return arg;
}
static void *says(void *arg) {
    CHECK(pthread_mutex_lock(&shared_lock) == 0);
    clock_said = 1;
    CHECK(pthread_cond_broadcast(&by_the_clock) == 0);
    CHECK(pthread_mutex_unlock(&shared_lock) == 0);
    return arg;
}
static void shared_clock(void) {
    pthread_t id[4], last;
    pthread_condattr_t ca;
    pthread_mutexattr_t ma;
    CHECK(pthread_condattr_init(&ca) == 0 && pthread_condattr_setclock(&ca, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED) == 0 && pthread_cond_init(&by_the_clock, &ca) == 0);
    CHECK(pthread_mutexattr_init(&ma) == 0 && pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&shared_lock, &ma) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&id[i], NULL, waits_by_the_clock, NULL) == 0);
    usleep(20000);
    CHECK(pthread_create(&last, NULL, says, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(id[i], NULL) == 0);
    CHECK(pthread_join(last, NULL) == 0);
}

/* A cleanup handler of a cancelled thread waits as any other code. */
static sem_t may_clean;
static void cleans_slowly(void *unused) {
    (void)unused;
    sem_post(&no_unit);
    CHECK(sem_wait(&may_clean) == 0);
    atomic_fetch_add(&cleaned, 1);
}
static void *cleans(void *arg) {
    pthread_cleanup_push(cleans_slowly, NULL);
    for (;;)
        sem_wait(&may_clean);
    pthread_cleanup_pop(0);
    return arg;
}
static void waiting_cleanups(void) {
    pthread_t id[20];
    void *result;
    CHECK(sem_init(&may_clean, 0, 0) == 0 && sem_init(&no_unit, 0, 0) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(pthread_create(&id[i], NULL, cleans, NULL) == 0);
        CHECK(pthread_cancel(id[i]) == 0);
    }
    for (int i = 0; i < 20; i++)
        CHECK(sem_wait(&no_unit) == 0);
    CHECK(atomic_load(&cleaned) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(sem_post(&may_clean) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(pthread_join(id[i], &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(atomic_load(&cleaned) == 20);
}

/* A light thread joins one with a stack of the program's, which is a kernel thread and waits for another light one; a
 * second such join is cancelled. */
static void *kernel_thread(void *posts) {
    if (posts)
        sem_post(&no_unit);
    CHECK(sem_wait(&may_clean) == 0);
    return posts;
}
static void *joins_it(void *id) {
    void *result;
    CHECK(pthread_join(*(pthread_t *)id, &result) == 0);
    return result;
}
static void *joins_it_in_time(void *id) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    CHECK(pthread_timedjoin_np(*(pthread_t *)id, NULL, &at) == ETIMEDOUT);
    at.tv_sec += 1000;
    CHECK(pthread_timedjoin_np(*(pthread_t *)id, NULL, &at) == 0);
    return NULL;
}
static void *lets_it(void *unused) {
    CHECK(sem_wait(&no_unit) == 0);
    CHECK(sem_post(&may_clean) == 0);
    return unused;
}
static void joins_of_kernel_threads(void) {
    static char stack[2][256 * 1024] __attribute__((aligned(4096)));
    pthread_t id[2], joiner[2], timed, lets;
    pthread_attr_t attr;
    void *result;
    CHECK(sem_init(&may_clean, 0, 0) == 0 && sem_init(&no_unit, 0, 0) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, stack[i], sizeof stack[i]) == 0);
        CHECK(pthread_create(&id[i], &attr, kernel_thread, i ? &attr : NULL) == 0);
        CHECK(pthread_create(&joiner[i], NULL, joins_it, &id[i]) == 0);
    }
    CHECK(pthread_create(&timed, NULL, joins_it_in_time, &id[0]) == 0);
    usleep(20000);
    CHECK(pthread_cancel(timed) == 0);
    CHECK(pthread_join(timed, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pthread_cancel(joiner[0]) == 0);
    CHECK(pthread_join(joiner[0], &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pthread_create(&lets, NULL, lets_it, NULL) == 0);
    CHECK(pthread_join(lets, NULL) == 0);
    CHECK(sem_post(&may_clean) == 0);
    CHECK(pthread_join(joiner[1], &result) == 0 && result == &attr);
    CHECK(pthread_join(id[0], &result) == 0 && result == NULL);
}

static const struct test tests[] = {
    {"mutex_kinds", mutex_kinds},
    {"conditions", conditions},
    {"rwlocks", rwlocks},
    {"semaphores", semaphores},
    {"barriers", barriers},
    {"spin_and_once", spin_and_once},
    {"cancelled_waits", cancelled_waits},
    {"sharing", sharing},
    {"waiting_cleanups", waiting_cleanups},
    {"joins_of_kernel_threads", joins_of_kernel_threads},
    {"shared_clock", shared_clock},
};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
