/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The inside of libito-pthread.so: pthread_create makes threads of ito. docs/design/pthread.md has the method.
 *
 *   light thread    a thread of ito that pthread_create made; it has a TLS block of its own and is switched in user
 *                   space
 *   pinned thread   one of these that has a kernel thread of its own from some moment on (pin.c)
 *   kernel thread   main, and each thread that cannot be light (refuse.c says why); ito calls it foreign
 *
 * The files: pool.c (start, fork), tls.c (TLS blocks), descriptors.c, thread.c (create, end, join), attr.c (what is asked of and set
 * for a thread), keys.c, signals.c, refuse.c, real.c;
 * look.c (who waits without having said so); told.c (what a recorder is told); cancel.c, pin.c, c11.c, mutex.c, cond.c, rwlock.c, sem.c, objects.c; calls.h, io.c, ready.c,
 * transfer.c, kernel_waits.c, stdio.c, futex.c; unwind.c; deliver.c (signals for the process), children.c. Only functions marked EXPORT are seen by programs.
 */
#ifndef ITO_PTHREAD_LIGHT_H
#define ITO_PTHREAD_LIGHT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/wait.h"
#include "real.h"

#include <ito/io.h>
#include <signal.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum light_kind {
    LIGHT_NONE = 0, /* a kernel thread */
    LIGHT_THREAD = 1,
    LIGHT_PINNED = 2, /* a light thread on a kernel thread of its own (pin.c) */
};

/* light.word, under its queue bit (wait.h) */
enum {
    LIGHT_ENDED = 1,    /* off its stack for good */
    LIGHT_DETACHED = 2, /* nobody may join it; its stack goes back when it ends */
    LIGHT_JOINED = 4,   /* a thread waits for it, or has got its result */
};

/*
 * What this library knows of a thread. It is a __thread variable, so it lies at one distance from each pthread_t, light
 * or not, and lives as long as the thread's TLS block: until it is joined.
 *
 *   field            writer                             reader
 *   kind .. arg      its creator, before it is ready    any
 *   image, tid       tls.c, before it is ready          the same for the next thread of this block
 *   mask, its number its creator, then itself           itself
 *   result, name     itself; name: any, under word      its joiner, after LIGHT_ENDED
 *   word             holder of its queue bit            any
 *   joiners          same: at most one                  same
 *   self, wait_*     itself                             who looks at it: what it waits for (cancel.c); null: nothing
 *   looked_at        any, under the bit                 itself, at the end of a wait
 *   wait_cut         itself, then who looked at it      itself, at the end of a wait: it was not for what it waited for
 *   joiner_id        the joiner, under the bit          the thread itself (who would wait for itself?)
 *   call_tid         itself                             any, under the bit, as wait_word: the kernel thread of its call
 *   may_cancel       itself                             any: a hint; its call or wait is a cancellation point
 *   pinned .. async  itself                             itself
 *   pending, asked   any, read-modify-write             itself: signals for it; to be pinned soon
 *   senders          any, read-modify-write             itself: goes on, or ends, when they have sent it
 *   alt_stack        itself                             itself: what it has said by sigaltstack
 */
struct light {
    uint32_t kind;
    uint32_t word;
    struct ito__waiters joiners;
    pthread_t joiner_id;
    struct ito_thread *self;
    uint32_t *wait_word; /* atomic */
    uint32_t looked_at;  /* atomic */
    uint32_t wait_cut;   /* atomic */
    struct ito__waiters *wait_queue;
    struct ito_thread *thread;
    struct ito__stack *stack;
    char *stack_high;               /* below the TLS block */
    size_t guard_bytes, stack_said; /* by its attributes; 0: nothing */
    void *(*fn)(void *);
    void *arg;
    sigset_t mask;
    uint64_t mask_at_first;
    uint64_t pending; /* signals that pthread_kill sent to it before it was pinned: bit s - 1 */
    uint32_t asked;
    uint32_t senders; /* threads that send it what was pending, once it is pinned */
    stack_t alt_stack;
    bool wait_cancellable, may_cancel;
    bool not_by_handlers;     /* a call that signals for it do not end (stdio.c) */
    bool handled, ended_call; /* a handler has run since the call began; one without SA_RESTART */
    uint32_t call_tid;
    uint32_t mask_number; /* of `mask`, in signals.c */
    void *result;
    char name[16];
    ito_call pinned;
    void *carrier_robust;      /* the list of robust mutexes of the kernel thread that it is pinned to */
    uint32_t tid;              /* what tls_tid() says when it is not pinned */
    const struct image *image; /* that held when its block was made or renewed */
    int cancel_type;           /* while it waits in a queue of ito: what it was before */
    bool own_cpus;             /* it has set its affinity */
    bool async;                /* asynchronous cancellation */
    bool told;                 /* a recorder has been told that it is pinned */
};
extern __thread struct light light_self __attribute__((tls_model("initial-exec")));

static inline bool light_here(void) {
    ito__be_home();
    return light_self.kind == LIGHT_THREAD;
}
/* Of any thread that has not been joined, light or not. */
struct light *light_of(pthread_t id);

/* pin.c: the caller, if it is light, has a kernel thread of its own from now on, for what `why` says: a literal, which recordings
 * have. False: there is none. */
