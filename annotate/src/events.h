/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- threads --
 *
 * Each thread that emits has an entry in client.threads[], found through the thread-local kasuri__writer. Entries are
 * handed out in order of the threads' first events. The client gets no notice when a thread ends: a destructor of
 * thread-specific data would have to run after all other destructors that annotate. So a new thread looks at up to
 * four entries in turn, asks the kernel whether their owners live (tgkill with signal 0), and takes the entry of one
 * that has ended. In a program that starts and ends threads all the time, the table so stays about as large as the
 * number of threads that live at once.
 *
 * If the kernel has given the TID of an ended owner to another thread of the process, the entry counts as taken until
 * that thread ends, too.
 */

/* Take entry `t`, whose owner `old` has ended or which is free (`old` 0). Return: whether it is ours. */
KASURI__COLD int kasuri__claim(struct kasuri__thread *t, uint32_t old, uint32_t tid) {
    KASURI__TSAN_ACQUIRE((uintptr_t)t & ~(uintptr_t)4095); /* what a dead thread did to it, which TSan cannot order */
    /* ORDER acq_rel; pairs with itself in other threads and with the acquire load in new_thread(). Acquires what the
     * owner before left in the entry, and publishes that it is taken. */
    return __atomic_compare_exchange_n(&t->tid, &old, tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* An entry for a new thread: that of a thread which has ended, if one of the next four has; else a fresh one. The
 * first 16 threads always get fresh ones, so that small programs make no system calls for this. Return: null when
 * all entries are taken. */
KASURI__COLD struct kasuri__thread *kasuri__new_thread(struct kasuri__client *c, uint32_t tid) {
    uint32_t i, n = __atomic_load_n(&c->n_threads, __ATOMIC_RELAXED);
    for (i = 0; i < 4 && n >= 16; i++) {
        struct kasuri__thread *t = &c->threads[__atomic_fetch_add(&c->reclaim, 1, __ATOMIC_RELAXED) %
                                               (n < KASURI__MAX_WRITERS ? n : (uint32_t)KASURI__MAX_WRITERS)];
        /* ORDER acquire; pairs with the release in claim(). */
        uint32_t old = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE);
        if (old && old != tid && kasuri__lives(c, old))
            continue;
        if (kasuri__claim(t, old, tid))
            return t;
    }
    if (n >= KASURI__MAX_WRITERS || (n = __atomic_fetch_add(&c->n_threads, 1, __ATOMIC_RELAXED)) >= KASURI__MAX_WRITERS)
        return 0;
    return kasuri__claim(&c->threads[n], 0, tid) ? &c->threads[n] : 0;
}

/* The calling thread's entry, moved to session `epoch` if it belongs to another. What the thread had in an earlier
 * session is dropped: its chunks there were given back, or belong to a recorder that reads them without us. Position
 * and limit are stored atomically since a thread that leaves a session writes them, too. Return: null when 8,192
 * threads have entries. */
KASURI__COLD struct kasuri__thread *kasuri__this_thread(struct kasuri__client *c, uint32_t epoch) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    if (!t || !t->tid) { /* new, or wiped by fork */
        t = kasuri__new_thread(c, (uint32_t)KASURI__CALL(SYS_gettid, 0, 0, 0, 0));
        if (!t)
            return 0;
        t->epoch = t->counting = 0;
    }
    if (t->epoch != epoch) {
        uint32_t i;
        __atomic_store_n(&t->w.limit, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&t->w.pos, 0, __ATOMIC_RELAXED);
        t->now.chunk = 0;
        for (i = 0; i < KASURI__DEFERRED; i++)
            t->deferred[i].chunk = 0;
        t->seq = 0;
        t->stalled = t->own_head = t->n_own = 0;
        t->room = KASURI__GET(c->room);
        t->stream = __atomic_add_fetch(&c->next_stream, 1, __ATOMIC_RELAXED);
        t->epoch = epoch;
    }
    kasuri__writer = &t->w;
    return t;
}

