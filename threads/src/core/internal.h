/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The inside of libito: the rest of a worker, the pool, and what blocking primitives are built from.
 *
 * Start with ito/types.h. The files, from the fast paths outwards: deque.c (continuations), queue.c (ready threads),
 * schedule.c (what a worker runs next), park.c (idle workers), block.c (threads that wait), thread.c (begin, end,
 * join), carrier.c and rest.c (kernel threads), call.c (calls that wait in the kernel), worker.c (start and stop).
 * Mutexes and the like are built on wait.h.
 */
#ifndef ITO_INTERNAL_H
#define ITO_INTERNAL_H

#define ITO__BUILDING 1
#include <ito.h>
#include <ito/fork.h>
#include <ito/inline.h>
#include <ito/types.h>

#include "base/env.h"
#include "base/hooks.h"
#include "base/say.h"
#include "base/trace.h"
#include "core/carrier.h"
#include "core/fold.h"
#include "prim/spin.h"

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ITO__LINE 64
/* Every so many picks, look at the queues first: a deque that never empties must not starve them. */
#define ITO__FAIR_TICK 61u

/* What a thread is blocked on; for gdb, recorders and messages. wait_on points to it. */
enum ito__wait_kind {
    ITO__WAIT_NONE,
    ITO__WAIT_JOIN,
    ITO__WAIT_MUTEX,
    ITO__WAIT_COND,
    ITO__WAIT_RWLOCK,
    ITO__WAIT_SEMAPHORE,
    ITO__WAIT_BARRIER,
    ITO__WAIT_ONCE,
    ITO__WAIT_SLEEP,
    ITO__WAIT_GROUP,
    ITO__WAIT_FUTURE,
    ITO__WAIT_FORK,  /* a task of ITO_FORK that was stolen */
    ITO__WAIT_GRAPH, /* a graph, or in a static run a task of another list */
    ITO__WAIT_IO,    /* a descriptor to be ready */
    ITO__WAIT_CALL,  /* a call in the kernel to return, between ito_blocking_begin and _end */
    ITO__WAIT_CHANNEL,
    ITO__WAIT_SELECT, /* on several channels; wait_on is one of them */
    ITO__WAIT_STOP,   /* a function that a stop request calls to return */
    ITO__WAIT_UNCOND,
    ITO__WAIT_FUTEX, /* a word of the program (pthread/futex.c) */
};

/* First in, first out, linked through ito_thread.next. n == length of the list head..tail. */
struct ito__queue {
    struct ito_thread *head, *tail;
    size_t n;
};

#define ITO__STACK_CACHE 32u
/* Left for a forked task that runs on its parent's stack, and what it calls (printf takes 6 KB). */
#define ITO__FORK_RESERVE 8192u

/*
 * A worker, all of it. Cache lines are kept apart by who writes them. "Owner" is the worker's own kernel thread: a
 * field that only the owner uses needs no order. The tables of deque.c, queue.c and park.c have the rules of the shared
 * ones.
 */
struct worker {
    struct ito__worker hot; /* first: a struct ito__worker * is a struct worker * */

    /* The ready queue of this worker, guarded by a biased lock (queue.c).
     *   rq_busy     1 while the owner is inside
     *   rq_frozen   1 while a thief, which holds rq_lock, is inside */
    alignas(ITO__LINE) uint32_t rq_busy;
    uint32_t rq_frozen;
    struct ito__queue rq;
    struct ito__queue urgent; /* threads of a priority above 0; rq_busy guards it too */
    uint32_t urgent_picks;    /* owner: picks at which an urgent thread could go before others */
    uint32_t tick;            /* owner: picks so far */
    uint32_t yields_left;     /* owner: fast yields left, until one looks into the other queues too */
    uint32_t index;
    uint64_t rng;                                /* owner */
    struct ito__stack *stacks[ITO__STACK_CACHE]; /* owner: of the default size */
    uint32_t n_stacks;
    struct ito_thread sched; /* the worker's own context: searches and parks */
    struct ito__stack *sched_stack;

