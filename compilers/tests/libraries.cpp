/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libraries A B: two annotated libraries that are loaded, called through each other in several threads, left by exceptions and longjmp(),
 * and unloaded, several times. Prints results, and its own counts. */
#include "count.h"
#include "library.h"

#include <dlfcn.h>

static volatile int zero;
static void *library[2];

static void load(int argc, char **argv) {
    FUNCTION("load");
    LOOP("load");
    for (int i = 0; i < 2; i++) {
        library[i] = dlopen(argv[argc - 2 + i], RTLD_NOW | RTLD_LOCAL);
        if (!library[i]) {
            fprintf(stderr, "%s\n", dlerror());
            exit(3);
        }
    }
}

static int lands(struct way *w, int n) {
    volatile int sum = 0;
    FUNCTION("lands");
    if (setjmp(w->back) == 0)
        sum = w->step[n % 2](w, n);
    LOOP("lands");
    for (int i = 0; i < 3; i++)
        sum = sum + i + zero;
    return sum;
}

static void *use(void *) {
    long sum = 0;
    struct way w = {};
    w.count = count_up;
    FUNCTION("use");
    LOOP("use");
    for (int i = 0; i < 2; i++)
        *(void **)&w.step[i] = dlsym(library[i], "step");
    enum { OUTER = __LINE__ + 2 };
    LOOP("use");
    for (int leave = 0; leave < LEAVES; leave++) {
        w.leave = (enum leave)leave;
        LOOP_IN("use", OUTER);
        for (int n = 0; n < 7; n++) {
            try {
                sum = 3 * sum % 1000003 + lands(&w, n);
            } catch (int code) {
                sum += code;
            }
        }
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    long sum = 0;
    FUNCTION("main");
    enum { OUTER = __LINE__ + 2 };
    LOOP("main");
    for (int turn = 0; turn < 5; turn++) {
        pthread_t threads[3];
        load(argc, argv);
        sum += (long)use(nullptr);
        LOOP_IN("main", OUTER);
        for (pthread_t &thread : threads)
            pthread_create(&thread, nullptr, use, nullptr);
        LOOP_IN("main", OUTER);
        for (pthread_t thread : threads) {
            void *part;
            pthread_join(thread, &part);
            sum += (long)part;
        }
        dlclose(library[0]);
        dlclose(library[1]);
    }
    printf("result %ld\n", sum);
    count_print();
    return 0;
}
