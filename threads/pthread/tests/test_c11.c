/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* <threads.h>, in an ordinary program; see test_threads.c. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <stdatomic.h>
#include <threads.h>
#include <time.h>

enum { N = 60, ROUNDS = 200 };

static mtx_t lock, again;
static cnd_t turn_changed;
static tss_t key;
static once_flag flag = ONCE_FLAG_INIT;
static int turn, onces, destroyed;
static thread_local int mine;
static atomic_int waiting;

static void once(void) {
    onces++;
}
static void destroy(void *value) {
    mtx_lock(&lock);
    destroyed += *(int *)value;
    mtx_unlock(&lock);
}
static struct timespec in_ms(long ms) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Each waits for its turn, in a ring. */
static int takes_turns(void *arg) {
    int me = *(int *)arg, value = 1;
    call_once(&flag, once);
    CHECK(tss_set(key, &value) == thrd_success && tss_get(key) == &value);
    mine = me;
    atomic_fetch_add(&waiting, 1);
    CHECK(mtx_lock(&lock) == thrd_success);
    for (int i = 0; i < ROUNDS; i++) {
        while (turn % N != me)
            CHECK(cnd_wait(&turn_changed, &lock) == thrd_success);
        turn++;
        CHECK(cnd_broadcast(&turn_changed) == thrd_success && mine == me);
        if (i % 50 == 0)
            CHECK(mtx_lock(&again) == thrd_success && mtx_lock(&again) == thrd_success &&
                  mtx_unlock(&again) == thrd_success && mtx_unlock(&again) == thrd_success);
    }
    CHECK(mtx_unlock(&lock) == thrd_success);
    /* the key's destructor wants the value alive */
    static int one = 1;
    CHECK(tss_set(key, &one) == thrd_success);
    if (me % 2)
        thrd_exit(1000 + me);
    return -me;
}
static int tries(void *unused) {
    (void)unused;
    struct timespec t = in_ms(5);
    CHECK(mtx_trylock(&again) == thrd_busy && mtx_timedlock(&again, &t) == thrd_timedout);
    CHECK(thrd_sleep(&(struct timespec){0, 1000000}, NULL) == 0);
    CHECK(thrd_sleep(&(struct timespec){0, 2000000000}, NULL) < -1);
    thrd_yield();
    CHECK(thrd_equal(thrd_current(), thrd_current()));
    return 7;
}
static void threads_h(void) {
    thrd_t t[N], other;
    int arg[N], result;
    CHECK(mtx_init(&lock, mtx_plain) == thrd_success && mtx_init(&again, mtx_timed | mtx_recursive) == thrd_success);
    CHECK(cnd_init(&turn_changed) == thrd_success && tss_create(&key, destroy) == thrd_success);
    turn = N - 1; /* nobody's before the last begins */
    for (int i = 0; i < N; i++) {
        arg[i] = i;
        CHECK(thrd_create(&t[i], takes_turns, &arg[i]) == thrd_success);
    }
    while (atomic_load(&waiting) < N)
        thrd_yield();
    CHECK(getenv("LIGHT") == NULL || tasks() < N / 2);
    for (int i = 0; i < N; i++)
        CHECK(thrd_join(t[i], &result) == thrd_success && result == (i % 2 ? 1000 + i : -i));
    CHECK(onces == 1 && destroyed == N && turn == N - 1 + N * ROUNDS);
    CHECK(mtx_lock(&again) == thrd_success && thrd_create(&other, tries, NULL) == thrd_success);
    CHECK(thrd_join(other, &result) == thrd_success && result == 7 && mtx_unlock(&again) == thrd_success);
    struct timespec until = in_ms(5);
    CHECK(mtx_lock(&lock) == thrd_success && cnd_timedwait(&turn_changed, &lock, &until) == thrd_timedout);
    CHECK(mtx_unlock(&lock) == thrd_success && cnd_signal(&turn_changed) == thrd_success);
    tss_delete(key);
    cnd_destroy(&turn_changed);
    mtx_destroy(&lock);
}

static const struct test tests[] = {{"threads_h", threads_h}};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
