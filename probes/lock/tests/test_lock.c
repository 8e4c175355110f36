/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs `lock_work` under the probe and a small recorder, and compares what the probe says with what the program knows.
 * `test_lock NAME WORK LIBRARY [EARLY]`. */
#define _GNU_SOURCE
#include "expect.h"
#include "reader.h"
#include "truth.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *work, *library, *early;
static struct truths *truths;
static char truth_path[64];

/* -- events -- */

struct event {
    uint32_t pid, tid, gen, kind, aux, site;
    uint64_t stamp, object, b;
    size_t order;
};
static struct event *events;
static size_t n_events, room;

static void on_event(void *context, const struct reader_event *e) {
    (void)context;
    if (n_events == room) {
        room = room ? room * 2 : 1 << 16;
        events = realloc(events, room * sizeof *events);
        if (!events)
            abort();
    }
    int is_short = e->kind == KASURI_EV_LOCK_TAKEN || e->kind == KASURI_EV_LOCK_LEFT;
    events[n_events] = (struct event){.pid = e->pid,
                                      .tid = e->tid,
                                      .gen = e->gen,
                                      .kind = e->kind,
                                      .aux = is_short ? 0 : e->aux,
                                      .site = is_short ? 0 : e->site,
                                      .stamp = e->stamp,
                                      .object = is_short ? e->aux | (uint64_t)e->site << 16 : e->payload[0],
                                      .b = e->slots > 1 ? e->payload[1] : 0,
                                      .order = n_events};
    n_events++;
}

static int by_thread(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->stamp != y->stamp)
        return x->stamp < y->stamp ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* -- running -- */

static struct reader *reader;
static char *output;  /* of the last run */
static rlim_t memory; /* that the next run may map; 0: any */
static uint32_t work_pid;
static int expects_losses;
static void (*meanwhile)(void); /* called again and again while the program runs */

static void make_truths(void) {
    snprintf(truth_path, sizeof truth_path, "/dev/shm/kasuri-truth-%d", getpid());
    int fd = open(truth_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *truths) != 0)
        exit(3);
    truths = mmap(NULL, sizeof *truths, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
}

/* Run; how: null without the probe, "" without KASURI_LOCKS. Return: wait status. */
static int run(const char *mode, const char *how, const char *more) {
    int pipe_fds[2], status = 0;
    size_t have = 0, size = 1 << 20;
    memset(truths, 0, sizeof *truths);
    n_events = 0;
    if (reader)
        reader_close(reader);
    struct reader_options options = {0};
    reader = how ? reader_open(&options, on_event, NULL) : NULL;
    if ((how && !reader) || pipe2(pipe_fds, O_CLOEXEC) != 0)
        exit(3);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char preload[1024];
        snprintf(preload, sizeof preload, "%s%s%s", how ? library : "", more ? ":" : "", more ? more : "");
        dup2(pipe_fds[1], 1);
        setenv("KASURI_TEST_TRUTH", truth_path, 1);
        if (*preload)
            setenv("LD_PRELOAD", preload, 1);
        if (how) {
            if (*how)
                setenv("KASURI_LOCKS", how, 1);
            else
                unsetenv("KASURI_LOCKS");
            setenv("KASURI_SESSION", reader_path(reader), 1);
        }
        if (memory)
            setrlimit(RLIMIT_AS, &(struct rlimit){memory, memory});
        execl(work, work, mode, (char *)NULL);
        _exit(127);
    }
    work_pid = (uint32_t)pid;
    close(pipe_fds[1]);
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    free(output);
    output = malloc(size);
    for (int over = 0;;) {
        ssize_t n = read(pipe_fds[0], output + have, size - 1 - have);
        if (n > 0) {
            have += (size_t)n;
            continue;
        }
        if (over)
            break;
        if (reader)
            reader_poll(reader);
        if (meanwhile)
            meanwhile();
        over = waitpid(pid, &status, WNOHANG) == pid;
        usleep(500);
    }
    output[have] = 0;
    close(pipe_fds[0]);
    if (reader) {
        reader_finish(reader);
        const struct reader_totals *t = reader_totals(reader);
        EXPECT(t->lost == 0 || expects_losses);
        EXPECT(t->open_records == 0 || WIFSIGNALED(status)); /* a stamp of 0 would leave one open */
        qsort(events, n_events, sizeof *events, by_thread);
    }
    return status;
}

static const char *site_name(const struct event *e) {
    const char *name = e->site ? reader_site(reader, e->pid, e->gen, e->site) : NULL;
    return name ? name : "";
}

