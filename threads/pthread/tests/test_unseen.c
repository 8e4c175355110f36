/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits in the kernel, and long computing, that the library is not told of, in an ordinary pthread program; see test_threads.c. In each test who
 * ends the wait is another light thread, which on one worker runs only if that worker was given to another kernel thread.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Both run at once; the first is in its wait, or soon will be, when the second begins. */
static void pair(void *(*first)(void *), void *(*second)(void *), void *arg) {
    pthread_t a, b;
    CHECK(pthread_create(&a, NULL, first, arg) == 0);
    usleep(5000);
    CHECK(pthread_create(&b, NULL, second, arg) == 0);
    CHECK(pthread_join(a, NULL) == 0 && pthread_join(b, NULL) == 0);
}

static void *opens_to_read(void *path) {
    char c = 0;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, &c, 1) == 1 && c == 'x' && close(fd) == 0);
    return NULL;
}
static void *opens_to_write(void *path) {
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    return NULL;
}
static void opening_a_fifo(void) {
    char path[] = "/tmp/ito-unseen-XXXXXX";
    CHECK(mkdtemp(path) != NULL);
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    CHECK(mkfifo(fifo, 0600) == 0);
    pair(opens_to_read, opens_to_write, fifo);
    unlink(fifo);
    rmdir(path);
}

static int fds[2];
static void *scans(void *unused) {
    (void)unused;
    FILE *f = fdopen(fds[0], "r");
    int a = 0, b = 0;
    CHECK(f != NULL && fscanf(f, "%d %d", &a, &b) == 2 && a == 12 && b == 34 && fclose(f) == 0);
    return NULL;
}
static void *writes_numbers(void *unused) {
    (void)unused;
    CHECK(write(fds[1], "12 34\n", 6) == 6 && close(fds[1]) == 0);
    return NULL;
}
static void scanning(void) {
    CHECK(pipe(fds) == 0);
    pair(scans, writes_numbers, NULL);
}

/* The child waits for what the other thread writes, which must not find the first reader in the place of the second. */
static atomic_int first_has_ended;
static void *has_commands(void *fifo) {
    char command[128], line[16] = "";
    snprintf(command, sizeof command, "cat %s", (char *)fifo);
    FILE *f = popen(command, "r");
    CHECK(f != NULL && fgets(line, sizeof line, f) != NULL && line[0] == 'x' && pclose(f) == 0);
    atomic_store(&first_has_ended, 1);
    snprintf(command, sizeof command, "read x < %s; test $x = x", (char *)fifo);
    CHECK(system(command) == 0);
    return NULL;
}
static void *feeds_them(void *fifo) {
    for (int i = 0; i < 2; i++) {
        int fd = open(fifo, O_WRONLY);
        CHECK(fd >= 0 && write(fd, "x\n", 2) == 2 && close(fd) == 0);
        while (!atomic_load(&first_has_ended))
            usleep(1000);
    }
    return NULL;
}
static void commands(void) {
    char path[] = "/tmp/ito-unseen-XXXXXX";
    CHECK(mkdtemp(path) != NULL);
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    CHECK(mkfifo(fifo, 0600) == 0);
    pair(has_commands, feeds_them, fifo);
    unlink(fifo);
    rmdir(path);
}

