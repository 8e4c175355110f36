/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that keep a worker and do not say so. Those that compute for long, and those that wait in the kernel: in malloc's lock, scanf, popen, the opening of a FIFO, a
 * constructor of a library, a system call of their own. The watcher (../src/core/watch.c) finds them here, and their worker goes to
 * a spare carrier as from a call that was told of (../src/core/carrier.c). docs/design/pthread.md has the protocol and why it is safe.
 *
 * A thread that computes is interrupted by a signal (cancel.c), and gives its worker away itself if that finds it in the program's own
 * code: there it holds nothing of ito's. It goes on computing on its kernel thread, beside the worker, until it enters ito.
 *
 * The kernel says in /proc/self/task/N/syscall whether a kernel thread sleeps in a system call, and in which, with its
 * arguments, stack pointer and program counter. To read it, the kernel waits until that thread is off its CPU.
 */
#include "light.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Descriptors that programs do not expect to be free. */
#define HIGH_FD 500
/* So many beyond it are made room for: for more kernel threads than most programs get. The table has 1,024 places then. */
#define ROOM 64

/*
 * Calls that ito itself makes while it has a worker. None waits for what another thread does, but for a lock of ito's, which
 * is held for some instructions; and a worker is never taken from them: that is the whole of what keeps ito's code, once it
 * has looked which worker it is on, from losing it.
 */
static bool is_ours(long number, unsigned long second, unsigned long sixth) {
    switch (number) {
    case SYS_futex:
        switch (second & (unsigned long)FUTEX_CMD_MASK) {
        case FUTEX_WAIT_BITSET:
            return (uint32_t)sixth == ITO__BRIEFLY;
        case FUTEX_WAIT:
        case FUTEX_LOCK_PI:
        case FUTEX_WAIT_REQUEUE_PI:
        case 13: /* FUTEX_LOCK_PI2 */
            return false;
        }
        return true;
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_madvise:
    case SYS_mremap:
    case SYS_brk:
    case SYS_membarrier:
    case SYS_sched_yield:
    case SYS_epoll_create1:
    case SYS_epoll_ctl:
    case SYS_eventfd2:
    case SYS_clone:
#ifdef SYS_clone3
    case SYS_clone3:
#endif
    case SYS_prctl:
    case SYS_sched_setaffinity:
    case SYS_execve:
    case SYS_exit:
    case SYS_exit_group:
        return true;
    }
    return false;
}

/* Longest that a thread may compute while no worker is idle. */
#define COMPUTES_NS 20000000u

static const struct {
    long number;
    const char *name;
} names[] = {
    {SYS_futex, "in futex"},
    {SYS_read, "in read"},
    {SYS_write, "in write"},
    {SYS_readv, "in readv"},
    {SYS_writev, "in writev"},
    {SYS_pread64, "in pread"},
    {SYS_pwrite64, "in pwrite"},
    {SYS_openat, "in open"},
    {SYS_wait4, "in wait4"},
    {SYS_waitid, "in waitid"},
    {SYS_flock, "in flock"},
    {SYS_fcntl, "in fcntl"},
    {SYS_ppoll, "in poll"},
    {SYS_pselect6, "in select"},
    {SYS_recvfrom, "in recv"},
    {SYS_recvmsg, "in recvmsg"},
    {SYS_sendto, "in send"},
    {SYS_sendmsg, "in sendmsg"},
    {SYS_accept4, "in accept"},
    {SYS_connect, "in connect"},
    {SYS_fsync, "in fsync"},
    {SYS_nanosleep, "in sleep"},
    {SYS_sendfile, "in sendfile"},
    {SYS_splice, "in splice"},
    {SYS_msgrcv, "in msgrcv"},
    {SYS_msgsnd, "in msgsnd"},
    {SYS_semop, "in semop"},
    {SYS_clock_nanosleep, "in sleep"},
    {SYS_epoll_pwait, "in epoll_wait"},
#ifdef SYS_open
    {SYS_open, "in open"},
    {SYS_poll, "in poll"},
    {SYS_select, "in select"},
    {SYS_accept, "in accept"},
    {SYS_epoll_wait, "in epoll_wait"},
    {SYS_pause, "in pause"},
#endif
};

const char *ito__look_name(uint32_t number) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == (long)number)
            return names[i].name;
    return number == ITO__COMPUTES ? "to compute" : "in another call";
}

uint32_t ito__look_tid(void) {
    return (uint32_t)syscall(SYS_gettid);
}

/*
 * Room in the process's table for the descriptors of open_again(). To enlarge the table of a process with several kernel threads, the
 * kernel waits until each CPU has passed a quiescent state (synchronize_rcu), 5 to 15 ms, which a process that ends meanwhile waits for too.
 */
void look_make_room(void) {
    int fd = eventfd(0, EFD_CLOEXEC), high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD + ROOM);
    if (high >= 0)
        REAL(close)(high);
    if (fd >= 0)
        REAL(close)(fd);
}

/* The program may have closed the descriptor, and have another file of that number: then it is not ours to close. */
static bool is_there(int fd, const struct stat *was) {
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_dev == was->st_dev && now.st_ino == was->st_ino;
}

static bool open_again(struct ito__carrier *c, uint32_t tid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/syscall", (unsigned)tid);
    int low = open(path, O_RDONLY | O_CLOEXEC), high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
    if (low >= 0 && high >= 0)
        REAL(close)(low);
    int fd = high >= 0 ? high : low;
    struct stat s;
    c->look_fd = fd >= 0 && fstat(fd, &s) == 0 ? fd + 1 : 0;
    c->look_dev = c->look_fd ? s.st_dev : 0;
    c->look_ino = c->look_fd ? s.st_ino : 0;
    return c->look_fd != 0;
}

