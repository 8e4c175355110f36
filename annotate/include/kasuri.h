/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kasuri.h - annotate a program, see it on Kasuri's timeline.
 *
 * This one header is the whole client: include it, compile, run the program under `kasuri record`.
 * No library to link, nothing to initialise. Without a recorder an annotation is one load and one
 * predictable branch.
 */
#ifndef KASURI_H
#define KASURI_H

#include <stdint.h>

/* ------------------------------------------------------------------------------------------------
 * Part 1: the ABI shared with the recorder. Spec: docs/format.md, chapter "Rings"; the protocol and
 * its proof: docs/design/ring.md. Additive only; reserved fields are 0; every offset is asserted
 * here and in crates/format/src/ring.rs.
 *
 * A session is a directory (usually in /dev/shm) that `kasuri record` makes and names in the
 * environment variable KASURI_SESSION. It holds
 *   control              struct kasuri_control, one page; the recorder holds an OFD write lock on it while it lives
 *   p<pid>-<gen>.sites   struct kasuri_sites_header, then site definitions, appended by the program with one write(2) each
 *   p<pid>-<gen>.ring<k> segment k of that client: struct kasuri_segment, chunk states, chunks
 * <gen> counts the clients of one pid (after exec, and one for each module that includes this header).
 * ---------------------------------------------------------------------------------------------- */

#define KASURI_ABI_VERSION 1u
#define KASURI_MAGIC_CONTROL 0x314c52544349534bull /* "KSICTRL1" */
#define KASURI_MAGIC_SITES 0x315345544953534bull   /* "KSSITES1" */
#define KASURI_MAGIC_SEGMENT 0x31474553474e524bull /* "KRNGSEG1" */

/* What stamps count. NATIVE: the CPU's counter, read by one instruction (x86 rdtsc, aarch64
 * cntvct_el0, riscv64 rdtime). MONOTONIC: clock_gettime(CLOCK_MONOTONIC), ns. */
enum kasuri_clock { KASURI_CLOCK_NATIVE = 1, KASURI_CLOCK_MONOTONIC = 2 };

/* What a thread does that has filled its chunk while no chunk is free.
 * GROW: maps another segment, up to max_bytes for the process, then discards. DISCARD: drops the new
 * event (lost.full). OVERWRITE: each thread owns up to `flight_chunks` chunks and reuses its oldest. */
enum kasuri_policy { KASURI_POLICY_GROW = 1, KASURI_POLICY_DISCARD = 2, KASURI_POLICY_OVERWRITE = 3 };

/* FROZEN: a snapshot is being copied; OVERWRITE clients must not reuse a chunk and drop instead. */
enum kasuri_session_state { KASURI_SESSION_RECORDING = 1, KASURI_SESSION_FROZEN = 2, KASURI_SESSION_STOPPED = 3 };

/* Written by the recorder before the session is announced; `state` may change later (recorder only),
 * `trigger` is incremented by programs (kasuri_trigger). */
struct kasuri_control {
    uint64_t magic;         /*   0 */
    uint32_t version;       /*   8 */
    uint32_t struct_size;   /*  12 */
    uint32_t state;         /*  16  enum kasuri_session_state, atomic */
    uint32_t policy;        /*  20  enum kasuri_policy */
    uint32_t clock;         /*  24  enum kasuri_clock */
    uint32_t chunk_bytes;   /*  28  power of two, 4096..1 MiB; default 32768 */
    uint64_t max_bytes;     /*  32  ring memory one process may take */
    uint32_t first_chunks;  /*  40  chunks in a client's first segment; later segments double, up to 64 MiB */
    uint32_t flight_chunks; /*  44  OVERWRITE: chunks per thread */
    uint32_t trigger;       /*  48  atomic: programs add 1, the recorder saves a snapshot for each change */
    uint32_t recorder_pid;  /*  52  for messages only; liveness is the OFD lock */
    uint32_t freed;         /*  56  atomic: the recorder adds 1 when it has freed chunks */
    uint32_t reserved[17];  /*  60 */
};                          /* 128 */

/* First bytes of p<pid>-<gen>.sites. A forked child whose sites were registered by its parent names
 * the parent's file; ids below `parent_next_id` are defined there. */
struct kasuri_sites_header {
    uint64_t magic;          /*  0 */
    uint32_t version;        /*  8 */
    uint32_t struct_size;    /* 12 */
    uint32_t pid;            /* 16 */
    uint32_t gen;            /* 20 */
    uint32_t parent_pid;     /* 24  0: none */
    uint32_t parent_gen;     /* 28 */
    uint32_t parent_next_id; /* 32 */
    uint32_t reserved[7];    /* 36 */
};                           /* 64 */

