/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- the fast path --
 *
 * The code of every annotation, inlined into the program. Without a recorder: one relaxed load of the gate and one
 * branch. With one: reserve room in the thread's own chunk by one instruction, store word 1, the payload, and last the
 * stamp, which commits the event. No lock, no shared cache line, no call. Everything else is behind kasuri__slow.
 *
 * The order of the four steps is the protocol. A reader, and a kill at any instruction, may come between any two:
 *   before word 1     a slot of zeros; only this thread knows how long the record will be
 *   before the stamp  an open record; word 1 says how many slots a reader steps over
 *   after the stamp   an event
 */

/* One call site that annotates. `id` is the only field that changes: 0 not yet registered, > 0 its id,
 * < 0 its name could not be stored in this session. */
struct kasuri_site {
    int32_t id; /* relaxed: a thread that reads 0 takes the slow path and finds the id there */
    uint32_t line;
    const char *name, *file, *func;
};

/* Found by `kasuri record -p` in section .kasuri.gate of each mapped ELF file (one entry per object file;
 * write to all). gate: 0 off, 1 recording, 2 a recorder asks to be attached to (see kasuri__attach_request), 3 a library
 * of this process takes the events (struct kasuri_hook). calls: how many threads are where the client makes system calls;
 * with KASURI_CALLS_NONE, set by a library that saw the program confine itself (probes/lock/confine.c), none may be made. */
struct kasuri_gate {
    uint64_t magic; /* KASURI_MAGIC_GATE */
    uint32_t gate;
    uint32_t calls;
};
#define KASURI_CALLS_NONE (1u << 24)
#define KASURI_MAGIC_GATE 0x313045544147534bull /* "KSGATE01" */

/* Beside the gate, in the same section and of the same size. Written before the gate becomes 3, and never after, by a
 * library that the program was started with (probes/whatif): then each event is a call of `take` and nothing is
 * recorded. The fast path knows nothing of it: whatever is not 1 leaves it. */
struct kasuri_hook {
    uint64_t magic; /* KASURI_MAGIC_HOOK */
    union {
        void (*take)(const struct kasuri_site *site, uint32_t kind, const void *payload, uint64_t bytes);
        uint64_t room;
    } u;
};
#define KASURI_MAGIC_HOOK 0x31304b4f4f48534bull /* "KSHOOK01" */

/* A thread's ring, as much of it as the fast path needs. Private memory that fork wipes to zero.
 *   pos    owner and its signal handlers, by one instruction: the chunk, and how much of it is taken (cpu.h).
 *          One word, so that what is reserved and whether it fits come from the same read (ring.md, race 1).
 *   limit  owner, slow path: what is used of a chunk, in units of pos; 0 when each event has to take the slow path. */
struct kasuri__writer {
    kasuri__word pos;
    kasuri__word limit;
};

/* Weak, so that each object file of a module may define it and one is kept; hidden, so that modules do not share it. */
#define KASURI__HIDDEN __attribute__((weak, visibility("hidden")))
#define KASURI__LIKELY(x) __builtin_expect(!!(x), 1)
#define KASURI__UNLIKELY(x) __builtin_expect(!!(x), 0)
#ifndef KASURI_TLS_MODEL
#define KASURI_TLS_MODEL "initial-exec"
#endif
#ifndef KASURI__TEST_POINT
/* Tests compile this to stop, be killed or raise a signal between two steps. */
#define KASURI__TEST_POINT(n) ((void)0)
#endif

/* ThreadSanitizer cannot see that a chunk went from a dead thread through another process to this one. Tell it. */
#if defined(__SANITIZE_THREAD__)
#define KASURI__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KASURI__TSAN 1
#endif
#endif
#ifdef KASURI__TSAN
#ifdef __cplusplus
extern "C" {
#endif
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#ifdef __cplusplus
}
#endif
#define KASURI__TSAN_ACQUIRE(p) __tsan_acquire((void *)(p))
#define KASURI__TSAN_RELEASE(p) __tsan_release((void *)((uintptr_t)(p) & ~(uintptr_t)4095))
#else
#define KASURI__TSAN_ACQUIRE(p) ((void)(p))
#define KASURI__TSAN_RELEASE(p) ((void)(p))
#endif

