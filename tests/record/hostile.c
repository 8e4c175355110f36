/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hostile HOW [SEED] - a program that does to its session what no client does, to show that the recorder and its other
 * programs survive it. It writes ring files of its own making; kasuri.h is not used. It ends by itself within seconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4096, STATES = 256, FREE = 0, OWNED = 1, FULL = 2 };

static const char *session;
static uint64_t seed;

static uint64_t next_random(void) { /* xorshift64* */
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return seed * 0x2545f4914f6cdd1dull;
}

static char *in_session(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", session, name);
    return path;
}

static void nap(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, 0);
}

static uint32_t header_bytes(uint32_t n_chunks) {
    return (STATES + 4 * n_chunks + 4095) & ~4095u;
}

/* A sound ring file of its own size, all chunks free. */
static uint8_t *ring(const char *name, uint32_t n_chunks, int *fd_out) {
    size_t bytes = header_bytes(n_chunks) + (size_t)n_chunks * CHUNK;
    int fd = open(in_session(name), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes)) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    uint8_t *m = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m == MAP_FAILED)
        exit(3);
    uint32_t *w = (uint32_t *)m;
    w[2] = 1;                      /* version */
    w[3] = STATES;                 /* struct_size */
    w[4] = (uint32_t)getpid();     /* pid */
    w[7] = CHUNK;                  /* chunk_bytes */
    w[8] = n_chunks;               /* n_chunks */
    w[9] = header_bytes(n_chunks); /* chunks_offset */
    w[10] = 1;                     /* clock */
    __atomic_store_n((uint64_t *)m, 0x31474553474e524bull, __ATOMIC_RELEASE);
    if (fd_out)
        *fd_out = fd;
    else
        close(fd);
    return m;
}

static void chunk(uint8_t *m, uint32_t n_chunks, uint32_t i, uint64_t seq, uint32_t stream, uint32_t tid) {
    uint8_t *c = m + header_bytes(n_chunks) + (size_t)i * CHUNK;
    uint32_t *w = (uint32_t *)c;
    uint64_t *event = (uint64_t *)(c + 128);
    *(uint64_t *)c = seq;
    w[2] = stream;
    w[3] = tid;
    w[4] = 144;
    event[0] = 1;
    event[1] = 3 | 1 << 8;
}

static uint32_t *state(uint8_t *m, uint32_t i) {
    return (uint32_t *)(m + STATES) + i;
}
static void set_state(uint8_t *m, uint32_t i, uint32_t value) {
    __atomic_store_n(state(m, i), value, __ATOMIC_RELEASE);
}

static char *own(const char *suffix) {
    static char name[64];
    snprintf(name, sizeof name, "p%d-0.%s", getpid(), suffix);
    return name;
}

/* The ring is cut while it is full of chunks, to nothing or to any length. */
static void cut(void) {
    for (int round = 0; round < 20; round++) {
        char name[64];
        int fd;
        snprintf(name, sizeof name, "p%d-%d.ring0", getpid(), round);
        uint8_t *m = ring(name, 64, &fd);
        if (!m)
            continue;
        for (uint32_t i = 0; i < 64; i++) {
            chunk(m, 64, i, i, 1, (uint32_t)getpid());
            set_state(m, i, i % 3 ? FULL : OWNED);
        }
        nap((long)(next_random() % 30));
        if (ftruncate(fd, (off_t)(next_random() % 3 ? next_random() % (65 * CHUNK) : 0)))
            exit(3);
        nap(10);
        munmap(m, header_bytes(64) + 64 * CHUNK);
        close(fd);
    }
}

static void cut_control(void) {
    int fd = open(in_session("control"), O_RDWR);
    if (fd < 0 || ftruncate(fd, 0))
        exit(3);
    nap(200);
}

/* A shorter ring in the place of one that is mapped, of a process that ends then: the recorder looks whether it is the
 * only one left that has the file open, and takes what is there. */
static void exchange(void) {
    if (fork()) {
        wait(0);
        nap(2500); /* until ended processes are looked for */
        return;
    }
    uint8_t *m = ring(own("ring0"), 64, 0);
    if (!m)
        exit(3);
    chunk(m, 64, 40, 0, 1, (uint32_t)getpid());
    set_state(m, 40, OWNED);
    nap(100);
    unlink(in_session(own("ring0")));
    m = ring(own("ring0"), 1, 0);
    if (m)
        set_state(m, 40, FULL);
    _exit(0);
}

/* FIFOs, links and directories under the names of files. The victim lies beside the session's own things. */
static void things(void) {
    const char *victim = getenv("VICTIM");
    char name[64];
    ring(own("ring0"), 4, 0);
    mkfifo(in_session(own("sites")), 0600);
    mkfifo(in_session("p6-0.ring0"), 0600);
    mkdir(in_session("p7-0.ring0"), 0700);
    mkdir(in_session("p7-0.sites"), 0700);
    for (int i = 0; victim && i < 3; i++) {
        const char *suffixes[] = {"ring0", "sites", "ring1"};
        snprintf(name, sizeof name, "p%d-0.%s", 10 + i, suffixes[i]);
        if (symlink(victim, in_session(name)))
            exit(3);
    }
    nap(200);
}

