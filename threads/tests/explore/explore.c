/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The explorer: explore.h says what for, README.md what is modelled.
 *
 * Memory holds the newest value of everything. Beside it, each atomic field has the list of its values that some thread
 * may still read (`cell.message`), oldest first, and each thread a view: the oldest value of each field that it may
 * still read. A load moves the view up; an acquire load also takes over the view that the release store of the value
 * carried. Views hold a vector clock as well; by these the races of plain accesses are found. This is the operational
 * form of C11's release and acquire (O. Lahav et al., "Taming release-acquire consistency", POPL 2016; fences as in J.
 * Kang et al., "A promising semantics for relaxed-memory concurrency", POPL 2017, without its promises).
 *
 * The search is depth first over states, each visited once: a state is the registered memory, the used part of each
 * thread's stack, and the lists and views. Threads run on stacks of their own and come back here at each operation, so
 * a state is copied away and back like any bytes.
 */
#include "explore_hooks.h"

#include "core/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N EXPLORE_THREADS
#define CELLS 640
#define FIELDS 56   /* atomic cells */
#define MESSAGES 24 /* values of one field that may still be read */
#define REGIONS 12
#define BOOKS 8
#define STACK_BYTES 16384
#define ARENA_BYTES 32768
#define CHOICES 64

struct view {
    uint8_t seen[FIELDS]; /* index of the oldest message that may still be read */
    uint8_t clock[N];     /* what happened before: releases of each thread */
};
struct message {
    uint64_t value;
    struct view view; /* what the one who acquires it learns */
    uint8_t by;
};
/* One address. `field` >= 0: an atomic one, with its messages. */
struct cell {
    const char *at;
    int16_t field;
    uint8_t bytes, n_messages;
    bool is_freed;
    uint8_t write_by, write_clock; /* the last write */
    uint8_t plain_by, plain_clock; /* the last plain one */
    uint8_t reads[N];              /* each thread's clock + 1 at its last read; 0: none since the last write */
};
enum kind { OP_NONE, OP_LOAD, OP_STORE, OP_RMW, OP_CAS, OP_FENCE, OP_WAIT, OP_ASLEEP, OP_WAKE, OP_DONE };
struct op {
    enum kind kind;
    enum explore_rmw rmw;
    int order, order_failed;
    const char *at;
    const void *caller;
    uint64_t value, expected, result;
    uint32_t bytes, thread;
};
struct thread {
    void *sp;
    struct op op;
    struct view view;
    struct view acquired;    /* learned by relaxed loads; an acquire fence makes it the thread's own */
    struct view released;    /* of the last release fence: what relaxed stores carry */
    const void *last_caller; /* the last operation was this load, of this message: a loop that waits. It goes on only */
    const char *last_at;     /* when there is a newer one */
    uint8_t last_message;
};

/* All that is a state beside memory and stacks. Messages are kept apart: they are many and mostly absent. */
static struct state {
    uint32_t n_cells, n_fields, arena_used;
    uint8_t books[BOOKS];
    struct view fenced; /* what sequentially consistent fences have seen */
    struct thread threads[N];
} s;
static struct cell cells[CELLS]; /* by address */
static struct message messages[FIELDS][MESSAGES];

static const struct explore_program *program;
static int current = -1; /* the thread that runs; -1: none yet, nothing is tracked */
static void *explorer_sp;
static const char *failure;
static char arena[ARENA_BYTES] __attribute__((aligned(4096)));
static char stacks[N][STACK_BYTES] __attribute__((aligned(4096)));
static struct {
    char *at;
    size_t bytes;
} regions[REGIONS];
static unsigned n_regions;
static struct {
    const void *at;
    size_t bytes;
    const char *name;
} names[FIELDS];
static unsigned n_names;
static const void *constants[FIELDS];
static unsigned n_constants;

static void give_up(const char *what) {
    fprintf(stderr, "explore: %s\n", what);
    exit(2);
}

/* ---- leaving a thread -------------------------------------------------------------------------------------------- */

static void to_explorer(void) {
    explore_switch(&s.threads[current].sp, explorer_sp);
}

void explore_fail(const char *what) {
    failure = what;
    for (;;)
        to_explorer();
}