/* -- an event, out of line --
 *
 * An event comes here when the fast path could not write it: the chunk is full or missing, the site has no id yet,
 * the session's clock needs a system call, the payload is a text, or the gate is not 1. The way of an event:
 *   emit_slow       signals may come: fills a slot that is reserved already, or counts a loss like the last one
 *   emit_blocked    signals blocked, counted in `inside`: attaches, finds the thread's entry and the site's id
 *   reserve_slow    gets the next chunk if the present one is full
 *   fill            stores word 1, the payload, and last the stamp
 */

/* Store where a chunk's events end if this reservation was the first that did not fit. It is stored at once, whatever
 * becomes of the event: a thread that leaves the session must keep a chunk for good if its end is not known. Only the
 * first failure has an offset of at most `room`, so a handler that interrupts this does not store another end, and the
 * chunk is not emptied before. Once for each reservation: when the end is stored, a handler may empty the chunk and fill
 * it anew, and then this offset is not its end. ORDER relaxed: an offset; its readers look at each slot below it. */
KASURI__COLD void kasuri__note_end(struct kasuri__client *c, struct kasuri__thread *t, kasuri__word pos,
                                   uint64_t bytes) {
    struct kasuri_chunk *chunk = (struct kasuri_chunk *)(void *)kasuri__chunk_of(pos);
    uint32_t off = (uint32_t)kasuri__offset_of(pos), i, mine = chunk == t->now.chunk;
    if (!chunk || off < sizeof *chunk || off > t->room || off + bytes <= t->room)
        return;
    for (i = 0; i < KASURI__DEFERRED; i++)
        mine |= chunk == t->deferred[i].chunk;
    for (i = 0; i < t->n_own; i++) /* a handler may have gone on to another one */
        mine |= chunk == kasuri__own_chunks(c, t)[i].chunk;
    if (mine && !KASURI__GET(chunk->used))
        KASURI__SET(chunk->used, off);
}

/* Reserve a slot of `bytes`, with signals blocked, where the fast path could not. `pos`: the position that the fast
 * path got, or 0. One that does not fit says nothing about the present chunk: a handler may have replaced that, or
 * emptied it and begun it anew. So the reservation is repeated there, and if it does not fit the thread needs the next
 * chunk. Return: the slot, or null with the cause in stalled_cause. */
KASURI__COLD uint64_t *kasuri__reserve_slow(struct kasuri__client *c, struct kasuri__thread *t, kasuri__word pos,
                                            uint32_t bytes) {
    int is_full = !t->now.chunk;
    for (;;) {
        uint64_t off = kasuri__offset_of(pos);
        /* The reservation may be good: with a limit of 0 all events come here. It is ours, whatever chunk it is in. */
        if (kasuri__chunk_of(pos) && off >= sizeof(struct kasuri_chunk) && off + bytes <= t->room)
            return kasuri__slot(pos);
        if (is_full && !kasuri__next_chunk(c, t))
            return 0;
        pos = kasuri__reserve(&t->w, bytes);
        kasuri__note_end(c, t, pos, bytes);
        is_full = 1; /* if it does not fit */
    }
}

/* Fill and commit a reserved slot. `size` is that of the record in bytes, a multiple of 16; it replaces the number of
 * slots in `kind`, which the inlined code does not know for texts. The last slot is zeroed first, so that a text is
 * padded with 0. */
KASURI__COLD void kasuri__fill(struct kasuri__client *c, uint64_t *slot, uint32_t kind, int32_t id, uint64_t stamp,
                               uint64_t size, const void *payload, uint64_t bytes) {
    kasuri__word1(slot, (kind & 0xffff00ff) | (uint32_t)(size / 16) << 8, id);
    if (bytes) {
        /* ORDER release; pairs with the acquire fence of a reader, as in kasuri__payload: word 1 before any of the
         * payload, which memcpy stores in whatever order and width. A reader that sees a torn word looks at word 1
         * again and steps over it. */
        KASURI__FENCE(__ATOMIC_RELEASE);
        slot[size / 8 - 1] = slot[size / 8 - 2] = 0;
        __builtin_memcpy(slot + 2, payload, bytes);
    }
    kasuri__commit(slot, stamp && kasuri__stamps_natively(c) ? stamp : kasuri__now(c));
}

