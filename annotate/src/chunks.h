/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- losses --
 *
 * Every event is kept or counted, by cause: emitted == kept + lost. A loss is counted in the chunk that the thread
 * holds, so that it travels with the events around it and is read once, with them. A thread without a chunk counts
 * in the header of its client's first segment; a client without a segment counts in the control page of the session. */

/* ORDER relaxed: a count. With 32 bits two readings that are four thousand million losses apart may miss the carry. */
KASURI__INLINE void kasuri__add_one(uint64_t *count) {
#if UINTPTR_MAX > 0xffffffffu
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
#else
    if (__atomic_add_fetch(KASURI__LOW_OF(count), 1, __ATOMIC_RELAXED) == 0)
        __atomic_fetch_add(KASURI__HIGH_OF(count), 1, __ATOMIC_RELAXED);
#endif
}

/* Count one lost event. The thread is in the slow path, or `counting` keeps its chunk (see kasuri__count_stalled).
 * ORDER relaxed for the counters: the recorder reads those of a chunk with the chunk, after the release of FULL; it
 * reads the others at the end of the recording, when a count that arrives late is one of an event that came too late
 * anyway. They are atomic additions since a signal handler of this thread, or another thread, may add to the same
 * word. */
KASURI__COLD void kasuri__count_lost(struct kasuri__client *c, struct kasuri__thread *t, uint32_t cause) {
    struct kasuri_chunk *chunk = t ? t->now.chunk : 0;
    uint64_t stamp;
    if (!chunk) {
        /* ORDER acquire; pairs with the release in grow(). Publishes segments[] and a first_segment not newer. */
        uint32_t n = __atomic_load_n(&c->n_segments, __ATOMIC_ACQUIRE), first = KASURI__GET(c->first_segment);
        uint64_t *lost = n > first ? c->segments[first].header->lost : kasuri__control(c)->lost;
        kasuri__add_one(&lost[cause]);
        return;
    }
    stamp = kasuri__now(c);
    __atomic_fetch_add(&chunk->lost[cause], 1, __ATOMIC_RELAXED);
    if (!chunk->lost_first)
        chunk->lost_first = stamp;
    chunk->lost_last = stamp;
    KASURI__TSAN_RELEASE(chunk);
}

/* A reservation that fails raises the position all the same. 16 MiB of failed reservations (64 KiB with 32 bits) would
 * carry into the address part of the position, and the next event would be written anywhere. So the slow path begins by bringing a
 * high position back, whatever becomes of the event: also for a thread without a chunk, behind a gate that closes,
 * and in a forked child that cannot attach.
 *
 * A signal handler that interrupts this may have done it already; then the compare-and-swap fails, and nothing is
 * left to do. 12 MiB remain when the clamp begins to work, and a handler that interrupts an emit adds 2 kB at most:
 * 6,000 handlers would have to nest. With 32 bits 28 KiB remain, and it adds 32 bytes, as texts do not raise a position
 * that is beyond the chunk (kasuri__reserve_text): 890 handlers. ORDER relaxed: only this thread and its handlers use the position, and they are
 * one CPU. */
