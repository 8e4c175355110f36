/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What waiting for I/O costs: a byte to and fro between two threads through two pipes, and a server with a thread for
 * each connection. `run` builds it and runs the modes in turns.
 *
 *   bench_io pipe ito|pthread ROUND_TRIPS
 *   bench_io echo ito|pthread|epoll CONNECTIONS REQUESTS
 *   bench_io echo server CONNECTIONS REQUESTS PROGRAM [ARGUMENTS]: a server of others, which accepts on descriptor 3
 *
 * `pthread` with libito-pthread.so preloaded is the same program on light threads, compiled with -DWITHOUT_ITO: one that
 * uses libito itself stays on kernel threads.
 * Prints one JSON line. ns: time of a round trip. cpu_us: CPU time of the server for a request; the clients are another
 * process, which keeps one request of 64 bytes on its way on each connection. rss: bytes that each connection added,
 * before the first request. `epoll`: one thread, level-triggered.
 */
#define _GNU_SOURCE
#ifndef WITHOUT_ITO
#include <ito.h>
#include <ito/io.h>
#endif

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 64, BUFFER = 1024 };

static void must(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static double cpu_s(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}
static long rss_bytes_of(pid_t pid) {
    long pages = 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "r");
    must(f && fscanf(f, "%*d %ld", &pages) == 1, "statm");
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}
static long rss_bytes(void) {
    return rss_bytes_of(getpid());
}
static void rest(void) {
    nanosleep(&(struct timespec){0, 200000000}, NULL); /* all connections wait by now */
}

/* ---- the calls of each mode -------------------------------------------------------------------------------------- */

struct mode {
    const char *name;
    ssize_t (*read)(int, void *, size_t);
    ssize_t (*write)(int, const void *, size_t);
    int (*accept)(int, struct sockaddr *, socklen_t *, int);
};
static const struct mode modes[] = {
#ifndef WITHOUT_ITO
    {"ito", ito_read, ito_write, ito_accept4},
#endif
    {"pthread", read, write, accept4},
    {"epoll", NULL, NULL, NULL},
    {"server", NULL, NULL, NULL},
};
static const struct mode *mode;

#ifdef WITHOUT_ITO
static int is_ito(void) {
    return 0;
}
static void ito_begin(void) {}
static void create_ito(void *(*fn)(void *), void *arg) {
    (void)fn, (void)arg;
}
static void sleep_ms(unsigned ms) {
    usleep(ms * 1000);
}
#else
static int is_ito(void) {
    return mode->read == ito_read;
}
static void ito_begin(void) {
    must(ito_init(NULL) == 0, "ito_init");
}
static void create_ito(void *(*fn)(void *), void *arg) {
    must(ito_create(NULL, NULL, fn, arg) == 0, "ito_create");
}
static void sleep_ms(unsigned ms) {
    is_ito() ? (void)ito_sleep_ns(ms * 1000000ull) : (void)usleep(ms * 1000);
}
#endif

static void start_thread(void *(*fn)(void *), void *arg) {
    if (is_ito()) {
        create_ito(fn, arg);
        return;
    }
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    must(pthread_create(&thread, &attr, fn, arg) == 0, "pthread_create");
    pthread_attr_destroy(&attr);
}

/* ---- pipe -------------------------------------------------------------------------------------------------------- */

static int to[2], from[2];

static void *send_back(void *unused) {
    char c;
    while (mode->read(to[0], &c, 1) == 1)
        must(mode->write(from[1], &c, 1) == 1, "write");
    return unused;
}

static void run_pipe(long n) {
    char c = 'x';
    must(pipe(to) == 0 && pipe(from) == 0, "pipe");
    start_thread(send_back, NULL);
    double begin = 0, cpu = 0;
    for (long i = -n / 10; i < n; i++) {
        if (i == 0)
            begin = now_s(), cpu = cpu_s();
        must(mode->write(to[1], &c, 1) == 1 && mode->read(from[0], &c, 1) == 1, "round trip");
    }
    printf("{\"bench\":\"pipe\",\"mode\":\"%s\",\"ns\":%.0f,\"cpu_ns\":%.0f}\n", mode->name,
           (now_s() - begin) / (double)n * 1e9, (cpu_s() - cpu) / (double)n * 1e9);
}

/* ---- echo: clients ----------------------------------------------------------------------------------------------- */

static void clients(const struct sockaddr_in *at, int n, long requests, int ready, int go) {
    int epoll = epoll_create1(0);
    char data[BYTES] = {0};
    int *fds = malloc((size_t)n * sizeof *fds);
    for (int i = 0; i < n; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(fds[i], (const struct sockaddr *)at, sizeof *at) == 0, "connect");
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event) == 0, "epoll_ctl");
    }
    must(write(ready, "x", 1) == 1 && read(go, data, 1) == 1, "start");
    long sent = 0, got = 0;
    for (int i = 0; i < n && sent < requests; i++, sent++)
        must(write(fds[i], data, BYTES) == BYTES, "client's write");
    while (got < requests) {
        struct epoll_event events[64];
        int k = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < k; i++) {
            must(read(events[i].data.fd, data, BYTES) == BYTES, "client's read");
            got++;
            if (sent < requests && ++sent)
                must(write(events[i].data.fd, data, BYTES) == BYTES, "client's write");
        }
    }
    must(write(ready, "x", 1) == 1 && read(go, data, 1) == 1, "end");
    exit(0);
}

/* ---- echo: servers ----------------------------------------------------------------------------------------------- */

