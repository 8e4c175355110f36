/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Many threads in one call. */
#include "core/internal.h"

int ito_create_many(ito_thread **out, size_t n, const ito_attr *attr, void *(*fn)(void *), void *args,
                    size_t arg_bytes) {
    int r = attr && attr->struct_size == sizeof *attr && attr->stack ? EINVAL : 0;
    /* Null first: a thread that runs may look at those that come after it. */
    for (size_t i = 0; out && i < n; i++)
        out[i] = NULL;
    for (size_t i = 0; i < n && r == 0; i++)
        r = ito_create(out ? &out[i] : NULL, attr, fn, (char *)args + i * arg_bytes);
    return r;
}

int ito_join_many(ito_thread *const *threads, size_t n, void **results) {
    int first = 0;
    for (size_t i = 0; i < n; i++) {
        int r = threads[i] ? ito_join(threads[i], results ? &results[i] : NULL) : 0;
        first = first ? first : r;
    }
    return first;
}
