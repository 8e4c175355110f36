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
 *
 * Joining a thread that has ended costs no more than the bit of its word. A joiner that has to wait is continued by the thread's
 * end itself, on the same worker, without a queue.
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
    l->kind = LIGHT_NONE;
    tls_set_tid((pthread_t)ARCH_PTHREAD_OF(stack->tls),
                -1); /* a stale pthread_t: ESRCH, until the stack is used again */
    t->fn = NULL;
    ito__descriptor_put(w, t);
    ito__stack_put(w, stack);
}

/* Runs on the next thread's stack, with the bit of light.word, which end() has taken. Its release publishes the result. A
 * thread that joins from here on gives all back itself. */
static void ended(void *light) {
    struct light *l = light;
    uint32_t s = load_relaxed(&l->word) & ~ITO__QUEUE_BIT;
    struct ito__waiter *joiner = ito__waiters_pop(&l->joiners);
    ito__word_unlock(&l->word, s | LIGHT_ENDED);
    if (joiner)
        ito__waiter_wake(joiner, 0);
    if (s & LIGHT_DETACHED)
        give_back(l);
}

static void __attribute__((noreturn)) end(struct light *me) {
    tls_end();
    keys_end();
    bool counted = me->kind == LIGHT_THREAD; /* in signals.c */
    if (me->kind == LIGHT_NONE)              /* the child of a fork: the last thread of its process */
        exit(0);
    light_unpin(me);
    if (counted)
        signals_thread_ends(me);
    else
        light_thread_ends();
    ito__word_lock(&me->word);
    struct ito__waiter *joiner = me->joiners.head;
    if (joiner && !(joiner->thread->flags & ITO__FOREIGN)) {
        ito__waiters_pop(&me->joiners);
        joiner->result = 0;
        ito__block_to(joiner->thread, ended, me);
    }
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

static uint32_t defaults_changed; /* pthread_setattr_default_np: threads without attributes have those */

struct request {
    size_t stack_bytes; /* 0: default */
    size_t stack_said;  /* as the attributes have it; 0: without */
    size_t guard_bytes;
    bool detached;
    bool kernel; /* no light thread can be what is asked for */
    bool has_mask;
    sigset_t mask;
};

/* The creator has a scheduling class, which its children have too. */
static bool inherits_class(void) {
    return load_relaxed(&light_classes_used) && !light_here() && sched_getscheduler(0) != SCHED_OTHER;
}

/* What the attributes ask for. A stack of the caller's, a scheduling class, CPUs, a guard beyond a page: kernel. */
static void read_attr(const pthread_attr_t *attr, struct request *r) {
    int detach, inherit, policy, scope;
    void *stack;
    size_t bytes, usual;
    cpu_set_t cpus, all;
    pthread_attr_t none;
    struct sched_param param;
    *r = (struct request){.guard_bytes = ito__prim_page()};
    if (attr == NULL) {
        r->kernel = inherits_class();
        return;
    }
    pthread_attr_getdetachstate(attr, &detach);
    pthread_attr_getinheritsched(attr, &inherit);
    pthread_attr_getschedpolicy(attr, &policy);
    pthread_attr_getscope(attr, &scope);
    pthread_attr_getguardsize(attr, &r->guard_bytes);
    r->detached = detach == PTHREAD_CREATE_DETACHED;
    /* A priority that its class does not have is the C library's to report. */
    if (inherit == PTHREAD_EXPLICIT_SCHED
            ? policy != SCHED_OTHER || pthread_attr_getschedparam(attr, &param) || param.sched_priority
            : inherits_class())
        r->kernel = true;
    r->has_mask = REAL(pthread_attr_getsigmask_np)(attr, &r->mask) == 0;
    /* glibc's pthread_attr_getstack says 0 less the size where no stack was set. */
    if (pthread_attr_getstack(attr, &stack, &bytes) == 0 && (uintptr_t)stack + bytes != 0)
        r->kernel = true;
    pthread_attr_getstacksize(attr, &bytes);
    pthread_attr_init(&none);
    pthread_attr_getstacksize(&none, &usual);
    pthread_attr_destroy(&none);
    r->stack_said = bytes;
    r->stack_bytes =
        bytes == usual && !load_relaxed(&defaults_changed) ? 0 : bytes + tls_bytes() + 2 * ito__prim_page();
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
        w = worker_of(ito__worker()); /* another by now, where malloc has waited */
        if (stack)
            ito__stack_put(w, stack);
        if (t)
            ito__descriptor_put(w, t);
        return EAGAIN;
    }
    pthread_t made = (pthread_t)ARCH_PTHREAD_OF(stack->tls);
    struct light *l = light_of(made); /* as it is in the image of this library, but for what tls_ready() has set */
    l->kind = LIGHT_THREAD;
    l->word = r->detached ? LIGHT_DETACHED : 0;
    l->thread = t;
    l->stack = stack;
    l->stack_high = high;
    l->guard_bytes = r->guard_bytes;
    l->stack_said = r->stack_said;
    l->fn = fn;
    l->arg = arg;
    l->result = PTHREAD_CANCELED;
    if (r->has_mask)
        l->mask = r->mask;
    else if (light_here())
        l->mask = light_self.mask;
    else
        REAL(pthread_sigmask)(SIG_SETMASK, NULL, &l->mask);
    memcpy(&l->mask_at_first, &l->mask, sizeof l->mask_at_first);
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

static int kernel_create(pthread_t *id, const pthread_attr_t *attr, const struct request *q, void *(*fn)(void *),
                         void *arg) {
    struct kernel_start *s = malloc(sizeof *s);
    if (s == NULL)
        return EAGAIN;
    *s = (struct kernel_start){.fn = fn, .arg = arg};
    if (q->has_mask)
        s->mask = q->mask;
    else
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
    if (!light_start()) {
        store_relaxed(&ito__alone, 0);
        return REAL(pthread_create)(id, attr, fn, arg);
    }
    pthread_attr_t usual;
    bool changed = attr == NULL && load_relaxed(&defaults_changed) && REAL(pthread_getattr_default_np)(&usual) == 0;
    read_attr(changed ? &usual : attr, &r);
    int e = r.kernel ? kernel_create(id, attr, &r, fn, arg) : light_create(id, &r, fn, arg);
    if (changed)
        pthread_attr_destroy(&usual);
    return e;
}

EXPORT int pthread_setattr_default_np(const pthread_attr_t *attr) {
    store_relaxed(&defaults_changed, 1);
    return REAL(pthread_setattr_default_np)(attr);
}

EXPORT void pthread_exit(void *result) {
    if (light_self.kind != LIGHT_NONE)
        light_self.result = result;
    else if (getpid() == (pid_t)syscall(SYS_gettid))
        light_main_exits();
    REAL(pthread_exit)(result);
    __builtin_unreachable();
}

/* ---- join -------------------------------------------------------------------------------------------------------- */

/* The caller holds the bit of l->word, whose other bits are `s`, and waits for its end. Returns 0, ETIMEDOUT or ECANCELED
 * as the bit is given back. */
static int wait_for_end(struct light *l, uint32_t s, uint64_t deadline_ns) {
    struct ito__waiter w;
    ito__waiter_init(&w);
    ito__waiters_push(&l->joiners, &w);
    l->joiner_id = pthread_self();
    int r = ito__wait(&w, &l->word, s | LIGHT_JOINED, deadline_ns, ITO__WAIT_JOIN, l->thread, NULL);
    /* ORDER acquire; pairs with the release in ended(). Where this thread was put into a queue, the other may still be on
     * its way off its stack. */
    if (r == 0 && UNLIKELY(!(load_acquire(&l->word) & LIGHT_ENDED))) {
        s = ito__word_lock(&l->word);
        ito__word_unlock(&l->word, s);
    }
    if (r) { /* another may join it, also if this thread does not come back from here */
        s = ito__word_lock(&l->word);
        l->joiner_id = 0;
        ito__word_unlock(&l->word, s & ~(uint32_t)LIGHT_JOINED);
    }
    return r;
}

/* One attempt. `may_wait`: between light_wait_begin() and light_wait_end(), and the former has said that it may wait. */
static int try_join(struct light *l, uint64_t deadline_ns, bool may_wait) {
    uint32_t s = ito__word_lock(&l->word);
    bool mine = !(s & (LIGHT_DETACHED | LIGHT_JOINED)), there = s & LIGHT_ENDED;
    if (mine && !there && may_wait)
        return wait_for_end(l, s, deadline_ns);
    ito__word_unlock(&l->word, mine && there ? s | LIGHT_JOINED : s);
    return !mine ? EINVAL : there ? 0 : deadline_ns == 0 ? EBUSY : ECANCELED;
}

/* Joins a light thread. `deadline_ns`: 0 tries, ITO_FOREVER waits. */
static int light_join(pthread_t id, void **result, uint64_t deadline_ns) {
    struct light *l = light_of(id);
    int r;
    do {
        if (id == pthread_self() || (light_self.kind != LIGHT_NONE && light_self.joiner_id == id))
            return EDEADLK;
        if (deadline_ns == 0 || load_relaxed(&l->word) & LIGHT_ENDED) {
            r = try_join(l, deadline_ns, false);
        } else if (deadline_ns != ITO_FOREVER && ito__timers_start() != 0) {
            return EAGAIN;
        } else {
            r = try_join(l, deadline_ns, light_wait_begin(&l->word, &l->joiners));
            light_wait_end(); /* cancelled: does not return */
        }
    } while (r == ECANCELED); /* it was to be pinned */
    if (r)
        return r;
    /* The bit orders the result before this; the stack has been left. */
    if (result)
        *result = l->result;
    give_back(l);
    return 0;
}

/* Of a kernel thread, by a light one: the C library's join would hold up the worker, which that thread may need, and
 * would not be cancelled. */
static int kernel_join(pthread_t id, void **result, uint64_t deadline_ns) {
    for (unsigned turn = 0;; turn++) {
        int r = REAL(pthread_tryjoin_np)(id, result);
        if (r != EBUSY)
            return r;
        REAL(pthread_testcancel)();
        if (!light_pause(turn, deadline_ns))
            return ETIMEDOUT;
    }
}

EXPORT int pthread_join(pthread_t id, void **result) {
    REAL(pthread_testcancel)();
    if (light_of(id)->kind != LIGHT_NONE)
        return light_join(id, result, ITO_FOREVER);
    return light_here() ? kernel_join(id, result, ITO_FOREVER) : REAL(pthread_join)(id, result);
}

EXPORT int pthread_tryjoin_np(pthread_t id, void **result) {
    if (light_of(id)->kind != LIGHT_NONE)
        return light_join(id, result, 0);
    return REAL(pthread_tryjoin_np)(id, result);
}

EXPORT int pthread_clockjoin_np(pthread_t id, void **result, clockid_t clock, const struct timespec *until) {
    uint64_t deadline_ns = ITO_FOREVER;
    bool is_kernels = light_of(id)->kind == LIGHT_NONE;
    if (is_kernels && !light_here())
        return REAL(pthread_clockjoin_np)(id, result, clock, until);
    if (until && !light_deadline(clock, until, &deadline_ns))
        return EINVAL;
    return is_kernels ? kernel_join(id, result, deadline_ns) : light_join(id, result, deadline_ns);
}

EXPORT int pthread_timedjoin_np(pthread_t id, void **result, const struct timespec *until) {
    if (light_of(id)->kind == LIGHT_NONE && !light_here())
        return REAL(pthread_timedjoin_np)(id, result, until);
    return pthread_clockjoin_np(id, result, CLOCK_REALTIME, until);
}

EXPORT int pthread_detach(pthread_t id) {
    struct light *l = light_of(id);
    if (l->kind == LIGHT_NONE)
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
    if (at->tv_nsec < 0 || at->tv_nsec >= 1000000000 || !light_clock(clock))
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
