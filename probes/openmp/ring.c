/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The annotation client of this module: its gate, its rings, its slow path. All other files of the library include
 * kasuri.h with KASURI_DECLARE_ONLY. */
#define PROBE_RING
#include "openmp.h"