/* As malloc's lock: a futex of the C library, held by a thread that needs the worker. */
static uint32_t lock_word;
static void *waits_on_it(void *unused) {
    (void)unused;
    while (atomic_load((_Atomic uint32_t *)&lock_word) == 0)
        syscall(SYS_futex, &lock_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}
static void *wakes_it(void *unused) {
    (void)unused;
    atomic_store((_Atomic uint32_t *)&lock_word, 1);
    syscall(SYS_futex, &lock_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}
static void own_futex(void) {
    pair(waits_on_it, wakes_it, NULL);
}

/* The constructor of the library waits for a byte; the lock of the dynamic linker is held meanwhile. */
static void *loads(void *unused) {
    (void)unused;
    char number[16];
    snprintf(number, sizeof number, "%d", fds[0]);
    setenv("ITO_TEST_FD", number, 1);
    void *library = dlopen(getenv("ITO_TEST_SLOW"), RTLD_NOW);
    CHECK(library != NULL);
    int *value = dlsym(library, "ito_test_value");
    CHECK(value != NULL && *value == 'y' && dlclose(library) == 0);
    return NULL;
}
static void *lets_it_load(void *unused) {
    (void)unused;
    CHECK(write(fds[1], "y", 1) == 1);
    return NULL;
}
static void constructors(void) {
    CHECK(pipe(fds) == 0);
    pair(loads, lets_it_load, NULL);
}

/*
 * Each system call that waits, made by syscall(): nothing stands in front of it. `waits` is in the call until `ends` has done its part, which
 * stays done, so it does not matter which of the two comes first.
 */
struct raw {
    int in, out, lock, other_lock, id, child;
    atomic_uint word;
};
static long w_read(struct raw *p, char *c) {
    return syscall(SYS_read, p->in, c, 1);
}
static long w_epoll_pwait2(struct raw *p, char *c) {
    struct epoll_event e = {.events = EPOLLIN};
    int fd = epoll_create1(0);
    CHECK(epoll_ctl(fd, EPOLL_CTL_ADD, p->in, &e) == 0);
    long r = syscall(441 /* SYS_epoll_pwait2 */, fd, &e, 1, NULL, NULL, 8);
    int error = errno;
    close(fd);
    errno = error;
    return *c = 0, r;
}
static long w_ppoll(struct raw *p, char *c) {
    struct pollfd f = {p->in, POLLIN, 0};
    return *c = 0, syscall(SYS_ppoll, &f, 1, NULL, NULL, 8);
}
static long w_recvmmsg(struct raw *p, char *c) {
    struct iovec part = {c, 1};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    return syscall(SYS_recvmmsg, p->in, &m, 1, 0, NULL);
}
static void e_writes(struct raw *p) {
    CHECK(write(p->out, "x", 1) == 1);
}
static long w_futex_waitv(struct raw *p, char *c) {
    struct {
        uint64_t value, at;
        uint32_t flags, reserved;
    } one = {0, (uintptr_t)&p->word, 2 | FUTEX_PRIVATE_FLAG, 0};
    *c = 0;
    while (atomic_load(&p->word) == 0)
        if (syscall(449 /* SYS_futex_waitv */, &one, 1, 0, NULL, 0) < 0 && errno != EAGAIN)
            return -1;
    return 1;
}
static long w_futex_shared(struct raw *p, char *c) {
    *c = 0;
    while (atomic_load(&p->word) == 0)
        if (syscall(SYS_futex, &p->word, FUTEX_WAIT, 0, NULL, NULL, 0) < 0 && errno != EAGAIN)
            return -1;
    return 1;
}
static void e_wakes(struct raw *p) {
    atomic_store(&p->word, 1);
    syscall(SYS_futex, &p->word, FUTEX_WAKE, 1, NULL, NULL, 0);
    syscall(SYS_futex, &p->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static long w_rt_sigtimedwait(struct raw *p, char *c) {
    sigset_t set;
    (void)p;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return *c = 0, syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 8) == SIGUSR2 ? 1 : -1;
}
static void e_kills(struct raw *p) {
    (void)p;
    CHECK(kill(getpid(), SIGUSR2) == 0);
}
static long w_semtimedop(struct raw *p, char *c) {
    struct sembuf down = {0, -1, 0};
    return *c = 0, syscall(SYS_semtimedop, p->id, &down, 1, NULL) == 0 ? 1 : -1;
}
static void e_semop(struct raw *p) {
    struct sembuf up = {0, 1, 0};
    CHECK(semop(p->id, &up, 1) == 0 && semctl(p->id, 0, GETVAL) >= 0);
}
static long w_msgrcv(struct raw *p, char *c) {
    struct {
        long type;
        char text[1];
    } m;
    return *c = 0, syscall(SYS_msgrcv, p->id, &m, 1, 0, 0);
}
static void e_msgsnd(struct raw *p) {
    struct {
        long type;
        char text[1];
    } m = {1, {0}};
    CHECK(msgsnd(p->id, &m, 1, 0) == 0);
}
static long w_waitid(struct raw *p, char *c) {
    siginfo_t info;
    return *c = 0, syscall(SYS_waitid, P_PID, p->child, &info, WEXITED, NULL) == 0 ? 1 : -1;
}
static long w_flock(struct raw *p, char *c) {
    return *c = 0, syscall(SYS_flock, p->lock, LOCK_EX) == 0 ? 1 : -1;
}
static long w_fcntl(struct raw *p, char *c) {
    struct flock lock = {.l_type = F_WRLCK};
    return *c = 0, syscall(SYS_fcntl, p->lock, F_OFD_SETLKW, &lock) == 0 ? 1 : -1;
}
static void e_unlocks(struct raw *p) {
    CHECK(close(p->other_lock) == 0);
}
static long w_getrandom(struct raw *p, char *c) { /* never waits, once the kernel has begun */
    (void)p;
    return syscall(SYS_getrandom, c, 1, 0);
}
static void e_nothing(struct raw *p) {
    (void)p;
}
static long w_io_uring_enter(struct raw *p, char *c) {
    struct io_uring_params u = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 1, &u);
    if (ring < 0)
        return w_read(p, c); /* not allowed here */
    char *q = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *e = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    CHECK(q != MAP_FAILED && e != MAP_FAILED);
    *e = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = p->in, .addr = (uintptr_t)c, .len = 1};
    ((uint32_t *)(void *)(q + u.sq_off.array))[0] = 0;
    __atomic_store_n((uint32_t *)(void *)(q + u.sq_off.tail), 1, __ATOMIC_RELEASE);
    long r = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    int error = errno;
    munmap(q, 4096);
    munmap(e, 4096);
    close(ring);
    errno = error;
    return r;
}
static const struct raw_call {
    const char *name;
    long (*waits)(struct raw *, char *);
    void (*ends)(struct raw *);
} raw_calls[] = {
    {"read", w_read, e_writes},
    {"epoll_pwait2", w_epoll_pwait2, e_writes},
    {"ppoll", w_ppoll, e_writes},
    {"recvmmsg", w_recvmmsg, e_writes},
    {"futex_waitv", w_futex_waitv, e_wakes},
    {"futex of processes", w_futex_shared, e_wakes},
    {"rt_sigtimedwait", w_rt_sigtimedwait, e_kills},
    {"semtimedop", w_semtimedop, e_semop},
    {"msgrcv", w_msgrcv, e_msgsnd},
    {"waitid", w_waitid, e_writes},
    {"flock", w_flock, e_unlocks},
    {"fcntl", w_fcntl, e_unlocks},
    {"getrandom", w_getrandom, e_nothing},
    /* The last: what the kernel does for a ring ends the next call on its kernel thread with EINTR. */
    {"io_uring_enter", w_io_uring_enter, e_writes},
};
static struct raw raw;
static void *makes_raw_call(void *arg) {
    const struct raw_call *call = arg;
    char c;
    errno = 0;
    if (call->waits(&raw, &c) != 1 && errno != ENOSYS)
        fprintf(stderr, "%s: errno %d\n", call->name, errno), abort();
    return NULL;
}
static void *ends_raw_call(void *arg) {
    const struct raw_call *call = arg;
    call->ends(&raw);
    return NULL;
}
static void system_calls(void) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0); /* so that it waits for whoever asks for it */
    for (size_t i = 0; i < sizeof raw_calls / sizeof *raw_calls; i++) {
        const struct raw_call *call = &raw_calls[i];
        char path[] = "/tmp/ito-unseen-XXXXXX", c;
        struct flock lock = {.l_type = F_WRLCK};
        int pair_of[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair_of) == 0);
        raw = (struct raw){.in = pair_of[0], .out = pair_of[1], .id = -1};
        raw.lock = mkstemp(path);
        raw.other_lock = open(path, O_RDWR);
        CHECK(raw.lock >= 0 && raw.other_lock >= 0 && unlink(path) == 0);
        CHECK(call->waits != w_flock || flock(raw.other_lock, LOCK_EX) == 0);
        CHECK(call->waits != w_fcntl || fcntl(raw.other_lock, F_OFD_SETLK, &lock) == 0);
        if (call->waits == w_semtimedop)
            CHECK((raw.id = semget(IPC_PRIVATE, 1, 0600)) >= 0);
        if (call->waits == w_msgrcv)
            CHECK((raw.id = msgget(IPC_PRIVATE, 0600)) >= 0);
        if (call->waits == w_waitid && (raw.child = fork()) == 0)
            _exit(read(raw.in, &c, 1) != 1);
        pair(makes_raw_call, ends_raw_call, (void *)call);
        if (call->waits == w_semtimedop)
            CHECK(semctl(raw.id, 0, IPC_RMID) == 0);
        if (call->waits == w_msgrcv)
            CHECK(msgctl(raw.id, IPC_RMID, NULL) == 0);
        close(raw.in);
        close(raw.out);
        close(raw.lock);
        if (call->ends != e_unlocks)
            close(raw.other_lock);
    }
}

