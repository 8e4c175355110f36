/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that wait for descriptors, and who looks at epoll. docs/design/io.md.
 *
 * A descriptor's number has an entry (struct ito__io_fd): a word with a queue bit (wait.h) and the list of those who
 * wait. Each wait registers the number anew, one-shot, for all that its list wants. So nothing has to be known about
 * closed, copied or reused numbers: a registration that was lost is made again, and one that is left of another open
 * file fires at most once, for nothing.
 *
 * A wait (struct ito__io_wait) is an object with a word, on the waiter's stack, that its nodes on the lists of one or
 * more descriptors point to. Lock order: a descriptor's word, a wait's word, the timers' lock.
 *
 *   waiter                                           whoever has the event
 *   1 under each descriptor's bit: node on list,     1 under the descriptor's bit: nodes off the list, and
 *     register                                         under the wait's bit: fired; the waiter off its queue
 *   2 under the wait's bit: unless it has fired,     2 register what is left on the list
 *     on its queue and asleep (ito__wait)            3 the bit given back: make the waiters ready
 *   3 nodes that are left off their lists
 *
 * The wait is not touched after the descriptor's bit is given back, and the waiter takes that bit in step 3; so the
 * frame that the wait lies in outlives all accesses.
 */
#define _GNU_SOURCE
#include "core/wait.h"
#include "io/io.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 64      /* that a parked worker takes at once */
#define EVENTS_LOOK 16 /* that a look takes */
#define LOOK_NS 20000u /* between two looks of a busy worker */
#define HITS_MAX 4u    /* looks that took the events of a sleeping worker, until that one sleeps elsewhere */
#define PAGE_FDS 1024u /* entries that are allocated at once */
#define PAGES 1024u    /* so numbers up to 2^20 can be waited for */
#define INTERRUPT UINT64_MAX

struct ito__io_fd {
    uint32_t word;
    uint8_t kind; /* atomic, relaxed: enum ito__io_kind */
    struct ito__io_node *head, *tail;
};
struct ito__io_wait {
    uint32_t word;
    bool fired; /* under the word's bit */
    struct ito__waiters queue;
    struct ito__waiter waiter;
};

/*
 *   field      writer                                  reader
 *   pages      compare-and-swap, once each             any (acquire); kept until the process ends
 *   epoll      holder of start_lock, once for a pool   any; -1: none
 *   polling    the worker that sleeps in epoll_wait    any (relaxed): compare-and-swap 0 -> 1, back by a release store
 *   rescue     the watcher; any                        a hint: one may sleep there while others run
 *   sleeper    the worker that has `polling`           a hint: its index
 *   looked_at  any                                     a hint: when somebody looked last
 *   events     the worker that has `polling`           same
 */
static struct {
    struct ito__io_fd *pages[PAGES];
    int epoll, interrupt;
    uint32_t started, rescue, hits, sleeper;
    alignas(ITO__LINE) uint32_t polling;
    uint64_t looked_at, seen_at;
    struct epoll_event events[EVENTS];
} io = {.epoll = -1, .interrupt = -1};
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

static void close_both(void) {
    if (io.epoll >= 0)
        close(io.epoll);
    if (io.interrupt >= 0)
        close(io.interrupt);
    io.epoll = io.interrupt = -1;
}

/* Runs in the child after fork: the parent's registrations are the same object as its own. The child has none of the
 * workers, and none of the threads that were on a list or held its bit: entries are made anew. */
static void forget(void) {
    close_both();
    memset(io.pages, 0, sizeof io.pages);
    io.started = io.polling = io.rescue = io.hits = 0;
    pthread_mutex_init(&start_lock, NULL);
}

static int start_slow(void) {
    static bool forks_known;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = INTERRUPT};
    pthread_mutex_lock(&start_lock);
    int r = 0;
    if (!io.started) {
        if (!forks_known)
            forks_known = !pthread_atfork(NULL, NULL, forget);
        io.epoll = epoll_create1(EPOLL_CLOEXEC);
        io.interrupt = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (io.epoll < 0 || io.interrupt < 0 || epoll_ctl(io.epoll, EPOLL_CTL_ADD, io.interrupt, &event) != 0) {
            r = errno;
            close_both();
        } else {
            /* ORDER release; pairs with the acquire load in start(). Publishes the descriptors. */
            store_release(&io.started, 1);
        }
    }
    pthread_mutex_unlock(&start_lock);
    return r;
}

static int start(void) {
    /* ORDER acquire; pairs with the release store in start_slow(). Shows the descriptors. */
    return LIKELY(load_acquire(&io.started)) ? ito__watch_start() : start_slow() ? ENOMEM : ito__watch_start();
}

void ito__io_stop(void) {
    close_both();
    io.started = io.rescue = io.hits = io.polling = 0;
}

