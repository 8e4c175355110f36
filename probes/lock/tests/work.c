/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program under the lock probe: `lock_work MODE`. It prints what it observes, which must not depend on the probe,
 * and leaves what it knows about its critical sections in KASURI_TEST_TRUTH. */
#define _GNU_SOURCE
#include "truth.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
static uint64_t stamp(void) {
    uint64_t t;
    __asm__ volatile("lfence; rdtsc; shl $32, %%rdx; or %%rdx, %%rax; lfence" : "=a"(t) : : "rdx", "memory");
    return t;
}
#elif defined(__aarch64__)
static uint64_t stamp(void) {
    uint64_t t;
    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(t) : : "memory");
    return t;
}
#else
static uint64_t stamp(void) {
    uint64_t t;
    __asm__ volatile("fence; rdtime %0; fence" : "=r"(t) : : "memory");
    return t;
}
#endif

static struct truths *truths, own;

static void open_truths(void) {
    const char *path = getenv("KASURI_TEST_TRUTH");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    truths = &own;
    if (fd >= 0) {
        void *p = mmap(NULL, sizeof *truths, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED)
            truths = p;
        close(fd);
    }
}

static void spin_ns(long ns) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do
        clock_gettime(CLOCK_MONOTONIC, &b);
    while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < ns);
}

static struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static struct truth *row(const void *object) {
    uint32_t n = __atomic_fetch_add(&truths->n, 1, __ATOMIC_RELAXED);
    if (n >= TRUTH_MAX)
        abort();
    truths->rows[n].object = (uintptr_t)object;
    truths->rows[n].pid = (uint64_t)getpid();
    truths->rows[n].tid = (uint64_t)gettid();
    return &truths->rows[n];
}

/* Whether a thread sleeps until `m` is free, from glibc's __lock. */
static int is_waited_for(pthread_mutex_t *m) {
    return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) > 1;
}

/* Whether the thread sleeps, from its state in /proc. */
static int is_asleep(pid_t tid) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const char *line = fgets(text, sizeof text, file);
    fclose(file);
    const char *name_end = line ? strrchr(line, ')') : NULL;
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

/* A critical section with its truth. */
#define SECTION(object, lock, body, unlock)                                                                            \
    do {                                                                                                               \
        struct truth *t_ = row((const void *)(object));                                                                \
        t_->before_lock = stamp();                                                                                     \
        (void)(lock);                                                                                                  \
        t_->after_lock = stamp();                                                                                      \
        body;                                                                                                          \
        t_->before_unlock = stamp();                                                                                   \
        (void)(unlock);                                                                                                \
        t_->after_unlock = stamp();                                                                                    \
    } while (0)

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static mtx_t c11;
static pthread_barrier_t barrier;

/* -- planted sections of every kind, several threads -- */

static void *planted_thread(void *argument) {
    long self = (long)argument;
    for (int i = 0; i < 400; i++) {
        SECTION(&first, pthread_mutex_lock(&first), spin_ns(500), pthread_mutex_unlock(&first));
        SECTION(&second, pthread_mutex_lock(&second), (void)0, pthread_mutex_unlock(&second));
        SECTION(&rw, pthread_rwlock_wrlock(&rw), spin_ns(200), pthread_rwlock_unlock(&rw));
        SECTION(&rw, pthread_rwlock_rdlock(&rw), spin_ns(200), pthread_rwlock_unlock(&rw));
        SECTION(&spin, pthread_spin_lock(&spin), (void)0, pthread_spin_unlock(&spin));
        SECTION(&c11, mtx_lock(&c11), (void)0, mtx_unlock(&c11));
        if (pthread_mutex_trylock(&first) == 0) {
            __atomic_fetch_add(&truths->acquisitions, 1, __ATOMIC_RELAXED);
            pthread_mutex_unlock(&first);
        }
        if (self == 0 && i % 50 == 0)
            usleep(100);
    }
    return NULL;
}

static int planted(void) {
    pthread_t t[3];
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    mtx_init(&c11, mtx_plain);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, planted_thread, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    puts("planted");
    return 0;
}

/* -- a known holder while another waits -- */

static sem_t held, asked;
__attribute__((noinline)) static void waits_here(void) {
    sem_post(&asked);
    SECTION(&first, pthread_mutex_lock(&first), (void)0, pthread_mutex_unlock(&first));
}
static void *waiter(void *p) {
    sem_wait(&held);
    waits_here();
    return p;
}
/* Hold on for a while, which begins when another thread waits for `first`. */
static void until_waited_for(void) {
    sem_wait(&asked);
    while (!is_waited_for(&first))
        usleep(1000);
    usleep(30000);
}
static int holder(void) {
    pthread_t t;
    sem_init(&held, 0, 0);
    sem_init(&asked, 0, 0);
    pthread_create(&t, NULL, waiter, NULL);
    truths->holder = (uint32_t)gettid();
    SECTION(&first, pthread_mutex_lock(&first), (sem_post(&held), until_waited_for()), pthread_mutex_unlock(&first));
    pthread_join(t, NULL);
    puts("holder");
    return 0;
}

/* -- convoy: all threads queue for one lock that is nearly always held -- */

/* The first thread to come waits for the others: so one of them has to wait for the lock even where a single CPU runs
 * them one after the other. */
