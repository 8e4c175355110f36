/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- how a macro becomes an event --
 *
 * KASURI_BEGIN("load") expands to: load the gate; if it is not 0, get the static struct of this call site, load its
 * id, and call kasuri__emit1. The id is 0 until the site's first event, which the slow path writes and gives the id.
 *   KASURI__AT         for macros with a name
 *   KASURI__NAMELESS   for those without one, and for ids made by kasuri_intern
 *   KASURI__EMIT1, 2   an event of one slot; of two, with a payload of 16 bytes
 * Each macro is one statement (do ... while (0)), so it can stand in an if without braces.
 *
 * The static struct of a call site differs by language. C: a local static. C++: a local static of an inline function
 * or template would be one object for the whole process (STB_GNU_UNIQUE), while ids are per module, and it would keep
 * a plugin from being unloaded. A static member of a template over a type of this file's own is neither. */
#ifdef __cplusplus
namespace {
struct kasuri__file {};
} // namespace
template <class File, int N> struct kasuri__cell { static kasuri_site site; };
template <class File, int N> kasuri_site kasuri__cell<File, N>::site = {0, 0, 0, 0, 0};
/* Fill in the site before its first event. A static member of a template cannot have the strings in its initialiser,
 * since __func__ exists only inside the function. Threads may race here: all store the same values. */
KASURI__INLINE void kasuri__describe(kasuri_site *s, const char *name, const char *file, const char *func,
                                     uint32_t line) {
    __atomic_store_n(&s->line, line, __ATOMIC_RELAXED);
    __atomic_store_n(&s->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&s->func, func, __ATOMIC_RELAXED);
    __atomic_store_n(&s->name, name, __ATOMIC_RELAXED);
}
#define KASURI__SITE(name) kasuri_site *const kasuri__s = &kasuri__cell<kasuri__file, __COUNTER__>::site
#define KASURI__SITE_ID(name)                                                                                          \
    const int32_t kasuri__id = __atomic_load_n(&kasuri__s->id, __ATOMIC_RELAXED);                                      \
    if (KASURI__UNLIKELY(kasuri__id <= 0))                                                                             \
    kasuri__describe(kasuri__s, "" name, __FILE__, __func__, __LINE__)
/* An object may be a pointer or a number; the overloads spare C++ programs a warning about old-style casts. */
template <class T> KASURI__INLINE uint64_t kasuri__u64(T *p) {
    return reinterpret_cast<uintptr_t>(p);
}
KASURI__INLINE uint64_t kasuri__u64(uint64_t v) {
    return v;
}
#define KASURI__U64(v) kasuri__u64(v)
#else
#define KASURI__SITE(name)                                                                                             \
    static struct kasuri_site kasuri__site = {0, __LINE__, "" name, __FILE__, __func__};                               \
    struct kasuri_site *const kasuri__s = &kasuri__site
#define KASURI__SITE_ID(name) const int32_t kasuri__id = __atomic_load_n(&kasuri__s->id, __ATOMIC_RELAXED)
#if UINTPTR_MAX > 0xffffffffu
#define KASURI__U64(v) ((uint64_t)(v))
#else /* a pointer's cast to a wider integer is a warning */
#define KASURI__U64(v) ((uint64_t) __builtin_choose_expr(sizeof(0 ? (v) : (v)) == 8, (v), (uintptr_t)(v)))
#endif
#endif

