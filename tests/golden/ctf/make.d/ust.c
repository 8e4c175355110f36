/* What tests/golden/ctf/ust* record: threads that trace, lock and call. Arguments: threads, rounds. */
#include "ust_tp.h"
#include <lttng/tracef.h>
#include <lttng/tracelog.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rounds;
static volatile int shared;

__attribute__((noinline)) static int called(int n) {
    return shared + n;
}

static void *work(void *arg) {
    static const uint16_t few[4] = {1, 500, 65535, 7};
    long id = (long)arg;
    for (int i = 0; i < rounds; i++) {
        lttng_ust_tracepoint(golden, work_begin, i);
        lttng_ust_tracepoint(golden, all, i * 37 - 3 * id, i & 1 ? "some text" : "", i / 8.0, few);
        lttng_ust_tracepoint(golden, engine_start, i);
        pthread_mutex_lock(&lock);
        shared = called(i);
        pthread_mutex_unlock(&lock);
        lttng_ust_tracef("round %d of %ld", i, id);
        lttng_ust_tracepoint(golden, work_end, i * 2);
    }
    lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO, "done %ld", id);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[16];
    int n = argc > 1 ? atoi(argv[1]) : 2;
    rounds = argc > 2 ? atoi(argv[2]) : 10;
    for (long i = 0; i < n && i < 16; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < n && i < 16; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
