/* What tests/packages compiles on a bare system: two annotated threads that share a lock. */
#include <kasuri.h>
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long sum;

static void *work(void *unused) {
    (void)unused;
    for (int round = 0; round < 200; round++) {
        KASURI_BEGIN("round of the packaged program");
        pthread_mutex_lock(&lock);
        for (int i = 0; i < 20000; i++)
            sum += (unsigned long)i;
        pthread_mutex_unlock(&lock);
        KASURI_END();
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("sum %lu\n", sum);
    return 0;
}
