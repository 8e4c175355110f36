/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ordinary pthread program; CTest runs it alone and with libito-pthread.so preloaded: the same answers.
 *   test_threads NAME
 */
#define _GNU_SOURCE
#include "check.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- thread-local storage ---------------------------------------------------------------------------------------- */

/* Rounds of each thread: 10^6 switches a turn. The kernel yields where there is no library, and where a thread is alone:
 * beside other programs each of those takes milliseconds, and none is what is tested. There a few are enough. */
enum { TLS_THREADS = 100, TLS_ROUNDS = 10000, TLS_ROUNDS_OF_THE_KERNEL = 200, TLS_MOVES = 20 };
static int tls_rounds = TLS_ROUNDS_OF_THE_KERNEL;
static __thread uintptr_t mine = 77;
static __thread int zeroed[32];

static void *tls_keeps_its_values(void *arg) {
    uintptr_t me = (uintptr_t)arg;
    int *at = &errno;
    pthread_t self = pthread_self();
    CHECK(mine == 77);
    for (int i = 0; i < 32; i++)
        CHECK(zeroed[i] == 0);
    mine = me;
    zeroed[5] = (int)me;
    for (int i = 0; i < tls_rounds; i++) {
        errno = (int)(me + (uintptr_t)i);
        sched_yield();
        CHECK(errno == (int)(me + (uintptr_t)i));
        CHECK(&errno == at);
        CHECK(mine == me && zeroed[5] == (int)me);
        CHECK(pthread_equal(pthread_self(), self));
    }
    return (void *)(me * 3);
}

/* A thread has to go on by another kernel thread: the one that it was on runs a thread that computes, and yields to nobody,
 * until the first has gone on. How long that takes is the kernel's business, and nobody's here: who never comes is stopped
 * by CTest. */
static atomic_uint mover_was_on, computes_on_tid;
static atomic_int has_moved;
static void *keeps_a_kernel_thread(void *unused) {
    unsigned tid = (unsigned)syscall(SYS_gettid);
    if (tid == atomic_load(&mover_was_on)) {
        atomic_store(&computes_on_tid, tid);
        while (!atomic_load(&has_moved))
            ;
    }
    return unused;
}
static void *moves(void *arg) {
    uintptr_t me = (uintptr_t)arg;
    pthread_t self = pthread_self(), keeper;
    int *at = &errno;
    unsigned was_on;
    CHECK(mine == 77 && zeroed[5] == 0);
    mine = me;
    zeroed[5] = (int)me;
    do { /* again, where the other began on another kernel thread, or this one had gone on before it began */
        atomic_store(&has_moved, 0);
        atomic_store(&computes_on_tid, 0);
        was_on = (unsigned)syscall(SYS_gettid);
        atomic_store(&mover_was_on, was_on);
        CHECK(pthread_create(&keeper, NULL, keeps_a_kernel_thread, NULL) == 0);
        errno = (int)me;
        sched_yield();
        CHECK(errno == (int)me);
        bool kept = atomic_load(&computes_on_tid) == was_on;
        atomic_store(&has_moved, 1);
        CHECK(!kept || (unsigned)syscall(SYS_gettid) != was_on);
        CHECK(pthread_join(keeper, NULL) == 0);
        CHECK(&errno == at && mine == me && zeroed[5] == (int)me && pthread_equal(pthread_self(), self));
        if (kept)
            return (void *)(me * 3);
    } while (1);
}

/* ITO_TLS_TURNS sets the number of turns (2); from the second on threads have blocks that were used before. */
static void tls(void) {
    int turns = getenv("ITO_TLS_TURNS") ? atoi(getenv("ITO_TLS_TURNS")) : 2;
    if (getenv("LIGHT"))
        tls_rounds = TLS_ROUNDS;
    for (int turn = 0; turn < turns; turn++) {
        pthread_t t[TLS_THREADS];
        for (uintptr_t i = 0; i < TLS_THREADS; i++)
            CHECK(pthread_create(&t[i], NULL, tls_keeps_its_values, (void *)(i + 1)) == 0);
        for (uintptr_t i = 0; i < TLS_THREADS; i++) {
            void *result;
            CHECK(pthread_join(t[i], &result) == 0);
            CHECK((uintptr_t)result == (i + 1) * 3);
        }
    }
    for (uintptr_t i = 1; getenv("LIGHT") && atoi(getenv("LIGHT")) > 1 && i <= TLS_MOVES; i++) {
        pthread_t t;
        void *result;
        CHECK(pthread_create(&t, NULL, moves, (void *)i) == 0);
        CHECK(pthread_join(t, &result) == 0 && (uintptr_t)result == i * 3);
    }
}