static size_t count(uint32_t kind, uint64_t object) {
    size_t n = 0;
    for (size_t i = 0; i < n_events; i++)
        n += events[i].kind == kind && (!object || events[i].object == object);
    return n;
}

/* -- properties of every full recording -- */

static int is_begin(const struct event *e) {
    return e->kind == KASURI_EV_LOCK_TAKEN || e->kind == KASURI_EV_LOCK_ACQUIRED;
}
static int is_end(const struct event *e) {
    return e->kind == KASURI_EV_LOCK_LEFT || e->kind == KASURI_EV_LOCK_RELEASED;
}

/* Requests end, holds end, in each thread; `open`: holds that may be left. */
static void check_balance(size_t open) {
    size_t requests = 0, answers = 0, begins = 0, ends = 0;
    for (size_t i = 0; i < n_events; i++) {
        const struct event *e = &events[i];
        requests += e->kind == KASURI_EV_LOCK_REQUEST;
        begins += (size_t)is_begin(e);
        ends += (size_t)is_end(e);
        if (e->kind == KASURI_EV_LOCK_GIVEN_UP || e->kind == KASURI_EV_LOCK_ACQUIRED) {
            size_t j = i;
            while (j > 0 && events[j - 1].tid == e->tid && events[j - 1].pid == e->pid &&
                   !(events[j - 1].kind == KASURI_EV_LOCK_REQUEST && events[j - 1].object == e->object) &&
                   !(events[j - 1].object == e->object && is_end(&events[j - 1])))
                j--;
            answers += j > 0 && events[j - 1].kind == KASURI_EV_LOCK_REQUEST && events[j - 1].tid == e->tid;
        }
    }
    EXPECT(requests == answers);
    EXPECT(begins == ends + open);
}

/* Each planted section: exactly one hold, whose stamps lie inside the calls that made it. Return: sections checked. */
static size_t check_sections(void) {
    uint32_t n = truths->n;
    size_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct truth *t = &truths->rows[i];
        size_t begins = 0, ends = 0, requests = 0;
        /* Binary search for the thread's first event at or after before_lock. */
        size_t low = 0, high = n_events;
        while (low < high) {
            size_t mid = (low + high) / 2;
            const struct event *e = &events[mid];
            int before = e->pid != t->pid   ? e->pid < t->pid
                         : e->tid != t->tid ? e->tid < t->tid
                                            : e->stamp < t->before_lock;
            if (before)
                low = mid + 1;
            else
                high = mid;
        }
        for (; low < n_events && events[low].pid == t->pid && events[low].tid == t->tid &&
               events[low].stamp <= t->after_unlock;
             low++) {
            const struct event *e = &events[low];
            if (e->object != t->object)
                continue;
            if (e->stamp <= t->after_lock) {
                begins += (size_t)is_begin(e);
                requests += e->kind == KASURI_EV_LOCK_REQUEST;
            } else if (e->stamp >= t->before_unlock) {
                ends += (size_t)is_end(e);
            }
        }
        if (begins == 1 && ends == 1 && requests <= 1)
            found++;
        else if (!failed)
            fprintf(stderr, "section %u of %#llx: %zu begins, %zu ends, %zu requests\n", i,
                    (unsigned long long)t->object, begins, ends, requests);
        if (begins != 1 || ends != 1 || requests > 1)
            failed = 1;
    }
    return found;
}

/* -- tests -- */

/* Not a lock of a sanitizer or a library, which may be taken at any time. */
static int is_planted(uint64_t object) {
    for (uint32_t i = 0; i < truths->n; i++)
        if (truths->rows[i].object == object)
            return 1;
    return 0;
}

static int planted_sections_are_exact(void) {
    EXPECT(run("planted", "full", NULL) == 0);
    EXPECT(check_sections() == 3 * 400 * 6);
    check_balance(0);
    /* trylocks that succeeded are holds too */
    size_t held = 0;
    for (size_t i = 0; i < n_events; i++)
        held += is_begin(&events[i]) && is_planted(events[i].object);
    size_t planted = truths->n + truths->acquisitions;
    if (held != planted)
        fprintf(stderr, "%zu holds, %zu planted\n", held, planted);
    EXPECT(held == planted);
    EXPECT(count(KASURI_EV_WAIT_BEGIN, 0) == 3 && count(KASURI_EV_WAIT_END, 0) == 3);
    for (size_t i = 0; i < n_events; i++)
        if (events[i].kind == KASURI_EV_LOCK_DEFINE && events[i].object == truths->rows[0].object)
            EXPECT(strstr(site_name(&events[i]), "lock_work+0x"));
    /* Defined once in the process, however many threads use it. */
    for (size_t row = 0; row < 6; row++) {
        size_t defined = 0;
        for (size_t i = 0; i < n_events; i++)
            defined += events[i].kind == KASURI_EV_LOCK_DEFINE && events[i].aux != KASURI_LOCK_SYMBOL &&
                       events[i].object == truths->rows[row].object;
        EXPECT(defined == 1);
    }
    return failed;
}

