/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The traced program of the ring tests: `work MODE [A [B]]`, with its counts in the file KASURI_TEST_COUNTS. */
#define _GNU_SOURCE
#include "counts.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef WORK_KILLS
static void test_point(int n);
#define KASURI__TEST_POINT(n) test_point(n)
#endif
#include "kasuri.h"

static struct counts *counts;

#ifdef WORK_KILLS
static int kill_point;
static long kill_after;
static int hold_point, hold_event, hold_on, raise_at;
static __thread int event; /* of emit(), now */
/* Called at the numbered points of the client (KASURI__TEST_POINT). Dies when KILL_POINT is passed the KILL_AFTER-th
 * time. The first thread at HOLD_POINT (of event HOLD_EVENT, if given) stays there while the test asks for it, or until
 * another thread makes the process leave its session; with HOLD_ON longer than that one waits for it. */
static void test_point(int n) {
    if (n == hold_point && (hold_event < 0 || event == hold_event) &&
        __atomic_load_n(&counts->hold, __ATOMIC_ACQUIRE) &&
        __atomic_exchange_n(&counts->held, 1, __ATOMIC_ACQ_REL) == 0)
        while (__atomic_load_n(&counts->hold, __ATOMIC_ACQUIRE) && !__atomic_load_n(&counts->left, __ATOMIC_ACQUIRE))
            usleep(100);
    if (n == 10 && (hold_point == 9 || hold_point == 12) && !hold_on &&
        __atomic_load_n(&counts->held, __ATOMIC_ACQUIRE))
        __atomic_store_n(&counts->left, 1, __ATOMIC_RELEASE);
    if (n == raise_at) {
        raise_at = 0;
        raise(SIGUSR1);
    }
    if (n == kill_point && __atomic_sub_fetch(&kill_after, 1, __ATOMIC_RELAXED) == 0) {
        kill(getpid(), SIGKILL);
        for (;;)
            pause();
    }
}
#endif

/* One annotation, counted before and after; which one depends on i. */
static void emit(uint64_t i) {
    __atomic_fetch_add(&counts->started, 1, __ATOMIC_RELAXED);
#ifdef WORK_KILLS
    event = (int)(i % 8);
#endif
    switch (i % 8) {
    case 0:
        KASURI_BEGIN("slice");
        break;
    case 1:
        KASURI_ARG_U64("i", i);
        break;
    case 2:
        KASURI_COUNTER("zero", 0.0); /* a payload word that looks like a slot not committed */
        break;
    case 3:
        KASURI_TASK_CREATE("task", i, 0);
        break;
    case 4:
        if (i % 64 == 4)
            KASURI_MESSAGE("message %llu of some length", (unsigned long long)i);
        else
            KASURI_ARG_STR("text", "0123456789abcdef0123456789abcdef");
        break;
    case 5:
        KASURI_LOCK_REQUEST(&counts);
        break;
    case 6:
        KASURI_INSTANT("here");
        break;
    default:
        KASURI_END();
    }
    __atomic_fetch_add(&counts->done, 1, __ATOMIC_RELAXED);
}

static void emit_many(uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        emit(i);
}

static void *thread_main(void *n) {
    emit_many((uint64_t)(uintptr_t)n);
    return NULL;
}

static void run_threads(long threads, long events) {
    pthread_t t[64];
    for (long i = 0; i < threads; i++)
        pthread_create(&t[i], NULL, thread_main, (void *)(uintptr_t)events);
    for (long i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
}

static void mode_plain(long threads, long events) {
    emit_many((uint64_t)events);
    run_threads(threads, events);
}

static void mode_short(long threads, long events) {
    for (long i = 0; i < threads; i += 50)
        run_threads(50, events);
}

/* -- signals -- */

static long handler_events;
static void handler(int signal) {
    (void)signal;
    emit_many((uint64_t)handler_events);
    /* Sometimes stay long enough for the reader to free what was handed over, the chunk that we interrupt included. */
    if (__atomic_fetch_add(&counts->handlers, 1, __ATOMIC_RELAXED) % 8 == 0)
        usleep(3000);
}

static int stormed; /* atomic: the storm is over */
static void *storm(void *target) {
    while (!__atomic_load_n(&stormed, __ATOMIC_ACQUIRE)) {
        pthread_kill(*(pthread_t *)target, SIGUSR1);
        usleep(60);
    }
    return NULL;
}

/* A handler that fills whole chunks while the thread is anywhere in an annotation. SIGUSR1 may interrupt SIGALRM. */
static void mode_signals(long events, long in_handler) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 100}, {0, 100}};
    pthread_t self = pthread_self(), other;
    handler_events = in_handler;
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    pthread_create(&other, NULL, storm, &self);
    emit_many((uint64_t)events);
    for (int round = 0; round < 100000 && __atomic_load_n(&counts->handlers, __ATOMIC_RELAXED) < 100; round++)
        emit_many(1000);
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, NULL);
    __atomic_store_n(&stormed, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
}