/* One definition: this, then name, file, function, each NUL-terminated UTF-8; padded to 8 bytes. */
struct kasuri_site_def {
    uint32_t bytes;    /*  0  whole record with padding */
    uint32_t id;       /*  4  1..; ids are per client; 0 is "no site" */
    uint32_t line;     /*  8  0: unknown (interned at run time) */
    uint16_t name_len; /* 12  without the NUL */
    uint16_t file_len; /* 14 */
    uint16_t func_len; /* 16 */
    uint16_t reserved; /* 18 */
    uint32_t reserved2; /* 20 */
};                     /* 24 */

/* Why an event was not kept. FULL: no chunk free. OVERWRITTEN: its chunk was reused (flight
 * recorder). BIG: longer than KASURI_EVENT_MAX. SITE: its name could not be stored. FROZEN: dropped
 * while a snapshot was copied. */
enum kasuri_lost { KASURI_LOST_FULL, KASURI_LOST_OVERWRITTEN, KASURI_LOST_BIG, KASURI_LOST_SITE, KASURI_LOST_FROZEN, KASURI_LOST_CAUSES = 8 };

/* Start of a ring file. chunk_state[i] (atomic) describes the chunk at chunks_offset + i*chunk_bytes. */
struct kasuri_segment {
    uint64_t magic;         /*   0 */
    uint32_t version;       /*   8 */
    uint32_t struct_size;   /*  12 */
    uint32_t pid;           /*  16 */
    uint32_t gen;           /*  20 */
    uint32_t index;         /*  24  k of .ring<k> */
    uint32_t chunk_bytes;   /*  28 */
    uint32_t n_chunks;      /*  32 */
    uint32_t chunks_offset; /*  36  multiple of 4096 */
    uint32_t clock;         /*  40 */
    uint32_t reserved0;     /*  44 */
    uint64_t start_stamp;   /*  48  client's clock when it attached */
    /* Events lost by threads that never got a chunk; atomic, segment 0 only. */
    uint64_t lost[8];       /*  56  [KASURI_LOST_CAUSES] */
    uint64_t reserved[17];  /* 120 */
    /* Then uint32_t chunk_state[n_chunks] at 256: enum kasuri_chunk_state. */
};

/* FREE (all zero, anyone's) -> OWNED (compare-and-swap by a thread) -> FULL (release store by the
 * owner when it has got its next chunk; by the recorder when the owner is dead) -> FREE (recorder,
 * after copying and zeroing it; release). OVERWRITE skips FULL: the owner reuses its own. */
enum kasuri_chunk_state { KASURI_CHUNK_FREE = 0, KASURI_CHUNK_OWNED = 1, KASURI_CHUNK_FULL = 2 };

/* Start of each chunk; written by its owner. Events follow in 16-byte slots. */
struct kasuri_chunk {
    uint64_t seq;           /*   0  this stream's chunks 0, 1, 2...; read before and after a live copy: it changes when the chunk is reused */
    uint32_t stream;        /*   8  a thread's events in one client; 1.. */
    uint32_t tid;           /*  12 */
    uint32_t used;          /*  16  bytes with header, set with FULL; 0 while open: scan to chunk_bytes */
    uint32_t flags;         /*  20  reserved */
    uint64_t lost_first;    /*  24  stamp of the first and the last event lost after the events of */
    uint64_t lost_last;     /*  32  this chunk and before those of the next; 0: none */
    uint32_t lost[8];       /*  40  [KASURI_LOST_CAUSES] */
    uint32_t reserved[14];  /*  72 */
};                          /* 128 */

/*
 * An event: word 0 = stamp, stored last with release; word 1 = kind | slots << 8 | aux << 16 |
 * site << 32; then (slots-1)*16 bytes of payload. word 0 == 0: not committed. Then word 1 != 0 says how
 * many slots the open record has, word 1 == 0: nothing of it was written, it is one of zero slots.
 * Stamps of one chunk may be out of order by what a signal handler emitted: sort by stamp, stable.
 */
#define KASURI_SLOT_BYTES 16u
#define KASURI_EVENT_MAX 2032u /* payload bytes: 127 slots */