static void hold_up(void) {
    static int is_held_up;
    if (!is_held_up++)
        while (!is_waited_for(&first))
            usleep(1000);
    spin_ns(20000);
}
static void *convoy_thread(void *p) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 100; i++)
        SECTION(&first, pthread_mutex_lock(&first), hold_up(), pthread_mutex_unlock(&first));
    return p;
}
static int convoy(void) {
    pthread_t t[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, convoy_thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    puts("convoy");
    return 0;
}

/* -- inversion: two orders, one after the other -- */

static void *inverted(void *p) {
    SECTION(&second, pthread_mutex_lock(&second),
            SECTION(&first, pthread_mutex_lock(&first), (void)0, pthread_mutex_unlock(&first)),
            pthread_mutex_unlock(&second));
    return p;
}
static int inversion(void) {
    pthread_t t;
    SECTION(&first, pthread_mutex_lock(&first),
            SECTION(&second, pthread_mutex_lock(&second), (void)0, pthread_mutex_unlock(&second)),
            pthread_mutex_unlock(&first));
    pthread_create(&t, NULL, inverted, NULL);
    pthread_join(t, NULL);
    puts("inversion");
    return 0;
}

/* -- results and errno of every call, used rightly and wrongly -- */

#define SAY(call)                                                                                                      \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        int r_ = (call);                                                                                               \
        int e_ = errno;                                                                                                \
        printf("%s = %d errno %d\n", #call, r_, e_);                                                                   \
    } while (0)

static void *dies_holding(void *m) {
    pthread_mutex_lock(m);
    return NULL;
}
static void *holds_a_while(void *m) {
    pthread_mutex_lock(m);
    sem_post(&held);
    sem_wait(&asked);
    pthread_mutex_unlock(m);
    return NULL;
}
static void no_op(int s) {
    (void)s;
}
static int once_runs;
static void once_function(void) {
    once_runs++;
}

static void say_mutexes(void) {
    pthread_mutexattr_t a;
    pthread_mutex_t m, robust;
    pthread_t t;
    struct timespec past = {1, 0}, bad = {1, -1}, soon;
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    sem_init(&held, 0, 0);
    sem_init(&asked, 0, 0);
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        pthread_mutexattr_init(&a);
        pthread_mutexattr_settype(&a, types[i]);
        SAY(pthread_mutex_init(&m, &a));
        SAY(pthread_mutex_lock(&m));
        SAY(pthread_mutex_trylock(&m));
        if (types[i] != PTHREAD_MUTEX_NORMAL && types[i] != PTHREAD_MUTEX_ADAPTIVE_NP)
            SAY(pthread_mutex_lock(&m)); /* EDEADLK, or once more */
        SAY(pthread_mutex_timedlock(&m, &past));
        SAY(pthread_mutex_timedlock(&m, &bad));
        SAY(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &past));
        SAY(pthread_mutex_clocklock(&m, CLOCK_PROCESS_CPUTIME_ID, &past));
        for (int n = types[i] == PTHREAD_MUTEX_RECURSIVE ? 6 : 1; n > 0; n--)
            SAY(pthread_mutex_unlock(&m));
        if (types[i] == PTHREAD_MUTEX_ERRORCHECK || types[i] == PTHREAD_MUTEX_RECURSIVE)
            SAY(pthread_mutex_unlock(&m)); /* EPERM */
        SAY(pthread_mutex_clocklock(&m, CLOCK_PROCESS_CPUTIME_ID, &past));
        SAY(pthread_mutex_destroy(&m));
        SAY(pthread_mutex_init(&m, &a));
        pthread_create(&t, NULL, holds_a_while, &m);
        sem_wait(&held);
        SAY(pthread_mutex_trylock(&m));
        soon = in_ms(CLOCK_REALTIME, 5);
        SAY(pthread_mutex_timedlock(&m, &soon));
        soon = in_ms(CLOCK_MONOTONIC, 5);
        SAY(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &soon));
        SAY(pthread_mutex_destroy(&m)); /* EBUSY */
        sem_post(&asked);
        pthread_join(t, NULL);
        pthread_mutexattr_destroy(&a);
    }
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    for (int repair = 0; repair < 2; repair++) {
        SAY(pthread_mutex_init(&robust, &a));
        pthread_create(&t, NULL, dies_holding, &robust);
        pthread_join(t, NULL);
        SAY(pthread_mutex_lock(&robust)); /* EOWNERDEAD */
        if (repair)
            SAY(pthread_mutex_consistent(&robust));
        SAY(pthread_mutex_unlock(&robust));
        SAY(pthread_mutex_lock(&robust)); /* ENOTRECOVERABLE, or repaired */
        SAY(pthread_mutex_trylock(&robust));
        if (repair)
            SAY(pthread_mutex_unlock(&robust));
    }
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
    SAY(pthread_mutex_init(&m, &a));
    SAY(pthread_mutex_lock(&m));
    SAY(pthread_mutex_trylock(&m));
    SAY(pthread_mutex_unlock(&m));
    pthread_mutex_t wrong = PTHREAD_MUTEX_INITIALIZER;
    wrong.__data.__kind = 0x7f;
    SAY(pthread_mutex_lock(&wrong));
    SAY(pthread_mutex_trylock(&wrong));
    pthread_mutex_t free_one = PTHREAD_MUTEX_INITIALIZER;
    SAY(pthread_mutex_unlock(&free_one)); /* undefined by POSIX, 0 in glibc */
}

