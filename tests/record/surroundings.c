/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * surroundings START CMD... - changes what a process hands on to the programs that it starts, as START says, and executes CMD.
 * surroundings say FILE - writes what it was handed to FILE, one fact a line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static void ignore(int signal) {
    struct sigaction a = {.sa_handler = SIG_IGN};
    sigaction(signal, &a, NULL);
}
static void limit(int what, rlim_t soft, rlim_t hard) {
    struct rlimit r;
    getrlimit(what, &r);
    if (r.rlim_max != RLIM_INFINITY && hard > r.rlim_max)
        soft = hard = r.rlim_max;
    r = (struct rlimit){soft, hard};
    setrlimit(what, &r);
}

static void start(const char *how) {
    sigset_t set;
    sigfillset(&set);
    if (!strcmp(how, "ignored")) {
        /* Those that end a recording end it no more; the rest of them is what daemons and shells ignore. */
        const int signals[] = {SIGPIPE, SIGQUIT, SIGHUP,   SIGUSR1,      SIGUSR2, SIGXFSZ,
                               SIGCHLD, SIGTTOU, SIGWINCH, SIGRTMIN + 3, SIGRTMAX};
        for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
            ignore(signals[i]);
    } else if (!strcmp(how, "blocked")) {
        sigprocmask(SIG_SETMASK, &set, NULL);
    } else if (!strcmp(how, "closed")) {
        close_range(0, ~0u, 0);
    } else if (!strcmp(how, "no_input")) {
        close(0);
    } else if (!strcmp(how, "descriptors")) {
        int zero = open("/dev/zero", O_RDONLY | O_NONBLOCK);
        dup2(zero, 9);
        dup2(zero, 200);
        close(zero);
    } else if (!strcmp(how, "limits")) {
        limit(RLIMIT_NOFILE, 200, 300);
        limit(RLIMIT_STACK, 1 << 20, 4 << 20);
        limit(RLIMIT_CORE, 123, 456);
        limit(RLIMIT_MEMLOCK, 0, 0);
        limit(RLIMIT_CPU, 1000, 2000);
        limit(RLIMIT_FSIZE, 1 << 30, 1 << 30);
    } else if (!strcmp(how, "umask")) {
        umask(0267);
    } else if (!strcmp(how, "nice")) {
        setpriority(PRIO_PROCESS, 0, 7);
    } else if (!strcmp(how, "batch")) {
        sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    } else if (!strcmp(how, "one_cpu")) {
        cpu_set_t all, one;
        sched_getaffinity(0, sizeof all, &all);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &all)) {
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
            }
        sched_setaffinity(0, sizeof one, &one);
    } else if (!strcmp(how, "nowhere")) {
        char gone[] = "/tmp/kasuri-test-XXXXXX";
        if (mkdtemp(gone) == NULL || chdir(gone) || rmdir(gone))
            exit(99);
    } else if (!strcmp(how, "prctl")) {
        personality(ADDR_NO_RANDOMIZE);
        prctl(PR_SET_TIMERSLACK, 123456, 0, 0, 0);
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    } else if (!strcmp(how, "timer")) {
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {100000, 0}}, NULL);
    } else if (strcmp(how, "as_ever")) {
        exit(98);
    }
}

static void say(const char *path) {
    int first_errno = errno;
    char text[4096];
    /* Where it takes no number that the program may have been handed. */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), high = fcntl(fd, F_DUPFD_CLOEXEC, 150);
    if (fd < 0 || fchmod(fd, 0600))
        exit(97);
    FILE *out = fdopen(high < 0 ? fd : high, "w");
    if (high >= 0)
        close(fd);
    fprintf(out, "errno %d\n", first_errno);
    for (int d = 0; d < 1024; d++) {
        struct stat s;
        if (d != fileno(out) && fstat(d, &s) == 0)
            fprintf(out, "descriptor %d: file %lx %lx, flags %x %x\n", d, (long)s.st_dev, (long)s.st_ino,
                    fcntl(d, F_GETFL), fcntl(d, F_GETFD));
    }
    for (int s = 1; s < 65; s++) {
        struct sigaction a;
        if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL)
            fprintf(out, "signal %d %s\n", s, a.sa_handler == SIG_IGN ? "ignored" : "handled");
    }
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(text, sizeof text, status))
        if (!strncmp(text, "SigBlk", 6) || !strncmp(text, "SigIgn", 6) || !strncmp(text, "SigPnd", 6) ||
            !strncmp(text, "ShdPnd", 6) || !strncmp(text, "Cap", 3) || !strncmp(text, "Uid", 3) ||
            !strncmp(text, "Gid", 3) || !strncmp(text, "Groups", 6) || !strncmp(text, "NoNewPrivs", 10) ||
            !strncmp(text, "Seccomp", 7) || !strncmp(text, "Umask", 5) || !strncmp(text, "THP_enabled", 11) ||
            !strncmp(text, "TracerPid", 9) || !strncmp(text, "Cpus_allowed", 12))
            fputs(text, out);
    if (status)
        fclose(status);
    for (int what = 0; what < RLIM_NLIMITS; what++) {
        struct rlimit r;
        if (getrlimit(what, &r) == 0)
            fprintf(out, "limit %d: %lx %lx\n", what, (long)r.rlim_cur, (long)r.rlim_max);
    }
    fprintf(out, "nice %d, class %d\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
    fprintf(out, "timer slack %d, personality %x\n", prctl(PR_GET_TIMERSLACK), personality(-1));
    fprintf(out, "directory %s\n", getcwd(text, sizeof text) ? text : strerror(errno));
    struct itimerval timer;
    getitimer(ITIMER_PROF, &timer);
    fprintf(out, "profiling timer %ld\n", (long)timer.it_value.tv_sec);
    fclose(out);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 96;
    if (!strcmp(argv[1], "say")) {
        say(argv[2]);
        return 0;
    }
    start(argv[1]);
    execv(argv[2], argv + 2);
    return 95;
}
