/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is asked of a thread and set for it. The C library's own functions go to the kernel with the thread's id, which a
 * light thread does not have. */
#include "light.h"

#include <stdio.h>
#include <string.h>

static bool light(pthread_t id) {
    return light_of(id)->kind != LIGHT_NONE;
}
/* It has no kernel thread. The caller itself gets one, if it asks for something that needs it. */
static bool unpinned(pthread_t id) {
    return load_relaxed(&light_of(id)->kind) == LIGHT_THREAD;
}
/* Another is asked, and waited for a while: one that computes may not hear of it. */
static bool not_to_be_pinned(pthread_t id) {
    struct light *l = light_of(id);
    uint64_t deadline_ns = ito_now_ns() + 100000000;
    if (id == pthread_self())
        return unpinned(id) && !light_pin("class, CPUs or CPU time");
    for (unsigned turn = 0; unpinned(id) && !(load_relaxed(&l->word) & LIGHT_ENDED) && !light_ask(l); turn++)
        if (!light_pause(turn, deadline_ns))
            break;
    return unpinned(id);
}

EXPORT int pthread_getattr_np(pthread_t id, pthread_attr_t *attr) {
    const struct light *l = light_of(id);
    if (!light(id))
        return REAL(pthread_getattr_np)(id, attr);
    int r = pthread_attr_init(attr);
    if (r)
        return r;
    pthread_attr_setguardsize(attr, l->guard_bytes);
    if (load_relaxed(&l->word) & LIGHT_DETACHED)
        pthread_attr_setdetachstate(attr, PTHREAD_CREATE_DETACHED);
    cpu_set_t cpus;
    if (pthread_getaffinity_np(id, sizeof cpus, &cpus) == 0)
        pthread_attr_setaffinity_np(attr, sizeof cpus, &cpus);
    size_t bytes = (size_t)(l->stack_high - l->stack->low);
    if (l->stack_said && l->stack_said < bytes)
        bytes = l->stack_said;
    return pthread_attr_setstack(attr, l->stack_high - bytes, bytes);
}

EXPORT int pthread_setname_np(pthread_t id, const char *name) {
    struct light *l = light_of(id);
    if (!light(id))
        return REAL(pthread_setname_np)(id, name);
    size_t n = strlen(name);
    if (n >= sizeof l->name)
        return ERANGE;
    uint32_t s = ito__word_lock(&l->word);
    memcpy(l->name, name, n + 1);
    ito__word_unlock(&l->word, s);
    return 0;
}

EXPORT int pthread_getname_np(pthread_t id, char *name, size_t bytes) {
    struct light *l = light_of(id);
    if (!light(id))
        return REAL(pthread_getname_np)(id, name, bytes);
    uint32_t s = ito__word_lock(&l->word);
    size_t n = strlen(l->name);
    if (n < bytes)
        memcpy(name, l->name, n + 1);
    ito__word_unlock(&l->word, s);
    return n < bytes ? 0 : ERANGE;
}

/* Scheduling classes, CPUs and CPU time are a kernel thread's: whose are set is pinned. Where that cannot be, it is as
 * for a user without privileges. */
uint32_t light_classes_used;

EXPORT int pthread_setschedparam(pthread_t id, int policy, const struct sched_param *param) {
    if (policy != SCHED_OTHER)
        store_relaxed(&light_classes_used, 1);
    if (!unpinned(id) || (policy != SCHED_OTHER && !not_to_be_pinned(id)))
        return REAL(pthread_setschedparam)(id, policy, param);
    if (param->sched_priority < sched_get_priority_min(policy) ||
        param->sched_priority > sched_get_priority_max(policy))
        return EINVAL;
    return policy == SCHED_OTHER ? 0 : EPERM;
}

EXPORT int pthread_getschedparam(pthread_t id, int *policy, struct sched_param *param) {
    if (!unpinned(id))
        return REAL(pthread_getschedparam)(id, policy, param);
    *policy = SCHED_OTHER;
    param->sched_priority = 0;
    return 0;
}

EXPORT int pthread_setschedprio(pthread_t id, int priority) {
    if (!unpinned(id))
        return REAL(pthread_setschedprio)(id, priority);
    return priority == 0 ? 0 : EINVAL;
}

/* It runs wherever a worker does: what main may use. */
EXPORT int pthread_getaffinity_np(pthread_t id, size_t bytes, cpu_set_t *cpus) {
    if (!unpinned(id))
        return REAL(pthread_getaffinity_np)(id, bytes, cpus);
    int saved = errno, r = sched_getaffinity(getpid(), bytes, cpus) ? errno : 0;
    errno = saved;
    return r;
}

EXPORT int pthread_setaffinity_np(pthread_t id, size_t bytes, const cpu_set_t *cpus) {
    if (not_to_be_pinned(id))
        return EPERM;
    if (light(id))
        light_of(id)->own_cpus = true;
    return REAL(pthread_setaffinity_np)(id, bytes, cpus);
}

EXPORT int pthread_getcpuclockid(pthread_t id, clockid_t *clock) {
    return not_to_be_pinned(id) ? ENOENT : REAL(pthread_getcpuclockid)(id, clock);
}

EXPORT int sched_yield(void) {
    light_asked();
    if (light_here())
        ito_yield();
    else
        return REAL(sched_yield)();
    return 0;
}
