/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Virtual speed-up's books: what was saved in the region, which threads slept for it, which were credited. Each test starts this
 * program again with the library in front of it, and reads the report. Nothing here is timed: the books are of CPU time,
 * and the order of waits is forced.
 *
 *     test_whatif TEST LIBRARY          test_whatif run MODE
 */
#define _GNU_SOURCE
#include "kasuri.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* -- programs -- */

static void burn(long ms) {
    struct timespec t, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    end.tv_nsec += ms * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec < end.tv_sec || (t.tv_sec == end.tv_sec && t.tv_nsec < end.tv_nsec));
}

static sem_t done;
static atomic_int flag;
pthread_mutex_t chosen = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static int first_thread_sleeps(void) {
    char path[64], text[256] = {0};
    FILE *file;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    file = fopen(path, "r");
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    return strrchr(text, ')')[2] == 'S';
}
static void *worker(void *mode) {
    /* The other one waits, and has for a while. */
    if (!strcmp(mode, "credit") || !strcmp(mode, "futex"))
        do
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        while (!first_thread_sleeps());
    KASURI_BEGIN("region");
    burn(40);
    KASURI_END();
    if (!strcmp(mode, "computes") || !strcmp(mode, "futex")) {
        atomic_store(&flag, 1);
        syscall(SYS_futex, &flag, FUTEX_WAKE, 1, NULL, NULL, 0);
    } else
        sem_post(&done);
    return NULL;
}
/* Computes, as far as anybody can see, until the region is over. */
static void *spinner(void *unused) {
    (void)unused;
    while (!atomic_load(&flag))
        ;
    return NULL;
}
static void *locker(void *side) {
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&other);
        pthread_mutex_unlock(&other);
        pthread_mutex_lock(&chosen);
        while (turn != (side != NULL))
            pthread_cond_wait(&changed, &chosen); /* a hold on either side of the wait */
        turn = !turn;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&chosen);
    }
    return NULL;
}
static volatile sig_atomic_t signals;
static void handler(int number) {
    (void)number;
    signals++;
    KASURI_BEGIN("region");
    sem_post(&done);
    KASURI_END();
}

static int run(const char *mode) {
    pthread_t a, b;
    sem_init(&done, 0, 0);
    if (!strcmp(mode, "credit")) {
        pthread_create(&a, NULL, worker, (void *)(uintptr_t)mode);
        sem_wait(&done);
        pthread_join(a, NULL);
    } else if (!strcmp(mode, "futex")) {
        pthread_create(&a, NULL, worker, (void *)(uintptr_t)mode);
        while (!atomic_load(&flag))
            syscall(SYS_futex, &flag, FUTEX_WAIT, 0, NULL, NULL, 0);
        pthread_join(a, NULL);
    } else if (!strcmp(mode, "computes")) {
        pthread_create(&b, NULL, spinner, NULL);
        pthread_create(&a, NULL, worker, (void *)(uintptr_t)mode);
        pthread_join(b, NULL);
        pthread_join(a, NULL);
    } else if (!strcmp(mode, "lock")) {
        pthread_create(&a, NULL, locker, NULL);
        pthread_create(&b, NULL, locker, &turn);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
    } else if (!strcmp(mode, "errno")) {
        pthread_create(&a, NULL, worker, (void *)(uintptr_t)mode);
        while (sem_trywait(&done) != 0)
            ;
        errno = EXDEV;
        pthread_mutex_lock(&other); /* pays here */
        CHECK(errno == EXDEV);
        pthread_mutex_unlock(&other);
        CHECK(errno == EXDEV);
        CHECK(sem_timedwait(&done, &(struct timespec){0}) == -1 && errno == ETIMEDOUT);
        pthread_join(a, NULL);
    } else if (!strcmp(mode, "fork")) {
        int status;
        pthread_create(&a, NULL, worker, (void *)(uintptr_t)mode);
        for (int i = 0; i < 20; i++) {
            pid_t child = fork();
            if (child == 0) {
                KASURI_BEGIN("region");
                pthread_mutex_lock(&other);
                pthread_mutex_unlock(&other);
                KASURI_END();
                exit(7);
            }
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        }
        pthread_join(a, NULL);
    } else if (!strcmp(mode, "signals")) {
        signal(SIGALRM, handler);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 300}, {0, 300}}, NULL);
        while (signals < 300) {
            KASURI_BEGIN("region");
            pthread_mutex_lock(&other);
            pthread_mutex_unlock(&other);
            KASURI_END();
        }
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    } else {
        return 2;
    }
    printf("right\n");
    return 0;
}

