/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mutexes, conditions, keys, and foreign threads among ours. Names are the properties; every test runs on 1, 2, 3, 8
 * and 64 workers. */
#define _GNU_SOURCE
#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* -- mutex -- */

struct counter {
    ito_mutex mutex;
    int rounds, inside;
    long n;
};

static void *count_locked(void *arg) {
    struct member *me = arg;
    struct counter *c = me->arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int i = 0; i < c->rounds; i++) {
        CHECK_EQ(ito_mutex_lock(&c->mutex), 0);
        CHECK_EQ(c->inside++, 0);
        long n = c->n;
        delay(&random);
        c->n = n + 1;
        CHECK_EQ(--c->inside, 0);
        CHECK_EQ(ito_mutex_unlock(&c->mutex), 0);
        delay(&random);
    }
    return NULL;
}
static void mutex_lets_one_in(void) {
    for (int kind = ITO_MUTEX_NORMAL; kind <= ITO_MUTEX_RECURSIVE; kind++) {
        struct counter c = {.mutex = ITO_MUTEX_INIT_KIND(kind), .rounds = check_scale(500)};
        team_run(20, count_locked, &c);
        CHECK_EQ(c.n, 20 * c.rounds);
        CHECK_EQ(ito_mutex_destroy(&c.mutex), 0);
    }
}

static void *try_and_timed(void *arg) {
    struct member *me = arg;
    struct counter *c = me->arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int i = 0; i < c->rounds;) {
        int r = check_random(&random) % 2
                    ? ito_mutex_trylock(&c->mutex)
                    : ito_mutex_lock_until(&c->mutex, ito_now_ns() + check_random(&random) % 100000);
        if (r) {
            CHECK(r == EBUSY || r == ETIMEDOUT);
            ito_yield();
            continue;
        }
        CHECK_EQ(c->inside++, 0);
        delay(&random);
        c->n++;
        CHECK_EQ(--c->inside, 0);
        CHECK_EQ(ito_mutex_unlock(&c->mutex), 0);
        i++;
    }
    return NULL;
}
static void mutex_deadlines_lose_no_wake(void) {
    struct counter c = {.mutex = ITO_MUTEX_INIT, .rounds = check_scale(200)};
    team_run(12, try_and_timed, &c);
    CHECK_EQ(c.n, 12 * c.rounds);
    CHECK_EQ(ito_mutex_destroy(&c.mutex), 0);
}

static void *other_unlocks(void *arg) {
    struct member *me = arg;
    return (void *)(intptr_t)ito_mutex_unlock(me->arg);
}
static void *other_tries(void *arg) {
    struct member *me = arg;
    CHECK_EQ(ito_mutex_trylock(me->arg), EBUSY);
    CHECK_EQ(ito_mutex_lock_until(me->arg, in_ms(2)), ETIMEDOUT);
    CHECK_EQ(ito_mutex_lock_until(me->arg, 1), ETIMEDOUT);
    return NULL;
}
static int other_unlock_result(ito_mutex *m) {
    struct member me = {.fn = other_unlocks, .arg = m};
    void *r;
    CHECK_EQ(ito_create(&me.thread, NULL, member_main, &me), 0);
    CHECK_EQ(ito_join(me.thread, &r), 0);
    return (int)(intptr_t)r;
}
static void mutex_says_what_is_wrong(void) {
    ito_mutex m = ITO_MUTEX_INIT_KIND(ITO_MUTEX_ERRORCHECK);
    CHECK_EQ(ito_mutex_unlock(&m), EPERM);
    CHECK_EQ(ito_mutex_lock(&m), 0);
    CHECK_EQ(ito_mutex_lock(&m), EDEADLK);
    CHECK_EQ(ito_mutex_trylock(&m), EBUSY);
    CHECK_EQ(ito_mutex_destroy(&m), EBUSY);
    CHECK_EQ(other_unlock_result(&m), EPERM);
    team_run(3, other_tries, &m);
    CHECK_EQ(ito_mutex_unlock(&m), 0);
    CHECK_EQ(ito_mutex_unlock(&m), EPERM);
    CHECK_EQ(ito_mutex_destroy(&m), 0);

    CHECK_EQ(ito_mutex_init(&m, ITO_MUTEX_RECURSIVE), 0);
    for (int i = 0; i < 65536; i++)
        CHECK_EQ(ito_mutex_lock(&m), 0);
    CHECK_EQ(ito_mutex_lock(&m), EAGAIN);
    CHECK_EQ(ito_mutex_trylock(&m), EAGAIN);
    CHECK_EQ(other_unlock_result(&m), EPERM);
    for (int i = 0; i < 65536; i++)
        CHECK_EQ(ito_mutex_unlock(&m), 0);
    CHECK_EQ(ito_mutex_unlock(&m), EPERM);

    CHECK_EQ(ito_mutex_init(&m, ITO_MUTEX_NORMAL), 0);
    CHECK_EQ(ito_mutex_unlock(&m), EPERM);
    CHECK_EQ(ito_mutex_lock(&m), 0);
    CHECK_EQ(other_unlock_result(&m), 0);
    CHECK_EQ(ito_mutex_trylock(&m), 0);
    CHECK_EQ(ito_mutex_unlock(&m), 0);
    CHECK_EQ(ito_mutex_init(&m, 17), EINVAL);
}

