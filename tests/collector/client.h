/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* As much of ITT's static part and of NVTX's headers as a small program needs: tables that a tool's library fills in. Calls are null where
 * no library wants them. probes/collector/itt.c and nvtx.c say where the layouts are from. */
#ifndef KASURI_TESTS_CLIENT_H
#define KASURI_TESTS_CLIENT_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

struct id {
    unsigned long long d1, d2, d3;
};
static void *(*domain_create)(const char *), *(*string_handle_create)(const char *);
static void (*task_begin)(void *, struct id, struct id, void *), (*task_end)(void *);
static struct api {
    const char *name;
    void **function;
    void *init, *null;
    int group;
} apis[] = {{"__itt_domain_create", (void **)(void *)&domain_create, 0, 0, 1},
            {"__itt_string_handle_create", (void **)(void *)&string_handle_create, 0, 0, 1},
            {"__itt_task_begin", (void **)(void *)&task_begin, 0, 0, 1},
            {"__itt_task_end", (void **)(void *)&task_end, 0, 0, 1},
            {0, 0, 0, 0, 0}};
static struct {
    unsigned char magic[8];
    unsigned long major, minor, build;
    char between[24 + 40 + 24]; /* three numbers, a mutex, three pointers */
    struct api *apis;
} global = {.major = 3, .apis = apis};

static void (*mark)(const char *);
static int (*push)(const char *), (*pop)(void);
typedef void function(void);
static function *unused, **table[16];
static int get_module(int module, function ****out, unsigned *n) {
    for (int i = 0; i < 16; i++)
        table[i] = &unused;
    table[2] = (function **)(void *)&mark;
    table[9] = (function **)(void *)&push;
    table[11] = (function **)(void *)&pop;
    *out = table;
    *n = 16;
    return module == 1;
}
static struct {
    size_t bytes;
    int (*module)(int, function ****, unsigned *);
} callbacks = {sizeof callbacks, get_module};
static const void *get_table(uint32_t number) {
    return number == 1 ? &callbacks : 0;
}

/* Gives a library (null: none) the tables. Return: whether it wants them. */
static int attach_itt(void *library) {
    void (*init)(void *, int) = 0;
    *(void **)&init = library ? dlsym(library, "__itt_api_init") : 0;
    if (init)
        init(&global, -1);
    return init != 0;
}
static int attach_nvtx(void *library) {
    int (*init)(const void *(*)(uint32_t)) = 0;
    *(void **)&init = library ? dlsym(library, "InitializeInjectionNvtx2") : 0;
    return init && init(get_table);
}

#endif
