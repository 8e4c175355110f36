/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program whose reasons for not being faster are planted, and measured by the program itself.
 *
 *     planted CAUSE [-n ROUNDS] [-s SEED] [--cure]
 *
 * One thread for each CPU, pinned to it (oversubscription: more, free to move). Each round has a phase of the cause's
 * kind and ends at a barrier. All threads take the time at each border of what they do: CLOCK_MONOTONIC, and
 * CLOCK_THREAD_CPUTIME_ID for what of it they were on a CPU. From these stamps alone the program works out at its end
 * how much of the capacity (CPUs x wall time) went to what, and prints it as one line of JSON: the truth that a
 * profiler has to find from outside. It knows nothing of the recording; the annotations are for the profiler.
 *
 * --cure runs the same work without the cause.
 *
 * `throttled` is for a cgroup with a CPU limit of a fraction of a CPU: its threads want all CPUs for SHARE % of the
 * time (-t) and sleep for the rest. Its truth is the kernel's: what `throttled_time` or `throttled_usec` in cpu.stat of
 * the cgroup DIR rose by (--cgroup).
 */
#define _GNU_SOURCE
#include "../common/example.h"
#include "../common/team.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum phase { IMBALANCE, LOCK, SERIAL, DISK, EQUAL, PHASES };

/* A stretch in which a thread waited for a lock or for the disk; without the part in which it was ready again. */
struct stretch {
    int64_t from, to;
    bool is_disk;
};

enum { STRETCHES = 48 };

/* One thread's measurements of one round, ns. */
struct note {
    struct stretch waits[STRETCHES]; /* in their order */
    int n_waits;
    int64_t came, left;                   /* at the barrier at the round's end, and away from it */
    int64_t delayed, ready_at_barrier;    /* ready without a CPU, before the barrier and at it */
    int64_t lock, disk;                   /* waiting, without being ready */
    int64_t asked, signalled, delayed_by; /* serial phase: began to wait, was let go; delay of who worked meanwhile */
};

/* A border. */
struct stamp {
    int64_t wall, ready;
};

struct plan {
    const char *cause;
    enum phase *phase; /* [rounds] */
    int rounds, threads, locks;
    bool cure;
    int share;          /* throttled: % */
    const char *cgroup; /* its directory */
    int64_t throttled_ns;
    uint64_t seed;
    struct note *notes; /* [rounds][threads] */
    int64_t began, ended, cpu_ns;
};

static _Thread_local int books = -1; /* /proc/thread-self/schedstat */

static struct lock {
    pthread_mutex_t mutex;
    char apart[128];
} locks[256];

static pthread_mutex_t ready_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready_cond = PTHREAD_COND_INITIALIZER;
static int ready_round = -1;
static int64_t ready_signalled, ready_delayed;

static int64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int64_t now(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

static struct stamp stamp(void) {
    char text[96] = "";
    struct stamp s = {.wall = now()};
    long long cpu, ready;
    if (pread(books, text, sizeof text - 1, 0) <= 0 || sscanf(text, "%lld %lld", &cpu, &ready) != 2)
        example_fail("/proc/thread-self/schedstat: cannot read, needed a kernel with CONFIG_SCHED_INFO");
    s.ready = ready;
    return s;
}

/* Since @from: adds to @delayed how long the thread was ready without a CPU, and returns the rest. */
static int64_t since(struct stamp from, int64_t *delayed) {
    struct stamp to = stamp();
    *delayed += to.ready - from.ready;
    return to.wall - from.wall - (to.ready - from.ready);
}

/* A wait that began at @from and is over, @length of it blocked: for what others wait who wait for this thread. */
static void remember(struct note *note, struct stamp from, int64_t length, bool is_disk) {
    if (note->n_waits == STRETCHES)
        example_fail("more waits in a round than can be remembered");
    note->waits[note->n_waits++] = (struct stretch){from.wall, from.wall + length, is_disk};
}

/* Computes until the thread has been on a CPU for so long; how long it wanted to and was not is added to @delayed. */
static void compute(int64_t cpu_ns, int64_t *delayed) {
    struct stamp from = stamp();
    int64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    volatile double x = 1.0;
    do {
        for (int i = 0; i < 2000; i++)
            x = x * 0.999 + 0.001;
    } while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < cpu_ns);
    since(from, delayed);
}

