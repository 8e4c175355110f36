/*
 * Code, files and stacks that no compiler makes. Each mode runs for some 400 ms; x86-64 only.
 *
 *   strange_code no-elf     runs code in a mapped file that is no ELF file
 *   strange_code fifo       the same, after a FIFO took the file's name
 *   strange_code mappings   maps 5,000 pieces of code, and runs in each
 *   strange_code stack      runs with stack pointers that point nowhere, to code, to the end of memory
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* void run(uint64_t n): dec rdi; jnz back; ret */
static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
enum { PAGE = 4096 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void call(const void *at, uint64_t n) {
    void (*run)(uint64_t);
    memcpy(&run, &at, sizeof run);
    run(n);
}

static const char *garbage_file(void) {
    static const char name[] = "garbage.so";
    unsigned char bytes[2 * PAGE];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 + 7);
    memcpy(bytes,
           "\x7f"
           "ELF\2\1\1",
           7);
    memcpy(bytes + PAGE, code, sizeof code);
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    if (write(fd, bytes, sizeof bytes) != sizeof bytes)
        abort();
    close(fd);
    return name;
}

static void no_elf(int replace) {
    const char *name = garbage_file();
    int fd = open(name, O_RDONLY);
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        abort();
    close(fd);
    if (replace && (unlink(name) != 0 || mkfifo(name, 0600) != 0))
        abort();
    for (double start = now_s(); now_s() - start < 0.4;)
        call(at + PAGE, 1000000);
}

static void mappings(void) {
    enum { N = 5000 };
    static char *at[N];
    int fd = open(garbage_file(), O_RDONLY);
    for (int i = 0; i < N; i++) {
        /* Alternating permissions keep the kernel from joining neighbours. */
        char *pair = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        if (pair == MAP_FAILED || mprotect(pair, PAGE, PROT_READ) != 0)
            abort();
        at[i] = pair + PAGE;
    }
    for (double start = now_s(); now_s() - start < 0.4;)
        for (int i = 0; i < N; i++)
            call(at[i], 2000);
}

static void stack(void) {
    const uint64_t pointers[] = {0, 8, 0xfff, 0x7fffffffeff8, (uint64_t)(uintptr_t)code, ~0ull - 4, ~0ull, 1ull << 63};
    for (double start = now_s(); now_s() - start < 0.4;) {
        for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
            uint64_t n = 1000000;
            __asm__ volatile("mov %%rsp, %%r12\n\t"
                             "mov %%rbp, %%r13\n\t"
                             "mov %1, %%rsp\n\t"
                             "mov %1, %%rbp\n"
                             "1:\tdec %0\n\t"
                             "jnz 1b\n\t"
                             "mov %%r12, %%rsp\n\t"
                             "mov %%r13, %%rbp"
                             : "+r"(n)
                             : "r"(pointers[i])
                             : "r12", "r13", "memory", "cc");
        }
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "no-elf") == 0)
        no_elf(0);
    else if (strcmp(mode, "fifo") == 0)
        no_elf(1);
    else if (strcmp(mode, "mappings") == 0)
        mappings();
    else if (strcmp(mode, "stack") == 0)
        stack();
    else
        return 2;
    return 0;
}
