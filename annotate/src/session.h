/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- attaching --
 *
 * A client is in one session at a time, from attach() to the next attach() or to the end of the process. Attaching
 * is asked for in three ways:
 *   KASURI_SESSION names a session when the module is loaded: module.h calls attach() from its constructor;
 *   a recorder writes 2 into the gate: the next event of any thread reaches ready(), which calls attach_request();
 *   a forked child finds the gate open and its client wiped: ready() calls attach() for the session of its parent.
 * One thread attaches, the holder of `attaching`. Where a recorder has asked, events that other threads emit meanwhile
 * come too early and are not counted. In a forked child they are part of the recording, so the other threads wait.
 * Steps that can fail come before anything is published: session_of() returns an epoch only when `state` and the gate
 * are 1, which attach() stores last. */

/* The client, made by the first thread that asks. Fork wipes its pages (MADV_WIPEONFORK), so no child ever writes
 * into its parent's chunks; the kernel does that for every kind of fork and runs no code of ours. Two threads may
 * both map one; the compare-and-swap keeps the first, and the other is unmapped. Return: null when there is no
 * memory, with the reason in `error`, an error's negative number. */
KASURI__COLD struct kasuri__client *kasuri__make_client(long *error) {
    /* ORDER acquire; pairs with the release of the compare-and-swap below. The memory behind the pointer is zero,
     * and its madvise() is done. */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE), *none = 0;
    if (c)
        return c;
    *error = kasuri__mmap(0, sizeof *c, KASURI__ANONYMOUS, -1);
    if (kasuri__is_error(*error))
        return 0;
    c = (struct kasuri__client *)*error;
    /* ORDER acq_rel; pairs with the acquire above. Publishes the client that we made; if another thread was first,
     * acquires that one's. */
    *error = KASURI__CALL(SYS_madvise, c, sizeof *c, KASURI__MADV_WIPEONFORK /* Linux 4.14 */, 0);
    if (*error < 0 ||
        !__atomic_compare_exchange_n(&kasuri__process.client, &none, c, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        KASURI__CALL(SYS_munmap, c, sizeof *c, 0, 0);
        return none;
    }
    return c;
}
KASURI__COLD struct kasuri__client *kasuri__get_client(void) {
    long error;
    return kasuri__make_client(&error);
}

/* Whether the stamps can be of the session's clock. */
KASURI__COLD int kasuri__has_clock(const struct kasuri_control *k) {
    return k->clock == KASURI_CLOCK_MONOTONIC || (k->clock == KASURI_CLOCK_NATIVE && KASURI__NATIVE);
}

/* Tell the recorder that this program cannot take part: it says so to its user. `swapped`: in the other byte order, in which
 * the page is. ORDER relaxed: a count. */
