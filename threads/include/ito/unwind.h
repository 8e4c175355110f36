/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/unwind.h - what a C++ runtime keeps of the exceptions of a kernel thread, for threads that move to another one.
 *
 * The Itanium C++ ABI's record (2.2.2): the stack of caught exceptions and the count of uncaught ones; Arm's EHABI adds
 * a pointer. Code that may switch while exceptions are handled puts the record away first and takes it back afterwards.
 * C needs it too: its frames may be left by an exception of a C++ function that they call.
 */
#ifndef ITO_UNWIND_H
#define ITO_UNWIND_H

#ifdef __cplusplus
#include <cxxabi.h>
#else
/* Weak: a C program without a C++ runtime has no exceptions either. */
void *__cxa_get_globals(void) __attribute__((weak));
#endif

struct ito__unwind {
    void *caught;
    unsigned int uncaught;
#if defined(__ARM_EABI_UNWINDER__)
    void *propagating;
#endif
};

/* Never inlined: the function that finds the record is declared constant, and a compiler would keep its result over a
 * switch. */
#ifdef __cplusplus
__attribute__((noinline)) inline struct ito__unwind ito__unwind_exchange(struct ito__unwind with) noexcept {
    struct ito__unwind *now = reinterpret_cast<struct ito__unwind *>(abi::__cxa_get_globals());
#else
static __attribute__((noinline, unused)) struct ito__unwind ito__unwind_exchange(struct ito__unwind with) {
    if (!__cxa_get_globals)
        return with;
    struct ito__unwind *now = (struct ito__unwind *)__cxa_get_globals();
#endif
    __asm__ volatile("" : "+r"(now) : : "memory");
    struct ito__unwind before = *now;
    *now = with;
    return before;
}

#ifdef __cplusplus
namespace ito {
namespace detail {
/* Around everything that may switch. A kernel thread's record is empty whenever it goes from one ito thread to another,
 * so an empty one need not be brought back. */
class exceptions {
  public:
    exceptions() noexcept : saved(ito__unwind_exchange({})) {}
    ~exceptions() {
        if (__builtin_expect(saved.caught != nullptr || saved.uncaught != 0, 0))
            ito__unwind_exchange(saved);
    }
    exceptions(const exceptions &) = delete;
    exceptions &operator=(const exceptions &) = delete;

  private:
    ito__unwind saved;
};

} // namespace detail
} // namespace ito
#endif

#endif