/*   kind            site          aux                payload */
enum kasuri_kind {
    KASURI_EV_BEGIN = 1,          /* name          -                  -                                */
    KASURI_EV_END = 2,            /* name or 0     -                  - (closes the innermost slice)   */
    KASURI_EV_INSTANT = 3,        /* name          -                  -                                */
    KASURI_EV_COUNTER = 4,        /* name          -                  f64 value, 0                     */
    KASURI_EV_WAIT_BEGIN = 5,     /* place or 0    kasuri_wait_kind   u64 object, 0                    */
    KASURI_EV_WAIT_END = 6,       /* place or 0    kasuri_wait_kind   u64 object, 0                    */
    KASURI_EV_LOCK_REQUEST = 7,   /* place or 0    kasuri_lock_mode   u64 object, 0                    */
    KASURI_EV_LOCK_ACQUIRED = 8,  /* "                                                                 */
    KASURI_EV_LOCK_RELEASED = 9,  /* "                                                                 */
    KASURI_EV_TASK_CREATE = 10,   /* name          -                  u64 task, u64 parent (0: none)   */
    KASURI_EV_TASK_START = 11,    /* name or 0     -                  u64 task, 0                      */
    KASURI_EV_TASK_SUSPEND = 12,  /* why or 0      -                  u64 task, u64 waits for (0: -)   */
    KASURI_EV_TASK_RESUME = 13,   /* "                                                                 */
    KASURI_EV_TASK_END = 14,      /* "                                                                 */
    KASURI_EV_FLOW_OUT = 15,      /* name or 0     -                  u64 flow, 0                      */
    KASURI_EV_FLOW_IN = 16,       /* name or 0     -                  u64 flow, 0                      */
    KASURI_EV_ARG = 17,           /* arg's name    kasuri_arg_type    8 bytes, 0; STR: bytes, see aux  */
    KASURI_EV_MESSAGE = 18,       /* place or 0    byte length        UTF-8, padded with 0             */
    KASURI_EV_THREAD_NAME = 19,   /* -             byte length        UTF-8, padded with 0             */
    KASURI_EV_TRIGGER = 20        /* name or 0     -                  -                                */
};
/* KASURI_EV_ARG belongs to the thread's innermost open slice (or its last instant, when newer).
 * aux = type | byte length << 4 (STR). */
enum kasuri_wait_kind { KASURI_WAIT_OTHER = 0, KASURI_WAIT_BARRIER = 1, KASURI_WAIT_JOIN = 2, KASURI_WAIT_COND = 3, KASURI_WAIT_IO = 4 };
enum kasuri_lock_mode { KASURI_LOCK_EXCLUSIVE = 0, KASURI_LOCK_SHARED = 1 };
enum kasuri_arg_type { KASURI_ARG_I64 = 1, KASURI_ARG_U64 = 2, KASURI_ARG_F64 = 3, KASURI_ARG_STR = 4 };

/* ------------------------------------------------------------------------------------------------
 * Part 2: the API. Guide with examples: docs/guide/annotate.md.
 *
 * All macros below: any thread, also in signal handlers (KASURI_MESSAGE as far as vsnprintf is), never
 * block, never allocate, keep errno. A name or key is a string literal and names one call site. Other
 * arguments are evaluated only while a recorder listens. Objects are pointers or integers, ids uint64_t.
 * Before the #include one may define
 *   KASURI_DISABLE        annotations compile to nothing
 *   KASURI_DECLARE_ONLY   leave the slow path out of this file; some other file of the same module has it
 *   KASURI_TLS_MODEL      thread-local storage model, default "initial-exec" (musl plugins: "global-dynamic")
 * ---------------------------------------------------------------------------------------------- */

#if !defined(KASURI_DISABLE) && (!defined(__linux__) || UINTPTR_MAX <= 0xffffffffu || !defined(__GNUC__))
#define KASURI_DISABLE 1 /* elsewhere an annotated program still compiles, and runs as if not annotated */
#endif

#ifndef KASURI_DISABLE

/* One call site that annotates. `id` is the only field that changes: 0 not yet registered, > 0 its id,
 * < 0 its name could not be stored in this session. */
struct kasuri_site {
    int32_t id; /* relaxed: a thread that reads 0 takes the slow path and finds the id there */
    uint32_t line;
    const char *name, *file, *func;
};

/* Found by `kasuri record -p` in section .kasuri.gate of each mapped ELF file (one entry per object file;
 * write to all). gate: 0 off, 1 recording, 2 a recorder asks to be attached to (see kasuri__attach_request). */
struct kasuri_gate {
    uint64_t magic; /* KASURI_MAGIC_GATE */
    uint32_t gate;
    uint32_t reserved;
};
#define KASURI_MAGIC_GATE 0x313045544147534bull /* "KSGATE01" */

/* A thread's ring, as much of it as the fast path needs. Private memory that fork wipes to zero.
 *   pos    owner and its signal handlers, by one instruction: chunk address << 12 | bytes taken in the chunk.
 *          One word, so that what is reserved and whether it fits come from the same read (ring.md, race 1).
 *   limit  owner, slow path: chunk_bytes, or 0 when each event has to take the slow path. */
struct kasuri__writer {
    uint64_t pos;
    uint64_t limit;
};

#define KASURI__HIDDEN __attribute__((weak, visibility("hidden")))
#define KASURI__INLINE static inline __attribute__((always_inline, unused))
#define KASURI__LIKELY(x) __builtin_expect(!!(x), 1)
#define KASURI__UNLIKELY(x) __builtin_expect(!!(x), 0)
#ifndef KASURI_TLS_MODEL
#define KASURI_TLS_MODEL "initial-exec"
#endif
#ifndef KASURI__TEST_POINT
#define KASURI__TEST_POINT(n) ((void)0) /* the kill tests die at point n */
#endif
#define KASURI__OFF_MASK 0xffffffu

