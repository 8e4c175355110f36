/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs share: a pool whose worker i is thread i. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "explore.h"

#include "core/internal.h"
#include "core/wait.h"

extern struct worker *workers;

void pool_start(unsigned n_workers, bool membarrier);

#endif
