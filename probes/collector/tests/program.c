/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The programs. They contain what ITT's static part and NVTX's headers contain: tables that the collector fills in. */
#include "program.h"
#include "expect.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

/* -- ITT -- */

struct api {
    const char *name;
    void **function;
    void *init, *null;
    int group;
};
struct global {
    unsigned char magic[8];
    unsigned long major, minor, build;
    long initialized[3];
    pthread_mutex_t mutex;
    void *library, *error_handler;
    const char **path;
    struct api *apis;
};
struct id {
    unsigned long long d1, d2, d3;
};
void __itt_api_init(struct global *global, int groups);

/* Calls of one name, with the types that they are made with. */
#define CALLS(X)                                                                                                       \
    X(void *, domain_create, (const char *))                                                                           \
    X(void *, string_handle_create, (const char *))                                                                    \
    X(void, task_begin, (void *, struct id, struct id, void *))                                                        \
    X(void, task_begin_fn, (void *, struct id, struct id, void *))                                                     \
    X(void, task_end, (void *))                                                                                        \
    X(void, task_begin_overlapped, (void *, struct id, struct id, void *))                                             \
    X(void, task_end_overlapped, (void *, struct id))                                                                  \
    X(void, frame_begin_v3, (void *, struct id *))                                                                     \
    X(void, frame_end_v3, (void *, struct id *))                                                                       \
    X(void, frame_submit_v3, (void *, struct id *, unsigned long long, unsigned long long))                            \
    X(void, marker, (void *, struct id, void *, int))                                                                  \
    X(int, event_create, (const char *, int))                                                                          \
    X(int, event_start, (int))                                                                                         \
    X(void, pause, (void))                                                                                             \
    X(void, resume, (void))                                                                                            \
    X(void, thread_set_name, (const char *))                                                                           \
    X(void *, counter_create, (const char *, const char *))                                                            \
    X(void *, counter_create_typed, (const char *, const char *, int))                                                 \
    X(void, counter_inc, (void *))                                                                                     \
    X(void, counter_inc_delta, (void *, unsigned long long))                                                           \
    X(void, counter_dec, (void *))                                                                                     \
    X(void, counter_set_value, (void *, void *))                                                                       \
    X(void, counter_inc_v3, (void *, void *))                                                                          \
    X(void, counter_dec_delta_v3, (void *, void *, unsigned long long))                                                \
    X(void, metadata_add, (void *, struct id, void *, int, size_t, void *))                                            \
    X(void, metadata_str_add, (void *, struct id, void *, const char *, size_t))                                       \
    X(void, sync_create, (void *, const char *, const char *, int))                                                    \
    X(void, sync_rename, (void *, const char *))                                                                       \
    X(void, sync_prepare, (void *))                                                                                    \
    X(void, sync_cancel, (void *))                                                                                     \
    X(void, sync_acquired, (void *))                                                                                   \
    X(void, sync_releasing, (void *))                                                                                  \
    X(unsigned long long, get_timestamp, (void))
#define DEFINE(type, name, arguments) static type(*name##_call) arguments;
CALLS(DEFINE)
static void (*heap_record_call)(unsigned);
static void (*fsync_prepare_call)(void *);

static void nothing(void) {}
static struct api apis[] = {
#define ROW(type, name, arguments) {"__itt_" #name, (void **)(void *)&name##_call, 0, 0, 1 << 12},
    CALLS(ROW){"__itt_heap_record", (void **)(void *)&heap_record_call, 0, 0, 1 << 11},
    {"__itt_sync_prepare", (void **)(void *)&fsync_prepare_call, 0, 0, 1 << 5},
    {0, 0, 0, 0, 0}};
static struct global global = {.major = 3, .mutex = PTHREAD_MUTEX_INITIALIZER, .apis = apis};
static const struct id null_id;

static void load_itt(void) {
    __itt_api_init(&global, -1);
}