#ifdef __cplusplus
extern "C" {
#endif
/* One of each per module: weak, so that the object files of a module share it; hidden, so that modules do not. */
extern struct kasuri_gate kasuri__gate __attribute__((visibility("hidden")));
extern __thread struct kasuri__writer *kasuri__writer __attribute__((visibility("hidden"), tls_model(KASURI_TLS_MODEL)));
void kasuri__slow(struct kasuri_site *site, int32_t id, uint32_t kind, uint64_t pos, uint64_t a, uint64_t b)
    __attribute__((visibility("hidden"), cold, noinline));
void kasuri__slow_bytes(struct kasuri_site *site, int32_t id, uint32_t kind, const void *data, uint64_t bytes)
    __attribute__((visibility("hidden"), cold, noinline));
void kasuri__message(struct kasuri_site *site, int32_t id, const char *format, ...)
    __attribute__((visibility("hidden"), format(printf, 3, 4), cold, noinline));
void kasuri__trigger(void) __attribute__((visibility("hidden"), cold, noinline));
uint32_t kasuri__intern(const char *name) __attribute__((visibility("hidden"), cold, noinline));
#ifdef __cplusplus
}
#endif

KASURI__INLINE uint32_t kasuri__gate_load(void) { return __atomic_load_n(&kasuri__gate.gate, __ATOMIC_RELAXED); }

/**
 * kasuri_enabled - is a recorder listening to this module?
 * Return: nonzero: annotations are kept. Cost: one load. Signal: safe.
 */
KASURI__INLINE int kasuri_enabled(void) { return KASURI__UNLIKELY(kasuri__gate_load() == 1); }

/* What stamps count. CPUs without a counter that user code may read take the slow path and its clock. */
#if defined(__x86_64__)
#define KASURI__NATIVE 1
KASURI__INLINE uint64_t kasuri__stamp(void) { return __builtin_ia32_rdtsc(); }
#elif defined(__aarch64__)
#define KASURI__NATIVE 1
KASURI__INLINE uint64_t kasuri__stamp(void) {
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
}
#elif defined(__riscv) && __riscv_xlen == 64
#define KASURI__NATIVE 1
KASURI__INLINE uint64_t kasuri__stamp(void) {
    uint64_t t;
    __asm__ volatile("rdtime %0" : "=r"(t));
    return t;
}
#else
#define KASURI__NATIVE 0
KASURI__INLINE uint64_t kasuri__stamp(void) { return 1; }
#endif

/* Take `bytes` of the thread's chunk. Must be one step for the signal handlers of the same thread, need not be
 * for other threads: an xadd without lock prefix is (0 ns beside rdtsc; a locked one costs 5-9 ns). */
KASURI__INLINE uint64_t kasuri__reserve(struct kasuri__writer *w, uint64_t bytes) {
#if defined(__x86_64__) && !defined(KASURI_GENERIC_ATOMICS)
    __asm__ volatile("xaddq %0, %1" : "+r"(bytes), "+m"(w->pos) : : "cc");
    return bytes;
#else
    return __atomic_fetch_add(&w->pos, bytes, __ATOMIC_RELAXED);
#endif
}

KASURI__INLINE uint64_t *kasuri__slot(uint64_t pos) {
    return (uint64_t *)(uintptr_t)((pos >> 24 << 12) + (pos & KASURI__OFF_MASK));
}

/* Word 1 first, then the payload, the stamp last.
 * ORDER release; pairs with the acquire load of the stamp by a reader of an open chunk. Publishes word 1 and the
 * payload. Without it: a reader takes an unwritten payload (models/ring, control `no_release_at_stamp`). */
KASURI__INLINE void kasuri__commit(uint64_t *slot, uint64_t stamp) { __atomic_store_n(slot, stamp, __ATOMIC_RELEASE); }
KASURI__INLINE void kasuri__word1(uint64_t *slot, uint32_t kind, int32_t id) {
    __atomic_store_n(slot + 1, kind | (uint64_t)(uint32_t)id << 32, __ATOMIC_RELAXED);
    __asm__ volatile("" : : : "memory"); /* a kill in the payload must leave the length behind */
}

/* kind below is kind | slots << 8 | aux << 16. `id` is what was read from `site`; or `site` is null and `id` a name
 * from kasuri_intern, or 0. */
KASURI__INLINE void kasuri__emit1(uint32_t gate, struct kasuri_site *site, int32_t id, uint32_t kind) {
    struct kasuri__writer *w = kasuri__writer;
    uint64_t pos = 0;
    kind |= 1u << 8;
    if (KASURI__LIKELY(gate == 1 && id >= !!site && w)) {
        pos = kasuri__reserve(w, 16);
        KASURI__TEST_POINT(1);
        if (KASURI__LIKELY((pos & KASURI__OFF_MASK) + 16 <= w->limit)) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__word1(slot, kind, id);
            KASURI__TEST_POINT(2);
            kasuri__commit(slot, kasuri__stamp());
            return;
        }
    }
    kasuri__slow(site, id, kind, pos, 0, 0);
}