struct hog {
    ito_mutex mutex;
    int got;
};
static void *hog_main(void *arg) {
    struct member *me = arg;
    struct hog *h = me->arg;
    if (me->index == 0) {
        while (!__atomic_load_n(&h->got, __ATOMIC_RELAXED)) {
            ito_mutex_lock(&h->mutex);
            ito_yield(); /* the other one runs only while it is locked */
            ito_mutex_unlock(&h->mutex);
        }
    } else {
        ito_mutex_lock(&h->mutex);
        __atomic_store_n(&h->got, 1, __ATOMIC_RELAXED);
        ito_mutex_unlock(&h->mutex);
    }
    return NULL;
}
/* Who starves never ends. */
static void mutex_starves_nobody(void) {
    struct hog h = {.mutex = ITO_MUTEX_INIT};
    team_run(2, hog_main, &h);
    CHECK(h.got);
}

/* The last unlocker frees the object: unlock must not touch it after that. A sanitizer or a reused block would tell. */
struct shared_object {
    ito_mutex mutex;
    int references;
};
static void *drop_reference(void *arg) {
    struct member *me = arg;
    struct shared_object **objects = me->arg;
    for (int i = 0; objects[i]; i++) {
        struct shared_object *o = objects[i];
        ito_mutex_lock(&o->mutex);
        int left = --o->references;
        ito_mutex_unlock(&o->mutex);
        if (!left) {
            memset(o, 0xff, sizeof *o);
            free(o);
        }
    }
    return NULL;
}
static void mutex_may_end_after_the_last_unlock(void) {
    enum { MEMBERS = 4 };
    int n = check_scale(3000);
    struct shared_object **objects = calloc((size_t)n + 1, sizeof(void *));
    for (int i = 0; i < n; i++) {
        objects[i] = malloc(sizeof **objects);
        *objects[i] = (struct shared_object){ITO_MUTEX_INIT, MEMBERS};
    }
    team_run(MEMBERS, drop_reference, objects);
    free(objects);
}

/* -- condition -- */