KASURI__COLD void kasuri__clamp(struct kasuri__writer *w) {
    kasuri__word pos = __atomic_load_n(&w->pos, __ATOMIC_RELAXED);
    if (KASURI__UNLIKELY((pos & KASURI__OFF_MASK) > KASURI__OFF_HIGH))
        __atomic_compare_exchange_n(&w->pos, &pos, (pos & ~KASURI__OFF_MASK) | KASURI__OFF_LOST, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

/* Nothing was free at the last try and nothing has been freed since: count the event and return, in about 20 ns.
 *
 * Signals are not blocked here, since that takes two system calls. So a signal handler may interrupt this
 * function, find a free chunk and hand over the chunk that this function is about to count in. `counting` > 0 tells
 * the handler to put that off (kasuri__hand_over). It tells a thread that leaves the session, too, that this thread
 * may still touch the session's memory (kasuri__is_quiet).
 *
 * All other fields of `t` are this thread's own. `freed` and `state` are hints: a change that is missed here is seen
 * by the next event. Every 4,096th event takes the long way, where it asks whether the recorder still lives. Return:
 * whether the event is dealt with. */
KASURI__COLD int kasuri__count_stalled(struct kasuri__client *c, struct kasuri__thread *t) {
    uint32_t depth = t->counting; /* a fork in a handler wipes the field under us */
    int dealt = 0;
    __atomic_store_n(&t->counting, depth + 1, __ATOMIC_RELAXED);
    /* ORDER none in hardware; pairs with the look at `counting` in hand_over(), by a handler of this thread: it
     * finds it raised before we look at anything. For other threads see below. */
    __asm__ volatile("" : : : "memory");
    if (t->stalled && kasuri__gate_load() == 1 && t->epoch == __atomic_load_n(&c->epoch, __ATOMIC_RELAXED) &&
        t->stalled_freed == __atomic_load_n(&kasuri__control(c)->freed, __ATOMIC_RELAXED) &&
        (t->stalled_cause != KASURI_LOST_FROZEN ||
         __atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) == KASURI_SESSION_FROZEN) &&
        ++t->stalled_events % 4096) { /* now and then: does the recorder live? */
        kasuri__count_lost(c, t, t->stalled_cause);
        dealt = 1;
    }
    /* ORDER release; pairs with the acquire load in is_quiet: a thread that then unmaps the chunk finds us out of it.
     * The store above needs no fence: a thread that leaves a session has a barrier of all threads (ring.md, race 11). */
    __atomic_store_n(&t->counting, depth, __ATOMIC_RELEASE);
    return dealt;
}

/* -- chunks --
 *
 * A chunk is FREE (all zero), OWNED by one thread, or FULL (the recorder's). Only the owner writes into an OWNED
 * chunk; only the recorder touches a FULL one. The states of a segment's chunks lie together behind its header, so
 * that a search reads few cache lines. docs/design/ring.md has the table of transitions. */

KASURI__COLD uint32_t *kasuri__states(struct kasuri__segment_ref *s) {
    return (uint32_t *)(void *)(s->header + 1);
}

/* Take a FREE chunk, searching from where the last one was found. `hint` is the segment and the chunk to begin with,
 * segment << 20 | chunk. ORDER relaxed for `hint` and for the first look at a state: a wrong hint or a stale state
 * costs time only, since the compare-and-swap decides. */
KASURI__COLD int kasuri__take_free(struct kasuri__client *c, struct kasuri__chunk_ref *out) {
    /* ORDER acquire; pairs with the release in grow(). Publishes segments[]. */
    uint32_t end = __atomic_load_n(&c->n_segments, __ATOMIC_ACQUIRE), first = KASURI__GET(c->first_segment);
    uint32_t n = end > first ? end - first : 0;
    uint32_t hint = __atomic_load_n(&c->hint, __ATOMIC_RELAXED), i, j;
    for (i = 0; i < n; i++) {
        uint32_t k = (i + (hint >> 20)) % n;
        struct kasuri__segment_ref *s = &c->segments[first + k];
        uint32_t *states = kasuri__states(s), start = i ? 0 : hint & 0xfffff;
        for (j = 0; j < s->n_chunks; j++) {
            uint32_t at = (start + j) % s->n_chunks, want = KASURI_CHUNK_FREE;
            if (__atomic_load_n(&states[at], __ATOMIC_RELAXED) != KASURI_CHUNK_FREE)
                continue;
            /* ORDER acquire; pairs with the recorder's release store of FREE. Publishes its zeroes. Without it: our
             * first events may be overwritten by them (models/ring, control `no_release_at_free`). */
            if (!__atomic_compare_exchange_n(&states[at], &want, KASURI_CHUNK_OWNED, 0, __ATOMIC_ACQUIRE,
                                             __ATOMIC_RELAXED))
                continue;
            KASURI__TEST_POINT(5);
            __atomic_store_n(&c->hint, k << 20 | ((at + 1) & 0xfffff), __ATOMIC_RELAXED);
            out->chunk = (struct kasuri_chunk *)(void *)(s->chunks + (uint64_t)at * s->chunk_bytes);
            out->state = &states[at];
            for (j = 0; j < s->chunk_bytes; j += 4096)
                KASURI__TSAN_ACQUIRE((char *)out->chunk + j);
            return 1;
        }
    }
    return 0;
}

/* Is a slot below chunk->used not committed? It is when a signal handler of this thread, in which we are now,
 * interrupted the emit that reserved it. Handing such a chunk over would let the recorder zero it under that emit.
 *
 * The first loop takes every slot for an event and counts zeros, which compilers turn into vector instructions: 1 us
 * a chunk. A zero may also be a word of payload; only then does the second loop walk from event to event. Plain
 * reads: all slots of the chunk were written by this thread. */
KASURI__COLD int kasuri__has_open(const struct kasuri_chunk *chunk) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    uint32_t used = chunk->used / 8, i, zeros = 0;
    for (i = 16; i < used; i += 2)
        zeros += (kasuri__word)words[i] == 0; /* where a word is two halves, the low one */
    for (i = 16; zeros && i < used;) {
        uint32_t slots = (uint32_t)(words[i + 1] >> 8 & 0xff);
        if (!(kasuri__word)words[i])
            return 1;
        i += 2 * (slots ? slots : 1);
    }
    return 0;
}

