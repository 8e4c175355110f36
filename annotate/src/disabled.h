/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- without events --
 *
 * Each macro and function of api.h, as nothing. Arguments stand in dead code, so they are not evaluated, and a variable
 * that only an annotation uses causes no warning. A new annotation in api.h needs its line here
 * (annotate/tests/check_api compares the names). */
/* clang-format off */
#define KASURI__UNUSED1(a) do { if (0) { (void)(a); } } while (0)
#define KASURI__UNUSED2(a, b) do { if (0) { (void)(a); (void)(b); } } while (0)
static inline int kasuri_enabled(void) { return 0; }
static inline void kasuri__unused(const char *format, ...) { (void)format; }
#define KASURI_BEGIN(name) ((void)0)
#define KASURI_END() ((void)0)
#define KASURI_SCOPE(name) ((void)0)
#define KASURI_INSTANT(name) ((void)0)
#define KASURI_TRIGGER(name) ((void)0)
#define KASURI_COUNTER(name, value) KASURI__UNUSED1(value)
#define KASURI_WAIT_BEGIN(kind, object) KASURI__UNUSED2(kind, object)
#define KASURI_WAIT_END(kind, object) KASURI__UNUSED2(kind, object)
#define KASURI_LOCK_REQUEST(lock) KASURI__UNUSED1(lock)
#define KASURI_LOCK_ACQUIRED(lock) KASURI__UNUSED1(lock)
#define KASURI_LOCK_RELEASED(lock) KASURI__UNUSED1(lock)
#define KASURI_LOCK_REQUEST_AS(lock, mode) KASURI__UNUSED2(lock, mode)
#define KASURI_LOCK_ACQUIRED_AS(lock, mode) KASURI__UNUSED2(lock, mode)
#define KASURI_LOCK_RELEASED_AS(lock, mode) KASURI__UNUSED2(lock, mode)
#define KASURI_TASK_CREATE(name, task, parent) KASURI__UNUSED2(task, parent)
#define KASURI_TASK_START(task) KASURI__UNUSED1(task)
#define KASURI_TASK_SUSPEND(task) KASURI__UNUSED1(task)
#define KASURI_TASK_SUSPEND_FOR(why, task, awaited) KASURI__UNUSED2(task, awaited)
#define KASURI_TASK_RESUME(task) KASURI__UNUSED1(task)
#define KASURI_TASK_END(task) KASURI__UNUSED1(task)
#define KASURI_TASK_JOIN(task, joined) KASURI__UNUSED2(task, joined)
#define KASURI_TASK_DEPENDS(task, on) KASURI__UNUSED2(task, on)
#define KASURI_FLOW_OUT(name, flow) KASURI__UNUSED1(flow)
#define KASURI_FLOW_IN(name, flow) KASURI__UNUSED1(flow)
#define KASURI_ARG_I64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_U64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_F64(key, v) KASURI__UNUSED1(v)
#define KASURI_ARG_STR(key, s) KASURI__UNUSED1(s)
#define KASURI_MESSAGE(...) do { if (0) { kasuri__unused(__VA_ARGS__); } } while (0)
#define KASURI_THREAD_NAME(s) KASURI__UNUSED1(s)
#ifndef KASURI__NO_RUNTIME_NAMES
/* Complete: annotate/tests/check_api compares. */
static inline uint32_t kasuri_intern(const char *name) { return name ? 1 : 0; }
static inline void kasuri_begin(uint32_t site) { (void)site; }
static inline void kasuri_end(void) {}
static inline void kasuri_instant(uint32_t site) { (void)site; }
static inline void kasuri_counter(uint32_t site, double value) { (void)site; (void)value; }
static inline void kasuri_wait_begin(uint32_t site, uint32_t kind, uint64_t object) { (void)site; (void)kind; (void)object; }
static inline void kasuri_wait_end(uint32_t site, uint32_t kind, uint64_t object) { (void)site; (void)kind; (void)object; }
static inline void kasuri_lock_request(uint32_t site, uint32_t mode, uint64_t lock) { (void)site; (void)mode; (void)lock; }
static inline void kasuri_lock_acquired(uint32_t site, uint32_t mode, uint64_t lock) { (void)site; (void)mode; (void)lock; }
static inline void kasuri_lock_released(uint32_t site, uint32_t mode, uint64_t lock) { (void)site; (void)mode; (void)lock; }
static inline void kasuri_task_event(uint32_t kind, uint32_t site, uint64_t task, uint64_t other) { (void)kind; (void)site; (void)task; (void)other; }
static inline void kasuri_flow_out(uint32_t site, uint64_t flow) { (void)site; (void)flow; }
static inline void kasuri_flow_in(uint32_t site, uint64_t flow) { (void)site; (void)flow; }
static inline void kasuri_arg_i64(uint32_t key, int64_t v) { (void)key; (void)v; }
static inline void kasuri_arg_u64(uint32_t key, uint64_t v) { (void)key; (void)v; }
static inline void kasuri_arg_f64(uint32_t key, double v) { (void)key; (void)v; }
static inline void kasuri_arg_str(uint32_t key, const char *s, uint64_t bytes) { (void)key; (void)s; (void)bytes; }
static inline void kasuri_message(uint32_t site, const char *s, uint64_t bytes) { (void)site; (void)s; (void)bytes; }
static inline void kasuri_thread_name(const char *s, uint64_t bytes) { (void)s; (void)bytes; }
static inline void kasuri_trigger(uint32_t site) { (void)site; }
#endif

/* clang-format on */
