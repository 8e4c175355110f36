/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Exceptions through functions and loops, destructors, templates, lambdas. Prints results, and its own counts. */
#include "count.h"

#include <stdexcept>
#include <vector>

static volatile int zero;

namespace shop {

struct Guard {
    int &left;
    ~Guard() {
        FUNCTION("shop::Guard::~Guard");
        left++;
    }
};

class Till {
  public:
    /* Throws in every third turn, out of a loop and of the function. */
    int add(int n) {
        FUNCTION("shop::Till::add");
        Guard guard{left};
        LOOP("shop::Till::add");
        for (int i = 0; i < 10; i++) {
            if (n % 3 == 2 && i == n % 10)
                throw std::runtime_error("full");
            sum += i + zero;
        }
        return sum;
    }
    int left = 0;

  private:
    int sum = 0;
};

template <class T> static T sum_of(const std::vector<T> &values) {
    T sum = T();
    FUNCTION(sizeof(T) == 4 ? "shop::sum_of<int>" : "shop::sum_of<double>");
    count_up(sizeof(T) == 4 ? "shop::sum_of<int>.loop%d" : "shop::sum_of<double>.loop%d", __LINE__ + 1);
    for (const T &value : values)
        sum += value;
    return sum;
}

/* Constructors and destructors of which compilers make several functions, and thunks. */
struct Shelf {
    int n = 0;
    Shelf() {
        FUNCTION("shop::Shelf::Shelf");
        LOOP("shop::Shelf::Shelf");
        for (int i = 0; i < 3; i++)
            n += i + zero;
    }
    virtual ~Shelf() {
        FUNCTION("shop::Shelf::~Shelf");
        LOOP("shop::Shelf::~Shelf");
        for (int i = 0; i < 3; i++)
            taken += n + zero;
    }
    virtual int look() {
        FUNCTION("shop::Shelf::look");
        return n;
    }
    static int taken;
};
int Shelf::taken;
struct Sign {
    Sign() { FUNCTION("shop::Sign::Sign"); }
    virtual ~Sign() { FUNCTION("shop::Sign::~Sign"); }
    virtual int read() {
        FUNCTION("shop::Sign::read");
        return 1;
    }
};
struct Rack : Sign, virtual Shelf {
    explicit Rack(int depth) {
        FUNCTION("shop::Rack::Rack");
        LOOP("shop::Rack::Rack");
        for (int i = 0; i < 2; i++)
            n += zero;
        if (depth > 0)
            n += Rack(depth - 1).n;
    }
    ~Rack() override {
        FUNCTION("shop::Rack::~Rack");
        LOOP("shop::Rack::~Rack");
        for (int i = 0; i < 2; i++)
            n += zero;
    }
    int look() override {
        FUNCTION("shop::Rack::look");
        return n + 1;
    }
};
struct Wide : Rack {
    Wide() : Rack(2) { FUNCTION("shop::Wide::Wide"); }
    ~Wide() override { FUNCTION("shop::Wide::~Wide"); }
};

/* An inline function's lambdas. */
inline int asks(int n) {
    auto first = [](int k) {
        FUNCTION("shop::asks(int)::{lambda(int)#1}::operator()");
        return k + 1;
    };
    auto second = [&](int k) {
        FUNCTION("shop::asks(int)::{lambda(int)#2}::operator()");
        LOOP("shop::asks(int)::{lambda(int)#2}::operator()");
        for (int i = 0; i < 2; i++)
            k += first(n);
        return k;
    };
    FUNCTION("shop::asks");
    return second(first(n));
}

} // namespace shop

/* Caught in the loop: it goes on. */
static int goes_on(int n) {
    shop::Till till;
    int caught = 0;
    FUNCTION("goes_on");
    LOOP("goes_on");
    for (int i = 0; i < n; i++) {
        try {
            till.add(i);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    return caught * 100 + till.left;
}

/* Caught outside of the two loops that it leaves, in the same function. */
static int leaves_loops(int n) {
    shop::Till till;
    int turns = 0;
    FUNCTION("leaves_loops");
    try {
        enum { OUTER = __LINE__ + 2 };
        LOOP("leaves_loops");
        for (int i = 0; i < n; i++) {
            LOOP_IN("leaves_loops", OUTER);
            for (int k = 0; k < n; k++) {
                turns++;
                till.add(3 * i + k);
            }
        }
    } catch (...) {
        turns += 1000;
    }
    LOOP("leaves_loops");
    for (int i = 0; i < 3; i++)
        turns += zero;
    return turns;
}

/* Passes through; and is thrown again. */
static int passes(int n) {
    FUNCTION("passes");
    return goes_on(n) + leaves_loops(n) + shop::Till().add(2);
}
static int rethrows(int n) {
    FUNCTION("rethrows");
    try {
        LOOP("rethrows");
        while (zero == 0)
            passes(n + zero);
    } catch (...) {
        LOOP("rethrows");
        for (int i = 0; i < 2; i++)
            n += zero;
        throw;
    }
    return 0;
}

int main() {
    unsigned long sum = 0;
    FUNCTION("main");
    LOOP("main");
    for (int i = 0; i < 50; i++) {
        try {
            sum += static_cast<unsigned>(rethrows(i % 7));
        } catch (const std::exception &e) {
            sum = 3 * sum + static_cast<unsigned>(e.what()[0] + goes_on(i) + leaves_loops(i % 5));
        }
    }
    LOOP("main");
    for (int i = 0; i < 3; i++) {
        shop::Rack *rack = new shop::Wide;
        shop::Shelf *shelf = new shop::Rack(i);
        sum += static_cast<unsigned>(shelf->look() + rack->look() + rack->read() + shop::asks(i));
        delete static_cast<shop::Sign *>(rack);
        delete shelf;
    }
    sum += static_cast<unsigned>(shop::Shelf::taken);
    std::vector<int> whole(100, 3);
    std::vector<double> parts(10, 0.5);
    sum += static_cast<unsigned>(shop::sum_of(whole)) + static_cast<unsigned>(shop::sum_of(parts));
    std::printf("result %lu\n", sum);
    count_print();
    return 0;
}
