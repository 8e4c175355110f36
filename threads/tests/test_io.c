/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ito/io.h: what each call returns on each kind of file, and that no wake-up is lost. */
#define _GNU_SOURCE
#include "team.h"

#include <ito/io.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void skip(const char *why) {
    printf("skipped: %s\n", why);
    exit(77);
}

/* errno of the worker that the caller is on now. */
static __attribute__((noinline)) int error_of(ssize_t r) {
    return r < 0 ? errno : 0;
}

static void pair(int fds[2]) {
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static ito_thread *start(void *(*fn)(void *), void *arg) {
    ito_thread *t;
    CHECK_EQ(ito_create(&t, NULL, fn, arg), 0);
    return t;
}
static intptr_t end(ito_thread *t) {
    void *result;
    CHECK_EQ(ito_join(t, &result), 0);
    return (intptr_t)result;
}

/* ---- one descriptor of each kind --------------------------------------------------------------------------------- */

static void *read_8(void *fd) {
    char data[8];
    ssize_t n = ito_read((int)(intptr_t)fd, data, sizeof data);
    return (void *)(intptr_t)(n < 0 ? -error_of(n) : n);
}

/* A thread waits in ito_read until `wake` has run. */
static void waits_until(int fd, void (*wake)(int), int wake_fd, intptr_t want) {
    ito_thread *t = start(read_8, (void *)(intptr_t)fd);
    ito_sleep_ns(2 * MS);
    if (wake)
        wake(wake_fd);
    CHECK_EQ(end(t), want);
}
static void write_8(int fd) {
    CHECK_EQ(write(fd, "12345678", 8), 8);
}
static void add_1(int fd) {
    uint64_t one = 1;
    CHECK_EQ(write(fd, &one, sizeof one), 8);
}
static void hang_up(int fd) {
    close(fd);
}
static void signal_me(int fd) {
    (void)fd;
    kill(getpid(), SIGUSR2);
}

static void pipes_and_sockets_wait(void) {
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    waits_until(fds[0], write_8, fds[1], 8);
    waits_until(fds[0], hang_up, fds[1], 0);
    close(fds[0]);
    pair(fds);
    waits_until(fds[0], write_8, fds[1], 8);
    waits_until(fds[0], hang_up, fds[1], 0);
    close(fds[0]);
}

static void event_timer_and_signal_descriptors_wait(void) {
    int fd = eventfd(0, 0);
    waits_until(fd, add_1, fd, 8);
    close(fd);
    fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec soon = {.it_value = {0, 5000000}};
    CHECK_EQ(timerfd_settime(fd, 0, &soon, NULL), 0);
    waits_until(fd, NULL, 0, 8);
    close(fd);
}

/* signalfd knows no RWF_NOWAIT; a read of 8 bytes is EINVAL in any case. */
static sigset_t usr2;
static void *read_signal(void *fd) {
    struct signalfd_siginfo info;
    ssize_t n = ito_read((int)(intptr_t)fd, &info, sizeof info);
    return (void *)(intptr_t)(n == sizeof info ? (int)info.ssi_signo : -1);
}
static void *block_usr2(void *unused) {
    (void)unused;
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    return NULL;
}
static void signals_wait(void) {
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    for (unsigned i = 0; i < ito_n_workers(); i++) {
        ito_attr attr = ITO_ATTR_INIT;
        ito_thread *t;
        attr.worker = (int)i;
        CHECK_EQ(ito_create(&t, &attr, block_usr2, NULL), 0);
        end(t);
    }
    int fd = signalfd(-1, &usr2, 0);
    ito_thread *t = start(read_signal, (void *)(intptr_t)fd);
    ito_sleep_ns(2 * MS);
    signal_me(0);
    CHECK_EQ(end(t), SIGUSR2);
    close(fd);
}

static void terminals_wait(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0)
        skip("no pseudo terminals here");
    CHECK_EQ(grantpt(master), 0);
    CHECK_EQ(unlockpt(master), 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(terminal >= 0);
    ito_thread *t = start(read_8, (void *)(intptr_t)terminal);
    ito_sleep_ns(2 * MS);
    CHECK_EQ(ito_write(master, "line\n", 5), 5);
    CHECK_EQ(end(t), 5);
    close(master);
    close(terminal);
}

static void files_are_read_and_written_whole(void) {
    enum { BYTES = 1 << 20 };
    char path[] = "/tmp/ito-io-XXXXXX", *data = malloc(BYTES), *back = malloc(BYTES);
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7 + i / 251);
    struct iovec out[2] = {{data, 1000}, {data + 1000, BYTES - 1000}}, in[2] = {{back, 7}, {back + 7, BYTES - 7}};
    CHECK_EQ(ito_writev(fd, out, 2), BYTES);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(ito_readv(fd, in, 2), BYTES);
    CHECK_EQ(memcmp(data, back, BYTES), 0);
    CHECK_EQ(ito_read(fd, back, BYTES), 0); /* at the end */
    CHECK_EQ(lseek(fd, BYTES - 10, SEEK_SET), BYTES - 10);
    CHECK_EQ(ito_read(fd, back, BYTES), 10);
    close(fd);
    free(data);
    free(back);
}

