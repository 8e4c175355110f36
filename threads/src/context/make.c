/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A first context for the CPUs whose switch is in assembly: zeros, the entry in the register that ito__context_first
 * calls, and ito__context_first as the address to continue at. Indices as the .S files lay contexts out. */
#include "context/context.h"

#include <stddef.h>
#include <stdint.h>

#if !defined(ITO__CONTEXT_C) && !defined(__x86_64__)

#if defined(__aarch64__)
enum { WORDS = 20, ENTRY = 0 /* x19 */, ADDRESS = 11 /* x30 */ };
#elif defined(__riscv)
enum { WORDS = 26, ENTRY = 1 /* s1 */, ADDRESS = 12 /* ra */ };
#elif defined(__ARM_PCS_VFP)
enum { WORDS = 26, ENTRY = 16 /* r4 */, ADDRESS = 24 /* lr */ };
#else
enum { WORDS = 10, ENTRY = 0 /* r4 */, ADDRESS = 8 /* lr */ };
#endif

void ito__context_first(void);

void *ito__context_make(void *high, void (*entry)(void)) {
    uintptr_t *sp = (uintptr_t *)high - WORDS;
    for (int i = 0; i < WORDS; i++)
        sp[i] = 0;
    sp[ENTRY] = (uintptr_t)entry;
    sp[ADDRESS] = (uintptr_t)ito__context_first;
    return sp;
}

#endif
