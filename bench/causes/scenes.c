// SPDX-License-Identifier: MIT OR Apache-2.0
// Causes as public reports have them, written as their authors did (bench/causes/run): the argument says which.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "grind.h"

static sem_t one;
static pthread_rwlock_t table;
static atomic_int ready, stop;

// A semaphore that is a lock.
static void *indexer(void *arg) {
    for (int i = 0; i < 40; i++) {
        sem_wait(&one);
        grind(6);
        sem_post(&one);
        grind(0.5);
    }
    return arg;
}

// A barrier that is built of semaphores; one of three has more to do.
static sem_t arrived, released[3];

static void meet(int me) {
    if (me != 0) {
        sem_post(&arrived);
        sem_wait(&released[me]);
        return;
    }
    for (int i = 1; i < 3; i++) {
        sem_wait(&arrived);
    }
    for (int i = 1; i < 3; i++) {
        sem_post(&released[i]);
    }
}

static void *relax(void *arg) {
    static atomic_int threads;
    int me = threads++;
    for (int i = 0; i < 40; i++) {
        grind(me == 2 ? 16 : 4);
        meet(me);
    }
    return arg;
}

// A lock that processes share.
static void serve(pthread_mutex_t *shared) {
    for (int i = 0; i < 40; i++) {
        pthread_mutex_lock(shared);
        grind(6);
        pthread_mutex_unlock(shared);
        grind(0.5);
    }
}

static void three_processes(void) {
    pthread_mutex_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared, &kind);
    for (int i = 0; i < 3; i++) {
        if (fork() == 0) {
            serve(shared);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
}

// Readers wait for who writes a table for long.
static void *look_up(void *arg) {
    while (!stop) {
        pthread_rwlock_rdlock(&table);
        grind(0.2);
        pthread_rwlock_unlock(&table);
    }
    return arg;
}

static void *reload(void *arg) {
    for (int i = 0; i < 60; i++) {
        pthread_rwlock_wrlock(&table);
        grind(8);
        pthread_rwlock_unlock(&table);
        usleep(1000);
    }
    stop = 1;
    return arg;
}

// A loop that looks at a flag, without a word to the CPU.
static void *producer(void *arg) {
    for (int i = 1; i <= 25; i++) {
        grind(20);
        ready = i;
    }
    return arg;
}

__attribute__((noinline)) static void wait_for_batch(int i) {
    while (ready < i) {
    }
}

static void *consumer(void *arg) {
    for (int i = 1; i <= 25; i++) {
        wait_for_batch(i);
        grind(1);
    }
    return arg;
}

// A pipe whose reader is slow.
__attribute__((noinline)) static void parse_lines(void) {
    for (int i = 0; i < 3; i++) {
        grind(1);
    }
}

static void through_a_pipe(void) {
    static char bytes[65536];
    int ends[2];
    if (pipe(ends) != 0) {
        return;
    }
    if (fork() == 0) {
        close(ends[1]);
        while (read(ends[0], bytes, sizeof bytes) > 0) {
            parse_lines();
        }
        _exit(0);
    }
    close(ends[0]);
    for (int i = 0; i < 250; i++) {
        grind(0.3);
        (void)!write(ends[1], bytes, sizeof bytes);
    }
    close(ends[1]);
    wait(NULL);
}

// All threads allocate from one arena.
static void *parse(void *arg) {
    for (int i = 0; i < 600000; i++) {
        char *parts[4];
        for (int k = 0; k < 4; k++) {
            parts[k] = malloc(1500 + (size_t)k * 700);
            parts[k][0] = (char)i;
        }
        for (int k = 0; k < 4; k++) {
            free(parts[k]);
        }
    }
    return arg;
}

// A report that is written by the letter, or gathered in a buffer.
static void emit(FILE *out, const char *line) {
    for (; *line != 0; line++) {
        fputc(*line, out);
    }
}

static void report(bool cured) {
    FILE *out = fopen("/dev/null", "w");
    if (!out) {
        return;
    }
    setvbuf(out, NULL, cured ? _IOFBF : _IONBF, 1 << 16);
    for (int i = 0; i < 120000; i++) {
        emit(out, "a line of a report\n");
    }
    fclose(out);
}

// Two that take two locks in both orders, and one that gives up waiting for them.
static pthread_mutex_t from = PTHREAD_MUTEX_INITIALIZER, to = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t given_up = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_ready = PTHREAD_COND_INITIALIZER;

static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    usleep(50000);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

__attribute__((noinline)) static void *move_money(void *ignored) {
    both(&from, &to);
    return ignored;
}

__attribute__((noinline)) static void *audit(void *ignored) {
    both(&to, &from);
    return ignored;
}

static void watchdog(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, move_money, NULL);
    pthread_create(&threads[1], NULL, audit, NULL);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    pthread_mutex_lock(&given_up);
    while (pthread_cond_timedwait(&is_ready, &given_up, &until) == 0) {
    }
    exit(0);
}