static bool is_cut;
void explore_cut(void) {
    is_cut = true;
    for (;;)
        to_explorer();
}

static void first(void) {
    program->thread((unsigned)current);
    s.threads[current].op = (struct op){.kind = OP_DONE};
    for (;;)
        to_explorer();
}

unsigned explore_thread(void) {
    return current < 0 ? 0 : (unsigned)current;
}
uint8_t *explore_book(unsigned i) {
    return &s.books[i];
}
bool explore_is_done(unsigned thread) {
    return s.threads[thread].op.kind == OP_DONE;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void explore_region(void *at, size_t bytes) {
    if (n_regions == REGIONS)
        give_up("too many regions");
    regions[n_regions].at = at;
    regions[n_regions++].bytes = bytes;
}
void *explore_alloc(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (s.arena_used + bytes > sizeof arena)
        give_up("the arena is full");
    void *at = arena + s.arena_used;
    s.arena_used += (uint32_t)bytes;
    memset(at, 0, bytes);
    return at;
}
void explore_name(const void *field, size_t bytes, const char *name) {
    if (n_names == FIELDS)
        give_up("too many names");
    names[n_names].at = field;
    names[n_names].bytes = bytes;
    names[n_names++].name = name;
}
void explore_constant(const void *field) {
    if (n_constants == FIELDS)
        give_up("too many constants");
    constants[n_constants++] = field;
}
static bool is_constant(const void *at) {
    for (unsigned i = 0; i < n_constants; i++)
        if (constants[i] == at)
            return true;
    return false;
}
static const char *name_of(const void *at) {
    static char text[32];
    for (unsigned i = 0; i < n_names; i++)
        if (names[i].at == at)
            return names[i].name;
    snprintf(text, sizeof text, "%p", at);
    return text;
}

static uint64_t read_memory(const char *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static struct cell *cell_of(const char *at, size_t bytes) {
    if ((uintptr_t)at < 4096)
        explore_fail("a null pointer is used");
    for (int t = 0; t < (int)program->n_threads; t++)
        if (t != current && at >= stacks[t] && at < stacks[t] + STACK_BYTES &&
            (explore_is_done((unsigned)t) || at < (char *)s.threads[t].sp))
            explore_fail("a frame is used whose function has returned");
    uint32_t low = 0, high = s.n_cells;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (cells[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < s.n_cells && cells[low].at == at)
        return &cells[low];
    if (s.n_cells == CELLS)
        give_up("too many addresses");
    memmove(&cells[low + 1], &cells[low], (s.n_cells - low) * sizeof *cells);
    s.n_cells++;
    cells[low] = (struct cell){.at = at, .bytes = (uint8_t)bytes, .field = -1};
    return &cells[low];
}

/* No view knows any of its values. */
static void forget_field(unsigned field) {
    s.fenced.seen[field] = 0;
    for (unsigned t = 0; t < N; t++)
        s.threads[t].view.seen[field] = s.threads[t].acquired.seen[field] = s.threads[t].released.seen[field] = 0;
    for (unsigned f = 0; f < s.n_fields; f++)
        for (unsigned m = 0; m < MESSAGES; m++)
            messages[f][m].view.seen[field] = 0;
}

/* The same, made atomic: its only message is what memory holds. */
static struct cell *field_of(const char *at, size_t bytes) {
    struct cell *c = cell_of(at, bytes);
    if (c->field < 0) {
        if (s.n_fields == FIELDS)
            give_up("too many atomic fields");
        c->field = (int16_t)s.n_fields++;
        c->bytes = (uint8_t)bytes; /* a plain write of a whole struct may have made it wider */
        c->n_messages = 1;
        messages[c->field][0] = (struct message){.value = read_memory(at, bytes)};
    } else if (c->n_messages == 0) {
        c->bytes = (uint8_t)bytes;
        c->n_messages = 1;
        forget_field((unsigned)c->field);
        messages[c->field][0] = (struct message){.value = read_memory(at, bytes)};
    }
    return c;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static void join_seen(struct view *to, const struct view *from) {
    for (uint32_t i = 0; i < s.n_fields; i++)
        if (to->seen[i] < from->seen[i])
            to->seen[i] = from->seen[i];
}
static void join(struct view *to, const struct view *from) {
    join_seen(to, from);
    for (unsigned i = 0; i < N; i++)
        if (to->clock[i] < from->clock[i])
            to->clock[i] = from->clock[i];
}
static bool acquires(int order) {
    return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}
static bool releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void fence(unsigned t) {
    struct thread *me = &s.threads[t];
    join(&me->view, &me->acquired);
    join_seen(&me->view, &s.fenced);
    join_seen(&s.fenced, &me->view);
    me->view.clock[t]++;
    me->released = me->view;
}

/*
 * The kernel's membarrier, as far as it concerns threads a (its caller) and b: what b did before this moment is ordered
 * before what a does after the call, and what a did before it before what b does from now on. One moment for both:
 * what they learn in between would only order more.
 */
static void rendezvous(unsigned a, unsigned b) {
    fence(b);
    join(&s.threads[a].view, &s.threads[b].view);
    fence(a);
    join(&s.threads[b].view, &s.threads[a].view);
}

/* Values that no running thread can read any more are forgotten, and the rest numbered from 0. */
static void forget_old(void) {
    for (uint32_t i = 0; i < s.n_cells; i++) {
        int field = cells[i].field;
        uint8_t least = UINT8_MAX;
        if (field < 0 || cells[i].n_messages < 2)
            continue;
        for (unsigned t = 0; t < program->n_threads; t++)
            if (!explore_is_done(t) && s.threads[t].view.seen[field] < least)
                least = s.threads[t].view.seen[field];
        if (least == 0)
            continue;
        if (least == UINT8_MAX)
            least = (uint8_t)(cells[i].n_messages - 1);
        cells[i].n_messages = (uint8_t)(cells[i].n_messages - least);
        memmove(&messages[field][0], &messages[field][least], cells[i].n_messages * sizeof(struct message));
        struct view *views[3 * N + 1 + FIELDS * MESSAGES];
        unsigned n = 0;
        views[n++] = &s.fenced;
        for (unsigned t = 0; t < program->n_threads; t++) {
            views[n++] = &s.threads[t].view;
            views[n++] = &s.threads[t].acquired;
            views[n++] = &s.threads[t].released;
            if (s.threads[t].last_at == cells[i].at && s.threads[t].last_message < least)
                s.threads[t].last_at = NULL; /* what it read is gone: all that is left is newer */
            else if (s.threads[t].last_at == cells[i].at)
                s.threads[t].last_message = (uint8_t)(s.threads[t].last_message - least);
        }
        for (uint32_t k = 0; k < s.n_cells; k++)
            for (unsigned m = 0; cells[k].field >= 0 && m < cells[k].n_messages; m++)
                views[n++] = &messages[cells[k].field][m].view;
        while (n-- > 0)
            views[n]->seen[field] = views[n]->seen[field] < least ? 0 : (uint8_t)(views[n]->seen[field] - least);
    }
}

/* ---- plain accesses ---------------------------------------------------------------------------------------------- */

static void race(const char *what, const struct cell *c) {
    static char text[128];
    snprintf(text, sizeof text, "data race: %s %s", what, name_of(c->at));
    explore_fail(text);
}

/* Reads and writes must be ordered after the last write, writes after all reads since. */
static void check_order(struct cell *c, bool writes, const struct view *v) {
    if (c->is_freed)
        explore_fail("memory is used after it was given back");
    if (c->write_clock > v->clock[c->write_by] && c->write_by != current)
        race(writes ? "writes, not ordered after another write," : "reads, not ordered after a write,", c);
    for (int t = 0; writes && t < N; t++)
        if (t != current && c->reads[t] > v->clock[t] + 1)
            race("writes, not ordered after a read,", c);
}
/* As C11 has it: what was written plainly, by whoever made it, is published before others use it atomically. */
static void check_atomic(struct cell *c, const struct view *v) {
    if (c->is_freed)
        explore_fail("memory is used after it was given back");
    if (c->plain_clock > v->clock[c->plain_by] && c->plain_by != current)
        race("uses atomically, not ordered after a plain write,", c);
}
static void note_write(struct cell *c, unsigned t) {
    c->write_by = (uint8_t)t;
    c->write_clock = (uint8_t)(s.threads[t].view.clock[t] + 1);
    memset(c->reads, 0, sizeof c->reads);
}
static void note_read(struct cell *c, unsigned t) {
    c->reads[t] = (uint8_t)(s.threads[t].view.clock[t] + 2);
}

static bool is_own_frame(const void *at) {
    return (const char *)at >= stacks[current] && (const char *)at < stacks[current] + STACK_BYTES;
}

void explore_plain(void *at, size_t bytes, bool writes) {
    if (current < 0 || is_constant(at))
        return;
    struct thread *me = &s.threads[current];
    struct cell *c = cell_of(at, bytes);
    check_order(c, writes, &me->view);
    if (!writes) {
        note_read(c, (unsigned)current);
        return;
    }
    if (c->field >= 0 && !is_own_frame(at))
        explore_fail("a plain write to a field that others use atomically");
    if (c->field >= 0)
        c->n_messages = 0; /* another variable now, after a function that has returned: field_of() */
    note_write(c, (unsigned)current);
    c->plain_by = c->write_by;
    c->plain_clock = c->write_clock;
}

void explore_free(void *at, size_t bytes) {
    for (uint32_t i = 0; i < s.n_cells; i++)
        if (cells[i].at >= (char *)at && cells[i].at < (char *)at + bytes) {
            check_order(&cells[i], true, &s.threads[current].view);
            cells[i].is_freed = true;
        }
}

/* ---- operations: ask for one, then be given its result ----------------------------------------------------------- */

static uint64_t compute(enum explore_rmw rmw, uint64_t old, uint64_t value) {
    switch (rmw) {
    case EXPLORE_ADD:
        return old + value;
    case EXPLORE_SUB:
        return old - value;
    case EXPLORE_AND:
        return old & value;
    case EXPLORE_OR:
        return old | value;
    case EXPLORE_XOR:
        return old ^ value;
    default:
        return value;
    }
}

/* Before the threads run there is one thread only: memory is all. */
static uint64_t at_once(const struct op *op) {
    uint64_t old = op->at ? read_memory(op->at, op->bytes) : 0, value = op->value;
    if (op->kind == OP_RMW)
        value = compute(op->rmw, old, op->value);
    if (op->kind == OP_STORE || op->kind == OP_RMW || (op->kind == OP_CAS && old == op->expected))
        memcpy((char *)(uintptr_t)op->at, &value, op->bytes);
    return old;
}

static uint64_t ask(struct op op) {
    if (current < 0 || (op.kind == OP_LOAD && is_constant(op.at)))
        return at_once(&op);
    if (is_constant(op.at))
        explore_fail("a constant is changed by an atomic operation");
    if (op.kind == OP_LOAD || op.kind == OP_STORE || op.kind == OP_RMW || op.kind == OP_CAS)
        check_atomic(field_of(op.at, op.bytes), &s.threads[current].view);
    s.threads[current].op = op;
    to_explorer();
    uint64_t result = s.threads[current].op.result;
    s.threads[current].op = (struct op){.kind = OP_NONE};
    return result;
}

uint64_t explore_load(void *at, size_t bytes, int order, const void *caller) {
    return ask((struct op){.kind = OP_LOAD, .at = at, .bytes = (uint32_t)bytes, .order = order, .caller = caller});
}
void explore_store(void *at, size_t bytes, uint64_t value, int order) {
    ask((struct op){.kind = OP_STORE, .at = at, .bytes = (uint32_t)bytes, .value = value, .order = order});
}
uint64_t explore_rmw(void *at, size_t bytes, enum explore_rmw rmw, uint64_t value, int order) {
    return ask(
        (struct op){.kind = OP_RMW, .rmw = rmw, .at = at, .bytes = (uint32_t)bytes, .value = value, .order = order});
}
uint64_t explore_cas(void *at, size_t bytes, uint64_t expected, uint64_t value, int order, int order_failed) {
    return ask((struct op){.kind = OP_CAS,
                           .at = at,
                           .bytes = (uint32_t)bytes,
                           .expected = expected,
                           .value = value,
                           .order = order,
                           .order_failed = order_failed});
}
void explore_fence_on(unsigned thread) {
    ask((struct op){.kind = OP_FENCE, .thread = thread});
}
void explore_wait(uint32_t *word, uint32_t value) {
    ask((struct op){.kind = OP_WAIT, .at = (char *)word, .bytes = 4, .expected = value});
}
void explore_wake(uint32_t *word, int n) {
    ask((struct op){.kind = OP_WAKE, .at = (char *)word, .value = (uint64_t)n});
}

/* ---- what a thread can do next ----------------------------------------------------------------------------------- */

struct choice {
    uint8_t thread, message, succeeds;
};

static unsigned choices_of(unsigned t, struct choice *out) {
    const struct thread *me = &s.threads[t];
    const struct op *op = &me->op;
    unsigned n = 0;
    if (op->kind == OP_DONE || op->kind == OP_ASLEEP)
        return 0;
    if (op->kind != OP_LOAD && op->kind != OP_CAS) {
        out[0] = (struct choice){(uint8_t)t, 0, 0};
        return 1;
    }
    const struct cell *c = cell_of(op->at, op->bytes);
    const struct message *m = messages[c->field];
    uint8_t from = me->view.seen[c->field], last = (uint8_t)(c->n_messages - 1);
    if (op->kind == OP_LOAD && me->last_at == op->at && me->last_caller == op->caller)
        from = (uint8_t)(me->last_message + 1);
    if (op->kind == OP_CAS && m[last].value == op->expected)
        out[n++] = (struct choice){(uint8_t)t, last, 1};
    for (uint8_t i = from; i <= last; i++)
        if (op->kind == OP_LOAD || m[i].value != op->expected)
            out[n++] = (struct choice){(uint8_t)t, i, 0};
    return n;
}

static void do_read(unsigned t, const struct cell *c, unsigned message, int order) {
    struct thread *me = &s.threads[t];
    const struct message *m = &messages[c->field][message];
    if (me->view.seen[c->field] < message)
        me->view.seen[c->field] = (uint8_t)message;
    join(acquires(order) ? &me->view : &me->acquired, &m->view);
}

/*
 * The newest message's release sequence is continued by a read-modify-write of any thread and, in C11, by a store of
 * the thread that wrote it: whoever acquires the new message is ordered after the release that heads the sequence.
 */
static void do_write(unsigned t, struct cell *c, uint64_t value, int order, bool is_rmw) {
    struct thread *me = &s.threads[t];
    if (c->n_messages == MESSAGES)
        give_up("too many values of one field");
    const struct message *newest = &messages[c->field][c->n_messages - 1];
    struct message m = {.value = value, .view = releases(order) ? me->view : me->released, .by = (uint8_t)t};
    if (is_rmw || newest->by == t)
        join(&m.view, &newest->view);
    uint8_t mine = c->n_messages++;
    m.view.seen[c->field] = me->view.seen[c->field] = mine;
    if (releases(order))
        m.view.clock[t] = (uint8_t)(me->view.clock[t] + 1);
    messages[c->field][mine] = m;
    note_write(c, t);
    memcpy((char *)(uintptr_t)c->at, &value, c->bytes);
    if (releases(order))
        me->view.clock[t]++;
}

static void perform(struct choice choice) {
    unsigned t = choice.thread;
    struct thread *me = &s.threads[t];
    struct op *op = &me->op;
    const void *caller = op->caller;
    me->last_at = NULL;
    if (op->kind == OP_FENCE) {
        fence(t);
        if (op->thread != t)
            rendezvous(t, op->thread);
    } else if (op->kind == OP_WAIT) {
        if (read_memory(op->at, op->bytes) == op->expected)
            op->kind = OP_ASLEEP;
    } else if (op->kind == OP_WAKE) {
        for (unsigned o = 0; o < program->n_threads && op->value > 0; o++)
            if (s.threads[o].op.kind == OP_ASLEEP && s.threads[o].op.at == op->at) {
                s.threads[o].op.kind = OP_NONE;
                op->value--;
            }
    } else if (op->kind != OP_NONE) {
        struct cell *c = cell_of(op->at, op->bytes);
        unsigned last = c->n_messages - 1u;
        uint64_t newest = messages[c->field][last].value;
        int order = op->kind == OP_CAS && !choice.succeeds ? op->order_failed : op->order;
        if (order == __ATOMIC_SEQ_CST)
            fence(t);
        if (op->kind == OP_LOAD || op->kind == OP_CAS) {
            op->result = messages[c->field][choice.message].value;
            note_read(c, t);
            do_read(t, c, choice.message, order);
            me->last_at = op->kind == OP_LOAD ? op->at : NULL;
            me->last_caller = caller;
            me->last_message = choice.message;
            if (choice.succeeds)
                do_write(t, c, op->value, order, true);
        } else if (op->kind == OP_STORE) {
            do_write(t, c, op->value, order, false);
        } else {
            op->result = newest;
            do_read(t, c, last, order);
            do_write(t, c, compute(op->rmw, newest, op->value), order, true);
        }
    }
    forget_old();
}

static void go_on(unsigned t) {
    current = (int)t;
    explore_switch(&explorer_sp, s.threads[t].sp);
    current = -1;
}

/* ---- states as bytes --------------------------------------------------------------------------------------------- */

struct bytes {
    size_t n, room;
    char *at;
};
static void put(struct bytes *b, const void *at, size_t n) {
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->at = realloc(b->at, b->room);
        if (b->at == NULL)
            give_up("no memory");
    }
    memcpy(b->at + b->n, at, n);
    b->n += n;
}
static const char *get(const char *from, void *at, size_t n) {
    memcpy(at, from, n);
    return from + n;
}

static void save(struct bytes *b) {
    b->n = 0;
    put(b, &s, sizeof s);
    put(b, cells, s.n_cells * sizeof *cells);
    for (uint32_t i = 0; i < s.n_cells; i++)
        if (cells[i].field >= 0)
            put(b, messages[cells[i].field], cells[i].n_messages * sizeof(struct message));
    put(b, arena, s.arena_used);
    for (unsigned i = 0; i < n_regions; i++)
        put(b, regions[i].at, regions[i].bytes);
    for (unsigned t = 0; t < program->n_threads; t++)
        if (!explore_is_done(t))
            put(b, s.threads[t].sp, (size_t)(stacks[t] + STACK_BYTES - (char *)s.threads[t].sp));
}
static void restore(const char *from) {
    from = get(from, &s, sizeof s);
    from = get(from, cells, s.n_cells * sizeof *cells);
    for (uint32_t i = 0; i < s.n_cells; i++)
        if (cells[i].field >= 0)
            from = get(from, messages[cells[i].field], cells[i].n_messages * sizeof(struct message));
    from = get(from, arena, s.arena_used);
    for (unsigned i = 0; i < n_regions; i++)
        from = get(from, regions[i].at, regions[i].bytes);
    for (unsigned t = 0; t < program->n_threads; t++)
        if (!explore_is_done(t))
            from = get(from, s.threads[t].sp, (size_t)(stacks[t] + STACK_BYTES - (char *)s.threads[t].sp));
}

/* 128 bits, so that two states are never taken for one in practice. */
struct hash {
    uint64_t a, b;
};
static struct hash hash_of(const struct bytes *b) {
    struct hash h = {b->n, ~b->n};
    for (size_t i = 0; i + 8 <= b->n; i += 8) {
        uint64_t x;
        memcpy(&x, b->at + i, 8);
        h.a = (h.a ^ x) * 0x9e3779b97f4a7c15u;
        h.a ^= h.a >> 32;
        h.b = (h.b + x) * 0xd6e8feb86659fd93u;
        h.b ^= h.b >> 29;
    }
    for (size_t i = b->n & ~(size_t)7; i < b->n; i++)
        h.a = (h.a ^ (uint8_t)b->at[i]) * 0x100000001b3u;
    h.a |= 1; /* 0: an empty place */
    return h;
}

static struct hash *seen;
static size_t n_seen, n_places;
static bool is_new(struct hash h) {
    if (2 * n_seen >= n_places) {
        struct hash *old = seen;
        size_t n = n_places;
        n_places = n ? 2 * n : 1u << 16;
        seen = calloc(n_places, sizeof *seen);
        if (seen == NULL)
            give_up("no memory");
        n_seen = 0;
        for (size_t i = 0; i < n; i++)
            if (old[i].a)
                is_new(old[i]);
        free(old);
    }
    size_t i = h.b & (n_places - 1);
    for (; seen[i].a; i = (i + 1) & (n_places - 1))
        if (seen[i].a == h.a && seen[i].b == h.b)
            return false;
    seen[i] = h;
    n_seen++;
    return true;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

struct frame {
    struct bytes bytes;
    unsigned n, next;
    struct choice choices[CHOICES];
    struct op op; /* the step that led here */
    unsigned thread;
};
static struct frame *frames;
static size_t n_frames, room_frames;

static void say_step(const struct frame *f) {
    static const char *const kinds[] = {"begins", "load", "store",  "rmw",  "cas",
                                        "fence",  "wait", "asleep", "wake", "end"};
    static const char *const orders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
    const struct op *op = &f->op;
    printf("  %u %s", f->thread, kinds[op->kind]);
    if (op->kind == OP_FENCE)
        printf(" on %u", op->thread);
    if (op->at)
        printf(" %s %s value %llx expected %llx result %llx", orders[op->order], name_of(op->at),
               (unsigned long long)op->value, (unsigned long long)op->expected, (unsigned long long)op->result);
    printf("\n");
}
static void report(const char *what) {
    printf("%s: %s, after\n", program->name, what);
    for (size_t i = 1; i < n_frames; i++)
        say_step(&frames[i]);
    exit(1);
}

/* The state as it is now becomes the top of the search, unless it was there before. */
static void visit(unsigned thread, struct op op) {
    if (n_frames == room_frames) {
        size_t room = room_frames ? 2 * room_frames : 256;
        frames = realloc(frames, room * sizeof *frames);
        if (frames == NULL)
            give_up("no memory");
        memset(frames + room_frames, 0, (room - room_frames) * sizeof *frames);
        room_frames = room;
    }
    struct frame *f = &frames[n_frames];
    save(&f->bytes);
    f->op = op;
    f->thread = thread;
    if (failure) {
        n_frames++;
        report(failure);
    }
    bool is_over = is_cut;
    is_cut = false;
    if (is_over || !is_new(hash_of(&f->bytes)))
        return;
    n_frames++;
    f->n = f->next = 0;
    /* A thread that begins or was woken does nothing that others see: no other order needs to be tried. */
    for (unsigned t = 0; t < program->n_threads && f->n == 0; t++)
        if (s.threads[t].op.kind == OP_NONE)
            f->n = choices_of(t, f->choices);
    for (unsigned t = 0, only = f->n; t < program->n_threads && !only; t++)
        f->n += choices_of(t, f->choices + f->n);
    const char *wrong = f->n == 0 ? program->end() : NULL;
    if (wrong)
        report(wrong);
}

static void search(void) {
    for (unsigned t = 0; t < program->n_threads; t++) {
        s.threads[t].sp = ito__context_make(stacks[t] + STACK_BYTES - 64, first);
        s.threads[t].op = (struct op){.kind = OP_NONE};
    }
    program->start();
    for (unsigned i = 0; i < n_names; i++)
        (void)field_of(names[i].at, names[i].bytes);
    visit(0, (struct op){.kind = OP_NONE});
    while (n_frames > 0) {
        struct frame *f = &frames[n_frames - 1];
        if (f->next == f->n) {
            n_frames--;
            continue;
        }
        struct choice choice = f->choices[f->next++];
        restore(f->bytes.at);
        perform(choice);
        struct op done = s.threads[choice.thread].op;
        if (done.kind != OP_ASLEEP)
            go_on(choice.thread);
        visit(choice.thread, done);
    }
}

int main(int argc, char **argv) {
    for (program = explore_programs; program->name; program++)
        if (argc == 2 && strcmp(program->name, argv[1]) == 0) {
            search();
            printf("%s: %zu states, all well\n", program->name, n_seen);
            return 0;
        }
    fprintf(stderr, "explore: no program of that name\n");
    return 2;
}
