/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of waiting for each other: an uncontended mutex, the hand-over between two threads by mutex and condition, a
 * million blocked threads woken at once. One worker, each beside the same on pthreads in the same run. Prints JSON
 * lines.
 *
 *   bench_sync [THREADS]   THREADS blocked threads instead of a million, or as many as fit into half of the free memory
 */
#define _GNU_SOURCE
#include <ito.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Many short runs: see bench_core.c. */
enum { RUNS = 101, LOCKS = 100000, TURNS = 20000, PTHREAD_TURNS = 300 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median_of(double (*once)(void), double spread[2]) {
    double v[RUNS];
    once();
    for (int i = 0; i < RUNS; i++)
        v[i] = once();
    qsort(v, RUNS, sizeof *v, by_value);
    spread[0] = v[0];
    spread[1] = v[RUNS - 1];
    return v[RUNS / 2];
}
static void print(const char *name, double value, const char *unit, const double spread[2], const char *to, double base,
                  const char *goal) {
    printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"spread\":[%.2f,%.2f]", name, value, unit, spread[0],
           spread[1]);
    if (to)
        printf(",\"ratio_to\":\"%s\",\"ratio\":%.3f", to, value / base);
    if (goal)
        printf(",\"goal\":\"%s\"", goal);
    puts("}");
}

/* -- the mutex -- */

static volatile long counter;
static ito_mutex mutex = ITO_MUTEX_INIT_KIND(ITO_MUTEX_NORMAL);
static ito_mutex checked = ITO_MUTEX_INIT_KIND(ITO_MUTEX_ERRORCHECK);
static pthread_mutex_t pmutex = PTHREAD_MUTEX_INITIALIZER;

static double lock_with(ito_mutex *m) {
    double start = now();
    for (int i = 0; i < LOCKS; i++) {
        ito_mutex_lock(m);
        counter = counter + 1;
        ito_mutex_unlock(m);
    }
    return (now() - start) / LOCKS;
}
static double lock_normal(void) {
    return lock_with(&mutex);
}
static __attribute__((unused)) double lock_checked(void) {
    return lock_with(&checked);
}
static double lock_pthread(void) {
    double start = now();
    for (int i = 0; i < LOCKS; i++) {
        pthread_mutex_lock(&pmutex);
        counter = counter + 1;
        pthread_mutex_unlock(&pmutex);
    }
    return (now() - start) / LOCKS;
}

/* -- the hand-over: two threads, in turn; one turn is lock, signal, wait -- */

static ito_cond cond = ITO_COND_INIT;
static pthread_cond_t pcond = PTHREAD_COND_INITIALIZER;
static int turn;

static void *player(void *arg) {
    int me = (int)(long)arg;
    ito_mutex_lock(&mutex);
    for (int i = 0; i < TURNS; i++) {
        while (turn != me)
            ito_cond_wait(&cond, &mutex);
        turn = !me;
        ito_cond_signal(&cond);
    }
    ito_mutex_unlock(&mutex);
    return NULL;
}
static __attribute__((unused)) double hand_over(void) {
    ito_thread *t[2];
    double start = now();
    for (long i = 0; i < 2; i++)
        if (ito_create(&t[i], NULL, player, (void *)i) != 0)
            abort();
    for (int i = 0; i < 2; i++)
        ito_join(t[i], NULL);
    return (now() - start) / (2.0 * TURNS);
}
static void *pplayer(void *arg) {
    int me = (int)(long)arg;
    pthread_mutex_lock(&pmutex);
    for (int i = 0; i < PTHREAD_TURNS; i++) {
        while (turn != me)
            pthread_cond_wait(&pcond, &pmutex);
        turn = !me;
        pthread_cond_signal(&pcond);
    }
    pthread_mutex_unlock(&pmutex);
    return NULL;
}
static double phand_over(void) {
    pthread_t t[2];
    double start = now();
    for (long i = 0; i < 2; i++)
        if (pthread_create(&t[i], NULL, pplayer, (void *)i) != 0)
            abort();
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    return (now() - start) / (2.0 * PTHREAD_TURNS);
}

