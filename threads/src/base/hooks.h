/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where sanitizers and valgrind are told about stacks and switches. Without them every hook is nothing (valgrind's: a
 * few instructions per new stack).
 *
 *   WORKER(t)               t runs on the calling kernel thread's own stack: a worker's context or the root thread
 *   STACK_NEW(low, high)    a stack was mapped
 *   LEAVE(t, next, ending)  t is about to switch to next; ending: t never comes back and may not be read any more
 *   ENTER(t)                on t's stack, after a switch to it or as its first action
 *   END(t)                  t is about to be given away for good, while it still runs
 *
 * AddressSanitizer keeps a fake stack for each stack: sanitizer/common_interface_defs.h. ThreadSanitizer keeps a clock
 * for each fiber: sanitizer/tsan_interface.h. Switches synchronise there (flag 0): a worker's own data, used by every
 * thread it runs in turn, would be reported otherwise. So a race between two threads is found when they run on two
 * workers.
 */
#ifndef ITO_HOOKS_H
#define ITO_HOOKS_H

#if defined(__SANITIZE_ADDRESS__)
#define ITO__ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define ITO__TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ITO__ASAN 1
#elif __has_feature(thread_sanitizer)
#define ITO__TSAN 1
#endif
#endif

#if defined(ITO__ASAN) || defined(ITO__TSAN)
#include <ito/types.h>
#endif
#if defined(ITO__ASAN)
void ito__hook_worker(struct ito_thread *t);
void ito__hook_leave(struct ito_thread *t, struct ito_thread *next, int ending);
void ito__hook_enter(struct ito_thread *t);
void ito__hook_end(struct ito_thread *t);
#elif defined(ITO__TSAN)
#include <sanitizer/tsan_interface.h>
void ito__hook_worker(struct ito_thread *t);
void ito__hook_end(struct ito_thread *t);
void *ito__fiber_of(struct ito_thread *t);
void ito__fiber_left(void);
/* Always inlined: ThreadSanitizer counts calls and returns for each fiber, and a function that returns on another fiber
 * than it was called on would break the counts of both. */
static inline __attribute__((always_inline)) void ito__hook_leave(struct ito_thread *next, int ending) {
    __tsan_switch_to_fiber(ito__fiber_of(next), 0);
    if (ending)
        ito__fiber_left();
}
#define ito__hook_leave(thread, next, ending) ito__hook_leave(next, ending)
#define ito__hook_enter(thread) ((void)0)
#endif

#if defined(ITO__ASAN) || defined(ITO__TSAN)
#define ITO__HOOK_WORKER(thread) ito__hook_worker(thread)
#define ITO__HOOK_LEAVE(thread, next, ending) ito__hook_leave(thread, next, ending)
#define ITO__HOOK_ENTER(thread) ito__hook_enter(thread)
#define ITO__HOOK_END(thread) ito__hook_end(thread)
#else
#define ITO__HOOK_WORKER(thread) ((void)0)
#define ITO__HOOK_LEAVE(thread, next, ending) ((void)0)
#define ITO__HOOK_ENTER(thread) ((void)0)
#define ITO__HOOK_END(thread) ((void)0)
#endif

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifdef VALGRIND_STACK_REGISTER
#define ITO__HOOK_STACK_NEW(low, high) ((void)VALGRIND_STACK_REGISTER(low, high))
#else
#define ITO__HOOK_STACK_NEW(low, high) ((void)0)
#endif

#endif
