/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One of two libraries, NAME. Each is compiled by another compiler, and has its own copy of the runtime. */
#include "library.h"

#include <cstdlib>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

static volatile int zero;

/* No landing pad: it is left without a word. */
static void JOIN(NAME, _leave)(struct way *w) {
    w->count(TEXT(NAME) "_leave");
    w->count(TEXT(NAME) "_leave.loop%d", __LINE__ + 1);
    for (int i = 0; i < 2; i++) {
        if (i == 1 + zero && w->leave == THROW)
            throw 7;
        if (i == 1 + zero && w->leave == JUMP)
            longjmp(w->back, 1);
    }
}

/* Every third level catches, in its loop. */
extern "C" int step(struct way *w, int n);
extern "C" __attribute__((visibility("default"))) int step(struct way *w, int n) {
    int sum = 0;
    w->count("step");
    enum { OUTER = __LINE__ + 2 };
    w->count("step.loop%d", OUTER);
    for (int i = 0; i < 2; i++) {
        if (n == 0) {
            JOIN(NAME, _leave)(w);
        } else if (n % 3 == 2) {
            try {
                sum += w->step[n % 2](w, n - 1);
            } catch (int) {
                sum += 100;
            }
        } else {
            sum += w->step[n % 2](w, n - 1);
        }
        w->count("step.loop%d.loop%d", OUTER, __LINE__ + 1);
        for (int k = 0; k < 3; k++)
            sum += k + zero;
    }
    return sum;
}
