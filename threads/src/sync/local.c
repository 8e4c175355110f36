/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Values of workers: an array, the value of each worker in lines of its own. */
#include "core/internal.h"

#include <ito/local.h>

#include <stdlib.h>
#include <string.h>

/* Two lines, as processors fetch the neighbour of a line along with it. */
#define APART (2 * ITO__LINE)

struct ito_local {
    size_t stride;
    unsigned n;
    char *values; /* [n][stride] */
};

int ito_local_create(ito_local **out, size_t bytes, void (*start)(void *, void *), void *arg) {
    unsigned n = ito_n_workers();
    if (n == 0)
        return EPERM;
    if (bytes == 0)
        return EINVAL;
    if (bytes > SIZE_MAX / n - APART)
        return ENOMEM;
    size_t stride = (bytes + APART - 1) / APART * APART;
    ito_local *l = malloc(sizeof *l);
    char *values = l ? aligned_alloc(APART, n * stride) : NULL;
    if (!values) {
        free(l);
        return ENOMEM;
    }
    *l = (ito_local){stride, n, values};
    for (unsigned i = 0; i < n; i++) {
        memset(values + i * stride, 0, stride);
        if (start)
            start(values + i * stride, arg);
    }
    *out = l;
    return 0;
}

void ito_local_destroy(ito_local *l) {
    if (l)
        free(l->values);
    free(l);
}

void *ito_local_here(ito_local *l) {
    return ito_local_at(l, ito_worker_index());
}

void *ito_local_at(ito_local *l, unsigned worker) {
    return worker < l->n ? l->values + worker * l->stride : NULL;
}
