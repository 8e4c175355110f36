/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Barriers, critical sections, atomic regions that need a lock, and ordered, of libgomp.
 *
 * A critical section is a lock, its hold the section. libgomp has no try for it, so before the call it is looked at
 * whether the lock is free: if it is, the hold is recorded without a request, as LOCK_TAKEN. If another thread comes
 * between the look and the call, that one wait is not recorded. A section with a name has its lock in the program's
 * variable .gomp_critical_user_NAME, an int that is not 0 while it is taken (checked once, below). Those without, and
 * atomic regions, have one lock inside libgomp for each of the two kinds: `held` says whether one of our threads has it.
 *
 * An ordered block waits for its turn and then runs: a request and a hold each time. Its lock is the place in the code.
 */
#include "openmp.h"

#include <string.h>

/* -- barriers -- */

void GOMP_barrier(void) {
    uint64_t object;
    if (!openmp_gomp_on()) {
        REAL(GOMP_barrier)();
        return;
    }
    object = openmp_barrier_of(openmp_self.team);
    openmp_wait(openmp_place(OPENMP_CALLER(), OPENMP_BARRIER), KASURI_WAIT_BARRIER, object);
    REAL(GOMP_barrier)();
    openmp_waited(KASURI_WAIT_BARRIER, object);
}
bool GOMP_barrier_cancel(void) {
    uint64_t object;
    bool is_cancelled;
    if (!openmp_gomp_on())
        return REAL(GOMP_barrier_cancel)();
    object = openmp_barrier_of(openmp_self.team);
    openmp_wait(openmp_place(OPENMP_CALLER(), OPENMP_BARRIER), KASURI_WAIT_BARRIER, object);
    is_cancelled = REAL(GOMP_barrier_cancel)();
    openmp_waited(KASURI_WAIT_BARRIER, object);
    return is_cancelled;
}

/* -- critical, atomic -- */

/* The locks inside of libgomp: their names, and whether one of our threads has them. Each on cache lines of its own: only
 * holders write `held`. */
struct inner {
    uint32_t held;
    struct kasuri_site name;
} __attribute__((aligned(128)));
static struct inner critical = {0, {0, 0, "critical", "", ""}}, atomic = {0, {0, 0, "atomic", "", ""}};

static void request(uint64_t lock, uintptr_t caller) {
    openmp_emit2(openmp_call_site(caller), KASURI_EV_LOCK_REQUEST, lock, 0, kasuri__stamp());
}
static void acquired(uint64_t lock, int has_waited) {
    uint64_t stamp = kasuri__stamp();
    if (has_waited)
        probe_emit_long(KASURI_EV_LOCK_ACQUIRED, KASURI_LOCK_EXCLUSIVE, (const void *)(uintptr_t)lock, 0, stamp);
    else
        probe_emit_short(KASURI_EV_LOCK_TAKEN, KASURI_EV_LOCK_ACQUIRED, (const void *)(uintptr_t)lock, stamp);
}

