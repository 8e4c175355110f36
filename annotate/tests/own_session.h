/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that is annotated and its own recorder: it calls the functions of kasuri.h one by one, with states that no
 * traced program can be brought to on purpose. For test_chunks.c and test_client.c. Without a name either lists its
 * tests.
 */
#ifndef KASURI_TESTS_OWN_SESSION_H
#define KASURI_TESTS_OWN_SESSION_H

#define _GNU_SOURCE
#define KASURI_LAZY_START
#include "kasuri.h"

#include "expect.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

/* -- a session of our own -- */

static char directory[64], file_name[128];
static struct kasuri_control *control;
static int lock_fd = -1;
static struct kasuri__client *c;

static void remove_session(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (directory[0] && system(command) != 0)
        perror(directory);
}

static const char *file(const char *name) {
    snprintf(file_name, sizeof file_name, "%s/%s", directory, name);
    return file_name;
}
/* A file of this client: ".sites", ".ring0". */
static const char *own_file(const char *tail) {
    char name[64];
    snprintf(name, sizeof name, "p%d-%u%s", getpid(), c->gen, tail);
    return file(name);
}

static void hold_lock(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    lock_fd = open(file("control"), O_RDWR | O_CLOEXEC);
    if (fcntl(lock_fd, F_OFD_SETLK, &lock) != 0)
        exit(3);
}

static void make_session(uint32_t policy) {
    snprintf(directory, sizeof directory, "/dev/shm/kasuri-client-%d", getpid());
    if (mkdir(directory, 0700) != 0)
        exit(3);
    atexit(remove_session);
    int fd = open(file("control"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        exit(3);
    control = (struct kasuri_control *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    *control = (struct kasuri_control){.magic = KASURI_MAGIC_CONTROL,
                                       .version = KASURI_ABI_VERSION,
                                       .struct_size = sizeof *control,
                                       .state = KASURI_SESSION_RECORDING,
                                       .policy = policy,
                                       .clock = KASURI__NATIVE ? KASURI_CLOCK_NATIVE : KASURI_CLOCK_MONOTONIC,
                                       .chunk_bytes = 4096,
                                       .max_bytes = 256u << 20,
                                       .first_chunks = 4,
                                       .flight_chunks = 3};
    hold_lock();
}

static void start_client(void) {
    setenv("KASURI_SESSION", directory, 1);
    kasuri__process.started = 0;
    kasuri__start();
    c = kasuri__process.client;
}

/* The client in a session, with this thread's entry. */
static struct kasuri__thread *join(uint32_t policy) {
    make_session(policy);
    start_client();
    if (!c || !c->state || !kasuri_enabled())
        exit(3);
    return kasuri__this_thread(c, c->epoch);
}

/* -- chunks in memory of our own -- */

static uint64_t memory[8][512] __attribute__((aligned(4096)));
static uint32_t states[8];

/* Chunk i with these slots: "e" an event of one slot, "E" one of two with a payload of 0, "o" and "O" the same not
 * committed, "." reserved and nothing written. Stamps are 100, 101 and so on. */
static struct kasuri__chunk_ref fill(int i, const char *slots) {
    struct kasuri_chunk *chunk = (struct kasuri_chunk *)(void *)memory[i];
    uint32_t at = 16, stamp = 100;
    memset(memory[i], 0, sizeof memory[i]);
    for (; *slots; slots++) {
        uint32_t n = *slots == 'E' || *slots == 'O' ? 2 : 1;
        if (*slots != '.')
            memory[i][at + 1] = KASURI_EV_INSTANT | n << 8;
        if (*slots == 'e' || *slots == 'E')
            memory[i][at] = stamp++;
        at += 2 * n;
    }
    chunk->used = at * 8;
    chunk->tid = (uint32_t)gettid();
    states[i] = KASURI_CHUNK_OWNED;
    return (struct kasuri__chunk_ref){chunk, &states[i]};
}

/* Chunk k of segment i. */
static struct kasuri_chunk *chunk_of(int i, uint32_t k) {
    return (struct kasuri_chunk *)(void *)(c->segments[i].chunks + (uint64_t)k * c->segments[i].chunk_bytes);
}

/* -- the tests of a program -- */

struct test {
    const char *name;
    int (*run)(void);
};
#define TEST(name)                                                                                                     \
    { #name, name }
static int run_one(const struct test *tests, unsigned n, int argc, char **argv) {
    for (unsigned i = 0; i < n; i++)
        if (argc == 1)
            puts(tests[i].name);
        else if (!strcmp(tests[i].name, argv[1]))
            return tests[i].run();
    return 2;
}

#endif
