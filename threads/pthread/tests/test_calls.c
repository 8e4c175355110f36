/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every call that waits: what ends it gives the result that it has on kernel threads, be it an event, a cancellation or a handler, and where
 * the thread can wait without a kernel thread, hundreds do. See test_threads.c. */
#define _GNU_SOURCE
#include "check.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a thread waits for: in[0] becomes readable, out[0] writable, when somebody releases it. */
struct place {
    const struct kind *kind;
    int in[2], out[2], epoll, file, other_file, listener, event;
    int message_queue, semaphores;
    mqd_t queue;
    struct aiocb input;
    char byte;
    struct sockaddr_un address;
    pid_t child;
    int child_end[2];
    int result, error;
    atomic_int began, done;
};

struct kind {
    const char *name;
    int (*call)(struct place *);
    void (*release)(struct place *);
    int flags;
};
enum {
    ENDS = 1,      /* any handler ends it, also one with SA_RESTART */
    NO_POINT = 2,  /* no cancellation point */
    CARRIED = 4,   /* needs a kernel thread while it waits */
    CHILD = 8,     /* has a child process */
    NO_EVENT = 16, /* only time ends it */
};

/* ---- the calls: 1 where it gave what it should ------------------------------------------------------------------- */

static int c_read(struct place *p) {
    char c;
    return (int)read(p->in[0], &c, 1);
}
static int c_write(struct place *p) {
    return (int)write(p->out[0], "x", 1);
}
static int c_recv(struct place *p) {
    char c;
    return (int)recv(p->in[0], &c, 1, 0);
}
static int c_recvfrom(struct place *p) {
    char c;
    return (int)recvfrom(p->in[0], &c, 1, 0, NULL, NULL);
}
static int c_sendmsg(struct place *p) {
    struct iovec part = {"x", 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    return (int)sendmsg(p->out[0], &m, 0);
}
static int c_recvmmsg(struct place *p) {
    char c;
    struct iovec part = {&c, 1};
    struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
                           {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
    return recvmmsg(p->in[0], m, 2, MSG_WAITFORONE, NULL);
}
static int c_sendmmsg(struct place *p) {
    struct iovec part = {"x", 1};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    return sendmmsg(p->out[0], &m, 1, 0);
}
static int c_accept(struct place *p) {
    int fd = accept(p->listener, NULL, NULL);
    if (fd < 0)
        return -1;
    close(fd);
    return 1;
}
static int c_poll(struct place *p) {
    struct pollfd f = {p->in[0], POLLIN, 0};
    return poll(&f, 1, -1);
}
static int c_ppoll(struct place *p) {
    struct pollfd f = {p->in[0], POLLIN, 0};
    struct timespec t = {1000, 0};
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    int r = ppoll(&f, 1, &t, &mask);
    CHECK(t.tv_sec == 1000);
    return r;
}
static int c_select(struct place *p) {
    fd_set in, out;
    struct timeval left = {1000, 0};
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(p->in[0], &in);
    FD_SET(p->out[0], &out);
    int r = select((p->in[0] > p->out[0] ? p->in[0] : p->out[0]) + 1, &in, &out, NULL, &left);
    CHECK(r < 0 || (r == 1 && FD_ISSET(p->in[0], &in) && !FD_ISSET(p->out[0], &out) && left.tv_sec >= 900));
    CHECK(r > 0 || (FD_ISSET(p->in[0], &in) && FD_ISSET(p->out[0], &out)));
    return r;
}
static int c_pselect(struct place *p) {
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(p->in[0], &in);
    FD_SET(p->out[0], &out);
    return pselect(p->out[0] + p->in[0] + 1 > FD_SETSIZE ? FD_SETSIZE : p->out[0] + p->in[0] + 1, &in, NULL, NULL, NULL,
                   NULL);
}
static int c_epoll_wait(struct place *p) {
    struct epoll_event e[2];
    int r = epoll_wait(p->epoll, e, 2, -1);
    CHECK(r < 0 || (r == 1 && e[0].data.fd == p->in[0]));
    return r;
}
static int c_epoll_pwait(struct place *p) {
    struct epoll_event e[2];
    return epoll_pwait(p->epoll, e, 2, 1000000, NULL);
}
static int c_eventfd(struct place *p) {
    eventfd_t value;
    int r = eventfd_read(p->event, &value);
    return r < 0 ? r : (int)value;
}
static int c_waitpid(struct place *p) {
    int status;
    pid_t r = waitpid(p->child, &status, 0);
    CHECK(r < 0 || (r == p->child && WIFEXITED(status) && WEXITSTATUS(status) == 7));
    return r < 0 ? -1 : 1;
}
static int c_waitid(struct place *p) {
    siginfo_t info;
    int r = waitid(P_PID, (id_t)p->child, &info, WEXITED);
    CHECK(r < 0 || (info.si_pid == p->child && info.si_status == 7 && info.si_code == CLD_EXITED));
    return r < 0 ? -1 : 1;
}
static int c_wait4(struct place *p) { /* the process group: only the kernel can wait for it */
    int status;
    pid_t r = wait4(-p->child, &status, 0, NULL);
    return r < 0 ? -1 : 1;
}
static int c_splice(struct place *p) {
    int to[2];
    CHECK(pipe(to) == 0);
    int r = (int)splice(p->in[0], NULL, to[1], NULL, 100, 0), error = errno;
    close(to[0]);
    close(to[1]);
    errno = error;
    return r;
}
static int c_sendfile(struct place *p) {
    off_t at = 0;
    return (int)sendfile(p->out[0], p->file, &at, 1);
}
static int c_flock(struct place *p) {
    return flock(p->file, LOCK_EX) ? -1 : 1;
}
static int c_fcntl(struct place *p) {
    struct flock lock = {.l_type = F_WRLCK};
    return fcntl(p->file, F_OFD_SETLKW, &lock) ? -1 : 1;
}
static int c_msgrcv(struct place *p) {
    struct {
        long type;
        char text[1];
    } m;
    return (int)msgrcv(p->message_queue, &m, 1, 0, 0);
}
static int c_semop(struct place *p) {
    struct sembuf down = {0, -1, 0};
    return semop(p->semaphores, &down, 1) ? -1 : 1;
}
static int c_semtimedop(struct place *p) {
    struct sembuf down = {0, -1, 0};
    struct timespec t = {1000, 0};
    return semtimedop(p->semaphores, &down, 1, &t) ? -1 : 1;
}
static int c_syscall(struct place *p) {
    struct sembuf down = {0, -1, 0};
    return syscall(SYS_semtimedop, p->semaphores, &down, 1, NULL) ? -1 : 1;
}
static int c_mq_receive(struct place *p) {
    char message[8];
    return (int)mq_receive(p->queue, message, sizeof message, NULL);
}
static int c_mq_timedreceive(struct place *p) {
    char message[8];
    struct timespec end = {4000000000, 0};
    return (int)mq_timedreceive(p->queue, message, sizeof message, NULL, &end);
}
static int c_aio_suspend(struct place *p) {
    const struct aiocb *list = &p->input;
    return aio_suspend(&list, 1, NULL) ? -1 : 1;
}
static int c_nanosleep(struct place *p) {
    struct timespec t = {1000, 0};
    (void)p;
    return nanosleep(&t, NULL);
}
static int c_boottime(struct place *p) {
    struct timespec t = {1000, 0};
    (void)p;
    errno = clock_nanosleep(CLOCK_BOOTTIME, 0, &t, NULL);
    return errno ? -1 : 0;
}

/* ---- what ends them ---------------------------------------------------------------------------------------------- */

static void r_in(struct place *p) {
    CHECK(write(p->in[1], "x", 1) == 1);
}
static void r_event(struct place *p) {
    CHECK(eventfd_write(p->event, 1) == 0);
}
static void r_out(struct place *p) {
    char data[4096];
    fcntl(p->out[1], F_SETFL, O_NONBLOCK);
    while (read(p->out[1], data, sizeof data) > 0)
        ;
}
static void r_accept(struct place *p) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&p->address, sizeof p->address) == 0);
    close(fd);
}
static void r_child(struct place *p) {
    CHECK(write(p->child_end[1], "x", 1) == 1);
}
static void r_lock(struct place *p) {
    close(p->other_file);
    p->other_file = -1;
}
static void r_message(struct place *p) {
    struct {
        long type;
        char text[1];
    } m = {1, {0}};
    CHECK(msgsnd(p->message_queue, &m, 1, 0) == 0);
}
static void r_semaphore(struct place *p) {
    struct sembuf up = {0, 1, 0};
    CHECK(semop(p->semaphores, &up, 1) == 0);
}

