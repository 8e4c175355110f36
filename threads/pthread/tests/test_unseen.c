/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits in the kernel, and long computing, that the library is not told of, in an ordinary pthread program; see test_threads.c. In each test who
 * ends the wait is another light thread, which on one worker runs only if that worker was given to another kernel thread.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Both run at once; the first is in its wait, or soon will be, when the second begins. */
static void pair(void *(*first)(void *), void *(*second)(void *), void *arg) {
    pthread_t a, b;
    CHECK(pthread_create(&a, NULL, first, arg) == 0);
    usleep(5000);
    CHECK(pthread_create(&b, NULL, second, arg) == 0);
    CHECK(pthread_join(a, NULL) == 0 && pthread_join(b, NULL) == 0);
}

static void *opens_to_read(void *path) {
    char c = 0;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, &c, 1) == 1 && c == 'x' && close(fd) == 0);
    return NULL;
}
static void *opens_to_write(void *path) {
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    return NULL;
}
static void opening_a_fifo(void) {
    char path[] = "/tmp/ito-unseen-XXXXXX";
    CHECK(mkdtemp(path) != NULL);
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    CHECK(mkfifo(fifo, 0600) == 0);
    pair(opens_to_read, opens_to_write, fifo);
    unlink(fifo);
    rmdir(path);
}

static int fds[2];
static void *scans(void *unused) {
    (void)unused;
    FILE *f = fdopen(fds[0], "r");
    int a = 0, b = 0;
    CHECK(f != NULL && fscanf(f, "%d %d", &a, &b) == 2 && a == 12 && b == 34 && fclose(f) == 0);
    return NULL;
}
static void *writes_numbers(void *unused) {
    (void)unused;
    CHECK(write(fds[1], "12 34\n", 6) == 6 && close(fds[1]) == 0);
    return NULL;
}
static void scanning(void) {
    CHECK(pipe(fds) == 0);
    pair(scans, writes_numbers, NULL);
}

/* The child waits for what the other thread writes, which must not find the first reader in the place of the second. */
static atomic_int first_has_ended;
static void *has_commands(void *fifo) {
    char command[128], line[16] = "";
    snprintf(command, sizeof command, "cat %s", (char *)fifo);
    FILE *f = popen(command, "r");
    CHECK(f != NULL && fgets(line, sizeof line, f) != NULL && line[0] == 'x' && pclose(f) == 0);
    atomic_store(&first_has_ended, 1);
    snprintf(command, sizeof command, "read x < %s; test $x = x", (char *)fifo);
    CHECK(system(command) == 0);
    return NULL;
}
static void *feeds_them(void *fifo) {
    for (int i = 0; i < 2; i++) {
        int fd = open(fifo, O_WRONLY);
        CHECK(fd >= 0 && write(fd, "x\n", 2) == 2 && close(fd) == 0);
        while (!atomic_load(&first_has_ended))
            usleep(1000);
    }
    return NULL;
}
static void commands(void) {
    char path[] = "/tmp/ito-unseen-XXXXXX";
    CHECK(mkdtemp(path) != NULL);
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    CHECK(mkfifo(fifo, 0600) == 0);
    pair(has_commands, feeds_them, fifo);
    unlink(fifo);
    rmdir(path);
}

