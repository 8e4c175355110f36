/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every construct of OpenMP that the compiler knows, counted by the program itself. `openmp_work MODE` prints
 *   = KEY N        what a recording must have: see test_openmp.c
 *   RESULT         anything else: the same with and without the probe
 * With libomp (clang) the runtime tells more: loops that the compiler divides are seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __clang__
#define IS_GOMP 0
#else
#define IS_GOMP 1
#endif

static void expect(long n, const char *format, ...) {
    char key[128];
    va_list list;
    va_start(list, format);
    vsnprintf(key, sizeof key, format, list);
    va_end(list);
    printf("= %s %ld\n", key, n);
}
/* Threads that came by, over all regions. */
static long n_threads, n_barriers, n_iterations, n_chunks;
static void arrive(void) {
    __atomic_add_fetch(&n_threads, 1, __ATOMIC_RELAXED);
}
static void add(long *to, long n) {
    __atomic_add_fetch(to, n, __ATOMIC_RELAXED);
}

/* -- regions -- */

static void regions(void) {
    long sum = 0, sections = 0;
    for (int i = 0; i < 100; i++) {
#pragma omp parallel num_threads(1 + i % 4)
        {
            arrive();
            add(&sum, omp_get_thread_num() + i);
        }
    }
#pragma omp parallel num_threads(3) if (sum < 0)
    arrive();
#pragma omp parallel for num_threads(4) schedule(static)
    for (int i = 0; i < 4; i++)
        arrive();
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        add(&sections, 1);
#pragma omp section
        add(&sections, 1);
    }
    n_threads += 2;
    /* Teams within teams, and within those teams of one. */
    omp_set_max_active_levels(3);
#pragma omp parallel num_threads(2)
    {
        arrive();
        for (int i = 0; i < 10; i++) {
#pragma omp parallel num_threads(3)
            {
                arrive();
#pragma omp parallel num_threads(1)
                arrive();
#pragma omp barrier
                add(&n_barriers, 1);
            }
        }
    }
    /* The call that is the last of a body is a jump. */
#pragma omp parallel num_threads(2)
    {
        arrive();
        add(&n_barriers, 1);
#pragma omp barrier
    }
    printf("%ld %ld\n", sum, sections);
    expect(n_threads, "begin parallel");
    expect(n_threads, "wait barrier of parallel");
    expect(n_barriers, "wait barrier");
    expect(2 * IS_GOMP, "begin section"); /* libomp does not tell one from another */
}

/* -- loops -- */

#define N 1000
static double a[N];
static void work(long i) {
    a[i % N] += (double)i;
    add(&n_iterations, 1);
}
#define LOOP(clauses, from, to, step) _Pragma(clauses) for (long i = (from); i < (to); i += (step)) work(i);
#define ULL(clauses) _Pragma(clauses) for (unsigned long long i = 0; i < N; i++) work((long)i);
#define CHUNKS(n, size) (((n) + (size)-1) / (size))