KASURI__COLD void kasuri__count_foreign(struct kasuri_control *k, int swapped) {
    uint32_t size = swapped ? __builtin_bswap32(k->struct_size) : k->struct_size, was = KASURI__GET(k->foreign), now;
    if (size < offsetof(struct kasuri_control, foreign) + 4)
        return;
    do
        now = swapped ? __builtin_bswap32(__builtin_bswap32(was) + 1) : was + 1;
    while (!__atomic_compare_exchange_n(&k->foreign, &was, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* Whether the page is that of a session that still records, in which this program can take part. Until that is known it may
 * be anyone's file, or an older recorder's. A recorder writes the page whole before it announces the session, so plain reads
 * are enough. A later version of the ABI may have a longer struct, so a larger struct_size is accepted; another version is
 * not. */
KASURI__COLD int kasuri__is_ours(struct kasuri_control *k) {
    uint32_t b = k->chunk_bytes;
    if (k->magic == __builtin_bswap64(KASURI_MAGIC_CONTROL)) {
        kasuri__count_foreign(k, 1);
        return 0;
    }
    if (k->magic != KASURI_MAGIC_CONTROL || k->version != KASURI_ABI_VERSION ||
        k->struct_size < offsetof(struct kasuri_control, foreign) || k->state == KASURI_SESSION_STOPPED ||
        k->policy < KASURI_POLICY_GROW || k->policy > KASURI_POLICY_OVERWRITE || k->clock < KASURI_CLOCK_NATIVE ||
        k->clock > KASURI_CLOCK_MONOTONIC || b < 4096 || b > 1u << 20 || (b & (b - 1)) != 0 || !k->first_chunks)
        return 0;
    if (!kasuri__has_clock(k))
        kasuri__count_foreign(k, 0);
    return kasuri__has_clock(k);
}

/* Map and check the session's control page. Return: null when it is not one for this program. */
KASURI__COLD struct kasuri_control *kasuri__open_control(void) {
    struct kasuri_control *k = 0;
    int fd = kasuri__open(0, KASURI__CONTROL, O_RDWR | KASURI__O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (KASURI__CALL(SYS_lseek, fd, 0, SEEK_END, 0) >= (long)sizeof *k)
        k = (struct kasuri_control *)kasuri__map(0, 4096, MAP_SHARED, fd);
    kasuri__close(fd);
    if (!k || kasuri__is_ours(k))
        return k;
    KASURI__CALL(SYS_munmap, k, 4096, 0, 0);
    return 0;
}

/* Tell the session at kasuri__process.session that this program has no memory for a client. */
KASURI__COLD void kasuri__refuse(long error) {
    struct kasuri_control *k = kasuri__open_control();
    if (!k)
        return;
    kasuri__hinder(k, error, 1);
    __atomic_fetch_add(&k->refused, 1, __ATOMIC_RELAXED);
    KASURI__CALL(SYS_munmap, k, 4096, 0, 0);
}

/* -- leaving a session (ring.md, race 11) --
 *
 * A server may be recorded for some seconds every day, for months: the memory of one recording must be given back
 * before the next one. But any thread may be at any instruction of an emit. The holder of `attaching` takes these
 * steps, in this order:
 *   end_session      a new epoch; all limits 0: no thread writes on the fast path that starts later
 *   settle           a barrier; wait until no thread is in the slow path; take all positions away
 *   release          unmap each segment in which no reserved slot is uncommitted; keep the others as graves
 * Where settle fails, bury_all keeps all addresses mapped. An emit fills every slot that it has reserved, even when
 * the session is gone: so memory with an open slot must stay mapped, and may go once the slot is committed.
 */

/* A full barrier in each running thread of the process, by membarrier(2). The threads complete what they had begun,
 * an unlocked addition included, and what they do later comes after what we did before. So the fast path needs no
 * fence of its own. Return: 0 where the kernel has no membarrier: then nothing is given back. */
KASURI__COLD int kasuri__barrier(struct kasuri__client *c) {
    if (!c->has_barrier) /* the first time takes some 10 ms in a program with threads */
        c->has_barrier = KASURI__CALL(SYS_membarrier, KASURI__MEMBARRIER_REGISTER, 0, 0, 0) == 0;
    return c->has_barrier && KASURI__CALL(SYS_membarrier, KASURI__MEMBARRIER, 0, 0, 0) == 0;
}

/* How many entries of threads[] were ever used. ORDER relaxed: a thread that is missed has not yet been in the slow
 * path of this session, so it holds none of its chunks. */
KASURI__COLD uint32_t kasuri__n_threads(struct kasuri__client *c) {
    uint32_t n = __atomic_load_n(&c->n_threads, __ATOMIC_RELAXED);
    return n < KASURI__MAX_WRITERS ? n : (uint32_t)KASURI__MAX_WRITERS;
}

/* Whether this thread is alone in the slow path and no thread counts a loss. No thread comes in while we hold
 * `attaching`. */
KASURI__COLD int kasuri__is_quiet(struct kasuri__client *c) {
    uint32_t i, n = kasuri__n_threads(c);
    /* ORDER acquire; pairs with the release in exit(): whatever that thread did to the session is done. `inside` is
     * 1 for ourselves. */
    if (__atomic_load_n(&c->inside, __ATOMIC_ACQUIRE) != 1)
        return 0;
    /* ORDER acquire; pairs with the release in count_stalled(), in the same way. */
    for (i = 0; i < n; i++)
        if (__atomic_load_n(&c->threads[i].counting, __ATOMIC_ACQUIRE))
            return 0;
    return 1;
}

/* Take away all positions: what is reserved from now on lies in no chunk. A thread's own unlocked addition may undo
 * the exchange, as it stores what it computed from the old value. The barrier ends such an addition, and the next
 * round sees it. The position is exchanged and not read and then stored: an addition between the two would go unseen
 * (models/ring, control `positions_taken_by_load_and_store`). ORDER relaxed for the position: the barrier of all
 * threads is the order. Return: whether all are gone; `left` then says how far each thread had come. */
KASURI__COLD int kasuri__take_positions(struct kasuri__client *c) {
    uint32_t i, n = kasuri__n_threads(c), round, some = 1;
    for (i = 0; i < n; i++)
        c->threads[i].left = 0;
    for (round = 0; some && round < 10; round++) {
        for (i = some = 0; i < n; i++) {
            struct kasuri__thread *t = &c->threads[i];
            if (kasuri__chunk_of(__atomic_load_n(&t->w.pos, __ATOMIC_RELAXED))) {
                t->left = __atomic_exchange_n(&t->w.pos, 0, __ATOMIC_RELAXED);
                some = 1;
            }
        }
        if (some && !kasuri__barrier(c))
            return 0;
    }
    return !some;
}

/* Whether there is such a thread in this process. */
KASURI__COLD int kasuri__lives(const struct kasuri__client *c, uint32_t tid) {
    return KASURI__CALL(SYS_tgkill, c->pid, tid, 0, 0) != -ESRCH;
}

/* The offset up to which an OWNED chunk of the session that we leave was reserved; 0: not known. A full chunk has it
 * in `used`. For a chunk that its thread was filling, take_positions() has put it into `left`. If that is beyond the
 * chunk, an emit has found that it does not fit and has not yet stored the end (kasuri__note_end): not known, for the
 * moment. A chunk with neither whose thread has ended has nothing open. */
KASURI__COLD uint32_t kasuri__reserved_end(struct kasuri__client *c, const struct kasuri_chunk *chunk, uint32_t bytes) {
    uint32_t i, n = kasuri__n_threads(c), end;
    end = KASURI__GET(chunk->used);
    if (end)
        return end;
    for (i = 0; i < n; i++) {
        const struct kasuri__thread *t = &c->threads[i];
        if (t->epoch + 1 != c->epoch || kasuri__chunk_of(t->left) != (const char *)chunk)
            continue;
        end = (uint32_t)kasuri__offset_of(t->left);
        return end <= c->room && end <= bytes
                   ? end
                   : 0; /* beyond: an emit that was the first not to fit has not said so yet */
    }
    return kasuri__lives(c, chunk->tid) ? 0 : (uint32_t)sizeof *chunk;
}

/* Add to the grave the slots of a chunk that a live thread has reserved and not committed. The length of an open
 * record is unknown until its word 1 is stored, and what follows may be its payload, being written: so the walk ends
 * there. Slots behind it need no look: the same thread reserved them later, in signal handlers, which return before
 * the emit that they interrupt goes on. So they are committed when it is. */
KASURI__COLD void kasuri__find_open(struct kasuri__client *c, const struct kasuri_chunk *chunk, uint32_t bytes,
                                    struct kasuri__grave *g) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    uint32_t end = kasuri__reserved_end(c, chunk, bytes), i = sizeof *chunk / 8;
    if (!end)
        g->n_open = KASURI__MAX_OPEN + 1;
    while (i < end / 8 && g->n_open <= KASURI__MAX_OPEN) {
        /* ORDER acquire; pairs with the release of the commit: the emit that committed has left the slot, and word 1
         * is what it wrote there. */
        int is_open = kasuri__is_open(&words[i]);
        uint32_t slots = kasuri__low(&words[i + 1]) >> 8 & 0xff;
        if (is_open) {
            if (!kasuri__lives(c, chunk->tid))
                return;
            if (g->n_open < KASURI__MAX_OPEN)
                g->open[g->n_open] = &words[i];
            g->n_open++;
        }
        if (!slots)
            return;
        i += 2 * slots;
    }
}

/* Make a segment's grave: list the slots that are still open in it. No other thread may be in the slow path. ORDER
 * relaxed for the states: the owner took its chunk before it left the slow path, and is_quiet() has seen it leave. A
 * chunk that the recorder frees meanwhile was FULL, so nothing is open in it. */
KASURI__COLD struct kasuri__grave kasuri__dig(struct kasuri__client *c, struct kasuri__segment_ref *s) {
    struct kasuri__grave g = {s->header, s->bytes, {0, 0, 0, 0}, 0};
    uint32_t i;
    for (i = 0; i < s->n_chunks && g.n_open <= KASURI__MAX_OPEN; i++)
        if (__atomic_load_n(&kasuri__states(s)[i], __ATOMIC_RELAXED) == KASURI_CHUNK_OWNED)
            kasuri__find_open(c, (struct kasuri_chunk *)(void *)(s->chunks + (uint64_t)i * s->chunk_bytes),
                              s->chunk_bytes, &g);
    return g;
}

/* Map private memory of our own over what was mapped there. Late writers still find memory at the address, and no
 * recorder reads it. */
KASURI__COLD void kasuri__bury(void *at, uint64_t bytes) {
    kasuri__map(at, bytes, KASURI__ANONYMOUS | MAP_FIXED, -1);
}

/* Unmap the graves whose late writers have committed. */
KASURI__COLD void kasuri__clear_graves(struct kasuri__client *c) {
    uint32_t i, k, n = 0;
    for (i = 0; i < c->n_graves; i++) {
        struct kasuri__grave *g = &c->graves[i];
        /* ORDER acquire; pairs with the release of the commit: that emit was the last to touch the slot. */
        for (k = 0; g->n_open <= KASURI__MAX_OPEN && k < g->n_open && !kasuri__is_open(g->open[k]);)
            k++;
        if (k == g->n_open)
            KASURI__CALL(SYS_munmap, g->at, g->bytes, 0, 0);
        else
            c->graves[n++] = *g;
    }
    c->n_graves = n;
}

/* Unmap each segment once nothing is open in it. No other thread is in the slow path, and none has a position in a
 * chunk. An emit that was preempted in a segment gets a while to end. Where a slot is open even then (a signal
 * handler above it sleeps), private memory replaces the segment, and a grave remembers the slot. */
KASURI__COLD void kasuri__release_segments(struct kasuri__client *c) {
    uint32_t i, waits = 0;
    for (i = c->first_segment; i < c->n_segments; i++) {
        struct kasuri__grave g;
        do
            g = kasuri__dig(c, &c->segments[i]);
        while (g.n_open && kasuri__wait_up_to(&waits, KASURI__SETTLES));
        if (!g.n_open) {
            KASURI__CALL(SYS_munmap, g.at, g.bytes, 0, 0);
            continue;
        }
        kasuri__bury(g.at, g.bytes);
        if (c->n_graves < KASURI__MAX_GRAVES)
            c->graves[c->n_graves++] = g;
    }
    kasuri__clear_graves(c);
    KASURI__CALL(SYS_munmap, c->control, 4096, 0, 0);
    KASURI__SET(c->control, 0);
    kasuri__process.control = 0;
    KASURI__SET(c->first_segment, 0);
    /* ORDER release; pairs with the acquires in take_free() and count_lost(): as when a segment is added. No thread
     * looks before the next session. */
    __atomic_store_n(&c->n_segments, 0, __ATOMIC_RELEASE);
}

/* End the session for all threads: with a limit of 0, what they reserve from now on takes the slow path. A thread
 * that has yet to set its limit finds the new epoch afterwards and sets it back to 0 (start_chunk). */
KASURI__COLD void kasuri__end_session(struct kasuri__client *c) {
    uint32_t i, n = kasuri__n_threads(c);
    KASURI__SET(c->state, 0);
    KASURI__SET(c->epoch, ++kasuri__process.epoch);
    /* ORDER seq_cst; pairs with the fence in start_chunk: our epoch before their limits. Without it: a thread goes on
     * in a chunk of this session (models/ring, control `no_fences_at_reattach`). */
    KASURI__FENCE(__ATOMIC_SEQ_CST);
    for (i = 0; i < n; i++)
        KASURI__SET(c->threads[i].w.limit, 0);
    KASURI__TEST_POINT(10);
}

/* Wait until no other thread is in the slow path, then take away all positions that lie in a chunk. A thread in the
 * slow path leaves it when it gets a CPU; on a loaded machine that may take longer than we wait. Return: whether both
 * were reached. */
KASURI__COLD int kasuri__settle(struct kasuri__client *c) {
    uint32_t waits = 0;
    if (!kasuri__barrier(c))
        return 0;
    while (!kasuri__is_quiet(c))
        if (!kasuri__wait_a_little(&waits))
            return 0;
    return kasuri__take_positions(c);
}

/* Replace all that the session had mapped with private memory, for good: another thread may still be in the slow
 * path. The entries in segments[] are not used again. Holder of `growing`, except at the end of the module. */
KASURI__COLD void kasuri__bury_all(struct kasuri__client *c) {
    uint32_t i, n = KASURI__GET(c->n_segments);
    for (i = c->first_segment; i < n; i++)
        kasuri__bury(c->segments[i].header, c->segments[i].bytes);
    kasuri__bury(c->control, 4096); /* stays c->control: those inside look at it */
    KASURI__SET(c->first_segment, n);
}

/* Make p<pid>-<gen>.sites for the first free gen, with all sites known so far. O_EXCL makes the number this client's
 * alone: other modules of this process, and the programs that it ran before exec, have clients of the same pid. In a
 * forked child `parent_*` name the last client that the parent had; 0 otherwise. Return: 0 when the directory has no
 * room for the file. */
KASURI__COLD int kasuri__create_sites(struct kasuri__client *c, uint32_t parent_pid, uint32_t parent_gen) {
    struct kasuri_sites_header h = {KASURI_MAGIC_SITES, KASURI_ABI_VERSION, sizeof h, 0, 0, 0, 0, 0, {0}};
    struct kasuri__block *b;
    int fd = -EEXIST;
    uint32_t gen;
    for (gen = 0; fd == -EEXIST && gen < 65536; gen++) {
        KASURI__SET(c->gen, gen);
        fd = kasuri__open(c, KASURI__SITES, KASURI__O_CREATE);
    }
    if (fd < 0) {
        kasuri__hinder(kasuri__control(c), fd, 0);
        return 0;
    }
    kasuri__close(fd);
    h.pid = c->pid;
    h.gen = c->gen;
    h.parent_pid = parent_pid;
    h.parent_gen = parent_gen;
    c->sites_bytes = c->sites_broken = 0;
    if (!kasuri__write_sites(c, &h, sizeof h))
        return 0;
    for (b = kasuri__process.first; b; b = b->next)
        if (b->used && !kasuri__write_sites(c, b->data, b->used))
            return 0;
    return 1;
}

/* Room for the lists of own chunks of all threads: 32 MiB of addresses, of which pages are touched as needed; wiped by
 * fork. It stays for later sessions. */
KASURI__COLD int kasuri__make_flight(struct kasuri__client *c) {
    uint64_t bytes = (uint64_t)KASURI__MAX_WRITERS * KASURI__MAX_FLIGHT * sizeof *c->flight;
    long at = kasuri__mmap(0, bytes, KASURI__ANONYMOUS, -1);
    if (kasuri__is_error(at)) {
        kasuri__hinder(kasuri__control(c), at, 1);
        return 0;
    }
    c->flight = (struct kasuri__chunk_ref *)at;
    KASURI__CALL(SYS_madvise, c->flight, bytes, KASURI__MADV_WIPEONFORK, 0);
    return 1;
}

/* Join the session at kasuri__process.session: check that its recorder lives, write the names known so far, copy its
 * settings, map a first segment. Holder of attaching, defining and growing. Settings are stored as relaxed atomics, see
 * struct kasuri__client. Return: whether the client is in it. */
KASURI__COLD int kasuri__join(struct kasuri__client *c, uint32_t parent_pid, uint32_t parent_gen) {
    struct kasuri_control *k = kasuri__open_control(), *parents = kasuri__process.control;
    if (!k) { /* a child that does not see the session, as after chroot, says so in its parent's page */
        if (parents && parents->state != KASURI_SESSION_STOPPED)
            __atomic_fetch_add(&parents->refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    kasuri__process.control = k;
    KASURI__SET(c->control, k); /* an earlier page, if any, is private memory now: other threads may still look at it */
    if (!kasuri__recorder_lives(c))
        return 0;
    if (!kasuri__create_sites(c, parent_pid, parent_gen) ||
        (k->policy == KASURI_POLICY_OVERWRITE && !c->flight && !kasuri__make_flight(c))) {
        __atomic_fetch_add(&k->refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    KASURI__SET(c->clock, k->clock);
    KASURI__SET(c->chunk_bytes, k->chunk_bytes);
    KASURI__SET(c->max_bytes, (kasuri__word)(k->max_bytes < KASURI__BYTES_MAX ? k->max_bytes : KASURI__BYTES_MAX));
    KASURI__SET(c->flight_chunks, k->flight_chunks < 1                    ? 1
                                  : k->flight_chunks > KASURI__MAX_FLIGHT ? KASURI__MAX_FLIGHT
                                                                          : k->flight_chunks);
    if (!c->room || c->room > c->chunk_bytes)
        KASURI__SET(c->room, c->chunk_bytes < KASURI__ROOM_MAX ? c->chunk_bytes : KASURI__ROOM_MAX);
    KASURI__SET(c->total_bytes, 0);
    KASURI__SET(c->grow_failed, 0);
    KASURI__SET(c->hint, 0);
    c->next_chunks = k->first_chunks;
    /* ORDER release; pairs with the acquire in next_chunk. Publishes c->flight. */
    __atomic_store_n(&c->policy, k->policy, __ATOMIC_RELEASE);
    /* Without room for a chunk we attach all the same: what is lost is counted, and there may be room later. */
    if (!kasuri__grow(c)) {
        KASURI__SET(c->grow_failed, KASURI__FAILED_AT(__atomic_load_n(&k->freed, __ATOMIC_RELAXED)));
        __atomic_fetch_add(&k->refused, 1, __ATOMIC_RELAXED);
    }
    return 1;
}

/* Leave the present session, if there is one, and attach to the one at kasuri__process.asked. Holder of `attaching`,
 * inside the slow path. The old session is dropped while `defining` and `growing` are held, so that a thread stuck
 * under either lock cannot add to it. If one of the locks cannot be had, the gate stays as it is and the next event
 * tries again. Return: whether the client is attached. */
KASURI__COLD int kasuri__attach(struct kasuri__client *c) {
    struct kasuri__process *p = &kasuri__process;
    uint32_t pid = (uint32_t)KASURI__CALL(SYS_getpid, 0, 0, 0, 0), forked = p->pid && p->pid != pid;
    int ok, quiet;
    if (c->pid != pid)
        c->pid = pid;
    kasuri__end_session(c);
    quiet = c->control && kasuri__settle(c);
    if (!kasuri__try_lock(&c->defining))  /* kasuri_intern in another thread */
        return 0;                         /* the gate stays: the next event tries again */
    if (!kasuri__try_lock(&c->growing)) { /* one that is still inside */
        kasuri__unlock(&c->defining);
        return 0;
    }
    if (quiet)
        kasuri__release_segments(c);
    else if (c->control)
        kasuri__bury_all(c);
    __builtin_memcpy(p->session, p->asked, sizeof p->session);
    ok = kasuri__join(c, forked ? p->pid : 0, forked ? p->gen : 0);
    kasuri__unlock(&c->growing);
    if (ok) {
        p->pid = pid;
        p->gen = c->gen;
        /* ORDER release; pairs with the acquire in session_of(). Publishes what join() set: the gate may be 1 all the
         * while, in a forked child. */
        __atomic_store_n(&c->state, 1, __ATOMIC_RELEASE);
    }
    kasuri__unlock(&c->defining);
    /* ORDER release; pairs with the acquire of the gate in session_of(): a thread that reads 1 there finds the client
     * attached. */
    __atomic_store_n(&kasuri__gate.gate, ok ? 1u : 0u, __ATOMIC_RELEASE);
    return ok;
}

/* gate == 2: `kasuri record -p` has left the session's path in the symbolic link /dev/shm/kasuri-attach-<pid>.
 * Any user may make a file there, so the link must belong to our user or to root: another user's would make this
 * process write into files of that user's choice. The present session is kept while its recorder lives. Return:
 * whether the client is attached. */
KASURI__COLD int kasuri__attach_request(struct kasuri__client *c) {
    char path[64] = "/dev/shm/kasuri-attach-", *asked = kasuri__process.asked;
    const uint64_t size = sizeof kasuri__process.asked;
    uint32_t lives = c->state == 1 ? (uint32_t)kasuri__recorder_lives(c) : 0, keep = lives != 0;
    uint32_t status[64] = {0}, owner; /* struct statx */
    long r = -1, looked;
    *kasuri__digits(path + 23, (uint32_t)KASURI__CALL(SYS_getpid, 0, 0, 0, 0)) = 0;
    looked = kasuri__call(SYS_statx, KASURI__AT_FDCWD, (long)path, KASURI__AT_SYMLINK_NOFOLLOW, KASURI__STATX_UID,
                          (long)status, 0);
    owner = status[KASURI__STATX_UID_WORD];
    if (lives != 1 && looked == 0 && (owner == 0 || owner == (uint32_t)KASURI__CALL(KASURI__SYS_GETEUID, 0, 0, 0, 0)))
        r = KASURI__CALL(SYS_readlinkat, KASURI__AT_FDCWD, path, asked, size);
    if (r <= 0 || (uint64_t)r >= size) {
        /* ORDER release; pairs with the acquire in session_of(), as in attach(); `keep` is 1 only where a session
         * was attached before. */
        __atomic_store_n(&kasuri__gate.gate, keep, __ATOMIC_RELEASE);
        return (int)keep;
    }
    asked[r] = 0;
    return kasuri__attach(c);
}

/* The session that the process is in, by its epoch; 0: none.
 *
 * The epoch is read before gate and state, and again after them. If it were read only after them, this thread could
 * find the old session attached, be overtaken by a thread that leaves it, and take the new epoch for itself together
 * with a chunk of the old session, whose limit it would set after all limits were zeroed. The next event would then
 * be written into memory that is unmapped (test `a_session_may_end_under_the_slow_path`). */
KASURI__COLD uint32_t kasuri__session_of(struct kasuri__client *c) {
    /* ORDER acquire, all three: each read comes after the one before. Those of gate and state pair with the releases in
     * attach(); they publish what join() set. */
    uint32_t epoch = __atomic_load_n(&c->epoch, __ATOMIC_ACQUIRE);
    uint32_t gate = __atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE);
    uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
    KASURI__TEST_POINT(12);
    return gate == 1 && state == 1 && epoch == KASURI__GET(c->epoch) ? epoch : 0;
}

/* Wait for the thread that attaches a forked child: the gate is 1 all the while, so the program counts this event as
 * emitted. That thread does not wait for those inside the slow path, since a child has no session to leave. Where a
 * recorder has asked (gate 2), the event comes too early. Return: the epoch of the session, or 0. */
KASURI__COLD uint32_t kasuri__wait_for_session(struct kasuri__client *c) {
    uint32_t waits = 0, epoch = 0;
    while (!epoch && kasuri__gate_load() == 1 && kasuri__wait_a_little(&waits))
        epoch = kasuri__session_of(c);
    return epoch;
}

/* Make the client ready as the gate asks: attach where a recorder has asked for it (2), or where the gate is open
 * and the client is new, which happens in a forked child. The gate is read again under the lock, since another thread
 * may just have attached. Called inside the slow path. Return: the epoch of the session that keeps the events, or
 * 0. */
KASURI__COLD uint32_t kasuri__ready(struct kasuri__client *c) {
    uint32_t gate, epoch = kasuri__session_of(c);
    int ok;
    if (epoch || !kasuri__gate_load())
        return epoch;
    /* ORDER acquire; pairs with the release in unlock(). Publishes all that the holder before us set. */
    if (__atomic_exchange_n(&c->attaching, 1, __ATOMIC_ACQUIRE))
        return kasuri__wait_for_session(c);
    /* ORDER acquire: none is needed after the lock; the recorder, another process, writes only the number 2. */
    gate = __atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE);
    if (gate == 2)
        ok = kasuri__attach_request(c);
    else
        ok = gate == 1 && (c->state == 1 || kasuri__attach(c)); /* state 0 behind an open gate: we are a forked child */
    epoch = ok ? c->epoch : 0;
    kasuri__unlock(&c->attaching);
    return epoch;
}
