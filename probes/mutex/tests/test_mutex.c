/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a mutex promises, whichever way its waiters wait; the library is put in front by the test's environment. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
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

/* ROUNDS: the C library's mutex keeps the order of arrival in one of four rounds by chance, and then in few of the next. */
enum { THREADS = 6, TIMES = 20000, ROUNDS = 50 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static long count;

static void run(int n, void *(*f)(void *)) {
    pthread_t id[64];
    for (long i = 0; i < n; i++)
        CHECK(pthread_create(&id[i], NULL, f, (void *)i) == 0);
    for (int i = 0; i < n; i++)
        CHECK(pthread_join(id[i], NULL) == 0);
}

static void *counter(void *arg) {
    for (int i = 0; i < TIMES; i++) {
        if ((long)arg == 0 && i % 3 == 0)
            while (pthread_mutex_trylock(&m) != 0)
                ;
        else
            CHECK(pthread_mutex_lock(&m) == 0);
        count++; /* no atomic: that is the mutex's part */
        if (i % 1000 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* the others have to sleep */
        CHECK(pthread_mutex_unlock(&m) == 0);
    }
    return NULL;
}

static void *player(void *arg) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&m);
        while (count % THREADS != (long)arg)
            pthread_cond_wait(&c, &m);
        count++;
        pthread_cond_broadcast(&c);
        pthread_mutex_unlock(&m);
    }
    return NULL;
}

static void *forker(void *arg) {
    if ((long)arg)
        return counter(arg);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child;
        pthread_mutex_lock(&m); /* the child holds it, and others were in the queue */
        child = fork();
        if (child == 0) {
            pthread_t id;
            count = 0;
            CHECK(pthread_create(&id, NULL, counter, (void *)1) == 0);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            pthread_mutex_unlock(&m);
            CHECK(counter((void *)1) == NULL && pthread_join(id, NULL) == 0);
            _exit(count == 2 * TIMES ? 7 : 8);
        }
        pthread_mutex_unlock(&m);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    return NULL;
}

static int order[64];
static atomic_int arrived, tids[64];
static void *arriving(void *arg) {
    long me = (long)arg;
    tids[me] = (int)syscall(SYS_gettid);
    arrived = (int)me + 1;
    pthread_mutex_lock(&m);
    order[count++] = (int)me;
    pthread_mutex_unlock(&m);
    return NULL;
}
static void *greedy(void *arg) {
    (void)arg;
    /* Back at once: the C library lets it in before those it has only just woken. */
    pthread_mutex_lock(&m);
    order[count++] = -1;
    pthread_mutex_unlock(&m);
    return NULL;
}
/* Whether the thread sleeps. */
static int sleeps(int tid) {
    char path[64], text[256] = {0};
    FILE *file;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    file = fopen(path, "r");
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    return strrchr(text, ')')[2] == 'S';
}
/* Eight wait, and the one that had the mutex comes back at once. */
static void in_order(void) {
    pthread_t id[8];
    arrived = 0;
    count = 0;
    pthread_mutex_lock(&m);
    for (long i = 0; i < 8; i++) {
        CHECK(pthread_create(&id[i], NULL, arriving, (void *)i) == 0);
        while (arrived != i + 1 || !sleeps(tids[i]))
            sched_yield();
    }
    pthread_mutex_unlock(&m);
    greedy(NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(id[i], NULL);
    for (int i = 0; i < 8; i++)
        CHECK(order[i] == i);
    CHECK(order[8] == -1);
}

static pthread_mutex_t many[5000];
static long counts[5000];
static void *everywhere(void *arg) {
    (void)arg;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 5000; i++) {
            pthread_mutex_lock(&many[i]);
            pthread_mutex_lock(&m); /* one inside the other: two mutexes must not share a queue */
            counts[i]++;
            pthread_mutex_unlock(&m);
            pthread_mutex_unlock(&many[i]);
        }
    return NULL;
}

int main(int argc, char **argv) {
    const char *test = argc > 1 ? argv[1] : "";
    if (!strcmp(test, "counts_are_exact")) {
        run(THREADS, counter);
        CHECK(count == (long)THREADS * TIMES);
    } else if (!strcmp(test, "conditions_wake")) {
        run(THREADS, player);
        CHECK(count == 2000l * THREADS);
    } else if (!strcmp(test, "fork_in_the_middle")) {
        run(4, forker);
        CHECK(count == 3l * TIMES);
    } else if (!strcmp(test, "order_of_arrival")) {
        for (int round = 0; round < ROUNDS; round++)
            in_order();
    } else if (!strcmp(test, "many_mutexes")) {
        run(4, everywhere);
        for (int i = 0; i < 5000; i++)
            CHECK(counts[i] == 12);
    } else {
        return 2;
    }
    return 0;
}
