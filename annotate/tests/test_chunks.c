/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Chunks, positions, segments and texts: the client's steps from an annotation to a chunk that the recorder gets.
 * `test_chunks NAME`. */
#include "own_session.h"

/* -- chunks -- */

static int open_slots_are_found(void) {
    static const char *const closed[] = {"", "e", "E", "eEe", "eee", "EEE"};
    static const char *const open[] = {"o", "O", "e.", ".e", "oe", "eoe", "eOe", "EEo", "EeO", "E.E", "ee."};
    for (unsigned i = 0; i < sizeof closed / sizeof *closed; i++)
        EXPECT(!kasuri__has_open(fill(0, closed[i]).chunk));
    for (unsigned i = 0; i < sizeof open / sizeof *open; i++)
        EXPECT(kasuri__has_open(fill(0, open[i]).chunk));
    return failed;
}

/* A chunk goes to the recorder as soon as nothing is open in it; four may wait for that. */
static int chunks_with_open_slots_wait(void) {
    static struct kasuri__thread t;
    struct kasuri__chunk_ref none = {0, 0}, r[7];
    t.tid = 4711;
    for (int i = 0; i < 6; i++)
        r[i] = fill(i, "eo");
    r[6] = fill(6, "ee");
    kasuri__retire(&t, &r[6]);
    EXPECT(states[6] == KASURI_CHUNK_FULL && !t.deferred[0].chunk);
    for (int i = 0; i < 6; i++) {
        kasuri__retire(&t, &r[i]);
        EXPECT(states[i] == KASURI_CHUNK_OWNED && t.tid == 4711);
        for (int k = 0; k < KASURI__DEFERRED; k++)
            EXPECT(t.deferred[k].chunk == (k <= i ? r[k].chunk : 0));
    }
    memory[1][18] = 200; /* the second is committed */
    t.counting = 1;
    kasuri__retire(&t, &none);
    EXPECT(states[1] == KASURI_CHUNK_OWNED);
    t.counting = 0;
    kasuri__retire(&t, &none);
    EXPECT(states[0] == KASURI_CHUNK_OWNED && states[1] == KASURI_CHUNK_FULL && states[2] == KASURI_CHUNK_OWNED);
    EXPECT(t.deferred[0].chunk == r[0].chunk && t.deferred[1].chunk == r[2].chunk && t.deferred[2].chunk == r[3].chunk);
    EXPECT(!t.deferred[3].chunk && t.tid == 4711);
    r[6] = fill(6, "ee");
    r[6].chunk->used = 0; /* its end is not known */
    kasuri__retire(&t, &r[6]);
    EXPECT(states[6] == KASURI_CHUNK_OWNED && t.deferred[3].chunk == r[6].chunk);
    return failed;
}

static int an_emptied_chunk_counts_its_events(void) {
    static struct kasuri__thread t;
    for (int earlier = 0; earlier < 2; earlier++) {
        struct kasuri_chunk *chunk = fill(0, "eEe").chunk;
        uint32_t used = chunk->used / 8;
        memory[0][16] = 150; /* stamps 150, 101, 102 */
        chunk->seq = 3;
        chunk->lost[KASURI_LOST_OVERWRITTEN] = 2;
        chunk->lost_first = earlier ? 50 : 0;
        chunk->lost_last = earlier ? 160 : 0;
        memory[0][used] = 7;
        t.seq = 9;
        kasuri__empty(&t, chunk);
        EXPECT(chunk->seq == 9 && t.seq == 10 && chunk->used == 0 && memory[0][used] == 7);
        EXPECT(chunk->lost[KASURI_LOST_OVERWRITTEN] == 5);
        EXPECT(chunk->lost_first == (earlier ? 50 : 101) && chunk->lost_last == (earlier ? 160 : 150));
        for (uint32_t i = 16; i < used; i++)
            EXPECT(memory[0][i] == 0);
    }
    return failed;
}

