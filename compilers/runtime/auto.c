/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The slices of functions and loops that a compiler plugin annotated: which are open in each thread, and which sites
 * are too short to be annotated.
 *
 * A thread's open slices are a stack; a token is the height of the stack with the slice on it. So an END closes what
 * was left open above it: a loop that longjmp() or an exception has left. Handlers of signals push and pop above what
 * they interrupt, so a place is claimed (depth raised) before it is filled, and emptied before it is given back.
 *
 * Thinning. Each thread counts the executions of a site and sums their times, in windows of WINDOW executions. A window
 * whose mean is too short switches the site off for all threads and says so in the recording.
 */
#define _GNU_SOURCE
#include "auto.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define DEPTH_MAX 128
#define WINDOW 1000u
/* Frames further apart may be on different stacks: a handler's own, or that of a light thread. */
#define SAME_STACK (256u << 10)

struct open {
    struct kasuri_auto_site *site; /* null: claimed and not filled, or given back */
    uint64_t begun;                /* stamp */
    uintptr_t frame;               /* of the function that began it, stacks grow down */
};
struct seen {
    uint32_t n;
    uint64_t ticks;
};
/* One mapping a thread, as memory comes from no allocator: the program's may itself be annotated. */
struct thread {
    uint32_t depth;
    uint32_t has_key; /* freed at the thread's end */
    struct open open[DEPTH_MAX];
    struct seen seen[]; /* by the site's index */
};

extern struct kasuri_auto_site __start_kasuri_auto_sites[] __attribute__((weak, visibility("hidden")));
extern struct kasuri_auto_site __stop_kasuri_auto_sites[] __attribute__((weak, visibility("hidden")));

static __thread struct thread *mine __attribute__((tls_model(KASURI_TLS_MODEL)));
static pthread_key_t key;
static int has_key;
static uint64_t min_ns = 1000;
/* The moment that ticks are compared with; and the number of the session whose recording has been told what is off. */
static uint64_t first_tick, first_ns;
static uint32_t told;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t tick(void) {
    return KASURI__NATIVE ? kasuri__stamp() : now_ns();
}

static uint64_t bytes_of_thread(void) {
    uint64_t n = (uint64_t)(__stop_kasuri_auto_sites - __start_kasuri_auto_sites);
    return sizeof(struct thread) + n * sizeof(struct seen);
}

static void end_thread(void *ended) {
    mine = 0;
    munmap(ended, bytes_of_thread());
}

static __attribute__((constructor(101))) void start(void) {
    const char *min = getenv("KASURI_ANNOTATE_MIN_NS");
    if (min)
        min_ns = strtoull(min, 0, 10);
    first_tick = tick();
    first_ns = now_ns();
    has_key = pthread_key_create(&key, end_thread) == 0;
}

/* A library that is unloaded takes end_thread() with it: threads that end later leave their memory. */
static __attribute__((destructor(101))) void stop(void) {
    if (has_key)
        pthread_key_delete(key);
    has_key = 0;
}