#ifdef __cplusplus
extern "C" {
#endif
/* One of each per module: weak, so that the object files of a module share it; hidden, so that modules do not. */
extern struct kasuri_gate kasuri__gate __attribute__((visibility("hidden")));
extern struct kasuri_hook kasuri__hook __attribute__((visibility("hidden")));
extern __thread struct kasuri__writer *kasuri__writer
    __attribute__((visibility("hidden"), tls_model(KASURI_TLS_MODEL)));
void kasuri__slow(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos, uint64_t a, uint64_t b)
    __attribute__((visibility("hidden"), cold, noinline));
void kasuri__slow_at(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos, uint64_t stamp, uint64_t a,
                     uint64_t b) __attribute__((visibility("hidden"), cold, noinline));
void kasuri__slow_bytes(struct kasuri_site *site, int32_t id, uint32_t kind, const void *data, uint64_t bytes)
    __attribute__((visibility("hidden"), cold, noinline));
void kasuri__message(struct kasuri_site *site, int32_t id, const char *format, ...)
    __attribute__((visibility("hidden"), format(printf, 3, 4), cold, noinline));
void kasuri__trigger(void) __attribute__((visibility("hidden"), cold, noinline));
uint32_t kasuri__intern(const char *name) __attribute__((visibility("hidden"), cold, noinline));
void kasuri__start(void) __attribute__((visibility("hidden"), cold, noinline));
void kasuri__stop(void) __attribute__((visibility("hidden"), cold, noinline));
#ifdef __cplusplus
}
#endif

/* ORDER relaxed: 0 or not 0 is all that the fast path needs to know. What a session has set up is published to the slow
 * path, by its own acquire loads; a thread that has a writer has been there. */
KASURI__INLINE uint32_t kasuri__gate_load(void) {
    return __atomic_load_n(&kasuri__gate.gate, __ATOMIC_RELAXED);
}

/* Before system calls that are not the program's own. Count and flag are one word, so that a thread which sets the flag and
 * then finds a count of 0 knows that no other thread makes one. ORDER acquire; pairs with the release of that thread when
 * it takes the flag back: what it did comes before our calls. Return: whether they may be made; then kasuri__called() has
 * to follow. */
KASURI__INLINE int kasuri__may_call(void) {
    if (KASURI__LIKELY(!(__atomic_fetch_add(&kasuri__gate.calls, 1, __ATOMIC_ACQUIRE) & KASURI_CALLS_NONE)))
        return 1;
    __atomic_fetch_sub(&kasuri__gate.calls, 1, __ATOMIC_RELAXED);
    return 0;
}
/* ORDER release; pairs with the acquire load of the count by the thread that has set the flag: our calls are over. */
KASURI__INLINE void kasuri__called(void) {
    __atomic_fetch_sub(&kasuri__gate.calls, 1, __ATOMIC_RELEASE);
}
/* ORDER relaxed: the flag alone; a thread that makes calls asks kasuri__may_call(). */
KASURI__INLINE int kasuri__is_confined(void) {
    return (__atomic_load_n(&kasuri__gate.calls, __ATOMIC_RELAXED) & KASURI_CALLS_NONE) != 0;
}

/**
 * kasuri_enabled - is a recorder listening to this module?
 * Return: nonzero: annotations are kept. Cost: one load. Signal: safe.
 */
KASURI__INLINE int kasuri_enabled(void) {
    return KASURI__UNLIKELY(kasuri__gate_load() == 1);
}

/* Take `bytes` of the thread's chunk. This must be one step for the signal handlers of the same thread, and need not
 * be one for other threads: an xadd without lock prefix is just that (0 ns beside rdtsc; a locked one costs 5 to 9
 * ns).
 *
 * One other thread does write the position: the one that leaves a session takes it away. An addition that is halfway
 * there may undo that, so the taker looks again after a barrier of all threads (kasuri__take_positions). ORDER
 * relaxed: nothing is published by a reservation; the stamp publishes the event. */
