/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_create, its threads' ends, and joins.
 *
 * A light thread has a stack of ito's (its TLS block at the high end), a descriptor of ito's and a struct light. It is
 * made ready like a thread that was woken; its creator goes on. All three stay until it is joined, as a pthread_t is
 * valid until then: so it does not end as ito's own threads do, but blocks once more, and what runs when it is off its
 * stack (ended) lets its joiner have it, or gives it all back if it is detached.
 *
 * pthread_exit and deferred cancellation are the C library's own: they unwind the stack up to the buffer that
 * light_main() has registered, as start_thread() does.
 */
#include "light.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- end --------------------------------------------------------------------------------------------------------- */

/* Nothing runs on its stack, and nobody will ask for it. */
static void give_back(struct light *l) {
    struct worker *w = worker_of(ito__worker());
    struct ito_thread *t = l->thread;
    struct ito__stack *stack = l->stack;
    l->kind = LIGHT_NONE; /* a stale pthread_t is told ESRCH, as long as the stack is not used again */
    t->fn = NULL;
    ito__descriptor_put(w, t);
    ito__stack_put(w, stack);
}

/* Runs on the next thread's stack. */
static void ended(void *light) {
    struct light *l = light;
    uint32_t s = ito__word_lock(&l->word) | LIGHT_ENDED;
    struct ito__waiter *joiner = ito__waiters_pop(&l->joiners);
    /* Its release publishes the result. A thread that joins from here on gives all back itself. */
    ito__word_unlock(&l->word, s);
    if (joiner)
        ito__waiter_wake(joiner, 0);
    if (s & LIGHT_DETACHED)
        give_back(l);
}

static void __attribute__((noreturn)) end(struct light *me) {
    tls_end();
    keys_end();
    if (me->kind != LIGHT_THREAD) /* the child of a fork: the last thread of its process */
        exit(0);
    signals_thread_ends(me);
    light_thread_ends();
    ito__block(ended, me);
    __builtin_unreachable();
}

/* ---- begin ------------------------------------------------------------------------------------------------------- */

/* As pthread_cleanup_push() calls it: what it saves is a part of a jmp_buf. */
int light_save(__pthread_unwind_buf_t *buffer, int mask) __asm__("__sigsetjmp") __attribute__((returns_twice));

/* The first code on the stack of a light thread. */
static void light_main(void) {
    struct light *me = &light_self;
    __pthread_unwind_buf_t buffer;
    tls_begin();
    if (LIKELY(light_save(&buffer, 0) == 0)) {
        __pthread_register_cancel(&buffer);
        me->result = me->fn(me->arg);
        __pthread_unregister_cancel(&buffer);
    } /* else: unwound by pthread_exit or a cancellation */
    end(&light_self);
}

struct request {
    size_t stack_bytes; /* 0: default */
    size_t guard_bytes;
    bool detached;
    bool kernel; /* no light thread can be what is asked for */
};

/* What the attributes ask for. A stack of the caller's, a scheduling class, CPUs, a guard beyond a page: kernel. */
static void read_attr(const pthread_attr_t *attr, struct request *r) {
    int detach, inherit, policy, scope;
    void *stack;
    size_t bytes, usual;
    cpu_set_t cpus, all;
    pthread_attr_t none;
    *r = (struct request){.guard_bytes = ito__prim_page()};
    if (attr == NULL)
        return;
    pthread_attr_getdetachstate(attr, &detach);
    pthread_attr_getinheritsched(attr, &inherit);
    pthread_attr_getschedpolicy(attr, &policy);
    pthread_attr_getscope(attr, &scope);
    pthread_attr_getguardsize(attr, &r->guard_bytes);
    r->detached = detach == PTHREAD_CREATE_DETACHED;
    if (inherit == PTHREAD_EXPLICIT_SCHED && policy != SCHED_OTHER)
        r->kernel = true;
    /* glibc's pthread_attr_getstack says 0 less the size where no stack was set. */
    if (pthread_attr_getstack(attr, &stack, &bytes) == 0 && (uintptr_t)stack + bytes != 0)
        r->kernel = true;
    pthread_attr_getstacksize(attr, &bytes);
    pthread_attr_init(&none);
    pthread_attr_getstacksize(&none, &usual);
    pthread_attr_destroy(&none);
    r->stack_bytes = bytes == usual ? 0 : bytes + tls_bytes() + ito__prim_page();
    if (r->guard_bytes > ito__prim_page())
        r->kernel = true;
    /* Not set reads as all ones. */
    memset(&all, 0xff, sizeof all);
    if (pthread_attr_getaffinity_np(attr, sizeof cpus, &cpus) == 0 && memcmp(&cpus, &all, sizeof cpus) != 0)
        r->kernel = true;
}

