/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deferred cancellation. Whether a thread is cancelled, and the unwinding, are the C library's; but a thread that waits
 * in one of ito's queues does not notice, so it is taken out and woken.
 *
 * A wait that may be cancelled is put down in the thread's struct light for its time, and taken away after it. A
 * canceller, which holds the queue bit of light.word, sets `looked_at` while it looks: then the thread does not leave the
 * wait before the bit is free, so the object that it waits for is there.
 *
 *   waiter (light_wait)                    canceller (pthread_cancel)
 *   1 puts the object down                 1 sets CANCELED
 *   2 CANCELED: gives up                   2 under the bit: looked_at = 1, a membarrier
 *   3 goes onto the queue, wait_kind       3 is an object put down, and is the waiter on its queue? Takes it off, wakes it
 *   4 sleeps                               4 it is not there, and wait_kind is NONE: it is on its way, or on its way
 *   5 takes the object away                  back: again
 *   6 looked_at: waits for the bit         5 looked_at = 0
 *
 * Waits are many and cancellations few, so the waiter has no fence: the membarrier is a point in its program. If it lies
 * after 1, the canceller finds the object, and looks until the waiter has gone onto the queue or away; else it lies before
 * 2, which sees CANCELED. If it lies before 5, step 6 sees `looked_at`; else the canceller finds nothing put down, or the
 * next object. Checked by models/park, `look`. Without membarrier both have a fence.
 */
#include "light.h"

#include "core/carrier.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The waiter's side. */
static inline void before_looking(void) {
    if (LIKELY(ito__pool.membarrier))
        compiler_barrier(); /* ORDER none in hardware; the partner is the membarrier in look() */
    else
        fence_seq_cst(); /* ORDER seq_cst; pairs with the fence in look() */
}

static void begin(uint32_t *word, struct ito__waiters *queue, bool cancellable) {
    struct light *me = &light_self;
    me->self = ito__self();
    me->wait_queue = queue;
    me->wait_cancellable = cancellable;
    store_relaxed(&me->wait_cut, 0);
    /* ORDER release; pairs with the acquire load in interrupt(). Publishes what else is put down. */
    store_release(&me->wait_word, word);
    /* The middle of ito is no place to be unwound from. The wait is ended by interrupt(). */
    if (me->kind != LIGHT_THREAD)
        REAL(pthread_setcanceltype)(PTHREAD_CANCEL_DEFERRED, &me->cancel_type);
    before_looking();
}

static bool is_asked(void) {
    return light_self.kind == LIGHT_THREAD && load_relaxed(&light_self.asked);
}

/* What was put down has been taken away: step 6. */
static void not_before_looked(struct light *me) {
    before_looking();
    if (UNLIKELY(load_relaxed(&me->looked_at))) {
        uint32_t s = ito__word_lock(&me->word);
        ito__word_unlock(&me->word, s);
    }
}

static void end(void) {
    struct light *me = &light_self;
    store_relaxed(&me->wait_word, NULL);
    not_before_looked(me);
    if (me->wait_cancellable && load_relaxed(&me->wait_cut))
        REAL(pthread_testcancel)();
    if (me->kind != LIGHT_THREAD)
        REAL(pthread_setcanceltype)(me->cancel_type, NULL);
    light_asked();
}

bool light_wait_begin(uint32_t *word, struct ito__waiters *queue) {
    begin(word, queue, true);
    bool cut = tls_cancelled() || is_asked();
    store_relaxed(&light_self.wait_cut, cut);
    return !cut;
}

void light_wait_end(void) {
    end();
}

bool light_hold_begin(uint32_t *word, struct ito__waiters *queue) {
    begin(word, queue, false);
    return !is_asked();
}

void light_hold_end(void) {
    end();
}

/* ---- waits for a descriptor, and calls that wait in the kernel ---------------------------------------------------- */

