/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 32-bit ARM, version 7 or later. A suspended context, from its stack pointer upwards: d8..d15 (with hard float), r4..r11,
 * lr (where to continue), one unused word. Resumed by bx of a register other than lr.
 */
#if defined(__arm__) && __ARM_ARCH >= 7 && !defined(ITO_UCONTEXT)
        .syntax unified
        .text
        .arm
#if defined(__ARM_PCS_VFP)
        .fpu    vfpv3-d16
#endif

        .macro  save
        sub     sp, sp, #4
        push    {r4-r11, lr}
#if defined(__ARM_PCS_VFP)
        vpush   {d8-d15}
#endif
        str     sp, [r0]
        .endm

        .macro  function name
        .globl  \name
        .hidden \name
        .type   \name, %function
        .balign 16
\name:
        .fnstart
        .cantunwind
        .endm

/* void ito__context_switch(void **save, void *to, void (*after)(void *), void *arg) */
function ito__context_switch
        save
        mov     r0, r1
        mov     r1, r2
        mov     r2, r3
        b       ito__context_jump
        .fnend

/* void ito__context_jump(void *to, void (*after)(void *), void *arg) */
function ito__context_jump
        mov     sp, r0
        cmp     r1, #0
        beq     1f
        mov     r0, r2
        blx     r1
1:
#if defined(__ARM_PCS_VFP)
        vpop    {d8-d15}
#endif
        pop     {r4-r11, lr}
        add     sp, sp, #4
        mov     r12, lr
        bx      r12
        .fnend

/* void ito__context_start(void **save, void *high, void (*entry)(void)) */
function ito__context_start
        save
        mov     sp, r1
        mov     r4, r2
        b       ito__context_first
        .fnend

/* A new thread: r4 is its entry. Backtraces end here. */
function ito__context_first
        mov     r11, #0
        blx     r4
        udf     #0
        .fnend
#endif
        .section .note.GNU-stack, "", %progbits
