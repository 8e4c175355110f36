// SPDX-License-Identifier: MIT OR Apache-2.0
// Every macro in C++, and what only C++ has: templates, inline functions, lambdas, exceptions.
#include "every_macro.h"

#include <stdexcept>

namespace {
template <class T> T twice(T v) {
    KASURI_SCOPE("template");
    return v + v;
}
struct Solver {
    int steps = 0;
    void step() {
        KASURI_SCOPE("member");
        auto count = [this] {
            KASURI_INSTANT("lambda");
            ++steps;
        };
        count();
    }
};
void fails() {
    KASURI_SCOPE("left by an exception");
    throw std::runtime_error("on purpose");
}
} // namespace

int main() {
    every_macro();
    Solver s;
    s.step();
    try {
        fails();
    } catch (const std::exception &) {
        KASURI_INSTANT("caught");
    }
    return twice(s.steps) == 2 && twice(0.5) == 1.0 ? 0 : 1;
}
