/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that is annotated with ITT and NVTX: each loads the library that its variable names. Without one the program runs the
 * same. Prints how many of the two found a library. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>

static void *library_of(const char *variable) {
    const char *path = getenv(variable);
    return path ? dlopen(path, RTLD_LAZY) : 0;
}

int main(void) {
    struct id none = {0, 0, 0};
    int found = attach_itt(library_of("INTEL_LIBITTNOTIFY64"));
    found += attach_nvtx(library_of("NVTX_INJECTION64_PATH"));
    void *domain = domain_create ? domain_create("program") : 0;
    void *name = string_handle_create ? string_handle_create("itt task") : 0;
    for (int i = 0; i < 20; i++) {
        if (task_begin)
            task_begin(domain, none, none, name);
        if (mark && i % 2)
            mark("nvtx mark");
        if (task_end)
            task_end(domain);
    }
    printf("%d\n", found);
    return 0;
}
