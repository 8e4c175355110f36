/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The slices of functions and loops that a compiler plugin annotated: which are open in each thread, and which sites
 * are too short to be annotated.
 *
 * A thread's open slices are a stack; a token is the height of the stack with the slice on it. So an END closes what
 * was left open above it: a loop that longjmp() or an exception has left. Handlers of signals push and pop above what
 * they interrupt, so a place is claimed (depth raised) before it is filled, and emptied before it is given back.
 *
 * Each program and library has a copy of this file, and all copies of a process share the threads' stacks: an exception
 * of one library that another one catches leaves slices of both. The copies find each other by a note in each (`common`).
 *
 * Thinning. Each thread counts the executions of a site and sums their times, in windows of WINDOW executions. A window
 * whose mean is too short switches the site off for all threads and says so in the recording.
 */
#define _GNU_SOURCE
#include "auto.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define DEPTH_MAX 128
#define WINDOW 1000u
/* Frames further apart may be on different stacks: a handler's own, or that of a light thread. */
#define SAME_STACK (256u << 10)

struct open {
    struct kasuri_auto_site *site; /* of any module; null: claimed and not filled, or given back */
    uint64_t begun;                /* stamp */
    uintptr_t frame;               /* of the function that began it, stacks grow down */
};
/* Both are mapped, as memory comes from no allocator: the program's may itself be annotated. */
struct stack {
    uint32_t depth;
    uint32_t users; /* modules; freed by the last one's end_thread() */
    struct open open[DEPTH_MAX];
};
struct seen {
    uint32_t n;
    uint64_t ticks;
};

/* What the modules of a process share: made by the first that is loaded, and never freed. */
struct common {
    pthread_key_t stack; /* of each thread; nothing is called at its end, as that code may be unloaded */
};

extern struct kasuri_auto_site __start_kasuri_auto_sites[] __attribute__((weak, visibility("hidden")));
extern struct kasuri_auto_site __stop_kasuri_auto_sites[] __attribute__((weak, visibility("hidden")));

/* The offset of `common` in a note that the others' find_common() reads. The note's type, 1, is the version of `struct
 * common`, `struct stack` and `struct open`. */
struct common *kasuri__auto_common __attribute__((visibility("hidden"), used));
enum { NOTE_TYPE = 1 };
/* clang-format off */
__asm__(".pushsection .note.kasuri.auto, \"a\", %note\n"
        ".balign 4\n"
        ".long 7, 8, 1\n"
        ".asciz \"kasuri\"\n"
        ".balign 4\n"
        "0: .quad kasuri__auto_common - 0b\n"
        ".popsection\n");
/* clang-format on */
struct note {
    ElfW(Nhdr) head;
    char name[8];
    int64_t offset; /* from here */
} __attribute__((packed, aligned(4)));

static __thread struct stack *mine __attribute__((tls_model(KASURI_TLS_MODEL)));
static __thread struct seen *counts __attribute__((tls_model(KASURI_TLS_MODEL))); /* by the site's index */
static pthread_key_t key;                                                         /* of `counts` */
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

static size_t bytes_of_counts(void) {
    size_t n = (size_t)(__stop_kasuri_auto_sites - __start_kasuri_auto_sites);
    return (n ? n : 1) * sizeof(struct seen);
}

static void *map(size_t bytes) {
    void *made = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return made == MAP_FAILED ? 0 : made;
}

static void end_thread(void *ended) {
    struct stack *stack = mine;
    mine = 0;
    counts = 0;
    munmap(ended, bytes_of_counts());
    if (stack && --stack->users == 0) {
        pthread_setspecific(kasuri__auto_common->stack, 0);
        munmap(stack, sizeof *stack);
    }
}

