/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals of light threads. The workers block all but those of faults, which belong to the instruction that raised them: a handler must not run in the middle of ito, on the stack of whatever
 * thread is there. So the kernel gives the process's signals to main and the program's other kernel threads.
 *
 * A light thread's mask is what it last said, and what its creator had; it is told so, and kernel threads that it
 * creates have it. What it unblocks and every kernel thread of the program blocks is taken by a kernel thread of this
 * library, `ito signals`: it waits for what some light thread has unblocked, and has one of these run the handler
 * (deliver.c). It is there from the first time that a kernel thread blocks a signal, or main ends; the kernel asks main first.
 *
 *   field      writer                                 reader
 *   mask, n    holder of `lock`; n is published       any: what lies below n does not change
 *   count      any, read-modify-write                 the signal thread: light threads with that mask
 *   started    any, read-modify-write                 any
 *   turn       whoever changed a count to or from 0   the signal thread
 *   applied    the signal thread                      who waits for it: the turn that it has looked for
 *   tid        the signal thread, before it waits     who changed a count
 */
#include "light.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MASKS 64u /* that differ, in the life of the process; threads with further ones count as blocking all */

static struct {
    uint64_t mask[MASKS];
    uint32_t count[MASKS];
    uint32_t n, started, turn, applied, tid;
    struct ito__spin lock;
} taken;

/* Signals 1 to 64, as the kernel has them. */
static uint64_t bits(const sigset_t *set) {
    uint64_t b;
    memcpy(&b, set, sizeof b);
    return b;
}

/* What the C library and this one keep for themselves is not taken: the first two are real-time signals that sigset_t of programs
 * does not name. */
#define C_LIBRARYS (1ull << (__SIGRTMIN - 1) | 1ull << __SIGRTMIN)
static uint64_t bit(int signal) {
    return signal > 0 ? 1ull << (signal - 1) : 0;
}

/* What some light thread has unblocked. */
static uint64_t wanted(void) {
    uint64_t all = 0;
    /* ORDER acquire; pairs with the release store in mask_number(). Shows the masks below n. */
    uint32_t n = load_acquire(&taken.n);
    for (uint32_t i = 0; i < n; i++)
        if (load_relaxed(&taken.count[i]) != 0)
            all |= ~taken.mask[i];
    return all & ~(C_LIBRARYS | bit(SIGKILL) | bit(SIGSTOP));
}

/* It blocks all signals. A changed count is told to it by the signal that ends calls, which waits where it is not waited for. */
static void *signal_main(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "ito signals");
    store_relaxed(&taken.tid, (uint32_t)syscall(SYS_gettid));
    int told = light_kick_signal();
    const struct timespec none = {0, 0}, soon = {0, 10000000}, *longest = told ? NULL : &soon;
    for (;;) {
        sigset_t set;
        siginfo_t info;
        int signal;
        /* ORDER acquire; pairs with the read-modify-write in count_changed(). Shows the counts that it tells of. */
        uint32_t turn = load_acquire(&taken.turn);
        uint64_t all = wanted() | bit(told);
        sigemptyset(&set);
        memcpy(&set, &all, sizeof all);
        while ((signal = REAL(sigtimedwait)(&set, &info, &none)) > 0)
            if (signal != told)
                signals_deliver(signal, &info);
        /* ORDER release; pairs with the acquire load in tell(): what waited has been delivered. */
        store_release(&taken.applied, turn);
        /* ORDER acquire; as above. */
        if (turn == load_acquire(&taken.turn) && (signal = REAL(sigtimedwait)(&set, &info, longest)) > 0 &&
            signal != told)
            signals_deliver(signal, &info);
    }
    return NULL;
}

