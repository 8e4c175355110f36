/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* work.c as a library that is loaded while the program runs, so its runtime's names are not the program's. It runs `alone`, is
 * closed, which unloads libgomp, and is loaded again for what is asked. With OPENMP_OTHER, what is asked first runs in another library,
 * which stays, with a copy of the runtime of its own. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
#ifdef OPENMP_OTHER
    void *other = dlopen(OPENMP_OTHER, RTLD_NOW | RTLD_LOCAL);
    int (*run_other)(int, char **) = other ? (int (*)(int, char **))dlsym(other, "openmp_main") : 0;
    if (!run_other || run_other(argc, argv) != 0)
        return 2;
#endif
    char first[] = "alone", *alone[] = {argv[0], first, 0};
    int status = 0;
    for (int i = 0; i < 2 && !status; i++) {
        void *library = dlopen(OPENMP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "openmp_main") : 0;
        if (!run) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        status = i ? run(argc, argv) : run(2, alone);
        /* Not after a team: libgomp's threads would lose their code. */
        if (!i)
            dlclose(library);
    }
    return status;
}