    /* What thieves touch. Invariant, under `lock`: base <= top <= split <= limit <= split + 1; slots [top, split) are
     * public, [split, bottom) private. */
    alignas(ITO__LINE) struct ito__spin lock;
    uint32_t node;                              /* NUMA node, fixed at start */
    struct ito__slot *base, *top, *split, *end; /* no slot at or above end */
    struct ito__spin rq_lock;                   /* before `lock` if both */
    struct ito__queue shared;                   /* rq_lock: ready threads that any worker may take */

    /* Threads sent to this worker by others; only it takes them. */
    alignas(ITO__LINE) struct ito__spin inbox_lock;
    struct ito__queue inbox;

    alignas(ITO__LINE) uint32_t parked; /* futex: 1 while in the pool's list of parked workers */
    uint32_t parked_at;                 /* park_lock: index in that list */

    uint32_t trace_searching;           /* owner: whether the recorder was last told that it searches */
    struct ito__fold fold;              /* owner */
    uint32_t n_short_loops, loop_doubt; /* owner: loop.c */
    uint64_t loop_credit_ns;            /* owner: loop.c */
    uint32_t polls;                     /* park_lock: it sleeps in epoll_wait, not on its futex */

    /* Calls that wait in the kernel: carrier.h. */
    uint32_t lent;           /* atomic */
    uint32_t has_bound;      /* atomic: a bound thread was created for it; then it keeps its carrier */
    uint32_t seen, offered;  /* the watcher: `lent` at its last look; as it was offered to a spare */
    uint32_t moves;          /* owner: switches so far; counted in libito-pthread.so only */
    uint32_t seen_moves;     /* the watcher: `moves` at its last look */
    uint64_t seen_call;      /* the watcher: what its thread then waited for in the kernel; 0: nothing */
    uint64_t still_since_ns; /* the watcher: since when it has seen no switch */
    uint32_t
        wanted; /* the watcher: `lent` as a thread that computes is asked to leave it; relaxed: that one compares */
    uint32_t taken_call;          /* the watcher, before the offer: the number of that system call */
    struct ito__carrier *carrier; /* owner: which runs it */
    struct ito__carrier own;      /* the carrier that it started with */
    uint32_t started;             /* that carrier has a kernel thread to be joined */

    /* Counters for tests and people; owner, relaxed. */
    uint64_t n_steals, n_far_steals, n_forced_steals, n_parks, n_ready_steals;
};

struct ito__pool {
    uint32_t n_workers;
    uint32_t n_cpus;
    uint32_t stopping;   /* atomic: set once, by ito_fini */
    bool membarrier;     /* fixed at start */
    bool pin, hierarchy; /* hierarchy: more than one NUMA node */
    uint32_t stall;      /* ITO__STALL_*; fixed at start */
    bool stall_told;     /* park_lock */
    uint64_t spin_ns;
    uint64_t seed;
    struct worker *workers; /* [n_workers] */
    size_t workers_bytes;
    struct ito_thread root;
    struct ito__stack root_stack;

    /* Searching: awake and looking for work. Rules in park.c. The count changes with each search; owners that answer
     * read both it and n_parked. */
    alignas(ITO__LINE) uint32_t n_searching; /* atomic */
    alignas(ITO__LINE) uint32_t n_parked;    /* atomic; written under park_lock */
    struct ito__spin park_lock;
    uint32_t *parked; /* [n_workers] indices of parked workers, park_lock */

    /* Read by all workers at each turn, written seldom. */
    alignas(ITO__LINE) uint32_t
        io_waiting;       /* atomic: waits for I/O in progress (io_wait.c); 0 in programs that do none */
    uint32_t home_wanted; /* atomic: ito_fini waits for worker 0 to be on the carrier that it started with */
    uint64_t barrier_ns;  /* atomic, a hint: what a membarrier takes */

    /* Threads made ready by kernel threads that are no workers. */
    alignas(ITO__LINE) struct ito__spin inject_lock;
    struct ito__queue inject;
    uint32_t n_outside; /* atomic: kernel threads other than workers that use the pool now; ito_fini waits for 0 */
};

