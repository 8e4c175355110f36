/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Numbers in the environment. */
#ifndef ITO_ENV_H
#define ITO_ENV_H

#include <stdbool.h>
#include <stddef.h>

struct ito__variable {
    const char *name;
    bool is_size; /* K, M, G, T may follow the number */
    size_t least, most;
};
/* Its number in *value, which stays as it is when the variable is not set. False: it is wrong, and that was told. */
bool ito__env(const struct ito__variable *v, size_t *value);

#endif