/* Read "name lock n n n" of a way to lock. Return: whether it was one that worked. */
static int parse_way(const char *line, uint64_t *object, size_t n[3]) {
    const char *at = strchr(line, ' ') ? strstr(line, " 0x") : NULL;
    void *lock;
    int good = at && sscanf(at, " %p %zu %zu %zu", &lock, &n[0], &n[1], &n[2]) == 4 && strncmp(line, "failed", 6);
    if (!good)
        fprintf(stderr, "%.*s\n", (int)strcspn(line, "\n"), line);
    *object = good ? (uintptr_t)lock : 0;
    return good;
}

/* Whatever function takes a lock: its holds, and its requests in vain, are recorded once. */
static void check_ways(const char *mode, int expected) {
    int ways = 0;
    EXPECT(run(mode, "full", NULL) == 0);
    for (char *line = output; *line && !failed; line = strchr(line, '\n') + 1, ways++) {
        size_t n[3], begins = 0, ends = 0;
        uint64_t object;
        EXPECT(parse_way(line, &object, n));
        for (size_t i = 0; i < n_events; i++) {
            begins += events[i].object == object && is_begin(&events[i]);
            ends += events[i].object == object && is_end(&events[i]);
        }
        int good = begins == n[0] && ends == n[0] && count(KASURI_EV_LOCK_REQUEST, object) == n[1] &&
                   count(KASURI_EV_LOCK_GIVEN_UP, object) == n[2];
        if (!good)
            fprintf(stderr, "%zu begins, %zu ends: %.*s\n", begins, ends, (int)strcspn(line, "\n"), line);
        EXPECT(good);
    }
    EXPECT(ways == expected);
}

static int each_way_to_lock_is_recorded(void) {
    check_ways("ways", 32);
    check_ways("first_spin", 1);
    return failed;
}

/* Also where an event is the first that does not fit into a chunk. */
static int each_way_may_be_used_often(void) {
    check_ways("often", 32);
    return failed;
}

/* Light mode records the holds 1, 3, 7, 15, 31 and 63 of a lock, and counts the others: see the head of thread.c. */
static void check_sampled(const char *mode) {
    int ways = 0;
    EXPECT(run(mode, "light", NULL) == 0);
    for (char *line = output; *line && !failed; line = strchr(line, '\n') + 1) {
        size_t n[3], begins = 0, ends = 0, counts = 0, rest = 0;
        uint64_t object;
        int is_read = memmem(line, strcspn(line, "("), "rdlock", 6) != NULL;
        EXPECT(parse_way(line, &object, n));
        if (n[0] != 94)
            continue;
        ways++;
        for (size_t i = 0; i < n_events; i++) {
            const struct event *e = &events[i];
            if (e->object != object)
                continue;
            begins += (size_t)is_begin(e);
            ends += (size_t)is_end(e);
            EXPECT(!is_begin(e) || e->aux == (is_read ? KASURI_LOCK_SHARED : 0));
            if (e->kind == KASURI_EV_LOCK_COUNT && counts++ < 6)
                EXPECT(e->b == 1u << (counts - 1));
            else if (e->kind == KASURI_EV_LOCK_COUNT)
                rest += e->b;
        }
        if (begins != 6 || ends != 6 || counts < 6 || (rest && rest != 94 - 63))
            fprintf(stderr, "%zu begins, %zu ends, %zu counts: %s", begins, ends, counts, line);
        EXPECT(begins == 6 && ends == 6 && counts >= 6 && (!rest || rest == 94 - 63));
    }
    EXPECT(ways == 17);
}
static int light_mode_records_ever_fewer_holds(void) {
    check_sampled("sampled");
    check_sampled("sampled_inside");
    return failed;
}