/* OVERWRITE: the oldest chunk in which nothing is open; those passed over stay the oldest. */
static int the_oldest_chunk_is_used_again(void) {
    struct kasuri__chunk_ref r[4], *own;
    c = kasuri__get_client();
    EXPECT(kasuri__make_flight(c));
    struct kasuri__thread *t = &c->threads[2];
    own = &c->flight[2 * KASURI__MAX_FLIGHT];
    EXPECT(!kasuri__reuse(c, t)); /* it has none */
    for (int i = 0; i < 4; i++)
        own[i] = r[i] = fill(i, i == 2 ? "o" : "e");
    t->n_own = 4;
    t->own_head = 2;
    t->counting = 1;
    EXPECT(!kasuri__reuse(c, t) && r[3].chunk->used);
    t->counting = 0;
    EXPECT(kasuri__reuse(c, t) && t->now.chunk == r[3].chunk && !r[3].chunk->used); /* 2 has an open slot */
    EXPECT(own[t->own_head].chunk == r[2].chunk && own[(t->own_head + 1) % 4].chunk == r[0].chunk);
    EXPECT(own[(t->own_head + 2) % 4].chunk == r[1].chunk && own[(t->own_head + 3) % 4].chunk == r[3].chunk);
    EXPECT(kasuri__reuse(c, t) && t->now.chunk == r[0].chunk);
    EXPECT(kasuri__reuse(c, t) && t->now.chunk == r[1].chunk);
    EXPECT(!kasuri__reuse(c, t) && t->now.chunk == r[1].chunk); /* only what is open is left, and what is empty */
    memory[2][16] = 5;
    EXPECT(kasuri__reuse(c, t) && t->now.chunk == r[2].chunk);
    return failed;
}

/* -- positions -- */

static int a_high_position_is_brought_back(void) {
    const kasuri__word page = kasuri__position(memory, 0);
    struct kasuri__writer w = {page | KASURI__OFF_HIGH, 0};
    kasuri__clamp(&w);
    EXPECT(w.pos == (page | KASURI__OFF_HIGH));
    w.pos++;
    kasuri__clamp(&w);
    EXPECT(w.pos == (page | KASURI__OFF_LOST));
    return failed;
}

/* The first event that does not fit says where a chunk's events end. */
static int the_end_of_a_chunk_is_noted_once(void) {
    static struct kasuri__thread t;
    struct kasuri_chunk *chunk = fill(0, "e").chunk, *waits = fill(1, "e").chunk, *other = fill(2, "e").chunk;
    t.room = 4096;
    t.now.chunk = chunk;
    t.deferred[3].chunk = waits;
    static const struct {
        uint32_t off, bytes, end;
    } cases[] = {{4080, 16, 0}, {4080, 32, 4080}, {4096, 16, 4096}, {4112, 16, 0}, {112, 8192, 0}, {128, 8192, 128}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        chunk->used = 0;
        kasuri__note_end(c, &t, kasuri__position(chunk, cases[i].off), cases[i].bytes);
        EXPECT(chunk->used == cases[i].end);
    }
    kasuri__note_end(c, &t, kasuri__position(chunk, 4080), 32);
    EXPECT(chunk->used == 128); /* it was known */
    waits->used = other->used = 0;
    kasuri__note_end(c, &t, kasuri__position(waits, 4080), 32);
    kasuri__note_end(c, &t, kasuri__position(other, 4080), 32);
    kasuri__note_end(c, &t, kasuri__position(0, 4080), 32);
    EXPECT(waits->used == 4080 && other->used == 0); /* not this thread's */
    return failed;
}

/* An event of the slow path may fill a chunk to its last byte. */
static int the_last_slot_of_a_chunk_is_used(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    uint64_t *slot = kasuri__reserve_slow(c, t, 0, 16);
    struct kasuri_chunk *chunk = t->now.chunk;
    EXPECT(slot == (uint64_t *)(void *)(chunk + 1));
    t->w.pos = kasuri__position(chunk, 4064);
    EXPECT(kasuri__reserve_slow(c, t, 0, 32) == (uint64_t *)(void *)((char *)chunk + 4064) && t->now.chunk == chunk);
    EXPECT(kasuri__reserve_slow(c, t, kasuri__position(chunk, 4064), 32) && t->now.chunk == chunk);
    t->w.pos = kasuri__position(chunk, 4080);
    slot = kasuri__reserve_slow(c, t, 0, 32);
    EXPECT(t->now.chunk != chunk && slot == (uint64_t *)(void *)(t->now.chunk + 1) && chunk->used == 4080);
    /* A handler has replaced the chunk of this reservation meanwhile: the present one is not left. */
    chunk = t->now.chunk;
    slot = kasuri__reserve_slow(c, t, kasuri__position(memory[0], 5008), 16);
    EXPECT(t->now.chunk == chunk && slot == (uint64_t *)(void *)((char *)chunk + 160));
    return failed;
}

