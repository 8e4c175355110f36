/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which programs get kernel threads, and why. */
#include "light.h"

#include <dlfcn.h>
#include <stdlib.h>

static bool has(const char *name) {
    return dlsym(RTLD_DEFAULT, name) != NULL;
}

const char *light_refusal(void) {
    if (getenv("ITO_PTHREAD") && getenv("ITO_PTHREAD")[0] == '0')
        return "ITO_PTHREAD=0";
    const char *why = arch_refusal();
    if (why)
        return why;
    if (has("__asan_init") || has("__tsan_init") || has("__msan_init"))
        return "it is built with a sanitizer, which knows kernel threads only";
    if (has("ito_init"))
        return "it uses libito";
    if (!tls_setup())
        return "this C library has no functions to make thread-local storage";
    return NULL;
}