static void r_queue(struct place *p) {
    CHECK(mq_send(p->queue, "x", 1, 0) == 0);
}

static const struct kind kinds[] = {
    {"read", c_read, r_in, 0},
    {"write", c_write, r_out, 0},
    {"recv", c_recv, r_in, 0},
    {"recvfrom", c_recvfrom, r_in, 0},
    {"sendmsg", c_sendmsg, r_out, 0},
    {"recvmmsg", c_recvmmsg, r_in, 0},
    {"sendmmsg", c_sendmmsg, r_out, 0},
    {"accept", c_accept, r_accept, 0},
    {"poll", c_poll, r_in, ENDS},
    {"ppoll", c_ppoll, r_in, ENDS},
    {"select", c_select, r_in, ENDS},
    {"pselect", c_pselect, r_in, ENDS},
    {"epoll_wait", c_epoll_wait, r_in, ENDS},
    {"epoll_pwait", c_epoll_pwait, r_in, ENDS},
    {"eventfd_read", c_eventfd, r_event, 0},
    {"waitpid", c_waitpid, r_child, CHILD},
    {"waitid", c_waitid, r_child, CHILD},
    {"splice", c_splice, r_in, NO_POINT},
    {"sendfile", c_sendfile, r_out, NO_POINT},
    {"wait4", c_wait4, r_child, CHILD | CARRIED}, /* from here on there are kernel threads for them, which stay */
    {"flock", c_flock, r_lock, CARRIED | NO_POINT},
    {"fcntl", c_fcntl, r_lock, CARRIED},
    {"msgrcv", c_msgrcv, r_message, CARRIED | ENDS},
    {"semop", c_semop, r_semaphore, CARRIED | ENDS | NO_POINT},
    {"semtimedop", c_semtimedop, r_semaphore, CARRIED | ENDS | NO_POINT},
    {"syscall", c_syscall, r_semaphore, CARRIED | ENDS | NO_POINT},
    {"mq_receive", c_mq_receive, r_queue, CARRIED},
    {"mq_timedreceive", c_mq_timedreceive, r_queue, CARRIED},
    {"aio_suspend", c_aio_suspend, r_in, CARRIED},
    {"nanosleep", c_nanosleep, NULL, ENDS | NO_EVENT},
    {"clock_nanosleep", c_boottime, NULL, CARRIED | ENDS | NO_EVENT},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void fill(int fd) {
    static char data[4096];
    int status = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, status | O_NONBLOCK);
    for (size_t n = sizeof data; n; n /= 2)
        while (write(fd, data, n) > 0)
            ;
    fcntl(fd, F_SETFL, status);
}