KASURI__INLINE kasuri__word kasuri__reserve(struct kasuri__writer *w, uint32_t bytes) {
    kasuri__word units = bytes / KASURI__OFF_UNIT;
#if defined(__x86_64__) && !defined(KASURI_GENERIC_ATOMICS)
    __asm__ volatile("xaddq %0, %1" : "+r"(units), "+m"(w->pos) : : "cc");
    return units;
#elif defined(__i386__) && !defined(KASURI_GENERIC_ATOMICS)
    __asm__ volatile("xaddl %0, %1" : "+r"(units), "+m"(w->pos) : : "cc");
    return units;
#else
    return __atomic_fetch_add(&w->pos, units, __ATOMIC_RELAXED);
#endif
}

/* Whether `bytes` from `pos` on lie in a chunk. ORDER relaxed: the limit is this thread's own, and the thread that
 * leaves a session and zeroes it does not rely on our seeing that: a reserved slot is filled in any case. The limit
 * alone does not say so: where the thread had no chunk (the first event, a child of fork, a session that another
 * thread has just left) a signal handler may get one, and set the limit, between the reservation and this look
 * (ring.md, race 1). */
KASURI__INLINE int kasuri__fits(const struct kasuri__writer *w, kasuri__word pos, uint32_t bytes) {
    return (pos & KASURI__OFF_MASK) + bytes / KASURI__OFF_UNIT <= __atomic_load_n(&w->limit, __ATOMIC_RELAXED) &&
           pos >> KASURI__OFF_BITS;
}

KASURI__INLINE uint64_t *kasuri__slot(kasuri__word pos) {
    return (uint64_t *)(void *)(kasuri__chunk_of(pos) + (pos & KASURI__OFF_MASK) * KASURI__OFF_UNIT);
}

/* Word 1 first, then the payload, the stamp last.
 * ORDER release; pairs with the acquire load of the stamp by a reader of an open chunk. Publishes word 1 and the
 * payload. Without it: a reader takes an unwritten payload (models/ring, control `no_release_at_stamp`). */
KASURI__INLINE void kasuri__commit(uint64_t *slot, uint64_t stamp) {
    kasuri__publish(slot, stamp);
    KASURI__TSAN_RELEASE(slot);
}
/* ORDER relaxed: the stamp publishes it to readers of the event, and the payload's release to readers that ask how
 * long an open record is. */
KASURI__INLINE void kasuri__word1(uint64_t *slot, uint32_t kind, int32_t id) {
    kasuri__put(slot + 1, kind | (uint64_t)(uint32_t)id << 32);
    /* ORDER none in hardware; pairs with whatever reads the chunk after a kill at any instruction: what was stored
     * before the kill is seen, so the compiler must keep the length before the payload. */
    __asm__ volatile("" : : : "memory");
}
/* ORDER release; pairs with the acquire fence of a reader that looks at word 1 again after it has seen a payload word.
 * Publishes word 1, which has the record's length. Without it: the reader of an open chunk takes payload for an event
 * (models/ring, control `no_release_at_payload`). */
KASURI__INLINE void kasuri__payload(uint64_t *slot, uint64_t a, uint64_t b) {
#if UINTPTR_MAX > 0xffffffffu
    __atomic_store_n(slot + 2, a, __ATOMIC_RELEASE);
    KASURI__TEST_POINT(3);
    __atomic_store_n(slot + 3, b, __ATOMIC_RELEASE);
#else /* one fence in place of four releases */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    kasuri__put(slot + 2, a);
    KASURI__TEST_POINT(3);
    kasuri__put(slot + 3, b);
#endif
}

/* An event without payload: one slot. The arguments that are constants at the call are folded by the compiler.
 * kind below is kind | slots << 8 | aux << 16. `id` is what was read from `site`; or `site` is null and `id` a name
 * from kasuri_intern, or 0. */
