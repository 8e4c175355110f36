/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program's own count of its functions and loops, by the names that the plugins give them. count_print() prints them. */
#ifndef COUNT_H
#define COUNT_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 200
static struct count {
    char name[120];
    long n;
} count_all[COUNT_MAX];
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_up(const char *format, ...) __attribute__((format(printf, 1, 2), unused));
static void count_up(const char *format, ...) {
    char name[sizeof count_all[0].name];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    pthread_mutex_lock(&count_lock);
    for (int i = 0; i < COUNT_MAX; i++) {
        if (!count_all[i].n)
            strcpy(count_all[i].name, name);
        if (!strcmp(count_all[i].name, name)) {
            count_all[i].n++;
            break;
        }
    }
    pthread_mutex_unlock(&count_lock);
}

static void count_print(void) {
    for (int i = 0; i < COUNT_MAX && count_all[i].n; i++)
        printf("count %s %ld\n", count_all[i].name, count_all[i].n);
}

/* In a function: it has begun. Before a loop, on the line above it; of a loop in loops, with their lines. */
#define FUNCTION(name) count_up(name)
#define LOOP(name) count_up(name ".loop%d", __LINE__ + 1)
#define LOOP_IN(name, outer) count_up(name ".loop%d.loop%d", outer, __LINE__ + 1)

#endif
