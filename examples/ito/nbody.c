/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * nbody - a star cluster under its own gravity (Barnes and Hut, Nature 324, 1986). Stars crowd in the middle, so an
 * octree over them is deep there and shallow outside, and the work for a star depends on where it is. Building the tree
 * and walking it are recursions in which each box is a thread.
 *
 * The cluster is Plummer's sphere in units in which its mass, and the constant of gravity, are 1. The answer is the
 * same to the last bit for any number of workers: each sum has one order.
 */
#include "kernel.h"
#include <math.h>
#include <string.h>

enum { LEAF = 8, DEEPEST = 60 };

struct star {
    double place[3], speed[3], pull[3];
};

/* A box of the octree over stars [first, first + n). Leaf: children all null. */
struct box {
    double centre[3], half;
    double mass_centre[3], mass;
    struct star *first;
    int n, depth;
    struct box *child[8];
};

struct cluster {
    struct star *stars, *scratch, *born;
    struct box *boxes; /* [max_boxes], the first n_boxes taken */
    int n, steps, max_boxes;
    int n_boxes; /* relaxed: a box's number says nothing */
    uint64_t tasks;
    double energy_before, energy_after;
};

static struct cluster cluster;

static const double theta = 0.5;       /* a box farther than its width / theta is one body */
static const double softening2 = 1e-4; /* two stars that meet do not throw each other out */
static const double time_step = 1.0 / 256;

static struct box *new_box(const struct box *parent, int octant, struct star *first, int n) {
    int number = __atomic_fetch_add(&cluster.n_boxes, 1, __ATOMIC_RELAXED);
    if (number >= cluster.max_boxes)
        example_fail("more than %d boxes", cluster.max_boxes);
    struct box *b = &cluster.boxes[number];
    memset(b, 0, sizeof *b);
    b->half = parent->half / 2;
    for (int k = 0; k < 3; k++)
        b->centre[k] = parent->centre[k] + (octant >> k & 1 ? b->half : -b->half);
    b->first = first;
    b->n = n;
    b->depth = parent->depth + 1;
    return b;
}

static int octant_of(const struct box *b, const struct star *s) {
    return (s->place[0] >= b->centre[0]) | (s->place[1] >= b->centre[1]) << 1 | (s->place[2] >= b->centre[2]) << 2;
}

/* The stars by octant, in the order they had within each: a counting sort through the same rows of the scratch
 * array. */
static void sort_by_octant(const struct box *b, int begin[9]) {
    struct star *scratch = cluster.scratch + (b->first - cluster.stars);
    int at[8];
    memset(begin, 0, 9 * sizeof *begin);
    for (int i = 0; i < b->n; i++)
        begin[octant_of(b, &b->first[i]) + 1]++;
    for (int o = 0; o < 8; o++) {
        begin[o + 1] += begin[o];
        at[o] = begin[o];
    }
    for (int i = 0; i < b->n; i++)
        scratch[at[octant_of(b, &b->first[i])]++] = b->first[i];
    memcpy(b->first, scratch, (size_t)b->n * sizeof *scratch);
}

static void add_mass(struct box *b, const double centre[3], double mass) {
    for (int k = 0; k < 3; k++)
        b->mass_centre[k] += centre[k] * mass;
    b->mass += mass;
}

static void build(struct box *b);
FORK_KERNEL(build, struct box)

static void build(struct box *b) {
    int begin[9], n = 0;
    struct box *child[8];
    if (b->n > LEAF && b->depth < DEEPEST) {
        sort_by_octant(b, begin);
        FORK_ROOM(room, 8, build);
        for (int o = 0; o < 8; o++)
            if (begin[o] < begin[o + 1]) {
                b->child[o] = child[n] = new_box(b, o, b->first + begin[o], begin[o + 1] - begin[o]);
                FORK(room, n, build, child[n]);
                n++;
            }
        FORK_JOIN(room, n, build);
        for (int o = 0; o < n; o++)
            add_mass(b, child[o]->mass_centre, child[o]->mass);
    } else {
        for (int i = 0; i < b->n; i++)
            add_mass(b, b->first[i].place, 1.0 / cluster.n);
    }
    for (int k = 0; k < 3; k++)
        b->mass_centre[k] /= b->mass;
}

