/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs that confine themselves: seccomp by prctl(2) or seccomp(2), and the CPU's counter by PR_SET_TSC. A system call
 * that the program's filter does not expect would end it; so would rdtsc in strict mode, which takes the counter away.
 *
 *   strict mode, PR_SET_TSC         the gates of all modules close: nothing is recorded from here on
 *   a filter that lets pass what    nothing changes: the client's calls are as before
 *   the client calls
 *   any other filter                no more system calls (KASURI_CALLS_NONE): events go on into the chunks that are mapped,
 *                                   and are counted as lost where they need another name, thread or segment
 *
 * The flag holds for the whole process, though a filter may be one thread's: all its threads share the rings. It is set
 * before the filter is installed, as with SECCOMP_FILTER_FLAG_TSYNC other threads may be about to make a call, and taken
 * back if the kernel refused, or if the filter turns out to be one of the second kind. The filter is looked at only then:
 * the kernel has checked by that time that it can be read and that it ends.
 *
 * Filters from before exec (of containers, of systemd) are not seen here, and close nothing. A filter that was seen is
 * inherited by programs that are executed: KASURI_SESSION becomes empty, so that they take no part. Not seen are calls
 * that do not go through the C library, and those of a child of vfork, which is in its parent's memory.
 */
#include "confine.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_GATES 256u

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH AUDIT_ARCH_RISCV64
#endif

/* -- what a filter lets pass -- */

#ifdef ARCH
/* What the client and the probe call (annotate/src/sys.h, site.c, thread.c); docs/guide/locks.md has the list. */
static const int calls[] = {
    SYS_rt_sigprocmask, SYS_gettid,  SYS_getpid,      SYS_openat,    SYS_close,      SYS_fcntl,
    SYS_read,           SYS_write,   SYS_lseek,       SYS_ftruncate, SYS_fallocate,  SYS_mmap,
    SYS_munmap,         SYS_madvise, SYS_sched_yield, SYS_tgkill,    SYS_nanosleep,  SYS_unlinkat,
    SYS_readlinkat,     SYS_statx,   SYS_geteuid,     SYS_prlimit64, SYS_membarrier,
};

/* Run a filter as the kernel does (net/core/filter.c), on a call of which only the number is known. Return: its result; or
 * KILL where that depends on arguments, or on what filters of seccomp may not have. */
static uint32_t result_of(const struct sock_fprog *filter, uint32_t nr) {
    uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0}, k, v;
    for (unsigned at = 0; at < filter->len; at++) {
        const struct sock_filter *f = &filter->filter[at];
        k = f->k;
        v = BPF_SRC(f->code) == BPF_X ? x : k;
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (k != offsetof(struct seccomp_data, nr) && k != offsetof(struct seccomp_data, arch))
                return SECCOMP_RET_KILL;
            a = k == offsetof(struct seccomp_data, nr) ? nr : ARCH;
            break;
        case BPF_LD | BPF_W | BPF_LEN:
            a = sizeof(struct seccomp_data);
            break;
        case BPF_LDX | BPF_W | BPF_LEN:
            x = sizeof(struct seccomp_data);
            break;
        case BPF_LD | BPF_IMM:
            a = k;
            break;
        case BPF_LDX | BPF_IMM:
            x = k;
            break;
        case BPF_LD | BPF_MEM:
            a = memory[k % BPF_MEMWORDS];
            break;
        case BPF_LDX | BPF_MEM:
            x = memory[k % BPF_MEMWORDS];
            break;
        case BPF_ST:
            memory[k % BPF_MEMWORDS] = a;
            break;
        case BPF_STX:
            memory[k % BPF_MEMWORDS] = x;
            break;
        case BPF_MISC | BPF_TAX:
            x = a;
            break;
        case BPF_MISC | BPF_TXA:
            a = x;
            break;
        case BPF_ALU | BPF_ADD | BPF_K:
        case BPF_ALU | BPF_ADD | BPF_X:
            a += v;
            break;
        case BPF_ALU | BPF_SUB | BPF_K:
        case BPF_ALU | BPF_SUB | BPF_X:
            a -= v;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
        case BPF_ALU | BPF_AND | BPF_X:
            a &= v;
            break;
        case BPF_ALU | BPF_OR | BPF_K:
        case BPF_ALU | BPF_OR | BPF_X:
            a |= v;
            break;
        case BPF_JMP | BPF_JA:
            at += k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
        case BPF_JMP | BPF_JEQ | BPF_X:
            at += a == v ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
        case BPF_JMP | BPF_JGT | BPF_X:
            at += a > v ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
        case BPF_JMP | BPF_JGE | BPF_X:
            at += a >= v ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
        case BPF_JMP | BPF_JSET | BPF_X:
            at += a & v ? f->jt : f->jf;
            break;
        case BPF_RET | BPF_K:
            return k;
        case BPF_RET | BPF_A:
            return a;
        default: /* shifts, products: no filter that chooses by number has them */
            return SECCOMP_RET_KILL;
        }
    }
    return SECCOMP_RET_KILL;
}

