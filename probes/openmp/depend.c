/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which tasks a task depends on, from the addresses in its `depend` clauses.
 *
 * For each address in each task that creates others: the tasks that named it last, all in the same way (a set), and those
 * that named it before them, which each of the set depends on. One that names it in another way, or to write it alone (out,
 * inout), begins a new set, and depends on all of the one before:
 *
 *   out A     | in B, in C  | out D
 *   set {A}   | {B, C} on A | {D} on B, C
 *
 * Siblings alone depend on each other, and a task creates all of its own on one thread, but for an untied one. So the table
 * is the thread's own, without a lock; what an untied task created on another thread is not found. Addresses stay after a
 * barrier: what was created before it has ended, so those dependences are true. At ADDRESSES_MAX addresses the table
 * begins anew, and the tasks so far are forgotten; also at TASKS_MAX tasks in all sets, as of a program whose tasks all read
 * one address that none writes.
 */
#include "openmp.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESSES_MAX (1u << 16)
#define TASKS_MAX (1u << 18)
#define TABLE_FIRST 64u

struct set {
    uint64_t *tasks;
    uint32_t n, room;
};
struct address {
    uint64_t creator, address; /* address 0: free */
    struct set now, before;
    uint32_t how;
};
struct table {
    struct address *rows; /* [n_rows], a power of two; a row is at its hash or after */
    uint32_t n, n_rows;
    uint32_t n_tasks; /* in the sets of all rows */
};

static __thread struct table *own OPENMP_TLS_HERE;
static pthread_key_t at_exit;
static int has_key;

static void empty(struct table *t) {
    for (uint32_t i = 0; i < t->n_rows; i++) {
        free(t->rows[i].now.tasks);
        free(t->rows[i].before.tasks);
    }
    free(t->rows);
    *t = (struct table){0, 0, 0, 0};
}
static void forget(void *table) {
    own = 0;
    empty(table);
    free(table);
}
__attribute__((constructor)) static void make_key(void) {
    has_key = pthread_key_create(&at_exit, forget) == 0;
}

static uint32_t place_of(const struct table *t, uint64_t creator, uint64_t address) {
    uint64_t hash = (creator * 0x9e3779b97f4a7c15u ^ address) * 0xd6e8feb86659fd93u;
    uint32_t i = (uint32_t)(hash >> 32) & (t->n_rows - 1);
    while (t->rows[i].address && (t->rows[i].address != address || t->rows[i].creator != creator))
        i = (i + 1) & (t->n_rows - 1);
    return i;
}
static int grow(struct table *t) {
    struct table larger = {0, t->n, t->n_rows ? 2 * t->n_rows : TABLE_FIRST, t->n_tasks};
    larger.rows = calloc(larger.n_rows, sizeof *larger.rows);
    if (!larger.rows)
        return 0;
    for (uint32_t i = 0; i < t->n_rows; i++)
        if (t->rows[i].address)
            larger.rows[place_of(&larger, t->rows[i].creator, t->rows[i].address)] = t->rows[i];
    free(t->rows);
    *t = larger;
    return 1;
}
/* The row of an address, a new one if there was none. Null: no memory. */
static struct address *find(uint64_t creator, uint64_t address) {
    uint32_t i;
    if (!own) {
        if (!has_key || !(own = calloc(1, sizeof *own)))
            return 0;
        if (pthread_setspecific(at_exit, own)) {
            free(own);
            own = 0;
            return 0;
        }
    }
    if (own->n >= ADDRESSES_MAX || own->n_tasks >= TASKS_MAX)
        empty(own);
    if (2 * (own->n + 1) > own->n_rows && !grow(own))
        return 0;
    i = place_of(own, creator, address);
    if (!own->rows[i].address) {
        own->rows[i] = (struct address){.creator = creator, .address = address};
        own->n++;
    }
    return &own->rows[i];
}
static void add(struct set *set, uint64_t task) {
    if (set->n == set->room) {
        uint32_t room = set->room ? 2 * set->room : 4;
        uint64_t *tasks = realloc(set->tasks, room * sizeof *tasks);
        if (!tasks)
            return;
        set->tasks = tasks;
        set->room = room;
    }
    set->tasks[set->n++] = task;
}

void openmp_depends(uint64_t task, const void *address, enum openmp_depend how) {
    struct openmp_thread *self = &openmp_self;
    struct address *row;
    /* Of the tasks of an implicit task the creator is the thread. */
    if (!address || !(row = find(self->task ? self->task : (uint64_t)(uintptr_t)self, (uint64_t)(uintptr_t)address)))
        return;
    /* The same address twice in one task. */
    if (row->now.n && row->now.tasks[row->now.n - 1] == task)
        return;
    if (how == OPENMP_DEPEND_ALONE || how != row->how) {
        struct set before = row->before;
        row->before = row->now;
        row->now = before;
        own->n_tasks -= before.n;
        row->now.n = 0;
        row->how = how;
    }
    for (uint32_t i = 0; i < row->before.n; i++)
        openmp_emit2(0, KASURI_EV_TASK_DEPENDS, task, row->before.tasks[i], kasuri__stamp());
    add(&row->now, task);
    own->n_tasks++;
}

/* How libgomp's compiler passes the clauses: a count that is not 0, the count of those that write, addresses, these
 * first. Or 0, the count, and the counts of out, mutexinoutset and in, in this order; the rest are depend objects. */
void openmp_gomp_depends(uint64_t task, void **depend) {
    static const enum openmp_depend how_of[] = {OPENMP_DEPEND_ALONE, OPENMP_DEPEND_IN,    OPENMP_DEPEND_ALONE,
                                                OPENMP_DEPEND_ALONE, OPENMP_DEPEND_MUTEX, OPENMP_DEPEND_SET};
    uint64_t n = (uint64_t)(uintptr_t)depend[0], n_out = (uint64_t)(uintptr_t)depend[1], n_mutex = 0, n_in;
    void **addresses = depend + 2;
    if (n) {
        n_in = n - n_out;
    } else {
        n = n_out;
        n_out = (uint64_t)(uintptr_t)depend[2];
        n_mutex = (uint64_t)(uintptr_t)depend[3];
        n_in = (uint64_t)(uintptr_t)depend[4];
        addresses = depend + 5;
    }
    for (uint64_t i = 0; i < n; i++) {
        void *address = addresses[i];
        enum openmp_depend how = OPENMP_DEPEND_IN;
        if (i < n_out) {
            how = OPENMP_DEPEND_ALONE;
        } else if (i < n_out + n_mutex) {
            how = OPENMP_DEPEND_MUTEX;
        } else if (i >= n_out + n_mutex + n_in) {
            void **object = address;
            uint64_t kind = (uint64_t)(uintptr_t)object[1];
            address = object[0];
            how = kind < sizeof how_of / sizeof *how_of ? how_of[kind] : OPENMP_DEPEND_ALONE;
        }
        openmp_depends(task, address, how);
    }
}
