/* Says that it is an interpreter of Python, and has lies for memory: circles of threads and frames, code of absurd sizes, names with
 * control characters, all changed all the time by another thread. It must be called python3.MINOR and export its symbols:
 *   cc -DMINOR=12 -rdynamic -pthread -o python3.12 hostile_python.c */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORDS (1 << 16)
#define SHOWN 48

const unsigned long Py_Version = 0x03000000ul | MINOR << 16;
uint64_t _PyRuntime[1024], PyCode_Type[64], PyFrame_Type[64], PyUnicode_Type[64], PyBytes_Type[64];
static uint64_t heap[WORDS];
static atomic_int stop;

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A pointer into the heap, a type, a number of a few bits or of many. */
static uint64_t lie(uint64_t *state) {
    uint64_t *types[] = {PyCode_Type, PyFrame_Type, PyUnicode_Type, PyBytes_Type};
    uint64_t r = next_random(state);
    switch (r >> 60) {
    case 0:
        return r & 0xffff;
    case 1:
        return r;
    case 2:
        return (r & 0xff) | 0x1b0000001b001b00ull;
    case 3:
    case 4:
    case 5:
    case 6:
        return (uint64_t)types[r & 3];
    case 7:
        return (uint64_t)getpid();
    case 8:
        return (uint64_t)(MINOR > 10 ? &heap[WORDS - 1] : &heap[0]);
    default:
        return (uint64_t)&heap[r % WORDS];
    }
}

static void *liar(void *unused) {
    (void)unused;
    for (uint64_t state = 88172645463325252ull; !atomic_load_explicit(&stop, memory_order_relaxed);) {
        for (int i = 0; i < 1000; i++) {
            uint64_t r = next_random(&state);
            heap[r % WORDS] = lie(&state);
            _PyRuntime[r % 1024] = (uint64_t)&heap[(r >> 20) % WORDS];
        }
        usleep(100);
    }
    return NULL;
}

/* Shows pointers on its stack as the interpreter's loop does, and calls itself. */
__attribute__((noinline)) int _PyEval_EvalFrameDefault(int depth, uint64_t seed) {
    volatile uint64_t shown[SHOWN];
    for (int i = 0; i < SHOWN; i++)
        shown[i] = lie(&seed) + (seed & 2);
    if (depth > 0)
        return _PyEval_EvalFrameDefault(depth - 1, seed) + (int)shown[0];
    for (int i = 0; i < 2000000; i++)
        shown[i % SHOWN] += 2;
    return (int)shown[1];
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    pthread_t thread;
    uint64_t state = 2463534242ull;
    int sum = 0;
    for (int i = 0; i < WORDS; i++)
        heap[i] = lie(&state);
    pthread_create(&thread, NULL, liar, NULL);
    for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;)
        sum += _PyEval_EvalFrameDefault((int)(next_random(&state) % 300), next_random(&state));
    atomic_store_explicit(&stop, 1, memory_order_relaxed);
    pthread_join(thread, NULL);
    printf("%d\n", sum != 0);
    return 0;
}
