/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ways into and out of functions and loops. Prints results, and its own counts. */
#include "count.h"

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

static volatile int zero; /* so that loops stay loops */
static double a[1000], b[1000];

static void axpy(double x) {
    FUNCTION("axpy");
    LOOP("axpy");
    for (int i = 0; i < 1000; i++)
        a[i] += x * b[i];
}

static int nested(int n) {
    int sum = 0;
    FUNCTION("nested");
    enum { OUTER = __LINE__ + 2 };
    LOOP("nested");
    for (int i = 0; i < n; i++) {
        LOOP_IN("nested", OUTER);
        for (int k = 0; k < i; k++)
            sum += k ^ zero;
        LOOP_IN("nested", OUTER);
        for (int k = 0; k < 3; k++)
            sum -= k ^ zero;
    }
    LOOP("nested");
    while (n-- > zero)
        sum++;
    return sum;
}

/* return, break, continue and goto, out of one loop and out of two. */
static int leaves(int n) {
    int sum = 0;
    FUNCTION("leaves");
    enum { OUTER = __LINE__ + 2 };
    LOOP("leaves");
    for (int i = 0; i < 10; i++) {
        if (i == n && n < 3)
            break;
        LOOP_IN("leaves", OUTER);
        for (int k = 0; k < 10; k++) {
            if (k == 2)
                continue;
            if (n == 4 && i == 2)
                return sum + k;
            if (n == 5 && k == 7)
                break;
            if (n == 6 && i + k == 9)
                goto out;
            if (n == 7 && k == 3)
                goto next;
            sum += k + zero;
        }
        sum++;
    next:
        switch (sum % 7) {
        case 0:
            sum += 2;
            break;
        default:
            sum++;
        }
    }
    sum += 1000;
out:
    return sum;
}

static int fib(int n) {
    int sum = 0;
    FUNCTION("fib");
    if (n < 2)
        return n;
    LOOP("fib");
    for (int i = 1; i <= 2; i++)
        sum += fib(n - i);
    return sum;
}

static int odd(unsigned n);
static int even(unsigned n) {
    FUNCTION("even");
    return n == 0 ? 1 : odd(n - 1);
}
static int odd(unsigned n) {
    FUNCTION("odd");
    return n == 0 ? 0 : even(n - 1);
}

/* Its symbol is not its name. */
static int has_symbol(int n) __asm__("other_name");
static __attribute__((noinline)) int has_symbol(int n) {
    FUNCTION("has_symbol");
    LOOP("has_symbol");
    for (int i = 0; i < n; i++)
        n -= zero + 1;
    return n;
}

/* A structure that is returned in memory, and a loop whose end is the function's. */
struct big {
    long v[12];
};
static struct big returns_big(int n) {
    struct big big = {{0}};
    FUNCTION("returns_big");
    LOOP("returns_big");
    for (int i = 0; i < 12; i++)
        big.v[i] = n * i + zero;
    return big;
}

/* Loops and functions that longjmp() leaves: from below, and from the same function. */
static jmp_buf back;
static void jumps(int n) {
    FUNCTION("jumps");
    LOOP("jumps");
    for (int i = 0;; i++)
        if (i == n + zero)
            longjmp(back, n + 1);
}
static int lands(int n) {
    FUNCTION("lands");
    int code = setjmp(back);
    if (!code)
        jumps(n);
    LOOP("lands");
    for (int i = 0; i < 3; i++)
        code += zero;
    return code;
}
static int jumps_inside(int n) {
    volatile int turns = 0;
    FUNCTION("jumps_inside");
    int code = setjmp(back);
    if (code < n) {
        LOOP("jumps_inside");
        for (int i = 0; i < 5; i++) {
            turns++;
            if (i == 3 + zero)
                longjmp(back, code + 1);
        }
    }
    return turns;
}

/* Left by a longjmp() to a function that no plugin has compiled. */
void outside_call(void (*function)(int), int n);
void outside_leave(void);
static void is_left(int n) {
    FUNCTION("is_left");
    LOOP("is_left");
    for (int i = 0;; i++)
        if (i == n + zero)
            outside_leave();
}
static int goes_outside(int n) {
    int sum = 0;
    FUNCTION("goes_outside");
    enum { OUTER = __LINE__ + 2 };
    LOOP("goes_outside");
    for (int i = 0; i < n; i++) {
        outside_call(is_left, i);
        LOOP_IN("goes_outside", OUTER);
        for (int k = 0; k < 3; k++)
            sum += k + zero;
    }
    return sum;
}

/* A handler that comes at any moment of the others. It counts nothing: counts are kept under a lock. */
static volatile sig_atomic_t handled, handler_loop;
static int in_handler(int n) {
    int sum = 0;
    enum { HANDLER_LOOP = __LINE__ + 1 };
    for (int i = 0; i < n; i++)
        sum += i ^ zero;
    handler_loop = HANDLER_LOOP;
    return sum;
}
static void handler(int signal) {
    (void)signal;
    handled += in_handler(4) == 6;
}

static void *in_thread(void *n) {
    intptr_t sum = 0;
    FUNCTION("in_thread");
    enum { OUTER = __LINE__ + 2 };
    LOOP("in_thread");
    for (int i = 0; i < 200; i++) {
        sum += nested(4);
        LOOP_IN("in_thread", OUTER);
        for (int k = 0; k < 5; k++)
            sum += leaves((int)(intptr_t)n + k);
    }
    return (void *)sum;
}

static long run_threads(void) {
    pthread_t threads[4];
    long sum = 0;
    FUNCTION("run_threads");
    LOOP("run_threads");
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, in_thread, (void *)i);
    LOOP("run_threads");
    for (int i = 0; i < 4; i++) {
        void *part;
        pthread_join(threads[i], &part);
        sum += (long)(intptr_t)part;
    }
    return sum;
}

int main(void) {
    long sum = 0;
    FUNCTION("main");
    signal(SIGUSR1, handler);
    LOOP("main");
    for (int i = 0; i < 1000; i++)
        b[i] = i;
    LOOP("main");
    for (int i = 0; i < 300; i++)
        axpy(0.5);
    LOOP("main");
    for (int i = 0; i < 12; i++)
        sum = 3 * sum + nested(i) + leaves(i) + lands(i) + jumps_inside(i % 4) + goes_outside(i % 3);
    sum += fib(9) + has_symbol(9) + even(11) + returns_big(3).v[7];
    sum += run_threads();
    LOOP("main");
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    printf("result %ld %g %d\n", sum, a[7], (int)handled);
    count_print();
    printf("count handler %d\ncount in_handler %d\ncount in_handler.loop%d %d\n", (int)handled, (int)handled,
           (int)handler_loop, (int)handled);
    return 0;
}
