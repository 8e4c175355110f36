/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks: docs/design/stack.md. They are carved from regions that are mapped as a whole, so that a million stacks are a
 * few mappings; the kernel commits pages when they are touched. Each has a guard at its low end, wide for the first ones.
 * Sizes are powers of two. Each worker keeps some free stacks of the default size; the rest are in a depot for all workers.
 *
 * The depot's fields are written and read under its lock, but for two counters, which are relaxed: nothing depends on
 * their order.
 */
#include "core/internal.h"

#define CLASSES 48u /* size class c: 1 << c bytes, guard included */
/* Places in their last page at which stacks begin; docs/design/stack.md says why. In libito-pthread.so the C library's control block lies
 * there too: with more places, the calls of a third of the threads reach a third page. */
#ifdef ITO__OWN_TLS
#define COLOURS 7u
#else
#define COLOURS 11u
#endif
/* Bytes of the first region and of the largest, each twice the one before: a small program maps 4 MiB, and a million
 * stacks of 64 KiB are some 250 mappings of 256 MiB. */
#define FIRST_REGION ((size_t)1 << 22)
#define LAST_REGION ((size_t)1 << 28)
/* A wide guard stops a frame that is larger than what is left of the stack; it is as wide as the gap that Linux keeps
 * below the stack of main (stack_guard_gap). It costs 2 KiB of page tables, half of what a blocked thread needs, and so
 * is for the first stacks only: this much address space is spent on them, and at most an eighth of RLIMIT_AS. */
#define WIDE_GUARD ((size_t)1 << 20)
#define WIDE_GUARDS (sizeof(void *) == 8 ? (size_t)1 << 30 : (size_t)1 << 26)
/* So many of them are mappings, which are made faster than 256 markers; a program has 65,530 mappings. */
#define MAPPED_GUARDS 4096u

struct region {
    char *at;
    size_t bytes;
};

static struct {
    struct ito__spin lock;
    struct ito__stack *free[CLASSES];
    struct region *regions; /* grows by doubling, from ito__prim_map */
    size_t n_regions, room_regions;
    char *at, *end; /* what is left of the newest region */
    size_t next_region;
    size_t guard, guards_left; /* bytes of a wide guard, and of all those that are still to be made */
    uint64_t n_unguarded;
    uint32_t n_wide, n_colours;
} depot;

size_t ito__stack_default;
static uint32_t default_class;

/* The least power of two that holds so many bytes: at least four pages, of which the guard takes one. CLASSES: too
 * large for any. */
static uint32_t class_of(size_t bytes) {
    uint32_t c = 0;
    size_t least = 4 * ito__prim_page();
    if (bytes < least)
        bytes = least;
    while (c < CLASSES && ((size_t)1 << c) < bytes)
        c++;
    return c;
}

/* @guard_bytes: of each stack; 0: wide ones for the first stacks, and a page for the others. */
void ito__stack_start(size_t default_bytes, size_t guard_bytes) {
    size_t page = ito__prim_page(), most = ito__prim_address_limit() / 8;
    default_class = class_of(default_bytes);
    ito__stack_default = (size_t)1 << default_class;
    depot.next_region = FIRST_REGION;
    depot.guard = guard_bytes ? (guard_bytes + page - 1) / page * page : WIDE_GUARD;
    depot.guards_left = guard_bytes ? SIZE_MAX : most < WIDE_GUARDS ? most : WIDE_GUARDS;
}

/* The depot's lock is held. The list is what ito__stack_stop() unmaps. It lives in pages of its own: nothing here
 * calls malloc. */
static bool remember_region(char *at, size_t bytes) {
    if (depot.n_regions == depot.room_regions) {
        size_t room = depot.room_regions ? 2 * depot.room_regions : ito__prim_page() / sizeof(struct region);
        struct region *grown = ito__prim_map(room * sizeof *grown);
        if (grown == NULL)
            return false;
        for (size_t i = 0; i < depot.n_regions; i++)
            grown[i] = depot.regions[i];
        if (depot.regions)
            ito__prim_unmap(depot.regions, depot.room_regions * sizeof *grown);
        depot.regions = grown;
        depot.room_regions = room;
    }
    depot.regions[depot.n_regions++] = (struct region){at, bytes};
    return true;
}

/* The depot's lock is held. */
static char *carve(size_t bytes) {
    if ((size_t)(depot.end - depot.at) < bytes) {
        size_t room = depot.next_region > bytes ? depot.next_region : bytes;
        char *at = ito__prim_map(room);
        if (at == NULL && room > bytes)
            at = ito__prim_map(room = bytes); /* a short address space: take what one stack needs */
        if (at == NULL)
            return NULL;
        if (!remember_region(at, room)) {
            ito__prim_unmap(at, room);
            return NULL;
        }
        depot.at = at; /* what was left of the old region stays unused: less than one stack, never touched */
        depot.end = at + room;
        if (depot.next_region < LAST_REGION)
            depot.next_region *= 2;
    }
    char *at = depot.at;
    depot.at += bytes;
    return at;
}

/* A new stack. Its descriptor lies at its own upper end, so that one touched page serves both. Only carving needs the
 * lock; the memory is the caller's alone from then on. */
