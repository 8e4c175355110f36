/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/stop.h - asking threads to stop. Nothing is torn down from outside: a thread looks, or waits for the request
 * together with what else it waits for. Included by ito.h; C11 and C++11.
 */
#ifndef ITO_STOP_H
#define ITO_STOP_H

#include "channel.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * field     rule
 * done      a channel without items, which is closed by the request: a case of ito_select that is done from then on
 * word      the queue bit, and whether the functions are being called; what follows is under it
 * caller    the thread that calls them
 * current   the one that is being called; null: none
 * first     those that wait for the request
 * waiters   threads in ito_stop_off
 */
typedef struct ito_stop {
    ito_channel done;
    uint32_t word;
    uint32_t reserved;
    uintptr_t caller;
    struct ito_stop_call *current, *first;
    struct ito__waiters waiters;
} ito_stop;
#define ITO_STOP_INIT                                                                                                  \
    {                                                                                                                  \
        ITO_CHANNEL_INIT(NULL, 0, 0), 0, 0, 0, NULL, NULL, {                                                           \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

ITO_API int ito_stop_init(ito_stop *s);
ITO_API int ito_stop_destroy(ito_stop *s); /* EBUSY: waited for, or functions are left */

/**
 * ito_stop_request - ask all that look at @s to stop: wakes those that wait, and calls the functions of ito_stop_on, in
 * the calling thread, the last one first.
 * Return:  0; EALREADY it was requested before: nothing is called.
 * Note:    @s must be there until this has returned, also if a thread that it wakes is done with @s before.
 */
ITO_API int ito_stop_request(ito_stop *s);
ITO_API int ito_stop_requested(const ito_stop *s); /* 0 or 1 */

/**
 * ito_stop_wait_until - wait for the request.
 * Return:  0 it was requested; ETIMEDOUT, EAGAIN.
 * Note:    to sleep until either: the deadline is the sleep. To wait for a channel as well: ito_select with a case
 *          ITO_RECEIVE_FROM(&s->done, NULL), whose result is EPIPE.
 */
ITO_API int ito_stop_wait_until(ito_stop *s, uint64_t deadline_ns);

/* In the program's memory, from ito_stop_on to ito_stop_off. */
typedef struct ito_stop_call {
    void (*fn)(void *arg);
    void *arg;
    struct ito_stop_call *next, **link;
} ito_stop_call;

/**
 * ito_stop_on - call @fn(@arg) at the request; at once, here, if it was requested before.
 * Return:  0; EALREADY it was called here.
 */
ITO_API int ito_stop_on(ito_stop *s, ito_stop_call *call, void (*fn)(void *arg), void *arg);

/**
 * ito_stop_off - @call is not called any more, and not running any more, but where its own function calls this.
 * Return:  0 it was not called; EALREADY it was.
 */
ITO_API int ito_stop_off(ito_stop *s, ito_stop_call *call);

#ifdef __cplusplus
}
#endif
#endif
