/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The thread pointer and the thread control block of x86-64 Linux, glibc.
 *
 * The block (struct pthread) lies at the thread pointer; static TLS lies below it. What the x86-64 ABI and gcc's stack
 * protector fix for ever: a pointer to itself at 0 and 16, the stack guard at 40. What glibc has kept since 2.4 for
 * libthread_db and setjmp: multiple_threads at 24, the pointer guard at 48, feature_1 at 72.
 */
#ifndef ITO_PTHREAD_ARCH_H
#define ITO_PTHREAD_ARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef ARCH_SHSTK_STATUS
#define ARCH_SHSTK_STATUS 0x5005
#endif
#define ARCH_SHSTK_SHSTK 1u

static inline void *arch_thread_pointer(void) {
    void *at;
    __asm__ volatile("movq %%fs:0, %0" : "=r"(at));
    return at;
}

/* User space may set the thread pointer by an instruction (Linux 5.9 and an Ivy Bridge or later). */
#define ARCH_HWCAP2_FSGSBASE 2u

/* Why threads of this process cannot be switched; null: they can. */
static inline const char *arch_refusal(void) {
    unsigned long features = 0;
    if (!(getauxval(AT_HWCAP2) & ARCH_HWCAP2_FSGSBASE))
        return "the thread pointer cannot be set without a system call (no FSGSBASE)";
    if (syscall(SYS_arch_prctl, ARCH_SHSTK_STATUS, &features) == 0 && features & ARCH_SHSTK_SHSTK)
        return "it runs with a shadow stack";
    return NULL;
}

static inline __attribute__((always_inline)) void arch_set_thread_pointer(void *at) {
    __asm__ volatile("wrfsbase %0" : : "r"(at) : "memory");
}

/* Room for a block of `size` bytes (static TLS, then `sizeof_pthread` of control block) below `high`. Returns the
 * thread pointer; *low: the block's first byte, where the stack may begin. */
static inline char *arch_place(char *high, size_t size, size_t align, size_t sizeof_pthread, char **low) {
    char *at = (char *)((uintptr_t)(high - sizeof_pthread) & ~(uintptr_t)(align - 1));
    *low = (char *)((uintptr_t)(at - (size - sizeof_pthread)) & ~(uintptr_t)63);
    return at;
}
static inline size_t arch_block_bytes(size_t size, size_t sizeof_pthread) {
    (void)sizeof_pthread; /* counted in size */
    return size;
}

/* Whether thread-local variables at `at` are of the block at `tp`. */
static inline bool arch_is_in_block(const char *at, const char *tp, size_t size) {
    return at < tp && at >= tp - size;
}

/* What start_thread's creator fills in. `like`: the thread pointer of a running thread. */
static inline void arch_fill(char *at, const char *like) {
    void *self = at;
    memcpy(at, &self, sizeof self);
    memcpy(at + 16, &self, sizeof self);
    memcpy(at + 24, &(int){1}, sizeof(int));
    memcpy(at + 40, like + 40, 16);
    memcpy(at + 72, like + 72, 4);
}

/* The exported vfork: goes on to the function whose address `choose` returns, with the caller's return address on top of the stack. */
#define ARCH_VFORK(choose)                                                                                             \
    __asm__(".text\n.globl vfork\n.type vfork,@function\nvfork:\n"                                                     \
            "\t.cfi_startproc\n\tsubq $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\tcall " #choose                           \
            "\n\taddq $8, %rsp\n\t.cfi_adjust_cfa_offset -8\n\tjmp *%rax\n\t.cfi_endproc\n.size vfork, .-vfork\n");

/* A function `name` that does what the C library's syscall() does; `fails` is given a negative error number, sets errno and returns -1. */
#define ARCH_SYSCALL(name, fails)                                                                                      \
    __asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ",@function\n" #name ":\n"                      \
            "\t.cfi_startproc\n\tmovq %rdi, %rax\n\tmovq %rsi, %rdi\n\tmovq %rdx, %rsi\n\tmovq %rcx, %rdx\n"           \
            "\tmovq %r8, %r10\n\tmovq %r9, %r8\n\tmovq 8(%rsp), %r9\n\tsyscall\n\tcmpq $-4095, %rax\n\tjae 1f\n"       \
            "\tret\n1:\tmovq %rax, %rdi\n\tjmp " #fails "\n\t.cfi_endproc\n.size " #name ", .-" #name "\n");

/* Where a signal handler's ucontext_t says that it interrupted the thread. */
#define ARCH_PC_OF(context) ((uintptr_t)(context)->uc_mcontext.gregs[REG_RIP])

/* pthread_t is the address of the control block, here the thread pointer itself. */
#define ARCH_PTHREAD_OF(tp) ((uintptr_t)(tp))
#define ARCH_POINTER_OF(id) ((char *)(id))

#endif