/* Without the rest of the slow path: what has a slot, and what may reserve one. */
static int an_event_is_written_where_it_may_be(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    static char text[KASURI_EVENT_MAX + 1];
    KASURI_INSTANT("event");
    kasuri__word begin = t->w.pos, pos = 0;
    struct kasuri_chunk *chunk = t->now.chunk;
    const uint32_t kind = KASURI_EV_MESSAGE;
    EXPECT(kasuri__emit_reserved(c, t, 0, kind, &pos, 0, text, 20) && pos == begin &&
           t->w.pos == begin + 48 / KASURI__OFF_UNIT);
    EXPECT(*kasuri__slot(begin) && (kasuri__slot(begin)[1] & 0xffff) == (kind | 3 << 8));
    begin = t->w.pos;
    for (int i = 0; i < 5; i++) { /* nothing is reserved */
        pos = 0;
        kasuri__gate.gate = i == 0 ? 2 : 1;
        t->epoch -= i == 1;
        t->room = i == 2 ? 0 : 4096;
        EXPECT(!kasuri__emit_reserved(c, t, i == 3 ? -1 : 0, kind, &pos, 0, text, i == 4 ? KASURI_EVENT_MAX + 1 : 16));
        EXPECT(pos == 0 && t->w.pos == begin);
        t->epoch += i == 1;
    }
    /* Reserved in a session that has been left: the slot is filled, and the event comes again in the present one. */
    pos = kasuri__reserve(&t->w, 16);
    t->epoch--;
    EXPECT(!kasuri__emit_reserved(c, t, 0, KASURI_EV_END, &pos, 0, 0, 0) && pos == 0 && *kasuri__slot(begin));
    t->epoch++;
    /* No slot: in no chunk, before the first, beyond the last. */
    static const uint32_t bad[] = {4000, 112, 4096, 4080 + KASURI__OFF_UNIT};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        pos = kasuri__position(i ? chunk : 0, bad[i]);
        EXPECT(!kasuri__emit_reserved(c, t, 0, KASURI_EV_END, &pos, 0, 0, 0) && pos);
    }
    static const uint32_t good[] = {128, 4080};
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        pos = kasuri__position(chunk, good[i]);
        EXPECT(kasuri__emit_reserved(c, t, 0, KASURI_EV_END, &pos, 7, 0, 0));
        EXPECT(KASURI__NATIVE ? *kasuri__slot(pos) == 7 : *kasuri__slot(pos) > 7);
    }
    return failed;
}

/* -- segments -- */

static int a_free_chunk_is_found_wherever_it_is(void) {
    struct kasuri__chunk_ref r = {0, 0};
    join(KASURI_POLICY_GROW);
    EXPECT(kasuri__grow(c) && c->n_segments == 2 && c->segments[1].n_chunks == 8);
    while (kasuri__take_free(c, &r))
        ;
    for (uint32_t hint_segment = 0; hint_segment < 3; hint_segment++)
        for (uint32_t hint = 0; hint < 9; hint++)
            for (int i = 0; i < 2; i++)
                for (uint32_t k = 0; k < c->segments[i].n_chunks; k++) {
                    c->hint = hint_segment << 20 | hint;
                    kasuri__states(&c->segments[i])[k] = KASURI_CHUNK_FREE;
                    EXPECT(kasuri__take_free(c, &r) && r.chunk == chunk_of(i, k));
                    EXPECT(r.state == &kasuri__states(&c->segments[i])[k] && *r.state == KASURI_CHUNK_OWNED);
                    EXPECT(!kasuri__take_free(c, &r));
                }
    c->first_segment = 1; /* the first is of the session before */
    kasuri__states(&c->segments[0])[1] = KASURI_CHUNK_FREE;
    EXPECT(!kasuri__take_free(c, &r));
    c->first_segment = 2;
    EXPECT(!kasuri__take_free(c, &r));
    c->first_segment = 0;
    return failed;
}