/* ORDER relaxed for `held`: a hint, written by the holder of the lock alone. */
#define INNER(what, inner)                                                                                             \
    void GOMP_##what##_start(void) {                                                                                   \
        const uint64_t object = (uintptr_t) & (inner);                                                                 \
        int waits;                                                                                                     \
        if (!openmp_gomp_on()) {                                                                                       \
            REAL(GOMP_##what##_start)();                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        if (KASURI__UNLIKELY(openmp_is_new_lock(object)))                                                              \
            openmp_define_lock(object, KASURI_LOCK_OTHER, OPENMP_CALLER(), &(inner).name);                             \
        waits = __atomic_load_n(&(inner).held, __ATOMIC_RELAXED) != 0;                                                 \
        if (waits)                                                                                                     \
            request(object, OPENMP_CALLER());                                                                          \
        REAL(GOMP_##what##_start)();                                                                                   \
        __atomic_store_n(&(inner).held, 1, __ATOMIC_RELAXED);                                                          \
        acquired(object, waits);                                                                                       \
    }                                                                                                                  \
    void GOMP_##what##_end(void) {                                                                                     \
        const void *object = &(inner);                                                                                 \
        uint64_t stamp;                                                                                                \
        if (!openmp_gomp_on()) {                                                                                       \
            /* It was taken while the recorder was there. */                                                           \
            if (KASURI__UNLIKELY(__atomic_load_n(&(inner).held, __ATOMIC_RELAXED) != 0))                               \
                __atomic_store_n(&(inner).held, 0, __ATOMIC_RELAXED);                                                  \
            REAL(GOMP_##what##_end)();                                                                                 \
            return;                                                                                                    \
        }                                                                                                              \
        __atomic_store_n(&(inner).held, 0, __ATOMIC_RELAXED);                                                          \
        stamp = kasuri__stamp();                                                                                       \
        REAL(GOMP_##what##_end)();                                                                                     \
        probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, object, stamp);                                 \
    }
INNER(critical, critical)
INNER(atomic, atomic)

/* Whether a section's lock is an int in the program's variable, 0 while it is free: tried on one of our own. */
static int looks_known(void (*start)(void **), void (*end)(void **)) {
    static int known; /* 0 not tried, 1 yes, 2 no; all threads find the same */
    void *own = 0;
    int taken = 0, is_free;
    if (KASURI__LIKELY(__atomic_load_n(&known, __ATOMIC_RELAXED)))
        return known == 1;
    start(&own);
    memcpy(&taken, &own, sizeof taken);
    end(&own);
    is_free = own == 0;
    __atomic_store_n(&known, taken && is_free ? 1 : 2, __ATOMIC_RELAXED);
    return known == 1;
}
void GOMP_critical_name_start(void **variable) {
    const uint64_t object = (uintptr_t)variable;
    int waits;
    if (!openmp_gomp_on()) {
        REAL(GOMP_critical_name_start)(variable);
        return;
    }
    if (KASURI__UNLIKELY(openmp_is_new_lock(object)))
        openmp_define_lock(object, KASURI_LOCK_OTHER, OPENMP_CALLER(), 0);
    /* ORDER relaxed: a hint. Where the lock looks otherwise, each section has a request. */
    waits = !looks_known(REAL(GOMP_critical_name_start), REAL(GOMP_critical_name_end)) ||
            __atomic_load_n((int *)(void *)variable, __ATOMIC_RELAXED) != 0;
    if (waits)
        request(object, OPENMP_CALLER());
    REAL(GOMP_critical_name_start)(variable);
    acquired(object, waits);
}
void GOMP_critical_name_end(void **variable) {
    uint64_t stamp;
    if (!openmp_gomp_on()) {
        REAL(GOMP_critical_name_end)(variable);
        return;
    }
    stamp = kasuri__stamp();
    REAL(GOMP_critical_name_end)(variable);
    probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, variable, stamp);
}

/* -- ordered -- */

static __thread uint64_t ordered_at OPENMP_TLS_HERE; /* the lock of the ordered block that the thread is in */

void GOMP_ordered_start(void) {
    uint64_t object = OPENMP_CALLER();
    if (!openmp_gomp_on()) {
        REAL(GOMP_ordered_start)();
        return;
    }
    if (KASURI__UNLIKELY(openmp_is_new_lock(object)))
        openmp_define_lock(object, KASURI_LOCK_OTHER, object, openmp_place(object, OPENMP_ORDERED));
    request(object, object);
    REAL(GOMP_ordered_start)();
    acquired(object, 1);
    ordered_at = object;
}
void GOMP_ordered_end(void) {
    uint64_t stamp = ordered_at ? kasuri__stamp() : 0;
    REAL(GOMP_ordered_end)();
    if (ordered_at && openmp_gomp_on())
        probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, (const void *)(uintptr_t)ordered_at, stamp);
    ordered_at = 0;
}
