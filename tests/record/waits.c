/*
 * Waits whose chains of waiting threads are known. Threads have the name of what they do.
 *
 *   waits pipe      `consumer` reads what `filter` writes, who reads what `producer` writes, who computes 20 ms for each of 30 pieces
 *   waits socket    `client` asks `server` 30 times, who computes 20 ms for each answer
 *   waits handoff   `last` waits for `third`, who waits for `second`, who waits for `first`, who computes 20 ms; 30 times
 *   waits nap       `napper` sleeps 25 times 40 ms
 *   waits lock      `holder` holds a lock 60 times for 20 ms, computing for 70 % of it and asleep for 30 %; `asker` wants it each time
 *   waits serial    60 times, one thread computes 14 ms in `assemble` and 6 ms in `smooth`; the other waits for it
 *   waits late      60 times, two threads compute 2 ms and meet; one of them then computes 14 ms in `assemble` and 6 ms in `smooth`
 *                   before it comes
 *   waits limits    `waiter` waits for a signal with a limit of 20 ms, again and again, until `worker` has computed 400 ms and signals; `idler` waits for `waiter`
 *   waits pi, waits robust, waits timed, waits rdwr, waits flock, waits fcntl
 *                   three threads (of the last two: processes) hold a lock of this kind in turns, 40 times 5 ms each, computing in `inside`;
 *                   the file that is a lock is `waits.lck`
 *   waits vfork     `parent` starts 30 children by vfork, each of which computes 20 ms before it ends
 *
 * lock, serial and late print what they measured of the two parts of each 20 ms: "parts FIRST_NS SECOND_NS", CPU time where they compute, the time that they
 * ask for where they sleep.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

enum { PIECES = 30, PIECE_MS = 20, NAPS = 25, NAP_MS = 40, TURNS = 60 };

static volatile uint64_t sink;
static double parts_ms[2];

static double clock_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double cpu_ms(void) {
    return clock_ms(CLOCK_THREAD_CPUTIME_ID);
}

/* A macro, so that samples are in the function that computes, inlined or not. */
#define COMPUTE(ms)                                                                                                    \
    do {                                                                                                               \
        double until = cpu_ms() + (ms);                                                                                \
        uint64_t x = 88172645463325252u;                                                                               \
        while (cpu_ms() < until)                                                                                       \
            for (int k = 0; k < 20000; k++) {                                                                          \
                x ^= x << 13;                                                                                          \
                x ^= x >> 7;                                                                                           \
                x ^= x << 17;                                                                                          \
            }                                                                                                          \
        sink += x;                                                                                                     \
    } while (0)

/* The volatile variable after each call keeps the compiler from making it a jump. */
static NOINLINE void nap(double ms) {
    struct timespec t = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&t, NULL);
    sink++;
}

static NOINLINE void compress(void) {
    COMPUTE(PIECE_MS);
    sink++;
}

static NOINLINE void take(int from) {
    char byte;
    if (read(from, &byte, 1) != 1)
        abort();
    sink++;
}

static NOINLINE void give(int to) {
    if (write(to, "x", 1) != 1)
        abort();
    sink++;
}

static int first_pipe[2], second_pipe[2], ends[2];

static void *producer(void *unused) {
    for (int i = 0; i < PIECES; i++) {
        compress();
        give(first_pipe[1]);
    }
    return unused;
}

static void *filter(void *unused) {
    for (int i = 0; i < PIECES; i++) {
        take(first_pipe[0]);
        give(second_pipe[1]);
    }
    return unused;
}

static void *consumer(void *unused) {
    for (int i = 0; i < PIECES; i++)
        take(second_pipe[0]);
    return unused;
}

static void *server(void *unused) {
    for (int i = 0; i < PIECES; i++) {
        take(ends[0]);
        compress();
        give(ends[0]);
    }
    return unused;
}

static void *client(void *unused) {
    for (int i = 0; i < PIECES; i++) {
        give(ends[1]);
        take(ends[1]);
    }
    return unused;
}

static sem_t turns[4];