/* Count an event whose annotation began while the gate was open, and which now finds it closed: the recorder has
 * stopped or died, and another thread has noticed. The event is lost like that thread's own, which finds no next chunk
 * (cause FULL): the recorder may read the losses when the program has ended, or `kasuri recover` later. Each thread
 * comes here once at most, as its next annotation finds the gate closed. Not counted: an event during whose emission
 * the client has left its session (state 0). The thread is inside the slow path, so if it finds the session attached,
 * what it counts in stays mapped. */
KASURI__COLD void kasuri__count_closed(struct kasuri__client *c) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    /* ORDER acquire, all three, as in session_of(): each read comes after the one before. That of state pairs with the
     * release in attach(), which publishes what join() set. */
    uint32_t epoch = __atomic_load_n(&c->epoch, __ATOMIC_ACQUIRE);
    uint32_t gate = __atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE);
    uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
    if (gate == 0 && state == 1 && epoch == KASURI__GET(c->epoch))
        kasuri__count_lost(c, t && t->epoch == epoch ? t : 0, KASURI_LOST_FULL);
}

/* Emit one event; signals are blocked, and the thread counts in `inside`. `stamp`: when it happened, on the CPU's
 * counter; 0: now. An event that cannot be written is counted as lost by cause, unless the client has no session:
 * then the program was not being recorded. In a stalled thread every 4,096th event asks whether the recorder lives,
 * since a recorder that was killed does not store STOPPED. */
KASURI__COLD void kasuri__emit_blocked(struct kasuri__client *c, struct kasuri_site *site, int32_t id, uint32_t kind,
                                       kasuri__word pos, uint64_t stamp, const void *payload, uint64_t bytes) {
    uint64_t size = 16 + ((bytes + 15) & ~15ull), *slot;
    struct kasuri__thread *t;
    uint32_t epoch;
    int32_t known;
    epoch = kasuri__ready(c);
    if (!epoch) {
        kasuri__count_closed(c);
        return;
    }
    KASURI__TEST_POINT(9);
    t = kasuri__this_thread(c, epoch);
    known = site ? kasuri__site_id(c, site) : id;
    if (!t || (site && !known) || bytes > KASURI_EVENT_MAX) {
        kasuri__count_lost(c, t, !t ? KASURI_LOST_FULL : bytes > KASURI_EVENT_MAX ? KASURI_LOST_BIG : KASURI_LOST_SITE);
        return;
    }
    slot = kasuri__reserve_slow(c, t, pos, (uint32_t)size);
    if (!slot) {
        if (t->stalled && t->stalled_events++ % 4096 == 0 && !kasuri__recorder_lives(c))
            kasuri__close_gate(c, t->epoch);
        kasuri__count_lost(c, t, t->stalled_cause);
        return;
    }
    kasuri__fill(c, slot, kind, known, stamp, size, payload, bytes);
}

/* Reserve the slot of a text, or say where the chunk's events end if it is the first that does not fit. With 32 bits a
 * position that is beyond the chunk already stays: texts are long, and the room that it may rise by is small (see
 * kasuri__clamp). ORDER relaxed: as in kasuri__reserve. */
