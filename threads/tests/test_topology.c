/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How many workers, and whom they steal from first: affinity mask, cgroup quota, NUMA nodes. The files of /proc and
 * /sys are ours, below ito__prim_root. test_topology NAME
 */
#define _GNU_SOURCE
#include "check.h"
#include "core/internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/ito-topology-XXXXXX";

static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + sizeof root; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        *at = 0;
        CHECK(mkdir(full, 0700) == 0 || errno == EEXIST);
    }
    FILE *f = fopen(full, "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
}

static unsigned n_in_mask(void) {
    cpu_set_t mask;
    CHECK_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    return (unsigned)CPU_COUNT(&mask);
}

static unsigned workers_by_default(void) {
    unsetenv("ITO_WORKERS");
    CHECK_EQ(ito_init(NULL), 0);
    unsigned n = ito_n_workers();
    CHECK_EQ(ito_fini(), 0);
    return n;
}

static void quota_of_cgroup_v2(void) {
    unsigned all = n_in_mask();
    put("/proc/self/cgroup", "0::/a/b\n");
    CHECK_EQ(workers_by_default(), all); /* no limit anywhere */
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK_EQ(workers_by_default(), all);
    put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n"); /* of the parent: half a CPU */
    CHECK_EQ(workers_by_default(), 1);
    put("/sys/fs/cgroup/a/cpu.max", "110000 100000\n"); /* rounded up */
    CHECK_EQ(workers_by_default(), all < 2 ? all : 2);
    put("/sys/fs/cgroup/a/cpu.max", "nonsense\n");
    CHECK_EQ(workers_by_default(), all);
}

static void quota_of_cgroup_v1(void) {
    unsigned all = n_in_mask();
    put("/proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/x/y\n1:name=systemd:/x\n");
    put("/sys/fs/cgroup/cpu/x/y/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/x/y/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(workers_by_default(), all);
    put("/sys/fs/cgroup/cpu/x/y/cpu.cfs_quota_us", "70000\n");
    CHECK_EQ(workers_by_default(), 1);
}

static void affinity_mask(void) {
    cpu_set_t old, one;
    CHECK_EQ(sched_getaffinity(0, sizeof old, &old), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &old))
            CPU_SET(cpu, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_EQ(workers_by_default(), 1);
    CHECK_EQ(sched_setaffinity(0, sizeof old, &old), 0);
    CHECK_EQ(workers_by_default(), CPU_COUNT(&old));
}

static void *leaf(void *arg) {
    for (volatile int i = 0; i < 300; i++)
        ;
    return arg;
}
static void *tree(void *depth) {
    long d = (long)depth;
    ito_thread *t;
    void *x, *y;
    if (d == 0)
        return leaf((void *)1);
    CHECK_EQ(ito_create(&t, NULL, tree, (void *)(d - 1)), 0);
    y = tree((void *)(d - 1));
    CHECK_EQ(ito_join(t, &x), 0);
    return (void *)((long)x + (long)y);
}

/* Every CPU a node of its own: workers of one CPU are neighbours, of the others far away. */
static void nodes_are_seen_and_stolen_from(void) {
    char path[64];
    cpu_set_t mask;
    CHECK_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    unsigned node = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &mask)) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node%u", cpu, node++ % 64);
            put(path, "");
        }
    if (node < 2) {
        puts("skipped: one CPU only: there is no other node");
        exit(getenv("CI") ? 1 : 77);
    }
    ito_config config = ITO_CONFIG_INIT;
    config.n_workers = 2 * node; /* two on each */
    CHECK_EQ(ito_init(&config), 0);
    CHECK(ito__pool.hierarchy);
    for (unsigned i = 0; i < 2 * node; i++)
        CHECK_EQ(ito__pool.workers[i].node, i % node % 64);
    uint64_t steals = 0, far = 0;
    while (far == 0 || steals == far) { /* work reaches the other node, and neighbours take from each other */
        CHECK_EQ((long)tree((void *)12), 4096);
        steals = far = 0;
        for (unsigned i = 0; i < 2 * node; i++) {
            steals += ito__pool.workers[i].n_steals;
            far += ito__pool.workers[i].n_far_steals;
        }
    }
    CHECK_EQ(ito_fini(), 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"quota_of_cgroup_v2", quota_of_cgroup_v2},
                 {"quota_of_cgroup_v1", quota_of_cgroup_v1},
                 {"affinity_mask", affinity_mask},
                 {"nodes_are_seen_and_stolen_from", nodes_are_seen_and_stolen_from}};
    CHECK(mkdtemp(root) != NULL);
    ito__prim_root = root;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc == 2 && strcmp(tests[i].name, argv[1]) == 0) {
            tests[i].run();
            char command[64];
            snprintf(command, sizeof command, "rm -r %s", root);
            return system(command) != 0;
        }
    fprintf(stderr, "usage: test_topology NAME\n");
    return 2;
}
