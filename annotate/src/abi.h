/* SPDX-License-Identifier: MIT OR Apache-2.0 */
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
