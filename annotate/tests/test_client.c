/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names, threads, and the ways into and out of a session. `test_client NAME`. */
#include "own_session.h"

/* -- what is asked before an event is kept -- */

static int the_recorder_lives_while_it_holds_its_lock(void) {
    struct rlimit files, none = {0, 0};
    join(KASURI_POLICY_GROW);
    EXPECT(kasuri__recorder_lives(c));
    getrlimit(RLIMIT_NOFILE, &files);
    none.rlim_max = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &none); /* it cannot be asked */
    EXPECT(kasuri__recorder_lives(c) == 1);
    setrlimit(RLIMIT_NOFILE, &files);
    control->state = KASURI_SESSION_STOPPED;
    EXPECT(!kasuri__recorder_lives(c));
    control->state = KASURI_SESSION_FROZEN;
    EXPECT(kasuri__recorder_lives(c));
    close(lock_fd);
    EXPECT(!kasuri__recorder_lives(c));
    hold_lock();
    unlink(file("control"));
    EXPECT(kasuri__recorder_lives(c) == KASURI__OUT_OF_SIGHT);
    remove_session();
    EXPECT(kasuri__recorder_lives(c) == KASURI__OUT_OF_SIGHT);
    control->state = KASURI_SESSION_STOPPED;
    EXPECT(!kasuri__recorder_lives(c));
    return failed;
}

/* All that this client has counted as lost, by cause. */
static uint64_t all_lost(int cause) {
    uint64_t n = control->lost[cause];
    for (uint32_t i = 0; i < c->n_segments; i++) {
        n += c->segments[i].header->lost[cause];
        for (uint32_t k = 0; k < c->segments[i].n_chunks; k++)
            n += chunk_of((int)i, k)->lost[cause];
    }
    return n;
}

/* As after chroot(), or behind a file system that is mounted over it: the session is there, but not for this process. */
static int a_session_out_of_sight_keeps_what_fits_and_counts_the_rest(void) {
    enum { N = 50000, SLOTS = 4 * 4096 / 16 };
    char away[sizeof directory + 8];
    join(KASURI_POLICY_GROW);
    KASURI_INSTANT("known");
    snprintf(away, sizeof away, "%s-away", directory);
    EXPECT(rename(directory, away) == 0);
    for (int i = 0; i < N; i++)
        KASURI_INSTANT("new");
    EXPECT(kasuri_enabled() && all_lost(KASURI_LOST_SITE) == N); /* its name is told to nobody */
    for (int i = 0; i < N; i++)
        kasuri_instant(1);
    EXPECT(kasuri_enabled() && all_lost(KASURI_LOST_FULL) > N - SLOTS && all_lost(KASURI_LOST_FULL) < N);
    EXPECT(all_lost(KASURI_LOST_LIMIT) == 0 && kasuri_intern("not told") == 0);
    kasuri__gate.gate = 0; /* nobody records any more: a name for the next session */
    EXPECT(kasuri_intern("for the next") > 0);
    EXPECT(rename(away, directory) == 0);
    return failed;
}

static int a_child_that_does_not_see_the_session_is_counted(void) {
    char away[sizeof directory + 8];
    int status;
    join(KASURI_POLICY_GROW);
    snprintf(away, sizeof away, "%s-away", directory);
    EXPECT(rename(directory, away) == 0);
    for (uint32_t n = 1; n <= 2; n++) {
        pid_t pid = fork();
        if (pid == 0) {
            kasuri_instant(1);
            kasuri_instant(1);
            _exit(kasuri_enabled());
        }
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0 && control->refused == n);
        control->state = n == 1 ? KASURI_SESSION_FROZEN : KASURI_SESSION_STOPPED;
    }
    pid_t pid = fork();
    if (pid == 0) {
        kasuri_instant(1);
        _exit(kasuri_enabled());
    }
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0 && control->refused == 2); /* nobody records any more */
    EXPECT(rename(away, directory) == 0);
    return failed;
}

static int errors_have_causes(void) {
    EXPECT(kasuri__cause_of(0) == KASURI_LOST_FULL && kasuri__cause_of(-EACCES) == KASURI_LOST_FULL);
    EXPECT(kasuri__cause_of(-ENOSPC) == KASURI_LOST_SPACE && kasuri__cause_of(-EDQUOT) == KASURI_LOST_SPACE);
    EXPECT(kasuri__cause_of(-EMFILE) == KASURI_LOST_LIMIT && kasuri__cause_of(-ENOMEM) == KASURI_LOST_LIMIT);
    return failed;
}

/* What was refused, under the limit that it was refused for, is told to the recorder, once. */
static int limits_are_told(void) {
    static const struct {
        int resource;
        uint32_t which;
        int error;
    } cases[] = {{RLIMIT_NOFILE, KASURI_HINDRANCE_FILES, EMFILE},
                 {RLIMIT_FSIZE, KASURI_HINDRANCE_FILE_SIZE, EFBIG},
                 {RLIMIT_AS, KASURI_HINDRANCE_ADDRESSES, ENOMEM}};
    static const uint32_t nothing[KASURI_HINDRANCES] = {0};
    join(KASURI_POLICY_GROW);
    EXPECT(!memcmp(control->hindrance, nothing, sizeof nothing));
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t which = cases[i].which;
        struct rlimit before, limit;
        getrlimit(cases[i].resource, &before);
        limit = before;
        limit.rlim_cur = 1;
        setrlimit(cases[i].resource, &limit);
        int grown = kasuri__grow(c);
        setrlimit(cases[i].resource, &before);
        EXPECT(!grown && c->grow_cause == KASURI_LOST_LIMIT);
        EXPECT(control->hindrance[which] == (uint32_t)cases[i].error && control->hindrance_limit[which] == 1);
        for (uint32_t k = 0; k < KASURI_HINDRANCES; k++) /* and of nothing else */
            EXPECT(k == which || !control->hindrance[k]);
        control->hindrance[which] = 0;
    }
    return failed;
}