/* The threads are light: far fewer kernel threads than threads. Preloaded only. */
static void *where(void *tids) {
    atomic_int *seen = tids;
    int me = (int)syscall(SYS_gettid);
    for (int i = 0; i < 200; i++) {
        int none = 0;
        if (atomic_load(&seen[i]) == me || atomic_compare_exchange_strong(&seen[i], &none, me))
            break;
        if (none == me)
            break;
    }
    return NULL;
}
static void are_light(void) {
    static atomic_int seen[200];
    pthread_t t[200];
    int n = 0;
    for (int i = 0; i < 200; i++)
        CHECK(pthread_create(&t[i], NULL, where, seen) == 0);
    for (int i = 0; i < 200; i++)
        pthread_join(t[i], NULL);
    while (n < 200 && atomic_load(&seen[n]))
        n++;
    printf("200 threads on %d kernel threads\n", n);
    if (getenv("LIGHT"))
        CHECK(n <= atoi(getenv("LIGHT")));
}

/* ---- end --------------------------------------------------------------------------------------------------------- */

static pthread_key_t key[40]; /* more than a control block's first level */
static atomic_int destroyed, cleaned;
static void destroy(void *value) {
    atomic_fetch_add(&destroyed, 1);
    if ((uintptr_t)value > 1)
        pthread_setspecific(key[0], (void *)((uintptr_t)value - 1)); /* another round */
}
static void *sets_keys(void *arg) {
    for (int i = 0; i < 40; i++)
        CHECK(pthread_getspecific(key[i]) == NULL);
    for (int i = 1; i < 40; i++)
        CHECK(pthread_setspecific(key[i], (void *)1) == 0);
    CHECK(pthread_setspecific(key[0], arg) == 0);
    sched_yield();
    CHECK(pthread_getspecific(key[0]) == arg && pthread_getspecific(key[39]) == (void *)1);
    return NULL;
}
static void keys(void) {
    CHECK(pthread_key_create(&key[0], destroy) == 0);
    for (int i = 1; i < 40; i++)
        CHECK(pthread_key_create(&key[i], i % 2 ? destroy : NULL) == 0);
    for (int turn = 0; turn < 20; turn++) {
        pthread_t t;
        atomic_store(&destroyed, 0);
        CHECK(pthread_create(&t, NULL, sets_keys, (void *)3) == 0);
        CHECK(pthread_join(t, NULL) == 0);
        CHECK(atomic_load(&destroyed) == 20 + 3);
    }
}

static void clean(void *unused) {
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}
/* From below a function of the C library. */
static int leaves(const void *a, const void *b) {
    (void)a;
    (void)b;
    pthread_exit((void *)4711);
}
static void *exits(void *unused) {
    (void)unused;
    pthread_cleanup_push(clean, NULL);
    pthread_cleanup_push(clean, NULL);
    sched_yield();
    int two[] = {2, 1};
    qsort(two, 2, sizeof *two, leaves);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}
static void exit_unwinds(void) {
    for (int i = 1; i <= 50; i++) {
        pthread_t t;
        void *result;
        CHECK(pthread_create(&t, NULL, exits, NULL) == 0);
        CHECK(pthread_join(t, &result) == 0);
        CHECK(result == (void *)4711 && atomic_load(&cleaned) == 2 * i);
    }
}

