/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * syscall(SYS_futex): how Rust's standard library, C++20's atomic waits, oneTBB and others wait. A light thread that waits so for a word
 * that its process alone uses sleeps in a queue of this library, without its kernel thread; all other system calls are passed on.
 *
 *   table of waits     a bucket for each hash of an address, as the kernel has it. waiter.value is the address, waiter.want its bits
 *   wait               onto the queue, then a look at the word: EAGAIN where it has changed. All under the bucket's bit
 *   wake               takes light threads off the queue under the bit, then has the kernel wake of its own what is left of the number
 *   requeue, wake_op   wake all light threads of their words first, which look again (futex(2): a wait may return 0 without a wake)
 *
 * Kernel threads, pinned ones too, wait in the kernel. A waker stores to the word before it takes the bit, so either a waiter that had the bit
 * before is on the queue, or the waiter sees the word changed.
 */
#include "calls.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

long ito__syscall_fails(long error) __attribute__((visibility("hidden"), used));
long ito__syscall_fails(long error) {
    errno = (int)-error;
    return -1;
}
ARCH_SYSCALL(ito__real_syscall, ito__syscall_fails)

/* What the C library's syscall() passes on. */
struct futex_call {
    uint32_t *at;
    uint32_t op, value;
    const struct timespec *time;
    uint32_t *at2;
    uint32_t bits;
};

static struct bucket {
    uint32_t word;  /* its queue bit is all of it */
    uint32_t wakes; /* atomic, relaxed: may lose some */
    struct ito__waiters waiters;
    char own_line[64 - 2 * sizeof(uint32_t) - sizeof(struct ito__waiters)];
} buckets[256];

static struct bucket *bucket_of(const uint32_t *at) {
    return &buckets[((uintptr_t)at >> 2) * 0x9e3779b97f4a7c15u >> 56];
}

/* In the child: its only thread waits for nothing. */
void futexes_forked(void) {
    memset(buckets, 0, sizeof buckets);
}