static int segments_double_until_the_room_ends(void) {
    struct rlimit size, small = {0, 0};
    join(KASURI_POLICY_GROW);
    struct kasuri_segment *s = c->segments[0].header;
    EXPECT(c->n_segments == 1 && c->segments[0].n_chunks == 4 && c->total_bytes == 4096 + 4 * 4096);
    EXPECT(s->magic == KASURI_MAGIC_SEGMENT && s->version == KASURI_ABI_VERSION && s->struct_size == sizeof *s);
    EXPECT(s->pid == (uint32_t)getpid() && s->gen == 0 && s->index == 0 && s->chunk_bytes == 4096 && s->n_chunks == 4);
    EXPECT(s->chunks_offset == 4096 && s->clock == control->clock && s->start_stamp);
    EXPECT(kasuri__grow(c) && c->segments[1].n_chunks == 8 && c->total_bytes == (2 + 4 + 8) * 4096);
    c->max_bytes = c->total_bytes + 2 * 4096 - 1;
    EXPECT(!kasuri__grow(c) && access(own_file(".ring2"), F_OK) != 0);
    c->max_bytes++; /* room for one chunk and its header */
    EXPECT(kasuri__grow(c) && c->segments[2].n_chunks == 1 && c->total_bytes == c->max_bytes);
    c->max_bytes = 1u << 30;
    int fd = open(own_file(".ring3"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(!kasuri__grow(c) && access(file_name, F_OK) == 0); /* somebody's file */
    close(fd);
    unlink(file_name);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &size);
    small.rlim_max = size.rlim_max;
    small.rlim_cur = 8191; /* no room for one chunk: no file is left behind */
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT(!kasuri__grow(c) && access(own_file(".ring3"), F_OK) != 0 && c->n_segments == 3);
    small.rlim_cur = 3 * 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT(kasuri__grow(c) && c->segments[3].n_chunks == 2);
    setrlimit(RLIMIT_FSIZE, &size);
    c->next_chunks = (KASURI__SEGMENT_MAX / 4096) + 1;
    EXPECT(kasuri__grow(c) && c->segments[4].n_chunks == KASURI__SEGMENT_MAX / 4096);
    uint32_t n = c->n_segments;
    c->n_segments = KASURI__MAX_SEGMENTS;
    c->next_chunks = 1;
    EXPECT(!kasuri__grow(c));
    c->n_segments = n;
    remove_session();
    EXPECT(!kasuri__grow(c) && c->n_segments == n);
    return failed;
}

/* A thread that was stuck since the session before finds a chunk of this one: it goes back as it came. */
static int a_chunk_of_a_later_session_goes_back(void) {
    static const char zeros[4096];
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    t->epoch--;
    EXPECT(!kasuri__next_chunk(c, t) && !t->now.chunk && t->seq == 0 && kasuri_enabled());
    for (uint32_t k = 0; k < 4; k++)
        EXPECT(kasuri__states(&c->segments[0])[k] == KASURI_CHUNK_FREE && !memcmp(chunk_of(0, k), zeros, 4096));
    t->epoch++;
    EXPECT(kasuri__next_chunk(c, t) && t->now.chunk == chunk_of(0, 1) && t->now.chunk->tid == (uint32_t)gettid());
    EXPECT(t->now.chunk->stream == t->stream && t->now.chunk->seq == 0 && t->seq == 1 &&
           t->w.limit == (KASURI__NATIVE ? 4096 / KASURI__OFF_UNIT : 0));
    control->state = KASURI_SESSION_STOPPED; /* and none is sought in a session that has ended */
    EXPECT(!kasuri__next_chunk(c, t) && t->now.chunk == chunk_of(0, 1) && !kasuri_enabled());
    return failed;
}

/* When there is no free chunk, and what then is asked only once. */
static int a_chunk_is_sought_only_where_one_may_be(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    struct kasuri__chunk_ref r;
    for (int i = 0; i < 4; i++)
        EXPECT(kasuri__get_chunk(c, t, &r) && c->n_segments == 1);
    c->grow_failed = KASURI__FAILED_AT(control->freed); /* nothing was freed since it failed */
    EXPECT(!kasuri__get_chunk(c, t, &r) && c->n_segments == 1);
    c->grow_failed = 0;
    c->policy = KASURI_POLICY_DISCARD;
    EXPECT(!kasuri__get_chunk(c, t, &r) && c->n_segments == 1);
    c->policy = KASURI_POLICY_GROW;
    c->growing = 1; /* another thread grows, for longer than we wait */
    EXPECT(!kasuri__get_chunk(c, t, &r) && c->n_segments == 1 && c->growing == 1);
    c->growing = 0;
    t->epoch--; /* this thread is still in the session before */
    EXPECT(!kasuri__get_chunk(c, t, &r) && c->n_segments == 1 && c->growing == 0);
    t->epoch++;
    c->max_bytes = c->total_bytes + 2 * 4096 - 1;
    EXPECT(!kasuri__get_chunk(c, t, &r) && c->n_segments == 1 && !c->grow_failed);
    c->max_bytes++;
    EXPECT(kasuri__get_chunk(c, t, &r) && c->n_segments == 2 && !c->grow_failed && !c->growing);
    EXPECT(!kasuri__get_chunk(c, t, &r) && c->n_segments == 2);
    c->max_bytes = 1u << 30;
    close(lock_fd); /* no recorder: no more memory */
    EXPECT(!kasuri__get_chunk(c, t, &r) && c->n_segments == 2 && !kasuri_enabled() && !c->growing);
    return failed;
}

/* -- texts -- */

static int a_text_that_cannot_be_made_is_no_event(void) {
    static const wchar_t wide[] = {0x100, 0};
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    KASURI_MESSAGE("good");
    uint64_t pos = t->w.pos;
    errno = 77;
    KASURI_MESSAGE("%ls", wide); /* has no bytes in the C locale */
    EXPECT(t->w.pos == pos && !t->now.chunk->lost[KASURI_LOST_BIG] && errno == 77);
    return failed;
}

/* A text of a place in the source has that place's name, from the first on. */
static int the_first_text_has_its_name(void) {
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    KASURI_INSTANT("event");
    for (int i = 0; i < 2; i++) {
        uint64_t *slot = kasuri__slot(t->w.pos);
        KASURI_MESSAGE("%s", "");
        EXPECT(*slot && slot[1] == (KASURI_EV_MESSAGE | 1u << 8 | 2ull << 32));
    }
    return failed;
}

/* Lengths are in the upper bits of an argument's aux, and are all of a message's. */
static int texts_have_their_length(void) {
    static char text[KASURI_EVENT_MAX + 2];
    struct kasuri__thread *t = join(KASURI_POLICY_GROW);
    uint64_t *slot;
    memset(text, 'x', sizeof text);
    kasuri_message(0, text, 3);
    slot = (uint64_t *)(void *)(kasuri__chunk_of(t->w.pos) + 128);
    EXPECT(slot[1] == (KASURI_EV_MESSAGE | 2u << 8 | 3u << 16) && !memcmp(slot + 2, "xxx\0\0\0\0\0", 8) && !slot[3]);
    kasuri_arg_str(0, text, 16);
    EXPECT(slot[5] == (KASURI_EV_ARG | 2u << 8 | (KASURI_ARG_STR | 16u << 4) << 16) && slot[7] == slot[6]);
    kasuri_arg_str(0, text, 0);
    EXPECT((slot[9] & 0xffffffff) == (KASURI_EV_ARG | 1u << 8 | KASURI_ARG_STR << 16) && slot[8]);
    kasuri_message(0, text, 0); /* no text is a text */
    EXPECT((slot[11] & 0xffffffff) == (KASURI_EV_MESSAGE | 1u << 8) && slot[10]);
    kasuri_message(0, text, KASURI_EVENT_MAX);
    EXPECT((slot[13] >> 8 & 0xff) == 128 - 1 + 1 && kasuri__offset_of(t->w.pos) == 128 + 96 + 16 + KASURI_EVENT_MAX);
    text[KASURI_EVENT_MAX] = 0; /* the longest, made by a format: not cut for its NUL */
    KASURI_MESSAGE("%s", text);
    EXPECT(((char *)kasuri__slot(t->w.pos))[-1] == 'x');
    kasuri_message(0, text, KASURI_EVENT_MAX + 1);
    EXPECT(t->now.chunk->lost[KASURI_LOST_BIG] == 1);
    return failed;
}

/* -- what is cheap -- */

static void set_filter(struct sock_filter *code, unsigned n) {
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        puts("skipped: no seccomp");
        _exit(getenv("CI") && !strcmp(getenv("CI"), "true") ? 1 : 77);
    }
}