#define KASURI__AT(name, call)                                                                                         \
    do {                                                                                                               \
        const uint32_t kasuri__g = kasuri__gate_load();                                                                \
        if (KASURI__UNLIKELY(kasuri__g != 0)) {                                                                        \
            KASURI__SITE(name);                                                                                        \
            KASURI__SITE_ID(name);                                                                                     \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)
#define KASURI__EMIT1(name, kind) KASURI__AT(name, kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, (kind)))
#define KASURI__EMIT2(name, kind, a, b)                                                                                \
    KASURI__AT(name, kasuri__emit2(kasuri__g, kasuri__s, kasuri__id, (kind), (a), (b)))
#define KASURI__NAMELESS(call)                                                                                         \
    do {                                                                                                               \
        const uint32_t kasuri__g = kasuri__gate_load();                                                                \
        if (KASURI__UNLIKELY(kasuri__g != 0))                                                                          \
            call;                                                                                                      \
    } while (0)

/** KASURI_BEGIN, KASURI_END - a slice of the calling thread; slices nest. */
#define KASURI_BEGIN(name) KASURI__EMIT1(name, KASURI_EV_BEGIN)
#define KASURI_END() KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, 0, KASURI_EV_END))

/** KASURI_INSTANT - a point in time. */
#define KASURI_INSTANT(name) KASURI__EMIT1(name, KASURI_EV_INSTANT)

/** KASURI_COUNTER - the value (double) of a quantity from now on. */
#define KASURI_COUNTER(name, value) KASURI__EMIT2(name, KASURI_EV_COUNTER, kasuri__bits(value), 0)

/** KASURI_WAIT_BEGIN, KASURI_WAIT_END - the thread waits. kind: KASURI_WAIT_BARRIER, _JOIN, _COND, _IO, _OTHER;
 * object: what it waits for (address or number). */
#define KASURI_WAIT_BEGIN(kind, object)                                                                                \
    KASURI__EMIT2(#object, KASURI_EV_WAIT_BEGIN | (uint32_t)(kind) << 16, KASURI__U64(object), 0)
#define KASURI_WAIT_END(kind, object)                                                                                  \
    KASURI__EMIT2(#object, KASURI_EV_WAIT_END | (uint32_t)(kind) << 16, KASURI__U64(object), 0)

/** KASURI_LOCK_REQUEST before taking a lock, _ACQUIRED when it is held, _RELEASED after giving it back.
 * mode: KASURI_LOCK_EXCLUSIVE (the plain macros) or KASURI_LOCK_SHARED. */
#define KASURI_LOCK_REQUEST(lock) KASURI_LOCK_REQUEST_AS(lock, KASURI_LOCK_EXCLUSIVE)
#define KASURI_LOCK_ACQUIRED(lock) KASURI_LOCK_ACQUIRED_AS(lock, KASURI_LOCK_EXCLUSIVE)
#define KASURI_LOCK_RELEASED(lock) KASURI_LOCK_RELEASED_AS(lock, KASURI_LOCK_EXCLUSIVE)
#define KASURI_LOCK_REQUEST_AS(lock, mode)                                                                             \
    KASURI__EMIT2(#lock, KASURI_EV_LOCK_REQUEST | (uint32_t)(mode) << 16, KASURI__U64(lock), 0)
#define KASURI_LOCK_ACQUIRED_AS(lock, mode)                                                                            \
    KASURI__EMIT2(#lock, KASURI_EV_LOCK_ACQUIRED | (uint32_t)(mode) << 16, KASURI__U64(lock), 0)
#define KASURI_LOCK_RELEASED_AS(lock, mode)                                                                            \
    KASURI__EMIT2(#lock, KASURI_EV_LOCK_RELEASED | (uint32_t)(mode) << 16, KASURI__U64(lock), 0)

/** KASURI_TASK_* - the life of a task: a unit of work that may move between threads. Ids are the program's own,
 * not 0, not reused while the task lives. parent: 0 for none. */
#define KASURI_TASK_CREATE(name, task, parent)                                                                         \
    KASURI__EMIT2(name, KASURI_EV_TASK_CREATE, KASURI__U64(task), KASURI__U64(parent))
#define KASURI_TASK_START(task) KASURI__TASK(KASURI_EV_TASK_START, task, 0)
#define KASURI_TASK_SUSPEND(task) KASURI__TASK(KASURI_EV_TASK_SUSPEND, task, 0)
#define KASURI_TASK_RESUME(task) KASURI__TASK(KASURI_EV_TASK_RESUME, task, 0)
#define KASURI_TASK_END(task) KASURI__TASK(KASURI_EV_TASK_END, task, 0)
/** KASURI_TASK_JOIN - @task goes on after the end of @joined, for which it may have had to wait; any number of tasks may
 * join one. With parents and dependences this makes the task graph, whose work and span `kasuri stat` prints. task: 0 for
 * none. */
#define KASURI_TASK_JOIN(task, joined) KASURI__TASK(KASURI_EV_TASK_JOIN, task, KASURI__U64(joined))
/** KASURI_TASK_DEPENDS - @task cannot start before the end of @on; any number of both. Any thread says so, best between
 * the creation of @task and its start. An id names the task that was created last with it; one that comes later only
 * when there was none. */
#define KASURI_TASK_DEPENDS(task, on) KASURI__TASK(KASURI_EV_TASK_DEPENDS, task, KASURI__U64(on))
/** KASURI_TASK_SUSPEND_FOR - suspend, with the reason and the task or object waited for. */
#define KASURI_TASK_SUSPEND_FOR(why, task, awaited)                                                                    \
    KASURI__EMIT2(why, KASURI_EV_TASK_SUSPEND, KASURI__U64(task), KASURI__U64(awaited))
#define KASURI__TASK(kind, task, other)                                                                                \
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, 0, (kind), KASURI__U64(task), (other)))

/** KASURI_FLOW_OUT, KASURI_FLOW_IN - an arrow from one place to another: same flow id at both. */
#define KASURI_FLOW_OUT(name, flow) KASURI__EMIT2(name, KASURI_EV_FLOW_OUT, KASURI__U64(flow), 0)
#define KASURI_FLOW_IN(name, flow) KASURI__EMIT2(name, KASURI_EV_FLOW_IN, KASURI__U64(flow), 0)

/** KASURI_ARG_* - a value for the thread's innermost open slice, or for its last instant when that is newer. */
#define KASURI_ARG_I64(key, v) KASURI__EMIT2(key, KASURI_EV_ARG | KASURI_ARG_I64 << 16, (uint64_t)(int64_t)(v), 0)
#define KASURI_ARG_U64(key, v) KASURI__EMIT2(key, KASURI_EV_ARG | KASURI_ARG_U64 << 16, KASURI__U64(v), 0)
#define KASURI_ARG_F64(key, v) KASURI__EMIT2(key, KASURI_EV_ARG | KASURI_ARG_F64 << 16, kasuri__bits(v), 0)
#define KASURI_ARG_STR(key, s)                                                                                         \
    KASURI__AT(key, kasuri__emit_str(kasuri__s, kasuri__id, KASURI_EV_ARG | KASURI_ARG_STR << 16, (s)))

/** KASURI_MESSAGE - printf-like text; at most KASURI_EVENT_MAX bytes, longer ones are lost (cause BIG). */
#define KASURI_MESSAGE(...) KASURI__AT("message", kasuri__message(kasuri__s, kasuri__id, __VA_ARGS__))

/** KASURI_THREAD_NAME - what the calling thread is called on the timeline; any string. */
#define KASURI_THREAD_NAME(s) KASURI__NAMELESS(kasuri__emit_str(0, 0, KASURI_EV_THREAD_NAME, (s)))

/** KASURI_TRIGGER - an instant that asks a flight recorder to save its last seconds. */
#define KASURI_TRIGGER(name)                                                                                           \
    KASURI__AT(name, (kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, KASURI_EV_TRIGGER), kasuri__trigger()))

/** KASURI_SCOPE - a slice from here to the end of the enclosing block, however that is left. */
#define KASURI__CAT2(a, b) a##b
#define KASURI__CAT(a, b) KASURI__CAT2(a, b)
#define KASURI_SCOPE(name) KASURI__SCOPE(name, KASURI__CAT(kasuri__scope_, __COUNTER__))
#define KASURI__SCOPE(name, begun)                                                                                     \
    __attribute__((cleanup(kasuri__scope_end), unused)) int begun = 0;                                                 \
    KASURI__AT(name, (kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, KASURI_EV_BEGIN), begun = 1))
/* Ends only what was begun: a recorder may attach in the middle of a scope. */
KASURI__INLINE void kasuri__scope_end(const int *begun) {
    if (KASURI__UNLIKELY(*begun))
        KASURI_END();
}

/* -- the same with a name made at run time --
 *
 * For names that are not string literals. libkasuri (annotate/src/kasuri.c) exports functions of the same names to
 * languages without a C preprocessor. A name is interned once; its id takes the place of the call site:
 *   uint32_t id = kasuri_intern(stage_name);
 *   kasuri_begin(id); ... kasuri_end();
 */
#ifndef KASURI__NO_RUNTIME_NAMES
/**
 * kasuri_intern - the id of a name; the same name gives the same id. Keep the id: this walks a list.
 * Return: > 0; 0 when there is no memory for it (events then show no name). Works with and without a recorder,
 * and ids stay valid over fork and from one recorder to the next. Thread, signal: safe.
 */
KASURI__INLINE uint32_t kasuri_intern(const char *name) {
    return kasuri__intern(name);
}

KASURI__INLINE void kasuri_begin(uint32_t site) {
    KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_BEGIN));
}
KASURI__INLINE void kasuri_end(void) {
    KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, 0, KASURI_EV_END));
}
KASURI__INLINE void kasuri_instant(uint32_t site) {
    KASURI__NAMELESS(kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_INSTANT));
}
KASURI__INLINE void kasuri_counter(uint32_t site, double value) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_COUNTER, kasuri__bits(value), 0));
}
/** kasuri_wait_begin etc.: kind is enum kasuri_wait_kind, mode enum kasuri_lock_mode; site may be 0. */
KASURI__INLINE void kasuri_wait_begin(uint32_t site, uint32_t kind, uint64_t object) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_WAIT_BEGIN | kind << 16, object, 0));
}
KASURI__INLINE void kasuri_wait_end(uint32_t site, uint32_t kind, uint64_t object) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_WAIT_END | kind << 16, object, 0));
}
KASURI__INLINE void kasuri_lock_request(uint32_t site, uint32_t mode, uint64_t lock) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_REQUEST | mode << 16, lock, 0));
}
KASURI__INLINE void kasuri_lock_acquired(uint32_t site, uint32_t mode, uint64_t lock) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_ACQUIRED | mode << 16, lock, 0));
}
KASURI__INLINE void kasuri_lock_released(uint32_t site, uint32_t mode, uint64_t lock) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_LOCK_RELEASED | mode << 16, lock, 0));
}
/** kasuri_task_event - kind: KASURI_EV_TASK_CREATE (other: parent; | KASURI_TASK_POINT << 16) to KASURI_EV_TASK_END (other: awaited or 0), or
 * KASURI_EV_TASK_JOIN (other: joined), KASURI_EV_TASK_DEPENDS (other: the task that it depends on) or KASURI_EV_TASK_FOLDED (other: count). */