static void loops(void) {
    long ordered = 0;
    omp_set_schedule(omp_sched_dynamic, 10);
#pragma omp parallel num_threads(4)
    {
        arrive();
        LOOP("omp for schedule(dynamic, 7)", 0, N, 1)
        LOOP("omp for schedule(dynamic, 8) nowait", 0, N, 3)
        LOOP("omp for schedule(monotonic : dynamic, 9)", 5, N, 1)
        LOOP("omp for schedule(runtime)", 0, N, 1)
        ULL("omp for schedule(dynamic, 11)")
        ULL("omp for schedule(runtime)")
#pragma omp for schedule(dynamic, 50)
        for (long i = N; i > 0; i -= 2)
            work(i);
#pragma omp for schedule(dynamic, 4) collapse(2)
        for (int i = 0; i < 10; i++)
            for (int j = 0; j < 10; j++)
                work(10 * i + j);
    }
    n_chunks = CHUNKS(N, 7) + CHUNKS(CHUNKS(N, 3), 8) + CHUNKS(N - 5, 9) + CHUNKS(N, 10) + CHUNKS(N, 11) +
               CHUNKS(N, 10) + CHUNKS(N / 2, 50) + CHUNKS(100, 4);
#pragma omp parallel num_threads(4)
    {
        arrive();
#pragma omp for ordered schedule(dynamic, 10)
        for (int i = 0; i < 100; i++) {
            work(i);
#pragma omp ordered
            {
                if (ordered == i)
                    ordered++;
            }
        }
#pragma omp for ordered schedule(static, 10)
        for (int i = 0; i < 100; i++) {
            work(i);
#pragma omp ordered
            ordered++;
        }
    }
    n_chunks += 10 + 10;
    /* The region's own call begins the loop. */
#pragma omp parallel for num_threads(3) schedule(dynamic, 100)
    for (int i = 0; i < N; i++)
        work(i);
#pragma omp parallel for num_threads(3) schedule(runtime)
    for (int i = 0; i < N; i++)
        work(i);
    n_chunks += CHUNKS(N, 100) + CHUNKS(N, 10);
    printf("%ld %g\n", ordered, a[77]);
    expect(n_chunks, "begin chunk");
    expect(6 * 4 + 3, "begin for dynamic"); /* by 7, 8, 9, 11, 50, 4, and the region's own */
    expect(2 * 4 + 3, "begin for runtime dynamic");
    expect(n_iterations, "iterations");
    expect(200, "holds");
    expect(n_threads + 6, "begin parallel");
}

/* The runtime chooses the lengths of chunks. */
static void guided(void) {
    long sum = 0, ordered = 0;
#pragma omp parallel num_threads(4)
    {
        arrive();
        LOOP("omp for schedule(guided, 5)", 0, N, 1)
        LOOP("omp for schedule(monotonic : guided, 5)", 0, N, 1)
        ULL("omp for schedule(guided)")
#pragma omp for ordered schedule(guided)
        for (int i = 0; i < 100; i++) {
            work(i);
#pragma omp ordered
            ordered++;
        }
    }
#pragma omp parallel for num_threads(3) schedule(guided, 100) reduction(+ : sum)
    for (int i = 0; i < N; i++) {
        work(i);
        sum += i;
    }
    printf("%ld %ld\n", ordered, sum);
    expect(3 * 4 + 3, "begin for guided");
    expect(4, "begin for ordered guided");
    expect(n_iterations, "iterations");
    expect(100, "holds");
    expect(n_threads + 3, "begin parallel");
}

/* Loops whose iterations wait for others, by one and by two counters. */
static void doacross(void) {
    static long grid[20][20];
#pragma omp parallel num_threads(3)
    {
        arrive();
#pragma omp for ordered(1) schedule(dynamic, 1)
        for (int i = 1; i < 20; i++) {
            add(&n_iterations, 1);
#pragma omp ordered depend(sink : i - 1)
            grid[0][i] = grid[0][i - 1] + 1;
#pragma omp ordered depend(source)
        }
#pragma omp for ordered(2) schedule(static, 1)
        for (int i = 1; i < 20; i++)
            for (int j = 1; j < 20; j++) {
#pragma omp ordered depend(sink : i - 1, j) depend(sink : i, j - 1)
                grid[i][j] = grid[i - 1][j] + grid[i][j - 1] % 1000;
#pragma omp ordered depend(source)
            }
    }
    printf("%ld %ld\n", grid[0][19], grid[19][19]);
    expect(n_threads, "begin parallel");
#if IS_GOMP
    /* A sink that lies before the first iteration is left out by the compiler's code. */
    expect(18 + 18 * 19 * 2, "wait depend sink");
#endif
}

/* -- sections, single, scope -- */

