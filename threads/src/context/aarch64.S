/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#if defined(__linux__) && defined(__ELF__)
        .section .note.GNU-stack, "", %progbits
#endif
