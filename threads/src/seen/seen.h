/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What tells people and recorders about ito: for init.c. */
#ifndef ITO_SEEN_H
#define ITO_SEEN_H

#include "base/trace.h"

extern const struct ito__listener ito__recorder;
/* All workers are parked: tells, once, if none can be woken any more. */
void ito__stall_look(void);
/* For ito.hpp: ito_fini returned an error in a destructor, which cannot return it. Tells of it, and aborts. */
void ito__fini_failed(int error);

#endif
