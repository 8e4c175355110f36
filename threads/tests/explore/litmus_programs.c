/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The explorer against programs whose answers are known: the litmus tests of the literature (J. Alglave et al., "Herding
 * cats", TOPLAS 2014; M. Batty et al., "Mathematizing C++ concurrency", POPL 2011). What C11 forbids must never be seen.
 * What it allows must be found; those programs say so by ending with "reached", and the test wants that. `lb` is allowed
 * by C11 and not found: a limit, README.md.
 */
#include "explore.h"

#include "prim/atomic.h"

static struct {
    uint32_t x, y, flag, *at;
    unsigned data; /* plain */
} * m;

static void start(void) {
    m = explore_alloc(sizeof *m);
    explore_region(&m, sizeof m);
    explore_constant(&m);
    EXPLORE_FIELD(m->x);
    EXPLORE_FIELD(m->y);
    EXPLORE_FIELD(m->flag);
    EXPLORE_FIELD(m->at);
}

/* What thread t has read, 0 to 255. */
static void result(unsigned i, uint32_t value) {
    *explore_book(i) = (uint8_t)value;
}
static bool results_are(unsigned a, unsigned b) {
    return *explore_book(0) == a && *explore_book(1) == b;
}
static const char *nothing(void) {
    return NULL;
}

/* -- message passing: a flag publishes plain data -- */

static void mp(unsigned t) {
    if (t == 0) {
        m->data = 1;
        store_release(&m->flag, 1);
    } else if (load_acquire(&m->flag) && m->data != 1) {
        explore_fail("old data");
    }
}
static void mp_relaxed_store(unsigned t) {
    if (t == 0) {
        m->data = 1;
        store_relaxed(&m->flag, 1);
    } else if (load_acquire(&m->flag) && m->data != 1) {
        explore_fail("old data");
    }
}
static void mp_relaxed_load(unsigned t) {
    if (t == 0) {
        m->data = 1;
        store_release(&m->flag, 1);
    } else if (load_relaxed(&m->flag) && m->data != 1) {
        explore_fail("old data");
    }
}
static void mp_fences(unsigned t) {
    if (t == 0) {
        m->data = 1;
        fence_seq_cst();
        store_relaxed(&m->flag, 1);
    } else if (load_relaxed(&m->flag)) {
        fence_seq_cst();
        if (m->data != 1)
            explore_fail("old data");
    }
}
/* A third thread's relaxed read-modify-write continues the release sequence. */
static void mp_release_sequence(unsigned t) {
    if (t == 0) {
        m->data = 1;
        store_release(&m->flag, 1);
    } else if (t == 1) {
        __atomic_fetch_add(&m->flag, 2, __ATOMIC_RELAXED);
    } else if (load_acquire(&m->flag) == 3 && m->data != 1) {
        explore_fail("old data");
    }
}
static void two_plain_writes(unsigned t) {
    m->data = t;
}

/* -- a word in a frame: made plainly, published, then used atomically by another -- */

static void frame(unsigned t, bool ordered) {
    uint32_t word = 0, *at;
    if (t == 0) {
        if (ordered)
            store_release(&m->at, &word);
        else
            store_relaxed(&m->at, &word);
        while (load_acquire(&m->flag) == 0) {
        }
    } else {
        while ((at = load_acquire(&m->at)) == NULL) {
        }
        __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL);
        store_release(&m->flag, 1);
    }
}
static void frame_released(unsigned t) {
    frame(t, true);
}
static void frame_relaxed(unsigned t) {
    frame(t, false);
}

/* -- store buffering: each writes one, then reads the other's -- */

static void sb(unsigned t) {
    store_release(t == 0 ? &m->x : &m->y, 1);
    result(t, load_acquire(t == 0 ? &m->y : &m->x));
}
static void sb_fences(unsigned t) {
    store_relaxed(t == 0 ? &m->x : &m->y, 1);
    fence_seq_cst();
    result(t, load_relaxed(t == 0 ? &m->y : &m->x));
}
static void sb_one_fence(unsigned t) {
    store_relaxed(t == 0 ? &m->x : &m->y, 1);
    if (t == 0)
        fence_seq_cst();
    result(t, load_relaxed(t == 0 ? &m->y : &m->x));
}
/* The other thread's fence is run by the kernel. */
static void sb_membarrier(unsigned t) {
    store_relaxed(t == 0 ? &m->x : &m->y, 1);
    if (t == 0)
        explore_fence_on(1);
    result(t, load_relaxed(t == 0 ? &m->y : &m->x));
}
static const char *both_old(void) {
    return results_are(0, 0) ? "reached: both read the old value" : NULL;
}

