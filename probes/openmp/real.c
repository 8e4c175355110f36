/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds the runtime's functions behind the interposed ones. */
#include "openmp.h"

#include <dlfcn.h>

struct openmp_real openmp_real;
int openmp_is_gomp = 0, openmp_has_gomp_locks = 0;

/* The next function of that name, in the order in which the program finds it; or, for a program that loads its runtime
 * by dlopen without making its names known, that of a library which is loaded. omp_*lock of libgomp have two versions,
 * and before glibc 2.36 plain dlsym(RTLD_NEXT) gives the older one, whose locks have another size. */
static void *find(const char *name, void *const handles[2]) {
    void *found = dlvsym(RTLD_NEXT, name, "OMP_3.0");
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    for (int i = 0; i < 2 && !found; i++) {
        found = handles[i] ? dlvsym(handles[i], name, "OMP_3.0") : 0;
        if (!found && handles[i])
            found = dlsym(handles[i], name);
    }
    return found;
}

/* Whether the function is part of libgomp. libomp has functions of the same names, and may be installed under libgomp's
 * name: it is told by a function of its own. */
static int is_gomp(void *function) {
    Dl_info info;
    void *module;
    int is_kmp;
    if (!function || !dladdr(function, &info) || !info.dli_fname ||
        !(module = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)))
        return 0;
    is_kmp = dlsym(module, "__kmpc_fork_call") != 0;
    dlclose(module);
    return !is_kmp;
}

/* Threads may race here: all store the same addresses. ORDER relaxed: of code that was mapped before. */
void openmp_resolve(void) {
    void *handles[2] = {dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD),
                        dlopen("libomp.so.5", RTLD_LAZY | RTLD_NOLOAD)};
#define OPENMP_STORE(result, name, parameters)                                                                         \
    if (!openmp_real.name)                                                                                             \
        __atomic_store_n((void **)&openmp_real.name, find(#name, handles), __ATOMIC_RELAXED);
    GOMP_NAMES(OPENMP_STORE)
    OMP_LOCK_NAMES(OPENMP_STORE)
    KMP_NAMES(OPENMP_STORE)
    openmp_is_gomp = is_gomp((void *)(uintptr_t)openmp_real.GOMP_parallel);
    openmp_has_gomp_locks = is_gomp((void *)(uintptr_t)openmp_real.omp_set_lock);
    for (int i = 0; i < 2; i++)
        if (handles[i])
            dlclose(handles[i]);
}
