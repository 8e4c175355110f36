/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kasuri.h - annotate a program, see it on Kasuri's timeline.
 *
 * This one header is the whole client: include it, compile, run the program under `kasuri record`.
 * No library to link, nothing to initialise. Without a recorder an annotation is one load and one
 * predictable branch.
 *
 * annotate/amalgamate makes this file from the files of annotate/src in Kasuri's repository; change it there.
 */
#ifndef KASURI_H
#define KASURI_H

#include <stdint.h>

/* clang-format off */
/* ------------------------------------------------------------------------------------------------
 * Part 1: the ABI shared with the recorder. Spec: docs/format.md, chapter "Rings"; the protocol and
 * its proof: docs/design/ring.md. Additive only; reserved fields are 0; every offset is asserted
 * in annotate/tests/abi.h and in crates/format/src/ring.rs. Numbers are in the byte order of the machine, which the magic
 * numbers tell. The layout does not depend on the size of a register: programs of 32 and of 64 bits are in one session.
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

/* The unit of stamps. NATIVE: the CPU's counter, read by one instruction (x86 rdtsc, aarch64
 * cntvct_el0, riscv64 rdtime). MONOTONIC: clock_gettime(CLOCK_MONOTONIC), ns. */
enum kasuri_clock { KASURI_CLOCK_NATIVE = 1, KASURI_CLOCK_MONOTONIC = 2 };

/* What happens to the event of a thread that has filled its chunk while no chunk is free.
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
    uint32_t freed;         /*  56  atomic: the recorder adds 1 when it has freed chunks, and to make programs look again */
    uint32_t refused;       /*  60  atomic: clients that found no room for their files or for one chunk, or not the session */
    uint64_t lost[8];       /*  64  atomic: events lost by clients that have no segment [KASURI_LOST_CAUSES] */
    /* Where struct_size says that it is there: */
    uint32_t foreign;       /* 128  atomic: clients of another byte order, or without the clock, which cannot take part */
    uint32_t reserved;      /* 132 */
    /* What kept rings or names of programs from growing, by enum kasuri_hindrance: the first error of each, and the limit
     * that goes with it; 0: nothing did. A program stores the limit, then the error. */
    uint32_t hindrance[8];       /* 136  atomic: errno [KASURI_HINDRANCES] */
    uint64_t hindrance_limit[8]; /* 168  as getrlimit gives it; all ones: none is set, or none goes with it */
};                               /* 232 */

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

/* Why an event was not kept. FULL: no chunk free. SPACE, LIMIT: none free, and the rings could not grow, because their file
 * system was full or a limit of the program was reached. OVERWRITTEN: its chunk was reused (flight
 * recorder). BIG: longer than KASURI_EVENT_MAX. SITE: its name could not be stored. FROZEN: dropped
 * while a snapshot was copied. */
enum kasuri_lost { KASURI_LOST_FULL, KASURI_LOST_OVERWRITTEN, KASURI_LOST_BIG, KASURI_LOST_SITE, KASURI_LOST_FROZEN, KASURI_LOST_SPACE, KASURI_LOST_LIMIT, KASURI_LOST_CAUSES = 8 };

/* What kept a program's rings or names from growing. SPACE: their file system was full; QUOTA: its user's share of it was. The
 * others stand for limits of the program: the length of a file (RLIMIT_FSIZE), open files (RLIMIT_NOFILE), memory where addresses
 * (RLIMIT_AS) or private memory (RLIMIT_DATA) are limited, locked memory (RLIMIT_MEMLOCK). OTHER: the errno says what. */
enum kasuri_hindrance { KASURI_HINDRANCE_SPACE, KASURI_HINDRANCE_QUOTA, KASURI_HINDRANCE_FILE_SIZE, KASURI_HINDRANCE_FILES,
    KASURI_HINDRANCE_ADDRESSES, KASURI_HINDRANCE_DATA, KASURI_HINDRANCE_LOCKED, KASURI_HINDRANCE_OTHER, KASURI_HINDRANCES = 8 };

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

/* A high half of all ones is enough: CPUs with registers of 32 bits store no more than that. */
#define KASURI_SEQ_EMPTYING 0xffffffffffffffffull
/* Words of 64 bits are stored as two halves, of which the low one is the last of a stamp, and not 0: while the low half of
 * word 0 is 0 the event is not committed. */
#define KASURI_CHUNK_HALVES 1u
/* Start of each chunk; written by its owner. Events follow in 16-byte slots. */
struct kasuri_chunk {
    uint64_t seq;           /*   0  this stream's chunks 0, 1, 2...; read before and after a live copy: it changes when the chunk is
                             *      reused; KASURI_SEQ_EMPTYING while the owner empties it for that: no copy then */
    uint32_t stream;        /*   8  a thread's events in one client; 1.. */
    uint32_t tid;           /*  12 */
    uint32_t used;          /*  16  bytes with header, set with FULL; 0 while open: scan to chunk_bytes */
    uint32_t flags;         /*  20  KASURI_CHUNK_HALVES */
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
    KASURI_EV_WAIT_END = 6,       /* place or 0    kasuri_wait_kind   u64 object, 1: its time limit ended it */
    KASURI_EV_LOCK_REQUEST = 7,   /* place or 0    kasuri_lock_mode   u64 object, 0                    */
    KASURI_EV_LOCK_ACQUIRED = 8,  /* "                                                                 */
    KASURI_EV_LOCK_RELEASED = 9,  /* "                                                                 */
    KASURI_EV_TASK_CREATE = 10,   /* name          kasuri_task_create u64 task, u64 parent (0: none)   */
    KASURI_EV_TASK_START = 11,    /* name or 0     kasuri_task_start  u64 task, 0                      */
    KASURI_EV_TASK_SUSPEND = 12,  /* why or 0      -                  u64 task, u64 waits for (0: -)   */
    KASURI_EV_TASK_RESUME = 13,   /* "                                                                 */
    KASURI_EV_TASK_END = 14,      /* "                                                                 */
    KASURI_EV_FLOW_OUT = 15,      /* name or 0     -                  u64 flow, 0                      */
    KASURI_EV_FLOW_IN = 16,       /* name or 0     -                  u64 flow, 0                      */
    KASURI_EV_ARG = 17,           /* arg's name    kasuri_arg_type    8 bytes, 0; STR: bytes, see aux  */
    KASURI_EV_MESSAGE = 18,       /* place or 0    byte length        UTF-8, padded with 0             */
    KASURI_EV_THREAD_NAME = 19,   /* -             byte length        UTF-8, padded with 0             */
    KASURI_EV_TRIGGER = 20,       /* name or 0     -                  -                                */
    /* Further events of the lock probe (probes/lock). TAKEN and LEFT are ACQUIRED and RELEASED in mode exclusive
     * of a lock that was free at the first try, without payload: word 1 >> 16 is the lock's address. */
    KASURI_EV_LOCK_TAKEN = 21,    /* address bits 47..16 and 15..0 (aux)       -                       */
    KASURI_EV_LOCK_LEFT = 22,     /* "                                                                 */
    KASURI_EV_LOCK_DEFINE = 23,   /* see aux       kasuri_lock_type   u64 object, 0; a life of a lock begins: the
                                   *               site first used it; type SYMBOL: the site is the lock's own name */
    KASURI_EV_LOCK_COUNT = 24,    /* -             -                  u64 object, u64 holds not recorded one by one
                                   *               before this stamp, with the one that starts at it if any does */
    KASURI_EV_TASK_JOIN = 25,     /* name or 0     -                  u64 task (0: -), u64 joined      */
    KASURI_EV_LOCK_GIVEN_UP = 26, /* as LOCK_REQUEST: the request ends without the lock (timeout, deadlock found)   */
    KASURI_EV_TASK_DEPENDS = 27,  /* name or 0     -                  u64 task, u64 on: cannot start before its end */
    KASURI_EV_TASK_FOLDED = 28    /* name          -                  u64 task, u64 count: so many tasks of the name were created in
                                   *               it, or in each other, and count as its own time: nothing else is told of them */
};
/* KASURI_EV_ARG belongs to the thread's innermost open slice (or its last instant, when newer).
 * aux = type | byte length << 4 (STR). */
enum kasuri_wait_kind { KASURI_WAIT_OTHER = 0, KASURI_WAIT_BARRIER = 1, KASURI_WAIT_JOIN = 2, KASURI_WAIT_COND = 3, KASURI_WAIT_IO = 4,
    KASURI_WAIT_SEM = 5, KASURI_WAIT_ONCE = 6 };
/* CREATE: a POINT never runs. It stands for what its parent had done when it created it, or for the tasks that it joins:
 * a promise kept, a group of tasks. Others join it. UNFOLDED: it is one of those that TASK_FOLDED counts in its parent, and was
 * created before. */
enum kasuri_task_create { KASURI_TASK_RUNS = 0, KASURI_TASK_POINT = 1, KASURI_TASK_UNFOLDED = 2 };
/* START: STOLEN when another thread than the one that created the task took it. IN_PLACE: as a call of the task that runs
 * on this thread: the two are suspended, resumed and stolen as one, by the other's id. RESUME of a task that was not suspended
 * but created another one, which its thread ran first: what follows in it was stolen (docs/design/seen.md). */
enum kasuri_task_start { KASURI_TASK_OWN = 0, KASURI_TASK_STOLEN = 1, KASURI_TASK_IN_PLACE = 2 };
enum kasuri_lock_mode { KASURI_LOCK_EXCLUSIVE = 0, KASURI_LOCK_SHARED = 1 };
/* Low byte: what it is; above: flags. */
enum kasuri_lock_type { KASURI_LOCK_OTHER = 0, KASURI_LOCK_MUTEX = 1, KASURI_LOCK_RECURSIVE = 2, KASURI_LOCK_ERRORCHECK = 3,
    KASURI_LOCK_ADAPTIVE = 4, KASURI_LOCK_RWLOCK = 5, KASURI_LOCK_SPIN = 6, KASURI_LOCK_SYMBOL = 0xff,
    KASURI_LOCK_ROBUST = 0x100, KASURI_LOCK_INHERIT = 0x200, KASURI_LOCK_PROTECT = 0x400, KASURI_LOCK_PSHARED = 0x800,
    KASURI_LOCK_ITO = 0x1000 /* ito's: it says so itself */ };
enum kasuri_arg_type { KASURI_ARG_I64 = 1, KASURI_ARG_U64 = 2, KASURI_ARG_F64 = 3, KASURI_ARG_STR = 4 };

/* clang-format on */

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
 *   KASURI_LAZY_START     do not attach when the module is loaded; it calls kasuri__start() itself
 * ---------------------------------------------------------------------------------------------- */

/* Elsewhere an annotated program still compiles, and runs as if not annotated: other systems and compilers, and registers of
 * 64 bits under addresses of 32 (x32), or system calls of 64-bit time alone (riscv32). */
#if !defined(KASURI_DISABLE) &&                                                                                        \
    (!defined(__linux__) || !defined(__GNUC__) ||                                                                      \
     (UINTPTR_MAX <= 0xffffffffu && (defined(__x86_64__) || defined(__riscv) || defined(__aarch64__))))
#define KASURI_DISABLE 1
#endif

#ifndef KASURI_DISABLE

/* -- what differs from CPU to CPU --
 *
 * The session's files are the same on all: numbers in the machine's byte order, words of 64 bits at the offsets of part
 * 1. A CPU with registers of 64 bits stores such a word at once. Others store two halves, and the order in which they do
 * it tells a reader when the word is whole; a reader loads it at once, or takes its halves in the opposite order.
 *
 *   kasuri__word        a register: positions, and sizes of what is mapped
 *   kasuri__put         a word that needs no order; its low half is first, which has a record's length
 *   kasuri__publish     a word with all that was stored before it; its low half is last, and not 0: a stamp commits by it
 *   kasuri__is_open     whether a stamp is not stored yet
 */

/* Inline always: the fast path is meant to be part of the program's own code, also in builds without optimisation. */
#define KASURI__INLINE static inline __attribute__((always_inline, unused))

typedef uintptr_t kasuri__word;

/* A position is one word: the page of the chunk, and in its low bits how much of the chunk is taken, in units. Failed
 * reservations raise it further: from OFF_HIGH on it is brought back to OFF_LOST, which is still beyond what is used of
 * any chunk (kasuri__clamp). With 32 bits 20 are the page's, and 12 remain for 64 KiB in units of a slot: of larger
 * chunks 32 KiB are used. */
#if UINTPTR_MAX > 0xffffffffu
#define KASURI__OFF_BITS 24
#define KASURI__OFF_UNIT 1u
#define KASURI__ROOM_MAX (1u << 20)
#define KASURI__OFF_LOST 0x200000u
#define KASURI__OFF_HIGH 0x400000u
#else
#define KASURI__OFF_BITS 12
#define KASURI__OFF_UNIT 16u
#define KASURI__ROOM_MAX (32u << 10)
#define KASURI__OFF_LOST 0x840u
#define KASURI__OFF_HIGH 0x900u
#endif
#define KASURI__OFF_MASK (((kasuri__word)1 << KASURI__OFF_BITS) - 1)

KASURI__INLINE kasuri__word kasuri__position(const void *chunk, uint32_t bytes) {
    return (kasuri__word)(uintptr_t)chunk << (KASURI__OFF_BITS - 12) | bytes / KASURI__OFF_UNIT;
}
/* Chunks are aligned to 4 KiB; null: the position lies in no chunk. */
KASURI__INLINE char *kasuri__chunk_of(kasuri__word pos) {
    return (char *)(uintptr_t)(pos >> KASURI__OFF_BITS << 12);
}
KASURI__INLINE kasuri__word kasuri__offset_of(kasuri__word pos) {
    return (pos & KASURI__OFF_MASK) * KASURI__OFF_UNIT;
}

#if UINTPTR_MAX > 0xffffffffu
/* ORDER relaxed: of a record's word 1; its stamp publishes it to readers of the event, and the payload's release to
 * readers that ask how long an open record is. */
KASURI__INLINE void kasuri__put(uint64_t *to, uint64_t value) {
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
/* ORDER release; pairs with an acquire load of the word: what was stored before it is seen. See the callers. */
KASURI__INLINE void kasuri__publish(uint64_t *to, uint64_t value) {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
/* ORDER relaxed: of a word 1, whose low half has the length. */
KASURI__INLINE uint32_t kasuri__low(const uint64_t *word) {
    return (uint32_t)__atomic_load_n(word, __ATOMIC_RELAXED);
}
/* ORDER acquire; pairs with the release of kasuri__commit: the emit that committed has left the slot. */
KASURI__INLINE int kasuri__is_open(const uint64_t *stamp) {
    return __atomic_load_n(stamp, __ATOMIC_ACQUIRE) == 0;
}
#else
typedef uint32_t __attribute__((may_alias)) kasuri__half;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define KASURI__LOW 1
#else
#define KASURI__LOW 0
#endif
#define KASURI__LOW_OF(p) ((kasuri__half *)(void *)(uintptr_t)(p) + KASURI__LOW)
#define KASURI__HIGH_OF(p) ((kasuri__half *)(void *)(uintptr_t)(p) + !KASURI__LOW)
/* ORDER relaxed: as above. ORDER none in hardware; pairs with whatever reads the chunk after a kill in between: the
 * compiler must keep the low half first. */
KASURI__INLINE void kasuri__put(uint64_t *to, uint64_t value) {
    __atomic_store_n(KASURI__LOW_OF(to), (uint32_t)value, __ATOMIC_RELAXED);
    __asm__ volatile("" : : : "memory");
    __atomic_store_n(KASURI__HIGH_OF(to), (uint32_t)(value >> 32), __ATOMIC_RELAXED);
}
/* A word whose low half is 0 is not published: one unit of time in four thousand million is a unit late. ORDER release;
 * pairs with an acquire load of the word: with the low half its high half is seen, and what was stored before. */
KASURI__INLINE void kasuri__publish(uint64_t *to, uint64_t value) {
    uint32_t low = (uint32_t)value;
    __atomic_store_n(KASURI__HIGH_OF(to), (uint32_t)(value >> 32), __ATOMIC_RELAXED);
    __atomic_store_n(KASURI__LOW_OF(to), low ? low : 1, __ATOMIC_RELEASE);
}
/* ORDER relaxed: as above. */
KASURI__INLINE uint32_t kasuri__low(const uint64_t *word) {
    return __atomic_load_n(KASURI__LOW_OF(word), __ATOMIC_RELAXED);
}
/* ORDER acquire; pairs with the release of kasuri__commit: as above. */
KASURI__INLINE int kasuri__is_open(const uint64_t *stamp) {
    return __atomic_load_n(KASURI__LOW_OF(stamp), __ATOMIC_ACQUIRE) == 0;
}
#endif

/* The clock of stamps. Each is one instruction that does not wait for those before it, so a stamp may be a little earlier
 * than the end of the work before it. A CPU without a counter that all user code may read takes the slow path and its
 * clock; so does a session whose recorder found the counter unfit. A program of 32-bit ARM takes no part in a session of
 * ARM's counter, which its CPU may not have. */
#if defined(__x86_64__) || defined(__i386__)
#define KASURI__NATIVE 1
KASURI__INLINE uint64_t kasuri__stamp(void) {
    return __builtin_ia32_rdtsc();
}
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
KASURI__INLINE uint64_t kasuri__stamp(void) {
    return 1;
}
#endif

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

/* -- how a macro becomes an event --
 *
 * KASURI_BEGIN("load") expands to: load the gate; if it is not 0, get the static struct of this call site, load its
 * id, and call kasuri__emit1. The id is 0 until the site's first event, which the slow path writes and gives the id.
 *   KASURI__AT         for macros with a name
 *   KASURI__NAMELESS   for those without one, and for ids made by kasuri_intern
 *   KASURI__EMIT1, 2   an event of one slot; of two, with a payload of 16 bytes
 * Each macro is one statement (do ... while (0)), so it can stand in an if without braces.
 *
 * The static struct of a call site differs by language. C: a local static. C++: a local static of an inline function
 * or template would be one object for the whole process (STB_GNU_UNIQUE), while ids are per module, and it would keep
 * a plugin from being unloaded. A static member of a template over a type of this file's own is neither. */
#ifdef __cplusplus
namespace {
struct kasuri__file {};
} // namespace
template <class File, int N> struct kasuri__cell { static kasuri_site site; };
template <class File, int N> kasuri_site kasuri__cell<File, N>::site = {0, 0, 0, 0, 0};
/* Fill in the site before its first event. A static member of a template cannot have the strings in its initialiser,
 * since __func__ exists only inside the function. Threads may race here: all store the same values. */
KASURI__INLINE void kasuri__describe(kasuri_site *s, const char *name, const char *file, const char *func,
                                     uint32_t line) {
    __atomic_store_n(&s->line, line, __ATOMIC_RELAXED);
    __atomic_store_n(&s->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&s->func, func, __ATOMIC_RELAXED);
    __atomic_store_n(&s->name, name, __ATOMIC_RELAXED);
}
#define KASURI__SITE(name) kasuri_site *const kasuri__s = &kasuri__cell<kasuri__file, __COUNTER__>::site
#define KASURI__SITE_ID(name)                                                                                          \
    const int32_t kasuri__id = __atomic_load_n(&kasuri__s->id, __ATOMIC_RELAXED);                                      \
    if (KASURI__UNLIKELY(kasuri__id <= 0))                                                                             \
    kasuri__describe(kasuri__s, "" name, __FILE__, __func__, __LINE__)
/* An object may be a pointer or a number; the overloads spare C++ programs a warning about old-style casts. */
template <class T> KASURI__INLINE uint64_t kasuri__u64(T *p) {
    return reinterpret_cast<uintptr_t>(p);
}
KASURI__INLINE uint64_t kasuri__u64(uint64_t v) {
    return v;
}
#define KASURI__U64(v) kasuri__u64(v)
#else
#define KASURI__SITE(name)                                                                                             \
    static struct kasuri_site kasuri__site = {0, __LINE__, "" name, __FILE__, __func__};                               \
    struct kasuri_site *const kasuri__s = &kasuri__site
#define KASURI__SITE_ID(name) const int32_t kasuri__id = __atomic_load_n(&kasuri__s->id, __ATOMIC_RELAXED)
#if UINTPTR_MAX > 0xffffffffu
#define KASURI__U64(v) ((uint64_t)(v))
#else /* a pointer's cast to a wider integer is a warning */
#define KASURI__U64(v) ((uint64_t) __builtin_choose_expr(sizeof(0 ? (v) : (v)) == 8, (v), (uintptr_t)(v)))
#endif
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
/** KASURI_TASK_JOIN - @task goes on after the end of @joined, for which it may have had to wait; any number of tasks may
 * join one. With parents and dependences this makes the task graph, whose work and span `kasuri stat` prints. task: 0 for
 * none. */
#define KASURI_TASK_JOIN(task, joined) KASURI__TASK(KASURI_EV_TASK_JOIN, task, KASURI__U64(joined))
/** KASURI_TASK_DEPENDS - @task cannot start before the end of @on; any number of both. Any thread says so, best between
 * the creation of @task and its start. An id names the task that was created last with it; one that comes later only
 * when there was none. */
#define KASURI_TASK_DEPENDS(task, on) KASURI__TASK(KASURI_EV_TASK_DEPENDS, task, KASURI__U64(on))
/** KASURI_TASK_SUSPEND_FOR - suspend, with the reason and the task or object waited for. */
#define KASURI_TASK_SUSPEND_FOR(why, task, awaited)                                                                    \
    KASURI__EMIT2(why, KASURI_EV_TASK_SUSPEND, KASURI__U64(task), KASURI__U64(awaited))
#define KASURI__TASK(kind, task, other)                                                                                \
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, 0, (kind), KASURI__U64(task), (other)))