void signals_start(void) {
    sigset_t all, old;
    pthread_t id;
    if (LIKELY(load_relaxed(&taken.started)) || !light_works())
        return;
    sigfillset(&all);
    REAL(pthread_sigmask)(SIG_SETMASK, &all, &old); /* a handler may come here too: no lock */
    if (__atomic_exchange_n(&taken.started, 1, __ATOMIC_RELAXED) == 0) {
        /* ORDER seq_cst; pairs with the fence in count_changed(): either the new thread sees a count, or who changed it
         * sees `started`. */
        fence_seq_cst();
        if (REAL(pthread_create)(&id, NULL, signal_main, NULL) == 0)
            REAL(pthread_detach)(id);
        else
            store_relaxed(&taken.started, 0); /* tried again at the next occasion */
    }
    REAL(pthread_sigmask)(SIG_SETMASK, &old, NULL);
}

void signals_forget(void) {
    memset(&taken, 0, sizeof taken);
}

/* Where the threads with one mask are the first or the last. Returns the turn that tells of it. */
static uint32_t count_changed(void) {
    /* ORDER seq_cst; pairs with the fence in signals_start(). */
    fence_seq_cst();
    if (!load_relaxed(&taken.started))
        return load_relaxed(&taken.applied);
    /* ORDER acq_rel; pairs with the acquire load in signal_main(). Publishes the count. */
    uint32_t turn = add_acq_rel(&taken.turn, 1) + 1;
    if (load_relaxed(&taken.tid) && light_kick_signal())
        syscall(SYS_tgkill, getpid(), load_relaxed(&taken.tid), light_kick_signal());
    return turn;
}

/* The number of a mask, a new one where none is like it. */
static uint32_t mask_number(uint64_t mask) {
    /* ORDER acquire; pairs with the release store below. Shows the masks below n. */
    uint32_t i = 0, n = load_acquire(&taken.n);
    while (i < n && taken.mask[i] != mask)
        i++;
    if (i < n)
        return i;
    ito__spin_lock(&taken.lock);
    for (n = taken.n; i < n && taken.mask[i] != mask;)
        i++;
    if (i == n && n == MASKS) {
        i = MASKS - 1;
    } else if (i == n) {
        taken.mask[n] = n == MASKS - 1 ? UINT64_MAX : mask;
        /* ORDER release; pairs with the acquire loads above and in signal_main(). Publishes the mask. */
        store_release(&taken.n, n + 1);
    }
    ito__spin_unlock(&taken.lock);
    return i;
}

void signals_thread_begins(struct light *l) {
    l->mask_number = mask_number(bits(&l->mask));
    if (__atomic_fetch_add(&taken.count[l->mask_number], 1, __ATOMIC_RELAXED) == 0)
        count_changed();
}

void signals_thread_ends(const struct light *l) {
    /* ORDER seq_cst; pairs with the others of this kind, and with that in light_thread_ends(): of two threads that end at
     * a time, the later one sees that both have. */
    if (__atomic_fetch_sub(&taken.count[l->mask_number], 1, __ATOMIC_SEQ_CST) == 1) {
        count_changed();
        light_last_ends();
    }
}

bool signals_no_thread(void) {
    for (uint32_t i = 0; i < MASKS; i++)
        /* ORDER seq_cst; pairs with the changes in signals_thread_ends() and tell(). */
        if (__atomic_load_n(&taken.count[i], __ATOMIC_SEQ_CST) != 0)
            return false;
    return true;
}

/* The mask has changed. Returns when the signal thread knows, and so has run handlers of signals that waited for that;
 * but not where one of those waits itself. */
static void tell(void) {
    uint32_t was = light_self.mask_number, turn;
    uint32_t number = mask_number(bits(&light_self.mask));
    if (number == was)
        return;
    light_self.mask_number = number;
    light_thread_begins();
    /* ORDER seq_cst, both; they pair with the loads in light_last_ends(), which must see them in this order. */
    __atomic_fetch_add(&taken.count[number], 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&taken.count[was], 1, __ATOMIC_SEQ_CST);
    light_thread_ends();
    turn = count_changed();
    uint64_t deadline_ns = ito_now_ns() + 10000000;
    /* ORDER acquire; pairs with the release store in signal_main(). */
    for (unsigned i = 0; (int32_t)(load_acquire(&taken.applied) - turn) < 0; i++)
        if (light_asked() || !light_pause(i, deadline_ns))
            return;
    light_asked();
}

