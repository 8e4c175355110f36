/* Threads that wait at files of several kinds, each in a function of its name, for 0.4 s. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { PIPE, FULL_PIPE, SOCKET, EVENTFD, TIMER, FIFO, KINDS };
static int fds[KINDS];

static void take(int fd) {
    char bytes[8];
    if (read(fd, bytes, sizeof(bytes)) <= 0)
        abort();
}

#define WAITS(function, at)                                                                                            \
    __attribute__((noinline)) static void *function(void *unused) {                                                    \
        (void)unused;                                                                                                  \
        take(fds[at]);                                                                                                 \
        return NULL;                                                                                                   \
    }
WAITS(at_pipe, PIPE)
WAITS(at_socket, SOCKET)
WAITS(at_eventfd, EVENTFD)
WAITS(at_timer, TIMER)
WAITS(at_fifo, FIFO)

__attribute__((noinline)) static void *at_full_pipe(void *unused) {
    char bytes[8] = "full";
    (void)unused;
    if (write(fds[FULL_PIPE], bytes, sizeof(bytes)) <= 0)
        abort();
    return NULL;
}

int main(void) {
    int pipes[2][2], sockets[2];
    if (pipe(pipes[0]) || pipe(pipes[1]) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || mkfifo("fifo", 0600))
        return 1;
    fcntl(pipes[1][1], F_SETFL, O_NONBLOCK);
    static char page[4096];
    while (write(pipes[1][1], page, sizeof(page)) > 0)
        ;
    fcntl(pipes[1][1], F_SETFL, 0);
    fds[PIPE] = pipes[0][0];
    fds[FULL_PIPE] = pipes[1][1];
    fds[SOCKET] = sockets[0];
    fds[EVENTFD] = eventfd(0, 0);
    fds[TIMER] = timerfd_create(CLOCK_MONOTONIC, 0);
    fds[FIFO] = open("fifo", O_RDWR);
    struct itimerspec later = {.it_value = {.tv_nsec = 400000000}};
    timerfd_settime(fds[TIMER], 0, &later, NULL);
    void *(*functions[])(void *) = {at_pipe, at_full_pipe, at_socket, at_eventfd, at_timer, at_fifo};
    pthread_t threads[KINDS];
    for (int k = 0; k < KINDS; k++)
        pthread_create(&threads[k], NULL, functions[k], NULL);
    usleep(400000);
    uint64_t one = 1;
    int ends[] = {pipes[0][1], sockets[1], fds[EVENTFD], fds[FIFO]};
    for (int k = 0; k < 4; k++) {
        if (write(ends[k], &one, sizeof(one)) <= 0)
            return 1;
    }
    if (read(pipes[1][0], page, sizeof(page)) <= 0)
        return 1;
    for (int k = 0; k < KINDS; k++)
        pthread_join(threads[k], NULL);
    return 0;
}