/* -- coherence, read-modify-writes, and what is not modelled -- */

static void corr(unsigned t) {
    if (t == 0) {
        store_relaxed(&m->x, 1);
        store_relaxed(&m->x, 2);
    } else {
        result(0, load_relaxed(&m->x));
        result(1, load_relaxed(&m->x));
    }
}
static const char *read_backwards(void) {
    return results_are(2, 1) || results_are(2, 0) || results_are(1, 0) ? "reached: a field was read backwards" : NULL;
}
static void add(unsigned t) {
    (void)t;
    __atomic_fetch_add(&m->x, 1, __ATOMIC_RELAXED);
}
static const char *added(void) {
    return m->x == 2 ? NULL : "an addition was lost";
}
static void lb(unsigned t) {
    result(t, load_relaxed(t == 0 ? &m->x : &m->y));
    store_relaxed(t == 0 ? &m->y : &m->x, 1);
}
static const char *both_new(void) {
    return results_are(1, 1) ? "reached: both read the other's later store" : NULL;
}

/* -- independent reads of independent writes: do two readers agree on the order of two writers? -- */

static void iriw(unsigned t) {
    if (t < 2) {
        store_release(t == 0 ? &m->x : &m->y, 1);
        return;
    }
    uint32_t first = load_acquire(t == 2 ? &m->x : &m->y), second = load_acquire(t == 2 ? &m->y : &m->x);
    result(t - 2, first * 2 + second);
}
static void iriw_fences(unsigned t) {
    if (t < 2) {
        store_relaxed(t == 0 ? &m->x : &m->y, 1);
        return;
    }
    uint32_t first = load_relaxed(t == 2 ? &m->x : &m->y);
    fence_seq_cst();
    uint32_t second = load_relaxed(t == 2 ? &m->y : &m->x);
    result(t - 2, first * 2 + second);
}
static const char *disagree(void) {
    return results_are(2, 2) ? "reached: the readers disagree" : NULL;
}

/* -- futex -- */

static void futex(unsigned t) {
    if (t == 0) {
        while (load_acquire(&m->flag) == 0)
            explore_wait(&m->flag, 0);
    } else {
        store_release(&m->flag, 1);
        explore_wake(&m->flag, 1);
    }
}
static void futex_without_wake(unsigned t) {
    if (t == 0)
        futex(0);
    else
        store_release(&m->flag, 1);
}
static const char *asleep(void) {
    return explore_is_done(0) ? NULL : "reached: a thread sleeps for ever";
}

/* -- a loop that waits, for a value that a membarrier shows it -- */

static void spin_membarrier(unsigned t) {
    if (t == 0) {
        while (load_relaxed(&m->flag) == 0) {
        }
    } else {
        store_relaxed(&m->flag, 1);
        explore_fence_on(0);
    }
}

const struct explore_program explore_programs[] = {
    {"mp", 2, start, mp, nothing},
    {"mp_relaxed_store", 2, start, mp_relaxed_store, nothing},
    {"mp_relaxed_load", 2, start, mp_relaxed_load, nothing},
    {"mp_fences", 2, start, mp_fences, nothing},
    {"mp_release_sequence", 3, start, mp_release_sequence, nothing},
    {"two_plain_writes", 2, start, two_plain_writes, nothing},
    {"frame_released", 2, start, frame_released, nothing},
    {"frame_relaxed", 2, start, frame_relaxed, nothing},
    {"sb", 2, start, sb, both_old},
    {"sb_fences", 2, start, sb_fences, both_old},
    {"sb_one_fence", 2, start, sb_one_fence, both_old},
    {"sb_membarrier", 2, start, sb_membarrier, both_old},
    {"corr", 2, start, corr, read_backwards},
    {"add", 2, start, add, added},
    {"lb", 2, start, lb, both_new},
    {"iriw", 4, start, iriw, disagree},
    {"iriw_fences", 4, start, iriw_fences, disagree},
    {"futex", 2, start, futex, asleep},
    {"futex_without_wake", 2, start, futex_without_wake, asleep},
    {"spin_membarrier", 2, start, spin_membarrier, asleep},
    {0},
};
