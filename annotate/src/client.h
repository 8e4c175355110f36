/* SPDX-License-Identifier: MIT OR Apache-2.0 */
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