static void shares(void) {
    long ran = 0, singles = 0, copied = 0, value = 0;
#pragma omp parallel num_threads(3) firstprivate(value)
    {
        arrive();
        for (int i = 0; i < 5; i++) {
#pragma omp sections
            {
#pragma omp section
                add(&ran, 1);
#pragma omp section
                add(&ran, 1);
#pragma omp section
                add(&ran, 1);
            }
#pragma omp sections nowait
            {
#pragma omp section
                add(&ran, 1);
            }
#pragma omp single
            add(&singles, 1);
#pragma omp single nowait
            add(&singles, 1);
#pragma omp single copyprivate(value)
            value = 5;
            add(&copied, value);
#pragma omp master
            add(&ran, 0);
        }
    }
    printf("%ld %ld %ld\n", ran, singles, copied);
    expect(ran * IS_GOMP, "begin section");
    expect(3 * 5 * 2, "begin sections");
#if IS_GOMP
    expect(3 * 5, "wait barrier of sections");
    expect(singles + 5, "instant single");
    expect(3 * 5, "wait barrier of single");
#endif
    expect(n_threads, "begin parallel");
}

/* -- exclusion -- */

static void locks(void) {
    long plain = 0, named = 0, tried = 0;
    long double wide = 0;
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
#pragma omp parallel num_threads(4)
    {
        arrive();
        for (int i = 0; i < 200; i++) {
#pragma omp critical
            plain++;
#pragma omp critical(other)
            named++;
#if IS_GOMP
#pragma omp atomic
            wide += 1;
#endif
            omp_set_lock(&lock);
            omp_unset_lock(&lock);
            omp_set_nest_lock(&nest);
            omp_set_nest_lock(&nest);
            omp_unset_nest_lock(&nest);
            omp_unset_nest_lock(&nest);
            if (omp_test_lock(&lock)) {
                add(&tried, 1);
                omp_unset_lock(&lock);
            }
        }
    }
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
    printf("%ld %ld %g\n", plain, named, (double)wide);
    expect(plain + named + 800 + 1600 + tried + 800 * IS_GOMP, "holds");
    expect(n_threads, "begin parallel");
}

/* -- tasks -- */

static long n_tasks;
static long fib(int n) {
    long x, y;
    if (n < 2)
        return n;
#pragma omp task shared(x)
    {
        add(&n_tasks, 1);
        x = fib(n - 1);
    }
#pragma omp task shared(y) if (n > 5)
    {
        add(&n_tasks, 1);
        y = fib(n - 2);
    }
#pragma omp taskwait
    add(&n_barriers, 1);
    return x + y;
}
static void tasks(void) {
    static long table[64];
    char big[20000];
    long f = 0, sum = 0, chain = 0, reduced = 0, loop = 0, few = 0;
    memset(big, 1, sizeof big);
#pragma omp parallel num_threads(4)
    {
        arrive();
#pragma omp single
        {
            f = fib(15);
            for (int i = 0; i < 64; i++) {
#pragma omp task firstprivate(i) priority(i)
                {
                    table[i] = i;
                    add(&n_tasks, 1);
                }
#pragma omp task firstprivate(big) shared(sum)
                {
                    long own = 0;
                    for (unsigned k = 0; k < sizeof big; k++)
                        own += big[k];
                    add(&sum, own);
                    add(&n_tasks, 1);
                }
            }
#pragma omp taskgroup
            {
                for (int i = 0; i < 50; i++) {
#pragma omp task depend(inout : chain) untied
                    {
                        chain = 3 * chain % 1009 + i;
                        add(&n_tasks, 1);
                    }
#pragma omp task depend(in : chain) mergeable
                    add(&n_tasks, 1);
                }
            }
#pragma omp taskgroup
            {
#pragma omp task depend(out : few)
                add(&n_tasks, 1);
                for (int i = 0; i < 3; i++) {
#pragma omp task depend(in : few)
                    add(&n_tasks, 1);
                }
#pragma omp task depend(in : few) depend(inout : few)
                add(&n_tasks, 1);
                for (int i = 0; i < 2; i++) {
#pragma omp task depend(mutexinoutset : few)
                    add(&n_tasks, 1);
                }
#pragma omp task depend(in : few)
                add(&n_tasks, 1);
            }
#pragma omp taskwait depend(in : chain)
#pragma omp taskyield
#pragma omp taskgroup task_reduction(+ : reduced)
            {
                for (int i = 0; i < 20; i++) {
#pragma omp task in_reduction(+ : reduced)
                    {
                        reduced += i;
                        add(&n_tasks, 1);
                    }
                }
            }
        }
    }
#pragma omp parallel num_threads(4)
    {
        arrive();
#pragma omp single
        {
#pragma omp taskloop num_tasks(10) shared(table)
            for (int i = 0; i < 64; i++)
                add(&table[i], i);
#pragma omp taskloop grainsize(8) reduction(+ : loop)
            for (int i = 0; i < 64; i++)
                loop += table[i];
#pragma omp taskloop num_tasks(4) nogroup
            for (unsigned long long i = 0; i < 64; i++)
                add(&table[i], 1);
        }
    }
    for (int i = 0; i < 64; i++)
        sum += table[i];
    printf("%ld %ld %ld %ld %ld %ld\n", f, sum, chain, reduced, loop, few);
    expect(n_tasks, "create task");
    /* chain: each reader on its writer, each writer but the first on the reader before it. few: 3 readers on a writer, a
     * writer on them, 2 mutexinoutset on it, a reader on these; the two addresses of one task are one. */
    expect(50 + 49 + 3 + 3 + 2 + 2, "depends");
    expect(10 + 8 + 4, "create taskloop");
    expect(n_tasks + 22, "start");
    expect(n_tasks + 22, "end");
    expect(n_barriers + IS_GOMP, "wait taskwait"); /* clang: that with a dependence is a task */
    expect(n_threads, "begin parallel");
}

