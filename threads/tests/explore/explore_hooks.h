/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Between hooks.c, which the compiler's calls reach, and explore.c. */
#ifndef EXPLORE_HOOKS_H
#define EXPLORE_HOOKS_H

#include "explore.h"

enum explore_rmw { EXPLORE_EXCHANGE, EXPLORE_ADD, EXPLORE_SUB, EXPLORE_AND, EXPLORE_OR, EXPLORE_XOR };

void explore_plain(void *at, size_t bytes, bool writes);
uint64_t explore_load(void *at, size_t bytes, int order, const void *caller);
void explore_store(void *at, size_t bytes, uint64_t value, int order);
uint64_t explore_rmw(void *at, size_t bytes, enum explore_rmw rmw, uint64_t value, int order);
uint64_t explore_cas(void *at, size_t bytes, uint64_t expected, uint64_t value, int order, int order_failed);

void explore_switch(void **save, void *to);

#endif
