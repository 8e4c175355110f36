/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ito_mutex in a pthread_mutex_t; ito/sync.h includes it where ITO__PTHREAD is defined.
 *
 * glibc's static initialisers write 0 everywhere but `kind`, an int at 16, whose numbers are the same here. What
 * pthread_mutexattr_t asks for beyond them is in higher bits of that int; ito never sees such a mutex (mutex.c).
 */
#ifndef ITO_PTHREAD_LAYOUT_H
#define ITO_PTHREAD_LAYOUT_H

enum ito_mutex_kind { ITO_MUTEX_NORMAL = 0, ITO_MUTEX_RECURSIVE = 1, ITO_MUTEX_ERRORCHECK = 2 };
#define ITO_MUTEX_DEFAULT ITO_MUTEX_NORMAL

typedef struct ito_mutex {
    uint32_t state;
    uint16_t depth, reserved;
    uintptr_t owner;
    uint32_t kind, reserved_too;
    struct ito__waiters waiters;
} ito_mutex;

#define ITO_MUTEX_INIT_KIND(of_kind)                                                                                   \
    { .kind = (uint32_t)(of_kind) }

#endif
