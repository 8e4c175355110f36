/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals for the process that only light threads have unblocked (signals.c says which): how they reach one of them, so that the
 * handler finds the thread-local data, the stack and the pthread_self() of a thread of the program.
 *
 * `ito signals`, a kernel thread of this library, takes them by sigtimedwait. It offers each to a light thread that has it unblocked, one
 * that waits before one that computes, and asks that one as pthread_kill does. The thread is pinned, takes the offer and sends itself
 * what was offered, so nothing is lost where it ends meanwhile. A thread that computes in the program's own code is interrupted there by a
 * signal of its own (cancel.c), and calls the handler itself. An offer that nobody takes is withdrawn and made to another one; in
 * the end the signal goes back to the process, where main may have unblocked it by now.
 *
 *   offer.state   NONE -> OFFERED             ito signals: `signal` and `info` are set
 *                 OFFERED -> NONE             the same: too late
 *                 OFFERED -> LOOKED_AT        the thread (compare-and-swap), which alone reads them then
 *                 LOOKED_AT -> TAKEN, LEFT    the same; LEFT: it has blocked it
 */
#include "light.h"

#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { NONE, OFFERED, LOOKED_AT, TAKEN, LEFT };

static struct {
    uint32_t state; /* atomic, and a futex */
    int signal;
    siginfo_t info;
} offer;

/* ---- the thread's side ------------------------------------------------------------------------------------------- */

static bool take_offer(int *signal, siginfo_t *info) {
    uint32_t offered = OFFERED;
    /* ORDER acq_rel; pairs with the release store in offered_to(). Shows the offer. */
    if (load_relaxed(&offer.state) != OFFERED || !cas_acq_rel(&offer.state, &offered, LOOKED_AT))
        return false;
    *signal = offer.signal;
    *info = offer.info;
    bool wanted = sigismember(&light_self.mask, *signal) == 0;
    /* ORDER release; pairs with the acquire load in offered_to(): the offer has been read. */
    store_release(&offer.state, wanted ? TAKEN : LEFT);
    ito__prim_wake(&offer.state, 1);
    return wanted;
}

unsigned light_would_end(const struct light *l, int signal) {
    struct sigaction now;
    if (sigismember(&l->mask, signal) || sigaction(signal, NULL, &now) || now.sa_handler == SIG_DFL ||
        now.sa_handler == SIG_IGN)
        return 0;
    return now.sa_flags & SA_RESTART ? 1 : 3;
}

void light_has_ended(struct light *l, unsigned calls) {
    if (calls & 1)
        l->handled = true;
    if (calls & 2)
        l->ended_call = true;
}

void signals_take_offer(void) {
    int signal;
    siginfo_t info;
    if (!take_offer(&signal, &info))
        return;
    unsigned ends = light_would_end(&light_self, signal);
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, &info);
    light_has_ended(&light_self, ends);
}

/* The thread stays light, and may wait in the handler as anywhere else. Its mask is as in a handler. */
static void call_handler(int signal, siginfo_t *info, void *context) {
    struct sigaction now;
    sigset_t was = light_self.mask;
    if (sigaction(signal, NULL, &now) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
        return;
    if (now.sa_flags & SA_RESETHAND)
        sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigorset(&light_self.mask, &was, &now.sa_mask);
    if (!(now.sa_flags & SA_NODEFER))
        sigaddset(&light_self.mask, signal);
    if (now.sa_flags & SA_SIGINFO)
        now.sa_sigaction(signal, info, context);
    else
        now.sa_handler(signal);
    light_self.mask = was;
}

/* Code that may be in the middle of something that this library needs: its own, the C library's, the linker's, the kernel's. */
static struct { uintptr_t low, high; } not_here[8];
static unsigned n_not_here;

static int add_library(struct dl_phdr_info *info, size_t bytes, void *addresses) {
    (void)bytes;
    const uintptr_t *at = addresses;
    uintptr_t low = UINTPTR_MAX, high = 0;
    bool found = false;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            low = from < low ? from : low;
            high = from + info->dlpi_phdr[i].p_memsz > high ? from + info->dlpi_phdr[i].p_memsz : high;
        }
    for (; *at; at++)
        found |= *at >= low && *at < high;
    if (found && n_not_here < sizeof not_here / sizeof *not_here) {
        not_here[n_not_here].low = low;
        not_here[n_not_here++].high = high;
    }
    return 0;
}

void signals_know_code(void) {
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    uintptr_t at[] = {(uintptr_t)&signals_know_code, (uintptr_t)REAL(nanosleep), (uintptr_t)REAL(pthread_create),
                      getauxval(AT_BASE), 0};
    dl_iterate_phdr(add_library, at);
    not_here[n_not_here].low = vdso;
    not_here[n_not_here].high = vdso + 16 * ito__prim_page();
    n_not_here += vdso != 0 && n_not_here + 1 < sizeof not_here / sizeof *not_here;
}

static bool is_programs(uintptr_t pc) {
    for (unsigned i = 0; i < n_not_here; i++)
        if (pc >= not_here[i].low && pc < not_here[i].high)
            return false;
    return n_not_here > 1;
}

