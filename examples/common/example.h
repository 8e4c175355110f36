/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by the example programs: command line, clock, result line, and memory that is there or ends
 * the program. Nothing here is needed to use Kasuri.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An option of one program only. `on` is set by the bare option, `text` takes the next argument. */
struct example_flag {
    const char *name;  /* with its dashes */
    const char *value; /* name of its value in --help; NULL for a bare option */
    const char *help;
    bool *on;
    const char **text;
};

/* Every program's options, filled with its defaults before example_parse(). */
struct example {
    const char *name;
    const char *about;                /* one line for --help */
    const char *size_help;            /* what -n counts */
    int size;                         /* -n */
    int size_max;                     /* largest -n that is accepted */
    int threads;                      /* -t; 0: the number of CPUs in the affinity mask */
    bool pin;                         /* --pin */
    bool check;                       /* --check */
    const struct example_flag *flags; /* ends with a NULL name; may be NULL */
};

/** example_parse - read the command line. Exits with 0 after --help and with 2 on a wrong option. */
void example_parse(struct example *ex, int argc, char **argv);

/** example_cpus - number of CPUs this process may use. */
int example_cpus(void);

/** example_seconds - CLOCK_MONOTONIC, s. */
double example_seconds(void);

/** example_cpu_seconds - user and system time of all threads of this process so far, s. */
double example_cpu_seconds(void);

/** example_alloc - @count zeroed objects of @bytes each; ends the program when there is no memory. */
void *example_alloc(size_t count, size_t bytes);

/** example_fail - print "NAME: error: ..." and exit with 1. */
void example_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/** example_worse - the larger of two errors, neither below 0; NaN if one of them is, which fmax() would leave out. */
static inline double example_worse(double a, double b) {
    return a > b || a != a ? a : b;
}

/** example_digest - 64-bit FNV-1a of @bytes bytes, continued from @digest; start with EXAMPLE_DIGEST_START. */
uint64_t example_digest(uint64_t digest, const void *data, size_t bytes);
#define EXAMPLE_DIGEST_START 0xcbf29ce484222325ull

/** example_random - next number of a splitmix64 sequence; the same on every machine. */
static inline uint64_t example_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

#endif /* EXAMPLE_H */