/* By the error alone, where the kernel's answer cannot be had here. */
static int errors_are_told(void) {
    struct rlimit before, limit;
    join(KASURI_POLICY_GROW);
    getrlimit(RLIMIT_DATA, &before);
    limit = before;
    limit.rlim_cur = 123456789;
    setrlimit(RLIMIT_DATA, &limit);
    EXPECT(kasuri__hinder(control, -ENOMEM, 0) == KASURI_LOST_LIMIT); /* of memory that it is not for */
    EXPECT(!control->hindrance[KASURI_HINDRANCE_DATA] && control->hindrance[KASURI_HINDRANCE_OTHER] == ENOMEM);
    EXPECT(control->hindrance_limit[KASURI_HINDRANCE_OTHER] == ~0ull);
    kasuri__hinder(control, -ENOMEM, 1);
    EXPECT(control->hindrance[KASURI_HINDRANCE_DATA] == ENOMEM);
    EXPECT(control->hindrance_limit[KASURI_HINDRANCE_DATA] == 123456789);
    limit.rlim_cur = 1234567890;
    setrlimit(RLIMIT_DATA, &limit);
    kasuri__hinder(control, -ENOMEM, 1); /* the first one stays */
    EXPECT(control->hindrance_limit[KASURI_HINDRANCE_DATA] == 123456789);
    setrlimit(RLIMIT_DATA, &before);
    getrlimit(RLIMIT_MEMLOCK, &before);
    limit.rlim_cur = 4096;
    limit.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_MEMLOCK, &limit);
    kasuri__hinder(control, -EAGAIN, 0);
    EXPECT(control->hindrance[KASURI_HINDRANCE_LOCKED] == EAGAIN);
    EXPECT(control->hindrance_limit[KASURI_HINDRANCE_LOCKED] == 4096);
    EXPECT(kasuri__hinder(control, -EDQUOT, 0) == KASURI_LOST_SPACE &&
           control->hindrance[KASURI_HINDRANCE_QUOTA] == EDQUOT);
    EXPECT(kasuri__hinder(control, -ENOSPC, 0) == KASURI_LOST_SPACE &&
           control->hindrance[KASURI_HINDRANCE_SPACE] == ENOSPC);
    EXPECT(control->hindrance_limit[KASURI_HINDRANCE_SPACE] == ~0ull);
    EXPECT(kasuri__hinder(0, -EMFILE, 0) == KASURI_LOST_LIMIT);
    /* The page of a recorder that knows nothing of it. */
    control->struct_size = offsetof(struct kasuri_control, hindrance);
    EXPECT(kasuri__hinder(control, -EMFILE, 0) == KASURI_LOST_LIMIT && !control->hindrance[KASURI_HINDRANCE_FILES]);
    return failed;
}

static int losses_are_counted_beside_the_events(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    struct kasuri_segment *segment = c->segments[0].header;
    struct kasuri_chunk *chunk = fill(0, "e").chunk;
    kasuri__count_lost(c, 0, KASURI_LOST_BIG);
    kasuri__count_lost(c, t, KASURI_LOST_BIG);
    EXPECT(segment->lost[KASURI_LOST_BIG] == 2 && control->lost[KASURI_LOST_BIG] == 0);
    t->now.chunk = chunk;
    kasuri__count_lost(c, t, KASURI_LOST_SITE);
    uint64_t first = chunk->lost_first;
    EXPECT(chunk->lost[KASURI_LOST_SITE] == 1 && first && chunk->lost_last == first);
    kasuri__count_lost(c, t, KASURI_LOST_SITE);
    EXPECT(chunk->lost[KASURI_LOST_SITE] == 2 && chunk->lost_first == first && chunk->lost_last > first);
    c->first_segment = c->n_segments; /* a session without a segment */
    kasuri__count_lost(c, 0, KASURI_LOST_FULL);
    EXPECT(control->lost[KASURI_LOST_FULL] == 1);
    c->first_segment = 0;
    return failed;
}

/* Whether a loss is counted like the last one, with one condition changed. */
static int counts_stalled(struct kasuri__thread *t) {
    uint32_t before = t->now.chunk->lost[KASURI_LOST_FULL] + t->now.chunk->lost[KASURI_LOST_FROZEN];
    int dealt = kasuri__count_stalled(c, t);
    uint32_t counted = t->now.chunk->lost[KASURI_LOST_FULL] + t->now.chunk->lost[KASURI_LOST_FROZEN] - before;
    EXPECT(counted == (uint32_t)dealt && t->counting == 0);
    return dealt;
}
static int a_loss_like_the_last_is_counted_at_once(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_OVERWRITE);
    int dealt = 0;
    t->now = fill(0, "e");
    t->stalled = 1;
    t->stalled_cause = KASURI_LOST_FULL;
    t->stalled_freed = control->freed;
    EXPECT(counts_stalled(t));
    t->stalled = 0;
    EXPECT(!counts_stalled(t));
    t->stalled = 1;
    kasuri__gate.gate = 0;
    EXPECT(!counts_stalled(t));
    kasuri__gate.gate = 1;
    t->epoch++;
    EXPECT(!counts_stalled(t));
    t->epoch--;
    control->freed++;
    EXPECT(!counts_stalled(t));
    control->freed--;
    t->stalled_cause = KASURI_LOST_FROZEN; /* and the recorder has thawed */
    EXPECT(!counts_stalled(t));
    control->state = KASURI_SESSION_FROZEN;
    EXPECT(counts_stalled(t));
    for (int i = 0; i < 2 * 4096; i++)
        dealt += counts_stalled(t);
    EXPECT(dealt == 2 * 4095); /* now and then the recorder is asked for */
    return failed;
}

