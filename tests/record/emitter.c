/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * emitter THREADS EVENTS [COUNT_FILE [PAUSE_US [HOW N]]] - annotates, and counts what it annotates in a file that survives
 * SIGKILL: u64 counts[64], one per thread, each incremented after its event. So at most one event per
 * thread is emitted and not counted. Behind them are 64 more, of the events after which the recording was found to have ended: it need not hold them.
 *
 * HOW is what it does with processes: `fork N`: N children do the same, at most four at a time, each with a count file COUNT_FILE.1 ...;
 * `exec N`: it executes itself N times, one after the other, each with such a file; `daemon 0`: a process without parent does it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <kasuri.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64

static volatile uint64_t *counts;
static long n_events, pause_us;

/* Pauses now and then, so that a test can kill in the middle. */
static void breathe(long i) {
    if (pause_us && i % 1000 == 999) {
        struct timespec t = {0, pause_us * 1000};
        nanosleep(&t, 0);
    }
}

static int is_over(void) {
    struct kasuri__client *c = KASURI__GET(kasuri__process.client);
    struct kasuri_control *control = c ? kasuri__control(c) : 0;
    return !control || KASURI__GET(control->state) == KASURI_SESSION_STOPPED;
}

/* An annotation is emitted if it finds the gate open (docs/design/ring.md); kasuri_enabled() before it may have another
 * answer. So these are KASURI_BEGIN and so on by its own parts, with the gate as the annotation has read it. */
#define COUNTED(emit) (kasuri__g == 1 ? (emit, ++count[is_over() ? MAX_THREADS : 0]) : 0)
#define EMIT1(name, kind) KASURI__AT(name, COUNTED(kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, kind)))
#define EMIT2(name, kind, a) KASURI__AT(name, COUNTED(kasuri__emit2(kasuri__g, kasuri__s, kasuri__id, kind, a, 0)))

static void *work(void *argument) {
    volatile uint64_t *count = argument;
    for (long i = 0; i < n_events; i += 4) {
        EMIT1("slice", KASURI_EV_BEGIN);
        EMIT1("instant", KASURI_EV_INSTANT);
        EMIT2("counter", KASURI_EV_COUNTER, kasuri__bits((double)i));
        KASURI__NAMELESS(COUNTED(kasuri__emit1(kasuri__g, 0, 0, KASURI_EV_END)));
        breathe(i / 4);
    }
    return 0;
}

/* Counts in a file; 0: it worked. */
static int count_in(const char *file) {
    size_t bytes = 2 * MAX_THREADS * sizeof(uint64_t);
    int fd = file ? open(file, O_RDWR | O_CREAT | O_TRUNC, 0644) : -1;
    if (file && (fd < 0 || ftruncate(fd, (off_t)bytes) < 0))
        return 3;
    counts = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (file ? 0 : MAP_ANONYMOUS), fd, 0);
    if (file)
        close(fd);
    return counts == MAP_FAILED ? 3 : 0;
}

static void emit(int n_threads) {
    pthread_t threads[MAX_THREADS];
    for (int i = 0; i < n_threads; i++)
        pthread_create(&threads[i], 0, work, (void *)(uintptr_t)&counts[i]);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], 0);
}

/* The next processes, after this one has emitted. */
static int go_on(char **argv, int n_threads, const char *how, int n) {
    char file[4096], left[16];
    if (!strcmp(how, "exec") && n > 0) {
        snprintf(left, sizeof left, "%d", n - 1);
        argv[6] = left;
        execv("/proc/self/exe", argv);
        return 4;
    }
    for (int i = 1; !strcmp(how, "fork") && i <= n; i++) {
        if (i > 4)
            wait(0);
        if (fork())
            continue;
        snprintf(file, sizeof file, "%s.%d", argv[3], i);
        if (count_in(file))
            _exit(3);
        emit(n_threads);
        _exit(0);
    }
    while (wait(0) > 0)
        ;
    return 0;
}

int main(int argc, char **argv) {
    int n_threads = argc > 1 ? atoi(argv[1]) : 1, n = argc > 6 ? atoi(argv[6]) : 0;
    const char *how = argc > 6 ? argv[5] : "";
    char file[4096];
    n_events = argc > 2 ? atol(argv[2]) : 1000;
    pause_us = argc > 4 ? atol(argv[4]) : 0;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return 2;
    if (!strcmp(how, "daemon") && (fork() || setsid() < 0 || fork()))
        return 0;
    snprintf(file, sizeof file, strcmp(how, "exec") ? "%s" : "%s.%d", argc > 3 ? argv[3] : "", n);
    if (count_in(argc > 3 ? file : 0))
        return 3;
    emit(n_threads);
    return go_on(argv, n_threads, how, n);
}
