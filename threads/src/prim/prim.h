/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What libito needs from the operating system. Linux only; each function may be called by any kernel thread. */
#ifndef ITO_PRIM_H
#define ITO_PRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed pages, committed when touched, never as huge pages. Null: no memory. `bytes` is a multiple of the page
 * size. */
void *ito__prim_map(size_t bytes);
void ito__prim_unmap(void *at, size_t bytes);
/* Make [at, at+bytes) fault, by a mapping of its own or by markers in the page table: whichever is asked for, else the
 * other. False: neither is possible. */
bool ito__prim_guard(void *at, size_t bytes, bool by_mapping);
size_t ito__prim_page(void);
/* Bytes of address space that this process may have (RLIMIT_AS). */
size_t ito__prim_address_limit(void);
/* Of the context that a signal handler got: the instruction that it interrupted; null on other CPUs. For handlers. */
const void *ito__prim_interrupted(const void *context);

/* Sleep while *word == value; at most ns (UINT64_MAX: for ever). Spurious returns allowed. */
void ito__prim_wait(uint32_t *word, uint32_t value, uint64_t ns);
/* The same, for a lock that is held for some instructions. Whoever sees this thread sleep in the kernel, with this in the
 * sixth argument of its system call, knows that it is inside of ito (../pthread/look.c). */
void ito__prim_wait_briefly(uint32_t *word, uint32_t value);
#define ITO__BRIEFLY 0x69746fu
void ito__prim_wake(uint32_t *word, int n);

/* A full memory barrier on every running thread of the process, at some moment during the call; threads that do not run
 * have had one when they were switched away. False: this kernel has none. */
bool ito__prim_membarrier_setup(void);
bool ito__prim_membarrier(void);

/* Of this process; 0: not known. */
unsigned ito__prim_n_kernel_threads(void);
/* Whether code of the program runs when a signal comes that is not told of a fault. */
bool ito__prim_handles_signals(void);

uint64_t ito__prim_now(void); /* CLOCK_MONOTONIC, ns */
/* The same as of the kernel's last tick, some milliseconds ago at most: a tenth of the cost. */
uint64_t ito__prim_tick(void);
void ito__prim_yield(void);
uint32_t ito__prim_random(void);

/* How many CPUs this process may use: the affinity mask, cut to the cgroup's quota (rounded up). At least 1. */
unsigned ito__prim_n_cpus(void);
/* Bind the calling kernel thread to the k-th CPU of the mask (modulo its size). */
void ito__prim_pin(unsigned k);
/* NUMA node of the k-th CPU of the mask; 0 when there is one or it is unknown. */
unsigned ito__prim_node_of(unsigned k);
/* Lowest address of the calling kernel thread's stack that is safe to use; null when unknown. */
char *ito__prim_stack_low(void);
void ito__prim_name_thread(unsigned index);

/* Tests: fail the n-th mapping from now on (0: none, then once; negative: every one from the -n-th on). */
extern int64_t ito__prim_fail_map;
/* Tests: a directory that stands for /, where topology.c looks for /proc and /sys. */
extern const char *ito__prim_root;

#endif
