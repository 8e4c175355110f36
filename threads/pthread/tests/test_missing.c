/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the C library does not have fails as its manual says (real.c). */
#include "real.h"

#include "check.h"

#include <errno.h>

int main(void) {
    int (*returns_error)(void) = NULL;
    int (*sets_errno)(int) = NULL;
    ssize_t (*sets_errno_too)(int) = NULL;
    real_find((void **)&returns_error, "pthread_of_tomorrow_np");
    errno = 0;
    CHECK(returns_error() == ENOSYS && errno == 0);
    real_find((void **)&sets_errno, "epoll_of_tomorrow");
    CHECK(sets_errno(1) == -1 && errno == ENOSYS);
    errno = 0;
    real_find((void **)&sets_errno_too, "read_of_tomorrow");
    CHECK(sets_errno_too(1) == -1 && errno == ENOSYS);
    return 0;
}