KASURI__INLINE void kasuri__emit2(uint32_t gate, struct kasuri_site *site, int32_t id, uint32_t kind, uint64_t a,
                                  uint64_t b) {
    struct kasuri__writer *w = kasuri__writer;
    uint64_t pos = 0;
    kind |= 2u << 8;
    if (KASURI__LIKELY(gate == 1 && id >= !!site && w)) {
        pos = kasuri__reserve(w, 32);
        KASURI__TEST_POINT(1);
        if (KASURI__LIKELY((pos & KASURI__OFF_MASK) + 32 <= w->limit)) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__word1(slot, kind, id);
            slot[2] = a;
            KASURI__TEST_POINT(3);
            slot[3] = b;
            KASURI__TEST_POINT(2);
            kasuri__commit(slot, kasuri__stamp());
            return;
        }
    }
    kasuri__slow(site, id, kind, pos, a, b);
}

KASURI__INLINE uint64_t kasuri__bits(double v) {
    uint64_t u;
    __builtin_memcpy(&u, &v, 8);
    return u;
}
KASURI__INLINE void kasuri__emit_str(struct kasuri_site *site, int32_t id, uint32_t kind, const char *s) {
    kasuri__slow_bytes(site, id, kind, s ? s : "(null)", s ? __builtin_strlen(s) : 6);
}

/* The static struct of a call site. C++: a local static of an inline function or template would be one object for
 * the whole process (STB_GNU_UNIQUE), while ids are per module, and would keep a plugin from being unloaded; a
 * static member of a template over a type of this file's own is neither. */
#ifdef __cplusplus
namespace {
struct kasuri__file {};
} // namespace
template <class File, int N> struct kasuri__cell {
    static kasuri_site site;
};
template <class File, int N> kasuri_site kasuri__cell<File, N>::site = {0, 0, 0, 0, 0};
/* Threads may race here: all store the same. */
KASURI__INLINE void kasuri__describe(kasuri_site *s, const char *name, const char *file, const char *func,
                                     uint32_t line) {
    __atomic_store_n(&s->line, line, __ATOMIC_RELAXED);
    __atomic_store_n(&s->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&s->func, func, __ATOMIC_RELAXED);
    __atomic_store_n(&s->name, name, __ATOMIC_RELAXED);
}
#define KASURI__SITE(name) kasuri_site *const kasuri__s = &kasuri__cell<kasuri__file, __COUNTER__>::site
#define KASURI__SITE_ID(name)                                                                                         \
    const int32_t kasuri__id = __atomic_load_n(&kasuri__s->id, __ATOMIC_RELAXED);                                      \
    if (KASURI__UNLIKELY(kasuri__id <= 0))                                                                             \
    kasuri__describe(kasuri__s, "" name, __FILE__, __func__, __LINE__)
/* So that an object may be a pointer or a number without an old-style cast at each use. */
template <class T> KASURI__INLINE uint64_t kasuri__u64(T *p) { return reinterpret_cast<uintptr_t>(p); }
KASURI__INLINE uint64_t kasuri__u64(uint64_t v) { return v; }
#define KASURI__U64(v) kasuri__u64(v)
#else
#define KASURI__SITE(name)                                                                                             \
    static struct kasuri_site kasuri__site = {0, __LINE__, "" name, __FILE__, __func__};                               \
    struct kasuri_site *const kasuri__s = &kasuri__site
#define KASURI__SITE_ID(name) const int32_t kasuri__id = __atomic_load_n(&kasuri__s->id, __ATOMIC_RELAXED)
#define KASURI__U64(v) ((uint64_t)(v))
#endif

