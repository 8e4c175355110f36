/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that wait, in an ordinary pthread program; see test_threads.c. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 50 };

/* ---- a ring of pipes: every thread waits for its neighbour ------------------------------------------------------- */

static int ring[N][2];
static void *passes_on(void *arg) {
    intptr_t me = (intptr_t)arg;
    for (int i = 0; i < 200; i++) {
        int value;
        errno = (int)me;
        CHECK(read(ring[me][0], &value, sizeof value) == sizeof value);
        value++;
        CHECK(write(ring[(me + 1) % N][1], &value, sizeof value) == sizeof value);
        CHECK(errno == (int)me);
    }
    return NULL;
}
static void pipes(void) {
    pthread_t t[N];
    int value = 0;
    for (int i = 0; i < N; i++)
        CHECK(pipe(ring[i]) == 0);
    for (intptr_t i = 0; i < N; i++)
        CHECK(pthread_create(&t[i], NULL, passes_on, (void *)i) == 0);
    CHECK(write(ring[0][1], &value, sizeof value) == sizeof value);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    CHECK(read(ring[0][0], &value, sizeof value) == sizeof value && value == 200 * N);
}

/* ---- a thread for each connection -------------------------------------------------------------------------------- */

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int listener;
static void *serves(void *arg) {
    int fd = (int)(intptr_t)arg;
    char data[100];
    ssize_t n;
    while ((n = recv(fd, data, sizeof data, 0)) > 0)
        CHECK(send(fd, data, (size_t)n, 0) == n);
    CHECK(n == 0 && close(fd) == 0);
    return NULL;
}
static void *accepts(void *unused) {
    (void)unused;
    for (int i = 0; i < N; i++) {
        pthread_t t;
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && pthread_create(&t, NULL, serves, (void *)(intptr_t)fd) == 0);
        CHECK(pthread_detach(t) == 0);
    }
    return NULL;
}
static void *asks(void *arg) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    for (int i = 0; i < 100; i++) {
        int out[2] = {(int)(intptr_t)arg, i}, in[2];
        struct pollfd p = {fd, POLLIN, 0};
        CHECK(write(fd, out, sizeof out) == sizeof out);
        if (i % 2)
            CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
        CHECK(recvfrom(fd, in, sizeof in, MSG_WAITALL, NULL, NULL) == sizeof in);
        CHECK(in[0] == out[0] && in[1] == out[1]);
    }
    CHECK(close(fd) == 0);
    return NULL;
}
static void echo(void) {
    pthread_t server, t[N];
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "ito-pthread-%d", (int)getpid());
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, N) == 0);
    CHECK(pthread_create(&server, NULL, accepts, NULL) == 0);
    for (intptr_t i = 0; i < N; i++)
        CHECK(pthread_create(&t[i], NULL, asks, (void *)i) == 0);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    CHECK(pthread_join(server, NULL) == 0);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
static void *sleeps(void *pair) {
    const int *fd = pair;
    uint64_t begin = now_ms();
    struct timespec t = {0, 50000000};
    struct timeval tv = {0, 50000}, limit = {0, 50000};
    struct pollfd p = {fd[0], POLLIN, 0};
    char c;
    CHECK(usleep(50000) == 0 && nanosleep(&t, NULL) == 0 && now_ms() >= begin + 100);
    begin = now_ms();
    CHECK(poll(&p, 1, 50) == 0 && select(0, NULL, NULL, NULL, &tv) == 0 && now_ms() >= begin + 99);
    begin = now_ms();
    CHECK(setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    /* The kernel counts in ticks of up to 10 ms, of which the first may be short. */
    CHECK(recv(fd[0], &c, 1, 0) == -1 && (errno == EAGAIN || errno == EWOULDBLOCK) && now_ms() >= begin + 39);
    CHECK(fcntl(fd[0], F_SETFL, O_NONBLOCK) == 0);
    CHECK(read(fd[0], &c, 1) == -1 && errno == EAGAIN);
    t.tv_nsec = 1000000000;
    CHECK(nanosleep(&t, NULL) == -1 && errno == EINVAL);
    return NULL;
}
static void sleeping(void) {
    pthread_t t[N];
    int pair[N][2];
    for (int i = 0; i < N; i++)
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]) == 0 && pthread_create(&t[i], NULL, sleeps, pair[i]) == 0);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

/* ---- calls that only the kernel can wait in ---------------------------------------------------------------------- */

