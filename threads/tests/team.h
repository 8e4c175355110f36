/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests of waiting share: threads that run the same function, and delays from a seed. */
#ifndef ITO_TESTS_TEAM_H
#define ITO_TESTS_TEAM_H

#include "check.h"

#include <ito.h>
#include <ito/group.h>
#include <ito/sync.h>

#define MS 1000000ull

static inline uint64_t random_of(uint64_t who) {
    uint64_t state = check_seed ^ (who * 0x9e3779b97f4a7c15u);
    check_random(&state);
    return state;
}
/* Sometimes let others in between: by yielding, by sleeping, by computing. */
static inline void delay(uint64_t *state) {
    uint64_t r = check_random(state);
    if (r % 8 == 0)
        ito_yield();
    else if (r % 64 == 1)
        ito_sleep_ns(r >> 48);
    else if (r % 16 == 2)
        for (volatile unsigned i = 0; i < (r >> 52); i++)
            ;
}

struct team {
    void *(*fn)(void *);
    void *arg;
};
struct member {
    ito_thread *thread;
    void *(*fn)(void *);
    int index;
    void *arg;
};
static inline void *member_main(void *arg) {
    struct member *m = arg;
    return m->fn(m);
}
/* n threads run fn(&member) and are joined. */
static inline void team_run(int n, void *(*fn)(void *), void *arg) {
    struct member *members = calloc((size_t)n, sizeof *members);
    for (int i = 0; i < n; i++) {
        members[i] = (struct member){NULL, fn, i, arg};
        CHECK_EQ(ito_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (int i = 0; i < n; i++)
        CHECK_EQ(ito_join(members[i].thread, NULL), 0);
    free(members);
}
static inline uint64_t in_ms(uint64_t ms) {
    return ito_now_ns() + ms * MS;
}

#endif