/* What was counted of a lock is written when the thread forgets it for another. */
static int counts_of_forgotten_locks_are_written(void) {
    enum { END = 99 };
    static const uint64_t expected[2][8] = {{1, 2, 4, 3, 1, 2, END}, {1, 2, 2, 1, END}};
    void *locks[2];
    EXPECT(run("forgotten", "light", NULL) == 0);
    EXPECT(sscanf(output, "%p %p", &locks[0], &locks[1]) == 2);
    for (int k = 0; k < 2 && !failed; k++) {
        size_t n = 0;
        for (size_t i = 0; i < n_events; i++)
            if (events[i].kind == KASURI_EV_LOCK_COUNT && events[i].object == (uintptr_t)locks[k])
                EXPECT(n < 8 && events[i].b == expected[k][n++]);
        EXPECT(n < 8 && expected[k][n] == END);
    }
    return failed;
}

/* What a thread locks once the gate is closed is not recorded, also where the thread's chunk has room. */
static void stop_the_recording(void) {
    if (__atomic_load_n(&truths->waits, __ATOMIC_ACQUIRE) != 1)
        return;
    __atomic_store_n(&reader_control(reader)->state, KASURI_SESSION_STOPPED, __ATOMIC_RELEASE);
    __atomic_store_n(&truths->waits, 2, __ATOMIC_RELEASE);
}
static int nothing_is_recorded_after_the_end(void) {
    static const char *const how[] = {"full", "light"};
    for (int i = 0; i < 2; i++) {
        size_t before = 0, after = 0;
        meanwhile = stop_the_recording;
        expects_losses = 1;
        EXPECT(run("after_the_end", how[i], NULL) == 0 && !strstr(output, "failed"));
        meanwhile = NULL;
        expects_losses = 0;
        for (size_t k = 0; k < n_events; k++)
            *(events[k].stamp < truths->rows[0].before_lock ? &before : &after) += 1;
        if (after)
            fprintf(stderr, "%s: %zu events after the end\n", how[i], after);
        EXPECT(before > 10 && after == 0);
    }
    return failed;
}

/* In light mode a hold whose end cannot be remembered is not recorded at all. */
static int no_hold_begins_that_does_not_end(void) {
    size_t begins = 0, ends = 0;
    EXPECT(run("deep", "light", NULL) == 0);
    for (size_t i = 0; i < n_events; i++) {
        begins += (size_t)is_begin(&events[i]);
        ends += (size_t)is_end(&events[i]);
    }
    EXPECT(begins == ends && begins >= 60 && begins < 70);
    return failed;
}

static int holder_is_known(void) {
    int found = 0;
    EXPECT(run("holder", "full", NULL) == 0);
    EXPECT(check_sections() == 2);
    check_balance(0);
    for (size_t i = 0; i + 1 < n_events; i++) {
        if (events[i].kind != KASURI_EV_LOCK_REQUEST)
            continue;
        found++;
        EXPECT(events[i].b == truths->holder && events[i].tid != truths->holder);
        EXPECT(events[i].object == truths->rows[0].object);
        EXPECT(strstr(site_name(&events[i]), "lock_work+0x"));
        EXPECT(events[i + 1].kind == KASURI_EV_LOCK_ACQUIRED && events[i + 1].stamp > events[i].stamp);
    }
    EXPECT(found == 1);
    return failed;
}

static int convoy_waits_are_all_there(void) {
    EXPECT(run("convoy", "full", NULL) == 0);
    EXPECT(check_sections() == 400);
    check_balance(0);
    EXPECT(count(KASURI_EV_LOCK_REQUEST, 0) > 0);
    EXPECT(count(KASURI_EV_WAIT_BEGIN, 0) == 4 + 4); /* barrier, join */
    return failed;
}

static int inversion_shows_both_orders(void) {
    size_t nested[2] = {0, 0};
    EXPECT(run("inversion", "full", NULL) == 0);
    EXPECT(check_sections() == 4);
    check_balance(0);
    for (size_t i = 0; i < n_events; i++)
        for (size_t j = i + 1; is_begin(&events[i]) && j < n_events && events[j].tid == events[i].tid &&
                               !(is_end(&events[j]) && events[j].object == events[i].object);
             j++)
            if (is_begin(&events[j]))
                nested[events[i].object < events[j].object]++;
    EXPECT(nested[0] == 1 && nested[1] == 1);
    return failed;
}

static char *copy(const char *s) {
    char *p = strdup(s);
    if (!p)
        abort();
    return p;
}

/* The program prints the same results with and without the probe. */
static void same_as_without(const char *mode, const char *more) {
    static const char *const how[] = {"full", "light"};
    int status = run(mode, NULL, NULL);
    char *plain = copy(output);
    for (int i = 0; i < 2; i++) {
        int with = run(mode, how[i], more);
        if (with != status || strcmp(plain, output)) {
            fprintf(stderr, "%s under %s: status %#x, without %#x; output:\n%s\nwithout:\n%s\n", mode, how[i], with,
                    status, output, plain);
            failed = 1;
        }
        EXPECT(n_events > 0);
    }
    free(plain);
}

