/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- start and end of the module --
 *
 * A constructor attaches to the session that KASURI_SESSION names, a destructor hands over the chunks of a shared
 * object that is unloaded. Both have priority 101, the first that programs may use: so constructors of the program find
 * the client attached, and its destructors can still annotate. */

/* Attach when the program or module is loaded and KASURI_SESSION names a session. In a set-user-id program the
 * environment comes from the caller, who must not make the program write into files of the caller's choice. */
KASURI__HIDDEN void kasuri__start(void) {
    struct kasuri__process *p = &kasuri__process;
    const char *session = getenv("KASURI_SESSION");
    uint64_t mask[2];
    struct kasuri__client *c;
    uint64_t n = session ? __builtin_strlen(session) : 0;
    long error;
    if (p->started || getauxval(AT_SECURE))
        return;
    p->started = 1;
    if (!n || n >= sizeof p->asked || !kasuri__begin_calls(mask))
        return;
    c = kasuri__make_client(&error);
    if (!c) {
        __builtin_memcpy(p->session, session, n + 1);
        kasuri__refuse(error);
    }
    /* ORDER acquire; pairs with the release in unlock(): a constructor may have started threads that attach. */
    if (c && !__atomic_exchange_n(&c->attaching, 1, __ATOMIC_ACQUIRE)) {
        __builtin_memcpy(p->asked, session, n + 1);
        kasuri__enter(c);
        kasuri__attach(c);
        kasuri__exit(c);
        kasuri__unlock(&c->attaching);
    }
    kasuri__end_calls(mask);
}

/* The offset behind the last slot of a chunk that is not all zero: there its events end. */
KASURI__COLD uint32_t kasuri__used(const struct kasuri_chunk *chunk, uint32_t bytes) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    uint32_t i = bytes / 8;
    while (i > 16 && !words[i - 1] && !words[i - 2])
        i -= 2;
    return i * 8;
}

/* Hand over all chunks of a module that is unloaded. This may also be exit, which cannot be told from dlclose; then
 * other threads still run and write. So their addresses get private memory first, and the chunks are closed by way
 * of a second mapping, in which nothing changes any more. */
KASURI__COLD void kasuri__hand_over_all(struct kasuri__client *c) {
    uint32_t i, j;
    for (i = c->first_segment; i < c->n_segments; i++) {
        struct kasuri__segment_ref *s = &c->segments[i], again = *s;
        int fd = kasuri__open(c, (int)(i - c->first_segment), O_RDWR | KASURI__O_CLOEXEC);
        if (fd < 0)
            continue;
        again.header = (struct kasuri_segment *)kasuri__map(0, s->bytes, MAP_SHARED, fd);
        kasuri__close(fd);
        if (!again.header)
            continue;
        kasuri__map(s->header, s->bytes, KASURI__ANONYMOUS | MAP_FIXED, -1);
        again.chunks = (char *)again.header + again.header->chunks_offset;
        for (j = 0; j < again.n_chunks; j++) {
            struct kasuri_chunk *chunk =
                (struct kasuri_chunk *)(void *)(again.chunks + (uint64_t)j * again.chunk_bytes);
            uint32_t *state = &kasuri__states(&again)[j];
            if (__atomic_load_n(state, __ATOMIC_RELAXED) != KASURI_CHUNK_OWNED)
                continue;
            if (!chunk->used)
                chunk->used = kasuri__used(chunk, again.chunk_bytes);
            /* ORDER release; pairs with the recorder's acquire load: as in hand_over(). */
            __atomic_store_n(state, KASURI_CHUNK_FULL, __ATOMIC_RELEASE);
        }
        KASURI__CALL(SYS_munmap, again.header, s->bytes, 0, 0);
    }
}

/* The module is unloaded, or the program ends. Only a shared object can go while its process stays: its chunks are
 * handed over here. Those of the main program are left to the recorder, which takes them when the process is gone,
 * so that destructors which run after this one can still annotate. */
KASURI__HIDDEN void kasuri__stop(void) {
    struct kasuri__client *c = kasuri__process.client;
    const kasuri__elf_header *header = &kasuri__ehdr;
    uint64_t mask[2];
    __asm__("" : "+r"(header)); /* weak: may be null, whatever the compiler thinks of objects */
    if (!c || !header || (uintptr_t)header + header->e_phoff == getauxval(AT_PHDR) || !kasuri__begin_calls(mask))
        return;
    if (c->state == 1 && c->pid == (uint32_t)KASURI__CALL(SYS_getpid, 0, 0, 0, 0)) {
        __atomic_store_n(&kasuri__gate.gate, 0, __ATOMIC_RELAXED);
        kasuri__hand_over_all(c);
        kasuri__end_session(c);
        kasuri__bury_all(c);
    }
    kasuri__end_calls(mask);
}

#ifndef KASURI_LAZY_START
static __attribute__((constructor(101), unused)) void kasuri__constructor(void) {
    kasuri__start();
}
#endif
static __attribute__((destructor(101), unused)) void kasuri__destructor(void) {
    kasuri__stop();
}
