/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What hooks.h promises to AddressSanitizer and ThreadSanitizer; empty without them. ito_thread.sanitizer: the fake stack;
 * the fiber. */
#define _GNU_SOURCE
#include "base/hooks.h"

#include <ito/types.h>

#include <pthread.h>
#include <stddef.h>

#ifdef ITO__ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

/* Bounds of a kernel thread's own stack. Kept from the start, since a root thread may run on another worker later. */
struct bounds {
    void *low;
    size_t bytes;
};
static __thread struct bounds worker_bounds;
static struct bounds root_bounds;

void ito__hook_worker(struct ito_thread *t) {
    pthread_attr_t attr;
    struct bounds own = {NULL, 0};
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstack(&attr, &own.low, &own.bytes);
        pthread_attr_destroy(&attr);
    }
    if (t->flags & ITO__ROOT)
        root_bounds = own;
    else
        worker_bounds = own;
}

static __attribute__((noinline)) struct bounds bounds_of(const struct ito_thread *t) {
    if (t->flags & ITO__ROOT)
        return root_bounds;
    if (t->stack == NULL)
        return worker_bounds; /* a worker's context: entered on its own kernel thread only */
    return (struct bounds){t->stack->low, (size_t)((char *)t->stack - t->stack->low)};
}

void ito__hook_leave(struct ito_thread *t, struct ito_thread *next, int ending) {
    struct bounds to = bounds_of(next);
    /* The caller's frame ends without returning, after ito__hook_end(): the stack's next thread must not find its red
     * zones either. */
    if (ending)
        __asan_handle_no_return();
    __sanitizer_start_switch_fiber(ending ? NULL : &t->sanitizer, to.low, to.bytes);
}
void ito__hook_enter(struct ito_thread *t) {
    __sanitizer_finish_switch_fiber(t->sanitizer, NULL, NULL);
}
void ito__hook_end(struct ito_thread *t) {
    t->sanitizer = NULL;
    /* The frames below this one end without returning; the stack's next thread must not find their red zones. */
    if (t->stack && !(t->flags & ITO__ROOT))
        __asan_unpoison_memory_region(t->stack->low, (size_t)((char *)t->stack - t->stack->low));
}
#endif

#ifdef ITO__TSAN
#include <stdlib.h>

/*
 * A fiber of ThreadSanitizer takes 100 us to make and 800 KB (gcc 12), so a kernel thread keeps some whose threads have
 * ended. A thread that takes one over is, to the sanitizer, the one before: those two are not told to race. They would not be
 * in any case, as one has ended on this kernel thread before the other begins here, and switches there synchronise.
 *
 *   made     by whoever first switches to the thread
 *   thread   -> `ended`, at its end, which is followed by a switch on the same kernel thread
 *   `ended`  -> `kept`, after that switch, or destroyed: not before, as it is in use
 */
struct fiber {
    void *handle;
    unsigned threads; /* that it was. Each leaves some calls open, as it ends without returning, of 65,536 that fit */
};
enum { FIBERS_KEPT = 64, FIBER_THREADS = 2000 };
static __thread struct fiber *ended, *kept[FIBERS_KEPT];
static __thread unsigned n_kept;

static struct fiber *fiber_new(void *handle) {
    struct fiber *f = malloc(sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct fiber){handle, 0};
    return f;
}

void ito__hook_worker(struct ito_thread *t) {
    t->sanitizer = fiber_new(__tsan_get_current_fiber());
}

__attribute__((noinline)) void *ito__fiber_of(struct ito_thread *t) {
    if (t->sanitizer == NULL)
        t->sanitizer = n_kept > 0 ? kept[--n_kept] : fiber_new(__tsan_create_fiber(0));
    return ((struct fiber *)t->sanitizer)->handle;
}

__attribute__((noinline)) void ito__hook_end(struct ito_thread *t) {
    ended = t->sanitizer;
    t->sanitizer = NULL;
}

__attribute__((noinline)) void ito__fiber_left(void) {
    struct fiber *f = ended;
    ended = NULL;
    if (f && n_kept < FIBERS_KEPT && ++f->threads < FIBER_THREADS) {
        kept[n_kept++] = f;
    } else if (f) {
        __tsan_destroy_fiber(f->handle);
        free(f);
    }
}
#endif