/* In such a call cancellation is disabled (calls.h); `may_cancel` says that it was not. */
static bool is_stopped(void) {
    return (light_self.may_cancel && tls_cancelled_later()) || is_asked();
}

bool ito__io_wait_begin(uint32_t *word, struct ito__waiters *queue) {
    if (light_self.kind != LIGHT_THREAD)
        return true;
    begin(word, queue, light_self.may_cancel);
    return !is_stopped();
}

void ito__io_wait_end(void) {
    struct light *me = &light_self;
    if (me->wait_word == NULL)
        return;
    store_relaxed(&me->wait_word, NULL);
    not_before_looked(me);
}

/*
 * look_signal is for the thread that is found to compute on a kernel thread. By the time it comes another one may be there, or that one
 * may be pinned, and sleep in the kernel; most calls that sleep so end then, with EINTR, whatever SA_RESTART says. So who sends
 * it holds `looking` from before it looks until it has sent it, and who is about to sleep waits for that, and takes it first.
 */
static uint32_t looking; /* ito's queue bit alone; with who is about to sleep it is as `looked_at` with a waiter */

static void look_begins(void) {
    ito__word_lock(&looking);
    /* ORDER seq_cst in who is about to sleep; the partner is the compiler barrier in before_looking(). */
    if (!ito__pool.membarrier || !ito__membarrier())
        fence_seq_cst(); /* ORDER seq_cst; pairs with the fence in before_looking() */
}
static void look_ends(void) {
    ito__word_unlock(&looking, 0);
}

void light_take_look(void) {
    before_looking();
    if (LIKELY(load_relaxed(&looking) == 0))
        return;
    ito__word_lock(&looking);
    ito__word_unlock(&looking, 0);
    REAL(sched_yield)(); /* signals come at the end of a system call */
}

bool ito__call_began(const ito_call *call) {
    struct light *me = &light_self;
    if (me->kind != LIGHT_THREAD || call->worker == NULL)
        return true;
    store_relaxed(&me->call_tid, load_relaxed(&((struct ito__carrier *)call->carrier)->tid));
    light_take_look();
    return !is_stopped();
}

/* After this nobody sends it the signal any more. */
void ito__call_over(void) {
    struct light *me = &light_self;
    if (load_relaxed(&me->call_tid) == 0)
        return;
    store_relaxed(&me->call_tid, 0);
    not_before_looked(me);
}

/*
 * Two real-time signals that the C library gives away (SIGRTMAX is two less for the program), the only ones that the workers do not
 * block. 0: none; written before the workers start.
 *
 *   kick_signal   ends a call. One that comes before the call has reached the kernel is lost, so it is sent again, up to KICKS_MAX
 *                 times, until the call is over.
 *   look_signal   interrupts a thread that computes. No call of another thread is ended by it (`looking`).
 */
static int kick_signal, look_signal;

static void kicked(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    signals_run_here(context);
}

int light_kick_signal(void) {
    return kick_signal;
}

extern int __libc_allocate_rtsig(int high);

void light_kicks_start(void) {
    /* A handler of the program may run in this one, and wait: the kernel thread goes on with another thread then. */
    struct sigaction a = {.sa_sigaction = kicked, .sa_flags = SA_SIGINFO | SA_NODEFER}, was;
    int *signals[] = {&kick_signal, &look_signal};
    for (int i = 0; i < 2; i++, a.sa_flags |= SA_RESTART) {
        int s = __libc_allocate_rtsig(0);
        if (s > 0 && sigaction(s, NULL, &was) == 0 && was.sa_handler == SIG_DFL && sigaction(s, &a, NULL) == 0)
            *signals[i] = s;
    }
}

/* But for those that a fault raises in the thread that makes it: the kernel ends the process where such a signal is blocked, whatever
 * its handler. On a worker that thread is the light one, with its own stack and thread pointer. */
