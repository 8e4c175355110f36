/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that keep shadow stacks: each function whose name begins with f_ notes in a file, with the time, that it begins and ends, so
 * that what a sample must show is known for each moment. Built with PLUGIN=a or b: code that is loaded and unloaded, both at one address.
 *
 * usage: shadow DIR SECONDS DEEPEST
 * DIR/TID: events of a thread; DIR/a.so, DIR/b.so: the plugins. */
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* No clone, no part, nothing known of it by its callers: the symbol is the function. */
#define F extern "C" __attribute__((noipa)) void

struct Host {
    void (*enter)(const char *name);
    void (*leave)();
    void (*down)(int depth);
};

#ifdef PLUGIN
#define NAME_OF(x) f_plugin_##x
#define NAME(x) NAME_OF(x)
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Frames of different sizes: rules of the one would lead the other to wrong callers. */
F NAME(PLUGIN)(const Host *host, int depth) {
    volatile char here[TEXT(PLUGIN)[0] == 'a' ? 40 : 1000];
    here[3] = (char)depth;
    host->enter("f_plugin_" TEXT(PLUGIN));
    host->down(depth + here[3] - (char)depth);
    host->leave();
    here[4] = here[3];
}
#else

enum Kind : uint32_t { ENTER, LEAVE, CUT };

/* One line of the file. */
struct Event {
    uint64_t ns;
    Kind kind;
    /* CUT: frames that are left. */
    uint32_t left;
    /* ENTER. */
    char name[16];
};

/* What is done where the calls end. */
enum Bottom { WORK, THROW, JUMP };

struct Self {
    Event *at, *end;
    uint64_t random;
    uint32_t depth;
    Bottom bottom;
    bool on_other_stack;
    jmp_buf jump;
    void (*plugin)(const Host *, int);
};

static const size_t EVENTS = 8u << 20;
static const char *directory;
static uint64_t end_ns;
static int deepest;
static thread_local Self *self;
static volatile uint64_t sink;

static inline uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline __attribute__((always_inline)) void note(Kind kind, uint32_t left, const char *name) {
    Event *event = self->at;
    if (event == self->end)
        _exit(3);
    self->at = event + 1;
    event->kind = kind;
    event->left = left;
    for (size_t i = 0; i < sizeof event->name - 1 && name[i] != 0; i++)
        event->name[i] = name[i];
    /* An event with a time is one that happened. */
    asm volatile("" ::: "memory");
    event->ns = now();
}

static inline __attribute__((always_inline)) uint32_t enter(const char *name) {
    note(ENTER, 0, name);
    return ++self->depth;
}

static inline __attribute__((always_inline)) void leave() {
    note(LEAVE, 0, "");
    self->depth--;
}

/* After a jump over frames: only `left` are left. */
static inline __attribute__((always_inline)) void cut(uint32_t left) {
    note(CUT, left, "");
    self->depth = left;
}

static inline uint64_t random_of(uint64_t n) {
    uint64_t x = self->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    self->random = x;
    return x % n;
}

static void down(int depth);

F f_work() {
    enter("f_work");
    uint64_t x = 1;
    for (uint64_t n = random_of(400000); n > 0; n--)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
    if (random_of(2) == 0) {
        timespec nap = {0, (long)random_of(300000)};
        nanosleep(&nap, nullptr);
    }
    leave();
}

F f_throw() {
    enter("f_throw");
    throw 1;
}

F f_leap() {
    enter("f_leap");
    longjmp(self->jump, 1);
}

F f_plain(int depth) {
    enter("f_plain");
    down(depth);
    leave();
}

F f_sized(int depth) {
    enter("f_sized");
    size_t n = 16 + random_of(300);
    auto *here = (volatile char *)alloca(n);
    here[n - 1] = 1;
    down(depth);
    here[0] = here[n - 1];
    leave();
}

F f_aligned(int depth) {
    alignas(64) volatile char here[192];
    enter("f_aligned");
    here[0] = (char)depth;
    down(depth);
    here[1] = here[0];
    leave();
}

/* All registers that calls keep have a value here that is needed after the call. */
F f_registers(int depth) {
    enter("f_registers");
    uint64_t a = random_of(9), b = random_of(9), c = random_of(9), d = random_of(9), e = random_of(9), f = random_of(9);
    down(depth);
    sink = a ^ b << 1 ^ c << 2 ^ d << 3 ^ e << 4 ^ f << 5;
    leave();
}

/* It is gone where the one that it calls runs. */
F f_tail(int depth) {
    enter("f_tail");
    leave();
    return f_plain(depth);
}

extern "C" __attribute__((noipa)) int f_compare(const void *a, const void *b) {
    enter("f_compare");
    int depth = *(const int *)a < 0 ? -*(const int *)a : -*(const int *)b;
    if (depth > 0)
        down(depth - 1);
    leave();
    return 0;
}