static int passes(const struct sock_fprog *filter, int nr) {
    uint32_t result = result_of(filter, (uint32_t)nr) & SECCOMP_RET_ACTION_FULL;
    return result == SECCOMP_RET_ALLOW || result == SECCOMP_RET_LOG;
}

static int all_pass(const struct sock_fprog *filter) {
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!passes(filter, calls[i]))
            return 0;
    return 1;
}
#else /* other CPUs: no filter counts as one that lets them pass */
#define passes(filter, nr) ((void)(filter), 0)
#define all_pass(filter) 0
#endif

/* -- the gates -- */

/* Written by the holder of `busy`. */
static struct kasuri_gate *gates[N_GATES];
static unsigned n_gates;
static uint8_t was_open[N_GATES];
static uint32_t busy;

/* No system calls in any module, and none under way: 0.1 s is waited for those. A child of fork may have the count of a
 * thread that it does not have. */
static void forbid_calls(void) {
    static const struct timespec moment = {0, 100000};
    unsigned i, waits = 0;
    for (i = 0; i < n_gates; i++)
        /* ORDER acq_rel; pairs with kasuri__may_call(): whoever comes after finds the flag, whoever came before is counted. */
        __atomic_fetch_or(&gates[i]->calls, KASURI_CALLS_NONE, __ATOMIC_ACQ_REL);
    for (i = 0; i < n_gates; i++)
        /* ORDER acquire; pairs with the release in kasuri__called(): the call is over. */
        while (__atomic_load_n(&gates[i]->calls, __ATOMIC_ACQUIRE) & (KASURI_CALLS_NONE - 1) && waits++ < 1000)
            syscall(SYS_nanosleep, &moment, 0);
}
static void allow_calls(void) {
    for (unsigned i = 0; i < n_gates; i++)
        /* ORDER release; pairs with the acquire in kasuri__may_call(). */
        __atomic_fetch_and(&gates[i]->calls, ~KASURI_CALLS_NONE, __ATOMIC_RELEASE);
}

