/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* <threads.h>: its types are the C library's pthread types under other names, and so are its functions here. */
#include "light.h"

#include <stdlib.h>
#include <threads.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t) &&
                   sizeof(thrd_t) == sizeof(pthread_t) && sizeof(tss_t) == sizeof(pthread_key_t) &&
                   sizeof(once_flag) == sizeof(pthread_once_t),
               "they are the same objects");

static int status(int error) {
    switch (error) {
    case 0:
        return thrd_success;
    case EBUSY:
        return thrd_busy;
    case ENOMEM:
        return thrd_nomem;
    case ETIMEDOUT:
        return thrd_timedout;
    }
    return thrd_error;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

struct start {
    thrd_start_t fn;
    void *arg;
};

static void *start_main(void *start) {
    struct start s = *(struct start *)start;
    free(start);
    return (void *)(intptr_t)s.fn(s.arg);
}

EXPORT int thrd_create(thrd_t *id, thrd_start_t fn, void *arg) {
    struct start *s = malloc(sizeof *s);
    if (s == NULL)
        return thrd_nomem;
    *s = (struct start){fn, arg};
    int r = pthread_create(id, NULL, start_main, s);
    if (r)
        free(s);
    return r == EAGAIN ? thrd_nomem : status(r);
}
EXPORT int thrd_join(thrd_t id, int *result) {
    void *value;
    int r = pthread_join(id, &value);
    if (r == 0 && result)
        *result = (int)(intptr_t)value;
    return status(r);
}
EXPORT int thrd_detach(thrd_t id) {
    return status(pthread_detach(id));
}
EXPORT void thrd_exit(int result) {
    pthread_exit((void *)(intptr_t)result);
}
EXPORT void thrd_yield(void) {
    sched_yield();
}
EXPORT int thrd_sleep(const struct timespec *t, struct timespec *left) {
    int r = clock_nanosleep(CLOCK_REALTIME, 0, t, left);
    return r == 0 ? 0 : r == EINTR ? -1 : -2;
}

/* ---- locks ------------------------------------------------------------------------------------------------------- */

EXPORT int mtx_init(mtx_t *mutex, int type) {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type & mtx_recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    return status(pthread_mutex_init((pthread_mutex_t *)mutex, &attr));
}
EXPORT void mtx_destroy(mtx_t *mutex) {
    pthread_mutex_destroy((pthread_mutex_t *)mutex);
}
EXPORT int mtx_lock(mtx_t *mutex) {
    return status(pthread_mutex_lock((pthread_mutex_t *)mutex));
}
EXPORT int mtx_trylock(mtx_t *mutex) {
    return status(pthread_mutex_trylock((pthread_mutex_t *)mutex));
}
EXPORT int mtx_timedlock(mtx_t *mutex, const struct timespec *until) {
    return status(pthread_mutex_timedlock((pthread_mutex_t *)mutex, until));
}
EXPORT int mtx_unlock(mtx_t *mutex) {
    return status(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

EXPORT int cnd_init(cnd_t *cond) {
    return status(pthread_cond_init((pthread_cond_t *)cond, NULL));
}
EXPORT void cnd_destroy(cnd_t *cond) {
    pthread_cond_destroy((pthread_cond_t *)cond);
}
EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex) {
    return status(pthread_cond_wait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex));
}
EXPORT int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until) {
    return status(pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, until));
}
EXPORT int cnd_signal(cnd_t *cond) {
    return status(pthread_cond_signal((pthread_cond_t *)cond));
}
EXPORT int cnd_broadcast(cnd_t *cond) {
    return status(pthread_cond_broadcast((pthread_cond_t *)cond));
}

/* ---- keys, once: tss_get and tss_set are the C library's --------------------------------------------------------- */

EXPORT int tss_create(tss_t *key, tss_dtor_t destroy) {
    return status(pthread_key_create(key, destroy));
}
EXPORT void tss_delete(tss_t key) {
    pthread_key_delete(key);
}
EXPORT void call_once(once_flag *flag, void (*fn)(void)) {
    pthread_once((pthread_once_t *)flag, fn);
}