static int only_its_own_session_closes_the_gate(void) {
    uint32_t waits = 0, n = 0;
    join(KASURI_POLICY_GROW);
    kasuri__close_gate(c, c->epoch - 1);
    EXPECT(kasuri__gate.gate == 1);
    kasuri__gate.gate = 2;
    kasuri__close_gate(c, c->epoch);
    EXPECT(kasuri__gate.gate == 2); /* another recorder asks */
    kasuri__gate.gate = 1;
    kasuri__close_gate(c, c->epoch);
    EXPECT(kasuri__gate.gate == 0);
    kasuri__gate.gate = 1;
    kasuri__close_gate(0, 0);
    EXPECT(kasuri__gate.gate == 0);
    while (kasuri__wait_up_to(&waits, 3))
        n++;
    EXPECT(n == KASURI__YIELDS + 3);
    return failed;
}

/* -- names -- */

static struct kasuri_site_def *defs[4096];
static char sites[1 << 20];
/* Read the file of names; how many there are. Their ids count from 1. */
static uint32_t read_sites(const char *tail) {
    int fd = open(own_file(tail), O_RDONLY | O_CLOEXEC);
    ssize_t bytes = read(fd, sites, sizeof sites), at = sizeof(struct kasuri_sites_header);
    uint32_t n = 0;
    close(fd);
    while (at < bytes && n < 4096) {
        struct kasuri_site_def *d = (struct kasuri_site_def *)(void *)(sites + at);
        uint32_t text = (uint32_t)sizeof *d + d->name_len + d->file_len + d->func_len + 3u;
        EXPECT(d->bytes == ((text + 7) & ~7u) && at + (ssize_t)d->bytes <= bytes && d->id == n + 1);
        EXPECT(!d->reserved && !d->reserved2);
        for (uint32_t i = text; i < d->bytes; i++)
            EXPECT(((char *)d)[i] == 0);
        if (failed)
            return 0;
        defs[n++] = d;
        at += d->bytes;
    }
    EXPECT(at == bytes);
    return n;
}
static int is_def(const struct kasuri_site_def *d, const char *name, const char *where, const char *func,
                  uint32_t line) {
    const char *n = (const char *)(d + 1), *f = n + d->name_len + 1, *u = f + d->file_len + 1;
    return !strcmp(n, name) && !strcmp(f, where) && !strcmp(u, func) && d->line == line &&
           d->name_len == strlen(name) && d->file_len == strlen(where) && d->func_len == strlen(func);
}

static int names_are_written_once_and_whole(void) {
    static char longest[KASURI__STRING_MAX + 2], name[40];
    struct rlimit size, small = {0, 0};
    struct stat st;
    memset(longest, 'x', sizeof longest - 1);
    join(KASURI_POLICY_GROW);
    struct kasuri_site site = {0, 12, "load", "main.c", "main"}, other = {0, 13, longest, "1234567", 0};
    EXPECT(kasuri__site_id(c, &site) == 1 && kasuri__site_id(c, &site) == 1 && site.id == 1);
    EXPECT(kasuri__site_id(c, &other) == 2 && other.id == 2);
    EXPECT(kasuri_intern("load") == 3 && kasuri_intern("load") == 3 && kasuri_intern("loa") == 4);
    EXPECT(kasuri_intern("") == 5 && !kasuri_intern(NULL));
    EXPECT(read_sites(".sites") == 5);
    longest[KASURI__STRING_MAX] = 0;
    EXPECT(is_def(defs[0], "load", "main.c", "main", 12) && is_def(defs[1], longest, "1234567", "", 13));
    EXPECT(is_def(defs[2], "load", "", "", 0) && is_def(defs[3], "loa", "", "", 0) && is_def(defs[4], "", "", "", 0));
    EXPECT(kasuri__length(longest) == KASURI__STRING_MAX && kasuri__length(NULL) == 0);
    /* A full disk: a torn end is cut off, and the name has its id when there is room again. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &size);
    stat(own_file(".sites"), &st);
    small.rlim_max = size.rlim_max;
    for (int room = 0; room < 20; room += 10) {
        small.rlim_cur = (rlim_t)st.st_size + (rlim_t)room;
        setrlimit(RLIMIT_FSIZE, &small);
        EXPECT(!kasuri_intern("torn") && kasuri__process.next_id == 5);
        setrlimit(RLIMIT_FSIZE, &size);
        EXPECT(read_sites(".sites") == 5 && !c->sites_broken);
    }
    EXPECT(kasuri_intern("torn") == 6 && read_sites(".sites") == 6 && is_def(defs[5], "torn", "", "", 0));
    /* More than one block of memory holds; each name is found again. */
    for (uint32_t i = 7; i <= 3000; i++) {
        snprintf(name, sizeof name, "name %u", i);
        EXPECT(kasuri_intern(name) == i);
    }
    EXPECT(kasuri_intern("name 7") == 7 && kasuri_intern("name 2999") == 2999 && kasuri__process.next_id == 3000);
    EXPECT(kasuri__process.first != kasuri__process.last && read_sites(".sites") == 3000);
    /* The next client of this process has all of them. */
    EXPECT(kasuri__create_sites(c, 4, 2) && c->gen == 1 && read_sites(".sites") == 3000);
    const struct kasuri_sites_header *h = (struct kasuri_sites_header *)(void *)sites;
    EXPECT(h->magic == KASURI_MAGIC_SITES && h->version == KASURI_ABI_VERSION && h->struct_size == sizeof *h);
    EXPECT(h->pid == (uint32_t)getpid() && h->gen == 1 && h->parent_pid == 4 && h->parent_gen == 2);
    return failed;
}