/* ---- what is not waiting ----------------------------------------------------------------------------------------- */

static void errors_are_those_of_the_call(void) {
    int fds[2];
    char c;
    ssize_t n = ito_read(-1, &c, 1);
    CHECK_EQ(n, -1);
    CHECK_EQ(error_of(n), EBADF);
    pair(fds);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    n = ito_read(fds[0], &c, 1);
    CHECK_EQ(error_of(n), EAGAIN);
    n = ito_recv(fds[1], &c, 1, MSG_DONTWAIT);
    CHECK_EQ(error_of(n), EAGAIN);
    fcntl(fds[0], F_SETFL, 0);
    CHECK_EQ(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    close(fds[1]);
    signal(SIGPIPE, SIG_IGN);
    n = ito_write(fds[0], "x", 1);
    CHECK_EQ(error_of(n), EPIPE);
    n = ito_send(fds[0], "x", 1, MSG_NOSIGNAL);
    CHECK_EQ(error_of(n), EPIPE);
    n = ito_recv(0x3fffff, &c, 1, 0);
    CHECK_EQ(error_of(n), EBADF);
    close(fds[0]);
    int file = open("/dev/null", O_RDONLY);
    n = ito_write(file, "x", 1);
    CHECK_EQ(error_of(n), EBADF);
    n = ito_recv(file, &c, 1, 0);
    CHECK_EQ(error_of(n), ENOTSOCK);
    n = ito_accept4(file, NULL, NULL, 0);
    CHECK_EQ(error_of(n), ENOTSOCK);
    close(file);
    CHECK_EQ(ito_write(1, "", 0), 0);
}

/* ---- writing more than there is room for -------------------------------------------------------------------------- */

enum { MUCH = 4 << 20 };
struct reader {
    int fd;
    uint64_t sum;
    size_t bytes;
};
static void *read_all(void *arg) {
    struct reader *r = arg;
    unsigned char data[5000];
    ssize_t n;
    while ((n = ito_read(r->fd, data, sizeof data)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            r->sum += data[i] * (r->bytes + (size_t)i + 1);
        r->bytes += (size_t)n;
    }
    CHECK_EQ(n, 0);
    return NULL;
}
static void write_much(int to, int from, int kind) {
    unsigned char *data = malloc(MUCH);
    struct reader r = {.fd = from};
    uint64_t sum = 0;
    for (size_t i = 0; i < MUCH; i++) {
        data[i] = (unsigned char)(i * 31 + i / 257);
        sum += data[i] * (i + 1);
    }
    struct iovec parts[3] = {{data, 100}, {data + 100, MUCH / 2}, {data + 100 + MUCH / 2, MUCH - 100 - MUCH / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    ito_thread *t = start(read_all, &r);
    ssize_t n = kind == 0   ? ito_write(to, data, MUCH)
                : kind == 1 ? ito_writev(to, parts, 3)
                : kind == 2 ? ito_send(to, data, MUCH, 0)
                            : ito_sendmsg(to, &message, 0);
    CHECK_EQ(n, MUCH);
    close(to);
    end(t);
    CHECK_EQ(r.bytes, MUCH);
    CHECK_EQ(r.sum, sum);
    close(from);
    free(data);
}
static void a_write_writes_everything(void) {
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    write_much(fds[1], fds[0], 0);
    CHECK_EQ(pipe(fds), 0);
    write_much(fds[1], fds[0], 1);
    for (int kind = 0; kind < 4; kind++) {
        pair(fds);
        write_much(fds[1], fds[0], kind);
    }
}

/* ---- one descriptor, several threads ----------------------------------------------------------------------------- */

static void readers_share_a_descriptor(void) {
    enum { READERS = 20 };
    ito_thread *t[READERS];
    int fds[2], total = 0;
    CHECK_EQ(pipe(fds), 0);
    for (int i = 0; i < READERS; i++)
        t[i] = start(read_8, (void *)(intptr_t)fds[0]);
    for (int i = 0; i < READERS; i++) {
        ito_sleep_ns(MS / 4);
        write_8(fds[1]);
    }
    for (int i = 0; i < READERS; i++)
        total += (int)end(t[i]);
    CHECK_EQ(total, READERS * 8);
    close(fds[0]);
    close(fds[1]);
}

static void *fill(void *fd) {
    static char data[1 << 20];
    return (void *)(intptr_t)ito_write((int)(intptr_t)fd, data, sizeof data);
}
/* One thread waits to read, another to write, on the same number. */
static void reading_and_writing_at_once(void) {
    int fds[2];
    char data[4096];
    pair(fds);
    ito_thread *writer = start(fill, (void *)(intptr_t)fds[0]), *reader = start(read_8, (void *)(intptr_t)fds[0]);
    ito_sleep_ns(2 * MS);
    write_8(fds[1]);
    CHECK_EQ(end(reader), 8);
    for (size_t left = 1 << 20; left > 0;) {
        ssize_t n = ito_recv(fds[1], data, sizeof data, 0);
        CHECK(n > 0);
        left -= (size_t)n;
    }
    CHECK_EQ(end(writer), 1 << 20);
    close(fds[0]);
    close(fds[1]);
}

/* Is this descriptor registered with an epoll of this process, to be told of once? */
static int is_waited_for(int fd) {
    char path[64], line[128];
    int found = 0;
    for (int epoll = 3; epoll < 64 && !found; epoll++) {
        int number;
        unsigned events;
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
        FILE *info = fopen(path, "r");
        while (info && fgets(line, sizeof line, info))
            found |= sscanf(line, "tfd: %d events: %x", &number, &events) == 2 && number == fd && events & EPOLLIN;
        if (info)
            fclose(info);
    }
    return found;
}
/* Closed by ito_close while a thread waits; closed by close(2), and the number used again; copied. */
static void numbers_are_closed_copied_and_used_again(void) {
    int fds[2], other[2];
    CHECK_EQ(pipe(fds), 0);
    ito_thread *t = start(read_8, (void *)(intptr_t)fds[0]);
    while (!is_waited_for(fds[0]))
        ito_yield();
    CHECK_EQ(ito_close(fds[0]), 0);
    CHECK_EQ(end(t), -EBADF);
    close(fds[1]);

    for (int copied = 0; copied < 2; copied++) {
        CHECK_EQ(pipe(fds), 0);
        CHECK_EQ(pipe(other), 0);
        int copy = copied ? dup(fds[0]) : -1;
        ito_thread *old = start(read_8, (void *)(intptr_t)fds[0]);
        while (!is_waited_for(fds[0]))
            ito_sleep_ns(MS);
        CHECK_EQ(dup2(other[0], fds[0]), fds[0]); /* another file, the same number */
        ito_thread *new = start(read_8, (void *)(intptr_t)fds[0]);
        CHECK_EQ(end(old), -EBADF);
        if (copied)
            write_8(fds[1]); /* an event of the old file, which is still open */
        ito_sleep_ns(MS);
        write_8(other[1]);
        CHECK_EQ(end(new), 8);
        close(fds[0]);
        close(fds[1]);
        close(other[0]);
        close(other[1]);
        close(copy);
    }
}

/* A reader that begins to wait when ito_close has woken those before it, and close(2) has not happened yet. */
static struct {
    int fd; /* 0: nobody's */
    ito_thread *reader;
} late;
int close(int fd) {
    if (fd != 0 && fd == late.fd) {
        late.fd = 0;
        late.reader = start(read_8, (void *)(intptr_t)fd);
        while (!is_waited_for(fd))
            ito_yield();
    }
    return (int)syscall(SYS_close, fd);
}
static void a_wait_that_begins_while_its_descriptor_is_closed_ends(void) {
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    late.fd = fds[0];
    CHECK_EQ(ito_close(fds[0]), 0);
    CHECK_EQ(end(late.reader), -EBADF);
    close(fds[1]);
}

/* A number that was a stream socket's is a file's, a pipe's, that of packets, and nobody's: what was learnt of it is not believed. */
static void numbers_change_their_kind(void) {
    enum { BYTES = 100000 };
    char path[] = "/tmp/ito-io-XXXXXX", data[BYTES] = {0}, back[BYTES];
    int fds[2], other[2], file = mkstemp(path);
    CHECK(file >= 0);
    unlink(path);
    CHECK_EQ(write(file, data, BYTES), BYTES);
    pair(fds);
    int fd = fds[0];
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(ito_write(fd, "12345678", 8), 8);
        write_8(fds[1]);
        CHECK_EQ((intptr_t)read_8((void *)(intptr_t)fd), 8);
        if (i == 0) {
            CHECK_EQ(dup2(file, fd), fd);
            for (int parts = 1; parts <= 2; parts++) {
                struct iovec in[2] = {{back, parts == 1 ? BYTES : 7}, {back + 7, BYTES - 7}};
                posix_fadvise(fd, 50000, 0, POSIX_FADV_DONTNEED);
                CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
                CHECK_EQ(parts == 1 ? ito_read(fd, back, BYTES) : ito_readv(fd, in, 2), BYTES);
            }
            CHECK_EQ(ito_write(fd, data, 10), 10);
        } else if (i == 1) {
            CHECK_EQ(pipe(other), 0);
            CHECK_EQ(dup2(other[1], fd), fd);
            CHECK_EQ(ito_write(fd, data, 10), 10);
            CHECK_EQ(dup2(other[0], fd), fd);
            CHECK_EQ(ito_read(fd, back, BYTES), 10);
            close(other[0]);
            close(other[1]);
        } else {
            CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, other), 0);
            CHECK_EQ(dup2(other[0], fd), fd);
            CHECK_EQ(ito_write(fd, data, 10), 10);
            CHECK_EQ(ito_write(other[1], data, 20), 20);
            CHECK_EQ(ito_read(fd, back, BYTES), 20);
            CHECK_EQ(ito_read(fd, back, 0), 0);
            close(other[0]);
            close(other[1]);
        }
        close(fds[1]);
        pair(fds);
        CHECK_EQ(dup2(fds[0], fd), fd); /* a socket again */
        close(fds[0]);
        CHECK_EQ(ito_read(fd, back, 0), 0);
    }
    CHECK_EQ(ito_write(fd, data, 0), 0);
    close(fd);
    ssize_t n = ito_read(fd, back, 1);
    CHECK_EQ(error_of(n), EBADF);
    n = ito_write(fd, back, 1);
    CHECK_EQ(error_of(n), EBADF);
    close(fds[1]);
    close(file);
}

/* ---- poll -------------------------------------------------------------------------------------------------------- */

static void *poll_forever(void *arg) {
    return (void *)(intptr_t)ito_poll(arg, 20, -1);
}
static void poll_waits_for_one_of_many(void) {
    int fds[20][2];
    struct pollfd p[20];
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pipe(fds[i]), 0);
        p[i] = (struct pollfd){i == 3 ? -1 : fds[i][0], POLLIN, -1};
    }
    uint64_t before = ito_now_ns();
    CHECK_EQ(ito_poll(p, 20, 5), 0); /* nothing there: 5 ms */
    CHECK(ito_now_ns() - before >= 5 * MS);
    CHECK_EQ(p[7].revents, 0);
    CHECK_EQ(ito_poll(NULL, 0, 1), 0);
    ito_thread *t = start(poll_forever, p);
    ito_sleep_ns(MS);
    write_8(fds[3][1]); /* not asked for */
    write_8(fds[11][1]);
    CHECK_EQ(end(t), 1);
    CHECK_EQ(p[11].revents, POLLIN);
    CHECK_EQ(p[3].revents, 0);
    t = start(poll_forever, p + 0);
    CHECK_EQ(end(t), 1); /* still there */
    CHECK_EQ(read(fds[11][0], (char[8]){0}, 8), 8);
    t = start(poll_forever, p);
    ito_sleep_ns(MS);
    int closed = fds[5][0];
    ito_close(closed);
    CHECK_EQ(end(t), 1);
    CHECK_EQ(p[5].revents, POLLNVAL);
    for (int i = 0; i < 20; i++) {
        if (i != 5)
            close(fds[i][0]);
        close(fds[i][1]);
    }
}

