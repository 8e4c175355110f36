/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Pinned threads: a light thread that asks for what only a kernel thread has (asynchronous cancellation, a scheduling
 * class, CPUs, a clock of its CPU time, a signal of its own, sigwait, a robust mutex) is tied to the kernel thread that
 * it is on, until it ends. It is a call that may wait (ito_blocking_begin) and does not return: the worker goes to
 * another kernel thread, and this one is the thread's own. Its stack, its TLS block, its pthread_t and its id in ito
 * stay, so that it owns what it owned, and all of this library works as for other kernel threads.
 *
 *   light -> pinned   light_pin(), by the thread itself
 *   pinned -> light   light_unpin(), at its end: it leaves the kernel thread as it was
 */
#include "light.h"

#include "core/carrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel looks for robust mutexes where the kernel thread says. */
static void robust_list(void *head) {
    if (head)
        syscall(SYS_set_robust_list, head, 3 * sizeof(void *));
}

/* What the kernel does where a kernel thread ends: mutexes on its list are told that their owner has died. The C library
 * keeps the list circular; bit 0 marks one with priority inheritance, whose waiters the kernel wakes by FUTEX_UNLOCK_PI. */
static void owner_died(struct robust_list_head *head) {
    uint32_t me = (uint32_t)tls_tid();
    uintptr_t at = head ? (uintptr_t)head->list.next : 0;
    for (unsigned n = 0; head && (at & ~(uintptr_t)1) != (uintptr_t)head && n < ROBUST_LIST_LIMIT; n++) {
        struct robust_list *entry = (struct robust_list *)(at & ~(uintptr_t)1);
        uint32_t *word = (uint32_t *)((char *)entry + head->futex_offset), value = load_relaxed(word);
        bool inherits = at & 1;
        at = (uintptr_t)entry->next; /* before another thread has the mutex */
        if ((value & FUTEX_TID_MASK) != me)
            continue;
        if (inherits && value & FUTEX_WAITERS) {
            syscall(SYS_futex, word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
            continue;
        }
        /* ORDER acq_rel; pairs with the C library's lock of the mutex. Publishes what its owner did. */
        while (!cas_acq_rel(word, &value, (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED))
            ;
        if (value & FUTEX_WAITERS)
            syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    if (head)
        head->list.next = &head->list;
}

static void take_pending(struct light *l) {
    /* ORDER seq_cst; pairs with the read-modify-write in light_send(). */
    uint64_t signals = __atomic_exchange_n(&l->pending, 0, __ATOMIC_SEQ_CST);
    for (int s = 1; signals; s++, signals >>= 1)
        if (signals & 1) {
            unsigned ends = light_would_end(l, s);
            REAL(pthread_kill)((pthread_t)ARCH_PTHREAD_OF(l->stack->tls), s);
            light_has_ended(l, ends);
        }
}

/* Another thread may have taken what was pending before the thread did: before the thread goes on it waits until the
 * signal has been sent and the flags say which calls it ends; and it does not end in between. */
static void wait_for_senders(struct light *me) {
    /* ORDER acquire; pairs with the release decrement in light_send(). Shows what light_has_ended() wrote. */
    while (load_acquire(&me->senders))
        ito__prim_yield();
}

/* For what another thread wants of it. */
bool light_pin_asked(void) {
    return light_pin(load_relaxed(&light_self.pending) ? "pthread_kill" : "what another thread sets");
}

bool light_pin(const char *why) {
    struct light *me = &light_self;
    int saved = errno;
    size_t bytes;
    if (me->kind != LIGHT_THREAD)
        return me->kind == LIGHT_PINNED;
    struct ito_thread *t = ito__self();
    ito__keep_self(t);
    ito_blocking_begin(&me->pinned, "pinned");
    if (me->pinned.worker == NULL) { /* no kernel thread for the watcher */
        ito__keep_self(NULL);
        return false;
    }
    me->pinned.begin_stamp = 0; /* no call that was handed over */
    me->told = load_relaxed(&ito__telling);
    if (me->told)
        ito__told_pinned(me->pinned.carrier, why);
    tls_set_tid(pthread_self(), (int)syscall(SYS_gettid));
    __atomic_store_n(&me->kind, LIGHT_PINNED,
                     __ATOMIC_SEQ_CST); /* ORDER seq_cst; pairs with light_ask(): its number is there */
    light_take_look();
    if (syscall(SYS_get_robust_list, 0, &me->carrier_robust, &bytes))
        me->carrier_robust = NULL;
    robust_list(me->carrier_robust ? tls_robust_list() : NULL);
    light_thread_begins();
    if (me->alt_stack.ss_sp)
        REAL(sigaltstack)(&me->alt_stack, NULL);
    signals_thread_ends(me); /* the kernel has its mask from here on */
    REAL(pthread_sigmask)(SIG_SETMASK, &me->mask, NULL);
    ito__carriers_keep(1);
    take_pending(me);
    wait_for_senders(me);
    signals_take_offer();
    errno = saved;
    return true;
}

bool light_ask(struct light *l) {
    if (l->kind == LIGHT_THREAD) {
        /* ORDER seq_cst; pairs with the fence in begin() of cancel.c: the thread sees it, or its wait is found. */
        __atomic_store_n(&l->asked, 1, __ATOMIC_SEQ_CST);
        light_interrupt(l, false);
    }
    return l->kind == LIGHT_PINNED;
}

/* A signal for a thread that is not pinned. */
void light_send(struct light *l, int signal) {
    /* ORDER seq_cst; pairs with the exchange in take_pending(), which comes after `kind` has been set: the thread takes
     * it, or it is pinned by now and what it did not take is sent here. */
    __atomic_fetch_or(&l->pending, 1ull << (signal - 1), __ATOMIC_SEQ_CST);
    if (load_relaxed(&l->kind) == LIGHT_THREAD && sigismember(&l->mask, signal) == 1)
        return; /* it blocks it: mask() in signals.c, and what asks for signals, look for it */
    /* A thread that computes may just be in a function of the C library, or of this one, where no handler can run; later the watcher reminds it. */
    for (unsigned turn = 0; turn < 18; turn++) {
        if (light_ask(l)) {
            /* ORDER seq_cst; comes before the exchange in take_pending(): where the thread finds nothing there, it sees this.
             * ORDER release; pairs with the acquire load in wait_for_senders(). */
            __atomic_fetch_add(&l->senders, 1, __ATOMIC_SEQ_CST);
            take_pending(l);
            __atomic_fetch_sub(&l->senders, 1, __ATOMIC_RELEASE);
            return;
        }
        if (!(load_relaxed(&l->pending) & 1ull << (signal - 1)) || load_relaxed(&l->word) & LIGHT_ENDED)
            return;
        light_pause(turn, ITO_FOREVER);
    }
}

void light_unpin(struct light *me) {
    sigset_t all;
    cpu_set_t cpus;
    int policy;
    struct sched_param param;
    if (me->kind != LIGHT_PINNED)
        return;
    wait_for_senders(me);
    light_all_signals(&all);
    REAL(pthread_sigmask)(SIG_SETMASK, &all, NULL);
    if (REAL(pthread_getschedparam)(pthread_self(), &policy, &param) == 0 && policy != SCHED_OTHER) {
        param.sched_priority = 0;
        REAL(pthread_setschedparam)(pthread_self(), SCHED_OTHER, &param);
    }
    if (me->own_cpus && sched_getaffinity(getpid(), sizeof cpus, &cpus) == 0)
        sched_setaffinity(0, sizeof cpus, &cpus);
    if (me->told)
        ito__told_unpinned(me->pinned.carrier);
    owner_died(tls_robust_list());
    robust_list(me->carrier_robust);
    if (me->alt_stack.ss_sp)
        REAL(sigaltstack)(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    tls_set_tid(pthread_self(), (int)me->tid);
    me->kind = LIGHT_THREAD;
    me->async = false;
    store_relaxed(&me->asked, 0);
    ito__keep_self(NULL);
    ito__carriers_keep(-1);
    ito_blocking_end(&me->pinned);
}

/* Where it cannot be pinned, an asynchronous cancellation is deferred. */
EXPORT int pthread_setcanceltype(int type, int *old) {
    if (light_self.kind != LIGHT_NONE && (type == PTHREAD_CANCEL_ASYNCHRONOUS || type == PTHREAD_CANCEL_DEFERRED)) {
        bool pinned = type == PTHREAD_CANCEL_ASYNCHRONOUS ? light_pin("asynchronous cancellation")
                                                          : light_self.kind == LIGHT_PINNED;
        light_self.async = pinned && type == PTHREAD_CANCEL_ASYNCHRONOUS;
    }
    return REAL(pthread_setcanceltype)(type, old);
}
