/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Texts -> names of the trace. A table of hashes that only grows; nothing is freed, as names live with the process. */
#include "collector.h"

#include <string.h>
#include <wchar.h>

#define SLOTS (2 * NAMES_MAX) /* power of two */

/* A name: free (hash 0), claimed (id 0), known. The hash stands for the text: two of 4,096 names are the same with a
 * probability of 10^-12, and then share a name. */
struct name {
    uint64_t hash;
    uint32_t id;
};
static struct name names[SLOTS];
static uint32_t n_names;

static uint64_t hash_of(const char *text) {
    uint64_t h = 0xcbf29ce484222325ull;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3ull;
    return h ? h : 1;
}

/* ORDER relaxed for all: a hash is published by its own compare-and-swap, and an id is a number that anyone may make
 * again: kasuri_intern gives the same one for the same text. */
uint32_t name_of(const char *text) {
    if (!text)
        return 0;
    uint64_t hash = hash_of(text);
    for (uint64_t at = hash;; at++) {
        struct name *name = &names[at % SLOTS];
        uint64_t found = __atomic_load_n(&name->hash, __ATOMIC_RELAXED);
        if (!found) {
            /* Half of the slots stay free, so that each search ends. */
            if (__atomic_fetch_add(&n_names, 1, __ATOMIC_RELAXED) >= NAMES_MAX) {
                __atomic_fetch_sub(&n_names, 1, __ATOMIC_RELAXED);
                static uint32_t others;
                uint32_t id = __atomic_load_n(&others, __ATOMIC_RELAXED);
                if (!id)
                    __atomic_store_n(&others, id = kasuri_intern(NAME_OTHERS), __ATOMIC_RELAXED);
                return id;
            }
            if (__atomic_compare_exchange_n(&name->hash, &found, hash, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                found = hash;
            else
                __atomic_fetch_sub(&n_names, 1, __ATOMIC_RELAXED);
        }
        if (found == hash) {
            uint32_t id = __atomic_load_n(&name->id, __ATOMIC_RELAXED);
            if (!id)
                __atomic_store_n(&name->id, id = kasuri_intern(text), __ATOMIC_RELAXED);
            return id;
        }
    }
}

uint32_t name_of_wide(const wchar_t *text) {
    char utf8[512];
    size_t n = 0;
    if (!text)
        return 0;
    for (; *text && n + 4 < sizeof utf8; text++) {
        uint32_t c = (uint32_t)*text;
        if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        if (c < 0x80) {
            utf8[n++] = (char)c;
            continue;
        }
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        utf8[n++] = (char)((0xff00 >> (more + 1) & 0xff) | c >> 6 * more);
        while (more--)
            utf8[n++] = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
    utf8[n] = 0;
    return name_of(utf8);
}
