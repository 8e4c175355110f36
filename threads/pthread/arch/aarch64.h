/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The thread pointer and the thread control block of aarch64 Linux, glibc.
 *
 * At the thread pointer lie two words, the first of which is the vector of the thread's modules; static TLS lies above
 * them, and the control block (struct pthread) ends where they begin. The guards of stacks and pointers are the
 * process's. What glibc before 2.36 wants in the control block: multiple_threads at 0.
 */
#ifndef ITO_PTHREAD_ARCH_H
#define ITO_PTHREAD_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>

static inline void *arch_thread_pointer(void) {
    void *at;
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(at));
    return at;
}

static inline __attribute__((always_inline)) void arch_set_thread_pointer(void *at) {
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(at) : "memory");
}

#define ARCH_GET_SHADOW_STACK_STATUS 74
#define ARCH_SHADOW_STACK_ENABLE 1u

/* Why threads of this process cannot be switched; null: they can. */
static inline const char *arch_refusal(void) {
    unsigned long features = 0;
    if (prctl(ARCH_GET_SHADOW_STACK_STATUS, &features, 0, 0, 0) == 0 && features & ARCH_SHADOW_STACK_ENABLE)
        return "it runs with a shadow stack";
    return NULL;
}

/* Room for a block of `size` bytes (the two words and static TLS), and `sizeof_pthread` of control block before it, below
 * `high`. Returns the thread pointer; *low: the first byte of both, where the stack may begin. */
static inline char *arch_place(char *high, size_t size, size_t align, size_t sizeof_pthread, char **low) {
    char *at = (char *)((uintptr_t)(high - size) & ~(uintptr_t)(align - 1));
    *low = (char *)((uintptr_t)(at - sizeof_pthread) & ~(uintptr_t)63);
    return at;
}
static inline size_t arch_block_bytes(size_t size, size_t sizeof_pthread) {
    return size + sizeof_pthread;
}

/* Whether thread-local variables at `at` are of the block at `tp`. */
static inline bool arch_is_in_block(const char *at, const char *tp, size_t size) {
    return at >= tp && at < tp + size;
}

/* pthread_t is the address of the control block. */
#define ARCH_PTHREAD_OF(tp) ((uintptr_t)(tp)-ito__tls_sizeof_pthread)
#define ARCH_POINTER_OF(id) ((char *)(id) + ito__tls_sizeof_pthread)

/* What start_thread's creator fills in. `like`: the thread pointer of a running thread. */
static inline void arch_fill(char *at, const char *like) {
    (void)like;
    memcpy((char *)ARCH_PTHREAD_OF(at), &(int){1}, sizeof(int));
}

/* The exported vfork: goes on to the function whose address `choose` returns, with the caller's return address in x30. */
#define ARCH_VFORK(choose)                                                                                             \
    __asm__(".text\n.globl vfork\n.type vfork,%function\nvfork:\n"                                                     \
            "\t.cfi_startproc\n\thint #34\n\tstp x29, x30, [sp, #-16]!\n\t.cfi_adjust_cfa_offset 16\n"                 \
            "\t.cfi_rel_offset x29, 0\n\t.cfi_rel_offset x30, 8\n\tbl " #choose                                        \
            "\n\tmov x16, x0\n\tldp x29, x30, [sp], #16\n\t.cfi_restore x29\n\t.cfi_restore x30\n"                     \
            "\t.cfi_adjust_cfa_offset -16\n\tbr x16\n\t.cfi_endproc\n.size vfork, .-vfork\n");

/* A function `name` that does what the C library's syscall() does; `fails` is given a negative error number, sets errno and returns -1. */
#define ARCH_SYSCALL(name, fails)                                                                                      \
    __asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ",%function\n" #name ":\n"                      \
            "\t.cfi_startproc\n\thint #34\n\tmov x8, x0\n\tmov x0, x1\n\tmov x1, x2\n\tmov x2, x3\n\tmov x3, x4\n"     \
            "\tmov x4, x5\n\tmov x5, x6\n\tsvc #0\n\tcmn x0, #4095\n\tb.cs 1f\n\tret\n1:\tb " #fails                   \
            "\n\t.cfi_endproc\n.size " #name ", .-" #name "\n");

/* Where a signal handler's ucontext_t says that it interrupted the thread. */
#define ARCH_PC_OF(context) ((uintptr_t)(context)->uc_mcontext.pc)

#endif