/* Each function that takes a lock, some times on a lock of its own, which is destroyed after it. Prints the function, the
 * lock, and how many holds, requests and requests in vain a recorder must find. */
static int times = 2;
static void way(const char *name, const volatile void *lock, int failed, int holds, int in_vain) {
    printf("%s %p %d %d %d\n", failed ? "failed" : name, (void *)(uintptr_t)lock, holds, in_vain, in_vain);
}

#define WAY(type, set_up, tear_down, release, call)                                                                    \
    do {                                                                                                               \
        static type lock;                                                                                              \
        int failed = (set_up), i;                                                                                      \
        for (i = 0; i < times; i++)                                                                                    \
            failed |= (call) | (release);                                                                              \
        way(#call, &lock, failed | (tear_down), times, 0);                                                             \
    } while (0)
#define WAY_MUTEX(call)                                                                                                \
    WAY(pthread_mutex_t, pthread_mutex_init(&lock, NULL), pthread_mutex_destroy(&lock), pthread_mutex_unlock(&lock),   \
        call)
#define WAY_RWLOCK(call)                                                                                               \
    WAY(pthread_rwlock_t, pthread_rwlock_init(&lock, NULL), pthread_rwlock_destroy(&lock),                             \
        pthread_rwlock_unlock(&lock), call)
#define WAY_SPIN(call)                                                                                                 \
    WAY(pthread_spinlock_t, pthread_spin_init(&lock, 0), pthread_spin_destroy(&lock), pthread_spin_unlock(&lock), call)
#define WAY_MTX(call) WAY(mtx_t, mtx_init(&lock, mtx_timed), (mtx_destroy(&lock), 0), mtx_unlock(&lock), call)

/* As WAY, with a try that fails while the lock is held; `in_vain`: whether it is one that may wait. */
#define WAY_HELD(type, set_up, release, hold, call, in_vain)                                                           \
    do {                                                                                                               \
        static type lock;                                                                                              \
        int failed = (set_up) | (hold);                                                                                \
        failed |= !(call);                                                                                             \
        failed |= (release);                                                                                           \
        way(#call, &lock, failed, 1, in_vain);                                                                         \
    } while (0)
#define HELD_MUTEX(call, in_vain)                                                                                      \
    WAY_HELD(pthread_mutex_t, pthread_mutex_init(&lock, NULL), pthread_mutex_unlock(&lock), pthread_mutex_lock(&lock), \
             call, in_vain)
#define HELD_RWLOCK(call, in_vain)                                                                                     \
    WAY_HELD(pthread_rwlock_t, pthread_rwlock_init(&lock, NULL), pthread_rwlock_unlock(&lock),                         \
             pthread_rwlock_rdlock(&lock), call, in_vain)

#define HELD_WRITTEN(call, in_vain)                                                                                    \
    WAY_HELD(pthread_rwlock_t, pthread_rwlock_init(&lock, NULL), pthread_rwlock_unlock(&lock),                         \
             pthread_rwlock_wrlock(&lock), call, in_vain)
#define HELD_SPIN(call, in_vain)                                                                                       \
    WAY_HELD(pthread_spinlock_t, pthread_spin_init(&lock, 0), pthread_spin_unlock(&lock), pthread_spin_lock(&lock),    \
             call, in_vain)
#define HELD_MTX(call, in_vain)                                                                                        \
    WAY_HELD(mtx_t, mtx_init(&lock, mtx_timed), mtx_unlock(&lock), mtx_lock(&lock), call, in_vain)

static int ways(void) {
    struct timespec past = {1, 0}, later = in_ms(CLOCK_REALTIME, 60000), soon = in_ms(CLOCK_MONOTONIC, 60000);
    WAY_MUTEX(pthread_mutex_lock(&lock));
    WAY_MUTEX(pthread_mutex_trylock(&lock));
    WAY_MUTEX(pthread_mutex_timedlock(&lock, &later));
    WAY_MUTEX(pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &soon));
    WAY_RWLOCK(pthread_rwlock_rdlock(&lock));
    WAY_RWLOCK(pthread_rwlock_tryrdlock(&lock));
    WAY_RWLOCK(pthread_rwlock_timedrdlock(&lock, &later));
    WAY_RWLOCK(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &soon));
    WAY_RWLOCK(pthread_rwlock_wrlock(&lock));
    WAY_RWLOCK(pthread_rwlock_trywrlock(&lock));
    WAY_RWLOCK(pthread_rwlock_timedwrlock(&lock, &later));
    WAY_RWLOCK(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &soon));
    WAY_SPIN(pthread_spin_lock(&lock));
    WAY_SPIN(pthread_spin_trylock(&lock));
    WAY_MTX(mtx_lock(&lock));
    WAY_MTX(mtx_trylock(&lock));
    WAY_MTX(mtx_timedlock(&lock, &later));
    HELD_MUTEX(pthread_mutex_trylock(&lock), 0);
    HELD_MUTEX(pthread_mutex_timedlock(&lock, &past), 1);
    HELD_MUTEX(pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &past), 1);
    HELD_RWLOCK(pthread_rwlock_trywrlock(&lock), 0);
    HELD_RWLOCK(pthread_rwlock_timedwrlock(&lock, &past), 1);
    HELD_RWLOCK(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &past), 1);
    HELD_WRITTEN(pthread_rwlock_tryrdlock(&lock), 0);
    HELD_WRITTEN(pthread_rwlock_trywrlock(&lock), 0);
    HELD_WRITTEN(pthread_rwlock_timedrdlock(&lock, &past), 1);
    HELD_WRITTEN(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &past), 1);
    HELD_SPIN(pthread_spin_trylock(&lock), 0);
    HELD_MTX(mtx_trylock(&lock), 0);
    HELD_MTX(mtx_timedlock(&lock, &past), 1);
    static mtx_t wrong; /* an error is neither a hold nor a wait */
    ((pthread_mutex_t *)(void *)&wrong)->__data.__kind = 0x7f;
    way("mtx_lock", &wrong, mtx_lock(&wrong) == thrd_success, 0, 0);
    way("mtx_trylock", &wrong, mtx_trylock(&wrong) == thrd_success, 0, 0);
    return 0;
}
/* So often that events of the locks fill many chunks. */
static int often(void) {
    times = 3000;
    return ways();
}
/* What light mode records of these, without a choice by chance, is said at the head of thread.c. */
static int sampled(void) {
    times = 94;
    return ways();
}
/* The same while a hold of another lock is being recorded. */
static int sampled_inside(void) {
    pthread_mutex_lock(&first);
    int result = sampled();
    pthread_mutex_unlock(&first);
    return result;
}