static int results_are_those_without(void) {
    same_as_without("say", NULL);
    return failed;
}

static int cancellation_is_as_without(void) {
    same_as_without("cancel_pending", NULL);
    same_as_without("cancel", NULL);
    EXPECT(run("cancel", "full", NULL) == 0);
    check_balance(0);
    EXPECT(count(KASURI_EV_WAIT_BEGIN, 0) == count(KASURI_EV_WAIT_END, 0));
    return failed;
}

static int destructors_and_exit_handlers_lock(void) {
    same_as_without("destructors", NULL);
    EXPECT(run("destructors", "full", NULL) == 5 << 8);
    EXPECT(check_sections() == 401);
    check_balance(0);
    return failed;
}

static int children_are_processes_of_their_own(void) {
    same_as_without("forks", NULL);
    EXPECT(run("forks", "full", NULL) == 0);
    EXPECT(check_sections() == 6 + 5 * 10 + 1);
    check_balance(0);
    size_t defined = 0; /* in each process: 1 parent, 5 children, 1 after exec */
    for (size_t i = 0; i < n_events; i++)
        defined += events[i].kind == KASURI_EV_LOCK_DEFINE && events[i].aux != KASURI_LOCK_SYMBOL;
    EXPECT(defined == 7);
    return failed;
}

static int shared_mutex_of_killed_holders(void) {
    same_as_without("process_shared", NULL);
    EXPECT(run("process_shared", "full", NULL) == 0);
    EXPECT(check_sections() == 600);
    check_balance(3); /* the killed ones never released */
    size_t shared = 0;
    for (size_t i = 0; i < n_events; i++)
        shared += events[i].kind == KASURI_EV_LOCK_DEFINE &&
                  events[i].aux == (KASURI_LOCK_MUTEX | KASURI_LOCK_ROBUST | KASURI_LOCK_PSHARED);
    EXPECT(shared == 4);
    return failed;
}

static int many_locks_and_short_threads(void) {
    EXPECT(run("many_locks", "full", NULL) == 0);
    EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) == truths->acquisitions);
    EXPECT(count(KASURI_EV_LOCK_LEFT, 0) == truths->acquisitions);
    EXPECT(count(KASURI_EV_LOCK_DEFINE, 0) >= 20000);
    same_as_without("many_locks", NULL);
    EXPECT(run("short_threads", "full", NULL) == 0);
    EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) + count(KASURI_EV_LOCK_ACQUIRED, 0) == truths->acquisitions);
    check_balance(0);
    same_as_without("short_threads", NULL);
    return failed;
}

/* Light mode: the counted, the recorded and the remaining holds add up to all holds of the program. */
static int light_mode_counts(void) {
    uint64_t counted = 0, samples = 0, objects[2] = {0, 0}, n[2] = {0, 0};
    same_as_without("counted", NULL);
    EXPECT(run("counted", "light", NULL) == 0);
    check_balance(0);
    /* Not of children: ThreadSanitizer's symbolizer is one, and has locks of its own. */
    size_t of_work = 0;
    for (size_t i = 0; i < n_events; i++)
        if (events[i].pid == work_pid)
            events[of_work++] = events[i];
    n_events = of_work;
    for (size_t i = 0; i < n_events; i++) {
        const struct event *e = &events[i];
        samples += is_begin(e);
        if (e->kind != KASURI_EV_LOCK_COUNT)
            continue;
        counted += e->b;
        for (int k = 0; k < 2 && e->tid != e->pid; k++) /* the main thread uses the recursive one */
            if (!objects[k] || objects[k] == e->object) {
                objects[k] = e->object;
                n[k] += e->b;
                break;
            }
    }
    for (int k = 0; k < 2; k++)
        EXPECT(n[k] > 200000 - 100 && n[k] <= 200000);
    EXPECT(samples > 400000 / 80 && samples < 400000 / 50);
    EXPECT(counted > 400000);
    /* Sampled outer holds of the recursive mutex last as long as the outer section. */
    size_t holds = 0;
    for (size_t i = 0; i < n_events; i++) {
        const struct event *e = &events[i], *end = e + 1;
        if (e->object != truths->rows[0].object || !is_begin(e))
            continue;
        while (end < events + n_events && (end->object != e->object || end->kind == KASURI_EV_LOCK_COUNT))
            end++;
        for (uint32_t k = 0; k < truths->n; k++) {
            const struct truth *t = &truths->rows[k];
            if (e->stamp < t->before_lock || e->stamp > t->after_lock)
                continue;
            EXPECT(end < events + n_events && is_end(end) && end->stamp >= t->before_unlock &&
                   end->stamp <= t->after_unlock);
            holds++;
        }
    }
    EXPECT(holds > 5);
    return failed;
}

