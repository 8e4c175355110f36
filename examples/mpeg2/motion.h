/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef MOTION_H
#define MOTION_H

#include "macroblock.h"

enum { SEARCH_REACH = 15 }; /* pixels to each side */

/**
 * motion_search - set @mb's `intra` and `move` for the macroblock at @column, @row.
 * @left: the vector found to the left of it, a first guess.
 */
void motion_search(struct macroblock *mb, const struct frame *source, const struct frame *before, int column, int row,
                   struct vector left);

#endif /* MOTION_H */
