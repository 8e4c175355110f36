/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The OpenMP probe: libkasuri-openmp.so, preloaded by `kasuri record --openmp`. Design: docs/design/openmp.md.
 *
 * Files: parallel.c, loop.c, sync.c, task.c and lock.c stand in front of libgomp's entry points (gomp.h has their
 * names); real.c finds these; ompt.c is a tool of OMPT, for libomp; thread.c has what both use: attaching, identities,
 * waits of workers between regions. ring.c is the annotation client; ../common/site.c turns addresses into names.
 *
 * Rules:
 *   - each function calls the real one once, with what the program passed, and returns its result;
 *   - the program's functions (bodies of regions and tasks) run on the threads, and with the data, that the runtime
 *     gives them;
 *   - stamps are taken next to the call, events are written outside of critical sections where that is possible.
 */
#ifndef KASURI_OPENMP_H
#define KASURI_OPENMP_H

#include "site.h"

#include "emit.h"

#include "gomp.h"
#include "kmp.h"

#define OPENMP_HIDDEN __attribute__((visibility("hidden")))
#define OPENMP_COLD __attribute__((cold, noinline, visibility("hidden")))
#define OPENMP_TLS __attribute__((visibility("hidden"), tls_model("initial-exec")))
#define OPENMP_TLS_HERE __attribute__((tls_model("initial-exec"))) /* of one file */
#define OPENMP_CALLER() ((uintptr_t)__builtin_return_address(0))

/* The real functions. Null until openmp_resolve() has found a library that has them, and where the program does not know them: then
 * they are the caller's (openmp_of(), real.c). */
struct openmp_real {
#define OPENMP_FIELD(result, name, parameters) result(*name) parameters;
    GOMP_NAMES(OPENMP_FIELD)
    OMP_LOCK_NAMES(OPENMP_FIELD)
    OMP_ASK_NAMES(OPENMP_FIELD)
    KMP_NAMES(OPENMP_FIELD)
#undef OPENMP_FIELD
};
extern struct openmp_real openmp_real OPENMP_HIDDEN;
/* real.c. Looks for what is missing; may be called again, as a library may be loaded later. */
OPENMP_COLD void openmp_resolve(void);
OPENMP_HIDDEN const struct openmp_real *openmp_of(uintptr_t caller);
/* In the functions that the program calls alone: it asks who called. */
#define REAL(real) (KASURI__LIKELY(openmp_real.real != 0) ? openmp_real.real : openmp_of(OPENMP_CALLER())->real)

/* What a place is. The number is part of a site's key, the text begins its name. */
enum openmp_what {
    OPENMP_PARALLEL,
    OPENMP_TEAMS,
    OPENMP_TARGET,
    OPENMP_FOR_STATIC,
    OPENMP_FOR_DYNAMIC,
    OPENMP_FOR_GUIDED,
    OPENMP_FOR_RUNTIME,
    OPENMP_FOR_RUNTIME_STATIC,
    OPENMP_FOR_RUNTIME_DYNAMIC,
    OPENMP_FOR_RUNTIME_GUIDED,
    OPENMP_FOR_RUNTIME_AUTO,
    OPENMP_FOR_AUTO,
    OPENMP_FOR_ORDERED_STATIC,
    OPENMP_FOR_ORDERED_DYNAMIC,
    OPENMP_FOR_ORDERED_GUIDED,
    OPENMP_FOR_ORDERED_RUNTIME,
    OPENMP_FOR_ORDERED_AUTO,
    OPENMP_FOR_DOACROSS,
    OPENMP_FOR, /* of a schedule that the runtime does not tell */
    OPENMP_DISTRIBUTE,
    OPENMP_CHUNK,
    OPENMP_SECTIONS,
    OPENMP_SECTION,
    OPENMP_SINGLE,
    OPENMP_SCOPE,
    OPENMP_WORKSHARE,
    OPENMP_CANCEL,
    OPENMP_CRITICAL,
    OPENMP_ATOMIC,
    OPENMP_LOCK,
    OPENMP_BARRIER,
    OPENMP_BARRIER_FOR,
    OPENMP_BARRIER_SECTIONS,
    OPENMP_BARRIER_SINGLE,
    OPENMP_BARRIER_PARALLEL,
    OPENMP_BARRIER_IMPLICIT,
    OPENMP_REDUCTION,
    OPENMP_ORDERED,
    OPENMP_DOACROSS,
    OPENMP_TASK,
    OPENMP_TASKLOOP,
    OPENMP_TASKWAIT,
    OPENMP_TASKGROUP,
    OPENMP_TASKYIELD,
    OPENMP_N_WHAT
};