/* A child is made, and its maker goes on when it has executed its program: it opens files before that. */
static void *spawns(void *fifo) {
    posix_spawn_file_actions_t actions;
    char *args[] = {"true", NULL};
    pid_t child;
    int status;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 5, fifo, O_RDONLY, 0) == 0);
    CHECK(posix_spawnp(&child, "true", &actions, NULL, args, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return NULL;
}
static void *opens_for_it(void *fifo) {
    int fd = open(fifo, O_WRONLY);
    CHECK(fd >= 0 && close(fd) == 0);
    return NULL;
}
static void spawning(void) {
    char path[] = "/tmp/ito-unseen-XXXXXX";
    CHECK(mkdtemp(path) != NULL);
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    CHECK(mkfifo(fifo, 0600) == 0);
    pair(spawns, opens_for_it, fifo);
    unlink(fifo);
    rmdir(path);
}

/* A page that another thread of the program fills in: the wait is in no system call. */
static char *missing_page;
static int fault_fd;
static void *touches(void *unused) {
    (void)unused;
    CHECK(*(volatile char *)missing_page == 'p');
    return NULL;
}
static void *fills_in(void *unused) {
    static char page[4096] = "p";
    struct uffd_msg m;
    struct uffdio_copy copy = {.dst = (uintptr_t)missing_page, .src = (uintptr_t)page, .len = sizeof page};
    (void)unused;
    CHECK(read(fault_fd, &m, sizeof m) == sizeof m && m.event == UFFD_EVENT_PAGEFAULT);
    CHECK(ioctl(fault_fd, UFFDIO_COPY, &copy) == 0);
    return NULL;
}
static void missing_pages(void) {
    fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (fault_fd < 0 || ioctl(fault_fd, UFFDIO_API, &api))
        return; /* not allowed here */
    missing_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(missing_page != MAP_FAILED);
    struct uffdio_register r = {.range = {(uintptr_t)missing_page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(fault_fd, UFFDIO_REGISTER, &r) == 0);
    pair(touches, fills_in, NULL);
}

/* Many threads that wait by plain system calls, each for its neighbour, and use locks, errno and thread-local variables
 * between: each finds its own, also where it goes on without its worker, comes back, and moves. */
enum { RING = 24, ROUNDS = 8 };
static int ring[RING][2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static pthread_key_t key;
static int passed;
static __thread intptr_t mine;
static void *passes_on(void *arg) {
    intptr_t me = (intptr_t)arg;
    pthread_t id = pthread_self();
    mine = me;
    CHECK(pthread_setspecific(key, arg) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char c;
        CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        errno = (int)me;
        CHECK(syscall(SYS_read, ring[me][0], &c, 1) == 1);
        CHECK(errno == (int)me && mine == me && pthread_getspecific(key) == arg && pthread_equal(id, pthread_self()));
        /* Locked on this side of a wait, unlocked on the other. */
        CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
        struct timespec t = {0, me % 5 == 0 ? 300000 : 0};
        syscall(SYS_nanosleep, &t, NULL);
        CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        CHECK(pthread_mutex_lock(&mutex) == 0);
        passed++;
        CHECK(pthread_cond_broadcast(&cond) == 0 && pthread_mutex_unlock(&mutex) == 0);
        CHECK(sem_post(&sem) == 0 && sem_wait(&sem) == 0);
        CHECK(syscall(SYS_write, ring[(me + 1) % RING][1], &c, 1) == 1);
    }
    if (me % 3 == 0)
        pthread_exit(arg);
    return arg;
}
static void waiting_unseen(void) {
    pthread_t t[RING];
    void *result;
    CHECK(sem_init(&sem, 0, 0) == 0 && pthread_key_create(&key, NULL) == 0);
    for (int i = 0; i < RING; i++)
        CHECK(pipe(ring[i]) == 0);
    for (intptr_t i = 0; i < RING; i++)
        CHECK(pthread_create(&t[i], NULL, passes_on, (void *)i) == 0);
    for (int i = 0; i < RING / 4; i++)
        CHECK(write(ring[i * 4][1], "z", 1) == 1);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (passed < RING * ROUNDS)
        CHECK(pthread_cond_wait(&cond, &mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    for (intptr_t i = 0; i < RING; i++)
        CHECK(pthread_join(t[i], &result) == 0 && result == (void *)i);
}

/* The program closes all descriptors that it has not opened, and opens others at their numbers: the watcher's are among
 * them. They are not read as if they were the watcher's, and not closed. */
static void closed_descriptors(void) {
    enum { FIRST = 400, LAST = 700 };
    struct stat was, is;
    scanning();
    CHECK(stat("/", &was) == 0);
    int root = open("/", O_RDONLY);
    CHECK(root >= 0);
    for (int fd = FIRST; fd < LAST; fd++)
        CHECK(dup2(root, fd) == fd);
    scanning();
    own_futex();
    for (int fd = FIRST; fd < LAST; fd++)
        CHECK(fstat(fd, &is) == 0 && is.st_ino == was.st_ino && is.st_dev == was.st_dev);
}

/* The whole process waits: each thread in a call of its own, ended by main at once. */
static void *reads_raw(void *arg) {
    char c;
    CHECK(syscall(SYS_read, ring[(intptr_t)arg][0], &c, 1) == 1);
    return NULL;
}
static void all_at_once(void) {
    pthread_t t[RING];
    for (intptr_t i = 0; i < RING; i++)
        CHECK(pipe(ring[i]) == 0 && pthread_create(&t[i], NULL, reads_raw, (void *)i) == 0);
    for (int i = RING - 1; i >= 0; i--)
        CHECK(write(ring[i][1], "z", 1) == 1 && pthread_join(t[i], NULL) == 0);
}

/* The descriptors of the library fit the process's table from the first thread on: to enlarge it later takes the kernel milliseconds. */
static long table_size(void) {
    char line[256];
    long size = 0;
    FILE *f = fopen("/proc/self/status", "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "FDSize: %ld", &size) == 1)
            break;
    fclose(f);
    return size;
}
static void *returns(void *arg) {
    return arg;
}
static void room_for_descriptors(void) {
    pthread_t t;
    CHECK(table_size() > 0);
    CHECK(pthread_create(&t, NULL, returns, NULL) == 0 && pthread_join(t, NULL) == 0);
    if (getenv("LIGHT"))
        CHECK(table_size() > 500);
}

/* More threads than workers compute, without any call, until another one has run. */
static atomic_int said;
static void *computes(void *arg) {
    while (!atomic_load_explicit(&said, memory_order_relaxed))
        ;
    return arg;
}
static void *says(void *arg) {
    atomic_store_explicit(&said, 1, memory_order_relaxed);
    return arg;
}
static void computing(void) {
    pthread_t t[6], last;
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&t[i], NULL, computes, NULL) == 0);
    usleep(5000);
    CHECK(pthread_create(&last, NULL, says, NULL) == 0 && pthread_join(last, NULL) == 0);
    for (int i = 0; i < 6; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

static const struct test tests[] = {
    {"computing", computing},
    {"room_for_descriptors", room_for_descriptors},
    {"opening_a_fifo", opening_a_fifo},
    {"scanning", scanning},
    {"commands", commands},
    {"own_futex", own_futex},
    {"constructors", constructors},
    {"system_calls", system_calls},
    {"spawning", spawning},
    {"missing_pages", missing_pages},
    {"waiting_unseen", waiting_unseen},
    {"all_at_once", all_at_once},
    {"closed_descriptors", closed_descriptors},
};
int main(int argc, char **argv) {
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