/* -- the same by what has no mutex: a channel without a buffer, a bare hand-over, a full/empty lock; and what goes into
 * a buffer and out again, where nobody waits -- */

#ifndef ITO_INLINE
static int buffer[64];
static ito_channel meeting = ITO_CHANNEL_INIT(NULL, sizeof(int), 0), back = ITO_CHANNEL_INIT(NULL, sizeof(int), 0),
                   buffered = ITO_CHANNEL_INIT(buffer, sizeof(int), 64);
static ito_uncond ping = ITO_UNCOND_INIT, pong = ITO_UNCOND_INIT;
static ito_felock place = ITO_FELOCK_INIT;

static double against(void *(*other)(void *), void (*turn_of_mine)(int)) {
    ito_thread *t;
    double start = now();
    if (ito_create(&t, NULL, other, NULL) != 0)
        abort();
    for (int i = 0; i < TURNS; i++)
        turn_of_mine(i);
    ito_join(t, NULL);
    return (now() - start) / (2.0 * TURNS);
}
static void *channel_other(void *arg) {
    for (int i = 0, item; i < TURNS; i++) {
        ito_channel_receive(&meeting, &item);
        ito_channel_send(&back, &item);
    }
    return arg;
}
static void channel_turn(int i) {
    ito_channel_send(&meeting, &i);
    ito_channel_receive(&back, &i);
}
static double channel_hand_over(void) {
    return against(channel_other, channel_turn);
}
static void *select_other(void *arg) {
    int item;
    ito_channel quiet = ITO_CHANNEL_INIT(NULL, sizeof(int), 0);
    for (int i = 0; i < TURNS; i++) {
        ito_select_case cases[] = {ITO_RECEIVE_FROM(&meeting, &item), ITO_RECEIVE_FROM(&quiet, &item)};
        ito_select(cases, 2, NULL, ITO_FOREVER);
        ito_channel_send(&back, &item);
    }
    return arg;
}
static double select_hand_over(void) {
    return against(select_other, channel_turn);
}
static void *uncond_other(void *arg) {
    for (int i = 0; i < TURNS; i++) {
        ito_uncond_wait(&ping);
        ito_uncond_signal(&pong);
    }
    return arg;
}
static void uncond_turn(int i) {
    (void)i;
    ito_uncond_signal(&ping);
    ito_uncond_wait(&pong);
}
static double uncond_hand_over(void) {
    return against(uncond_other, uncond_turn);
}
static void *pass_other(void *arg) {
    ito_uncond_wait(&ping);
    for (int i = 1; i < TURNS; i++)
        ito_uncond_pass(&pong, &ping);
    ito_uncond_signal(&pong);
    return arg;
}
static void pass_turn(int i) {
    (void)i;
    ito_uncond_pass(&ping, &pong);
}
static double pass_hand_over(void) {
    return against(pass_other, pass_turn);
}
static void *felock_other(void *arg) {
    for (int i = 0; i < TURNS; i++) {
        ito_felock_wait_and_lock(&place, ITO_FULL);
        ito_felock_mark_and_unlock(&place, ITO_EMPTY);
    }
    return arg;
}
static void felock_turn(int i) {
    (void)i;
    ito_felock_wait_and_lock(&place, ITO_EMPTY);
    ito_felock_mark_and_unlock(&place, ITO_FULL);
}
static double felock_hand_over(void) {
    return against(felock_other, felock_turn);
}
static double channel_buffered(void) {
    int item;
    double start = now();
    for (int i = 0; i < LOCKS; i++) {
        ito_channel_send(&buffered, &i);
        ito_channel_receive(&buffered, &item);
    }
    return (now() - start) / LOCKS;
}
static const struct {
    const char *name;
    double (*once)(void);
} without_mutex[] = {{"ito.channel_handover", channel_hand_over}, {"ito.select_handover", select_hand_over},
                     {"ito.uncond_handover", uncond_hand_over},   {"ito.uncond_pass", pass_hand_over},
                     {"ito.felock_handover", felock_hand_over},   {"ito.channel_buffered", channel_buffered}};