static atomic_int stop;
static void *runs_until_stop(void *unused) {
    (void)unused;
    while (!atomic_load(&stop))
        sched_yield();
    return (void *)5;
}
static void *joins_itself(void *unused) {
    (void)unused;
    return (void *)(intptr_t)pthread_join(pthread_self(), NULL);
}
static void *joins(void *id) {
    void *result = NULL;
    CHECK(pthread_join(*(pthread_t *)id, &result) == 0);
    return result;
}
static void joining(void) {
    pthread_t t, u;
    void *result;
    CHECK(pthread_create(&t, NULL, joins_itself, NULL) == 0);
    CHECK(pthread_join(t, &result) == 0 && (intptr_t)result == EDEADLK);
    CHECK(pthread_create(&t, NULL, runs_until_stop, NULL) == 0);
    CHECK(pthread_tryjoin_np(t, NULL) == EBUSY);
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 20000000;
    if (at.tv_nsec >= 1000000000)
        at.tv_sec++, at.tv_nsec -= 1000000000;
    CHECK(pthread_timedjoin_np(t, NULL, &at) == ETIMEDOUT);
    CHECK(pthread_create(&u, NULL, joins, &t) == 0);
    atomic_store(&stop, 1);
    CHECK(pthread_join(u, &result) == 0 && result == (void *)5);
    /* Detached before and after its end. */
    atomic_store(&stop, 0);
    CHECK(pthread_create(&t, NULL, runs_until_stop, NULL) == 0);
    CHECK(pthread_detach(t) == 0);
    CHECK(pthread_join(t, NULL) == EINVAL);
    atomic_store(&stop, 1);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 1000; i++)
        CHECK(pthread_create(&t, &attr, runs_until_stop, NULL) == 0);
}

/* ---- stacks, names ----------------------------------------------------------------------------------------------- */