static void child(struct place *p) {
    char c;
    CHECK(pipe(p->child_end) == 0);
    p->child = fork();
    CHECK(p->child >= 0);
    if (p->child == 0) {
        setpgid(0, 0);
        close(p->child_end[1]);
        _exit(read(p->child_end[0], &c, 1) == 1 ? 7 : 8);
    }
    setpgid(p->child, p->child);
    close(p->child_end[0]);
}

/* A pipe for splice, as one of its two must be; its own is the other. */
static void place_make(struct place *p, const struct kind *kind) {
    char path[] = "/tmp/ito-calls-XXXXXX";
    static atomic_int number;
    *p = (struct place){
        .kind = kind, .child = -1, .message_queue = -1, .semaphores = -1, .queue = -1, .address.sun_family = AF_UNIX};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, p->in) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, p->out) == 0);
    fill(p->out[0]);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = p->in[0]};
    CHECK(epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->in[0], &e) == 0);
    p->event = eventfd(0, EFD_CLOEXEC);
    p->file = mkstemp(path);
    CHECK(p->file >= 0 && write(p->file, "hello", 5) == 5);
    p->other_file = open(path, O_RDWR);
    unlink(path);
    if (kind->call == c_flock)
        CHECK(flock(p->other_file, LOCK_EX) == 0);
    struct flock lock = {.l_type = F_WRLCK};
    if (kind->call == c_fcntl)
        CHECK(fcntl(p->other_file, F_OFD_SETLK, &lock) == 0);
    if (kind->call == c_accept) {
        snprintf(p->address.sun_path + 1, sizeof p->address.sun_path - 1, "ito-calls-%d-%d", (int)getpid(),
                 atomic_fetch_add(&number, 1));
        p->listener = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(bind(p->listener, (struct sockaddr *)&p->address, sizeof p->address) == 0 && listen(p->listener, 5) == 0);
    }
    if (kind->call == c_msgrcv)
        CHECK((p->message_queue = msgget(IPC_PRIVATE, 0600)) >= 0);
    if (kind->call == c_semop || kind->call == c_semtimedop || kind->call == c_syscall)
        CHECK((p->semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
    if (kind->call == c_mq_receive || kind->call == c_mq_timedreceive) {
        char name[64];
        struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 8};
        snprintf(name, sizeof name, "/ito-calls-%d-%d", (int)getpid(), atomic_fetch_add(&number, 1));
        CHECK((p->queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr)) >= 0 && mq_unlink(name) == 0);
    }
    if (kind->call == c_aio_suspend) {
        p->input = (struct aiocb){.aio_fildes = p->in[0], .aio_buf = &p->byte, .aio_nbytes = 1};
        CHECK(aio_read(&p->input) == 0);
    }
    if (kind->flags & CHILD)
        child(p);
}

