/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- system calls --
 *
 * By number, and not by way of libc: libc's functions set errno, may be cancellation points, may be replaced by a
 * module that annotates (a preloaded malloc, say), and may wait for locks that the interrupted thread holds.
 *
 * This file has, from the bottom up: constants that headers may lack, the system call itself, memory, signals, the
 * names and the opening of the session's files, the clock, bounded waits, and the questions to the control page. The
 * files of a session, see abi.h:
 *   control, p<pid>-<gen>.sites, p<pid>-<gen>.ring<k>
 * All are opened relative to the session's directory, used, and closed again at once. */

/* gcc says of each fence that ThreadSanitizer does not know it, an error under -Werror, and calls this function; so does
 * clang, which says nothing. What the fences order are the rings of a recorder, not the program's data. */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#ifdef __cplusplus
extern "C"
#endif
    void
    __tsan_atomic_thread_fence(int order);
#define KASURI__FENCE(order) __tsan_atomic_thread_fence(order)
#else
#define KASURI__FENCE(order) __atomic_thread_fence(order)
#endif

/* Names that <fcntl.h> and <sys/mman.h> hide under -std=c99, or that old versions of them lack. The numbers of
 * x86-64, aarch64 and riscv64 stand in for them; other CPUs need -std=gnu99. */
#ifdef O_CLOEXEC
#define KASURI__O_CLOEXEC O_CLOEXEC
#else
#define KASURI__O_CLOEXEC 02000000
#endif
#ifdef O_PATH
#define KASURI__O_PATH O_PATH
#else
#define KASURI__O_PATH 010000000
#endif
#ifdef AT_FDCWD
#define KASURI__AT_FDCWD AT_FDCWD
#else
#define KASURI__AT_FDCWD (-100)
#endif
#ifdef AT_SYMLINK_NOFOLLOW
#define KASURI__AT_SYMLINK_NOFOLLOW AT_SYMLINK_NOFOLLOW
#else
#define KASURI__AT_SYMLINK_NOFOLLOW 0x100
#endif
#ifdef MAP_ANONYMOUS
#define KASURI__MAP_ANONYMOUS MAP_ANONYMOUS
#else
#define KASURI__MAP_ANONYMOUS 0x20
#endif
#ifdef MAP_NORESERVE
#define KASURI__MAP_NORESERVE MAP_NORESERVE
#else
#define KASURI__MAP_NORESERVE 0x4000
#endif
#ifdef MAP_POPULATE
#define KASURI__MAP_POPULATE MAP_POPULATE
#else
#define KASURI__MAP_POPULATE 0x8000
#endif
#ifdef MADV_WIPEONFORK
#define KASURI__MADV_WIPEONFORK MADV_WIPEONFORK
#else
#define KASURI__MADV_WIPEONFORK 18
#endif
/* Their headers are not on every system, or hide them under -std=c99 as well: <linux/membarrier.h>, <sys/stat.h>,
 * <signal.h>, <time.h>. */
#define KASURI__MEMBARRIER 8           /* MEMBARRIER_CMD_PRIVATE_EXPEDITED, Linux 4.14 */
#define KASURI__MEMBARRIER_REGISTER 16 /* MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED */
#define KASURI__STATX_UID 8u
#define KASURI__STATX_UID_WORD 5 /* of struct statx, read as an array of uint32_t */
#if defined(__mips__)
#define KASURI__SIG_SETMASK 3
#else
#define KASURI__SIG_SETMASK 2
#endif
#if defined(__mips__)
#define KASURI__SIGSET_BYTES 16 /* of the kernel's signal mask */
#else
#define KASURI__SIGSET_BYTES 8
#endif
#define KASURI__CLOCK_MONOTONIC 1
/* Of <sys/resource.h>. */
#define KASURI__RLIMIT_FSIZE 1
#define KASURI__RLIMIT_DATA 2
#if defined(__mips__)
#define KASURI__RLIMIT_NOFILE 5
#define KASURI__RLIMIT_AS 6
#define KASURI__RLIMIT_MEMLOCK 9
#elif defined(__alpha__)
#define KASURI__RLIMIT_NOFILE 6
#define KASURI__RLIMIT_AS 7
#define KASURI__RLIMIT_MEMLOCK 9
#elif defined(__sparc__)
#define KASURI__RLIMIT_NOFILE 6
#define KASURI__RLIMIT_AS 9
#define KASURI__RLIMIT_MEMLOCK 8
#else
#define KASURI__RLIMIT_NOFILE 7
#define KASURI__RLIMIT_AS 9
#define KASURI__RLIMIT_MEMLOCK 8
#endif
/* The lock of fcntl(2) with offsets of 64 bits, and the call that takes it. */
struct kasuri__lock {
    int16_t type, whence;
    int64_t start, length;
    int32_t pid;
};
#define KASURI__F_OFD_GETLK 36
#ifdef SYS_fcntl64
#define KASURI__SYS_FCNTL SYS_fcntl64
#else
#define KASURI__SYS_FCNTL SYS_fcntl
#endif
#ifdef SYS_geteuid32
#define KASURI__SYS_GETEUID SYS_geteuid32 /* SYS_geteuid has 16 bits there */
#else
#define KASURI__SYS_GETEUID SYS_geteuid
#endif
#define KASURI__ANONYMOUS (MAP_PRIVATE | KASURI__MAP_ANONYMOUS | KASURI__MAP_NORESERVE)
#define KASURI__O_CREATE (O_RDWR | O_CREAT | O_EXCL | KASURI__O_CLOEXEC)