static int a_name_that_fails_is_tried_once_a_session(void) {
    struct rlimit space, none = {0, 0};
    join(KASURI_POLICY_GROW);
    struct kasuri_site site = {0, 1, "a", "b", "c"};
    kasuri__process.next_id = 0x7ffffffe; /* no id is left */
    EXPECT(!kasuri__site_id(c, &site) && site.id < 0 && !kasuri_intern("x"));
    kasuri__process.next_id = 0;
    EXPECT(!kasuri__site_id(c, &site));
    c->epoch++;
    EXPECT(kasuri__site_id(c, &site) == 1);
    site.id = 0;
    c->defining = 1; /* another thread defines, for longer than we wait */
    EXPECT(!kasuri__site_id(c, &site) && site.id == 0 && !kasuri_intern("y") && c->defining == 1);
    c->defining = 0;
    getrlimit(RLIMIT_AS, &space);
    none.rlim_max = space.rlim_max;
    struct kasuri__block *b = kasuri__process.last; /* full, by one definition that nobody asks for */
    *(struct kasuri_site_def *)(void *)(b->data + b->used) =
        (struct kasuri_site_def){.bytes = KASURI__BLOCK_BYTES - (uint32_t)b->used, .id = 1, .line = 1};
    b->used = KASURI__BLOCK_BYTES;
    setrlimit(RLIMIT_AS, &none);
    EXPECT(!kasuri_intern("no memory") && kasuri__process.next_id == 1);
    setrlimit(RLIMIT_AS, &space);
    c->state = 0; /* without a session it is kept for the next */
    EXPECT(kasuri_intern("memory") == 2);
    return failed;
}

static struct kasuri_site late_site = {0, 1, "late", "b", "c"};
static void *wants_the_id(void *result) {
    *(int32_t *)result = kasuri__site_id(c, &late_site);
    return result;
}
/* Another thread was first: no second definition. */
static int a_name_of_two_threads_is_defined_once(void) {
    pthread_t t;
    int32_t id = 0;
    join(KASURI_POLICY_GROW);
    kasuri_intern("first");
    c->defining = 1;
    pthread_create(&t, NULL, wants_the_id, &id);
    usleep(20000);
    __atomic_store_n(&late_site.id, 1, __ATOMIC_RELAXED);
    kasuri__unlock(&c->defining);
    pthread_join(t, NULL);
    EXPECT(id == 1 && late_site.id == 1 && kasuri__process.next_id == 1 && !c->defining);
    return failed;
}

static int files_have_their_names(void) {
    char name[48];
    c = kasuri__get_client();
    c->pid = 4294967295u;
    c->gen = 10;
    kasuri__name(name, c, KASURI__CONTROL);
    EXPECT(!strcmp(name, "control"));
    kasuri__name(name, c, KASURI__SITES);
    EXPECT(!strcmp(name, "p4294967295-10.sites"));
    kasuri__name(name, c, 0);
    EXPECT(!strcmp(name, "p4294967295-10.ring0"));
    kasuri__name(name, c, 127);
    EXPECT(!strcmp(name, "p4294967295-10.ring127"));
    return failed;
}

/* The path of a session has 4,095 bytes at most. */
static int a_path_that_is_too_long_is_refused(void) {
    static char path[5000];
    for (uint64_t n = KASURI__SESSION_MAX - 1; n <= KASURI__SESSION_MAX + 1; n++) {
        memset(path, '/', n);
        path[n] = 0;
        setenv("KASURI_SESSION", path, 1);
        memset(kasuri__process.asked, 0, sizeof kasuri__process.asked);
        kasuri__process.started = 0;
        kasuri__start();
        EXPECT(strnlen(kasuri__process.asked, KASURI__SESSION_MAX) == (n < KASURI__SESSION_MAX ? n : 0));
        EXPECT(!kasuri_enabled());
    }
    return failed;
}

/* -- threads -- */