/* A loaded module: what it has in common with those that are here already, if it has a note. */
static int look_at(struct dl_phdr_info *module, size_t bytes, void *found) {
    (void)bytes;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[i];
        uintptr_t at = module->dlpi_addr + part->p_vaddr, end = at + part->p_memsz;
        /* Notes of 8 bytes' alignment are others. */
        while (part->p_type == PT_NOTE && part->p_align <= 4 && end - at >= sizeof(ElfW(Nhdr))) {
            struct note *note = (struct note *)at;
            uint64_t size =
                sizeof note->head + ((note->head.n_namesz + 3ull) & ~3ull) + ((note->head.n_descsz + 3ull) & ~3ull);
            if (size > end - at)
                break;
            if (size == sizeof *note && note->head.n_type == NOTE_TYPE && !memcmp(note->name, "kasuri", 7) &&
                (*(struct common **)found = *(struct common **)((uintptr_t)&note->offset + (uintptr_t)note->offset)))
                return 1;
            at += size;
        }
    }
    return 0;
}

static struct common *find_common(void) {
    struct common *found = 0;
    if (dl_iterate_phdr(look_at, &found) || !(found = map(sizeof *found)))
        return found;
    if (pthread_key_create(&found->stack, 0) == 0)
        return found;
    munmap(found, sizeof *found);
    return 0;
}

static __attribute__((constructor(101))) void start(void) {
    const char *text = getenv("KASURI_ANNOTATE_MIN_NS");
    char *end = 0;
    unsigned long long min = text ? strtoull(text, &end, 10) : 0;
    if (text && *text >= '0' && *text <= '9' && !*end) /* anything else: as if it were not set */
        min_ns = min;
    first_tick = tick();
    first_ns = now_ns();
    has_key = pthread_key_create(&key, end_thread) == 0;
    kasuri__auto_common = find_common();
}

/* A library that is unloaded takes end_thread() with it: threads that have been in it and go on leave its counts. */
static __attribute__((destructor(101))) void stop(void) {
    if (has_key)
        pthread_key_delete(key);
    has_key = 0;
    if (counts)
        end_thread(counts);
}

/* This thread's stack; null: no memory, or the module's constructor has not run. A handler that comes in between makes its
 * own first, which is then kept. */
static __attribute__((cold, noinline)) struct stack *make_thread(void) {
    int saved = errno;
    struct common *common = kasuri__auto_common;
    struct stack *stack = common ? pthread_getspecific(common->stack) : 0;
    struct stack *known = stack;
    struct seen *made = common ? map(bytes_of_counts()) : 0;
    if (made && !stack)
        stack = map(sizeof *stack);
    if (made && stack && !mine) {
        stack->users++;
        counts = made;
        mine = stack;
        /* These may allocate, and the allocator may be annotated: `mine` is set, so that does not recur. */
        if (!known)
            pthread_setspecific(common->stack, stack);
        if (has_key)
            pthread_setspecific(key, made);
    } else {
        if (made)
            munmap(made, bytes_of_counts());
        if (stack && !known)
            munmap(stack, sizeof *stack);
    }
    errno = saved;
    return mine;
}

/* BEGIN or END with this stamp. */
static inline __attribute__((always_inline)) void emit(struct kasuri_site *site, uint32_t kind, uint64_t stamp) {
    uint32_t gate = kasuri__gate_load();
    int32_t id = site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : 0;
    if (gate == 0)
        return;
    if (KASURI__LIKELY(gate == 1 && KASURI__NATIVE))
        kasuri__emit1_at(site, id, kind, stamp);
    else
        kasuri__slow_at(site, id, kind | 1u << 8, 0, KASURI__NATIVE ? stamp : 0, 0, 0);
}

/* For people, and for what reads recordings (crates/model/src/switched_off.rs). */
static __attribute__((cold, noinline)) void say_off(const struct kasuri_auto_site *site, int is_before) {
    uint32_t mean_ns = __atomic_load_n(&site->mean_ns, __ATOMIC_RELAXED);
    if (is_before)
        KASURI_MESSAGE("%s: off since before this recording (mean %u ns)", site->site.name, mean_ns);
    else
        KASURI_MESSAGE("%s: %u seen, then off (mean %u ns)", site->site.name, WINDOW, mean_ns);
    KASURI_ARG_STR("kasuri.switched_off", site->site.name);
    KASURI_ARG_U64("kasuri.mean_ns", mean_ns);
    KASURI_ARG_U64("kasuri.is_before", is_before);
}