/* Tasks that run at once, each in the one that creates it: as deep as the program's own stack allows, or nearly. */
static long down(int n) {
    long below = 0;
    add(&n_tasks, 1);
#pragma omp task if (0) shared(below) firstprivate(n)
    below = n > 1 ? down(n - 1) : 0;
    return below + 1;
}
static void deep(void) {
    printf("%ld\n", down(4000));
    expect(n_tasks, "create task");
    expect(n_tasks, "end");
}

#if IS_GOMP
/* More tasks that read one address than the library keeps: it begins anew, and the last one depends on those since then. */
static void readers(void) {
    const long kept = 1 << 18, more = 1000;
    long cell = 0, sum = 0;
    for (long i = 0; i < kept + more; i++) {
#pragma omp task depend(in : cell)
        sum += cell;
    }
#pragma omp task depend(out : cell)
    cell = 1;
    printf("%ld %ld\n", cell, sum);
    expect(kept + more + 1, "create task");
    expect(more, "depends");
}

/* A task that another thread completes. */
static void detached(void) {
    long ran = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < 20; i++) {
            omp_event_handle_t event;
#pragma omp task detach(event) firstprivate(i) shared(ran)
            {
                add(&ran, i);
                omp_fulfill_event(event);
            }
        }
#pragma omp taskwait
    }
    printf("%ld\n", ran);
    expect(20, "create task");
    expect(20, "end");
}
static void scopes(void) {
    long sum = 0, in_loop = 0;
#pragma omp parallel num_threads(3)
    {
        arrive();
#pragma omp scope reduction(+ : sum)
        sum += omp_get_thread_num();
#pragma omp for reduction(task, + : in_loop) schedule(dynamic, 5)
        for (int i = 0; i < 50; i++) {
            work(i);
#pragma omp task in_reduction(+ : in_loop)
            in_loop += i;
        }
#pragma omp for reduction(task, + : in_loop) schedule(static)
        for (int i = 0; i < 50; i++)
            in_loop += i;
    }
    printf("%ld %ld\n", sum, in_loop);
    expect(n_iterations, "iterations");
    expect(10, "begin chunk");
    expect(50, "create task");
    expect(n_threads, "begin parallel");
}
#endif