/* What pthread_kill has sent to it. False: nothing. */
static bool call_sent(void *context) {
    uint64_t blocked;
    memcpy(&blocked, &light_self.mask, sizeof blocked);
    /* ORDER seq_cst; pairs with the read-modify-write in light_send(). */
    uint64_t sent = __atomic_fetch_and(&light_self.pending, blocked, __ATOMIC_SEQ_CST) & ~blocked;
    bool any = sent != 0;
    for (int s = 1; sent; s++, sent >>= 1)
        if (sent & 1) {
            siginfo_t info = {.si_signo = s, .si_code = SI_TKILL};
            info.si_pid = getpid();
            info.si_uid = getuid();
            call_handler(s, &info, context);
        }
    return any;
}

void signals_run_here(void *context) {
    const ucontext_t *c = context;
    int signal, saved = errno;
    siginfo_t info;
    if (light_self.kind != LIGHT_THREAD || !is_programs(ARCH_PC_OF(c)))
        return;
    look_leave_worker();
    if (load_relaxed(&light_self.asked) == 0)
        return;
    do { /* what comes meanwhile interrupts this code, and is left to it */
        if (take_offer(&signal, &info))
            call_handler(signal, &info, context);
    } while (call_sent(context));
    errno = saved;
}

/* ---- ito signals ------------------------------------------------------------------------------------------------- */

struct search {
    int signal;
    unsigned skip; /* so many have been tried */
    struct light *waiting, *other;
};

static void consider(const struct ito_thread *t, void *search) {
    struct search *s = search;
    const struct ito__stack *stack = load_relaxed(&t->stack); /* null: it has just ended */
    if (stack == NULL)
        return;
    struct light *l = light_of((pthread_t)ARCH_PTHREAD_OF(stack->tls));
    if (load_relaxed(&l->kind) != LIGHT_THREAD || load_relaxed(&l->word) & LIGHT_ENDED ||
        sigismember(&l->mask, s->signal) != 0)
        return;
    if (s->skip > 0)
        s->skip--;
    else if (load_relaxed(&l->wait_word) || load_relaxed(&l->call_tid))
        s->waiting = s->waiting ? s->waiting : l;
    else
        s->other = s->other ? s->other : l;
}

#define PATIENCE_NS 5000000u

/* Whether the thread, or another one that was pinned meanwhile, has taken it. */
static bool offered_to(struct light *l, int signal, const siginfo_t *info) {
    offer.signal = signal;
    offer.info = *info;
    /* ORDER release; pairs with the compare-and-swap in take_offer(). Publishes the offer. */
    store_release(&offer.state, OFFERED);
    uint64_t deadline_ns = ito_now_ns() + PATIENCE_NS;
    for (;;) {
        light_ask(l); /* again: one that computes may just have been in a function of the C library */
        /* ORDER acquire; pairs with the release store in take_offer(): it has been read, and may be changed. */
        uint32_t state = load_acquire(&offer.state), offered = OFFERED;
        if (state == TAKEN || state == LEFT)
            return state == TAKEN;
        /* ORDER acq_rel; pairs with the compare-and-swap in take_offer(): one of the two has it. */
        if (ito_now_ns() >= deadline_ns && cas_acq_rel(&offer.state, &offered, NONE))
            return false;
        ito__prim_wait(&offer.state, state, 1000000);
    }
}

void signals_deliver(int signal, siginfo_t *info) {
    struct sigaction now;
    if (sigaction(signal, NULL, &now) || now.sa_handler == SIG_IGN)
        return;
    if (now.sa_handler == SIG_DFL) { /* for the process: this thread lets it happen */
        sigset_t set, was;
        sigemptyset(&set);
        sigaddset(&set, signal);
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
        REAL(pthread_sigmask)(SIG_UNBLOCK, &set, &was);
        REAL(pthread_sigmask)(SIG_SETMASK, &was, NULL);
        return;
    }
    for (unsigned tried = 0; tried < 8; tried++) {
        struct search s = {.signal = signal, .skip = tried};
        ito__descriptor_each(consider, &s);
        struct light *l = s.waiting ? s.waiting : s.other;
        if (l == NULL && tried == 0)
            break;
        if (l && offered_to(l, signal, info))
            return;
    }
    /* They have ended or blocked it, or none has got to a place where a handler may run. */
    syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL);
    if (syscall(SYS_rt_sigqueueinfo, getpid(), signal, info)) /* as from kill: only main may say so */
        kill(getpid(), signal);
}

/* ---- alternative stacks ------------------------------------------------------------------------------------------- */

/* Where handlers of a pinned thread run. The kernel says whether it would take it; a light thread's kernel thread keeps none. */
EXPORT int sigaltstack(const stack_t *stack, stack_t *old) {
    struct light *me = &light_self;
    stack_t was = me->alt_stack, before;
    if (me->kind == LIGHT_NONE)
        return REAL(sigaltstack)(stack, old);
    if (me->kind == LIGHT_THREAD && stack) {
        if (REAL(sigaltstack)(stack, &before))
            return -1;
        REAL(sigaltstack)(&before, NULL);
    } else if (me->kind == LIGHT_PINNED && REAL(sigaltstack)(stack, old)) {
        return -1;
    }
    if (stack)
        me->alt_stack = *stack;
    if (stack && stack->ss_flags & SS_DISABLE)
        me->alt_stack.ss_sp = NULL;
    if (me->kind == LIGHT_THREAD && old) {
        *old = was;
        old->ss_flags = was.ss_sp ? was.ss_flags : SS_DISABLE;
    }
    return 0;
}
