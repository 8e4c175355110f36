/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds the runtime's functions behind the interposed ones: those that the program finds next. A program may load its runtime by
 * dlopen without making its names known, also several copies of it: packages bring libgomp under names of their own. Then
 * each caller's are those of its module, as they would be without this library.
 */
#include "openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Modules in which a runtime is looked for. */
#define N_MODULES 1024

struct openmp_real openmp_real;
/* What stands in front of them. */
static const struct openmp_real openmp_own = {
#define OPENMP_OWN(result, name, parameters) .name = name,
    GOMP_NAMES(OPENMP_OWN) OMP_LOCK_NAMES(OPENMP_OWN) KMP_NAMES(OPENMP_OWN)
#undef OPENMP_OWN
};
int openmp_is_gomp = 0, openmp_has_gomp_locks = 0;

/* The function of that name: the next one in the order in which the program finds it, or that of a module and what it needs. omp_*lock
 * of libgomp have two versions, and before glibc 2.36 plain dlsym(RTLD_NEXT) gives the older one, whose locks have another size. */
static void *find(void *module, const char *name) {
    void *found = dlvsym(module, name, "OMP_3.0");
    return found ? found : dlsym(module, name);
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
/* A module that has, or needs, a runtime; libgomp if there is one. Null: none is loaded. */
static void *find_runtime(void) {
    struct modules *all = calloc(1, sizeof *all);
    void *found = 0;
    int is_found_gomp = 0;
    if (!all)
        return 0;
    dl_iterate_phdr(add_module, all);
    for (uint32_t i = 0; i < all->n; i++) {
        void *module = is_found_gomp ? 0 : dlopen(all->names[i], RTLD_LAZY | RTLD_NOLOAD);
        void *function = module ? dlsym(module, "GOMP_parallel") : 0, *other = module;
        int is_runtime = function && function != (void *)(uintptr_t)GOMP_parallel;
        if (is_runtime && (!found || is_gomp(function))) {
            is_found_gomp = is_gomp(function);
            other = found;
            found = module;
        }
        if (other)
            dlclose(other);
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

/* Fills what is missing. ORDER relaxed: of code that was mapped before. */
static void fill(struct openmp_real *real, void *module) {
    void *found;
#define OPENMP_STORE(result, name, parameters)                                                                         \
    if (!real->name && (found = find(module, #name)) != (void *)(uintptr_t)openmp_own.name)                            \
        __atomic_store_n((void **)&real->name, found, __ATOMIC_RELAXED);
#define OPENMP_ASKED(result, name, parameters)                                                                         \
    if (!real->name)                                                                                                   \
        __atomic_store_n((void **)&real->name, find(module, #name), __ATOMIC_RELAXED);
    GOMP_NAMES(OPENMP_STORE)
    OMP_LOCK_NAMES(OPENMP_STORE)
    KMP_NAMES(OPENMP_STORE)
    OMP_ASK_NAMES(OPENMP_ASKED)
    keep((void *)(uintptr_t)real->GOMP_parallel);
    keep((void *)(uintptr_t)real->omp_set_lock);
    keep((void *)(uintptr_t)real->__kmpc_dispatch_init_4);
}
static void tell(const struct openmp_real *real) {
    /* ORDER relaxed, both: written once, or by threads that find the same. */
    if (is_gomp((void *)(uintptr_t)real->GOMP_parallel))
        __atomic_store_n(&openmp_is_gomp, 1, __ATOMIC_RELAXED);
    if (is_gomp((void *)(uintptr_t)real->omp_set_lock))
        __atomic_store_n(&openmp_has_gomp_locks, 1, __ATOMIC_RELAXED);
}

/* Threads may race here: all store the same. */
void openmp_resolve(void) {
    fill(&openmp_real, RTLD_NEXT);
    if (openmp_real.GOMP_parallel) {
        tell(&openmp_real);
    } else {
        struct openmp_real local = {0};
        void *module = find_runtime();
        if (!module)
            return;
        fill(&local, module);
        tell(&local);
        dlclose(module);
    }
}

/* -- runtimes whose names the program does not know: each module has its own -- */

/* Copies of a runtime; a slot is filled once. The first stands for all where there are more. */
#define N_COPIES 16
static struct openmp_real *copies[N_COPIES];
/* Copy of a caller: its address << 8 | 1 + number; a slot has the last one. */
#define N_CALLERS 4096u /* power of two */
static uint64_t callers[N_CALLERS];

/* The runtime of the module that the address is in, or one that is loaded. */
static uint32_t copy_of(uintptr_t caller) {
    struct openmp_real *own = calloc(1, sizeof *own), *there = 0;
    void *module = 0;
    Dl_info info;
    uint32_t at = 0;
    if (!own)
        return 0;
    if (dladdr((const void *)caller, &info) && info.dli_fname)
        module = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (module) {
        fill(own, module);
        dlclose(module);
    }
    if (!own->GOMP_parallel && !own->__kmpc_dispatch_init_4 && (module = find_runtime()) != 0) {
        fill(own, module);
        dlclose(module);
    }
    tell(own);
    for (; at < N_COPIES; at++) {
        /* ORDER acq_rel, acquire; pair with each other and with the acquire in openmp_of(). Publish the functions. */
        if (__atomic_compare_exchange_n(&copies[at], &there, own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return at;
        if (!memcmp(there, own, sizeof *own))
            break;
        there = 0;
    }
    free(own);
    return at % N_COPIES;
}
const struct openmp_real *openmp_of(uintptr_t caller) {
    uint64_t *slot = &callers[(caller * 0x9e3779b97f4a7c15u >> 40) % N_CALLERS];
    /* ORDER acquire; pairs with the release below. Publishes the slot of `copies`. */
    uint64_t known = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    const struct openmp_real *copy;
    if (KASURI__UNLIKELY(known >> 8 != (uint64_t)caller)) {
        known = (uint64_t)caller << 8 | (copy_of(caller) + 1);
        __atomic_store_n(slot, known, __ATOMIC_RELEASE);
    }
    /* ORDER acquire; pairs with the release of the slot in copy_of(). */
    copy = __atomic_load_n(&copies[(known & 0xff) - 1], __ATOMIC_ACQUIRE);
    return copy ? copy : &openmp_real; /* no memory */
}