static void place_end(struct place *p) {
    int fds[] = {p->in[0], p->in[1], p->out[0], p->out[1], p->epoll, p->file, p->event};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    if (p->other_file >= 0)
        close(p->other_file);
    if (p->listener)
        close(p->listener);
    while (p->input.aio_buf && aio_error(&p->input) == EINPROGRESS) /* until it finds the end of in[0] */
        usleep(100);
    if (p->queue >= 0)
        mq_close(p->queue);
    if (p->message_queue >= 0)
        msgctl(p->message_queue, IPC_RMID, NULL);
    if (p->semaphores >= 0)
        semctl(p->semaphores, 0, IPC_RMID);
    if (p->child > 0) {
        close(p->child_end[1]);
        kill(p->child, SIGKILL);
        waitpid(p->child, NULL, 0);
    }
}

static void *waits(void *arg) {
    struct place *p = arg;
    atomic_store(&p->began, 1);
    errno = 0;
    p->result = p->kind->call(p);
    p->error = errno;
    atomic_store(&p->done, 1);
    return p;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void expect(bool ok, const struct kind *kind, const struct place *p) {
    if (ok)
        return;
    fprintf(stderr, "%s: %d, errno %d\n", kind->name, p->result, p->error);
    abort();
}

/* Events end all of them, also where more wait than there may be kernel threads. */
static void ended_by_events(void) {
    enum { MANY = 40 };
    static struct place p[MANY];
    pthread_t t[MANY];
    bool carried = false;
    for (int k = 0; k < KINDS; k++) {
        const struct kind *kind = &kinds[k];
        carried |= kind->flags & CARRIED;
        if (kind->flags & NO_EVENT)
            continue;
        for (int i = 0; i < MANY; i++) {
            place_make(&p[i], kind);
            CHECK(pthread_create(&t[i], NULL, waits, &p[i]) == 0);
        }
        for (int i = 0; i < MANY; i++)
            while (!atomic_load(&p[i].began))
                pause_ms(1);
        pause_ms(20);
        if (getenv("LIGHT") && !carried && tasks() >= MANY / 2)
            fprintf(stderr, "%s: %d kernel threads\n", kind->name, tasks()), abort();
        for (int i = MANY - 1; i >= 0; i--) {
            CHECK(!atomic_load(&p[i].done));
            kind->release(&p[i]);
        }
        for (int i = 0; i < MANY; i++) {
            CHECK(pthread_join(t[i], NULL) == 0);
            expect(p[i].result == 1, kind, &p[i]);
            place_end(&p[i]);
        }
    }
}

/* A cancellation ends all that are cancellation points. */
static void ended_by_cancellation(void) {
    static struct place p[KINDS];
    pthread_t t[KINDS];
    void *result;
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < KINDS; k++) {
            place_make(&p[k], &kinds[k]);
            CHECK(pthread_create(&t[k], NULL, waits, &p[k]) == 0);
        }
        if (round)
            pause_ms(10 * round);
        for (int k = 0; k < KINDS; k++) {
            CHECK(pthread_cancel(t[k]) == 0);
            if (kinds[k].flags & NO_POINT)
                kinds[k].release(&p[k]);
        }
        for (int k = 0; k < KINDS; k++) {
            CHECK(pthread_join(t[k], &result) == 0);
            expect(kinds[k].flags & NO_POINT || result == PTHREAD_CANCELED, &kinds[k], &p[k]);
            expect(kinds[k].call != c_syscall || result == &p[k], &kinds[k], &p[k]);
            place_end(&p[k]);
        }
    }
}

