/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What each thread keeps, and its slices by domain: Kasuri's END closes the innermost slice, whatever its domain. */
#include "collector.h"

#include <pthread.h>
#include <stdlib.h>

static __thread struct thread *mine;
static pthread_key_t key;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;
static int has_key;

/* Destructors that run after this one may begin slices again. */
static void end_thread(void *ended) {
    mine = 0;
    free(ended);
}

static void make_key(void) {
    has_key = pthread_key_create(&key, end_thread) == 0;
}

struct thread *this_thread(void) {
    if (KASURI__UNLIKELY(!mine)) {
        pthread_once(&key_made, make_key);
        struct thread *made = has_key ? calloc(1, sizeof *made) : 0;
        if (made && pthread_setspecific(key, made) != 0) {
            free(made);
            made = 0;
        }
        mine = made;
    }
    return mine;
}

int span_begin(const void *domain, uint32_t name) {
    struct thread *t = this_thread();
    int level = 0;
    if (!t)
        return -1;
    uint32_t n = t->depth < DEPTH_MAX ? t->depth : DEPTH_MAX;
    for (uint32_t i = 0; i < n; i++)
        level += t->spans[i].domain == domain;
    if (t->depth++ >= DEPTH_MAX) {
        static uint32_t said;
        if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
            KASURI_MESSAGE("slices more than %d deep are not recorded", DEPTH_MAX);
        return level;
    }
    t->spans[n] = (struct span){domain, name, kasuri__gate_load() != 0};
    if (t->spans[n].is_recorded)
        kasuri_begin(name);
    return level;
}

int span_end(const void *domain) {
    struct thread *t = this_thread();
    int level = 0;
    if (!t || !t->depth)
        return -1;
    if (t->depth > DEPTH_MAX) {
        t->depth--;
        return level;
    }
    uint32_t last = t->depth, at = last;
    while (at > 0 && t->spans[at - 1].domain != domain)
        at--;
    if (!at--)
        return -1;
    for (uint32_t i = last; i-- > at;)
        if (t->spans[i].is_recorded)
            kasuri_end();
    for (uint32_t i = at; i + 1 < last; i++) {
        t->spans[i] = t->spans[i + 1];
        if (t->spans[i].is_recorded)
            kasuri_begin(t->spans[i].name);
    }
    t->depth--;
    for (uint32_t i = 0; i < t->depth; i++)
        level += t->spans[i].domain == domain;
    return level;
}

void arrow_begin(uint32_t name, uint64_t id) {
    kasuri_flow_out(name, id);
}

void arrow_end(uint64_t id) {
    kasuri_flow_in(0, id);
}
