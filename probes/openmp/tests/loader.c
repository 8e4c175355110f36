/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* work.c as a library that is loaded while the program runs: its runtime's names are not the program's. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *library = dlopen(OPENMP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "openmp_main") : 0;
    if (!run)
        fprintf(stderr, "%s\n", dlerror());
    return run ? run(argc, argv) : 2;
}
