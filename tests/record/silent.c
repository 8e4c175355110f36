/* A program whose memory does not answer: above the stack of a thread that waits lie pages that userfaultfd serves, and nobody
 * does, or those of a file of FUSE. Whoever reads the stack from outside with what lies above it waits until this program ends;
 * with FUSE, not even SIGKILL ends that wait.
 *
 * silent MILLISECONDS [fuse]: says "ready", and ends by itself after this time. 77: that is not allowed here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 256 << 10, SILENT = 64 << 10, SKIP = 77 };

static void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Each sleep is a wait of its own, and long enough to be looked at. */
static void *waits(void *unused) {
    for (;;)
        sleep_ms(300);
    return unused;
}

static int by_userfaultfd(char *pages) {
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
        return SKIP;
    struct uffdio_register silent = {.range = {(unsigned long)pages, SILENT}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    return ioctl(fd, UFFDIO_REGISTER, &silent) ? SKIP : 0;
}

static int device;

/* A file system of one file, whose reads are not answered. */
static void *serve(void *unused) {
    static char request[1 << 20];
    for (;;) {
        if (read(device, request, sizeof request) < 0 && errno != EINTR)
            return unused;
        const struct fuse_in_header *in = (void *)request;
        struct {
            struct fuse_out_header head;
            union {
                struct fuse_init_out init;
                struct fuse_entry_out entry;
                struct fuse_attr_out attr;
                struct fuse_open_out open;
            };
        } out = {.head = {.len = sizeof out.head, .unique = in->unique}};
        const struct fuse_attr file = {.ino = 2, .mode = S_IFREG | 0600, .nlink = 1, .size = SILENT};
        const struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0700, .nlink = 2};
        switch (in->opcode) {
        case FUSE_INIT:
            out.init = (struct fuse_init_out){.major = 7, .minor = 31, .max_write = 4096, .max_pages = 1};
            out.head.len += sizeof out.init;
            break;
        case FUSE_LOOKUP:
            out.entry = (struct fuse_entry_out){.nodeid = 2, .attr_valid = 1000, .entry_valid = 1000, .attr = file};
            out.head.len += sizeof out.entry;
            break;
        case FUSE_GETATTR:
            out.attr = (struct fuse_attr_out){.attr_valid = 1000, .attr = in->nodeid == 1 ? root : file};
            out.head.len += sizeof out.attr;
            break;
        case FUSE_OPEN:
            out.open = (struct fuse_open_out){.fh = 1};
            out.head.len += sizeof out.open;
            break;
        case FUSE_READ:
        case FUSE_FORGET:
        case FUSE_INTERRUPT:
            continue;
        default:
            out.head.error = -ENOSYS;
        }
        if (write(device, &out, out.head.len) < 0 && errno != ENOENT)
            return unused;
    }
}

/* Mounted for this process alone. */
static int by_fuse(char *pages) {
    char how[64];
    pthread_t thread;
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(how, sizeof how, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, getuid(), getgid());
    if (device < 0 || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("silent", "/mnt", "fuse.silent", MS_NOSUID | MS_NODEV, how) || pthread_create(&thread, NULL, serve, NULL))
        return SKIP;
    int fd = open("/mnt/file", O_RDONLY | O_CLOEXEC);
    return fd < 0 || mmap(pages, SILENT, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED;
}

int main(int argc, char **argv) {
    long ms = argc > 1 ? atol(argv[1]) : 1000;
    char *area = mmap(NULL, STACK + SILENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return 1;
    int failed = argc > 2 && !strcmp(argv[2], "fuse") ? by_fuse(area + STACK) : by_userfaultfd(area + STACK);
    if (failed)
        return failed;
    pthread_attr_t attr;
    pthread_t thread;
    if (pthread_attr_init(&attr) || pthread_attr_setstack(&attr, area, STACK) ||
        pthread_create(&thread, &attr, waits, NULL))
        return 1;
    puts("ready");
    fflush(stdout);
    sleep_ms(ms);
    _exit(0);
}