extern struct ito__pool ito__pool;

/* ---- the caller -------------------------------------------------------------------------------------------------- */

/* Never inlined, never pure: a thread may be on another worker after any call, and compilers keep the addresses of
 * thread-local variables over calls. */
struct ito__worker *ito__worker(void);
struct ito_thread *ito__self(void);
/* Whose code the caller runs from now on; null: no worker's. */
void ito__set_here(struct worker *w);
/* In the child of a fork, off the workers: the thread of ito that forked; null: the caller is not it. */
struct ito_thread *ito__forked(void);
/* In the child of a fork: the caller is no worker's any more. */
void ito__leave_worker(void);
#ifdef ITO__OWN_TLS
void ito__keep_self(struct ito_thread *t);
#endif

static inline struct worker *worker_of(struct ito__worker *w) {
    return (struct worker *)w;
}

/* Keeps the context of the loop that runs on carrier c, for a thread's way back to it. */
static inline void save_home(struct ito__carrier *c, const struct worker *w) {
    c->home.sp = w->sched.sp;
    c->home.sanitizer = w->sched.sanitizer;
    c->home.stack = w->sched.stack;
}

/* ---- blocking (block.c) ----------------------------------------------------------------------------------------- */

void ito__block(void (*after)(void *arg), void *arg);
void ito__block_to(struct ito_thread *to, void (*after)(void *arg), void *arg);
void ito__ready(struct ito_thread *thread);
/* A thread leaves its worker's order of stacks: it may no longer end by a plain store, as others see its end, or its end has
 * more to do (keys). */
static inline void ito__expose(struct ito_thread *t) {
    uintptr_t private = ITO__PRIVATE;
    /* ORDER acq_rel; pairs with the compare-and-swap in join_register(). It fails if the creator, whose continuation
     * was stolen, has registered as joiner; then the joiner's address stays. Publishes nothing. */
    if (load_relaxed(&t->state) == ITO__PRIVATE)
        cas_acq_rel(&t->state, &private, ITO__SHARED);
}
#define ITO__HAND_OVERS 61u /* one in so many goes through the ready queue */

/*
 * A membarrier. It interrupts every CPU that runs the process, so what it takes grows with their number: search() looks
 * for as long before it has the next. The mean of the last few; one in which the caller lost its CPU counts little.
 */
static inline bool ito__membarrier(void) {
    uint64_t known = load_relaxed(&ito__pool.barrier_ns), start = ito__prim_now();
    /* ORDER seq_cst on every running thread; the partner is said at each call. */
    bool done = ito__prim_membarrier();
    uint64_t took = ito__prim_now() - start, most = 2 * known + 20000;
    took = took < most ? took : most;
    uint64_t next = known - known / 8 + took / 8;
    if (next != known)
        store_relaxed(&ito__pool.barrier_ns, next);
    return done;
}

/* ---- deque (deque.c) -------------------------------------------------------------------------------------------- */

/* `fork` was taken from `slot`, and not by its parent's sync. */
void ito__fork_taken(struct ito__fork *fork, const struct ito__slot *slot);
void ito__ask(struct worker *v, uint32_t why); /* any worker: leave the fast path at the next creation */
struct ito__slot *ito__deque_pop_slow(struct worker *w, struct ito__slot *slot); /* null: stolen or empty */
bool ito__deque_grow(struct worker *w);                                          /* false: no memory */
void ito__deque_publish(struct worker *w);
enum ito__steal { ITO__STEAL_EMPTY, ITO__STEAL_LOST, ITO__STEAL_WON };
enum ito__steal ito__deque_steal(struct worker *victim, bool force, struct ito__slot *out);
bool ito__deque_looks_full(struct worker *victim); /* something private or public; a hint */
bool ito__deque_start(struct worker *w);
void ito__deque_stop(struct worker *w);
/* The stack of `thread`, created in the deque of w below slot `above`, no longer belongs to its slot. */
/* A recorder: the continuations in the deque of w are another kernel thread's from now on, the caller's. Oldest first, as
 * each runs on top of its creator. */