/* What the kernel thread of c waits for in the kernel, and outside of ito: a number for the call and all that the kernel
 * says of it; 0: it does not. */
static uint64_t waits_in(struct ito__carrier *c, uint32_t *number) {
    char text[256];
    uint32_t tid = load_relaxed(&c->tid);
    struct stat was = {.st_dev = c->look_dev, .st_ino = c->look_ino};
    long call;
    unsigned long second, sixth;
    if (tid == 0 || ((c->look_fd == 0 || !is_there(c->look_fd - 1, &was)) && !open_again(c, tid)))
        return 0;
    ssize_t n = pread(c->look_fd - 1, text, sizeof text - 1, 0);
    if (n <= 0 || text[0] < '0' || text[0] > '9') /* "running", or "-1": in no system call */
        return 0;
    text[n] = 0;
    if (sscanf(text, "%ld %*x %lx %*x %*x %*x %lx", &call, &second, &sixth) != 3 || is_ours(call, second, sixth))
        return 0;
    uint64_t hash = 1469598103934665603u;
    for (ssize_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    *number = (uint32_t)call;
    return hash | 1;
}

/* Its thread waits where it did at the last look. Is it the program that waits, and not ito? True: the worker may be taken. */
static bool take(struct worker *w, uint32_t home, uint32_t moves) {
    uint32_t again, lent = home | ITO__LENT_TAKEN;
    /* ORDER acq_rel; pairs with the loads in ito__be_home(). */
    if (!cas_acq_rel(&w->lent, &home, lent))
        return false;
    /* ORDER seq_cst, on the thread's CPU: what it loads when it enters ito from here on is TAKEN. If it has entered before,
     * it is still in ito, or has left again, or waits in a call that is_ours() knows. */
    if (ito__pool.membarrier && ito__prim_membarrier() && waits_in(w->carrier, &again) == w->seen_call &&
        load_relaxed(&w->moves) == moves && load_relaxed(&w->hot.current) != &w->sched)
        return true;
    /* ORDER acq_rel; pairs with the compare-and-swap in ito__come_home(). */
    cas_acq_rel(&w->lent, &lent, lent - ITO__LENT_TAKEN);
    return false;
}

/* In the handler of a signal that has interrupted the program's own code: leaves the worker, if the watcher has asked for that. What the
 * thread enters of ito from here on sees TAKEN, as it is the same thread. */
void look_leave_worker(void) {
    struct ito__worker *hot = load_relaxed(&ito__tls_worker);
    if (hot == NULL || hot == &ito__nobody)
        return;
    struct worker *w = worker_of(hot);
    uint32_t lent = load_relaxed(&w->lent);
    /* ORDER acq_rel; pairs with the compare-and-swap in adopt(): whoever takes the worker sees it as this thread leaves it. */
    if (lent % ITO__LENT_STATES == ITO__LENT_HOME && load_relaxed(&w->wanted) == (lent | ITO__LENT_TAKEN))
        cas_acq_rel(&w->lent, &lent, lent | ITO__LENT_TAKEN);
}

static bool is_idle_worker(void) {
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        if (load_relaxed(&ito__pool.workers[i].parked))
            return true;
    return false;
}

/* It does not wait. Has it computed for long, and may others want its worker? */
static void look_at_computing(struct worker *w, struct ito_thread *t, uint32_t lent) {
    uint64_t now_ns = ito_now_ns();
    if (w->still_since_ns == 0)
        w->still_since_ns = now_ns;
    if (now_ns - w->still_since_ns < COMPUTES_NS || is_idle_worker())
        return;
    w->taken_call = ITO__COMPUTES;
    store_relaxed(&w->wanted, lent | ITO__LENT_TAKEN);
    light_interrupt_computing(w, t);
}

static bool look_at(struct worker *w, struct ito_thread *t) {
    uint32_t number = 0, lent = load_relaxed(&w->lent), moves = load_relaxed(&w->moves);
    bool moved = moves != w->seen_moves, made = false;
    w->seen_moves = moves;
    if (moved)
        w->still_since_ns = 0;
    if (lent % ITO__LENT_STATES == ITO__LENT_HOME) {
        uint64_t before = moved ? 0 : w->seen_call;
        w->seen_call = moved ? 0 : waits_in(w->carrier, &number);
        if (w->seen_call == 0) {
            look_at_computing(w, t, lent);
            return false;
        }
        if (w->seen_call != before || !take(w, lent, moves))
            return true;
        w->taken_call = number;
        lent |= ITO__LENT_TAKEN;
    } else if (lent % ITO__LENT_STATES != ITO__LENT_TAKEN || lent == w->offered) {
        return false; /* given to a spare, which is on its way */
    }
    if (ito__carrier_offer(w, lent, &made))
        w->offered = lent;
    return true;
}

bool ito__look_at_workers(bool *running) {
    bool found = false;
    if (ito__carriers_beside()) {
        *running = true;
        ito__descriptor_each(light_remind_beside, NULL);
    }
    for (uint32_t i = 0; i < ito__pool.n_workers; i++) {
        struct worker *w = &ito__pool.workers[i];
        struct ito_thread *t = load_relaxed(&w->hot.current);
        if (load_relaxed(&w->parked))
            continue;
        *running = true;
        if (t != NULL && t != &w->sched && t != &ito__pool.root) {
            light_remind(w, t);
            found |= look_at(w, t);
        }
    }
    return found;
}

bool ito__look_is_needed(void) {
    if (ito__carriers_beside())
        return true;
    for (uint32_t i = 0; i < ito__pool.n_workers; i++)
        if (!load_relaxed(&ito__pool.workers[i].parked))
            return true;
    return false;
}
