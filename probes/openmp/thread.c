/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What libgomp's side and libomp's side share: attaching, identities, names of places, and where a worker's wait for the
 * end of a region ends.
 *
 * A worker leaves its last region without a call that could be seen: it waits for the others, and then in the dock for
 * the next region. The master of the region knows when the wait was over, as it goes on then: it leaves that stamp in
 * `ends`, and the worker writes the end of its wait with it when it comes to its next region. A worker that comes to none
 * writes nothing; the model ends its wait where the master's ended (crates/model/src/annotate/barriers.rs).
 */
#include "openmp.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <time.h>

__thread struct openmp_thread openmp_self;
uint32_t openmp_started = 0;

static __thread int is_waking OPENMP_TLS_HERE;

/* How long a thread waits for the one that attaches: that may have lost its CPU to other programs. Some 2 s at most. */
#define ATTACH_YIELDS 1000
#define ATTACH_SLEEPS 10000
static void sleep_a_little(void) {
    int saved = errno;
    nanosleep(&(struct timespec){0, 200000}, 0);
    errno = saved;
}

/* Attach to the recorder at the first call that comes from the program. Threads that come meanwhile wait for it, so that
 * no region, chunk or task of theirs is missing: attaching takes no lock of the program, and a signal handler of the
 * attaching thread does not wait. Return: whether to record. */
int openmp_wake(void) {
    uint32_t none = 0;
    if (is_waking)
        return 0;
    /* ORDER acquire, both; pair with the release below. Publishes what openmp_resolve() has found. */
    if (__atomic_load_n(&openmp_started, __ATOMIC_ACQUIRE) == 0 &&
        __atomic_compare_exchange_n(&openmp_started, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        int saved = errno;
        is_waking = 1;
        openmp_resolve();
        if (getenv("KASURI_OPENMP") && !getauxval(AT_SECURE))
            kasuri__start();
        is_waking = 0;
        errno = saved;
        /* ORDER release; pairs with the acquires. */
        __atomic_store_n(&openmp_started, 2, __ATOMIC_RELEASE);
    }
    /* ORDER acquire; as above. */
    for (int i = 0; __atomic_load_n(&openmp_started, __ATOMIC_ACQUIRE) == 1 && i < ATTACH_YIELDS + ATTACH_SLEEPS; i++)
        if (i < ATTACH_YIELDS)
            sched_yield();
        else
            sleep_a_little();
    return kasuri__gate_load() != 0;
}

/* A child has one thread: if another of its parent's was attaching, the child begins anew. */
static void in_child(void) {
    /* ORDER relaxed, both: as it is the only one. */
    if (__atomic_load_n(&openmp_started, __ATOMIC_RELAXED) == 1)
        __atomic_store_n(&openmp_started, 0, __ATOMIC_RELAXED);
}

int openmp_find_code(struct dl_phdr_info *module, size_t size, void *code) {
    struct openmp_code *c = code;
    (void)size;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[i];
        uintptr_t from = module->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD || c->from - from >= part->p_memsz)
            continue;
        *c = (struct openmp_code){from, part->p_memsz};
        return 1;
    }
    return 0;
}

/* This library's. A call that is the last of a body is a jump, and returns here: whoever asks then is the body. */
static struct openmp_code own;

/* Before the program's own threads: nobody holds the loader's lock for long. */
__attribute__((constructor)) static void at_start(void) {
    (void)pthread_atfork(0, 0, in_child);
    own.from = (uintptr_t)at_start;
    dl_iterate_phdr(openmp_find_code, &own);
}

uint64_t openmp_number_thread(struct openmp_thread *self) {
    static uint64_t n_threads;
    /* ORDER relaxed: only a number that no other thread has. */
    self->next = (__atomic_add_fetch(&n_threads, 1, __ATOMIC_RELAXED) << 40) + 1;
    return self->next;
}

static uintptr_t asker(uintptr_t address) {
    const struct openmp_thread *self = &openmp_self;
    if (KASURI__LIKELY(address - own.from >= own.bytes))
        return address;
    return self->asked ? self->asked : self->body ? self->body + 1 : address;
}

struct kasuri_site *openmp_call_site(uintptr_t address) {
    return probe_call_site(asker(address));
}