/* From now on the calls that block signals end the program. */
static void forbid_blocking_signals(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    set_filter(code, sizeof code / sizeof *code);
}

#ifndef SYS_sigreturn /* as on CPUs of 32 bits */
#define SYS_sigreturn SYS_rt_sigreturn
#endif
/* All calls do, but for these: to end, to return from a handler, to signal oneself, and to fork. */
static void confine(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sigreturn, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_wait4, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setitimer, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    set_filter(code, sizeof code / sizeof *code);
    __atomic_fetch_or(&kasuri__gate.calls, KASURI_CALLS_NONE, __ATOMIC_ACQ_REL);
}

/* Of each kind that has a way of its own. */
static void emit_some(int n) {
    static char text[KASURI_EVENT_MAX];
    for (int i = 0; i < n; i++) {
        KASURI_BEGIN("slice");
        KASURI_COUNTER("value", 1.0);
        KASURI_ARG_STR("text", "0123456789abcdef");
        KASURI_MESSAGE("a message");
        KASURI_END();
    }
    if (n)
        kasuri_message(0, text, sizeof text);
}

/* Run a step in a child, which the filter may end, and remove its session. */
static int in_child(void (*step)(int), int argument) {
    int status = 1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        step(argument);
    EXPECT(waitpid(pid, &status, 0) == pid && (status == 0 || status == 77 << 8));
    snprintf(directory, sizeof directory, "/dev/shm/kasuri-client-%d", pid);
    remove_session();
    directory[0] = 0;
    return failed ? 1 : WEXITSTATUS(status);
}

