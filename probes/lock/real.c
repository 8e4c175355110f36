/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct probe_real probe_real_table;

/* In place of a function that this C library does not have. */
static int missing(void) {
    return ENOSYS; /* the C library lacks the function: then nobody can have been linked to it */
}

/* glibc has two versions of pthread_cond_*, and plain dlsym(RTLD_NEXT) gives the older one before glibc 2.36: for that
 * one pthread_cond_t is another struct. So ask for the newer by name first; architectures younger than it have one
 * only. */
static void *find(const char *name) {
    void *found = strncmp(name, "pthread_cond_", 13) ? 0 : dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    return found ? found : (void *)(unsigned long)&missing;
}

static __thread int resolving __attribute__((tls_model("initial-exec")));

/* Threads may race here before our constructor. ORDER relaxed: all store the same addresses, of code that was mapped
 * before this library. A malloc that dlsym calls comes back here: it finds what was resolved first. Return: whether
 * all is there. */
int probe_resolve(void) {
    if (resolving)
        return 0;
    resolving = 1;
#define PROBE_REAL_STORE(name, found) __atomic_store_n((void **)&probe_real_table.name, (found), __ATOMIC_RELAXED)
#define PROBE_REAL_NEXT(name, parameters) PROBE_REAL_STORE(name, dlsym(RTLD_NEXT, #name));
#define PROBE_REAL_FIND(name, parameters) PROBE_REAL_STORE(name, find(#name));
    PROBE_REAL_FIRST(PROBE_REAL_NEXT)
    PROBE_REAL_REST(PROBE_REAL_FIND)
    resolving = 0;
    return 1;
}
