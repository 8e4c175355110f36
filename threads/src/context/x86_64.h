/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * x86-64. A suspended context, from its stack pointer upwards: rip, rbx, rbp, r12, r13, r14, r15.
 *
 * Resumed by pop and jmp, never by ret: the return-address predictor holds the calls of another stack by then, and a
 * mispredicted ret costs 15 ns instead of 3. Inline, not a function, for the same reason: a call without its ret would
 * make the caller's own ret miss.
 *
 * The asm pushes below the stack pointer, where a leaf function may keep variables (red zone): libito is built with
 * -mno-red-zone.
 */
#include <ito/inline.h>

#define ITO__X86_SAVE                                                                                                  \
    "pushq %%r15\n\tpushq %%r14\n\tpushq %%r13\n\tpushq %%r12\n\tpushq %%rbp\n\tpushq %%rbx\n\t"                       \
    "leaq 1f(%%rip), %%rax\n\tpushq %%rax\n\t"
/* after(arg) with an aligned stack; rbx is about to be loaded anyway. */
#define ITO__X86_AFTER                                                                                                 \
    "testq %%rcx, %%rcx\n\tje 2f\n\t"                                                                                  \
    "movq %%rsp, %%rbx\n\tandq $-16, %%rsp\n\tcall *%%rcx\n\tmovq %%rbx, %%rsp\n\t"                                    \
    "2:\n\t"
#define ITO__X86_RESUME                                                                                                \
    "popq %%rax\n\tpopq %%rbx\n\tpopq %%rbp\n\tpopq %%r12\n\tpopq %%r13\n\tpopq %%r14\n\tpopq %%r15\n\tjmp *%%rax\n\t"

static inline __attribute__((always_inline)) void ito__context_switch(void **save, void *to, void (*after)(void *),
                                                                      void *arg) {
    __asm__ volatile(ITO__X86_SAVE "movq %%rsp, (%[save])\n\t" ITO__CFI_END
                                   "movq %[to], %%rsp\n\t" ITO__X86_AFTER ITO__X86_RESUME ITO__CFI_BACK "1:\n\t"
                     : [save] "+S"(save), [to] "+d"(to), "+c"(after), "+D"(arg)
                     :
                     : "rax", "r8", "r9", "r10", "r11", "memory", "cc", ITO__CLOBBER_VECTOR);
}

static inline __attribute__((always_inline, noreturn)) void ito__context_jump(void *to, void (*after)(void *),
                                                                              void *arg) {
    __asm__ volatile(ITO__CFI_END "movq %[to], %%rsp\n\t" ITO__X86_AFTER ITO__X86_RESUME ITO__CFI_BACK
                     : [to] "+d"(to), "+c"(after), "+D"(arg)
                     :
                     : "rax", "memory");
    __builtin_unreachable();
}

/* The same to *to, but after() is one store of 0 to *flag, when the old stack is left. */
static inline __attribute__((always_inline, noreturn)) void ito__context_jump_release(void *const *to, uint32_t *flag) {
    __asm__ volatile(ITO__CFI_END "movq %[to], %%rsp\n\tmovl $0, %[flag]\n\t" ITO__X86_RESUME ITO__CFI_BACK
                     : [flag] "=m"(*flag)
                     : [to] "m"(*to)
                     : "memory");
    __builtin_unreachable();
}

static inline __attribute__((always_inline)) void ito__context_start(void **save, void *high, void (*entry)(void)) {
    __asm__ volatile(ITO__X86_SAVE "movq %%rsp, (%[save])\n\t" ITO__CFI_END "movq %[high], %%rsp\n\t"
                                   "call *%[entry]\n\tud2\n\t" ITO__CFI_BACK "1:\n\t"
                     : [save] "+S"(save), [high] "+d"(high), [entry] "+c"(entry)
                     :
                     : "rax", "rdi", "r8", "r9", "r10", "r11", "memory", "cc", ITO__CLOBBER_VECTOR);
}

/* Ends backtraces and calls what ito__context_make left in rbx. */
void ito__context_first(void);

static inline void *ito__context_make(void *high, void (*entry)(void)) {
    uint64_t *sp = (uint64_t *)high - 8;
    sp[0] = (uint64_t)(uintptr_t)ito__context_first;
    sp[1] = (uint64_t)(uintptr_t)entry;
    sp[2] = sp[3] = sp[4] = sp[5] = sp[6] = sp[7] = 0;
    return sp;
}