/* A deadline and the event come at about the same time, many times. */
static void *write_soon(void *arg) {
    int fd = *(int *)arg;
    ito_sleep_ns(MS + random_of((uint64_t)fd) % 1000);
    write_8(fd);
    return NULL;
}
static void deadlines_lose_no_events(void) {
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    for (int i = 0, n = check_scale(200); i < n; i++) {
        struct pollfd p = {fds[0], POLLIN, 0};
        ito_thread *t = start(write_soon, &fds[1]);
        int r = ito_poll(&p, 1, 1);
        CHECK(r == 0 || (r == 1 && p.revents == POLLIN));
        end(t);
        CHECK_EQ(ito_poll(&p, 1, -1), 1);
        CHECK_EQ((intptr_t)read_8((void *)(intptr_t)fds[0]), 8);
    }
    close(fds[0]);
    close(fds[1]);
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

static int listen_here(struct sockaddr_in *at) {
    socklen_t length = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(bind(fd, (struct sockaddr *)at, sizeof *at), 0);
    CHECK_EQ(listen(fd, 1024), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)at, &length), 0);
    return fd;
}
static void *serve_one(void *fd) {
    char data[512];
    ssize_t n;
    while ((n = ito_recv((int)(intptr_t)fd, data, sizeof data, 0)) > 0)
        CHECK_EQ(ito_send((int)(intptr_t)fd, data, (size_t)n, MSG_NOSIGNAL), n);
    CHECK_EQ(n, 0);
    close((int)(intptr_t)fd);
    return NULL;
}
struct server {
    int listener, n;
    struct sockaddr_in at;
    atomic_int accepted;
};
static void *accept_all(void *arg) {
    struct server *s = arg;
    while (atomic_fetch_add(&s->accepted, 1) < s->n) {
        int fd = ito_accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        CHECK(fd >= 0);
        CHECK_EQ(ito_create(NULL, NULL, serve_one, (void *)(intptr_t)fd), 0);
    }
    return NULL;
}
static void *one_client(void *arg) {
    struct member *m = arg;
    struct server *s = m->arg;
    uint64_t random = random_of((uint64_t)m->index);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK_EQ(ito_connect(fd, (struct sockaddr *)&s->at, sizeof s->at), 0);
    for (int i = 0; i < 5; i++) {
        char out[300], in[300];
        size_t bytes = 1 + check_random(&random) % sizeof out, got = 0;
        memset(out, m->index + i, bytes);
        delay(&random);
        CHECK_EQ(ito_write(fd, out, bytes), bytes);
        while (got < bytes) {
            ssize_t n = ito_read(fd, in + got, bytes - got);
            CHECK(n > 0);
            got += (size_t)n;
        }
        CHECK_EQ(memcmp(in, out, bytes), 0);
    }
    close(fd);
    return NULL;
}
/* A server with a thread for each connection, four that accept, and its clients, in one process. */
static void a_thousand_connections(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    struct server s = {.n = check_scale(1000)};
    s.listener = listen_here(&s.at);
    ito_thread *acceptors[4];
    for (int i = 0; i < 4; i++)
        acceptors[i] = start(accept_all, &s);
    team_run(s.n, one_client, &s);
    for (int i = 0; i < 4; i++)
        end(acceptors[i]);
    close(s.listener);
}