static void *on_its_stack(void *wanted) {
    pthread_attr_t attr;
    void *low;
    size_t bytes;
    char here;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
    CHECK(pthread_attr_getstack(&attr, &low, &bytes) == 0);
    CHECK((char *)low < &here && &here < (char *)low + bytes);
    CHECK(bytes + 16384 >= (size_t)wanted); /* the C library, too, takes its block and a guard from it */
    pthread_attr_destroy(&attr);
    volatile char use[48000];
    for (size_t i = 0; i < sizeof use; i += 1000)
        use[i] = (char)i;
    sched_yield();
    for (size_t i = 0; i < sizeof use; i += 1000)
        CHECK(use[i] == (char)i);
    CHECK(pthread_setname_np(pthread_self(), "fifteen letters") == 0);
    CHECK(pthread_setname_np(pthread_self(), "sixteen letters!") == ERANGE);
    char name[16];
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "fifteen letters") == 0);
    return NULL;
}
static void stacks(void) {
    pthread_attr_t attr;
    pthread_t t;
    size_t usual;
    pthread_attr_init(&attr);
    pthread_attr_getstacksize(&attr, &usual);
    CHECK(pthread_create(&t, NULL, on_its_stack, (void *)usual) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    static const size_t sizes[] = {65536, 100000, 131072, 1u << 20, 64u << 20};
    for (int i = 0; i < 5; i++) {
        if (sizes[i] < (size_t)sysconf(_SC_THREAD_STACK_MIN)) /* 128 KiB on aarch64 */
            continue;
        CHECK(pthread_attr_setstacksize(&attr, sizes[i]) == 0);
        CHECK(pthread_create(&t, &attr, on_its_stack, (void *)sizes[i]) == 0);
        CHECK(pthread_join(t, NULL) == 0);
    }
    /* A stack of its own: a kernel thread, which works together with the others. */
    void *own;
    CHECK(posix_memalign(&own, 4096, 1 << 20) == 0);
    CHECK(pthread_attr_setstack(&attr, own, 1 << 20) == 0);
    CHECK(pthread_create(&t, &attr, on_its_stack, (void *)(1 << 19)) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    free(own);
}

/* ---- cancellation ------------------------------------------------------------------------------------------------ */

static void *tests_for_cancel(void *unused) {
    (void)unused;
    pthread_cleanup_push(clean, NULL);
    for (;;) {
        pthread_testcancel();
        sched_yield();
    }
    pthread_cleanup_pop(0);
    return NULL;
}
static void cancel(void) {
    pthread_t t;
    void *result;
    CHECK(pthread_create(&t, NULL, tests_for_cancel, NULL) == 0);
    sched_yield();
    CHECK(pthread_cancel(t) == 0);
    CHECK(pthread_join(t, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && atomic_load(&cleaned) == 1);
}

/* A thread that is cancelled after it got what it waited for keeps that, or it goes to another: it is never lost. */
static pthread_mutex_t token_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t token_came = PTHREAD_COND_INITIALIZER;
static int token_waiters, tokens, tokens_taken;

static void unlocks(void *lock) {
    pthread_mutex_unlock(lock);
}
static void *takes_token(void *unused) {
    struct timespec until;
    (void)unused;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60; /* where the token is lost */
    pthread_mutex_lock(&token_lock);
    pthread_cleanup_push(unlocks, &token_lock);
    token_waiters++;
    while (!tokens && pthread_cond_timedwait(&token_came, &token_lock, &until) == 0)
        ;
    tokens_taken += tokens;
    tokens = 0;
    pthread_cleanup_pop(1);
    return NULL;
}
static pthread_t waits_for_token(int waiters) {
    pthread_t t;
    CHECK(pthread_create(&t, NULL, takes_token, NULL) == 0);
    for (int n = 0; n < waiters; sched_yield()) {
        pthread_mutex_lock(&token_lock);
        n = token_waiters;
        pthread_mutex_unlock(&token_lock);
    }
    return t;
}
static void cancel_loses_no_signal(void) {
    pthread_t first = waits_for_token(1), second = waits_for_token(2);
    void *result;
    pthread_mutex_lock(&token_lock);
    tokens = 1;
    pthread_cond_signal(&token_came);
    CHECK(pthread_cancel(first) == 0);
    pthread_mutex_unlock(&token_lock);
    CHECK(pthread_join(first, &result) == 0);
    if (result != PTHREAD_CANCELED) { /* it has the token; the other one waits for nothing */
        pthread_mutex_lock(&token_lock);
        CHECK(tokens_taken == 1);
        tokens = 1;
        pthread_cond_signal(&token_came);
        pthread_mutex_unlock(&token_lock);
    }
    CHECK(pthread_join(second, NULL) == 0);
    CHECK(tokens_taken == (result == PTHREAD_CANCELED ? 1 : 2));
}

static sem_t unit;
static void *takes_unit(void *unused) {
    (void)unused;
    return sem_wait(&unit) == 0 ? &unit : NULL;
}
/* Itself light: of those on one worker the other one does not run before it waits. */
static void *posts_and_cancels(void *unused) {
    for (int i = 0; i < 200; i++) {
        pthread_t t;
        void *result;
        int left;
        CHECK(sem_init(&unit, 0, 0) == 0);
        CHECK(pthread_create(&t, NULL, takes_unit, NULL) == 0);
        for (int turns = i % 4; turns > 0; turns--)
            sched_yield();
        CHECK(sem_post(&unit) == 0);
        CHECK(pthread_cancel(t) == 0);
        CHECK(pthread_join(t, &result) == 0);
        CHECK(sem_getvalue(&unit, &left) == 0);
        CHECK(result == PTHREAD_CANCELED ? left == 1 : result == &unit && left == 0);
        sem_destroy(&unit);
    }
    return unused;
}
static void cancel_loses_no_unit(void) {
    pthread_t t;
    CHECK(pthread_create(&t, NULL, posts_and_cancels, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

static void *forks(void *unused) {
    (void)unused;
    mine = 5;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t t;
        void *result;
        CHECK(mine == 5);
        CHECK(pthread_create(&t, NULL, tls_keeps_its_values, (void *)9) == 0);
        CHECK(pthread_join(t, &result) == 0 && result == (void *)27);
        return NULL; /* the last thread of its process: exit(0) */
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return (void *)1;
}
static void forking(void) {
    pthread_t t;
    void *result;
    CHECK(pthread_create(&t, NULL, forks, NULL) == 0);
    CHECK(pthread_join(t, &result) == 0 && result == (void *)1);
    forks(NULL);
}

/* ids of all kernel threads are changed while light threads compute, and one waits in the kernel for a signal. */
static atomic_int computes;
static void *changes_ids(void *unused) {
    for (int i = 0; i < 50; i++)
        CHECK(setresuid(-1, getuid(), -1) == 0 && setgid(getgid()) == 0);
    return unused;
}
static void *computes_on(void *unused) {
    while (atomic_load(&computes))
        ;
    return unused;
}
static void *waits_for_one(void *unused) {
    sigset_t set;
    int got;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigwait(&set, &got) == 0 && got == SIGUSR1);
    return unused;
}
static void ids(void) {
    pthread_t t[3];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    atomic_store(&computes, 1);
    CHECK(pthread_create(&t[0], NULL, waits_for_one, NULL) == 0);
    CHECK(pthread_create(&t[1], NULL, changes_ids, NULL) == 0 && pthread_join(t[1], NULL) == 0);
    CHECK(pthread_create(&t[1], NULL, computes_on, NULL) == 0);
    changes_ids(NULL);
    atomic_store(&computes, 0);
    CHECK(pthread_create(&t[2], NULL, changes_ids, NULL) == 0);
    changes_ids(NULL);
    CHECK(pthread_kill(t[0], SIGUSR1) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

/* The process ends when the last of them does, whatever masks they have then, and not before. */
enum { OUTLIVING = 8 };
static atomic_int outlived;
static void all_have(void) {
    if (atomic_load(&outlived) != OUTLIVING)
        _exit(1);
}
static void *outlives_main(void *number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1 + (int)(intptr_t)number % 2);
    for (int i = 0; i < 1000; i++) {
        pthread_sigmask(i % 2 ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
        sched_yield();
    }
    atomic_fetch_add(&outlived, 1);
    return NULL;
}
static void main_exits(void) {
    CHECK(atexit(all_have) == 0);
    for (intptr_t i = 0; i < OUTLIVING; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, outlives_main, (void *)i) == 0);
    }
    pthread_exit(NULL);
}

static void *in_another_locale(void *unused) {
    (void)unused;
    CHECK(uselocale(0) == LC_GLOBAL_LOCALE);
    uselocale(newlocale(LC_ALL_MASK, "C", 0));
    void *block[8]; /* malloc's cache of the thread stays with the block */
    for (int i = 0; i < 8; i++)
        CHECK((block[i] = malloc(100)));
    for (int i = 0; i < 8; i++)
        free(block[i]);
    return NULL;
}
static void used_blocks(void) {
    for (int i = 0; i < 1000; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, in_another_locale, NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
    }
}

/* More threads come and go than the workers keep stacks for: they meet at ito's own locks. */
static void *empty(void *arg) {
    return arg;
}
static void *makes_many(void *unused) {
    pthread_t t[300];
    for (int turn = 0; turn < 10; turn++) {
        for (intptr_t i = 0; i < 300; i++)
            CHECK(pthread_create(&t[i], NULL, empty, (void *)i) == 0);
        for (intptr_t i = 0; i < 300; i++) {
            void *result;
            CHECK(pthread_join(t[i], &result) == 0 && result == (void *)i);
        }
    }
    return unused;
}
static void storm(void) {
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&t[i], NULL, makes_many, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

/* Libraries with thread-local variables come and go: a thread that gets a used block finds its own at their first
 * values. */
static long (*library_counts)(void);
static void *counts_three_times(void *unused) {
    CHECK(mine == 77 && zeroed[5] == 0);
    mine = 1;
    zeroed[5] = 1;
    for (long i = 1; library_counts && i <= 3; i++) {
        CHECK(library_counts() == 42 + i);
        sched_yield();
    }
    return unused;
}
static void on_used_blocks(void) {
    for (int turn = 0; turn < 3; turn++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&t[i], NULL, counts_three_times, NULL) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(t[i], NULL) == 0);
    }
}
static void with_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    library_counts = (long (*)(void))dlsym(library, "library_counts");
    on_used_blocks();
    CHECK(library_counts() > 42);
    library_counts = NULL;
    CHECK(dlclose(library) == 0);
    on_used_blocks();
}
static void libraries(void) {
    const char *allocated = getenv("ITO_TEST_TLS"), *in_block = getenv("ITO_TEST_TLS_STATIC");
    CHECK(allocated && in_block);
    on_used_blocks();
    for (int i = 0; i < 100; i++) /* more often than there are images */
        with_library(allocated);
    with_library(in_block);
    with_library(allocated);
}

static void *masks(void *unused) {
    (void)unused;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, &old) == 0);
    CHECK(sigismember(&old, SIGUSR1) && !sigismember(&old, SIGUSR2) && !sigismember(&old, SIGTERM));
    sched_yield();
    CHECK(sigprocmask(SIG_UNBLOCK, &set, &old) == 0);
    CHECK(sigismember(&old, SIGUSR1) && sigismember(&old, SIGUSR2));
    CHECK(pthread_sigmask(99, &set, NULL) == EINVAL);
    return NULL;
}
static atomic_int handled;
static void handler(int signal) {
    atomic_fetch_add(&handled, signal == SIGTERM);
}
static void signals(void) {
    sigset_t set;
    pthread_t t;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
    CHECK(pthread_create(&t, NULL, masks, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    signal(SIGTERM, handler);
    for (int i = 1; i <= 100; i++) { /* main does nothing but join */
        atomic_store(&stop, 0);
        CHECK(pthread_create(&t, NULL, runs_until_stop, NULL) == 0);
        CHECK(kill(getpid(), SIGTERM) == 0);
        while (atomic_load(&handled) < i)
            sched_yield();
        CHECK(pthread_kill(t, 0) == 0);
        atomic_store(&stop, 1);
        CHECK(pthread_join(t, NULL) == 0);
    }
}

/* What the C library prepares in each new thread: character tables, the global locale. */
static void *reads_tables(void *locale) {
    char text[40];
    volatile char upper = 'X', digit = '7';
    CHECK(uselocale(NULL) == LC_GLOBAL_LOCALE);
    CHECK(isalpha(upper) && !isalpha(digit) && tolower(upper) == 'x' && toupper('x') == upper);
    CHECK(snprintf(text, sizeof text, "%.2f %e", upper / 32.0, (double)digit) > 0);
    CHECK(strcmp(text, "2.75 5.500000e+01") == 0 && strtod(text, NULL) == 2.75);
    CHECK(uselocale(locale) == LC_GLOBAL_LOCALE); /* the next thread, on the same stack, does not see it */
    return NULL;
}
static void locales(void) {
    locale_t c = newlocale(LC_ALL_MASK, "C", NULL);
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, reads_tables, c) == 0);
        CHECK(pthread_join(t, NULL) == 0);
    }
    freelocale(c);
}