static int barriers_and_once_wait(void) {
    size_t kinds[8] = {0};
    same_as_without("waits", NULL);
    EXPECT(run("waits", "full", NULL) == 0);
    for (size_t i = 0; i < n_events; i++)
        if (events[i].kind == KASURI_EV_WAIT_BEGIN)
            kinds[events[i].aux & 7]++;
    EXPECT(kinds[KASURI_WAIT_BARRIER] == 3 + 150 && kinds[KASURI_WAIT_JOIN] == 6);
    EXPECT(kinds[KASURI_WAIT_ONCE] == 2);
    EXPECT(count(KASURI_EV_WAIT_BEGIN, 0) == count(KASURI_EV_WAIT_END, 0));
    return failed;
}

static int signals_while_locking(void) {
    same_as_without("signals", NULL);
    EXPECT(run("signals", "full", NULL) == 0);
    check_balance(0);
    EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) == 600000);
    return failed;
}

static int early_library_and_locking_malloc(void) {
    same_as_without("say", early);
    same_as_without("planted", early);
    EXPECT(run("planted", "full", early) == 0);
    EXPECT(check_sections() == 3 * 400 * 6);
    check_balance(0);
    return failed;
}

static int ends_by_signal_are_as_without(void) {
    same_as_without("killed", NULL);
    same_as_without("aborts", NULL);
    EXPECT(run("killed", "full", NULL) == 9);
    EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) == 1 && count(KASURI_EV_LOCK_LEFT, 0) == 0);
    return failed;
}

/* Without a session, or with a broken one, the library is as good as absent. */
static int no_session_changes_nothing(void) {
    int status = run("say", NULL, NULL);
    char *plain = copy(output);
    setenv("KASURI_LOCKS", "full", 1);
    EXPECT(run("say", NULL, library) == status && !strcmp(plain, output));
    setenv("KASURI_SESSION", "/nonexistent", 1);
    EXPECT(run("say", NULL, library) == status && !strcmp(plain, output));
    EXPECT(run("say", "", NULL) == status && !strcmp(plain, output) && n_events == 0);
    free(plain);
    return failed;
}

/* Each wait for a lock is recorded whole, and says who held the lock. */
static void check_wanted(const char *how) {
    int ways = 0;
    EXPECT(run("wanted", how, NULL) == 0);
    for (char *line = output; *line; line = strchr(line, '\n') + 1, ways++) {
        char *at = strstr(line, " 0x");
        void *lock = NULL;
        uint32_t holder = 0;
        EXPECT(at && sscanf(at, " %p %u", &lock, &holder) == 2 && strncmp(line, "failed", 6));
        uint64_t object = (uintptr_t)lock;
        size_t requests = 0;
        for (size_t i = 0; i < n_events; i++) {
            const struct event *e = &events[i];
            if (e->object != object || e->kind != KASURI_EV_LOCK_REQUEST)
                continue;
            requests++;
            EXPECT(e->tid == work_pid && e->b == holder && i + 2 < n_events);
            EXPECT(e[1].object == object && e[1].tid == e->tid && e[1].kind == KASURI_EV_LOCK_ACQUIRED);
            EXPECT(e[2].object == object && e[2].tid == e->tid && is_end(&e[2]));
        }
        if (requests != 1)
            fprintf(stderr, "%s: %zu requests: %.*s\n", how, requests, (int)strcspn(line, "\n"), line);
        EXPECT(requests == 1);
    }
    EXPECT(ways == 9);
}

/* Light mode leaves out holds, and no waits, whatever the lock, also where the lock was counted before. */
static int every_wait_is_recorded(void) {
    check_wanted("full");
    check_wanted("light");
    return failed;
}