/* The entry of a number; null: no memory, or beyond 2^20. */
static struct ito__io_fd *entry_of(int fd) {
    unsigned page = (unsigned)fd / PAGE_FDS;
    if (page >= PAGES)
        return NULL;
    /* ORDER acquire; pairs with the compare-and-swap below. Shows the zeroed entries. */
    struct ito__io_fd *entries = load_acquire(&io.pages[page]);
    if (UNLIKELY(entries == NULL)) {
        struct ito__io_fd *none = NULL;
        entries = calloc(PAGE_FDS, sizeof *entries);
        /* ORDER acq_rel; pairs with the acquire load above. The loser takes the winner's. */
        if (entries && !cas_acq_rel(&io.pages[page], &none, entries)) {
            free(entries);
            entries = none;
        }
    }
    return entries ? &entries[(unsigned)fd % PAGE_FDS] : NULL;
}

/* The same if there is one already. */
static struct ito__io_fd *known_entry_of(unsigned fd) {
    unsigned page = fd / PAGE_FDS;
    /* ORDER acquire; pairs with the compare-and-swap in entry_of(). Shows the zeroed entries. */
    struct ito__io_fd *entries = page < PAGES ? load_acquire(&io.pages[page]) : NULL;
    return entries ? &entries[fd % PAGE_FDS] : NULL;
}

int ito__io_kind(int fd) {
    const struct ito__io_fd *e = known_entry_of((unsigned)fd);
    return e ? load_relaxed(&e->kind) : ITO__IO_UNKNOWN;
}

void ito__io_set_kind(int fd, int kind) {
    if (ito__io_kind(fd) == kind)
        return;
    struct ito__io_fd *e = entry_of(fd);
    if (e)
        store_relaxed(&e->kind, (uint8_t)kind);
}

/* ---- lists of a descriptor: under the bit of its word ------------------------------------------------------------ */

static void list_push(struct ito__io_fd *e, struct ito__io_node *node) {
    node->at = e;
    node->next = NULL;
    node->prev = e->tail;
    store_relaxed(e->tail ? &e->tail->next : &e->head, node);
    e->tail = node;
}
static void list_remove(struct ito__io_node *node) {
    struct ito__io_fd *e = node->at;
    store_relaxed(node->prev ? &node->prev->next : &e->head, node->next);
    *(node->next ? &node->next->prev : &e->tail) = node->prev;
    node->at = NULL;
}

/* What the list of a number wants, one-shot. */
static struct epoll_event event_of(const struct ito__io_fd *e, int fd) {
    struct epoll_event event = {.events = EPOLLONESHOT, .data.u64 = (uint64_t)(unsigned)fd};
    for (struct ito__io_node *n = e->head; n; n = n->next)
        event.events |= n->want;
    return event;
}