/* The first lock of the process is a spin lock, which only the C library's own function has initialised. */
static int first_spin(void) {
    static pthread_spinlock_t lock;
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    int (*init)(pthread_spinlock_t *, int) =
        (int (*)(pthread_spinlock_t *, int))(uintptr_t)dlsym(libc, "pthread_spin_init");
    int failed = !init || init(&lock, 0);
    failed |= pthread_spin_lock(&lock) | pthread_spin_unlock(&lock);
    way("spin", &lock, failed, 1, 0);
    return 0;
}

/* Two locks that have the same place in the thread's table, so that each is forgotten for the other. */
static int forgotten(void) {
    static struct {
        pthread_mutex_t m;
        char rest[(1 << 19) - sizeof(pthread_mutex_t)];
    } two[2];
    static const int uses[] = {10, 5, 3, 1};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < uses[i]; k++) {
            pthread_mutex_lock(&two[i % 2].m);
            pthread_mutex_unlock(&two[i % 2].m);
        }
    printf("%p %p\n", (void *)&two[0].m, (void *)&two[1].m);
    return 0;
}

/* A thread that uses many locks finds that the recorder has gone, while this one has room in its chunk. What this one
 * locks from then on is no part of the recording. */
static void *finds_the_end(void *p) {
    static pthread_mutex_t locks[1024];
    for (int i = 0; i < 1024; i++) {
        pthread_mutex_lock(&locks[i]);
        pthread_mutex_unlock(&locks[i]);
    }
    return p;
}
static void *posts(void *p) {
    usleep(20000);
    sem_post(p);
    return NULL;
}
static int after_the_end(void) {
    pthread_t t;
    static sem_t s;
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    struct timespec past = {1, 0};
    pthread_mutex_init(&first, NULL);
    for (int i = 0; i < 40; i++) {
        pthread_mutex_lock(&first);
        pthread_mutex_unlock(&first);
    }
    __atomic_store_n(&truths->waits, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&truths->waits, __ATOMIC_ACQUIRE) != 2)
        usleep(1000);
    pthread_create(&t, NULL, finds_the_end, NULL);
    pthread_join(t, NULL);
    truths->rows[0].before_lock = stamp();
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&first);
        pthread_mutex_unlock(&first);
    }
    times = 100;
    ways();
    sem_init(&s, 0, 0);
    pthread_create(&t, NULL, posts, &s);
    sem_wait(&s);
    pthread_join(t, NULL);
    pthread_mutex_lock(&first);
    pthread_cond_timedwait(&c, &first, &past);
    pthread_mutex_unlock(&first);
    return 0;
}

/* More locks held at once than light mode remembers. */
static int deep(void) {
    static pthread_mutex_t locks[70];
    for (int i = 0; i < 70; i++) {
        pthread_mutex_init(&locks[i], NULL);
        pthread_mutex_lock(&locks[i]);
    }
    for (int i = 70; i > 0; i--)
        pthread_mutex_unlock(&locks[i - 1]);
    return 0;
}

/* -- light mode: what waits is recorded whole, whatever the lock -- */

enum { KNOWN = 40 }; /* holds after which light mode counts a lock, and the next hold is not one that it records */

/* Ways to lock and unlock, for a thread that holds one while another wants it. */
struct lock_of_kind {
    void *lock;
    int (*take)(void *), (*leave)(void *);
    int (*hold)(void *); /* by the other thread */
    int spins;           /* a thread that waits does not sleep */
};
static pid_t wanted_by, held_by;
static clockid_t wanted_clock; /* CPU time of the thread that wants the lock */

static int take_mutex(void *l) {
    return pthread_mutex_lock(l);
}
static int leave_mutex(void *l) {
    return pthread_mutex_unlock(l);
}
static int take_read(void *l) {
    return pthread_rwlock_rdlock(l);
}
static int take_write(void *l) {
    return pthread_rwlock_wrlock(l);
}
static int leave_rw(void *l) {
    return pthread_rwlock_unlock(l);
}
static int take_spin(void *l) {
    return pthread_spin_lock(l);
}
static int leave_spin(void *l) {
    return pthread_spin_unlock(l);
}
static int take_mtx(void *l) {
    return mtx_lock(l);
}
static int leave_mtx(void *l) {
    return mtx_unlock(l);
}