/* Give a chunk to the recorder, unless one of this thread's interrupted emits still needs it. Return: whether it
 * went. */
KASURI__COLD int kasuri__hand_over(struct kasuri__thread *t, struct kasuri__chunk_ref *r) {
    if (t->counting || !r->chunk->used || kasuri__has_open(r->chunk))
        return 0;
    KASURI__TEST_POINT(4);
    /* ORDER release; pairs with the recorder's acquire load of the state. Publishes the events and `used`. Without
     * it: the recorder copies events that are not there yet (models/ring, control `no_release_at_full`). */
    __atomic_store_n(r->state, KASURI_CHUNK_FULL, __ATOMIC_RELEASE);
    return 1;
}

/* Hand over the chunk just left, and those deferred earlier. One that cannot go now and finds no place on the list
 * stays OWNED until the thread ends: it costs memory, not events. */
KASURI__COLD void kasuri__retire(struct kasuri__thread *t, struct kasuri__chunk_ref *old) {
    uint32_t i, n = 0;
    for (i = 0; i < KASURI__DEFERRED && t->deferred[i].chunk; i++)
        if (!kasuri__hand_over(t, &t->deferred[i]))
            t->deferred[n++] = t->deferred[i];
    if (old->chunk && !kasuri__hand_over(t, old) && n < KASURI__DEFERRED)
        t->deferred[n++] = *old;
    for (; n < KASURI__DEFERRED; n++)
        t->deferred[n].chunk = 0;
}

KASURI__COLD int kasuri__grow(struct kasuri__client *c);

/* Find a free chunk; map another segment when there is none and the policy allows it. One thread at a time grows,
 * the others wait for it, 0.2 s at most. `grow_failed` remembers for which value of `freed` growing was tried in
 * vain, so that a full disk is asked once and not by each event. Return: whether there is one. */
