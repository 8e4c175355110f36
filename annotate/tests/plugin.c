/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An annotated shared object: a second client in one process. */
#include "kasuri.h"

int plugin_run(int n);
int plugin_run(int n) {
    int i;
    for (i = 0; i < n; i++)
        KASURI_INSTANT("plugin");
    return kasuri_enabled() ? n : 0;
}