/* This thread's; null: no memory. A handler that comes in between makes its own first, which is then kept. */
static __attribute__((cold, noinline)) struct thread *make_thread(void) {
    int saved = errno;
    struct thread *made = mmap(0, bytes_of_thread(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        made = 0;
    if (mine) {
        if (made)
            munmap(made, bytes_of_thread());
        made = mine;
    }
    mine = made;
    /* pthread_setspecific may allocate, and its allocator may be annotated: `mine` is set, so that does not recur. */
    if (made && has_key && !made->has_key) {
        made->has_key = 1;
        pthread_setspecific(key, made);
    }
    errno = saved;
    return made;
}

/* BEGIN or END with this stamp: kasuri__emit1 with the caller's stamp in place of the present time. */
static inline __attribute__((always_inline)) void emit(struct kasuri_site *site, uint32_t kind, uint64_t stamp) {
    uint32_t gate = kasuri__gate_load();
    int32_t id = site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0;
    struct kasuri__writer *w = kasuri__writer;
    uint64_t pos = 0;
    if (gate == 0)
        return;
    kind |= 1u << 8;
    if (KASURI__LIKELY(gate == 1 && id >= !!site && w && KASURI__NATIVE)) {
        pos = kasuri__reserve(w, 16);
        if (KASURI__LIKELY(kasuri__fits(w, pos, 16))) {
            uint64_t *slot = kasuri__slot(pos);
            kasuri__word1(slot, kind, id);
            kasuri__commit(slot, stamp);
            return;
        }
    }
    kasuri__slow_at(site, id, kind, pos, KASURI__NATIVE ? stamp : 0, 0, 0);
}

/* ORDER relaxed for `off`: a stale 0 costs one more event. */
static int is_off(const struct kasuri_auto_site *site) {
    return __atomic_load_n(&site->off, __ATOMIC_RELAXED) != 0;
}

/* A recording that began after sites were switched off is told which, once. */
static __attribute__((cold, noinline)) void tell(uint32_t session) {
    struct kasuri_auto_site *s;
    if (__atomic_exchange_n(&told, session, __ATOMIC_RELAXED) == session)
        return;
    for (s = __start_kasuri_auto_sites; s < __stop_kasuri_auto_sites; s++)
        if (is_off(s))
            KASURI_MESSAGE("%s: off since before this recording (too short to be annotated)", s->site.name);
}

/* The window is full: is the site too short? */
static __attribute__((cold, noinline)) void judge(struct kasuri_auto_site *site, struct seen *seen) {
    uint64_t ns = now_ns() - first_ns, ticks = tick() - first_tick;
    struct seen window = *seen;
    if (ns < 10000) /* too early to know how long a tick is; the window goes on */
        return;
    *seen = (struct seen){0, 0};
    uint64_t mean_ns = (uint64_t)((double)window.ticks / window.n * ((double)ns / (double)ticks));
    if (mean_ns < min_ns && !__atomic_exchange_n(&site->off, 1, __ATOMIC_RELAXED))
        KASURI_MESSAGE("%s: %u seen, then off (mean %llu ns)", site->site.name, window.n, (unsigned long long)mean_ns);
}

/* Closes the innermost slice at `stamp`. */
static inline __attribute__((always_inline)) void pop(struct thread *t, uint64_t stamp) {
    t->open[t->depth - 1].site = 0;
    /* ORDER none in hardware; pairs with a handler of this thread, which fills the place once depth is lowered. */
    __asm__ volatile("" : : : "memory");
    t->depth--;
    emit(0, KASURI_EV_END, stamp);
}

/* Slices end that the function above has left without a word: it was left by longjmp() or an exception to code that no
 * plugin compiled. Its frame is gone, as ours lies above it. */
static inline __attribute__((always_inline)) void heal(struct thread *t, uintptr_t here) {
    while (t->depth) {
        struct open *top = &t->open[t->depth - 1];
        if (KASURI__LIKELY(!top->site || top->frame >= here || here - top->frame > SAME_STACK))
            return;
        pop(t, tick());
    }
}

uint32_t kasuri_auto_begin(struct kasuri_auto_site *site) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct thread *t = mine;
    if (KASURI__UNLIKELY(!t && !(t = make_thread())))
        return 0;
    if (KASURI__UNLIKELY(__atomic_load_n(&told, __ATOMIC_RELAXED) != kasuri__process.epoch))
        tell(kasuri__process.epoch);
    heal(t, here);
    uint32_t at = t->depth;
    if (KASURI__UNLIKELY(at >= DEPTH_MAX)) {
        static uint32_t said;
        if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
            KASURI_MESSAGE("slices of functions and loops more than %d deep are not recorded", DEPTH_MAX);
        return 0;
    }
    t->depth = at + 1;
    /* ORDER none in hardware; pairs with a handler of this thread, which fills places above depth. */
    __asm__ volatile("" : : : "memory");
    uint64_t stamp = tick();
    emit(&site->site, KASURI_EV_BEGIN, stamp);
    t->open[at].frame = here;
    t->open[at].begun = stamp;
    t->open[at].site = site;
    return at + 1;
}

void kasuri_auto_end(struct kasuri_auto_site *site, uint32_t token) {
    struct thread *t = mine;
    if (KASURI__UNLIKELY(!t || token > t->depth || t->open[token - 1].site != site))
        return;
    uint64_t stamp = tick();
    while (KASURI__UNLIKELY(t->depth > token))
        pop(t, stamp);
    uint64_t begun = t->open[token - 1].begun;
    pop(t, stamp);
    struct seen *seen = &t->seen[site - __start_kasuri_auto_sites];
    seen->ticks += stamp - begun;
    if (KASURI__UNLIKELY(++seen->n >= WINDOW))
        judge(site, seen);
}

uint32_t kasuri_auto_depth(void) {
    return mine ? mine->depth : 0;
}

void kasuri_auto_rewind(uint32_t depth) {
    struct thread *t = mine;
    if (!t || t->depth <= depth)
        return;
    for (uint64_t stamp = tick(); t->depth > depth;)
        pop(t, stamp);
}