/* Results depend on OMP_CANCELLATION, which test_openmp sets, and not on the probe. */
static void cancelled(void) {
    long found = 0, after = 0, tasks_run = 0;
#pragma omp parallel num_threads(3)
    {
        arrive();
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 100; i++) {
            if (i == 20) {
                add(&found, 1);
#pragma omp cancel for
            }
#pragma omp cancellation point for
        }
#pragma omp barrier
        add(&after, 1);
#pragma omp sections
        {
#pragma omp section
            {
#pragma omp cancel sections
                add(&found, 100);
    }
}
#pragma omp single
#pragma omp taskgroup
{
#pragma omp task if (0)
    {
        add(&tasks_run, 1);
#pragma omp cancel taskgroup
        add(&tasks_run, 100);
    }
    for (int i = 0; i < 10; i++) {
#pragma omp task
        {
#pragma omp cancellation point taskgroup
            add(&tasks_run, 1000);
        }
    }
}
#pragma omp cancel parallel
add(&found, 10000);
}
printf("%ld %ld %ld\n", found, after, tasks_run);
expect(n_threads, "begin parallel");
expect(n_threads, "wait barrier of parallel");
}

/* -- where a process is not as most are -- */

/* Threads of the program's own, each with teams of its own. */
static void *one_of_many(void *sum) {
    for (int i = 0; i < 50; i++) {
#pragma omp parallel num_threads(2)
        {
            arrive();
#pragma omp single
            for (int k = 0; k < 4; k++) {
#pragma omp task
                add(sum, 1);
            }
        }
    }
    return 0;
}
static void many(void) {
    pthread_t threads[4];
    long sum = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, one_of_many, &sum);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    printf("%ld\n", sum);
    expect(n_threads, "begin parallel");
    expect(800, "create task");
    expect(800, "end");
}

/* No team: libgomp has no threads that would lose their code when it is unloaded. */
static void alone(void) {
#pragma omp single nowait
    printf("alone\n");
}

/* What a thread asks its runtime, which must be that of its region. */
static void numbers(void) {
    long sum = 0, threads = 0;
#pragma omp parallel num_threads(3)
    {
        arrive();
        add(&sum, omp_get_thread_num());
#pragma omp barrier
#pragma omp single
        threads = omp_get_num_threads();
    }
    printf("%ld %ld\n", sum, threads);
    expect(n_threads, "begin parallel");
}

/* The child of a program that has had a team: libgomp's threads are not there any more, so it has teams of one. */
static void forked(void) {
    long sum = 0;
    int status = 0;
#pragma omp parallel num_threads(3)
    {
        arrive();
        add(&sum, 1);
    }
    fflush(stdout);
    if (fork() == 0) {
#pragma omp parallel num_threads(1)
        {
            arrive();
#pragma omp task
            add(&sum, 1);
        }
        _exit((int)sum);
    }
    wait(&status);
    n_threads++;
    printf("%ld %d\n", sum, WEXITSTATUS(status));
    expect(n_threads, "begin parallel");
    expect(1, "create task");
}

/* A thread that is cancelled between regions, exit within a region's master, and a thread that ends. */
static void ends(void) {
#pragma omp parallel num_threads(3)
    {
        arrive();
#pragma omp barrier
#pragma omp master
        {
            printf("out\n");
            expect(3, "begin parallel");
            fflush(stdout);
            exit(7);
        }
#pragma omp barrier
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"regions", regions},
        {"loops", loops},
        {"guided", guided},
        {"doacross", doacross},
        {"shares", shares},
        {"locks", locks},
        {"tasks", tasks},
        {"many", many},
        {"alone", alone},
        {"numbers", numbers},
        {"deep", deep},
#if IS_GOMP
        {"detached", detached},
        {"scopes", scopes},
        {"readers", readers},
#endif
        {"cancelled", cancelled},
        {"forked", forked},
        {"ends", ends}
    };
    omp_set_dynamic(0);
    for (unsigned i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            modes[i].run();
            return 0;
        }
    return 2;
}
