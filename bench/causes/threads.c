// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads that lose their CPUs to the cause that is the argument (bench/causes/run); with `cured` after it, changed as the hint for
// that cause says (bench/hints/run).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grind.h"

enum { ROUNDS = 25 };

static pthread_barrier_t gate;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_int done;
static bool cured;
static int file;
static int queued;

static void *part(void *arg) {
    // Ten parts of 3 ms, of which the second thread has eight, or whoever is free takes the next one.
    int taken = 0;
    while (cured && (taken = atomic_fetch_add(&done, 1)) < 10) {
        grind(3);
    }
    if (!cured) {
        grind(arg ? 24 : 6);
    }
    return NULL;
}

// A record is written to the disk while the lock is held, or afterwards.
static void *writer(void *arg) {
    char record[4096] = {0};
    for (int i = 0; i < 8 * ROUNDS; i++) {
        grind(1);
        pthread_mutex_lock(&mutex);
        if (!cured) {
            (void)!pwrite(file, record, sizeof record, 0);
            fdatasync(file);
        }
        pthread_mutex_unlock(&mutex);
        if (cured) {
            (void)!pwrite(file, record, sizeof record, 0);
            fdatasync(file);
        }
    }
    return arg;
}

static void *rounds(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        part(arg);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static void *locker(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        grind(12);
        pthread_mutex_unlock(&mutex);
        grind(1);
    }
    return arg;
}

static void *napper(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        usleep(20000);
        grind(1);
    }
    return arg;
}

static void *half(void *arg) {
    // With its half of the input, where that is divided.
    grind(cured ? 4 + 12 : 4);
    return arg;
}

static void load_input(void) {
    grind(24);
}

static void *reader(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        grind(3);
        pthread_mutex_lock(&mutex);
        while (queued == 2) {
            pthread_cond_wait(&changed, &mutex);
        }
        queued++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return arg;
}

static void *packer(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        while (queued == 0) {
            pthread_cond_wait(&changed, &mutex);
        }
        queued--;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        grind(24);
    }
    return arg;
}

static void *worker(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        grind(24);
        atomic_store(&done, i + 1);
    }
    return arg;
}

static void *poller(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_load(&done) <= i) {
            usleep(500);
        }
        grind(1);
    }
    return arg;
}

static void both(void *(*first)(void *), void *(*second)(void *)) {
    pthread_t a, b;
    pthread_create(&a, NULL, first, NULL);
    pthread_create(&b, NULL, second, (void *)1);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
}

int main(int argc, char **argv) {
    const char *cause = argc > 1 ? argv[1] : "";
    cured = argc > 2 && !strcmp(argv[2], "cured");
    pthread_barrier_init(&gate, NULL, 2);
    if (!strcmp(cause, "imbalance")) {
        both(rounds, rounds);
    } else if (!strcmp(cause, "join")) {
        for (int i = 0; i < ROUNDS; i++) {
            atomic_store(&done, 0);
            both(part, part);
        }
    } else if (!strcmp(cause, "lock")) {
        both(locker, locker);
    } else if (!strcmp(cause, "nap")) {
        both(napper, napper);
    } else if (!strcmp(cause, "serial")) {
        for (int i = 0; i < ROUNDS; i++) {
            if (!cured) {
                load_input();
            }
            both(half, half);
        }
    } else if (!strcmp(cause, "io")) {
        char name[] = "record-XXXXXX";
        file = mkstemp(name);
        if (file < 0) {
            return 1;
        }
        unlink(name);
        both(writer, writer);
    } else if (!strcmp(cause, "stage")) {
        both(reader, packer);
    } else if (!strcmp(cause, "poll")) {
        both(poller, worker);
    } else {
        return 2;
    }
    return 0;
}
