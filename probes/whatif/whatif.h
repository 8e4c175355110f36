/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Virtual speed-up: libkasuri-whatif.so, preloaded by `kasuri try --what-if`. Design: docs/design/whatif.md.
 *
 * Files: delay.c keeps each thread's delay, region.c finds the chosen slice or lock in the process, sync.c stands in
 * front of the functions by which threads wait for and wake each other. ../common/real.c finds the functions behind them.
 *
 * While a thread runs in the chosen region, each nanosecond of its CPU time puts `percent` hundredths of one on the
 * account of all others. A thread pays what it owes by sleeping, before it does what another thread can see.
 */
#ifndef KASURI_WHATIF_H
#define KASURI_WHATIF_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>

#define WHATIF_EXPORT __attribute__((visibility("default")))
#define WHATIF_HIDDEN __attribute__((visibility("hidden")))

/* Whether there is an experiment. Set once, by the constructor, before there is a second thread. */
extern int whatif_on WHATIF_HIDDEN;

/* delay.c. Thread: any. errno is left as it is. */
WHATIF_HIDDEN void whatif_start(unsigned percent);
/* The calling thread enters or leaves the region; calls nest. */
WHATIF_HIDDEN void whatif_enter(void);
WHATIF_HIDDEN void whatif_leave(void);
/* Sleep for what the calling thread owes: before anything that another thread may see. */
WHATIF_HIDDEN void whatif_pay(void);
/* Around a wait that another thread ends: what fell due in between counts as paid, since the thread that
 * ended the wait has slept for it. */
WHATIF_HIDDEN uint64_t whatif_before_wait(void);
WHATIF_HIDDEN void whatif_after_wait(uint64_t before);
/* A thread is born with the delay of the one that made it. */
WHATIF_HIDDEN int64_t whatif_delay(void);
WHATIF_HIDDEN void whatif_born(int64_t delay);
WHATIF_HIDDEN void whatif_dies(void);
/* The sums of the process, with what the calling thread has left to pay paid. */
struct whatif_sums {
    uint64_t entries;   /* times that a thread entered the region */
    uint64_t region_ns; /* CPU time in it */
    uint64_t slept_ns;  /* delays that threads slept */
    int64_t delay_ns;   /* by how much the calling thread is later than it would be */
    uint64_t unpaid;    /* payments that were given up after WHATIF_PATIENCE_NS */
};
WHATIF_HIDDEN struct whatif_sums whatif_sums(void);

/* region.c */
/* Finds what KASURI_WHATIF names. Return: the number of gates found for a slice, of addresses for a lock. */
WHATIF_HIDDEN unsigned whatif_find(const char *what);
WHATIF_HIDDEN int whatif_is_chosen(const void *lock);

#endif