KASURI__COLD int kasuri__get_chunk(struct kasuri__client *c, struct kasuri__thread *t, struct kasuri__chunk_ref *out) {
    uint32_t waits = 0, freed = __atomic_load_n(&kasuri__control(c)->freed, __ATOMIC_RELAXED), expected;
    for (;;) {
        if (kasuri__take_free(c, out))
            return 1;
        if (kasuri__is_confined() ||
            (KASURI__GET(c->policy) == KASURI_POLICY_DISCARD &&
             KASURI__GET(c->n_segments) > KASURI__GET(c->first_segment)) ||
            KASURI__GET(c->total_bytes) + KASURI__GET(c->chunk_bytes) + 4096 > KASURI__GET(c->max_bytes) ||
            KASURI__GET(c->grow_failed) == KASURI__FAILED_AT(freed))
            return 0;
        expected = 0;
        /* ORDER acquire; pairs with the releases of `growing` below and in kasuri__unlock. Publishes the fields that
         * only its holder writes: total_bytes, next_chunks, segments[]. */
        if (__atomic_compare_exchange_n(&c->growing, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            int is_dead = 0, got = kasuri__take_free(c, out); /* another thread may just have grown */
            if (!got && t->epoch != KASURI__GET(c->epoch)) {
                __atomic_store_n(&c->growing, 0, __ATOMIC_RELEASE); /* ORDER release: as below */
                return 0; /* the process has gone to another session meanwhile */
            }
            if (!got && kasuri__recorder_lives(c)) {
                KASURI__SET(c->grow_failed, kasuri__grow(c) ? 0 : KASURI__FAILED_AT(freed));
            } else if (!got) {
                is_dead = 1;
                kasuri__close_gate(c, t->epoch);
            }
            /* ORDER release; pairs with the acquire above. Publishes what grow() wrote. */
            __atomic_store_n(&c->growing, 0, __ATOMIC_RELEASE);
            if (got)
                return 1;
            if (is_dead) /* whatever the gate says: another recorder may have asked (2), and only our next event attaches */
                return 0;
        } else if (!kasuri__wait_a_little(&waits)) {
            return 0;
        }
    }
}

/* The seqlock's two stores. Where they are halves, the high half alone says EMPTYING: it is the first to be stored, and
 * the last to be taken back. */
KASURI__INLINE void kasuri__begin_emptying(struct kasuri_chunk *chunk) {
#if UINTPTR_MAX > 0xffffffffu
    __atomic_store_n(&chunk->seq, KASURI_SEQ_EMPTYING, __ATOMIC_RELAXED);
#else
    __atomic_store_n(KASURI__HIGH_OF(&chunk->seq), UINT32_MAX, __ATOMIC_RELAXED);
#endif
}
/* ORDER release; pairs with the reader's acquire load of seq: see kasuri__empty(). */
KASURI__INLINE void kasuri__end_emptying(struct kasuri_chunk *chunk, uint64_t seq) {
#if UINTPTR_MAX > 0xffffffffu
    __atomic_store_n(&chunk->seq, seq, __ATOMIC_RELEASE);
#else
    __atomic_store_n(KASURI__LOW_OF(&chunk->seq), (uint32_t)seq, __ATOMIC_RELAXED);
    /* ORDER release; pairs as above. Publishes the low half too: a number is seen whole, or as EMPTYING. */
    __atomic_store_n(KASURI__HIGH_OF(&chunk->seq), (uint32_t)(seq >> 32), __ATOMIC_RELEASE);
#endif
}

/* OVERWRITE: empty the chunk for its next use. Its events, and the losses it had counted, are losses of its new
 * life.
 *
 * The recorder may be copying this chunk into a snapshot, so this is the writer's side of a seqlock: seq says
 * EMPTYING while zeros are written, and a copy whose seq changed meanwhile is thrown away. The stamps go first, then
 * all words from the end: if the program is killed in between, what is left still reads as open records of known
 * length. */
KASURI__COLD void kasuri__empty(struct kasuri__thread *t, struct kasuri_chunk *chunk) {
    uint64_t *words = (uint64_t *)(void *)chunk, first = chunk->lost_first, last = chunk->lost_last;
    uint32_t used = chunk->used / 8, i, n = 0;
    /* ORDER release; pairs with the reader's acquire fence before it reads seq again, as in any seqlock: the mark is
     * before the first zero. Without it: a snapshot keeps half a chunk (models/ring, control
     * `no_mark_before_emptying`). */
    kasuri__begin_emptying(chunk);
    KASURI__FENCE(__ATOMIC_RELEASE);
    for (i = 16; i < used; n++) {
        uint32_t slots = (uint32_t)(words[i + 1] >> 8 & 0xff);
        if (!first || words[i] < first)
            first = words[i];
        if (words[i] > last)
            last = words[i];
        kasuri__put(&words[i], 0);
        i += 2 * (slots ? slots : 1);
    }
    for (i = used; i > 16; i--) {
        kasuri__put(&words[i - 1], 0);
        if (i == used / 2)
            KASURI__TEST_POINT(8);
    }
    chunk->used = 0;
    chunk->lost[KASURI_LOST_OVERWRITTEN] += n;
    chunk->lost_first = first;
    chunk->lost_last = last;
    /* ORDER release; pairs with the reader's acquire load of seq. Publishes the zeroes. Without it, or with the new
     * seq in place of the mark above: old events under the new number (controls `no_release_at_new_seq`,
     * `new_seq_as_mark`). */
    kasuri__end_emptying(chunk, t->seq++);
}

/* OVERWRITE: the ring of a thread's chunks, of which it has `n_own`. */
KASURI__COLD struct kasuri__chunk_ref *kasuri__own_chunks(struct kasuri__client *c, const struct kasuri__thread *t) {
    return &c->flight[(uint64_t)(t - c->threads) * KASURI__MAX_FLIGHT];
}

/* OVERWRITE: the thread's oldest chunk in which nothing is open becomes its newest. The list in c->flight is a ring of
 * n_own chunks, oldest at own_head. Chunks with an open slot are passed over and stay the oldest. Not while a loss is
 * being counted: that may be in one of these chunks. Return: whether there was one. */
KASURI__COLD int kasuri__reuse(struct kasuri__client *c, struct kasuri__thread *t) {
    struct kasuri__chunk_ref *own = kasuri__own_chunks(c, t), r;
    uint32_t i, j, n = t->n_own;
    if (t->counting)
        return 0;
    for (i = 0; i < n; i++) {
        r = own[(t->own_head + i) % n];
        if (r.chunk->used && !kasuri__has_open(r.chunk))
            break;
    }
    if (i == n)
        return 0;
    for (j = i; j > 0; j--) /* those passed over stay the oldest */
        own[(t->own_head + j) % n] = own[(t->own_head + j - 1) % n];
    own[t->own_head] = r;
    t->own_head = (t->own_head + 1) % n;
    kasuri__empty(t, r.chunk);
    t->now = r;
    return 1;
}

/* Let the fast path into t->now. The position goes first: a handler cannot come in between, as signals are blocked,
 * and a handler that came before this has its own position on its stack. With a clock that needs the slow path the
 * limit is 0. ORDER relaxed for both: they are this thread's, but for a thread that leaves the session, and the
 * fence below is for that one. */
KASURI__COLD void kasuri__start_chunk(struct kasuri__client *c, struct kasuri__thread *t) {
    __atomic_store_n(&t->w.pos, kasuri__position(t->now.chunk, sizeof(struct kasuri_chunk)), __ATOMIC_RELAXED);
    __atomic_store_n(&t->w.limit, kasuri__stamps_natively(c) ? (kasuri__word)t->room / KASURI__OFF_UNIT : 0,
                     __ATOMIC_RELAXED);
    /* ORDER seq_cst; pairs with the fence in end_session(). We store the limit and then read the epoch; a thread that
     * leaves the session stores the epoch and then zeroes the limits. So either we see the new epoch, or our limit is
     * zeroed after we set it. Without it: this thread goes on in a chunk of the session before (models/ring, control
     * `no_fences_at_reattach`). */
    KASURI__FENCE(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&c->epoch, __ATOMIC_RELAXED) != t->epoch)
        __atomic_store_n(&t->w.limit, 0, __ATOMIC_RELAXED);
    t->stalled = 0;
}

