/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The recorder's side of the protocol, in the shortest form that is correct: make a session, find the files of new
 * clients in its directory, map their segments, copy and free FULL chunks, and at the end read the OWNED ones of
 * programs that have ended. reader.h has the interface. Each CHECK is a promise of docs/design/ring.md to recorders.
 */
#include "reader.h"
#include "abi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_SEGMENTS 128
#define SEEN (1u << 18)
#define CHECK(ok, ...)                                                                                                 \
    do {                                                                                                               \
        if (!(ok)) {                                                                                                   \
            fprintf(stderr, "%s:%d: broken: %s: ", __FILE__, __LINE__, #ok);                                           \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            exit(1); /* not abort: a control that must fail counts only with an ordinary exit */                       \
        }                                                                                                              \
    } while (0)

struct client {
    uint32_t pid, gen, n_segments;
    struct kasuri_segment *segments[MAX_SEGMENTS];
    uint64_t bytes[MAX_SEGMENTS];
    char *sites;
    uint64_t sites_bytes;
};

struct reader {
    char path[4200];
    int lock_fd;
    int no_free, is_live;
    struct kasuri_control *control;
    reader_visit *visit;
    void *context;
    struct reader_totals totals;
    uint64_t seen[SEEN]; /* chunks, hashed by client, stream and seq */
    uint32_t n_seen;
    uint32_t n_clients;
    struct client clients[READER_MAX_CLIENTS];
};

static uint32_t *states(struct kasuri_segment *s) {
    return (uint32_t *)(void *)(s + 1);
}
static struct kasuri_chunk *chunk_at(struct kasuri_segment *s, uint32_t i) {
    return (struct kasuri_chunk *)(void *)((char *)s + s->chunks_offset + (uint64_t)i * s->chunk_bytes);
}

static int take_lock(const char *path) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fcntl(fd, 37 /* F_OFD_SETLK */, &lock) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void remove_files(struct reader *r) {
    char path[4500];
    DIR *dir = opendir(r->path);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", r->path, e->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(r->path);
}

static int registered;
static struct reader *latest; /* left behind by a test that ends early */
static void remove_latest(void) {
    if (latest)
        remove_files(latest);
}

struct reader *reader_open(const struct reader_options *o, reader_visit *visit, void *context) {
    struct reader *r = calloc(1, sizeof *r);
    char path[4300];
    snprintf(r->path, sizeof r->path, "%s/kasuri-test-XXXXXX", o->root ? o->root : "/dev/shm");
    if (!mkdtemp(r->path)) {
        free(r);
        return NULL;
    }
    snprintf(path, sizeof path, "%s/control", r->path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, 4096) != 0) {
        free(r);
        return NULL;
    }
    r->control = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    struct kasuri_control *k = r->control;
    k->version = KASURI_ABI_VERSION;
    k->struct_size = sizeof *k;
    k->state = KASURI_SESSION_RECORDING;
    k->policy = o->policy ? o->policy : KASURI_POLICY_GROW;
    k->clock = o->clock ? o->clock : READER_CLOCK;
    k->chunk_bytes = o->chunk_bytes ? o->chunk_bytes : 32768;
    k->max_bytes = o->max_bytes ? o->max_bytes : 256u << 20;
    k->first_chunks = o->first_chunks ? o->first_chunks : 64;
    k->flight_chunks = o->flight_chunks ? o->flight_chunks : 4;
    k->recorder_pid = (uint32_t)getpid();
    k->magic = KASURI_MAGIC_CONTROL;
    r->lock_fd = o->no_lock ? -1 : take_lock(path);
    r->no_free = o->no_free;
    r->is_live = o->is_live;
    r->visit = visit;
    r->context = context;
    latest = r;
    if (!registered++)
        atexit(remove_latest);
    return r;
}

const char *reader_path(const struct reader *r) {
    return r->path;
}
struct kasuri_control *reader_control(struct reader *r) {
    return r->control;
}
const struct reader_totals *reader_totals(const struct reader *r) {
    return &r->totals;
}

/* A word that its program may be storing. `halves`: in two, the low one last where it is a stamp, and not 0. ORDER acquire;
 * pairs with the release in kasuri__publish and with that in kasuri__payload. */