void light_all_signals(sigset_t *all) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigfillset(all);
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(all, faults[i]);
    if (kick_signal)
        sigdelset(all, kick_signal);
    if (look_signal)
        sigdelset(all, look_signal);
}

/* A program may have set all signals back. */
static bool kick(uint32_t tid, int signal) {
    struct sigaction now;
    return tid && signal && sigaction(signal, NULL, &now) == 0 && now.sa_sigaction == kicked &&
           syscall(SYS_tgkill, getpid(), tid, signal) == 0;
}

/* A call that it sleeps in is none of those that may be ended: it has not told of it. A page that it waits for in no call ("-1"), as another
 * thread is to fill it in (userfaultfd), is asked for again. */
static bool is_running(uint32_t tid) {
    char text[64];
    snprintf(text, sizeof text, "/proc/self/task/%u/syscall", (unsigned)tid);
    long fd = syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    long n = syscall(SYS_read, fd, text, sizeof text);
    syscall(SYS_close, fd);
    return n > 0 && (text[0] == 'r' || text[0] == '-'); /* "running" */
}

/* The worker's kernel thread is interrupted, if `l` seems to compute on it at the moment. */
static void interrupt_on(const struct worker *w, const struct light *l) {
    if (load_relaxed(&w->hot.current) != l->thread)
        return;
    look_begins();
    const struct ito__carrier *c = load_relaxed(&w->carrier);
    if (load_relaxed(&w->hot.current) == l->thread && load_relaxed(&l->kind) == LIGHT_THREAD && c &&
        is_running(load_relaxed(&c->tid)))
        kick(load_relaxed(&c->tid), look_signal);
    look_ends();
}

/* The watcher: t runs on a worker, and has not noticed what was sent to it, as it was in a place where no handler can run. */
void light_remind(const struct worker *w, const struct ito_thread *t) {
    const struct ito__stack *stack = load_relaxed(&t->stack); /* null: it has just ended */
    if (stack == NULL)
        return;
    const struct light *l = light_of((pthread_t)ARCH_PTHREAD_OF(stack->tls));
    if (UNLIKELY(load_relaxed(&l->asked) && load_relaxed(&l->pending)))
        interrupt_on(w, l);
}

void light_interrupt_computing(const struct worker *w, const struct ito_thread *t) {
    const struct ito__stack *stack = load_relaxed(&t->stack); /* null: it has just ended */
    if (stack)
        interrupt_on(w, light_of((pthread_t)ARCH_PTHREAD_OF(stack->tls)));
}

/* The same, if it computes beside the workers, which have been taken from it (look.c). A kernel thread that has another thread by now
 * finds nothing to do. */
static void interrupt_beside(const struct light *l) {
    const struct ito__stack *stack = l->thread ? load_relaxed(&l->thread->stack) : NULL;
    if (stack == NULL || ito__tls_out_at == 0)
        return;
    const struct ito__tls_out *out = (const struct ito__tls_out *)((const char *)stack->tls + ito__tls_out_at);
    const struct ito__carrier *c = load_relaxed(&out->carrier);
    if (c == NULL || load_relaxed(&out->call) != ITO__COMPUTES)
        return;
    look_begins();
    if (load_relaxed(&l->kind) == LIGHT_THREAD && is_running(load_relaxed(&c->tid)))
        kick(load_relaxed(&c->tid), look_signal);
    look_ends();
}

void light_remind_beside(const struct ito_thread *t, void *unused) {
    (void)unused;
    const struct ito__stack *stack = load_relaxed(&t->stack); /* null: it has just ended */
    if (stack == NULL)
        return;
    const struct light *l = light_of((pthread_t)ARCH_PTHREAD_OF(stack->tls));
    if (load_relaxed(&l->asked) && load_relaxed(&l->pending))
        interrupt_beside(l);
}

/* It computes. The light thread found there checks whether the interruption is for it (deliver.c). */
static void interrupt_there(const struct light *l) {
    interrupt_beside(l);
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        interrupt_on(&ito__pool.workers[i], l);
}

