/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thread-local keys. A thread's values lie in a table that hangs on its descriptor, so they move along when it
 * migrates.
 *
 * A key is an index (10 bits) with a generation (22 bits above them): odd while in use. A value counts only with the
 * generation it was set under, so a key that is deleted and created again starts at NULL in every thread, and no
 * thread's table need be visited.
 *
 *   ito_key_create, delete   change the process-wide array `keys`, without a lock; create is linear in ITO_KEYS_MAX
 *   ito_key_set, get         use the calling thread's table; O(1), without atomics but the look at the generation
 *   ito__keys_end            runs the destructors when a thread ends, in rounds, as pthread_key_create of POSIX says
 *
 * A table begins with 8 values and doubles, so a thread that uses few keys has a small one, and a thread that sets none
 * has none.
 */
#include "core/wait.h"

#include <stdlib.h>

#define INDEX_BITS 10
_Static_assert(1u << INDEX_BITS == ITO_KEYS_MAX, "a key's low bits are its index");

/*
 *   field       writer                             reader              rule
 *   generation  create, delete, compare-and-swap   any (acquire)       below
 *   destroy     create, before the generation      a thread's end      relaxed, published by the generation
 *
 * The life of an index:
 *   even: free --(create)--> top bit and odd: being made --(create)--> odd: in use --(delete)--> even: free
 */
static struct {
    uint32_t generation;
    void (*destroy)(void *);
} keys[ITO_KEYS_MAX];

/* Null if never set; counts only while `generation` is that of the key. */
struct key_value {
    uint32_t generation;
    void *value;
};
struct key_table {
    uint32_t n;
    struct key_value values[];
};

static uint32_t key_index(ito_key key) {
    return key & (ITO_KEYS_MAX - 1);
}
/* 22 bits: after two million creations and deletions at one index the generation wraps, and an old key may be taken for
 * the new one. */
static uint32_t key_generation(ito_key key) {
    return key >> INDEX_BITS;
}
static uint32_t key_now(uint32_t index) {
    /* ORDER acquire; pairs with the release store in ito_key_create(). Shows the key's `destroy`. */
    return load_acquire(&keys[index].generation);
}
/* Relaxed: if a key is deleted while a thread ends, its destructor may be called or not; POSIX leaves that open. */
static void (*key_destructor(uint32_t index))(void *) {
    return load_relaxed(&keys[index].destroy);
}
static bool key_is_valid(ito_key key) {
    return (key_generation(key) & 1) && key_now(key_index(key)) == key_generation(key);
}

