// Two threads that pass a byte to and fro, and a child: switches, wake-ups, a name with odd characters, a fork.
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int ping[2], pong[2];

static void *answer(void *unused) {
    char byte;

    (void)unused;
    prctl(PR_SET_NAME, "odd - ] x", 0, 0, 0);
    while (read(ping[0], &byte, 1) == 1 && byte != 'q')
        if (write(pong[1], &byte, 1) != 1)
            break;
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 50;
    pthread_t thread;
    char byte = 'x';

    if (pipe(ping) || pipe(pong) || pthread_create(&thread, NULL, answer, NULL))
        return 1;
    for (int i = 0; i < rounds; i++) {
        if (write(ping[1], &byte, 1) != 1 || read(pong[0], &byte, 1) != 1)
            return 1;
        if (i % 10 == 0)
            usleep(300);
        for (volatile int n = 0; n < 20000; n++)
            ;
    }
    byte = 'q';
    if (write(ping[1], &byte, 1) != 1)
        return 1;
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        usleep(1000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
