/*
 * Code in processes that begin and go in several ways.
 *
 *   places run       computes in in_last
 *   places fork      a child computes in in_child, without exec
 *   places vfork     a child computes in in_child in its parent's memory
 *   places exec      computes in in_first, then is a new program that does as run
 */
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile uint64_t sink;

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Some 0.5 s. */
static NOINLINE void compute(void) {
    double end = cpu_s() + 0.5;
    while (cpu_s() < end) {
        uint64_t x = 88172645463325252u;
        for (int i = 0; i < 20000; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        sink = x;
    }
}

/* Different, or the compiler makes one of them. */
static NOINLINE void in_first(void) {
    compute();
    sink += 1;
}

static NOINLINE void in_last(void) {
    compute();
    sink += 2;
}

static NOINLINE void in_child(void) {
    compute();
    sink += 3;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "run";
    if (strcmp(mode, "fork") == 0 || strcmp(mode, "vfork") == 0) {
        pid_t child = mode[0] == 'v' ? vfork() : fork();
        if (child == 0) {
            in_child();
            _exit(0);
        }
        return waitpid(child, NULL, 0) != child;
    }
    if (strcmp(mode, "exec") == 0) {
        in_first();
        execl(argv[0], argv[0], "run", NULL);
        return 1;
    }
    in_last();
    return 0;
}