static int light_create(pthread_t *id, const struct request *r, void *(*fn)(void *), void *arg) {
    struct worker *w = worker_of(ito__worker());
    struct ito_thread *t = ito__descriptor_get(w);
    struct ito__stack *stack = t ? ito__stack_get(w, r->stack_bytes) : NULL;
    char *high;
    if (stack == NULL || !tls_ready(stack, &high)) {
        if (stack)
            ito__stack_put(w, stack);
        if (t)
            ito__descriptor_put(w, t);
        return EAGAIN;
    }
    pthread_t made = (pthread_t)ARCH_PTHREAD_OF(stack->tls);
    struct light *l = light_of(made);
    *l = (struct light){.kind = LIGHT_THREAD,
                        .word = r->detached ? LIGHT_DETACHED : 0,
                        .thread = t,
                        .stack = stack,
                        .stack_high = high,
                        .guard_bytes = r->guard_bytes,
                        .fn = fn,
                        .arg = arg,
                        .result = PTHREAD_CANCELED};
    pthread_sigmask(SIG_SETMASK, NULL, &l->mask);
    if (!light_here() && !sigisemptyset(&l->mask))
        signals_start();
    signals_thread_begins(l);
    t->stack = stack;
    t->flags |= ITO__OWN_STACK;
    store_relaxed(&t->state, ITO__DETACHED);
    t->name = l->name;
    t->fn = fn; /* for people: gdb, messages */
    t->arg = arg;
    t->sp = ito__context_make(high, light_main);
    light_thread_begins();
    *id = made; /* before it runs: it may end, and its creator be told of the number, before this returns */
    ito__ready(t);
    return 0;
}

/* ---- kernel threads ---------------------------------------------------------------------------------------------- */

struct kernel_start {
    void *(*fn)(void *);
    void *arg;
    sigset_t mask; /* the creator's: a worker that it may run on blocks all */
};

static void kernel_end(void *unused) {
    (void)unused;
    light_thread_ends();
}

static void *kernel_main(void *start) {
    struct kernel_start s = *(struct kernel_start *)start;
    void *result;
    free(start);
    REAL(pthread_sigmask)(SIG_SETMASK, &s.mask, NULL);
    pthread_cleanup_push(kernel_end, NULL);
    result = s.fn(s.arg);
    pthread_cleanup_pop(1);
    return result;
}

static int kernel_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
    struct kernel_start *s = malloc(sizeof *s);
    if (s == NULL)
        return EAGAIN;
    *s = (struct kernel_start){.fn = fn, .arg = arg};
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    light_thread_begins();
    int r = REAL(pthread_create)(id, attr, kernel_main, s);
    if (r) {
        free(s);
        light_thread_ends();
    }
    return r;
}

EXPORT int pthread_create(pthread_t *restrict id, const pthread_attr_t *restrict attr, void *(*fn)(void *),
                          void *restrict arg) {
    struct request r;
    if (!light_start())
        return light_works() ? kernel_create(id, attr, fn, arg) : REAL(pthread_create)(id, attr, fn, arg);
    read_attr(attr, &r);
    return r.kernel ? kernel_create(id, attr, fn, arg) : light_create(id, &r, fn, arg);
}

EXPORT void pthread_exit(void *result) {
    if (light_here())
        light_self.result = result;
    else if (getpid() == (pid_t)syscall(SYS_gettid))
        light_main_exits();
    REAL(pthread_exit)(result);
    __builtin_unreachable();
}

/* ---- join -------------------------------------------------------------------------------------------------------- */

/* The wait of light_join(): 0 it has ended, ETIMEDOUT, ECANCELED. */
static int wait_for_end(struct light *l, uint64_t deadline_ns) {
    struct ito__waiter w;
    int r = ECANCELED;
    if (light_wait_begin(&l->word, &l->joiners)) {
        ito__waiter_init(&w);
        uint32_t s = ito__word_lock(&l->word);
        if (s & LIGHT_ENDED) {
            ito__word_unlock(&l->word, s);
            r = 0;
        } else {
            ito__waiters_push(&l->joiners, &w);
            r = ito__wait(&w, &l->word, s, deadline_ns, ITO__WAIT_JOIN, l->thread, NULL);
        }
    }
    if (r) { /* another may join it, also if this thread does not come back from here */
        uint32_t s = ito__word_lock(&l->word);
        l->joiner_id = 0;
        ito__word_unlock(&l->word, s & ~(uint32_t)LIGHT_JOINED);
    }
    light_wait_end();
    return r;
}