static atomic_int stage;
static void *holds(void *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
    atomic_store(&stage, 1);
    usleep(50000);
    CHECK(close(fd) == 0);
    return NULL;
}
static void *wants(void *path) {
    while (atomic_load(&stage) == 0)
        usleep(1000);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0 && close(fd) == 0);
    return NULL;
}
static void *takes_a_signal(void *unused) {
    (void)unused;
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigwait(&set, &signal) == 0 && signal == SIGUSR1);
    return NULL;
}
static void *sends_it(void *id) {
    usleep(20000);
    CHECK(pthread_kill(*(pthread_t *)id, SIGUSR1) == 0);
    return NULL;
}
static void *has_a_child(void *unused) {
    (void)unused;
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(50000);
        _exit(3);
    }
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    return NULL;
}
static void in_the_kernel(void) {
    static char path[] = "/tmp/ito-pthread-XXXXXX";
    sigset_t set;
    pthread_t t[5 + 8];
    close(mkstemp(path));
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    CHECK(pthread_create(&t[0], NULL, takes_a_signal, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&t[5 + i], NULL, has_a_child, NULL) == 0);
    CHECK(pthread_create(&t[1], NULL, wants, path) == 0 && pthread_create(&t[2], NULL, wants, path) == 0);
    CHECK(pthread_create(&t[3], NULL, holds, path) == 0);
    CHECK(pthread_create(&t[4], NULL, sends_it, &t[0]) == 0);
    for (int i = 0; i < 13; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    unlink(path);
}

/* A cancelled sleep ends at once. */
static void *sleeps_long(void *unused) {
    (void)unused;
    sleep(1000);
    return NULL;
}
static void cancelled_sleep(void) {
    pthread_t t[N];
    void *result;
    for (int i = 0; i < N; i++)
        CHECK(pthread_create(&t[i], NULL, sleeps_long, NULL) == 0);
    for (int i = 0; i < N; i++)
        CHECK(pthread_cancel(t[i]) == 0 && pthread_join(t[i], &result) == 0 && result == PTHREAD_CANCELED);
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

/* Writers of one stream into a full pipe: one waits in its system call, the others for the stream's lock. The reader
 * begins when they do, and needs a worker. */
enum { WRITERS = 4, LINES = 20000 };
static FILE *stream;
static int stream_fds[2];
static void *writes_lines(void *arg) {
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < LINES; i++) {
        errno = me;
        if (i % 3 == 0)
            CHECK(fprintf(stream, "%d %d\n", me, i) > 0);
        else if (i % 3 == 1)
            CHECK(fputs("line\n", stream) >= 0);
        else
            CHECK(fwrite("ab\ncd\n", 3, 2, stream) == 2);
        CHECK(errno == me);
    }
    CHECK(fflush(stream) == 0);
    return NULL;
}
static void *counts_lines(void *unused) {
    char data[4096];
    ssize_t n;
    long lines = 0, *result = unused;
    while ((n = read(stream_fds[0], data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += data[i] == '\n';
    CHECK(n == 0);
    *result = lines;
    return NULL;
}
static void streams(void) {
    pthread_t w[WRITERS], r;
    long lines = 0;
    CHECK(pipe(stream_fds) == 0 && (stream = fdopen(stream_fds[1], "w")) != NULL);
    for (intptr_t i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&w[i], NULL, writes_lines, (void *)i) == 0);
    usleep(100000); /* full */
    CHECK(pthread_create(&r, NULL, counts_lines, &lines) == 0);
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_join(w[i], NULL) == 0);
    CHECK(fclose(stream) == 0 && pthread_join(r, NULL) == 0);
    long thirds = (LINES + 2) / 3 + (LINES + 1) / 3, doubles = LINES / 3;
    CHECK(lines == WRITERS * (thirds + 2 * doubles));
}

/* ---- streams, cancelled -------------------------------------------------------------------------------------------- */

static void cleaned(void *done) {
    *(int *)done = 1;
}
static FILE *stream;
static int lock_fd, is_cleaned, about_to;
static void *reads_a_line(void *unused) {
    char line[100];
    pthread_cleanup_push(cleaned, &is_cleaned);
    about_to = 1;
    fgets(line, sizeof line, stream);
    pthread_cleanup_pop(0);
    return unused;
}
static void *prints_on(void *unused) {
    pthread_cleanup_push(cleaned, &is_cleaned);
    about_to = 1;
    for (;;)
        fprintf(stream, "%d ", 77);
    pthread_cleanup_pop(0);
    return unused;
}
static void *locks_a_file(void *unused) {
    pthread_cleanup_push(cleaned, &is_cleaned);
    about_to = 1;
    lockf(lock_fd, F_LOCK, 0);
    pthread_cleanup_pop(0);
    return unused;
}
static void cancels(void *(*fn)(void *)) {
    pthread_t t;
    void *result;
    is_cleaned = about_to = 0;
    CHECK(pthread_create(&t, NULL, fn, NULL) == 0);
    usleep(20000);
    CHECK(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && is_cleaned == *(volatile int *)&about_to);
}

/* A thread in a function of a stream that waits, or that prints for ever, and one in lockf. */
static void cancelled_streams(void) {
    int fds[2], gate[2];
    char name[] = "/tmp/ito-lockf-XXXXXX", byte = 0;
    CHECK(pipe(fds) == 0 && pipe(gate) == 0);
    lock_fd = mkstemp(name);
    CHECK(lock_fd >= 0 && unlink(name) == 0);
    pid_t pid = fork();
    if (pid == 0) { /* a lock is a process's */
        CHECK(lockf(lock_fd, F_LOCK, 0) == 0 && write(fds[1], &byte, 1) == 1);
        close(gate[1]);
        _exit(read(gate[0], &byte, 1) == 0 ? 0 : 3);
    }
    close(gate[0]);
    CHECK(read(fds[0], &byte, 1) == 1);
    cancels(locks_a_file);
    close(gate[1]);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK((stream = fdopen(fds[0], "r")) != NULL);
    cancels(reads_a_line);
    CHECK(write(fds[1], "later\n", 6) == 6); /* its lock is free again */
    char line[100];
    CHECK(fgets(line, sizeof line, stream) == line && strcmp(line, "later\n") == 0);
    CHECK((stream = fopen("/dev/null", "w")) != NULL);
    cancels(prints_on);
    CHECK(fclose(stream) == 0);
}

static const struct test tests[] = {
    {"pipes", pipes},
    {"echo", echo},
    {"sleeping", sleeping},
    {"in_the_kernel", in_the_kernel},
    {"cancelled_sleep", cancelled_sleep},
    {"streams", streams},
    {"cancelled_streams", cancelled_streams},
};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