/* Signals that only created threads have unblocked, one after the other, while main posts and waits; then none of them
 * has, and main's sigwait gets it. */
static sem_t sent, there, back;

static void posts(int signal) {
    (void)signal;
    sem_post(&sent);
}
static void *open_for_signals(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(sem_wait(&sent) == 0); /* it waited for that */
    for (int i = 0; i < 2000; i++) {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        CHECK(sem_wait(&sent) == 0);
    }
    atomic_store(&stop, 1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    return unused;
}
static void *answers(void *unused) {
    while (sem_wait(&there) == 0 && !atomic_load(&stop))
        sem_post(&back);
    sem_post(&back);
    return unused;
}

static void signals_of_threads(void) {
    pthread_t a, b;
    sigset_t set;
    int got = 0;
    CHECK(sem_init(&sent, 0, 0) == 0 && sem_init(&there, 0, 0) == 0 && sem_init(&back, 0, 0) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
    signal(SIGUSR1, posts);
    atomic_store(&stop, 0);
    CHECK(pthread_create(&a, NULL, open_for_signals, NULL) == 0);
    CHECK(pthread_create(&b, NULL, answers, NULL) == 0);
    while (!atomic_load(&stop)) {
        CHECK(sem_post(&there) == 0);
        CHECK(sem_wait(&back) == 0);
    }
    sem_post(&there);
    CHECK(pthread_join(a, NULL) == 0);
    CHECK(pthread_join(b, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(sigwait(&set, &got) == 0 && got == SIGUSR1);
    CHECK(sem_trywait(&sent) == -1);
}

/* ---- main before it has created a thread ------------------------------------------------------------------------- */

static void alone(void) {
    pthread_attr_t attr;
    void *stack, *result;
    size_t bytes;
    char name[16], here;
    int policy;
    struct sched_param param;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstack(&attr, &stack, &bytes) == 0);
    CHECK(&here > (char *)stack && &here < (char *)stack + bytes);
    CHECK(pthread_attr_destroy(&attr) == 0);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
          pthread_setname_np(pthread_self(), "alone") == 0);
    CHECK(pthread_getschedparam(pthread_self(), &policy, &param) == 0 && policy == SCHED_OTHER);
    CHECK(pthread_kill(pthread_self(), 0) == 0 && pthread_join(pthread_self(), &result) == EDEADLK);
    CHECK(pthread_detach(pthread_self()) == 0);
}

static const struct test tests[] = {
    {"alone", alone},
    {"tls", tls},
    {"are_light", are_light},
    {"keys", keys},
    {"exit_unwinds", exit_unwinds},
    {"joining", joining},
    {"stacks", stacks},
    {"cancel", cancel},
    {"cancel_loses_no_signal", cancel_loses_no_signal},
    {"cancel_loses_no_unit", cancel_loses_no_unit},
    {"forking", forking},
    {"signals", signals},
    {"signals_of_threads", signals_of_threads},
    {"ids", ids},
    {"main_exits", main_exits},
    {"used_blocks", used_blocks},
    {"libraries", libraries},
    {"storm", storm},
    {"locales", locales},
};

int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
