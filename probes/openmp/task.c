/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks of libgomp.
 *
 * A task's body is a function with a block of data, which libgomp copies when the task is deferred. Both are replaced: the
 * body by run_task(), the block by a head, which has the body and the task's identity, with the program's data behind it:
 *
 *   | head, rounded up to the data's alignment | the program's data |
 *
 * libgomp writes into the beginning of the block in two cases. Of a detachable task, the event that completes it: the
 * head's first word takes it, and run_task() moves it. Of a taskloop's task, its first and last iteration: so has the head
 * of a taskloop two words for them, and the program's third word, which libgomp reads for reductions.
 *
 * Events: TASK_CREATE before the call, with TASK_DEPENDS (depend.c), TASK_START and TASK_END around the body. libgomp's tasks stay on the thread that
 * began them. Those of a taskloop are made inside of libgomp: each is created where it starts; the call that makes them is a
 * slice. A wait for tasks is WAIT_BEGIN and WAIT_END of kind JOIN; tasks that the thread runs meanwhile lie inside.
 */
#include "openmp.h"

#include <stdlib.h>
#include <string.h>

#define FLAG_DEPEND (1u << 3)  /* GOMP_TASK_FLAG_DEPEND */
#define FLAG_DETACH (1u << 13) /* GOMP_TASK_FLAG_DETACH */
/* Blocks up to this size are built on the stack; the compiler has built the original there, too. They take what they need and
 * no more: tasks that run at once, each in the one that creates it, may be thousands deep. */
#define ON_STACK 4096

struct head {
    void *event; /* of a detachable task: written by libgomp */
    gomp_fn *body;
    gomp_copy *copy; /* the program's copy constructor, or null */
    void *data;      /* what it copies from */
    uint64_t id, offset;
    uint64_t is_detachable;
};
struct loop_head {
    uint64_t first, last; /* written by libgomp */
    void *reductions;     /* read by libgomp */
    gomp_fn *body;
    gomp_copy *copy;
    void *data;
    uint64_t parent, offset;
    struct kasuri_site *site;
};

static uint64_t round_up(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) / alignment * alignment;
}

/* The identity is taken from the head once: the gate may open between creation and start. A task runs on top of whatever
 * its thread waits in, so the thread's place is kept. */
static void run(uint64_t id, gomp_fn *body, void *data, struct kasuri_site *created, uint64_t parent) {
    struct openmp_thread *self = &openmp_self;
    uint64_t outer = self->task;
    uintptr_t outer_body = self->body;
    struct openmp_share share = self->share;
    if (created)
        openmp_emit2(created, KASURI_EV_TASK_CREATE, id, parent, kasuri__stamp());
    openmp_emit2(0, KASURI_EV_TASK_START, id, 0, kasuri__stamp());
    self->task = id;
    self->body = (uintptr_t)body;
    self->share = (struct openmp_share){0, 0, 0, 0, 0};
    body(data);
    self->share = share;
    self->task = outer;
    self->body = outer_body;
    openmp_emit2(0, KASURI_EV_TASK_END, id, 0, kasuri__stamp());
}

static void run_task(void *block) {
    struct head *h = block;
    void *data = (char *)block + h->offset;
    if (h->is_detachable)
        memcpy(data, &h->event, sizeof h->event);
    run(h->id, h->body, data, 0, 0);
}
static void copy_task(void *to, void *from) {
    const struct head *h = from;
    memcpy(to, h, sizeof *h);
    h->copy((char *)to + h->offset, h->data);
}
static void run_loop_task(void *block) {
    const struct loop_head *h = block;
    void *data = (char *)block + h->offset;
    memcpy(data, &h->first, 2 * sizeof h->first);
    run(openmp_new_id(&openmp_self), h->body, data, h->site, h->parent);
}
static void copy_loop_task(void *to, void *from) {
    const struct loop_head *h = from;
    memcpy(to, h, sizeof *h);
    h->copy((char *)to + h->offset, h->data);
}

/* Room for a head and the program's data: on the stack of the function that asks; a block that is large, or aligned to much, is
 * allocated, as libgomp will do with its copy. Null: no memory. */
#define FITS_STACK(bytes, alignment) ((bytes) <= ON_STACK && (alignment) <= 64)
#define BLOCK_OF(bytes, alignment, allocated)                                                                          \
    (FITS_STACK(bytes, alignment) ? __builtin_alloca_with_align(bytes, 64 * 8)                                         \
                                  : (*(allocated) = allocate(bytes, alignment)))
static void *allocate(uint64_t bytes, uint64_t alignment) {
    void *block = 0;
    return posix_memalign(&block, alignment < 64 ? 64 : alignment, bytes) ? 0 : block;
}