/* -- tests -- */

struct report {
    long lines;
    unsigned long long found, entries, region, slept, unpaid;
    long long delay;
};

static struct report started(const char *library, const char *what, const char *percent, const char *mode) {
    char path[] = "/tmp/whatif-XXXXXX", line[512], exe[4096] = {0};
    struct report r = {0};
    int fd = mkstemp(path), status, out[2];
    pid_t child;
    FILE *file;
    CHECK(fd >= 0 && pipe(out) == 0 && readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    child = fork();
    if (child == 0) {
        dup2(out[1], 1);
        setenv("LD_PRELOAD", library, 1);
        setenv("KASURI_WHATIF", what, 1);
        setenv("KASURI_WHATIF_PERCENT", percent, 1);
        setenv("KASURI_WHATIF_REPORT", path, 1);
        execl(exe, exe, "run", mode, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(read(out[0], line, sizeof line) == 6 && !memcmp(line, "right\n", 6));
    close(out[0]);
    file = fdopen(fd, "r");
    while (fgets(line, sizeof line, file)) {
        r.lines++;
        CHECK(sscanf(line, "%*d found %llu entries %llu region_ns %llu slept_ns %llu delay_ns %lld unpaid %llu",
                     &r.found, &r.entries, &r.region, &r.slept, &r.delay, &r.unpaid) == 6);
    }
    fclose(file);
    unlink(path);
    printf("found %llu entries %llu region %llu slept %llu delay %lld\n", r.found, r.entries, r.region, r.slept,
           r.delay);
    return r;
}

/* Saved is half of the region: 40 ms of CPU time, and no more than what a clock's reading may hide. */
static int is_half(const struct report *r) {
    return r->region > 39000000 && r->delay > (long long)r->region / 2 - 100000 &&
           r->delay < (long long)r->region / 2 + (long long)r->slept + 100000;
}

int main(int argc, char **argv) {
    const char *test = argc > 1 ? argv[1] : "", *library = argc > 2 ? argv[2] : "";
    struct report r;
    if (!strcmp(test, "run"))
        return run(library);
    if (!strcmp(test, "a_wait_that_a_thread_ends_is_credited")) {
        r = started(library, "slice region", "50", "credit");
        CHECK(r.lines == 1 && r.found && r.entries == 1 && !r.unpaid && is_half(&r));
        CHECK(r.slept < 5000000);
    } else if (!strcmp(test, "a_futex_wait_is_credited")) {
        r = started(library, "slice region", "50", "futex");
        CHECK(r.entries == 1 && is_half(&r) && r.slept < 5000000);
    } else if (!strcmp(test, "a_thread_that_computes_pays")) {
        r = started(library, "slice region", "50", "computes");
        CHECK(r.entries == 1 && is_half(&r));
        CHECK(r.slept > 15000000);
    } else if (!strcmp(test, "a_lock_is_held_less_its_waits")) {
        r = started(library, "lock chosen", "50", "lock");
        CHECK(r.found == 1 && r.entries >= 100 && r.entries <= 400);
        /* Somebody waits for its turn nearly always: waits are no holds. */
        CHECK(r.region < 20000000);
    } else if (!strcmp(test, "nothing_saved_delays_nobody")) {
        r = started(library, "slice region", "0", "computes");
        CHECK(r.entries == 1 && r.region > 39000000 && r.slept == 0 && r.delay == 0);
    } else if (!strcmp(test, "what_is_not_there_is_said")) {
        r = started(library, "slice nowhere", "50", "computes");
        CHECK(r.lines == 1 && r.found && !r.entries && !r.delay);
        r = started(library, "lock nowhere", "50", "computes");
        CHECK(r.lines == 1 && !r.found && !r.entries);
        r = started(library, "what", "50", "computes");
        CHECK(r.lines == 1 && !r.found);
    } else if (!strcmp(test, "errno_is_kept")) {
        r = started(library, "slice region", "50", "errno");
        CHECK(r.entries == 1 && r.slept > 0);
    } else if (!strcmp(test, "a_forked_child_is_left_alone")) {
        r = started(library, "slice region", "50", "fork");
        CHECK(r.lines == 1 && r.entries == 1);
    } else if (!strcmp(test, "handlers_of_signals_may_annotate_and_post")) {
        r = started(library, "slice region", "50", "signals");
        CHECK(r.entries >= 300);
    } else {
        return 2;
    }
    return 0;
}
