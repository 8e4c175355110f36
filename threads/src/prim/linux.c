/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "atomic.h"
#include "prim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif
/* Numbers of <linux/membarrier.h>, which older systems do not have. */
#define MEMBARRIER_PRIVATE_EXPEDITED 8
#define MEMBARRIER_REGISTER_PRIVATE_EXPEDITED 16

int64_t ito__prim_fail_map;

/* Whether this mapping is to fail, for tests of what happens without memory: n counts down to the one that fails; a
 * negative n counts up to -1, and from then on all fail. 0, as in every program: none. */
static bool fails(void) {
    int64_t n = load_relaxed(&ito__prim_fail_map);
    if (n == 0)
        return false;
    if (n > 0) {
        n = __atomic_sub_fetch(&ito__prim_fail_map, 1, __ATOMIC_RELAXED);
        return n == 0;
    }
    if (n == -1)
        return true;
    __atomic_add_fetch(&ito__prim_fail_map, 1, __ATOMIC_RELAXED);
    return false;
}

/* Relaxed: all threads that race here store the same number. */
size_t ito__prim_page(void) {
    static size_t page;
    size_t p = load_relaxed(&page);
    if (p == 0)
        store_relaxed(&page, p = (size_t)sysconf(_SC_PAGESIZE));
    return p;
}

size_t ito__prim_address_limit(void) {
    struct rlimit limit;
    int saved = errno;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur > SIZE_MAX)
        limit.rlim_cur = SIZE_MAX; /* RLIM_INFINITY is as large or larger */
    errno = saved;
    return (size_t)limit.rlim_cur;
}

const void *ito__prim_interrupted(const void *context) {
    const ucontext_t *at = context;
#if defined(__x86_64__)
    return (const void *)(uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (const void *)(uintptr_t)at->uc_mcontext.pc;
#elif defined(__arm__)
    return (const void *)(uintptr_t)at->uc_mcontext.arm_pc;
#elif defined(__riscv)
    return (const void *)(uintptr_t)at->uc_mcontext.__gregs[REG_PC];
#else
    (void)at;
    return NULL;
#endif
}

/* NORESERVE: a region of stacks is far larger than what will be touched, and must not count against the system's
 * limit of committed memory. errno is kept here and below: the program's calls must not change by where a stack comes
 * from. */
void *ito__prim_map(size_t bytes) {
    if (fails())
        return NULL;
    int saved = errno;
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (at != MAP_FAILED)
        madvise(at, bytes, MADV_NOHUGEPAGE); /* else one touched stack may commit 2 MB */
    errno = saved;
    return at == MAP_FAILED ? NULL : at;
}

void ito__prim_unmap(void *at, size_t bytes) {
    munmap(at, bytes);
}

/* Guard markers live in the page table, one for each page: no mapping each, so a million guards of a page are fine. A
 * kernel before 6.13 has none. */
static bool mark(void *at, size_t bytes) {
    static int no_markers;
    bool ok = !load_relaxed(&no_markers) && madvise(at, bytes, MADV_GUARD_INSTALL) == 0;
    if (!ok && errno == EINVAL)
        store_relaxed(&no_markers, 1);
    return ok;
}

/* A mapping takes the same time for any width, and splits the one around it: two more of vm.max_map_count (65,530). */
bool ito__prim_guard(void *at, size_t bytes, bool by_mapping) {
    int saved = errno;
    bool ok = by_mapping ? mprotect(at, bytes, PROT_NONE) == 0 || mark(at, bytes)
                         : mark(at, bytes) || mprotect(at, bytes, PROT_NONE) == 0;
    errno = saved;
    return ok;
}

/* The kernel compares *word with `value` and sleeps in one step. `ns` is relative; UINT64_MAX: no limit. Why it
 * returned is not told (a wake, a signal, the time, another value): callers look at the word again. */
void ito__prim_wait(uint32_t *word, uint32_t value, uint64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns == UINT64_MAX ? NULL : &t, NULL, 0);
    errno = saved;
}

/* The bits say which wake-ups end the wait: those of ito__prim_wake() end any. */
void ito__prim_wait_briefly(uint32_t *word, uint32_t value) {
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, NULL, NULL, ITO__BRIEFLY);
    errno = saved;
}

/* Wakes at most `n` threads that wait on the word. */
void ito__prim_wake(uint32_t *word, int n) {
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
    errno = saved;
}

static int membarrier_ready; /* set before the workers start */

/* Registration comes first, or the kernel refuses each barrier (membarrier(2), EPERM). The barrier is tried at once:
 * a sandbox may allow the one call and not the other. */
bool ito__prim_membarrier_setup(void) {
    int saved = errno;
    membarrier_ready = syscall(SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
                       syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0;
    errno = saved;
    return membarrier_ready;
}

/* A full barrier on every CPU that runs a thread of this process; it returns after all have passed it. */
bool ito__prim_membarrier(void) {
    int saved = errno;
    bool ok = syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0;
    errno = saved;
    return ok;
}

/* Field 20 of /proc/self/stat; the second is a name in brackets, which may hold anything. */
unsigned ito__prim_n_kernel_threads(void) {
    char text[1024];
    int saved = errno, fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    errno = saved;
    text[n > 0 ? n : 0] = 0;
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 20; field++)
        at = strchr(at + 1, ' ');
    return at ? (unsigned)strtoul(at, NULL, 10) : 0;
}

/* Those that the C library keeps for itself cannot be asked for. */
bool ito__prim_handles_signals(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    int saved = errno;
    bool found = false;
    for (int signal = 1; signal <= SIGRTMAX && !found; signal++) {
        struct sigaction now;
        bool fault = false;
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
            fault |= faults[i] == signal;
        if (!fault && sigaction(signal, NULL, &now) == 0)
            found = now.sa_flags & SA_SIGINFO || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
    }
    errno = saved;
    return found;
}

uint64_t ito__prim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t ito__prim_tick(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void ito__prim_yield(void) {
    sched_yield();
}

/* A seed for victims of steals: it must differ between runs, and need not be a secret. The multiplier (2^32 / the
 * golden ratio) spreads the ns over all bits. */
uint32_t ito__prim_random(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint32_t)t.tv_nsec * 2654435761u ^ (uint32_t)getpid();
}

/* The lowest usable byte, above the guard. glibc reads it from /proc/self/maps for the main thread, which fails where
 * /proc is not mounted: null then. */
char *ito__prim_stack_low(void) {
    pthread_attr_t attr;
    void *low = NULL;
    size_t bytes = 0, guard = 0;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return NULL;
    if (pthread_attr_getstack(&attr, &low, &bytes) != 0)
        low = NULL;
    pthread_attr_getguardsize(&attr, &guard);
    pthread_attr_destroy(&attr);
    return low ? (char *)low + guard : NULL;
}

void ito__prim_name_thread(unsigned index) {
    /* The kernel's names have 15 bytes and a zero (TASK_COMM_LEN). */
    char name[16];
    snprintf(name, sizeof name, "ito/%u", index);
    pthread_setname_np(pthread_self(), name);
}