/* Get the next chunk for a thread whose chunk is full, or that has none. The new chunk has its header before the old
 * one is handed over: killed in between, the program leaves two OWNED chunks with headers, and neither loses
 * anything. Return: 1; or 0, with the cause in stalled_cause. */
KASURI__COLD int kasuri__next_chunk(struct kasuri__client *c, struct kasuri__thread *t) {
    struct kasuri__chunk_ref old = t->now, fresh;
    /* ORDER acquire; pairs with the release in join(). Publishes c->flight. */
    int overwrite = __atomic_load_n(&c->policy, __ATOMIC_ACQUIRE) == KASURI_POLICY_OVERWRITE;
    t->stalled_freed =
        __atomic_load_n(&kasuri__control(c)->freed, __ATOMIC_RELAXED); /* first, so that none is missed */
    t->stalled_cause = KASURI_LOST_FULL;
    if (__atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) == KASURI_SESSION_STOPPED) {
        kasuri__close_gate(c, t->epoch);
        return 0;
    }
    if ((!overwrite || t->n_own < KASURI__GET(c->flight_chunks)) && kasuri__get_chunk(c, t, &fresh)) {
        /* A chunk of a later session than ours, while this thread was stuck here: it goes back as it came, all zero. It
         * was found by way of n_segments, with which the epoch of its session is seen. */
        if (KASURI__GET(c->epoch) != t->epoch) {
            /* ORDER release; pairs with the acquire in take_free(): as when the recorder frees a chunk. */
            __atomic_store_n(fresh.state, KASURI_CHUNK_FREE, __ATOMIC_RELEASE);
            return 0;
        }
        fresh.chunk->seq = t->seq++;
        fresh.chunk->tid = t->tid;
#if UINTPTR_MAX <= 0xffffffffu
        fresh.chunk->flags = KASURI_CHUNK_HALVES;
#endif
        /* ORDER release; pairs with nothing but a reader that comes when the program has been killed: what says whose chunk it is
         * comes last. Without it: a chunk with the stream and not yet its number is another number 0 of that stream, and a reader
         * drops one of the two (test annotate.kill_loses_at_most_the_open_record). */
        __atomic_store_n(&fresh.chunk->stream, t->stream, __ATOMIC_RELEASE);
        t->now = fresh;
        if (overwrite) { /* head is 0 while the ring is growing */
            kasuri__own_chunks(c, t)[t->n_own++] = fresh;
        } else {
            kasuri__retire(t, &old);
            KASURI__TEST_POINT(7);
        }
        kasuri__start_chunk(c, t);
        return 1;
    }
    if (KASURI__GET(c->grow_failed) == KASURI__FAILED_AT(t->stalled_freed))
        t->stalled_cause = KASURI__GET(c->grow_cause);
    /* ORDER acquire; pairs with the recorder's release store of FROZEN and RECORDING: we do not begin to empty a chunk
     * before we have seen that the snapshot is over. If we see FROZEN too late, seq tells the reader. */
    if (overwrite && __atomic_load_n(&kasuri__control(c)->state, __ATOMIC_ACQUIRE) == KASURI_SESSION_FROZEN)
        t->stalled_cause = KASURI_LOST_FROZEN;
    else if (overwrite && kasuri__reuse(c, t)) {
        kasuri__start_chunk(c, t);
        return 1;
    }
    t->stalled = 1;
    return 0;
}

