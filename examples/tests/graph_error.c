/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The error of a factorisation is not small when one number of it is wrong, or none. */
#include "../graph/tiles.h"

static int is_right(const struct kernel *kernel, double added) {
    struct graph g = {0};
    struct tiles *t = kernel->make(&g, 4, 8);
    kernel->fill(t);
    for (int task = 0; task < g.n_tasks; task++)
        g.run(t, task);
    *element_at(t, 20, 3) += added;
    double error = kernel->error(t);
    kernel->free(t);
    graph_free(&g);
    return error < 1e-10;
}

int main(void) {
    const struct kernel *kernels[] = {&cholesky_kernel, &lu_kernel};
    for (int i = 0; i < 2; i++)
        if (!is_right(kernels[i], 0) || is_right(kernels[i], 1e-3) || is_right(kernels[i], NAN))
            example_fail("%s: the error of its result is wrong", kernels[i]->name);
    return 0;
}