static atomic_int open_connections;

static void *serve(void *arg) {
    char data[BUFFER];
    int fd = (int)(intptr_t)arg;
    ssize_t n;
    while ((n = mode->read(fd, data, sizeof data)) > 0)
        must(mode->write(fd, data, (size_t)n) == n, "server's write");
    close(fd);
    atomic_fetch_sub(&open_connections, 1);
    return NULL;
}

/* One request on each connection after the other, until all are closed. */
static void serve_by_epoll(int epoll) {
    while (atomic_load(&open_connections) > 0) {
        struct epoll_event events[64];
        char data[BUFFER];
        int k = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < k; i++) {
            ssize_t n = read(events[i].data.fd, data, sizeof data);
            if (n > 0) {
                must(write(events[i].data.fd, data, (size_t)n) == n, "server's write");
            } else {
                close(events[i].data.fd);
                atomic_fetch_sub(&open_connections, 1);
            }
        }
    }
}

struct measured {
    int ready, go;
    double cpu;
};
/* Reads the clients' two signs; a kernel thread in all modes. */
static void *measure(void *arg) {
    struct measured *m = arg;
    char c;
    must(read(m->ready, &c, 1) == 1, "ready");
    rest();
    m->cpu = cpu_s();
    must(write(m->go, "x", 1) == 1 && read(m->ready, &c, 1) == 1, "go");
    m->cpu = cpu_s() - m->cpu;
    must(write(m->go, "x", 1) == 1, "go");
    return NULL;
}

static int listen_at(struct sockaddr_in *at) {
    socklen_t length = sizeof *at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(listener, (struct sockaddr *)at, sizeof *at) == 0 && listen(listener, 4096) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)at, &length) == 0, "getsockname");
    return listener;
}

static void print_echo(const char *name, int n, double cpu_us, long rss) {
    printf("{\"bench\":\"echo\",\"mode\":\"%s\",\"connections\":%d,\"cpu_us\":%.2f,\"rss\":%ld}\n", name, n, cpu_us,
           rss);
}

/* Another program's server, which is killed in the end. */
static void run_server(int n, long requests, char **program) {
    struct sockaddr_in at;
    int listener = listen_at(&at), ready[2], go[2];
    char c;
    clockid_t clock;
    struct timespec from, to;
    must(pipe(ready) == 0 && pipe(go) == 0, "pipe");
    pid_t server = fork();
    if (server == 0) {
        must(dup2(listener, 3) == 3, "dup2");
        close_range(4, ~0u, 0);
        execvp(*program, program);
        must(0, *program);
    }
    rest();
    long rss = rss_bytes_of(server);
    pid_t child = fork();
    if (child == 0)
        clients(&at, n, requests, ready[1], go[0]);
    must(read(ready[0], &c, 1) == 1, "ready");
    rest();
    rss = rss_bytes_of(server) - rss;
    must(clock_getcpuclockid(server, &clock) == 0 && clock_gettime(clock, &from) == 0, "CPU time");
    must(write(go[1], "x", 1) == 1 && read(ready[0], &c, 1) == 1, "go");
    clock_gettime(clock, &to);
    must(write(go[1], "x", 1) == 1, "go");
    waitpid(child, NULL, 0);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    double s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    print_echo(*program, n, s / (double)requests * 1e6, rss / n);
}

static void run_echo(int n, long requests) {
    struct sockaddr_in at;
    int listener = listen_at(&at), ready[2], go[2], epoll = epoll_create1(0);
    must(pipe(ready) == 0 && pipe(go) == 0, "pipe");
    pid_t child = fork();
    if (child == 0)
        clients(&at, n, requests, ready[1], go[0]);
    if (is_ito())
        ito_begin();
    struct measured m = {ready[0], go[1], 0};
    long rss = rss_bytes();
    atomic_store(&open_connections, n);
    for (int i = 0; i < n; i++) {
        int fd = mode->accept ? mode->accept(listener, NULL, NULL, 0) : accept4(listener, NULL, NULL, 0);
        must(fd >= 0, "accept");
        if (mode->read) {
            start_thread(serve, (void *)(intptr_t)fd);
        } else {
            struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
            must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
        }
    }
    pthread_t meter;
    rss = rss_bytes() - rss;
    pthread_create(&meter, NULL, measure, &m);
    if (mode->read == NULL)
        serve_by_epoll(epoll);
    while (atomic_load(&open_connections) > 0)
        sleep_ms(5);
    pthread_join(meter, NULL);
    waitpid(child, NULL, 0);
    print_echo(mode->name, n, m.cpu / (double)requests * 1e6, rss / n);
}

int main(int argc, char **argv) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (unsigned i = 0; argc > 3 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, argv[2]))
            mode = &modes[i];
    if (mode && argc == 4 && !strcmp(argv[1], "pipe") && mode->read) {
        if (is_ito())
            ito_begin();
        run_pipe(atol(argv[3]));
    } else if (mode && argc > 5 && !strcmp(argv[1], "echo") && !strcmp(mode->name, "server")) {
        run_server(atoi(argv[3]), atol(argv[4]), argv + 5);
    } else if (mode && argc == 5 && !strcmp(argv[1], "echo")) {
        run_echo(atoi(argv[3]), atol(argv[4]));
    } else {
        fprintf(
            stderr,
            "usage: bench_io pipe ito|pthread N, or echo ito|pthread|epoll|server CONNECTIONS REQUESTS [PROGRAM]\n");
        return 2;
    }
    return 0;
}