/* ORDER relaxed: 0 publishes nothing, and 1 is put back where all that it publishes was seen before. */
static void close_gates(void) {
    for (unsigned i = 0; i < n_gates; i++) {
        uint32_t open = 1;
        was_open[i] = __atomic_compare_exchange_n(&gates[i]->gate, &open, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}
static void open_gates(void) {
    for (unsigned i = 0; i < n_gates; i++) {
        uint32_t closed = 0;
        if (was_open[i])
            __atomic_compare_exchange_n(&gates[i]->gate, &closed, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

/* -- the calls -- */

static int (*next_prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
long (*probe_next_syscall)(long, long, long, long, long, long, long) PROBE_HIDDEN;

/* Before other constructors, which may confine the program. ORDER relaxed: as in probe_resolve(). */
__attribute__((constructor(101))) static void constructor(void) {
    __atomic_store_n((void **)&next_prctl, dlsym(RTLD_NEXT, "prctl"), __ATOMIC_RELAXED);
    __atomic_store_n((void **)&probe_next_syscall, dlsym(RTLD_NEXT, "syscall"), __ATOMIC_RELAXED);
}

/* What the call is that may confine the program. */
struct call {
    long arguments[7];               /* the number first */
    const struct sock_fprog *filter; /* null: strict mode, or the counter is taken away */
    int by_prctl, may_fail_with_a_tid;
};

/* Return: whether the call is one. */
static int is_confining(struct call *c) {
    const long *a = c->arguments;
    if (a[0] == SYS_prctl && a[1] == PR_SET_TSC)
        return a[2] == PR_TSC_SIGSEGV;
    if (a[0] == SYS_prctl && a[1] == PR_SET_SECCOMP) {
        c->filter = a[2] == SECCOMP_MODE_FILTER ? (const struct sock_fprog *)a[3] : 0;
        return a[2] == SECCOMP_MODE_STRICT || c->filter;
    }
    if (a[0] == SYS_seccomp) {
        c->filter = a[1] == SECCOMP_SET_MODE_FILTER ? (const struct sock_fprog *)a[3] : 0;
        c->may_fail_with_a_tid =
            a[2] & SECCOMP_FILTER_FLAG_TSYNC && !(a[2] & 8 /* SECCOMP_FILTER_FLAG_NEW_LISTENER, Linux 5.0 */);
        return a[1] == SECCOMP_SET_MODE_STRICT || c->filter;
    }
    return 0;
}

static long make(const struct call *c) {
    const long *a = c->arguments;
    if (c->by_prctl)
        return next_prctl((int)a[1], (unsigned long)a[2], (unsigned long)a[3], (unsigned long)a[4],
                          (unsigned long)a[5]);
    return probe_next_syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
}

static const char strict_text[PROBE_TEXT_BYTES] =
    "the program confined itself (strict seccomp, or PR_SET_TSC): what it did from here on is not recorded";
static const char filter_text[PROBE_TEXT_BYTES] =
    "the program confined itself with seccomp: from here on, new threads, names and call sites are not recorded";
static const char clock_text[PROBE_TEXT_BYTES] =
    "the program confined itself with seccomp, also its clock: what it did from here on is not recorded";
static const char passing_text[PROBE_TEXT_BYTES] =
    "the program set a seccomp filter that lets Kasuri's system calls pass";
static const char refused_text[PROBE_TEXT_BYTES] = "the program tried to confine itself, and was refused";

/* Say it to what comes later: programs that are executed, modules that are loaded. The string is changed where it is. */
static void end_session_for_others(void) {
    char *session = getenv("KASURI_SESSION");
    if (session)
        *session = 0;
}

/* The program confines itself by `c`, and is being recorded. Holder of `busy`. */
static long confine(const struct call *c) {
    const int already = kasuri__is_confined();
    struct probe_text text = {0, 0};
    const char *what;
    int saved = errno, ok, failed;
    long r;
    if (!already) {
        n_gates = probe_find_gates(gates, N_GATES);
        text = probe_reserve_text();
        forbid_calls();
    }
    if (!c->filter)
        close_gates();
    errno = saved;
    r = make(c);
    failed = r < 0 || (c->may_fail_with_a_tid && r > 0);
    ok = failed || (c->filter && all_pass(c->filter));
    what = failed ? refused_text : ok ? passing_text : c->filter ? filter_text : strict_text;
    if (failed && !c->filter)
        open_gates();
    if (ok && !already)
        allow_calls();
    if (!ok) {
        end_session_for_others();
        if (c->filter && !probe_stamps_natively() && !passes(c->filter, SYS_clock_gettime)) {
            close_gates();
            what = clock_text;
        }
    }
    probe_write_text(&text, what);
    return r;
}

/* Two threads may confine the program at once. */
static int take_turn(void) {
    uint32_t none = 0;
    /* ORDER acquire; pairs with the release in look_at(). Publishes the gates. */
    for (int i = 0; i < 1000; i++, none = 0) {
        if (__atomic_compare_exchange_n(&busy, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
        if (!kasuri__is_confined())
            syscall(SYS_sched_yield);
    }
    return 0;
}

__attribute__((noinline, cold)) static long look_at(struct call *c) {
    int saved = errno,
        recorded = is_confining(c) && probe_wake() && (kasuri__is_confined() || !probe_is_guest()) && take_turn();
    long r;
    errno = saved;
    if (!recorded)
        return make(c);
    r = confine(c);
    /* ORDER release; pairs with the acquire in take_turn(). */
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return r;
}

/* Declared by the C library with other parameters: these are all that it passes on. */
PROBE_EXPORT int probe_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                             unsigned long d) __asm__("prctl");
PROBE_EXPORT long probe_syscall(long nr, long a, long b, long c, long d, long e, long f) __asm__("syscall");

int probe_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    struct call call = {{SYS_prctl, option, (long)a, (long)b, (long)c, (long)d, 0}, 0, 1, 0};
    if (KASURI__UNLIKELY(!next_prctl))
        constructor();
    if (option == PR_SET_SECCOMP || option == PR_SET_TSC)
        return (int)look_at(&call);
    return next_prctl(option, a, b, c, d);
}

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)
long probe_look_at_syscall(long nr, long a, long b, long c, long d, long e, long f) PROBE_COLD __attribute__((used));
long probe_look_at_syscall(long nr, long a, long b, long c, long d, long e, long f) {
    struct call call = {{nr, a, b, c, d, e, f}, 0, 0, 0};
    return look_at(&call);
}
#endif

#if defined(__x86_64__)
/* The seventh argument lies on the stack, if there is one; else that word is the caller's, perhaps one that another thread
 * changes. A C compiler would load it and store it back for the jump, and undo such a change. */
_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157, "the numbers below");
__attribute__((naked)) long probe_syscall(long nr __attribute__((unused)), long a __attribute__((unused)),
                                          long b __attribute__((unused)), long c __attribute__((unused)),
                                          long d __attribute__((unused)), long e __attribute__((unused)),
                                          long f __attribute__((unused))) {
    __asm__("movq probe_next_syscall(%rip), %rax\n"
            "testq %rax, %rax\n"
            "je probe_early_syscall\n"
            "cmpq $317, %rdi\n"
            "je probe_look_at_syscall\n"
            "cmpq $157, %rdi\n"
            "je probe_look_at_syscall\n"
            "jmp *%rax\n");
}
#elif defined(__aarch64__) || defined(__riscv)
/* Tail calls only: nothing lies on the stack for calls that return in another place, or twice. */
long probe_syscall(long nr, long a, long b, long c, long d, long e, long f) {
    if (KASURI__UNLIKELY(!probe_next_syscall))
        return probe_early_syscall(nr, a, b, c, d, e, f);
    if (KASURI__UNLIKELY(nr == SYS_seccomp || nr == SYS_prctl))
        return probe_look_at_syscall(nr, a, b, c, d, e, f);
    return probe_next_syscall(nr, a, b, c, d, e, f);
}
#endif