F f_sort(int depth) {
    enter("f_sort");
    int numbers[] = {-depth, 0};
    qsort(numbers, 2, sizeof *numbers, f_compare);
    leave();
}

static thread_local int handler_depth;

extern "C" __attribute__((noipa)) void f_handler(int) {
    enter("f_handler");
    down(handler_depth);
    leave();
}

F f_signal(int depth) {
    enter("f_signal");
    handler_depth = depth;
    raise(SIGUSR1);
    leave();
}

/* On a stack of its own: what called it lies elsewhere. */
F f_stack(int depth) {
    enter("f_stack");
    handler_depth = depth;
    self->on_other_stack = true;
    raise(SIGUSR2);
    self->on_other_stack = false;
    leave();
}

F f_clean() {
    enter("f_clean");
    for (int i = 0; i < 20000; i++)
        sink = sink + 1;
    leave();
}

struct Guard {
    uint32_t left;
    ~Guard() {
        cut(left);
        f_clean();
    }
};

F f_guard(int depth) {
    {
        Guard guard = {enter("f_guard")};
        down(depth);
    }
    leave();
}

F f_try(int depth) {
    uint32_t left = enter("f_try");
    Bottom before = self->bottom;
    self->bottom = THROW;
    try {
        down(depth);
    } catch (int) {
        cut(left);
    }
    self->bottom = before;
    leave();
}

F f_jump(int depth) {
    volatile uint32_t left = enter("f_jump");
    if (setjmp(self->jump) == 0) {
        self->bottom = JUMP;
        down(depth);
    } else {
        cut(left);
    }
    self->bottom = WORK;
    leave();
}

static void host_enter(const char *name) {
    enter(name);
}
static void host_leave() {
    leave();
}
static const Host host = {host_enter, host_leave, down};

F f_outside(int depth) {
    enter("f_outside");
    self->plugin(&host, depth);
    leave();
}

static void special(int depth) {
    switch (random_of(7)) {
    case 0:
        return f_sort(depth);
    case 1:
        return f_signal(depth);
    case 2:
        return self->on_other_stack || depth > 100 ? f_plain(depth) : f_stack(depth);
    case 3:
        return f_try(depth);
    case 4:
        return f_jump(depth);
    default:
        return self->plugin != nullptr ? f_outside(depth) : f_guard(depth);
    }
}

static void down(int depth) {
    if (--depth <= 0) {
        switch (self->bottom) {
        case WORK:
            return f_work();
        case THROW:
            return f_throw();
        case JUMP:
            return f_leap();
        }
    }
    /* Nothing may throw through a signal, or jump over a destructor. */
    if (self->bottom == WORK && random_of(8) == 0)
        return special(depth);
    switch (random_of(self->bottom == THROW ? 6 : 5)) {
    case 0:
        return f_sized(depth);
    case 1:
        return f_aligned(depth);
    case 2:
        return f_registers(depth);
    case 3:
        return f_tail(depth);
    case 4:
        return f_plain(depth);
    default:
        return f_guard(depth);
    }
}

static void *run(void *argument) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld", directory, syscall(SYS_gettid));
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, EVENTS * sizeof(Event)) != 0)
        _exit(2);
    void *map = mmap(nullptr, EVENTS * sizeof(Event), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        _exit(2);
    Self mine = {};
    mine.at = (Event *)map, mine.end = mine.at + EVENTS;
    long nth = (long)argument;
    mine.random = 88172645463325252u + (uint64_t)nth * 7919;
    self = &mine;
    stack_t other = {};
    other.ss_size = 512 << 10;
    other.ss_sp = malloc(other.ss_size);
    sigaltstack(&other, nullptr);
    for (int round = 0; now() < end_ns && mine.end - mine.at > 100000; round++) {
        void *plugin = nullptr;
        /* The same addresses for different code, in one thread. */
        if (nth == 0) {
            snprintf(path, sizeof path, "%s/%c.so", directory, "ab"[round % 2]);
            plugin = dlopen(path, RTLD_NOW);
            if (plugin == nullptr)
                _exit(4);
            mine.plugin = (void (*)(const Host *, int))dlsym(plugin, round % 2 == 0 ? "f_plugin_a" : "f_plugin_b");
        }
        for (int i = 0; i < 100 && now() < end_ns; i++)
            down(i == 99 ? deepest : 1 + (int)random_of(60));
        mine.plugin = nullptr;
        if (plugin != nullptr)
            dlclose(plugin);
    }
    return nullptr;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 1;
    directory = argv[1];
    end_ns = now() + (uint64_t)(atof(argv[2]) * 1e9);
    deepest = atoi(argv[3]);
    struct sigaction action = {};
    action.sa_handler = f_handler;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGUSR1, &action, nullptr);
    action.sa_flags = SA_NODEFER | SA_ONSTACK;
    sigaction(SIGUSR2, &action, nullptr);
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], nullptr, run, (void *)i);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
    return 0;
}
#endif
