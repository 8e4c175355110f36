/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gate - counts the instructions and the locked instructions of one create + join, by single-stepping itself with
 * ptrace. Deterministic: the counts do not depend on what else the machine does, so tests may assert them.
 *
 *   gate           print them as JSON lines and check them against the limits; status 1 when one is exceeded,
 *                  77 when this machine cannot single-step
 */
#include <ito.h>
#include <ito/fork.h>

#define FIB_INLINING __attribute__((noinline)) /* counts that no compiler version changes by inlining */
#include "fib.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPS 232.0 /* creations of fib(12): F(13) - 1 */

static void run(int kind) {
    long result = kind == 1 ? (long)thread_fib((void *)12) : kind == 2 ? fork_fib(12) : 144;
    if (result != 144)
        abort();
}

/* The traced process: warm up, then the part between two signals is counted. */
static void child(int kind) {
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = 1;
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
        _exit(77);
    if (ito_init(&config) != 0)
        _exit(1);
    run(kind);
    run(kind);
    raise(SIGUSR1);
    run(kind);
    raise(SIGUSR2);
    _exit(0);
}

struct count {
    long instructions, locked;
};

/* A lock prefix, or an exchange with memory, which locks without one. */
static int is_locked(const unsigned char *code) {
    int i = 0, locked = 0;
    for (; i < 8; i++) {
        if (code[i] == 0xf0)
            locked = 1;
        else if (code[i] != 0x66 && code[i] != 0xf2 && code[i] != 0xf3 && code[i] != 0x2e && code[i] != 0x3e &&
                 code[i] != 0x64 && code[i] != 0x65 && (code[i] & 0xf0) != 0x40)
            break;
    }
    return locked || ((code[i] == 0x86 || code[i] == 0x87) && code[i + 1] < 0xc0);
}

static struct count measure(int kind) {
    struct count count = {0, 0};
    int status, counting = 0;
    pid_t pid = fork();
    if (pid == 0)
        child(kind);
    while (waitpid(pid, &status, 0) == pid && !WIFEXITED(status) && !WIFSIGNALED(status)) {
        int sig = WSTOPSIG(status);
        if (sig == SIGUSR1)
            counting = 1;
        if (sig == SIGUSR2)
            counting = 0;
        if (counting && sig == SIGTRAP) {
            struct user_regs_struct regs;
            unsigned char code[16] = {0};
            ptrace(PTRACE_GETREGS, pid, 0, &regs);
            struct iovec to = {code, sizeof code}, from = {(void *)regs.rip, sizeof code};
            if (process_vm_readv(pid, &to, 1, &from, 1, 0) < 0)
                memset(code, 0, sizeof code);
            count.instructions++;
            count.locked += is_locked(code);
        }
        int deliver = sig == SIGTRAP || sig == SIGUSR1 || sig == SIGUSR2 || sig == SIGSTOP ? 0 : sig;
        if (ptrace(counting ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, 0, deliver) != 0)
            break;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return count;
    count.instructions = WIFEXITED(status) && WEXITSTATUS(status) == 77 ? -77 : -1;
    return count;
}

static int report(const char *name, double value, double limit) {
    printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"per create+join\",\"spread\":[%.2f,%.2f],\"goal\":\"<= %g\"}\n",
           name, value, value, value, limit);
    if (value <= limit)
        return 0;
    fprintf(stderr, "gate: %s is %.2f, the limit is %g\n", name, value, limit);
    return 1;
}

int main(void) {
    struct count empty = measure(0), thread = measure(1), fork_sync = measure(2);
    if (empty.instructions == -77) {
        fprintf(stderr, "skipped: ptrace is not allowed here\n");
        return 77;
    }
    if (empty.instructions <= 0 || thread.instructions <= 0 || fork_sync.instructions <= 0) {
        fprintf(stderr, "gate: the counted process failed\n");
        return 1;
    }
    int bad = 0;
#ifdef ITO_INLINE
    bad |= report("ito.create_join_instructions", (double)(thread.instructions - empty.instructions) / OPS, 100);
    bad |= report("ito.create_join_locked", (double)(thread.locked - empty.locked) / OPS, 0);
    bad |= report("ito.fork_sync_instructions", (double)(fork_sync.instructions - empty.instructions) / OPS, 48);
    bad |= report("ito.fork_sync_locked", (double)(fork_sync.locked - empty.locked) / OPS, 0);
#else
    bad |= report("ito.create_join_shared_instructions", (double)(thread.instructions - empty.instructions) / OPS, 125);
    bad |= report("ito.create_join_shared_locked", (double)(thread.locked - empty.locked) / OPS, 0);
#endif
    return bad;
}
