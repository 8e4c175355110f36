/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with probes: program THREADS ROUNDS [PLUGIN] [wait]
 * Each thread does ROUNDS of a request with two steps inside. With PLUGIN, that library is loaded after the threads have ended, and
 * works ROUNDS times. With `wait`, the program waits for a line on its input before it begins, and for one before it ends. Prints in
 * how many rounds the semaphore was up. */
#include "probe.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PROBE_SEMAPHORE(request_semaphore);

static long n_rounds;
static long seen;

static void *work(void *argument) {
    (void)argument;
    for (long i = 0; i < n_rounds; i++) {
        if (request_semaphore)
            __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
        const char *name = i % 2 ? "odd" : "even";
        PROBE(shop, request__start, request_semaphore, INT_A " " ULONG_B, (int)-i, name);
        for (long step = 0; step < 2; step++)
            PROBE(shop, step, 0, ULONG_A " " SEVEN, step, 0L);
        PROBE(shop, request__done, request_semaphore, ULONG_A " " FLOAT, i * 10, 0L);
    }
    return NULL;
}

static void wait_for_a_line(void) {
    char line[16];
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(3);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    long n_threads = atol(argv[1]);
    n_rounds = atol(argv[2]);
    const char *plugin = argc > 3 && strcmp(argv[3], "wait") != 0 ? argv[3] : NULL;
    int waits = strcmp(argv[argc - 1], "wait") == 0;
    if (waits) {
        puts("ready");
        wait_for_a_line();
    }
    pthread_t threads[16];
    if (n_threads > 16)
        return 2;
    for (long i = 0; i < n_threads; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (long i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    if (plugin) {
        void *library = dlopen(plugin, RTLD_NOW);
        if (!library)
            return 4;
        void (*plugin_work)(long) = (void (*)(long))dlsym(library, "plugin_work");
        plugin_work(n_rounds);
    }
    printf("seen %ld\n", seen);
    if (waits)
        wait_for_a_line();
    return 0;
}