static void *end_at_once(void *tid) {
    *(uint32_t *)tid = (uint32_t)gettid();
    return tid;
}
static uint32_t dead_tid(void) {
    pthread_t t;
    uint32_t tid = 0;
    pthread_create(&t, NULL, end_at_once, &tid);
    pthread_join(t, NULL);
    while (kasuri__lives(c, tid))
        usleep(1000);
    return tid;
}
static void *live_on(void *tid) {
    __atomic_store_n((uint32_t *)tid, (uint32_t)gettid(), __ATOMIC_RELEASE);
    while (pause() != 0)
        ;
    return tid;
}
/* Entries below `n` are of a thread that lives, but for `dead`, whose owner has ended. */
static void hand_out(uint32_t n, uint32_t dead) {
    static uint32_t live;
    pthread_t t;
    if (!live)
        pthread_create(&t, NULL, live_on, &live);
    while (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        usleep(100);
    c->n_threads = n;
    c->reclaim = 0;
    for (uint32_t i = 0; i < KASURI__MAX_WRITERS; i++)
        c->threads[i].tid = i < n ? live : 0;
    if (dead < n)
        c->threads[dead].tid = dead_tid();
}
static int is_given(const struct kasuri__thread *t, uint32_t place, uint32_t tid) {
    return t == &c->threads[place] && t->tid == tid;
}

static int entries_of_ended_threads_are_used_again(void) {
    uint32_t me = 0x3ffffff0, max = KASURI__MAX_WRITERS; /* above all TIDs */
    c = kasuri__get_client();
    c->pid = (uint32_t)getpid();
    hand_out(15, 2);
    EXPECT(is_given(kasuri__new_thread(c, me), 15, me) && c->n_threads == 16);
    hand_out(16, 2);
    EXPECT(is_given(kasuri__new_thread(c, me), 2, me) && c->n_threads == 16);
    hand_out(16, 4); /* the fifth is not looked at */
    EXPECT(is_given(kasuri__new_thread(c, me), 16, me) && is_given(kasuri__new_thread(c, me), 4, me));
    hand_out(16, 15); /* round and round */
    c->reclaim = 16 * 3 + 14;
    EXPECT(is_given(kasuri__new_thread(c, me), 15, me));
    hand_out(16, 16);
    c->threads[1].tid = me; /* of a thread with our TID, which has ended: it is ours */
    EXPECT(is_given(kasuri__new_thread(c, me), 1, me));
    hand_out(max - 1, max);
    EXPECT(is_given(kasuri__new_thread(c, me), max - 1, me) && !kasuri__new_thread(c, me + 1) && c->n_threads == max);
    EXPECT(kasuri__n_threads(c) == max);
    hand_out(max, max - 1);
    c->reclaim = max - 1;
    EXPECT(is_given(kasuri__new_thread(c, me), max - 1, me) && !kasuri__new_thread(c, me + 1) && c->n_threads == max);
    c->n_threads = max + 3;
    EXPECT(kasuri__n_threads(c) == max);
    return failed;
}

/* Without an entry a thread's events are counted, as any that find no room. */
static int a_thread_without_an_entry_only_counts(void) {
    join(KASURI_POLICY_GROW);
    hand_out(KASURI__MAX_WRITERS, KASURI__MAX_WRITERS);
    kasuri__writer = 0;
    for (int i = 0; i < 10; i++)
        KASURI_INSTANT("lost");
    EXPECT(c->segments[0].header->lost[KASURI_LOST_FULL] == 10 && !kasuri__writer && kasuri_enabled());
    return failed;
}

static int a_thread_begins_each_session_afresh(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    KASURI_INSTANT("event");
    uint32_t stream = t->stream;
    EXPECT(t->now.chunk && t->w.limit == (KASURI__NATIVE ? 4096 / KASURI__OFF_UNIT : 0) && t->seq == 1 && stream);
    EXPECT(kasuri__this_thread(c, c->epoch) == t && t->now.chunk && t->stream == stream);
    t->deferred[3] = t->deferred[0] = t->now;
    t->stalled = t->own_head = t->n_own = 1;
    EXPECT(kasuri__this_thread(c, c->epoch + 1) == t && !t->now.chunk && !t->w.limit && !t->w.pos && !t->seq);
    EXPECT(t->stream == stream + 1 && t->epoch == c->epoch + 1 && !t->stalled && !t->own_head && !t->n_own);
    EXPECT(!t->deferred[0].chunk && !t->deferred[3].chunk && t->room == 4096);
    kasuri__start_chunk(c, t); /* the session has ended meanwhile */
    EXPECT(t->w.limit == 0);
    return failed;
}

/* -- leaving a session -- */

static int is_mapped(void *at) {
    return msync(at, 4096, MS_ASYNC) == 0;
}

/* How far a chunk was reserved, as far as that is known. */
static int the_end_of_what_was_reserved_is_known(void) {
    struct kasuri_chunk *chunk = fill(0, "eee").chunk;
    c = kasuri__get_client();
    c->pid = (uint32_t)getpid();
    c->n_threads = 3;
    c->epoch = 5;
    c->room = 2048;
    struct kasuri__thread *t = &c->threads[2];
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 128 + 48);
    chunk->used = 0;
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 0); /* its thread lives and has said nothing */
    t->epoch = 4;
    t->left = kasuri__position(chunk, 144);
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 144);
    t->left = kasuri__position(chunk, 2048);
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 2048);
    EXPECT(kasuri__reserved_end(c, chunk, 2048) == 2048 && !kasuri__reserved_end(c, chunk, 1024));
    t->left++;
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 0); /* beyond the chunk */
    t->left = kasuri__position(memory[1], 144);
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 0); /* another chunk */
    t->left = kasuri__position(chunk, 144);
    t->epoch = 3;
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 0); /* another session */
    c->n_threads = 2;
    t->epoch = 4;
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 0);
    chunk->tid = dead_tid();
    EXPECT(kasuri__reserved_end(c, chunk, 4096) == 128);
    return failed;
}

/* How many slots of a chunk are found open; -1: not known. */
static int n_open(const char *slots, uint32_t tid) {
    struct kasuri__grave g = {0, 0, {0, 0, 0, 0}, 0};
    struct kasuri_chunk *chunk = fill(0, slots).chunk;
    chunk->tid = tid;
    kasuri__find_open(c, chunk, 4096, &g);
    for (uint32_t i = 0; i < g.n_open && i < KASURI__MAX_OPEN; i++)
        EXPECT(g.open[i] >= &memory[0][16] && *g.open[i] == 0);
    return g.n_open == KASURI__MAX_OPEN + 1 ? -1 : (int)g.n_open;
}
static int open_slots_of_live_threads_keep_their_memory(void) {
    uint32_t me = (uint32_t)gettid(), dead;
    c = kasuri__get_client();
    c->pid = (uint32_t)getpid();
    dead = dead_tid();
    EXPECT(n_open("", me) == 0 && n_open("eEe", me) == 0 && n_open("oe", me) == 1 && n_open("EOe", me) == 1);
    EXPECT(n_open("oEo", me) == 2 && n_open("oooo", me) == 4 && n_open("ooooo", me) == -1 && n_open("eo", me) == 1);
    EXPECT(n_open(".e", me) == 1 && n_open("e.o", me) == 1); /* nobody knows how long it is */
    EXPECT(n_open("oo", dead) == 0);
    struct kasuri__grave g = {0, 0, {0, 0, 0, 0}, 0};
    struct kasuri_chunk *chunk = fill(0, "e").chunk;
    chunk->used = 0; /* and its end is not known */
    kasuri__find_open(c, chunk, 4096, &g);
    EXPECT(g.n_open == KASURI__MAX_OPEN + 1);
    return failed;
}

static int graves_go_when_their_slots_are_committed(void) {
    static const uint64_t open = 0, committed = 5;
    void *at[4];
    c = kasuri__get_client();
    for (int i = 0; i < 4; i++) {
        at[i] = kasuri__map(0, 4096, KASURI__ANONYMOUS, -1);
        c->graves[i] = (struct kasuri__grave){at[i], 4096, {&committed, &committed, &committed, &committed}, 4};
    }
    c->graves[0].open[1] = &open;
    c->graves[2].n_open = KASURI__MAX_OPEN + 1; /* not known: it stays */
    c->graves[3].n_open = 1;
    c->graves[3].open[0] = &open;
    c->n_graves = 4;
    kasuri__clear_graves(c);
    EXPECT(c->n_graves == 3 && is_mapped(at[0]) && !is_mapped(at[1]) && is_mapped(at[2]) && is_mapped(at[3]));
    EXPECT(c->graves[0].at == at[0] && c->graves[1].at == at[2] && c->graves[2].at == at[3]);
    c->graves[0].open[1] = c->graves[2].open[0] = &committed;
    kasuri__clear_graves(c);
    EXPECT(c->n_graves == 1 && !is_mapped(at[0]) && is_mapped(at[2]) && !is_mapped(at[3]));
    return failed;
}

