/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals of light threads. The workers block all: a handler must not run in the middle of ito, on the stack of whatever
 * thread is there. So the kernel gives the process's signals to main and the program's other kernel threads.
 *
 * A light thread's mask is what it last said, and what its creator had; it is told so, and kernel threads that it
 * creates have it. What it unblocks and every kernel thread blocks is not delivered: docs/design/pthread.md.
 */
#include "light.h"

#include <unistd.h>

static int mask(int how, const sigset_t *set, sigset_t *old) {
    sigset_t *now = &light_self.mask, was = *now;
    if (set && how == SIG_BLOCK)
        sigorset(now, &was, set);
    else if (set && how == SIG_SETMASK)
        *now = *set;
    else if (set && how == SIG_UNBLOCK)
        for (int s = 1; s < NSIG; s++)
            sigismember(set, s) == 1 ? sigdelset(now, s) : 0;
    else if (set)
        return EINVAL;
    if (old)
        *old = was;
    return 0;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    if (!light_here())
        return REAL(pthread_sigmask)(how, set, old);
    return mask(how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    if (!light_here())
        return REAL(sigprocmask)(how, set, old);
    int r = mask(how, set, old);
    if (r)
        errno = r;
    return r ? -1 : 0;
}

/* Of a light thread: to the process, whose kernel threads take it. 0 asks whether the thread is there. */
EXPORT int pthread_kill(pthread_t id, int signal) {
    struct light *l = light_of(id);
    if (l->kind != LIGHT_THREAD)
        return REAL(pthread_kill)(id, signal);
    if (signal < 0 || signal >= NSIG)
        return EINVAL;
    if (signal == 0 || load_relaxed(&l->word) & LIGHT_ENDED)
        return 0;
    return kill(getpid(), signal) ? errno : 0;
}
