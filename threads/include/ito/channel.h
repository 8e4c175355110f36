/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/channel.h - channels: items from some threads to others, and waiting for several channels at once. Included by
 * ito.h; C11 and C++11. Return values and deadlines are those of ito/sync.h. How it works: docs/design/channel.md.
 */
#ifndef ITO_CHANNEL_H
#define ITO_CHANNEL_H

#include "sync.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ito_select_case;
struct ito__case_list {
    struct ito_select_case *head, *tail;
};

/*
 * A channel. Without a buffer (room 0) it is a rendezvous: a send ends when a receiver has the item.
 *
 * field       writer                     rule
 * word        holder of its queue bit    the queue bit, and whether it is closed; the rest is under the bit
 * room        init                       items that the buffer holds
 * item_bytes  init
 * n, first    holder of the bit          items in the buffer, and which is the oldest
 * buffer      init                       [room][item_bytes]
 * move        init                       null: memcpy
 * senders     holder of the bit          threads that wait; at most one of the two has any, but for a select of both
 * receivers   same
 */
typedef struct ito_channel {
    uint32_t word;
    uint32_t room;
    size_t item_bytes;
    uint32_t n, first;
    void *buffer;
    void (*move)(void *to, void *from);
    struct ito__case_list senders, receivers;
} ito_channel;

/* @buffer: room for @room items of @item_bytes each, alive as long as the channel; null where @room is 0. */
#define ITO_CHANNEL_INIT(buffer, item_bytes, room)                                                                     \
    {                                                                                                                  \
        0, (room), (item_bytes), 0, 0, (buffer), NULL, {NULL, NULL}, {                                                 \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

/**
 * ito_channel_init - as ITO_CHANNEL_INIT.
 * Return:  0; EINVAL a room without a buffer, or above 2^31.
 */
ITO_API int ito_channel_init(ito_channel *c, void *buffer, size_t item_bytes, uint32_t room);
ITO_API int ito_channel_destroy(ito_channel *c); /* EBUSY: a thread waits; items that are left are forgotten */

/**
 * ito_channel_send - give a copy of *@item to a receiver or to the buffer; wait until there is room.
 * Return:  0; EPIPE the channel is closed: the item was not taken. try: EBUSY. until: ETIMEDOUT, EAGAIN.
 * Order:   what was done before it is seen by the thread that receives the item. Items of one sender arrive in order.
 * Thread:  any. Blocks: the thread, not its worker. Allocates: never. Cost: bench/ito, channel.
 */
ITO_API int ito_channel_send(ito_channel *c, const void *item);
ITO_API int ito_channel_try_send(ito_channel *c, const void *item);
ITO_API int ito_channel_send_until(ito_channel *c, const void *item, uint64_t deadline_ns);

/**
 * ito_channel_receive - take the oldest item into *@item; wait until there is one.
 * Return:  0; EPIPE the channel is closed and empty: *@item is as it was. try: EBUSY. until: ETIMEDOUT, EAGAIN.
 * Note:    threads that wait are served in the order in which they came.
 */
ITO_API int ito_channel_receive(ito_channel *c, void *item);
ITO_API int ito_channel_try_receive(ito_channel *c, void *item);
ITO_API int ito_channel_receive_until(ito_channel *c, void *item, uint64_t deadline_ns);

/**
 * ito_channel_close - nothing is sent any more; receivers get what is left, then EPIPE, at once.
 * Return:  0; EALREADY it is closed.
 * Note:    threads that wait to send get EPIPE; unlike in Go, no side of a closed channel is a mistake.
 */
ITO_API int ito_channel_close(ito_channel *c);
ITO_API int ito_channel_is_closed(const ito_channel *c); /* 0 or 1, at this moment */
ITO_API uint32_t ito_channel_count(ito_channel *c);      /* items in the buffer, at this moment */

/* -- several at once ----------------------------------------------------------------------------------------------- */

enum ito_select_op { ITO_SELECT_RECEIVE = 0, ITO_SELECT_SEND = 1 };

/*
 * One of the things that an ito_select waits for. The program writes the first three; the rest is the library's, until
 * the call returns.
 *
 *   channel   null: this case is left out
 *   item      what is sent, or where the item goes
 *   op        enum ito_select_op
 */
typedef struct ito_select_case {
    ito_channel *channel;
    void *item;
    uint32_t op;
    int result;
    struct ito__select *select;
    struct ito_select_case *next, *prev; /* in a list of the channel, under its queue bit */
    struct ito_select_case *in_order;    /* the case with the next channel, by address */
    int queued;                          /* it is in a list; under the queue bit */
} ito_select_case;
#define ITO_RECEIVE_FROM(channel, item)                                                                                \
    { (channel), (item), ITO_SELECT_RECEIVE, 0, NULL, NULL, NULL, NULL, 0 }
#define ITO_SEND_TO(channel, item)                                                                                     \
    { (channel), (item), ITO_SELECT_SEND, 0, NULL, NULL, NULL, NULL, 0 }

/**
 * ito_select - do one of @n things, whichever can be done first: of several that can, any, in turn.
 * @which:  index of the one that was done.
 * Return:  0; EPIPE that channel is closed (*@which is set); ETIMEDOUT none could be done in time: a deadline of 0 only
 *          looks; EAGAIN as all timed calls; EINVAL no channel in any case, and no deadline.
 * Note:    exactly one is done, or none. A stop (ito/stop.h) and other timeouts are channels too.
 */
ITO_API int ito_select(ito_select_case *cases, size_t n, size_t *which, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif
#endif