KASURI__INLINE kasuri__word kasuri__reserve_text(struct kasuri__writer *w, uint32_t bytes) {
#if UINTPTR_MAX > 0xffffffffu
    return kasuri__reserve(w, bytes);
#else
    kasuri__word pos = __atomic_load_n(&w->pos, __ATOMIC_RELAXED);
    while ((pos & KASURI__OFF_MASK) < KASURI__OFF_LOST &&
           !__atomic_compare_exchange_n(&w->pos, &pos, pos + bytes / KASURI__OFF_UNIT, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
    return pos;
#endif
}

/* Write an event whose slot is reserved, or can be. All events come this way with clock MONOTONIC, reserved already,
 * and so do texts, which reserve here. Signals may come, as on the fast path. A slot that was reserved is filled even
 * if its session has ended: until then its memory stays mapped (ring.md, race 11). Return: 1 when the event is
 * written; 0 when it needs the rest of the slow path, which goes on with *pos. */
KASURI__COLD int kasuri__emit_reserved(struct kasuri__client *c, struct kasuri__thread *t, int32_t id, uint32_t kind,
                                       kasuri__word *pos, uint64_t stamp, const void *payload, uint64_t bytes) {
    uint64_t size = 16 + ((bytes + 15) & ~15ull), off;
    uint32_t is_ours = t->epoch == __atomic_load_n(&c->epoch, __ATOMIC_RELAXED);
    if (!*pos) {
        if (!is_ours || kasuri__gate_load() != 1 || id < 0 || bytes > KASURI_EVENT_MAX || !t->room)
            return 0;
        *pos = kasuri__reserve_text(&t->w, (uint32_t)size);
    }
    off = kasuri__offset_of(*pos);
    if (!kasuri__chunk_of(*pos) || off < sizeof(struct kasuri_chunk) || off + size > t->room)
        return 0;
    kasuri__fill(c, kasuri__slot(*pos), kind, id, stamp, size, payload, bytes);
    if (!is_ours)
        *pos = 0; /* no recorder reads that slot any more: emit the event again, in the present session */
    return (int)is_ours;
}

/* Whether the slow path can keep the event: not while another thread attaches because a recorder has asked for it. It
 * saves two system calls for each event that comes too early. ORDER relaxed: a stale answer costs one such event, or
 * one entry in vain. */
KASURI__COLD int kasuri__may_enter(struct kasuri__client *c) {
    return !__atomic_load_n(&c->attaching, __ATOMIC_RELAXED) || kasuri__gate_load() == 1;
}

/* Enter the slow path; signals are blocked. ORDER seq_cst; pairs with the barrier of all threads in settle(). We raise
 * `inside` and then read epoch, gate and state; a thread that leaves a session changes those and then reads `inside`.
 * One of the two sees the other: either we find no session, or it waits for us. */
KASURI__COLD void kasuri__enter(struct kasuri__client *c) {
    __atomic_fetch_add(&c->inside, 1, __ATOMIC_SEQ_CST);
}
/* ORDER release; pairs with the acquire load in is_quiet(): a thread that then unmaps a segment finds that we are
 * done with it. */
KASURI__COLD void kasuri__exit(struct kasuri__client *c) {
    __atomic_fetch_sub(&c->inside, 1, __ATOMIC_RELEASE);
}

/* Emit an event where no system call may be made: the program has confined itself by seccomp. Chunks that are mapped are
 * used on, as the recorder frees them; no other segment, no new thread or name, which need calls. What cannot be written
 * is counted, but for a child forked since, which has no session to count in.
 *
 * Signals are not blocked. A handler that comes while this thread gets a chunk finds `busy`, counts its event as lost, in
 * the chunk that `now` names then, and has returned before we go on: to it the steps of next_chunk() are one. The chunk
 * that we leave is full, so no handler writes there any more. */
KASURI__COLD void kasuri__emit_confined(struct kasuri__client *c, struct kasuri_site *site, int32_t id, uint32_t kind,
                                        kasuri__word pos, uint64_t stamp, const void *payload, uint64_t bytes) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    int32_t known = site ? __atomic_load_n(&site->id, __ATOMIC_RELAXED) : id;
    uint64_t size = 16 + ((bytes + 15) & ~15ull), *slot = 0;
    uint32_t cause = KASURI_LOST_FULL, depth;
    /* ORDER acquire; pairs with the release in attach(). Publishes what join() set. */
    if (!c || kasuri__gate_load() != 1 || __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != 1)
        return;
    if (t && (!t->tid || t->epoch != KASURI__GET(c->epoch)))
        t = 0;
    if (bytes > KASURI_EVENT_MAX) {
        cause = KASURI_LOST_BIG;
    } else if (site && known <= 0) {
        cause = KASURI_LOST_SITE;
    } else if (t && !t->busy) {
        /* ORDER none in hardware, both; the partner is a handler of this thread: what it finds changed lies between. */
        t->busy = 1;
        __asm__ volatile("" : : : "memory");
        slot = kasuri__reserve_slow(c, t, pos, (uint32_t)size);
        __asm__ volatile("" : : : "memory");
        t->busy = 0;
        cause = t->stalled_cause;
    }
    if (slot) {
        kasuri__fill(c, slot, kind, known, stamp, size, payload, bytes);
        return;
    }
    /* `counting` keeps the chunk, as in count_stalled(). */
    depth = t ? t->counting : 0;
    if (t)
        __atomic_store_n(&t->counting, depth + 1, __ATOMIC_RELAXED);
    /* ORDER none in hardware; the partner is hand_over() in a handler of this thread: it finds `counting` raised. */
    __asm__ volatile("" : : : "memory");
    kasuri__count_lost(c, t, cause);
    /* ORDER release; pairs with the acquire load in is_quiet(): a thread that then unmaps the chunk finds us out of it. */
    if (t)
        __atomic_store_n(&t->counting, depth, __ATOMIC_RELEASE);
}

/* Emit an event that the fast path could not write. The cheap cases come first: a slot that is reserved already, or
 * can be (clock MONOTONIC, texts); a loss with the cause of the last one, 20 ns; then, with signals blocked by two
 * system calls, everything else. */
KASURI__COLD void kasuri__emit_slow(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos,
                                    uint64_t stamp, const void *payload, uint64_t bytes) {
    struct kasuri__thread *t = (struct kasuri__thread *)(void *)kasuri__writer;
    /* ORDER acquire; pairs with the release in get_client(). */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE);
    uint64_t mask[2];
    /* ORDER acquire; pairs with the release store of the gate by the library that wrote the hook before it. */
    if (__atomic_load_n(&kasuri__gate.gate, __ATOMIC_ACQUIRE) == 3) {
        kasuri__hook.u.take(site, kind, payload, bytes);
        return;
    }
    KASURI__TEST_POINT(11);
    if (c && t) {
        kasuri__clamp(&t->w);
        if ((!site || id > 0) && kasuri__emit_reserved(c, t, id, kind, &pos, stamp, payload, bytes))
            return;
        kasuri__note_end(c, t, pos, 16 + ((bytes + 15) & ~15ull));
        KASURI__TEST_POINT(13);
        /* Not for the first event that does not fit into a chunk: it says where the chunk's events end. */
        if (t->stalled && bytes <= KASURI_EVENT_MAX && (!t->now.chunk || kasuri__offset_of(pos) > t->room) &&
            kasuri__count_stalled(c, t))
            return;
    }
    if (c && !kasuri__may_enter(c))
        return;
    if (!kasuri__begin_calls(mask)) {
        kasuri__emit_confined(c, site, id, kind, pos, stamp, payload, bytes);
        return;
    }
    c = kasuri__get_client();
    if (c) {
        kasuri__enter(c);
        kasuri__emit_blocked(c, site, id, kind, pos, stamp, payload, bytes);
        kasuri__exit(c);
    } else {
        kasuri__close_gate(0, 0);
    }
    KASURI__TSAN_RELEASE(kasuri__writer);
    kasuri__end_calls(mask);
}

