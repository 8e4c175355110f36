/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which basic blocks a program runs: tests/mutants/run compiles the code to be broken with -fsanitize-coverage=trace-pc
 * and links this to it. Each block's return address, from the module's first byte on, is a byte in the file REACHED, which
 * all processes of a test share: it is right also after a kill. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
static unsigned char *reached; /* threads that race here map it twice, which does no harm */

void __sanitizer_cov_trace_pc(void) __attribute__((visibility("hidden")));
void __sanitizer_cov_trace_pc(void) {
    unsigned long at = (unsigned long)__builtin_return_address(0) - (unsigned long)__ehdr_start;
    unsigned char *map = __atomic_load_n(&reached, __ATOMIC_RELAXED);
    if (!map) {
        int saved = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, REACHED, O_RDWR | O_CLOEXEC, 0);
        long p = syscall(SYS_mmap, 0, REACHED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
        errno = saved;
        if (p == -1)
            return;
        map = (unsigned char *)p;
        __atomic_store_n(&reached, map, __ATOMIC_RELAXED);
    }
    if (at < REACHED_BYTES)
        map[at] = 1;
}
