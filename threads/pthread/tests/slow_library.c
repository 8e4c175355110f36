/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library whose constructor waits for a byte, by a system call of its own; for test_unseen.c. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int ito_test_value;
int ito_test_value;

static __attribute__((constructor)) void waits(void) {
    char c = 0;
    const char *fd = getenv("ITO_TEST_FD");
    if (fd && syscall(SYS_read, atoi(fd), &c, 1) == 1)
        ito_test_value = c;
}