/* -- entry points of inlined code -- */

/* The functions below are weak and hidden: however many files of a module include this header, the linker keeps one
 * of each. The number of slots is in `kind`, so `a` and `b` are ignored for an event without payload. */
KASURI__HIDDEN void kasuri__slow_at(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos,
                                    uint64_t stamp, uint64_t a, uint64_t b) {
    uint64_t payload[2];
    payload[0] = a;
    payload[1] = b;
    kasuri__emit_slow(site, id, kind, pos, stamp, payload, ((kind >> 8 & 0xff) - 1) * 16u);
}

KASURI__HIDDEN void kasuri__slow(struct kasuri_site *site, int32_t id, uint32_t kind, kasuri__word pos, uint64_t a,
                                 uint64_t b) {
    kasuri__slow_at(site, id, kind, pos, 0, a, b);
}

/* Texts. Their length goes into aux: 16 bits, or the upper 12 of an argument, whose type has the lower 4. */
KASURI__HIDDEN void kasuri__slow_bytes(struct kasuri_site *site, int32_t id, uint32_t kind, const void *data,
                                       uint64_t bytes) {
    uint32_t is_arg = (kind & 0xff) == KASURI_EV_ARG, length = bytes > 4095 ? 4095 : (uint32_t)bytes;
    kasuri__emit_slow(site, id, kind | length << (is_arg ? 20 : 16), 0, 0, data, bytes);
}

