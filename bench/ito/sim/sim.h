/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sim.h - what the parts of bench/ito/sim share: costs of a machine, workloads, policies, and what a run is counted by. */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds, measured on this machine by costs.c. */
struct costs {
    double task;        /* creation, end and join of a thread on one worker */
    double line;        /* a cache line that another CPU has written */
    double pause;       /* one cpu_relax() */
    double membarrier;  /* the call, while no other thread of the process runs */
    double per_cpu;     /* more, for each other CPU that runs the process */
    double interrupted; /* what the call takes from each such CPU */
    double wake;        /* futex wake: the caller */
    double latency;     /* futex wake: until the woken one runs on a CPU that was idle */
};

/* `phases` times: `serial` ns on one worker, then a tree of `leaves` leaves of `leaf` ns, each node a thread; or, flat,
 * a loop that creates so many threads. */
struct workload {
    const char *name;
    bool flat;
    unsigned phases, leaves;
    double serial, leaf;
};

/* What a scheduler does; ito's own has none of these. */
struct policy {
    const char *name;
    bool all_look;    /* each worker that parks asks all, has a membarrier, and looks at all; else the last to search */
    bool locks_empty; /* a forced round takes the lock of each deque, also of those that look empty */
    bool ask_is_hot;  /* the request lies in the line that its owner writes at each creation */
    bool one_barrier; /* a forced round raises all limits, has one membarrier, then looks */
    bool capped;      /* no more workers search than half of those that run */
    bool two_by_two;  /* a worker that has found something, and left some, wakes another though others search */
    bool impatient;   /* searches for SPIN; else as long as the last membarrier took, if that is longer */
    bool steals_half; /* a thief takes half of what is public */
};

struct counts {
    double wall, cpu; /* ns */
    uint64_t steals, forced, parks, membarriers, wakes;
};

void measure_costs(struct costs *c);
struct counts simulate(const struct costs *c, const struct workload *load, const struct policy *policy,
                       unsigned workers, unsigned cpus, uint64_t seed);
struct counts run_real(const struct workload *load, unsigned workers);

#endif