/* -- fork and exec -- */

#ifdef WORK_KILLS
/* A handler of 1, 2, 3... events comes while the thread is at `point` with an event that did not fit: whatever it leaves of
 * the thread's chunks, nothing is missing and none is out of use. */
static void mode_handler_at(long rounds, long point) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    for (handler_events = 1; handler_events <= rounds; handler_events++) {
        raise_at = (int)point;
        emit_many(400);
    }
}

/* In a child of fork a thread has no chunk; a handler gets one between the thread's look at its position and at its
 * limit. */
static void mode_fork_handler(long events) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    handler_events = 3;
    sigaction(SIGUSR1, &action, NULL);
    emit_many((uint64_t)events);
    pid_t pid = fork();
    if (pid == 0) {
        raise_at = 1;
        emit_many((uint64_t)events);
        _exit(raise_at == 0 ? 0 : 9);
    }
    int status = 1;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        exit(4);
}
#endif

#ifdef WORK_KILLS
/* The gate is open in a child of fork from its first instruction on; one of its threads attaches, held in the middle of
 * that. */
static void mode_fork_threads(long threads, long events) {
    emit_many((uint64_t)events);
    __atomic_store_n(&counts->hold, 1, __ATOMIC_RELEASE);
    pid_t pid = fork();
    if (pid == 0) {
        run_threads(threads, events);
        _exit(0);
    }
    int status = 1;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        exit(4);
}
#endif

