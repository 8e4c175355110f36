/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The full/empty lock: a mutex, and a condition for each of its two states. A recorder sees those. */
#include "core/wait.h"

static bool is_status(int status) {
    return status == ITO_EMPTY || status == ITO_FULL;
}

int ito_felock_lock(ito_felock *l) {
    return ito_mutex_lock(&l->mutex);
}
int ito_felock_unlock(ito_felock *l) {
    return ito_mutex_unlock(&l->mutex);
}

int ito_felock_wait_and_lock_until(ito_felock *l, int status, uint64_t deadline_ns) {
    if (!is_status(status))
        return EINVAL;
    int r = ito_mutex_lock_until(&l->mutex, deadline_ns);
    if (r)
        return r;
    while (l->status != (uint32_t)status) {
        r = ito_cond_wait_until(&l->turned[status], &l->mutex, deadline_ns);
        if (r && l->status != (uint32_t)status) {
            ito_mutex_unlock(&l->mutex);
            return r;
        }
    }
    return 0;
}
int ito_felock_wait_and_lock(ito_felock *l, int status) {
    return ito_felock_wait_and_lock_until(l, status, ITO_FOREVER);
}

/* One thread is enough: the lock is handed to it with the status that it waits for, and it marks the next. One that came
 * by itself and found the status right marks the next, too. */
int ito_felock_mark_and_unlock(ito_felock *l, int status) {
    if (!is_status(status))
        return EINVAL;
    int r = ito__mutex_check_held(&l->mutex);
    if (r)
        return r;
    l->status = (uint32_t)status;
    ito_cond_signal(&l->turned[status]);
    return ito_mutex_unlock(&l->mutex);
}

int ito_felock_status(ito_felock *l) {
    return (int)l->status;
}

int ito_felock_init(ito_felock *l) {
    *l = (ito_felock)ITO_FELOCK_INIT;
    return 0;
}

int ito_felock_destroy(ito_felock *l) {
    int r = ito_mutex_destroy(&l->mutex);
    if (!r)
        r = ito_cond_destroy(&l->turned[0]);
    return r ? r : ito_cond_destroy(&l->turned[1]);
}