static int itt_tasks_marks_and_values(void) {
    load_itt();
    void *d = domain_create_call("D"), *task = string_handle_create_call("task");
    void *key = string_handle_create_call("key"), *mark = string_handle_create_call("mark");
    thread_set_name_call("main thread");
    task_begin_call(d, null_id, null_id, task);
    uint64_t u = ~0ull;
    int16_t s = -2;
    double f = 0.5;
    metadata_add_call(d, null_id, key, 1, 1, &u);
    metadata_add_call(d, null_id, key, 6, 1, &s);
    metadata_add_call(d, null_id, key, 8, 1, &f);
    metadata_add_call(d, (struct id){1, 2, 3}, key, 1, 1, &u); /* not of this task */
    metadata_add_call(d, null_id, key, 99, 1, &u);             /* no such type */
    metadata_add_call(d, null_id, key, 1, 0, 0);
    metadata_str_add_call(d, null_id, key, "text beyond", 4);
    task_begin_fn_call(d, null_id, null_id, (void *)(uintptr_t)nothing);
    task_end_call(d);
    task_end_call(d);
    marker_call(d, null_id, mark, 1);
    int event = event_create_call("event and more", 5);
    EXPECT(event > 0 && event_start_call(event) == 0);
    pause_call();
    resume_call();
    void *c = counter_create_call("count", "D");
    counter_inc_call(c);
    counter_inc_delta_call(c, 9);
    counter_dec_call(c);
    void *typed = counter_create_typed_call("level", "D", 7);
    float level = 1.5f;
    counter_set_value_call(typed, &level);
    counter_inc_v3_call(d, mark);
    counter_dec_delta_v3_call(d, mark, 3);
    EXPECT(get_timestamp_call() > 0);
    /* None of it may hurt. */
    task_begin_call(0, null_id, null_id, 0);
    task_end_call(0);
    counter_inc_call(0);
    thread_set_name_call(0);
    return failed;
}

static int itt_locks_and_barriers(void) {
    load_itt();
    static long lock, nameless, barrier, critical, never_asked;
    sync_create_call(&lock, "Spin Lock", "my lock", 2);
    sync_create_call(&barrier, "OMP Join Barrier", "", 0);
    sync_create_call(&critical, "OMP Critical", ";a.c;work;17;3;;", 2);
    sync_prepare_call(&lock);
    sync_prepare_call(&lock); /* asked twice: one request at a time */
    sync_acquired_call(&lock);
    sync_prepare_call(&critical);
    sync_acquired_call(&critical);
    sync_releasing_call(&critical);
    sync_releasing_call(&lock);
    sync_releasing_call(&lock);       /* not held any more */
    sync_acquired_call(&never_asked); /* an order between threads, no lock */
    sync_releasing_call(&never_asked);
    sync_prepare_call(&nameless);
    sync_cancel_call(&nameless);
    sync_prepare_call(&barrier);
    sync_acquired_call(&barrier);
    sync_rename_call(&lock, "renamed");
    sync_prepare_call(&lock);
    sync_acquired_call(&lock);
    sync_releasing_call(&lock);
    return failed;
}

static int itt_what_begins_and_ends_apart(void) {
    load_itt();
    void *d = domain_create_call("D"), *task = string_handle_create_call("overlapped");
    struct id first = {1, 0, 0}, second = {2, 0, 0};
    task_begin_overlapped_call(d, first, null_id, task);
    task_begin_overlapped_call(d, second, null_id, task);
    task_end_overlapped_call(d, first);
    task_end_overlapped_call(d, second);
    frame_begin_v3_call(d, 0);
    frame_end_v3_call(d, 0);
    frame_submit_v3_call(d, 0, 1, 2);
    return failed;
}