static void all(int n, void *(*first)(void *), void *(*others)(void *)) {
    pthread_t threads[4];
    for (int i = 0; i < n; i++) {
        pthread_create(&threads[i], NULL, i == 0 ? first : others, NULL);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
}

static pthread_rwlock_t prices = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int is_done;

__attribute__((noinline)) static void query(void) {
    pthread_rwlock_rdlock(&prices);
    grind(5);
    pthread_rwlock_unlock(&prices);
}

__attribute__((noinline)) static void update_table(void) {
    pthread_rwlock_wrlock(&prices);
    grind(1);
    pthread_rwlock_unlock(&prices);
}

static void *reader(void *unused) {
    /* They give up some time, as the writer never would. */
    for (int n = 0; n < 400 && !atomic_load(&is_done); n++) {
        query();
    }
    return unused;
}

static void *writer(void *unused) {
    for (int n = 0; n < 40; n++) {
        update_table();
    }
    atomic_store(&is_done, 1);
    return unused;
}

/* Readers pass a writer that waits. */
static void starved(int cured) {
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    if (cured) {
        pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    }
    pthread_rwlock_init(&prices, &kind);
    pthread_t threads[3];
    for (int n = 0; n < 3; n++) {
        pthread_create(&threads[n], NULL, n < 2 ? reader : writer, NULL);
    }
    for (int n = 0; n < 3; n++) {
        pthread_join(threads[n], NULL);
    }
}

__attribute__((noinline)) static void append_record(int file, int n, bool last) {
    char record[200];
    memset(record, 'a' + n % 26, sizeof record);
    if (write(file, record, sizeof record) < 0 || (last && fsync(file) != 0)) {
        _exit(1);
    }
}

/* One thread, which mostly waits for the disk; cured: 50 records at a time. */
static void append(bool cured) {
    FILE *file = tmpfile();
    for (int n = 0; file != NULL && n < 500; n++) {
        append_record(fileno(file), n, !cured || n % 50 == 49);
    }
}

// One function takes both locks, in two orders, and gives up after a time.
static pthread_mutex_t seats = PTHREAD_MUTEX_INITIALIZER, cards = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static bool lock_it(pthread_mutex_t *mutex) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    return pthread_mutex_timedlock(mutex, &until) == 0;
}

__attribute__((noinline)) static void *reserve_seat(void *arg) {
    lock_it(&seats);
    usleep(50000);
    if (lock_it(&cards)) {
        pthread_mutex_unlock(&cards);
    }
    pthread_mutex_unlock(&seats);
    return arg;
}

__attribute__((noinline)) static void *charge_card(void *arg) {
    lock_it(&cards);
    usleep(50000);
    if (lock_it(&seats)) {
        pthread_mutex_unlock(&seats);
    }
    pthread_mutex_unlock(&cards);
    return arg;
}

// Threads that are kept on one CPU.
__attribute__((noinline)) static void *simulate(void *arg) {
    cpu_set_t one_cpu;
    CPU_ZERO(&one_cpu);
    CPU_SET(0, &one_cpu);
    pthread_setaffinity_np(pthread_self(), sizeof one_cpu, &one_cpu);
    for (int i = 0; i < 40; i++) {
        grind(15);
    }
    return arg;
}

int main(int argc, char **argv) {
    const char *cause = argc > 1 ? argv[1] : "";
    bool cured = argc > 2 && !strcmp(argv[2], "cured");
    if (!strcmp(cause, "semaphore")) {
        sem_init(&one, 0, 1);
        all(3, indexer, indexer);
    } else if (!strcmp(cause, "meet")) {
        sem_init(&arrived, 0, 0);
        for (int i = 1; i < 3; i++) {
            sem_init(&released[i], 0, 0);
        }
        all(3, relax, relax);
    } else if (!strcmp(cause, "processes")) {
        three_processes();
    } else if (!strcmp(cause, "rwlock")) {
        pthread_rwlockattr_t kind;
        pthread_rwlockattr_init(&kind);
        pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        pthread_rwlock_init(&table, &kind);
        all(4, reload, look_up);
    } else if (!strcmp(cause, "flag")) {
        all(2, producer, consumer);
    } else if (!strcmp(cause, "pipe")) {
        through_a_pipe();
    } else if (!strcmp(cause, "arena")) {
        if (!cured) {
            mallopt(M_ARENA_MAX, 1);
        }
        all(4, parse, parse);
    } else if (!strcmp(cause, "starved")) {
        starved(cured);
    } else if (!strcmp(cause, "append")) {
        append(cured);
    } else if (!strcmp(cause, "watchdog")) {
        watchdog();
    } else if (!strcmp(cause, "orders")) {
        all(2, reserve_seat, charge_card);
    } else if (!strcmp(cause, "one_cpu")) {
        all(2, simulate, simulate);
    } else if (!strcmp(cause, "letters")) {
        report(cured);
    } else {
        return 2;
    }
    return 0;
}
