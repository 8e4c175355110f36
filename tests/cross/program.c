/* What tests/cross/run compiles for two CPUs: three threads that annotate by every kind of event, with values and objects that do not
 * depend on the CPU, the widest of each kind among them. */
#include <kasuri.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { THREADS = 3, ROUNDS = 500 };

static void *work(void *argument) {
    uint64_t me = *(const uint64_t *)argument;
    void *lock = (void *)(uintptr_t)(0x1000 + me * 8);
    KASURI_THREAD_NAME("worker of the program for two CPUs");
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t task = (me << 40) + i + 1;
        KASURI_TASK_CREATE("task", task, 0);
        KASURI_TASK_START(task);
        KASURI_BEGIN("round");
        KASURI_ARG_I64("least", INT64_MIN + (int64_t)i);
        KASURI_ARG_U64("most", UINT64_MAX - i);
        KASURI_ARG_F64("part", (double)i / 3);
        KASURI_ARG_STR("text", i % 2 ? "odd" : "a text that is longer than one event of sixteen bytes has room for");
        KASURI_LOCK_REQUEST(lock);
        KASURI_LOCK_ACQUIRED(lock);
        KASURI_COUNTER("rounds", (double)i);
        KASURI_LOCK_RELEASED(lock);
        KASURI_WAIT_BEGIN(KASURI_WAIT_BARRIER, lock);
        KASURI_WAIT_END(KASURI_WAIT_BARRIER, lock);
        KASURI_INSTANT("instant");
        KASURI_END();
        KASURI_TASK_END(task);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    uint64_t numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = (uint64_t)i;
        if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("words of %zu bits\n", sizeof(long) * 8);
    return 0;
}