void ito__deque_tell_moved(struct worker *w);
/* The oldest folded task in the deque of w becomes one that the recorder hears of. */
void ito__deque_unfold(struct worker *w);
void ito__deque_disown(struct worker *w, struct ito__slot *above, struct ito_thread *thread);

/* Owner: take the bottom slot, or null. One store, one load, and no fence between them. */
static inline struct ito__slot *deque_pop(struct worker *w) {
    struct ito__slot *slot = w->hot.bottom - 1;
    store_relaxed(&w->hot.bottom, slot);
    /* ORDER none in hardware: the partner is the membarrier of a forced ito__deque_steal(). A thief that wants a
     * private slot raises `limit`, has the kernel run a full barrier here, and then reads `bottom`. So either the thief
     * sees this store, or the load below sees the thief's limit (threads/tests/explore, control
     * steal_without_membarrier). */
    compiler_barrier();
    if (LIKELY(slot >= load_relaxed(&w->hot.limit)))
        return slot;
    return ito__deque_pop_slow(w, slot);
}

/* ---- queues (queue.c) ------------------------------------------------------------------------------------------- */

static inline void queue_push(struct ito__queue *q, struct ito_thread *t) {
    t->next = NULL;
    if (q->head)
        q->tail->next = t;
    else
        q->head = t;
    q->tail = t;
    store_relaxed(&q->n, q->n + 1); /* relaxed: others look at n without the lock, as a hint */
}
static inline struct ito_thread *queue_pop(struct ito__queue *q) {
    struct ito_thread *t = q->head;
    if (t) {
        q->head = t->next;
        store_relaxed(&q->n, q->n - 1);
    }
    return t;
}
/* Is something in the owner's ready queues? Exact for the owner, a hint for others. */
static inline bool ready_waits(const struct worker *w) {
    return load_relaxed(&w->rq.n) > 0 || load_relaxed(&w->urgent.n) > 0;
}
void ito__ready_push(struct worker *w, struct ito_thread *t);
struct ito_thread *ito__ready_pop(struct worker *w);
void ito__ready_share(struct worker *w);
struct ito_thread *ito__ready_steal(struct worker *thief, struct worker *victim, bool force);
void ito__inbox_push(struct worker *w, struct ito_thread *t);
struct ito_thread *ito__inbox_pop(struct worker *w);
void ito__inject(struct ito_thread *t); /* called off the workers; any worker may take it */
struct ito_thread *ito__inject_pop(void);

/* ---- stacks and descriptors (stack.c, descriptor.c) -------------------------------------------------------------- */

struct ito__stack *ito__stack_of_caller(void *memory, size_t bytes);
bool ito__stack_is_callers(const struct ito__stack *stack);
struct ito__stack *ito__stack_get(struct worker *w, size_t bytes); /* w null: foreign; null: no memory */
void ito__stack_put(struct worker *w, struct ito__stack *stack);
size_t ito__stack_bytes(const struct ito__stack *stack); /* the size that it was asked for by, as a power of two */
void ito__stack_start(size_t default_bytes, size_t guard_bytes);
void ito__stack_stop(void);
void ito__stack_forget(void); /* in the child of a fork: what there is belongs to threads that are gone, and is left */
extern size_t ito__stack_default;

struct ito_thread *ito__descriptor_get(struct worker *w);
void ito__descriptor_put(struct worker *w, struct ito_thread *t);
/* Calls tell() for each that is a thread which has not ended, while no worker runs. */
void ito__descriptor_each(void (*tell)(const struct ito_thread *, void *), void *arg);
bool ito__descriptor_is_one(const void *at); /* the same */
size_t ito__descriptor_live(void);           /* workers stopped or idle: a count, else a hint */
void ito__descriptor_stop(void);
void ito__descriptor_forget(void);

/* Of ito_attr.flags, for threads of our own: a recorder does not hear of them, but of the tasks that they run. */
#define ITO__ATTR_UNSEEN 0x80000000u
/* The same, for threads/rust: the creator goes on; the thread begins when its worker comes to it, or another takes it. */
#define ITO__ATTR_LATER 0x40000000u

