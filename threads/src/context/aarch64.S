/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * aarch64. A suspended context, from its stack pointer upwards: x19..x28, x29, x30 (where to continue), d8..d15; 160 bytes.
 * Resumed by br, not ret: the return-address predictor holds another stack's calls.
 */
#if defined(__aarch64__) && !defined(ITO_UCONTEXT)
        .text

        .macro  save
        sub     sp, sp, #160
        stp     x19, x20, [sp, #0]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mov     x9, sp
        str     x9, [x0]
        .endm

        .macro  function name
        .globl  \name
        .hidden \name
        .type   \name, %function
        .balign 16
\name:
        .cfi_startproc
        .endm

/* void ito__context_switch(void **save, void *to, void (*after)(void *), void *arg) */
function ito__context_switch
        save
        mov     x0, x1
        mov     x1, x2
        mov     x2, x3
        b       ito__context_jump
        .cfi_endproc

/* void ito__context_jump(void *to, void (*after)(void *), void *arg) */
function ito__context_jump
        .cfi_undefined x30
        mov     sp, x0
        cbz     x1, 1f
        mov     x0, x2
        blr     x1
1:      ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #160
        br      x30
        .cfi_endproc

/* void ito__context_start(void **save, void *high, void (*entry)(void)) */
function ito__context_start
        save
        mov     sp, x1
        mov     x29, xzr
        mov     x19, x2
        b       ito__context_first
        .cfi_endproc

/* A new thread: x19 is its entry. Backtraces end here. */
function ito__context_first
        .cfi_undefined x30
        mov     x29, xzr
        blr     x19
        brk     #1
        .cfi_endproc
#endif
        .section .note.GNU-stack, "", %progbits
