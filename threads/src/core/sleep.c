/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sleeping: a wait that only a deadline ends. */
#include "core/wait.h"

/* A wait on an object of the caller's own, which no other thread can reach: only the timers can end it. A deadline that
 * has passed is a yield. */
int ito_sleep_until(uint64_t deadline_ns) {
    struct ito__waiter w;
    uint32_t word = ITO__QUEUE_BIT; /* an object of the caller's own, whose bit is taken */
    if (ito__passed(deadline_ns)) {
        ito_yield();
        return 0;
    }
    ito__waiter_init(&w);
    int r = ito__timers_start();
    if (r)
        return r;
    ito__wait(&w, &word, 0, deadline_ns, ITO__WAIT_SLEEP, NULL, NULL);
    return 0;
}

/* The sum saturates below ITO_FOREVER, which would mean no deadline. */
int ito_sleep_ns(uint64_t ns) {
    uint64_t now = ito_now_ns();
    return ito_sleep_until(ns > ITO_FOREVER - 1 - now ? ITO_FOREVER - 1 : now + ns);
}