static long fork_events;
static void in_child(pid_t pid) {
    if (pid == 0) {
        emit_many((uint64_t)fork_events);
        _exit(0);
    }
    emit_many((uint64_t)fork_events);
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        abort();
}
static void *forker(void *unused) {
    (void)unused;
    emit(6);
    in_child(fork());
    return NULL;
}
static void mode_fork(long events, long nested) {
    fork_events = events;
    emit_many(100);
    in_child(fork());
    in_child((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); /* no handler of libc runs */
    if (nested && fork() == 0) {
        in_child(fork()); /* a grandchild, without an annotation by the child in between */
        _exit(0);
    }
    wait(NULL);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, forker, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void mode_exec(const char *self, long events) {
    char text[32];
    emit_many((uint64_t)events);
    snprintf(text, sizeof text, "%ld", events);
    execl(self, self, "plain", "0", text, (char *)NULL);
    abort();
}

/* -- modules -- */

static void mode_plugin(const char *path, long times) {
    for (long i = 0; i < times; i++) {
        void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!plugin) {
            fprintf(stderr, "%s\n", dlerror());
            abort();
        }
        int (*run)(int) = (int (*)(int))(uintptr_t)dlsym(plugin, "plugin_run");
        emit(6);
        int n = run(10);
        __atomic_fetch_add(&counts->started, (uint64_t)n, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counts->done, (uint64_t)n, __ATOMIC_RELAXED);
        dlclose(plugin);
        if (dlopen(path, RTLD_NOW | RTLD_NOLOAD))
            abort(); /* the annotations pin it */
    }
}

/* Makes a name when it has no recorder any more. */
static void mode_between(void) {
    emit(6);
    while (!__atomic_load_n(&counts->hold, __ATOMIC_ACQUIRE))
        usleep(100);
    counts->result = kasuri_intern("a name made between two recordings");
}

/* Annotates without end; its real work is a sum that must not depend on whether a recorder listens. As daemons do, it
 * has closed its standard input: what the client opens has number 0, and none of it stays open. */
static void mode_linger(long events_a_round) {
    uint64_t sum = 0, i = 0;
    close(0);
    while (!__atomic_load_n(&counts->stop, __ATOMIC_ACQUIRE)) {
        for (long k = 0; k < events_a_round; k++, i++) {
            int enabled = kasuri_enabled();
            if (enabled)
                emit(i);
            else
                KASURI_INSTANT("attach"); /* where a request to attach is noticed */
            sum += i % 7;
        }
        __atomic_store_n(&counts->enabled, (uint64_t)kasuri_enabled(), __ATOMIC_RELEASE);
        __atomic_store_n(&counts->result, sum == (i / 7) * 21 + (i % 7) * (i % 7 - 1) / 2, __ATOMIC_RELAXED);
        usleep(200);
    }
    if (fcntl(0, F_GETFD) != -1)
        abort();
}

static void *attached_main(void *pause) {
    uint64_t i = 0;
    while (!__atomic_load_n(&counts->stop, __ATOMIC_ACQUIRE)) {
        for (int k = 0; k < 100; k++, i++)
            emit(i);
        if (pause)
            usleep(100);
    }
    while (!__atomic_load_n(&stormed, __ATOMIC_ACQUIRE))
        usleep(1000);
    return NULL;
}

/* Threads that annotate without end, for recorders that come and go. Or with a storm of signals whose handlers
 * annotate; then every other thread never sleeps, so that it is taken off its CPU anywhere. The first thread annotates
 * once. */
static void mode_attached(long threads, long with_signals) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    pthread_t t[64], other;
    handler_events = 30;
    sigaction(SIGUSR1, &action, NULL);
    emit(6);
    for (long i = 0; i < threads; i++)
        pthread_create(&t[i], NULL, attached_main, (void *)(uintptr_t)(!with_signals || i % 2));
    if (with_signals)
        pthread_create(&other, NULL, storm, &t[0]);
    while (!__atomic_load_n(&counts->stop, __ATOMIC_ACQUIRE))
        usleep(1000);
    __atomic_store_n(&stormed, 1, __ATOMIC_RELEASE);
    if (with_signals)
        pthread_join(other, NULL);
    for (long i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
}

/* -- the end of a recording -- */

#ifdef WORK_KILLS
/* Counts an annotation if and only if it found the gate open: kasuri_enabled() before it may have another answer. */
static void count_emitted(uint32_t gate) {
    __atomic_fetch_add(&counts->started, gate == 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->done, gate == 1, __ATOMIC_RELAXED);
}

static void *closing_main(void *unused) {
    (void)unused;
    for (uint64_t i = 0; kasuri_enabled(); i++) {
        event = (int)(i % 3);
        switch (i % 3) {
        case 0:
            KASURI__AT("here",
                       (count_emitted(kasuri__g), kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, KASURI_EV_INSTANT)));
            break;
        case 1:
            KASURI__AT("there", (count_emitted(kasuri__g),
                                 kasuri__emit2(kasuri__g, kasuri__s, kasuri__id, KASURI_EV_COUNTER, i, 0)));
            break;
        default:
            KASURI__AT("text", (count_emitted(kasuri__g),
                                kasuri__emit_str(kasuri__s, kasuri__id, KASURI_EV_ARG | KASURI_ARG_STR << 16, "x")));
        }
    }
    return NULL;
}

/* Its first event, when a thread is to be held. */
static void *late_main(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&counts->hold, __ATOMIC_ACQUIRE) && kasuri_enabled())
        usleep(100);
    event = 7;
    KASURI__NAMELESS((count_emitted(kasuri__g), kasuri__emit1(kasuri__g, 0, 0, KASURI_EV_END)));
    return NULL;
}

/* Threads that annotate until another of them has noticed that the recorder is gone. */
static void mode_closing(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, i < 2 ? closing_main : late_main, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}
#endif

/* -- causes -- */