/** KASURI_FLOW_OUT, KASURI_FLOW_IN - an arrow from one place to another: same flow id at both. */
#define KASURI_FLOW_OUT(name, flow) KASURI__EMIT2(name, KASURI_EV_FLOW_OUT, KASURI__U64(flow), 0)
#define KASURI_FLOW_IN(name, flow) KASURI__EMIT2(name, KASURI_EV_FLOW_IN, KASURI__U64(flow), 0)

/** KASURI_ARG_* - a value for the thread's innermost open slice, or for its last instant when that is newer. */
#define KASURI_ARG_I64(key, v) KASURI__EMIT2(key, KASURI_EV_ARG | KASURI_ARG_I64 << 16, (uint64_t)(int64_t)(v), 0)
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

/* -- the same with a name made at run time --
 *
 * For names that are not string literals. libkasuri (annotate/src/kasuri.c) exports functions of the same names to
 * languages without a C preprocessor. A name is interned once; its id takes the place of the call site:
 *   uint32_t id = kasuri_intern(stage_name);
 *   kasuri_begin(id); ... kasuri_end();
 */
#ifndef KASURI__NO_RUNTIME_NAMES
/**
 * kasuri_intern - the id of a name; the same name gives the same id. Keep the id: this walks a list.
 * Return: > 0; 0 when there is no memory for it (events then show no name). Works with and without a recorder,
 * and ids stay valid over fork and from one recorder to the next. Thread, signal: safe.
 */
KASURI__INLINE uint32_t kasuri_intern(const char *name) {
    return kasuri__intern(name);
}

KASURI__INLINE void kasuri_begin(uint32_t site) {
    KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_BEGIN));
}
KASURI__INLINE void kasuri_end(void) {
    KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, 0, KASURI_EV_END));
}
KASURI__INLINE void kasuri_instant(uint32_t site) {
    KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_INSTANT));
}
KASURI__INLINE void kasuri_counter(uint32_t site, double value) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_COUNTER, kasuri__bits(value), 0));
}
/** kasuri_wait_begin etc.: kind is enum kasuri_wait_kind, mode enum kasuri_lock_mode; site may be 0. */
KASURI__INLINE void kasuri_wait_begin(uint32_t site, uint32_t kind, uint64_t object) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_WAIT_BEGIN | kind << 16, object, 0));
}
KASURI__INLINE void kasuri_wait_end(uint32_t site, uint32_t kind, uint64_t object) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_WAIT_END | kind << 16, object, 0));
}
KASURI__INLINE void kasuri_lock_request(uint32_t site, uint32_t mode, uint64_t lock) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_REQUEST | mode << 16, lock, 0));
}
KASURI__INLINE void kasuri_lock_acquired(uint32_t site, uint32_t mode, uint64_t lock) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_ACQUIRED | mode << 16, lock, 0));
}
KASURI__INLINE void kasuri_lock_released(uint32_t site, uint32_t mode, uint64_t lock) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_RELEASED | mode << 16, lock, 0));
}
/** kasuri_task_event - kind: KASURI_EV_TASK_CREATE (other: parent; | KASURI_TASK_POINT << 16) to KASURI_EV_TASK_END (other: awaited or 0), or
 * KASURI_EV_TASK_JOIN (other: joined), KASURI_EV_TASK_DEPENDS (other: the task that it depends on) or KASURI_EV_TASK_FOLDED (other: count). */
KASURI__INLINE void kasuri_task_event(uint32_t kind, uint32_t site, uint64_t task, uint64_t other) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, kind, task, other));
}
KASURI__INLINE void kasuri_flow_out(uint32_t site, uint64_t flow) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_FLOW_OUT, flow, 0));
}
KASURI__INLINE void kasuri_flow_in(uint32_t site, uint64_t flow) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_FLOW_IN, flow, 0));
}
KASURI__INLINE void kasuri_arg_i64(uint32_t key, int64_t v) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_I64 << 16, (uint64_t)v, 0));
}
KASURI__INLINE void kasuri_arg_u64(uint32_t key, uint64_t v) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_U64 << 16, v, 0));
}
KASURI__INLINE void kasuri_arg_f64(uint32_t key, double v) {
    KASURI__NAMELESS(
        kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_F64 << 16, kasuri__bits(v), 0));
}
/** Texts: `bytes` of UTF-8, no NUL needed. */
KASURI__INLINE void kasuri_arg_str(uint32_t key, const char *s, uint64_t bytes) {
    KASURI__NAMELESS(kasuri__slow_bytes(0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_STR << 16, s, bytes));
}
KASURI__INLINE void kasuri_message(uint32_t site, const char *s, uint64_t bytes) {
    KASURI__NAMELESS(kasuri__slow_bytes(0, (int32_t)site, KASURI_EV_MESSAGE, s, bytes));
}
KASURI__INLINE void kasuri_thread_name(const char *s, uint64_t bytes) {
    KASURI__NAMELESS(kasuri__slow_bytes(0, 0, KASURI_EV_THREAD_NAME, s, bytes));
}
KASURI__INLINE void kasuri_trigger(uint32_t site) {
    KASURI__NAMELESS((kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_TRIGGER), kasuri__trigger()));
}
#endif

/* ------------------------------------------------------------------------------------------------
 * Part 3: the slow path. About once in 2,000 events; also all attaching, forking and failing.
 * docs/design/ring.md has the states, the races and the proof. Rules that hold for all of it:
 *   - it runs with all signals blocked, so that it never nests in itself;
 *   - system calls only, by their numbers: no libc, no errno, no locks of others, no allocation;
 *   - no file stays open: a program that closes "all" descriptors and reuses their numbers must not
 *     find our bytes in its files;
 *   - a wait is bounded; whatever fails, the event is dropped and counted.
 * ---------------------------------------------------------------------------------------------- */
#ifndef KASURI_DECLARE_ONLY

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* -- state --
 *
 * Each struct below lists which thread may write which field, and under which lock. `client` and all it points to are
 * in pages that fork wipes: a child starts from zeros, whatever its parent's threads were doing. `process` is ordinary
 * memory, which a child inherits. */
#define KASURI__MAX_SEGMENTS 128 /* of a session; also those that had to stay of sessions before */
#define KASURI__MAX_GRAVES 64    /* segments kept for emits that had a slot open in them */
#define KASURI__MAX_OPEN 4       /* open slots of one grave; with more of them it stays */
#define KASURI__SESSION_MAX 4096 /* PATH_MAX */
#define KASURI__MAX_WRITERS 8192 /* threads alive at once; more lose their events (cause FULL) */
#define KASURI__MAX_FLIGHT 256   /* OVERWRITE: chunks of one thread */
#define KASURI__DEFERRED 4       /* full chunks of one thread that wait for an interrupted emit */
#define KASURI__SEGMENT_MAX (64u << 20)
#if UINTPTR_MAX > 0xffffffffu
#define KASURI__BYTES_MAX UINT64_MAX
#else
#define KASURI__BYTES_MAX (1ull << 30) /* of a process that has 2 to 4 GiB of addresses */
#endif
#define KASURI__FAILED_AT(freed) ((kasuri__word)(freed) << 1 | 1) /* not 0 */
#define KASURI__BLOCK_BYTES 65536u
#define KASURI__STRING_MAX 4000u /* of a name, file or function: a definition fits into a block */
#define KASURI__YIELDS 20        /* a wait yields the CPU so often before it sleeps, 100 us at a time: */
#define KASURI__SLEEPS 2000      /* 0.2 s for a thread that is in the slow path */
#define KASURI__SETTLES 100      /* 15 ms or so for an emit whose handler may sleep as long as it likes */

#if UINTPTR_MAX > 0xffffffffu
typedef Elf64_Ehdr kasuri__elf_header;
#else
typedef Elf32_Ehdr kasuri__elf_header;
#endif

#ifdef __cplusplus
extern "C" {
#endif
extern const kasuri__elf_header kasuri__ehdr __asm__("__ehdr_start") __attribute__((weak, visibility("hidden")));
struct kasuri__timespec {
    long s, ns;
};
int kasuri__clock_gettime(int clock, struct kasuri__timespec *t) __asm__("clock_gettime"); /* undeclared in -std=c99 */

/* A chunk and the word with its state. */
struct kasuri__chunk_ref {
    struct kasuri_chunk *chunk;
    uint32_t *state;
};

/* All of a thread's ring; 256 bytes, or 128 where a register has 32 bits, so that no two threads write to one cache line.
 *   w.pos     owner and its signal handlers; taken away by a thread that leaves the session (exchange)
 *   w.limit   owner; set to 0 by a thread that leaves the session
 *   tid       claimed by compare-and-swap; 0 is free
 *   counting  owner and its signal handlers; read by a thread that leaves the session
 *   left      the thread that leaves a session, holder of `attaching`
 *   busy      owner and its signal handlers, where system calls may not be made
 *   others    owner only, in the slow path, signals blocked; or `busy` set */
struct kasuri__thread {
    struct kasuri__writer w;
    uint64_t room; /* bytes of a chunk that are used */
    uint64_t seq;  /* of the next chunk */
    struct kasuri__chunk_ref now;
    /* Full chunks in which an interrupted emit of this thread has a slot open, oldest first. */
    struct kasuri__chunk_ref deferred[KASURI__DEFERRED];
    uint32_t tid;      /* 0: free */
    uint32_t stream;   /* of this thread in this session */
    uint32_t epoch;    /* of the session that the fields above belong to */
    uint32_t counting; /* depth of count_stalled() calls that use now.chunk */
    uint32_t stalled, stalled_cause, stalled_freed, stalled_events;
    uint32_t own_head, n_own; /* OVERWRITE: ring of own chunks in client.flight */
    kasuri__word left;        /* w.pos when the session was left; written by the holder of `attaching` */
    uint32_t busy;            /* emit_confined() gets a chunk: handlers must not */
    uint32_t padding[15];
} __attribute__((aligned(128)));

/* A mapped segment: written by the holder of `growing` before n_segments counts it, then constant. */
struct kasuri__segment_ref {
    struct kasuri_segment *header;
    char *chunks;
    uint64_t bytes;
    uint32_t n_chunks, chunk_bytes;
};

/* Memory over a segment of a session that was left, for emits that had a slot open in it: unmapped when all have
 * committed. */
struct kasuri__grave {
    void *at;
    uint64_t bytes;
    const uint64_t *open[KASURI__MAX_OPEN];
    uint32_t n_open; /* above MAX_OPEN: not known, it stays */
};

/* One per module and process, in pages that fork wipes: a child, however it was made, finds state 0.
 *
 *   holder of `attaching`   state, epoch, pid, graves, control, first_segment
 *   holder of `growing`     segments[], n_segments, total_bytes, next_chunks, grow_failed, grow_cause
 *   holder of `defining`    sites_bytes, sites_broken, kasuri__process.next_id and blocks
 *   any thread, atomically  inside, next_stream, n_threads, reclaim, hint
 * Order in which locks are taken: attaching, defining, growing. All are try-locks with a bounded wait.
 *
 * What join() sets for a session is read and written as relaxed atomics: a thread that is stuck in the slow path since
 * the session before may read it meanwhile. It finds by `epoch` that the chunk it got is not its own (next_chunk). */
struct kasuri__client {
    uint32_t state;                        /* 0 new or just forked, 1 attached */
    uint32_t attaching, defining, growing; /* try-locks */
    uint32_t inside;                       /* threads in the slow path; what they may touch stays mapped */
    uint32_t epoch;                        /* counts sessions; a thread of an older one has no chunk */
    uint32_t pid, gen, clock, policy, chunk_bytes, flight_chunks;
    uint32_t next_stream, n_threads, reclaim, hint;
    uint32_t first_segment, n_segments; /* of this session, in segments[]; reused when no thread is in the slow path */
    uint32_t sites_broken, n_graves, has_barrier;
    uint32_t room; /* the smallest chunk_bytes of all sessions: what fits into one fitted into those before */
    kasuri__word grow_failed; /* KASURI__FAILED_AT(control->freed then): not tried again before something is freed */
    uint32_t grow_cause;      /* enum kasuri_lost: why, then */
    kasuri__word total_bytes, max_bytes;
    uint64_t next_chunks, sites_bytes;
    struct kasuri_control *control;
    struct kasuri__chunk_ref *flight; /* [MAX_WRITERS][MAX_FLIGHT], OVERWRITE only, touched as needed */
    struct kasuri__segment_ref segments[KASURI__MAX_SEGMENTS];
    struct kasuri__grave graves[KASURI__MAX_GRAVES];
    struct kasuri__thread threads[KASURI__MAX_WRITERS];
};

/* Site definitions, as in the file, in our own memory: for the next session and for forked children, also when
 * the module that had the strings is gone. */
struct kasuri__block {
    struct kasuri__block *next;
    uint64_t used; /* complete definitions */
    char data[KASURI__BLOCK_BYTES];
};

/* The state that a forked child keeps. */
struct kasuri__process {
    struct kasuri__client *client;
    struct kasuri_control *control; /* as last joined, also in a child, which maps its own */
    struct kasuri__block *first, *last;
    uint32_t next_id, epoch, started;
    uint32_t pid, gen; /* as last attached: the parent's, in a child */
    char session[KASURI__SESSION_MAX], asked[KASURI__SESSION_MAX];
};

KASURI__HIDDEN struct kasuri_gate kasuri__gate __attribute__((section(".kasuri.gate"))) = {KASURI_MAGIC_GATE, 0, 0};
KASURI__HIDDEN struct kasuri_hook kasuri__hook __attribute__((section(".kasuri.gate"))) = {KASURI_MAGIC_HOOK, {0}};
KASURI__HIDDEN __thread struct kasuri__writer *kasuri__writer __attribute__((tls_model(KASURI_TLS_MODEL))) = 0;
extern struct kasuri__process kasuri__process __attribute__((visibility("hidden")));
KASURI__HIDDEN struct kasuri__process kasuri__process = {0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0}};

#define KASURI__COLD static __attribute__((unused, cold, noinline))
#define KASURI__GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define KASURI__SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

/* -- system calls --
 *
 * By number, and not by way of libc: libc's functions set errno, may be cancellation points, may be replaced by a
 * module that annotates (a preloaded malloc, say), and may wait for locks that the interrupted thread holds.
 *
 * This file has, from the bottom up: constants that headers may lack, the system call itself, memory, signals, the
 * names and the opening of the session's files, the clock, bounded waits, and the questions to the control page. The
 * files of a session, see abi.h:
 *   control, p<pid>-<gen>.sites, p<pid>-<gen>.ring<k>
 * All are opened relative to the session's directory, used, and closed again at once. */

/* gcc says of each fence that ThreadSanitizer does not know it, an error under -Werror, and calls this function; so does
 * clang, which says nothing. What the fences order are the rings of a recorder, not the program's data. */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#ifdef __cplusplus
extern "C"
#endif
    void
    __tsan_atomic_thread_fence(int order);
#define KASURI__FENCE(order) __tsan_atomic_thread_fence(order)
#else
#define KASURI__FENCE(order) __atomic_thread_fence(order)
#endif

/* Names that <fcntl.h> and <sys/mman.h> hide under -std=c99, or that old versions of them lack. The numbers of
 * x86-64, aarch64 and riscv64 stand in for them; other CPUs need -std=gnu99. */
