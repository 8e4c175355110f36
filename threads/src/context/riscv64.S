/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * riscv64 with the double-float ABI (or none). A suspended context, from its stack pointer upwards: s0..s11, ra (where to
 * continue), one unused word, fs0..fs11; 208 bytes. Resumed by jr t0, which the CPU does not take for a return.
 */
#if defined(__riscv) && __riscv_xlen == 64 && !defined(ITO_UCONTEXT)
        .text

        .macro  each op
        \op     s0, 0(sp)
        \op     s1, 8(sp)
        \op     s2, 16(sp)
        \op     s3, 24(sp)
        \op     s4, 32(sp)
        \op     s5, 40(sp)
        \op     s6, 48(sp)
        \op     s7, 56(sp)
        \op     s8, 64(sp)
        \op     s9, 72(sp)
        \op     s10, 80(sp)
        \op     s11, 88(sp)
        .endm

        .macro  each_float op
#if defined(__riscv_float_abi_double)
        \op     fs0, 112(sp)
        \op     fs1, 120(sp)
        \op     fs2, 128(sp)
        \op     fs3, 136(sp)
        \op     fs4, 144(sp)
        \op     fs5, 152(sp)
        \op     fs6, 160(sp)
        \op     fs7, 168(sp)
        \op     fs8, 176(sp)
        \op     fs9, 184(sp)
        \op     fs10, 192(sp)
        \op     fs11, 200(sp)
#endif
        .endm

        .macro  save
        addi    sp, sp, -208
        each    sd
        sd      ra, 96(sp)
        each_float fsd
        sd      sp, 0(a0)
        .endm

        .macro  function name
        .globl  \name
        .hidden \name
        .type   \name, @function
        .balign 16
\name:
        .cfi_startproc
        .endm

/* void ito__context_switch(void **save, void *to, void (*after)(void *), void *arg) */
function ito__context_switch
        save
        mv      a0, a1
        mv      a1, a2
        mv      a2, a3
        j       ito__context_jump
        .cfi_endproc

/* void ito__context_jump(void *to, void (*after)(void *), void *arg) */
function ito__context_jump
        .cfi_undefined ra
        mv      sp, a0
        beqz    a1, 1f
        mv      a0, a2
        jalr    a1
1:      each    ld
        ld      ra, 96(sp)
        mv      t0, ra
        each_float fld
        addi    sp, sp, 208
        /* t0 is an alternate link register: jr t0 would pop the return-address stack */
        mv      t1, t0
        jr      t1
        .cfi_endproc

/* void ito__context_start(void **save, void *high, void (*entry)(void)) */
function ito__context_start
        save
        mv      sp, a1
        mv      s1, a2
        j       ito__context_first
        .cfi_endproc

/* A new thread: s1 is its entry. Backtraces end here. */
function ito__context_first
        .cfi_undefined ra
        li      s0, 0
        jalr    s1
        ebreak
        .cfi_endproc
#endif
        .section .note.GNU-stack, "", %progbits
