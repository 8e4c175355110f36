/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that hang, each in its own way: hang MODE prints "hangs" just before, and is to be killed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both;
static volatile unsigned long turns;

static pthread_t begin(void *(*work)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0) {
        abort();
    }
    return thread;
}

static void hangs(void) {
    puts("hangs");
    fflush(stdout);
}

static void *first_then_second(void *unused) {
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&second);
    return unused;
}

static void *second_then_first(void *unused) {
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&first);
    return unused;
}

static void *spin_forever(void *unused) {
    for (;;) {
        turns++;
    }
    return unused;
}

static void *write_shared(void *unused) {
    pthread_rwlock_wrlock(&shared);
    pthread_barrier_wait(&both);
    pause();
    return unused;
}

static void *read_shared(void *unused) {
    pthread_rwlock_rdlock(&shared);
    return unused;
}

static void *sleep_on(void *unused) {
    pause();
    return unused;
}

/* A mutex whose owner's number is that of process 1, or of a stranger: nobody of this program. */
static void *ask_the_liar(void *unused) {
    int *words = (int *)(void *)&first;
    words[0] = 2;
    words[2] = 1;
    pthread_mutex_lock(&first);
    return unused;
}

/* The kernel refuses circles of such mutexes, and the C library sleeps then for nothing. */
static void *keep_first(void *unused) {
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    pause();
    return unused;
}

static void inherit(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&first, &attributes);
}

static void circle(void) {
    begin(first_then_second);
    begin(second_then_first);
    hangs();
    pause();
}

static void file_lock(void) {
    char name[] = "/tmp/kasuri-hang-XXXXXX";
    int mine = mkstemp(name);
    flock(mine, LOCK_EX);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(mine);
        pause();
    }
    int again = open(name, O_RDWR);
    unlink(name);
    hangs();
    flock(again, LOCK_EX);
}

static void connection(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bind(listener, (struct sockaddr *)&at, size);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&at, &size);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "the-peer");
        accept(listener, NULL, NULL);
        close(listener);
        pause();
    }
    int client = socket(AF_INET, SOCK_STREAM, 0);
    close(listener);
    char byte;
    if (connect(client, (struct sockaddr *)&at, size) == 0) {
        hangs();
        recv(client, &byte, 1, 0);
    }
}

static void own_pipe(void) {
    int ends[2];
    char byte;
    if (pipe(ends) == 0) {
        hangs();
        if (read(ends[0], &byte, 1) > 0) {
            abort();
        }
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    pthread_barrier_init(&both, NULL, 2);
    if (strcmp(mode, "circle") == 0) {
        circle();
    } else if (strcmp(mode, "inherited") == 0) {
        inherit();
        begin(keep_first);
        pthread_barrier_wait(&both);
        hangs();
        pthread_mutex_lock(&first);
    } else if (strcmp(mode, "join") == 0) {
        pthread_t worker = begin(spin_forever);
        hangs();
        pthread_join(worker, NULL);
    } else if (strcmp(mode, "rwlock") == 0) {
        begin(write_shared);
        pthread_barrier_wait(&both);
        pthread_t reader = begin(read_shared);
        hangs();
        pthread_join(reader, NULL);
    } else if (strcmp(mode, "child") == 0) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, "the-child");
            pause();
        }
        hangs();
        waitpid(child, NULL, 0);
    } else if (strcmp(mode, "flock") == 0) {
        file_lock();
    } else if (strcmp(mode, "socket") == 0) {
        connection();
    } else if (strcmp(mode, "pipe") == 0) {
        own_pipe();
    } else if (strcmp(mode, "liar") == 0) {
        pthread_t asker = begin(ask_the_liar);
        hangs();
        pthread_join(asker, NULL);
    } else if (strcmp(mode, "leaderless") == 0) {
        begin(sleep_on);
        hangs();
        pthread_exit(NULL);
    }
    return 0;
}
