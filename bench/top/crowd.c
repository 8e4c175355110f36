/* Many threads that switch often: pairs that pass a byte to and fro, so many times a second in all.  crowd THREADS SWITCHES_PER_SECOND SECONDS */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Time between two bursts of a pair. */
#define PERIOD_NS 20000000L

static long rounds;
static struct timespec end;

struct pair {
    int to[2], back[2];
};

static int64_t ns(struct timespec t) {
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *caller(void *arg) {
    struct pair *pair = arg;
    struct timespec next;
    char byte = 0;
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (ns(next) < ns(end)) {
        for (long i = 0; i < rounds; i++) {
            if (write(pair->to[1], &byte, 1) != 1 || read(pair->back[0], &byte, 1) != 1) {
                return NULL;
            }
        }
        int64_t at = ns(next) + PERIOD_NS;
        next = (struct timespec){.tv_sec = at / 1000000000L, .tv_nsec = at % 1000000000L};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    close(pair->to[1]);
    return NULL;
}

static void *answerer(void *arg) {
    struct pair *pair = arg;
    char byte;
    while (read(pair->to[0], &byte, 1) == 1 && write(pair->back[1], &byte, 1) == 1) {
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: crowd THREADS SWITCHES_PER_SECOND SECONDS\n");
        return 2;
    }
    long pairs = atol(argv[1]) / 2, rate = atol(argv[2]);
    if (pairs < 1) {
        fprintf(stderr, "crowd: needed 2 threads at least\n");
        return 2;
    }
    /* A round trip is two waits, which are two switches at least. */
    rounds = rate / pairs / 2 / (1000000000L / PERIOD_NS);
    rounds = rounds > 0 ? rounds : 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += atol(argv[3]);
    pthread_t *threads = calloc((size_t)pairs * 2, sizeof *threads);
    struct pair *all = calloc((size_t)pairs, sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (long i = 0; i < pairs; i++) {
        if (pipe(all[i].to) || pipe(all[i].back) || pthread_create(&threads[2 * i], &small, caller, &all[i]) ||
            pthread_create(&threads[2 * i + 1], &small, answerer, &all[i])) {
            perror("crowd");
            return 1;
        }
    }
    for (long i = 0; i < pairs * 2; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
