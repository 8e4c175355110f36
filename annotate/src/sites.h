/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* -- sites --
 *
 * A name is defined once per client, before the first event that uses it: the definition is in the sites file before
 * its id is stored in the site, so no recording has an event whose name is missing. Definitions are kept in memory
 * of our own as well (struct kasuri__block, in the format of the file), for sessions that come later and for forked
 * children, which write them into files of their own.
 *
 * A definition is struct kasuri_site_def and three strings, padded to 8 bytes. KASURI_BEGIN("load") in line 12 of
 * main.c, function main, takes 24 + "load\0main.c\0main\0" = 41, so 48 bytes. Ids count from 1 without gaps over all
 * sessions of a process, so an id that a site has kept stays right in the next session. */

/* Take a lock. Waits for 0.2 s at most, since the holder may be a thread that gets no CPU. Return: whether it was
 * taken. Signals must be blocked: a handler that wants a lock of the thread it interrupts would wait in vain. */
KASURI__COLD int kasuri__try_lock(uint32_t *lock) {
    uint32_t waits = 0, expected;
    do {
        expected = 0;
        /* ORDER acquire; pairs with the release in unlock. Publishes what the holder before us wrote. */
        if (__atomic_compare_exchange_n(lock, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
    } while (kasuri__wait_a_little(&waits));
    return 0;
}
KASURI__COLD void kasuri__unlock(uint32_t *lock) {
    /* ORDER release; pairs with the acquire of the next holder. Publishes all that was written while it was held. */
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* Append to the sites file with one write(2), so that a reader finds whole definitions. After a short write (disk
 * full) the torn end is cut off again; if that fails, too, the file is not written to any more (sites_broken). The
 * file is opened each time, since no file stays open. Return: whether it is there whole; if not, the recorder is told why. */
KASURI__COLD int kasuri__write_sites(struct kasuri__client *c, const void *data, uint64_t bytes) {
    int fd;
    long r = -EFBIG;
    if (c->sites_broken)
        return 0;
    if (c->sites_bytes + bytes <= kasuri__file_limit()) {
        r = fd = kasuri__open(c, KASURI__SITES, O_RDWR | O_APPEND | KASURI__O_CLOEXEC);
        if (fd >= 0) {
            r = KASURI__CALL(SYS_write, fd, data, bytes, 0);
            if (r == (long)bytes)
                c->sites_bytes += bytes;
            else if (r >= 0) {
                c->sites_broken = r > 0 && KASURI__CALL(SYS_ftruncate, fd, c->sites_bytes, 0, 0) < 0;
                r = -ENOSPC;
            }
            kasuri__close(fd);
        }
    }
    if (r < 0)
        kasuri__hinder(kasuri__control(c), r, 0);
    return r >= 0;
}

/* strlen() of at most STRING_MAX bytes: longer names are cut, perhaps inside a UTF-8 sequence. Null has length 0. */
KASURI__COLD uint32_t kasuri__length(const char *s) {
    uint32_t n = 0;
    while (s && s[n] && n < KASURI__STRING_MAX)
        n++;
    return n;
}
/* Copy a string with its NUL; return where the next one goes. */
KASURI__COLD char *kasuri__append(char *to, const char *s, uint32_t n) {
    __builtin_memcpy(to, s ? s : "", n);
    to[n] = 0;
    return to + n + 1;
}

/* Room for one definition in our own memory, a list of 64-KiB blocks that are never freed; null when there is none.
 * The caller adds to `used` once the definition is complete. Holder of `defining`. */
KASURI__COLD char *kasuri__definition_room(struct kasuri__client *c, uint32_t bytes) {
    struct kasuri__process *p = &kasuri__process;
    struct kasuri__block *b = p->last;
    long at;
    if (b && b->used + bytes <= KASURI__BLOCK_BYTES)
        return b->data + b->used;
    at = kasuri__mmap(0, sizeof *b, KASURI__ANONYMOUS, -1);
    if (kasuri__is_error(at)) {
        kasuri__hinder(kasuri__control(c), at, 1);
        return 0;
    }
    b = (struct kasuri__block *)at;
    if (p->last)
        p->last->next = b;
    else
        p->first = b;
    p->last = b;
    return b->data;
}

/* Define a site. The definition is built in memory of our own, appended to the file by one write(2), and only then
 * counted and given an id: when the program is killed in between, the file has at most one definition that no event
 * uses. Where the write fails for want of room, the memory is used again by the next one. Holder of `defining`.
 * Return: its id, or 0. */
KASURI__COLD uint32_t kasuri__define(struct kasuri__client *c, const char *name, const char *file, const char *func,
                                     uint32_t line) {
    uint32_t nn = kasuri__length(name), nf = kasuri__length(file), nu = kasuri__length(func), i;
    uint32_t length = (uint32_t)sizeof(struct kasuri_site_def) + nn + nf + nu + 3, bytes = (length + 7) & ~7u;
    char *room = kasuri__definition_room(c, bytes), *to;
    struct kasuri_site_def *def = (struct kasuri_site_def *)(void *)room;
    if (!room || kasuri__process.next_id >= 0x7ffffffe)
        return 0;
    def->bytes = bytes;
    def->id = kasuri__process.next_id + 1;
    def->line = line;
    def->name_len = (uint16_t)nn;
    def->file_len = (uint16_t)nf;
    def->func_len = (uint16_t)nu;
    def->reserved = 0;
    def->reserved2 = 0;
    to = kasuri__append((char *)(def + 1), name, nn);
    to = kasuri__append(to, file, nf);
    to = kasuri__append(to, func, nu);
    for (i = length; i < bytes; i++)
        *to++ = 0;
    /* Where nobody records any more the id is good all the same: the next session gets all names. */
    if (KASURI__GET(c->state) == 1 && !kasuri__write_sites(c, room, bytes) && kasuri__gate_load() == 1 &&
        __atomic_load_n(&kasuri__control(c)->state, __ATOMIC_RELAXED) != KASURI_SESSION_STOPPED)
        return 0;
    kasuri__process.last->used += bytes;
    return ++kasuri__process.next_id;
}

/* The id of a call site, defined now if need be; 0: its name could not be stored. That is tried once a session: the
 * negative id says in which it failed. ORDER relaxed for the site's fields: constants, or the same values from each
 * thread (kasuri__describe); an id is a number that needs nothing else to be seen with it. */
KASURI__COLD int32_t kasuri__site_id(struct kasuri__client *c, struct kasuri_site *site) {
    int32_t id = __atomic_load_n(&site->id, __ATOMIC_RELAXED), failed = (int32_t)(0x80000000u | KASURI__GET(c->epoch));
    if (id > 0)
        return id;
    if (id == failed || !kasuri__try_lock(&c->defining))
        return 0;
    id = __atomic_load_n(&site->id, __ATOMIC_RELAXED);
    if (id <= 0 && id != failed) {
        id = (int32_t)kasuri__define(
            c, __atomic_load_n(&site->name, __ATOMIC_RELAXED), __atomic_load_n(&site->file, __ATOMIC_RELAXED),
            __atomic_load_n(&site->func, __ATOMIC_RELAXED), __atomic_load_n(&site->line, __ATOMIC_RELAXED));
        __atomic_store_n(&site->id, id ? id : failed, __ATOMIC_RELAXED);
    }
    kasuri__unlock(&c->defining);
    return id > 0 ? id : 0;
}