#endif

/* -- a million blocked threads -- */

#ifndef ITO_INLINE
static long blocked, woken, go;

static void *blocker(void *arg) {
    ito_mutex_lock(&mutex);
    blocked++;
    while (!go)
        ito_cond_wait(&cond, &mutex);
    woken++;
    ito_mutex_unlock(&mutex);
    return arg;
}
/* Bytes of a line of /proc: "Name:  N kB". */
static double proc_bytes(const char *file, const char *name) {
    FILE *f = fopen(file, "r");
    char line[256];
    double kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            sscanf(line + strlen(name), ": %lf", &kb);
    if (f)
        fclose(f);
    return kb * 1024;
}
static double memory(void) {
    return proc_bytes("/proc/self/status", "VmRSS") + proc_bytes("/proc/self/status", "VmPTE");
}
static long how_many(int argc, char **argv) {
    long fit = (long)(proc_bytes("/proc/meminfo", "MemAvailable") / 2 / 4600);
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    if (n > fit) {
        fprintf(stderr, "bench_sync: %ld blocked threads would not fit into half of the free memory: %ld instead\n", n,
                fit);
        n = fit;
    }
    return n;
}
static void block_many(long n) {
    blocked = woken = go = 0;
    double before = memory(), start = now();
    for (long i = 0; i < n; i++)
        if (ito_create(NULL, NULL, blocker, NULL) != 0) {
            fprintf(stderr, "bench_sync: no memory for thread %ld\n", i);
            abort();
        }
    double made = (now() - start) / (double)n, bytes = (memory() - before) / (double)n;
    if (blocked != n)
        abort();
    ito_mutex_lock(&mutex);
    go = 1;
    start = now();
    ito_cond_broadcast(&cond);
    ito_mutex_unlock(&mutex);
    while (woken < n)
        ito_yield();
    double wake = (now() - start) / (double)n;
    char name[64];
    print("ito.blocked_bytes", bytes, "B", (double[]){bytes, bytes}, NULL, 0, "<= 4300 B");
    snprintf(name, sizeof name, "ito.blocked_create_%ld", n);
    print(name, made, "ns", (double[]){made, made}, NULL, 0, NULL);
    snprintf(name, sizeof name, "ito.blocked_wake_%ld", n);
    print(name, wake, "ns", (double[]){wake, wake}, NULL, 0, NULL);
}

#endif
#ifdef ITO_INLINE
#define MUTEX "ito.mutex_header"
#else
#define MUTEX "ito.mutex"
#endif

int main(int argc, char **argv) {
    double s[2], p[2];
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = 1;
    config.stack_bytes = 16384;
    if (ito_init(&config) != 0)
        abort();
    double phand =
        median_of(phand_over, p); /* also makes this a program of several threads: glibc drops the lock prefix before */
    double lock = median_of(lock_pthread, s);
    print("pthread.mutex", lock, "ns", s, NULL, 0, NULL);
    double value = median_of(lock_normal, s);
    print(MUTEX, value, "ns", s, "pthread.mutex", lock, "<= 6 ns");
#ifdef ITO_INLINE
    (void)phand, (void)argc, (void)argv;
#else
    value = median_of(lock_checked, s);
    print("ito.mutex_errorcheck", value, "ns", s, "pthread.mutex", lock, NULL);
    print("pthread.handover", phand, "ns", p, NULL, 0, NULL);
    value = median_of(hand_over, s);
    print("ito.handover", value, "ns", s, "pthread.handover", phand, "<= 40 ns");
    for (size_t i = 0; i < sizeof without_mutex / sizeof *without_mutex; i++) {
        value = median_of(without_mutex[i].once, s);
        print(without_mutex[i].name, value, "ns", s, "pthread.handover", phand, NULL);
    }
    block_many(how_many(argc, argv));
#endif
    return ito_fini() != 0;
}
