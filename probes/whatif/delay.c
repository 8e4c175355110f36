/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each thread's delay: by how much it is later than it would be if the region took less time.
 *
 * `due` is the sum of all that threads saved in the region. A thread's `paid` is what it has slept, what it saved
 * itself, and what fell due while it waited for another thread. At each moment that another thread can see, paid == due
 * up to WHATIF_LEAST_NS, so the order of these moments is that of the faster program, and its time is the real one less
 * `due`.
 *
 * A thread in the region reports nothing: a thread that asks what it owes reads the CPU clocks of all threads in the region
 * now (settle). So there is no timer and no signal, and a thread that is preempted or blocked in the region saves
 * nothing.
 *
 * Rejected: delays at the region's end only. A thread that comes to a barrier while another is halfway through the
 * region would be charged nothing before it waits, and all of it would be credited to its wait.
 *
 * Source: C. Curtsinger, E. Berger, "Coz: Finding Code that Counts with Causal Profiling" (SOSP 2015), which samples.
 */
#include "whatif.h"

#include "real.h"

#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#define WHATIF_MEMBERS 1024u /* threads that are alive at once; one more runs undelayed */
/* Below this a thread sleeps no nap: waking takes the kernel about as long. What is left is paid later. */
#define WHATIF_LEAST_NS 50000
/* A thread that spins in the region until the payer has come would let it pay for ever. */
#define WHATIF_PATIENCE_NS 2000000000ll

/* Written by the thread itself, and by settle() where `inside`; all under the lock, but for `used`. */
struct member {
    uint32_t used; /* taken by compare-and-swap */
    uint32_t inside;
    clockid_t clock;
    uint64_t mark; /* its CPU time when it was settled last */
    int64_t paid;
};

static struct member members[WHATIF_MEMBERS];
static uint32_t n_members; /* those below it were used at least once */
static uint32_t n_inside;  /* hint for the short way of whatif_pay() */
static uint64_t due, region_ns, slept_ns, entries, unpaid, clock_cost;
static unsigned percent;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* `busy`: the thread is in here, and a signal handler of it that comes again is sent away. */
static __thread struct {
    struct member *member;
    uint32_t busy, nested;
} self __attribute__((tls_model("initial-exec")));

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void acquire(void) {
    self.busy++;
    RESOLVED(pthread_mutex_lock)(&lock);
}
static void release(void) {
    RESOLVED(pthread_mutex_unlock)(&lock);
    self.busy--;
}

/* Give the calling thread an account. Under the lock. */
static struct member *member(void) {
    if (self.member)
        return self.member;
    for (uint32_t i = 0; i < WHATIF_MEMBERS; i++)
        if (!members[i].used) {
            struct member *m = &members[i];
            m->used = 1;
            m->inside = 0;
            m->paid = (int64_t)due;
            if (pthread_getcpuclockid(pthread_self(), &m->clock) != 0)
                m->clock = CLOCK_THREAD_CPUTIME_ID;
            if (i >= n_members)
                n_members = i + 1;
            /* Else the kernel lets each nap take 50 us longer. */
            prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
            return self.member = m;
        }
    return 0;
}

/* What `m` saved since it was settled last. Under the lock. `cost`: what reading the clock adds to a whole visit. */
static void settle_one(struct member *m, uint64_t cost) {
    uint64_t cpu = now(m->clock), ns, saved;
    if (cpu <= m->mark)
        return;
    ns = cpu - m->mark;
    m->mark = cpu;
    ns -= ns < cost ? ns : cost;
    saved = ns * percent / 100;
    region_ns += ns;
    due += saved;
    m->paid += (int64_t)saved;
}
static void settle(void) {
    if (!n_inside)
        return;
    for (uint32_t i = 0; i < n_members; i++)
        if (members[i].inside)
            settle_one(&members[i], 0);
}

void whatif_start(unsigned hundredths) {
    percent = hundredths;
    clock_cost = UINT64_MAX;
    /* The least of several: what two looks in a row differ by. */
    for (int i = 0; i < 50; i++) {
        uint64_t first = now(CLOCK_THREAD_CPUTIME_ID), cost = now(CLOCK_THREAD_CPUTIME_ID) - first;
        if (cost < clock_cost)
            clock_cost = cost;
    }
}

void whatif_enter(void) {
    int saved = errno;
    struct member *m;
    if (self.busy || self.nested++)
        return;
    acquire();
    m = member();
    if (m) {
        entries++;
        n_inside++;
        m->inside = 1;
        m->mark = now(m->clock);
    }
    release();
    errno = saved;
}

void whatif_leave(void) {
    int saved = errno;
    struct member *m = self.member;
    if (self.busy || !self.nested || --self.nested || !m)
        return;
    acquire();
    settle_one(m, clock_cost);
    m->inside = 0;
    n_inside--;
    release();
    errno = saved;
}

void whatif_pay(void) {
    int saved = errno;
    int64_t begun = 0;
#ifdef WHATIF_CONTROL_NO_PAY /* a control of the tests */
    return;
#endif
    if (self.busy)
        return;
    for (;;) {
        struct member *m;
        int64_t owed;
        struct timespec nap;
        uint64_t from, to;
        acquire();
        settle();
        m = member();
        owed = m ? (int64_t)due - m->paid : 0;
        if (begun && owed >= WHATIF_LEAST_NS && (int64_t)now(CLOCK_MONOTONIC) - begun > WHATIF_PATIENCE_NS) {
            unpaid++;
            owed = 0;
        }
        release();
        if (owed < WHATIF_LEAST_NS)
            break;
        nap = (struct timespec){owed / 1000000000, owed % 1000000000};
        from = now(CLOCK_MONOTONIC);
        if (!begun)
            begun = (int64_t)from;
        /* A signal ends the nap early: then the rest is owed. No cancellation point: the program has none here. */
        self.busy++;
        {
            int state;
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
            nanosleep(&nap, 0);
            pthread_setcancelstate(state, &state);
        }
        self.busy--;
        to = now(CLOCK_MONOTONIC);
        acquire();
        m->paid += (int64_t)(to - from);
        slept_ns += to - from;
        release();
    }
    errno = saved;
}

uint64_t whatif_before_wait(void) {
    uint64_t before;
    int saved = errno;
    if (self.busy)
        return 0;
    acquire();
    settle();
    before = due;
    release();
    errno = saved;
    return before;
}

void whatif_after_wait(uint64_t before) {
    int saved = errno;
    struct member *m;
#ifdef WHATIF_CONTROL_NO_CREDIT /* a control of the tests */
    return;
#endif
    if (self.busy)
        return;
    acquire();
    settle();
    m = member();
    if (m)
        m->paid += (int64_t)(due - before);
    release();
    errno = saved;
}

int64_t whatif_delay(void) {
    struct member *m;
    int64_t delay;
    acquire();
    m = member();
    delay = m ? m->paid : (int64_t)due;
    release();
    return delay;
}

void whatif_born(int64_t delay) {
    struct member *m;
    acquire();
    m = member();
    if (m)
        m->paid = delay;
    release();
}

/* The account is free for another thread. */
void whatif_dies(void) {
    struct member *m = self.member;
    if (!m || self.busy)
        return;
    if (self.nested) {
        self.nested = 1;
        whatif_leave();
    }
    acquire();
    m->used = 0;
    self.member = 0;
    release();
}

struct whatif_sums whatif_sums(void) {
    struct whatif_sums sums;
    struct member *m;
    acquire();
    settle();
    m = member();
    sums = (struct whatif_sums){entries, region_ns, slept_ns, m ? m->paid : (int64_t)due, unpaid};
    release();
    return sums;
}