static struct ito__stack *make(uint32_t size_class) {
    size_t bytes = (size_t)1 << size_class, guard = ito__prim_page();
    bool by_mapping = false;
    char *at = NULL;
    ito__spin_lock(&depot.lock);
    /* The size has room for a guard of one page; what a wider one takes more lies below it. */
    if (depot.guards_left >= depot.guard && (at = carve(bytes + depot.guard - guard)) != NULL) {
        bytes += depot.guard - guard;
        depot.guards_left -= depot.guard;
        guard = depot.guard;
        by_mapping = depot.n_wide++ < MAPPED_GUARDS;
    }
    if (at == NULL)
        at = carve(bytes);
    ito__spin_unlock(&depot.lock);
    if (at == NULL)
        return NULL;
    /* Colour: stacks begin at different lines of their last page. Otherwise the live ends of all of them would fall
     * into the same few sets of a cache (docs/design/stack.md). */
    uint32_t colour = __atomic_fetch_add(&depot.n_colours, 1, __ATOMIC_RELAXED) % COLOURS;
    struct ito__stack *stack = (struct ito__stack *)(at + bytes) - 1 - 3 * colour;
    stack->map = at;
    stack->bytes = bytes;
    stack->size_class = size_class;
    stack->guarded = ito__prim_guard(at, guard, by_mapping);
    stack->low = at + guard;
    size_t reserve = ((size_t)1 << size_class) / 4;
    stack->fork_low = stack->low + (reserve < ITO__FORK_RESERVE ? reserve : ITO__FORK_RESERVE);
    if (!stack->guarded)
        __atomic_fetch_add(&depot.n_unguarded, 1, __ATOMIC_RELAXED);
    ITO__HOOK_STACK_NEW(stack->low, (char *)stack);
    return stack;
}

/* The size class of a stack in memory of the program. */
#define CALLERS CLASSES

/* Its descriptor lies at its upper end, as in all stacks, and is gone when the caller uses the memory again. */
struct ito__stack *ito__stack_of_caller(void *memory, size_t bytes) {
    struct ito__stack *stack = (struct ito__stack *)(((uintptr_t)memory + bytes) & ~(uintptr_t)(ITO__LINE - 1)) - 1;
    *stack = (struct ito__stack){.low = memory, .map = memory, .bytes = bytes, .size_class = CALLERS};
    stack->fork_low = stack->low + (bytes / 4 < ITO__FORK_RESERVE ? bytes / 4 : ITO__FORK_RESERVE);
    ITO__HOOK_STACK_NEW(stack->low, (char *)stack);
    return stack;
}

bool ito__stack_is_callers(const struct ito__stack *stack) {
    return stack->size_class == CALLERS;
}

size_t ito__stack_bytes(const struct ito__stack *stack) {
    return (size_t)1 << stack->size_class;
}

/* A free stack of this size, from any worker; null: none. The last one that came goes first: its pages are most
 * likely still in a cache. */
static struct ito__stack *depot_pop(uint32_t size_class) {
    ito__spin_lock(&depot.lock);
    struct ito__stack *stack = depot.free[size_class];
    if (stack)
        depot.free[size_class] = stack->next;
    ito__spin_unlock(&depot.lock);
    return stack;
}

/* The worker keeps too many: half of them go to the depot. */
static void give_back(struct worker *w) {
    ito__spin_lock(&depot.lock);
    while (w->n_stacks > ITO__STACK_CACHE / 2) {
        struct ito__stack *stack = w->stacks[--w->n_stacks];
        stack->next = depot.free[stack->size_class];
        depot.free[stack->size_class] = stack;
    }
    ito__spin_unlock(&depot.lock);
}

/* From the worker's own, from the depot, or newly made. A stack keeps its contents: the pages it has touched stay. */
struct ito__stack *ito__stack_get(struct worker *w, size_t bytes) {
    uint32_t size_class = bytes == 0 ? default_class : class_of(bytes);
    if (size_class >= CLASSES)
        return NULL;
    if (w && size_class == default_class && w->n_stacks > 0)
        return w->stacks[--w->n_stacks];
    struct ito__stack *stack = depot_pop(size_class);
    return stack ? stack : make(size_class);
}

/* The caller is off the stack: nothing on it is read again. Without a worker (a foreign thread), and for other sizes,
 * it goes to the depot at once. */
void ito__stack_put(struct worker *w, struct ito__stack *stack) {
    if (w && stack->size_class == default_class) {
        if (w->n_stacks == ITO__STACK_CACHE)
            give_back(w);
        w->stacks[w->n_stacks++] = stack;
        return;
    }
    ito__spin_lock(&depot.lock);
    stack->next = depot.free[stack->size_class];
    depot.free[stack->size_class] = stack;
    ito__spin_unlock(&depot.lock);
}

/* The pool has ended: no thread is left that uses one of these stacks. */
void ito__stack_stop(void) {
    for (size_t i = 0; i < depot.n_regions; i++)
        ito__prim_unmap(depot.regions[i].at, depot.regions[i].bytes);
    if (depot.regions)
        ito__prim_unmap(depot.regions, depot.room_regions * sizeof *depot.regions);
    ito__stack_forget();
}

void ito__stack_forget(void) {
    __builtin_memset(&depot, 0, sizeof depot);
}
