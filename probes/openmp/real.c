/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds the runtime's functions behind the interposed ones. */
#include "openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Modules in which a runtime is looked for that has none of the usual names. */
#define N_MODULES 1024

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

/* The names of all modules; a loader's lock is held while it is called, so nothing is opened here. */
struct modules {
    char *names[N_MODULES];
    uint32_t n;
};
static int add_module(struct dl_phdr_info *module, size_t size, void *to) {
    struct modules *all = to;
    (void)size;
    if (all->n < N_MODULES && module->dlpi_name && *module->dlpi_name &&
        (all->names[all->n] = strdup(module->dlpi_name)) != 0)
        all->n++;
    return 0;
}
/* A module that is, or needs, a runtime: packages bring copies of libgomp under names of their own, and load them without
 * making their functions known. Null: none is loaded. */
static void *find_runtime(void) {
    struct modules *all = calloc(1, sizeof *all);
    void *found = 0;
    if (!all)
        return 0;
    dl_iterate_phdr(add_module, all);
    for (uint32_t i = 0; i < all->n; i++) {
        void *module = found ? 0 : dlopen(all->names[i], RTLD_LAZY | RTLD_NOLOAD);
        void *function = module ? dlsym(module, "GOMP_parallel") : 0;
        if (function && function != (void *)(uintptr_t)GOMP_parallel)
            found = module;
        else if (module)
            dlclose(module);
        free(all->names[i]);
    }
    free(all);
    return found;
}

/* The module of a function stays loaded: a program may close its library and open it again, at another address. */
static void keep(void *function) {
    Dl_info info;
    void *module;
    if (function && dladdr(function, &info) && info.dli_fname &&
        (module = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) != 0)
        dlclose(module);
}

/* Threads may race here: all store the same addresses. ORDER relaxed: of code that was mapped before. */
void openmp_resolve(void) {
    void *handles[2] = {dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD),
                        dlopen("libomp.so.5", RTLD_LAZY | RTLD_NOLOAD)};
    if (!handles[0] && !find("GOMP_parallel", handles))
        handles[0] = find_runtime();
#define OPENMP_STORE(result, name, parameters)                                                                         \
    if (!openmp_real.name)                                                                                             \
        __atomic_store_n((void **)&openmp_real.name, find(#name, handles), __ATOMIC_RELAXED);
    GOMP_NAMES(OPENMP_STORE)
    OMP_LOCK_NAMES(OPENMP_STORE)
    OMP_ASK_NAMES(OPENMP_STORE)
    KMP_NAMES(OPENMP_STORE)
    keep((void *)(uintptr_t)openmp_real.GOMP_parallel);
    keep((void *)(uintptr_t)openmp_real.omp_set_lock);
    keep((void *)(uintptr_t)openmp_real.__kmpc_dispatch_init_4);
    openmp_is_gomp = is_gomp((void *)(uintptr_t)openmp_real.GOMP_parallel);
    openmp_has_gomp_locks = is_gomp((void *)(uintptr_t)openmp_real.omp_set_lock);
    for (int i = 0; i < 2; i++)
        if (handles[i])
            dlclose(handles[i]);
}