/* A recording that began after sites were switched off is told which, once. */
static __attribute__((cold, noinline)) void tell(uint32_t session) {
    struct kasuri_auto_site *s;
    if (__atomic_exchange_n(&told, session, __ATOMIC_RELAXED) == session)
        return;
    for (s = __start_kasuri_auto_sites; s < __stop_kasuri_auto_sites; s++)
        /* ORDER acquire; pairs with the release in judge(): mean_ns is that of the switch. */
        if (__atomic_load_n(&s->off, __ATOMIC_ACQUIRE))
            say_off(s, 1);
}

/* The window is full: is the site too short? */
static __attribute__((cold, noinline)) void judge(struct kasuri_auto_site *site, struct seen *seen) {
    uint64_t ns = now_ns() - first_ns, ticks = tick() - first_tick;
    struct seen window = *seen;
    if (ns < 10000) /* too early to know how long a tick is; the window goes on */
        return;
    *seen = (struct seen){0, 0};
    uint64_t mean_ns = (uint64_t)((double)window.ticks / window.n * ((double)ns / (double)ticks));
    if (mean_ns >= min_ns)
        return;
    /* Before the switch, as tell() reads it behind that; of two threads that come here at once, either's mean. */
    __atomic_store_n(&site->mean_ns, mean_ns < UINT32_MAX ? (uint32_t)mean_ns : UINT32_MAX, __ATOMIC_RELAXED);
    /* ORDER release; pairs with the acquire load in tell(). */
    if (!__atomic_exchange_n(&site->off, 1, __ATOMIC_RELEASE))
        say_off(site, 0);
}

/* Whether the site is of this module: others' names are not this one's to write. */
static int is_own(const struct kasuri_auto_site *site) {
    return site >= __start_kasuri_auto_sites && site < __stop_kasuri_auto_sites;
}

/* Closes the innermost slice at `stamp`. Its END has its name, so that a reader also ends what the program has left open by
 * hand above it. */
static inline __attribute__((always_inline)) void pop(struct stack *t, struct kasuri_site *name, uint64_t stamp) {
    t->open[t->depth - 1].site = 0;
    /* ORDER none in hardware; pairs with a handler of this thread, which fills the place once depth is lowered. */
    __asm__ volatile("" : : : "memory");
    t->depth--;
    emit(name, KASURI_EV_END, stamp);
}
static __attribute__((noinline)) void pop_left(struct stack *t, uint64_t stamp) {
    struct kasuri_auto_site *site = t->open[t->depth - 1].site;
    pop(t, is_own(site) ? &site->site : 0, stamp);
}

/* Slices end that the function above has left without a word: it was left by longjmp() or an exception to code that no
 * plugin compiled. Its frame is gone, as ours lies above it. */
static inline __attribute__((always_inline)) void heal(struct stack *t, uintptr_t here) {
    while (t->depth) {
        struct open *top = &t->open[t->depth - 1];
        if (KASURI__LIKELY(!top->site || top->frame >= here || here - top->frame > SAME_STACK))
            return;
        pop_left(t, tick());
    }
}

uint32_t kasuri_auto_begin(struct kasuri_auto_site *site) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct stack *t = mine;
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
    struct stack *t = mine;
    if (KASURI__UNLIKELY(!t || token > t->depth || t->open[token - 1].site != site))
        return;
    uint64_t stamp = tick();
    while (KASURI__UNLIKELY(t->depth > token))
        pop_left(t, stamp);
    uint64_t begun = t->open[token - 1].begun;
    pop(t, &site->site, stamp);
    struct seen *seen = &counts[site - __start_kasuri_auto_sites];
    seen->ticks += stamp - begun;
    if (KASURI__UNLIKELY(++seen->n >= WINDOW))
        judge(site, seen);
}

uint32_t kasuri_auto_depth(void) {
    /* Also where this module has begun nothing: those of others are counted. */
    struct stack *t = mine ? mine : make_thread();
    return t ? t->depth : 0;
}

void kasuri_auto_rewind(uint32_t depth) {
    struct stack *t = mine;
    if (!t || t->depth <= depth)
        return;
    for (uint64_t stamp = tick(); t->depth > depth;)
        pop_left(t, stamp);
}
