/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/trace.h"

uint32_t ito__tracing;
uint32_t ito__seeing_locks;
const struct ito__listener *ito__listener;

void ito__trace_forget(void) {
    __atomic_store_n(&ito__tracing, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ito__seeing_locks, 0, __ATOMIC_RELAXED);
}