struct buffer {
    ito_mutex mutex;
    ito_cond not_empty, not_full;
    int items[4], n, rounds, producers;
    long sum;
    bool broadcast, timed;
};
static int buffer_wait(struct buffer *b, ito_cond *c, uint64_t *random) {
    if (!b->timed)
        return ito_cond_wait(c, &b->mutex);
    int r = ito_cond_wait_until(c, &b->mutex, ito_now_ns() + check_random(random) % 200000);
    return r == ETIMEDOUT ? 0 : r;
}
static void *buffer_main(void *arg) {
    struct member *me = arg;
    struct buffer *b = me->arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int i = 0; i < b->rounds; i++) {
        bool put = me->index < b->producers;
        ito_cond *wait_for = put ? &b->not_full : &b->not_empty, *tell = put ? &b->not_empty : &b->not_full;
        CHECK_EQ(ito_mutex_lock(&b->mutex), 0);
        while (b->n == (put ? 4 : 0))
            CHECK_EQ(buffer_wait(b, wait_for, &random), 0);
        if (put)
            b->items[b->n++] = i;
        else
            b->sum += b->items[--b->n];
        if (check_random(&random) % 2) { /* told with and without the mutex */
            CHECK_EQ(b->broadcast ? ito_cond_broadcast(tell) : ito_cond_signal(tell), 0);
            CHECK_EQ(ito_mutex_unlock(&b->mutex), 0);
        } else {
            CHECK_EQ(ito_mutex_unlock(&b->mutex), 0);
            delay(&random);
            CHECK_EQ(b->broadcast ? ito_cond_broadcast(tell) : ito_cond_signal(tell), 0);
        }
        delay(&random);
    }
    return NULL;
}
static void buffer_run(bool broadcast, bool timed) {
    struct buffer b = {.mutex = ITO_MUTEX_INIT,
                       .not_empty = ITO_COND_INIT,
                       .not_full = ITO_COND_INIT,
                       .rounds = check_scale(400),
                       .producers = 8,
                       .broadcast = broadcast,
                       .timed = timed};
    team_run(16, buffer_main, &b);
    CHECK_EQ(b.n, 0);
    CHECK_EQ(b.sum, 8L * b.rounds * (b.rounds - 1) / 2);
    CHECK_EQ(ito_cond_destroy(&b.not_empty), 0);
    CHECK_EQ(ito_cond_destroy(&b.not_full), 0);
    CHECK_EQ(ito_mutex_destroy(&b.mutex), 0);
}
static void cond_signal_loses_no_wake(void) {
    buffer_run(false, false);
}
static void cond_broadcast_loses_no_wake(void) {
    buffer_run(true, false);
}
static void cond_deadlines_lose_no_wake(void) {
    buffer_run(false, true);
}

struct ball {
    ito_mutex mutex;
    ito_cond cond;
    int turn, rounds;
};
static void *ball_main(void *arg) {
    struct member *me = arg;
    struct ball *b = me->arg;
    ito_mutex_lock(&b->mutex);
    for (int i = 0; i < b->rounds; i++) {
        while (b->turn != me->index)
            CHECK_EQ(ito_cond_wait(&b->cond, &b->mutex), 0);
        b->turn = !me->index;
        ito_cond_signal(&b->cond);
    }
    ito_mutex_unlock(&b->mutex);
    return NULL;
}
static void cond_hands_over_in_turns(void) {
    struct ball b = {.mutex = ITO_MUTEX_INIT, .cond = ITO_COND_INIT, .rounds = check_scale(20000)};
    team_run(2, ball_main, &b);
    CHECK_EQ(b.turn, 0);
}

struct crowd {
    ito_mutex mutex;
    ito_cond cond;
    int waiting, woken;
    bool go;
};
static void *crowd_main(void *arg) {
    struct member *me = arg;
    struct crowd *c = me->arg;
    ito_mutex_lock(&c->mutex);
    c->waiting++;
    while (!c->go)
        ito_cond_wait(&c->cond, &c->mutex);
    c->woken++;
    ito_mutex_unlock(&c->mutex);
    return NULL;
}
static void *crowd_wake(void *arg) {
    struct crowd *c = ((struct member *)arg)->arg;
    int waiting;
    do {
        ito_yield();
        ito_mutex_lock(&c->mutex);
        waiting = c->waiting;
        ito_mutex_unlock(&c->mutex);
    } while (waiting < 1000);
    CHECK_EQ(ito_cond_destroy(&c->cond), EBUSY);
    ito_mutex_lock(&c->mutex);
    c->go = true;
    ito_cond_broadcast(&c->cond);
    CHECK_EQ(ito_cond_destroy(&c->cond), 0); /* at once */
    memset(&c->cond, 0xff, sizeof c->cond);
    ito_mutex_unlock(&c->mutex);
    return NULL;
}
static void *crowd_or_wake(void *arg) {
    struct member *me = arg;
    return me->index == 1000 ? crowd_wake(arg) : crowd_main(arg);
}
static void cond_wakes_a_thousand_and_may_end(void) {
    struct crowd c = {.mutex = ITO_MUTEX_INIT, .cond = ITO_COND_INIT};
    team_run(1001, crowd_or_wake, &c);
    CHECK_EQ(c.woken, 1000);
    CHECK_EQ(ito_mutex_destroy(&c.mutex), 0);
}

