/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Channels, select, stop requests; full/empty locks, bare hand-over, joins with deadlines, many threads at once, stacks of
 * the program's, values of workers; as test_sync.c. */
#define _GNU_SOURCE
#include "team.h"

#include <ito/io.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

/* Others go on meanwhile on this worker. */
static void *join_it(void *thread) {
    return (void *)(intptr_t)pthread_join(*(pthread_t *)thread, NULL);
}
static int wait_for_kernel_thread(pthread_t thread) {
    return (int)(intptr_t)ito_blocking(join_it, &thread);
}

/* -- channels -- */

enum { SENDERS = 6, RECEIVERS = 5 };
struct item {
    int sender, number;
    uint64_t check;
};
struct traffic {
    ito_channel channel;
    int each, next; /* receivers take a number */
    bool timed;
    int sent, received;
    uint64_t sum_sent, sum_received;
};
static struct item item_of(int sender, int number) {
    return (struct item){sender, number, (uint64_t)sender * 1000003u + (uint64_t)number * 7919u + 1};
}
static void send_all(struct traffic *t, int me) {
    uint64_t random = random_of((uint64_t)me + 1), sum = 0;
    int sent = 0;
    for (int i = 0; i < t->each; i++) {
        struct item item = item_of(me, i);
        int r = t->timed ? ito_channel_send_until(&t->channel, &item, ito_now_ns() + check_random(&random) % 50000)
                         : ito_channel_send(&t->channel, &item);
        CHECK(r == 0 || (t->timed && r == ETIMEDOUT));
        if (r == 0) {
            sent++;
            sum += item.check;
        }
        delay(&random);
    }
    __atomic_fetch_add(&t->sent, sent, __ATOMIC_RELAXED);
    __atomic_fetch_add(&t->sum_sent, sum, __ATOMIC_RELAXED);
}
static void receive_all(struct traffic *t, int me) {
    uint64_t random = random_of((uint64_t)me + 100), sum = 0;
    int received = 0, last[SENDERS];
    for (int s = 0; s < SENDERS; s++)
        last[s] = -1;
    for (;;) {
        struct item item;
        int r = t->timed ? ito_channel_receive_until(&t->channel, &item, ito_now_ns() + check_random(&random) % 50000)
                         : ito_channel_receive(&t->channel, &item);
        if (r == EPIPE)
            break;
        CHECK(r == 0 || (t->timed && r == ETIMEDOUT));
        if (r)
            continue;
        CHECK_EQ(item.check, item_of(item.sender, item.number).check);
        CHECK(item.number > last[item.sender]); /* items of one sender arrive in order */
        last[item.sender] = item.number;
        received++;
        sum += item.check;
        delay(&random);
    }
    __atomic_fetch_add(&t->received, received, __ATOMIC_RELAXED);
    __atomic_fetch_add(&t->sum_received, sum, __ATOMIC_RELAXED);
}
static void *sender_main(void *arg) {
    struct member *me = arg;
    send_all(me->arg, me->index);
    return NULL;
}
static void *receiver_main(void *arg) {
    struct member *me = arg;
    receive_all(me->arg, me->index);
    return NULL;
}
static void *sending_team(void *arg) {
    team_run(SENDERS - 1, sender_main, arg);
    return NULL;
}
static void *foreign_sender(void *arg) {
    send_all(arg, SENDERS - 1); /* a kernel thread that is no worker */
    return NULL;
}
static void *close_after(void *arg) {
    struct traffic *t = arg;
    pthread_t foreign;
    CHECK_EQ(pthread_create(&foreign, NULL, foreign_sender, t), 0);
    sending_team(t);
    CHECK_EQ(wait_for_kernel_thread(foreign), 0);
    CHECK_EQ(ito_channel_close(&t->channel), 0);
    return NULL;
}
static void traffic_run(uint32_t room, bool timed) {
    struct item buffer[8];
    struct traffic t = {.channel = ITO_CHANNEL_INIT(room ? buffer : NULL, sizeof *buffer, room),
                        .each = check_scale(300),
                        .timed = timed};
    ito_thread *closer;
    CHECK_EQ(ito_create(&closer, NULL, close_after, &t), 0);
    team_run(RECEIVERS, receiver_main, &t);
    CHECK_EQ(ito_join(closer, NULL), 0);
    CHECK_EQ(t.sent, t.received);
    CHECK_EQ(t.sum_sent, t.sum_received);
    CHECK(timed || t.sent == SENDERS * t.each);
    CHECK_EQ(ito_channel_count(&t.channel), 0);
    CHECK_EQ(ito_channel_destroy(&t.channel), 0);
}
static void channel_keeps_items_and_order(void) {
    for (uint32_t room = 0; room <= 8; room += room < 2 ? 1 : 3)
        traffic_run(room, false);
}
static void channel_deadlines_lose_no_item(void) {
    for (uint32_t room = 0; room < 3; room++)
        traffic_run(room, true);
}
static void *receive_one(void *arg) {
    int item = 7;
    int r = ito_channel_receive(arg, &item);
    CHECK(r == EPIPE ? item == 7 : r == 0);
    return (void *)(intptr_t)r;
}
static void *send_one(void *arg) {
    int item = 1;
    return (void *)(intptr_t)ito_channel_send(arg, &item);
}
static void channel_close_wakes_all(void) {
    int buffer[2] = {0}, item;
    for (int full = 0; full < 2; full++) {
        ito_channel c = ITO_CHANNEL_INIT(buffer, sizeof(int), 2);
        ito_thread *threads[20];
        void *results[20];
        CHECK(!full || (ito_channel_try_send(&c, buffer) == 0 && ito_channel_try_send(&c, buffer) == 0));
        ito_channel *each[20];
        for (int i = 0; i < 20; i++)
            each[i] = &c;
        for (int i = 0; i < 20; i++)
            CHECK_EQ(ito_create(&threads[i], NULL, full ? send_one : receive_one, each[i]), 0);
        ito_sleep_ns(MS);
        CHECK_EQ(ito_channel_close(&c), 0);
        CHECK_EQ(ito_channel_close(&c), EALREADY);
        CHECK_EQ(ito_join_many(threads, 20, results), 0);
        for (int i = 0; i < 20; i++)
            CHECK_EQ((intptr_t)results[i], EPIPE);
        /* What was sent before is still there. */
        for (int i = 0; i < 2 * full; i++)
            CHECK_EQ(ito_channel_receive(&c, &item), 0);
        CHECK_EQ(ito_channel_receive(&c, &item), EPIPE);
        CHECK_EQ(ito_channel_send(&c, &item), EPIPE);
    }
}
static void channel_says_what_is_wrong(void) {
    int buffer[1], item = 3;
    ito_channel c;
    ito_thread *t;
    CHECK_EQ(ito_channel_init(&c, NULL, 4, 1), EINVAL);
    CHECK_EQ(ito_channel_init(&c, buffer, sizeof item, 1), 0);
    CHECK_EQ(ito_channel_try_receive(&c, &item), EBUSY);
    CHECK_EQ(ito_channel_receive_until(&c, &item, 0), ETIMEDOUT);
    CHECK_EQ(ito_channel_receive_until(&c, &item, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_channel_send_until(&c, &item, 0), 0); /* what can be done now is, deadline or not */
    CHECK_EQ(ito_channel_count(&c), 1);
    CHECK_EQ(ito_channel_try_send(&c, &item), EBUSY);
    CHECK_EQ(ito_channel_send_until(&c, &item, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_create(&t, NULL, send_one, &c), 0);
    while (ito_channel_destroy(&c) == 0)
        ito_yield(); /* until it waits */
    CHECK_EQ(ito_channel_destroy(&c), EBUSY);
    CHECK_EQ(ito_channel_receive(&c, &item), 0);
    CHECK_EQ(item, 3);
    CHECK_EQ(ito_channel_receive(&c, &item), 0);
    CHECK_EQ(item, 1);
    CHECK_EQ(ito_join(t, NULL), 0);
    CHECK_EQ(ito_channel_is_closed(&c), 0);
}

/* -- select -- */

/* Threads trade tokens over several channels, each in one call that sends or receives: none is lost or doubled. */
enum { MARKETS = 4, TRADERS = 8 };
struct market {
    ito_channel channels[MARKETS];
    int buffers[MARKETS][2];
    int rounds, tokens;
    int sends[MARKETS], receives[MARKETS];
    ito_stop stop;
};
static void *trader_main(void *arg) {
    struct member *me = arg;
    struct market *m = me->arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    for (int round = 0; round < m->rounds; round++) {
        ito_select_case cases[2 * MARKETS];
        int in[MARKETS] = {0}, out = 1;
        size_t n = 0, which = SIZE_MAX;
        for (int c = 0; c < MARKETS; c++) {
            uint64_t r = check_random(&random);
            if (r & 1)
                cases[n++] = (ito_select_case)ITO_RECEIVE_FROM(&m->channels[c], &in[c]);
            if (r & 2)
                cases[n++] = (ito_select_case)ITO_SEND_TO(&m->channels[c], &out);
        }
        int r = ito_select(cases, n, &which, ito_now_ns() + check_random(&random) % 30000);
        CHECK(r == 0 || r == ETIMEDOUT);
        int got = 0;
        for (int c = 0; c < MARKETS; c++)
            got += in[c];
        bool received = r == 0 && cases[which].op == ITO_SELECT_RECEIVE;
        CHECK_EQ(got, received);
        if (r == 0) {
            long c = cases[which].channel - m->channels;
            CHECK(!received || in[c] == 1);
            __atomic_fetch_add(received ? &m->receives[c] : &m->sends[c], 1, __ATOMIC_RELAXED);
        }
        delay(&random);
    }
    return NULL;
}
static void select_does_one_of_many(void) {
    struct market m = {.rounds = check_scale(1500)};
    for (int c = 0; c < MARKETS; c++)
        CHECK_EQ(ito_channel_init(&m.channels[c], m.buffers[c], sizeof(int), (uint32_t)c / 2),
                 0); /* two without a buffer */
    team_run(TRADERS, trader_main, &m);
    int done = 0;
    for (int c = 0; c < MARKETS; c++) {
        CHECK_EQ(m.sends[c] - m.receives[c], ito_channel_count(&m.channels[c]));
        CHECK_EQ(ito_channel_destroy(&m.channels[c]), 0);
        done += m.sends[c];
    }
    CHECK(done > 0);
}
static void select_serves_all_in_turn(void) {
    int buffer[2] = {0}, item, counts[3] = {0};
    ito_channel c[2] = {ITO_CHANNEL_INIT(&buffer[0], sizeof(int), 1), ITO_CHANNEL_INIT(&buffer[1], sizeof(int), 1)};
    for (int i = 0; i < 300; i++) {
        size_t which;
        ito_channel_try_send(&c[0], &i);
        ito_channel_try_send(&c[1], &i);
        ito_select_case cases[] = {ITO_RECEIVE_FROM(&c[0], &item), ITO_RECEIVE_FROM(NULL, NULL),
                                   ITO_RECEIVE_FROM(&c[1], &item)};
        CHECK_EQ(ito_select(cases, 3, &which, ITO_FOREVER), 0);
        counts[which]++;
    }
    CHECK(counts[0] > 60 && counts[2] > 60);
    CHECK_EQ(counts[1], 0);
}
static void select_says_what_is_wrong(void) {
    ito_channel c = ITO_CHANNEL_INIT(NULL, 0, 0);
    ito_select_case none[] = {ITO_RECEIVE_FROM(NULL, NULL)}, one[] = {ITO_RECEIVE_FROM(&c, NULL)};
    size_t which = 9;
    CHECK_EQ(ito_select(NULL, 0, NULL, ITO_FOREVER), EINVAL);
    CHECK_EQ(ito_select(none, 1, &which, ITO_FOREVER), EINVAL);
    CHECK_EQ(ito_select(none, 1, &which, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_select(one, 1, &which, 0), ETIMEDOUT);
    CHECK_EQ(ito_select(one, 1, &which, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(which, 9);
    CHECK_EQ(ito_channel_close(&c), 0);
    CHECK_EQ(ito_select(one, 1, &which, 0), EPIPE);
    CHECK_EQ(which, 0);
    /* Sending and receiving on one channel without a buffer in one select: never with itself. */
    ito_channel d = ITO_CHANNEL_INIT(NULL, 0, 0);
    ito_select_case both[] = {ITO_RECEIVE_FROM(&d, NULL), ITO_SEND_TO(&d, NULL)};
    CHECK_EQ(ito_select(both, 2, &which, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_channel_destroy(&d), 0);
}

/* -- stop -- */

static void *until_stop(void *arg) {
    struct market *m = arg;
    int in, rounds = 0;
    for (;; rounds++) {
        size_t which;
        ito_select_case cases[] = {ITO_RECEIVE_FROM(&m->channels[0], &in), ITO_RECEIVE_FROM(&m->stop.done, NULL)};
        int r = ito_select(cases, 2, &which, ITO_FOREVER);
        if (which == 1) {
            CHECK_EQ(r, EPIPE);
            CHECK(ito_stop_requested(&m->stop));
            return (void *)(intptr_t)rounds;
        }
        CHECK_EQ(r, 0);
    }
}
static void *stop_waits(void *arg) {
    int r = ito_stop_wait_until(arg, ito_now_ns() + 20000);
    CHECK(r == 0 || r == ETIMEDOUT);
    CHECK_EQ(ito_stop_wait_until(arg, ITO_FOREVER), 0);
    return NULL;
}
static void count_call(void *arg) {
    ++*(int *)arg;
}
struct slow_call {
    ito_stop *stop;
    ito_stop_call call;
    int begun, ended;
};
static void slow_call(void *arg) {
    struct slow_call *s = arg;
    __atomic_store_n(&s->begun, 1, __ATOMIC_RELEASE);    /* ORDER release; pairs with the acquire load below */
    CHECK_EQ(ito_stop_off(s->stop, &s->call), EALREADY); /* of itself: does not wait */
    ito_sleep_ns(2 * MS);
    s->ended = 1;
}
static void *request(void *arg) {
    CHECK_EQ(ito_stop_request(arg), 0);
    return NULL;
}
static void stop_reaches_all(void) {
    struct market m = {.stop = ITO_STOP_INIT};
    ito_thread *threads[8], *waits[2], *asks;
    void *rounds[8];
    int calls[3] = {0}, total = 0, sent = 0;
    ito_stop_call call[3];
    CHECK_EQ(ito_channel_init(&m.channels[0], NULL, sizeof(int), 0), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(ito_create(&threads[i], NULL, until_stop, &m), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(ito_create(&waits[i], NULL, stop_waits, &m.stop), 0);
    for (; sent < 20; sent++)
        CHECK_EQ(ito_channel_send(&m.channels[0], &sent), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ito_stop_on(&m.stop, &call[i], count_call, &calls[i]), 0);
    CHECK_EQ(ito_stop_off(&m.stop, &call[1]), 0);
    CHECK_EQ(ito_stop_destroy(&m.stop), EBUSY);
    CHECK_EQ(ito_stop_wait_until(&m.stop, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_stop_requested(&m.stop), 0);
    CHECK_EQ(ito_stop_request(&m.stop), 0);
    CHECK_EQ(ito_stop_request(&m.stop), EALREADY);
    CHECK_EQ(ito_join_many(threads, 8, rounds), 0);
    for (int i = 0; i < 8; i++)
        total += (int)(intptr_t)rounds[i];
    CHECK_EQ(total, sent);
    CHECK_EQ(ito_join_many(waits, 2, NULL), 0);
    CHECK(calls[0] == 1 && calls[1] == 0 && calls[2] == 1);
    CHECK_EQ(ito_stop_off(&m.stop, &call[0]), EALREADY);
    CHECK_EQ(ito_stop_on(&m.stop, &call[1], count_call, &calls[1]), EALREADY);
    CHECK_EQ(calls[1], 1);
    CHECK_EQ(ito_stop_destroy(&m.stop), 0);
    /* Taking a function off waits for it while it runs. */
    ito_stop stop = ITO_STOP_INIT;
    struct slow_call slow = {.stop = &stop};
    CHECK_EQ(ito_stop_on(&stop, &slow.call, slow_call, &slow), 0);
    CHECK_EQ(ito_create(&asks, NULL, request, &stop), 0);
    while (!__atomic_load_n(&slow.begun, __ATOMIC_ACQUIRE)) /* ORDER acquire; pairs with the release store above */
        ito_yield();
    CHECK_EQ(ito_stop_off(&stop, &slow.call), EALREADY);
    CHECK_EQ(slow.ended, 1);
    CHECK_EQ(ito_join(asks, NULL), 0);
    CHECK_EQ(ito_stop_destroy(&stop), 0);
}

/* -- full/empty lock, bare hand-over -- */

struct ring {
    ito_felock lock;
    ito_uncond ping, pong;
    int value, rounds, errors;
};
static void *fe_consumer(void *arg) {
    struct ring *r = arg;
    long sum = 0;
    for (int i = 0; i < r->rounds; i++) {
        CHECK_EQ(ito_felock_wait_and_lock(&r->lock, ITO_FULL), 0);
        sum += r->value;
        r->value = 0;
        CHECK_EQ(ito_felock_mark_and_unlock(&r->lock, ITO_EMPTY), 0);
    }
    return (void *)(intptr_t)sum;
}
static void *fe_producer(void *arg) {
    struct ring *r = arg;
    for (int i = 0; i < r->rounds; i++) {
        CHECK_EQ(ito_felock_wait_and_lock(&r->lock, ITO_EMPTY), 0);
        CHECK_EQ(r->value, 0);
        r->value = i + 1;
        CHECK_EQ(ito_felock_mark_and_unlock(&r->lock, ITO_FULL), 0);
    }
    return NULL;
}
static void felock_goes_to_and_fro(void) {
    struct ring r = {.lock = ITO_FELOCK_INIT, .rounds = check_scale(2000)};
    ito_thread *producers[3], *consumers[3];
    void *sums[3];
    CHECK_EQ(ito_felock_wait_and_lock(&r.lock, 2), EINVAL);
    CHECK_EQ(ito_felock_wait_and_lock_until(&r.lock, ITO_FULL, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_felock_mark_and_unlock(&r.lock, ITO_FULL), EPERM);
    CHECK_EQ(ito_felock_lock(&r.lock), 0);
    CHECK_EQ(ito_felock_status(&r.lock), ITO_EMPTY);
    CHECK_EQ(ito_felock_unlock(&r.lock), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(ito_create(&producers[i], NULL, fe_producer, &r), 0);
        CHECK_EQ(ito_create(&consumers[i], NULL, fe_consumer, &r), 0);
    }
    CHECK_EQ(ito_join_many(producers, 3, NULL), 0);
    CHECK_EQ(ito_join_many(consumers, 3, sums), 0);
    CHECK_EQ((intptr_t)sums[0] + (intptr_t)sums[1] + (intptr_t)sums[2], 3l * r.rounds * (r.rounds + 1) / 2);
    CHECK_EQ(ito_felock_destroy(&r.lock), 0);
}
static void *ponger(void *arg) {
    struct ring *r = arg;
    for (int i = 0; i < r->rounds; i++) {
        CHECK_EQ(ito_uncond_wait(&r->ping), 0);
        CHECK_EQ(r->value, 2 * i + 1);
        r->value++;
        CHECK_EQ(ito_uncond_signal(&r->pong), 0);
    }
    return NULL;
}
static void *foreign_ponger(void *arg) {
    return ponger(arg);
}
static void uncond_hands_over_in_turns(void) {
    for (int pass = 0; pass < 3; pass++) {
        struct ring r = {.rounds = check_scale(pass == 2 ? 300 : 5000)};
        ito_thread *t = NULL;
        pthread_t foreign;
        if (pass == 2)
            CHECK_EQ(pthread_create(&foreign, NULL, foreign_ponger, &r), 0);
        else
            CHECK_EQ(ito_create(&t, NULL, ponger, &r), 0);
        for (int i = 0; i < r.rounds; i++) {
            r.value++;
            if (pass == 1) {
                CHECK_EQ(ito_uncond_pass(&r.ping, &r.pong), 0);
            } else {
                CHECK_EQ(ito_uncond_signal(&r.ping), 0);
                CHECK_EQ(ito_uncond_wait(&r.pong), 0);
            }
            CHECK_EQ(r.value, 2 * i + 2);
        }
        if (t) {
            CHECK_EQ(ito_join(t, NULL), 0);
        } else {
            CHECK_EQ(wait_for_kernel_thread(foreign), 0);
        }
    }
    ito_uncond u = ITO_UNCOND_INIT;
    CHECK_EQ(ito_uncond_signal(&u), 0); /* kept */
    CHECK_EQ(ito_uncond_signal(&u), EALREADY);
    CHECK_EQ(ito_uncond_wait(&u), 0);
}

/* -- joins with deadlines, many threads -- */

static void *sleep_some(void *arg) {
    uint64_t ns = (uint64_t)(uintptr_t)arg;
    if (ns)
        ito_sleep_ns(ns);
    return arg;
}
/* Deadlines around the moment at which the thread ends: whichever comes first, the thread is joined once. */
static void *joiner_main(void *arg) {
    struct member *me = arg;
    uint64_t random = random_of((uint64_t)me->index + 1);
    int late = 0;
    for (int i = 0; i < *(int *)me->arg; i++) {
        ito_thread *t;
        void *result = NULL;
        uintptr_t ns = check_random(&random) % 60000;
        CHECK_EQ(ito_create(&t, NULL, sleep_some, (void *)ns), 0);
        int r = ito_join_until(t, &result, ito_now_ns() + check_random(&random) % 100000);
        while (r == ETIMEDOUT) {
            late++;
            r = check_random(&random) % 2 ? ito_join(t, &result)
                                          : ito_join_until(t, &result, ito_now_ns() + check_random(&random) % 100000);
        }
        CHECK_EQ(r, 0);
        CHECK_EQ((uintptr_t)result, ns);
    }
    return (void *)(intptr_t)late;
}
static void *wait_for_unit(void *arg) {
    CHECK_EQ(ito_sem_wait(arg), 0);
    return arg;
}
static void join_deadlines_lose_no_end(void) {
    ito_sem may_end = ITO_SEM_INIT(0);
    int rounds = check_scale(200);
    ito_thread *t;
    void *result;
    team_run(16, joiner_main, &rounds);
    CHECK_EQ(ito_create(&t, NULL, wait_for_unit, &may_end), 0);
    CHECK_EQ(ito_tryjoin(t, &result), EBUSY);
    CHECK_EQ(ito_join_until(t, &result, 0), ETIMEDOUT);
    CHECK_EQ(ito_join_until(t, &result, in_ms(1)), ETIMEDOUT);
    CHECK_EQ(ito_sem_post(&may_end), 0);
    CHECK_EQ(ito_join_until(t, &result, ITO_FOREVER), 0);
    CHECK(result == &may_end);
    CHECK_EQ(ito_tryjoin(t, &result), EINVAL); /* joined before */
    CHECK_EQ(ito_tryjoin(NULL, NULL), EINVAL);
    CHECK_EQ(ito_tryjoin(ito_self(), NULL), EDEADLK);
    CHECK_EQ(ito_create(&t, NULL, sleep_some, NULL), 0);
    int r;
    while ((r = ito_tryjoin(t, &result)) == EBUSY)
        ito_yield();
    CHECK_EQ(r, 0);
}
static void *square(void *arg) {
    return (void *)(intptr_t)(*(int *)arg * *(int *)arg);
}
static void many_are_created_and_joined(void) {
    enum { N = 500 };
    int args[N];
    ito_thread *threads[N];
    void *results[N];
    for (int i = 0; i < N; i++)
        args[i] = i;
    CHECK_EQ(ito_create_many(threads, N, NULL, square, args, sizeof *args), 0);
    CHECK_EQ(ito_join_many(threads, N, results), 0);
    for (int i = 0; i < N; i++)
        CHECK_EQ((intptr_t)results[i], i * i);
    ito_attr attr = ITO_ATTR_INIT;
    attr.worker = 1 << 30;
    CHECK_EQ(ito_create_many(threads, N, &attr, square, args, sizeof *args), EINVAL);
    for (int i = 0; i < N; i++)
        CHECK(threads[i] == NULL);
    CHECK_EQ(ito_join_many(threads, N, NULL), 0);
    CHECK_EQ(ito_join_many(threads, 0, NULL), 0);
}

/* -- stacks of the program's -- */

struct on_stack {
    char *low, *high;
    int blocks;
};
static void *use_stack(void *arg) {
    struct on_stack *s = arg;
    volatile char here[3000];
    memset((void *)here, 0x55, sizeof here);
    CHECK((char *)here > s->low && (char *)here < s->high);
    if (s->blocks)
        ito_sleep_ns(100000);
    for (unsigned i = 0; i < sizeof here; i++)
        CHECK_EQ(here[i], 0x55);
    return NULL;
}
/* The memory is the caller's again when the join returns, however the thread ended: it is overwritten at once. */
static void *stack_owner(void *arg) {
    struct member *me = arg;
    size_t bytes = 16384 * CHECK_SLOW;
    char *memory = malloc(bytes);
    for (int i = 0; i < *(int *)me->arg; i++) {
        struct on_stack s = {memory, memory + bytes, i % 3 == 0};
        ito_attr attr = ITO_ATTR_INIT;
        ito_thread *t;
        attr.stack = memory;
        attr.stack_bytes = bytes;
        CHECK_EQ(ito_create(&t, &attr, use_stack, &s), 0);
        if (i % 2)
            CHECK_EQ(ito_join(t, NULL), 0);
        else
            while (ito_join_until(t, NULL, in_ms(1)))
                ;
        memset(memory, 0xaa, bytes);
    }
    free(memory);
    return NULL;
}
static void stacks_are_the_callers_again(void) {
    int rounds = check_scale(200);
    static char small[ITO_STACK_LEAST];
    ito_thread *t;
    ito_attr attr = ITO_ATTR_INIT;
    team_run(8, stack_owner, &rounds);
    attr.stack = small;
    attr.stack_bytes = sizeof small - 1;
    CHECK_EQ(ito_create(&t, &attr, square, &rounds), EINVAL);
    attr.stack_bytes = sizeof small;
    CHECK_EQ(ito_create(NULL, &attr, square, &rounds), EINVAL);
    attr.flags = ITO_ATTR_DETACHED;
    CHECK_EQ(ito_create(&t, &attr, square, &rounds), EINVAL);
    CHECK_EQ(ito_create_many(&t, 1, &attr, square, &rounds, 0), EINVAL);
    /* Programs of the first version pass attributes without it. */
    ito_attr old = ITO_ATTR_INIT;
    old.struct_size = offsetof(ito_attr, stack);
    old.stack = (void *)8;
    old.stack_bytes = 65536;
    CHECK_EQ(ito_create(&t, &old, square, &rounds), 0);
    CHECK_EQ(ito_join(t, NULL), 0);
}

/* -- values of workers -- */

static void *count_here(void *arg) {
    struct member *me = arg;
    for (int i = 0; i < 1000; i++) {
        ++*(long *)ito_local_here(me->arg);
        if (i % 100 == 0)
            ito_yield();
    }
    return NULL;
}
static void set_seven(void *value, void *arg) {
    *(long *)value = *(long *)arg;
}
static void *foreign_look(void *arg) {
    return ito_local_here(arg);
}
static void workers_have_values(void) {
    ito_local *l;
    long sum = 0, seven = 7;
    void *seen = &sum;
    pthread_t foreign;
    CHECK_EQ(ito_local_create(&l, 0, NULL, NULL), EINVAL);
    CHECK_EQ(ito_local_create(&l, SIZE_MAX - 10, NULL, NULL), ENOMEM);
    CHECK_EQ(ito_local_create(&l, sizeof(long), set_seven, &seven), 0);
    team_run(50, count_here, l);
    for (unsigned i = 0; i < ito_n_workers(); i++)
        sum += *(long *)ito_local_at(l, i) - 7;
    CHECK_EQ(sum, 50000);
    CHECK(ito_local_at(l, ito_n_workers()) == NULL);
    CHECK_EQ(pthread_create(&foreign, NULL, foreign_look, l), 0);
    CHECK_EQ(pthread_join(foreign, &seen), 0);
    CHECK(seen == NULL);
    ito_local_destroy(l);
}

static const struct check_test tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(channel_keeps_items_and_order),
    TEST(channel_deadlines_lose_no_item),
    TEST(channel_close_wakes_all),
    TEST(channel_says_what_is_wrong),
    TEST(select_does_one_of_many),
    TEST(select_serves_all_in_turn),
    TEST(select_says_what_is_wrong),
    TEST(stop_reaches_all),
    TEST(felock_goes_to_and_fro),
    TEST(uncond_hands_over_in_turns),
    TEST(join_deadlines_lose_no_end),
    TEST(many_are_created_and_joined),
    TEST(stacks_are_the_callers_again),
    TEST(workers_have_values),
    {NULL, NULL}};

static int start(void) {
    return ito_init(NULL);
}

int main(int argc, char **argv) {
    return check_main(argc, argv, tests, start, ito_fini);
}