/* Joins a light thread. `deadline_ns`: 0 tries, ITO_FOREVER waits. */
static int light_join(pthread_t id, void **result, uint64_t deadline_ns) {
    struct light *l = light_of(id);
    for (;;) {
        if (id == pthread_self() || (light_here() && light_self.joiner_id == id))
            return EDEADLK;
        if (deadline_ns != ITO_FOREVER && deadline_ns != 0 && ito__timers_start() != 0)
            return EAGAIN;
        uint32_t s = ito__word_lock(&l->word);
        bool mine = !(s & (LIGHT_DETACHED | LIGHT_JOINED)), wait = !(s & LIGHT_ENDED);
        if (mine && wait && deadline_ns != 0)
            l->joiner_id = pthread_self();
        ito__word_unlock(&l->word, mine && (!wait || deadline_ns != 0) ? s | LIGHT_JOINED : s);
        if (!mine)
            return EINVAL;
        if (wait && deadline_ns == 0)
            return EBUSY;
        int r = wait ? wait_for_end(l, deadline_ns) : 0;
        if (r == ETIMEDOUT)
            return r;
        if (r == 0)
            break;
    }
    /* The bit orders the result before this; the stack has been left. */
    if (result)
        *result = l->result;
    give_back(l);
    return 0;
}

/* Of a kernel thread, by a light one: the C library's join would hold up the worker, which that thread may need, and
 * would not be cancelled. */
static int kernel_join(pthread_t id, void **result) {
    for (unsigned turn = 0;; turn++) {
        int r = REAL(pthread_tryjoin_np)(id, result);
        if (r != EBUSY)
            return r;
        REAL(pthread_testcancel)();
        light_pause(turn, ITO_FOREVER);
    }
}

EXPORT int pthread_join(pthread_t id, void **result) {
    REAL(pthread_testcancel)();
    if (light_of(id)->kind == LIGHT_THREAD)
        return light_join(id, result, ITO_FOREVER);
    return light_here() ? kernel_join(id, result) : REAL(pthread_join)(id, result);
}

EXPORT int pthread_tryjoin_np(pthread_t id, void **result) {
    if (light_of(id)->kind == LIGHT_THREAD)
        return light_join(id, result, 0);
    return REAL(pthread_tryjoin_np)(id, result);
}

EXPORT int pthread_clockjoin_np(pthread_t id, void **result, clockid_t clock, const struct timespec *until) {
    uint64_t deadline_ns = ITO_FOREVER;
    if (light_of(id)->kind != LIGHT_THREAD)
        return REAL(pthread_clockjoin_np)(id, result, clock, until);
    if (until && !light_deadline(clock, until, &deadline_ns))
        return EINVAL;
    return light_join(id, result, deadline_ns);
}

EXPORT int pthread_timedjoin_np(pthread_t id, void **result, const struct timespec *until) {
    if (light_of(id)->kind != LIGHT_THREAD)
        return REAL(pthread_timedjoin_np)(id, result, until);
    return pthread_clockjoin_np(id, result, CLOCK_REALTIME, until);
}

EXPORT int pthread_detach(pthread_t id) {
    struct light *l = light_of(id);
    if (l->kind != LIGHT_THREAD)
        return REAL(pthread_detach)(id);
    uint32_t s = ito__word_lock(&l->word);
    bool mine = !(s & (LIGHT_DETACHED | LIGHT_JOINED));
    ito__word_unlock(&l->word, mine ? s | LIGHT_DETACHED : s);
    if (mine && s & LIGHT_ENDED)
        give_back(l);
    return mine ? 0 : EINVAL;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* A clock that is set later does not move the deadline. */
bool light_deadline(clockid_t clock, const struct timespec *at, uint64_t *deadline_ns) {
    struct timespec now;
    if (at->tv_nsec < 0 || at->tv_nsec >= 1000000000 || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
        return false;
    clock_gettime(clock, &now);
    int64_t s = at->tv_sec - now.tv_sec;
    int64_t most = INT64_MAX / 1000000000 / 2;
    s = s > most ? most : s < -most ? -most : s;
    int64_t left = s * 1000000000 + (at->tv_nsec - now.tv_nsec);
    *deadline_ns = left <= 0 ? 1 : ito_now_ns() + (uint64_t)left;
    return true;
}

bool light_pause(unsigned turn, uint64_t deadline_ns) {
    uint64_t ns = turn < 16 ? 0 : turn < 64 ? 50000 : 1000000;
    if (ito__passed(deadline_ns))
        return false;
    if (ns == 0 || ito_sleep_ns(ns) != 0)
        ito_yield();
    return true;
}