/* Files that claim 20 GB which were never written, and numbers at the ends of their ranges. */
static void claims(void) {
    const char *names[] = {"p4294967295-4294967295.ring4294967295", "p0-0.ring0", "p2147483648-0.ring0", "p1-0.ring0",
                           "p99999999999-0.ring0"};
    uint8_t *m = ring(own("ring0"), 4, 0);
    int fd = open(in_session(own("sites")), O_RDWR | O_CREAT, 0600);
    if (!m || fd < 0 || ftruncate(fd, 20ll << 30))
        exit(3);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        m = ring(names[i], 4, 0);
        if (!m)
            continue;
        ((uint32_t *)m)[6] = i ? 0 : 4294967295u;
        for (uint32_t c = 0; c < 4; c++) {
            chunk(m, 4, c, ~0ull - c, ~0u, ~0u);
            *(uint32_t *)(m + header_bytes(4) + c * CHUNK + 16) = c ? 4096 : ~0u;
            set_state(m, c, c < 3 ? FULL : 77);
        }
    }
    nap(300);
}

/* As many clients as argument SEED says, each with one event; half as many files that never become rings. */
static void crowd(void) {
    char name[64];
    for (uint64_t i = 0, n = seed; i < n; i++) {
        snprintf(name, sizeof name, "p%d-0.ring0", (int)(100000000 + i));
        uint8_t *m = ring(name, 1, 0);
        if (m) {
            chunk(m, 1, 0, 0, 1, 1);
            set_state(m, 0, FULL);
            munmap(m, 2 * CHUNK);
        }
        snprintf(name, sizeof name, "p%d-1.ring0", (int)(100000000 + i));
        if (i % 2)
            close(open(in_session(name), O_CREAT | O_RDWR, 0600));
    }
}

/* Chunks as fast as they are freed, each of another stream and thread, numbers far apart. */
static void streams(void) {
    enum { N = 4096 };
    uint8_t *m = ring(own("ring0"), N, 0);
    uint64_t n = 0, idle = 0;
    if (!m)
        exit(3);
    /* Until nobody reads it any more. A recorder that has little of the CPUs may take a while. */
    while (n < 700000 && idle < 4000) {
        idle++;
        for (uint32_t i = 0; i < N; i++) {
            if (__atomic_load_n(state(m, i), __ATOMIC_ACQUIRE) != FREE)
                continue;
            chunk(m, N, i, n * 7777777777ull, (uint32_t)n * 2654435761u | 1, (uint32_t)n | 1);
            n++;
            idle = 0;
            set_state(m, i, FULL);
        }
        nap(1);
    }
}

/* Random bytes all over a ring that began as a sound one, and over its sites. */
static void garbage(void) {
    enum { N = 256 };
    uint8_t *m = ring(own("ring0"), N, 0);
    size_t bytes = header_bytes(N) + (size_t)N * CHUNK;
    uint64_t block[512];
    if (!m)
        exit(3);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 20000; i++) {
            uint64_t r = next_random(), v = next_random();
            size_t at = r % (bytes / 8) * 8;
            if (r >> 62 == 0) {
                set_state(m, (uint32_t)v % N, (uint32_t)(v >> 32) % 4);
                continue;
            }
            if (r >> 62 == 1) /* a chunk's header */
                at = header_bytes(N) + v % N * CHUNK + (v >> 32) % 16 * 8;
            if (r >> 62 == 2 && round > 25) /* the file's */
                at = v % 32 * 8;
            *(volatile uint64_t *)(m + at) = r & 1 ? v % 1000 : v;
        }
        for (int i = 0; i < 512; i++)
            block[i] = next_random();
        block[0] = 0x315345544953534bull;
        block[1] = 1 | 64ull << 32;
        int fd = open(in_session(own("sites")), O_CREAT | O_RDWR, 0600);
        if (fd < 0 || write(fd, block, sizeof block) < 0)
            exit(3);
        close(fd);
        nap(5);
    }
}

static void garbage_in_control(void) {
    uint64_t block[8];
    int fd = open(in_session("control"), O_RDWR);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 8; i++)
            block[i] = next_random();
        if (pwrite(fd, block, sizeof block, (off_t)(next_random() % 64)) < 0)
            exit(3);
        nap(2);
    }
}

/* Maps a file, then leaves a FIFO under the name that the kernel's list of mappings gives it. A process that
 * opens it by name waits for ever. */
static int deleted(const char *dir) {
    int fd = chdir(dir) ? -1 : open("lib.so", O_RDWR | O_CREAT | O_TRUNC, 0755);
    if (fd < 0 || ftruncate(fd, 8192) || mmap(0, 8192, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        return 3;
    unlink("lib.so");
    if (mkfifo("lib.so (deleted)", 0666))
        return 3;
    close(open("ready", O_RDWR | O_CREAT, 0644));
    pause();
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {
        {"cut", cut},         {"cut-control", cut_control}, {"exchange", exchange},
        {"things", things},   {"claims", claims},           {"crowd", crowd},
        {"streams", streams}, {"garbage", garbage},         {"garbage-in-control", garbage_in_control},
    };
    if (argc == 3 && !strcmp(argv[1], "deleted"))
        return deleted(argv[2]);
    session = getenv("KASURI_SESSION");
    seed = argc > 2 ? strtoull(argv[2], 0, 10) : 1;
    if (argc < 2 || !session)
        return 2;
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name)) {
            ways[i].run();
            return 0;
        }
    return 2;
}
