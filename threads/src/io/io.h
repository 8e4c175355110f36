/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for I/O: docs/design/io.md. io.c has the calls, io_wait.c the descriptors and epoll.
 */
#ifndef ITO_IO_INSIDE_H
#define ITO_IO_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include <poll.h>

struct worker;
struct ito__io_fd;
struct ito__io_wait;

/*
 * One descriptor that a thread waits for; on its stack. `fd` and `want` (EPOLL*, the same numbers as POLL*) are set by
 * the caller. After the wait `got` has the events that came: hints, as the descriptor may not be ready any more.
 *
 *   field        writer                                                    reader
 *   next, prev   holder of the bit of the descriptor's word                same
 *   at           same; null: on no list                                    same
 *   got          same, when it takes the node off the list                 the waiter, after it has taken the bit
 */
struct ito__io_node {
    int fd;
    uint32_t want, got;
    struct ito__io_node *next, *prev;
    struct ito__io_fd *at;
    struct ito__io_wait *wait;
};
#define ITO__IO_CLOSED 0x40000000u /* in `got`: the descriptor is closed, or its number used for another file */

/*
 * Sleep until one of the descriptors is ready or the deadline has passed.
 * Return: 0; ETIMEDOUT; EBADF; EINTR: a cancellation or a signal ended it (libito-pthread.so); EPERM: epoll does not take one of them (a regular file is always ready); ENOMEM and
 *         others of epoll_ctl(2): the caller has to wait in another way.
 * Thread: an ito thread.
 */
int ito__io_await(struct ito__io_node *nodes, unsigned n, uint64_t deadline_ns);
/* poll(2) by an ito thread. Deadline 0: without waiting; ITO_FOREVER: none. */
int ito__poll_until(struct pollfd *fds, nfds_t n_fds, uint64_t deadline_ns);
/* Around close(2): whoever waits for this descriptor gets ITO__IO_CLOSED, also who began to between the two calls. */
void ito__io_forget(int fd);
void ito__io_closed(int fd);

/* What is behind a number: a hint, as it may be closed unseen and used again. */
enum ito__io_kind { ITO__IO_UNKNOWN, ITO__IO_STREAM, ITO__IO_OTHER };
int ito__io_kind(int fd);
void ito__io_set_kind(int fd, int kind);

/* ---- for the core: struct ito__above of core/internal.h ---------------------------------------------------------- */

unsigned ito__io_poll(struct worker *w, bool now);
bool ito__io_is_due(void);
int ito__io_wait(struct worker *w, uint64_t wait_ns);
void ito__io_deliver(struct worker *w, int n_events);
void ito__io_interrupt(void);
bool ito__io_rescue(void);
bool ito__io_is_slept_on(void);
void ito__io_stop(void);

#endif
