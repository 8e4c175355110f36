/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/types.h - what a worker, a thread and a deque slot are. Read this first.
 *
 * Private: programs see only pointers. It is installed because the hot paths that are compiled into programs
 * (ito/inline.h) read these fields. Whenever a field that inline code touches moves, the number of ITO_PRIVATE in
 * src/ito.map changes: the dynamic linker then refuses a program built with another header.
 *
 * A *worker* is a kernel thread that runs ito threads. Its *deque* holds the continuations of threads that created
 * another and wait below it. The worker that a deque belongs to is its *owner*; another worker that takes from it is a
 * *thief*.
 */
#ifndef ITO_TYPES_H
#define ITO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define ITO__FREE_MAX 64u /* descriptors a worker keeps for itself */

/*
 * A stack. This struct lies at its high end; the stack grows down from it. Constant after stack.c has made it, but for
 * `next`, which belongs to the free list that the stack is in.
 *
 *   low         lowest address that is safe to use: above the guard
 *   map, bytes  the mapping, guard included, and its length
 *   size_class  which free list it goes back to (stack.c)
 *   guarded     0 when the kernel gave no guard; the stack is used all the same
 *   next        link of free lists
 *   tls         place for a thread's own libc TLS block; always null in this version
 *   fork_low    below it a forked task gets a stack of its own instead of running on this one
 */
struct __attribute__((aligned(64))) ito__stack {
    char *low;
    char *map;
    size_t bytes;
    uint32_t size_class;
    uint32_t guarded;
    struct ito__stack *next;
    void *tls;
    char *fork_low;
    uint64_t reserved;
};

/*
 * ito_thread.state, the life of a thread. PRIVATE means that nobody but the creator can know this thread, and that the
 * creator's continuation waits below it in the deque of the worker that both are on. Then nobody can look while the
 * thread ends, and the end is a relaxed store. Every other change is an atomic read-modify-write.
 *
 *   from             event                                     to                       by
 *   PRIVATE          suspended, stolen, or its id asked for    SHARED                   compare-and-swap
 *   PRIVATE          ends, and pops its creator                DONE                     relaxed store of the thread
 *   SHARED           ends                                      ENDED                    exchange (acq_rel)
 *   PRIVATE, SHARED  somebody joins it and has to wait         address of the waiter    compare-and-swap (acq_rel)
 *   the address      ends, and makes the waiter ready          ENDED                    exchange (acq_rel)
 *   PRIVATE, SHARED  the same, with a deadline (join_until.c)  1 + address of the wait  compare-and-swap (acq_rel)
 *   1 + the address  the deadline passes                       SHARED                   compare-and-swap (acq_rel)
 *   1 + the address  ends, and ends the wait                   ENDED                    exchange (acq_rel)
 *   PRIVATE, SHARED  detached                                  DETACHED                 compare-and-swap
 *   DETACHED         ends                                      FREE                     the thread's worker
 *   DONE, ENDED      joined or detached                        FREE                     the joiner
 *
 * FREE descriptors are in a free list and stay descriptors until ito_fini, so joining twice reads FREE and no garbage.
 */
enum ito__state {
    ITO__PRIVATE = 0,
    ITO__SHARED = 1,
    ITO__DONE = 2,
    ITO__FREE = 3,
    ITO__DETACHED = 4,
    ITO__ENDED = 5,
    ITO__STATES = 8
};

/* ito_thread.flags */
enum {
    ITO__OWN_STACK = 1, /* its stack belongs to it, not to a slot of a deque */
    ITO__FOREIGN = 2,   /* stands for a kernel thread that is no worker */
    ITO__ROOT = 4,      /* the caller of ito_init */
    ITO__SCHED = 8,     /* a worker's own context */
    ITO__TRACED = 16,   /* a recorder knows it: no fast join, so that it hears of the join too */
    ITO__THREW = 32,    /* ito.hpp: its result is an exception; set by itself when it is SHARED */
    ITO__FORKED = 64,   /* made for a stolen task of ITO_FORK, which is its `arg` */
};

/*
 * A thread. Each field says who writes it: T the thread itself (or the worker that runs it), C its creator before it
 * runs, W whoever suspends or wakes it.
 *
 * A descriptor passes from one writer to the next only by an operation that orders them: from C to T by the deque or a
 * queue, from T to its joiner by `state`, from a suspended thread to its waker by the queue it waits in. So the fields
 * are plain.
 */