/* One system call with six arguments. The registers are those of syscall(2), "Architecture calling conventions". On
 * other CPUs libc's syscall() makes the call, and errno is put back. Return: the kernel's result; from -4095 to -1 an
 * error's negative number. */
KASURI__COLD long kasuri__call(long n, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#elif defined(__riscv)
    register long a7 __asm__("a7") = n;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    register long a5 __asm__("a5") = f;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
#else
    extern long kasuri__libc_syscall(long, ...) __asm__("syscall");
    extern int *kasuri__libc_errno(void) __asm__("__errno_location");
    int *error = kasuri__libc_errno(), saved = *error;
    long r = kasuri__libc_syscall(n, a, b, c, d, e, f);
    if (r == -1)
        r = -*error;
    *error = saved;
    return r;
#endif
}
#define KASURI__CALL(n, a, b, c, d) kasuri__call((n), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* Whether what mmap returned is an error's negative number. */
KASURI__INLINE int kasuri__is_error(long p) {
    return p < 0 && p > -4096;
}

/* A limit of this process, in its own unit; all ones: none is set. The program may set it at any time. */
KASURI__COLD uint64_t kasuri__limit(int resource) {
    uint64_t limit[2] = {~0ull, ~0ull}; /* soft, hard: what holds where the call is not there */
    KASURI__CALL(SYS_prlimit64, 0, resource, 0, limit);
    return limit[0];
}

/* The longest file that this process may write, in bytes. A write or an allocation beyond it raises SIGXFSZ, which ends the
 * program; so the limit is asked first, and is to us what a full disk is. */
KASURI__COLD uint64_t kasuri__file_limit(void) {
    return kasuri__limit(KASURI__RLIMIT_FSIZE);
}

