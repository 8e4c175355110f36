/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that is annotated with ITT and NVTX, with as much of their headers as it needs: each loads the library that its
 * variable names, and calls it. Without one the program runs the same. Prints how many of the two found a library. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

typedef void function(void);
static void (*mark)(const char *);
static function *unused, **table[16];
static int get_module(int module, function ****out, unsigned *n) {
    for (int i = 0; i < 16; i++)
        table[i] = &unused;
    table[2] = (function **)(void *)&mark;
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

/* The function of the library that a variable names, or null. */
static void *find(const char *variable, const char *name) {
    const char *path = getenv(variable);
    void *library = path ? dlopen(path, RTLD_LAZY) : 0;
    return library ? dlsym(library, name) : 0;
}

int main(void) {
    struct id none = {0, 0, 0};
    void (*itt)(void *, int);
    int (*nvtx)(const void *(*)(uint32_t));
    *(void **)&itt = find("INTEL_LIBITTNOTIFY64", "__itt_api_init");
    *(void **)&nvtx = find("NVTX_INJECTION64_PATH", "InitializeInjectionNvtx2");
    if (itt)
        itt(&global, -1);
    if (nvtx)
        nvtx(get_table);
    void *domain = domain_create ? domain_create("program") : 0;
    void *name = string_handle_create ? string_handle_create("itt task") : 0;
    for (int i = 0; i < 20; i++) {
        if (task_begin)
            task_begin(domain, none, none, name);
        if (mark && i % 2)
            mark("nvtx mark");
        if (task_end)
            task_end(domain);
    }
    printf("%d\n", (itt != 0) + (nvtx != 0));
    return 0;
}