/* ---- stress ------------------------------------------------------------------------------------------------------ */

struct ring {
    int fds[16][2];
    int turns;
};
/* Bytes go round through pipes; each member waits for the one before, with delays. */
static void *pass_on(void *arg) {
    struct member *m = arg;
    struct ring *ring = m->arg;
    uint64_t random = random_of((uint64_t)m->index + 100);
    char c;
    for (int i = 0; i < ring->turns; i++) {
        if (i % 3 == 0) {
            struct pollfd p = {ring->fds[m->index][0], POLLIN, 0};
            while (ito_poll(&p, 1, (int)(check_random(&random) % 3)) == 0)
                ;
        }
        CHECK_EQ(ito_read(ring->fds[m->index][0], &c, 1), 1);
        delay(&random);
        CHECK_EQ(ito_write(ring->fds[(m->index + 1) % 16][1], &c, 1), 1);
    }
    return NULL;
}
static void bytes_go_round(void) {
    struct ring ring = {.turns = check_scale(2000)};
    for (int i = 0; i < 16; i++)
        CHECK_EQ(pipe(ring.fds[i]), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(write(ring.fds[3 * i][1], "x", 1), 1);
    team_run(16, pass_on, &ring);
    for (int i = 0; i < 16; i++)
        close(ring.fds[i][0]), close(ring.fds[i][1]);
}

/* ---- calls that wait in the kernel ------------------------------------------------------------------------------- */

static void *sleep_20_ms(void *arg) {
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    return arg;
}
static void *call_20_ms(void *arg) {
    return ito_blocking(sleep_20_ms, arg);
}
/* More threads wait in the kernel than there are workers; all of them at the same time: none returns before the last one is
 * there. Calls that went one after the other, or on as many kernel threads as there are workers, would never all be in. */
static atomic_int n_in_calls;
static int gate_of_calls[2];
static void *wait_at_gate(void *arg) {
    char c;
    atomic_fetch_add(&n_in_calls, 1);
    CHECK_EQ(read(gate_of_calls[0], &c, 1), 1);
    return arg;
}
static void *call_gate(void *arg) {
    return ito_blocking(wait_at_gate, arg);
}
static void calls_wait_beside_each_other(void) {
    enum { CALLS = 100 };
    static const char byte[CALLS];
    ito_thread *t[CALLS];
    uint64_t give_up = 0;
    CHECK_EQ(pipe(gate_of_calls), 0);
    for (intptr_t i = 0; i < CALLS; i++)
        t[i] = start(call_gate, (void *)i);
    while (atomic_load(&n_in_calls) < CALLS && check_is_early(&give_up))
        ito_sleep_ns(MS);
    CHECK_EQ(atomic_load(&n_in_calls), CALLS);
    CHECK_EQ(write(gate_of_calls[1], byte, CALLS), CALLS);
    for (intptr_t i = 0; i < CALLS; i++)
        CHECK_EQ(end(t[i]), i);
    close(gate_of_calls[0]);
    close(gate_of_calls[1]);
}

/* Threads wait in a plain read(2); the one that writes needs a worker. */
static void *wait_for_byte(void *fd) {
    char c;
    return (void *)(intptr_t)read((int)(intptr_t)fd, &c, 1);
}
static void *call_read(void *fd) {
    return ito_blocking(wait_for_byte, fd);
}
static void a_call_holds_up_nobody(void) {
    enum { READERS = 3 };
    ito_thread *t[READERS];
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    for (int i = 0, n = check_scale(50); i < n; i++) {
        for (int k = 0; k < READERS; k++)
            t[k] = start(call_read, (void *)(intptr_t)fds[0]);
        CHECK_EQ(ito_write(fds[1], "abc", READERS), READERS);
        for (int k = 0; k < READERS; k++)
            CHECK_EQ(end(t[k]), 1);
    }
    close(fds[0]);
    close(fds[1]);
}

/* errno, and the thread's own data, are there after a call during which its worker went to another kernel thread. */
static void *call_and_check(void *arg) {
    struct member *m = arg;
    uint64_t random = random_of((uint64_t)m->index + 7);
    for (int i = 0, n = check_scale(30); i < n; i++) {
        ito_call call;
        ito_blocking_begin(&call, "test");
        CHECK_EQ(ito_worker_index(), UINT32_MAX);
        if (check_random(&random) % 4 == 0)
            nanosleep(&(struct timespec){0, (long)(check_random(&random) % 400000)}, NULL);
        close(-1); /* EBADF */
        ito_blocking_end(&call);
        CHECK_EQ(error_of(-1), EBADF);
        CHECK(ito_worker_index() < ito_n_workers());
        delay(&random);
    }
    return NULL;
}
static void calls_keep_errno(void) {
    team_run(30, call_and_check, NULL);
}

/* In a call, the thread is a kernel thread like others, and may wake and wait. */
static ito_sem inside = ITO_SEM_INIT(0), outside = ITO_SEM_INIT(0);
static void *talk(void *arg) {
    ito_sem_post(&outside);
    ito_sem_wait(&inside);
    return arg;
}
static void *in_a_call(void *arg) {
    return ito_blocking(talk, arg);
}
static void threads_in_calls_take_part(void) {
    for (intptr_t i = 0, n = check_scale(50); i < n; i++) {
        ito_thread *t = start(in_a_call, (void *)i);
        ito_sem_wait(&outside);
        ito_sem_post(&inside);
        CHECK_EQ(end(t), i);
    }
}

/* A worker with a bound thread keeps its kernel thread. */
static void *kernel_thread(void *arg) {
    pthread_t *self = arg;
    *self = pthread_self();
    call_20_ms(NULL);
    CHECK(pthread_equal(*self, pthread_self()));
    return NULL;
}
static void bound_threads_keep_their_kernel_thread(void) {
    ito_attr attr = ITO_ATTR_INIT;
    pthread_t self;
    ito_thread *t;
    attr.worker = (int)ito_n_workers() - 1;
    CHECK_EQ(ito_create(&t, &attr, kernel_thread, &self), 0);
    end(t);
}

/* ito_fini returns on the kernel thread that called ito_init, also when worker 0 went to another meanwhile. */
static void the_root_thread_comes_home(void) {
    pthread_t self = pthread_self();
    for (int i = 0; i < 5; i++) {
        call_20_ms(NULL);
        ito_thread *t = start(call_20_ms, NULL);
        call_20_ms(NULL);
        end(t);
        CHECK_EQ(ito_fini(), 0);
        CHECK(pthread_equal(self, pthread_self()));
        CHECK_EQ(ito_init(NULL), 0);
    }
}

/* A thread computes and never switches; another's I/O goes on all the same where there is a second worker. */
static atomic_int stop;
static void *compute(void *unused) {
    (void)unused;
    while (!atomic_load(&stop))
        ;
    return NULL;
}
static void *foreign_writes(void *fd) {
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    write_8((int)(intptr_t)fd);
    return NULL;
}
static void *read_and_stop(void *fd) {
    void *r = read_8(fd);
    atomic_store(&stop, 1);
    return r;
}
static void computing_threads_do_not_hold_up_io(void) {
    int fds[2];
    pthread_t writer;
    if (ito_n_workers() < 2)
        skip("needs a second worker");
    CHECK_EQ(pipe(fds), 0);
    ito_thread *reader = start(read_and_stop, (void *)(intptr_t)fds[0]);
    CHECK_EQ(pthread_create(&writer, NULL, foreign_writes, (void *)(intptr_t)fds[1]), 0);
    ito_thread *t = start(compute, NULL);
    end(t);
    CHECK_EQ(end(reader), 8);
    pthread_join(writer, NULL);
    close(fds[0]);
    close(fds[1]);
}

/* A child has nothing of the parent's waits, and may begin anew. */
static void a_child_of_fork_waits_for_itself(void) {
    int fds[2], status;
    CHECK_EQ(pipe(fds), 0);
    ito_thread *t = start(read_8, (void *)(intptr_t)fds[0]);
    ito_sleep_ns(2 * MS);
    pid_t child = fork();
    if (child == 0) {
        int own[2];
        alarm(200); /* a child that hangs fails */
        CHECK_EQ(pipe(own), 0);
        CHECK_EQ(dup2(own[0], fds[0]), fds[0]);
        CHECK_EQ(ito_init(NULL), 0);
        waits_until(fds[0], write_8, own[1], 8);
        call_20_ms(NULL);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    write_8(fds[1]);
    CHECK_EQ(end(t), 8);
    close(fds[0]);
    close(fds[1]);
}

static int start_pool(void) {
    return ito_init(NULL);
}

static const struct check_test tests[] = {
    {"pipes_and_sockets_wait", pipes_and_sockets_wait},
    {"event_timer_and_signal_descriptors_wait", event_timer_and_signal_descriptors_wait},
    {"signals_wait", signals_wait},
    {"terminals_wait", terminals_wait},
    {"files_are_read_and_written_whole", files_are_read_and_written_whole},
    {"errors_are_those_of_the_call", errors_are_those_of_the_call},
    {"a_write_writes_everything", a_write_writes_everything},
    {"readers_share_a_descriptor", readers_share_a_descriptor},
    {"reading_and_writing_at_once", reading_and_writing_at_once},
    {"numbers_are_closed_copied_and_used_again", numbers_are_closed_copied_and_used_again},
    {"a_wait_that_begins_while_its_descriptor_is_closed_ends", a_wait_that_begins_while_its_descriptor_is_closed_ends},
    {"numbers_change_their_kind", numbers_change_their_kind},
    {"poll_waits_for_one_of_many", poll_waits_for_one_of_many},
    {"deadlines_lose_no_events", deadlines_lose_no_events},
    {"a_thousand_connections", a_thousand_connections},
    {"bytes_go_round", bytes_go_round},
    {"calls_wait_beside_each_other", calls_wait_beside_each_other},
    {"a_call_holds_up_nobody", a_call_holds_up_nobody},
    {"calls_keep_errno", calls_keep_errno},
    {"threads_in_calls_take_part", threads_in_calls_take_part},
    {"bound_threads_keep_their_kernel_thread", bound_threads_keep_their_kernel_thread},
    {"the_root_thread_comes_home", the_root_thread_comes_home},
    {"a_child_of_fork_waits_for_itself", a_child_of_fork_waits_for_itself},
    {"computing_threads_do_not_hold_up_io", computing_threads_do_not_hold_up_io},
    {NULL, NULL},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, tests, start_pool, ito_fini);
}
