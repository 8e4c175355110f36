/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ways out that are rare: of the thread, of the process, of a handler; and jumps that make no loop. Prints results, and its own counts. */
#define _GNU_SOURCE
#include "count.h"

#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int zero;

/* A loop that is left by a computed goto. */
static int computes_goto(int n) {
    static void *const labels[] = {&&one, &&two, &&three};
    int sum = 0;
    FUNCTION("computes_goto");
    LOOP("computes_goto");
    for (int i = 0;; i++) {
        sum += zero + 1;
        if (i == 5)
            goto *labels[n % 3];
    }
one:
    sum += 10;
two:
    sum += 100;
three:
    return sum;
}

/* Entered in the middle: no loop to a compiler. */
static int duff(int n) {
    int sum = 0, turns = (n + 3) / 4;
    FUNCTION("duff");
    switch (n % 4) {
    case 0:
        do {
            sum += 1 + zero;
            __attribute__((fallthrough));
        case 3:
            sum += 2;
            __attribute__((fallthrough));
        case 2:
            sum += 3;
            __attribute__((fallthrough));
        case 1:
            sum += 4;
        } while (--turns > 0);
    }
    return sum;
}

static int jumps_from_asm(int n) {
    int sum = 0;
    FUNCTION("jumps_from_asm");
    LOOP("jumps_from_asm");
    for (int i = 0; i < 10; i++) {
        sum += i + zero;
        if (i == n)
            __asm__ goto("" : : : : out);
        if (i == n)
            break;
    }
out:
    return sum;
}

/* Its stack moves while loops are open. */
static int moves_stack(int n) {
    int sum = 0;
    FUNCTION("moves_stack");
    enum { OUTER = __LINE__ + 2 };
    LOOP("moves_stack");
    for (int i = 1; i < n; i++) {
        volatile char array[i * 100], *more = alloca(200);
        array[i] = 1;
        more[3] = 2;
        LOOP_IN("moves_stack", OUTER);
        for (int k = 0; k < 3; k++)
            sum += array[i] + more[3] + zero;
    }
    LOOP("moves_stack");
    for (int i = 0; i < 3; i++)
        sum += zero;
    return sum;
}

static int cleaned;
static void clean(int *x) {
    FUNCTION("clean");
    cleaned += *x;
}
static int has_cleanup(int n) {
    FUNCTION("has_cleanup");
    LOOP("has_cleanup");
    for (int i = 0; i < 5; i++) {
        __attribute__((cleanup(clean))) int x = i;
        if (i == n + zero)
            return x;
    }
    return -1;
}

/* A handler that leaves: into the loop that it interrupted, from a stack of its own. */
static sigjmp_buf back;
static void handler_leaves(int signal) {
    FUNCTION("handler_leaves");
    LOOP("handler_leaves");
    for (int i = 0;; i++)
        if (i == 2 + zero)
            siglongjmp(back, signal);
}
static int is_interrupted(int n) {
    volatile int turns = 0;
    FUNCTION("is_interrupted");
    if (sigsetjmp(back, 1) == 0) {
        LOOP("is_interrupted");
        for (int i = 0;; i++) {
            turns++;
            if (i == n + zero)
                raise(SIGUSR2);
        }
    }
    LOOP("is_interrupted");
    for (int i = 0; i < 2; i++)
        turns += zero;
    return turns;
}

/* The thread ends inside; it has a value whose destructor is annotated, too. */
static pthread_key_t key;
static void of_key(void *value) {
    FUNCTION("of_key");
    LOOP("of_key");
    for (int i = 0; i < 3; i++)
        *(long *)value += zero + 1;
}
static void ends(int how) {
    FUNCTION("ends");
    LOOP("ends");
    for (int i = 0;; i++)
        if (i == 3 + zero) {
            if (how)
                pthread_exit((void *)7);
            pthread_cancel(pthread_self());
            pthread_testcancel();
        }
}
static long at_key[2];
static void *thread_ends(void *how) {
    FUNCTION("thread_ends");
    pthread_setspecific(key, &at_key[how != NULL]);
    LOOP("thread_ends");
    while (zero == 0)
        ends(how != NULL);
    return NULL;
}
static long threads_end(void) {
    long sum = 0;
    FUNCTION("threads_end");
    LOOP("threads_end");
    for (int how = 0; how < 2; how++) {
        pthread_t thread;
        void *result = NULL;
        pthread_create(&thread, NULL, thread_ends, how ? &sum : NULL);
        pthread_join(thread, &result);
        sum += result == PTHREAD_CANCELED ? 100 : (long)result;
    }
    return sum + at_key[0] + at_key[1];
}

/* The parent counts for its children: one ends inside, one goes back to main(). */
static int is_child;
static void child_ends(void) {
    for (int i = 0;; i++)
        if (i == 2 + zero)
            _exit(9);
}
enum { CHILD_LOOP = __LINE__ - 4 };
static int forks(void) {
    int sum = 0, status = 0;
    FUNCTION("forks");
    LOOP("forks");
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        is_child = pid == 0;
        if (is_child && i)
            return 0;
        if (is_child)
            child_ends();
        waitpid(pid, &status, 0);
        sum += WEXITSTATUS(status);
    }
    count_up("child_ends");
    count_up("child_ends.loop%d", CHILD_LOOP);
    return sum;
}

int main(void) {
    long sum = 0;
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = handler_leaves, .sa_flags = SA_ONSTACK};
    FUNCTION("main");
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR2, &action, NULL);
    pthread_key_create(&key, of_key);
    LOOP("main");
    for (int i = 0; i < 8; i++)
        sum = 3 * sum + computes_goto(i) + duff(i + 1) + jumps_from_asm(i) + moves_stack(i) + has_cleanup(i) +
              is_interrupted(i);
    sum += threads_end() + forks() + cleaned;
    if (is_child)
        return 5;
    printf("result %ld\n", sum);
    count_print();
    free(stack.ss_sp);
    return 0;
}