static int itt_tables_are_filled_or_left_alone(void) {
    struct global old = global;
    old.major = 2;
    __itt_api_init(&old, -1);
    __itt_api_init(0, -1);
    EXPECT(!task_begin_call);
    heap_record_call = (void (*)(unsigned))(uintptr_t)1;
    fsync_prepare_call = (void (*)(void *))(uintptr_t)1;
    load_itt();
    EXPECT(!heap_record_call && !fsync_prepare_call && task_begin_call && sync_prepare_call);
    __itt_api_init(&global, 1 << 11);
    EXPECT(!task_begin_call); /* a group that the user has not asked for */
    return failed;
}

static void *makes_handles(void *results) {
    void **handle = results;
    for (int i = 0; i < 64; i++) {
        char name[16];
        snprintf(name, sizeof name, "handle %d", i);
        handle[2 * i] = domain_create_call(name);
        handle[2 * i + 1] = string_handle_create_call(name);
        task_begin_call(handle[2 * i], null_id, null_id, handle[2 * i + 1]);
        counter_inc_v3_call(handle[2 * i], handle[2 * i + 1]);
        task_end_call(handle[2 * i]);
    }
    return 0;
}
static int itt_handles_are_one_for_each_text(void) {
    static void *handles[4][128];
    pthread_t threads[4];
    load_itt();
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, makes_handles, handles[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    for (int i = 1; i < 4; i++)
        EXPECT(!memcmp(handles[i], handles[0], sizeof handles[0]));
    for (int i = 0; i < 128; i++)
        for (int k = 0; k < i; k++)
            EXPECT(handles[0][i] && handles[0][i] != handles[0][k]);
    EXPECT(domain_create_call(0) == domain_create_call(""));
    return failed;
}

/* -- NVTX -- */

typedef void function(void);
struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u;
        double d;
        float f;
    } payload;
    int32_t message_type;
    union {
        const char *ascii;
        const wchar_t *wide;
        void *registered;
    } message;
};
int InitializeInjectionNvtx2(const void *(*tables)(uint32_t));

static function *core[16], *core2[16];
static function **core_table[16], **core2_table[16];
static int get_module(int module, function ****table, unsigned *n) {
    if (module != 1 && module != 5)
        return 0;
    *table = module == 1 ? core_table : core2_table;
    *n = 16;
    return 1;
}
static struct {
    size_t bytes;
    int (*module)(int, function ****, unsigned *);
} callbacks = {sizeof callbacks, get_module};
static const void *get_table(uint32_t table) {
    return table == 1 ? &callbacks : 0;
}
static const void *get_no_table(uint32_t table) {
    (void)table;
    return 0;
}
static void load_nvtx(void) {
    for (int i = 1; i < 16; i++) {
        core_table[i] = &core[i];
        core2_table[i] = &core2[i];
    }
    EXPECT(InitializeInjectionNvtx2(get_table) == 1);
}
#define CALL(type, table, number, arguments) ((type(*) arguments)table[number])