/* Whether the thread that wants the lock waits for it: it sleeps, or has used up some CPU time. */
static int is_wanted(const struct lock_of_kind *k) {
    struct timespec used = {0, 0};
    if (!__atomic_load_n(&wanted_by, __ATOMIC_ACQUIRE))
        return 0;
    clock_gettime(wanted_clock, &used);
    return k->spins ? used.tv_sec || used.tv_nsec > 20000000 : is_asleep(wanted_by);
}

/* Holds the lock until another thread waits for it. */
static void *holds_until_wanted(void *argument) {
    struct lock_of_kind *k = argument;
    held_by = gettid();
    k->hold(k->lock);
    sem_post(&held);
    while (!is_wanted(k))
        usleep(1000);
    k->leave(k->lock);
    return NULL;
}

/* Use the lock until it is known, then wait for it once. */
static void want(const char *name, struct lock_of_kind *k) {
    pthread_t t;
    int failed = 0;
    for (int i = 0; i < KNOWN; i++)
        failed |= k->take(k->lock) | k->leave(k->lock);
    wanted_by = 0;
    pthread_create(&t, NULL, holds_until_wanted, k);
    while (sem_wait(&held) != 0)
        ;
    __atomic_store_n(&wanted_by, gettid(), __ATOMIC_RELEASE);
    failed |= k->take(k->lock) | k->leave(k->lock);
    pthread_join(t, NULL);
    printf("%s %p %d\n", failed ? "failed" : name, k->lock, k->spins ? 0 : held_by);
}

static int wanted(void) {
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    static pthread_mutex_t m[5];
    static pthread_rwlock_t l[2];
    pthread_mutexattr_t a;
    sem_init(&held, 0, 0);
    pthread_getcpuclockid(pthread_self(), &wanted_clock);
    for (int i = 0; i < 5; i++) {
        struct lock_of_kind k = {&m[i], take_mutex, leave_mutex, take_mutex, 0};
        pthread_mutexattr_init(&a);
        if (i < 4)
            pthread_mutexattr_settype(&a, types[i]);
        else
            pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&m[i], &a);
        want("mutex", &k);
    }
    for (int i = 0; i < 2; i++) {
        struct lock_of_kind k = {&l[i], i ? take_write : take_read, leave_rw, take_write, 0};
        pthread_rwlock_init(&l[i], NULL);
        want(i ? "writer" : "reader", &k);
    }
    struct lock_of_kind k = {&c11, take_mtx, leave_mtx, take_mtx, 0};
    mtx_init(&c11, mtx_plain);
    want("mtx", &k);
    k = (struct lock_of_kind){(void *)(uintptr_t)&spin, take_spin, leave_spin, take_spin, 1};
    pthread_spin_init(&spin, 0);
    want("spin", &k);
    return 0;
}

/* -- a lock that others read, and one that was read -- */

static void *reads_a_while(void *p) {
    pthread_rwlock_rdlock(&rw);
    sem_post(&held);
    while (sem_wait(&asked) != 0)
        ;
    pthread_rwlock_unlock(&rw);
    return p;
}
static int readers(void) {
    pthread_t t;
    sem_init(&held, 0, 0);
    sem_init(&asked, 0, 0);
    for (int i = 0; i < KNOWN; i++) {
        pthread_rwlock_rdlock(&rw);
        pthread_rwlock_unlock(&rw);
    }
    SAY(pthread_rwlock_rdlock(&rw));
    SAY(pthread_rwlock_trywrlock(&rw)); /* EBUSY: it is read */
    SAY(pthread_rwlock_unlock(&rw));
    pthread_create(&t, NULL, reads_a_while, NULL);
    while (sem_wait(&held) != 0)
        ;
    SAY(pthread_rwlock_rdlock(&rw));
    sem_post(&asked);
    pthread_join(t, NULL);
    SAY(pthread_rwlock_trywrlock(&rw)); /* EBUSY: this thread reads on */
    SAY(pthread_rwlock_unlock(&rw));
    SAY(pthread_rwlock_trywrlock(&rw));
    SAY(pthread_rwlock_tryrdlock(&rw)); /* EBUSY */
    SAY(pthread_rwlock_unlock(&rw));
    return 0;
}

/* -- waits that end by their time -- */

