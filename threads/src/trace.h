/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a recorder is told. Called on slow paths only: while one listens, ITO__ASK_TRACE keeps threads off the fast
 * ones. */
#ifndef ITO_TRACE_H
#define ITO_TRACE_H

#define ITO__TRACE_CREATE(thread, parent) ((void)0)
#define ITO__TRACE_START(thread) ((void)0)
#define ITO__TRACE_BLOCK(thread) ((void)0)
#define ITO__TRACE_RESUME(thread) ((void)0)
#define ITO__TRACE_STEAL(thread, victim) ((void)0)
#define ITO__TRACE_END(thread) ((void)0)

static inline void ito__trace_poll(void) {}

#endif