struct kasuri_site *openmp_place(uintptr_t address, enum openmp_what what) {
    static const char *const words[OPENMP_N_WHAT] = {
        [OPENMP_PARALLEL] = "parallel",
        [OPENMP_TEAMS] = "teams",
        [OPENMP_TARGET] = "target",
        [OPENMP_FOR_STATIC] = "for static",
        [OPENMP_FOR_DYNAMIC] = "for dynamic",
        [OPENMP_FOR_GUIDED] = "for guided",
        [OPENMP_FOR_RUNTIME] = "for runtime",
        [OPENMP_FOR_RUNTIME_STATIC] = "for runtime static",
        [OPENMP_FOR_RUNTIME_DYNAMIC] = "for runtime dynamic",
        [OPENMP_FOR_RUNTIME_GUIDED] = "for runtime guided",
        [OPENMP_FOR_RUNTIME_AUTO] = "for runtime auto",
        [OPENMP_FOR_AUTO] = "for auto",
        [OPENMP_FOR_ORDERED_STATIC] = "for ordered static",
        [OPENMP_FOR_ORDERED_DYNAMIC] = "for ordered dynamic",
        [OPENMP_FOR_ORDERED_GUIDED] = "for ordered guided",
        [OPENMP_FOR_ORDERED_RUNTIME] = "for ordered runtime",
        [OPENMP_FOR_ORDERED_AUTO] = "for ordered auto",
        [OPENMP_FOR_DOACROSS] = "for doacross",
        [OPENMP_FOR] = "for",
        [OPENMP_DISTRIBUTE] = "distribute",
        [OPENMP_CHUNK] = "chunk",
        [OPENMP_SECTIONS] = "sections",
        [OPENMP_SECTION] = "section",
        [OPENMP_SINGLE] = "single",
        [OPENMP_SCOPE] = "scope",
        [OPENMP_WORKSHARE] = "workshare",
        [OPENMP_CANCEL] = "cancel",
        [OPENMP_CRITICAL] = "critical",
        [OPENMP_ATOMIC] = "atomic",
        [OPENMP_LOCK] = "lock",
        [OPENMP_BARRIER] = "barrier",
        [OPENMP_BARRIER_FOR] = "barrier of for",
        [OPENMP_BARRIER_SECTIONS] = "barrier of sections",
        [OPENMP_BARRIER_SINGLE] = "barrier of single",
        [OPENMP_BARRIER_PARALLEL] = "barrier of parallel",
        [OPENMP_BARRIER_IMPLICIT] = "implicit barrier",
        [OPENMP_REDUCTION] = "reduction",
        [OPENMP_ORDERED] = "ordered",
        [OPENMP_DOACROSS] = "depend sink",
        [OPENMP_TASK] = "task",
        [OPENMP_TASKLOOP] = "taskloop",
        [OPENMP_TASKWAIT] = "taskwait",
        [OPENMP_TASKGROUP] = "taskgroup",
        [OPENMP_TASKYIELD] = "taskyield",
    };
    return probe_place(asker(address), what, words[what]);
}

/* -- locks that were defined -- */

#define N_SEEN 16384u /* power of two; more locks are defined more than once, which readers expect */
#define SEEN_STEPS 16u
static uint64_t seen[N_SEEN];

/* Whether this is the first event of the lock. ORDER relaxed: a lost race defines twice. */
int openmp_is_new_lock(uint64_t lock) {
    uint64_t hash = lock * 0x9e3779b97f4a7c15u >> 40;
    for (uint32_t i = 0; i < SEEN_STEPS; i++) {
        uint64_t *slot = &seen[(hash + i) % N_SEEN], found = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (found == lock)
            return 0;
        if (!found && __atomic_compare_exchange_n(slot, &found, lock, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
        if (found == lock)
            return 0;
    }
    __atomic_store_n(&seen[hash % N_SEEN], lock, __ATOMIC_RELAXED);
    return 1;
}

/* A life of the lock begins: its type, the place that first used it, and its name: `name`, or the symbol of its address
 * if there is one. */
void openmp_define_lock(uint64_t lock, uint32_t type, uintptr_t caller, struct kasuri_site *name) {
    uint64_t stamp = kasuri__stamp();
    (void)openmp_is_new_lock(lock);
    openmp_emit2(openmp_call_site(caller), KASURI_EV_LOCK_DEFINE | type << 16, lock, 0, stamp);
    if (!name)
        name = probe_symbol(lock);
    if (name)
        openmp_emit2(name, KASURI_EV_LOCK_DEFINE | KASURI_LOCK_SYMBOL << 16, lock, 0, stamp);
}

/* -- regions -- */

/* When regions ended, by their identity modulo N_ENDS. The master writes `region` as 0, the stamp, the identity; a worker
 * reads identity, stamp, identity. An entry that was used again has another identity: the worker's wait then ends where
 * it began, which errs by that wait alone, and only after N_ENDS other regions. */
#define N_ENDS 4096u
static struct { uint64_t region, stamp; } ends[N_ENDS];
static uint64_t n_regions;

/* ORDER relaxed: a number that no other region of the process has. Below 2^62, as openmp_end_of() doubles it. */
uint64_t openmp_region_begins(void) {
    return __atomic_add_fetch(&n_regions, 1, __ATOMIC_RELAXED);
}

/* ORDER release; pairs with the acquire loads of the worker. Publishes the stamp with its identity. */
void openmp_region_ends(uint64_t region, uint64_t stamp) {
    __atomic_store_n(&ends[region % N_ENDS].region, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&ends[region % N_ENDS].stamp, stamp, __ATOMIC_RELEASE);
    __atomic_store_n(&ends[region % N_ENDS].region, region, __ATOMIC_RELEASE);
}

/* A worker comes to its next region: its wait for the end of the last one ended when that region did, and between the two
 * it was in the dock. */
void openmp_leave_dock(struct openmp_thread *self, uint64_t now) {
    static struct kasuri_site idle = {0, 0, "omp: idle", "", ""};
    uint64_t region = self->left, team = self->left_team, stamp = self->left_at, found;
    self->left = 0;
    /* ORDER acquire, all; pair with the releases above. */
    if (__atomic_load_n(&ends[region % N_ENDS].region, __ATOMIC_ACQUIRE) == region) {
        found = __atomic_load_n(&ends[region % N_ENDS].stamp, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&ends[region % N_ENDS].region, __ATOMIC_ACQUIRE) == region && found > stamp && found <= now)
            stamp = found;
    }
    openmp_emit2(0, KASURI_EV_WAIT_END | KASURI_WAIT_BARRIER << 16, openmp_end_of(team), 0, stamp);
    openmp_emit1(&idle, KASURI_EV_BEGIN, stamp);
    openmp_emit1(0, KASURI_EV_END, now);
}
