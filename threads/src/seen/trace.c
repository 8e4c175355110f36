/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads and workers as Kasuri's events: docs/design/seen.md. */
#include "seen/seen.h"

#include "base/symbol.h"
#include "core/internal.h"
#include "sync/lock_events.h"

#include <kasuri.h>

#include <stdlib.h>
#include <string.h>

#ifndef KASURI_DISABLE /* a CPU without rings (32 bits): nobody can listen */

/* Our ids have the top bit, those of graphs' tasks the next one too; those of forked tasks are the addresses of their
 * frames, which no living other task has. */
#define ID_OURS ITO__ID_UNSEEN

/* ---- is there a recorder ----------------------------------------------------------------------------------------- */

/* Follows the gate: tracing is on while a recorder is attached. Relaxed stores: an event more or less at either end
 * does no harm. Workers are asked, which sends their creations the slow way, where events are written (trace.h). */
static void on_look(void) {
    uint32_t gate = kasuri__gate_load();
    if (gate > 1) { /* a recorder asks the program to attach: any annotation does that */
        KASURI_INSTANT("ito: a recorder came");
        gate = kasuri__gate_load();
    }
    uint32_t on = gate == 1;
    if (on == __atomic_load_n(&ito__tracing, __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&ito__tracing, on, __ATOMIC_RELAXED);
    ito__fold_allow();
    const char *locks = getenv("KASURI_LOCKS");
    bool wanted = on && locks && *locks;
    if (wanted)
        ito__locks_forget_all();
    __atomic_store_n(&ito__seeing_locks, wanted, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < ito__pool.n_workers; i++) {
        if (on)
            ito__ask(&ito__pool.workers[i], ITO__ASK_TRACE);
        else
            __atomic_fetch_and(&ito__pool.workers[i].hot.ask, ~(uint32_t)ITO__ASK_TRACE, __ATOMIC_RELAXED);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/*
 * Caches of names' ids: kasuri_intern makes two system calls, takes a lock and walks a list. Threads write them without
 * a lock. A key is the address of a function or variable, or what text_key() makes of a text; 0: none.
 *
 * An entry is changed in three stores: `key` to 0, `id`, `key`. A reader that finds its key has its id, unless the
 * entry is changed between its two loads, or by two threads at once: then one event may carry another name. An entry
 * that was overwritten is only looked up again.
 */
struct named {
    uint64_t key;
    uint32_t id;
};
#define N_NAMED 256u
static struct named by_address[N_NAMED], by_text[N_NAMED];

/* The top 8 bits of a product with 2^64 / the golden ratio, as N_NAMED is 2^8. */
static struct named *place_of(struct named *cache, uint64_t key) {
    return &cache[(key >> 4) * 0x9e3779b97f4a7c15u >> 56];
}

static bool recall(struct named *at, uint64_t key, uint32_t *id) {
    /* ORDER acquire; pairs with the release store of `key` in remember(). Shows the id. */
    if (load_acquire(&at->key) != key)
        return false;
    *id = load_relaxed(&at->id);
    return true;
}

static void remember(struct named *at, uint64_t key, uint32_t id) {
    store_relaxed(&at->key, 0);
    /* ORDER release, twice; both pair with the acquire load in recall(). The first keeps the 0 before the id, which
     * makes it rare that a reader finds the old key with the new id; the second publishes the id. */
    store_release(&at->id, id);
    store_release(&at->key, key);
}

/* FNV-1a of 64 bits, never 0. Two texts with one key would share a name on the timeline: at 64 bits that takes
 * intent. */
static uint64_t text_key(const char *text) {
    uint64_t key = 0xcbf29ce484222325u;
    for (; *text; text++)
        key = (key ^ (unsigned char)*text) * 0x100000001b3u;
    return key ? key : 1;
}

/* kasuri_intern. The text may lie in memory that is used again for another, so its address says nothing. */
static uint32_t intern(const char *text) {
    uint64_t key = text_key(text);
    struct named *at = place_of(by_text, key);
    uint32_t id;
    if (recall(at, key, &id))
        return id;
    id = kasuri_intern(text);
    if (id) /* 0: not now */
        remember(at, key, id);
    return id;
}

static uint32_t on_name(const void *address) {
    uint64_t key = (uintptr_t)address;
    struct named *at = place_of(by_address, key);
    uint32_t id;
    if (recall(at, key, &id))
        return id;
    char name[128];
    ito__symbol(address, name, sizeof name, NULL, 0);
    id = name[0] ? kasuri_intern(name) : 0;
    if (id || !name[0])
        remember(at, key, id);
    return id;
}

/* The name that the program gave, or that of its function; the recorder shows it for the task. */
static uint32_t name_of(const struct ito_thread *t) {
    if (t->name)
        return intern(t->name);
    if (t->flags & ITO__ROOT)
        return intern("main");
    uint32_t id = t->fn ? on_name((const void *)(uintptr_t)t->fn) : 0;
    return id ? id : intern("ito thread");
}

/* What a thread waits for, as the id of a word; 0: not known. */
static uint32_t word_of(uint32_t kind) {
    const char *word = ito__wait_word(kind);
    return word[0] ? intern(word) : 0;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* The thread's id, given when the recorder first hears of the thread: the recorder may have come later. */
static uint64_t id_of(struct ito_thread *t) {
    static uint64_t next;
    if (t->id == 0) {
        struct ito__worker *w = ito__worker();
        uint64_t n = w ? ++w->reserved : __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED);
        uint64_t who = w ? worker_of(w)->index + 1 : 0;
        t->id = ID_OURS | who << 40 | n;
    }
    return t->id;
}

/* A worker's own context, a thread between two tasks of a graph, a thread whose task's end was told before its own. */
static bool is_unseen(const struct ito_thread *t) {
    return t->flags & ITO__SCHED || t->id == ITO__ID_UNSEEN;
}

/* The task that the thread is in: a forked one that it runs in place, else itself. That one creates and joins others. 0: none
 * that a recorder hears of. */
static uint64_t task_of(struct ito_thread *t) {
    if (t->in_place)
        return t->in_place;
    return is_unseen(t) ? 0 : id_of(t);
}

/* Another task runs on this worker from here on: what was folded in the one before is told first. */
static void task_changes(void) {
    struct ito__worker *w = ito__worker();
    if (w)
        ito__fold_tell(worker_of(w));
}
/* The same where it is another thread's: what is being measured is not one task's time any more. */
static void thread_changes(void) {
    struct ito__worker *w = ito__worker();
    if (w == NULL)
        return;
    ito__fold_tell(worker_of(w));
    worker_of(w)->fold.moves++;
}

/* TASK_CREATE: second word: the parent; 0: none. */
static void on_create(struct ito_thread *thread, struct ito_thread *parent) {
    if (is_unseen(thread))
        return;
    thread->flags |= ITO__TRACED;
    uint64_t from = parent ? task_of(parent) : 0;
    kasuri_task_event(KASURI_EV_TASK_CREATE, name_of(thread), id_of(thread), from);
}

static void on_start(struct ito_thread *thread) {
    thread_changes();
    if (is_unseen(thread))
        return;
    uint32_t stolen = thread->id && !(thread->id & ID_OURS) ? KASURI_TASK_STOLEN : KASURI_TASK_OWN;
    uint32_t name = thread->flags & ITO__ROOT ? name_of(thread) : 0;
    kasuri_task_event(KASURI_EV_TASK_START | stolen << 16, name, id_of(thread), 0);
}

/* A forked task's frame, and so its id, belongs to its parent again once the parent knows that the task is done. So END
 * is recorded before that, and not again when the task's thread ends. */
static void on_end(struct ito_thread *thread) {
    thread_changes();
    if (is_unseen(thread))
        return;
    kasuri_task_event(KASURI_EV_TASK_END, 0, id_of(thread), 0);
    if (!(thread->id & ID_OURS))
        thread->id = ITO__ID_UNSEEN;
}

/* TASK_SUSPEND: second word: the object that the thread waits for; of a join the id of the other thread, as readers
 * know threads by their ids. */
static void on_block(struct ito_thread *thread) {
    thread_changes();
    if (is_unseen(thread))
        return;
    uint64_t on = (uintptr_t)thread->wait_on;
    if (thread->wait_kind == ITO__WAIT_JOIN && thread->wait_on)
        on = ((struct ito_thread *)thread->wait_on)->id;
    kasuri_task_event(KASURI_EV_TASK_SUSPEND, word_of(thread->wait_kind), id_of(thread), on);
}

static void on_resume(struct ito_thread *thread) {
    thread_changes();
    if (!is_unseen(thread))
        kasuri_task_event(KASURI_EV_TASK_RESUME, 0, id_of(thread), 0);
}

static void on_steal(struct ito_thread *thread) {
    thread_changes();
    if (is_unseen(thread))
        return;
    kasuri_task_event(KASURI_EV_TASK_RESUME, intern("steal"), id_of(thread), 0);
}

/* TASK_JOIN: the task that waited, and the one that it waited for. A foreign kernel thread is no task: 0. */
static void on_join_of(struct ito_thread *joiner, uint64_t joined) {
    if (joined)
        kasuri_task_event(KASURI_EV_TASK_JOIN, 0, joiner->flags & ITO__FOREIGN ? 0 : task_of(joiner), joined);
}
static void on_join(uint64_t joined) {
    on_join_of(ito__self(), joined);
}

static void on_point(const void *object, uint32_t kind) {
    /* Without a parent: it is the task that runs here, which may be a forked one. */
    kasuri_task_event(KASURI_EV_TASK_CREATE | KASURI_TASK_POINT << 16, word_of(kind), (uintptr_t)object, 0);
}
static void on_left(const void *object) {
    kasuri_task_event(KASURI_EV_TASK_JOIN, 0, (uintptr_t)object, id_of(ito__self()));
}

/* Worker 0 is the program's main thread and keeps its name. */
static void on_worker(unsigned index) {
    char name[] = "ito worker     ";
    unsigned digits = 0, at = 11;
    for (unsigned n = index; n; n /= 10)
        digits++;
    for (unsigned n = index, i = digits; i-- > 0; n /= 10)
        if (at + i < sizeof name - 1)
            name[at + i] = (char)('0' + n % 10);
    kasuri_thread_name(name, at + digits < sizeof name ? at + digits : sizeof name - 1);
}

/* A slice "find work" from the first look without success to the next thread; begins and ends are never doubled. */
static void on_search(struct worker *w, int begin) {
    if (w->trace_searching == (uint32_t)begin)
        return;
    w->trace_searching = (uint32_t)begin;
    ito__fold_tell(w);
    if (begin)
        KASURI_BEGIN("ito: find work");
    else
        KASURI_END();
}

static uint64_t on_stamp(void) {
    return kasuri__stamp();
}

/* A slice of its own name, written when it is known that there was a hand-over: what the call itself wrote meanwhile lies
 * before it, and readers begin the slice behind that. */
static void on_handed_over(const char *call, uint64_t began) {
    char name[64] = "handed over: ";
    size_t n = strlen(name);
    for (; *call && n < sizeof name - 1; call++)
        name[n++] = *call;
    name[n] = 0;
    kasuri__slow_at(0, (int32_t)intern(name), KASURI_EV_BEGIN | 1u << 8, 0, began, 0, 0);
    KASURI_END();
}

static uint32_t on_task_name(const struct ito__fork *fork, const char *name) {
    return name ? intern(name) : on_name((const void *)(uintptr_t)fork->run);
}

static void on_fork(struct ito__fork *fork, const char *name) {
    kasuri_task_event(KASURI_EV_TASK_CREATE, on_task_name(fork, name), (uintptr_t)fork, task_of(ito__self()));
}

static void on_run(struct ito__fork *fork, struct ito__ran *ran) {
    struct ito_thread *me = ito__self();
    task_changes();
    ran->outer = me->in_place;
    kasuri_task_event(KASURI_EV_TASK_START | KASURI_TASK_IN_PLACE << 16, 0, (uintptr_t)fork, 0);
    me->in_place = (uintptr_t)fork;
    ito__fold_began(ran);
}
static void on_ran(struct ito__fork *fork, const struct ito__ran *ran) {
    task_changes();
    ito__fold_ended(ran, fork);
    ito__self()->in_place = ran->outer;
    kasuri_task_event(KASURI_EV_TASK_END, 0, (uintptr_t)fork, 0);
}

static void on_dropped(struct ito__fork *fork) {
    task_changes();
    kasuri_task_event(KASURI_EV_TASK_START | KASURI_TASK_IN_PLACE << 16, 0, (uintptr_t)fork, 0);
    kasuri_task_event(KASURI_EV_TASK_END, 0, (uintptr_t)fork, 0);
    on_join((uintptr_t)fork);
}

/* After its creation is written, its start may be: the caller has it, or holds the lock that others need to have it. */
static void on_unfold(struct ito__fork *fork, uint64_t folded_in) {
    kasuri_task_event(KASURI_EV_TASK_CREATE | KASURI_TASK_UNFOLDED << 16, ito__fold_name(fork), (uintptr_t)fork,
                      folded_in);
}

static uint64_t on_running(void) {
    return task_of(ito__self());
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* The id of task 0; the others follow. A run's number comes again after 16 million. */
static uint64_t on_graph_ids(uint32_t graph) {
    static uint32_t runs; /* relaxed: each gets a number of its own, and nothing comes with it */
    uint64_t run = __atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED) & 0xffffffu;
    return ITO__ID_GRAPH | (uint64_t)ITO__ID_GRAPH_NUMBER_OF(graph) << 48 | run << 24;
}

static void on_new_task(uint64_t id, const char *name, const void *fn) {
    struct ito_thread *me = ito__self();
    uint32_t word = name ? intern(name) : on_name(fn);
    uint64_t from = me->flags & ITO__FOREIGN ? 0 : task_of(me);
    kasuri_task_event(KASURI_EV_TASK_CREATE, word ? word : intern("ito task"), id, from);
}

static void on_depends(uint64_t id, uint64_t on) {
    kasuri_task_event(KASURI_EV_TASK_DEPENDS, 0, id, on);
}

static void on_task(uint64_t id, int begin) {
    task_changes();
    kasuri_task_event(begin ? KASURI_EV_TASK_START : KASURI_EV_TASK_END, 0, id, 0);
}

const struct ito__listener ito__recorder = {
    .look = on_look,
    .create = on_create,
    .start = on_start,
    .end = on_end,
    .block = on_block,
    .resume = on_resume,
    .steal = on_steal,
    .join = on_join,
    .worker = on_worker,
    .search = on_search,
    .fork = on_fork,
    .run = on_run,
    .ran = on_ran,
    .dropped = on_dropped,
    .unfold = on_unfold,
    .name = on_name,
    .task_name = on_task_name,
    .running = on_running,
    .point = on_point,
    .join_of = on_join_of,
    .left = on_left,
    .graph_ids = on_graph_ids,
    .new_task = on_new_task,
    .depends = on_depends,
    .task = on_task,
    .stamp = on_stamp,
    .handed_over = on_handed_over,
};

#endif
