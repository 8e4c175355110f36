/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of an annotation. The program starts itself once as the measured process, once without a session, while it
 * plays the recorder: wakes every millisecond, zeroes and frees what is FULL. Thread CPU time; each round measures the
 * baseline and the annotation one after the other, so that both see the same machine.
 */
#define _GNU_SOURCE
#include "kasuri.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 9
#define MAX_SEGMENTS 32

enum { EVENTS = 2000000 };

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* -- what is measured; each returns ns per iteration -- */

static double bare_stamp(void) {
    uint64_t start = cpu_ns();
    for (int i = 0; i < EVENTS; i++)
        __asm__ volatile("" : : "r"(kasuri__stamp()));
    return (double)(cpu_ns() - start) / EVENTS;
}
static double empty_loop(void) {
    uint64_t start = cpu_ns();
    for (int i = 0; i < 10 * EVENTS; i++)
        __asm__ volatile("" : : "r"(i) : "memory");
    return (double)(cpu_ns() - start) / (10.0 * EVENTS);
}
static double disabled(void) {
    uint64_t start = cpu_ns();
    for (int i = 0; i < 10 * EVENTS; i++) {
        __asm__ volatile("" : : "r"(i) : "memory");
        KASURI_INSTANT("bench");
    }
    return (double)(cpu_ns() - start) / (10.0 * EVENTS);
}
static double enabled(void) {
    uint64_t start = cpu_ns();
    for (int i = 0; i < EVENTS; i++)
        KASURI_INSTANT("bench");
    return (double)(cpu_ns() - start) / EVENTS;
}
static double counter(void) {
    uint64_t start = cpu_ns();
    for (int i = 0; i < EVENTS; i++)
        KASURI_COUNTER("bench counter", i);
    return (double)(cpu_ns() - start) / EVENTS;
}
static double message(void) {
    uint64_t start = cpu_ns();
    for (int i = 0; i < EVENTS / 10; i++)
        KASURI_ARG_STR("bench text", "sixteen bytes...");
    return (double)(cpu_ns() - start) / (EVENTS / 10.0);
}

static int marker_fd = -1;
static double trace_marker(void) {
    uint64_t start = cpu_ns();
    for (int i = 0; i < EVENTS / 20; i++)
        if (write(marker_fd, "sixteen bytes...", 16) != 16)
            return -1;
    return (double)(cpu_ns() - start) / (EVENTS / 20.0);
}

static pthread_barrier_t barrier;
static void *one_of_two(void *out) {
    pthread_barrier_wait(&barrier);
    *(double *)out = enabled();
    return NULL;
}
static double two_threads(void) {
    double a, b;
    pthread_t t;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&t, NULL, one_of_two, &a);
    one_of_two(&b);
    pthread_join(t, NULL);
    pthread_barrier_destroy(&barrier);
    return (a + b) / 2;
}

/* -- results -- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
struct series {
    double v[ROUNDS];
};
static double median(const struct series *s) {
    struct series t = *s;
    qsort(t.v, ROUNDS, sizeof t.v[0], compare);
    return t.v[ROUNDS / 2];
}
static void extremes(const struct series *s, double *low, double *high) {
    struct series t = *s;
    qsort(t.v, ROUNDS, sizeof t.v[0], compare);
    *low = t.v[0];
    *high = t.v[ROUNDS - 1];
}

/* One JSON object a line; `run` puts them together. ratio < 0: none. */
static void result(const char *name, const struct series *s, const char *unit, const char *ratio_to, double ratio,
                   const char *goal) {
    double low, high;
    extremes(s, &low, &high);
    printf("{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"spread\": [%.3f, %.3f]", name, median(s), unit, low,
           high);
    if (ratio_to)
        printf(", \"ratio_to\": \"%s\", \"ratio\": %.3f", ratio_to, ratio);
    if (goal)
        printf(", \"goal\": \"%s\"", goal);
    printf("}\n");
    fflush(stdout);
}

static double ratio_of(const struct series *a, const struct series *b) {
    struct series r;
    for (int i = 0; i < ROUNDS; i++)
        r.v[i] = a->v[i] / b->v[i];
    return median(&r);
}

static int open_trace_marker(char *dir, size_t size) {
    char path[300];
    snprintf(dir, size, "/sys/kernel/tracing/instances/bench-annotate-%d", getpid());
    if (mkdir(dir, 0700) != 0) {
        fprintf(stderr, "skipped: annotate.vs_trace_marker: %s: %s\n", dir, strerror(errno));
        return -1;
    }
    snprintf(path, sizeof path, "%s/trace_marker", dir);
    return open(path, O_WRONLY | O_CLOEXEC);
}

