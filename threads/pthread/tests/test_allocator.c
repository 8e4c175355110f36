/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with an allocator of its own, which makes its locks when it is called first, and locks them around fork: that first call must
 * not call it again. See test_threads.c. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

static char memory[64 << 20];
static size_t used;
static pthread_mutex_t lock;
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static int starts;
static bool started, starting;

static void before(void) {
    pthread_mutex_lock(&fork_lock);
    pthread_mutex_lock(&lock);
}
static void after(void) {
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&fork_lock);
}

static void start(void) {
    if (started)
        return;
    if (starting) {
        static const char text[] = "the allocator calls itself\n";
        (void)!write(2, text, sizeof text - 1);
        _exit(1);
    }
    starting = true;
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&lock, &attr);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&fork_lock);
    pthread_mutex_unlock(&fork_lock);
    started = true;
    starts++;
}

/* Nothing is given back; a block's size lies in front of it. */
void *malloc(size_t bytes) {
    start();
    pthread_mutex_lock(&lock);
    size_t at = (used + 31) & ~(size_t)15;
    used = at + bytes;
    bool full = used > sizeof memory;
    pthread_mutex_unlock(&lock);
    if (full)
        return NULL;
    memcpy(memory + at - sizeof bytes, &bytes, sizeof bytes);
    return memory + at;
}
void free(void *at) {
    (void)at;
}
void *calloc(size_t n, size_t bytes) {
    return malloc(n * bytes); /* never used before, so it is zero */
}
void *realloc(void *at, size_t bytes) {
    size_t was = 0;
    char *to = malloc(bytes);
    if (at)
        memcpy(&was, (char *)at - sizeof was, sizeof was);
    return to && at ? memcpy(to, at, was < bytes ? was : bytes) : to;
}

static void *forks(void *unused) {
    int status;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(malloc(10) ? 3 : 4);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    }
    return unused;
}
static void own_allocator(void) {
    pthread_t t[4];
    CHECK(pthread_atfork(before, after, after) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, forks, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    CHECK(starts == 1);
}

static const struct test tests[] = {{"own_allocator", own_allocator}};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
