/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From an address of code or of a lock to a site of the trace: "module+0xoffset", say "libfoo.so.1+0x1a2b0". The
 * recorder replaces that by the symbol's name (crates/record/src/files/symbols.rs), so that no symbol table is read
 * while a thread waits for a lock.
 *
 * Two tables, both static and never freed. `sites` maps an address to its site: open addressing, found without a lock
 * from the second use on. `ranges` holds the mappings in which those addresses lay: a short array, searched linearly.
 * Only the first use of an address takes the lock `reading`, and only an address outside the known ranges reads
 * /proc/self/maps.
 *
 * dl_iterate_phdr and dladdr are not used: they take the loader's lock, and a thread that holds it (dlopen runs
 * constructors under it) may want the very lock that the asking thread holds.
 */
#include "site.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_SITES 8192u /* power of two; addresses beyond have no name */
#define N_RANGES 512u
#define NAME_MAX_BYTES 4096u

/* `func` of a site that the recorder is to name: where code goes on after the call, data, or a place (site.h). */
static const char call_marker[] = "kasuri.call", data_marker[] = "kasuri.data", place_marker[] = "kasuri.place";
enum { IS_CALL, IS_DATA, IS_PLACE };

/* A site and the address that it stands for. `ready`: 0 not described, 1 described, 2 has no name. */
struct known {
    uint64_t key; /* address << 7 | kind; 0: free. Compare-and-swap. */
    uint32_t ready;
    struct kasuri_site site;
};
/* The life of an entry of `sites`:
 *   free       key 0
 *   claimed    key set, by compare-and-swap, by the first thread that asks for the address; never changed again
 *   described  ready 1: the strings are complete and constant; only site.id still changes (annotate/src/emit.h)
 *   nameless   ready 2: data outside all modules, or no memory was left; this is final, too
 * Several threads may find an entry claimed and not described. Each then takes `reading`, looks at `ready` once more,
 * and the first of them describes. */
static struct known sites[N_SITES];

/* A mapping of a file, or the anonymous one behind it (.bss). */
struct range {
    uint64_t start, end, base;
    const char *path;
};
/* Appended to by the holder of `reading`, read by all without a lock. A module that is unloaded keeps its entry: a
 * name may then be that of an older module at the same address. */
static struct range ranges[N_RANGES];
static uint32_t n_ranges; /* release: the entries below are complete */
static uint32_t reading;  /* lock of the table */
/* How often all threads together may still yield the CPU while another thread holds `reading`. The wait must end: the
 * holder may be this very thread, below the signal handler that waits, or a thread that a fork has not copied. */
static int32_t patience = 20000;

/* What is left of the present block. Holder of `reading`. */
static char *heap;
static uint64_t heap_left;

/* Memory for a name, cut from blocks of 64 KiB; a name has a path's length and 24 bytes at most. Never freed: sites
 * live as long as the process. Null: no memory left. Holder of `reading`. */
