/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#if defined(__x86_64__) && !defined(__ILP32__) && !defined(ITO_UCONTEXT)
        .text
        .globl  ito__context_first
        .hidden ito__context_first
        .type   ito__context_first, @function
        .balign 16
ito__context_first:
        .cfi_startproc
        .cfi_undefined rip
        andq    $-16, %rsp
        xorl    %ebp, %ebp
        call    *%rbx
        ud2
        .cfi_endproc
        .size   ito__context_first, .-ito__context_first
#endif
        .section .note.GNU-stack, "", %progbits