static void measure_enabled(void) {
    struct series stamp, one, two, alone, marker, count, text;
    char dir[200];
    int failed = 0;
    if (!kasuri_enabled()) {
        fprintf(stderr, "bench_annotate: no session\n");
        exit(1);
    }
    enabled(); /* warm: all chunks touched */
    for (int i = 0; i < ROUNDS; i++) {
        stamp.v[i] = bare_stamp();
        one.v[i] = enabled();
    }
    result("annotate.rdtsc", &stamp, "ns", NULL, 0, NULL);
    result("annotate.enabled", &one, "ns", "annotate.rdtsc", ratio_of(&one, &stamp), "<= 1.15 ratio");
    for (int i = 0; i < ROUNDS; i++) {
        alone.v[i] = enabled();
        two.v[i] = two_threads();
    }
    result("annotate.two_threads", &two, "ns", "one thread", ratio_of(&two, &alone), "<= 1.10 ratio");
    for (int i = 0; i < ROUNDS; i++) {
        count.v[i] = counter();
        text.v[i] = message();
    }
    result("annotate.counter", &count, "ns", "annotate.rdtsc", ratio_of(&count, &stamp), NULL);
    result("annotate.text_16_bytes", &text, "ns", "annotate.rdtsc", ratio_of(&text, &stamp), NULL);
    marker_fd = open_trace_marker(dir, sizeof dir);
    if (marker_fd < 0)
        return;
    for (int i = 0; i < ROUNDS; i++) {
        marker.v[i] = trace_marker();
        one.v[i] = enabled();
        failed |= marker.v[i] < 0;
    }
    close(marker_fd);
    rmdir(dir);
    if (failed) {
        fprintf(stderr, "skipped: annotate.vs_trace_marker: a write to trace_marker failed\n");
        return;
    }
    result("annotate.vs_trace_marker", &marker, "ns", "annotate.enabled", ratio_of(&marker, &one), ">= 20 ratio");
}

static void measure_grow(void) {
    struct series stamp, grow;
    for (int i = 0; i < ROUNDS; i++) {
        stamp.v[i] = bare_stamp();
        grow.v[i] = enabled();
    }
    result("annotate.enabled_grow", &grow, "ns", "annotate.rdtsc", ratio_of(&grow, &stamp), NULL);
}

/* Events that find no room: of a thread whose one chunk is full, and of one that never got any. */
static void *lost_without_chunk(void *out) {
    struct series *s = out;
    enabled();
    for (int i = 0; i < ROUNDS; i++) {
        s[0].v[i] = bare_stamp();
        s[1].v[i] = enabled();
    }
    return NULL;
}
static void measure_lost(void) {
    struct series with[2], without[2];
    pthread_t t;
    enabled();
    for (int i = 0; i < ROUNDS; i++) {
        with[0].v[i] = bare_stamp();
        with[1].v[i] = enabled();
    }
    result("annotate.lost", &with[1], "ns", "annotate.rdtsc", ratio_of(&with[1], &with[0]), "<= 2.5 ratio");
    pthread_create(&t, NULL, lost_without_chunk, without);
    pthread_join(t, NULL);
    result("annotate.lost_without_chunk", &without[1], "ns", "annotate.rdtsc", ratio_of(&without[1], &without[0]),
           "<= 2.5 ratio");
}

static void measure_disabled(void) {
    struct series off, empty;
    for (int i = 0; i < ROUNDS; i++) {
        empty.v[i] = empty_loop();
        off.v[i] = disabled() - empty.v[i];
    }
    result("annotate.disabled", &off, "ns", NULL, 0, "<= 0.4 ns");
}

/* -- the recorder -- */

struct session {
    const char *mode;
    uint32_t first_chunks; /* 0: no session */
    uint64_t max_bytes;
    int drains, may_lose;
};

static struct kasuri_control *make_session(char *dir, size_t size, const struct session *o) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[300];
    snprintf(dir, size, "/dev/shm/kasuri-bench-XXXXXX");
    if (!mkdtemp(dir))
        return NULL;
    snprintf(path, sizeof path, "%s/control", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* kept open: the lock */
    if (fd < 0 || posix_fallocate(fd, 0, 4096) != 0 || fcntl(fd, F_OFD_SETLK, &lock) != 0)
        return NULL;
    struct kasuri_control *k = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (k == MAP_FAILED)
        return NULL;
    k->version = KASURI_ABI_VERSION;
    k->struct_size = sizeof *k;
    k->state = KASURI_SESSION_RECORDING;
    k->policy = KASURI_POLICY_GROW;
    k->clock = KASURI_CLOCK_NATIVE;
    k->chunk_bytes = 32768;
    k->max_bytes = o->max_bytes;
    k->first_chunks = o->first_chunks;
    k->magic = KASURI_MAGIC_CONTROL;
    return k;
}