/* ---- threads (thread.c) ------------------------------------------------------------------------------------------ */

struct ito_thread *ito__promote(struct worker *w, struct ito__fork *fork, uint64_t folded_in);
void ito__keys_end(struct ito_thread *t);
/* The thread has ended whose state was this, 1 + the address of a join with a deadline (join_until.c). */
void ito__join_until_ended(uintptr_t state);
int ito__ended_until(struct ito_thread *thread, uint64_t deadline_ns); /* for ito.hpp */

/* ---- scheduling (schedule.c, park.c) ----------------------------------------------------------------------------- */

/* What to resume: thread and the stack pointer of its context. */
struct ito__next {
    struct ito_thread *thread;
    void *sp;
};
struct ito__next ito__pick(struct worker *w);             /* local work, else the worker's own context */
bool ito__find(struct worker *w, struct ito__next *next); /* local work only */
bool ito__take_slot(struct worker *w, struct ito__slot *slot, struct ito__next *next); /* false: no memory now */
bool ito__schedule(struct worker *w);        /* on its carrier's stack; true: the pool stops, false: taken away */
void ito__answer(struct worker *w);          /* the owner was asked for work */
bool ito__can_answer(struct worker *w);      /* asked, and something to give */
void ito__answer_creation(struct worker *w); /* the same at a creation, which always has something to give */
void ito__notify(void);                      /* work was published: wake a worker if none searches */
void ito__wake_idle(void);                   /* a parked worker is to look after I/O */
void ito__wake_worker(struct worker *w);
void ito__park(struct worker *w);
bool ito__hungry(void); /* a new thread would soon be stolen; a hint */
void ito__search_begin(void);
void ito__search_end(struct worker *w);

/* ---- what stands above does for what is below -------------------------------------------------------------------- */

/* Scheduling knows neither threads that begin nor other rooms: ito_init (init.c) says once what is there. Each is called
 * by workers and, where it says so, by the watcher (watch.c). */
struct ito__above {
    /* A thread that will run the forked task, which the caller took from the deque; null: no memory. `folded_in`: of the
     * slot that it was in (thread.c, which stands above schedule.c). */
    struct ito_thread *(*promote)(struct worker *w, struct ito__fork *fork, uint64_t folded_in);
    /* I/O (io/io.h), called while ito__pool.io_waiting > 0, but for the last. */
    /* Look without waiting, and make ready whom the events are for. `now`: also when the last look was not long ago. Any
     * thread that holds no bit of an object (wait.h): a worker's own context, or w null. Return: threads made ready. */
    unsigned (*io_poll)(struct worker *w, bool now);
    bool (*io_is_due)(void); /* the last look was long ago */
    /* A parked worker sleeps until I/O or io_interrupt(). Return: events, which it has to deliver when it is no longer
     * parked; -1: it did not sleep, as another worker does this, or is awake and looks itself. */
    int (*io_wait)(struct worker *w, uint64_t wait_ns);
    void (*io_deliver)(struct worker *w, int n_events);
    void (*io_interrupt)(void);
    /* The watcher: nobody has looked since the last time. Return: whether it did something about it. */
    bool (*io_rescue)(void);
    bool (*io_is_slept_on)(void); /* a parked worker sleeps until there is I/O; a hint */
    void (*io_stop)(void);        /* the pool has stopped */
    /* The caller is a worker in the list of parked ones, as are all others (seen/stall.c). */
    void (*all_parked)(void);
};
/* Set before the first worker, and then the same for ever. */
extern const struct ito__above *ito__above;
/* ito_init, once ito__above is set. */
int ito__start(const ito_config *config);

/* ---- all threads wait for ever (seen/stall.c) -------------------------------------------------------------------- */

enum { ITO__STALL_QUIET, ITO__STALL_TELL, ITO__STALL_ABORT };
/* Kernel threads that are no workers and sleep in a wait of ito's: atomic. */
extern uint32_t ito__n_foreign_waits;
/* No deadline is armed, and the timers' thread sleeps. How many such threads there are: 0 or 1. */
bool ito__timers_quiet(unsigned *n_threads);

