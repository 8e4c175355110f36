/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Locks that guard a plain counter: the lock of a few instructions (spin.c, spin.h), mutex and condition (mutex.c,
 * cond.c, wait.h). What one owner of the lock did must be ordered before what the next one does. */
#include "programs.h"

static struct {
    struct ito__spin spin;
    ito_mutex mutex;
    ito_cond cond;
    unsigned counter;
} * shared;

static unsigned rounds; /* of all threads */

static void start(unsigned threads, unsigned turns) {
    rounds = turns;
    pool_start(threads, true);
    shared = explore_alloc(sizeof *shared);
    explore_region(&shared, sizeof shared);
    explore_constant(&shared);
    explore_constant(&shared->mutex.kind);
    EXPLORE_FIELD(shared->spin.word);
    EXPLORE_FIELD(shared->mutex.state);
    EXPLORE_FIELD(shared->mutex.waiters.head);
    EXPLORE_FIELD(shared->cond.word);
    EXPLORE_FIELD(shared->cond.waiters.head);
}

static const char *all_counted(void) {
    for (unsigned t = 0; t < ito__pool.n_workers; t++)
        if (!explore_is_done(t))
            return "a thread waits for ever";
    return shared->counter == rounds ? NULL : "a turn was lost";
}

static void spin_start(void) {
    start(2, 4);
}
static void spin_thread(unsigned t) {
    (void)t;
    for (int i = 0; i < 2; i++) {
        ito__spin_lock(&shared->spin);
        shared->counter++;
        ito__spin_unlock(&shared->spin);
    }
}

static void mutex_start(void) {
    start(2, 5);
}
/* Three turns and two: a waiter that is woken finds the mutex taken again, and is handed it the next time. */
static void mutex_thread(unsigned t) {
    for (unsigned i = t; i < 3; i++) {
        ito_mutex_lock(&shared->mutex);
        shared->counter++;
        ito_mutex_unlock(&shared->mutex);
    }
}

static void cond_start(void) {
    start(2, 1);
}
static void cond_thread(unsigned t) {
    ito_mutex_lock(&shared->mutex);
    if (t == 0) {
        while (shared->counter == 0)
            ito_cond_wait(&shared->cond, &shared->mutex);
    } else {
        shared->counter = 1;
        ito_cond_signal(&shared->cond);
    }
    ito_mutex_unlock(&shared->mutex);
}

const struct explore_program explore_programs[] = {
    {"spin", 2, spin_start, spin_thread, all_counted},
    {"mutex", 2, mutex_start, mutex_thread, all_counted},
    {"condition", 2, cond_start, cond_thread, all_counted},
    {0},
};