#define KASURI__AT(name, call)                                                                                         \
    do {                                                                                                               \
        const uint32_t kasuri__g = kasuri__gate_load();                                                                \
        if (KASURI__UNLIKELY(kasuri__g != 0)) {                                                                        \
            KASURI__SITE(name);                                                                                        \
            KASURI__SITE_ID(name);                                                                                     \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)
#define KASURI__EMIT1(name, kind) KASURI__AT(name, kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, (kind)))
#define KASURI__EMIT2(name, kind, a, b)                                                                                \
    KASURI__AT(name, kasuri__emit2(kasuri__g, kasuri__s, kasuri__id, (kind), (a), (b)))
#define KASURI__NAMELESS(call)                                                                                         \
    do {                                                                                                               \
        const uint32_t kasuri__g = kasuri__gate_load();                                                                \
        if (KASURI__UNLIKELY(kasuri__g != 0))                                                                          \
            call;                                                                                                      \
    } while (0)

/** KASURI_BEGIN, KASURI_END - a slice of the calling thread; slices nest. */
#define KASURI_BEGIN(name) KASURI__EMIT1(name, KASURI_EV_BEGIN)
#define KASURI_END() KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, 0, KASURI_EV_END))

/** KASURI_INSTANT - a point in time. */
#define KASURI_INSTANT(name) KASURI__EMIT1(name, KASURI_EV_INSTANT)

/** KASURI_COUNTER - the value (double) of a quantity from now on. */
#define KASURI_COUNTER(name, value) KASURI__EMIT2(name, KASURI_EV_COUNTER, kasuri__bits(value), 0)

/** KASURI_WAIT_BEGIN, KASURI_WAIT_END - the thread waits. kind: KASURI_WAIT_BARRIER, _JOIN, _COND, _IO, _OTHER;
 * object: what it waits for (address or number). */
#define KASURI_WAIT_BEGIN(kind, object)                                                                                \
    KASURI__EMIT2(#object, KASURI_EV_WAIT_BEGIN | (uint32_t)(kind) << 16, KASURI__U64(object), 0)
#define KASURI_WAIT_END(kind, object)                                                                                  \
    KASURI__EMIT2(#object, KASURI_EV_WAIT_END | (uint32_t)(kind) << 16, KASURI__U64(object), 0)

/** KASURI_LOCK_REQUEST before taking a lock, _ACQUIRED when it is held, _RELEASED after giving it back.
 * mode: KASURI_LOCK_EXCLUSIVE (the plain macros) or KASURI_LOCK_SHARED. */
#define KASURI_LOCK_REQUEST(lock) KASURI_LOCK_REQUEST_AS(lock, KASURI_LOCK_EXCLUSIVE)
#define KASURI_LOCK_ACQUIRED(lock) KASURI_LOCK_ACQUIRED_AS(lock, KASURI_LOCK_EXCLUSIVE)
#define KASURI_LOCK_RELEASED(lock) KASURI_LOCK_RELEASED_AS(lock, KASURI_LOCK_EXCLUSIVE)
#define KASURI_LOCK_REQUEST_AS(lock, mode)                                                                             \
    KASURI__EMIT2(#lock, KASURI_EV_LOCK_REQUEST | (uint32_t)(mode) << 16, KASURI__U64(lock), 0)
#define KASURI_LOCK_ACQUIRED_AS(lock, mode)                                                                            \
    KASURI__EMIT2(#lock, KASURI_EV_LOCK_ACQUIRED | (uint32_t)(mode) << 16, KASURI__U64(lock), 0)
#define KASURI_LOCK_RELEASED_AS(lock, mode)                                                                            \
    KASURI__EMIT2(#lock, KASURI_EV_LOCK_RELEASED | (uint32_t)(mode) << 16, KASURI__U64(lock), 0)

/** KASURI_TASK_* - the life of a task: a unit of work that may move between threads. Ids are the program's own,
 * not 0, not reused while the task lives. parent: 0 for none. */
#define KASURI_TASK_CREATE(name, task, parent)                                                                         \
    KASURI__EMIT2(name, KASURI_EV_TASK_CREATE, KASURI__U64(task), KASURI__U64(parent))
#define KASURI_TASK_START(task) KASURI__TASK(KASURI_EV_TASK_START, task, 0)
#define KASURI_TASK_SUSPEND(task) KASURI__TASK(KASURI_EV_TASK_SUSPEND, task, 0)
#define KASURI_TASK_RESUME(task) KASURI__TASK(KASURI_EV_TASK_RESUME, task, 0)
#define KASURI_TASK_END(task) KASURI__TASK(KASURI_EV_TASK_END, task, 0)
/** KASURI_TASK_SUSPEND_FOR - suspend, with the reason and the task or object waited for. */
#define KASURI_TASK_SUSPEND_FOR(why, task, awaited)                                                                    \
    KASURI__EMIT2(why, KASURI_EV_TASK_SUSPEND, KASURI__U64(task), KASURI__U64(awaited))
#define KASURI__TASK(kind, task, other)                                                                                \
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, 0, (kind), KASURI__U64(task), (other)))

/** KASURI_FLOW_OUT, KASURI_FLOW_IN - an arrow from one place to another: same flow id at both. */
#define KASURI_FLOW_OUT(name, flow) KASURI__EMIT2(name, KASURI_EV_FLOW_OUT, KASURI__U64(flow), 0)
#define KASURI_FLOW_IN(name, flow) KASURI__EMIT2(name, KASURI_EV_FLOW_IN, KASURI__U64(flow), 0)

/** KASURI_ARG_* - a value for the thread's innermost open slice, or for its last instant when that is newer. */
#define KASURI_ARG_I64(key, v)                                                                                         \
    KASURI__EMIT2(key, KASURI_EV_ARG | KASURI_ARG_I64 << 16, (uint64_t)(int64_t)(v), 0)
#define KASURI_ARG_U64(key, v) KASURI__EMIT2(key, KASURI_EV_ARG | KASURI_ARG_U64 << 16, KASURI__U64(v), 0)
#define KASURI_ARG_F64(key, v) KASURI__EMIT2(key, KASURI_EV_ARG | KASURI_ARG_F64 << 16, kasuri__bits(v), 0)
#define KASURI_ARG_STR(key, s)                                                                                         \
    KASURI__AT(key, kasuri__emit_str(kasuri__s, kasuri__id, KASURI_EV_ARG | KASURI_ARG_STR << 16, (s)))

/** KASURI_MESSAGE - printf-like text; at most KASURI_EVENT_MAX bytes, longer ones are lost (cause BIG). */
#define KASURI_MESSAGE(...) KASURI__AT("message", kasuri__message(kasuri__s, kasuri__id, __VA_ARGS__))

/** KASURI_THREAD_NAME - what the calling thread is called on the timeline; any string. */
#define KASURI_THREAD_NAME(s) KASURI__NAMELESS(kasuri__emit_str(0, 0, KASURI_EV_THREAD_NAME, (s)))

/** KASURI_TRIGGER - an instant that asks a flight recorder to save its last seconds. */
#define KASURI_TRIGGER(name)                                                                                           \
    KASURI__AT(name, (kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, KASURI_EV_TRIGGER), kasuri__trigger()))

/** KASURI_SCOPE - a slice from here to the end of the enclosing block, however that is left. */
#define KASURI__CAT2(a, b) a##b
#define KASURI__CAT(a, b) KASURI__CAT2(a, b)
#define KASURI_SCOPE(name) KASURI__SCOPE(name, KASURI__CAT(kasuri__scope_, __COUNTER__))
#define KASURI__SCOPE(name, begun)                                                                                     \
    __attribute__((cleanup(kasuri__scope_end), unused)) int begun = 0;                                                 \
    KASURI__AT(name, (kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, KASURI_EV_BEGIN), begun = 1))
/* Ends only what was begun: a recorder may attach in the middle of a scope. */
KASURI__INLINE void kasuri__scope_end(const int *begun) {
    if (KASURI__UNLIKELY(*begun))
        KASURI_END();
}

/* The same with a name made at run time. */
#ifndef KASURI__NO_RUNTIME_NAMES
/**
 * kasuri_intern - the id of a name; the same name gives the same id. Keep the id: this walks a list.
 * Return: > 0; 0 when there is no memory for it (events then show no name). Works with and without a recorder,
 * and ids stay valid over fork and from one recorder to the next. Thread, signal: safe.
 */
KASURI__INLINE uint32_t kasuri_intern(const char *name) { return kasuri__intern(name); }

#define KASURI__RUNTIME(call)                                                                                          \
    {                                                                                                                  \
        KASURI__NAMELESS(call);                                                                                        \
    }
KASURI__INLINE void kasuri_begin(uint32_t site)
KASURI__RUNTIME(kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_BEGIN))
KASURI__INLINE void kasuri_end(void) KASURI__RUNTIME(kasuri__emit1(kasuri__g, 0, 0, KASURI_EV_END))
KASURI__INLINE void kasuri_instant(uint32_t site)
KASURI__RUNTIME(kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_INSTANT))
KASURI__INLINE void kasuri_counter(uint32_t site, double value)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_COUNTER, kasuri__bits(value), 0))
/** kasuri_wait_begin etc.: kind is enum kasuri_wait_kind, mode enum kasuri_lock_mode; site may be 0. */
KASURI__INLINE void kasuri_wait_begin(uint32_t site, uint32_t kind, uint64_t object)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_WAIT_BEGIN | kind << 16, object, 0))
KASURI__INLINE void kasuri_wait_end(uint32_t site, uint32_t kind, uint64_t object)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_WAIT_END | kind << 16, object, 0))
KASURI__INLINE void kasuri_lock_request(uint32_t site, uint32_t mode, uint64_t lock)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_REQUEST | mode << 16, lock, 0))
KASURI__INLINE void kasuri_lock_acquired(uint32_t site, uint32_t mode, uint64_t lock)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_ACQUIRED | mode << 16, lock, 0))
KASURI__INLINE void kasuri_lock_released(uint32_t site, uint32_t mode, uint64_t lock)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_RELEASED | mode << 16, lock, 0))
/** kasuri_task_event - kind: KASURI_EV_TASK_CREATE (other = parent) to KASURI_EV_TASK_END (other = awaited or 0). */
KASURI__INLINE void kasuri_task_event(uint32_t kind, uint32_t site, uint64_t task, uint64_t other)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, kind, task, other))
KASURI__INLINE void kasuri_flow_out(uint32_t site, uint64_t flow)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_FLOW_OUT, flow, 0))
KASURI__INLINE void kasuri_flow_in(uint32_t site, uint64_t flow)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_FLOW_IN, flow, 0))
KASURI__INLINE void kasuri_arg_i64(uint32_t key, int64_t v)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_I64 << 16, (uint64_t)v, 0))
KASURI__INLINE void kasuri_arg_u64(uint32_t key, uint64_t v)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_U64 << 16, v, 0))
KASURI__INLINE void kasuri_arg_f64(uint32_t key, double v)
KASURI__RUNTIME(kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_F64 << 16, kasuri__bits(v), 0))
/** Text arguments: `bytes` of UTF-8, no NUL needed. */
KASURI__INLINE void kasuri_arg_str(uint32_t key, const char *s, uint64_t bytes)
KASURI__RUNTIME(kasuri__slow_bytes(0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_STR << 16, s, bytes))
KASURI__INLINE void kasuri_message(uint32_t site, const char *s, uint64_t bytes)
KASURI__RUNTIME(kasuri__slow_bytes(0, (int32_t)site, KASURI_EV_MESSAGE, s, bytes))
KASURI__INLINE void kasuri_thread_name(const char *s, uint64_t bytes)
KASURI__RUNTIME(kasuri__slow_bytes(0, 0, KASURI_EV_THREAD_NAME, s, bytes))
KASURI__INLINE void kasuri_trigger(uint32_t site)
KASURI__RUNTIME((kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_TRIGGER), kasuri__trigger()))
#endif