/* Prints the call, its object, the waits that a recorder must find, and how many of them say that time ended them. */
#define TIMED(object, call, result, waits, told)                                                                       \
    do {                                                                                                               \
        int r_ = (call);                                                                                               \
        printf("%s %p %d %d\n", r_ == (result) ? #call : "failed", (void *)(object), waits, told);                     \
    } while (0)

static int timed_waits(void) {
    static sem_t s[5];
    static pthread_cond_t c[3] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
    static pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    static cnd_t c11_cond;
    struct timespec soon = in_ms(CLOCK_REALTIME, 5), ticks = in_ms(CLOCK_MONOTONIC, 5);
    for (int i = 0; i < 5; i++)
        sem_init(&s[i], 0, i == 4 ? 2 : 0);
    TIMED(&s[0], sem_timedwait(&s[0], &soon), -1, 1, 0);
    TIMED(&s[1], sem_clockwait(&s[1], CLOCK_REALTIME, &soon), -1, 1, 0);
    TIMED(&s[2], sem_clockwait(&s[2], CLOCK_MONOTONIC, &ticks), -1, 1, 0);
    TIMED(&s[3], sem_trywait(&s[3]), -1, 0, 0);
    TIMED(&s[4], sem_clockwait(&s[4], CLOCK_PROCESS_CPUTIME_ID, &soon), -1, 0, 0);
    TIMED(&s[4], sem_wait(&s[4]), 0, 0, 0); /* free: no wait */
    pthread_mutex_lock(&m);
    TIMED(&c[0], pthread_cond_timedwait(&c[0], &m, &soon), ETIMEDOUT, 1, 1);
    TIMED(&c[1], pthread_cond_clockwait(&c[1], &m, CLOCK_MONOTONIC, &ticks), ETIMEDOUT, 1, 1);
    pthread_mutex_unlock(&m);
    TIMED(&c[2], pthread_cond_timedwait(&c[2], &m, &soon), EPERM, 1, 0); /* not held before, nor after */
    mtx_init(&c11, mtx_plain);
    cnd_init(&c11_cond);
    mtx_lock(&c11);
    TIMED(&c11_cond, cnd_timedwait(&c11_cond, &c11, &soon), thrd_timedout, 1, 1);
    mtx_unlock(&c11);
    static mtx_t c11_free;
    static cnd_t c11_other;
    mtx_init(&c11_free, mtx_plain | mtx_recursive);
    cnd_init(&c11_other);
    TIMED(&c11_other, cnd_timedwait(&c11_other, &c11_free, &soon), thrd_error, 1, 0); /* not held before, nor after */
    mtx_lock(&c11_free);
    mtx_unlock(&c11_free);
    way("mtx", &c11_free, 0, 1, 0);
    way("mutex", &m, 0, 3, 0); /* the first hold and one after each wait */
    way("mtx", &c11, 0, 2, 0);
    return 0;
}

/* -- locks that no module has -- */

/* Each kind of lock at the same address twice, shared with other processes where that can be said. */
static int lives(void) {
    static pthread_mutex_t m;
    static pthread_rwlock_t l;
    static pthread_spinlock_t s;
    static mtx_t c;
    for (int i = 0; i < 2; i++) {
        pthread_mutex_init(&m, NULL);
        pthread_rwlock_init(&l, NULL);
        pthread_spin_init(&s, PTHREAD_PROCESS_SHARED);
        mtx_init(&c, mtx_plain | mtx_recursive);
    }
    printf("%p %d\n%p %d\n", (void *)&m, 0, (void *)&l, 1);
    printf("%p %d\n%p %d\n", (void *)(uintptr_t)&s, 2, (void *)&c, 3);
    return 0;
}

static void use_new(pthread_mutex_t *m) {
    pthread_mutex_init(m, NULL);
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
}
/* On the stack, on the heap, and in a page above a mapped file that it does not touch. */
static int outside(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    pthread_mutex_t on_stack, *on_heap = malloc(sizeof *on_heap);
    if (fd < 0 || !on_heap)
        return 1;
    use_new(&on_stack); /* first, so that the probe has mapped what it needs, and maps nothing into the gap below */
    use_new(on_heap);
    char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mmap(pages, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED ||
        munmap(pages + page, page) != 0 || mprotect(pages + 2 * page, page, PROT_READ | PROT_WRITE) != 0)
        return 1;
    use_new((pthread_mutex_t *)(void *)(pages + 2 * page));
    close(0); /* the next file that is opened, as by the probe for the name of this lock, has number 0 */
    use_new(&first);
    free(on_heap);
    return 0;
}

static void say_others(void) {
    struct timespec past = {1, 0}, soon;
    pthread_rwlock_t l;
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_spinlock_t s;
    sem_t sem;
    cnd_t cnd;
    mtx_t mtx;
    SAY(pthread_rwlock_init(&l, NULL));
    SAY(pthread_rwlock_wrlock(&l));
    SAY(pthread_rwlock_rdlock(&l)); /* EDEADLK */
    SAY(pthread_rwlock_tryrdlock(&l));
    SAY(pthread_rwlock_trywrlock(&l));
    SAY(pthread_rwlock_timedwrlock(&l, &past));
    SAY(pthread_rwlock_timedrdlock(&l, &past));
    SAY(pthread_rwlock_clockrdlock(&l, CLOCK_PROCESS_CPUTIME_ID, &past));
    SAY(pthread_rwlock_unlock(&l));
    SAY(pthread_rwlock_rdlock(&l));
    SAY(pthread_rwlock_rdlock(&l));
    SAY(pthread_rwlock_trywrlock(&l));
    SAY(pthread_rwlock_clockwrlock(&l, CLOCK_MONOTONIC, &past));
    SAY(pthread_rwlock_unlock(&l));
    SAY(pthread_rwlock_unlock(&l));
    SAY(pthread_rwlock_destroy(&l));
    SAY(pthread_spin_init(&s, 0));
    SAY(pthread_spin_lock(&s));
    SAY(pthread_spin_trylock(&s));
    SAY(pthread_spin_unlock(&s));
    SAY(pthread_cond_wait(&c, &m)); /* EPERM: not ours */
    SAY(pthread_mutex_lock(&m));
    soon = in_ms(CLOCK_REALTIME, 3);
    SAY(pthread_cond_timedwait(&c, &m, &soon));
    soon = in_ms(CLOCK_MONOTONIC, 3);
    SAY(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon));
    SAY(pthread_cond_timedwait(&c, &m, &past));
    past.tv_nsec = -1;
    SAY(pthread_cond_timedwait(&c, &m, &past));
    past.tv_nsec = 0;
    SAY(pthread_mutex_unlock(&m));
    SAY(pthread_once(&once, once_function));
    SAY(pthread_once(&once, once_function));
    printf("ran %d times\n", once_runs);
    SAY(sem_init(&sem, 0, 1));
    SAY(sem_wait(&sem));
    SAY(sem_trywait(&sem));
    SAY(sem_timedwait(&sem, &past));
    SAY(sem_clockwait(&sem, CLOCK_MONOTONIC, &past));
    SAY(sem_clockwait(&sem, CLOCK_PROCESS_CPUTIME_ID, &past));
    struct sigaction act = {.sa_handler = no_op};
    sigaction(SIGALRM, &act, NULL);
    ualarm(3000, 3000);  /* again and again: the first may come before it waits */
    SAY(sem_wait(&sem)); /* EINTR */
    ualarm(0, 0);
    SAY(pthread_join(pthread_self(), NULL)); /* EDEADLK */
    SAY(mtx_init(&mtx, mtx_plain));
    SAY(mtx_lock(&mtx));
    SAY(mtx_trylock(&mtx));
    SAY(mtx_timedlock(&mtx, &past));
    SAY(cnd_init(&cnd));
    soon = in_ms(CLOCK_REALTIME, 3);
    SAY(cnd_timedwait(&cnd, &mtx, &soon));
    SAY(mtx_unlock(&mtx));
}

