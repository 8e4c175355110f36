/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito's scheduler simulated; `run` builds it.
 *
 *   sim costs              what this machine's operations cost, ns
 *   sim simulate [N...]    each workload under each policy on N workers; default 2 8 32 128 512
 *   sim check [N...]       the workloads on ito itself, beside the simulation with as many CPUs as there are
 *
 * --costs=A,B,... before the command: these costs, in the order in which `costs` prints them, in place of measured ones;
 * then the simulation prints the same on every machine.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS = 5 };

/* name, flat, phases, leaves, serial, leaf. `phases` grow by the number of workers where that is what they are to feed */
static const struct workload loads[] = {
    {"tree, 1 us leaves", false, 1, 200000, 0, 1000},
    {"tree, 100 us leaves", false, 1, 8192, 0, 100000},
    {"phases of 100 us", false, 50, 1000, 100000, 1000},
    {"flat loop, 5 us", true, 1, 50000, 0, 5000},
};
static const struct policy policies[] = {
    {.name = "before", .all_look = true, .locks_empty = true, .ask_is_hot = true, .impatient = true},
    {.name = "ito"},
    {.name = "all look", .all_look = true},
    {.name = "ask hot", .ask_is_hot = true},
    {.name = "two by two", .two_by_two = true},
    {.name = "impatient", .impatient = true},
    {.name = "capped", .capped = true},
    {.name = "one barrier", .one_barrier = true},
    {.name = "half", .steals_half = true},
};
enum { N_LOADS = sizeof loads / sizeof *loads, N_POLICIES = sizeof policies / sizeof *policies };

static int by_wall(const void *a, const void *b) {
    double x = ((const struct counts *)a)->wall, y = ((const struct counts *)b)->wall;
    return (x > y) - (x < y);
}
/* The run of the middle wall time. */
static struct counts middle(const struct costs *c, const struct workload *load, const struct policy *p,
                            unsigned workers, unsigned cpus) {
    struct counts all[SEEDS];
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        all[seed] = simulate(c, load, p, workers, cpus, seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du);
    qsort(all, SEEDS, sizeof *all, by_wall);
    return all[SEEDS / 2];
}

static double work_of(const struct costs *c, const struct workload *l) {
    return l->phases * (l->leaves * (l->leaf + c->task));
}
static void head(void) {
    printf("%-20s %-15s %7s %9s %8s %8s %8s %8s %8s %8s\n", "workload", "policy", "workers", "wall ms", "x ideal",
           "CPU ms", "steals", "forced", "parks", "barriers");
}
static void row(const char *load, const char *policy, unsigned workers, const struct counts *n, double ideal) {
    printf("%-20s %-15s %7u %9.2f %8.2f %8.1f %8llu %8llu %8llu %8llu\n", load, policy, workers, n->wall / 1e6,
           n->wall / ideal, n->cpu / 1e6, (unsigned long long)n->steals, (unsigned long long)n->forced,
           (unsigned long long)n->parks, (unsigned long long)n->membarriers);
    fflush(stdout);
}

static void print_costs(const struct costs *c) {
    printf("task %.1f  line %.0f  pause %.0f  membarrier %.0f  per CPU %.0f  interrupted %.0f  wake %.0f  latency %.0f "
           "ns\n",
           c->task, c->line, c->pause, c->membarrier, c->per_cpu, c->interrupted, c->wake, c->latency);
}

int main(int argc, char **argv) {
    struct costs c;
    bool known = argc > 1 && sscanf(argv[1], "--costs=%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf", &c.task, &c.line, &c.pause,
                                    &c.membarrier, &c.per_cpu, &c.interrupted, &c.wake, &c.latency) == 8;
    argc -= known, argv += known;
    static const unsigned wide[] = {2, 8, 32, 128, 512}, few[] = {1, 2, 8, 16};
    bool check = argc > 1 && strcmp(argv[1], "check") == 0, only_costs = argc > 1 && strcmp(argv[1], "costs") == 0;
    if (argc < 2 || (!check && !only_costs && strcmp(argv[1], "simulate") != 0)) {
        fprintf(stderr, "usage: sim [--costs=A,B,...] costs | simulate [WORKERS...] | check [WORKERS...]\n");
        return 2;
    }
    if (!known)
        measure_costs(&c);
    print_costs(&c);
    if (only_costs)
        return 0;
    unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN), n = argc > 2 ? (unsigned)argc - 2 : check ? 4 : 5;
    head();
    for (unsigned l = 0; l < N_LOADS; l++) {
        for (unsigned i = 0; i < n; i++) {
            unsigned workers = argc > 2 ? (unsigned)atoi(argv[2 + i]) : check ? few[i] : wide[i];
            if (workers < 1 || workers > 4096)
                return 2;
            unsigned ideal_on = check && workers > cpus ? cpus : workers;
            double ideal = loads[l].phases * loads[l].serial + work_of(&c, &loads[l]) / ideal_on;
            if (check) {
                struct counts all[SEEDS];
                for (int j = 0; j < SEEDS; j++)
                    all[j] = run_real(&loads[l], workers);
                qsort(all, SEEDS, sizeof *all, by_wall);
                row(loads[l].name, "measured", workers, &all[SEEDS / 2], ideal);
            }
            for (unsigned p = check ? 1 : 0; p < (check ? 2 : N_POLICIES); p++) {
                struct counts k = middle(&c, &loads[l], &policies[p], workers, check ? cpus : workers);
                row(loads[l].name, policies[p].name, workers, &k, ideal);
            }
        }
    }
    return 0;
}