static uint64_t look(const uint64_t *word, int halves) {
#if UINTPTR_MAX > 0xffffffffu
    uint64_t all = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return halves && !(uint32_t)all ? 0 : all;
#else
    typedef uint32_t __attribute__((may_alias)) half;
    int first = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    uint32_t low = __atomic_load_n((const half *)(const void *)word + first, __ATOMIC_ACQUIRE);
    uint32_t high = __atomic_load_n((const half *)(const void *)word + !first, __ATOMIC_RELAXED);
    return halves && !low ? 0 : (uint64_t)high << 32 | low;
#endif
}

/* The slot after a run of zeros that begins at slot `hole` of a chunk whose owner may be writing, or the hole again
 * when its length is there by now; `slots`: none. The recorder's after_hole (crates/record/src/rings/openchunk.rs)
 * explains the method. */
static uint32_t after_hole(const uint64_t *words, uint32_t hole, uint32_t slots, int halves) {
    uint32_t next = hole + 1, at;
    while (next < slots && !look(&words[2 * next], halves) && !look(&words[2 * next + 1], 0))
        next++;
    for (at = hole; next < slots && at < next; at++) {
        if (at == hole)
            __atomic_thread_fence(__ATOMIC_ACQUIRE); /* ORDER: pairs with the release in kasuri__payload */
        if (look(&words[2 * at + 1], 0)) {
            if (at == hole)
                return hole;
            next = at;
            at = hole - 1;
        }
    }
    return next;
}

/* Walk the records of a chunk up to offset `end`: count the committed ones as kept, step over open ones by the length
 * in word 1, and call `visit` for each event. */
static void read_events(struct reader *r, struct client *c, struct kasuri_chunk *chunk, uint32_t end) {
    const uint64_t *words = (const uint64_t *)(const void *)chunk;
    int halves = (chunk->flags & KASURI_CHUNK_HALVES) != 0;
    uint64_t before = 0;
    for (uint32_t i = 16; i < end / 8;) {
        uint64_t stamp = look(&words[i], halves);
        uint64_t word1 = look(&words[i + 1], 0);
        uint32_t slots = word1 >> 8 & 0xff;
        if (!stamp) {
            r->totals.open_records += word1 != 0;
            i = word1 ? i + 2 * (slots ? slots : 1) : 2 * after_hole(words, i / 2, end / 16, halves);
            continue;
        }
        CHECK(slots && i + 2 * slots <= end / 8, "word1 %llx at %u", (unsigned long long)word1, i * 8);
        struct reader_event e = {.pid = c->pid,
                                 .gen = c->gen,
                                 .stream = chunk->stream,
                                 .tid = chunk->tid,
                                 .stamp = stamp,
                                 .kind = word1 & 0xff,
                                 .slots = slots,
                                 .aux = word1 >> 16 & 0xffff,
                                 .site = (uint32_t)(word1 >> 32),
                                 .payload = words + i + 2};
        r->totals.kept++;
        r->totals.out_of_order += stamp < before;
        before = stamp;
        CHECK(e.kind >= KASURI_EV_BEGIN && e.kind <= KASURI_EV_TASK_DEPENDS, "kind %u", e.kind);
        r->totals.by_kind[e.kind]++;
        int is_short =
            e.kind == KASURI_EV_LOCK_TAKEN || e.kind == KASURI_EV_LOCK_LEFT; /* an address instead of a site */
        if (!is_short && e.site && !reader_site(r, e.pid, e.gen, e.site))
            r->totals.unnamed++;
        if (r->visit)
            r->visit(r->context, &e);
        i += 2 * slots;
    }
}

/* No two chunks of a stream have the same number: a reader that goes by the number would drop the second. */
static void check_number(struct reader *r, const struct client *c, const struct kasuri_chunk *chunk) {
    uint64_t key = (uint64_t)(c - r->clients + 1) << 52 | (uint64_t)chunk->stream << 32 | (uint32_t)chunk->seq;
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 46);
    if (r->n_seen > SEEN / 2 || r->is_live) /* a header may be half written then */
        return;
    for (; r->seen[at]; at = (at + 1) % SEEN)
        CHECK(r->seen[at] != key, "stream %u has two chunks %llu", chunk->stream, (unsigned long long)chunk->seq);
    r->seen[at] = key;
    r->n_seen++;
}

/* Read a chunk's events. `frees`: whether the chunk is then zeroed and freed; not at the end of a recording, when the
 * owner may still be writing. */