bool light_pin(const char *why);
bool light_pin_asked(void);
void light_unpin(struct light *me);
/* Another light thread is to be pinned: at once if it waits, else at its next call. Returns whether it is by now. */
bool light_ask(struct light *l);
void light_send(struct light *l, int signal); /* the same, and a signal for it */
/* The caller has been asked. True: it is pinned since this call, handlers of what was sent to it have run. */
static inline bool light_asked(void) {
    return UNLIKELY(load_relaxed(&light_self.asked) != 0) && light_self.kind == LIGHT_THREAD && light_pin_asked();
}

/* pool.c */
bool light_start(void);          /* workers run; false: there are none, make kernel threads */
const char *light_refusal(void); /* refuse.c: why this program gets no light threads; null: it does */
void light_thread_begins(void);  /* one more thread of the program that signals.c does not count */
void light_thread_ends(void);    /* one less: if it was the last and main has ended, the process ends */
void light_last_ends(void);      /* there may be no other thread */
void light_main_exits(void);     /* main calls pthread_exit */

bool light_works(void); /* there are workers */

/* descriptors.c: a symbol that libthread_db looks for; null: not known. The end gives back what was looked through. */
const void *tls_descriptor(const char *name);
void tls_descriptors_end(void);

/* tls.c */
bool tls_cancelled(void);       /* the caller has been cancelled, and has not disabled that */
bool tls_cancelled_later(void); /* the same, but it may have disabled it */
int tls_tid(void);              /* what the C library takes for the caller's thread id */
void tls_set_tid(pthread_t id, int tid);
/* The thread pointer that the caller's kernel thread was created with, by the list that the kernel has for it. In signal handlers, too. */
char *tls_kernel_pointer(void);
void *tls_robust_list(void);                                 /* the caller's; null: its place is not known */
bool tls_setup(void);                                        /* false: this C library cannot (refuse.c) */
bool tls_ready(struct ito__stack *stack, char **stack_high); /* a fresh block in stack->tls; false: no memory */
size_t tls_bytes(void);
/* In the child of a fork: the kernel writes no longer into what belonged to the kernel thread, which the C library frees. Null: nothing. */
void tls_forget_rseq(char *kernel_pointer);
void tls_begin(void);
void tls_end(void); /* thread_local destructors of the caller */

/* cancel.c: around a wait in the queue of an object whose bit is in `word`. begin: false, do not wait; end follows in any
 * case, and does not return if the wait was cut short and the caller cancelled: what it got by then it keeps. A wait that was cut
 * short gives ECANCELED. */
bool light_wait_begin(uint32_t *word, struct ito__waiters *queue);
void light_wait_end(void);
/* The same where a cancellation does not end the wait: begin is false, and a wait cut short, where the thread is to be
 * pinned (light_ask). end: it is. */
bool light_hold_begin(uint32_t *word, struct ito__waiters *queue);
void light_hold_end(void);
/* Ends such a wait, one for a descriptor, or a call that waits in the kernel. For a cancellation: only of the first kind, or where
 * may_cancel is set. */
void light_interrupt(struct light *l, bool cancel);
/* By who is about to sleep in the kernel: an interruption on its way to this kernel thread comes before that. */
void light_take_look(void);
void light_kicks_start(void); /* once, before the workers */
int light_kick_signal(void);  /* 0: none */
void light_remind(const struct worker *w, const struct ito_thread *t);
void light_remind_beside(const struct ito_thread *t, void *unused);
void light_interrupt_computing(const struct worker *w, const struct ito_thread *t);
/* All signals, but the one that ends calls (cancel.c). */
void light_all_signals(sigset_t *all);
/* mutex.c: ito's mutex in it; null: it is the C library's. */
ito_mutex *light_mutex(pthread_mutex_t *mutex);
/* objects.c */
void once_forked(void);
/* futex.c */
void futexes_forked(void);
/* A light thread has tried in vain, for the turn-th time: let others run, then some time pass. False: too late. */
bool light_pause(unsigned turn, uint64_t deadline_ns);

/* signals.c */
void signals_start(void); /* signals that only light threads have unblocked are taken from now on */
void signals_forget(void);
void signals_know_ids(void);                 /* once, when the C library has made a thread */
void signals_thread_begins(struct light *l); /* l->mask is set */
void signals_thread_ends(const struct light *l);
/* Which calls of l a handler for `signal` ends: bit 0 those that any handler ends, bit 1 those that one without SA_RESTART ends.
 * To be asked before the signal is sent (the handler may reset itself), and written down after it. */
unsigned light_would_end(const struct light *l, int signal);
void light_has_ended(struct light *l, unsigned calls);
void signals_deliver(int signal, siginfo_t *info);
void signals_know_code(void);
void signals_take_offer(void); /* by a thread that has just been pinned */
/* By a light thread in the program's code, which was interrupted there: handlers of what was sent to it. */
void signals_run_here(void *context);
bool signals_no_thread(void); /* no light thread; or it changes its mask */

/* look.c */
void look_leave_worker(void);
void look_make_room(void); /* once, while the process has one kernel thread */

/* attr.c: some thread has had a scheduling class but the usual one; atomic, relaxed */
extern uint32_t light_classes_used;

/* keys.c */
void keys_end(void);

/* pthread_*_np deadlines: an absolute time of a clock as ito's, CLOCK_MONOTONIC ns. False: EINVAL. */
bool light_deadline(clockid_t clock, const struct timespec *at, uint64_t *deadline_ns);
/* A clock that a wait may be timed by; another one is an error also where there is nothing to wait for. */
static inline bool light_clock(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

#endif