void GOMP_task(gomp_fn *body, void *data, gomp_copy *copy, long size, long alignment, bool if_clause, unsigned flags,
               void **depend, int priority, void *detach) {
    struct openmp_thread *self = &openmp_self;
    uint64_t to = alignment < 16 ? 16 : (uint64_t)alignment, offset = round_up(sizeof(struct head), to);
    void *allocated = 0;
    struct head *h;
    if (!openmp_gomp_on() || !(h = BLOCK_OF(offset + (uint64_t)size, to, &allocated))) {
        REAL(GOMP_task)(body, data, copy, size, alignment, if_clause, flags, depend, priority, detach);
        return;
    }
    *h = (struct head){0, body, copy, data, openmp_new_id(self), offset, !!(flags & FLAG_DETACH)};
    if (!copy && size > 0)
        memcpy((char *)h + offset, data, (uint64_t)size);
    openmp_emit2(openmp_place((uintptr_t)body + 1, OPENMP_TASK), KASURI_EV_TASK_CREATE, h->id, self->task,
                 kasuri__stamp());
    if (depend && flags & FLAG_DEPEND)
        openmp_gomp_depends(h->id, depend);
    REAL(GOMP_task)
    (run_task, h, copy ? copy_task : 0, (long)offset + size, (long)to, if_clause, flags, depend, priority, detach);
    free(allocated);
}

#define TASKLOOP(name, type)                                                                                           \
    void name(gomp_fn *body, void *data, gomp_copy *copy, long size, long alignment, unsigned flags, unsigned long n,  \
              int priority, type from, type to, type step) {                                                           \
        uint64_t by = alignment < 16 ? 16 : (uint64_t)alignment, offset = round_up(sizeof(struct loop_head), by);      \
        void *allocated = 0;                                                                                           \
        struct loop_head *h;                                                                                           \
        if (!openmp_gomp_on() || !(h = BLOCK_OF(offset + (uint64_t)size, by, &allocated))) {                           \
            REAL(name)(body, data, copy, size, alignment, flags, n, priority, from, to, step);                         \
            return;                                                                                                    \
        }                                                                                                              \
        *h = (struct loop_head){0,                                                                                     \
                                0,                                                                                     \
                                size >= 24 ? ((void **)data)[2] : 0,                                                   \
                                body,                                                                                  \
                                copy,                                                                                  \
                                data,                                                                                  \
                                openmp_self.task,                                                                      \
                                offset,                                                                                \
                                openmp_place((uintptr_t)body + 1, OPENMP_TASKLOOP)};                                   \
        if (!copy && size > 0)                                                                                         \
            memcpy((char *)h + offset, data, (uint64_t)size);                                                          \
        openmp_begin(h->site);                                                                                         \
        REAL(name)                                                                                                     \
        (run_loop_task, h, copy ? copy_loop_task : 0, (long)offset + size, (long)by, flags, n, priority, from, to,     \
         step);                                                                                                        \
        openmp_end();                                                                                                  \
        free(allocated);                                                                                               \
    }

/* Waits for tasks, and what else a thread may run tasks in. */
#define WAIT(what, call)                                                                                               \
    do {                                                                                                               \
        uint64_t object_ = openmp_self.task ? openmp_self.task : openmp_barrier_of(openmp_self.team);                  \
        openmp_wait(openmp_place(OPENMP_CALLER(), what), KASURI_WAIT_JOIN, object_);                                   \
        call;                                                                                                          \
        openmp_waited(KASURI_WAIT_JOIN, object_);                                                                      \
    } while (0)
TASKLOOP(GOMP_taskloop, long)
TASKLOOP(GOMP_taskloop_ull, gomp_ull)

void GOMP_taskwait(void) {
    if (openmp_gomp_on())
        WAIT(OPENMP_TASKWAIT, REAL(GOMP_taskwait)());
    else
        REAL(GOMP_taskwait)();
}
void GOMP_taskwait_depend(void **depend) {
    if (openmp_gomp_on())
        WAIT(OPENMP_TASKWAIT, REAL(GOMP_taskwait_depend)(depend));
    else
        REAL(GOMP_taskwait_depend)(depend);
}
void GOMP_taskgroup_start(void) {
    REAL(GOMP_taskgroup_start)();
}
void GOMP_taskgroup_end(void) {
    if (openmp_gomp_on())
        WAIT(OPENMP_TASKGROUP, REAL(GOMP_taskgroup_end)());
    else
        REAL(GOMP_taskgroup_end)();
}
void GOMP_taskyield(void) {
    REAL(GOMP_taskyield)();
}
