/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cholesky factorisation A = L L^T of a dense matrix in tiles: a task graph with dependences.
 *
 * Step k factors the diagonal tile (k, k), solves the tiles below it with it, and updates what lies to the right of them.
 * Each task writes one tile, and needs the tasks that wrote last the tiles that it uses; nothing is read before its last
 * write, so these are all dependences. A task whose needs are met goes to one queue; the threads take the task there that
 * was made first.
 */
#include "../common/example.h"
#include "../common/team.h"
#include "tile.h"

#include <kasuri.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FACTOR, SOLVE, UPDATE_DIAGONAL, UPDATE };

struct task {
    enum kind kind;
    int row, col, step; /* writes tile (row, col) in step */
    int missing;        /* needs that have not ended; under the graph's lock */
    int n_followers, room;
    int *followers;
};

struct graph {
    int tiles, tile; /* tiles a side, numbers a side of a tile */
    double *a;       /* [tiles][tiles][tile][tile], row-major; of the lower triangle */
    struct task *tasks;
    int *writer; /* [tiles][tiles], row-major: the task that wrote the tile last, or -1 */
    int n_tasks, n_done, n_edges;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int *ready; /* [n_tasks], a heap is not worth it: the least of them is taken */
    int n_ready;
};

static double *tile_at(const struct graph *g, int row, int col) {
    size_t numbers = (size_t)g->tile * (size_t)g->tile;
    return g->a + (size_t)(row * g->tiles + col) * numbers;
}

/* Ids for Kasuri: not 0. */
static uint64_t id_of(int task) {
    return (uint64_t)task + 1;
}

static void needs(struct graph *g, int task, int row, int col) {
    int on = g->writer[row * g->tiles + col];
    if (on < 0)
        return;
    struct task *t = &g->tasks[task], *before = &g->tasks[on];
    if (before->n_followers == before->room) {
        before->room = before->room ? 2 * before->room : 4;
        before->followers = realloc(before->followers, (size_t)before->room * sizeof(int));
        if (!before->followers)
            example_fail("no memory");
    }
    before->followers[before->n_followers++] = task;
    t->missing++;
    g->n_edges++;
    KASURI_TASK_DEPENDS(id_of(task), id_of(on));
}

static void create(struct graph *g, enum kind kind, int row, int col, int step) {
    int task = g->n_tasks++;
    g->tasks[task] = (struct task){.kind = kind, .row = row, .col = col, .step = step};
    switch (kind) {
    case FACTOR:
        KASURI_TASK_CREATE("factor", id_of(task), 0);
        break;
    case SOLVE:
        KASURI_TASK_CREATE("solve", id_of(task), 0);
        needs(g, task, step, step);
        break;
    case UPDATE_DIAGONAL:
        KASURI_TASK_CREATE("update diagonal", id_of(task), 0);
        needs(g, task, row, step);
        break;
    case UPDATE:
        KASURI_TASK_CREATE("update", id_of(task), 0);
        needs(g, task, row, step);
        needs(g, task, col, step);
        break;
    }
    needs(g, task, row, col);
    g->writer[row * g->tiles + col] = task;
    if (g->tasks[task].missing == 0)
        g->ready[g->n_ready++] = task;
}

static void create_all(struct graph *g) {
    for (int k = 0; k < g->tiles; k++) {
        create(g, FACTOR, k, k, k);
        for (int i = k + 1; i < g->tiles; i++)
            create(g, SOLVE, i, k, k);
        for (int i = k + 1; i < g->tiles; i++) {
            for (int j = k + 1; j < i; j++)
                create(g, UPDATE, i, j, k);
            create(g, UPDATE_DIAGONAL, i, i, k);
        }
    }
}

static void run(const struct graph *g, int task) {
    const struct task *t = &g->tasks[task];
    double *own = tile_at(g, t->row, t->col);
    KASURI_TASK_START(id_of(task));
    switch (t->kind) {
    case FACTOR:
        if (!tile_factor(own, g->tile))
            example_fail("the matrix is not positive definite");
        break;
    case SOLVE:
        tile_solve(own, tile_at(g, t->step, t->step), g->tile);
        break;
    case UPDATE_DIAGONAL:
    case UPDATE:
        tile_update(own, tile_at(g, t->row, t->step), tile_at(g, t->col, t->step), g->tile);
        break;
    }
    KASURI_TASK_END(id_of(task));
}

static int take_oldest(struct graph *g) {
    int at = 0;
    for (int i = 1; i < g->n_ready; i++)
        if (g->ready[i] < g->ready[at])
            at = i;
    int task = g->ready[at];
    g->ready[at] = g->ready[--g->n_ready];
    return task;
}