#ifndef KASURI_DECLARE_ONLY
#ifdef __cplusplus
extern "C" {
#endif
KASURI__HIDDEN struct kasuri_gate kasuri__gate __attribute__((section(".kasuri.gate"))) = {KASURI_MAGIC_GATE, 0, 0};
KASURI__HIDDEN __thread struct kasuri__writer *kasuri__writer __attribute__((tls_model(KASURI_TLS_MODEL)));
KASURI__HIDDEN void kasuri__slow(struct kasuri_site *s, int32_t id, uint32_t kind, uint64_t pos, uint64_t a, uint64_t b) {
    (void)s, (void)id, (void)kind, (void)pos, (void)a, (void)b;
}
KASURI__HIDDEN void kasuri__slow_bytes(struct kasuri_site *s, int32_t id, uint32_t kind, const void *d, uint64_t n) {
    (void)s, (void)id, (void)kind, (void)d, (void)n;
}
KASURI__HIDDEN void kasuri__message(struct kasuri_site *s, int32_t id, const char *f, ...) { (void)s, (void)id, (void)f; }
KASURI__HIDDEN void kasuri__trigger(void) {}
KASURI__HIDDEN uint32_t kasuri__intern(const char *n) { return n ? 1 : 0; }
#ifdef __cplusplus
}
#endif
#endif

