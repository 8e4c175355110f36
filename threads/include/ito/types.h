/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/types.h - what a worker, a thread and a deque slot are. Read this first.
 *
 * Private: programs see only pointers. It is installed because the header-inline version (ito/inline.h) reads these
 * fields. Whenever one that inline code touches moves, the number of ITO_PRIVATE in src/ito.map changes: the dynamic
 * linker refuses a program built with another header.
 */
#ifndef ITO_TYPES_H
#define ITO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define ITO__FREE_MAX 64u /* descriptors a worker keeps for itself */

/*
 * A stack. This struct lies at its high end; the stack grows down from it.
 *   low     lowest address that is safe to use: above the guard
 *   fork_low  below it a forked task gets a stack of its own instead of running on this one
 *   map     the mapping (guard included), bytes its length, size_class its free list (prim-independent; stack.c)
 *   next    link of free lists
 *   tls     place for a thread's own libc TLS block; always null in this version
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
 * ito_thread.state. PRIVATE: only the creator will ever know this thread, and his continuation waits below it in the
 * deque of the worker both are on; then the exit is a plain store. Everything else goes through atomic operations.
 *
 *   PRIVATE --(suspended, stolen, or id asked for)--> SHARED      compare-and-swap
 *   PRIVATE --(exit, continuation popped)-----------> DONE        plain store by the thread itself
 *   SHARED --(exit)--------------------------------> ENDED       exchange
 *   PRIVATE|SHARED --(join)--> address of the waiter --(exit)--> ENDED
 *   PRIVATE|SHARED --(detach)--> DETACHED --(exit)--> FREE
 *   DONE|ENDED --(join or detach)--> FREE (in a free list; type-stable until ito_fini)
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
};

/*
 * A thread. Who writes: T the thread itself (or the worker that runs it), C its creator before it runs,
 * W whoever suspends or wakes it.
 */
typedef struct ito_thread {
    uintptr_t state;          /* atomic; above */
    void *result;             /* T, before DONE */
    struct ito__stack *stack; /* C */
    void *sp;                 /* W: the saved context, while suspended */
    void *(*fn)(void *);      /* C; slow creation only */
    void *arg;                /* C; the same */
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
} ito_thread;

/*
 * A slot of a deque: a continuation (thread, sp) or a forked task (thread = its frame + 1).
 *   stack   the stack of the thread that was created here: depth d always runs on slot d's stack, so there is no free
 *           list to pop. Null: none yet, or the thread took it along when it was suspended or stolen.
 */
struct ito__slot {
    void *sp;
    uintptr_t thread;
    struct ito__stack *stack;
    uintptr_t unused;
};

/*
 * A task of ITO_FORK, in the frame of the function that forked it (its parent).
 *   run     calls the function with the arguments that follow in the frame
 *   state   atomic. A slot's address, odd while a recorder listens, which keeps the sync off the fast path:
 *     ITO__PRIVATE: in no slot, the sync runs it
 *     its slot --(taken, under the deque's lock or by its owner)--> ITO__SHARED --(run)--> ITO__ENDED
 *     its slot | ITO__SHARED --(its parent waits)--> address of the parent --(run)--> ITO__ENDED
 *     its slot --(the deque grows, under its lock)--> its slot in the new array
 */
struct ito__fork {
    void (*run)(struct ito__fork *);
    uintptr_t state;
};

/* ito__worker.ask: why the owner should leave the fast path at its next creation */
enum { ITO__ASK_WORK = 1, ITO__ASK_TRACE = 2 };

struct ito__pool;

/*
 * A worker. The first line is all that the fast paths touch. See docs/design/deque.md for the rules of `limit`.
 *   bottom   owner; release. thieves read it after a membarrier only
 *   limit    owner or thief, holding `lock`. Slots below it may be gone: the owner's pop must take the lock
 *   end      no slot at or above it. The owner stores it, and thieves null after they have set `ask`, so that his next
 * creation leaves the fast path. A null that comes late costs one slow creation current  owner ask      atomic; thieves
 * set, the owner clears, after he has stored `end` n_free, free   owner: descriptors
 */
struct ito__worker {
    struct ito__slot *bottom;
    struct ito__slot *limit;
    struct ito_thread *current;
    struct ito__slot *end;
    uint32_t ask;
    uint32_t n_free;
    int *errno_at; /* &errno of the kernel thread */
    struct ito__pool *pool;
    uint64_t reserved;
    struct ito_thread *free[ITO__FREE_MAX];
};

#ifdef __cplusplus
extern "C" {
#endif
/* Of the calling kernel thread; never null. ito__nobody is a worker whose every field sends the fast paths to the slow
 * ones. */
extern __thread struct ito__worker *ito__tls_worker __attribute__((tls_model("initial-exec")));
extern struct ito__worker ito__nobody;
#ifdef __cplusplus
}
#endif

#endif
