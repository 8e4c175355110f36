/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A hundred short slices, then one that ends when the file y.kasuri is there: kasuri record --flight --on-slice saves it. */
#include <kasuri.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 100; i++) {
        KASURI_BEGIN("quick");
        usleep(1000);
        KASURI_END();
    }
    KASURI_BEGIN("slow");
    KASURI_BEGIN("inner");
    while (access("y.kasuri", F_OK)) {
        usleep(1000);
    }
    KASURI_END();
    KASURI_END();
    return 0;
}
