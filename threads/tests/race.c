/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads on two workers add to one counter: `race racy` without a lock, which a race detector must find, `race locked`
 * under a mutex, `race sent` by a channel, `race joined` one after the other, in which it must find nothing. So it sees ito's
 * threads and knows what orders them.
 */
#include "team.h"

#include <ito/channel.h>

enum { ROUNDS = 1000 };
static long counter;
static int begun;
static ito_mutex lock = ITO_MUTEX_INIT;
static ito_channel turn = ITO_CHANNEL_INIT(NULL, 0, 0);
static char how;

static void *add(void *arg) {
    struct member *me = arg;
    if (how != 'j') {
        __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&begun, __ATOMIC_RELAXED) < 2)
            ito_yield(); /* both run, on a worker each */
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (how == 'l')
            CHECK_EQ(ito_mutex_lock(&lock), 0);
        if (how == 's' && me->index == 0)
            CHECK_EQ(ito_channel_receive(&turn, NULL), 0);
        counter++;
        if (how == 's')
            CHECK_EQ(me->index == 0 ? ito_channel_send(&turn, NULL)
                                    : ito_channel_send(&turn, NULL) || ito_channel_receive(&turn, NULL),
                     0);
        if (how == 'l')
            CHECK_EQ(ito_mutex_unlock(&lock), 0);
        if (i % 64 == 0)
            ito_yield();
    }
    return NULL;
}

int main(int argc, char **argv) {
    ito_config config = ITO_CONFIG_INIT;
    struct member members[2] = {{.index = 0}, {.index = 1}};
    config.n_workers = 2;
    how = argc > 1 ? argv[1][0] : 'r';
    CHECK_EQ(ito_init(&config), 0);
    for (int i = 0; i < 2; i++) {
        ito_attr attr = ITO_ATTR_INIT;
        attr.worker = i;
        CHECK_EQ(ito_create(&members[i].thread, &attr, add, &members[i]), 0);
        if (how == 'j')
            CHECK_EQ(ito_join(members[i].thread, NULL), 0);
    }
    for (int i = 0; i < 2 && how != 'j'; i++)
        CHECK_EQ(ito_join(members[i].thread, NULL), 0);
    CHECK(how == 'r' || counter == 2 * ROUNDS);
    return ito_fini();
}