static void emit_what_fits(int clock) {
    make_session(KASURI_POLICY_GROW);
    control->chunk_bytes = 32768;
    control->clock = (uint32_t)clock;
    start_client();
    emit_some(1);
    struct kasuri__thread *t = kasuri__this_thread(c, c->epoch);
    kasuri__word pos = t->w.pos;
    forbid_blocking_signals();
    emit_some(50);
    _exit((t->w.pos - pos) * KASURI__OFF_UNIT != 50 * (16 + 32 + 32 + 32 + 16) + 2048);
}
/* The slow path takes two system calls for signals alone: not for an event that fits, whatever the clock. */
static int an_event_that_fits_takes_no_system_call(void) {
    int status = KASURI__NATIVE ? in_child(emit_what_fits, KASURI_CLOCK_NATIVE) : 0;
    return status ? status : in_child(emit_what_fits, KASURI_CLOCK_MONOTONIC);
}

static void emit_what_is_lost(int with_chunk) {
    make_session(KASURI_POLICY_DISCARD);
    control->first_chunks = 1;
    start_client();
    if (!with_chunk)
        kasuri__states(&c->segments[0])[0] = KASURI_CHUNK_OWNED;
    emit_some(40);
    forbid_blocking_signals();
    emit_some(100);
    uint64_t lost = c->segments[0].header->lost[KASURI_LOST_FULL];
    if (with_chunk)
        lost = chunk_of(0, 0)->lost[KASURI_LOST_FULL];
    _exit(lost < 500);
}
/* Nor for one that is lost like the one before, with a chunk and without one. */
static int a_loss_takes_no_system_call(void) {
    int status = in_child(emit_what_is_lost, 0);
    return status ? status : in_child(emit_what_is_lost, 1);
}

/* Events of all FULL and OWNED chunks, and what was lost. */
static uint64_t kept_and_lost(uint64_t *kept) {
    uint64_t lost = 0;
    *kept = 0;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        for (int cause = 0; cause < KASURI_LOST_CAUSES; cause++)
            lost += c->segments[i].header->lost[cause];
        for (uint32_t k = 0; k < c->segments[i].n_chunks; k++) {
            const struct kasuri_chunk *chunk = chunk_of((int)i, k);
            const uint64_t *words = (const uint64_t *)(const void *)chunk;
            if (kasuri__states(&c->segments[i])[k] == KASURI_CHUNK_FREE)
                continue;
            for (int cause = 0; cause < KASURI_LOST_CAUSES; cause++)
                lost += chunk->lost[cause];
            for (uint32_t at = 16; at < kasuri__used(chunk, c->segments[i].chunk_bytes) / 8;
                 at += 2 * (words[at + 1] >> 8 & 0xff))
                ++*kept;
        }
    }
    return lost;
}

static volatile uint64_t in_handlers;
static void on_tick(int signal) {
    (void)signal;
    for (int i = 0; i < 40; i++, in_handlers++)
        KASURI_COUNTER("in a handler", 1.0);
}

/* All the chunks that are there are used, and handlers come at any instruction. The policy says what then becomes of events.
 * What is new needs a call, and is lost. */