KASURI__INLINE void kasuri_task_event(uint32_t kind, uint32_t site, uint64_t task, uint64_t other) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, kind, task, other));
}
KASURI__INLINE void kasuri_flow_out(uint32_t site, uint64_t flow) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_FLOW_OUT, flow, 0));
}
KASURI__INLINE void kasuri_flow_in(uint32_t site, uint64_t flow) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)site, KASURI_EV_FLOW_IN, flow, 0));
}
KASURI__INLINE void kasuri_arg_i64(uint32_t key, int64_t v) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_I64 << 16, (uint64_t)v, 0));
}
KASURI__INLINE void kasuri_arg_u64(uint32_t key, uint64_t v) {
    KASURI__NAMELESS(kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_U64 << 16, v, 0));
}
KASURI__INLINE void kasuri_arg_f64(uint32_t key, double v) {
    KASURI__NAMELESS(
        kasuri__emit2(kasuri__g, 0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_F64 << 16, kasuri__bits(v), 0));
}
/** Texts: `bytes` of UTF-8, no NUL needed. */
KASURI__INLINE void kasuri_arg_str(uint32_t key, const char *s, uint64_t bytes) {
    KASURI__NAMELESS(kasuri__slow_bytes(0, (int32_t)key, KASURI_EV_ARG | KASURI_ARG_STR << 16, s, bytes));
}
KASURI__INLINE void kasuri_message(uint32_t site, const char *s, uint64_t bytes) {
    KASURI__NAMELESS(kasuri__slow_bytes(0, (int32_t)site, KASURI_EV_MESSAGE, s, bytes));
}
KASURI__INLINE void kasuri_thread_name(const char *s, uint64_t bytes) {
    KASURI__NAMELESS(kasuri__slow_bytes(0, 0, KASURI_EV_THREAD_NAME, s, bytes));
}
KASURI__INLINE void kasuri_trigger(uint32_t site) {
    KASURI__NAMELESS((kasuri__emit1(kasuri__g, 0, (int32_t)site, KASURI_EV_TRIGGER), kasuri__trigger()));
}
#endif