#else /* KASURI_DISABLE */

#define KASURI__UNUSED1(a) do { if (0) { (void)(a); } } while (0)
#define KASURI__UNUSED2(a, b) do { if (0) { (void)(a); (void)(b); } } while (0)
static inline int kasuri_enabled(void) { return 0; }
static inline void kasuri__unused(const char *format, ...) { (void)format; }
#define KASURI_BEGIN(name) ((void)0)
#define KASURI_END() ((void)0)
#define KASURI_SCOPE(name) ((void)0)
#define KASURI_INSTANT(name) ((void)0)
#define KASURI_TRIGGER(name) ((void)0)
#define KASURI_COUNTER(name, value) KASURI__UNUSED1(value)
#define KASURI_WAIT_BEGIN(kind, object) KASURI__UNUSED2(kind, object)
#define KASURI_WAIT_END(kind, object) KASURI__UNUSED2(kind, object)
#define KASURI_LOCK_REQUEST(lock) KASURI__UNUSED1(lock)
#define KASURI_LOCK_ACQUIRED(lock) KASURI__UNUSED1(lock)
#define KASURI_LOCK_RELEASED(lock) KASURI__UNUSED1(lock)
#define KASURI_LOCK_REQUEST_AS(lock, mode) KASURI__UNUSED2(lock, mode)
#define KASURI_LOCK_ACQUIRED_AS(lock, mode) KASURI__UNUSED2(lock, mode)
#define KASURI_LOCK_RELEASED_AS(lock, mode) KASURI__UNUSED2(lock, mode)
#define KASURI_TASK_CREATE(name, task, parent) KASURI__UNUSED2(task, parent)
#define KASURI_TASK_START(task) KASURI__UNUSED1(task)
#define KASURI_TASK_SUSPEND(task) KASURI__UNUSED1(task)
#define KASURI_TASK_SUSPEND_FOR(why, task, awaited) KASURI__UNUSED2(task, awaited)
#define KASURI_TASK_RESUME(task) KASURI__UNUSED1(task)
#define KASURI_TASK_END(task) KASURI__UNUSED1(task)
#define KASURI_FLOW_OUT(name, flow) KASURI__UNUSED1(flow)
#define KASURI_FLOW_IN(name, flow) KASURI__UNUSED1(flow)
#define KASURI_ARG_I64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_U64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_F64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_STR(key, s) KASURI__UNUSED1(s)
#define KASURI_MESSAGE(...) do { if (0) { kasuri__unused(__VA_ARGS__); } } while (0)
#define KASURI_THREAD_NAME(s) KASURI__UNUSED1(s)
static inline uint32_t kasuri_intern(const char *name) { return name ? 1 : 0; }
static inline void kasuri_begin(uint32_t site) { (void)site; }
static inline void kasuri_end(void) {}
static inline void kasuri_instant(uint32_t site) { (void)site; }

#endif /* KASURI_DISABLE */

#endif /* KASURI_H */