/* ---- stack overflow (overflow.c): per process, per kernel thread that is a worker ------------------------------- */

void ito__overflow_start(void);
void ito__overflow_stop(void);
void ito__overflow_worker_start(void);
void ito__overflow_worker_stop(void);

/* ---- messages about threads (fatal.c) ---------------------------------------------------------------------------- */

/* The word for what a thread waits for (enum ito__wait_kind); "": not known. */
const char *ito__wait_word(uint32_t kind);
/* "the name (0x7f12, function())": as far as they are known. */
void ito__text_thread(struct ito__text *t, const struct ito_thread *thread);
/* For mistakes that no return value can report: a message, then abort. */
void ito__fatal(const char *what, const struct ito_thread *t) __attribute__((noreturn));
/* What it runs; null: not known. */
const void *ito__function_of(const struct ito_thread *t);

#include "context/context.h"

/* libito-pthread.so (threads/pthread): each thread has thread-local storage of its own, errno with it, and takes it
 * along. In libito it has that of the worker's kernel thread, and only errno is carried over. */
#ifdef ITO__OWN_TLS
#include "../pthread/own_tls.h"
#define ITO__TLS_WORKER(worker, current) ito__tls_worker_start(worker, current)
#define ITO__TLS_SAVE(worker, thread) ((void)0)
#define ITO__TLS_ENTER(worker, next) ito__tls_enter(worker, next)
#define ITO__TLS_LEAVE(home) ito__tls_leave(home)
#define ITO__TLS_RESTORE(thread) ((void)0)
#define ITO__TLS_TAKE(thread, carrier, call) ito__tls_take(thread, carrier, call)
#define ITO__FORK_EPOCH() ((void)0) /* pool.c, before the program's own handlers */
#define ITO__TLS_IO_BEGIN(word, queue) ito__io_wait_begin(word, queue)
#define ITO__TLS_IO_END() ito__io_wait_end()
#define ITO__TLS_CALL_BEGAN(call) ito__call_began(call)
#define ITO__TLS_CALL_OVER() ito__call_over()
#define ITO__RUNS_AGAIN() ito__watch_look(true) /* its threads may wait without telling of it */
#else
#define ito__be_home() ((void)0)
#define ITO__RUNS_AGAIN() ((void)0)
#define ITO__TLS_TAKE(thread, carrier, call) ((void)(carrier))
#define ITO__FORK_EPOCH() ((void)ito__fork_epoch++)
#define ITO__TLS_IO_BEGIN(word, queue) true
#define ITO__TLS_IO_END() ((void)0)
#define ITO__TLS_CALL_BEGAN(call) true
#define ITO__TLS_CALL_OVER() ((void)0)
#define ITO__TLS_WORKER(worker, current) ((void)0)
#define ITO__TLS_SAVE(worker, thread) ((void)((thread)->saved_errno = *(worker)->hot.errno_at))
#define ITO__TLS_ENTER(worker, next) ((void)0)
#define ITO__TLS_LEAVE(home) ((void)0)
#define ITO__TLS_RESTORE(thread) ((void)(*ito__worker()->errno_at = (thread)->saved_errno))
#endif

/*
 * Leave `me` (its context goes to me->sp) for `next`; after(arg) runs on next's stack before `next` continues. Returns
 * when `me` is resumed, maybe on another worker. `me` can be resumed as soon as after() has let others know of it: by
 * then its context is complete, and nothing runs on its stack.
 */
static inline void switch_to(struct worker *w, struct ito_thread *me, struct ito__next next, void (*after)(void *),
                             void *arg) {
    ITO__TLS_SAVE(w, me);
    w->hot.current = next.thread;
    ITO__HOOK_LEAVE(me, next.thread, 0);
    ITO__TLS_ENTER(w, next.thread);
    ito__context_switch(&me->sp, next.sp, after, arg);
    ITO__HOOK_ENTER(me);
    ITO__TLS_RESTORE(me);
}

#endif