/* Ten wait for a condition, three for its mutex until a deadline, before and after a broadcast puts the ten between them;
 * those six leave the queue from its ends and its middle. */
enum { CROWD = 10, TIMED = 6 };
struct mix {
    ito_mutex mutex;
    ito_cond cond;
    int waiting, woken, late, step;
    bool go;
};
static void *mix_main(void *arg) {
    struct member *me = arg;
    struct mix *m = me->arg;
    if (me->index < CROWD) {
        ito_mutex_lock(&m->mutex);
        m->waiting++;
        while (!m->go)
            CHECK_EQ(ito_cond_wait(&m->cond, &m->mutex), 0);
        m->woken++;
        ito_mutex_unlock(&m->mutex);
    } else if (me->index < CROWD + TIMED) {
        while (__atomic_load_n(&m->step, __ATOMIC_SEQ_CST) < 1 + me->index % 2)
            ito_sleep_ns(100000);
        CHECK_EQ(ito_mutex_lock_until(&m->mutex, ito_now_ns() + 2000000), ETIMEDOUT);
        __atomic_add_fetch(&m->late, 1, __ATOMIC_SEQ_CST);
    } else {
        for (int waiting = 0; waiting < CROWD; ito_yield()) {
            ito_mutex_lock(&m->mutex);
            waiting = m->waiting;
            ito_mutex_unlock(&m->mutex);
        }
        ito_mutex_lock(&m->mutex);
        __atomic_store_n(&m->step, 1, __ATOMIC_SEQ_CST);
        ito_sleep_ns(1000000);
        CHECK_EQ(ito_cond_broadcast(&m->cond), 0);
        memset(&m->cond, 0xff, sizeof m->cond); /* it may end */
        m->cond = (ito_cond)ITO_COND_INIT;
        m->go = true;
        __atomic_store_n(&m->step, 2, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&m->late, __ATOMIC_SEQ_CST) < TIMED)
            ito_sleep_ns(100000);
        ito_mutex_unlock(&m->mutex);
    }
    return NULL;
}
static void cond_broadcast_among_timed_waiters(void) {
    for (int i = 0; i < 20; i++) {
        struct mix m = {.mutex = ITO_MUTEX_INIT, .cond = ITO_COND_INIT};
        team_run(CROWD + TIMED + 1, mix_main, &m);
        CHECK_EQ(m.woken, CROWD);
        CHECK_EQ(ito_mutex_destroy(&m.mutex), 0);
    }
}