static void mode_big(void) {
    static char text[3000];
    memset(text, 'x', sizeof text - 1);
    uint32_t placed = 0, name = kasuri_intern("a name");
    if (!name || kasuri_intern("a name") != name || kasuri_intern("another") == name || kasuri_intern("b name") == name)
        abort();
    /* The name of a place in the source is another one, which says where. */
    __atomic_fetch_add(&counts->started, 1, __ATOMIC_RELAXED);
    KASURI__AT("placed", (kasuri__emit1(kasuri__g, kasuri__s, kasuri__id, KASURI_EV_INSTANT),
                          placed = (uint32_t)__atomic_load_n(&kasuri__s->id, __ATOMIC_RELAXED)));
    __atomic_fetch_add(&counts->done, 1, __ATOMIC_RELAXED);
    if (!placed || kasuri_intern("placed") == placed)
        abort();
    for (int i = 0; i < 10; i++) {
        __atomic_fetch_add(&counts->started, 3, __ATOMIC_RELAXED);
        KASURI_MESSAGE("%s", text);
        KASURI_ARG_STR("long", text);
        KASURI_ARG_STR("longest", text + sizeof text - 1 - KASURI_EVENT_MAX);
        __atomic_fetch_add(&counts->done, 3, __ATOMIC_RELAXED);
    }
}

/* Ten thousand names that the session has no room for. */
static void mode_names(long n) {
    char name[96];
    for (long i = 0; i < n; i++) {
        snprintf(name, sizeof name, "a rather long name for a site made at run time, number %ld", i);
        uint32_t id = kasuri_intern(name);
        if (id && kasuri_intern(name) != id)
            abort();
    }
    emit_many(1000);
}

int main(int argc, char **argv) {
    const char *path = getenv("KASURI_TEST_COUNTS"), *mode = argc > 1 ? argv[1] : "";
    long a = argc > 2 ? atol(argv[2]) : 0, b = argc > 3 ? atol(argv[3]) : 0;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return 3;
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    counts->client = (uint64_t)(uintptr_t)&kasuri__process.client;
    counts->kept_at[0] = offsetof(struct kasuri__client, n_graves);
    counts->kept_at[1] = offsetof(struct kasuri__client, first_segment);
    __atomic_store_n(&counts->gate, (uint64_t)(uintptr_t)&kasuri__gate, __ATOMIC_RELEASE);
#ifdef WORK_KILLS
    kill_after = getenv("KILL_AFTER") ? atol(getenv("KILL_AFTER")) : 1;
    hold_event = getenv("HOLD_EVENT") ? atoi(getenv("HOLD_EVENT")) : -1;
    hold_on = getenv("HOLD_ON") != NULL;
    hold_point = getenv("HOLD_POINT") ? atoi(getenv("HOLD_POINT")) : 0;
    kill_point = getenv("KILL_POINT") ? atoi(getenv("KILL_POINT")) : 0;
#endif
    if (!strcmp(mode, "plain"))
        mode_plain(a, b);
    else if (!strcmp(mode, "short"))
        mode_short(a, b);
    else if (!strcmp(mode, "signals"))
        mode_signals(a, b);
#ifdef WORK_KILLS
    else if (!strcmp(mode, "handler_at"))
        mode_handler_at(a, b);
#endif
    else if (!strcmp(mode, "fork"))
        mode_fork(a, b);
#ifdef WORK_KILLS
    else if (!strcmp(mode, "fork_handler"))
        mode_fork_handler(a);
    else if (!strcmp(mode, "fork_threads"))
        mode_fork_threads(a, b);
    else if (!strcmp(mode, "closing"))
        mode_closing();
#endif
    else if (!strcmp(mode, "exec"))
        mode_exec(argv[0], a);
    else if (!strcmp(mode, "plugin"))
        mode_plugin(argv[2], b);
    else if (!strcmp(mode, "linger"))
        mode_linger(a);
    else if (!strcmp(mode, "attached"))
        mode_attached(a, b);
    else if (!strcmp(mode, "between"))
        mode_between();
    else if (!strcmp(mode, "big"))
        mode_big();
    else if (!strcmp(mode, "names"))
        mode_names(a);
    else
        return 2;
    __atomic_store_n(&counts->enabled, (uint64_t)kasuri_enabled(), __ATOMIC_RELEASE);
    return 0;
}