/* The worksharing construct that a thread is in. One is enough: they nest only by way of a region, which keeps the
 * outer one on its stack. */
struct openmp_share {
    struct kasuri_site *chunk;
    uint8_t is_open;  /* its slice is open */
    uint8_t in_chunk; /* and that of a chunk */
    uint8_t what;
    uint32_t n_loops; /* nested loops of a doacross loop: how many numbers a wait passes */
};

/* What a thread is in. Only its own thread writes it, and no other reads it. A forked child goes on with its parent's:
 * identities are per process. */
struct openmp_thread {
    uint64_t team;   /* that it works in: its master's number; 0: none */
    uint64_t task;   /* the explicit task that runs; 0: none */
    uintptr_t body;  /* the program's function of the region or task that runs; 0: none */
    uintptr_t asked; /* who called the function of ours that calls the runtime's; 0: none */
    uint64_t next;   /* the last identity that it gave: its number in the process << 40, and a count */
    uint64_t left;   /* a worker's last region, whose end it waits for; 0: none */
    uint64_t left_at, left_team;
    struct openmp_share share;
};
extern __thread struct openmp_thread openmp_self OPENMP_TLS;

/* 0 not asked, 1 a thread asks, 2 done. */
extern uint32_t openmp_started OPENMP_HIDDEN;
/* Whether the functions that the program calls are libgomp's: those of libomp are recorded by its OMPT tool. Written
 * by openmp_resolve(), the same by all threads. */
extern int openmp_is_gomp OPENMP_HIDDEN, openmp_has_gomp_locks OPENMP_HIDDEN;

struct dl_phdr_info;
/* A part of a library's code. */
struct openmp_code {
    uintptr_t from, bytes;
};

/* thread.c */
/* For dl_iterate_phdr: `code` (struct openmp_code) has an address in `from`, and gets the part that it lies in. */
OPENMP_HIDDEN int openmp_find_code(struct dl_phdr_info *module, size_t size, void *code);
OPENMP_COLD int openmp_wake(void);
OPENMP_COLD uint64_t openmp_number_thread(struct openmp_thread *self);
OPENMP_COLD void openmp_define_lock(uint64_t lock, uint32_t type, uintptr_t caller, struct kasuri_site *name);
OPENMP_HIDDEN int openmp_is_new_lock(uint64_t lock);
/* An address of the caller's; where it lies in this library, that of the program that made the call. */
OPENMP_HIDDEN struct kasuri_site *openmp_call_site(uintptr_t address);
OPENMP_HIDDEN struct kasuri_site *openmp_place(uintptr_t address, enum openmp_what what);
OPENMP_HIDDEN uint64_t openmp_region_begins(void);
OPENMP_HIDDEN void openmp_region_ends(uint64_t region, uint64_t stamp);
OPENMP_HIDDEN void openmp_leave_dock(struct openmp_thread *self, uint64_t now);
/* loop.c */
OPENMP_HIDDEN void openmp_open_share(struct openmp_thread *self, enum openmp_what what, enum openmp_what chunk,
                                     uintptr_t caller);
OPENMP_HIDDEN enum openmp_what openmp_at_run_time(void (*get_schedule)(int *, int *));
OPENMP_HIDDEN void openmp_close_share(struct openmp_thread *self);
OPENMP_HIDDEN void openmp_begin_chunk(struct openmp_thread *self, uint64_t n, uint64_t first);
OPENMP_HIDDEN void openmp_end_chunk(struct openmp_thread *self);