/* A thread that unblocks what it was created with blocked deals with that signal itself: it is pinned. One that blocks
 * signals for a while and unblocks them again is not. */
static int mask(int how, const sigset_t *set, sigset_t *old) {
    sigset_t next = light_self.mask;
    if (set && how == SIG_BLOCK)
        sigorset(&next, &light_self.mask, set);
    else if (set && how == SIG_SETMASK)
        next = *set;
    else if (set && how == SIG_UNBLOCK)
        for (int s = 1; s < NSIG; s++)
            sigismember(set, s) == 1 ? sigdelset(&next, s) : 0;
    else if (set)
        return EINVAL;
    if (~bits(&next) & light_self.mask_at_first && light_pin("a signal mask"))
        return REAL(pthread_sigmask)(how, set, old);
    sigdelset(&next, SIGKILL);
    sigdelset(&next, SIGSTOP);
    if (old)
        *old = light_self.mask;
    light_self.mask = next;
    if (set)
        tell();
    /* ORDER seq_cst; pairs with the read-modify-write in light_send(): it sees this mask, or what it sent is seen here. */
    fence_seq_cst();
    if (set && UNLIKELY(load_relaxed(&light_self.pending) & ~bits(&next)))
        light_pin("pthread_kill");
    return 0;
}

/* A kernel thread has changed its own. */
static void kernel_blocks(const sigset_t *set, int how) {
    if (set && how != SIG_UNBLOCK && bits(set) != 0)
        signals_start();
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    if (!light_here()) {
        kernel_blocks(set, how);
        return REAL(pthread_sigmask)(how, set, old);
    }
    return mask(how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    if (!light_here()) {
        kernel_blocks(set, how);
        return REAL(sigprocmask)(how, set, old);
    }
    int r = mask(how, set, old);
    if (r)
        errno = r;
    return r ? -1 : 0;
}

/* A light thread is pinned by it, as handlers run in the thread that a signal was sent to. 0 asks whether it is there. */
EXPORT int pthread_kill(pthread_t id, int signal) {
    struct light *l = light_of(id);
    if (l->kind == LIGHT_THREAD && load_relaxed(&l->word) & LIGHT_ENDED)
        return signal < 0 || signal >= NSIG ? EINVAL : 0;
    if (l->kind == LIGHT_THREAD && signal != 0 && id == pthread_self())
        light_pin("pthread_kill");
    if (l->kind != LIGHT_THREAD)
        return REAL(pthread_kill)(id, signal);
    if (signal < 0 || signal >= NSIG)
        return EINVAL;
    if (signal == 0)
        return 0;
    /* Without a handler it is the process that it ends or stops, at once. The mask may be changing: then it is as if the
     * signal had come a little earlier or later. */
    struct sigaction now;
    if (sigismember(&l->mask, signal) == 0 && sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        return kill(getpid(), signal) ? errno : 0;
    light_send(l, signal);
    return 0;
}

/*
 * ---- setuid and its relatives ----------------------------------------------------------------------------------------
 *
 * The C library changes the ids of all kernel threads by a signal of its own, whose handler marks in the control block that the thread
 * pointer shows that it has run, and it sends the signal until all are marked. Those are the kernel threads' own blocks, so the handler
 * is called with the thread pointer of the kernel thread. One that comes while a thread is being pinned may find the wrong one, and is
 * sent again.
 */
#define CHANGES_IDS (__SIGRTMIN + 1)

struct kernel_action { /* of 64-bit CPUs whose C library says where a handler returns to */
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};
static struct kernel_action c_library;

static __attribute__((noinline)) void set_thread_pointer(char *tp) {
    arch_set_thread_pointer(tp);
}
static void changes_ids(int signal, siginfo_t *info, void *context) {
    char *mine = arch_thread_pointer();
    set_thread_pointer(tls_kernel_pointer());
    c_library.handler(signal, info, context);
    set_thread_pointer(mine);
}

void signals_know_ids(void) {
    if (syscall(SYS_rt_sigaction, CHANGES_IDS, NULL, &c_library, sizeof c_library.mask) ||
        !(c_library.flags & SA_SIGINFO))
        return;
    struct kernel_action ours = c_library;
    ours.handler = changes_ids;
    ours.mask = UINT64_MAX;
    syscall(SYS_rt_sigaction, CHANGES_IDS, &ours, NULL, sizeof ours.mask);
}

/* ---- a thread that deals with signals itself is pinned: they are the kernel's matter from then on ------------------ */

EXPORT int raise(int signal) {
    light_pin("raise");
    return REAL(raise)(signal);
}
EXPORT int sigwait(const sigset_t *set, int *signal) {
    light_pin("sigwait");
    return REAL(sigwait)(set, signal);
}
EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info) {
    light_pin("sigwaitinfo");
    return REAL(sigwaitinfo)(set, info);
}
EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *t) {
    light_pin("sigtimedwait");
    return REAL(sigtimedwait)(set, info, t);
}
EXPORT int sigsuspend(const sigset_t *set) {
    light_pin("sigsuspend");
    return REAL(sigsuspend)(set);
}
EXPORT int pause(void) {
    light_pin("pause");
    return REAL(pause)();
}
EXPORT int sigpending(sigset_t *set) {
    light_pin("sigpending");
    return REAL(sigpending)(set);
}
EXPORT int __sigpause(int signal_or_mask, int is_signal) {
    light_pin("sigpause");
    return REAL(__sigpause)(signal_or_mask, is_signal);
}
EXPORT int __xpg_sigpause(int signal);
EXPORT int __xpg_sigpause(int signal) {
    return __sigpause(signal, 1);
}
/* BSD's. The headers give System V's the name above. */
EXPORT int bsd_sigpause(int mask) __asm__("sigpause");
EXPORT int bsd_sigpause(int mask) {
    return __sigpause(mask, 0);
}

