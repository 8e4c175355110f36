/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads, locks and light mode's counters, without a recorder: thread.c itself is part of this program, and the other
 * files of the probe are linked to it. `test_count [NAME]`. */
#include "thread.c"

#include <pthread.h>
#include <stdio.h>

static uint32_t mutex_type(const void *lock) {
    (void)lock;
    return KASURI_LOCK_MUTEX;
}

/* One hold of a lock that is free, by the way that does not count ahead. Return: whether it was recorded. */
static int hold(const void *lock) {
    probe_taken_slowly(lock, mutex_type, 0, 0);
    return probe_ends_recorded(probe_self, lock);
}

/* A signal handler that locks may bring a counter to 0 (probe_count_ahead). The next hold is then due; counting on from
 * 0 would wrap, and the thread would record no hold of that lock for 2^32 acquisitions. */
static int counter_at_zero_is_due(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const struct probe_entry *e = probe_entry_of(probe_self, &mutex);
    int recorded = 0;
    if (!hold(&mutex) || e->object != (uintptr_t)&mutex)
        return 0;
    probe_entry_of(probe_self, &mutex)->until = 0;
    if (!hold(&mutex) || e->until == 0 || e->until > 3 * PROBE_INTERVAL / 2)
        return 0;
    for (int i = 0; i < 1000; i++)
        recorded += hold(&mutex);
    /* The intervals double to 64 on average: about 1000 / 64, and those of the beginning. */
    return recorded >= 10 && recorded <= 40;
}

/* The head of thread.c says which: 1, 3, 7, 15, 31 and 63, then one in 32 to 95, at random. */
static int holds_are_recorded_ever_more_rarely(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    uint32_t last = 63, least = 1000, most = 0, is_odd = 0;
    for (uint32_t i = 1; i <= 63; i++)
        if (hold(&mutex) != ((i & (i + 1)) == 0))
            return 0;
    for (uint32_t i = 64, n = 0; n < 2000; i++) {
        if (!hold(&mutex))
            continue;
        least = i - last < least ? i - last : least;
        most = i - last > most ? i - last : most;
        is_odd += (i - last) & 1;
        last = i;
        n++;
    }
    return least == 32 && most == 95 && is_odd > 800 && is_odd < 1200;
}

/* A hold that was counted before it was tried, and had to wait, is counted back. */
static int counts_ahead_can_be_taken_back(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const struct probe_entry *e = probe_entry_of(probe_self, &mutex);
    if (probe_count_ahead(&mutex)) /* not known yet */
        return 0;
    for (int i = 0; i < 4; i++)
        hold(&mutex);
    uint32_t until = e->until; /* 4, and one of these holds is counted */
    if (until != 3 || probe_count_ahead(&mutex) != probe_self || e->until != 2)
        return 0;
    probe_count_back(&mutex);
    return e->until == 3 && probe_count_ahead(&mutex) && probe_count_ahead(&mutex) && !probe_count_ahead(&mutex);
}

/* While a hold is recorded no lock takes the way that only counts; a recursive acquisition does not end it. */
static int recorded_holds_are_remembered_to_their_end(void) {
    static char locks[PROBE_RECORDED + 1];
    struct probe_thread *t = probe_self;
    if (probe_counting != t)
        return 0;
    for (uint32_t i = 0; i < PROBE_RECORDED; i++)
        if (!probe_record_hold(t, &locks[i], 0) || probe_counting)
            return 0;
    if (probe_record_hold(t, &locks[PROBE_RECORDED], 0) || probe_ends_recorded(t, &locks[PROBE_RECORDED]))
        return 0;
    /* One that has ended is not held any more: its next hold is counted. */
    if (!probe_ends_recorded(t, &locks[PROBE_RECORDED - 1]))
        return 0;
    struct probe_entry *e = probe_entry_of(t, &locks[PROBE_RECORDED - 1]);
    *e = (struct probe_entry){(uintptr_t)&locks[PROBE_RECORDED - 1], 5, 8};
    probe_taken_slowly(&locks[PROBE_RECORDED - 1], mutex_type, 0, 0);
    if (e->until != 4 || !probe_record_hold(t, &locks[PROBE_RECORDED - 1], 0))
        return 0;
    probe_taken_slowly(&locks[5], mutex_type, 0, 0); /* once more */
    if (probe_ends_recorded(t, &locks[5]) || t->n_recorded != PROBE_RECORDED)
        return 0;
    for (uint32_t i = 0; i < PROBE_RECORDED; i++) /* as if by chance */
        if (probe_counting || !probe_ends_recorded(t, &locks[i * 37 % PROBE_RECORDED]))
            return 0;
    return probe_counting == t && t->n_recorded == 0 && !probe_ends_recorded(t, &locks[0]);
}

/* Locks that share a place in the thread's table push each other out. After many of that the first hold of a lock is
 * recorded no more often than any other, or a program with many locks would record every hold. */
static int many_locks_are_not_all_recorded(void) {
    static char locks[2][1 << 19]; /* so far apart that they have the same place */
    int recorded[2] = {0, 0};
    if (probe_entry_of(probe_self, locks[0]) != probe_entry_of(probe_self, locks[1]))
        return 0;
    for (int i = 0; i < 1024; i++)
        recorded[0] += hold(locks[i % 2]);
    for (int i = 0; i < 6400; i++)
        recorded[1] += hold(locks[i % 2]);
    return recorded[0] == 1024 && recorded[1] > 20 && recorded[1] < 400;
}