static void drain(struct reader *r, struct client *c, struct kasuri_segment *s, uint32_t i, int reaped, int frees) {
    struct kasuri_chunk *chunk = chunk_at(s, i);
    uint32_t end = chunk->used ? chunk->used : s->chunk_bytes;
    CHECK(end >= sizeof *chunk && end <= s->chunk_bytes && end % 16 == 0, "used %u", end);
    if (chunk->stream) {
        uint64_t lost = 0;
        for (int k = 0; k < KASURI_LOST_CAUSES; k++)
            lost += chunk->lost[k];
        check_number(r, c, chunk);
        CHECK(r->is_live || !lost || (chunk->lost_first && chunk->lost_last >= chunk->lost_first),
              "%llu lost from %llu to %llu", (unsigned long long)lost, (unsigned long long)chunk->lost_first,
              (unsigned long long)chunk->lost_last);
        r->totals.chunks++;
        r->totals.reaped += (uint64_t)reaped;
    }
    read_events(r, c, chunk, end);
    for (int k = 0; k < KASURI_LOST_CAUSES; k++) {
        r->totals.lost_by[k] += chunk->lost[k];
        r->totals.lost += chunk->lost[k];
    }
    if (!frees)
        return;
    memset(chunk, 0, s->chunk_bytes);
    __atomic_store_n(&states(s)[i], KASURI_CHUNK_FREE, __ATOMIC_RELEASE);
    __atomic_fetch_add(&r->control->freed, 1, __ATOMIC_RELAXED);
}

/* Whether the stream of a chunk has ended: its thread is dead, or has begun a later stream with the same TID. */
static int owner_is_dead(struct client *c, struct kasuri_chunk *chunk) {
    if (!chunk->stream)
        return kill((pid_t)c->pid, 0) != 0;
    if (syscall(SYS_tgkill, c->pid, chunk->tid, 0) != 0 && errno == ESRCH)
        return 1;
    for (uint32_t k = 0; k < c->n_segments; k++)
        for (uint32_t i = 0; i < c->segments[k]->n_chunks; i++) {
            struct kasuri_chunk *other = chunk_at(c->segments[k], i);
            if (__atomic_load_n(&states(c->segments[k])[i], __ATOMIC_ACQUIRE) == KASURI_CHUNK_OWNED &&
                other->tid == chunk->tid && other->stream > chunk->stream)
                return 1;
        }
    return 0;
}

/* Map the segments that the client has added since the last look. A file without its magic is not ready yet. */
static void map_segments(struct reader *r, struct client *c) {
    char path[4300];
    while (c->n_segments < MAX_SEGMENTS) {
        snprintf(path, sizeof path, "%s/p%u-%u.ring%u", r->path, c->pid, c->gen, c->n_segments);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        struct stat st;
        if (fd < 0)
            return;
        struct kasuri_segment *s = MAP_FAILED;
        if (fstat(fd, &st) == 0 && st.st_size >= 4096)
            s = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (s == MAP_FAILED)
            return;
        if (look(&s->magic, 1) != KASURI_MAGIC_SEGMENT) {
            munmap(s, (size_t)st.st_size);
            return;
        }
        CHECK(s->pid == c->pid && s->gen == c->gen && s->index == c->n_segments, "%s", path);
        CHECK(s->chunks_offset + (uint64_t)s->n_chunks * s->chunk_bytes <= (uint64_t)st.st_size, "%s", path);
        c->bytes[c->n_segments] = (uint64_t)st.st_size;
        c->segments[c->n_segments++] = s;
        r->totals.segments++;
    }
}

static struct client *find_client(struct reader *r, uint32_t pid, uint32_t gen) {
    for (uint32_t i = 0; i < r->n_clients; i++)
        if (r->clients[i].pid == pid && r->clients[i].gen == gen)
            return &r->clients[i];
    return NULL;
}

/* A client is known by its .sites file, which it makes before any segment. */
static void find_clients(struct reader *r) {
    DIR *dir = opendir(r->path);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        unsigned pid, gen;
        char tail[8];
        if (sscanf(e->d_name, "p%u-%u.%5s", &pid, &gen, tail) != 3 || strcmp(tail, "sites") != 0)
            continue;
        if (!find_client(r, pid, gen) && r->n_clients < READER_MAX_CLIENTS) {
            r->clients[r->n_clients++] = (struct client){.pid = pid, .gen = gen};
            r->totals.clients++;
        }
    }
    if (dir)
        closedir(dir);
}