/* As malloc's lock: a futex of the C library, held by a thread that needs the worker. */
static uint32_t lock_word;
static void *waits_on_it(void *unused) {
    (void)unused;
    while (atomic_load((_Atomic uint32_t *)&lock_word) == 0)
        syscall(SYS_futex, &lock_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}
static void *wakes_it(void *unused) {
    (void)unused;
    atomic_store((_Atomic uint32_t *)&lock_word, 1);
    syscall(SYS_futex, &lock_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}
static void own_futex(void) {
    pair(waits_on_it, wakes_it, NULL);
}

/* The constructor of the library waits for a byte; the lock of the dynamic linker is held meanwhile. */
static void *loads(void *unused) {
    (void)unused;
    char number[16];
    snprintf(number, sizeof number, "%d", fds[0]);
    setenv("ITO_TEST_FD", number, 1);
    void *library = dlopen(getenv("ITO_TEST_SLOW"), RTLD_NOW);
    CHECK(library != NULL);
    int *value = dlsym(library, "ito_test_value");
    CHECK(value != NULL && *value == 'y' && dlclose(library) == 0);
    return NULL;
}
static void *lets_it_load(void *unused) {
    (void)unused;
    CHECK(write(fds[1], "y", 1) == 1);
    return NULL;
}
static void constructors(void) {
    CHECK(pipe(fds) == 0);
    pair(loads, lets_it_load, NULL);
}

/* Many threads that wait by plain system calls, each for its neighbour, and use locks, errno and thread-local variables
 * between: each finds its own, also where it goes on without its worker, comes back, and moves. */
enum { RING = 24, ROUNDS = 8 };
static int ring[RING][2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static pthread_key_t key;
static int passed;
static __thread intptr_t mine;
static void *passes_on(void *arg) {
    intptr_t me = (intptr_t)arg;
    pthread_t id = pthread_self();
    mine = me;
    CHECK(pthread_setspecific(key, arg) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char c;
        CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        errno = (int)me;
        CHECK(syscall(SYS_read, ring[me][0], &c, 1) == 1);
        CHECK(errno == (int)me && mine == me && pthread_getspecific(key) == arg && pthread_equal(id, pthread_self()));
        /* Locked on this side of a wait, unlocked on the other. */
        CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
        struct timespec t = {0, me % 5 == 0 ? 300000 : 0};
        syscall(SYS_nanosleep, &t, NULL);
        CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        CHECK(pthread_mutex_lock(&mutex) == 0);
        passed++;
        CHECK(pthread_cond_broadcast(&cond) == 0 && pthread_mutex_unlock(&mutex) == 0);
        CHECK(sem_post(&sem) == 0 && sem_wait(&sem) == 0);
        CHECK(syscall(SYS_write, ring[(me + 1) % RING][1], &c, 1) == 1);
    }
    if (me % 3 == 0)
        pthread_exit(arg);
    return arg;
}
static void waiting_unseen(void) {
    pthread_t t[RING];
    void *result;
    CHECK(sem_init(&sem, 0, 0) == 0 && pthread_key_create(&key, NULL) == 0);
    for (int i = 0; i < RING; i++)
        CHECK(pipe(ring[i]) == 0);
    for (intptr_t i = 0; i < RING; i++)
        CHECK(pthread_create(&t[i], NULL, passes_on, (void *)i) == 0);
    for (int i = 0; i < RING / 4; i++)
        CHECK(write(ring[i * 4][1], "z", 1) == 1);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (passed < RING * ROUNDS)
        CHECK(pthread_cond_wait(&cond, &mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    for (intptr_t i = 0; i < RING; i++)
        CHECK(pthread_join(t[i], &result) == 0 && result == (void *)i);
}

/* The program closes all descriptors that it has not opened, and opens others at their numbers: the watcher's are among
 * them. They are not read as if they were the watcher's, and not closed. */
static void closed_descriptors(void) {
    enum { FIRST = 400, LAST = 700 };
    struct stat was, is;
    scanning();
    CHECK(stat("/", &was) == 0);
    int root = open("/", O_RDONLY);
    CHECK(root >= 0);
    for (int fd = FIRST; fd < LAST; fd++)
        CHECK(dup2(root, fd) == fd);
    scanning();
    own_futex();
    for (int fd = FIRST; fd < LAST; fd++)
        CHECK(fstat(fd, &is) == 0 && is.st_ino == was.st_ino && is.st_dev == was.st_dev);
}

/* The whole process waits: each thread in a call of its own, ended by main at once. */
static void *reads_raw(void *arg) {
    char c;
    CHECK(syscall(SYS_read, ring[(intptr_t)arg][0], &c, 1) == 1);
    return NULL;
}
static void all_at_once(void) {
    pthread_t t[RING];
    for (intptr_t i = 0; i < RING; i++)
        CHECK(pipe(ring[i]) == 0 && pthread_create(&t[i], NULL, reads_raw, (void *)i) == 0);
    for (int i = RING - 1; i >= 0; i--)
        CHECK(write(ring[i][1], "z", 1) == 1 && pthread_join(t[i], NULL) == 0);
}

/* The descriptors of the library fit the process's table from the first thread on: to enlarge it later takes the kernel milliseconds. */
static long table_size(void) {
    char line[256];
    long size = 0;
    FILE *f = fopen("/proc/self/status", "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "FDSize: %ld", &size) == 1)
            break;
    fclose(f);
    return size;
}
static void *returns(void *arg) {
    return arg;
}
static void room_for_descriptors(void) {
    pthread_t t;
    CHECK(table_size() > 0);
    CHECK(pthread_create(&t, NULL, returns, NULL) == 0 && pthread_join(t, NULL) == 0);
    if (getenv("LIGHT"))
        CHECK(table_size() > 500);
}

/* More threads than workers compute, without any call, until another one has run. */
static atomic_int said;
static void *computes(void *arg) {
    while (!atomic_load_explicit(&said, memory_order_relaxed))
        ;
    return arg;
}
static void *says(void *arg) {
    atomic_store_explicit(&said, 1, memory_order_relaxed);
    return arg;
}
static void computing(void) {
    pthread_t t[6], last;
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&t[i], NULL, computes, NULL) == 0);
    usleep(5000);
    CHECK(pthread_create(&last, NULL, says, NULL) == 0 && pthread_join(last, NULL) == 0);
    for (int i = 0; i < 6; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

static const struct test tests[] = {
    {"computing", computing},
    {"room_for_descriptors", room_for_descriptors},
    {"opening_a_fifo", opening_a_fifo},
    {"scanning", scanning},
    {"commands", commands},
    {"own_futex", own_futex},
    {"constructors", constructors},
    {"waiting_unseen", waiting_unseen},
    {"all_at_once", all_at_once},
    {"closed_descriptors", closed_descriptors},
};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
