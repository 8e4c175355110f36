/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program under the lock probe that confines itself: `lock_confined MODE`. It prints what it observes, which must not
 * depend on the probe. Modes are words joined by `-`; see main(). */
#define _GNU_SOURCE
#include "kasuri.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEFORE 100
#define AFTER 20000
#define THREADS 2

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, shared = PTHREAD_MUTEX_INITIALIZER;
static const char *mode;
static int traps, started, over, done, never;
static long sum;

static int has(const char *word) {
    return strstr(mode, word) != NULL;
}

static void work(int n) {
    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(&first);
        sum++;
        KASURI_INSTANT("both");
        pthread_mutex_unlock(&first);
    }
}

/* Made before; goes on to lock after, and does not end, which would take calls of the C library. */
__attribute__((noreturn)) static void *contend(void *unused) {
    (void)unused;
    KASURI_INSTANT("thread");
    __atomic_fetch_add(&started, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&shared);
        KASURI_INSTANT("contended");
        pthread_mutex_unlock(&shared);
    }
    __atomic_fetch_add(&done, 1, __ATOMIC_ACQ_REL);
    for (;;)
        syscall(SYS_futex, &never, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0);
}

static void on_trap(int number) {
    (void)number;
    traps++;
}

/* What is left of it: the calls of this program after it has confined itself, or all but one. */
static int set_filter(uint32_t otherwise) {
    static const int allowed[] = {SYS_read,  SYS_write,        SYS_exit_group, SYS_clock_gettime,
                                  SYS_futex, SYS_rt_sigreturn, SYS_clone,      SYS_wait4};
    const unsigned n = sizeof allowed / sizeof *allowed;
    struct sock_filter code[32] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    struct sock_fprog program = {(unsigned short)(n + 3), code};
    unsigned at = 1;
    for (unsigned i = 0; i < n; i++)
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i], (uint8_t)(n - i), 0);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    code[at] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (has("passing") || has("partly")) { /* nothing that Kasuri calls; or something that only Kasuri calls */
        code[1] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, has("partly") ? SYS_fallocate : SYS_getppid, 0, 1);
        code[2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
        code[3] = code[at];
        program.len = 4;
    }
    if (has("refused"))
        code[0].k = 3; /* not aligned */
    if (has("tsync"))
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (has("seccomp"))
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    if (has("syscall"))
        return (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static int confine(void) {
    struct sigaction action = {.sa_handler = on_trap};
    sigaction(SIGSYS, &action, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    errno = 77;
    if (has("strict"))
        return has("refused")   ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL)
               : has("seccomp") ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)
                                : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
#ifdef PR_SET_TSC
    if (has("tsc"))
        return prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
#endif
    return set_filter(has("kill")    ? SECCOMP_RET_KILL_PROCESS
                      : has("errno") ? SECCOMP_RET_ERRNO | ENOTTY
                                     : SECCOMP_RET_TRAP);
}

static void say(const char *what, long value) {
    char text[64], *to = text + sizeof text;
    size_t n = strlen(what);
    *--to = '\n';
    do
        *--to = (char)('0' + value % 10);
    while (value /= 10);
    *--to = ' ';
    to = memcpy(to - n, what, n);
    if (write(1, to, (size_t)(text + sizeof text - to)) < 0)
        abort();
}

/* By the bare system call: the C library's fork() makes others. */
static void child(void) {
    int status = 0;
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        work(100);
        KASURI_INSTANT("in a child");
        syscall(SYS_exit_group, 3);
    }
    if (syscall(SYS_wait4, pid, &status, 0, NULL) != pid)
        abort();
    say("child", status);
}

static int run(void) {
    int r, strict = has("strict") && !has("refused"), saved;
    pthread_t t;
    if (!has("early"))
        work(BEFORE);
    for (int i = 0; has("thread") && i < THREADS; i++)
        pthread_create(&t, NULL, contend, NULL);
    while (has("thread") && __atomic_load_n(&started, __ATOMIC_ACQUIRE) != THREADS)
        ;
    r = confine();
    saved = errno;
    work(AFTER);
    KASURI_INSTANT("after");
    KASURI_MESSAGE("%d", 1);
    if (r != 0)
        say("refused", saved);
    else if (saved != 77)
        say("errno", saved);
    if (has("errno"))
        say("getppid", syscall(SYS_getppid) == -1 && errno == ENOTTY);
    if (has("trap")) {
        syscall(SYS_getppid);
        say("traps", traps);
    }
    if (!strict && !has("tsc"))
        child();
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    while (has("thread") && __atomic_load_n(&done, __ATOMIC_ACQUIRE) != THREADS)
        ;
    say("sum", sum);
    if (has("exec")) { /* the filter is inherited; what it forbids ends the program */
        char *arguments[] = {(char *)"lock_confined", (char *)"alone", NULL};
        execv("/proc/self/exe", arguments);
    }
    if (strict)
        syscall(SYS_exit, 7);
    if (has("exit"))
        exit(9); /* destructors, under the filter */
    syscall(SYS_exit_group, 8);
    return 1;
}

int main(int argc, char **argv) {
    mode = argc > 1 ? argv[1] : "";
    if (has("alone")) {
        work(BEFORE);
        say("alone", sum);
        syscall(SYS_exit_group, 6);
    }
    if (has("forked")) { /* the child confines itself, the parent goes on */
        int status = 0;
        pid_t pid;
        work(BEFORE);
        pid = fork();
        if (pid == 0)
            return run();
        if (waitpid(pid, &status, 0) != pid)
            return 1;
        work(AFTER);
        printf("ended %#x, then %ld\n", (unsigned)status, sum);
        return 5;
    }
    return run();
}
