// SPDX-License-Identifier: MIT OR Apache-2.0
// Workers that note what they did in one logbook; each line shall be safe on the disk.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t book_lock = PTHREAD_MUTEX_INITIALIZER;
static int book;

static double step(double x) {
    for (int i = 0; i < 60000; i++)
        x = x * 0.999 + 1;
    return x;
}

static void note(double x) {
    char line[32];
    int n = snprintf(line, sizeof line, "%.3f\n", x);

    pthread_mutex_lock(&book_lock);
    if (write(book, line, n) != n)
        perror("logbook");
    fdatasync(book);
    pthread_mutex_unlock(&book_lock);
}

static void *work(void *unused) {
    double x = 0;

    for (int i = 0; i < 800; i++) {
        x = step(x);
        note(x);
    }
    return unused;
}

int main(void) {
    pthread_t workers[64];
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    book = open("logbook.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    n = n < 64 ? n : 64;
    for (int i = 0; i < n; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(workers[i], NULL);
    return 0;
}
