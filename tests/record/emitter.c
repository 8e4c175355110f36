/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * emitter THREADS EVENTS [COUNT_FILE [PAUSE_US]] - annotates, and counts what it annotates in a file that survives
 * SIGKILL: u64 counts[64], one per thread, each incremented after its event. So at most one event per
 * thread is emitted and not counted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <kasuri.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
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

/* An annotation is emitted if it finds the gate open (docs/design/ring.md); kasuri_enabled() before it may have another
 * answer. So these are KASURI_BEGIN and so on by its own parts, with the gate as the annotation has read it. */
#define COUNTED(emit) (kasuri__g == 1 ? (emit, ++*count) : 0)
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

int main(int argc, char **argv) {
    int n_threads = argc > 1 ? atoi(argv[1]) : 1;
    size_t bytes = MAX_THREADS * sizeof(uint64_t);
    pthread_t threads[MAX_THREADS];
    n_events = argc > 2 ? atol(argv[2]) : 1000;
    pause_us = argc > 4 ? atol(argv[4]) : 0;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return 2;
    if (argc > 3) {
        int fd = open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
            return 3;
        counts = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    } else {
        counts = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }
    if (counts == MAP_FAILED)
        return 3;
    for (int i = 0; i < n_threads; i++)
        pthread_create(&threads[i], 0, work, (void *)(uintptr_t)&counts[i]);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], 0);
    return 0;
}
