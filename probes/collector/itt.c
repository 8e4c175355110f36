/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Intel's Instrumentation and Tracing Technology (ITT): oneTBB, libomp, OpenVINO, PyTorch and V8 are annotated with it.
 *
 * A program contains ITT's static part, of which each library may have a copy. At its first call each copy loads the
 * library that INTEL_LIBITTNOTIFY64 names and calls __itt_api_init with a table of its functions, which the library
 * fills in. The layouts below are those of version 3 of the interface (ittnotify.h, ittnotify_config.h), which has not
 * changed them since 2010.
 */
#include "collector.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the interface -- */

struct itt_api {
    const char *name;
    void **function;
    void *init, *null; /* what a call does before anybody has filled it in; when nobody wants it */
    int group;
};
struct itt_global {
    unsigned char magic[8];
    unsigned long major, minor, build;
    long api_initialized, mutex_initialized, atomic_counter;
    pthread_mutex_t mutex;
    void *library, *error_handler;
    const char **path;
    struct itt_api *apis; /* ends with a null name */
};
/* extra1: id of the name. extra2: its counter, if it has one. */
struct itt_string {
    const char *text;
    void *wide_text;
    int extra1;
    void *extra2;
    struct itt_string *next;
};
struct itt_domain {
    volatile int flags; /* 0: calls are skipped */
    struct itt_string name;
};
struct itt_id {
    unsigned long long d1, d2, d3;
};
enum itt_type { ITT_U64 = 1, ITT_S64, ITT_U32, ITT_S32, ITT_U16, ITT_S16, ITT_FLOAT, ITT_DOUBLE };
#define ITT_ATTRIBUTE_BARRIER 1
/* Calls for tools that look for races go through functions of the same name, beside those for all others. */
#define ITT_GROUP_FSYNC (1 << 5)

/* -- handles -- */

/* Domains and strings: one for each text, for all copies of the static part. They are never freed: the program keeps
 * their addresses. Lists as ITT's own, and searched as those: programs create a handle once. */
static struct itt_string *domains, *strings;

/* The handle of a text in a list: of strings, or of domains, which begin with their flags. */
static struct itt_string *handle_in(struct itt_string **list, const char *text) {
    size_t before = list == &domains ? offsetof(struct itt_domain, name) : 0;
    text = text ? text : "";
    /* ORDER acquire; pairs with the release below. Publishes a handle and those behind it. */
    struct itt_string *first = __atomic_load_n(list, __ATOMIC_ACQUIRE), *made = 0;
    char *memory = 0;
    for (;;) {
        for (struct itt_string *s = first; s; s = s->next)
            if (!strcmp(s->text, text)) {
                free(memory);
                return s;
            }
        if (!made) {
            size_t bytes = before + sizeof *made, length = strlen(text) + 1;
            memory = calloc(1, bytes + length);
            if (!memory)
                return 0;
            memcpy(memory + bytes, text, length);
            made = (struct itt_string *)(void *)(memory + before);
            made->text = memory + bytes;
            made->extra1 = (int)name_of(text);
            if (before)
                ((struct itt_domain *)(void *)memory)->flags = 1;
        }
        made->next = first;
        /* ORDER release; pairs with the acquire above and in the failure. Publishes `made`. */
        if (__atomic_compare_exchange_n(list, &first, made, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            return made;
    }
}

static struct itt_string *string_handle_create(const char *text) {
    return handle_in(&strings, text);
}
static struct itt_domain *domain_create(const char *name) {
    struct itt_string *found = handle_in(&domains, name);
    return found ? (struct itt_domain *)(void *)((char *)found - offsetof(struct itt_domain, name)) : 0;
}

/* A handle may come from a copy of the static part that made it before it loaded this library: then its extra1 is 0. */
static uint32_t name_of_string(struct itt_string *s) {
    if (!s)
        return 0;
    /* ORDER relaxed: a number that anyone may make again. */
    uint32_t id = (uint32_t)__atomic_load_n(&s->extra1, __ATOMIC_RELAXED);
    if (KASURI__UNLIKELY(!id) && s->text)
        __atomic_store_n(&s->extra1, (int)(id = name_of(s->text)), __ATOMIC_RELAXED);
    return id;
}
static uint32_t name_of_domain(struct itt_domain *d) {
    return d ? name_of_string(&d->name) : 0;
}

/* Numbers for arrows: ids of one domain differ, null ids of two domains too. */
static uint64_t arrow_id(const struct itt_domain *domain, struct itt_id id) {
    uint64_t h = (uintptr_t)domain;
    h = (h ^ id.d1) * 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 29 ^ id.d2) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 32 ^ id.d3) * 0x94d049bb133111ebull;
    return h ^ h >> 29;
}