/* KASURI_MESSAGE. Safe in signal handlers as far as vsnprintf is. The buffer is one byte larger than the longest text,
 * for the NUL; vsnprintf returns the full length, so a text that is too long is counted as BIG. */
KASURI__HIDDEN void kasuri__message(struct kasuri_site *site, int32_t id, const char *format, ...) {
    char text[KASURI_EVENT_MAX + 1];
    va_list list;
    int n, saved = errno;
    va_start(list, format);
    n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    errno = saved;
    if (n >= 0)
        kasuri__slow_bytes(site, id, KASURI_EV_MESSAGE, text, (uint64_t)n);
}

/* Ask a flight recorder to save a snapshot: it saves one for each change of `trigger` that it sees. */
KASURI__HIDDEN void kasuri__trigger(void) {
    /* ORDER acquire; pairs with the release in get_client(). */
    struct kasuri__client *c = __atomic_load_n(&kasuri__process.client, __ATOMIC_ACQUIRE);
    uint64_t mask[2];
    if (!c || !kasuri__begin_calls(mask))
        return;
    kasuri__enter(c);
    /* ORDER release; pairs with the recorder's acquire load: the events that led to the trigger are in the rings
     * when the recorder sees it. */
    if (__atomic_load_n(&c->state, __ATOMIC_RELAXED) == 1)
        __atomic_fetch_add(&kasuri__control(c)->trigger, 1, __ATOMIC_RELEASE);
    kasuri__exit(c);
    kasuri__end_calls(mask);
}

/* The id of a name that was interned before, or 0; linear in the number of definitions. Interned names have neither
 * line nor file, which sites in source have. Holder of `defining`. */
KASURI__COLD uint32_t kasuri__find_name(const char *name, uint32_t length) {
    struct kasuri__block *b;
    uint64_t at;
    for (b = kasuri__process.first; b; b = b->next)
        for (at = 0; at < b->used;) {
            struct kasuri_site_def *def = (struct kasuri_site_def *)(void *)(b->data + at);
            if (!def->line && !def->file_len && def->name_len == length && !__builtin_memcmp(def + 1, name, length))
                return def->id;
            at += def->bytes;
        }
    return 0;
}

/* kasuri_intern. Works without a recorder, too: the name is kept and written for the next one. Signals are blocked
 * since a handler may intern a name as well, and would wait for the lock that this thread holds. */
KASURI__HIDDEN uint32_t kasuri__intern(const char *name) {
    uint64_t mask[2];
    uint32_t id = 0;
    struct kasuri__client *c;
    if (!kasuri__begin_calls(mask))
        return 0;
    c = kasuri__get_client();
    if (c && name && kasuri__try_lock(&c->defining)) {
        id = kasuri__find_name(name, kasuri__length(name));
        if (!id)
            id = kasuri__define(c, name, 0, 0, 0);
        kasuri__unlock(&c->defining);
    }
    kasuri__end_calls(mask);
    return id;
}