static void *waits_with_own_mutex(void *arg) {
    struct member *me = arg;
    struct crowd *c = me->arg;
    ito_mutex_lock(&c->mutex);
    c->waiting = 1;
    while (!c->go)
        CHECK_EQ(ito_cond_wait(&c->cond, &c->mutex), 0);
    ito_mutex_unlock(&c->mutex);
    return NULL;
}
static void cond_says_what_is_wrong(void) {
    struct crowd c = {.mutex = ITO_MUTEX_INIT_KIND(ITO_MUTEX_ERRORCHECK), .cond = ITO_COND_INIT};
    CHECK_EQ(ito_cond_wait(&c.cond, &c.mutex), EPERM); /* not locked */
    struct member other = {.fn = waits_with_own_mutex, .arg = &c};
    CHECK_EQ(ito_create(&other.thread, NULL, member_main, &other), 0);
    for (bool waiting = false; !waiting;) {
        ito_mutex_lock(&c.mutex);
        waiting = c.waiting;
        ito_mutex_unlock(&c.mutex);
        ito_yield();
    }
    ito_mutex second = ITO_MUTEX_INIT;
    ito_mutex_lock(&second);
    CHECK_EQ(ito_cond_wait(&c.cond, &second), EINVAL); /* others wait with another mutex */
    ito_mutex_unlock(&second);
    ito_mutex_lock(&c.mutex);
    c.go = true;
    ito_cond_signal(&c.cond);
    ito_mutex_unlock(&c.mutex);
    CHECK_EQ(ito_join(other.thread, NULL), 0);
    /* A recursive mutex is free while we wait, and as deep as before afterwards. */
    ito_mutex deep = ITO_MUTEX_INIT_KIND(ITO_MUTEX_RECURSIVE);
    for (int i = 0; i < 3; i++)
        ito_mutex_lock(&deep);
    CHECK_EQ(ito_cond_wait_until(&c.cond, &deep, in_ms(1)), ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ito_mutex_unlock(&deep), 0);
    CHECK_EQ(ito_mutex_unlock(&deep), EPERM);
}

/* -- keys -- */

static ito_key key, second_key;
static int destroyed, rounds_seen;
static void key_destroy(void *value) {
    CHECK(value);
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    ito_yield(); /* may block and migrate */
}
static void key_again(void *value) {
    __atomic_fetch_add(&rounds_seen, 1, __ATOMIC_RELAXED);
    ito_key_set(second_key, value);
}
static void *key_main(void *arg) {
    struct member *me = arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    CHECK(!ito_key_get(key));
    for (int i = 0; i < *(int *)me->arg; i++) {
        CHECK_EQ(ito_key_set(key, (void *)(intptr_t)(me->index * 1000000 + i + 1)), 0);
        delay(&random);
        ito_yield();
        CHECK_EQ((intptr_t)ito_key_get(key), me->index * 1000000 + i + 1);
    }
    return NULL;
}
static void *key_second(void *arg) {
    CHECK_EQ(ito_key_set(second_key, arg), 0);
    return NULL;
}
static void keys_move_along(void) {
    int rounds = check_scale(300);
    CHECK_EQ(ito_key_create(&key, key_destroy), 0);
    CHECK(!ito_key_get(key));
    team_run(40, key_main, &rounds);
    CHECK_EQ(destroyed, 40);

    CHECK_EQ(ito_key_create(&second_key, key_again), 0);
    team_run(1, key_second, NULL);
    CHECK_EQ(rounds_seen, ITO_KEY_ROUNDS);

    CHECK_EQ(ito_key_set(key, &key), 0);
    ito_key old = key;
    CHECK_EQ(ito_key_delete(key), 0);
    CHECK_EQ(ito_key_delete(old), EINVAL);
    CHECK_EQ(ito_key_set(old, &key), EINVAL);
    CHECK_EQ(ito_key_create(&key, NULL), 0);
    CHECK(key != old);
    CHECK(!ito_key_get(key) && !ito_key_get(old));
    ito_key all[ITO_KEYS_MAX];
    int n = 0;
    while (!ito_key_create(&all[n], NULL))
        n++;
    CHECK_EQ(n, ITO_KEYS_MAX - 2);
    CHECK_EQ(ito_key_create(&old, NULL), EAGAIN);
    CHECK_EQ(ito_key_set(all[n - 1], &key), 0);
    CHECK(ito_key_get(all[n - 1]) == &key);
    while (n)
        CHECK_EQ(ito_key_delete(all[--n]), 0);
}

/* -- foreign threads: plain pthreads among ito threads -- */