/* Each wait is recorded once and says whether its time ended it; a mutex is held again only where the call says so. */
static int timed_waits_say_how_they_ended(void) {
    int lines = 0;
    EXPECT(run("timed_waits", "full", NULL) == 0);
    for (char *line = output; *line; line = strchr(line, '\n') + 1, lines++) {
        char *at = strstr(line, " 0x");
        void *pointer = NULL;
        size_t expected[3] = {0}, waits = 0, told = 0, begins = 0;
        int n = at ? sscanf(at, " %p %zu %zu %zu", &pointer, &expected[0], &expected[1], &expected[2]) : 0;
        uint64_t object = (uintptr_t)pointer;
        for (size_t i = 0; i < n_events; i++) {
            const struct event *e = &events[i];
            waits += e->kind == KASURI_EV_WAIT_BEGIN && e->object == object;
            told += e->kind == KASURI_EV_WAIT_END && e->object == object && e->b;
            begins += is_begin(e) && e->object == object;
        }
        int is_lock = !strncmp(line, "m", 1);
        int good = n >= 3 && strncmp(line, "failed", 6) &&
                   (is_lock ? begins == expected[0] : waits == expected[0] && told == expected[1]) &&
                   count(KASURI_EV_WAIT_END, object) == waits;
        if (!good)
            fprintf(stderr, "%zu waits, %zu by time, %zu holds: %.*s\n", waits, told, begins, (int)strcspn(line, "\n"),
                    line);
        EXPECT(good);
    }
    EXPECT(lines == 14);
    /* In light mode, where the hold is recorded, each wait ends one hold and begins another. */
    EXPECT(run("timed_waits", "light", NULL) == 0);
    check_balance(0);
    EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) == 3 + 2 + 1);
    return failed;
}

/* A lock outside all modules has the name of no module; it is defined all the same. The fourth lock is in a module. */
static int locks_outside_modules_have_no_symbol(void) {
    size_t defined = 0, symbols = 0;
    EXPECT(run("outside", "full", NULL) == 0);
    for (size_t i = 0; i < n_events; i++)
        if (events[i].kind == KASURI_EV_LOCK_DEFINE) {
            defined += events[i].aux != KASURI_LOCK_SYMBOL;
            symbols += events[i].aux == KASURI_LOCK_SYMBOL && strstr(site_name(&events[i]), "lock_work+0x");
            EXPECT(events[i].aux != KASURI_LOCK_SYMBOL || symbols == 1);
        }
    EXPECT(defined == 4 && symbols == 1);
    return failed;
}

/* Each initialisation begins a new life of the address, with its type. */
static int each_initialisation_begins_a_life(void) {
    static const uint32_t types[] = {KASURI_LOCK_MUTEX, KASURI_LOCK_RWLOCK, KASURI_LOCK_SPIN | KASURI_LOCK_PSHARED,
                                     KASURI_LOCK_RECURSIVE};
    int lines = 0;
    EXPECT(run("lives", "full", NULL) == 0);
    for (char *line = output; *line; line = strchr(line, '\n') + 1, lines++) {
        void *lock = NULL;
        unsigned kind = 0;
        size_t n = 0;
        EXPECT(sscanf(line, "%p %u", &lock, &kind) == 2 && kind < 4);
        for (size_t i = 0; i < n_events; i++)
            n += events[i].kind == KASURI_EV_LOCK_DEFINE && events[i].object == (uintptr_t)lock &&
                 events[i].aux == types[kind & 3];
        EXPECT(n == 2);
    }
    EXPECT(lines == 4);
    return failed;
}

static int light_mode_reads_as_without(void) {
    same_as_without("readers", NULL);
    return failed;
}

/* A process without memory for the probe goes on without it. The probe wants 21 MB, the program needs less. */
static int without_memory_nothing_is_recorded(void) {
    memory = 16 << 20;
    EXPECT(run("deep", NULL, NULL) == 0);
    EXPECT(run("deep", "full", NULL) == 0);
    EXPECT(n_events == 0);
    memory = 0;
    return failed;
}

/* -- programs that confine themselves (confined.c) -- */

/* Ends as it does alone, in both modes; what it did before is there; what is not there is counted, or it is said. */
static void check_confined(const char *mode, size_t before) {
    expects_losses = 1;
    same_as_without(mode, NULL);
    EXPECT(count(KASURI_EV_MESSAGE, 0) >= 1);
    run(mode, "full", NULL);
    EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) >= before && count(KASURI_EV_MESSAGE, 0) >= 1);
    expects_losses = 0;
}

static int strict_programs_end_as_without(void) {
    check_confined("strict", 100);
    check_confined("strict-early", 0);
    check_confined("strict-seccomp", 100);
    check_confined("forked-strict", 100 + 20000);
#ifdef __x86_64__
    check_confined("tsc", 100);
#endif
    return failed;
}

