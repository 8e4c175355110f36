/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/group.h - many threads at once: groups, loops, reductions, futures. Included by ito.h; C11 and C++11. Return
 * values and deadlines are those of ito/sync.h.
 */
#ifndef ITO_GROUP_H
#define ITO_GROUP_H

#include "sync.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- task groups --------------------------------------------------------------------------------------------------- */

typedef struct ito_group {
    uint32_t state;   /* the queue bit alone; what follows is under it */
    uint32_t seen;    /* what a recorder knows of it */
    uint64_t running; /* threads not ended */
    struct ito__waiters waiters;
} ito_group;
#define ITO_GROUP_INIT                                                                                                 \
    {                                                                                                                  \
        0, 0, 0, {                                                                                                     \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

ITO_API int ito_group_init(ito_group *g);
ITO_API int ito_group_destroy(ito_group *g); /* EBUSY: threads run in it */

/**
 * ito_group_run - start a thread @fn(@arg) in @g. Threads of a group may start others in it.
 * Return:  0; ENOMEM, EAGAIN: as ito_create; @fn was not called.
 */
ITO_API int ito_group_run(ito_group *g, void (*fn)(void *arg), void *arg);

/**
 * ito_group_wait - return when every thread of @g has ended. Several threads may wait.
 * Return:  0. until: ETIMEDOUT, EAGAIN.
 * Order:   what the threads of the group did is seen after it.
 */
ITO_API int ito_group_wait(ito_group *g);
ITO_API int ito_group_wait_until(ito_group *g, uint64_t deadline_ns);

/* -- loops --------------------------------------------------------------------------------------------------------- */

/**
 * ito_for - call @body for pieces of [@begin, @end) that cover it once. Pieces run at the same time where workers are
 * free.
 * @grain:  at least that many indices per piece, if there are so many; 0: the library chooses. Pieces are larger
 *          where indices take little time, up to the whole range.
 * Return:  0 when all pieces have run.
 * Method:  a range is halved only while a worker is hungry (lazy binary splitting), and not if it will be over in some
 *          microseconds. Without memory for a thread the piece runs in the caller.
 */
ITO_API int ito_for(size_t begin, size_t end, size_t grain, void (*body)(size_t begin, size_t end, void *arg),
                    void *arg);

/*
 * A reduction: accumulators of `size` bytes (at most ITO_REDUCE_MAX). `start` makes an empty one, `body` adds a piece
 * to it, `join` adds the right one to the left one. `start` NULL: zero bytes.
 */
#define ITO_REDUCE_MAX 256
struct ito_reduction {
    size_t size;
    void (*start)(void *accumulator, void *arg);
    void (*body)(size_t begin, size_t end, void *accumulator, void *arg);
    void (*join)(void *left, const void *right, void *arg);
    void *arg;
};

/**
 * ito_reduce - like ito_for, with a sum (maximum, histogram...) left in @result.
 * @grain:  at most so many indices per piece; 0: 8 to 4,096 pieces, of 4,096 indices where there are so many. Where an
 *          index is worth a thread, 1.
 * Return:  0; EINVAL size 0 or above ITO_REDUCE_MAX.
 * Note:    pieces and the order of joins depend on the range and on @grain alone, so floating-point results are the
 *          same bits on any number of workers. Only whether two halves run at the same time is decided while it runs.
 */
ITO_API int ito_reduce(size_t begin, size_t end, size_t grain, const struct ito_reduction *how, void *result);

/* -- futures ------------------------------------------------------------------------------------------------------- */

typedef struct ito_future {
    uint32_t state;
    uint32_t seen; /* a recorder knows who has set it */
    void *value;
    struct ito__waiters waiters;
} ito_future;
#define ITO_FUTURE_INIT                                                                                                \
    {                                                                                                                  \
        0, 0, NULL, {                                                                                                  \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

ITO_API int ito_future_init(ito_future *f);
ITO_API int ito_future_destroy(ito_future *f); /* EBUSY: waited for */

/**
 * ito_future_set - set the value, for the threads that wait now and for later callers.
 * Return:  0; EALREADY it has a value: unchanged.
 */
ITO_API int ito_future_set(ito_future *f, void *value);

/**
 * ito_future_get - wait for the value, store it in @value (may be NULL).
 * Return:  0. try: EBUSY there is none yet. until: ETIMEDOUT, EAGAIN.
 */
ITO_API int ito_future_get(ito_future *f, void **value);
ITO_API int ito_future_try_get(ito_future *f, void **value);
ITO_API int ito_future_get_until(ito_future *f, void **value, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif
#endif