static void add_pull(struct star *s, const double place[3], double mass) {
    double d[3], r2 = softening2;
    for (int k = 0; k < 3; k++) {
        d[k] = place[k] - s->place[k];
        r2 += d[k] * d[k];
    }
    double pull = mass / (r2 * sqrt(r2));
    for (int k = 0; k < 3; k++)
        s->pull[k] += d[k] * pull;
}

static void pull_of(struct star *s, const struct box *b) {
    double r2 = 0;
    for (int k = 0; k < 3; k++) {
        double d = b->mass_centre[k] - s->place[k];
        r2 += d * d;
    }
    if (4 * b->half * b->half < theta * theta * r2) {
        add_pull(s, b->mass_centre, b->mass);
        return;
    }
    bool is_leaf = true;
    for (int o = 0; o < 8; o++)
        if (b->child[o]) {
            is_leaf = false;
            pull_of(s, b->child[o]);
        }
    if (is_leaf)
        for (int i = 0; i < b->n; i++)
            if (&b->first[i] != s)
                add_pull(s, b->first[i].place, 1.0 / cluster.n);
}

static struct box *whole;

/* All stars of a box: each leaf asks what pulls its own. */
static void walk(struct box *b);
FORK_KERNEL(walk, struct box)

static void walk(struct box *b) {
    struct box *child[8];
    int n = 0;
    for (int o = 0; o < 8; o++)
        if (b->child[o])
            child[n++] = b->child[o];
    if (n == 0) {
        for (int i = 0; i < b->n; i++) {
            memset(b->first[i].pull, 0, sizeof b->first[i].pull);
            pull_of(&b->first[i], whole);
        }
        return;
    }
    FORK_ROOM(room, 8, walk);
    for (int i = 0; i < n; i++)
        FORK(room, i, walk, child[i]);
    FORK_JOIN(room, n, walk);
}

static void find_pulls(void) {
    double reach = 0;
    for (int i = 0; i < cluster.n; i++)
        for (int k = 0; k < 3; k++)
            reach = fmax(reach, fabs(cluster.stars[i].place[k]));
    struct box outside = {{0, 0, 0}, 4 * reach, {0, 0, 0}, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};
    cluster.n_boxes = 0;
    whole = new_box(&outside, 0, cluster.stars, cluster.n);
    memset(whole->centre, 0, sizeof whole->centre);
    whole->half = reach * (1 + 1e-9);
    build(whole);
    walk(whole);
    cluster.tasks += 2 * (uint64_t)(cluster.n_boxes - 1);
}

/* Every 16th star against all others: what a tree of boxes cannot get wrong. */
static double energy(void) {
    double sum = 0;
    for (int i = 0; i < cluster.n; i += 16) {
        const struct star *s = &cluster.stars[i];
        for (int j = 0; j < cluster.n; j++) {
            double r2 = softening2;
            for (int k = 0; k < 3; k++)
                r2 += (cluster.stars[j].place[k] - s->place[k]) * (cluster.stars[j].place[k] - s->place[k]);
            if (j != i)
                sum -= 0.5 / sqrt(r2) / cluster.n;
        }
        for (int k = 0; k < 3; k++)
            sum += 0.5 * s->speed[k] * s->speed[k];
    }
    return sum / ((cluster.n + 15) / 16);
}

/* Half a kick, a drift, forces, half a kick: the leap-frog, which keeps energy. */
static void root(void *arg) {
    (void)arg;
    find_pulls();
    for (int step = 0; step < cluster.steps; step++) {
        for (int i = 0; i < cluster.n; i++)
            for (int k = 0; k < 3; k++) {
                cluster.stars[i].speed[k] += cluster.stars[i].pull[k] * time_step / 2;
                cluster.stars[i].place[k] += cluster.stars[i].speed[k] * time_step;
            }
        find_pulls();
        for (int i = 0; i < cluster.n; i++)
            for (int k = 0; k < 3; k++)
                cluster.stars[i].speed[k] += cluster.stars[i].pull[k] * time_step / 2;
    }
}