/* No call is made, and what fits into the rings is recorded all the same. */
static int filtered_programs_end_as_without(void) {
    check_confined("kill", 100);
    check_confined("kill-early", 0);
    check_confined("kill-seccomp", 100);
    check_confined("kill-syscall", 100);
    check_confined("kill-exit", 100);
    check_confined("errno", 100);
    check_confined("errno-exit", 100);
    check_confined("trap", 100);
    check_confined("trap-syscall-early", 0);
    check_confined("forked-kill", 100 + 20000);
    check_confined("forked-trap-early", 100 + 20000);
    check_confined("kill-partly-exec", 100); /* what is executed has the filter, too */
    check_confined("kill-partly-exec-early", 0);
    return failed;
}

static int threads_of_a_filtered_program_go_on(void) {
    check_confined("kill-thread", 100);
    check_confined("kill-thread-tsync", 100);
    check_confined("trap-thread-tsync-early", 0);
    return failed;
}

/* Events that were written, and those that were not. */
static int what_a_filtered_program_did_is_kept_or_counted(void) {
    size_t kept;
    expects_losses = 1;
    EXPECT(run("kill", "full", NULL) == 8 << 8);
    kept = count(KASURI_EV_LOCK_TAKEN, 0) + count(KASURI_EV_LOCK_LEFT, 0) + count(KASURI_EV_INSTANT, 0);
    EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) > 1000);
    /* Also the instant and the message that come after, and the second text of the probe itself. */
    EXPECT(kept + reader_totals(reader)->lost >= 3 * (100 + 20000) + 1);
    EXPECT(kept + reader_totals(reader)->lost <= 3 * (100 + 20000) + 1 + 8);
    expects_losses = 0;
    return failed;
}

/* Filters that let the client's calls pass, and those that the kernel refuses: all is recorded as before, and so is what
 * is executed then. Only while the filter is being set another thread may lose what needs a call; that is counted. */
static int a_filter_that_lets_calls_pass_changes_nothing(void) {
    static const char *const modes[] = {"errno-passing", "trap-passing-tsync-thread", "kill-refused",
                                        "strict-refused-errno-passing"};
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
        expects_losses = strstr(modes[i], "thread") != NULL;
        same_as_without(modes[i], NULL);
        run(modes[i], "full", NULL);
        EXPECT(reader_totals(reader)->lost < 1000);
        EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) >= 100 + 20000 + 100 && count(KASURI_EV_MESSAGE, 0) == 2);
        EXPECT(count(KASURI_EV_LOCK_TAKEN, 0) == 100 + 20000 + 100 || strstr(modes[i], "thread"));
    }
    EXPECT(run("errno-passing-exec", "full", NULL) == 6 << 8 &&
           count(KASURI_EV_LOCK_TAKEN, 0) == 100 + 20000 + 100 + 100);
    return failed;
}

static const struct {
    const char *name;
    int (*run)(void);
} tests[] = {
#define TEST(name)                                                                                                     \
    { #name, name }
    TEST(planted_sections_are_exact),
    TEST(each_way_to_lock_is_recorded),
    TEST(each_way_may_be_used_often),
    TEST(light_mode_records_ever_fewer_holds),
    TEST(counts_of_forgotten_locks_are_written),
    TEST(nothing_is_recorded_after_the_end),
    TEST(no_hold_begins_that_does_not_end),
    TEST(holder_is_known),
    TEST(convoy_waits_are_all_there),
    TEST(inversion_shows_both_orders),
    TEST(results_are_those_without),
    TEST(cancellation_is_as_without),
    TEST(destructors_and_exit_handlers_lock),
    TEST(children_are_processes_of_their_own),
    TEST(shared_mutex_of_killed_holders),
    TEST(many_locks_and_short_threads),
    TEST(light_mode_counts),
    TEST(barriers_and_once_wait),
    TEST(signals_while_locking),
    TEST(early_library_and_locking_malloc),
    TEST(ends_by_signal_are_as_without),
    TEST(no_session_changes_nothing),
    TEST(every_wait_is_recorded),
    TEST(each_initialisation_begins_a_life),
    TEST(light_mode_reads_as_without),
    TEST(timed_waits_say_how_they_ended),
    TEST(locks_outside_modules_have_no_symbol),
    TEST(without_memory_nothing_is_recorded),
    TEST(strict_programs_end_as_without),
    TEST(filtered_programs_end_as_without),
    TEST(threads_of_a_filtered_program_go_on),
    TEST(what_a_filtered_program_did_is_kept_or_counted),
    TEST(a_filter_that_lets_calls_pass_changes_nothing),
};

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    work = argv[2];
    library = argv[3];
    early = argc > 4 ? argv[4] : NULL;
    make_truths();
    int result = 2;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, argv[1]))
            result = tests[i].run();
    if (reader)
        reader_close(reader);
    unlink(truth_path);
    return result;
}
