/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Puts the rooms together: the core is told of those that stand upon it. */
#include "core/internal.h"
#include "io/io.h"
#include "seen/seen.h"

static const struct ito__above above = {
    .promote = ito__promote,
    .io_poll = ito__io_poll,
    .io_is_due = ito__io_is_due,
    .io_wait = ito__io_wait,
    .io_deliver = ito__io_deliver,
    .io_interrupt = ito__io_interrupt,
    .io_rescue = ito__io_rescue,
    .io_is_slept_on = ito__io_is_slept_on,
    .io_stop = ito__io_stop,
    .all_parked = ito__stall_look,
};

int ito_init(const ito_config *config) {
    /* Once: kernel threads that are no workers may read both from the first ito_init on. */
    if (ito__above == NULL) {
        ito__above = &above;
#ifndef KASURI_DISABLE
        ito__listener = &ito__recorder;
#endif
    }
    return ito__start(config);
}