/* Registers the number for what its list wants. *added: it was not registered. Return: 0 or an error. */
static int arm(struct ito__io_fd *e, int fd, bool *added) {
    struct epoll_event event = event_of(e, fd);
    if (epoll_ctl(io.epoll, EPOLL_CTL_MOD, fd, &event) == 0)
        return 0;
    if (errno != ENOENT)
        return errno;
    *added = true;
    return epoll_ctl(io.epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

/* The node's wait is over; its thread, if it sleeps, goes on the list. */
static struct ito__waiter *fire(struct ito__io_node *node, uint32_t got, struct ito__waiter *list) {
    struct ito__io_wait *wait = node->wait;
    node->got = got;
    list_remove(node);
    ito__word_lock(&wait->word);
    wait->fired = true;
    struct ito__waiter *w = ito__waiters_pop(&wait->queue);
    ito__word_unlock(&wait->word, 0);
    if (w) {
        w->next = list;
        list = w;
    }
    return list;
}

/* Everybody before `last` waits for a file that is no longer behind this number. */
static struct ito__waiter *fire_orphans(struct ito__io_fd *e, const struct ito__io_node *last) {
    struct ito__waiter *list = NULL;
    while (e->head && e->head != last)
        list = fire(e->head, ITO__IO_CLOSED, list);
    return list;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Step 1. */
static int enlist(struct ito__io_node *node, struct ito__io_wait *wait) {
    struct ito__io_fd *e = entry_of(node->fd);
    struct ito__waiter *orphans = NULL;
    bool added = false;
    node->wait = wait;
    node->got = 0;
    node->at = NULL;
    if (e == NULL)
        return ENOMEM;
    ito__word_lock(&e->word);
    list_push(e, node);
    int r = arm(e, node->fd, &added);
    if (r != 0)
        list_remove(node);
    else if (added)
        orphans = fire_orphans(e, node);
    ito__word_unlock(&e->word, 0);
    ito__waiter_wake_all(orphans, 0);
    return r;
}

/* Step 3. Taking the bit also waits for whoever took the node off its list. */
static void delist(struct ito__io_node *node) {
    struct ito__io_fd *e = entry_of(node->fd);
    if (e == NULL)
        return;
    ito__word_lock(&e->word);
    if (node->at)
        list_remove(node);
    ito__word_unlock(&e->word, 0);
}

/* Step 2. */
static int sleep_until(struct ito__io_wait *wait, uint64_t deadline_ns) {
    ito__waiter_init(&wait->waiter);
    ito__word_lock(&wait->word);
    if (wait->fired) {
        ito__word_unlock(&wait->word, 0);
        return 0;
    }
    ito__waiters_push(&wait->queue, &wait->waiter);
    int r = ito__wait(&wait->waiter, &wait->word, 0, deadline_ns, ITO__WAIT_IO, NULL, NULL);
    return r == ECANCELED ? EINTR : r; /* taken off by light_interrupt() */
}

int ito__io_await(struct ito__io_node *nodes, unsigned n, uint64_t deadline_ns) {
    struct ito__io_wait wait = {0};
    unsigned i = 0;
    int r = start();
    if (r == 0 && deadline_ns != ITO_FOREVER)
        r = ito__timers_start();
    if (r != 0)
        return r;
    __atomic_fetch_add(&ito__pool.io_waiting, 1, __ATOMIC_RELAXED);
    for (; i < n && r == 0; i++)
        r = enlist(&nodes[i], &wait);
    if (r == 0) {
        ito__watch_look(false);
        r = ITO__TLS_IO_BEGIN(&wait.word, &wait.queue) ? sleep_until(&wait, deadline_ns) : EINTR;
        ITO__TLS_IO_END();
    } else {
        i--; /* the last is on no list */
    }
    while (i-- > 0)
        delist(&nodes[i]);
    __atomic_fetch_sub(&ito__pool.io_waiting, 1, __ATOMIC_RELAXED);
    return r;
}

void ito__io_forget(int fd) {
    ito__io_set_kind(fd, ITO__IO_UNKNOWN);
    struct ito__io_fd *e = known_entry_of((unsigned)fd);
    if (e == NULL)
        return;
    ito__word_lock(&e->word);
    struct ito__waiter *list = fire_orphans(e, NULL);
    ito__word_unlock(&e->word, 0);
    ito__waiter_wake_all(list, 0);
}

/* A wait that began between the two registered a file that is gone, and the kernel forgot it. A number that is used again already is
 * registered by whoever waits for the new file, who has fired these then. */
void ito__io_closed(int fd) {
    struct ito__io_fd *e = known_entry_of((unsigned)fd);
    struct ito__waiter *list = NULL;
    struct epoll_event event;
    if (e == NULL)
        return;
    ito__word_lock(&e->word);
    if (e->head) {
        event = event_of(e, fd);
        if (epoll_ctl(io.epoll, EPOLL_CTL_MOD, fd, &event) != 0)
            list = fire_orphans(e, NULL);
    }
    ito__word_unlock(&e->word, 0);
    ito__waiter_wake_all(list, 0);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* One descriptor is ready: everybody who wants that leaves the list; for the others it is registered again. */
static struct ito__waiter *one_event(const struct epoll_event *event, struct ito__waiter *list) {
    struct ito__io_fd *e = entry_of((int)event->data.u64);
    uint32_t got = event->events;
    bool added;
    if (e == NULL)
        return list;
    ito__word_lock(&e->word);
    for (struct ito__io_node *n = e->head, *next; n; n = next) {
        next = n->next;
        if (got & (n->want | EPOLLERR | EPOLLHUP))
            list = fire(n, got, list);
    }
    if (e->head && arm(e, (int)event->data.u64, &added) != 0)
        while (e->head)
            list = fire(e->head, ITO__IO_CLOSED, list);
    ito__word_unlock(&e->word, 0);
    return list;
}

/* What its waiter has on its stack is in no cache where there are many: all misses of a look at once in place of one after the other. The
 * head may be gone by now, and is only an address here. */
static void fetch_ahead(const struct epoll_event *event) {
    const struct ito__io_fd *e = known_entry_of((unsigned)event->data.u64);
    if (e)
        __builtin_prefetch(load_relaxed(&e->head), 1);
}

/*
 * The threads go into this worker's queue. It is told of once, and only where there is more than one: this worker runs
 * the first itself, and another would be woken to steal it.
 */
static unsigned deliver(struct worker *w, const struct epoll_event *events, int n_events) {
    struct ito__waiter *list = NULL;
    unsigned n = 0;
    for (int i = 0; i < n_events; i++)
        fetch_ahead(&events[i]);
    for (int i = 0; i < n_events; i++)
        if (events[i].data.u64 != INTERRUPT)
            list = one_event(&events[i], list);
    while (list) {
        struct ito__waiter *next = list->next;
        struct ito_thread *t = list->thread;
        list->result = 0;
        if (w && (t->bind < 0 || (uint32_t)t->bind == w->index))
            ito__ready_push(w, t);
        else
            ito__ready(t);
        list = next;
        n++;
    }
    if (w && n > 1 && load_relaxed(&w->hot.ask) & ITO__ASK_WORK)
        ito__answer(w);
    return n;
}

bool ito__io_is_due(void) {
    return ito__prim_now() - load_relaxed(&io.looked_at) >= LOOK_NS;
}

unsigned ito__io_poll(struct worker *w, bool now) {
    struct epoll_event events[EVENTS_LOOK];
    /* ORDER acquire; pairs with the release store in start_slow(). Shows the descriptors. */
    if (!load_acquire(&io.started) || (!now && !ito__io_is_due()))
        return 0;
    store_relaxed(&io.looked_at, ito__prim_now());
    int saved = errno, n_events = epoll_wait(io.epoll, events, EVENTS_LOOK, 0);
    unsigned n = n_events > 0 ? deliver(w, events, n_events) : 0;
    /* The kernel woke the worker that sleeps there for nothing. If that happens often it should sleep elsewhere. */
    if (n > 0 && load_relaxed(&io.polling) && w && load_relaxed(&io.sleeper) != w->index) {
        uint32_t hits = load_relaxed(&io.hits) + 1;
        store_relaxed(&io.hits, hits % HITS_MAX);
        if (hits == HITS_MAX) {
            store_relaxed(&io.rescue, 0);
            ito__wake_worker(&ito__pool.workers[load_relaxed(&io.sleeper)]);
        }
    }
    errno = saved;
    return n;
}

void ito__io_interrupt(void) {
    int saved = errno;
    uint64_t one = 1;
    if (write(io.interrupt, &one, sizeof one) < 0) {
        /* full: it is readable, which is all that matters */
    }
    errno = saved;
}

/* Milliseconds, rounded up; -1: no limit. */
static int timeout_of(uint64_t ns) {
    return ns == UINT64_MAX ? -1 : ns / 1000000u >= INT_MAX ? INT_MAX : (int)((ns + 999999u) / 1000000u);
}

/* The worker sleeps there if nobody else could look: all are parked, or the watcher found that nobody did. Otherwise the
 * kernel would wake it for events that a running worker takes. Under park_lock, so that of two workers that park at the
 * same time the second does. */
int ito__io_wait(struct worker *w, uint64_t wait_ns) {
    uint32_t nobody = 0;
    /* ORDER acquire; pairs with the release store in start_slow(). Shows the descriptors. */
    if (!load_acquire(&io.started))
        return -1;
    ito__spin_lock(&ito__pool.park_lock);
    bool last = ito__pool.n_parked == ito__pool.n_workers;
    /* ORDER acquire; pairs with the release store in ito__io_deliver(). Shows `events` as free. */
    w->polls = w->parked && (last || load_relaxed(&io.rescue)) &&
               __atomic_compare_exchange_n(&io.polling, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    bool sleeps = w->polls;
    ito__spin_unlock(&ito__pool.park_lock);
    if (!sleeps)
        return -1;
    store_relaxed(&io.sleeper, w->index);
    int saved = errno, n = epoll_wait(io.epoll, io.events, EVENTS, timeout_of(wait_ns));
    /* Workers that look see the interrupt too and leave it. It stays until the sleeper, whom it is for, has seen it. */
    for (int i = 0; i < n; i++) {
        uint64_t count;
        if (io.events[i].data.u64 == INTERRUPT && read(io.interrupt, &count, sizeof count) < 0)
            break;
    }
    errno = saved;
    store_relaxed(&io.looked_at, ito__prim_now());
    return n < 0 ? 0 : n;
}

void ito__io_deliver(struct worker *w, int n_events) {
    int saved = errno;
    deliver(w, io.events, n_events);
    /* ORDER release; pairs with the acquire in ito__io_wait(). The events have been read. */
    store_release(&io.polling, 0);
    errno = saved;
}

bool ito__io_is_slept_on(void) {
    return load_relaxed(&io.polling) != 0;
}

/* Two looks of the watcher at the same `looked_at`, and nobody sleeps there: the workers compute, or are parked, having
 * left it to one that computes now. */
bool ito__io_rescue(void) {
    if (load_relaxed(&ito__pool.io_waiting) == 0 || load_relaxed(&io.polling))
        return false;
    uint64_t at = load_relaxed(&io.looked_at);
    if (at != io.seen_at) {
        io.seen_at = at;
        return false;
    }
    store_relaxed(&io.rescue, 1);
    if (load_relaxed(&ito__pool.n_parked) > 0)
        ito__wake_idle();
    else
        return ito__io_poll(NULL, true) > 0;
    return true;
}