static int64_t some(uint64_t *seed, int64_t from, int64_t to) {
    return from + (int64_t)(example_random(seed) % (uint64_t)(to - from));
}

/* Unequal parts, the last thread's the largest. */
static void imbalance(const struct plan *plan, int member, uint64_t seed, struct note *note) {
    int64_t work = some(&seed, 3000000, 5000000), step = plan->cure ? 0 : work / plan->threads;
    KASURI_SCOPE("sweep");
    compute(work + step * member - step * (plan->threads - 1) / 2, &note->delayed);
}

/* All need one table; with the cure each entry has a lock of its own. */
static void lock_phase(const struct plan *plan, int member, uint64_t seed, struct note *note) {
    int64_t inside = some(&seed, 600000, 900000);
    for (int i = 0; i < 4; i++) {
        struct lock *table = &locks[(member * 16 + i) % plan->locks];
        struct stamp asked = stamp();
        KASURI_LOCK_REQUEST(table);
        pthread_mutex_lock(&table->mutex);
        KASURI_LOCK_ACQUIRED(table);
        int64_t waited = since(asked, &note->delayed);
        note->lock += waited;
        remember(note, asked, waited, false);
        {
            KASURI_SCOPE("update");
            compute(inside, &note->delayed);
        }
        pthread_mutex_unlock(&table->mutex);
        KASURI_LOCK_RELEASED(table);
        KASURI_SCOPE("parse");
        compute(inside / 4, &note->delayed);
    }
}

/* Thread 0 works, the others wait until it has done; with the cure each does its part. */
static void serial(const struct plan *plan, int member, int round, uint64_t seed, struct note *note) {
    int64_t work = some(&seed, 2000000, 4000000);
    if (plan->cure) {
        KASURI_SCOPE("merge");
        compute(work / plan->threads, &note->delayed);
        return;
    }
    if (member == 0) {
        int64_t own = 0;
        KASURI_BEGIN("merge");
        compute(work, &own);
        KASURI_END();
        note->delayed += own;
        pthread_mutex_lock(&ready_mutex);
        ready_round = round;
        ready_delayed = own;
        ready_signalled = now();
        pthread_cond_broadcast(&ready_cond);
        pthread_mutex_unlock(&ready_mutex);
        return;
    }
    pthread_cond_t *merged = &ready_cond;
    struct stamp asked = stamp();
    note->asked = asked.wall;
    KASURI_WAIT_BEGIN(KASURI_WAIT_COND, merged);
    pthread_mutex_lock(&ready_mutex);
    while (ready_round != round)
        pthread_cond_wait(&ready_cond, &ready_mutex);
    note->signalled = ready_signalled;
    note->delayed_by = ready_delayed;
    pthread_mutex_unlock(&ready_mutex);
    KASURI_WAIT_END(KASURI_WAIT_COND, merged);
    since(asked, &note->delayed);
}

/* The last thread writes a file and waits until it is on the disk; the others compute meanwhile. */
static void disk(const struct plan *plan, int member, int fd, struct note *note) {
    static const char block[65536];
    const int64_t length = 4000000;
    if (plan->cure || member != plan->threads - 1) {
        KASURI_SCOPE("sweep");
        compute(length, &note->delayed);
        return;
    }
    int64_t from = now();
    int *file = &fd;
    while (now() - from < length) {
        KASURI_WAIT_BEGIN(KASURI_WAIT_IO, file);
        struct stamp begin = stamp();
        /* A machine without a disk of its own has nothing to wait for: then a device that takes a millisecond. */
        if (pwrite(fd, block, sizeof block, 0) != (ssize_t)sizeof block || fdatasync(fd) != 0 ||
            now() - begin.wall < 100000)
            usleep(1000);
        int64_t waited = since(begin, &note->delayed);
        note->disk += waited;
        remember(note, begin, waited, true);
        KASURI_WAIT_END(KASURI_WAIT_IO, file);
    }
}

