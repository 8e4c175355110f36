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
static inline bool arch_can_switch(void) {
    return getauxval(AT_HWCAP2) & ARCH_HWCAP2_FSGSBASE;
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

/* What start_thread's creator fills in. `like`: the thread pointer of a running thread. */
static inline void arch_fill(char *at, const char *like) {
    void *self = at;
    memcpy(at, &self, sizeof self);
    memcpy(at + 16, &self, sizeof self);
    memcpy(at + 24, &(int){1}, sizeof(int));
    memcpy(at + 40, like + 40, 16);
    memcpy(at + 72, like + 72, 4);
}

/* pthread_t is the address of the control block, here the thread pointer itself. */
#define ARCH_PTHREAD_OF(tp) ((uintptr_t)(tp))

#endif
