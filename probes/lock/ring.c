/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The annotation client of this module: its gate, its rings, its slow path. */
#define PROBE_RING
#include "probe.h"