/* depend.c. How a task names an address: to read, to write alone (out, inout), as one of a set in any order, one at a time or
 * not. openmp_depends() writes the dependences of `task`, which is being created by the calling thread's task; of an address
 * that it names twice the way that comes first counts, so those that write alone come first. */
enum openmp_depend { OPENMP_DEPEND_IN, OPENMP_DEPEND_ALONE, OPENMP_DEPEND_MUTEX, OPENMP_DEPEND_SET };
OPENMP_HIDDEN void openmp_depends(uint64_t task, const void *address, enum openmp_depend how);
OPENMP_HIDDEN void openmp_gomp_depends(uint64_t task, void **depend);

/* Whether to record. The first call of a process attaches to the recorder. */
static inline __attribute__((always_inline)) int openmp_on(void) {
    uint32_t gate = kasuri__gate_load();
    if (KASURI__LIKELY(gate == 1))
        return 1;
    /* ORDER relaxed: openmp_wake() looks again. */
    return (gate || __atomic_load_n(&openmp_started, __ATOMIC_RELAXED) != 2) && openmp_wake();
}
static inline __attribute__((always_inline)) int openmp_gomp_on(void) {
    return openmp_on() && openmp_is_gomp;
}
static inline __attribute__((always_inline)) int openmp_locks_on(void) {
    return openmp_on() && openmp_has_gomp_locks;
}

/* The thread's number in the process, from 1. */
static inline uint64_t openmp_number(struct openmp_thread *self) {
    return (KASURI__LIKELY(self->next != 0) ? self->next : openmp_number_thread(self)) >> 40;
}
/* An identity that no other task or region of the process has. */
static inline __attribute__((always_inline)) uint64_t openmp_new_id(struct openmp_thread *self) {
    return KASURI__LIKELY(self->next != 0) ? ++self->next : openmp_number_thread(self);
}

/* ORDER relaxed: a thread that reads 0 takes the slow path, which registers the site (annotate/src/emit.h). */
static inline __attribute__((always_inline)) int32_t openmp_id(const struct kasuri_site *site) {
    return site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0;
}
static inline __attribute__((always_inline)) void openmp_emit1(struct kasuri_site *site, uint32_t kind,
                                                               uint64_t stamp) {
    kasuri__emit1_at(site, openmp_id(site), kind, stamp);
}
static inline __attribute__((always_inline)) void openmp_emit2(struct kasuri_site *site, uint32_t kind, uint64_t a,
                                                               uint64_t b, uint64_t stamp) {
    kasuri__emit2_at(site, openmp_id(site), kind, a, b, stamp);
}
static inline __attribute__((always_inline)) void openmp_begin(struct kasuri_site *site) {
    openmp_emit1(site, KASURI_EV_BEGIN, kasuri__stamp());
}
static inline __attribute__((always_inline)) void openmp_end(void) {
    openmp_emit1(0, KASURI_EV_END, kasuri__stamp());
}
static inline __attribute__((always_inline)) void openmp_wait(struct kasuri_site *site, uint32_t kind,
                                                              uint64_t object) {
    openmp_emit2(site, KASURI_EV_WAIT_BEGIN | kind << 16, object, 0, kasuri__stamp());
}
static inline __attribute__((always_inline)) void openmp_waited(uint32_t kind, uint64_t object) {
    openmp_emit2(0, KASURI_EV_WAIT_END | kind << 16, object, 0, kasuri__stamp());
}

/* What the threads of a team wait at: its barriers, and the ends of its regions. The same in each region of one master, as
 * its threads are: the k-th wait of each of them belongs together (crates/analyze/src/imbalance.rs). */
static inline uint64_t openmp_barrier_of(uint64_t team) {
    return team << 1;
}
static inline uint64_t openmp_end_of(uint64_t team) {
    return team << 1 | 1;
}

#endif