/* -- tasks, frames, marks -- */

static void task_begin(const struct itt_domain *domain, struct itt_id id, struct itt_id parent,
                       struct itt_string *name) {
    (void)id, (void)parent;
    span_begin(domain, name_of_string(name));
}
static void task_begin_fn(const struct itt_domain *domain, struct itt_id id, struct itt_id parent, void *function) {
    (void)id, (void)parent, (void)function;
    span_begin(domain, name_of("task"));
}
static void task_end(const struct itt_domain *domain) {
    span_end(domain);
}
static void task_begin_overlapped(const struct itt_domain *domain, struct itt_id id, struct itt_id parent,
                                  struct itt_string *name) {
    (void)parent;
    arrow_begin(name_of_string(name), arrow_id(domain, id));
}
static void task_end_overlapped(const struct itt_domain *domain, struct itt_id id) {
    arrow_end(arrow_id(domain, id));
}
static void region_begin(const struct itt_domain *domain, struct itt_id id, struct itt_id parent,
                         struct itt_string *name) {
    task_begin_overlapped(domain, id, parent, name);
}
static void frame_begin(struct itt_domain *domain, const struct itt_id *id) {
    arrow_begin(name_of_domain(domain), arrow_id(domain, id ? *id : (struct itt_id){0, 0, 0}));
}
static void frame_end(const struct itt_domain *domain, const struct itt_id *id) {
    arrow_end(arrow_id(domain, id ? *id : (struct itt_id){0, 0, 0}));
}
/* A frame that is over. Its times are of another clock's past, which an event cannot have. */
static void frame_submit(struct itt_domain *domain, const struct itt_id *id, unsigned long long begin,
                         unsigned long long end) {
    (void)id, (void)begin, (void)end;
    kasuri_instant(name_of_domain(domain));
}
static void marker(const struct itt_domain *domain, struct itt_id id, struct itt_string *name, int scope) {
    (void)domain, (void)id, (void)scope;
    kasuri_instant(name_of_string(name));
}
static unsigned long long get_timestamp(void) {
    return kasuri__stamp();
}

/* Events have no nesting, and their end is optional. */
static int event_create(const char *name, int length) {
    char copy[256];
    size_t n = length > 0 ? (size_t)length : 0;
    n = n < sizeof copy ? n : sizeof copy - 1;
    if (!name)
        return 0;
    n = strnlen(name, n);
    memcpy(copy, name, n);
    copy[n] = 0;
    return (int)name_of(copy);
}
static int event_start(int event) {
    kasuri_instant((uint32_t)event);
    return 0;
}

static void pause_collection(void) {
    kasuri_instant(name_of("__itt_pause"));
}
static void resume_collection(void) {
    kasuri_instant(name_of("__itt_resume"));
}
static void thread_set_name(const char *name) {
    if (name)
        kasuri_thread_name(name, strlen(name));
}

/* -- values -- */

struct counter {
    uint32_t name;
    enum itt_type type;
    uint64_t total; /* bits of a double */
};

static double read_value(enum itt_type type, const void *at) {
    union {
        uint64_t u64;
        int64_t s64;
        uint32_t u32;
        int32_t s32;
        uint16_t u16;
        int16_t s16;
        float f;
        double d;
    } v = {0};
    static const uint8_t sizes[] = {[ITT_U64] = 8, [ITT_S64] = 8, [ITT_U32] = 4,   [ITT_S32] = 4,
                                    [ITT_U16] = 2, [ITT_S16] = 2, [ITT_FLOAT] = 4, [ITT_DOUBLE] = 8};
    memcpy(&v, at, sizes[type]);
    switch (type) {
    case ITT_S64:
        return (double)v.s64;
    case ITT_U32:
        return v.u32;
    case ITT_S32:
        return v.s32;
    case ITT_U16:
        return v.u16;
    case ITT_S16:
        return v.s16;
    case ITT_FLOAT:
        return (double)v.f;
    case ITT_DOUBLE:
        return v.d;
    case ITT_U64:
    default:
        return (double)v.u64;
    }
}
static int is_type(int type) {
    return type >= ITT_U64 && type <= ITT_DOUBLE;
}

