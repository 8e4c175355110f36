/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "scene.h"

#include "../common/example.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SKY_ROWS = 40, SKY = 24, GROUND = 40, HOT = 200 };

const char *const object_name[OBJECT_KINDS] = {"aircraft", "helicopter", "tank", "lorry"};

static int in_box(int x, int y, int x0, int y0, int x1, int y1) {
    return x >= x0 && x < x1 && y >= y0 && y < y1;
}

/* Heat of @kind at a pixel of its window, 0..256: the engine is hottest. */
static int heat(int kind, int x, int y) {
    int dx = 2 * x - (WINDOW - 1), dy = 2 * y - (WINDOW - 1);
    switch (kind) {
    case 0: /* fuselage, swept wings, tail; two engines */
        if (in_box(x, y, 4, 8, 6, 10) || in_box(x, y, 10, 8, 12, 10))
            return 256;
        if (in_box(x, y, 7, 1, 9, 15))
            return 200;
        if (y >= 7 && y < 11 && abs(dx) < 6 * (y - 6))
            return 150;
        return in_box(x, y, 5, 13, 11, 15) ? 150 : 0;
    case 1: /* cabin and boom; rotor */
        if (dx * dx + (dy + 4) * (dy + 4) < 30)
            return 256;
        if (in_box(x, y, 7, 9, 9, 16))
            return 180;
        return abs(abs(dx) - abs(dy + 4)) < 2 && abs(dx) < 12 ? 110 : 0;
    case 2: /* hull, turret, gun; engine at the back */
        if (in_box(x, y, 4, 11, 12, 14))
            return 256;
        if (in_box(x, y, 7, 0, 9, 5))
            return 120;
        if (dx * dx + dy * dy < 40)
            return 200;
        return in_box(x, y, 2, 4, 14, 14) ? 140 : 0;
    default: /* cab with a hot bonnet, cargo, wheels */
        if (in_box(x, y, 0, 8, 4, 12))
            return 256;
        if (in_box(x, y, 0, 5, 5, 8))
            return 170;
        if (in_box(x, y, 6, 2, 16, 11))
            return 120;
        return in_box(x, y, 1, 12, 5, 14) || in_box(x, y, 9, 12, 13, 14) ? 220 : 0;
    }
}

/* Stones and bushes that kept the day's heat: blobs, and noise on all. */
static void draw_background(struct scene *s, uint64_t *random) {
    for (int y = 0; y < SCENE_HEIGHT; y++)
        for (int x = 0; x < SCENE_WIDTH; x++)
            s->pixel[y][x] = (uint8_t)((y < SKY_ROWS ? SKY : GROUND) + (int)(example_random(random) % 4));
    for (int blob = 0; blob < 60; blob++) {
        int cx = (int)(example_random(random) % SCENE_WIDTH), radius = 2 + (int)(example_random(random) % 5);
        int cy = SKY_ROWS + radius + (int)(example_random(random) % (uint64_t)(SCENE_HEIGHT - SKY_ROWS - radius));
        int warm = 30 + (int)(example_random(random) % 60);
        for (int y = cy - radius; y <= cy + radius; y++)
            for (int x = cx - radius; x <= cx + radius; x++) {
                int d = (x - cx) * (x - cx) + (y - cy) * (y - cy);
                if (d < radius * radius && x >= 0 && x < SCENE_WIDTH && y < SCENE_HEIGHT)
                    s->pixel[y][x] = (uint8_t)(s->pixel[y][x] + warm * (radius * radius - d) / (radius * radius) / 2);
            }
    }
}

/* Near objects would share pixels. */
static bool place_is_free(const struct scene *s, int x, int y) {
    for (int i = 0; i < s->n_objects; i++)
        if (abs(s->object[i].x - x) < 2 * WINDOW && abs(s->object[i].y - y) < 2 * WINDOW)
            return false;
    return true;
}

/* An object hides what is behind it; it has 80 to 100 % of full heat. Aircraft keep to the upper half. */
static void plant(struct scene *s, int kind, uint64_t *random) {
    int x, y, low = kind < 2 ? 0 : SKY_ROWS, high = kind < 2 ? SCENE_HEIGHT / 2 : SCENE_HEIGHT - WINDOW;
    do {
        x = (int)(example_random(random) % (SCENE_WIDTH - WINDOW)) / SCENE_STRIDE * SCENE_STRIDE;
        y = (low + (int)(example_random(random) % (uint64_t)(high - low))) / SCENE_STRIDE * SCENE_STRIDE;
    } while (!place_is_free(s, x, y));
    int level = 80 + (int)(example_random(random) % 21);
    for (int row = 0; row < WINDOW; row++)
        for (int column = 0; column < WINDOW; column++) {
            int hot = heat(kind, column, row) * HOT / 256 * level / 100;
            if (hot)
                s->pixel[y + row][x + column] = (uint8_t)(SKY + hot + (int)(example_random(random) % 4));
        }
    int at = s->n_objects++;
    while (at > 0 && (s->object[at - 1].y > y || (s->object[at - 1].y == y && s->object[at - 1].x > x))) {
        s->object[at] = s->object[at - 1];
        at--;
    }
    s->object[at] = (struct object){kind, x, y};
}

void scene_make(struct scene *scene, int number) {
    uint64_t random = 0x5ca11ed0ull + (uint64_t)number;
    memset(scene, 0, sizeof *scene);
    draw_background(scene, &random);
    int count = number % 5 == 4 ? 0 : 1 + (int)(example_random(&random) % OBJECTS_MAX);
    for (int i = 0; i < count; i++)
        plant(scene, (int)(example_random(&random) % OBJECT_KINDS), &random);
}

void scene_teach(int kind, double input[F1_NODES]) {
    for (int i = 0; i < F1_NODES; i++)
        input[i] = SKY + heat(kind, i % WINDOW, i / WINDOW) * HOT / 256;
}

void scene_window(const struct scene *scene, int x, int y, double input[F1_NODES]) {
    for (int row = 0; row < WINDOW; row++)
        for (int column = 0; column < WINDOW; column++)
            input[row * WINDOW + column] = scene->pixel[y + row][x + column];
}
