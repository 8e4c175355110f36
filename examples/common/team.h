/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A team of threads that run one function together and meet at one barrier: the shape a
 * parallelising compiler gives to loops. The caller is member 0.
 */
#ifndef TEAM_H
#define TEAM_H

#include <kasuri.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct team {
    const char *name;
    int size;
    pthread_barrier_t barrier;
};

/* [begin, end) */
struct range {
    size_t begin, end;
};

typedef void team_function(struct team *team, int member, void *arg);

/**
 * team_run - run @function once on each of @size threads and join them.
 * @pin: keep member i on the i-th CPU of the affinity mask (modulo its CPUs).
 * Ends the program when a thread cannot be made: the others would wait at the barrier for ever.
 */
void team_run(const char *name, int size, bool pin, team_function *function, void *arg);

/** team_split - @member's share of 0..@count-1 in equal contiguous parts: a static schedule. */
struct range team_split(size_t count, int size, int member);

/* A macro, so that each barrier of a program is a place of its own on the timeline. */
#define TEAM_BARRIER(team)                                                                                             \
    do {                                                                                                               \
        pthread_barrier_t *barrier = &(team)->barrier;                                                                 \
        KASURI_WAIT_BEGIN(KASURI_WAIT_BARRIER, barrier);                                                               \
        pthread_barrier_wait(barrier);                                                                                 \
        KASURI_WAIT_END(KASURI_WAIT_BARRIER, barrier);                                                                 \
    } while (0)

#endif /* TEAM_H */