static void emit_confined(int policy) {
    struct itimerval often = {{0, 53}, {0, 53}};
    uint64_t emitted = 0, kept, lost;
    uint32_t n;
    make_session((uint32_t)policy);
    control->first_chunks = 64;
    control->flight_chunks = 20;
    start_client();
    signal(SIGALRM, on_tick);
    on_tick(0);
    n = c->n_segments;
    confine();
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 200000; i++, emitted++)
        kasuri_instant(0);
    for (int i = 0; i < 3; i++, emitted++)
        KASURI_INSTANT("not known"); /* its name cannot be stored */
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    for (int i = 0; i < 4; i++, emitted++)
        kasuri_end();
    EXPECT(kasuri_intern("nor this") == 0);
    kasuri__trigger();
    kasuri__stop();
    lost = kept_and_lost(&kept);
    EXPECT(c->n_segments == n);
    EXPECT(kept + lost == emitted + in_handlers);
    if (policy == KASURI_POLICY_OVERWRITE)
        EXPECT(kept > 20 * 80 && c->threads[0].n_own == 20);
    else
        EXPECT(kept > 63 * 120 && c->threads[0].seq == 64);
    EXPECT(!c->threads[0].busy && !c->threads[0].counting && (kasuri__gate.calls & (KASURI_CALLS_NONE - 1)) == 0);
    _exit(failed);
}
static int where_no_call_may_be_made_chunks_are_used_up(void) {
    static const int policies[] = {KASURI_POLICY_GROW, KASURI_POLICY_DISCARD, KASURI_POLICY_OVERWRITE};
    int status = 0;
    for (int i = 0; i < 3 && !status; i++)
        status = in_child(emit_confined, policies[i]);
    return status;
}

/* A thread that is new, and a forked child: nothing can be kept, and nothing is called. */
static void *new_thread(void *unused) {
    while (!(__atomic_load_n(&kasuri__gate.calls, __ATOMIC_ACQUIRE) & KASURI_CALLS_NONE))
        ;
    for (int i = 0; i < 100000; i++)
        kasuri_instant(0);
    __atomic_fetch_add(&in_handlers, 1, __ATOMIC_ACQ_REL);
    for (;;)
        ;
    return unused;
}
static void emit_confined_anew(int unused) {
    pthread_t thread;
    int status = 1;
    (void)unused;
    make_session(KASURI_POLICY_GROW);
    start_client();
    kasuri_instant(0);
    pthread_create(&thread, NULL, new_thread, NULL);
    confine();
    while (!__atomic_load_n(&in_handlers, __ATOMIC_ACQUIRE))
        ;
    EXPECT(c->segments[0].header->lost[KASURI_LOST_FULL] == 100000 && c->n_threads == 1);
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        for (int i = 0; i < 1000; i++)
            kasuri_instant(0);
        syscall(SYS_exit_group, 5);
    }
    EXPECT(syscall(SYS_wait4, pid, &status, 0, NULL) == pid && status == 5 << 8);
    _exit(failed);
}
static int where_no_call_may_be_made_nothing_begins(void) {
    return in_child(emit_confined_anew, 0);
}

static const struct test tests[] = {
    TEST(open_slots_are_found),
    TEST(chunks_with_open_slots_wait),
    TEST(an_emptied_chunk_counts_its_events),
    TEST(the_oldest_chunk_is_used_again),
    TEST(a_high_position_is_brought_back),
    TEST(the_end_of_a_chunk_is_noted_once),
    TEST(the_last_slot_of_a_chunk_is_used),
    TEST(an_event_is_written_where_it_may_be),
    TEST(a_free_chunk_is_found_wherever_it_is),
    TEST(segments_double_until_the_room_ends),
    TEST(a_chunk_of_a_later_session_goes_back),
    TEST(a_chunk_is_sought_only_where_one_may_be),
    TEST(a_text_that_cannot_be_made_is_no_event),
    TEST(the_first_text_has_its_name),
    TEST(texts_have_their_length),
    TEST(an_event_that_fits_takes_no_system_call),
    TEST(a_loss_takes_no_system_call),
    TEST(where_no_call_may_be_made_chunks_are_used_up),
    TEST(where_no_call_may_be_made_nothing_begins),
};

int main(int argc, char **argv) {
    return run_one(tests, sizeof tests / sizeof *tests, argc, argv);
}