/* Takes the first free index. Two steps, so that no thread finds the key valid before `destroy` is written. */
int ito_key_create(ito_key *key, void (*destroy)(void *)) {
    for (uint32_t i = 0; i < ITO_KEYS_MAX; i++) {
        uint32_t free = key_now(i);
        if (free & 1)
            continue;
        /* The top bit marks an index that is neither free nor valid while `destroy` is written.
         * ORDER acquire; pairs with the release of the compare-and-swap in ito_key_delete(): the index's last owner is
         * done with it. */
        if (!__atomic_compare_exchange_n(&keys[i].generation, &free, free | 0x80000001u, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        store_relaxed(&keys[i].destroy, destroy);
        uint32_t used = (free + 1) & (UINT32_MAX >> INDEX_BITS);
        /* ORDER release; pairs with the acquire load in key_now(). Publishes `destroy`. */
        store_release(&keys[i].generation, used);
        *key = used << INDEX_BITS | i;
        return 0;
    }
    return EAGAIN;
}

/* Values that threads have set are not destroyed, as with pthread_key_delete: the program does that before. */
int ito_key_delete(ito_key key) {
    uint32_t used = key_generation(key);
    if (!(used & 1))
        return EINVAL;
    uint32_t next = (used + 1) & (UINT32_MAX >> INDEX_BITS);
    /* ORDER acq_rel; pairs with the acquire in ito_key_create(), which may take the index over, and with the release of
     * the creation: of two threads that delete a key, one succeeds. */
    return __atomic_compare_exchange_n(&keys[key_index(key)].generation, &used, next, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED)
               ? 0
               : EINVAL;
}

/* A thread's table is read and written by that thread alone. */
static struct key_table *key_table(const ito_thread *t) {
    return (struct key_table *)(void *)t->keys;
}

/* A kernel thread that is not a worker ends by pthread's rules and not by ito__end_slow(). The first time that it sets
 * a key, it gets a value under one pthread key for all of ito; that key's destructor runs ito's destructors. */
static pthread_key_t keys_foreign;
static pthread_once_t keys_foreign_once = PTHREAD_ONCE_INIT;
static int keys_foreign_error;
static void keys_foreign_end(void *thread) {
    if (((ito_thread *)thread)->keys)
        ito__keys_end(thread);
}
static void keys_foreign_start(void) {
    keys_foreign_error = pthread_key_create(&keys_foreign, keys_foreign_end);
}
static bool keys_foreign_watch(ito_thread *t) {
    pthread_once(&keys_foreign_once, keys_foreign_start);
    return !keys_foreign_error && !pthread_setspecific(keys_foreign, t);
}

/* Make room for `index`, by doubling. The table moves when it grows: callers read it anew after every call that may end
 * here. Null: no memory, and the old table is as it was. */
static struct key_table *key_table_grow(ito_thread *t, uint32_t index) {
    struct key_table *old = key_table(t);
    uint32_t n = old ? old->n : 0, wanted = n ? n : 8;
    while (wanted <= index)
        wanted *= 2;
    if (!old && t->flags & ITO__FOREIGN && !keys_foreign_watch(t))
        return NULL;
    struct key_table *table = realloc(old, sizeof *table + wanted * sizeof table->values[0]);
    if (!table)
        return NULL;
    for (uint32_t i = n; i < wanted; i++)
        table->values[i] = (struct key_value){0, NULL};
    table->n = wanted;
    ito__expose(t); /* the inline end does not look for keys */
    t->keys = (void **)(void *)table;
    return table;
}

/* A null value beyond the table is what the key has already, so nothing grows for it. */
int ito_key_set(ito_key key, const void *value) {
    uint32_t index = key_index(key);
    if (!key_is_valid(key))
        return EINVAL;
    ito_thread *self = ito__self();
    struct key_table *table = key_table(self);
    if (!table || index >= table->n) {
        if (!value)
            return 0;
        if (!(table = key_table_grow(self, index)))
            return ENOMEM;
    }
    table->values[index] = (struct key_value){key_generation(key), (void *)(uintptr_t)value};
    return 0;
}

/* NULL for a key that was never set in this thread, or that is not valid. */
void *ito_key_get(ito_key key) {
    uint32_t index = key_index(key);
    const struct key_table *table = key_table(ito__self());
    if (!table || index >= table->n || table->values[index].generation != key_generation(key) || !key_is_valid(key))
        return NULL;
    return table->values[index].value;
}

/* One round of destructors; false: there was nothing to destroy. A destructor may set values, so the table is looked up
 * again at each step; it may block, and the thread go on on another worker. A key that was deleted meanwhile has
 * another generation, and its destructor is not called. */
static bool keys_end_round(ito_thread *t) {
    bool any = false;
    for (uint32_t i = 0; i < key_table(t)->n; i++) {
        struct key_value v = key_table(t)->values[i];
        if (!v.value)
            continue;
        key_table(t)->values[i].value = NULL;
        void (*destroy)(void *) = v.generation == key_now(i) ? key_destructor(i) : NULL;
        if (destroy) {
            destroy(v.value);
            any = true;
        }
    }
    return any;
}

/* Destructors may set values again, so up to ITO_KEY_ROUNDS rounds, as POSIX asks (PTHREAD_DESTRUCTOR_ITERATIONS). The
 * values that are left after them are dropped. */
void ito__keys_end(ito_thread *t) {
    for (int round = 0; round < ITO_KEY_ROUNDS && keys_end_round(t); round++)
        ;
    free(key_table(t));
    t->keys = NULL;
}
