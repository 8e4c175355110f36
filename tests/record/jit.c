/* Makes code at run time, and says what it is in a jitdump (perf's jitdump-specification.txt), honestly or not.
 *
 * jit good: functions that take a CPU for 200 ms each. `one` and then `two` lie at the same address; `two` moves to another, and
 * runs there again. Prints the times at which `two` was loaded, moved, and at which all was over (CLOCK_MONOTONIC, ns).
 * jit sparse | claims | cut | link | other: the same code, and a list that is to do harm. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A function with a frame pointer that counts its argument down to 0. */
#ifdef __x86_64__
static const unsigned char CODE[] = {
    0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
    0x48, 0xff, 0xcf,       /* 1: dec %rdi */
    0x75, 0xfb,             /* jne 1b */
    0x5d, 0xc3,             /* pop %rbp; ret */
};
#else
static const unsigned char CODE[] = {
    0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, /* stp x29, x30, [sp, #-16]!; mov x29, sp */
    0x00, 0x04, 0x00, 0xf1, 0xe1, 0xff, 0xff, 0x54, /* 1: subs x0, x0, #1; b.ne 1b */
    0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6, /* ldp x29, x30, [sp], #16; ret */
};
#endif
enum { LOAD, MOVE, DEBUG, CLOSE, UNWINDING };
#define MEMORY 4096

static int fd;
static char path[64];

static uint64_t time_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now(void) {
    return time_of(CLOCK_MONOTONIC);
}

static void put(const void *bytes, size_t n) {
    if (write(fd, bytes, n) != (ssize_t)n)
        abort();
}

/* A record: its head, numbers of 64 bits, and what follows. */
static uint64_t record(uint32_t kind, const uint64_t *numbers, size_t n, const void *rest, size_t n_rest) {
    uint32_t head[2] = {kind, (uint32_t)(16 + n * 8 + n_rest)};
    uint64_t time = now();
    put(head, sizeof(head));
    put(&time, sizeof(time));
    put(numbers, n * 8);
    put(rest, n_rest);
    return time;
}

static void begin(void) {
    snprintf(path, sizeof(path), "jit-%d.dump", getpid());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    uint32_t words[6] = {0x4a695444, 1, 40, 0, 0, (uint32_t)getpid()};
    uint64_t numbers[2] = {now(), 0};
    put(words, sizeof(words));
    put(numbers, sizeof(numbers));
    /* So that those who record learn of it. */
    if (mmap(NULL, MEMORY, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        abort();
}

/* Tells of a function at `start` whose loop is in line `line` of /made/up. */
static uint64_t load(const void *start, uint64_t size, uint64_t number, const char *name, uint32_t line) {
    uint64_t at = (uint64_t)(uintptr_t)start;
    char rows[64];
    memset(rows, 0, sizeof(rows));
    uint64_t inside = at + 4;
    uint32_t before = line - 1;
    memcpy(rows, &at, 8);
    memcpy(rows + 8, &before, 4);
    memcpy(rows + 16, "/made/up", 9);
    memcpy(rows + 25, &inside, 8);
    memcpy(rows + 33, &line, 4);
    memcpy(rows + 41, "\xff", 2);
    record(DEBUG, (uint64_t[]){at, 2}, 2, rows, 43);
    record(UNWINDING, (uint64_t[]){0, 0, 0}, 3, NULL, 0);
    char rest[256];
    size_t len = strlen(name) + 1;
    memcpy(rest, name, len);
    memcpy(rest + len, CODE, sizeof(CODE));
    uint64_t numbers[] = {(uint64_t)getpid() << 32 | (uint32_t)getpid(), at, at, size, number};
    return record(LOAD, numbers, 5, rest, len + sizeof(CODE));
}

static void compute(void *code) {
    clockid_t own = CLOCK_THREAD_CPUTIME_ID;
    for (uint64_t end = time_of(own) + 200 * 1000000ull; time_of(own) < end;)
        ((void (*)(uint64_t))code)(1000000);
}

static void good(char *memory) {
    memcpy(memory, CODE, sizeof(CODE));
    load(memory, sizeof(CODE), 0, "one", 10);
    compute(memory);
    uint64_t loaded = load(memory, sizeof(CODE), 1, "two", 20);
    compute(memory);
    char *other = memory + 1024;
    memcpy(other, memory, sizeof(CODE));
    uint64_t from = (uint64_t)(uintptr_t)memory, to = (uint64_t)(uintptr_t)other;
    uint64_t numbers[] = {(uint64_t)getpid() << 32 | (uint32_t)getpid(), from, from, to, sizeof(CODE), 1};
    uint64_t moved = record(MOVE, numbers, 6, NULL, 0);
    compute(other);
    record(CLOSE, NULL, 0, NULL, 0);
    printf("%llu %llu %llu\n", (unsigned long long)loaded, (unsigned long long)moved, (unsigned long long)now());
}

static void bad(char *memory, const char *how) {
    memcpy(memory, CODE, sizeof(CODE));
    if (!strcmp(how, "claims")) {
        /* Everything everywhere, by names that steer a terminal, again and again; then a record without end. */
        for (uint64_t n = 0; n < 20000; n++) {
            char name[32];
            snprintf(name, sizeof(name), "\x1b[2J%llu", (unsigned long long)n);
            load(NULL, UINT64_MAX, n, name, 7);
        }
        uint32_t head[4] = {LOAD, UINT32_MAX, 0, 0};
        put(head, sizeof(head));
    } else {
        load(memory, sizeof(CODE), 0, "one", 10);
    }
    compute(memory);
    if (!strcmp(how, "sparse") && ftruncate(fd, (off_t)1 << 40))
        perror("ftruncate");
    if (!strcmp(how, "cut") && ftruncate(fd, 41))
        abort();
    if (!strcmp(how, "link") && (rename(path, "moved") || symlink("moved", path)))
        abort();
    if (!strcmp(how, "other") && (unlink(path) || mkfifo(path, 0600)))
        abort();
}

int main(int n, char **words) {
    char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (n != 2 || memory == MAP_FAILED)
        return 2;
    begin();
    if (!strcmp(words[1], "good"))
        good(memory);
    else
        bad(memory, words[1]);
}
