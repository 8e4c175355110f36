/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "film.h"

#include "../common/example.h"

enum { QUARTER = 4, DISCS = 5 };

/* Smooth noise: random values on a grid of 16, 8 and 4 pixels, straight lines between, finer ones weaker. */
void film_make(struct film *film) {
    for (int y = 0; y < FILM_TEXTURE; y++)
        for (int x = 0; x < FILM_TEXTURE; x++) {
            int value = 0;
            for (int octave = 0; octave < 3; octave++) {
                int grid = 16 >> octave, points = FILM_TEXTURE / grid, corner[4];
                for (int c = 0; c < 4; c++) {
                    int gx = (x / grid + (c & 1)) % points, gy = (y / grid + (c >> 1)) % points;
                    uint64_t seed = (uint64_t)(octave << 20 | gy << 10 | gx);
                    corner[c] = (int)(example_random(&seed) & 255);
                }
                int fx = x % grid, fy = y % grid;
                int top = corner[0] * (grid - fx) + corner[1] * fx, bottom = corner[2] * (grid - fx) + corner[3] * fx;
                value += (top * (grid - fy) + bottom * fy) / (grid * grid) >> (octave + 1);
            }
            film->texture[y][x] = (uint8_t)value;
        }
}

/* The texture at quarter pixels. */
static int sample(const struct film *film, int x4, int y4) {
    int x = x4 / QUARTER, y = y4 / QUARTER, fx = x4 % QUARTER, fy = y4 % QUARTER;
    const uint8_t *row = film->texture[y % FILM_TEXTURE], *below = film->texture[(y + 1) % FILM_TEXTURE];
    int left = x % FILM_TEXTURE, right = (x + 1) % FILM_TEXTURE;
    int top = row[left] * (QUARTER - fx) + row[right] * fx, bottom = below[left] * (QUARTER - fx) + below[right] * fx;
    return (top * (QUARTER - fy) + bottom * fy + 8) / 16;
}

/* Brightness and colours at a place of frame @t. */
static void look(const struct film *film, int width, int height, int x, int y, int t, int out[3]) {
    int horizon = height * 3 / 8;
    for (int d = 0; d < DISCS; d++) {
        int speed = 6 + 5 * d, radius = 20 + 6 * d, span = (width + 4 * radius) * QUARTER;
        int cx4 = (speed * t + d * span / DISCS) % span - 2 * radius * QUARTER;
        int cy = horizon + (height - horizon) * (d + 1) / (DISCS + 1);
        int dx = x - cx4 / QUARTER, dy = y - cy;
        if (dx * dx + dy * dy >= radius * radius)
            continue;
        out[0] = 40 + sample(film, QUARTER * (x + 512) - cx4 + 16 * QUARTER * d, QUARTER * (y + 90 * d));
        out[1] = 90 + 20 * d;
        out[2] = 170 - 25 * d;
        return;
    }
    if (y < horizon) {
        out[0] = 120 + 80 * y / horizon;
        out[1] = 150;
        out[2] = 110;
        return;
    }
    out[0] = sample(film, QUARTER * x + 7 * t, QUARTER * y + 2 * t);
    out[1] = 118;
    out[2] = 132;
}

void film_row(const struct film *film, struct frame *out, int number, int row) {
    int width = out->plane[0].width, height = out->plane[0].height, colour[3];
    for (int y = row * MACROBLOCK; y < (row + 1) * MACROBLOCK; y++)
        for (int x = 0; x < width; x++) {
            look(film, width, height, x, y, number, colour);
            out->plane[0].pixel[y * width + x] = (uint8_t)clamp_pixel(colour[0]);
            if (x % 2 || y % 2)
                continue;
            for (int p = 1; p < 3; p++)
                out->plane[p].pixel[y / 2 * (width / 2) + x / 2] = (uint8_t)colour[p];
        }
}
