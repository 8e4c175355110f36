/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * NVIDIA's Tools Extension (NVTX) version 3: PyTorch, RAPIDS, cuBLAS and many CUDA programs are annotated with it; none of it
 * needs a GPU.
 *
 * Each library that includes NVTX's headers loads, at its first call, the library that NVTX_INJECTION64_PATH names and
 * calls InitializeInjectionNvtx2 with a function that gives its tables: modules of pointers to the function pointers
 * that its calls go through, by number. Layouts and numbers below are those of nvtxTypes.h, which only appends.
 */
#include "collector.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -- the interface -- */

enum nvtx_message { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_WIDE = 2, NVTX_MESSAGE_REGISTERED = 3 };
enum nvtx_payload { NVTX_U64 = 1, NVTX_I64, NVTX_DOUBLE, NVTX_U32, NVTX_I32, NVTX_FLOAT };
struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double d;
        uint32_t u32;
        int32_t i32;
        float f;
    } payload;
    int32_t message_type;
    union {
        const char *ascii;
        const wchar_t *wide;
        void *registered;
    } message;
};
typedef void function(void);
struct nvtx_callbacks {
    size_t bytes;
    int (*module)(int module, function ****table, unsigned *n);
};
enum nvtx_table { NVTX_TABLE_CALLBACKS = 1 };
enum nvtx_module { NVTX_CORE = 1, NVTX_CORE2 = 5 };

/* -- marks and ranges -- */

/* What a registered string's handle points to, and a domain's: never freed, as events may use them for ever. */
struct handle {
    uint32_t name;
};

static uint32_t name_of_event(const struct nvtx_attributes *a) {
    if (!a || a->size < offsetof(struct nvtx_attributes, message) + sizeof a->message)
        return 0;
    switch (a->message_type) {
    case NVTX_MESSAGE_ASCII:
        return name_of(a->message.ascii);
    case NVTX_MESSAGE_WIDE:
        return name_of_wide(a->message.wide);
    case NVTX_MESSAGE_REGISTERED:
        return a->message.registered ? ((struct handle *)a->message.registered)->name : 0;
    default:
        return 0;
    }
}

/* After the slice or mark that it belongs to. */
static void add_payload(const struct nvtx_attributes *a) {
    if (!a || a->size < offsetof(struct nvtx_attributes, message) || !a->payload_type || !kasuri__gate_load())
        return;
    uint32_t key = name_of("payload");
    switch (a->payload_type) {
    case NVTX_U64:
        kasuri_arg_u64(key, a->payload.u64);
        break;
    case NVTX_I64:
        kasuri_arg_i64(key, a->payload.i64);
        break;
    case NVTX_DOUBLE:
        kasuri_arg_f64(key, a->payload.d);
        break;
    case NVTX_U32:
        kasuri_arg_u64(key, a->payload.u32);
        break;
    case NVTX_I32:
        kasuri_arg_i64(key, a->payload.i32);
        break;
    case NVTX_FLOAT:
        kasuri_arg_f64(key, (double)a->payload.f);
        break;
    default:
        break;
    }
}

static void mark_in(void *domain, const struct nvtx_attributes *a) {
    (void)domain;
    kasuri_instant(name_of_event(a));
    add_payload(a);
}
static void mark(const struct nvtx_attributes *a) {
    mark_in(0, a);
}
static void mark_ascii(const char *text) {
    kasuri_instant(name_of(text));
}
static void mark_wide(const wchar_t *text) {
    kasuri_instant(name_of_wide(text));
}

static int push_in(void *domain, const struct nvtx_attributes *a) {
    int level = span_begin(domain, name_of_event(a));
    add_payload(a);
    return level;
}
static int push(const struct nvtx_attributes *a) {
    return push_in(0, a);
}
static int push_ascii(const char *text) {
    return span_begin(0, name_of(text));
}
static int push_wide(const wchar_t *text) {
    return span_begin(0, name_of_wide(text));
}
static int pop_in(void *domain) {
    return span_end(domain);
}
static int pop(void) {
    return span_end(0);
}

/* Ranges that any thread may end. */
static uint64_t start(uint32_t name) {
    static uint64_t last;
    uint64_t id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    arrow_begin(name, id);
    return id;
}
static uint64_t start_in(void *domain, const struct nvtx_attributes *a) {
    (void)domain;
    return start(name_of_event(a));
}
static uint64_t start_event(const struct nvtx_attributes *a) {
    return start(name_of_event(a));
}
static uint64_t start_ascii(const char *text) {
    return start(name_of(text));
}
static uint64_t start_wide(const wchar_t *text) {
    return start(name_of_wide(text));
}
static void end_in(void *domain, uint64_t id) {
    (void)domain;
    arrow_end(id);
}
static void end(uint64_t id) {
    arrow_end(id);
}

static void name_thread(uint32_t tid, const char *name) {
    if (name && tid == (uint32_t)syscall(SYS_gettid))
        kasuri_thread_name(name, strlen(name));
}

/* -- handles -- */

static void *handle_of(uint32_t name) {
    struct handle *made = malloc(sizeof *made);
    if (made)
        made->name = name;
    return made;
}
static void *register_ascii(void *domain, const char *text) {
    (void)domain;
    return handle_of(name_of(text));
}
static void *register_wide(void *domain, const wchar_t *text) {
    (void)domain;
    return handle_of(name_of_wide(text));
}
static void *create_domain(const char *name) {
    (void)name;
    return handle_of(0);
}
static void *create_domain_wide(const wchar_t *name) {
    (void)name;
    return handle_of(0);
}

/* -- tables -- */

struct entry {
    unsigned number;
    function *function;
};
#define F(number, f)                                                                                                   \
    { number, (function *)(f) }
static const struct entry core[] = {
    F(1, mark), F(2, mark_ascii), F(3, mark_wide),  F(4, start_event), F(5, start_ascii), F(6, start_wide),
    F(7, end),  F(8, push),       F(9, push_ascii), F(10, push_wide),  F(11, pop),        F(14, name_thread),
};
static const struct entry core2[] = {
    F(1, mark_in),        F(2, start_in),       F(3, end_in),
    F(4, push_in),        F(5, pop_in),         F(10, register_ascii),
    F(11, register_wide), F(12, create_domain), F(13, create_domain_wide),
};

static void fill(const struct nvtx_callbacks *callbacks, enum nvtx_module module, const struct entry *entries,
                 size_t n) {
    function ***table = 0;
    unsigned size = 0;
    if (!callbacks->module(module, &table, &size) || !table)
        return;
    for (size_t i = 0; i < n; i++)
        if (entries[i].number < size && table[entries[i].number])
            *table[entries[i].number] = entries[i].function;
}

/* What each copy of NVTX calls once, while it holds its own lock. Return: 1, the tool is there. Functions that are not
 * filled in do nothing after that. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*tables)(uint32_t table));
int InitializeInjectionNvtx2(const void *(*tables)(uint32_t table)) {
    const struct nvtx_callbacks *callbacks = tables ? tables(NVTX_TABLE_CALLBACKS) : 0;
    if (!callbacks || callbacks->bytes < sizeof *callbacks)
        return 0;
    fill(callbacks, NVTX_CORE, core, sizeof core / sizeof *core);
    fill(callbacks, NVTX_CORE2, core2, sizeof core2 / sizeof *core2);
    return 1;
}