/* ---- interrupting ---------------------------------------------------------------------------------------------- */

/* The thread's waiter on the queue, taken off; null: it is not there. The queue's bit is held. */
static struct ito__waiter *take_off(struct ito__waiters *queue, const struct ito_thread *thread) {
    struct ito__waiter *w = queue->head;
    while (w && w->thread != thread)
        w = w->next;
    if (w) {
        ito__waiters_remove(w);
        ito__timer_disarm(w);
    }
    return w;
}

/* Under the bit of l->word: what `l` waits for; it does not leave that before the bit is free. */
static uint32_t *look(struct light *l) {
    store_relaxed(&l->looked_at, 1);
    /* ORDER seq_cst in the waiter; the partner is the compiler barrier in before_looking(). */
    if (!ito__pool.membarrier || !ito__membarrier())
        fence_seq_cst(); /* ORDER seq_cst; pairs with the fence in before_looking() */
    /* ORDER acquire; pairs with the release store in begin(). Shows what else is put down. */
    return load_acquire(&l->wait_word);
}

enum outcome { DONE, IS_ON_ITS_WAY, KICKED };

/* IS_ON_ITS_WAY: look again, it is about to wait or has just done so. */
static enum outcome interrupt(struct light *l, bool cancel) {
    struct ito__waiter *w = NULL;
    enum outcome r = DONE;
    sigset_t all, was;
    light_all_signals(&all);
    REAL(pthread_sigmask)(SIG_SETMASK, &all, &was); /* a handler that runs here may call pthread_kill, too */
    uint32_t s = ito__word_lock(&l->word), *word = look(l);
    if (word && (l->wait_cancellable || !cancel)) {
        uint32_t state = ito__word_lock(word);
        w = take_off(l->wait_queue, l->self);
        if (w)
            store_relaxed(&l->wait_cut, 1); /* waking it publishes this */
        r = w || load_relaxed(&l->self->wait_kind) != ITO__WAIT_NONE ? DONE : IS_ON_ITS_WAY;
        ito__word_unlock(word, state);
    } else if (load_relaxed(&l->call_tid) && (cancel ? l->may_cancel : !l->not_by_handlers) &&
               l->kind == LIGHT_THREAD && kick(load_relaxed(&l->call_tid), kick_signal)) {
        r = KICKED;
    } else if (word == NULL && !cancel && load_relaxed(&l->call_tid) == 0 && l->kind == LIGHT_THREAD) {
        interrupt_there(l);
    }
    store_relaxed(&l->looked_at, 0); /* before the bit is free, which a thread that has seen it waits for */
    ito__word_unlock(&l->word, s);
    REAL(pthread_sigmask)(SIG_SETMASK, &was, NULL);
    if (w)
        ito__waiter_wake(w, ECANCELED);
    return r;
}

#define KICKS_MAX 5000u /* some 5 s: a call that no signal ends must not hold up who cancels it for ever */

void light_interrupt(struct light *l, bool cancel) {
    for (unsigned kicks = 0; kicks < KICKS_MAX;) {
        enum outcome r = interrupt(l, cancel);
        if (r == DONE)
            return;
        if (r == KICKED)
            kicks++;
        if (kicks < 4 || light_here())
            light_here() && r == KICKED ? (void)light_pause(kicks, ITO_FOREVER) : (void)sched_yield();
        else
            syscall(SYS_nanosleep, &(struct timespec){0, kicks < 64 ? 50000 : 1000000}, NULL);
    }
}

EXPORT int pthread_cancel(pthread_t id) {
    struct light *l = light_of(id);
    int r = REAL(pthread_cancel)(id);
    if (l->kind == LIGHT_THREAD && r == ESRCH)
        r = 0; /* asynchronous: it has no kernel thread that could be interrupted, and finds out later */
    if (r == 0)
        light_interrupt(l, true);
    return r;
}
