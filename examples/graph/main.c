/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Task graphs on a runtime: `graph_ito cholesky -n 16 --tile 32 -t 2 --repeat 5`. The first run warms up; of the others
 * the median counts, of which bench/ito/graph makes its table.
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kernel *const kernels[] = {&cholesky_kernel, &lu_kernel, &triangular_kernel, &quake_kernel};

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A whole number from `least` to `most`, else a wrong option: exit status 2. */
static int number_of(const char *option, const char *text, int least, int most) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == 0 || *end || value < least || value > most) {
        fprintf(stderr, "graph: error: %s: %d to %d\n", option, least, most);
        exit(2);
    }
    return (int)value;
}

int main(int argc, char **argv) {
    const struct kernel *kernel = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(argv[1], kernels[i]->name))
            kernel = kernels[i];
    bool is_named = kernel != NULL, is_static = false;
    kernel = is_named ? kernel : kernels[0];
    char tile_text[16];
    snprintf(tile_text, sizeof tile_text, "%d", kernel->tile);
    const char *tile = tile_text, *repeat = "1", *costs = NULL;
    const struct example_flag flags[] = {
        {"--tile", "N", "numbers a side of a tile, rows of a block; quake: 64 nodes each", NULL, &tile},
        {"--repeat", "N", "runs after the first (1)", NULL, &repeat},
        {"--static", NULL, "a list for each worker, planned by costs (ito)", &is_static, NULL},
        {"--costs", "FILE", "from kasuri plan --costs (ito)", NULL, &costs},
        {NULL, NULL, NULL, NULL, NULL}};
    struct example ex = {.name = "graph",
                         .about = "a task graph on a runtime; first argument: cholesky, lu, triangular, quake",
                         .size_help = kernel->size_help,
                         .size = kernel->size,
                         .size_max = 100000,
                         .flags = flags};
    example_parse(&ex, argc - is_named, argv + is_named);
    int side = number_of("--tile", tile, 1, 1024), n_runs = number_of("--repeat", repeat, 1, 100000);
    struct graph g = {0};
    void *data = kernel->make(&g, ex.size, side);
    struct on *on = on_start(&g, ex.threads, is_static, costs);
    double *seconds = example_alloc((size_t)n_runs, sizeof *seconds), cpu = 0, worst = 0;
    uint64_t digest = 0;
    for (int i = -1; i < n_runs; i++) {
        kernel->fill(data);
        double start = example_seconds(), cpu_start = example_cpu_seconds();
        on_run(on);
        if (i < 0)
            continue;
        seconds[i] = example_seconds() - start;
        cpu += example_cpu_seconds() - cpu_start;
    }
    worst = kernel->error(data);
    digest = kernel->digest(data);
    on_stop(on);
    qsort(seconds, (size_t)n_runs, sizeof *seconds, compare);
    printf("runtime: %s\ntasks: %d\ndependences: %d\nerror: %.1e\ndigest: %016llx\nelapsed_s: %.9f\nleast_s: "
           "%.9f\ncpu_s: %.9f\n",
           on_name, g.n_tasks, g.n_edges, worst, (unsigned long long)digest, seconds[n_runs / 2], seconds[0],
           cpu / n_runs);
    printf("ns_per_task: %.1f\n", 1e9 * seconds[n_runs / 2] / g.n_tasks);
    kernel->free(data);
    graph_free(&g);
    free(seconds);
    bool is_right = worst < 1e-10;
    if (!is_right)
        fprintf(stderr, "graph: the result is wrong\n");
    return ex.check && !is_right;
}