static atomic_int handled;
static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

/* A handler without SA_RESTART ends all. */
static void ended_by_handlers(void) {
    struct sigaction a = {.sa_handler = handler};
    static struct place p;
    pthread_t t;
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
    for (int k = 0; k < KINDS; k++) {
        place_make(&p, &kinds[k]);
        CHECK(pthread_create(&t, NULL, waits, &p) == 0);
        while (!atomic_load(&p.began))
            pause_ms(1);
        while (!atomic_load(&p.done)) {
            pthread_kill(t, SIGUSR1);
            pause_ms(5);
        }
        CHECK(pthread_join(t, NULL) == 0);
        expect(p.result == -1 && p.error == EINTR, &kinds[k], &p);
        place_end(&p);
    }
    CHECK(atomic_load(&handled) >= KINDS);
}

/* One with SA_RESTART only some; the others wait on and get their event. */
static void restarted(void) {
    struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
    static struct place p;
    pthread_t t;
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
    for (int k = 0; k < KINDS; k++) {
        if (kinds[k].flags & NO_EVENT)
            continue;
        place_make(&p, &kinds[k]);
        CHECK(pthread_create(&t, NULL, waits, &p) == 0);
        while (!atomic_load(&p.began))
            pause_ms(1);
        int before = atomic_load(&handled);
        for (int i = 0; (kinds[k].flags & ENDS ? !atomic_load(&p.done) : i < 3 || atomic_load(&handled) == before);
             i++) {
            pthread_kill(t, SIGUSR1);
            pause_ms(3);
        }
        expect(kinds[k].flags & ENDS || !atomic_load(&p.done), &kinds[k], &p);
        if (!(kinds[k].flags & ENDS))
            kinds[k].release(&p);
        CHECK(pthread_join(t, NULL) == 0);
        expect(kinds[k].flags & ENDS ? p.result == -1 && p.error == EINTR : p.result == 1, &kinds[k], &p);
        place_end(&p);
    }
}