static NOINLINE void await_turn(int n) {
    while (sem_wait(&turns[n]) != 0)
        ;
    sink++;
}

/* Number 0 computes, and goes on at once. */
static void *link_of_chain(void *number) {
    int n = *(int *)number;
    for (int i = 0; i < PIECES; i++) {
        if (n == 0)
            compress();
        else
            await_turn(n);
        if (n < 3)
            sem_post(&turns[n + 1]);
    }
    return NULL;
}

static void *napper(void *unused) {
    for (int i = 0; i < NAPS; i++) {
        nap(NAP_MS);
        sink++;
    }
    return unused;
}

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_held;

static NOINLINE void store(void) {
    nap(PIECE_MS * 0.3);
    sink++;
}

static NOINLINE void fill(void) {
    COMPUTE(PIECE_MS * 0.7);
    sink++;
}

static void *holder(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&table);
        sem_post(&is_held);
        /* In turn, since the asker may come late. */
        for (int part = 0; part < 2; part++) {
            int which = (part + i) % 2;
            double start = cpu_ms();
            if (which == 0)
                fill();
            else
                store();
            /* Late to a CPU is not asleep. */
            parts_ms[which] += which == 0 ? cpu_ms() - start : PIECE_MS * 0.3;
        }
        pthread_mutex_unlock(&table);
        /* Until the asker has had it. */
        while (sem_wait(&turns[0]) != 0)
            ;
    }
    return unused;
}

static NOINLINE void look_up(void) {
    pthread_mutex_lock(&table);
    sink++;
    pthread_mutex_unlock(&table);
}

static void *asker(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        while (sem_wait(&is_held) != 0)
            ;
        look_up();
        sem_post(&turns[0]);
    }
    return unused;
}

static NOINLINE void assemble(void) {
    COMPUTE(PIECE_MS * 0.7);
    sink += 2;
}

static NOINLINE void smooth(void) {
    COMPUTE(PIECE_MS * 0.3);
    sink++;
}

/* 14 ms and 6 ms, as a sampler sees them: not in the same order each time. */
static void two_parts(int i) {
    for (int part = 0; part < 2; part++) {
        int which = (part + i) % 2;
        double start = cpu_ms();
        if (which == 0)
            assemble();
        else
            smooth();
        parts_ms[which] += cpu_ms() - start;
    }
}

static void *alone(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        two_parts(i);
        sem_post(&turns[1]);
    }
    return unused;
}

static void *pool(void *unused) {
    for (int i = 0; i < TURNS; i++)
        await_turn(1);
    return unused;
}

static pthread_barrier_t meeting;

static void *early(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        COMPUTE(2);
        pthread_barrier_wait(&meeting);
    }
    return unused;
}

static void *late(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        COMPUTE(2);
        two_parts(i);
        pthread_barrier_wait(&meeting);
    }
    return unused;
}

static pthread_mutex_t limited = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static int is_finished;

static NOINLINE void compute_long(void) {
    COMPUTE(400);
}

static void *worker(void *unused) {
    compute_long();
    pthread_mutex_lock(&limited);
    is_finished = 1;
    pthread_cond_signal(&finished);
    pthread_mutex_unlock(&limited);
    return unused;
}

static void *waiter(void *unused) {
    pthread_mutex_lock(&limited);
    while (!is_finished) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&finished, &limited, &until);
    }
    pthread_mutex_unlock(&limited);
    sem_post(&turns[0]);
    return unused;
}

static void *idler(void *unused) {
    await_turn(0);
    return unused;
}

static pthread_t start(const char *name, void *(*run)(void *), void *arg) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, arg) != 0)
        abort();
    pthread_setname_np(thread, name);
    return thread;
}

static const char *kind;
static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static NOINLINE void inside(void) {
    COMPUTE(5);
}

static int is_kind(const char *name) {
    return strcmp(kind, name) == 0;
}

static void lock_mutex(void) {
    struct timespec until = {.tv_sec = INT32_MAX};
    if (is_kind("timed"))
        pthread_mutex_timedlock(&mutex, &until);
    else
        pthread_mutex_lock(&mutex);
}

