/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "every_macro.h"

int main(void) {
    every_macro();
    return 0;
}