static int nvtx_ranges_and_marks(void) {
    load_nvtx();
    struct attributes a = {.version = 3, .size = sizeof a, .payload_type = 3, .payload.d = 2.5, .message_type = 1};
    a.message.ascii = "range";
    EXPECT(CALL(int, core, 8, (struct attributes *))(&a) == 0);
    EXPECT(CALL(int, core, 9, (const char *))("inner") == 1);
    EXPECT(CALL(int, core, 10, (const wchar_t *))(L"\u00e9\u65e5\U0001f40c") == 2);
    EXPECT(CALL(int, core, 11, (void))() == 2);
    EXPECT(CALL(int, core, 11, (void))() == 1);
    EXPECT(CALL(int, core, 11, (void))() == 0);
    EXPECT(CALL(int, core, 11, (void))() < 0);
    CALL(void, core, 2, (const char *))("mark");
    void *d = CALL(void *, core2, 12, (const char *))("domain");
    void *text = CALL(void *, core2, 10, (void *, const char *))(d, "registered");
    a.message_type = 3;
    a.message.registered = text;
    a.payload_type = 0;
    EXPECT(d && text);
    EXPECT(CALL(int, core2, 4, (void *, struct attributes *))(d, &a) == 0);
    EXPECT(CALL(int, core2, 5, (void *))(d) == 0);
    a.payload_type = 1;
    a.payload.u = 7;
    CALL(void, core2, 1, (void *, struct attributes *))(d, &a);
    uint64_t one = CALL(uint64_t, core, 5, (const char *))("long");
    uint64_t two = CALL(uint64_t, core2, 2, (void *, struct attributes *))(d, &a);
    EXPECT(one && two && one != two);
    CALL(void, core, 7, (uint64_t))(one);
    CALL(void, core2, 3, (void *, uint64_t))(d, two);
    CALL(void, core, 14, (uint32_t, const char *))((uint32_t)syscall(SYS_gettid), "me");
    CALL(void, core, 14, (uint32_t, const char *))(1, "not me");
    /* None of it may hurt. */
    a.size = 8;
    EXPECT(CALL(int, core, 8, (struct attributes *))(&a) == 0);
    EXPECT(CALL(int, core, 11, (void))() == 0);
    EXPECT(CALL(int, core, 8, (struct attributes *))(0) == 0);
    EXPECT(CALL(int, core, 11, (void))() == 0);
    return failed;
}

static int nvtx_tables_are_filled(void) {
    EXPECT(InitializeInjectionNvtx2(0) == 0);
    EXPECT(InitializeInjectionNvtx2(get_no_table) == 0);
    callbacks.bytes = 4;
    EXPECT(InitializeInjectionNvtx2(get_table) == 0);
    callbacks.bytes = sizeof callbacks;
    EXPECT(!core[8]);
    load_nvtx();
    for (int i = 1; i <= 11; i++)
        EXPECT(core[i]);
    EXPECT(!core[12] && core2[4] && core2[13] && !core2[15]);
    return failed;
}

/* -- slices and names -- */

static int slices_nest_in_each_domain(void) {
    load_itt();
    load_nvtx();
    void *a = domain_create_call("A"), *b = domain_create_call("B");
    task_begin_call(a, null_id, null_id, string_handle_create_call("a1"));
    task_begin_call(b, null_id, null_id, string_handle_create_call("b1"));
    CALL(int, core, 9, (const char *))("n1");
    task_end_call(a); /* b1 and n1 go on */
    EXPECT(CALL(int, core, 11, (void))() == 0);
    task_end_call(b);
    return failed;
}

static int ends_without_begins_are_ignored(void) {
    load_itt();
    void *a = domain_create_call("A"), *b = domain_create_call("B");
    task_end_call(a);
    task_begin_call(a, null_id, null_id, string_handle_create_call("a1"));
    task_end_call(b);
    task_end_call(a);
    task_end_call(a);
    return failed;
}

static int deep_slices_are_left_out(void) {
    load_nvtx();
    for (int i = 0; i < 66; i++)
        EXPECT(CALL(int, core, 9, (const char *))("deep") >= 0);
    for (int i = 0; i < 66; i++)
        EXPECT(CALL(int, core, 11, (void))() >= 0);
    EXPECT(CALL(int, core, 11, (void))() < 0);
    return failed;
}

static int many_names_share_one(void) {
    load_nvtx();
    for (int i = 0; i < 4099; i++) {
        char name[16];
        snprintf(name, sizeof name, "name %d", i);
        /* Twice: the second time they are found. */
        CALL(void, core, 2, (const char *))(name);
        CALL(void, core, 2, (const char *))(name);
    }
    return failed;
}

/* -- callers that keep no rule -- */

static uint64_t number_after(uint64_t *seed) {
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    return *seed;
}
#define PICK(n) (number_after(&seed) % (n))

/* Texts: none, empty, of a megabyte, with places that have no end, with control characters, not terminated within their length. */
static char megabyte[1 << 20];
static wchar_t wide_text[4096];
static void *objects[8], *counters[4]; /* of all threads: what one asked for another ends */

