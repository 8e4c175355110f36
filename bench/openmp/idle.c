/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A tool of OMPT that does nothing: CALLBACKS of the callbacks that probes/openmp/ompt.c asks for, each empty. */
#include <stdlib.h>

typedef void any(void);
typedef any *lookup(const char *name);
struct tool {
    int (*initialize)(lookup *lookup, int device, void *data);
    void (*finalize)(void *data);
    unsigned long data;
};

static void nothing(void) {}

static int initialize(lookup *look, int device, void *data) {
    static const int events[] = {3, 4, 7, 16, 20, 5, 6, 24, 26, 27, 17, 28, 18};
    int (*set)(int event, any *callback) = (int (*)(int, any *))look("ompt_set_callback");
    const char *n = getenv("CALLBACKS");
    (void)device, (void)data;
    for (int i = 0; n && i < atoi(n) && i < (int)(sizeof events / sizeof *events); i++)
        set(events[i], nothing);
    return 1;
}
static void finalize(void *data) {
    (void)data;
}

struct tool *ompt_start_tool(unsigned version, const char *runtime) {
    static struct tool own = {initialize, finalize, 0};
    (void)version, (void)runtime;
    return &own;
}