static void *no_op(void *p) {
    *(uint32_t *)p = (uint32_t)syscall(SYS_gettid);
    return p;
}
static uint32_t dead_tid(void) {
    pthread_t t;
    uint32_t tid = 0;
    pthread_create(&t, 0, no_op, &tid);
    pthread_join(t, 0);
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
        usleep(1000);
    return tid;
}

/* A table with `n` entries handed out, all of this thread but `dead`, which is of one that has ended. */
static void hand_out(uint32_t n, uint32_t dead) {
    uint32_t self = (uint32_t)syscall(SYS_gettid);
    process->n_threads = n;
    process->reclaim = 0;
    for (uint32_t i = 0; i < N_THREADS; i++) {
        memset(&process->threads[i], 0, sizeof process->threads[i]);
        process->threads[i].tid = i < n ? self : 0;
    }
    if (dead < N_THREADS) {
        process->threads[dead].tid = dead_tid();
        process->threads[dead].n_recorded = 1;
        process->threads[dead].entries[3].object = 1;
        process->threads[dead].evictions = 1;
    }
}

static int is_fresh(const struct probe_thread *t, uint32_t place, uint32_t tid) {
    return t == &process->threads[place] && t->tid == tid && !t->n_recorded && !t->entries[3].object && !t->evictions &&
           t->random;
}

/* A new thread gets the memory of one that has ended, if one of four that it looks at has, and never that of another.
 * The first 16 do not look. */
static int memory_of_ended_threads_is_used_again(void) {
    uint32_t me = 0x3ffffff0; /* above all TIDs */
    struct probe_thread *t = 0;
    hand_out(15, 2);
    if (!is_fresh(new_thread(me), 15, me) || process->n_threads != 16)
        return 0;
    hand_out(16, 2);
    if (!is_fresh(new_thread(me), 2, me) || process->n_threads != 16)
        return 0;
    hand_out(16, 4); /* the fifth is not looked at */
    if (!is_fresh(new_thread(me), 16, me) || process->n_threads != 17 || !is_fresh(new_thread(me + 1), 4, me + 1))
        return 0;
    hand_out(16, 15); /* round and round */
    process->reclaim = 16 * 3 + 14;
    if (!is_fresh(new_thread(me), 15, me))
        return 0;
    hand_out(N_THREADS - 1, N_THREADS);
    if (!is_fresh(new_thread(me), N_THREADS - 1, me) || new_thread(me + 1) || process->n_threads != N_THREADS)
        return 0;
    hand_out(N_THREADS, N_THREADS - 1);
    process->reclaim = N_THREADS - 1;
    if (!is_fresh(new_thread(me), N_THREADS - 1, me) || new_thread(me) || process->n_threads != N_THREADS)
        return 0;
    /* Without memory there is none for a thread. */
    struct process *kept = process;
    process = 0;
    probe_self = 0;
    if (probe_adopt() || probe_taken_slowly(&me, mutex_type, 0, 0))
        return 0;
    process = kept;
    /* Another thread was first. */
    t = &process->threads[0];
    return !claim(t, 0, me) && !claim(t, t->tid + 1, me) && t->tid == (uint32_t)syscall(SYS_gettid);
}

/* Beyond the last entry a thread goes without: its holds cost no memory, and end nowhere. */
static int a_thread_may_have_no_memory(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    hand_out(N_THREADS, N_THREADS);
    errno = 77;
    if (probe_adopt() || probe_self || probe_counting || errno != 77)
        return 0;
    probe_taken_slowly(&mutex, mutex_type, 0, 0);
    probe_request(&mutex, KASURI_LOCK_EXCLUSIVE, mutex_type, 0, 0);
    probe_acquired(&mutex, KASURI_LOCK_EXCLUSIVE, 1);
    return !probe_leaving(&mutex) && pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0;
}

/* A lock is new once in the process, unless there are too many of them. */
static int a_lock_is_new_once(void) {
    int again = 0;
    for (uint64_t i = 1; i <= N_SEEN / 2; i++)
        if (!is_new(i << 6) || is_new(i << 6))
            return 0;
    for (uint64_t i = 1; i <= N_SEEN / 2; i++)
        again += is_new(i << 6);
    if (again > 100)
        return 0;
    for (uint64_t i = 0; i < N_SEEN; i++)
        process->seen[i] = 1;
    return is_new(64) && !is_new(64) && is_new(128) && process->seen[N_SEEN - 1] <= 128;
}

static const struct {
    const char *name;
    int (*run)(void);
} tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(counter_at_zero_is_due),          TEST(holds_are_recorded_ever_more_rarely),
    TEST(counts_ahead_can_be_taken_back),  TEST(recorded_holds_are_remembered_to_their_end),
    TEST(many_locks_are_not_all_recorded), TEST(memory_of_ended_threads_is_used_again),
    TEST(a_thread_may_have_no_memory),     TEST(a_lock_is_new_once),
};

int main(int argc, char **argv) {
    for (unsigned i = 0; argc == 1 && i < sizeof tests / sizeof *tests; i++)
        puts(tests[i].name);
    if (argc != 2)
        return 2;
    setenv("KASURI_LOCKS", "light", 1);
    (void)probe_wake();
    if (!probe_adopt()) {
        printf("skipped: no memory that fork wipes (Linux 4.14)\n");
        return getenv("CI") ? 1 : 77;
    }
    for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, argv[1])) {
            int ok = tests[i].run();
            printf("%s: %s\n", argv[1], ok ? "ok" : "FAILED");
            return !ok;
        }
    return 2;
}
