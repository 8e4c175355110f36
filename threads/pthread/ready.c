/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * poll, select, epoll_wait and their relatives: asked without waiting, else the light thread sleeps until ito's epoll says that one of
 * the descriptors is ready, and asks again. An epoll descriptor is readable when it has events.
 *
 * Those that have a signal mask for their time pin the caller if that is another than it has: then signals are meant to end them.
 */
#include "calls.h"

#include "io/io.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/time.h>

static bool is_time(const struct timespec *t) {
    return t == NULL || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

/* The mask is none, or the one that the thread has: there is nothing to change. Otherwise it is pinned. */
static bool mask_is_mine(const sigset_t *mask) {
    if (mask == NULL || memcmp(mask, &light_self.mask, sizeof(uint64_t)) == 0)
        return true;
    return !light_pin("a signal mask");
}

/* ---- poll -------------------------------------------------------------------------------------------------------- */

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout_ms) {
    if (!light_here())
        return REAL(poll)(fds, n, timeout_ms);
    struct timespec left;
    uint64_t deadline_ns = call_deadline_ms(timeout_ms);
    LIGHT_CALL(int, CALL_ENDS, ito__poll_until(fds, n, deadline_ns),
               REAL(ppoll)(fds, n, call_left(deadline_ns, &left), NULL));
}
EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask) {
    if (!light_here() || !is_time(t) || !mask_is_mine(mask))
        return REAL(ppoll)(fds, n, t, mask);
    struct timespec left;
    uint64_t deadline_ns = call_deadline(t);
    LIGHT_CALL(int, CALL_ENDS, ito__poll_until(fds, n, deadline_ns),
               REAL(ppoll)(fds, n, call_left(deadline_ns, &left), mask));
}
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room) {
    return n <= room / sizeof *fds ? poll(fds, n, timeout_ms) : REAL(__poll_chk)(fds, n, timeout_ms, room);
}
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t room);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t room) {
    return n <= room / sizeof *fds ? ppoll(fds, n, t, mask) : REAL(__ppoll_chk)(fds, n, t, mask, room);
}

/* ---- select ------------------------------------------------------------------------------------------------------ */

#define BITS (8 * sizeof(long))

/* The three sets, of n bits each, and what poll is asked in their place. */
struct selection {
    int n;
    long *sets[3], *copies[3];
    size_t bytes; /* of a set */
    struct pollfd *fds;
    nfds_t n_fds;
};

static const short wanted[3] = {POLLIN | POLLRDNORM | POLLRDBAND, POLLOUT | POLLWRNORM | POLLWRBAND, POLLPRI};

static short wants(const struct selection *s, int fd) {
    short want = 0;
    for (int i = 0; i < 3; i++)
        if (s->sets[i] && (unsigned long)s->sets[i][(size_t)fd / BITS] >> ((size_t)fd % BITS) & 1)
            want |= wanted[i];
    return want;
}

/* One block of memory holds the copies and the descriptors; null: none. */
static void *selection_make(struct selection *s) {
    nfds_t n_fds = 0;
    for (int fd = 0; fd < s->n; fd++)
        n_fds += wants(s, fd) != 0;
    char *memory = malloc(3 * s->bytes + n_fds * sizeof *s->fds + 1);
    if (memory == NULL)
        return NULL;
    for (int i = 0; i < 3; i++) {
        s->copies[i] = (long *)(void *)(memory + (size_t)i * s->bytes);
        if (s->sets[i])
            memcpy(s->copies[i], s->sets[i], s->bytes);
    }
    s->fds = (struct pollfd *)(void *)(memory + 3 * s->bytes);
    for (int fd = 0; fd < s->n; fd++) {
        short want = wants(s, fd);
        if (want)
            s->fds[s->n_fds++] = (struct pollfd){fd, want, 0};
    }
    return memory;
}

static int ask(const struct selection *s) {
    struct timeval none = {0, 0};
    return REAL(select)(s->n, (fd_set *)s->sets[0], (fd_set *)s->sets[1], (fd_set *)s->sets[2], &none);
}

static void put_back(const struct selection *s) {
    for (int i = 0; i < 3; i++)
        if (s->sets[i])
            memcpy(s->sets[i], s->copies[i], s->bytes);
}