static long as_it_is(const struct futex_call *c) {
    return ito__real_syscall(SYS_futex, c->at, c->op, c->value, c->time, c->at2, c->bits);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Relative for FUTEX_WAIT, of the clock that is named for FUTEX_WAIT_BITSET. False: what only the kernel judges. */
static bool deadline_of(const struct futex_call *c, uint64_t *deadline_ns) {
    clockid_t clock = c->op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    if (c->time == NULL)
        *deadline_ns = ITO_FOREVER;
    else if (c->time->tv_sec < 0 || c->time->tv_nsec < 0 || c->time->tv_nsec >= 1000000000)
        return false;
    else if ((c->op & FUTEX_CMD_MASK) == FUTEX_WAIT)
        *deadline_ns = call_deadline(c->time);
    else
        return light_deadline(clock, c->time, deadline_ns);
    return true;
}

/* ECANCELED: the caller is to be pinned. */
static int wait_in(struct bucket *b, const struct futex_call *c, uint64_t deadline_ns) {
    struct ito__waiter w;
    ito__word_lock(&b->word);
    ito__waiters_drop_stale(&b->waiters);
    /* ORDER acquire; pairs with the waker's store, whatever its order: what it did before is seen. */
    if (load_acquire(c->at) != c->value) {
        ito__word_unlock(&b->word, 0);
        return EAGAIN;
    }
    int late = ito__deadline_check(deadline_ns);
    if (late) {
        ito__word_unlock(&b->word, 0);
        return late;
    }
    ito__waiter_init(&w);
    w.value = c->at;
    w.want = c->bits;
    ito__waiters_push(&b->waiters, &w);
    return ito__wait(&w, &b->word, 0, deadline_ns, ITO__WAIT_FUTEX, c->at, NULL);
}

static long light_wait(const struct futex_call *c) {
    struct bucket *b = bucket_of(c->at);
    struct timespec left;
    uint64_t deadline_ns;
    int r = ECANCELED, saved = errno;
    if (c->bits == 0 || (uintptr_t)c->at % sizeof *c->at || !deadline_of(c, &deadline_ns))
        return as_it_is(c);
    if (deadline_ns != ITO_FOREVER && ito__timers_start() != 0) /* starts them without the bit */
        return as_it_is(c);
    light_self.handled = light_self.ended_call = false;
    if (light_hold_begin(&b->word, &b->waiters))
        r = wait_in(b, c, deadline_ns);
    light_hold_end();
    /* It has a kernel thread now, and waits there, unless the kernel would have ended the call for a handler (signal(7)). */
    if (r == ECANCELED && !(c->time ? light_self.handled : light_self.ended_call)) {
        struct futex_call again = *c;
        if ((c->op & FUTEX_CMD_MASK) == FUTEX_WAIT)
            again.time = call_left(deadline_ns, &left);
        return as_it_is(&again);
    }
    errno = r ? r == ECANCELED ? EINTR : r : saved;
    return r ? -1 : 0;
}

/* ---- waking ------------------------------------------------------------------------------------------------------ */

/* Wakes up to n light threads that wait for the word, those that came first. */
static uint32_t wake_light(uint32_t *at, uint32_t n, uint32_t bits) {
    struct bucket *b = bucket_of(at);
    struct ito__waiter *list = NULL, **end = &list, *next;
    uint32_t done = 0;
    ito__word_lock(&b->word);
    ito__waiters_drop_stale(&b->waiters);
    for (struct ito__waiter *w = b->waiters.head; w && done < n; w = next) {
        next = w->next;
        if (w->value != at || !(w->want & bits))
            continue;
        ito__waiters_remove(w);
        ito__timer_disarm(w);
        w->next = NULL;
        *end = w;
        end = &w->next;
        done++;
    }
    ito__word_unlock(&b->word, 0);
    ito__waiter_wake_all(list, 0);
    return done;
}

/* Light threads first, as that needs no system call; but every sixteenth time those in the kernel, so that none of these is passed by for
 * ever. */
static long wake(struct futex_call *c) {
    struct bucket *b = bucket_of(c->at);
    uint32_t n = c->value, light = 0, turn = load_relaxed(&b->wakes) + 1;
    int saved = errno;
    bool kernel_first = turn % 16 == 0;
    store_relaxed(&b->wakes, turn);
    if (n > INT_MAX || c->bits == 0 || (uintptr_t)c->at % sizeof *c->at)
        return as_it_is(c);
    if (!kernel_first)
        light = wake_light(c->at, n, c->bits);
    if (light == n && n > 0)
        return light;
    c->value = n - light;
    long kernel = as_it_is(c);
    if (kernel < 0 && light == 0)
        return kernel;
    kernel = kernel < 0 ? 0 : kernel;
    if (kernel_first && kernel < n)
        light = wake_light(c->at, n - (uint32_t)kernel, c->bits);
    errno = saved;
    return kernel + light;
}

static long futex(struct futex_call *c) {
    if (!(c->op & FUTEX_PRIVATE_FLAG) || !light_works())
        return as_it_is(c);
    switch (c->op & (uint32_t)FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
        c->bits = FUTEX_BITSET_MATCH_ANY;
        return light_here() ? light_wait(c) : as_it_is(c);
    case FUTEX_WAIT_BITSET:
        return light_here() ? light_wait(c) : as_it_is(c);
    case FUTEX_WAKE:
        c->bits = FUTEX_BITSET_MATCH_ANY;
        return wake(c);
    case FUTEX_WAKE_BITSET:
        return wake(c);
    case FUTEX_WAKE_OP:
        wake_light(c->at2, UINT32_MAX, FUTEX_BITSET_MATCH_ANY);
        wake_light(c->at, UINT32_MAX, FUTEX_BITSET_MATCH_ANY);
        break;
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
        wake_light(c->at, UINT32_MAX, FUTEX_BITSET_MATCH_ANY);
    }
    return as_it_is(c);
}

/* Calls that any handler ends, whatever SA_RESTART says (signal(7)), also one of this library's, if they have not told of it. */
static bool ends_early(long number) {
    switch (number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_rt_sigtimedwait:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_io_getevents:
    case 426: /* io_uring_enter: newer ones, of the same number on every CPU */
    case 441: /* epoll_pwait2 */
    case 449: /* futex_waitv */
#ifdef SYS_io_pgetevents
    case SYS_io_pgetevents:
#endif
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
        return true;
    }
    return false;
}

static long told(long number, long a, long b, long c, long d, long e, long f) {
    ito_call call;
    long r = -1;
    ito_blocking_begin(&call, "syscall");
    if (ito__call_began(&call))
        r = ito__real_syscall(number, a, b, c, d, e, f);
    else
        errno = EINTR;
    ito__call_over();
    ito_blocking_end(&call);
    return r;
}
/* Made again, where the thread was pinned without a handler, with the time that it was given at first. */
static long light_told(long number, long a, long b, long c, long d, long e, long f) {
    LIGHT_CALL(long, CALL_ENDS | CALL_NO_POINT, told(number, a, b, c, d, e, f),
               ito__real_syscall(number, a, b, c, d, e, f));
}

/* The program's syscall(). It reads six arguments, as the C library's does, whatever their number. */
EXPORT long light_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
EXPORT long light_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (UNLIKELY(number == SYS_futex)) {
        struct futex_call call = {(uint32_t *)a, (uint32_t)b, (uint32_t)c, (const struct timespec *)d,
                                  (uint32_t *)e, (uint32_t)f};
        return futex(&call);
    }
    return ends_early(number) && light_here() ? light_told(number, a, b, c, d, e, f)
                                              : ito__real_syscall(number, a, b, c, d, e, f);
}