/* ---- older names: the C library's change the mask of the kernel thread ---------------------------------------------- */

static int change_one(int how, int signal, sigset_t *old) {
    sigset_t one;
    sigemptyset(&one);
    return sigaddset(&one, signal) ? -1 : sigprocmask(how, &one, old);
}
EXPORT int sighold(int signal) {
    return change_one(SIG_BLOCK, signal, NULL);
}
EXPORT int sigrelse(int signal) {
    return change_one(SIG_UNBLOCK, signal, NULL);
}
EXPORT sighandler_t sigset(int signal, sighandler_t handler) {
    struct sigaction next = {.sa_handler = handler}, was;
    sigset_t old;
    bool hold = handler == SIG_HOLD;
    if (handler == SIG_ERR)
        errno = EINVAL;
    if (handler == SIG_ERR || sigaction(signal, hold ? NULL : &next, &was) ||
        change_one(hold ? SIG_BLOCK : SIG_UNBLOCK, signal, &old))
        return SIG_ERR;
    return sigismember(&old, signal) ? SIG_HOLD : was.sa_handler;
}

/* BSD's masks are of signals 1 to 32. */
static int change_some(int how, int mask) {
    uint64_t some = (uint32_t)mask;
    sigset_t set, old;
    sigemptyset(&set);
    memcpy(&set, &some, sizeof some);
    return sigprocmask(how, &set, &old) ? -1 : (int)bits(&old);
}
EXPORT int sigblock(int mask) {
    return change_some(SIG_BLOCK, mask);
}
EXPORT int sigsetmask(int mask) {
    return change_some(SIG_SETMASK, mask);
}
EXPORT int siggetmask(void) {
    return change_some(SIG_BLOCK, 0);
}
