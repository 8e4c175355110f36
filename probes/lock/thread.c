/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Per-thread memory of locks, the choice of holds in light mode, and the rare cases of every lock function.
 *
 * Parts: attaching (probe_wake), the entries of threads, definitions of locks, light mode, free locks that the inlined
 * code of probe.h does not handle, and contention. Events of one lock in light mode, for a thread that takes it 100
 * times without a wait: the holds 1, 3, 7, 15, 31 and 63 are recorded, each with a LOCK_COUNT of the 1, 2, 4, 8, 16 and
 * 32 holds for which it stands; from then on one in 32 to 95 at random.
 */
#include "probe.h"
#include "real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Beyond N_THREADS threads that are alive at once, a thread has no entry: in full mode its holds are still recorded, in
 * light mode they are missing. */
#define N_THREADS 4096u
#define N_SEEN 65536u /* power of two; more locks are defined more than once, which readers expect */
#define SEEN_STEPS 32u

__thread struct probe_thread *probe_self = 0;
__thread struct probe_thread *probe_counting = 0;
int probe_is_light = 0;

/* One per process, in pages that fork wipes. Who writes each field, and what keeps two threads apart:
 *   n_threads  any new thread, by fetch-add: entries below it have been handed out at least once
 *   reclaim    any new thread, by fetch-add: where the next look for an entry of a dead thread begins
 *   seen       any thread, slot by slot, by compare-and-swap; an entry is replaced only where the table is full
 *   threads    an entry belongs to the thread whose TID is in it, by compare-and-swap in claim()
 * Nothing is freed and nothing is locked: every operation ends after a bounded number of its thread's own steps. */
struct process {
    uint32_t n_threads, reclaim;
    uint64_t seen[N_SEEN]; /* addresses of locks that were defined; relaxed: a lost race defines twice */
    struct probe_thread threads[N_THREADS];
};
/* Written once by the thread that attaches, before `started` becomes 2; null where it could not attach. */
static struct process *process;
static uint32_t started; /* 0 no, 1 a thread is in probe_wake() for the first time, 2 done */

/* -- the way in -- */

/* Map the memory of all threads: zeros, touched as needed, and zeros again in a forked child. Null: no memory, or a
 * kernel before Linux 4.14. */
static struct process *map_process(void) {
    void *p =
        mmap(0, sizeof(struct process), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return 0;
    /* A child that inherited the entries would count on with its parent's, and its TID would be in none of them. */
    if (madvise(p, sizeof(struct process), MADV_WIPEONFORK) != 0) {
        munmap(p, sizeof(struct process));
        return 0;
    }
    return p;
}

/* Attach to the recorder at the first call. That is the first lock, wait or thread of the process, so a process that
 * uses none of them pays nothing: a compiler run by make takes 0.1 ms less. A thread that calls while another attaches
 * does not wait: its event is too early. KASURI_LOCKS is "full" or "light"; without it, or in a set-user-id program,
 * nothing is recorded. Return: whether to record. */
int probe_wake(void) {
    uint32_t none = 0;
    if (!RESOLVED(thrd_join) && !probe_resolve())
        return 0;
    /* ORDER acquire, both; pair with the release below. Publishes probe_is_light, `process` and what the checks of
     * the C library's locks have found. The load alone decides for later calls, so that they write to no cache line
     * that all threads read. */
    if (__atomic_load_n(&started, __ATOMIC_ACQUIRE) == 0 && !kasuri__is_confined() &&
        __atomic_compare_exchange_n(&started, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        const char *mode = getenv("KASURI_LOCKS");
        int saved = errno;
        if (mode && !getauxval(AT_SECURE)) {
            /* All that the short ways read is set before kasuri__start() can open the gate. */
            probe_is_light = !strcmp(mode, "light");
            process = map_process();
            if (process) {
                probe_check_mutex();
                probe_check_rwlock();
                kasuri__start();
            }
        }
        errno = saved;
        /* ORDER release; pairs with the acquires above. */
        __atomic_store_n(&started, 2, __ATOMIC_RELEASE);
    }
    /* A thread that comes here while another attaches finds no process yet, or a gate that is still closed. */
    return process && kasuri__gate_load() != 0;
}

/* While one thread attaches, events of the others would be lost: so attach before there is a second thread. */
PROBE_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                void *argument) {
    (void)probe_on();
    return REAL(pthread_create)(thread, attributes, start, argument);
}
PROBE_EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *argument) {
    (void)probe_on();
    return REAL(thrd_create)(thread, start, argument);
}

/* Early, so that few calls come before it; those resolve the functions themselves (REAL). */
__attribute__((constructor(102))) static void constructor(void) {
    (void)probe_resolve();
}

/* -- threads -- */