/* A thread that leaves waits for all others to be out, and takes their positions. */
static int positions_are_taken_when_all_is_quiet(void) {
    join(KASURI_POLICY_GROW);
    kasuri__word page = kasuri__position(memory[0], 0);
    hand_out(3, 3);
    c->inside = 1;
    EXPECT(kasuri__is_quiet(c));
    c->inside = 2;
    EXPECT(!kasuri__is_quiet(c) && !kasuri__settle(c));
    c->inside = 1;
    c->threads[2].counting = 1;
    EXPECT(!kasuri__is_quiet(c));
    c->threads[2].counting = 0;
    c->threads[3].counting = 1; /* nobody's */
    EXPECT(kasuri__is_quiet(c));
    c->threads[3].counting = 0;
    c->threads[0].w.pos = page | 200;
    c->threads[1].w.pos = 48; /* in no chunk */
    c->threads[1].left = 7;
    c->threads[2].w.pos = page | 300;
    c->threads[3].w.pos = page | 400;
    EXPECT(kasuri__settle(c));
    EXPECT(c->threads[0].left == (page | 200) && c->threads[2].left == (page | 300) && c->threads[1].left == 0);
    EXPECT(!c->threads[0].w.pos && c->threads[1].w.pos == 48 && !c->threads[2].w.pos && c->threads[3].w.pos);
    for (int i = 0; i < 4; i++)
        c->threads[i].w.limit = 1;
    uint32_t epoch = c->epoch;
    kasuri__end_session(c);
    EXPECT(!c->threads[0].w.limit && !c->threads[2].w.limit && c->threads[3].w.limit && c->epoch == epoch + 1);
    EXPECT(c->state == 0);
    c->inside = 0;
    return failed;
}

/* Memory of a session goes with it, but for segments with an open slot, in whose place is private memory. */
static int segments_are_given_back(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    struct kasuri_control *page = c->control;
    EXPECT(kasuri__grow(c) && kasuri__grow(c) && c->n_segments == 3);
    KASURI_INSTANT("event");
    EXPECT(t->now.chunk == chunk_of(0, 0));
    struct kasuri_chunk *open = chunk_of(1, 7); /* the last of the middle one */
    uint64_t *slot = (uint64_t *)(void *)(open + 1);
    open->tid = (uint32_t)gettid();
    open->used = 144;
    slot[1] = KASURI_EV_INSTANT | 1 << 8;
    kasuri__states(&c->segments[1])[7] = KASURI_CHUNK_OWNED;
    kasuri__states(&c->segments[2])[0] = KASURI_CHUNK_FULL; /* the recorder's: not looked at */
    void *at[3] = {c->segments[0].header, c->segments[1].header, c->segments[2].header};
    c->inside = 1;
    kasuri__end_session(c);
    EXPECT(kasuri__settle(c));
    kasuri__release_segments(c);
    EXPECT(!is_mapped(at[0]) && is_mapped(at[1]) && !is_mapped(at[2]) && !is_mapped(page));
    EXPECT(c->n_graves == 1 && c->graves[0].at == at[1] && c->graves[0].n_open == 1 && c->graves[0].open[0] == slot);
    EXPECT(((struct kasuri_segment *)at[1])->magic == 0 && c->n_segments == 0 && !c->control);
    *slot = 5;
    kasuri__clear_graves(c);
    EXPECT(c->n_graves == 0 && !is_mapped(at[1]));
    c->inside = 0;
    kasuri__gate.gate = 0;
    return failed;
}

/* More open slots than a grave has places for, in several chunks: the grave stays. */
static int open_slots_of_all_chunks_are_counted(void) {
    join(KASURI_POLICY_GROW);
    for (uint32_t k = 0; k < 4; k++) {
        static const char *const slots[] = {"oo", "oo", "o", "e"};
        struct kasuri_chunk *chunk = chunk_of(0, k);
        memcpy(chunk, fill(0, slots[k]).chunk, 4096);
        kasuri__states(&c->segments[0])[k] = k < 2 ? KASURI_CHUNK_OWNED : KASURI_CHUNK_FREE;
    }
    EXPECT(kasuri__dig(c, &c->segments[0]).n_open == KASURI__MAX_OPEN);
    kasuri__states(&c->segments[0])[2] = KASURI_CHUNK_FULL; /* nothing is open in the recorder's */
    EXPECT(kasuri__dig(c, &c->segments[0]).n_open == KASURI__MAX_OPEN);
    kasuri__states(&c->segments[0])[2] = KASURI_CHUNK_OWNED;
    EXPECT(kasuri__dig(c, &c->segments[0]).n_open == KASURI__MAX_OPEN + 1);
    return failed;
}

/* A grave for which there is no place stays for good. */
static int graves_have_an_end(void) {
    static const uint64_t open = 0;
    join(KASURI_POLICY_GROW);
    for (int i = 0; i < KASURI__MAX_GRAVES; i++)
        c->graves[i] = (struct kasuri__grave){memory, 4096, {&open, 0, 0, 0}, 1};
    c->n_graves = KASURI__MAX_GRAVES;
    struct kasuri_chunk *chunk = chunk_of(0, 0);
    chunk->tid = (uint32_t)gettid();
    chunk->used = 144; /* with a slot that is open */
    kasuri__states(&c->segments[0])[0] = KASURI_CHUNK_OWNED;
    void *at = c->segments[0].header;
    struct kasuri__thread first = c->threads[0];
    kasuri__release_segments(c);
    EXPECT(c->n_graves == KASURI__MAX_GRAVES && is_mapped(at) && !memcmp(&first, &c->threads[0], sizeof first));
    kasuri__gate.gate = 0;
    return failed;
}

