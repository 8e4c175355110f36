/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * art: find learned objects in thermal images with an adaptive-resonance network.
 * A re-creation, from scratch, of the kind of program that SPEC's art is: the net looks at every window of the image,
 * and the threads share the rows of windows statically. How long a window takes depends on what is in it: the sky is
 * empty, the ground is not, so the thread with the upper rows waits.
 */
#include "../common/example.h"
#include "../common/team.h"
#include "net.h"
#include "scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = (SCENE_WIDTH - WINDOW) / SCENE_STRIDE + 1,
    ROWS = (SCENE_HEIGHT - WINDOW) / SCENE_STRIDE + 1,
    FOUND_MAX = 2 * OBJECTS_MAX,
};

/* Sum of the confidences of all objects found in so many images; sums of square roots of integers times a few
 * factors, so machines differ by rounding only. */
static const struct golden {
    int images;
    double confidence;
} golden[] = {{3, 6.9908614181630266}, {40, 71.915281625940437}};

struct found {
    struct object object;
    double confidence;
};

struct result {
    int n_found;
    struct found found[FOUND_MAX];
};

struct scan {
    const struct net *net;
    const struct scene *scene; /* [n_images] */
    int n_images;
    struct match match[ROWS][COLUMNS];
    bool peak[ROWS][COLUMNS];
    struct result *result; /* [n_images] */
};

static void scan_row(struct scan *s, const struct scene *scene, int row) {
    double input[F1_NODES];
    for (int column = 0; column < COLUMNS; column++) {
        scene_window(scene, column * SCENE_STRIDE, row * SCENE_STRIDE, input);
        s->match[row][column] = net_match(s->net, input);
    }
}

/* A window that knows its object, surer than all that overlap it; of equals the first. */
static bool is_peak(const struct scan *s, int row, int column) {
    const int reach = WINDOW / SCENE_STRIDE;
    const struct match *here = &s->match[row][column];
    if (here->label < 0)
        return false;
    for (int y = row - reach; y <= row + reach; y++)
        for (int x = column - reach; x <= column + reach; x++) {
            if (y < 0 || x < 0 || y >= ROWS || x >= COLUMNS || s->match[y][x].label < 0)
                continue;
            bool before = y < row || (y == row && x < column);
            double other = s->match[y][x].confidence;
            if (other > here->confidence || (before && other == here->confidence))
                return false;
        }
    return true;
}

static void collect(struct scan *s, int image) {
    struct result *r = &s->result[image];
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            if (!s->peak[row][column] || r->n_found == FOUND_MAX)
                continue;
            const struct match *m = &s->match[row][column];
            struct found *f = &r->found[r->n_found++];
            *f = (struct found){{m->label, column * SCENE_STRIDE, row * SCENE_STRIDE}, m->confidence};
            KASURI_INSTANT("found");
            KASURI_ARG_I64("x", f->object.x);
            KASURI_ARG_I64("y", f->object.y);
        }
    KASURI_COUNTER("objects", r->n_found);
}

static void scan_images(struct team *team, int member, void *arg) {
    struct scan *s = arg;
    struct range rows = team_split(ROWS, team->size, member);
    for (int image = 0; image < s->n_images; image++) {
        KASURI_BEGIN("match");
        for (size_t row = rows.begin; row < rows.end; row++) {
            KASURI_BEGIN("match_row");
            scan_row(s, &s->scene[image], (int)row);
            KASURI_END();
        }
        KASURI_END();
        TEAM_BARRIER(team);

        KASURI_BEGIN("find_peaks");
        for (size_t row = rows.begin; row < rows.end; row++)
            for (int column = 0; column < COLUMNS; column++)
                s->peak[row][column] = is_peak(s, (int)row, column);
        KASURI_END();
        TEAM_BARRIER(team);

        if (member == 0) {
            KASURI_BEGIN("collect");
            collect(s, image);
            KASURI_END();
        }
        TEAM_BARRIER(team);
    }
}