/* What is ready, and times that are over or wrong. */
static void *asks_once(void *unused) {
    int fds[2];
    struct epoll_event e[4];
    CHECK(pipe(fds) == 0);
    int epoll = epoll_create1(0);
    struct epoll_event want = {.events = EPOLLIN | EPOLLET, .data.fd = 5};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &want) == 0);
    CHECK(epoll_wait(epoll, e, 4, 0) == 0 && epoll_wait(epoll, e, 4, 10) == 0);
    CHECK(epoll_wait(epoll, e, 0, 10) == -1 && errno == EINVAL);
    CHECK(epoll_wait(fds[0], e, 4, 10) == -1 && errno == EINVAL);
    CHECK(epoll_wait(-1, e, 4, -1) == -1 && errno == EBADF);
    CHECK(write(fds[1], "x", 1) == 1 && epoll_wait(epoll, e, 4, -1) == 1 && e[0].data.fd == 5);
    CHECK(epoll_wait(epoll, e, 4, 5) == 0); /* an edge is told once */
    fd_set set;
    struct timeval tv = {0, 3000};
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    CHECK(select(fds[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(fds[0], &set));
    char c;
    CHECK(read(fds[0], &c, 1) == 1);
    CHECK(select(fds[0] + 1, &set, NULL, NULL, &tv) == 0 && !FD_ISSET(fds[0], &set) && tv.tv_sec == 0 &&
          tv.tv_usec == 0);
    tv.tv_usec = -1;
    CHECK(select(0, NULL, NULL, NULL, &tv) == -1 && errno == EINVAL);
    close(fds[0]);
    close(fds[1]);
    FD_SET(fds[0], &set);
    CHECK(select(fds[0] + 1, &set, NULL, NULL, NULL) == -1 && errno == EBADF);
    struct timespec wrong = {0, 1000000000}, little = {0, 2000000};
    CHECK(pselect(0, NULL, NULL, NULL, &wrong, NULL) == -1 && errno == EINVAL);
    CHECK(pselect(0, NULL, NULL, NULL, &little, NULL) == 0 && ppoll(NULL, 0, &little, NULL) == 0);
    CHECK(waitpid(getpid(), NULL, 0) == -1 && errno == ECHILD);
    close(epoll);
    return unused;
}
static void at_once(void) {
    pthread_t t;
    CHECK(pthread_create(&t, NULL, asks_once, NULL) == 0 && pthread_join(t, NULL) == 0);
}

/* A file through a socket by sendfile, and by splice through a pipe: all its bytes, and the file's position. */
enum { BYTES = 3000000 };
static int through[2];
static void *drains(void *count) {
    char data[5000];
    ssize_t n;
    while ((n = read(through[0], data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++)
            CHECK(data[i] == (char)((*(size_t *)count)++ * 7));
    return NULL;
}
static void *sends_it(void *file) {
    int fd = *(int *)file, pipe_fds[2];
    off_t at = 100;
    ssize_t n;
    CHECK(sendfile(through[1], fd, NULL, 100) == 100 && lseek(fd, 0, SEEK_CUR) == 100);
    CHECK(sendfile(through[1], fd, &at, 1999900) == 1999900 && at == 2000000 && lseek(fd, 0, SEEK_CUR) == 100);
    CHECK(pipe(pipe_fds) == 0 && lseek(fd, at, SEEK_SET) == at);
    while ((n = splice(fd, NULL, pipe_fds[1], NULL, 30000, 0)) > 0)
        for (ssize_t m, done = 0; done < n; done += m)
            CHECK((m = splice(pipe_fds[0], NULL, through[1], NULL, (size_t)(n - done), 0)) > 0);
    CHECK(n == 0 && sendfile(through[1], fd, NULL, 1000) == 0);
    close(through[1]);
    return NULL;
}
static void files_sent(void) {
    char path[] = "/tmp/ito-calls-XXXXXX", *data = malloc(BYTES);
    pthread_t a, b;
    size_t count = 0;
    int fd = mkstemp(path);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7);
    CHECK(fd >= 0 && write(fd, data, BYTES) == BYTES && lseek(fd, 0, SEEK_SET) == 0 && unlink(path) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, through) == 0);
    CHECK(pthread_create(&a, NULL, drains, &count) == 0 && pthread_create(&b, NULL, sends_it, &fd) == 0);
    CHECK(pthread_join(b, NULL) == 0 && pthread_join(a, NULL) == 0 && count == BYTES);
    free(data);
}

static const struct test tests[] = {
    {"ended_by_events", ended_by_events},
    {"ended_by_cancellation", ended_by_cancellation},
    {"ended_by_handlers", ended_by_handlers},
    {"restarted", restarted},
    {"at_once", at_once},
    {"files_sent", files_sent},
};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
