/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* check.hpp - check.h for tests of ito.hpp: each runs inside a runtime. */
#ifndef ITO_TESTS_CHECK_HPP
#define ITO_TESTS_CHECK_HPP

#include "check.h"

#include <ito.hpp>

#include <optional>

static std::optional<ito::runtime> check_runtime;
static int check_start() {
    check_runtime.emplace();
    return 0;
}
static int check_stop() {
    check_runtime.reset();
    return 0;
}

static int check_in_runtime(int argc, char **argv, const struct check_test *tests) {
    return check_main(argc, argv, tests, check_start, check_stop);
}

#endif