/* Map memory for reading and writing. Return: its address, or an error's negative number. */
KASURI__COLD long kasuri__mmap(void *at, uint64_t bytes, int flags, int fd) {
#if defined(SYS_mmap2)
    long p = kasuri__call(SYS_mmap2, (long)at, (long)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
#elif defined(__s390x__) /* one argument: where the six are */
    long six[6] = {(long)at, (long)bytes, PROT_READ | PROT_WRITE, flags, fd, 0}, p;
    p = KASURI__CALL(SYS_mmap, six, 0, 0, 0);
#else
    long p = kasuri__call(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
#endif
    return p;
}
/* The same. Return: null when that failed. */
KASURI__COLD void *kasuri__map(void *at, uint64_t bytes, int flags, int fd) {
    long p = kasuri__mmap(at, bytes, flags, fd);
    return kasuri__is_error(p) ? 0 : (void *)p;
}

/* Block all signals, so that the slow path never nests in itself, and store the old mask in `old`. The kernel does not
 * block SIGKILL and SIGSTOP, and a fault under the mask ends the process. */
KASURI__COLD void kasuri__block_signals(uint64_t *old) {
    uint64_t all[2] = {~0ull, ~0ull};
    KASURI__CALL(SYS_rt_sigprocmask, KASURI__SIG_SETMASK, all, old, KASURI__SIGSET_BYTES);
}
KASURI__COLD void kasuri__unblock_signals(uint64_t *old) {
    KASURI__CALL(SYS_rt_sigprocmask, KASURI__SIG_SETMASK, old, 0, KASURI__SIGSET_BYTES);
}

/* Begin and end what makes system calls. Return: 0 where none may be made, also not for this (kasuri__may_call). */
KASURI__COLD int kasuri__begin_calls(uint64_t *old) {
    if (!kasuri__may_call())
        return 0;
    kasuri__block_signals(old);
    return 1;
}
KASURI__COLD void kasuri__end_calls(uint64_t *old) {
    kasuri__unblock_signals(old);
    kasuri__called();
}

/* Write a decimal number; return where it ends. */
KASURI__COLD char *kasuri__digits(char *out, uint32_t v) {
    char digits[10];
    int n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        *out++ = digits[--n];
    return out;
}

/* A file of the session: one of these two, or k >= 0 for .ring<k>. */
enum { KASURI__SITES = -1, KASURI__CONTROL = -2 };

/* Write the name of a file of the session to `out`, 48 bytes: "control", "p4711-0.sites", "p4711-0.ring2". */
KASURI__COLD void kasuri__name(char *out, const struct kasuri__client *c, int file) {
    const char *from = file == KASURI__CONTROL ? "control" : file == KASURI__SITES ? ".sites" : ".ring";
    if (file != KASURI__CONTROL) {
        *out++ = 'p';
        out = kasuri__digits(out, c->pid);
        *out++ = '-';
        out = kasuri__digits(out, KASURI__GET(c->gen));
    }
    while (*from)
        *out++ = *from++;
    if (file >= 0)
        out = kasuri__digits(out, (uint32_t)file);
    *out = 0;
}

KASURI__COLD void kasuri__close(int fd) {
    KASURI__CALL(SYS_close, fd, 0, 0, 0);
}

/* Open the session's directory, to which the names of its files are relative. To put a whole path together would take
 * 4,096 bytes of stack, and the stack of a thread or of a signal handler may not have much more. */
KASURI__COLD int kasuri__open_session(void) {
    return (int)KASURI__CALL(SYS_openat, KASURI__AT_FDCWD, kasuri__process.session, KASURI__O_PATH | KASURI__O_CLOEXEC,
                             0);
}

/* Open a file of the session. Return: a descriptor, or an error's negative number. */
KASURI__COLD int kasuri__open(const struct kasuri__client *c, int file, int flags) {
    char name[48];
    int dir = kasuri__open_session(), fd;
    if (dir < 0)
        return dir;
    kasuri__name(name, c, file);
    fd = (int)KASURI__CALL(SYS_openat, dir, name, flags, 0600);
    kasuri__close(dir);
    return fd;
}

KASURI__COLD void kasuri__unlink(const struct kasuri__client *c, int file) {
    char name[48];
    int dir = kasuri__open_session();
    if (dir < 0)
        return;
    kasuri__name(name, c, file);
    KASURI__CALL(SYS_unlinkat, dir, name, 0, 0);
    kasuri__close(dir);
}

/* Whether stamps are the CPU's counter. ORDER relaxed, and so in join(): an emit that outlasts its session may ask
 * while another thread joins the next one. Whichever clock it then takes, no recorder reads the memory of its event.
 */
KASURI__COLD int kasuri__stamps_natively(struct kasuri__client *c) {
    return KASURI__NATIVE && __atomic_load_n(&c->clock, __ATOMIC_RELAXED) == KASURI_CLOCK_NATIVE;
}

/* The time by the session's clock: ticks of the CPU's counter, or CLOCK_MONOTONIC in ns. */
KASURI__COLD uint64_t kasuri__now(struct kasuri__client *c) {
    struct kasuri__timespec t = {0, 0};
    if (kasuri__stamps_natively(c))
        return kasuri__stamp();
    kasuri__clock_gettime(KASURI__CLOCK_MONOTONIC, &t);
    return (uint64_t)t.s * 1000000000u + (uint64_t)t.ns;
}

/* Wait a moment for another thread: the first KASURI__YIELDS times by sched_yield(2), then by a sleep of 100 us. The
 * caller starts `*waits` at 0 and calls again until its condition holds. Return: 0 when it has slept `sleeps` times. */
KASURI__COLD int kasuri__wait_up_to(uint32_t *waits, uint32_t sleeps) {
    struct kasuri__timespec t = {0, 100000};
    if (++*waits > KASURI__YIELDS + sleeps)
        return 0;
    if (*waits <= KASURI__YIELDS)
        KASURI__CALL(SYS_sched_yield, 0, 0, 0, 0);
    else
        KASURI__CALL(SYS_nanosleep, &t, 0, 0, 0);
    return 1;
}
/* Wait for a thread that is in the slow path (grows, defines a name, or just leaves it): 0.2 s or so in all. */
KASURI__COLD int kasuri__wait_a_little(uint32_t *waits) {
    return kasuri__wait_up_to(waits, KASURI__SLEEPS);
}

/* The session's control page. A thread in the slow path may look at it: until the thread leaves, the page, or private
 * memory in its place (kasuri__bury_all), stays mapped. */
KASURI__COLD struct kasuri_control *kasuri__control(struct kasuri__client *c) {
    return KASURI__GET(c->control);
}

/* Close the gate, since the recorder of session `epoch` is gone: annotations cost one load and one branch again. Only
 * from 1 to 0: if another recorder has meanwhile asked for this process (2), its request stands. Without a client (no
 * memory for one) the gate is closed, too. ORDER relaxed: 0 publishes nothing. */
KASURI__COLD void kasuri__close_gate(struct kasuri__client *c, uint32_t epoch) {
    uint32_t on = 1;
    if (!c || __atomic_load_n(&c->epoch, __ATOMIC_RELAXED) == epoch)
        __atomic_compare_exchange_n(&kasuri__gate.gate, &on, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Why events are lost after this error; 0: there was none. A program that confined itself finds no session, or may not write there. */
KASURI__COLD uint32_t kasuri__cause_of(long error) {
    if (error == 0 || error == -ENOENT || error == -EACCES)
        return KASURI_LOST_FULL;
    return error == -ENOSPC || error == -EDQUOT ? KASURI_LOST_SPACE : KASURI_LOST_LIMIT;
}

/* Tell the recorder what kept this program's rings or names from growing: it says so to its user. The limit goes first: whoever
 * finds the error finds one that the error goes with.
 * ORDER release; pairs with the recorder's acquire load of the error. Publishes the limit. */
KASURI__COLD void kasuri__store_hindrance(struct kasuri_control *k, uint32_t which, long error, uint64_t limit) {
    if (KASURI__GET(k->hindrance[which]))
        return;
    kasuri__put(&k->hindrance_limit[which], limit);
    __atomic_store_n(&k->hindrance[which], (uint32_t)-error, __ATOMIC_RELEASE);
}
/* The same, by the error alone: what the kernel refuses with it, and which limits of this process it refuses it for. Memory may be
 * refused for more reasons than one: all that are set are told. An older recorder's page has no room for it; a session that is out
 * of sight is no limit. Return: enum kasuri_lost, why events are lost after this error. */
KASURI__COLD uint32_t kasuri__hinder(struct kasuri_control *k, long error, int is_private) {
    static const struct {
        int error, resource; /* -1: none */
        uint32_t which;
    } causes[] = {{ENOSPC, -1, KASURI_HINDRANCE_SPACE},
                  {EDQUOT, -1, KASURI_HINDRANCE_QUOTA},
                  {EFBIG, KASURI__RLIMIT_FSIZE, KASURI_HINDRANCE_FILE_SIZE},
                  {EMFILE, KASURI__RLIMIT_NOFILE, KASURI_HINDRANCE_FILES},
                  {ENOMEM, KASURI__RLIMIT_AS, KASURI_HINDRANCE_ADDRESSES},
                  {ENOMEM, KASURI__RLIMIT_DATA, KASURI_HINDRANCE_DATA},
                  {EAGAIN, KASURI__RLIMIT_MEMLOCK, KASURI_HINDRANCE_LOCKED}};
    uint32_t i, told = 0, cause = kasuri__cause_of(error);
    if (!k || k->struct_size < offsetof(struct kasuri_control, hindrance_limit) + sizeof k->hindrance_limit ||
        cause == KASURI_LOST_FULL)
        return cause;
    for (i = 0; i < sizeof causes / sizeof *causes; i++) {
        uint64_t limit = ~0ull;
        if (-error != causes[i].error || (causes[i].which == KASURI_HINDRANCE_DATA && !is_private))
            continue;
        if (causes[i].resource >= 0 && (limit = kasuri__limit(causes[i].resource)) == ~0ull)
            continue;
        kasuri__store_hindrance(k, causes[i].which, error, limit);
        told++;
    }
    if (!told)
        kasuri__store_hindrance(k, KASURI_HINDRANCE_OTHER, error, ~0ull);
    return cause;
}

enum { KASURI__OUT_OF_SIGHT = 2 };

/* Whether the recorder lives and records. It holds an OFD write lock on `control` (fcntl(2), "Open file description
 * locks"), which the kernel releases however the recorder ends. A PID would not do: it may be used again, and means
 * something else in another PID namespace. The query F_OFD_GETLK sets l_type to F_UNLCK when a read lock could be had,
 * so when no process holds the write lock. If the query fails, the recorder counts as alive. ORDER relaxed: a STOPPED
 * that is missed is seen the next time.
 *
 * A file that is not there says nothing: who removes a session stores STOPPED first, and a process that has changed its root or its
 * mounts finds no session, though its events are read. Return: 0, 1, or KASURI__OUT_OF_SIGHT, which counts as alive but where another
 * recorder asks for the process. */
KASURI__COLD int kasuri__recorder_lives(struct kasuri__client *c) {
    struct kasuri__lock lock;
    int fd;
    __builtin_memset(&lock, 0, sizeof lock);
    lock.type = F_RDLCK;
    if (__atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) == KASURI_SESSION_STOPPED)
        return 0;
    fd = kasuri__open(c, KASURI__CONTROL, KASURI__O_CLOEXEC);
    if (fd < 0)
        return fd == -ENOENT ? KASURI__OUT_OF_SIGHT : 1;
    if (KASURI__CALL(KASURI__SYS_FCNTL, fd, KASURI__F_OFD_GETLK, &lock, 0) < 0)
        lock.type = F_WRLCK;
    kasuri__close(fd);
    return lock.type != F_UNLCK;
}