/* -- segments --
 *
 * A segment is one file of the session, mapped once and never moved while its session lasts. Each is twice as large
 * as the one before, up to 64 MiB, so that a program with many events makes few of them. Layout, in bytes:
 *   0                struct kasuri_segment
 *   256              chunk_state[n_chunks], 4 bytes each
 *   chunks_offset    n_chunks chunks of chunk_bytes; the offset is a multiple of 4,096
 */

/* Allocate the file's pages now: a page fault in a file for which the disk has no room is SIGBUS. Return: 0, or minus the
 * error. */
KASURI__COLD long kasuri__reserve_space(int fd, uint64_t bytes) {
    static const char zeros[4096] = {0};
    if (bytes > kasuri__file_limit())
        return -EFBIG;
#if UINTPTR_MAX > 0xffffffffu
    long r = KASURI__CALL(SYS_fallocate, fd, 0, 0, bytes);
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ /* offset and length, two registers each */
    long r = kasuri__call(SYS_fallocate, fd, 0, 0, 0, 0, (long)bytes);
#else
    long r = kasuri__call(SYS_fallocate, fd, 0, 0, 0, (long)bytes, 0);
#endif
    uint64_t done = 0;
    if (r != -EOPNOTSUPP)
        return r;
    KASURI__CALL(SYS_lseek, fd, 0, SEEK_SET, 0);
    while (done < bytes) { /* a write reports a full disk, a page fault kills */
        r = KASURI__CALL(SYS_write, fd, zeros, sizeof zeros, 0);
        if (r <= 0)
            return r < 0 ? r : -ENOSPC;
        done += (uint64_t)r;
    }
    return 0;
}

