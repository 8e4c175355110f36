/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that are annotated with ITT and NVTX, and what the collector should make of them. */
#ifndef KASURI_TESTS_PROGRAM_H
#define KASURI_TESTS_PROGRAM_H

struct program {
    const char *name;
    int (*run)(void);     /* 0: its own checks hold */
    const char *expected; /* events of its first thread; null: none is looked for */
};
extern const struct program programs[];
extern const unsigned n_programs;

#endif