/* Calls of all kinds in any order, on things of any thread. `start`: the seed. */
static void *breaks_rules(void *start) {
    uint64_t seed = (uintptr_t)start * 0x9e3779b97f4a7c15ull | 1;
    const char *texts[] = {
        0, "", megabyte, ";", ";;;;;;", ";a", ";a;b;c;d;;", ";a;unknown;c", "\033[31m\n\001", "\xff", "plain"};
    const wchar_t *wides[] = {0, L"", wide_text, L"wide"};
    for (int i = 0; i < 2000; i++) {
        const char *text = texts[PICK(sizeof texts / sizeof *texts)];
        const wchar_t *wide = wides[PICK(sizeof wides / sizeof *wides)];
        void *domain = PICK(4) ? domain_create_call(text) : 0, *string = PICK(4) ? string_handle_create_call(text) : 0;
        void *object = PICK(5) ? &objects[PICK(8)] : 0;
        void *counter = __atomic_load_n(&counters[PICK(4)], __ATOMIC_ACQUIRE);
        struct id id = {PICK(2), PICK(3), ~0ull};
        uint64_t value = number_after(&seed);
        struct attributes a = {.size = (uint16_t)(PICK(2) ? sizeof a : PICK(70000)),
                               .payload_type = (int32_t)PICK(9) - 1};
        a.payload.u = value;
        a.message_type = (int32_t)PICK(5) - 1;
        a.message.ascii = text;
        if (a.message_type == 2)
            a.message.wide = wide;
        if (a.message_type == 3)
            a.message.registered = PICK(3) ? CALL(void *, core2, 10, (void *, const char *))(domain, text) : 0;
        struct attributes *of = PICK(6) ? &a : 0;
        switch (PICK(34)) {
#define ANY(n, call)                                                                                                   \
    case n:                                                                                                            \
        call;                                                                                                          \
        break;
            ANY(0, task_begin_call(domain, id, null_id, string))
            ANY(1, task_begin_fn_call(domain, id, id, 0))
            ANY(2, task_end_call(domain))
            ANY(3, task_begin_overlapped_call(domain, id, id, string))
            ANY(4, task_end_overlapped_call(domain, id))
            ANY(5, frame_begin_v3_call(domain, PICK(2) ? &id : 0))
            ANY(6, frame_end_v3_call(domain, PICK(2) ? &id : 0))
            ANY(7, frame_submit_v3_call(domain, 0, value, 0))
            ANY(8, marker_call(domain, id, string, (int)value))
            ANY(9, event_start_call(event_create_call(text, (int)value)))
            ANY(10, event_start_call((int)value))
            ANY(11, thread_set_name_call(text))
            ANY(12, __atomic_store_n(&counters[PICK(4)], counter_create_typed_call(text, text, (int)PICK(20) - 5),
                                     __ATOMIC_RELEASE))
            ANY(13, counter_inc_delta_call(counter, value))
            ANY(14, counter_set_value_call(counter, PICK(3) ? &value : 0))
            ANY(15, counter_dec_delta_v3_call(domain, string, value))
            ANY(16, metadata_add_call(domain, PICK(2) ? null_id : id, string, (int)PICK(12) - 2, (size_t)value,
                                      PICK(3) ? &value : 0))
            ANY(17, metadata_str_add_call(domain, null_id, string, text, PICK(2) ? (size_t)value : 0))
            ANY(18, sync_create_call(object, text, texts[PICK(11)], (int)PICK(4)))
            ANY(19, sync_rename_call(object, text))
            ANY(20, sync_cancel_call(object))
            ANY(21, sync_releasing_call(object))
            ANY(22, CALL(int, core, 9, (const char *))(text))
            ANY(23, CALL(int, core, 10, (const wchar_t *))(wide))
            ANY(24, CALL(int, core, 11, (void))())
            ANY(25, CALL(void, core2, 1, (void *, struct attributes *))(domain, of))
            ANY(26, CALL(int, core2, 4, (void *, struct attributes *))(domain, of))
            ANY(27, CALL(int, core2, 5, (void *))(domain))
            ANY(28, CALL(uint64_t, core2, 2, (void *, struct attributes *))(domain, of))
            ANY(29, CALL(void, core, 7, (uint64_t))(value))
            ANY(30, CALL(void, core, 14, (uint32_t, const char *))((uint32_t)syscall(SYS_gettid), text))
            ANY(31, CALL(uint64_t, core, 6, (const wchar_t *))(wide))
            ANY(32, sync_acquired_call(object))
            ANY(33, sync_prepare_call(object))
        }
    }
    return 0;
}