static int say(void) {
    say_mutexes();
    say_others();
    return 0;
}

/* -- ways to leave -- */

static void unlock(void *m) {
    pthread_mutex_unlock(m);
}
static void *cancelled(void *c) {
    pthread_mutex_lock(&first);
    pthread_cleanup_push(unlock, &first);
    sem_post(&held);
    pthread_cond_wait(c, &first);
    pthread_cleanup_pop(1);
    return NULL;
}
static void *cancelled_at_sem(void *s) {
    sem_post(&held);
    sem_wait(s);
    return NULL;
}
static int cancel(void) {
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    static sem_t empty;
    pthread_t t;
    void *result;
    sem_init(&held, 0, 0);
    sem_init(&empty, 0, 0);
    for (int i = 0; i < 20; i++) {
        pthread_create(&t, NULL, i & 1 ? cancelled_at_sem : cancelled, i & 1 ? (void *)&empty : (void *)&never);
        sem_wait(&held);
        if (i % 4 < 2)
            usleep(1000);
        pthread_cancel(t);
        pthread_join(t, &result);
        printf("cancelled %d, mutex %d\n", result == PTHREAD_CANCELED, pthread_mutex_trylock(&first));
        pthread_mutex_unlock(&first);
    }
    return 0;
}

/* A semaphore that is there must still be a point of cancellation. */
static void *cancelled_before(void *s) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    sem_post(&held);
    sem_wait(&asked);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    sem_wait(s);
    puts("not cancelled");
    return NULL;
}
static int cancel_pending(void) {
    static sem_t full;
    pthread_t t;
    void *result;
    sem_init(&held, 0, 0);
    sem_init(&asked, 0, 0);
    sem_init(&full, 0, 5);
    pthread_create(&t, NULL, cancelled_before, &full);
    sem_wait(&held);
    pthread_cancel(t);
    sem_post(&asked);
    pthread_join(t, &result);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);
    return 0;
}

static pthread_key_t key;
static void late(void *p) {
    SECTION(&first, pthread_mutex_lock(&first), (void)0, pthread_mutex_unlock(&first));
    if (p != &key)
        pthread_setspecific(key, &key); /* once more, in the next round of destructors */
}
static void *with_destructor(void *p) {
    pthread_setspecific(key, &first);
    return p;
}
static void at_exit(void) {
    SECTION(&second, pthread_mutex_lock(&second), (void)0, pthread_mutex_unlock(&second));
    puts("at exit");
}
static int destructors(void) {
    pthread_t t;
    pthread_key_create(&key, late);
    atexit(at_exit);
    for (int i = 0; i < 200; i++) {
        pthread_create(&t, NULL, with_destructor, NULL);
        pthread_join(t, NULL);
    }
    return 5;
}

static void section(void) {
    SECTION(&first, pthread_mutex_lock(&first), (void)0, pthread_mutex_unlock(&first));
}
static int forks(void) {
    int status;
    section();
    for (int i = 0; i < 5; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            for (int n = 0; n < 10; n++)
                section();
            if (i == 4)
                execl("/proc/self/exe", "lock_work", "section", (char *)NULL);
            _exit(i);
        }
        waitpid(pid, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
        section();
    }
    return 0;
}

/* A mutex in shared memory: parent and child, one robust and its holder killed. */
static int process_shared(void) {
    pthread_mutexattr_t a;
    int status;
    pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(m, &a);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            for (int n = 0; n < 200; n++)
                SECTION(m, pthread_mutex_lock(m), spin_ns(1000), pthread_mutex_unlock(m));
            pthread_mutex_lock(m);
            raise(SIGKILL);
        }
        waitpid(pid, &status, 0);
        printf("killed by %d\n", WTERMSIG(status));
        SAY(pthread_mutex_lock(m));
        SAY(pthread_mutex_consistent(m));
        SAY(pthread_mutex_unlock(m));
    }
    return 0;
}

