/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thermal images to search: a cold sky, warm ground with clutter, and objects that the net has learned,
 * hotter than what is around them. Integers only: the same images on every machine.
 */
#ifndef SCENE_H
#define SCENE_H

#include "net.h"

#include <stdint.h>

#define SCENE_WIDTH 160
#define SCENE_HEIGHT 120
#define SCENE_STRIDE 1 /* windows start at multiples of it, and objects do */
#define OBJECT_KINDS 4
#define OBJECTS_MAX 4

struct object {
    int kind; /* 0..OBJECT_KINDS - 1 */
    int x, y; /* of its window's upper left corner */
};

struct scene {
    uint8_t pixel[SCENE_HEIGHT][SCENE_WIDTH];
    int n_objects;
    struct object object[OBJECTS_MAX]; /* where they were planted, by y, then x */
};

extern const char *const object_name[OBJECT_KINDS];

/** scene_make - image @number; every fifth has no object at all. */
void scene_make(struct scene *scene, int number);

/** scene_teach - the image to learn @kind from: the object alone. */
void scene_teach(int kind, double input[F1_NODES]);

/** scene_window - the pixels of the window at @x, @y. */
void scene_window(const struct scene *scene, int x, int y, double input[F1_NODES]);

#endif /* SCENE_H */