static int whoever_breaks_all_rules_harms_nobody(void) {
    pthread_t threads[4];
    load_itt();
    load_nvtx();
    memset(megabyte, 'm', sizeof megabyte - 1);
    for (size_t i = 0; i + 1 < sizeof wide_text / sizeof *wide_text; i++)
        wide_text[i] = (wchar_t)(i * 0x9e3779b9u);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, breaks_rules, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return failed;
}

static int without_a_recorder_nothing_happens(void) {
    return itt_tasks_marks_and_values() || itt_locks_and_barriers() || nvtx_ranges_and_marks();
}

#define PROGRAM(name, expected)                                                                                        \
    { #name, name, expected }
const struct program programs[] = {
    PROGRAM(itt_tasks_marks_and_values, "NAME main thread|BEGIN task|ARG key u18446744073709551615|ARG key i-2|ARG key "
                                        "f0.5|ARG key text|BEGIN task|END|END|"
                                        "INSTANT mark|INSTANT event|INSTANT __itt_pause|INSTANT __itt_resume|COUNTER "
                                        "count 1|COUNTER count 10|COUNTER count 9|"
                                        "COUNTER level 1.5|COUNTER mark 1|COUNTER mark -2|BEGIN |END|"),
    PROGRAM(itt_locks_and_barriers,
            "REQUEST my lock|GIVEN_UP my lock|REQUEST my lock|ACQUIRED my lock|REQUEST OMP Critical in work (a.c:17)|"
            "ACQUIRED OMP Critical in work (a.c:17)|RELEASED OMP Critical in work (a.c:17)|RELEASED my lock|REQUEST "
            "|GIVEN_UP |"
            "WAIT OMP Join Barrier 1|WAITED OMP Join Barrier 1|REQUEST renamed|ACQUIRED renamed|RELEASED renamed|"),
    PROGRAM(itt_what_begins_and_ends_apart, "OUT overlapped 1|OUT overlapped 2|IN 1|IN 2|OUT D 3|IN 3|INSTANT D|"),
    PROGRAM(itt_tables_are_filled_or_left_alone, ""),
    PROGRAM(itt_handles_are_one_for_each_text, ""),
    PROGRAM(nvtx_ranges_and_marks,
            "BEGIN range|ARG payload f2.5|BEGIN inner|BEGIN \u00e9\u65e5\U0001f40c|END|END|END|INSTANT mark|BEGIN "
            "registered|END|"
            "INSTANT registered|ARG payload u7|OUT long 1|OUT registered 2|IN 1|IN 2|NAME me|BEGIN |END|BEGIN |END|"),
    PROGRAM(nvtx_tables_are_filled, ""),
    PROGRAM(slices_nest_in_each_domain, "BEGIN a1|BEGIN b1|BEGIN n1|END|END|END|BEGIN b1|BEGIN n1|END|END|"),
    PROGRAM(ends_without_begins_are_ignored, "BEGIN a1|END|"),
    PROGRAM(deep_slices_are_left_out, 0),
    PROGRAM(many_names_share_one, 0),
    PROGRAM(whoever_breaks_all_rules_harms_nobody, 0),
    PROGRAM(without_a_recorder_nothing_happens, 0),
};
const unsigned n_programs = sizeof programs / sizeof *programs;
