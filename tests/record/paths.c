/*
 * Code whose call paths are known.
 *
 *   paths split SECONDS   computes: 60 % of its CPU time in sixty, 30 % in thirty, 10 % in ten
 *   paths timer           computes for 0.5 s with a timer each 0.3 ms, and for 1 s without, in split's functions
 *   paths short           waits 600 times 0.5 ms in in_nap, and as often for the answer of another thread, after 1 ms, in in_answer
 *   paths storm [N]       two threads on one CPU that wake each other N times each, 100,000 if not given;
 *                         prints its CPU time
 *   paths naps            naps 2,000 times 0.3 to 0.6 ms, in in_nap
 *   paths block           five threads wait 12 times 60 ms, each in another way, in a function of its own
 *   paths crowd N         N threads at once that nap 20 times 50 ms each, in in_nap
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

enum { WAITS = 12, WAIT_MS = 60 };

static volatile uint64_t sink;

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static NOINLINE uint64_t spin(uint64_t n) {
    uint64_t x = 88172645463325252u;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

/* The volatile variable after the call keeps the compiler from making it a jump. */
static NOINLINE void sixty(uint64_t n) {
    uint64_t r = spin(6 * n);
    sink += r;
}

static NOINLINE void thirty(uint64_t n) {
    uint64_t r = spin(3 * n);
    sink += r;
}

static NOINLINE void ten(uint64_t n) {
    uint64_t r = spin(n);
    sink += r;
}

static void split(double seconds) {
    double start = cpu_s();
    while (cpu_s() - start < seconds) {
        for (int i = 0; i < 10; i++) {
            sixty(20000);
            thirty(20000);
            ten(20000);
        }
    }
}

static void on_alarm(int number) {
    (void)number;
}

static void timer(void) {
    struct itimerval each = {.it_interval = {.tv_usec = 300}, .it_value = {.tv_usec = 300}}, none = {0};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &each, NULL);
    split(0.5);
    setitimer(ITIMER_REAL, &none, NULL);
    split(1);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int ends[2];

static NOINLINE void in_sleep(void) {
    for (int i = 0; i < WAITS; i++)
        usleep(WAIT_MS * 1000);
    sink++;
}

static NOINLINE void in_cond(void) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < WAITS; i++) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += WAIT_MS * 1000000;
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&never, &mutex, &t);
    }
    pthread_mutex_unlock(&mutex);
    sink++;
}

static NOINLINE void in_read(void) {
    char byte;
    for (int i = 0; i < WAITS; i++)
        if (read(ends[0], &byte, 1) < 1)
            abort();
    sink++;
}

static NOINLINE void in_poll(void) {
    for (int i = 0; i < WAITS; i++)
        poll(NULL, 0, WAIT_MS);
    sink++;
}

static NOINLINE void in_semaphore(void) {
    for (int i = 0; i < WAITS; i++)
        sem_wait(&semaphore);
    sink++;
}

static void *run(void *function) {
    void (*wait)(void);
    memcpy(&wait, &function, sizeof wait);
    wait();
    sink++;
    return NULL;
}

static void block(void) {
    void (*const waits[])(void) = {in_sleep, in_cond, in_read, in_poll, in_semaphore};
    pthread_t threads[5];
    sem_init(&semaphore, 0, 0);
    if (pipe(ends) != 0)
        abort();
    for (int i = 0; i < 5; i++) {
        void *function;
        memcpy(&function, &waits[i], sizeof function);
        pthread_create(&threads[i], NULL, run, function);
    }
    for (int i = 0; i < WAITS; i++) {
        usleep(WAIT_MS * 1000);
        if (write(ends[1], "x", 1) != 1)
            abort();
        sem_post(&semaphore);
    }
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
}

static int asks[2], answers[2];

static NOINLINE void in_nap(int us) {
    usleep((useconds_t)us);
    sink++;
}

static NOINLINE void in_answer(void) {
    char byte;
    if (read(answers[0], &byte, 1) != 1)
        abort();
    sink++;
}

static NOINLINE void give_answer(void) {
    if (write(answers[1], "x", 1) != 1)
        abort();
    sink++;
}

/* Answers after so many us of sleep, which the argument points to. */
static void *answer(void *us) {
    char byte;
    while (read(asks[0], &byte, 1) == 1) {
        if (*(int *)us > 0)
            usleep((useconds_t) * (int *)us);
        give_answer();
    }
    return NULL;
}

static void ask(int times, int nap_us, int answer_us) {
    pthread_t thread;
    if (pipe(asks) != 0 || pipe(answers) != 0)
        abort();
    pthread_create(&thread, NULL, answer, &answer_us);
    for (int i = 0; i < times; i++) {
        if (nap_us > 0)
            in_nap(nap_us);
        if (write(asks[1], "x", 1) != 1)
            abort();
        in_answer();
    }
    close(asks[1]);
    pthread_join(thread, NULL);
}

static void storm(int times) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    double from = cpu_s();
    ask(times, 0, 0);
    printf("%.0f ns of CPU time a round trip\n", 1e9 * (cpu_s() - from) / times);
}

static void *naps_of_one(void *none) {
    (void)none;
    for (int i = 0; i < 20; i++)
        in_nap(50000);
    return NULL;
}

static void crowd(int n) {
    pthread_attr_t small;
    pthread_t *threads = malloc((size_t)n * sizeof *threads);
    if (threads == NULL || pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, 32 << 10) != 0)
        abort();
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], &small, naps_of_one, NULL) != 0)
            abort();
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

static void naps(void) {
    for (int i = 0; i < 2000; i++)
        in_nap(300 + i * 37 % 301);
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "split") == 0)
        split(atof(argv[2]));
    else if (argc > 1 && strcmp(argv[1], "timer") == 0)
        timer();
    else if (argc > 1 && strcmp(argv[1], "block") == 0)
        block();
    else if (argc > 1 && strcmp(argv[1], "short") == 0)
        ask(600, 500, 1000);
    else if (argc > 1 && strcmp(argv[1], "storm") == 0)
        storm(argc > 2 ? atoi(argv[2]) : 100000);
    else if (argc > 1 && strcmp(argv[1], "naps") == 0)
        naps();
    else if (argc > 2 && strcmp(argv[1], "crowd") == 0)
        crowd(atoi(argv[2]));
    else
        return 2;
    return 0;
}