struct mixed {
    struct counter counter;
    struct buffer buffer;
    ito_barrier barrier;
    ito_sem sem, ended;
};
static void mixed_part(struct mixed *m, int index) {
    struct member as_counter = {.index = index, .arg = &m->counter};
    struct member as_buffer = {.index = index, .arg = &m->buffer};
    count_locked(&as_counter);
    buffer_main(&as_buffer);
    ito_barrier_wait(&m->barrier);
    ito_sem_wait(&m->sem);
    ito_sem_post(&m->sem);
    CHECK_EQ(ito_sleep_ns(100000), 0);
    CHECK_EQ(ito_sem_wait_until(&m->sem, in_ms(100000)), 0);
    ito_sem_post(&m->sem);
}
static struct mixed *mixed_all;
static void *mixed_ito(void *arg) {
    mixed_part(mixed_all, ((struct member *)arg)->index);
    return NULL;
}
static void *add_one(void *arg) {
    ++*(int *)arg;
    ito_yield();
    ++*(int *)arg;
    return arg;
}
static void *mixed_pthread(void *arg) {
    struct member *me = arg;
    mixed_part(mixed_all, me->index);
    for (int i = 0; i < 50; i++) { /* a foreign thread starts and joins ito threads */
        int n = 0;
        ito_thread *t;
        void *r;
        CHECK_EQ(ito_create(&t, NULL, add_one, &n), 0);
        CHECK_EQ(ito_join(t, &r), 0);
        CHECK(r == &n && n == 2);
    }
    CHECK_EQ(ito_key_set(key, arg), 0);
    CHECK(ito_key_get(key) == arg);
    CHECK_EQ(ito_sem_post(&mixed_all->ended), 0);
    return NULL;
}
static void foreign_threads_take_part(void) {
    struct mixed m = {.counter = {.mutex = ITO_MUTEX_INIT, .rounds = check_scale(200)},
                      .buffer = {.mutex = ITO_MUTEX_INIT,
                                 .not_empty = ITO_COND_INIT,
                                 .not_full = ITO_COND_INIT,
                                 .rounds = check_scale(200),
                                 .producers = 6},
                      .barrier = ITO_BARRIER_INIT(12),
                      .sem = ITO_SEM_INIT(1)};
    pthread_t threads[6];
    struct member members[6];
    mixed_all = &m;
    CHECK_EQ(ito_key_create(&key, key_destroy), 0);
    for (int i = 0; i < 6; i++) {
        members[i] = (struct member){.index = 2 * i + 1, .arg = &m};
        members[i].index = 6 + i;
        CHECK_EQ(pthread_create(&threads[i], NULL, mixed_pthread, &members[i]), 0);
    }
    team_run(6, mixed_ito, NULL);
    for (int i = 0; i < 6;
         i++) /* pthread_join would keep our worker, maybe the only one, from running what they wait for */
        CHECK_EQ(ito_sem_wait(&m.ended), 0);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(m.counter.n, 12 * m.counter.rounds);
    CHECK_EQ(m.buffer.n, 0);
    CHECK_EQ(destroyed, 6);
}

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(mutex_lets_one_in),
    TEST(mutex_deadlines_lose_no_wake),
    TEST(mutex_says_what_is_wrong),
    TEST(mutex_starves_nobody),
    TEST(mutex_may_end_after_the_last_unlock),
    TEST(cond_signal_loses_no_wake),
    TEST(cond_broadcast_loses_no_wake),
    TEST(cond_deadlines_lose_no_wake),
    TEST(cond_hands_over_in_turns),
    TEST(cond_wakes_a_thousand_and_may_end),
    TEST(cond_broadcast_among_timed_waiters),
    TEST(cond_says_what_is_wrong),
    TEST(keys_move_along),
    TEST(foreign_threads_take_part),
    {NULL, NULL}};

static int start(void) {
    return ito_init(NULL);
}

int main(int argc, char **argv) {
    return check_main(argc, argv, tests, start, ito_fini);
}