static int select_until(struct selection *s, uint64_t deadline_ns) {
    void *memory = selection_make(s);
    if (memory == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int r;
    for (unsigned turn = 0; (r = ask(s)) == 0 && deadline_ns != 0; turn++) {
        put_back(s);
        if (turn > 0) /* poll tells of a hang-up that select does not */
            light_pause(15 + turn, deadline_ns);
        r = ito__poll_until(s->fds, s->n_fds, deadline_ns);
        if (r < 0)
            break; /* the sets are as they were */
        if (r == 0)
            deadline_ns = 0; /* the last time */
    }
    int error = errno;
    free(memory);
    errno = error;
    return r;
}

static int light_select(int n, fd_set *r, fd_set *w, fd_set *e, uint64_t deadline_ns) {
    struct selection s = {
        .n = n, .sets = {(long *)r, (long *)w, (long *)e}, .bytes = ((size_t)n + BITS - 1) / BITS * sizeof(long)};
    return select_until(&s, deadline_ns);
}

/* Linux says how much of the time was left. */
static void say_left(struct timeval *left, uint64_t deadline_ns) {
    uint64_t now = ito_now_ns(), ns = deadline_ns > now ? deadline_ns - now : 0;
    if (left)
        *left = (struct timeval){(time_t)(ns / 1000000000), (suseconds_t)(ns % 1000000000 / 1000)};
}

/* Beyond the C library's fd_set the kernel knows how many descriptors there may be; nothing here does. */
#define SELECT_MAX FD_SETSIZE

EXPORT int select(int n, fd_set *r_, fd_set *w_, fd_set *e_, struct timeval *left) {
    struct timespec t = {0, 0};
    if (left)
        t = (struct timespec){left->tv_sec + left->tv_usec / 1000000, left->tv_usec % 1000000 * 1000};
    if (!light_here() || n < 0 || n > SELECT_MAX || !is_time(&t))
        return REAL(select)(n, r_, w_, e_, left);
    int saved = errno, state = call_enter(CALL_ENDS);
    uint64_t deadline_ns = call_deadline(left ? &t : NULL);
    int r = light_select(n, r_, w_, e_, deadline_ns), error = errno;
    say_left(left, deadline_ns);
    if (call_leave(state, CALL_ENDS, r < 0 && error == EINTR))
        return REAL(select)(n, r_, w_, e_, left);
    errno = r < 0 ? error : saved;
    return r;
}

EXPORT int pselect(int n, fd_set *r_, fd_set *w_, fd_set *e_, const struct timespec *t, const sigset_t *mask) {
    if (!light_here() || n < 0 || n > SELECT_MAX || !is_time(t) || !mask_is_mine(mask))
        return REAL(pselect)(n, r_, w_, e_, t, mask);
    struct timespec left;
    uint64_t deadline_ns = call_deadline(t);
    LIGHT_CALL(int, CALL_ENDS, light_select(n, r_, w_, e_, deadline_ns),
               REAL(pselect)(n, r_, w_, e_, call_left(deadline_ns, &left), mask));
}

/* ---- epoll ------------------------------------------------------------------------------------------------------- */

static int epoll_until(int fd, struct epoll_event *events, int n, uint64_t deadline_ns) {
    struct pollfd p = {fd, POLLIN, 0};
    int r;
    while ((r = REAL(epoll_wait)(fd, events, n, 0)) == 0 && deadline_ns != 0) {
        r = ito__poll_until(&p, 1, deadline_ns);
        if (r < 0)
            return r;
        if (r == 0)
            deadline_ns = 0; /* the last time: an event may have come with the deadline */
    }
    return r;
}
/* As the C library's epoll_pwait, which counts in whole milliseconds: no wait is too short. */
static int epoll_again(int fd, struct epoll_event *events, int n, uint64_t deadline_ns, const sigset_t *mask) {
    struct timespec left;
    int ms = -1;
    if (call_left(deadline_ns, &left))
        ms = left.tv_sec > INT_MAX / 1000 - 1 ? INT_MAX
                                              : (int)left.tv_sec * 1000 + (int)((left.tv_nsec + 999999) / 1000000);
    return REAL(epoll_pwait)(fd, events, n, ms, mask);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int n, int ms) {
    if (!light_here())
        return REAL(epoll_wait)(fd, events, n, ms);
    uint64_t deadline_ns = call_deadline_ms(ms);
    LIGHT_CALL(int, CALL_ENDS, epoll_until(fd, events, n, deadline_ns), epoll_again(fd, events, n, deadline_ns, NULL));
}
EXPORT int epoll_pwait(int fd, struct epoll_event *events, int n, int ms, const sigset_t *mask) {
    if (!light_here() || !mask_is_mine(mask))
        return REAL(epoll_pwait)(fd, events, n, ms, mask);
    uint64_t deadline_ns = call_deadline_ms(ms);
    LIGHT_CALL(int, CALL_ENDS, epoll_until(fd, events, n, deadline_ns), epoll_again(fd, events, n, deadline_ns, mask));
}
int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *t,
                 const sigset_t *mask); /* glibc 2.35 */
EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *t, const sigset_t *mask) {
    if (!light_here() || !is_time(t) || !mask_is_mine(mask))
        return REAL(epoll_pwait2)(fd, events, n, t, mask);
    uint64_t deadline_ns = call_deadline(t);
    LIGHT_CALL(int, CALL_ENDS, epoll_until(fd, events, n, deadline_ns), epoll_again(fd, events, n, deadline_ns, mask));
}