/* Exactly what was planted, where it was planted, and nothing else. */
static bool check_image(const struct scene *scene, const struct result *r, int image) {
    bool good = r->n_found == scene->n_objects;
    if (!good)
        fprintf(stderr, "art: error: image %d: found %d objects, needed %d\n", image, r->n_found, scene->n_objects);
    for (int i = 0; good && i < r->n_found; i++) {
        const struct object *f = &r->found[i].object, *p = &scene->object[i];
        if (f->kind == p->kind && f->x == p->x && f->y == p->y)
            continue;
        fprintf(stderr, "art: error: image %d: found %s at %d %d, needed %s at %d %d\n", image, object_name[f->kind],
                f->x, f->y, object_name[p->kind], p->x, p->y);
        good = false;
    }
    return good;
}

static bool check(const struct scan *s, double confidence) {
    bool good = true;
    for (int i = 0; i < s->n_images; i++)
        good &= check_image(&s->scene[i], &s->result[i], i);
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        if (golden[i].images != s->n_images || fabs(confidence - golden[i].confidence) <= 1e-9 * confidence)
            continue;
        fprintf(stderr, "art: error: confidence %.17g, needed %.17g\n", confidence, golden[i].confidence);
        good = false;
    }
    return good;
}

static double print_found(const struct scan *s) {
    double confidence = 0;
    uint64_t digest = EXAMPLE_DIGEST_START;
    for (int image = 0; image < s->n_images; image++)
        for (int i = 0; i < s->result[image].n_found; i++) {
            const struct found *f = &s->result[image].found[i];
            printf("image %2d: %-10s at %3d %3d confidence %.6f\n", image, object_name[f->object.kind], f->object.x,
                   f->object.y, f->confidence);
            confidence += f->confidence;
            digest = example_digest(digest, &f->object, sizeof f->object);
            digest = example_digest(digest, &f->confidence, sizeof f->confidence);
        }
    printf("confidence: %.12f\ndigest: %016llx\n", confidence, (unsigned long long)digest);
    return confidence;
}

int main(int argc, char **argv) {
    struct example ex = {
        .name = "art",
        .about = "find learned objects in thermal images with an adaptive-resonance network",
        .size_help = "images",
        .size = 40,
        .size_max = 10000,
    };
    example_parse(&ex, argc, argv);
    struct net *net = example_alloc(1, sizeof *net);
    struct scan *scan = example_alloc(1, sizeof *scan);
    struct scene *scene = example_alloc((size_t)ex.size, sizeof *scene);
    double input[F1_NODES];
    KASURI_BEGIN("learn");
    for (int kind = 0; kind < OBJECT_KINDS; kind++) {
        scene_teach(kind, input);
        if (net_learn(net, input) != kind)
            example_fail("%s looks like an object learned before", object_name[kind]);
    }
    KASURI_END();
    KASURI_BEGIN("draw");
    for (int i = 0; i < ex.size; i++)
        scene_make(&scene[i], i);
    KASURI_END();
    scan->net = net;
    scan->scene = scene;
    scan->n_images = ex.size;
    scan->result = example_alloc((size_t)ex.size, sizeof *scan->result);
    printf("art: %d images of %d x %d, %d windows each, %d classes, %d threads\n", ex.size, SCENE_WIDTH, SCENE_HEIGHT,
           ROWS * COLUMNS, net->n_classes, ex.threads);

    double cpu = example_cpu_seconds(), start = example_seconds();
    team_run("art", ex.threads, ex.pin, scan_images, scan);
    double elapsed = example_seconds() - start;
    cpu = example_cpu_seconds() - cpu;

    double confidence = print_found(scan);
    printf("cpu_s: %.6f\nelapsed_s: %.6f\n", cpu, elapsed);
    bool good = !ex.check || check(scan, confidence);
    free(scan->result);
    free(scan);
    free(scene);
    free(net);
    return good ? 0 : 1;
}
