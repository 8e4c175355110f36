/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What gdb_lists_threads looks at: threads in every state, then a stop; with an argument, abort. */
#include <ito.h>

#include <stdlib.h>

static ito_mutex mutex = ITO_MUTEX_INIT;
static ito_sem sem = ITO_SEM_INIT(0);

static __attribute__((noinline)) int waits_for_the_mutex(void) {
    int r = ito_mutex_lock(&mutex);
    __asm__ volatile("" ::: "memory");
    return r;
}
static __attribute__((noinline)) int waits_for_a_unit(int depth) {
    int r = depth ? waits_for_a_unit(depth - 1) : ito_sem_wait(&sem);
    __asm__ volatile("" ::: "memory");
    return r;
}
static void *wants_mutex(void *arg) {
    waits_for_the_mutex();
    return arg;
}
static void *wants_unit(void *arg) {
    waits_for_a_unit(3);
    return arg;
}
static void *ended(void *arg) {
    return arg;
}
static void *joins(void *arg) {
    ito_join(arg, NULL);
    return NULL;
}
void stop_here(void);
static int aborts;
__attribute__((noinline)) void stop_here(void) {
    if (aborts)
        abort();
    __asm__ volatile("");
}
static void *stops(void *arg) {
    stop_here(); /* its creator waits in the deque meanwhile */
    return arg;
}

static ito_thread *start(const char *name, void *(*fn)(void *), void *arg) {
    ito_attr attr = ITO_ATTR_INIT;
    ito_thread *t;
    attr.name = name;
    if (ito_create(&t, &attr, fn, arg) != 0)
        abort();
    return t;
}

int main(int argc, char **argv) {
    (void)argv;
    aborts = argc > 1;
    if (ito_init(NULL) != 0)
        abort();
    ito_mutex_lock(&mutex);
    ito_thread *a = start("mutex waiter", wants_mutex, NULL), *b = start("unit waiter", wants_unit, NULL);
    ito_thread *c = start("joiner", joins, b), *d = start("over", ended, NULL), *e = start("stopper", stops, NULL);
    ito_sem_post(&sem);
    ito_mutex_unlock(&mutex);
    ito_join(a, NULL);
    ito_join(c, NULL);
    ito_join(d, NULL);
    ito_join(e, NULL);
    return ito_fini();
}