KASURI__INLINE void kasuri__emit1(uint32_t gate, struct kasuri_site *site, int32_t id, uint32_t kind) {
    struct kasuri__writer *w = kasuri__writer;
    kasuri__word pos = 0;
    kind |= 1u << 8;
    if (KASURI__LIKELY(gate == 1 && id >= !!site && w)) {
        pos = kasuri__reserve(w, 16);
        KASURI__TEST_POINT(1);
        if (KASURI__LIKELY(kasuri__fits(w, pos, 16))) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__word1(slot, kind, id);
            KASURI__TEST_POINT(2);
            kasuri__commit(slot, kasuri__stamp());
            return;
        }
    }
    kasuri__slow(site, id, kind, pos, 0, 0);
}

/* An event with two words of payload: two slots. */
KASURI__INLINE void kasuri__emit2(uint32_t gate, struct kasuri_site *site, int32_t id, uint32_t kind, uint64_t a,
                                  uint64_t b) {
    struct kasuri__writer *w = kasuri__writer;
    kasuri__word pos = 0;
    kind |= 2u << 8;
    if (KASURI__LIKELY(gate == 1 && id >= !!site && w)) {
        pos = kasuri__reserve(w, 32);
        KASURI__TEST_POINT(1);
        if (KASURI__LIKELY(kasuri__fits(w, pos, 32))) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__word1(slot, kind, id);
            kasuri__payload(slot, a, b);
            KASURI__TEST_POINT(2);
            kasuri__commit(slot, kasuri__stamp());
            return;
        }
    }
    kasuri__slow(site, id, kind, pos, a, b);
}

/* The same steps with a stamp that the caller took before, for what is known to have happened only afterwards (locks, loops).
 * Return: whether the event is written; else kasuri__slow_at goes on from *pos. */
KASURI__INLINE int kasuri__write1_at(struct kasuri__writer *w, kasuri__word *pos, uint32_t kind, int32_t id,
                                     uint64_t stamp) {
    *pos = kasuri__reserve(w, 16);
    if (KASURI__LIKELY(kasuri__fits(w, *pos, 16))) {
        uint64_t *slot = kasuri__slot(*pos);
        kasuri__word1(slot, kind, id);
        kasuri__commit(slot, stamp);
        return 1;
    }
    return 0;
}
/* As kasuri__emit1 and kasuri__emit2, while the gate is 1. */
KASURI__INLINE void kasuri__emit1_at(struct kasuri_site *site, int32_t id, uint32_t kind, uint64_t stamp) {
    struct kasuri__writer *w = kasuri__writer;
    kasuri__word pos = 0;
    kind |= 1u << 8;
    if (KASURI__LIKELY(w && id >= !!site) && kasuri__write1_at(w, &pos, kind, id, stamp))
        return;
    kasuri__slow_at(site, id, kind, pos, stamp, 0, 0);
}
KASURI__INLINE void kasuri__emit2_at(struct kasuri_site *site, int32_t id, uint32_t kind, uint64_t a, uint64_t b,
                                     uint64_t stamp) {
    struct kasuri__writer *w = kasuri__writer;
    kasuri__word pos = 0;
    kind |= 2u << 8;
    if (KASURI__LIKELY(w && id >= !!site)) {
        pos = kasuri__reserve(w, 32);
        if (KASURI__LIKELY(kasuri__fits(w, pos, 32))) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__word1(slot, kind, id);
            kasuri__payload(slot, a, b);
            kasuri__commit(slot, stamp);
            return;
        }
    }
    kasuri__slow_at(site, id, kind, pos, stamp, a, b);
}

/* The bits of a double, by memcpy: a union would be undefined in C++. */
KASURI__INLINE uint64_t kasuri__bits(double v) {
    uint64_t u;
    __builtin_memcpy(&u, &v, 8);
    return u;
}
/* Texts are copied out of line. */
KASURI__INLINE void kasuri__emit_str(struct kasuri_site *site, int32_t id, uint32_t kind, const char *s) {
    kasuri__slow_bytes(site, id, kind, s ? s : "(null)", s ? __builtin_strlen(s) : 6);
}