static char *allocate(uint64_t bytes) {
    /* The rest of the old block is given up: less than a path's length. By system call, since a library may stand in
     * front of mmap, too, and lock. */
    if (bytes > heap_left) {
        void *p = (void *)syscall(SYS_mmap, 0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return 0;
        heap = p;
        heap_left = 65536;
    }
    heap_left -= bytes;
    heap += bytes;
    return heap - bytes;
}

/* The known mapping that an address lies in, or null. Needs no lock: an entry is complete before n_ranges counts it,
 * and then constant. */
static const struct range *find_range(uint64_t address) {
    /* ORDER acquire; pairs with the release in take_line(). Publishes the entries below it. */
    uint32_t n = __atomic_load_n(&n_ranges, __ATOMIC_ACQUIRE);
    /* Unsigned: an address below `start` becomes a huge difference, so one comparison checks both ends. */
    for (uint32_t i = 0; i < n; i++)
        if (address - ranges[i].start < ranges[i].end - ranges[i].start)
            return &ranges[i];
    return 0;
}

/* A hexadecimal number; `text` then points behind it. */
static uint64_t number(const char **text) {
    uint64_t v = 0;
    for (;; ++*text) {
        char c = **text;
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (uint64_t)(c - 'a' + 10);
        else
            return v;
    }
}

/* The state of a walk through /proc/self/maps. */
struct maps {
    uint64_t want, last_end, base;
    char path[NAME_MAX_BYTES]; /* of the last file mapped */
    int found;
};

/* One line of /proc/self/maps: "start-end perms offset dev inode   path" (proc_pid_maps(5)), as
 *   7f3b1c028000-7f3b1c1bd000 r-xp 00028000 08:01 1835 /usr/lib/libc.so.6
 * A module's mappings follow each other, with the anonymous one of its .bss behind them, which has no path of its own
 * and begins where the one before ends. The lowest of them is the base that offsets count from:
 *   7f3b1c000000-7f3b1c028000 r--p  /usr/lib/libc.so.6    base
 *   7f3b1c028000-7f3b1c1bd000 r-xp  /usr/lib/libc.so.6    0x7f3b1c02a1b0 here is "libc.so.6+0x2a1b0"
 *   7f3b1c1bd000-7f3b1c1ca000 rw-p                        .bss of libc.so.6: begins where the line above ends
 *   7ffd5a000000-7ffd5a021000 rw-p  [stack]               no module */
static void take_line(struct maps *m, const char *line) {
    uint64_t start = number(&line), end;
    line++;
    end = number(&line);
    /* Past perms, offset, device and inode; what follows the blanks is the path, or nothing. */
    for (int fields = 0; fields < 4; fields++) {
        while (*line == ' ')
            line++;
        while (*line && *line != ' ')
            line++;
    }
    while (*line == ' ')
        line++;
    /* The path of the line before: the same module. Another path: a module begins here. No path, and not right behind
     * the line before, or a name such as [heap]: no module. */
    if (*line == '/') {
        if (__builtin_strcmp(m->path, line)) {
            m->base = start;
            __builtin_strncpy(m->path, line, sizeof m->path - 1);
        }
    } else if (*line || start != m->last_end) {
        m->path[0] = 0;
    }
    m->last_end = end;
    if (m->path[0] && m->want >= start && m->want < end && n_ranges < N_RANGES) {
        /* Mappings of one module share their path's memory. */
        uint64_t length = __builtin_strlen(m->path) + 1;
        struct range *r = &ranges[n_ranges];
        char *path = 0;
        for (uint32_t i = 0; i < n_ranges && !path; i++)
            if (!__builtin_strcmp(ranges[i].path, m->path))
                path = (char *)(uintptr_t)ranges[i].path;
        if (!path && (path = allocate(length)))
            __builtin_memcpy(path, m->path, length);
        if (!path)
            return;
        r->start = start;
        r->end = end;
        r->base = m->base;
        r->path = path;
        /* ORDER release; pairs with the acquire in find_range(). Publishes the entry. */
        __atomic_store_n(&n_ranges, n_ranges + 1, __ATOMIC_RELEASE);
        m->found = 1;
    }
}

/* Find the mapping of `want` and add it to the table. Holder of `reading`. By system calls: stdio may allocate, and the
 * program's malloc may be what asks. */
static void read_maps(uint64_t want) {
    /* Static, as is the buffer: the stack of the thread that locks may be a small one. `reading` guards both. */
    static struct maps m;
    static char buffer[8192];
    uint64_t have = 0;
    long n;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    m.want = want;
    m.last_end = m.base = 0;
    m.path[0] = 0;
    m.found = 0;
    while (!m.found && (n = syscall(SYS_read, fd, buffer + have, sizeof buffer - 1 - have)) > 0) {
        char *line = buffer, *end;
        have += (uint64_t)n;
        buffer[have] = 0;
        while ((end = __builtin_strchr(line, '\n'))) {
            *end = 0;
            take_line(&m, line);
            line = end + 1;
        }
        /* Keep the part of a line that the next read completes. */
        have -= (uint64_t)(line - buffer);
        __builtin_memmove(buffer, line, have);
        if (have == sizeof buffer - 1)
            have = 0; /* longer than a line with the longest path: drop it */
    }
    syscall(SYS_close, fd);
}

/* Write "0x..."; return where it ends. */
static char *append_hex(char *to, uint64_t v) {
    int shift = 60;
    *to++ = '0';
    *to++ = 'x';
    while (shift && !(v >> shift & 15))
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *to++ = "0123456789abcdef"[v >> shift & 15];
    *to = 0;
    return to;
}

/* "module+0xoffset" with the file's name without directories, or "0xaddress" outside all modules, behind `what` and a
 * blank if there is such a word. Of the 24 bytes behind the module's name at most 20 are used: '+', "0x", 16 digits and
 * NUL. Null: no memory. Holder of `reading`. */
static const char *make_name(const struct range *r, uint64_t address, const char *what) {
    const char *base = r ? r->path : 0;
    uint64_t length, before = what ? __builtin_strlen(what) + 1 : 0;
    char *name, *to;
    for (const char *c = base; c && *c; c++)
        if (*c == '/')
            base = c + 1;
    length = base ? __builtin_strlen(base) : 0;
    name = allocate(before + length + 24);
    if (!name)
        return 0;
    to = name;
    if (what) {
        __builtin_memcpy(to, what, before - 1);
        to += before;
        to[-1] = ' ';
    }
    if (base) {
        __builtin_memcpy(to, base, length);
        to += length;
        *to++ = '+';
    }
    append_hex(to, r ? address - r->base : address);
    return name;
}

/* Take the table's lock. The first event of a lock names it for good, so a thread that finds the table taken waits and
 * does not leave the name out; `patience` bounds the wait. Return: whether it was taken. ORDER relaxed for `patience`:
 * threads that count too far only give up a little earlier. */
static int take_table(void) {
    /* ORDER acquire; pairs with the release at the end of describe(). Publishes heap, ranges and names. */
    while (__atomic_exchange_n(&reading, 1, __ATOMIC_ACQUIRE)) {
        /* A budget of the whole process, which is not filled up again: once it is spent, a thread that finds the table
         * taken goes without a name at once. The store keeps the counter from wrapping. */
        if (__atomic_fetch_sub(&patience, 1, __ATOMIC_RELAXED) <= 0) {
            __atomic_store_n(&patience, 0, __ATOMIC_RELAXED);
            return 0;
        }
        syscall(SYS_sched_yield);
    }
    return 1;
}

/* Describe a new site. Return: 0 when another thread does so and this event goes without a name, or when it cannot be
 * described. A symbol's address outside all modules is no symbol; code outside them is named by its address. */
static int describe(struct known *k, uint64_t address, uint32_t kind, const char *what) {
    const struct range *r;
    const int is_data = kind == IS_DATA;
    /* Reading /proc may fail, and the program's lock call must leave errno alone. */
    int ok = 0, saved = errno;
    if (!take_table()) {
        errno = saved;
        return 0;
    }
    /* ORDER relaxed: this thread holds `reading`, whose acquire has made visible what the last describer stored. */
    if (!__atomic_load_n(&k->ready, __ATOMIC_RELAXED)) {
        r = find_range(address);
        if (!r) {
            read_maps(address);
            r = find_range(address);
        }
        if (r || !is_data) {
            k->site.name = make_name(r, address, what);
            k->site.file = r ? r->path : "";
            k->site.func = is_data ? data_marker : kind == IS_CALL ? call_marker : place_marker;
        }
        /* ORDER release; pairs with the acquire load in find(). Publishes the site's strings. It comes before `reading`
         * is given back: a thread that then gets the table sees that nothing is left to do. */
        __atomic_store_n(&k->ready, k->site.name ? 1u : 2u, __ATOMIC_RELEASE);
    }
    ok = k->site.name != 0;
    /* ORDER release; pairs with the acquire in take_table(). Publishes what its holder wrote. */
    __atomic_store_n(&reading, 0, __ATOMIC_RELEASE);
    errno = saved;
    return ok;
}

/* The site of an address, described at its first use. An open hash table: an entry's key is set once by
 * compare-and-swap and never changes. ORDER relaxed for the keys: a key says only that the entry is the address's;
 * `ready` publishes the rest. Return: null when the table is full there, or there is nothing to say. */
static struct kasuri_site *find(uint64_t address, uint32_t kind, const char *what) {
    /* The shift loses nothing: addresses of user space have at most 57 bits. */
    uint64_t key = address << 7 | kind, hash = key * 0x9e3779b97f4a7c15u >> 40;
    int is_described;
    /* At most 32 steps, so that a full table costs the same as a miss. */
    for (uint32_t probe = 0; probe < 32; probe++) {
        struct known *k = &sites[(hash + probe) % N_SITES];
        uint64_t free = 0, found = __atomic_load_n(&k->key, __ATOMIC_RELAXED);
        /* Entries never become free again, so a key that was found stays: nothing can come back in its place. */
        if (!found && __atomic_compare_exchange_n(&k->key, &free, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            found = key;
        /* Another thread has just claimed the entry; its key may be ours. */
        else if (!found)
            found = free;
        if (found != key)
            continue;
        /* ORDER acquire; pairs with the release store in describe(). Publishes the site's strings. */
        switch (__atomic_load_n(&k->ready, __ATOMIC_ACQUIRE)) {
        case 1:
            return &k->site;
        case 2:
            return 0;
        default:
            /* Where the program has confined itself by seccomp: without a name, as nothing may be read. */
            if (!kasuri__may_call())
                return 0;
            is_described = describe(k, address, kind, what);
            kasuri__called();
            return is_described ? &k->site : 0;
        }
    }
    return 0;
}

struct kasuri_site *probe_call_site(uintptr_t caller) {
    return find(caller, IS_CALL, 0);
}

struct kasuri_site *probe_symbol(uintptr_t address) {
    return find(address, IS_DATA, 0);
}

struct kasuri_site *probe_place(uintptr_t address, uint32_t kind, const char *what) {
    return find(address, IS_PLACE + kind, what);
}
