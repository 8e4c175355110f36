/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with a probe of its own, which tests/usdt/program.c loads while it runs. */
#include "probe.h"

void plugin_work(long n);

PROBE_SEMAPHORE(plugin_loud_semaphore);

void plugin_work(long n) {
    for (long i = 0; i < n; i++) {
        PROBE(plugin, step, 0, LONG_A " " ULONG_B, i, 0L);
        if (plugin_loud_semaphore)
            PROBE(plugin, loud, plugin_loud_semaphore, LONG_A " " ULONG_B, i, 0L);
    }
}