#ifdef O_CLOEXEC
#define KASURI__O_CLOEXEC O_CLOEXEC
#else
#define KASURI__O_CLOEXEC 02000000
#endif
#ifdef O_PATH
#define KASURI__O_PATH O_PATH
#else
#define KASURI__O_PATH 010000000
#endif
#ifdef AT_FDCWD
#define KASURI__AT_FDCWD AT_FDCWD
#else
#define KASURI__AT_FDCWD (-100)
#endif
#ifdef AT_SYMLINK_NOFOLLOW
#define KASURI__AT_SYMLINK_NOFOLLOW AT_SYMLINK_NOFOLLOW
#else
#define KASURI__AT_SYMLINK_NOFOLLOW 0x100
#endif
#ifdef MAP_ANONYMOUS
#define KASURI__MAP_ANONYMOUS MAP_ANONYMOUS
#else
#define KASURI__MAP_ANONYMOUS 0x20
#endif
#ifdef MAP_NORESERVE
#define KASURI__MAP_NORESERVE MAP_NORESERVE
#else
#define KASURI__MAP_NORESERVE 0x4000
#endif
#ifdef MAP_POPULATE
#define KASURI__MAP_POPULATE MAP_POPULATE
#else
#define KASURI__MAP_POPULATE 0x8000
#endif
#ifdef MADV_WIPEONFORK
#define KASURI__MADV_WIPEONFORK MADV_WIPEONFORK
#else
#define KASURI__MADV_WIPEONFORK 18
#endif
/* Their headers are not on every system, or hide them under -std=c99 as well: <linux/membarrier.h>, <sys/stat.h>,
 * <signal.h>, <time.h>. */
#define KASURI__MEMBARRIER 8           /* MEMBARRIER_CMD_PRIVATE_EXPEDITED, Linux 4.14 */
#define KASURI__MEMBARRIER_REGISTER 16 /* MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED */
#define KASURI__STATX_UID 8u
#define KASURI__STATX_UID_WORD 5 /* of struct statx, read as an array of uint32_t */
#if defined(__mips__)
#define KASURI__SIG_SETMASK 3
#else
#define KASURI__SIG_SETMASK 2
#endif
#if defined(__mips__)
#define KASURI__SIGSET_BYTES 16 /* of the kernel's signal mask */
#else
#define KASURI__SIGSET_BYTES 8
#endif
#define KASURI__CLOCK_MONOTONIC 1
/* Of <sys/resource.h>. */
#define KASURI__RLIMIT_FSIZE 1
#define KASURI__RLIMIT_DATA 2
#if defined(__mips__)
#define KASURI__RLIMIT_NOFILE 5
#define KASURI__RLIMIT_AS 6
#define KASURI__RLIMIT_MEMLOCK 9
#elif defined(__alpha__)
#define KASURI__RLIMIT_NOFILE 6
#define KASURI__RLIMIT_AS 7
#define KASURI__RLIMIT_MEMLOCK 9
#elif defined(__sparc__)
#define KASURI__RLIMIT_NOFILE 6
#define KASURI__RLIMIT_AS 9
#define KASURI__RLIMIT_MEMLOCK 8
#else
#define KASURI__RLIMIT_NOFILE 7
#define KASURI__RLIMIT_AS 9
#define KASURI__RLIMIT_MEMLOCK 8
#endif
/* The lock of fcntl(2) with offsets of 64 bits, and the call that takes it. */
struct kasuri__lock {
    int16_t type, whence;
    int64_t start, length;
    int32_t pid;
};
#define KASURI__F_OFD_GETLK 36
#ifdef SYS_fcntl64
#define KASURI__SYS_FCNTL SYS_fcntl64
#else
#define KASURI__SYS_FCNTL SYS_fcntl
#endif
#ifdef SYS_geteuid32
#define KASURI__SYS_GETEUID SYS_geteuid32 /* SYS_geteuid has 16 bits there */
#else
#define KASURI__SYS_GETEUID SYS_geteuid
#endif
#define KASURI__ANONYMOUS (MAP_PRIVATE | KASURI__MAP_ANONYMOUS | KASURI__MAP_NORESERVE)
#define KASURI__O_CREATE (O_RDWR | O_CREAT | O_EXCL | KASURI__O_CLOEXEC)

/* One system call with six arguments. The registers are those of syscall(2), "Architecture calling conventions". On
 * other CPUs libc's syscall() makes the call, and errno is put back. Return: the kernel's result; from -4095 to -1 an
 * error's negative number. */
KASURI__COLD long kasuri__call(long n, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#elif defined(__riscv)
    register long a7 __asm__("a7") = n;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    register long a5 __asm__("a5") = f;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
#else
    extern long kasuri__libc_syscall(long, ...) __asm__("syscall");
    extern int *kasuri__libc_errno(void) __asm__("__errno_location");
    int *error = kasuri__libc_errno(), saved = *error;
    long r = kasuri__libc_syscall(n, a, b, c, d, e, f);
    if (r == -1)
        r = -*error;
    *error = saved;
    return r;
#endif
}
#define KASURI__CALL(n, a, b, c, d) kasuri__call((n), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* Whether what mmap returned is an error's negative number. */
KASURI__INLINE int kasuri__is_error(long p) {
    return p < 0 && p > -4096;
}

/* A limit of this process, in its own unit; all ones: none is set. The program may set it at any time. */
KASURI__COLD uint64_t kasuri__limit(int resource) {
    uint64_t limit[2] = {~0ull, ~0ull}; /* soft, hard: what holds where the call is not there */
    KASURI__CALL(SYS_prlimit64, 0, resource, 0, limit);
    return limit[0];
}

/* The longest file that this process may write, in bytes. A write or an allocation beyond it raises SIGXFSZ, which ends the
 * program; so the limit is asked first, and is to us what a full disk is. */
KASURI__COLD uint64_t kasuri__file_limit(void) {
    return kasuri__limit(KASURI__RLIMIT_FSIZE);
}