struct rings {
    const char *dir;
    pid_t pid;
    int n;
    struct kasuri_segment *s[MAX_SEGMENTS];
};

static void map_new(struct rings *r) {
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s/p%d-0.ring%d", r->dir, r->pid, r->n);
    int fd = r->n < MAX_SEGMENTS ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size >= 4096) {
        struct kasuri_segment *s =
            mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (s != MAP_FAILED && __atomic_load_n(&s->magic, __ATOMIC_ACQUIRE) == KASURI_MAGIC_SEGMENT)
            r->s[r->n++] = s;
    }
    close(fd);
}

/* Events of the chunk that had most: one of annotations without a payload. */
static uint32_t most_events;

static void count_events(const char *chunk, uint32_t bytes) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    uint32_t n = 0, i = sizeof(struct kasuri_chunk) / 8;
    for (; i < bytes / 8; n++) {
        uint32_t slots = (uint32_t)(words[i + 1] >> 8 & 0xff);
        i += 2 * (slots ? slots : 1);
    }
    if (n > most_events)
        most_events = n;
}

static uint64_t drain(struct rings *r, struct kasuri_control *k) {
    uint64_t chunks = 0;
    map_new(r);
    for (int i = 0; i < r->n; i++) {
        struct kasuri_segment *s = r->s[i];
        uint32_t *states = (uint32_t *)(void *)(s + 1);
        for (uint32_t j = 0; j < s->n_chunks; j++)
            if (__atomic_load_n(&states[j], __ATOMIC_ACQUIRE) == KASURI_CHUNK_FULL) {
                char *chunk = (char *)s + s->chunks_offset + (size_t)j * s->chunk_bytes;
                if (chunks % 64 == 0)
                    count_events(chunk, s->chunk_bytes);
                memset(chunk, 0, s->chunk_bytes);
                __atomic_store_n(&states[j], KASURI_CHUNK_FREE, __ATOMIC_RELEASE);
                chunks++;
            }
    }
    if (chunks)
        __atomic_fetch_add(&k->freed, 1, __ATOMIC_RELAXED);
    return chunks;
}

static void remove_session(const char *dir) {
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    if (system(command) != 0)
        fprintf(stderr, "bench_annotate: cannot remove %s\n", dir);
}

static int run_child(const char *self, const struct session *o) {
    char dir[100] = "";
    int status = 0;
    struct kasuri_control *k = o->first_chunks ? make_session(dir, sizeof dir, o) : NULL;
    if (o->first_chunks && !k) {
        perror("bench_annotate: session");
        return 1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (k)
            setenv("KASURI_SESSION", dir, 1);
        else
            unsetenv("KASURI_SESSION");
        execl(self, self, o->mode, (char *)NULL);
        _exit(127);
    }
    struct rings rings = {.dir = dir, .pid = pid};
    while (waitpid(pid, &status, k ? WNOHANG : 0) == 0) {
        if (o->drains)
            drain(&rings, k);
        usleep(1000);
    }
    if (most_events) {
        double bytes = 32768.0 / most_events;
        printf(
            "{\"name\": \"annotate.bytes_per_event\", \"value\": %.3f, \"unit\": \"bytes\", \"spread\": [%.3f, %.3f], "
            "\"goal\": \"<= 16.1 bytes\"}\n",
            bytes, bytes, bytes);
        most_events = 0;
    }
    for (int i = 0; i < rings.n; i++)
        for (int cause = 0; cause < KASURI_LOST_CAUSES; cause++)
            if (rings.s[i]->lost[cause] && !o->may_lose)
                status = 1; /* a figure with losses is none */
    if (k)
        remove_session(dir);
    return status != 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "enabled"))
        measure_enabled();
    else if (!strcmp(mode, "grow"))
        measure_grow();
    else if (!strcmp(mode, "disabled"))
        measure_disabled();
    else if (!strcmp(mode, "lost"))
        measure_lost();
    else {
        static const struct session sessions[] = {
            {"enabled", 2000, 1ull << 30, 1, 0},
            {"grow", 64, 1ull << 30, 0, 0},
            {"lost", 1, 4096 + 32768, 0, 1}, /* one chunk */
            {"disabled", 0, 0, 0, 0},
        };
        for (unsigned i = 0; i < sizeof sessions / sizeof *sessions; i++)
            if (run_child("/proc/self/exe", &sessions[i]))
                return 1;
    }
    return 0;
}
