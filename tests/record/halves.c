/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program without annotations, of which a function or a wait may really take half its time: halves [compute|nap|serial]. A thread
 * computes and naps while the first waits for it; before and after, the first works alone. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static volatile unsigned long sink;

/* Two functions of the same code would be one. */
__attribute__((noinline)) static void compute(long rounds) {
    for (long i = 0; i < rounds; i++) {
        sink += (unsigned long)i;
    }
}

__attribute__((noinline)) static void serial(long rounds) {
    for (long i = 0; i < rounds; i++) {
        sink ^= (unsigned long)i;
    }
}

__attribute__((noinline)) static void nap(unsigned us) {
    for (int i = 0; i < 10; i++) {
        usleep(us);
    }
}

static const char *halved = "";

static int is(const char *what) {
    return strcmp(halved, what) == 0;
}

static void *work(void *unused) {
    compute(is("compute") ? 40000000 : 80000000);
    nap(is("nap") ? 5000 : 10000);
    return unused;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        halved = argv[1];
    }
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) != 0) {
            return 1;
        }
        pthread_join(thread, NULL);
        serial(is("serial") ? 20000000 : 40000000);
    }
    return 0;
}