/* Of the cgroup, all CPUs together. */
static int64_t throttled_ns(const char *cgroup) {
    char path[512], key[64];
    long long value, ns = -1;
    snprintf(path, sizeof path, "%s/cpu.stat", cgroup);
    FILE *stat = fopen(path, "re");
    while (stat && fscanf(stat, "%63s %lld", key, &value) == 2) {
        if (strcmp(key, "throttled_time") == 0)
            ns = value;
        else if (strcmp(key, "throttled_usec") == 0)
            ns = value * 1000;
    }
    if (stat)
        fclose(stat);
    if (ns < 0)
        example_fail("cpu.stat: cannot read, needed --cgroup DIR of a cgroup with a CPU limit");
    return ns;
}

/* Threads that do not wait for each other: all that they lose, the limit took, or others. */
static void throttled_phase(const struct plan *plan) {
    const int64_t length = 100000000;
    int64_t begin = now();
    for (int i = 0; i < plan->rounds; i++) {
        int64_t from = begin + i * length, until = from + length * plan->share / 100;
        volatile double x = 1.0;
        while (now() < until)
            for (int k = 0; k < 2000; k++)
                x = x * 0.999 + 0.001;
        for (int64_t rest; (rest = from + length - now()) > 0;)
            usleep((useconds_t)(rest / 1000 + 1));
    }
}

