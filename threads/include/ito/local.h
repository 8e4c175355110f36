/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito/local.h - a value for each worker: counters and buffers that threads share without a lock, as those of one worker
 * run in turn. Included by ito.h; C11 and C++11. For a value of each *thread*: ito_key_create (ito/sync.h).
 */
#ifndef ITO_LOCAL_H
#define ITO_LOCAL_H

#include "sync.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ito_local ito_local;

/**
 * ito_local_create - @bytes for each worker, in cache lines of their own.
 * @start:  called here for each of them; null: zero bytes.
 * Return:  0; ENOMEM; EPERM ito_init was not called; EINVAL bytes 0.
 * Note:    it belongs to this ito_init: destroy it before ito_fini.
 */
ITO_API int ito_local_create(ito_local **out, size_t bytes, void (*start)(void *value, void *arg), void *arg);
ITO_API void ito_local_destroy(ito_local *l);

/**
 * ito_local_here - the value of the caller's worker; null off the workers.
 * Note:    the caller's until it may switch (create, fork, lock, wait, yield): after that it may be on another worker,
 *          and another thread at this value.
 */
ITO_API void *ito_local_here(ito_local *l);

/* The value of a worker, to add them up when no thread uses them; null from ito_n_workers() on. */
ITO_API void *ito_local_at(ito_local *l, unsigned worker);

#ifdef __cplusplus
}
#endif
#endif
