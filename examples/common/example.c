/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "example.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { THREADS_MAX = 1024 };

static const char *program_name = "example";

int example_cpus(void) {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0)
        return 1;
    return CPU_COUNT(&mask);
}

double example_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double example_cpu_seconds(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

void *example_alloc(size_t count, size_t bytes) {
    void *p = calloc(count ? count : 1, bytes);
    if (!p)
        example_fail("no memory for %zu objects of %zu bytes", count, bytes);
    return p;
}

void example_fail(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fflush(stdout);
    fprintf(stderr, "%s: error: ", program_name);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

uint64_t example_digest(uint64_t digest, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ p[i]) * 0x100000001b3ull;
    return digest;
}

static void usage_error(const char *what, const char *value) {
    fprintf(stderr, "%s: error: %s %s; see %s --help\n", program_name, what, value, program_name);
    exit(2);
}

static int parse_count(const char *option, const char *text, int max) {
    char *end;
    errno = 0;
    long n = text ? strtol(text, &end, 10) : 0;
    if (!text || errno || *end || end == text || n < 1 || n > max) {
        fprintf(stderr, "%s: error: %s needs a number from 1 to %d, not '%s'\n", program_name, option, max,
                text ? text : "");
        exit(2);
    }
    return (int)n;
}

static void print_help(const struct example *ex) {
    printf("%s: %s\n\nusage: %s [options]\n", ex->name, ex->about, ex->name);
    printf("  -t THREADS       threads (default: the CPUs this process may use, here %d)\n", example_cpus());
    printf("  -n N             %s (default %d)\n", ex->size_help, ex->size);
    printf("  --pin            keep thread i on the i-th CPU of the affinity mask\n");
    printf("  --check          exit with status 1 when the result is wrong\n");
    for (const struct example_flag *f = ex->flags; f && f->name; f++) {
        char option[64];
        snprintf(option, sizeof option, "%s %s", f->name, f->value ? f->value : "");
        printf("  %-16s %s\n", option, f->help);
    }
    printf("  --help           this text\n");
}

static const struct example_flag *find_flag(const struct example *ex, const char *name) {
    for (const struct example_flag *f = ex->flags; f && f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    usage_error("unknown option", name);
    return NULL;
}

void example_parse(struct example *ex, int argc, char **argv) {
    program_name = ex->name;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "-t")) {
            ex->threads = parse_count("-t", next, THREADS_MAX);
            i++;
        } else if (!strcmp(argv[i], "-n")) {
            ex->size = parse_count("-n", next, ex->size_max);
            i++;
        } else if (!strcmp(argv[i], "--pin")) {
            ex->pin = true;
        } else if (!strcmp(argv[i], "--check")) {
            ex->check = true;
        } else if (!strcmp(argv[i], "--help")) {
            print_help(ex);
            exit(0);
        } else {
            const struct example_flag *f = find_flag(ex, argv[i]);
            if (f->on)
                *f->on = true;
            if (!f->text)
                continue;
            if (!next)
                usage_error("no value after", f->name);
            *f->text = next;
            i++;
        }
    }
    if (ex->threads == 0)
        ex->threads = example_cpus();
}
