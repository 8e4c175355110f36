/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* In place of the parts of ito that are left out. SIGSEGV is the program's own (overflow.c), and so are keys
 * (keys.c): light threads have the C library's. */
#include "core/internal.h"

void ito__overflow_start(void) {}
void ito__overflow_stop(void) {}
void ito__overflow_worker_start(void) {}
void ito__overflow_worker_stop(void) {}
void ito__keys_end(struct ito_thread *t) {
    (void)t;
}
