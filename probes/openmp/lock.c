/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * omp_*lock of libgomp, by the method of the lock probe: try, then block. Fortran calls functions of its own, whose names
 * end in an underscore; the address that they pass names the lock.
 */
#include "openmp.h"

#define TAKEN(lock) probe_emit_short(KASURI_EV_LOCK_TAKEN, KASURI_EV_LOCK_ACQUIRED, (lock), kasuri__stamp())

/* libomp tells its tool (ompt.c) who called it: for these calls, this library. */
#define FOR_CALLER(call)                                                                                               \
    do {                                                                                                               \
        openmp_self.asked = OPENMP_CALLER();                                                                           \
        call;                                                                                                          \
        openmp_self.asked = 0;                                                                                         \
    } while (0)

/* A test of a lock that nests returns how often it is held then: each is a hold, as of recursive mutexes. */
#define LOCKS(kind, ending, type)                                                                                      \
    void omp_init_##kind##ending(void *lock) {                                                                         \
        FOR_CALLER(REAL(omp_init_##kind##ending)(lock));                                                               \
        if (openmp_locks_on())                                                                                         \
            openmp_define_lock((uintptr_t)lock, type, OPENMP_CALLER(), 0);                                             \
    }                                                                                                                  \
    void omp_set_##kind##ending(void *lock) {                                                                          \
        if (!openmp_locks_on()) {                                                                                      \
            FOR_CALLER(REAL(omp_set_##kind##ending)(lock));                                                            \
            return;                                                                                                    \
        }                                                                                                              \
        if (KASURI__UNLIKELY(openmp_is_new_lock((uintptr_t)lock)))                                                     \
            openmp_define_lock((uintptr_t)lock, type, OPENMP_CALLER(), 0);                                             \
        if (REAL(omp_test_##kind##ending)(lock)) {                                                                     \
            TAKEN(lock);                                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        openmp_emit2(openmp_call_site(OPENMP_CALLER()), KASURI_EV_LOCK_REQUEST, (uintptr_t)lock, 0, kasuri__stamp());  \
        REAL(omp_set_##kind##ending)(lock);                                                                            \
        probe_emit_long(KASURI_EV_LOCK_ACQUIRED, KASURI_LOCK_EXCLUSIVE, lock, 0, kasuri__stamp());                     \
    }                                                                                                                  \
    int omp_test_##kind##ending(void *lock) {                                                                          \
        int n;                                                                                                         \
        FOR_CALLER(n = REAL(omp_test_##kind##ending)(lock));                                                           \
        if (n && openmp_locks_on()) {                                                                                  \
            if (KASURI__UNLIKELY(openmp_is_new_lock((uintptr_t)lock)))                                                 \
                openmp_define_lock((uintptr_t)lock, type, OPENMP_CALLER(), 0);                                         \
            TAKEN(lock);                                                                                               \
        }                                                                                                              \
        return n;                                                                                                      \
    }                                                                                                                  \
    void omp_unset_##kind##ending(void *lock) {                                                                        \
        uint64_t stamp;                                                                                                \
        if (!openmp_locks_on()) {                                                                                      \
            REAL(omp_unset_##kind##ending)(lock);                                                                      \
            return;                                                                                                    \
        }                                                                                                              \
        stamp = kasuri__stamp();                                                                                       \
        REAL(omp_unset_##kind##ending)(lock);                                                                          \
        probe_emit_short(KASURI_EV_LOCK_LEFT, KASURI_EV_LOCK_RELEASED, lock, stamp);                                   \
    }
LOCKS(lock, , KASURI_LOCK_MUTEX)
LOCKS(lock, _, KASURI_LOCK_MUTEX)
LOCKS(nest_lock, , KASURI_LOCK_RECURSIVE)
LOCKS(nest_lock, _, KASURI_LOCK_RECURSIVE)
