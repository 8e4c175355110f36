/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Blocking, as block.c does it for threads that are no workers: a futex word in the thread. A worker would switch to
 * another context instead, which is not explored.
 */
#include "programs.h"

void ito__block(void (*after)(void *), void *arg) {
    struct ito_thread *me = ito__self();
    after(arg);
    while (load_acquire(&me->wake) == 0)
        ito__prim_wait(&me->wake, 0, UINT64_MAX);
    store_relaxed(&me->wake, 0);
}
void ito__block_to(struct ito_thread *to, void (*after)(void *), void *arg) {
    ito__ready(to);
    ito__block(after, arg);
}
void ito__ready(struct ito_thread *t) {
    store_release(&t->wake, 1);
    ito__prim_wake(&t->wake, 1);
}
