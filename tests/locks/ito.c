/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tasks of ito whose use of locks is known. Each of 4 writers does ROUNDS times: 1 ms of CPU time, half of it with
 * `shared` held, going to other tasks once meanwhile; then `table` written for a moment. Two readers share `table`. A
 * pair hands a token to and fro by a condition, and each waits for `units` once. */
#define _GNU_SOURCE
#include "compute.h"

#include <ito.h>
#include <stdio.h>
#include <stdlib.h>

#define WRITERS 4
#define READERS 2
ito_mutex shared = ITO_MUTEX_INIT_KIND(ITO_MUTEX_NORMAL), token_lock = ITO_MUTEX_INIT_KIND(ITO_MUTEX_ERRORCHECK);
ito_cond token_moved = ITO_COND_INIT;
ito_rwlock table = ITO_RWLOCK_INIT;
ito_sem units = ITO_SEM_INIT(0);
static long rounds, token;

static void *writer(void *p) {
    for (long i = 0; i < rounds; i++) {
        compute(500);
        ito_mutex_lock(&shared);
        compute(250);
        ito_yield();
        compute(250);
        ito_mutex_unlock(&shared);
        ito_rwlock_wrlock(&table);
        ito_rwlock_unlock(&table);
    }
    return p;
}

static void *reader(void *p) {
    for (long i = 0; i < rounds; i++) {
        ito_rwlock_rdlock(&table);
        compute(100);
        ito_rwlock_unlock(&table);
    }
    ito_sem_post(&units);
    return p;
}

static void *player(void *side) {
    ito_sem_wait(&units);
    for (long i = 0; i < rounds; i++) {
        ito_mutex_lock(&token_lock);
        while (token % 2 != (long)side)
            ito_cond_wait(&token_moved, &token_lock);
        token++;
        ito_cond_signal(&token_moved);
        ito_mutex_unlock(&token_lock);
    }
    return NULL;
}

int main(int argc, char **argv) {
    ito_thread *threads[WRITERS + READERS + 2];
    int n = 0;
    rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
    ito_init(NULL);
    /* They wait for the readers' units. */
    for (long i = 0; i < 2; i++)
        ito_create(&threads[n++], NULL, player, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        ito_create(&threads[n++], NULL, writer, NULL);
    for (int i = 0; i < READERS; i++)
        ito_create(&threads[n++], NULL, reader, NULL);
    while (n)
        ito_join(threads[--n], NULL);
    ito_fini();
    puts("done");
    return 0;
}