static void work(struct team *team, int member, void *arg) {
    struct graph *g = arg;
    (void)team;
    (void)member;
    pthread_mutex_lock(&g->lock);
    while (g->n_done < g->n_tasks) {
        if (g->n_ready == 0) {
            pthread_cond_wait(&g->changed, &g->lock);
            continue;
        }
        int task = take_oldest(g);
        pthread_mutex_unlock(&g->lock);
        run(g, task);
        pthread_mutex_lock(&g->lock);
        const struct task *t = &g->tasks[task];
        int made_ready = 0;
        for (int i = 0; i < t->n_followers; i++)
            if (--g->tasks[t->followers[i]].missing == 0) {
                g->ready[g->n_ready++] = t->followers[i];
                made_ready++;
            }
        g->n_done++;
        /* One of them is for this thread. */
        if (made_ready > 1 || g->n_done == g->n_tasks)
            pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
}

/* Symmetric, random, and positive definite by its diagonal. Element (i, j), i >= j. */
static double element(int i, int j, int n) {
    uint64_t state = (uint64_t)i << 32 | (uint64_t)j;
    double random = (double)(example_random(&state) >> 11) / 9007199254740992.0;
    return i == j ? n + random : random;
}

static void fill(const struct graph *g) {
    int n = g->tiles * g->tile;
    for (int row = 0; row < g->tiles; row++)
        for (int col = 0; col <= row; col++) {
            double *tile = tile_at(g, row, col);
            for (int i = 0; i < g->tile; i++)
                for (int j = 0; j < g->tile; j++) {
                    int y = row * g->tile + i, x = col * g->tile + j;
                    tile[i * g->tile + j] = element(y > x ? y : x, y > x ? x : y, n);
                }
        }
}

/* The largest |A x - L (L^T x)| / n over the rows, for one random x: 0 but for rounding. */
static double residual(const struct graph *g) {
    int n = g->tiles * g->tile;
    double *x = example_alloc((size_t)n, sizeof *x), *z = example_alloc((size_t)n, sizeof *z), worst = 0;
    uint64_t state = 1;
    for (int i = 0; i < n; i++)
        x[i] = (double)(example_random(&state) >> 11) / 9007199254740992.0;
        /* Element (i, j) of L, i >= j. */
#define L(i, j) tile_at(g, (i) / g->tile, (j) / g->tile)[((i) % g->tile) * g->tile + (j) % g->tile]
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++)
            z[j] += L(i, j) * x[i];
    for (int i = 0; i < n; i++) {
        double left = 0, right = 0;
        for (int j = 0; j < n; j++)
            left += element(i > j ? i : j, i > j ? j : i, n) * x[j];
        for (int j = 0; j <= i; j++)
            right += L(i, j) * z[j];
        worst = example_worse(worst, fabs(left - right) / n);
    }
#undef L
    free(x);
    free(z);
    return worst;
}

int main(int argc, char **argv) {
    const char *tile = "64";
    const struct example_flag flags[] = {{"--tile", "N", "numbers a side of a tile (64)", NULL, &tile},
                                         {NULL, NULL, NULL, NULL, NULL}};
    struct example ex = {.name = "cholesky",
                         .about = "factor a matrix in tiles: tasks with dependences",
                         .size_help = "tiles a side of the matrix",
                         .size = 12,
                         .size_max = 100,
                         .flags = flags};
    example_parse(&ex, argc, argv);
    struct graph g = {.tiles = ex.size, .tile = atoi(tile)};
    if (g.tile < 1 || g.tile > 1024)
        example_fail("--tile: 1 to 1024");
    size_t n = (size_t)g.tiles, tasks = n * (n + 1) * (n + 2) / 6;
    g.a = example_alloc(n * n * (size_t)g.tile * (size_t)g.tile, sizeof *g.a);
    g.tasks = example_alloc(tasks, sizeof *g.tasks);
    g.writer = example_alloc(n * n, sizeof *g.writer);
    g.ready = example_alloc(tasks, sizeof *g.ready);
    memset(g.writer, -1, n * n * sizeof *g.writer);
    pthread_mutex_init(&g.lock, NULL);
    pthread_cond_init(&g.changed, NULL);
    fill(&g);
    create_all(&g);
    double start = example_seconds(), cpu = example_cpu_seconds();
    team_run("cholesky", ex.threads, ex.pin, work, &g);
    double elapsed = example_seconds() - start, used = example_cpu_seconds() - cpu, off = residual(&g);
    uint64_t digest = example_digest(EXAMPLE_DIGEST_START, g.a, n * n * (size_t)g.tile * (size_t)g.tile * sizeof *g.a);
    bool is_right = g.n_done == (int)tasks && off < 1e-12;
    printf("tasks: %d\ndependences: %d\nresidual: %.1e\ndigest: %016llx\nelapsed_s: %.6f\ncpu_s: %.6f\n", g.n_tasks,
           g.n_edges, off, (unsigned long long)digest, elapsed, used);
    for (size_t i = 0; i < tasks; i++)
        free(g.tasks[i].followers);
    free(g.ready);
    free(g.writer);
    free(g.tasks);
    free(g.a);
    if (!is_right)
        fprintf(stderr, "cholesky: the result is wrong\n");
    return ex.check && !is_right;
}
