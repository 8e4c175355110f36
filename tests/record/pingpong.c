/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pingpong N - two processes on one CPU hand a byte back and forth N times: 2 N context switches, as fast as it
 * goes. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int pass(int from, int to, long n) {
    char c = 0;
    while (n-- > 0)
        if (write(to, &c, 1) != 1 || read(from, &c, 1) != 1)
            return 1;
    return 0;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000;
    struct rusage mine, other;
    int there[2], back[2];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    if (sched_setaffinity(0, sizeof set, &set) || pipe(there) || pipe(back))
        return 2;
    if (fork() == 0) {
        char c;
        /* It ends with the other, also when that is killed. */
        close(there[1]);
        close(back[0]);
        while (n-- > 0)
            if (read(there[0], &c, 1) != 1 || write(back[1], &c, 1) != 1)
                _exit(1);
        _exit(0);
    }
    if (pass(back[0], there[1], n))
        return 1;
    if (wait(0) < 0)
        return 1;
    getrusage(RUSAGE_SELF, &mine);
    getrusage(RUSAGE_CHILDREN, &other);
    printf("%ld\n", mine.ru_nvcsw + mine.ru_nivcsw + other.ru_nvcsw + other.ru_nivcsw);
    return 0;
}
