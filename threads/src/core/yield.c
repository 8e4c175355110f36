/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * void ito_yield(void), as a function: the inline one (ito/inline.h) but for its return. After a switch the predictor
 * of returns holds the call of another thread, and a ret would be mispredicted, 9 ns: so it goes back by a jump. In a C
 * file, since only C knows whether the header switches by assembly.
 */
#include "core/internal.h"

#ifndef ITO__GENERIC
_Static_assert(offsetof(struct ito__worker, errno_at) == 40, "ito_yield below knows it");

__asm__(".text\n"
        "\t.globl ito_yield\n"
        "\t.type ito_yield, @function\n"
        "\t.balign 16\n"
        "ito_yield:\n"
        "\t.cfi_startproc\n"
        "\tmovq ito__tls_worker@gottpoff(%rip), %rax\n"
        "\tmovq %fs:(%rax), %rax\n"
        "\tmovq 40(%rax), %rax\n"
        "\tmovl (%rax), %eax\n"
        "\tpushq %rax\n"
        "\t.cfi_adjust_cfa_offset 8\n"
        "\tpushq %r15\n"
        "\tpushq %r14\n"
        "\tpushq %r13\n"
        "\tpushq %r12\n"
        "\tpushq %rbp\n"
        "\tpushq %rbx\n"
        "\tleaq 1f(%rip), %rax\n"
        "\tpushq %rax\n"
        "\tmovq %rsp, %rdi\n"
        "\t.cfi_remember_state\n"
        "\t.cfi_undefined rip\n"
        "\tjmp *ito__yield_at@GOTPCREL(%rip)\n"
        "\t.cfi_restore_state\n"
        "1: popq %rcx\n"
        "\t.cfi_adjust_cfa_offset -8\n"
        "\tmovq ito__tls_worker@gottpoff(%rip), %rax\n"
        "\tmovq %fs:(%rax), %rax\n"
        "\tmovq 40(%rax), %rax\n"
        "\tmovl %ecx, (%rax)\n"
        "\tpopq %rcx\n"
        "\t.cfi_adjust_cfa_offset -8\n"
        "\t.cfi_register rip, rcx\n"
        "\tjmp *%rcx\n"
        "\t.cfi_endproc\n"
        "\t.size ito_yield, .-ito_yield\n");
#endif
