/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Forks while other threads wait for a lock that a library's handlers take and give back, in the child before any other handler. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

extern pthread_mutex_t early_lock;
static atomic_int over;

static void *locks(void *unused) {
    while (!atomic_load(&over)) {
        CHECK(pthread_mutex_lock(&early_lock) == 0);
        usleep(100); /* the others come to wait */
        CHECK(pthread_mutex_unlock(&early_lock) == 0);
    }
    return unused;
}

static void *once_more(void *arg) {
    CHECK(pthread_mutex_lock(&early_lock) == 0 && pthread_mutex_unlock(&early_lock) == 0);
    return arg;
}

static void *forks(void *unused) {
    for (int i = 0; i < 50; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            pthread_t t;
            void *result;
            alarm(200); /* a child that hangs fails */
            CHECK(pthread_create(&t, NULL, once_more, &status) == 0);
            CHECK(pthread_join(t, &result) == 0 && result == &status);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    return unused;
}

static void early_handlers(void) {
    pthread_t t[4], forker;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, locks, NULL) == 0);
    CHECK(pthread_create(&forker, NULL, forks, NULL) == 0 && pthread_join(forker, NULL) == 0);
    forks(NULL);
    atomic_store(&over, 1);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

static const struct test tests[] = {{"early_handlers", early_handlers}};

int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