static void member_run(struct team *team, int member, void *arg) {
    struct plan *plan = arg;
    pthread_barrier_t *rounds_end = &team->barrier;
    char path[] = "planted-XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0)
        unlink(path);
    books = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    stamp();
    pthread_barrier_wait(&team->barrier);
    if (member == 0) {
        KASURI_BEGIN("planted");
        plan->began = now();
        if (plan->cgroup)
            plan->throttled_ns = throttled_ns(plan->cgroup);
    }
    if (plan->share) {
        throttled_phase(plan);
        pthread_barrier_wait(rounds_end);
    }
    for (int round = 0; round < plan->rounds && !plan->share; round++) {
        struct note *note = &plan->notes[round * plan->threads + member];
        uint64_t seed = plan->seed + (uint64_t)round * 1000003;
        switch (plan->phase[round]) {
        case IMBALANCE:
            imbalance(plan, member, seed, note);
            break;
        case LOCK:
            lock_phase(plan, member, seed, note);
            break;
        case SERIAL:
            serial(plan, member, round, seed, note);
            break;
        case DISK:
            disk(plan, member, fd, note);
            break;
        default: {
            KASURI_SCOPE("sweep");
            compute(some(&seed, 2000000, 4000000), &note->delayed);
        }
        }
        struct stamp came = stamp();
        note->came = came.wall;
        KASURI_WAIT_BEGIN(KASURI_WAIT_BARRIER, rounds_end);
        pthread_barrier_wait(rounds_end);
        KASURI_WAIT_END(KASURI_WAIT_BARRIER, rounds_end);
        int64_t waited = since(came, &note->ready_at_barrier);
        note->left = came.wall + waited + note->ready_at_barrier;
    }
    if (member == 0) {
        if (plan->cgroup)
            plan->throttled_ns = throttled_ns(plan->cgroup) - plan->throttled_ns;
        plan->ended = now();
        KASURI_END();
    }
    if (fd >= 0)
        close(fd);
    close(books);
    __atomic_fetch_add(&plan->cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
}

struct truth {
    int64_t barrier, lock, no_work, sync, disk, ready;
};

static int64_t between(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

/* Of @waiter's waiting at the barrier until @kept before the last one came: how long the last one itself waited for a
 * lock or the disk. The rule (docs/design/account.md): a wait is charged to what it was for at each instant, and a lock
 * wait or I/O ends the chain; what was computed is imbalance. */
static void passed_on(const struct note *waiter, const struct note *last, int64_t kept, int64_t *lock, int64_t *disk) {
    for (int w = 0; w < last->n_waits; w++) {
        const struct stretch *wait = &last->waits[w];
        int64_t from = wait->from > waiter->came ? wait->from : waiter->came;
        int64_t to = wait->to < last->came - kept ? wait->to : last->came - kept;
        if (to > from)
            *(wait->is_disk ? disk : lock) += to - from;
    }
}

/* Charges the losses of one round from its stamps; @before: those of the round before, or NULL. Valid with one pinned
 * thread for each CPU: then a CPU that does not run its thread is lost to what the thread waits for, or to the program
 * that runs there while the thread is ready. */
static void judge(const struct note *notes, const struct note *before, int threads, struct truth *truth) {
    int last = 0;
    int64_t all_wait = 0;
    for (int i = 1; i < threads; i++) {
        last = notes[i].came > notes[last].came ? i : last;
        all_wait = notes[i].asked > all_wait ? notes[i].asked : all_wait;
    }
    /* Kept off its CPU since it was let go at the barrier before. */
    int64_t last_delayed = notes[last].delayed + (before ? before[last].ready_at_barrier : 0);
    for (int i = 0; i < threads; i++) {
        const struct note *n = &notes[i];
        truth->ready += n->delayed + n->ready_at_barrier;
        truth->lock += n->lock;
        truth->disk += n->disk;
        if (n->asked) {
            /* As long as others still run, a wait for each other; then thread 0 is alone: at work, or kept from it,
             * also from leaving the barrier before. */
            int64_t alone = between(n->signalled - all_wait, 0, n->signalled - n->asked);
            int64_t delayed = n->delayed_by + (before && before[0].left > all_wait ? before[0].left - all_wait : 0);
            delayed = between(delayed, 0, alone);
            truth->sync += n->signalled - n->asked - alone;
            truth->no_work += alone - delayed;
            truth->ready += delayed;
        }
        /* Without what had kept it, the last would have come so much earlier; and so would the others. */
        int64_t own_delayed = n->delayed + (before ? before[i].ready_at_barrier : 0);
        int64_t kept = between(last_delayed - own_delayed, 0, notes[last].came - n->came);
        int64_t lock = 0, disk = 0;
        if (i != last)
            passed_on(n, &notes[last], kept, &lock, &disk);
        truth->ready += kept;
        truth->lock += lock;
        truth->disk += disk;
        truth->barrier += n->left - n->came - n->ready_at_barrier - kept - lock - disk;
    }
}

static void print(const struct plan *plan, int cpus) {
    int64_t wall = plan->ended - plan->began, capacity = wall * cpus;
    bool fits = plan->threads <= cpus;
    if (plan->share) {
        printf("{\"cause\": \"throttled\", \"share\": %d, \"cpus\": %d, \"wall_us\": %.3f, \"capacity_us\": %.3f, "
               "\"truth_us\": {\"throttled_by_cpu_limit\": %.3f}}\n",
               plan->share, cpus, (double)wall * 1e-3, (double)capacity * 1e-3, (double)plan->throttled_ns * 1e-3);
        return;
    }
    struct truth t = {0};
    for (int round = 0; round < plan->rounds && fits; round++)
        judge(&plan->notes[round * plan->threads], round ? &plan->notes[(round - 1) * plan->threads] : NULL,
              plan->threads, &t);
    int64_t idle = fits ? 0 : capacity - plan->cpu_ns;
    printf("{\"cause\": \"%s\", \"cured\": %s, \"seed\": %llu, \"threads\": %d, \"cpus\": %d, \"wall_us\": %.3f, "
           "\"capacity_us\": %.3f, \"cpu_us\": %.3f, \"truth_us\": {\"load_imbalance\": %.3f, \"lock_wait\": %.3f, "
           "\"low_parallelism\": %.3f, \"waiting_for_own_threads\": %.3f, \"io_wait\": %.3f, \"ready\": %.3f, "
           "\"oversubscription\": %.3f}}\n",
           plan->cause, plan->cure ? "true" : "false", (unsigned long long)plan->seed, plan->threads, cpus,
           (double)wall * 1e-3, (double)capacity * 1e-3, (double)plan->cpu_ns * 1e-3, (double)t.barrier * 1e-3,
           (double)t.lock * 1e-3, (double)t.no_work * 1e-3, (double)t.sync * 1e-3, (double)t.disk * 1e-3,
           (double)t.ready * 1e-3, (double)idle * 1e-3);
}

/* Takes the last CPU three of every seven milliseconds: the other program. */
static int disturb(double seconds) {
    cpu_set_t mask;
    prctl(PR_SET_NAME, "disturber");
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
        int last = 0;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            last = CPU_ISSET(cpu, &mask) ? cpu : last;
        CPU_ZERO(&mask);
        CPU_SET(last, &mask);
        sched_setaffinity(0, sizeof mask, &mask);
    }
    int64_t none = 0;
    books = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    for (int64_t end = now() + (int64_t)(seconds * 1e9); now() < end;) {
        compute(3000000, &none);
        usleep(4000);
    }
    return 0;
}

static int usage(int status) {
    fprintf(
        status ? stderr : stdout,
        "usage: planted CAUSE [-n ROUNDS] [-s SEED] [--cure]\n"
        "       planted throttled -t SHARE --cgroup DIR [-n ROUNDS]\n"
        "       planted disturb SECONDS\n"
        "causes: imbalance, lock, serial, io, oversubscription, interference (what `planted disturb` does to equal\n"
        "work), mix (of all but oversubscription)\n");
    return status;
}

static enum phase phase_of(const struct plan *plan, int round) {
    static const char *const names[] = {"imbalance", "lock", "serial", "io"};
    uint64_t seed = plan->seed * 7919 + (uint64_t)round;
    for (int i = 0; i < 4; i++)
        if (strcmp(plan->cause, names[i]) == 0)
            return (enum phase)i;
    return strcmp(plan->cause, "mix") == 0 ? (enum phase)some(&seed, 0, PHASES) : EQUAL;
}

int main(int argc, char **argv) {
    static const char *const causes[] = {"imbalance",        "lock",         "serial", "io",
                                         "oversubscription", "interference", "mix",    "throttled"};
    struct plan plan = {.cause = argc > 1 ? argv[1] : "", .rounds = 100, .seed = 1};
    bool known = false;
    if (strcmp(plan.cause, "--help") == 0)
        return usage(0);
    if (strcmp(plan.cause, "disturb") == 0 && argc == 3 && atof(argv[2]) > 0)
        return disturb(atof(argv[2]));
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        known |= strcmp(plan.cause, causes[i]) == 0;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--cure") == 0)
            plan.cure = true;
        else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc)
            plan.rounds = atoi(argv[++i]);
        else if (strcmp(argv[i], "-s") == 0 && i + 1 < argc)
            plan.seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "-t") == 0 && i + 1 < argc)
            plan.share = atoi(argv[++i]);
        else if (strcmp(argv[i], "--cgroup") == 0 && i + 1 < argc)
            plan.cgroup = argv[++i];
        else
            known = false;
    }
    bool wants = strcmp(plan.cause, "throttled") == 0;
    known &= wants ? plan.share > 0 && plan.share <= 100 && plan.cgroup : !plan.share && !plan.cgroup;
    if (!known || plan.rounds < 1 || plan.rounds > 100000)
        return usage(2);
    int cpus = example_cpus();
    bool many = strcmp(plan.cause, "oversubscription") == 0 && !plan.cure;
    plan.threads = many ? 2 * cpus + 1 : cpus;
    plan.locks = plan.cure ? 256 : 1;
    for (int i = 0; i < 256; i++)
        pthread_mutex_init(&locks[i].mutex, NULL);
    plan.phase = example_alloc((size_t)plan.rounds, sizeof *plan.phase);
    plan.notes = example_alloc((size_t)plan.rounds * (size_t)plan.threads, sizeof *plan.notes);
    for (int round = 0; round < plan.rounds; round++)
        plan.phase[round] = phase_of(&plan, round);
    team_run("planted", plan.threads, !many, member_run, &plan);
    print(&plan, cpus);
    free(plan.phase);
    free(plan.notes);
    return 0;
}