static struct counter *counter_create_typed(const char *name, const char *domain, int type) {
    (void)domain;
    struct counter *made = calloc(1, sizeof *made);
    if (made) {
        made->name = name_of(name);
        made->type = is_type(type) ? (enum itt_type)type : ITT_U64;
    }
    return made;
}
static struct counter *counter_create(const char *name, const char *domain) {
    return counter_create_typed(name, domain, ITT_U64);
}
static struct counter *counter_create_in(const struct itt_domain *domain, const char *name, int type) {
    (void)domain;
    return counter_create_typed(name, 0, type);
}
static void counter_add(struct counter *c, double change) {
    if (!c)
        return;
    /* ORDER relaxed: only the sum must be right; two threads' events may come in either order. */
    uint64_t old = __atomic_load_n(&c->total, __ATOMIC_RELAXED), sum;
    double value;
    do {
        memcpy(&value, &old, sizeof value);
        value += change;
        sum = kasuri__bits(value);
    } while (!__atomic_compare_exchange_n(&c->total, &old, sum, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    kasuri_counter(c->name, value);
}
static void counter_inc(struct counter *c) {
    counter_add(c, 1);
}
static void counter_inc_delta(struct counter *c, unsigned long long n) {
    counter_add(c, (double)n);
}
static void counter_dec(struct counter *c) {
    counter_add(c, -1);
}
static void counter_dec_delta(struct counter *c, unsigned long long n) {
    counter_add(c, -(double)n);
}
static void counter_set_value(struct counter *c, const void *at) {
    if (!c || !at)
        return;
    double value = read_value(c->type, at);
    __atomic_store_n(&c->total, kasuri__bits(value), __ATOMIC_RELAXED);
    kasuri_counter(c->name, value);
}

/* Counters that are told by a string: each has one of its own. */
static struct counter *counter_of(struct itt_string *name) {
    if (!name)
        return 0;
    /* ORDER acquire; pairs with the release below. Publishes the counter's name. */
    void *found = __atomic_load_n(&name->extra2, __ATOMIC_ACQUIRE);
    if (found)
        return found;
    struct counter *made = counter_create_typed(name->text, 0, ITT_U64);
    if (made &&
        !__atomic_compare_exchange_n(&name->extra2, &found, (void *)made, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
        free(made);
        return found;
    }
    return made;
}
static void counter_inc_named(const struct itt_domain *domain, struct itt_string *name) {
    (void)domain;
    counter_add(counter_of(name), 1);
}
static void counter_inc_delta_named(const struct itt_domain *domain, struct itt_string *name, unsigned long long n) {
    (void)domain;
    counter_add(counter_of(name), (double)n);
}
static void counter_dec_named(const struct itt_domain *domain, struct itt_string *name) {
    (void)domain;
    counter_add(counter_of(name), -1);
}
static void counter_dec_delta_named(const struct itt_domain *domain, struct itt_string *name, unsigned long long n) {
    (void)domain;
    counter_add(counter_of(name), -(double)n);
}

/* Only of the present task: an argument belongs to the thread's innermost slice. */
static int is_null(struct itt_id id) {
    return !(id.d1 | id.d2 | id.d3);
}
static void metadata_add(const struct itt_domain *domain, struct itt_id id, struct itt_string *key, int type, size_t n,
                         const void *data) {
    (void)domain;
    if (!is_null(id) || !n || !data || !is_type(type))
        return;
    /* Of several values the first. */
    if (type == ITT_U64) {
        uint64_t v;
        memcpy(&v, data, sizeof v);
        kasuri_arg_u64(name_of_string(key), v);
    } else if (type == ITT_S64) {
        int64_t v;
        memcpy(&v, data, sizeof v);
        kasuri_arg_i64(name_of_string(key), v);
    } else if (type < ITT_FLOAT) {
        kasuri_arg_i64(name_of_string(key), (int64_t)read_value((enum itt_type)type, data));
    } else {
        kasuri_arg_f64(name_of_string(key), read_value((enum itt_type)type, data));
    }
}
static void metadata_str_add(const struct itt_domain *domain, struct itt_id id, struct itt_string *key,
                             const char *text, size_t length) {
    (void)domain;
    if (is_null(id) && text)
        kasuri_arg_str(name_of_string(key), text, length ? strnlen(text, length) : strlen(text));
}

/* -- locks and barriers that a program has made itself -- */

/* Names of objects by address. A table that only grows: an object that is made at the address of an older one takes
 * its place, and beyond half of the slots objects have no name. */
#define OBJECTS 4096u /* power of two */
struct object {
    uintptr_t address; /* 0: free */
    uint32_t name, is_barrier;
};
static struct object objects[OBJECTS];
static uint32_t n_objects;

static struct object *object_at(uintptr_t address, int make) {
    for (uint64_t at = (address >> 4) * 0x9e3779b97f4a7c15ull >> 40;; at++) {
        struct object *o = &objects[at % OBJECTS];
        /* ORDER relaxed: the name is a number that is 0 until it is set. */
        uintptr_t found = __atomic_load_n(&o->address, __ATOMIC_RELAXED);
        if (found == address)
            return o;
        if (found)
            continue;
        if (!make || __atomic_load_n(&n_objects, __ATOMIC_RELAXED) >= OBJECTS / 2)
            return 0;
        if (__atomic_compare_exchange_n(&o->address, &found, address, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_fetch_add(&n_objects, 1, __ATOMIC_RELAXED);
            return o;
        }
        if (found == address)
            return o;
    }
}

/* What an object is called. LLVM's OpenMP gives the place in the source, ";file;function;line;column;;", for a name. */
static uint32_t name_of_object(const char *type, const char *name) {
    char text[256], fields[3][80] = {"", "", ""};
    if (!name || !*name)
        return name_of(type);
    if (*name != ';')
        return name_of(name);
    for (int field = 0; field < 3; field++) {
        size_t length = strcspn(++name, ";");
        size_t kept = length < sizeof fields[field] ? length : sizeof fields[field] - 1;
        memcpy(fields[field], name, kept);
        fields[field][kept] = 0;
        name += length;
        if (!*name)
            return name_of(type);
    }
    if (!strcmp(fields[1], "unknown"))
        return name_of(type);
    snprintf(text, sizeof text, "%s in %s (%s:%s)", type ? type : "", fields[1], fields[0], fields[2]);
    return name_of(text);
}

static void sync_create(void *address, const char *type, const char *name, int attribute) {
    struct object *o = address ? object_at((uintptr_t)address, 1) : 0;
    if (!o)
        return;
    int is_barrier = attribute == ITT_ATTRIBUTE_BARRIER || (type && strstr(type, "arrier"));
    __atomic_store_n(&o->is_barrier, (uint32_t)is_barrier, __ATOMIC_RELAXED);
    __atomic_store_n(&o->name, name_of_object(type, name), __ATOMIC_RELAXED);
}
static void sync_rename(void *address, const char *name) {
    struct object *o = address ? object_at((uintptr_t)address, 1) : 0;
    if (o)
        __atomic_store_n(&o->name, name_of(name), __ATOMIC_RELAXED);
}

/* Runtimes also call `acquired` and `releasing` for a mere order between two threads: only what a thread has asked for
 * before is a lock. */
/* The end of a wait; is_held: with the object. */
static void end_wait(void *address, int is_held) {
    struct thread *t = this_thread();
    if (!t || !address || t->asked != (uintptr_t)address)
        return;
    t->asked = 0;
    struct object *o = object_at((uintptr_t)address, 0);
    uint32_t name = o ? __atomic_load_n(&o->name, __ATOMIC_RELAXED) : 0;
    if (t->asked_barrier) {
        kasuri_wait_end(name, KASURI_WAIT_BARRIER, (uintptr_t)address);
        return;
    }
    for (int i = 0; is_held && i < HELD_MAX; i++)
        if (!t->held[i]) {
            t->held[i] = (uintptr_t)address;
            kasuri_lock_acquired(name, KASURI_LOCK_EXCLUSIVE, (uintptr_t)address);
            return;
        }
    /* Given up; or more locks at once than are kept: a hold without an end would be worse than none. */
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)name, KASURI_EV_LOCK_GIVEN_UP, (uintptr_t)address, 0));
}
static void sync_prepare(void *address) {
    struct thread *t = address && kasuri__gate_load() ? this_thread() : 0;
    if (!t)
        return;
    if (t->asked)
        end_wait((void *)t->asked, 0);
    struct object *o = object_at((uintptr_t)address, 0);
    uint32_t name = o ? __atomic_load_n(&o->name, __ATOMIC_RELAXED) : 0;
    t->asked = (uintptr_t)address;
    t->asked_barrier = o && __atomic_load_n(&o->is_barrier, __ATOMIC_RELAXED);
    if (t->asked_barrier)
        kasuri_wait_begin(name, KASURI_WAIT_BARRIER, (uintptr_t)address);
    else
        kasuri_lock_request(name, KASURI_LOCK_EXCLUSIVE, (uintptr_t)address);
}
static void sync_acquired(void *address) {
    end_wait(address, 1);
}
static void sync_cancel(void *address) {
    end_wait(address, 0);
}
static void sync_releasing(void *address) {
    struct thread *t = this_thread();
    for (int i = 0; t && address && i < HELD_MAX; i++)
        if (t->held[i] == (uintptr_t)address) {
            t->held[i] = 0;
            struct object *o = object_at((uintptr_t)address, 0);
            kasuri_lock_released(o ? __atomic_load_n(&o->name, __ATOMIC_RELAXED) : 0, KASURI_LOCK_EXCLUSIVE,
                                 (uintptr_t)address);
            return;
        }
}

/* -- the table -- */

#define F(name, function)                                                                                              \
    { "__itt_" name, (void (*)(void))(function) }
static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    F("domain_create", domain_create),
    F("string_handle_create", string_handle_create),
    F("task_begin", task_begin),
    F("task_begin_fn", task_begin_fn),
    F("task_end", task_end),
    F("task_begin_overlapped", task_begin_overlapped),
    F("task_end_overlapped", task_end_overlapped),
    F("region_begin", region_begin),
    F("region_end", task_end_overlapped),
    F("frame_begin_v3", frame_begin),
    F("frame_end_v3", frame_end),
    F("frame_submit_v3", frame_submit),
    F("marker", marker),
    F("get_timestamp", get_timestamp),
    F("event_create", event_create),
    F("event_start", event_start),
    F("pause", pause_collection),
    F("resume", resume_collection),
    F("thread_set_name", thread_set_name),
    F("counter_create", counter_create),
    F("counter_create_typed", counter_create_typed),
    F("counter_create_v3", counter_create_in),
    F("counter_inc", counter_inc),
    F("counter_inc_delta", counter_inc_delta),
    F("counter_dec", counter_dec),
    F("counter_dec_delta", counter_dec_delta),
    F("counter_set_value", counter_set_value),
    F("counter_set_value_v3", counter_set_value),
    F("counter_inc_v3", counter_inc_named),
    F("counter_inc_delta_v3", counter_inc_delta_named),
    F("counter_dec_v3", counter_dec_named),
    F("counter_dec_delta_v3", counter_dec_delta_named),
    F("metadata_add", metadata_add),
    F("metadata_str_add", metadata_str_add),
    F("sync_create", sync_create),
    F("sync_set_name", sync_create),
    F("sync_rename", sync_rename),
    F("sync_prepare", sync_prepare),
    F("sync_cancel", sync_cancel),
    F("sync_acquired", sync_acquired),
    F("sync_releasing", sync_releasing),
};

/* What ITT's static part calls, once for each copy, before any other function and while it holds its own lock. All
 * that is not in the table does nothing: left alone, it would look for a library again at each call. */
__attribute__((visibility("default"))) void __itt_api_init(struct itt_global *global, int groups);
void __itt_api_init(struct itt_global *global, int groups) {
    if (!global || global->major < 3 || !global->apis)
        return;
    for (struct itt_api *api = global->apis; api->name; api++) {
        void *function = api->null;
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            if (!strcmp(api->name, functions[i].name) && (api->group & groups & ~ITT_GROUP_FSYNC))
                memcpy(&function, &functions[i].function, sizeof function);
        /* ORDER release; pairs with nothing here: callers load it plainly, as the interface has it. Our tables are
         * constant, and a domain is published by its list. */
        __atomic_store_n(api->function, function, __ATOMIC_RELEASE);
    }
}
