/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Light mode's counters, without a recorder: the files of the probe are linked into this program. */
#include "probe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t mutex_type(const void *lock) {
    (void)lock;
    return KASURI_LOCK_MUTEX;
}

/* One hold of a lock that is free, by the way that does not count ahead. Return: whether it was recorded. */
static int hold(const void *lock) {
    probe_taken_slowly(lock, mutex_type, 0, 0);
    return probe_ends_recorded(probe_self, lock);
}

/* A signal handler that locks may bring a counter to 0 (probe_count_ahead). The next hold is then due; counting on from
 * 0 would wrap, and the thread would record no hold of that lock for 2^32 acquisitions. */
static int counter_at_zero_is_due(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const struct probe_entry *e = probe_entry_of(probe_self, &mutex);
    int recorded = 0;
    if (!hold(&mutex) || e->object != (uintptr_t)&mutex)
        return 0;
    probe_entry_of(probe_self, &mutex)->until = 0;
    if (!hold(&mutex) || e->until == 0 || e->until > 3 * PROBE_INTERVAL / 2)
        return 0;
    for (int i = 0; i < 1000; i++)
        recorded += hold(&mutex);
    /* The intervals double to 64 on average: about 1000 / 64, and those of the beginning. */
    return recorded >= 10 && recorded <= 40;
}

int main(void) {
    int ok;
    setenv("KASURI_LOCKS", "light", 1);
    (void)probe_wake();
    if (!probe_adopt()) {
        printf("skipped: no memory that fork wipes (Linux 4.14)\n");
        return getenv("CI") != 0;
    }
    ok = counter_at_zero_is_due();
    printf("counter_at_zero_is_due: %s\n", ok ? "ok" : "FAILED");
    return !ok;
}