/* Where not all were out, the memory stays, and is private. */
static int what_may_be_used_is_buried(void) {
    join(KASURI_POLICY_GROW);
    EXPECT(kasuri__grow(c));
    struct kasuri_segment *s[2] = {c->segments[0].header, c->segments[1].header};
    kasuri__bury_all(c);
    EXPECT(s[0]->magic == 0 && s[1]->magic == 0 && c->control->magic == 0 && control->magic);
    EXPECT(c->first_segment == 2 && c->n_segments == 2);
    kasuri__gate.gate = 0;
    c->state = 0;
    return failed;
}

/* -- attaching -- */

/* A page that one of these changes must be refused, and the bounds themselves accepted. */
static int a_control_page_is_checked(void) {
    join(KASURI_POLICY_GROW);
    const struct kasuri_control good = *control;
    uint32_t *words = (uint32_t *)(void *)control;
    static const struct {
        size_t field;
        uint32_t value;
        int is_good;
    } cases[] = {{offsetof(struct kasuri_control, magic), 0, 0},
                 {offsetof(struct kasuri_control, version), KASURI_ABI_VERSION + 1, 0},
                 {offsetof(struct kasuri_control, struct_size), offsetof(struct kasuri_control, foreign) - 1, 0},
                 {offsetof(struct kasuri_control, struct_size), offsetof(struct kasuri_control, foreign), 1},
                 {offsetof(struct kasuri_control, struct_size), sizeof(struct kasuri_control) + 8, 1},
                 {offsetof(struct kasuri_control, state), KASURI_SESSION_STOPPED, 0},
                 {offsetof(struct kasuri_control, state), KASURI_SESSION_FROZEN, 1},
                 {offsetof(struct kasuri_control, policy), KASURI_POLICY_GROW - 1, 0},
                 {offsetof(struct kasuri_control, policy), KASURI_POLICY_OVERWRITE, 1},
                 {offsetof(struct kasuri_control, policy), KASURI_POLICY_OVERWRITE + 1, 0},
                 {offsetof(struct kasuri_control, clock), 0, 0},
                 {offsetof(struct kasuri_control, clock), KASURI_CLOCK_MONOTONIC, 1},
                 {offsetof(struct kasuri_control, chunk_bytes), 2048, 0},
                 {offsetof(struct kasuri_control, chunk_bytes), 4096 + 2048, 0},
                 {offsetof(struct kasuri_control, chunk_bytes), 1u << 20, 1},
                 {offsetof(struct kasuri_control, chunk_bytes), 1u << 21, 0},
                 {offsetof(struct kasuri_control, first_chunks), 0, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        words[cases[i].field / 4] = cases[i].value;
        struct kasuri_control *k = kasuri__open_control();
        if ((k != 0) != cases[i].is_good)
            fprintf(stderr, "case %u\n", i);
        EXPECT((k != 0) == cases[i].is_good && (!k || munmap(k, 4096) == 0));
        *control = good;
    }
    EXPECT(truncate(file("control"), sizeof *control) == 0 && kasuri__open_control());
    EXPECT(truncate(file_name, sizeof *control - 1) == 0 && !kasuri__open_control());
    return failed;
}

/* A program that cannot read the session, or cannot stamp by its clock, says so in the page: a recorder that knows of the
 * field tells its user. */
static int a_foreign_session_is_counted(void) {
    join(KASURI_POLICY_GROW);
    const struct kasuri_control good = *control;
    uint32_t *words = (uint32_t *)(void *)control;
    for (uint32_t size = 132; size <= sizeof *control; size += 4) {
        *control = good;
        control->struct_size = size;
        for (unsigned i = 0; i < sizeof *control / 4; i++)
            words[i] = __builtin_bswap32(words[i]);
        uint32_t low = words[0]; /* words of 64 bits */
        words[0] = words[1];
        words[1] = low;
        control->foreign = __builtin_bswap32(255);
        EXPECT(!kasuri__open_control() && control->foreign == __builtin_bswap32(256));
        control->struct_size = __builtin_bswap32(131);
        EXPECT(!kasuri__open_control() && control->foreign == __builtin_bswap32(256));
    }
    *control = good;
    control->clock = KASURI_CLOCK_NATIVE;
    struct kasuri_control *k = kasuri__open_control();
    EXPECT((k != 0) == KASURI__NATIVE && control->foreign == (KASURI__NATIVE ? 0 : 1));
    return failed;
}

/* What a thread does that notices a request: one event. */
static void notice(uint32_t gate) {
    kasuri__gate.gate = gate;
    KASURI_END();
}

/* A process that does not see its session stays in it until another recorder asks, and is in none where that one's is not found. */
static int a_request_takes_what_is_out_of_sight(void) {
    char link[64], away[sizeof directory + 8];
    join(KASURI_POLICY_GROW);
    snprintf(link, sizeof link, "/dev/shm/kasuri-attach-%d", getpid());
    snprintf(away, sizeof away, "%s-away", directory);
    unlink(link);
    EXPECT(rename(directory, away) == 0);
    uint32_t epoch = c->epoch;
    notice(2);
    EXPECT(kasuri__gate.gate == 1 && c->epoch == epoch);
    EXPECT(symlink("/dev/shm/kasuri-nowhere", link) == 0);
    notice(2);
    EXPECT(kasuri__gate.gate == 0 && c->epoch != epoch && control->refused == 0);
    EXPECT(unlink(link) == 0 && symlink(away, link) == 0);
    notice(2);
    EXPECT(kasuri__gate.gate == 1 && c->state == 1);
    EXPECT(unlink(link) == 0 && rename(away, directory) == 0);
    return failed;
}

static int a_request_waits_while_a_lock_is_held(void) {
    char link[64];
    make_session(KASURI_POLICY_GROW);
    snprintf(link, sizeof link, "/dev/shm/kasuri-attach-%d", getpid());
    unlink(link);
    EXPECT(symlink(directory, link) == 0);
    c = kasuri__get_client();
    c->defining = 1;
    notice(2);
    EXPECT(kasuri__gate.gate == 2 && !c->state && !c->attaching && c->defining == 1 && !c->n_segments);
    c->defining = 0;
    c->growing = 1;
    notice(2);
    EXPECT(kasuri__gate.gate == 2 && !c->state && !c->attaching && !c->defining && c->growing == 1);
    c->growing = 0;
    c->attaching = 1; /* another thread attaches: this event comes too early */
    notice(2);
    EXPECT(kasuri__gate.gate == 2 && !c->state && c->attaching == 1 && !c->inside);
    kasuri__process.started = 0;
    kasuri__start();
    EXPECT(!c->state && c->attaching == 1);
    c->attaching = 0;
    notice(2);
    EXPECT(kasuri__gate.gate == 1 && c->state == 1 && !c->attaching && !c->defining && !c->growing && !c->inside);
    uint32_t epoch = c->epoch;
    notice(2); /* its recorder lives: the session is kept */
    EXPECT(kasuri__gate.gate == 1 && c->epoch == epoch);
    close(lock_fd);
    unlink(link);
    notice(2); /* it does not, and no other has left a link */
    EXPECT(kasuri__gate.gate == 0);
    return failed;
}

/* The pages of the parent's client are wiped in a child; the gate is open as before. */
static int the_gate_says_what_is_asked(void) {
    join(KASURI_POLICY_GROW);
    uint32_t epoch = c->epoch;
    EXPECT(epoch && kasuri__session_of(c) == epoch && kasuri__ready(c) == epoch);
    kasuri__gate.gate = 0;
    EXPECT(!kasuri__session_of(c) && !kasuri__ready(c));
    kasuri__gate.gate = 1;
    c->state = 0;
    EXPECT(!kasuri__session_of(c));
    c->attaching = 1;
    EXPECT(!kasuri__ready(c)); /* it has waited for the other thread in vain */
    c->attaching = 0;
    c->inside = 1;
    EXPECT(kasuri__ready(c) == epoch + 1 && c->state == 1); /* as a child of fork, it attaches again */
    c->inside = 0;
    c->state = 0;
    c->attaching = 1;
    EXPECT(kasuri__may_enter(c));
    kasuri__gate.gate = 2;
    EXPECT(!kasuri__may_enter(c));
    c->attaching = 0;
    EXPECT(kasuri__may_enter(c));
    kasuri__gate.gate = 0;
    return failed;
}

/* An event that began in a session and finds its gate closed is lost in that session, and in no other. */
static int a_closed_gate_is_counted_in_its_session(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    uint64_t *lost = &c->segments[0].header->lost[KASURI_LOST_FULL];
    KASURI_INSTANT("event");
    uint32_t *own = &t->now.chunk->lost[KASURI_LOST_FULL];
    kasuri__count_closed(c); /* the gate is open */
    EXPECT(*lost == 0 && *own == 0);
    kasuri__gate.gate = 0;
    kasuri__count_closed(c);
    EXPECT(*lost == 0 && *own == 1);
    t->epoch--; /* this thread has no chunk of this session */
    kasuri__count_closed(c);
    EXPECT(*lost == 1 && *own == 1);
    kasuri__writer = 0;
    kasuri__count_closed(c);
    EXPECT(*lost == 2);
    c->state = 0;
    kasuri__count_closed(c);
    EXPECT(*lost == 2 && *own == 1);
    return failed;
}

static int a_trigger_counts_in_a_session_only(void) {
    kasuri_trigger(0); /* no client */
    join(KASURI_POLICY_GROW);
    KASURI_TRIGGER("one");
    kasuri_trigger(0);
    EXPECT(control->trigger == 2);
    c->state = 0;
    kasuri__trigger();
    EXPECT(control->trigger == 2 && !c->inside);
    c->state = 1;
    return failed;
}

static const struct test tests[] = {
    TEST(the_recorder_lives_while_it_holds_its_lock),
    TEST(a_session_out_of_sight_keeps_what_fits_and_counts_the_rest),
    TEST(a_child_that_does_not_see_the_session_is_counted),
    TEST(errors_have_causes),
    TEST(limits_are_told),
    TEST(errors_are_told),
    TEST(losses_are_counted_beside_the_events),
    TEST(a_loss_like_the_last_is_counted_at_once),
    TEST(only_its_own_session_closes_the_gate),
    TEST(names_are_written_once_and_whole),
    TEST(a_name_that_fails_is_tried_once_a_session),
    TEST(a_name_of_two_threads_is_defined_once),
    TEST(files_have_their_names),
    TEST(a_path_that_is_too_long_is_refused),
    TEST(entries_of_ended_threads_are_used_again),
    TEST(a_thread_without_an_entry_only_counts),
    TEST(a_thread_begins_each_session_afresh),
    TEST(the_end_of_what_was_reserved_is_known),
    TEST(open_slots_of_live_threads_keep_their_memory),
    TEST(graves_go_when_their_slots_are_committed),
    TEST(positions_are_taken_when_all_is_quiet),
    TEST(segments_are_given_back),
    TEST(open_slots_of_all_chunks_are_counted),
    TEST(graves_have_an_end),
    TEST(what_may_be_used_is_buried),
    TEST(a_control_page_is_checked),
    TEST(a_foreign_session_is_counted),
    TEST(a_request_takes_what_is_out_of_sight),
    TEST(a_request_waits_while_a_lock_is_held),
    TEST(the_gate_says_what_is_asked),
    TEST(a_closed_gate_is_counted_in_its_session),
    TEST(a_trigger_counts_in_a_session_only),
};

int main(int argc, char **argv) {
    return run_one(tests, sizeof tests / sizeof *tests, argc, argv);
}
