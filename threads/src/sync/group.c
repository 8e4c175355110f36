/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Task groups: a count of threads that have not ended, under the queue bit. The last access to a group is the release
 * of that bit, so a thread that has waited for it may end it.
 *
 * For a recorder a group is a point (docs/design/seen.md) that joins its threads, and that is joined by those who wait.
 * After a wait the next thread makes a new one: else what came before the wait would depend on what comes after it. Its
 * id is the group's address, so all is told under the bit, or before a waiter is woken, who may end the group.
 */
#include "core/wait.h"

#include <stdlib.h>

/* ito_group.seen, under the queue bit */
enum { SEEN = 1, /* a recorder knows the point */ WAITED = 2 /* somebody has waited since it was made */ };

/* What a new thread of a group needs. Owned by the creator until ito_create() succeeds, then by the thread, which
 * frees it. */
struct group_start {
    ito_group *group;
    void (*fn)(void *);
    void *arg;
};

/* Before the thread is created: a thread that ended first would otherwise take the count below the truth, and wake
 * waiters too early. */
static void group_add(ito_group *g) {
    ito__word_lock(&g->state);
    g->running++;
    if (UNLIKELY(ITO__TRACING) && g->seen != SEEN) {
        ITO__TRACE_POINT(g, ITO__WAIT_GROUP);
        g->seen = SEEN;
    }
    ito__word_unlock(&g->state, 0);
}

/* The last to leave takes the whole queue under the bit, and wakes it when the bit is free: the group may be gone by
 * then, the list is not. */
static void group_leave(ito_group *g, bool was_run) {
    struct ito__waiter *list = NULL;
    ito__word_lock(&g->state);
    if (UNLIKELY(g->seen) && was_run)
        ITO__TRACE_LEFT(g);
    if (!--g->running)
        list = ito__waiters_pop_all(&g->waiters);
    if (UNLIKELY(g->seen) && list) {
        for (struct ito__waiter *w = list; w; w = w->next)
            ITO__TRACE_JOIN_OF(w->thread, (uintptr_t)g);
        g->seen |= WAITED;
    }
    /* Its release publishes what the thread did to ito__word_lock() in ito_group_wait_until(). */
    ito__word_unlock(&g->state, 0);
    ito__waiter_wake_all(list, 0);
}

static void *group_main(void *arg) {
    struct group_start start = *(struct group_start *)arg;
    free(arg);
    start.fn(start.arg);
    group_leave(start.group, true);
    return NULL;
}

int ito_group_run(ito_group *g, void (*fn)(void *), void *arg) {
    /* Not in this frame: the thread may start later, or the caller be stolen, and the frame be gone. */
    struct group_start *start = malloc(sizeof *start);
    if (!start)
        return ENOMEM;
    *start = (struct group_start){g, fn, arg};
    group_add(g);
    int r = ito_create(NULL, NULL, group_main, start);
    if (r) {
        free(start);
        group_leave(g, false);
    }
    return r;
}

int ito_group_wait_until(ito_group *g, uint64_t deadline_ns) {
    struct ito__waiter w;
    /* A deadline in the past asks whether the group is done, without a wait; the timers need not run for that. */
    bool late = ito__passed(deadline_ns);
    if (!late && deadline_ns != ITO_FOREVER) {
        int r = ito__timers_start();
        if (r)
            return r;
    }
    ito__waiter_init(&w);
    ito__word_lock(&g->state);
    if (!g->running || late) {
        int r = g->running ? ETIMEDOUT : 0;
        if (UNLIKELY(g->seen) && r == 0) {
            ITO__TRACE_JOIN((uintptr_t)g);
            g->seen |= WAITED;
        }
        ito__word_unlock(&g->state, 0);
        return r;
    }
    ito__waiters_push(&g->waiters, &w);
    return ito__wait(&w, &g->state, 0, deadline_ns, ITO__WAIT_GROUP, g, NULL);
}

int ito_group_wait(ito_group *g) {
    return ito_group_wait_until(g, ITO_FOREVER);
}

int ito_group_init(ito_group *g) {
    *g = (ito_group)ITO_GROUP_INIT;
    return 0;
}

int ito_group_destroy(ito_group *g) {
    ito__word_lock(&g->state);
    bool busy = g->running || g->waiters.head;
    ito__word_unlock(&g->state, 0);
    return busy ? EBUSY : 0;
}
