/* A barrier-heavy program: THREADS threads meet ROUNDS times, after a little unequal work; in between short-lived
 * threads come and go. Prints its own CPU time as the kernel accounts it (getrusage): cpu_ns. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static pthread_barrier_t barrier;
static int n_rounds;

static unsigned work(unsigned seed, int n) {
    for (int i = 0; i < n; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static void *short_lived(void *seed) {
    return (void *)(size_t)work((unsigned)(size_t)seed, 20000);
}

static void *rounds(void *arg) {
    unsigned seed = (unsigned)(size_t)arg;
    for (int i = 0; i < n_rounds; i++) {
        seed = work(seed, 2000 + (int)(seed % 20000));
        pthread_barrier_wait(&barrier);
        if (seed % 64 == 0) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, short_lived, arg) == 0)
                pthread_join(thread, NULL);
        }
    }
    return (void *)(size_t)seed;
}

int main(int argc, char **argv) {
    int n_threads = argc > 1 ? atoi(argv[1]) : 4;
    n_rounds = argc > 2 ? atoi(argv[2]) : 1000;
    pthread_t threads[64];
    if (n_threads < 1 || n_threads > 64 || pthread_barrier_init(&barrier, NULL, (unsigned)n_threads) != 0)
        return 2;
    for (int i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i], NULL, rounds, (void *)(size_t)(i + 1)) != 0)
            return 2;
    unsigned sum = 0;
    for (int i = 0; i < n_threads; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (unsigned)(size_t)result;
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    long long user = use.ru_utime.tv_sec * 1000000000ll + use.ru_utime.tv_usec * 1000ll;
    long long system = use.ru_stime.tv_sec * 1000000000ll + use.ru_stime.tv_usec * 1000ll;
    printf("digest %u\ncpu_ns %lld\n", sum, user + system);
    return 0;
}