/* Look at every chunk once. `all`: the recording ends, so OWNED chunks are read, too, and none is freed; before that
 * only those of dead owners are. */
static void pass(struct reader *r, int all) {
    find_clients(r);
    for (uint32_t n = 0; n < r->n_clients; n++) {
        struct client *c = &r->clients[n];
        map_segments(r, c);
        for (uint32_t k = 0; k < c->n_segments; k++)
            for (uint32_t i = 0; i < c->segments[k]->n_chunks; i++) {
                uint32_t state = __atomic_load_n(&states(c->segments[k])[i], __ATOMIC_ACQUIRE);
                CHECK(state <= KASURI_CHUNK_FULL, "state %u", state);
                CHECK(state != KASURI_CHUNK_FULL || chunk_at(c->segments[k], i)->used, "full chunk without an end");
                if (state == KASURI_CHUNK_FULL)
                    drain(r, c, c->segments[k], i, 0, !all);
                else if (state == KASURI_CHUNK_OWNED && (all || owner_is_dead(c, chunk_at(c->segments[k], i))))
                    drain(r, c, c->segments[k], i, 1, !all);
            }
    }
}

void reader_poll(struct reader *r) {
    if (!r->no_free)
        pass(r, 0);
}

/* After the last pass the losses of threads without a chunk are added: those in each client's first segment, and those
 * of clients without a segment, in the control page. */
void reader_finish(struct reader *r) {
    pass(r, 1);
    for (uint32_t n = 0; n < r->n_clients; n++)
        for (int k = 0; k < KASURI_LOST_CAUSES && r->clients[n].n_segments; k++) {
            r->totals.lost_by[k] += r->clients[n].segments[0]->lost[k];
            r->totals.lost += r->clients[n].segments[0]->lost[k];
        }
    for (int k = 0; k < KASURI_LOST_CAUSES; k++) {
        r->totals.lost_by[k] += r->control->lost[k];
        r->totals.lost += r->control->lost[k];
    }
}

static void load_sites(struct reader *r, struct client *c) {
    char path[4300];
    struct stat st;
    snprintf(path, sizeof path, "%s/p%u-%u.sites", r->path, c->pid, c->gen);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &st) == 0, "%s", path);
    c->sites = realloc(c->sites, (size_t)st.st_size + 1);
    CHECK(read(fd, c->sites, (size_t)st.st_size) == st.st_size, "%s", path);
    close(fd);
    c->sites_bytes = (uint64_t)st.st_size;
}

/* The name of a site in the part of the file that was read so far; null: not there yet, read the file again. */
static const char *find_site(struct client *c, uint32_t id) {
    for (uint64_t at = sizeof(struct kasuri_sites_header); at + sizeof(struct kasuri_site_def) <= c->sites_bytes;) {
        struct kasuri_site_def *d = (struct kasuri_site_def *)(void *)(c->sites + at);
        CHECK(d->bytes >= sizeof *d && d->bytes % 8 == 0, "site at %llu", (unsigned long long)at);
        /* A write that crosses a page shows in the file page by page: the rest is there when it is read again. */
        if (at + d->bytes > c->sites_bytes)
            break;
        if (d->id == id)
            return (const char *)(d + 1);
        at += d->bytes;
    }
    return NULL;
}

const char *reader_site(struct reader *r, uint32_t pid, uint32_t gen, uint32_t id) {
    struct client *c = find_client(r, pid, gen);
    const char *name = c->sites ? find_site(c, id) : NULL;
    if (!name) {
        load_sites(r, c);
        name = find_site(c, id);
    }
    return name;
}

void reader_unlock(struct reader *r) {
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    r->lock_fd = -1;
}

void reader_close(struct reader *r) {
    remove_files(r);
    if (latest == r)
        latest = NULL;
    for (uint32_t n = 0; n < r->n_clients; n++) {
        for (uint32_t k = 0; k < r->clients[n].n_segments; k++)
            munmap(r->clients[n].segments[k], r->clients[n].bytes[k]);
        free(r->clients[n].sites);
    }
    munmap(r->control, 4096);
    reader_unlock(r);
    free(r);
}