/* Whether the thread has ended. The probe gets no notice of that, so a new thread looks for entries of dead ones. */
static int is_dead(uint32_t tid) {
    /* Signal 0 only asks. A TID that another process uses by now is not one of ours: tgkill names the process too. */
    return syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH;
}

/* Take the memory of a thread `old` that has ended, or one that is free (0). Return: null when another thread was
 * first. */
static struct probe_thread *claim(struct probe_thread *t, uint32_t old, uint32_t tid) {
    /* ORDER acq_rel; pairs with itself in other threads. Acquires what the owner before wrote, so that the memset comes
     * after it; publishes that the entry is taken. */
    if (!__atomic_compare_exchange_n(&t->tid, &old, tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return 0;
    /* The exchange gave the entry to this thread alone. The fields before `tid` are what the old owner left; those
     * behind it are set below. */
    if (old)
        memset(t, 0, offsetof(struct probe_thread, tid));
    t->evictions = 0;
    /* Never 0, the one state that xorshift does not leave. */
    t->random = tid * 2654435761u | 1;
    return t;
}

/* Memory for a new thread: that of a dead one if one of the next few is dead, else the next that was never used. ORDER
 * relaxed: n_threads and reclaim are only counters; claim() decides. */
static struct probe_thread *new_thread(uint32_t tid) {
    /* A stale `n` errs to the safe side: an entry that it does not count is only not looked at. */
    uint32_t n = __atomic_load_n(&process->n_threads, __ATOMIC_RELAXED);
    struct probe_thread *t = 0;
    /* Four looks bound what a new thread pays; the first 16 threads pay nothing. Where the TID of a dead thread belongs
     * to a new one by now, its entry counts as alive: an entry is wasted, and none is taken from its owner. */
    for (uint32_t i = 0; i < 4 && n >= 16 && !t; i++) {
        struct probe_thread *old = &process->threads[__atomic_fetch_add(&process->reclaim, 1, __ATOMIC_RELAXED) %
                                                     (n < N_THREADS ? n : N_THREADS)];
        uint32_t was = __atomic_load_n(&old->tid, __ATOMIC_RELAXED);
        if (was && was != tid && is_dead(was))
            t = claim(old, was, tid);
    }
    if (t)
        return t;
    /* The load keeps the counter from running on, and from wrapping after 2^32 threads. Of two threads that add at
     * once at the end of the table, the second gets no entry. */
    if (n >= N_THREADS || (n = __atomic_fetch_add(&process->n_threads, 1, __ATOMIC_RELAXED)) >= N_THREADS)
        return 0;
    return claim(&process->threads[n], 0, tid);
}

/* Give the calling thread an entry; null: none left. Called when probe_self is null, or is the parent's pointer in a
 * forked child, where the entry behind it is wiped. */
struct probe_thread *probe_adopt(void) {
    int saved = errno;
    if (!process || !kasuri__may_call())
        return 0;
    /* By system call: the thread may be one that the C library did not make, and gettid() is in glibc since 2.30. */
    probe_self = new_thread((uint32_t)syscall(SYS_gettid));
    probe_counting = probe_is_light ? probe_self : 0;
    kasuri__called();
    errno = saved;
    return probe_self;
}

/* xorshift32: the intervals of light mode must vary, not be unpredictable. */
static uint32_t next_random(struct probe_thread *t) {
    uint32_t x = t->random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return t->random = x;
}

/* -- locks -- */

/* Whether the process uses this lock for the first time; remembers it. An open hash table of addresses; where 32 steps
 * find no place, one entry is overwritten, and its lock will be defined once more, which readers expect. ORDER
 * relaxed: an entry is an address and publishes nothing else. */
static int is_new(uint64_t object) {
    /* Fibonacci hashing: the product's upper bits depend on all bits of the address; its lower ones are alignment. */
    uint64_t hash = object * 0x9e3779b97f4a7c15u >> 40;
    uint32_t i;
    /* A slot changes from 0 to an address once. Two threads that meet the same lock at once both try the first free
     * slot: the one whose exchange fails finds the address there, or goes on. */
    for (i = 0; i < SEEN_STEPS; i++) {
        uint64_t *slot = &process->seen[(hash + i) % N_SEEN], found = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (found == object)
            return 0;
        if (!found && __atomic_compare_exchange_n(slot, &found, object, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
        if (found == object)
            return 0;
    }
    /* The lock whose address this overwrites will be defined once more by the next thread that meets it. */
    __atomic_store_n(&process->seen[hash % N_SEEN], object, __ATOMIC_RELAXED);
    return 1;
}

/* Begin a new life of the lock: write LOCK_DEFINE with the caller as its site, and a second one with the lock's symbol
 * where the address lies in a module's data. */
void probe_define(const void *lock, uint32_t type, uintptr_t caller) {
    struct kasuri_site *site = probe_call_site(caller), *symbol;
    if (!process)
        return;
    /* Marked as seen without asking: `*_init` begins a new life of an address that may well be known. */
    is_new((uintptr_t)lock);
    /* ORDER relaxed for the site's id: a thread that reads 0 takes the slow path and registers the site (emit.h). */
    kasuri__emit2(kasuri__gate_load(), site, site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0,
                  KASURI_EV_LOCK_DEFINE | type << 16, (uintptr_t)lock, 0);
    symbol = probe_symbol((uintptr_t)lock);
    if (symbol)
        kasuri__emit2(kasuri__gate_load(), symbol, __atomic_load_n(&symbol->id, __ATOMIC_RELAXED),
                      KASURI_EV_LOCK_DEFINE | KASURI_LOCK_SYMBOL << 16, (uintptr_t)lock, 0);
}

/* The first interval of a lock in light mode is 1: its first hold is recorded, so that every lock is seen. */
static uint32_t first_interval(struct probe_thread *t) {
    /* A thread that uses more locks than it remembers would otherwise record every hold. */
    return t->evictions > 4 * PROBE_ENTRIES ? 1 + next_random(t) % PROBE_INTERVAL : 1;
}

/* Put the lock into the thread's table, in place of another one with the same hash. If light mode has counted holds of
 * that one since its last event, LOCK_COUNT is written for them now. */
void probe_meet(struct probe_thread *t, struct probe_entry *e, const void *lock, probe_type_of *type_of,
                uintptr_t caller, uint64_t stamp) {
    (void)stamp;
    if (e->object) {
        /* The table is direct-mapped: the lock that was here is forgotten, and comes back as a new one. */
        t->evictions++;
        if (probe_is_light && e->interval != e->until)
            probe_emit_long(KASURI_EV_LOCK_COUNT, 0, (const void *)(uintptr_t)e->object, e->interval - e->until,
                            kasuri__stamp());
    }
    /* A signal handler that locks may come between these stores and leave the entry with the address of one lock and
     * the counters of another. Then a count is wrong by some holds until the next one that is recorded. */
    e->interval = e->until = first_interval(t);
    e->object = (uintptr_t)lock;
    if (is_new((uintptr_t)lock))
        probe_define(lock, type_of(lock), caller);
}

/* -- light mode -- */

/* Remember that the end of this hold is to be recorded. From now on no lock of the thread takes the counting way,
 * until its last recorded hold has ended. Return: 0 when 64 are remembered already. */
int probe_record_hold(struct probe_thread *t, const void *lock, uint32_t shared) {
    /* The hold is then counted and not recorded. Its acquisition must not be written either, or it would never end. */
    if (t->n_recorded >= PROBE_RECORDED)
        return 0;
    t->recorded[t->n_recorded].object = (uintptr_t)lock;
    t->recorded[t->n_recorded].nested = 0;
    t->recorded[t->n_recorded].mode = shared;
    t->n_recorded++;
    /* The unlock that ends this hold must be noticed, so all locks of the thread take the way that looks. */
    probe_counting = 0;
    return 1;
}

/* Record this hold; it stands for those counted since the last recorded one. Intervals double up to PROBE_INTERVAL on
 * average, and vary, so that they do not keep step with the program's own period. */
void probe_sample(struct probe_thread *t, struct probe_entry *e, uint64_t stamp, uint32_t shared) {
    const void *lock = (const void *)(uintptr_t)e->object;
    uint32_t counted = e->interval;
    if (e->interval < PROBE_INTERVAL / 2)
        e->interval = e->interval * 2;
    else
        e->interval = PROBE_INTERVAL / 2 + next_random(t) % PROBE_INTERVAL;
    e->until = e->interval;
    /* The count has the stamp of the hold that stands for it. It is written also where that hold cannot be. */
    probe_emit_long(KASURI_EV_LOCK_COUNT, 0, lock, counted, stamp);
    if (probe_record_hold(t, lock, shared))
        probe_emit_taken(lock, shared, stamp);
}

/* Count one acquisition; return whether it is the one to record. A counter of 0 is due as well (probe_count_ahead): to
 * count on from there would wrap, and no hold of the lock would be recorded for 2^32 acquisitions. */
static int is_due(struct probe_entry *e) {
    if (e->until <= 1)
        return 1;
    e->until--;
    return 0;
}

/* An acquisition while some hold is being recorded: perhaps the same lock once more. */
void probe_nested(struct probe_thread *t, struct probe_entry *e, const void *lock, uint32_t shared) {
    for (uint32_t i = 0; i < t->n_recorded; i++)
        if (t->recorded[i].object == (uintptr_t)lock) {
            t->recorded[i].nested++;
            return;
        }
    if (is_due(e))
        probe_sample(t, e, kasuri__stamp(), shared);
}

/* Whether the unlock that follows ends a recorded hold, which is then forgotten: not if it only ends a recursive
 * acquisition inside it. At most 64 comparisons. */
int probe_ends_recorded(struct probe_thread *t, const void *lock) {
    for (uint32_t i = 0; i < t->n_recorded; i++) {
        if (t->recorded[i].object != (uintptr_t)lock)
            continue;
        if (t->recorded[i].nested) {
            t->recorded[i].nested--;
            return 0;
        }
        /* The order of the open holds does not matter: the last one fills the hole. */
        t->recorded[i] = t->recorded[--t->n_recorded];
        if (!t->n_recorded)
            probe_counting = t;
        return 1;
    }
    return 0;
}

/* -- free locks, the rare cases -- */

/* A lock was free and is held now; everything that the inlined ways leave out: a thread's first lock, a lock that is
 * new to the thread, light mode's counters. `stamp` is 0 in light mode, which reads the clock only for what it
 * records. */
static void taken(const void *lock, uint32_t shared, probe_type_of *type_of, uintptr_t caller, uint64_t stamp) {
    struct probe_thread *t = probe_self;
    struct probe_entry *e;
    if (!t || !t->tid)
        t = probe_adopt();
    if (t) {
        e = probe_entry_of(t, lock);
        if (e->object != (uintptr_t)lock)
            probe_meet(t, e, lock, type_of, caller, stamp);
        /* A lock that has just been met has `until` 1: its hold is due at once. */
        if (probe_is_light) {
            if (t->n_recorded)
                probe_nested(t, e, lock, shared);
            else if (is_due(e))
                probe_sample(t, e, kasuri__stamp(), shared);
        }
    }
    if (!probe_is_light)
        probe_emit_taken(lock, shared, stamp);
}

int probe_taken_slowly(const void *lock, probe_type_of *type_of, uintptr_t caller, uint64_t stamp) {
    taken(lock, 0, type_of, caller, stamp);
    return 0;
}

void probe_taken_shared(const void *lock, probe_type_of *type_of, uintptr_t caller, uint64_t stamp) {
    taken(lock, KASURI_LOCK_SHARED, type_of, caller, stamp);
}

/* The inlined way had reserved `pos` and found that it does not fit: the client's slow path goes on with that, since
 * the first reservation that fails says where the chunk's events end. The stamp was taken before; it is kept. */
int probe_taken_reserved(const void *lock, uint64_t stamp, uint64_t pos) {
    uint64_t word = KASURI_EV_LOCK_TAKEN | 1u << 8 | (uint64_t)(uintptr_t)lock << 16;
    kasuri__slow_at(0, (int32_t)(word >> 32), (uint32_t)word, pos, stamp, 0, 0);
    return 0;
}

/* -- contention -- */

/* The lock was not free: the thread is going to wait. `holder` is the tid that the lock's own memory names, a hint. */
void probe_request(const void *lock, uint32_t mode, probe_type_of *type_of, uint32_t holder, uintptr_t caller) {
    uint64_t stamp = kasuri__stamp();
    struct kasuri_site *site = probe_call_site(caller);
    struct probe_thread *t = probe_self;
    struct probe_entry *e;
    uint32_t word = KASURI_EV_LOCK_REQUEST | 2u << 8 | mode << 16;
    if (!t || !t->tid)
        t = probe_adopt();
    if (t) {
        e = probe_entry_of(t, lock);
        if (e->object != (uintptr_t)lock)
            probe_meet(t, e, lock, type_of, caller, stamp);
    }
    /* By the slow path, which takes a site: the thread is going to wait, and a call more does not matter. ORDER relaxed
     * for the site's id, as in probe_define(). */
    kasuri__slow_at(site, site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0, word, 0, stamp, (uintptr_t)lock,
                    holder);
}

/* The request is over: the thread `got` the lock, or gave up. In light mode, where too many holds are remembered
 * already, the request ends without a hold. */
void probe_acquired(const void *lock, uint32_t mode, int got) {
    uint64_t stamp = probe_is_blind() ? 0 : kasuri__stamp();
    struct probe_thread *t = probe_self;
    if (!stamp)
        return;
    /* LOCK_ACQUIRED begins a hold that only LOCK_RELEASED can end. LOCK_GIVEN_UP ends the request alone; the wait is
     * kept. */
    if (got && probe_is_light && (!t || !probe_record_hold(t, lock, mode)))
        got = 0;
    probe_emit_long(got ? KASURI_EV_LOCK_ACQUIRED : KASURI_EV_LOCK_GIVEN_UP, mode, lock, 0, stamp);
}
