/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Included in front of ito's own sources, where they are compiled into libito-pthread.so: what they call by a name that
 * this library stands in front of is the C library's function (real.c).
 */
#ifndef ITO_PTHREAD_REAL_NAMES_H
#define ITO_PTHREAD_REAL_NAMES_H

#define pthread_create ito__real_pthread_create
#define pthread_join ito__real_pthread_join
#define pthread_mutex_init ito__real_pthread_mutex_init
#define pthread_mutex_lock ito__real_pthread_mutex_lock
#define pthread_mutex_unlock ito__real_pthread_mutex_unlock
#define pthread_getattr_np ito__real_pthread_getattr_np
#define pthread_setname_np ito__real_pthread_setname_np
#define pthread_exit ito__real_pthread_exit
#define pthread_sigmask ito__real_pthread_sigmask
#define sched_yield ito__real_sched_yield

#endif
