/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the compiler's code for exceptions (objects.c) calls in libgcc_s, found when an exception or a cancellation passes through that code.
 * A library that is linked to libgcc_s loads it into every program, and a start of libgcc_s costs up to 0.3 ms in a virtual machine: its
 * constructor asks the CPU what it can do, which the machine's host answers.
 */
#include "light.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Not <unwind.h>, which would have other libraries see these functions. Its types, as the ABI has them. */
struct context;
struct exception;
typedef int personality(int version, int actions, uint64_t kind, struct exception *exception, struct context *context);
typedef void resume(struct exception *exception);
personality __gcc_personality_v0;
resume _Unwind_Resume;

/* Whoever unwinds has loaded it. */
static void *of_libgcc(const char *name) {
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (found == NULL)
        abort(); /* as the C library does where it cannot unwind */
    return found;
}

int __gcc_personality_v0(int version, int actions, uint64_t kind, struct exception *exception,
                         struct context *context) {
    personality *real = (personality *)of_libgcc("__gcc_personality_v0");
    return real(version, actions, kind, exception, context);
}

/* The unwinding goes on from this frame, which has nothing to clean up. */
void _Unwind_Resume(struct exception *exception) {
    resume *real = (resume *)of_libgcc("_Unwind_Resume");
    real(exception);
    __builtin_unreachable();
}
