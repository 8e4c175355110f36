/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "team.h"

#include "example.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first barrier of a run is not annotated: it only makes all members start at once, and waiting there is the cost of
 * making threads, not of the program's loops. */
struct member {
    struct team *team;
    team_function *function;
    void *arg;
    int index;
    pthread_t thread;
};

static void pin_to_nth_cpu(int nth) {
    cpu_set_t mask, one;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0)
        return;
    nth %= CPU_COUNT(&mask);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask) || nth-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

static void *run_member(void *arg) {
    struct member *m = arg;
    char name[32];
    snprintf(name, sizeof name, "%s %d", m->team->name, m->index);
    KASURI_THREAD_NAME(name);
    /* The first loop starts on all threads at once, not as each is made. */
    pthread_barrier_wait(&m->team->barrier);
    m->function(m->team, m->index, m->arg);
    return NULL;
}

static void *run_member_pinned(void *arg) {
    struct member *m = arg;
    pin_to_nth_cpu(m->index);
    return run_member(arg);
}

void team_run(const char *name, int size, bool pin, team_function *function, void *arg) {
    struct team team = {.name = name, .size = size};
    struct member *members = example_alloc((size_t)size, sizeof *members);
    void *(*entry)(void *) = pin ? run_member_pinned : run_member;
    if (pthread_barrier_init(&team.barrier, NULL, (unsigned)size) != 0)
        example_fail("no barrier for %d threads", size);
    for (int i = 0; i < size; i++)
        members[i] = (struct member){.team = &team, .function = function, .arg = arg, .index = i};
    for (int i = 1; i < size; i++) {
        int error = pthread_create(&members[i].thread, NULL, entry, &members[i]);
        if (error)
            example_fail("thread %d of %d: %s", i, size, strerror(error));
    }
    /* Only now: threads inherit the mask of their maker. */
    cpu_set_t mask;
    bool restore = pin && sched_getaffinity(0, sizeof mask, &mask) == 0;
    entry(&members[0]);
    if (restore)
        pthread_setaffinity_np(pthread_self(), sizeof mask, &mask);
    for (int i = 1; i < size; i++) {
        struct member *member = &members[i];
        KASURI_WAIT_BEGIN(KASURI_WAIT_JOIN, member);
        pthread_join(member->thread, NULL);
        KASURI_WAIT_END(KASURI_WAIT_JOIN, member);
    }
    pthread_barrier_destroy(&team.barrier);
    free(members);
}

struct range team_split(size_t count, int size, int member) {
    size_t n = (size_t)size, i = (size_t)member;
    return (struct range){count * i / n, count * (i + 1) / n};
}