static void *by_turns(void *unused) {
    struct flock whole = {.l_whence = SEEK_SET};
    int file = is_kind("flock") || is_kind("fcntl") ? open("waits.lck", O_RDWR | O_CREAT, 0600) : -1;
    for (int i = 0; i < 40; i++) {
        whole.l_type = F_WRLCK;
        if (is_kind("flock"))
            flock(file, LOCK_EX);
        else if (is_kind("fcntl"))
            fcntl(file, F_SETLKW, &whole);
        else if (is_kind("rdwr"))
            pthread_rwlock_wrlock(&rwlock);
        else
            lock_mutex();
        inside();
        whole.l_type = F_UNLCK;
        if (is_kind("flock"))
            flock(file, LOCK_UN);
        else if (is_kind("fcntl"))
            fcntl(file, F_SETLK, &whole);
        else if (is_kind("rdwr"))
            pthread_rwlock_unlock(&rwlock);
        else
            pthread_mutex_unlock(&mutex);
        usleep(100);
    }
    return unused;
}

/* Three threads, or processes, that take a lock of the kind. */
static int take_turns(pthread_t *threads) {
    int n = 0;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (is_kind("pi"))
        pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    if (is_kind("robust"))
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    if (!is_kind("flock") && !is_kind("fcntl")) {
        while (n < 3)
            threads[n++] = start("taker", by_turns, NULL);
        return n;
    }
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            by_turns(NULL);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}

static NOINLINE void compute_in_child(void) {
    COMPUTE(PIECE_MS);
}

static void *parent(void *unused) {
    for (int i = 0; i < PIECES; i++) {
        pid_t child = vfork();
        if (child == 0) {
            compute_in_child();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return unused;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "none";
    static int numbers[4] = {0, 1, 2, 3};
    pthread_t threads[4];
    int n = 0;
    if (pipe(first_pipe) != 0 || pipe(second_pipe) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        abort();
    sem_init(&is_held, 0, 0);
    for (int i = 0; i < 4; i++)
        sem_init(&turns[i], 0, 0);
    pthread_barrier_init(&meeting, NULL, 2);
    if (strcmp(mode, "pipe") == 0) {
        threads[n++] = start("consumer", consumer, NULL);
        threads[n++] = start("filter", filter, NULL);
        threads[n++] = start("producer", producer, NULL);
    } else if (strcmp(mode, "socket") == 0) {
        threads[n++] = start("client", client, NULL);
        threads[n++] = start("server", server, NULL);
    } else if (strcmp(mode, "handoff") == 0) {
        static const char *const names[] = {"first", "second", "third", "last"};
        for (int i = 3; i >= 0; i--)
            threads[n++] = start(names[i], link_of_chain, &numbers[i]);
    } else if (strcmp(mode, "nap") == 0) {
        threads[n++] = start("napper", napper, NULL);
    } else if (strcmp(mode, "lock") == 0) {
        threads[n++] = start("asker", asker, NULL);
        threads[n++] = start("holder", holder, NULL);
    } else if (strcmp(mode, "serial") == 0) {
        threads[n++] = start("pool", pool, NULL);
        threads[n++] = start("alone", alone, NULL);
    } else if (strcmp(mode, "late") == 0) {
        threads[n++] = start("early", early, NULL);
        threads[n++] = start("late", late, NULL);
    } else if (strcmp(mode, "limits") == 0) {
        threads[n++] = start("waiter", waiter, NULL);
        threads[n++] = start("idler", idler, NULL);
        threads[n++] = start("worker", worker, NULL);
    } else if (strcmp(mode, "vfork") == 0) {
        threads[n++] = start("parent", parent, NULL);
    } else if (strstr("pi robust timed rdwr flock fcntl", mode) != NULL) {
        kind = mode;
        n = take_turns(threads);
    } else {
        return 2;
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (parts_ms[0] > 0)
        printf("parts %.0f %.0f\n", parts_ms[0] * 1e6, parts_ms[1] * 1e6);
    return 0;
}
