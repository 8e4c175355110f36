/* A program whose memory does not answer: above the stack of a thread that waits lie pages that userfaultfd serves, and nobody
 * does. Whoever reads the stack from outside with what lies above it waits until this program ends.
 *
 * silent MILLISECONDS: says "ready", and ends by itself after this time. 77: userfaultfd is not allowed here. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

int main(int argc, char **argv) {
    long ms = argc > 1 ? atol(argv[1]) : 1000;
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
        return SKIP;
    char *area = mmap(NULL, STACK + SILENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return 1;
    struct uffdio_register silent = {.range = {(unsigned long)(area + STACK), SILENT},
                                     .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(fd, UFFDIO_REGISTER, &silent))
        return SKIP;
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
