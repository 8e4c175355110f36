/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which CPUs the process may use: affinity mask, cgroup quota, NUMA nodes. */
#define _GNU_SOURCE
#include "prim.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Before all paths of /proc and /sys; tests set it to a tree of files of their own. */
const char *ito__prim_root = "";

/* The numbers at the beginning of a file; how many were read. "max" and "-1" are not read: no limit. */
static int numbers_of(const char *path, unsigned long long *a, unsigned long long *b) {
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    char text[64] = "";
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    return text[0] == '-' ? 0 : sscanf(text, "%llu %llu", a, b);
}

/* `us` of CPU time in each `period` us, as whole CPUs: rounded up, since a worker too many costs less than a CPU that
 * nobody uses. */
static unsigned cpus_of(unsigned long long us, unsigned long long period) {
    return us == 0 || period == 0 || us / period >= UINT_MAX ? UINT_MAX : (unsigned)((us + period - 1) / period);
}

/* What one group allows. */
static unsigned quota_of(const char *folder, const char *group, bool v2) {
    char path[2 * PATH_MAX];
    unsigned long long us = 0, period = 0, none;
    /* v2 has both numbers in one file, "QUOTA PERIOD", in us; v1 has a file for each, and -1 for no limit (kernel,
     * Documentation/admin-guide/cgroup-v2.rst). */
    if (v2) {
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/cpu.max", ito__prim_root, folder, group);
        return numbers_of(path, &us, &period) == 2 ? cpus_of(us, period) : UINT_MAX;
    }
    snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/cpu.cfs_quota_us", ito__prim_root, folder, group);
    if (numbers_of(path, &us, &none) < 1)
        return UINT_MAX;
    snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/cpu.cfs_period_us", ito__prim_root, folder, group);
    return numbers_of(path, &period, &none) >= 1 ? cpus_of(us, period) : UINT_MAX;
}

/* A limit of any ancestor counts. Changes `group`. */
static unsigned quota_up(const char *folder, char *group, bool v2) {
    unsigned best = UINT_MAX;
    for (;;) {
        unsigned n = quota_of(folder, strcmp(group, "/") == 0 ? "" : group, v2);
        best = n < best ? n : best;
        char *slash = strrchr(group, '/');
        if (slash == NULL || group[0] == 0)
            return best;
        *slash = 0;
    }
}

/* Whether `cpu` is among the names, separated by commas; `cpuset` and `cpuacct` are others. */
static bool lists_cpu(const char *controllers) {
    for (const char *at = controllers; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == 3 && strncmp(at, "cpu", 3) == 0)
            return true;
    return false;
}

/* CPUs' worth of quota of the cgroups this process is in, rounded up; UINT_MAX: no quota. Lines are
 * "number:controllers:group", of cgroup v2 "0::group". */
static unsigned quota(void) {
    char line[PATH_MAX + 64], path[PATH_MAX];
    unsigned best = UINT_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", ito__prim_root);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return best;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = 0;
        controllers++;
        bool v2 = *controllers == 0;
        if (!v2 && !lists_cpu(controllers))
            continue;
        unsigned n = quota_up(v2 ? "" : "/cpu", group, v2);
        best = n < best ? n : best;
    }
    fclose(f);
    return best;
}

static cpu_set_t mask; /* as it was at the last ito_init */
static int n_mask;

/* The least of what the affinity mask and the cgroup's quota allow; at least 1. */
unsigned ito__prim_n_cpus(void) {
    int saved = errno;
    CPU_ZERO(&mask);
    n_mask = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 0;
    long online = n_mask > 0 ? n_mask : sysconf(_SC_NPROCESSORS_ONLN); /* > 1,024 CPUs: EINVAL. It reads a file */
    unsigned n = online > 0 ? (unsigned)online : 1;
    unsigned q = quota();
    errno = saved;
    n = q < n ? q : n;
    return n > 0 ? n : 1;
}

/* The k-th CPU of the mask, counted in a circle where there are more workers than CPUs; -1: not known. */
static int cpu_at(unsigned k) {
    if (n_mask <= 0)
        return -1;
    k %= (unsigned)n_mask;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &mask) && k-- == 0)
            return cpu;
    return -1;
}

void ito__prim_pin(unsigned k) {
    int cpu = cpu_at(k);
    if (cpu < 0)
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one); /* refused: run where the kernel likes */
}

unsigned ito__prim_node_of(unsigned k) {
    int cpu = cpu_at(k), saved = errno;
    char path[PATH_MAX];
    unsigned found = 0;
    /* The folder of a CPU holds a link `nodeN` to its NUMA node; without NUMA there is none, and all are node 0. */
    for (unsigned node = 0; cpu >= 0 && node < 64; node++) {
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/node%u", ito__prim_root, cpu, node);
        if (access(path, F_OK) == 0) {
            found = node;
            break;
        }
    }
    errno = saved;
    return found;
}