/* Map memory for reading and writing. Return: its address, or an error's negative number. */
KASURI__COLD long kasuri__mmap(void *at, uint64_t bytes, int flags, int fd) {
#if defined(SYS_mmap2)
    long p = kasuri__call(SYS_mmap2, (long)at, (long)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
#elif defined(__s390x__) /* one argument: where the six are */
    long six[6] = {(long)at, (long)bytes, PROT_READ | PROT_WRITE, flags, fd, 0}, p;
    p = KASURI__CALL(SYS_mmap, six, 0, 0, 0);
#else
    long p = kasuri__call(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
#endif
    return p;
}
/* The same. Return: null when that failed. */
KASURI__COLD void *kasuri__map(void *at, uint64_t bytes, int flags, int fd) {
    long p = kasuri__mmap(at, bytes, flags, fd);
    return kasuri__is_error(p) ? 0 : (void *)p;
}

/* Block all signals, so that the slow path never nests in itself, and store the old mask in `old`. The kernel does not
 * block SIGKILL and SIGSTOP, and a fault under the mask ends the process. */
KASURI__COLD void kasuri__block_signals(uint64_t *old) {
    uint64_t all[2] = {~0ull, ~0ull};
    KASURI__CALL(SYS_rt_sigprocmask, KASURI__SIG_SETMASK, all, old, KASURI__SIGSET_BYTES);
}
KASURI__COLD void kasuri__unblock_signals(uint64_t *old) {
    KASURI__CALL(SYS_rt_sigprocmask, KASURI__SIG_SETMASK, old, 0, KASURI__SIGSET_BYTES);
}

/* Begin and end what makes system calls. Return: 0 where none may be made, also not for this (kasuri__may_call). */
KASURI__COLD int kasuri__begin_calls(uint64_t *old) {
    if (!kasuri__may_call())
        return 0;
    kasuri__block_signals(old);
    return 1;
}
KASURI__COLD void kasuri__end_calls(uint64_t *old) {
    kasuri__unblock_signals(old);
    kasuri__called();
}

/* Write a decimal number; return where it ends. */
KASURI__COLD char *kasuri__digits(char *out, uint32_t v) {
    char digits[10];
    int n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        *out++ = digits[--n];
    return out;
}

/* A file of the session: one of these two, or k >= 0 for .ring<k>. */
enum { KASURI__SITES = -1, KASURI__CONTROL = -2 };

/* Write the name of a file of the session to `out`, 48 bytes: "control", "p4711-0.sites", "p4711-0.ring2". */
KASURI__COLD void kasuri__name(char *out, const struct kasuri__client *c, int file) {
    const char *from = file == KASURI__CONTROL ? "control" : file == KASURI__SITES ? ".sites" : ".ring";
    if (file != KASURI__CONTROL) {
        *out++ = 'p';
        out = kasuri__digits(out, c->pid);
        *out++ = '-';
        out = kasuri__digits(out, KASURI__GET(c->gen));
    }
    while (*from)
        *out++ = *from++;
    if (file >= 0)
        out = kasuri__digits(out, (uint32_t)file);
    *out = 0;
}

KASURI__COLD void kasuri__close(int fd) {
    KASURI__CALL(SYS_close, fd, 0, 0, 0);
}

/* Open the session's directory, to which the names of its files are relative. To put a whole path together would take
 * 4,096 bytes of stack, and the stack of a thread or of a signal handler may not have much more. */
KASURI__COLD int kasuri__open_session(void) {
    return (int)KASURI__CALL(SYS_openat, KASURI__AT_FDCWD, kasuri__process.session, KASURI__O_PATH | KASURI__O_CLOEXEC,
                             0);
}

/* Open a file of the session. Return: a descriptor, or an error's negative number. */
KASURI__COLD int kasuri__open(const struct kasuri__client *c, int file, int flags) {
    char name[48];
    int dir = kasuri__open_session(), fd;
    if (dir < 0)
        return dir;
    kasuri__name(name, c, file);
    fd = (int)KASURI__CALL(SYS_openat, dir, name, flags, 0600);
    kasuri__close(dir);
    return fd;
}

KASURI__COLD void kasuri__unlink(const struct kasuri__client *c, int file) {
    char name[48];
    int dir = kasuri__open_session();
    if (dir < 0)
        return;
    kasuri__name(name, c, file);
    KASURI__CALL(SYS_unlinkat, dir, name, 0, 0);
    kasuri__close(dir);
}

/* Whether stamps are the CPU's counter. ORDER relaxed, and so in join(): an emit that outlasts its session may ask
 * while another thread joins the next one. Whichever clock it then takes, no recorder reads the memory of its event.
 */
KASURI__COLD int kasuri__stamps_natively(struct kasuri__client *c) {
    return KASURI__NATIVE && __atomic_load_n(&c->clock, __ATOMIC_RELAXED) == KASURI_CLOCK_NATIVE;
}

/* The time by the session's clock: ticks of the CPU's counter, or CLOCK_MONOTONIC in ns. */
KASURI__COLD uint64_t kasuri__now(struct kasuri__client *c) {
    struct kasuri__timespec t = {0, 0};
    if (kasuri__stamps_natively(c))
        return kasuri__stamp();
    kasuri__clock_gettime(KASURI__CLOCK_MONOTONIC, &t);
    return (uint64_t)t.s * 1000000000u + (uint64_t)t.ns;
}

/* Wait a moment for another thread: the first KASURI__YIELDS times by sched_yield(2), then by a sleep of 100 us. The
 * caller starts `*waits` at 0 and calls again until its condition holds. Return: 0 when it has slept `sleeps` times. */
KASURI__COLD int kasuri__wait_up_to(uint32_t *waits, uint32_t sleeps) {
    struct kasuri__timespec t = {0, 100000};
    if (++*waits > KASURI__YIELDS + sleeps)
        return 0;
    if (*waits <= KASURI__YIELDS)
        KASURI__CALL(SYS_sched_yield, 0, 0, 0, 0);
    else
        KASURI__CALL(SYS_nanosleep, &t, 0, 0, 0);
    return 1;
}
/* Wait for a thread that is in the slow path (grows, defines a name, or just leaves it): 0.2 s or so in all. */
KASURI__COLD int kasuri__wait_a_little(uint32_t *waits) {
    return kasuri__wait_up_to(waits, KASURI__SLEEPS);
}

/* The session's control page. A thread in the slow path may look at it: until the thread leaves, the page, or private
 * memory in its place (kasuri__bury_all), stays mapped. */
KASURI__COLD struct kasuri_control *kasuri__control(struct kasuri__client *c) {
    return KASURI__GET(c->control);
}

/* Close the gate, since the recorder of session `epoch` is gone: annotations cost one load and one branch again. Only
 * from 1 to 0: if another recorder has meanwhile asked for this process (2), its request stands. Without a client (no
 * memory for one) the gate is closed, too. ORDER relaxed: 0 publishes nothing. */
KASURI__COLD void kasuri__close_gate(struct kasuri__client *c, uint32_t epoch) {
    uint32_t on = 1;
    if (!c || __atomic_load_n(&c->epoch, __ATOMIC_RELAXED) == epoch)
        __atomic_compare_exchange_n(&kasuri__gate.gate, &on, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Why events are lost after this error; 0: there was none. A program that confined itself finds no session, or may not write there. */
KASURI__COLD uint32_t kasuri__cause_of(long error) {
    if (error == 0 || error == -ENOENT || error == -EACCES)
        return KASURI_LOST_FULL;
    return error == -ENOSPC || error == -EDQUOT ? KASURI_LOST_SPACE : KASURI_LOST_LIMIT;
}

/* Tell the recorder what kept this program's rings or names from growing: it says so to its user. The limit goes first: whoever
 * finds the error finds one that the error goes with.
 * ORDER release; pairs with the recorder's acquire load of the error. Publishes the limit. */
KASURI__COLD void kasuri__store_hindrance(struct kasuri_control *k, uint32_t which, long error, uint64_t limit) {
    if (KASURI__GET(k->hindrance[which]))
        return;
    kasuri__put(&k->hindrance_limit[which], limit);
    __atomic_store_n(&k->hindrance[which], (uint32_t)-error, __ATOMIC_RELEASE);
}
/* The same, by the error alone: what the kernel refuses with it, and which limits of this process it refuses it for. Memory may be
 * refused for more reasons than one: all that are set are told. An older recorder's page has no room for it; a session that is out
 * of sight is no limit. Return: enum kasuri_lost, why events are lost after this error. */
KASURI__COLD uint32_t kasuri__hinder(struct kasuri_control *k, long error, int is_private) {
    static const struct {
        int error, resource; /* -1: none */
        uint32_t which;
    } causes[] = {{ENOSPC, -1, KASURI_HINDRANCE_SPACE},
                  {EDQUOT, -1, KASURI_HINDRANCE_QUOTA},
                  {EFBIG, KASURI__RLIMIT_FSIZE, KASURI_HINDRANCE_FILE_SIZE},
                  {EMFILE, KASURI__RLIMIT_NOFILE, KASURI_HINDRANCE_FILES},
                  {ENOMEM, KASURI__RLIMIT_AS, KASURI_HINDRANCE_ADDRESSES},
                  {ENOMEM, KASURI__RLIMIT_DATA, KASURI_HINDRANCE_DATA},
                  {EAGAIN, KASURI__RLIMIT_MEMLOCK, KASURI_HINDRANCE_LOCKED}};
    uint32_t i, told = 0, cause = kasuri__cause_of(error);
    if (!k || k->struct_size < offsetof(struct kasuri_control, hindrance_limit) + sizeof k->hindrance_limit ||
        cause == KASURI_LOST_FULL)
        return cause;
    for (i = 0; i < sizeof causes / sizeof *causes; i++) {
        uint64_t limit = ~0ull;
        if (-error != causes[i].error || (causes[i].which == KASURI_HINDRANCE_DATA && !is_private))
            continue;
        if (causes[i].resource >= 0 && (limit = kasuri__limit(causes[i].resource)) == ~0ull)
            continue;
        kasuri__store_hindrance(k, causes[i].which, error, limit);
        told++;
    }
    if (!told)
        kasuri__store_hindrance(k, KASURI_HINDRANCE_OTHER, error, ~0ull);
    return cause;
}

enum { KASURI__OUT_OF_SIGHT = 2 };

/* Whether the recorder lives and records. It holds an OFD write lock on `control` (fcntl(2), "Open file description
 * locks"), which the kernel releases however the recorder ends. A PID would not do: it may be used again, and means
 * something else in another PID namespace. The query F_OFD_GETLK sets l_type to F_UNLCK when a read lock could be had,
 * so when no process holds the write lock. If the query fails, the recorder counts as alive. ORDER relaxed: a STOPPED
 * that is missed is seen the next time.
 *
 * A file that is not there says nothing: who removes a session stores STOPPED first, and a process that has changed its root or its
 * mounts finds no session, though its events are read. Return: 0, 1, or KASURI__OUT_OF_SIGHT, which counts as alive but where another
 * recorder asks for the process. */
KASURI__COLD int kasuri__recorder_lives(struct kasuri__client *c) {
    struct kasuri__lock lock;
    int fd;
    __builtin_memset(&lock, 0, sizeof lock);
    lock.type = F_RDLCK;
    if (__atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) == KASURI_SESSION_STOPPED)
        return 0;
    fd = kasuri__open(c, KASURI__CONTROL, KASURI__O_CLOEXEC);
    if (fd < 0)
        return fd == -ENOENT ? KASURI__OUT_OF_SIGHT : 1;
    if (KASURI__CALL(KASURI__SYS_FCNTL, fd, KASURI__F_OFD_GETLK, &lock, 0) < 0)
        lock.type = F_WRLCK;
    kasuri__close(fd);
    return lock.type != F_UNLCK;
}

/* -- losses --
 *
 * Every event is kept or counted, by cause: emitted == kept + lost. A loss is counted in the chunk that the thread
 * holds, so that it travels with the events around it and is read once, with them. A thread without a chunk counts
 * in the header of its client's first segment; a client without a segment counts in the control page of the session. */

/* ORDER relaxed: a count. With 32 bits two readings that are four thousand million losses apart may miss the carry. */
KASURI__INLINE void kasuri__add_one(uint64_t *count) {
#if UINTPTR_MAX > 0xffffffffu
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
#else
    if (__atomic_add_fetch(KASURI__LOW_OF(count), 1, __ATOMIC_RELAXED) == 0)
        __atomic_fetch_add(KASURI__HIGH_OF(count), 1, __ATOMIC_RELAXED);
#endif
}

/* Count one lost event. The thread is in the slow path, or `counting` keeps its chunk (see kasuri__count_stalled).
 * ORDER relaxed for the counters: the recorder reads those of a chunk with the chunk, after the release of FULL; it
 * reads the others at the end of the recording, when a count that arrives late is one of an event that came too late
 * anyway. They are atomic additions since a signal handler of this thread, or another thread, may add to the same
 * word. */
KASURI__COLD void kasuri__count_lost(struct kasuri__client *c, struct kasuri__thread *t, uint32_t cause) {
    struct kasuri_chunk *chunk = t ? t->now.chunk : 0;
    uint64_t stamp;
    if (!chunk) {
        /* ORDER acquire; pairs with the release in grow(). Publishes segments[] and a first_segment not newer. */
        uint32_t n = __atomic_load_n(&c->n_segments, __ATOMIC_ACQUIRE), first = KASURI__GET(c->first_segment);
        uint64_t *lost = n > first ? c->segments[first].header->lost : kasuri__control(c)->lost;
        kasuri__add_one(&lost[cause]);
        return;
    }
    stamp = kasuri__now(c);
    __atomic_fetch_add(&chunk->lost[cause], 1, __ATOMIC_RELAXED);
    if (!chunk->lost_first)
        chunk->lost_first = stamp;
    chunk->lost_last = stamp;
    KASURI__TSAN_RELEASE(chunk);
}

/* A reservation that fails raises the position all the same. 16 MiB of failed reservations (64 KiB with 32 bits) would
 * carry into the address part of the position, and the next event would be written anywhere. So the slow path begins by bringing a
 * high position back, whatever becomes of the event: also for a thread without a chunk, behind a gate that closes,
 * and in a forked child that cannot attach.
 *
 * A signal handler that interrupts this may have done it already; then the compare-and-swap fails, and nothing is
 * left to do. 12 MiB remain when the clamp begins to work, and a handler that interrupts an emit adds 2 kB at most:
 * 6,000 handlers would have to nest. With 32 bits 28 KiB remain, and it adds 32 bytes, as texts do not raise a position
 * that is beyond the chunk (kasuri__reserve_text): 890 handlers. ORDER relaxed: only this thread and its handlers use the position, and they are
 * one CPU. */
KASURI__COLD void kasuri__clamp(struct kasuri__writer *w) {
    kasuri__word pos = __atomic_load_n(&w->pos, __ATOMIC_RELAXED);
    if (KASURI__UNLIKELY((pos & KASURI__OFF_MASK) > KASURI__OFF_HIGH))
        __atomic_compare_exchange_n(&w->pos, &pos, (pos & ~KASURI__OFF_MASK) | KASURI__OFF_LOST, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

/* Nothing was free at the last try and nothing has been freed since: count the event and return, in about 20 ns.
 *
 * Signals are not blocked here, since that takes two system calls. So a signal handler may interrupt this
 * function, find a free chunk and hand over the chunk that this function is about to count in. `counting` > 0 tells
 * the handler to put that off (kasuri__hand_over). It tells a thread that leaves the session, too, that this thread
 * may still touch the session's memory (kasuri__is_quiet).
 *
 * All other fields of `t` are this thread's own. `freed` and `state` are hints: a change that is missed here is seen
 * by the next event. Every 4,096th event takes the long way, where it asks whether the recorder still lives. Return:
 * whether the event is dealt with. */
KASURI__COLD int kasuri__count_stalled(struct kasuri__client *c, struct kasuri__thread *t) {
    uint32_t depth = t->counting; /* a fork in a handler wipes the field under us */
    int dealt = 0;
    __atomic_store_n(&t->counting, depth + 1, __ATOMIC_RELAXED);
    /* ORDER none in hardware; pairs with the look at `counting` in hand_over(), by a handler of this thread: it
     * finds it raised before we look at anything. For other threads see below. */
    __asm__ volatile("" : : : "memory");
    if (t->stalled && kasuri__gate_load() == 1 && t->epoch == __atomic_load_n(&c->epoch, __ATOMIC_RELAXED) &&
        t->stalled_freed == __atomic_load_n(&kasuri__control(c)->freed, __ATOMIC_RELAXED) &&
        (t->stalled_cause != KASURI_LOST_FROZEN ||
         __atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) == KASURI_SESSION_FROZEN) &&
        ++t->stalled_events % 4096) { /* now and then: does the recorder live? */
        kasuri__count_lost(c, t, t->stalled_cause);
        dealt = 1;
    }
    /* ORDER release; pairs with the acquire load in is_quiet: a thread that then unmaps the chunk finds us out of it.
     * The store above needs no fence: a thread that leaves a session has a barrier of all threads (ring.md, race 11). */
    __atomic_store_n(&t->counting, depth, __ATOMIC_RELEASE);
    return dealt;
}

/* -- chunks --
 *
 * A chunk is FREE (all zero), OWNED by one thread, or FULL (the recorder's). Only the owner writes into an OWNED
 * chunk; only the recorder touches a FULL one. The states of a segment's chunks lie together behind its header, so
 * that a search reads few cache lines. docs/design/ring.md has the table of transitions. */

KASURI__COLD uint32_t *kasuri__states(struct kasuri__segment_ref *s) {
    return (uint32_t *)(void *)(s->header + 1);
}

/* Take a FREE chunk, searching from where the last one was found. `hint` is the segment and the chunk to begin with,
 * segment << 20 | chunk. ORDER relaxed for `hint` and for the first look at a state: a wrong hint or a stale state
 * costs time only, since the compare-and-swap decides. */
KASURI__COLD int kasuri__take_free(struct kasuri__client *c, struct kasuri__chunk_ref *out) {
    /* ORDER acquire; pairs with the release in grow(). Publishes segments[]. */
    uint32_t end = __atomic_load_n(&c->n_segments, __ATOMIC_ACQUIRE), first = KASURI__GET(c->first_segment);
    uint32_t n = end > first ? end - first : 0;
    uint32_t hint = __atomic_load_n(&c->hint, __ATOMIC_RELAXED), i, j;
    for (i = 0; i < n; i++) {
        uint32_t k = (i + (hint >> 20)) % n;
        struct kasuri__segment_ref *s = &c->segments[first + k];
        uint32_t *states = kasuri__states(s), start = i ? 0 : hint & 0xfffff;
        for (j = 0; j < s->n_chunks; j++) {
            uint32_t at = (start + j) % s->n_chunks, want = KASURI_CHUNK_FREE;
            if (__atomic_load_n(&states[at], __ATOMIC_RELAXED) != KASURI_CHUNK_FREE)
                continue;
            /* ORDER acquire; pairs with the recorder's release store of FREE. Publishes its zeroes. Without it: our
             * first events may be overwritten by them (models/ring, control `no_release_at_free`). */
            if (!__atomic_compare_exchange_n(&states[at], &want, KASURI_CHUNK_OWNED, 0, __ATOMIC_ACQUIRE,
                                             __ATOMIC_RELAXED))
                continue;
            KASURI__TEST_POINT(5);
            __atomic_store_n(&c->hint, k << 20 | ((at + 1) & 0xfffff), __ATOMIC_RELAXED);
            out->chunk = (struct kasuri_chunk *)(void *)(s->chunks + (uint64_t)at * s->chunk_bytes);
            out->state = &states[at];
            for (j = 0; j < s->chunk_bytes; j += 4096)
                KASURI__TSAN_ACQUIRE((char *)out->chunk + j);
            return 1;
        }
    }
    return 0;
}

/* Is a slot below chunk->used not committed? It is when a signal handler of this thread, in which we are now,
 * interrupted the emit that reserved it. Handing such a chunk over would let the recorder zero it under that emit.
 *
 * The first loop takes every slot for an event and counts zeros, which compilers turn into vector instructions: 1 us
 * a chunk. A zero may also be a word of payload; only then does the second loop walk from event to event. Plain
 * reads: all slots of the chunk were written by this thread. */
KASURI__COLD int kasuri__has_open(const struct kasuri_chunk *chunk) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    uint32_t used = chunk->used / 8, i, zeros = 0;
    for (i = 16; i < used; i += 2)
        zeros += (kasuri__word)words[i] == 0; /* where a word is two halves, the low one */
    for (i = 16; zeros && i < used;) {
        uint32_t slots = (uint32_t)(words[i + 1] >> 8 & 0xff);
        if (!(kasuri__word)words[i])
            return 1;
        i += 2 * (slots ? slots : 1);
    }
    return 0;
}

/* Give a chunk to the recorder, unless one of this thread's interrupted emits still needs it. Return: whether it
 * went. */
KASURI__COLD int kasuri__hand_over(struct kasuri__thread *t, struct kasuri__chunk_ref *r) {
    if (t->counting || !r->chunk->used || kasuri__has_open(r->chunk))
        return 0;
    KASURI__TEST_POINT(4);
    /* ORDER release; pairs with the recorder's acquire load of the state. Publishes the events and `used`. Without
     * it: the recorder copies events that are not there yet (models/ring, control `no_release_at_full`). */
    __atomic_store_n(r->state, KASURI_CHUNK_FULL, __ATOMIC_RELEASE);
    return 1;
}

/* Hand over the chunk just left, and those deferred earlier. One that cannot go now and finds no place on the list
 * stays OWNED until the thread ends: it costs memory, not events. */
KASURI__COLD void kasuri__retire(struct kasuri__thread *t, struct kasuri__chunk_ref *old) {
    uint32_t i, n = 0;
    for (i = 0; i < KASURI__DEFERRED && t->deferred[i].chunk; i++)
        if (!kasuri__hand_over(t, &t->deferred[i]))
            t->deferred[n++] = t->deferred[i];
    if (old->chunk && !kasuri__hand_over(t, old) && n < KASURI__DEFERRED)
        t->deferred[n++] = *old;
    for (; n < KASURI__DEFERRED; n++)
        t->deferred[n].chunk = 0;
}

KASURI__COLD int kasuri__grow(struct kasuri__client *c);

/* Find a free chunk; map another segment when there is none and the policy allows it. One thread at a time grows,
 * the others wait for it, 0.2 s at most. `grow_failed` remembers for which value of `freed` growing was tried in
 * vain, so that a full disk is asked once and not by each event. Return: whether there is one. */
KASURI__COLD int kasuri__get_chunk(struct kasuri__client *c, struct kasuri__thread *t, struct kasuri__chunk_ref *out) {
    uint32_t waits = 0, freed = __atomic_load_n(&kasuri__control(c)->freed, __ATOMIC_RELAXED), expected;
    for (;;) {
        if (kasuri__take_free(c, out))
            return 1;
        if (kasuri__is_confined() ||
            (KASURI__GET(c->policy) == KASURI_POLICY_DISCARD &&
             KASURI__GET(c->n_segments) > KASURI__GET(c->first_segment)) ||
            KASURI__GET(c->total_bytes) + KASURI__GET(c->chunk_bytes) + 4096 > KASURI__GET(c->max_bytes) ||
            KASURI__GET(c->grow_failed) == KASURI__FAILED_AT(freed))
            return 0;
        expected = 0;
        /* ORDER acquire; pairs with the releases of `growing` below and in kasuri__unlock. Publishes the fields that
         * only its holder writes: total_bytes, next_chunks, segments[]. */
        if (__atomic_compare_exchange_n(&c->growing, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            int is_dead = 0, got = kasuri__take_free(c, out); /* another thread may just have grown */
            if (!got && t->epoch != KASURI__GET(c->epoch)) {
                __atomic_store_n(&c->growing, 0, __ATOMIC_RELEASE); /* ORDER release: as below */
                return 0; /* the process has gone to another session meanwhile */
            }
            if (!got && kasuri__recorder_lives(c)) {
                KASURI__SET(c->grow_failed, kasuri__grow(c) ? 0 : KASURI__FAILED_AT(freed));
            } else if (!got) {
                is_dead = 1;
                kasuri__close_gate(c, t->epoch);
            }
            /* ORDER release; pairs with the acquire above. Publishes what grow() wrote. */
            __atomic_store_n(&c->growing, 0, __ATOMIC_RELEASE);
            if (got)
                return 1;
            if (is_dead) /* whatever the gate says: another recorder may have asked (2), and only our next event attaches */
                return 0;
        } else if (!kasuri__wait_a_little(&waits)) {
            return 0;
        }
    }
}

/* The seqlock's two stores. Where they are halves, the high half alone says EMPTYING: it is the first to be stored, and
 * the last to be taken back. */
KASURI__INLINE void kasuri__begin_emptying(struct kasuri_chunk *chunk) {
#if UINTPTR_MAX > 0xffffffffu
    __atomic_store_n(&chunk->seq, KASURI_SEQ_EMPTYING, __ATOMIC_RELAXED);
#else
    __atomic_store_n(KASURI__HIGH_OF(&chunk->seq), UINT32_MAX, __ATOMIC_RELAXED);
#endif
}
/* ORDER release; pairs with the reader's acquire load of seq: see kasuri__empty(). */
KASURI__INLINE void kasuri__end_emptying(struct kasuri_chunk *chunk, uint64_t seq) {
#if UINTPTR_MAX > 0xffffffffu
    __atomic_store_n(&chunk->seq, seq, __ATOMIC_RELEASE);
#else
    __atomic_store_n(KASURI__LOW_OF(&chunk->seq), (uint32_t)seq, __ATOMIC_RELAXED);
    /* ORDER release; pairs as above. Publishes the low half too: a number is seen whole, or as EMPTYING. */
    __atomic_store_n(KASURI__HIGH_OF(&chunk->seq), (uint32_t)(seq >> 32), __ATOMIC_RELEASE);
#endif
}

/* OVERWRITE: empty the chunk for its next use. Its events, and the losses it had counted, are losses of its new
 * life.
 *
 * The recorder may be copying this chunk into a snapshot, so this is the writer's side of a seqlock: seq says
 * EMPTYING while zeros are written, and a copy whose seq changed meanwhile is thrown away. The stamps go first, then
 * all words from the end: if the program is killed in between, what is left still reads as open records of known
 * length. */
KASURI__COLD void kasuri__empty(struct kasuri__thread *t, struct kasuri_chunk *chunk) {
    uint64_t *words = (uint64_t *)(void *)chunk, first = chunk->lost_first, last = chunk->lost_last;
    uint32_t used = chunk->used / 8, i, n = 0;
    /* ORDER release; pairs with the reader's acquire fence before it reads seq again, as in any seqlock: the mark is
     * before the first zero. Without it: a snapshot keeps half a chunk (models/ring, control
     * `no_mark_before_emptying`). */
    kasuri__begin_emptying(chunk);
    KASURI__FENCE(__ATOMIC_RELEASE);
    for (i = 16; i < used; n++) {
        uint32_t slots = (uint32_t)(words[i + 1] >> 8 & 0xff);
        if (!first || words[i] < first)
            first = words[i];
        if (words[i] > last)
            last = words[i];
        kasuri__put(&words[i], 0);
        i += 2 * (slots ? slots : 1);
    }
    for (i = used; i > 16; i--) {
        kasuri__put(&words[i - 1], 0);
        if (i == used / 2)
            KASURI__TEST_POINT(8);
    }
    chunk->used = 0;
    chunk->lost[KASURI_LOST_OVERWRITTEN] += n;
    chunk->lost_first = first;
    chunk->lost_last = last;
    /* ORDER release; pairs with the reader's acquire load of seq. Publishes the zeroes. Without it, or with the new
     * seq in place of the mark above: old events under the new number (controls `no_release_at_new_seq`,
     * `new_seq_as_mark`). */
    kasuri__end_emptying(chunk, t->seq++);
}

/* OVERWRITE: the ring of a thread's chunks, of which it has `n_own`. */
KASURI__COLD struct kasuri__chunk_ref *kasuri__own_chunks(struct kasuri__client *c, const struct kasuri__thread *t) {
    return &c->flight[(uint64_t)(t - c->threads) * KASURI__MAX_FLIGHT];
}

/* OVERWRITE: the thread's oldest chunk in which nothing is open becomes its newest. The list in c->flight is a ring of
 * n_own chunks, oldest at own_head. Chunks with an open slot are passed over and stay the oldest. Not while a loss is
 * being counted: that may be in one of these chunks. Return: whether there was one. */
KASURI__COLD int kasuri__reuse(struct kasuri__client *c, struct kasuri__thread *t) {
    struct kasuri__chunk_ref *own = kasuri__own_chunks(c, t), r;
    uint32_t i, j, n = t->n_own;
    if (t->counting)
        return 0;
    for (i = 0; i < n; i++) {
        r = own[(t->own_head + i) % n];
        if (r.chunk->used && !kasuri__has_open(r.chunk))
            break;
    }
    if (i == n)
        return 0;
    for (j = i; j > 0; j--) /* those passed over stay the oldest */
        own[(t->own_head + j) % n] = own[(t->own_head + j - 1) % n];
    own[t->own_head] = r;
    t->own_head = (t->own_head + 1) % n;
    kasuri__empty(t, r.chunk);
    t->now = r;
    return 1;
}

/* Let the fast path into t->now. The position goes first: a handler cannot come in between, as signals are blocked,
 * and a handler that came before this has its own position on its stack. With a clock that needs the slow path the
 * limit is 0. ORDER relaxed for both: they are this thread's, but for a thread that leaves the session, and the
 * fence below is for that one. */
KASURI__COLD void kasuri__start_chunk(struct kasuri__client *c, struct kasuri__thread *t) {
    __atomic_store_n(&t->w.pos, kasuri__position(t->now.chunk, sizeof(struct kasuri_chunk)), __ATOMIC_RELAXED);
    __atomic_store_n(&t->w.limit, kasuri__stamps_natively(c) ? (kasuri__word)t->room / KASURI__OFF_UNIT : 0,
                     __ATOMIC_RELAXED);
    /* ORDER seq_cst; pairs with the fence in end_session(). We store the limit and then read the epoch; a thread that
     * leaves the session stores the epoch and then zeroes the limits. So either we see the new epoch, or our limit is
     * zeroed after we set it. Without it: this thread goes on in a chunk of the session before (models/ring, control
     * `no_fences_at_reattach`). */
    KASURI__FENCE(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&c->epoch, __ATOMIC_RELAXED) != t->epoch)
        __atomic_store_n(&t->w.limit, 0, __ATOMIC_RELAXED);
    t->stalled = 0;
}

/* Get the next chunk for a thread whose chunk is full, or that has none. The new chunk has its header before the old
 * one is handed over: killed in between, the program leaves two OWNED chunks with headers, and neither loses
 * anything. Return: 1; or 0, with the cause in stalled_cause. */
KASURI__COLD int kasuri__next_chunk(struct kasuri__client *c, struct kasuri__thread *t) {
    struct kasuri__chunk_ref old = t->now, fresh;
    /* ORDER acquire; pairs with the release in join(). Publishes c->flight. */
    int overwrite = __atomic_load_n(&c->policy, __ATOMIC_ACQUIRE) == KASURI_POLICY_OVERWRITE;
    t->stalled_freed =
        __atomic_load_n(&kasuri__control(c)->freed, __ATOMIC_RELAXED); /* first, so that none is missed */
    t->stalled_cause = KASURI_LOST_FULL;
    if (__atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) == KASURI_SESSION_STOPPED) {
        kasuri__close_gate(c, t->epoch);
        return 0;
    }
    if ((!overwrite || t->n_own < KASURI__GET(c->flight_chunks)) && kasuri__get_chunk(c, t, &fresh)) {
        /* A chunk of a later session than ours, while this thread was stuck here: it goes back as it came, all zero. It
         * was found by way of n_segments, with which the epoch of its session is seen. */
        if (KASURI__GET(c->epoch) != t->epoch) {
            /* ORDER release; pairs with the acquire in take_free(): as when the recorder frees a chunk. */
            __atomic_store_n(fresh.state, KASURI_CHUNK_FREE, __ATOMIC_RELEASE);
            return 0;
        }
        fresh.chunk->seq = t->seq++;
        fresh.chunk->tid = t->tid;
#if UINTPTR_MAX <= 0xffffffffu
        fresh.chunk->flags = KASURI_CHUNK_HALVES;
#endif
        /* ORDER release; pairs with nothing but a reader that comes when the program has been killed: what says whose chunk it is
         * comes last. Without it: a chunk with the stream and not yet its number is another number 0 of that stream, and a reader
         * drops one of the two (test annotate.kill_loses_at_most_the_open_record). */
        __atomic_store_n(&fresh.chunk->stream, t->stream, __ATOMIC_RELEASE);
        t->now = fresh;
        if (overwrite) { /* head is 0 while the ring is growing */
            kasuri__own_chunks(c, t)[t->n_own++] = fresh;
        } else {
            kasuri__retire(t, &old);
            KASURI__TEST_POINT(7);
        }
        kasuri__start_chunk(c, t);
        return 1;
    }
    if (KASURI__GET(c->grow_failed) == KASURI__FAILED_AT(t->stalled_freed))
        t->stalled_cause = KASURI__GET(c->grow_cause);
    /* ORDER acquire; pairs with the recorder's release store of FROZEN and RECORDING: we do not begin to empty a chunk
     * before we have seen that the snapshot is over. If we see FROZEN too late, seq tells the reader. */
    if (overwrite && __atomic_load_n(&kasuri__control(c)->state, __ATOMIC_ACQUIRE) == KASURI_SESSION_FROZEN)
        t->stalled_cause = KASURI_LOST_FROZEN;
    else if (overwrite && kasuri__reuse(c, t)) {
        kasuri__start_chunk(c, t);
        return 1;
    }
    t->stalled = 1;
    return 0;
}

/* -- segments --
 *
 * A segment is one file of the session, mapped once and never moved while its session lasts. Each is twice as large
 * as the one before, up to 64 MiB, so that a program with many events makes few of them. Layout, in bytes:
 *   0                struct kasuri_segment
 *   256              chunk_state[n_chunks], 4 bytes each
 *   chunks_offset    n_chunks chunks of chunk_bytes; the offset is a multiple of 4,096
 */

/* Allocate the file's pages now: a page fault in a file for which the disk has no room is SIGBUS. Return: 0, or minus the
 * error. */
KASURI__COLD long kasuri__reserve_space(int fd, uint64_t bytes) {
    static const char zeros[4096] = {0};
    if (bytes > kasuri__file_limit())
        return -EFBIG;
#if UINTPTR_MAX > 0xffffffffu
    long r = KASURI__CALL(SYS_fallocate, fd, 0, 0, bytes);
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ /* offset and length, two registers each */
    long r = kasuri__call(SYS_fallocate, fd, 0, 0, 0, 0, (long)bytes);
#else
    long r = kasuri__call(SYS_fallocate, fd, 0, 0, 0, (long)bytes, 0);
#endif
    uint64_t done = 0;
    if (r != -EOPNOTSUPP)
        return r;
    KASURI__CALL(SYS_lseek, fd, 0, SEEK_SET, 0);
    while (done < bytes) { /* a write reports a full disk, a page fault kills */
        r = KASURI__CALL(SYS_write, fd, zeros, sizeof zeros, 0);
        if (r <= 0)
            return r < 0 ? r : -ENOSPC;
        done += (uint64_t)r;
    }
    return 0;
}

/* Add a segment: twice the one before, less where max_bytes or the disk ends. Only the holder of `growing` calls
 * this, so it reads plainly what only that holder writes. The header is complete before its magic, and the entry in
 * segments[] is complete before n_segments. Return: whether there is one more; if not, why is in grow_cause. */
KASURI__COLD int kasuri__grow(struct kasuri__client *c) {
    uint32_t index = c->n_segments - c->first_segment, n;
    uint64_t room = c->max_bytes - c->total_bytes, header, bytes;
    struct kasuri__segment_ref *s = &c->segments[c->n_segments];
    int fd;
    long error = 0, base = 0;
    KASURI__SET(c->grow_cause, KASURI_LOST_FULL);
    if (c->n_segments == KASURI__MAX_SEGMENTS || c->total_bytes + c->chunk_bytes + 4096 > c->max_bytes)
        return 0;
    n = (uint32_t)(c->next_chunks * c->chunk_bytes > KASURI__SEGMENT_MAX ? KASURI__SEGMENT_MAX / c->chunk_bytes
                                                                         : c->next_chunks);
    fd = kasuri__open(c, (int)index, KASURI__O_CREATE);
    if (fd < 0) {
        KASURI__SET(c->grow_cause, kasuri__hinder(kasuri__control(c), fd, 0));
        return 0;
    }
    for (;; n /= 2) {
        header = (sizeof(struct kasuri_segment) + 4ull * n + 4095) & ~4095ull;
        bytes = header + (uint64_t)n * c->chunk_bytes;
        if (n == 0 || (bytes <= room && (error = kasuri__reserve_space(fd, bytes)) == 0))
            break;
        KASURI__CALL(SYS_ftruncate, fd, 0, 0, 0);
    }
    KASURI__TEST_POINT(6);
    if (n)
        base = kasuri__mmap(0, bytes, MAP_SHARED | KASURI__MAP_POPULATE, fd);
    kasuri__close(fd);
    if (!n || kasuri__is_error(base)) {
        KASURI__SET(c->grow_cause, kasuri__hinder(kasuri__control(c), n ? base : error, 0));
        kasuri__unlink(c, (int)index);
        return 0;
    }
    s->header = (struct kasuri_segment *)base;
    s->chunks = (char *)base + header;
    s->bytes = bytes;
    s->n_chunks = n;
    s->chunk_bytes = c->chunk_bytes;
    s->header->version = KASURI_ABI_VERSION;
    s->header->struct_size = sizeof(struct kasuri_segment);
    s->header->pid = c->pid;
    s->header->gen = c->gen;
    s->header->index = index;
    s->header->chunk_bytes = c->chunk_bytes;
    s->header->n_chunks = n;
    s->header->chunks_offset = (uint32_t)header;
    s->header->clock = c->clock;
    s->header->start_stamp = kasuri__now(c);
    /* ORDER release; pairs with the recorder's acquire load of the magic: a file without it is not ready. */
    kasuri__publish(&s->header->magic, KASURI_MAGIC_SEGMENT);
    KASURI__SET(c->total_bytes, c->total_bytes + (kasuri__word)bytes);
    c->next_chunks = 2ull * n; /* holder of `growing` */
    /* ORDER release; pairs with the acquire load in take_free. Publishes segments[]. */
    __atomic_store_n(&c->n_segments, c->n_segments + 1, __ATOMIC_RELEASE);
    return 1;
}

/* -- sites --
 *
 * A name is defined once per client, before the first event that uses it: the definition is in the sites file before
 * its id is stored in the site, so no recording has an event whose name is missing. Definitions are kept in memory
 * of our own as well (struct kasuri__block, in the format of the file), for sessions that come later and for forked
 * children, which write them into files of their own.
 *
 * A definition is struct kasuri_site_def and three strings, padded to 8 bytes. KASURI_BEGIN("load") in line 12 of
 * main.c, function main, takes 24 + "load\0main.c\0main\0" = 41, so 48 bytes. Ids count from 1 without gaps over all
 * sessions of a process, so an id that a site has kept stays right in the next session. */

/* Take a lock. Waits for 0.2 s at most, since the holder may be a thread that gets no CPU. Return: whether it was
 * taken. Signals must be blocked: a handler that wants a lock of the thread it interrupts would wait in vain. */
KASURI__COLD int kasuri__try_lock(uint32_t *lock) {
    uint32_t waits = 0, expected;
    do {
        expected = 0;
        /* ORDER acquire; pairs with the release in unlock. Publishes what the holder before us wrote. */
        if (__atomic_compare_exchange_n(lock, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
    } while (kasuri__wait_a_little(&waits));
    return 0;
}
KASURI__COLD void kasuri__unlock(uint32_t *lock) {
    /* ORDER release; pairs with the acquire of the next holder. Publishes all that was written while it was held. */
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* Append to the sites file with one write(2), so that a reader finds whole definitions. After a short write (disk
 * full) the torn end is cut off again; if that fails, too, the file is not written to any more (sites_broken). The
 * file is opened each time, since no file stays open. Return: whether it is there whole; if not, the recorder is told why. */
KASURI__COLD int kasuri__write_sites(struct kasuri__client *c, const void *data, uint64_t bytes) {
    int fd;
    long r = -EFBIG;
    if (c->sites_broken)
        return 0;
    if (c->sites_bytes + bytes <= kasuri__file_limit()) {
        r = fd = kasuri__open(c, KASURI__SITES, O_RDWR | O_APPEND | KASURI__O_CLOEXEC);
        if (fd >= 0) {
            r = KASURI__CALL(SYS_write, fd, data, bytes, 0);
            if (r == (long)bytes)
                c->sites_bytes += bytes;
            else if (r >= 0) {
                c->sites_broken = r > 0 && KASURI__CALL(SYS_ftruncate, fd, c->sites_bytes, 0, 0) < 0;
                r = -ENOSPC;
            }
            kasuri__close(fd);
        }
    }
    if (r < 0)
        kasuri__hinder(kasuri__control(c), r, 0);
    return r >= 0;
}

/* strlen() of at most STRING_MAX bytes: longer names are cut, perhaps inside a UTF-8 sequence. Null has length 0. */
KASURI__COLD uint32_t kasuri__length(const char *s) {
    uint32_t n = 0;
    while (s && s[n] && n < KASURI__STRING_MAX)
        n++;
    return n;
}
/* Copy a string with its NUL; return where the next one goes. */
KASURI__COLD char *kasuri__append(char *to, const char *s, uint32_t n) {
    __builtin_memcpy(to, s ? s : "", n);
    to[n] = 0;
    return to + n + 1;
}

/* Room for one definition in our own memory, a list of 64-KiB blocks that are never freed; null when there is none.
 * The caller adds to `used` once the definition is complete. Holder of `defining`. */
KASURI__COLD char *kasuri__definition_room(struct kasuri__client *c, uint32_t bytes) {
    struct kasuri__process *p = &kasuri__process;
    struct kasuri__block *b = p->last;
    long at;
    if (b && b->used + bytes <= KASURI__BLOCK_BYTES)
        return b->data + b->used;
    at = kasuri__mmap(0, sizeof *b, KASURI__ANONYMOUS, -1);
    if (kasuri__is_error(at)) {
        kasuri__hinder(kasuri__control(c), at, 1);
        return 0;
    }
    b = (struct kasuri__block *)at;
    if (p->last)
        p->last->next = b;
    else
        p->first = b;
    p->last = b;
    return b->data;
}

/* Define a site. The definition is built in memory of our own, appended to the file by one write(2), and only then
 * counted and given an id: when the program is killed in between, the file has at most one definition that no event
 * uses. Where the write fails for want of room, the memory is used again by the next one. Holder of `defining`.
 * Return: its id, or 0. */
KASURI__COLD uint32_t kasuri__define(struct kasuri__client *c, const char *name, const char *file, const char *func,
                                     uint32_t line) {
    uint32_t nn = kasuri__length(name), nf = kasuri__length(file), nu = kasuri__length(func), i;
    uint32_t length = (uint32_t)sizeof(struct kasuri_site_def) + nn + nf + nu + 3, bytes = (length + 7) & ~7u;
    char *room = kasuri__definition_room(c, bytes), *to;
    struct kasuri_site_def *def = (struct kasuri_site_def *)(void *)room;
    if (!room || kasuri__process.next_id >= 0x7ffffffe)
        return 0;
    def->bytes = bytes;
    def->id = kasuri__process.next_id + 1;
    def->line = line;
    def->name_len = (uint16_t)nn;
    def->file_len = (uint16_t)nf;
    def->func_len = (uint16_t)nu;
    def->reserved = 0;
    def->reserved2 = 0;
    to = kasuri__append((char *)(def + 1), name, nn);
    to = kasuri__append(to, file, nf);
    to = kasuri__append(to, func, nu);
    for (i = length; i < bytes; i++)
        *to++ = 0;
    /* Where nobody records any more the id is good all the same: the next session gets all names. */
    if (KASURI__GET(c->state) == 1 && !kasuri__write_sites(c, room, bytes) && kasuri__gate_load() == 1 &&
        __atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) != KASURI_SESSION_STOPPED)
        return 0;
    kasuri__process.last->used += bytes;
    return ++kasuri__process.next_id;
}

/* The id of a call site, defined now if need be; 0: its name could not be stored. That is tried once a session: the
 * negative id says in which it failed. ORDER relaxed for the site's fields: constants, or the same values from each
 * thread (kasuri__describe); an id is a number that needs nothing else to be seen with it. */
KASURI__COLD int32_t kasuri__site_id(struct kasuri__client *c, struct kasuri_site *site) {
    int32_t id = __atomic_load_n(&site->id, __ATOMIC_RELAXED), failed = (int32_t)(0x80000000u | KASURI__GET(c->epoch));
    if (id > 0)
        return id;
    if (id == failed || !kasuri__try_lock(&c->defining))
        return 0;
    id = __atomic_load_n(&site->id, __ATOMIC_RELAXED);
    if (id <= 0 && id != failed) {
        id = (int32_t)kasuri__define(
            c, __atomic_load_n(&site->name, __ATOMIC_RELAXED), __atomic_load_n(&site->file, __ATOMIC_RELAXED),
            __atomic_load_n(&site->func, __ATOMIC_RELAXED), __atomic_load_n(&site->line, __ATOMIC_RELAXED));
        __atomic_store_n(&site->id, id ? id : failed, __ATOMIC_RELAXED);
    }
    kasuri__unlock(&c->defining);
    return id > 0 ? id : 0;
}

/* -- attaching --
 *
 * A client is in one session at a time, from attach() to the next attach() or to the end of the process. Attaching
 * is asked for in three ways:
 *   KASURI_SESSION names a session when the module is loaded: module.h calls attach() from its constructor;
 *   a recorder writes 2 into the gate: the next event of any thread reaches ready(), which calls attach_request();
 *   a forked child finds the gate open and its client wiped: ready() calls attach() for the session of its parent.
 * One thread attaches, the holder of `attaching`. Where a recorder has asked, events that other threads emit meanwhile
 * come too early and are not counted. In a forked child they are part of the recording, so the other threads wait.
 * Steps that can fail come before anything is published: session_of() returns an epoch only when `state` and the gate
 * are 1, which attach() stores last. */

/* The client, made by the first thread that asks. Fork wipes its pages (MADV_WIPEONFORK), so no child ever writes
 * into its parent's chunks; the kernel does that for every kind of fork and runs no code of ours. Two threads may
 * both map one; the compare-and-swap keeps the first, and the other is unmapped. Return: null when there is no
 * memory, with the reason in `error`, an error's negative number. */
KASURI__COLD struct kasuri__client *kasuri__make_client(long *error) {
    /* ORDER acquire; pairs with the release of the compare-and-swap below. The memory behind the pointer is zero,
     * and its madvise() is done. */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE), *none = 0;
    if (c)
        return c;
    *error = kasuri__mmap(0, sizeof *c, KASURI__ANONYMOUS, -1);
    if (kasuri__is_error(*error))
        return 0;
    c = (struct kasuri__client *)*error;
    /* ORDER acq_rel; pairs with the acquire above. Publishes the client that we made; if another thread was first,
     * acquires that one's. */
    *error = KASURI__CALL(SYS_madvise, c, sizeof *c, KASURI__MADV_WIPEONFORK /* Linux 4.14 */, 0);
    if (*error < 0 ||
        !__atomic_compare_exchange_n(&kasuri__process.client, &none, c, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        KASURI__CALL(SYS_munmap, c, sizeof *c, 0, 0);
        return none;
    }
    return c;
}
KASURI__COLD struct kasuri__client *kasuri__get_client(void) {
    long error;
    return kasuri__make_client(&error);
}

/* Whether the stamps can be of the session's clock. */
KASURI__COLD int kasuri__has_clock(const struct kasuri_control *k) {
    return k->clock == KASURI_CLOCK_MONOTONIC || (k->clock == KASURI_CLOCK_NATIVE && KASURI__NATIVE);
}

/* Tell the recorder that this program cannot take part: it says so to its user. `swapped`: in the other byte order, in which
 * the page is. ORDER relaxed: a count. */
KASURI__COLD void kasuri__count_foreign(struct kasuri_control *k, int swapped) {
    uint32_t size = swapped ? __builtin_bswap32(k->struct_size) : k->struct_size, was = KASURI__GET(k->foreign), now;
    if (size < offsetof(struct kasuri_control, foreign) + 4)
        return;
    do
        now = swapped ? __builtin_bswap32(__builtin_bswap32(was) + 1) : was + 1;
    while (!__atomic_compare_exchange_n(&k->foreign, &was, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* Whether the page is that of a session that still records, in which this program can take part. Until that is known it may
 * be anyone's file, or an older recorder's. A recorder writes the page whole before it announces the session, so plain reads
 * are enough. A later version of the ABI may have a longer struct, so a larger struct_size is accepted; another version is
 * not. */
KASURI__COLD int kasuri__is_ours(struct kasuri_control *k) {
    uint32_t b = k->chunk_bytes;
    if (k->magic == __builtin_bswap64(KASURI_MAGIC_CONTROL)) {
        kasuri__count_foreign(k, 1);
        return 0;
    }
    if (k->magic != KASURI_MAGIC_CONTROL || k->version != KASURI_ABI_VERSION ||
        k->struct_size < offsetof(struct kasuri_control, foreign) || k->state == KASURI_SESSION_STOPPED ||
        k->policy < KASURI_POLICY_GROW || k->policy > KASURI_POLICY_OVERWRITE || k->clock < KASURI_CLOCK_NATIVE ||
        k->clock > KASURI_CLOCK_MONOTONIC || b < 4096 || b > 1u << 20 || (b & (b - 1)) != 0 || !k->first_chunks)
        return 0;
    if (!kasuri__has_clock(k))
        kasuri__count_foreign(k, 0);
    return kasuri__has_clock(k);
}

/* Map and check the session's control page. Return: null when it is not one for this program. */
KASURI__COLD struct kasuri_control *kasuri__open_control(void) {
    struct kasuri_control *k = 0;
    int fd = kasuri__open(0, KASURI__CONTROL, O_RDWR | KASURI__O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (KASURI__CALL(SYS_lseek, fd, 0, SEEK_END, 0) >= (long)sizeof *k)
        k = (struct kasuri_control *)kasuri__map(0, 4096, MAP_SHARED, fd);
    kasuri__close(fd);
    if (!k || kasuri__is_ours(k))
        return k;
    KASURI__CALL(SYS_munmap, k, 4096, 0, 0);
    return 0;
}

/* Tell the session at kasuri__process.session that this program has no memory for a client. */
KASURI__COLD void kasuri__refuse(long error) {
    struct kasuri_control *k = kasuri__open_control();
    if (!k)
        return;
    kasuri__hinder(k, error, 1);
    __atomic_fetch_add(&k->refused, 1, __ATOMIC_RELAXED);
    KASURI__CALL(SYS_munmap, k, 4096, 0, 0);
}

/* -- leaving a session (ring.md, race 11) --
 *
 * A server may be recorded for some seconds every day, for months: the memory of one recording must be given back
 * before the next one. But any thread may be at any instruction of an emit. The holder of `attaching` takes these
 * steps, in this order:
 *   end_session      a new epoch; all limits 0: no thread writes on the fast path that starts later
 *   settle           a barrier; wait until no thread is in the slow path; take all positions away
 *   release          unmap each segment in which no reserved slot is uncommitted; keep the others as graves
 * Where settle fails, bury_all keeps all addresses mapped. An emit fills every slot that it has reserved, even when
 * the session is gone: so memory with an open slot must stay mapped, and may go once the slot is committed.
 */

/* A full barrier in each running thread of the process, by membarrier(2). The threads complete what they had begun,
 * an unlocked addition included, and what they do later comes after what we did before. So the fast path needs no
 * fence of its own. Return: 0 where the kernel has no membarrier: then nothing is given back. */
KASURI__COLD int kasuri__barrier(struct kasuri__client *c) {
    if (!c->has_barrier) /* the first time takes some 10 ms in a program with threads */
        c->has_barrier = KASURI__CALL(SYS_membarrier, KASURI__MEMBARRIER_REGISTER, 0, 0, 0) == 0;
    return c->has_barrier && KASURI__CALL(SYS_membarrier, KASURI__MEMBARRIER, 0, 0, 0) == 0;
}

/* How many entries of threads[] were ever used. ORDER relaxed: a thread that is missed has not yet been in the slow
 * path of this session, so it holds none of its chunks. */
KASURI__COLD uint32_t kasuri__n_threads(struct kasuri__client *c) {
    uint32_t n = __atomic_load_n(&c->n_threads, __ATOMIC_RELAXED);
    return n < KASURI__MAX_WRITERS ? n : (uint32_t)KASURI__MAX_WRITERS;
}

/* Whether this thread is alone in the slow path and no thread counts a loss. No thread comes in while we hold
 * `attaching`. */
KASURI__COLD int kasuri__is_quiet(struct kasuri__client *c) {
    uint32_t i, n = kasuri__n_threads(c);
    /* ORDER acquire; pairs with the release in exit(): whatever that thread did to the session is done. `inside` is
     * 1 for ourselves. */
    if (__atomic_load_n(&c->inside, __ATOMIC_ACQUIRE) != 1)
        return 0;
    /* ORDER acquire; pairs with the release in count_stalled(), in the same way. */
    for (i = 0; i < n; i++)
        if (__atomic_load_n(&c->threads[i].counting, __ATOMIC_ACQUIRE))
            return 0;
    return 1;
}

/* Take away all positions: what is reserved from now on lies in no chunk. A thread's own unlocked addition may undo
 * the exchange, as it stores what it computed from the old value. The barrier ends such an addition, and the next
 * round sees it. The position is exchanged and not read and then stored: an addition between the two would go unseen
 * (models/ring, control `positions_taken_by_load_and_store`). ORDER relaxed for the position: the barrier of all
 * threads is the order. Return: whether all are gone; `left` then says how far each thread had come. */
KASURI__COLD int kasuri__take_positions(struct kasuri__client *c) {
    uint32_t i, n = kasuri__n_threads(c), round, some = 1;
    for (i = 0; i < n; i++)
        c->threads[i].left = 0;
    for (round = 0; some && round < 10; round++) {
        for (i = some = 0; i < n; i++) {
            struct kasuri__thread *t = &c->threads[i];
            if (kasuri__chunk_of(__atomic_load_n(&t->w.pos, __ATOMIC_RELAXED))) {
                t->left = __atomic_exchange_n(&t->w.pos, 0, __ATOMIC_RELAXED);
                some = 1;
            }
        }
        if (some && !kasuri__barrier(c))
            return 0;
    }
    return !some;
}

/* Whether there is such a thread in this process. */
KASURI__COLD int kasuri__lives(const struct kasuri__client *c, uint32_t tid) {
    return KASURI__CALL(SYS_tgkill, c->pid, tid, 0, 0) != -ESRCH;
}

/* The offset up to which an OWNED chunk of the session that we leave was reserved; 0: not known. A full chunk has it
 * in `used`. For a chunk that its thread was filling, take_positions() has put it into `left`. If that is beyond the
 * chunk, an emit has found that it does not fit and has not yet stored the end (kasuri__note_end): not known, for the
 * moment. A chunk with neither whose thread has ended has nothing open. */
KASURI__COLD uint32_t kasuri__reserved_end(struct kasuri__client *c, const struct kasuri_chunk *chunk, uint32_t bytes) {
    uint32_t i, n = kasuri__n_threads(c), end;
    end = KASURI__GET(chunk->used);
    if (end)
        return end;
    for (i = 0; i < n; i++) {
        const struct kasuri__thread *t = &c->threads[i];
        if (t->epoch + 1 != c->epoch || kasuri__chunk_of(t->left) != (const char *)chunk)
            continue;
        end = (uint32_t)kasuri__offset_of(t->left);
        return end <= c->room && end <= bytes
                   ? end
                   : 0; /* beyond: an emit that was the first not to fit has not said so yet */
    }
    return kasuri__lives(c, chunk->tid) ? 0 : (uint32_t)sizeof *chunk;
}

/* Add to the grave the slots of a chunk that a live thread has reserved and not committed. The length of an open
 * record is unknown until its word 1 is stored, and what follows may be its payload, being written: so the walk ends
 * there. Slots behind it need no look: the same thread reserved them later, in signal handlers, which return before
 * the emit that they interrupt goes on. So they are committed when it is. */
KASURI__COLD void kasuri__find_open(struct kasuri__client *c, const struct kasuri_chunk *chunk, uint32_t bytes,
                                    struct kasuri__grave *g) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    uint32_t end = kasuri__reserved_end(c, chunk, bytes), i = sizeof *chunk / 8;
    if (!end)
        g->n_open = KASURI__MAX_OPEN + 1;
    while (i < end / 8 && g->n_open <= KASURI__MAX_OPEN) {
        /* ORDER acquire; pairs with the release of the commit: the emit that committed has left the slot, and word 1
         * is what it wrote there. */
        int is_open = kasuri__is_open(&words[i]);
        uint32_t slots = kasuri__low(&words[i + 1]) >> 8 & 0xff;
        if (is_open) {
            if (!kasuri__lives(c, chunk->tid))
                return;
            if (g->n_open < KASURI__MAX_OPEN)
                g->open[g->n_open] = &words[i];
            g->n_open++;
        }
        if (!slots)
            return;
        i += 2 * slots;
    }
}

/* Make a segment's grave: list the slots that are still open in it. No other thread may be in the slow path. ORDER
 * relaxed for the states: the owner took its chunk before it left the slow path, and is_quiet() has seen it leave. A
 * chunk that the recorder frees meanwhile was FULL, so nothing is open in it. */
KASURI__COLD struct kasuri__grave kasuri__dig(struct kasuri__client *c, struct kasuri__segment_ref *s) {
    struct kasuri__grave g = {s->header, s->bytes, {0, 0, 0, 0}, 0};
    uint32_t i;
    for (i = 0; i < s->n_chunks && g.n_open <= KASURI__MAX_OPEN; i++)
        if (__atomic_load_n(&kasuri__states(s)[i], __ATOMIC_RELAXED) == KASURI_CHUNK_OWNED)
            kasuri__find_open(c, (struct kasuri_chunk *)(void *)(s->chunks + (uint64_t)i * s->chunk_bytes),
                              s->chunk_bytes, &g);
    return g;
}

/* Map private memory of our own over what was mapped there. Late writers still find memory at the address, and no
 * recorder reads it. */
KASURI__COLD void kasuri__bury(void *at, uint64_t bytes) {
    kasuri__map(at, bytes, KASURI__ANONYMOUS | MAP_FIXED, -1);
}

/* Unmap the graves whose late writers have committed. */
KASURI__COLD void kasuri__clear_graves(struct kasuri__client *c) {
    uint32_t i, k, n = 0;
    for (i = 0; i < c->n_graves; i++) {
        struct kasuri__grave *g = &c->graves[i];
        /* ORDER acquire; pairs with the release of the commit: that emit was the last to touch the slot. */
        for (k = 0; g->n_open <= KASURI__MAX_OPEN && k < g->n_open && !kasuri__is_open(g->open[k]);)
            k++;
        if (k == g->n_open)
            KASURI__CALL(SYS_munmap, g->at, g->bytes, 0, 0);
        else
            c->graves[n++] = *g;
    }
    c->n_graves = n;
}

/* Unmap each segment once nothing is open in it. No other thread is in the slow path, and none has a position in a
 * chunk. An emit that was preempted in a segment gets a while to end. Where a slot is open even then (a signal
 * handler above it sleeps), private memory replaces the segment, and a grave remembers the slot. */
KASURI__COLD void kasuri__release_segments(struct kasuri__client *c) {
    uint32_t i, waits = 0;
    for (i = c->first_segment; i < c->n_segments; i++) {
        struct kasuri__grave g;
        do
            g = kasuri__dig(c, &c->segments[i]);
        while (g.n_open && kasuri__wait_up_to(&waits, KASURI__SETTLES));
        if (!g.n_open) {
            KASURI__CALL(SYS_munmap, g.at, g.bytes, 0, 0);
            continue;
        }
        kasuri__bury(g.at, g.bytes);
        if (c->n_graves < KASURI__MAX_GRAVES)
            c->graves[c->n_graves++] = g;
    }
    kasuri__clear_graves(c);
    KASURI__CALL(SYS_munmap, c->control, 4096, 0, 0);
    KASURI__SET(c->control, 0);
    kasuri__process.control = 0;
    KASURI__SET(c->first_segment, 0);
    /* ORDER release; pairs with the acquires in take_free() and count_lost(): as when a segment is added. No thread
     * looks before the next session. */
    __atomic_store_n(&c->n_segments, 0, __ATOMIC_RELEASE);
}

/* End the session for all threads: with a limit of 0, what they reserve from now on takes the slow path. A thread
 * that has yet to set its limit finds the new epoch afterwards and sets it back to 0 (start_chunk). */
KASURI__COLD void kasuri__end_session(struct kasuri__client *c) {
    uint32_t i, n = kasuri__n_threads(c);
    KASURI__SET(c->state, 0);
    KASURI__SET(c->epoch, ++kasuri__process.epoch);
    /* ORDER seq_cst; pairs with the fence in start_chunk: our epoch before their limits. Without it: a thread goes on
     * in a chunk of this session (models/ring, control `no_fences_at_reattach`). */
    KASURI__FENCE(__ATOMIC_SEQ_CST);
    for (i = 0; i < n; i++)
        KASURI__SET(c->threads[i].w.limit, 0);
    KASURI__TEST_POINT(10);
}

/* Wait until no other thread is in the slow path, then take away all positions that lie in a chunk. A thread in the
 * slow path leaves it when it gets a CPU; on a loaded machine that may take longer than we wait. Return: whether both
 * were reached. */
KASURI__COLD int kasuri__settle(struct kasuri__client *c) {
    uint32_t waits = 0;
    if (!kasuri__barrier(c))
        return 0;
    while (!kasuri__is_quiet(c))
        if (!kasuri__wait_a_little(&waits))
            return 0;
    return kasuri__take_positions(c);
}

/* Replace all that the session had mapped with private memory, for good: another thread may still be in the slow
 * path. The entries in segments[] are not used again. Holder of `growing`, except at the end of the module. */
KASURI__COLD void kasuri__bury_all(struct kasuri__client *c) {
    uint32_t i, n = KASURI__GET(c->n_segments);
    for (i = c->first_segment; i < n; i++)
        kasuri__bury(c->segments[i].header, c->segments[i].bytes);
    kasuri__bury(c->control, 4096); /* stays c->control: those inside look at it */
    KASURI__SET(c->first_segment, n);
}

/* Make p<pid>-<gen>.sites for the first free gen, with all sites known so far. O_EXCL makes the number this client's
 * alone: other modules of this process, and the programs that it ran before exec, have clients of the same pid. In a
 * forked child `parent_*` name the last client that the parent had; 0 otherwise. Return: 0 when the directory has no
 * room for the file. */
KASURI__COLD int kasuri__create_sites(struct kasuri__client *c, uint32_t parent_pid, uint32_t parent_gen) {
    struct kasuri_sites_header h = {KASURI_MAGIC_SITES, KASURI_ABI_VERSION, sizeof h, 0, 0, 0, 0, 0, {0}};
    struct kasuri__block *b;
    int fd = -EEXIST;
    uint32_t gen;
    for (gen = 0; fd == -EEXIST && gen < 65536; gen++) {
        KASURI__SET(c->gen, gen);
        fd = kasuri__open(c, KASURI__SITES, KASURI__O_CREATE);
    }
    if (fd < 0) {
        kasuri__hinder(kasuri__control(c), fd, 0);
        return 0;
    }
    kasuri__close(fd);
    h.pid = c->pid;
    h.gen = c->gen;
    h.parent_pid = parent_pid;
    h.parent_gen = parent_gen;
    c->sites_bytes = c->sites_broken = 0;
    if (!kasuri__write_sites(c, &h, sizeof h))
        return 0;
    for (b = kasuri__process.first; b; b = b->next)
        if (b->used && !kasuri__write_sites(c, b->data, b->used))
            return 0;
    return 1;
}

/* Room for the lists of own chunks of all threads: 32 MiB of addresses, of which pages are touched as needed; wiped by
 * fork. It stays for later sessions. */
KASURI__COLD int kasuri__make_flight(struct kasuri__client *c) {
    uint64_t bytes = (uint64_t)KASURI__MAX_WRITERS * KASURI__MAX_FLIGHT * sizeof *c->flight;
    long at = kasuri__mmap(0, bytes, KASURI__ANONYMOUS, -1);
    if (kasuri__is_error(at)) {
        kasuri__hinder(kasuri__control(c), at, 1);
        return 0;
    }
    c->flight = (struct kasuri__chunk_ref *)at;
    KASURI__CALL(SYS_madvise, c->flight, bytes, KASURI__MADV_WIPEONFORK, 0);
    return 1;
}

/* Join the session at kasuri__process.session: check that its recorder lives, write the names known so far, copy its
 * settings, map a first segment. Holder of attaching, defining and growing. Settings are stored as relaxed atomics, see
 * struct kasuri__client. Return: whether the client is in it. */
KASURI__COLD int kasuri__join(struct kasuri__client *c, uint32_t parent_pid, uint32_t parent_gen) {
    struct kasuri_control *k = kasuri__open_control(), *parents = kasuri__process.control;
    if (!k) { /* a child that does not see the session, as after chroot, says so in its parent's page */
        if (parents && parents->state != KASURI_SESSION_STOPPED)
            __atomic_fetch_add(&parents->refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    kasuri__process.control = k;
    KASURI__SET(c->control, k); /* an earlier page, if any, is private memory now: other threads may still look at it */
    if (!kasuri__recorder_lives(c))
        return 0;
    if (!kasuri__create_sites(c, parent_pid, parent_gen) ||
        (k->policy == KASURI_POLICY_OVERWRITE && !c->flight && !kasuri__make_flight(c))) {
        __atomic_fetch_add(&k->refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    KASURI__SET(c->clock, k->clock);
    KASURI__SET(c->chunk_bytes, k->chunk_bytes);
    KASURI__SET(c->max_bytes, (kasuri__word)(k->max_bytes < KASURI__BYTES_MAX ? k->max_bytes : KASURI__BYTES_MAX));
    KASURI__SET(c->flight_chunks, k->flight_chunks < 1                    ? 1
                                  : k->flight_chunks > KASURI__MAX_FLIGHT ? KASURI__MAX_FLIGHT
                                                                          : k->flight_chunks);
    if (!c->room || c->room > c->chunk_bytes)
        KASURI__SET(c->room, c->chunk_bytes < KASURI__ROOM_MAX ? c->chunk_bytes : KASURI__ROOM_MAX);
    KASURI__SET(c->total_bytes, 0);
    KASURI__SET(c->grow_failed, 0);
    KASURI__SET(c->hint, 0);
    c->next_chunks = k->first_chunks;
    /* ORDER release; pairs with the acquire in next_chunk. Publishes c->flight. */
    __atomic_store_n(&c->policy, k->policy, __ATOMIC_RELEASE);
    /* Without room for a chunk we attach all the same: what is lost is counted, and there may be room later. */
    if (!kasuri__grow(c)) {
        KASURI__SET(c->grow_failed, KASURI__FAILED_AT(__atomic_load_n(&k->freed, __ATOMIC_RELAXED)));
        __atomic_fetch_add(&k->refused, 1, __ATOMIC_RELAXED);
    }
    return 1;
}

/* Leave the present session, if there is one, and attach to the one at kasuri__process.asked. Holder of `attaching`,
 * inside the slow path. The old session is dropped while `defining` and `growing` are held, so that a thread stuck
 * under either lock cannot add to it. If one of the locks cannot be had, the gate stays as it is and the next event
 * tries again. Return: whether the client is attached. */
KASURI__COLD int kasuri__attach(struct kasuri__client *c) {
    struct kasuri__process *p = &kasuri__process;
    uint32_t pid = (uint32_t)KASURI__CALL(SYS_getpid, 0, 0, 0, 0), forked = p->pid && p->pid != pid;
    int ok, quiet;
    if (c->pid != pid)
        c->pid = pid;
    kasuri__end_session(c);
    quiet = c->control && kasuri__settle(c);
    if (!kasuri__try_lock(&c->defining))  /* kasuri_intern in another thread */
        return 0;                         /* the gate stays: the next event tries again */
    if (!kasuri__try_lock(&c->growing)) { /* one that is still inside */
        kasuri__unlock(&c->defining);
        return 0;
    }
    if (quiet)
        kasuri__release_segments(c);
    else if (c->control)
        kasuri__bury_all(c);
    __builtin_memcpy(p->session, p->asked, sizeof p->session);
    ok = kasuri__join(c, forked ? p->pid : 0, forked ? p->gen : 0);
    kasuri__unlock(&c->growing);
    if (ok) {
        p->pid = pid;
        p->gen = c->gen;
        /* ORDER release; pairs with the acquire in session_of(). Publishes what join() set: the gate may be 1 all the
         * while, in a forked child. */
        __atomic_store_n(&c->state, 1, __ATOMIC_RELEASE);
    }
    kasuri__unlock(&c->defining);
    /* ORDER release; pairs with the acquire of the gate in session_of(): a thread that reads 1 there finds the client
     * attached. */
    __atomic_store_n(&kasuri__gate.gate, ok ? 1u : 0u, __ATOMIC_RELEASE);
    return ok;
}

/* gate == 2: `kasuri record -p` has left the session's path in the symbolic link /dev/shm/kasuri-attach-<pid>.
 * Any user may make a file there, so the link must belong to our user or to root: another user's would make this
 * process write into files of that user's choice. The present session is kept while its recorder lives. Return:
 * whether the client is attached. */
KASURI__COLD int kasuri__attach_request(struct kasuri__client *c) {
    char path[64] = "/dev/shm/kasuri-attach-", *asked = kasuri__process.asked;
    const uint64_t size = sizeof kasuri__process.asked;
    uint32_t lives = c->state == 1 ? (uint32_t)kasuri__recorder_lives(c) : 0, keep = lives != 0;
    uint32_t status[64] = {0}, owner; /* struct statx */
    long r = -1, looked;
    *kasuri__digits(path + 23, (uint32_t)KASURI__CALL(SYS_getpid, 0, 0, 0, 0)) = 0;
    looked = kasuri__call(SYS_statx, KASURI__AT_FDCWD, (long)path, KASURI__AT_SYMLINK_NOFOLLOW, KASURI__STATX_UID,
                          (long)status, 0);
    owner = status[KASURI__STATX_UID_WORD];
    if (lives != 1 && looked == 0 && (owner == 0 || owner == (uint32_t)KASURI__CALL(KASURI__SYS_GETEUID, 0, 0, 0, 0)))
        r = KASURI__CALL(SYS_readlinkat, KASURI__AT_FDCWD, path, asked, size);
    if (r <= 0 || (uint64_t)r >= size) {
        /* ORDER release; pairs with the acquire in session_of(), as in attach(); `keep` is 1 only where a session
         * was attached before. */
        __atomic_store_n(&kasuri__gate.gate, keep, __ATOMIC_RELEASE);
        return (int)keep;
    }
    asked[r] = 0;
    return kasuri__attach(c);
}

/* The session that the process is in, by its epoch; 0: none.
 *
 * The epoch is read before gate and state, and again after them. If it were read only after them, this thread could
 * find the old session attached, be overtaken by a thread that leaves it, and take the new epoch for itself together
 * with a chunk of the old session, whose limit it would set after all limits were zeroed. The next event would then
 * be written into memory that is unmapped (test `a_session_may_end_under_the_slow_path`). */
KASURI__COLD uint32_t kasuri__session_of(struct kasuri__client *c) {
    /* ORDER acquire, all three: each read comes after the one before. Those of gate and state pair with the releases in
     * attach(); they publish what join() set. */
    uint32_t epoch = __atomic_load_n(&c->epoch, __ATOMIC_ACQUIRE);
    uint32_t gate = __atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE);
    uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
    KASURI__TEST_POINT(12);
    return gate == 1 && state == 1 && epoch == KASURI__GET(c->epoch) ? epoch : 0;
}

/* Wait for the thread that attaches a forked child: the gate is 1 all the while, so the program counts this event as
 * emitted. That thread does not wait for those inside the slow path, since a child has no session to leave. Where a
 * recorder has asked (gate 2), the event comes too early. Return: the epoch of the session, or 0. */
KASURI__COLD uint32_t kasuri__wait_for_session(struct kasuri__client *c) {
    uint32_t waits = 0, epoch = 0;
    while (!epoch && kasuri__gate_load() == 1 && kasuri__wait_a_little(&waits))
        epoch = kasuri__session_of(c);
    return epoch;
}

/* Make the client ready as the gate asks: attach where a recorder has asked for it (2), or where the gate is open
 * and the client is new, which happens in a forked child. The gate is read again under the lock, since another thread
 * may just have attached. Called inside the slow path. Return: the epoch of the session that keeps the events, or
 * 0. */
KASURI__COLD uint32_t kasuri__ready(struct kasuri__client *c) {
    uint32_t gate, epoch = kasuri__session_of(c);
    int ok;
    if (epoch || !kasuri__gate_load())
        return epoch;
    /* ORDER acquire; pairs with the release in unlock(). Publishes all that the holder before us set. */
    if (__atomic_exchange_n(&c->attaching, 1, __ATOMIC_ACQUIRE))
        return kasuri__wait_for_session(c);
    /* ORDER acquire: none is needed after the lock; the recorder, another process, writes only the number 2. */
    gate = __atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE);
    if (gate == 2)
        ok = kasuri__attach_request(c);
    else
        ok = gate == 1 && (c->state == 1 || kasuri__attach(c)); /* state 0 behind an open gate: we are a forked child */
    epoch = ok ? c->epoch : 0;
    kasuri__unlock(&c->attaching);
    return epoch;
}

/* -- threads --
 *
 * Each thread that emits has an entry in client.threads[], found through the thread-local kasuri__writer. Entries are
 * handed out in order of the threads' first events. The client gets no notice when a thread ends: a destructor of
 * thread-specific data would have to run after all other destructors that annotate. So a new thread looks at up to
 * four entries in turn, asks the kernel whether their owners live (tgkill with signal 0), and takes the entry of one
 * that has ended. In a program that starts and ends threads all the time, the table so stays about as large as the
 * number of threads that live at once.
 *
 * If the kernel has given the TID of an ended owner to another thread of the process, the entry counts as taken until
 * that thread ends, too.
 */

/* Take entry `t`, whose owner `old` has ended or which is free (`old` 0). Return: whether it is ours. */
KASURI__COLD int kasuri__claim(struct kasuri__thread *t, uint32_t old, uint32_t tid) {
    KASURI__TSAN_ACQUIRE((uintptr_t)t & ~(uintptr_t)4095); /* what a dead thread did to it, which TSan cannot order */
    /* ORDER acq_rel; pairs with itself in other threads and with the acquire load in new_thread(). Acquires what the
     * owner before left in the entry, and publishes that it is taken. */
    return __atomic_compare_exchange_n(&t->tid, &old, tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* An entry for a new thread: that of a thread which has ended, if one of the next four has; else a fresh one. The
 * first 16 threads always get fresh ones, so that small programs make no system calls for this. Return: null when
 * all entries are taken. */
KASURI__COLD struct kasuri__thread *kasuri__new_thread(struct kasuri__client *c, uint32_t tid) {
    uint32_t i, n = __atomic_load_n(&c->n_threads, __ATOMIC_RELAXED);
    for (i = 0; i < 4 && n >= 16; i++) {
        struct kasuri__thread *t = &c->threads[__atomic_fetch_add(&c->reclaim, 1, __ATOMIC_RELAXED) %
                                               (n < KASURI__MAX_WRITERS ? n : (uint32_t)KASURI__MAX_WRITERS)];
        /* ORDER acquire; pairs with the release in claim(). */
        uint32_t old = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE);
        if (old && old != tid && kasuri__lives(c, old))
            continue;
        if (kasuri__claim(t, old, tid))
            return t;
    }
    if (n >= KASURI__MAX_WRITERS || (n = __atomic_fetch_add(&c->n_threads, 1, __ATOMIC_RELAXED)) >= KASURI__MAX_WRITERS)
        return 0;
    return kasuri__claim(&c->threads[n], 0, tid) ? &c->threads[n] : 0;
}

/* The calling thread's entry, moved to session `epoch` if it belongs to another. What the thread had in an earlier
 * session is dropped: its chunks there were given back, or belong to a recorder that reads them without us. Position
 * and limit are stored atomically since a thread that leaves a session writes them, too. Return: null when 8,192
 * threads have entries. */
KASURI__COLD struct kasuri__thread *kasuri__this_thread(struct kasuri__client *c, uint32_t epoch) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    if (!t || !t->tid) { /* new, or wiped by fork */
        t = kasuri__new_thread(c, (uint32_t)KASURI__CALL(SYS_gettid, 0, 0, 0, 0));
        if (!t)
            return 0;
        t->epoch = t->counting = 0;
    }
    if (t->epoch != epoch) {
        uint32_t i;
        __atomic_store_n(&t->w.limit, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&t->w.pos, 0, __ATOMIC_RELAXED);
        t->now.chunk = 0;
        for (i = 0; i < KASURI__DEFERRED; i++)
            t->deferred[i].chunk = 0;
        t->seq = 0;
        t->stalled = t->own_head = t->n_own = 0;
        t->room = KASURI__GET(c->room);
        t->stream = __atomic_add_fetch(&c->next_stream, 1, __ATOMIC_RELAXED);
        t->epoch = epoch;
    }
    kasuri__writer = &t->w;
    return t;
}

/* -- an event, out of line --
 *
 * An event comes here when the fast path could not write it: the chunk is full or missing, the site has no id yet,
 * the session's clock needs a system call, the payload is a text, or the gate is not 1. The way of an event:
 *   emit_slow       signals may come: fills a slot that is reserved already, or counts a loss like the last one
 *   emit_blocked    signals blocked, counted in `inside`: attaches, finds the thread's entry and the site's id
 *   reserve_slow    gets the next chunk if the present one is full
 *   fill            stores word 1, the payload, and last the stamp
 */

/* Store where a chunk's events end if this reservation was the first that did not fit. It is stored at once, whatever
 * becomes of the event: a thread that leaves the session must keep a chunk for good if its end is not known. Only the
 * first failure has an offset of at most `room`, so a handler that interrupts this does not store another end, and the
 * chunk is not emptied before. Once for each reservation: when the end is stored, a handler may empty the chunk and fill
 * it anew, and then this offset is not its end. ORDER relaxed: an offset; its readers look at each slot below it. */
KASURI__COLD void kasuri__note_end(struct kasuri__client *c, struct kasuri__thread *t, kasuri__word pos,
                                   uint64_t bytes) {
    struct kasuri_chunk *chunk = (struct kasuri_chunk *)(void *)kasuri__chunk_of(pos);
    uint32_t off = (uint32_t)kasuri__offset_of(pos), i, mine = chunk == t->now.chunk;
    if (!chunk || off < sizeof *chunk || off > t->room || off + bytes <= t->room)
        return;
    for (i = 0; i < KASURI__DEFERRED; i++)
        mine |= chunk == t->deferred[i].chunk;
    for (i = 0; i < t->n_own; i++) /* a handler may have gone on to another one */
        mine |= chunk == kasuri__own_chunks(c, t)[i].chunk;
    if (mine && !KASURI__GET(chunk->used))
        KASURI__SET(chunk->used, off);
}

/* Reserve a slot of `bytes`, with signals blocked, where the fast path could not. `pos`: the position that the fast
 * path got, or 0. One that does not fit says nothing about the present chunk: a handler may have replaced that, or
 * emptied it and begun it anew. So the reservation is repeated there, and if it does not fit the thread needs the next
 * chunk. Return: the slot, or null with the cause in stalled_cause. */
KASURI__COLD uint64_t *kasuri__reserve_slow(struct kasuri__client *c, struct kasuri__thread *t, kasuri__word pos,
                                            uint32_t bytes) {
    int is_full = !t->now.chunk;
    for (;;) {
        uint64_t off = kasuri__offset_of(pos);
        /* The reservation may be good: with a limit of 0 all events come here. It is ours, whatever chunk it is in. */
        if (kasuri__chunk_of(pos) && off >= sizeof(struct kasuri_chunk) && off + bytes <= t->room)
            return kasuri__slot(pos);
        if (is_full && !kasuri__next_chunk(c, t))
            return 0;
        pos = kasuri__reserve(&t->w, bytes);
        kasuri__note_end(c, t, pos, bytes);
        is_full = 1; /* if it does not fit */
    }
}

/* Fill and commit a reserved slot. `size` is that of the record in bytes, a multiple of 16; it replaces the number of
 * slots in `kind`, which the inlined code does not know for texts. The last slot is zeroed first, so that a text is
 * padded with 0. */
KASURI__COLD void kasuri__fill(struct kasuri__client *c, uint64_t *slot, uint32_t kind, int32_t id, uint64_t stamp,
                               uint64_t size, const void *payload, uint64_t bytes) {
    kasuri__word1(slot, (kind & 0xffff00ff) | (uint32_t)(size / 16) << 8, id);
    if (bytes) {
        /* ORDER release; pairs with the acquire fence of a reader, as in kasuri__payload: word 1 before any of the
         * payload, which memcpy stores in whatever order and width. A reader that sees a torn word looks at word 1
         * again and steps over it. */
        KASURI__FENCE(__ATOMIC_RELEASE);
        slot[size / 8 - 1] = slot[size / 8 - 2] = 0;
        __builtin_memcpy(slot + 2, payload, bytes);
    }
    kasuri__commit(slot, stamp && kasuri__stamps_natively(c) ? stamp : kasuri__now(c));
}

/* Count an event whose annotation began while the gate was open, and which now finds it closed: the recorder has
 * stopped or died, and another thread has noticed. The event is lost like that thread's own, which finds no next chunk
 * (cause FULL): the recorder may read the losses when the program has ended, or `kasuri recover` later. Each thread
 * comes here once at most, as its next annotation finds the gate closed. Not counted: an event during whose emission
 * the client has left its session (state 0). The thread is inside the slow path, so if it finds the session attached,
 * what it counts in stays mapped. */
KASURI__COLD void kasuri__count_closed(struct kasuri__client *c) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    /* ORDER acquire, all three, as in session_of(): each read comes after the one before. That of state pairs with the
     * release in attach(), which publishes what join() set. */
    uint32_t epoch = __atomic_load_n(&c->epoch, __ATOMIC_ACQUIRE);
    uint32_t gate = __atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE);
    uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
    if (gate == 0 && state == 1 && epoch == KASURI__GET(c->epoch))
        kasuri__count_lost(c, t && t->epoch == epoch ? t : 0, KASURI_LOST_FULL);
}

/* Emit one event; signals are blocked, and the thread counts in `inside`. `stamp`: when it happened, on the CPU's
 * counter; 0: now. An event that cannot be written is counted as lost by cause, unless the client has no session:
 * then the program was not being recorded. In a stalled thread every 4,096th event asks whether the recorder lives,
 * since a recorder that was killed does not store STOPPED. */
KASURI__COLD void kasuri__emit_blocked(struct kasuri__client *c, struct kasuri_site *site, int32_t id, uint32_t kind,
                                       kasuri__word pos, uint64_t stamp, const void *payload, uint64_t bytes) {
    uint64_t size = 16 + ((bytes + 15) & ~15ull), *slot;
    struct kasuri__thread *t;
    uint32_t epoch;
    int32_t known;
    epoch = kasuri__ready(c);
    if (!epoch) {
        kasuri__count_closed(c);
        return;
    }
    KASURI__TEST_POINT(9);
    t = kasuri__this_thread(c, epoch);
    known = site ? kasuri__site_id(c, site) : id;
    if (!t || (site && !known) || bytes > KASURI_EVENT_MAX) {
        kasuri__count_lost(c, t, !t ? KASURI_LOST_FULL : bytes > KASURI_EVENT_MAX ? KASURI_LOST_BIG : KASURI_LOST_SITE);
        return;
    }
    slot = kasuri__reserve_slow(c, t, pos, (uint32_t)size);
    if (!slot) {
        if (t->stalled && t->stalled_events++ % 4096 == 0 && !kasuri__recorder_lives(c))
            kasuri__close_gate(c, t->epoch);
        kasuri__count_lost(c, t, t->stalled_cause);
        return;
    }
    kasuri__fill(c, slot, kind, known, stamp, size, payload, bytes);
}

/* Reserve the slot of a text, or say where the chunk's events end if it is the first that does not fit. With 32 bits a
 * position that is beyond the chunk already stays: texts are long, and the room that it may rise by is small (see
 * kasuri__clamp). ORDER relaxed: as in kasuri__reserve. */
KASURI__INLINE kasuri__word kasuri__reserve_text(struct kasuri__writer *w, uint32_t bytes) {
#if UINTPTR_MAX > 0xffffffffu
    return kasuri__reserve(w, bytes);
#else
    kasuri__word pos = __atomic_load_n(&w->pos, __ATOMIC_RELAXED);
    while ((pos & KASURI__OFF_MASK) < KASURI__OFF_LOST &&
           !__atomic_compare_exchange_n(&w->pos, &pos, pos + bytes / KASURI__OFF_UNIT, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
    return pos;
#endif
}

/* Write an event whose slot is reserved, or can be. All events come this way with clock MONOTONIC, reserved already,
 * and so do texts, which reserve here. Signals may come, as on the fast path. A slot that was reserved is filled even
 * if its session has ended: until then its memory stays mapped (ring.md, race 11). Return: 1 when the event is
 * written; 0 when it needs the rest of the slow path, which goes on with *pos. */
KASURI__COLD int kasuri__emit_reserved(struct kasuri__client *c, struct kasuri__thread *t, int32_t id, uint32_t kind,
                                       kasuri__word *pos, uint64_t stamp, const void *payload, uint64_t bytes) {
    uint64_t size = 16 + ((bytes + 15) & ~15ull), off;
    uint32_t is_ours = t->epoch == __atomic_load_n(&c->epoch, __ATOMIC_RELAXED);
    if (!*pos) {
        if (!is_ours || kasuri__gate_load() != 1 || id < 0 || bytes > KASURI_EVENT_MAX || !t->room)
            return 0;
        *pos = kasuri__reserve_text(&t->w, (uint32_t)size);
    }
    off = kasuri__offset_of(*pos);
    if (!kasuri__chunk_of(*pos) || off < sizeof(struct kasuri_chunk) || off + size > t->room)
        return 0;
    kasuri__fill(c, kasuri__slot(*pos), kind, id, stamp, size, payload, bytes);
    if (!is_ours)
        *pos = 0; /* no recorder reads that slot any more: emit the event again, in the present session */
    return (int)is_ours;
}

/* Whether the slow path can keep the event: not while another thread attaches because a recorder has asked for it. It
 * saves two system calls for each event that comes too early. ORDER relaxed: a stale answer costs one such event, or
 * one entry in vain. */
KASURI__COLD int kasuri__may_enter(struct kasuri__client *c) {
    return !__atomic_load_n(&c->attaching, __ATOMIC_RELAXED) || kasuri__gate_load() == 1;
}

/* Enter the slow path; signals are blocked. ORDER seq_cst; pairs with the barrier of all threads in settle(). We raise
 * `inside` and then read epoch, gate and state; a thread that leaves a session changes those and then reads `inside`.
 * One of the two sees the other: either we find no session, or it waits for us. */
KASURI__COLD void kasuri__enter(struct kasuri__client *c) {
    __atomic_fetch_add(&c->inside, 1, __ATOMIC_SEQ_CST);
}
/* ORDER release; pairs with the acquire load in is_quiet(): a thread that then unmaps a segment finds that we are
 * done with it. */
KASURI__COLD void kasuri__exit(struct kasuri__client *c) {
    __atomic_fetch_sub(&c->inside, 1, __ATOMIC_RELEASE);
}

/* Emit an event where no system call may be made: the program has confined itself by seccomp. Chunks that are mapped are
 * used on, as the recorder frees them; no other segment, no new thread or name, which need calls. What cannot be written
 * is counted, but for a child forked since, which has no session to count in.
 *
 * Signals are not blocked. A handler that comes while this thread gets a chunk finds `busy`, counts its event as lost, in
 * the chunk that `now` names then, and has returned before we go on: to it the steps of next_chunk() are one. The chunk
 * that we leave is full, so no handler writes there any more. */
KASURI__COLD void kasuri__emit_confined(struct kasuri__client *c, struct kasuri_site *site, int32_t id, uint32_t kind,
                                        kasuri__word pos, uint64_t stamp, const void *payload, uint64_t bytes) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    int32_t known = site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : id;
    uint64_t size = 16 + ((bytes + 15) & ~15ull), *slot = 0;
    uint32_t cause = KASURI_LOST_FULL, depth;
    /* ORDER acquire; pairs with the release in attach(). Publishes what join() set. */
    if (!c || kasuri__gate_load() != 1 || __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != 1)
        return;
    if (t && (!t->tid || t->epoch != KASURI__GET(c->epoch)))
        t = 0;
    if (bytes > KASURI_EVENT_MAX) {
        cause = KASURI_LOST_BIG;
    } else if (site && known <= 0) {
        cause = KASURI_LOST_SITE;
    } else if (t && !t->busy) {
        /* ORDER none in hardware, both; the partner is a handler of this thread: what it finds changed lies between. */
        t->busy = 1;
        __asm__ volatile("" : : : "memory");
        slot = kasuri__reserve_slow(c, t, pos, (uint32_t)size);
        __asm__ volatile("" : : : "memory");
        t->busy = 0;
        cause = t->stalled_cause;
    }
    if (slot) {
        kasuri__fill(c, slot, kind, known, stamp, size, payload, bytes);
        return;
    }
    /* `counting` keeps the chunk, as in count_stalled(). */
    depth = t ? t->counting : 0;
    if (t)
        __atomic_store_n(&t->counting, depth + 1, __ATOMIC_RELAXED);
    /* ORDER none in hardware; the partner is hand_over() in a handler of this thread: it finds `counting` raised. */
    __asm__ volatile("" : : : "memory");
    kasuri__count_lost(c, t, cause);
    /* ORDER release; pairs with the acquire load in is_quiet(): a thread that then unmaps the chunk finds us out of it. */
    if (t)
        __atomic_store_n(&t->counting, depth, __ATOMIC_RELEASE);
}

/* Emit an event that the fast path could not write. The cheap cases come first: a slot that is reserved already, or
 * can be (clock MONOTONIC, texts); a loss with the cause of the last one, 20 ns; then, with signals blocked by two
 * system calls, everything else. */
KASURI__COLD void kasuri__emit_slow(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos,
                                    uint64_t stamp, const void *payload, uint64_t bytes) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    /* ORDER acquire; pairs with the release in get_client(). */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE);
    uint64_t mask[2];
    /* ORDER acquire; pairs with the release store of the gate by the library that wrote the hook before it. */
    if (__atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE) == 3) {
        kasuri__hook.u.take(site, kind, payload, bytes);
        return;
    }
    KASURI__TEST_POINT(11);
    if (c && t) {
        kasuri__clamp(&t->w);
        if ((!site || id > 0) && kasuri__emit_reserved(c, t, id, kind, &pos, stamp, payload, bytes))
            return;
        kasuri__note_end(c, t, pos, 16 + ((bytes + 15) & ~15ull));
        KASURI__TEST_POINT(13);
        /* Not for the first event that does not fit into a chunk: it says where the chunk's events end. */
        if (t->stalled && bytes <= KASURI_EVENT_MAX && (!t->now.chunk || kasuri__offset_of(pos) > t->room) &&
            kasuri__count_stalled(c, t))
            return;
    }
    if (c && !kasuri__may_enter(c))
        return;
    if (!kasuri__begin_calls(mask)) {
        kasuri__emit_confined(c, site, id, kind, pos, stamp, payload, bytes);
        return;
    }
    c = kasuri__get_client();
    if (c) {
        kasuri__enter(c);
        kasuri__emit_blocked(c, site, id, kind, pos, stamp, payload, bytes);
        kasuri__exit(c);
    } else {
        kasuri__close_gate(0, 0);
    }
    KASURI__TSAN_RELEASE(kasuri__writer);
    kasuri__end_calls(mask);
}

/* -- entry points of inlined code -- */

/* The functions below are weak and hidden: however many files of a module include this header, the linker keeps one
 * of each. The number of slots is in `kind`, so `a` and `b` are ignored for an event without payload. */
KASURI__HIDDEN void kasuri__slow_at(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos,
                                    uint64_t stamp, uint64_t a, uint64_t b) {
    uint64_t payload[2];
    payload[0] = a;
    payload[1] = b;
    kasuri__emit_slow(site, id, kind, pos, stamp, payload, ((kind >> 8 & 0xff) - 1) * 16u);
}

KASURI__HIDDEN void kasuri__slow(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos, uint64_t a,
                                 uint64_t b) {
    kasuri__slow_at(site, id, kind, pos, 0, a, b);
}

/* Texts. Their length goes into aux: 16 bits, or the upper 12 of an argument, whose type has the lower 4. */
KASURI__HIDDEN void kasuri__slow_bytes(struct kasuri_site *site, int32_t id, uint32_t kind, const void *data,
                                       uint64_t bytes) {
    uint32_t is_arg = (kind & 0xff) == KASURI_EV_ARG, length = bytes > 4095 ? 4095 : (uint32_t)bytes;
    kasuri__emit_slow(site, id, kind | length << (is_arg ? 20 : 16), 0, 0, data, bytes);
}

/* KASURI_MESSAGE. Safe in signal handlers as far as vsnprintf is. The buffer is one byte larger than the longest text,
 * for the NUL; vsnprintf returns the full length, so a text that is too long is counted as BIG. */
KASURI__HIDDEN void kasuri__message(struct kasuri_site *site, int32_t id, const char *format, ...) {
    char text[KASURI_EVENT_MAX + 1];
    va_list list;
    int n, saved = errno;
    va_start(list, format);
    n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    errno = saved;
    if (n >= 0)
        kasuri__slow_bytes(site, id, KASURI_EV_MESSAGE, text, (uint64_t)n);
}

/* Ask a flight recorder to save a snapshot: it saves one for each change of `trigger` that it sees. */
KASURI__HIDDEN void kasuri__trigger(void) {
    /* ORDER acquire; pairs with the release in get_client(). */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE);
    uint64_t mask[2];
    if (!c || !kasuri__begin_calls(mask))
        return;
    kasuri__enter(c);
    /* ORDER release; pairs with the recorder's acquire load: the events that led to the trigger are in the rings
     * when the recorder sees it. */
    if (__atomic_load_n(&c->state, __ATOMIC_RELAXED) == 1)
        __atomic_fetch_add(&kasuri__control(c)->trigger, 1, __ATOMIC_RELEASE);
    kasuri__exit(c);
    kasuri__end_calls(mask);
}

/* The id of a name that was interned before, or 0; linear in the number of definitions. Interned names have neither
 * line nor file, which sites in source have. Holder of `defining`. */
KASURI__COLD uint32_t kasuri__find_name(const char *name, uint32_t length) {
    struct kasuri__block *b;
    uint64_t at;
    for (b = kasuri__process.first; b; b = b->next)
        for (at = 0; at < b->used;) {
            struct kasuri_site_def *def = (struct kasuri_site_def *)(void *)(b->data + at);
            if (!def->line && !def->file_len && def->name_len == length && !__builtin_memcmp(def + 1, name, length))
                return def->id;
            at += def->bytes;
        }
    return 0;
}

/* kasuri_intern. Works without a recorder, too: the name is kept and written for the next one. Signals are blocked
 * since a handler may intern a name as well, and would wait for the lock that this thread holds. */
KASURI__HIDDEN uint32_t kasuri__intern(const char *name) {
    uint64_t mask[2];
    uint32_t id = 0;
    struct kasuri__client *c;
    if (!kasuri__begin_calls(mask))
        return 0;
    c = kasuri__get_client();
    if (c && name && kasuri__try_lock(&c->defining)) {
        id = kasuri__find_name(name, kasuri__length(name));
        if (!id)
            id = kasuri__define(c, name, 0, 0, 0);
        kasuri__unlock(&c->defining);
    }
    kasuri__end_calls(mask);
    return id;
}

/* -- start and end of the module --
 *
 * A constructor attaches to the session that KASURI_SESSION names, a destructor hands over the chunks of a shared
 * object that is unloaded. Both have priority 101, the first that programs may use: so constructors of the program find
 * the client attached, and its destructors can still annotate. */

/* Attach when the program or module is loaded and KASURI_SESSION names a session. In a set-user-id program the
 * environment comes from the caller, who must not make the program write into files of the caller's choice. */
KASURI__HIDDEN void kasuri__start(void) {
    struct kasuri__process *p = &kasuri__process;
    const char *session = getenv("KASURI_SESSION");
    uint64_t mask[2];
    struct kasuri__client *c;
    uint64_t n = session ? __builtin_strlen(session) : 0;
    long error;
    if (p->started || getauxval(AT_SECURE))
        return;
    p->started = 1;
    if (!n || n >= sizeof p->asked || !kasuri__begin_calls(mask))
        return;
    c = kasuri__make_client(&error);
    if (!c) {
        __builtin_memcpy(p->session, session, n + 1);
        kasuri__refuse(error);
    }
    /* ORDER acquire; pairs with the release in unlock(): a constructor may have started threads that attach. */
    if (c && !__atomic_exchange_n(&c->attaching, 1, __ATOMIC_ACQUIRE)) {
        __builtin_memcpy(p->asked, session, n + 1);
        kasuri__enter(c);
        kasuri__attach(c);
        kasuri__exit(c);
        kasuri__unlock(&c->attaching);
    }
    kasuri__end_calls(mask);
}

/* The offset behind the last slot of a chunk that is not all zero: there its events end. */
KASURI__COLD uint32_t kasuri__used(const struct kasuri_chunk *chunk, uint32_t bytes) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    uint32_t i = bytes / 8;
    while (i > 16 && !words[i - 1] && !words[i - 2])
        i -= 2;
    return i * 8;
}

/* Hand over all chunks of a module that is unloaded. This may also be exit, which cannot be told from dlclose; then
 * other threads still run and write. So their addresses get private memory first, and the chunks are closed by way
 * of a second mapping, in which nothing changes any more. */
KASURI__COLD void kasuri__hand_over_all(struct kasuri__client *c) {
    uint32_t i, j;
    for (i = c->first_segment; i < c->n_segments; i++) {
        struct kasuri__segment_ref *s = &c->segments[i], again = *s;
        int fd = kasuri__open(c, (int)(i - c->first_segment), O_RDWR | KASURI__O_CLOEXEC);
        if (fd < 0)
            continue;
        again.header = (struct kasuri_segment *)kasuri__map(0, s->bytes, MAP_SHARED, fd);
        kasuri__close(fd);
        if (!again.header)
            continue;
        kasuri__map(s->header, s->bytes, KASURI__ANONYMOUS | MAP_FIXED, -1);
        again.chunks = (char *)again.header + again.header->chunks_offset;
        for (j = 0; j < again.n_chunks; j++) {
            struct kasuri_chunk *chunk =
                (struct kasuri_chunk *)(void *)(again.chunks + (uint64_t)j * again.chunk_bytes);
            uint32_t *state = &kasuri__states(&again)[j];
            if (__atomic_load_n(state, __ATOMIC_RELAXED) != KASURI_CHUNK_OWNED)
                continue;
            if (!chunk->used)
                chunk->used = kasuri__used(chunk, again.chunk_bytes);
            /* ORDER release; pairs with the recorder's acquire load: as in hand_over(). */
            __atomic_store_n(state, KASURI_CHUNK_FULL, __ATOMIC_RELEASE);
        }
        KASURI__CALL(SYS_munmap, again.header, s->bytes, 0, 0);
    }
}

/* The module is unloaded, or the program ends. Only a shared object can go while its process stays: its chunks are
 * handed over here. Those of the main program are left to the recorder, which takes them when the process is gone,
 * so that destructors which run after this one can still annotate. */
KASURI__HIDDEN void kasuri__stop(void) {
    struct kasuri__client *c = kasuri__process.client;
    const kasuri__elf_header *header = &kasuri__ehdr;
    uint64_t mask[2];
    __asm__("" : "+r"(header)); /* weak: may be null, whatever the compiler thinks of objects */
    if (!c || !header || (uintptr_t)header + header->e_phoff == getauxval(AT_PHDR) || !kasuri__begin_calls(mask))
        return;
    if (c->state == 1 && c->pid == (uint32_t)KASURI__CALL(SYS_getpid, 0, 0, 0, 0)) {
        __atomic_store_n(&kasuri__gate.gate, 0, __ATOMIC_RELAXED);
        kasuri__hand_over_all(c);
        kasuri__end_session(c);
        kasuri__bury_all(c);
    }
    kasuri__end_calls(mask);
}

#ifndef KASURI_LAZY_START
static __attribute__((constructor(101), unused)) void kasuri__constructor(void) {
    kasuri__start();
}
#endif
static __attribute__((destructor(101), unused)) void kasuri__destructor(void) {
    kasuri__stop();
}

#ifdef __cplusplus
}
#endif
#endif /* KASURI_DECLARE_ONLY */

#else
/* With KASURI_DISABLE. */

/* -- without events --
 *
 * Each macro and function of api.h, as nothing. Arguments stand in dead code, so they are not evaluated, and a variable
 * that only an annotation uses causes no warning. A new annotation in api.h needs its line here
 * (annotate/tests/check_api compares the names). */
/* clang-format off */
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
#define KASURI_TASK_JOIN(task, joined) KASURI__UNUSED2(task, joined)
#define KASURI_TASK_DEPENDS(task, on) KASURI__UNUSED2(task, on)
#define KASURI_FLOW_OUT(name, flow) KASURI__UNUSED1(flow)
#define KASURI_FLOW_IN(name, flow) KASURI__UNUSED1(flow)
#define KASURI_ARG_I64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_U64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_F64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_STR(key, s) KASURI__UNUSED1(s)
#define KASURI_MESSAGE(...) do { if (0) { kasuri__unused(__VA_ARGS__); } } while (0)
#define KASURI_THREAD_NAME(s) KASURI__UNUSED1(s)
#ifndef KASURI__NO_RUNTIME_NAMES
/* Complete: annotate/tests/check_api compares. */
static inline uint32_t kasuri_intern(const char *name) { return name ? 1 : 0; }
static inline void kasuri_begin(uint32_t site) { (void)site; }
static inline void kasuri_end(void) {}
static inline void kasuri_instant(uint32_t site) { (void)site; }
static inline void kasuri_counter(uint32_t site, double value) { (void)site; (void)value; }
static inline void kasuri_wait_begin(uint32_t site, uint32_t kind, uint64_t object) { (void)site; (void)kind; (void)object; }
static inline void kasuri_wait_end(uint32_t site, uint32_t kind, uint64_t object) { (void)site; (void)kind; (void)object; }
static inline void kasuri_lock_request(uint32_t site, uint32_t mode, uint64_t lock) { (void)site; (void)mode; (void)lock; }
static inline void kasuri_lock_acquired(uint32_t site, uint32_t mode, uint64_t lock) { (void)site; (void)mode; (void)lock; }
static inline void kasuri_lock_released(uint32_t site, uint32_t mode, uint64_t lock) { (void)site; (void)mode; (void)lock; }
static inline void kasuri_task_event(uint32_t kind, uint32_t site, uint64_t task, uint64_t other) { (void)kind; (void)site; (void)task; (void)other; }
static inline void kasuri_flow_out(uint32_t site, uint64_t flow) { (void)site; (void)flow; }
static inline void kasuri_flow_in(uint32_t site, uint64_t flow) { (void)site; (void)flow; }
static inline void kasuri_arg_i64(uint32_t key, int64_t v) { (void)key; (void)v; }
static inline void kasuri_arg_u64(uint32_t key, uint64_t v) { (void)key; (void)v; }
static inline void kasuri_arg_f64(uint32_t key, double v) { (void)key; (void)v; }
static inline void kasuri_arg_str(uint32_t key, const char *s, uint64_t bytes) { (void)key; (void)s; (void)bytes; }
static inline void kasuri_message(uint32_t site, const char *s, uint64_t bytes) { (void)site; (void)s; (void)bytes; }
static inline void kasuri_thread_name(const char *s, uint64_t bytes) { (void)s; (void)bytes; }
static inline void kasuri_trigger(uint32_t site) { (void)site; }
#endif

/* clang-format on */
#endif /* KASURI_DISABLE */

#endif /* KASURI_H */