/* Add a segment: twice the one before, less where max_bytes or the disk ends. Only the holder of `growing` calls
 * this, so it reads plainly what only that holder writes. The header is complete before its magic, and the entry in
 * segments[] is complete before n_segments. Return: whether there is one more; if not, why is in grow_cause. */
KASURI__COLD int kasuri__grow(struct kasuri__client *c) {
    uint32_t index = c->n_segments - c->first_segment, n;
    uint64_t room = c->max_bytes - c->total_bytes, header, bytes;
    struct kasuri__segment_ref *s = &c->segments[c->n_segments];
    int fd;
    long error = 0, base = 0;
    KASURI__SET(c->grow_cause, KASURI_LOST_FULL);
    if (c->n_segments == KASURI__MAX_SEGMENTS || c->total_bytes + c->chunk_bytes + 4096 > c->max_bytes)
        return 0;
    n = (uint32_t)(c->next_chunks * c->chunk_bytes > KASURI__SEGMENT_MAX ? KASURI__SEGMENT_MAX / c->chunk_bytes
                                                                         : c->next_chunks);
    fd = kasuri__open(c, (int)index, KASURI__O_CREATE);
    if (fd < 0) {
        KASURI__SET(c->grow_cause, kasuri__hinder(kasuri__control(c), fd, 0));
        return 0;
    }
    for (;; n /= 2) {
        header = (sizeof(struct kasuri_segment) + 4ull * n + 4095) & ~4095ull;
        bytes = header + (uint64_t)n * c->chunk_bytes;
        if (n == 0 || (bytes <= room && (error = kasuri__reserve_space(fd, bytes)) == 0))
            break;
        KASURI__CALL(SYS_ftruncate, fd, 0, 0, 0);
    }
    KASURI__TEST_POINT(6);
    if (n)
        base = kasuri__mmap(0, bytes, MAP_SHARED | KASURI__MAP_POPULATE, fd);
    kasuri__close(fd);
    if (!n || kasuri__is_error(base)) {
        KASURI__SET(c->grow_cause, kasuri__hinder(kasuri__control(c), n ? base : error, 0));
        kasuri__unlink(c, (int)index);
        return 0;
    }
    s->header = (struct kasuri_segment *)base;
    s->chunks = (char *)base + header;
    s->bytes = bytes;
    s->n_chunks = n;
    s->chunk_bytes = c->chunk_bytes;
    s->header->version = KASURI_ABI_VERSION;
    s->header->struct_size = sizeof(struct kasuri_segment);
    s->header->pid = c->pid;
    s->header->gen = c->gen;
    s->header->index = index;
    s->header->chunk_bytes = c->chunk_bytes;
    s->header->n_chunks = n;
    s->header->chunks_offset = (uint32_t)header;
    s->header->clock = c->clock;
    s->header->start_stamp = kasuri__now(c);
    /* ORDER release; pairs with the recorder's acquire load of the magic: a file without it is not ready. */
    kasuri__publish(&s->header->magic, KASURI_MAGIC_SEGMENT);
    KASURI__SET(c->total_bytes, c->total_bytes + (kasuri__word)bytes);
    c->next_chunks = 2ull * n; /* holder of `growing` */
    /* ORDER release; pairs with the acquire load in take_free. Publishes segments[]. */
    __atomic_store_n(&c->n_segments, c->n_segments + 1, __ATOMIC_RELEASE);
    return 1;
}