/* -- many -- */

static int many_locks(void) {
    enum { n = 20000 };
    pthread_mutex_t *m = calloc(n, sizeof *m);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < n; i++)
            if (pthread_mutex_lock(&m[i]) == 0 && pthread_mutex_unlock(&m[i]) == 0)
                truths->acquisitions++;
    printf("%u\n", truths->acquisitions);
    free(m);
    return 0;
}

static void *one_lock(void *p) {
    pthread_mutex_lock(&first);
    __atomic_fetch_add(&truths->acquisitions, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&first);
    return p;
}
static int short_threads(void) {
    pthread_t t[8];
    for (int i = 0; i < 500; i++) {
        for (int j = 0; j < 8; j++)
            pthread_create(&t[j], NULL, one_lock, NULL);
        for (int j = 0; j < 8; j++)
            pthread_join(t[j], NULL);
    }
    printf("%u\n", truths->acquisitions);
    return 0;
}

static void *counted_thread(void *p) {
    for (int i = 0; i < 200000; i++) {
        pthread_mutex_lock(p);
        pthread_mutex_unlock(p);
    }
    return NULL;
}
static int counted(void) {
    static pthread_mutex_t each[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, counted_thread, &each[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 2000; i++) /* the inner release must not end the outer hold */
        SECTION(&recursive, pthread_mutex_lock(&recursive),
                (pthread_mutex_lock(&recursive), pthread_mutex_unlock(&recursive), spin_ns(500)),
                pthread_mutex_unlock(&recursive));
    puts("counted");
    return 0;
}

static pthread_once_t slow_once = PTHREAD_ONCE_INIT;
static pid_t once_tids[3];
static int once_runs_now;
/* The function of pthread_once: lasts until the two other threads wait for its end. */
static void slow_function(void) {
    __atomic_store_n(&once_runs_now, 1, __ATOMIC_RELAXED);
    for (int i = 1; i < 3; i++)
        while (!is_asleep(__atomic_load_n(&once_tids[i], __ATOMIC_RELAXED)))
            usleep(1000);
}
/* The first thread runs it. The others come later: the wait of a thread that comes at the same moment is not recorded
 * (probe.md, limits). */
static void *once_thread(void *p) {
    long self = (long)p;
    pthread_barrier_wait(&barrier);
    while (self > 0 && !__atomic_load_n(&once_runs_now, __ATOMIC_RELAXED))
        usleep(100);
    __atomic_store_n(&once_tids[self], gettid(), __ATOMIC_RELAXED);
    pthread_once(&slow_once, slow_function);
    return p;
}
static void *barrier_thread(void *p) {
    int serial = 0;
    for (int i = 0; i < 50; i++)
        serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    __atomic_fetch_add(&truths->waits, (uint32_t)serial, __ATOMIC_RELAXED);
    return p;
}
static int waits(void) {
    pthread_t t[3];
    pthread_barrier_init(&barrier, NULL, 3);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, once_thread, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, barrier_thread, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    printf("serial %u\n", truths->waits);
    return 0;
}

/* A signal handler that posts while its thread is in the probe. */
static sem_t ticks;
static void on_tick(int s) {
    (void)s;
    int saved = errno;
    sem_post(&ticks);
    errno = saved;
}
static int signals(void) {
    struct sigaction act = {.sa_handler = on_tick};
    sem_init(&ticks, 0, 0);
    sigaction(SIGALRM, &act, NULL);
    ualarm(100, 100);
    for (int i = 0; i < 300000; i++) {
        pthread_mutex_lock(&first);
        pthread_mutex_lock(&second);
        pthread_mutex_unlock(&second);
        pthread_mutex_unlock(&first);
    }
    for (int i = 0; i < 5; i++)
        while (sem_wait(&ticks) != 0)
            ;
    ualarm(0, 0);
    puts("signals");
    return 0;
}

static int killed(void) {
    pthread_mutex_lock(&first);
    raise(SIGKILL);
    return 0;
}
static int aborts(void) {
    pthread_mutex_lock(&first);
    abort();
}
static int one_section(void) {
    section();
    puts("section");
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"planted", planted},
                 {"holder", holder},
                 {"convoy", convoy},
                 {"inversion", inversion},
                 {"say", say},
                 {"ways", ways},
                 {"often", often},
                 {"sampled", sampled},
                 {"sampled_inside", sampled_inside},
                 {"first_spin", first_spin},
                 {"forgotten", forgotten},
                 {"after_the_end", after_the_end},
                 {"deep", deep},
                 {"wanted", wanted},
                 {"readers", readers},
                 {"timed_waits", timed_waits},
                 {"outside", outside},
                 {"lives", lives},
                 {"cancel", cancel},
                 {"cancel_pending", cancel_pending},
                 {"destructors", destructors},
                 {"forks", forks},
                 {"process_shared", process_shared},
                 {"many_locks", many_locks},
                 {"short_threads", short_threads},
                 {"counted", counted},
                 {"waits", waits},
                 {"signals", signals},
                 {"killed", killed},
                 {"aborts", aborts},
                 {"section", one_section}};
    open_truths();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (argc > 1 && !strcmp(argv[1], modes[i].name))
            return modes[i].run();
    return 2;
}
