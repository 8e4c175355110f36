/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thread descriptors. They are apart from stacks, since a thread that has ended keeps its descriptor until it is
 * joined, but not its stack.
 *
 * Their memory is type-stable: once a descriptor, always a descriptor until ito_fini. So a stale ito_thread * reads
 * ITO__FREE and no garbage. A worker keeps up to ITO__FREE_MAX free descriptors; more go to a depot, from which workers
 * that have none take. A free descriptor is as ito_create wants it: all fields but state and next are 0 or their
 * default.
 */
#include "core/internal.h"

#define CHUNK_BYTES ((size_t)1 << 16)

struct ito__chunk {
    struct ito__chunk *next;
    uint64_t pad[7];
};

/* All descriptors there are, for debuggers. */
extern struct ito__chunk *ito__descriptor_chunks;
struct ito__chunk *ito__descriptor_chunks;

static struct {
    struct ito__spin lock;
    struct ito_thread *free;
    char *at, *end;
    size_t n_free, n_made;
} depot;

/* The depot's lock is held. */
static struct ito_thread *take(void) {
    struct ito_thread *t = depot.free;
    if (t) {
        depot.free = t->next;
        depot.n_free--;
        return t;
    }
    if (depot.at == depot.end) {
        struct ito__chunk *chunk = ito__prim_map(CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        chunk->next = ito__descriptor_chunks;
        /* ORDER release; pairs with the acquire load in ito__descriptor_each(). Shows `next`. */
        store_release(&ito__descriptor_chunks, chunk);
        depot.at = (char *)(chunk + 1);
        depot.end = depot.at + (CHUNK_BYTES - sizeof *chunk) / sizeof *t * sizeof *t;
    }
    t = (struct ito_thread *)depot.at;
    depot.at += sizeof *t;
    depot.n_made++;
    t->state = ITO__FREE;
    t->bind = -1;
    return t;
}

/* From the worker's own, else from the depot, which also fills the worker's own up to half: so a worker that only
 * creates takes the depot's lock once in 32 times. */
struct ito_thread *ito__descriptor_get(struct worker *w) {
    if (w && w->hot.n_free > 0) {
        store_relaxed(&w->hot.n_free, w->hot.n_free - 1); /* ito__descriptor_live() looks at it */
        return w->hot.free[w->hot.n_free];
    }
    ito__spin_lock(&depot.lock);
    struct ito_thread *t = take();
    while (t && w && w->hot.n_free < ITO__FREE_MAX / 2) {
        struct ito_thread *more = take();
        if (more == NULL)
            break;
        w->hot.free[w->hot.n_free] = more;
        store_relaxed(&w->hot.n_free, w->hot.n_free + 1);
    }
    ito__spin_unlock(&depot.lock);
    return t;
}

static void put_locked(struct ito_thread *t) {
    t->next = depot.free;
    depot.free = t;
    depot.n_free++;
}

static struct ito_thread *first_of(struct ito__chunk *chunk) {
    return (struct ito_thread *)(void *)(chunk + 1);
}
#define PER_CHUNK ((CHUNK_BYTES - sizeof(struct ito__chunk)) / sizeof(struct ito_thread))

bool ito__descriptor_is_one(const void *at) {
    for (struct ito__chunk *chunk = ito__descriptor_chunks; chunk; chunk = chunk->next) {
        uintptr_t offset = (uintptr_t)at - (uintptr_t)first_of(chunk);
        if (offset < PER_CHUNK * sizeof(struct ito_thread))
            return offset % sizeof(struct ito_thread) == 0;
    }
    return false;
}

static bool forgotten; /* this process was forked: there may be descriptors of before */

void ito__descriptor_put(struct worker *w, struct ito_thread *t) {
    store_relaxed(&t->state, ITO__FREE);
    if (UNLIKELY(forgotten) && !ito__descriptor_is_one(t))
        return;
    t->stack = NULL;
    t->flags = 0;
    t->bind = -1;
    t->priority = 0;
    t->name = NULL;
    t->keys = NULL;
    t->wait_on = NULL;
    t->wait_kind = 0;
    t->id = 0;
    t->in_place = 0;
    if (w && w->hot.n_free < ITO__FREE_MAX) {
        w->hot.free[w->hot.n_free] = t;
        store_relaxed(&w->hot.n_free, w->hot.n_free + 1);
        return;
    }
    ito__spin_lock(&depot.lock);
    put_locked(t);
    while (w && w->hot.n_free > ITO__FREE_MAX / 2) {
        store_relaxed(&w->hot.n_free, w->hot.n_free - 1);
        put_locked(w->hot.free[w->hot.n_free]);
    }
    ito__spin_unlock(&depot.lock);
}

void ito__descriptor_each(void (*tell)(const struct ito_thread *, void *), void *arg) {
    /* ORDER acquire; pairs with the release store in take(). */
    for (struct ito__chunk *chunk = load_acquire(&ito__descriptor_chunks); chunk; chunk = chunk->next)
        for (size_t i = 0; i < PER_CHUNK; i++) {
            const struct ito_thread *t = first_of(chunk) + i;
            if (load_relaxed(&t->state) != ITO__FREE && t->stack)
                tell(t, arg);
        }
}

/* Descriptors made, less those in the depot and in the workers' own lists, whose lengths are read relaxed. */
size_t ito__descriptor_live(void) {
    ito__spin_lock(&depot.lock);
    size_t live = depot.n_made - depot.n_free;
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        live -= load_relaxed(&ito__pool.workers[i].hot.n_free);
    ito__spin_unlock(&depot.lock);
    return live;
}

void ito__descriptor_stop(void) {
    for (struct ito__chunk *chunk = ito__descriptor_chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ito__prim_unmap(chunk, CHUNK_BYTES);
    }
    ito__descriptor_chunks = NULL;
    __builtin_memset(&depot, 0, sizeof depot);
}

void ito__descriptor_forget(void) {
    forgotten = true;
    ito__descriptor_chunks = NULL;
    __builtin_memset(&depot, 0, sizeof depot);
}
