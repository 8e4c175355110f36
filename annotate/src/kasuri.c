/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libkasuri: the client of kasuri.h, compiled once, behind plain functions for languages without a C preprocessor.
 * Each function is documented at its inline twin in kasuri.h; names come from kasuri_intern, 0 is "no name".
 */
#define KASURI__NO_RUNTIME_NAMES
#define kasuri_enabled kasuri__inline_enabled
#include "kasuri.h"
#undef kasuri_enabled

#define EXPORT __attribute__((visibility("default")))
#define ID(site) ((int32_t)(site))

EXPORT int kasuri_enabled(void);
EXPORT uint32_t kasuri_intern(const char *name);
EXPORT void kasuri_begin(uint32_t site);
EXPORT void kasuri_end(void);
EXPORT void kasuri_instant(uint32_t site);
EXPORT void kasuri_counter(uint32_t site, double value);
EXPORT void kasuri_wait_begin(uint32_t site, uint32_t kind, uint64_t object);
EXPORT void kasuri_wait_end(uint32_t site, uint32_t kind, uint64_t object);
EXPORT void kasuri_lock_request(uint32_t site, uint32_t mode, uint64_t lock);
EXPORT void kasuri_lock_acquired(uint32_t site, uint32_t mode, uint64_t lock);
EXPORT void kasuri_lock_released(uint32_t site, uint32_t mode, uint64_t lock);
EXPORT void kasuri_task_event(uint32_t kind, uint32_t site, uint64_t task, uint64_t other);
EXPORT void kasuri_flow_out(uint32_t site, uint64_t flow);
EXPORT void kasuri_flow_in(uint32_t site, uint64_t flow);
EXPORT void kasuri_arg_i64(uint32_t key, int64_t v);
EXPORT void kasuri_arg_u64(uint32_t key, uint64_t v);
EXPORT void kasuri_arg_f64(uint32_t key, double v);
EXPORT void kasuri_arg_str(uint32_t key, const char *s, uint64_t bytes);
EXPORT void kasuri_message(uint32_t site, const char *s, uint64_t bytes);
EXPORT void kasuri_thread_name(const char *s, uint64_t bytes);
EXPORT void kasuri_trigger(uint32_t site);

int kasuri_enabled(void) {
    return kasuri__inline_enabled();
}

#ifndef KASURI_DISABLE
uint32_t kasuri_intern(const char *name) {
    return kasuri__intern(name);
}
#define EMIT1(id, kind) KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, (id), (kind)))
#define EMIT2(id, kind, a, b) KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (id), (kind), (a), (b)))
#define TEXT(id, kind, s, bytes) KASURI__NAMELESS(kasuri__slow_bytes(0, (id), (kind), (s), (bytes)))
#define TRIGGER(id) KASURI__NAMELESS((kasuri__emit1(kasuri__g, 0, (id), KASURI_EV_TRIGGER), kasuri__trigger()))
#else /* a system for which annotations compile to nothing: the library is there, and does nothing */
uint32_t kasuri_intern(const char *name) {
    return name ? 1 : 0;
}
#define kasuri__bits(v) (v)
#define EMIT1(id, kind) ((void)(id), (void)(kind))
#define EMIT2(id, kind, a, b) ((void)(id), (void)(kind), (void)(a), (void)(b))
#define TEXT(id, kind, s, bytes) ((void)(id), (void)(kind), (void)(s), (void)(bytes))
#define TRIGGER(id) ((void)(id))
#endif

void kasuri_begin(uint32_t site) {
    EMIT1(ID(site), KASURI_EV_BEGIN);
}
void kasuri_end(void) {
    EMIT1(0, KASURI_EV_END);
}
void kasuri_instant(uint32_t site) {
    EMIT1(ID(site), KASURI_EV_INSTANT);
}
void kasuri_counter(uint32_t site, double value) {
    EMIT2(ID(site), KASURI_EV_COUNTER, kasuri__bits(value), 0);
}
void kasuri_wait_begin(uint32_t site, uint32_t kind, uint64_t object) {
    EMIT2(ID(site), KASURI_EV_WAIT_BEGIN | kind << 16, object, 0);
}
void kasuri_wait_end(uint32_t site, uint32_t kind, uint64_t object) {
    EMIT2(ID(site), KASURI_EV_WAIT_END | kind << 16, object, 0);
}
void kasuri_lock_request(uint32_t site, uint32_t mode, uint64_t lock) {
    EMIT2(ID(site), KASURI_EV_LOCK_REQUEST | mode << 16, lock, 0);
}
void kasuri_lock_acquired(uint32_t site, uint32_t mode, uint64_t lock) {
    EMIT2(ID(site), KASURI_EV_LOCK_ACQUIRED | mode << 16, lock, 0);
}
void kasuri_lock_released(uint32_t site, uint32_t mode, uint64_t lock) {
    EMIT2(ID(site), KASURI_EV_LOCK_RELEASED | mode << 16, lock, 0);
}
void kasuri_task_event(uint32_t kind, uint32_t site, uint64_t task, uint64_t other) {
    if ((kind >= KASURI_EV_TASK_CREATE && kind <= KASURI_EV_TASK_END) || kind == KASURI_EV_TASK_JOIN ||
        kind == KASURI_EV_TASK_DEPENDS || kind == KASURI_EV_TASK_FOLDED)
        EMIT2(ID(site), kind, task, other);
}
void kasuri_flow_out(uint32_t site, uint64_t flow) {
    EMIT2(ID(site), KASURI_EV_FLOW_OUT, flow, 0);
}
void kasuri_flow_in(uint32_t site, uint64_t flow) {
    EMIT2(ID(site), KASURI_EV_FLOW_IN, flow, 0);
}
void kasuri_arg_i64(uint32_t key, int64_t v) {
    EMIT2(ID(key), KASURI_EV_ARG | (uint32_t)KASURI_ARG_I64 << 16, (uint64_t)v, 0);
}
void kasuri_arg_u64(uint32_t key, uint64_t v) {
    EMIT2(ID(key), KASURI_EV_ARG | (uint32_t)KASURI_ARG_U64 << 16, v, 0);
}
void kasuri_arg_f64(uint32_t key, double v) {
    EMIT2(ID(key), KASURI_EV_ARG | (uint32_t)KASURI_ARG_F64 << 16, kasuri__bits(v), 0);
}
void kasuri_arg_str(uint32_t key, const char *s, uint64_t bytes) {
    TEXT(ID(key), KASURI_EV_ARG | (uint32_t)KASURI_ARG_STR << 16, s, bytes);
}
void kasuri_message(uint32_t site, const char *s, uint64_t bytes) {
    TEXT(ID(site), KASURI_EV_MESSAGE, s, bytes);
}
void kasuri_thread_name(const char *s, uint64_t bytes) {
    TEXT(0, KASURI_EV_THREAD_NAME, s, bytes);
}
void kasuri_trigger(uint32_t site) {
    TRIGGER(ID(site));
}