static double uniform(uint64_t *random) {
    return (double)(example_random(random) >> 11) / 9007199254740992.0;
}

static void on_sphere(uint64_t *random, double radius, double out[3]) {
    double z = 2 * uniform(random) - 1, angle = 6.283185307179586 * uniform(random);
    out[0] = radius * sqrt(1 - z * z) * cos(angle);
    out[1] = radius * sqrt(1 - z * z) * sin(angle);
    out[2] = radius * z;
}

/* Plummer's sphere (S. Aarseth, M. Henon, R. Wielen, 1974): radius from the mass inside it, speed by rejection. */
static void born(void) {
    uint64_t random = 7;
    for (int i = 0; i < cluster.n; i++) {
        double r = 1 / sqrt(pow(0.999 * uniform(&random) + 1e-6, -2.0 / 3) - 1), x, y;
        do {
            x = uniform(&random);
            y = uniform(&random) / 10;
        } while (y > x * x * pow(1 - x * x, 3.5));
        on_sphere(&random, r, cluster.born[i].place);
        on_sphere(&random, x * sqrt(2) * pow(1 + r * r, -0.25), cluster.born[i].speed);
    }
}

static void prepare(void *arg) {
    (void)arg;
    memcpy(cluster.stars, cluster.born, (size_t)cluster.n * sizeof *cluster.stars);
    cluster.tasks = 0;
    cluster.energy_before = energy();
}

static uint64_t tasks(const void *arg) {
    (void)arg;
    return cluster.tasks ? cluster.tasks : 1;
}

static uint64_t digest(const void *arg) {
    (void)arg;
    return example_digest(EXAMPLE_DIGEST_START, cluster.stars, (size_t)cluster.n * sizeof *cluster.stars);
}

static const char *wrong(const void *arg) {
    (void)arg;
    /* Stars change places in the array, so the sample is not the same stars: 0.05 of about -0.15 is what a sample of
     * 1,250 differs by; a wrong force is off by far more. */
    cluster.energy_after = energy();
    return fabs(cluster.energy_after - cluster.energy_before) < 0.05 ? 0 : "energy is not kept";
}

int main(int argc, char **argv) {
    const char *repeat = "1", *steps = "4";
    const struct example_flag flags[] = {
        {"--steps", "N", "time steps (default 4)", 0, &steps}, KERNEL_REPEAT(repeat), {0, 0, 0, 0, 0}};
    struct example ex = {"nbody", "star cluster by Barnes and Hut on " FORK_RUNTIME, "stars", 20000, 1000000, 0, 0, 0,
                         flags};
    example_parse(&ex, argc, argv);
    cluster.n = ex.size;
    cluster.steps = kernel_number("--steps", steps, 1000000);
    cluster.max_boxes = 2 * ex.size + 4096;
    cluster.stars = (struct star *)example_alloc((size_t)cluster.n, sizeof(struct star));
    cluster.scratch = (struct star *)example_alloc((size_t)cluster.n, sizeof(struct star));
    cluster.born = (struct star *)example_alloc((size_t)cluster.n, sizeof(struct star));
    cluster.boxes = (struct box *)example_alloc((size_t)cluster.max_boxes, sizeof(struct box));
    born();
    struct kernel k = {prepare, root, 0, tasks, digest, wrong};
    int status = kernel_run(&k, ex.threads, kernel_number("--repeat", repeat, 1000000));
    printf("energy: %.9f before, %.9f after\n", cluster.energy_before, cluster.energy_after);
    free(cluster.stars);
    free(cluster.scratch);
    free(cluster.born);
    free(cluster.boxes);
    return status;
}
