/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds the C library's functions behind the interposed ones and keeps them in probe_real_table; see real.h. */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct probe_real probe_real_table;

/* In place of a function that this C library does not have, as pthread_cond_clockwait before glibc 2.30. No program
 * that runs here can be linked to it, so it is called only by programs that look functions up at run time. */
static int missing(void) {
    return ENOSYS;
}

/* The next function of that name behind this library. glibc has two versions of pthread_cond_*, and before glibc 2.36
 * plain dlsym(RTLD_NEXT) gives the older one, for which pthread_cond_t is another struct. So ask for version
 * GLIBC_2.3.2 first; architectures that glibc supports only since a later version have one version only. */
static void *find(const char *name) {
    void *found = strncmp(name, "pthread_cond_", 13) ? 0 : dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    return found ? found : (void *)(unsigned long)&missing;
}

static __thread int resolving __attribute__((tls_model("initial-exec")));

/* Fill the table. Threads may race here before our constructor. ORDER relaxed: all store the same addresses, of code
 * that was mapped before this library. A malloc that dlsym calls may lock and come back here: `resolving` sends it
 * away, and it uses the functions that are already in the table. Return: whether the table is complete. */
int probe_resolve(void) {
    if (resolving)
        return 0;
    resolving = 1;
#define PROBE_REAL_STORE(name, found) __atomic_store_n((void **)&probe_real_table.name, (found), __ATOMIC_RELAXED)
#define PROBE_REAL_NEXT(name, parameters) PROBE_REAL_STORE(name, dlsym(RTLD_NEXT, #name));
#define PROBE_REAL_FIND(name, parameters) PROBE_REAL_STORE(name, find(#name));
    PROBE_REAL_FIRST(PROBE_REAL_NEXT)
    PROBE_REAL_REST(PROBE_REAL_FIND)
    PROBE_REAL_MORE(PROBE_REAL_FIND)
    resolving = 0;
    return 1;
}