typedef struct ito_thread {
    uintptr_t state;          /* atomic; above */
    void *result;             /* T, before DONE */
    struct ito__stack *stack; /* C */
    void *sp;                 /* W: the saved context, while suspended */
    void *(*fn)(void *);      /* C */
    void *arg;                /* C; slow creation only */
    struct ito_thread *next;  /* link of the one queue it is in */
    void *wait_on;            /* T: what it is blocked on, for people and recorders */
    const char *name;         /* C */
    void **keys;              /* T: thread-local keys */
    uint32_t wait_kind;       /* T: ITO__WAIT_* */
    uint32_t flags;           /* C, T */
    int32_t bind;             /* C: worker it is bound to, or -1 */
    int32_t saved_errno;      /* T: while suspended */
    uint32_t wake;            /* FOREIGN only: futex, 1 = ready */
    int32_t priority;         /* C: above 0: into the urgent queue */
    uint64_t id;              /* C: traced threads; else 0 */
    void *sanitizer;          /* W: what AddressSanitizer or ThreadSanitizer keeps for its stack */
    uint64_t in_place;        /* T: id of the forked task that runs at its sync, where a recorder hears of it; else 0 */
} ito_thread;

/*
 * A slot of a deque: a continuation (thread, sp) or a forked task (thread = address of its frame + 1, which is odd).
 *
 * The owner writes sp and thread while the slot lies at `bottom`, outside the deque, with plain stores; the release
 * store of `bottom` that follows publishes them. Whoever takes the slot reads them and never writes.
 *
 *   stack   the stack of the thread that was created here: depth d always runs on slot d's stack, so no free list is
 *           popped. Null: none yet, or the thread took it along when it was suspended or stolen. Relaxed: written by
 *           the worker of that thread and, holding the deque's lock, by the thief that takes the slot's thread. Both
 *           mean the same stack, and write null once.
 *   folded_in  of a forked task that a recorder has only heard the count of: the id of the task that it counts for;
 *           else 0. Written by the slow fork like `thread`, and under the lock; meaningless without a recorder
 */
struct ito__slot {
    void *sp;
    uintptr_t thread;
    struct ito__stack *stack;
    uint64_t folded_in;
};

/*
 * A task of ITO_FORK, in the frame of the function that forked it (its parent).
 *
 *   run     calls the function with the arguments that follow in the frame; written before the task is published
 *   state   where the task is. The address of its slot (odd while a recorder listens, which keeps the sync off the
 *           fast path), or one of ITO__PRIVATE, SHARED, ENDED, or the address of the parent that waits for it:
 *
 *   from           event                                            to                   by
 *   -              forked off the workers, or no room               PRIVATE              its parent: the sync runs it
 *   -              forked                                           its slot             its parent
 *   its slot       the deque grows                                  its slot, moved      owner, holding the lock
 *   its slot       taken                                            SHARED               thief with the lock; owner
 *   slot, SHARED   its parent has to wait                           address of parent    parent
 *   SHARED, parent it has run; wakes the parent                     ENDED                whoever ran it
 *
 * The parent, on another worker by now, may be registering while a thief takes the task or the deque grows. So each of
 * these changes is a compare-and-swap that gives way to the parent's, and the end is an exchange.
 */
struct ito__fork {
    void (*run)(struct ito__fork *);
    uintptr_t state;
};

/* ito__worker.ask: why the owner should leave the fast path at its next creation */
enum { ITO__ASK_WORK = 1, ITO__ASK_TRACE = 2 };

struct ito__pool;

/*
 * A worker, as much of it as inline code touches. The first cache line is all that the fast paths need. The rules of
 * `bottom` and `limit` and their proof are in docs/design/deque.md.
 *
 *   field          writer                        reader            rule
 *   bottom         owner                         owner, thieves    the push is a release store; thieves trust what they
 *                                                                  read only after a membarrier
 *   limit          holder of `lock`              owner             relaxed: a slot below it may be gone, then the
 *                                                                  owner's pop takes the lock
 *   current        owner                         owner             the thread that runs
 *   end            owner; thieves (null)         owner             relaxed: no slot at or above it. A thief that has
 *                                                                  set `ask` stores null, so that the next creation
 *                                                                  leaves the fast path. A null that comes late costs
 *                                                                  one slow creation
 *   ask            thieves set, owner clears     owner             read-modify-writes; the owner clears after it has
 *                                                                  stored `end`. In a line of its own: all who search
 *                                                                  read it, and the owner's next push would miss
 *   n_free, free   owner                         owner             descriptors; ito_fini looks at n_free
 *   errno_at       owner, at its start           owner             &errno of the kernel thread
 */
struct ito__worker {
    struct ito__slot *bottom;
    struct ito__slot *limit;
    struct ito_thread *current;
    struct ito__slot *end;
    uint32_t unused;
    uint32_t n_free;
    int *errno_at;
    struct ito__pool *pool;
    uint64_t reserved;
    struct ito_thread *free[ITO__FREE_MAX];
    uint32_t ask __attribute__((aligned(64)));
};

#ifdef __cplusplus
extern "C" {
#endif
/* Of the calling kernel thread; never null. ito__nobody stands for "no worker": each of its fields sends the fast paths
 * to the slow ones. */
extern __thread struct ito__worker *ito__tls_worker __attribute__((tls_model("initial-exec")));
extern struct ito__worker ito__nobody;
#ifdef __cplusplus
}
#endif

#endif
