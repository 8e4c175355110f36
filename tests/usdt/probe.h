/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A probe as <sys/sdt.h> of SystemTap writes it, with up to two arguments and a semaphore: so that no test needs that package.
 * PROBE(provider, name, semaphore, format, a, b): the semaphore is a variable made by PROBE_SEMAPHORE, or 0; the format has the
 * sizes and operands of the arguments, made of the macros below. */
#if defined __x86_64__
#define INT_A "-4@%k[a]"
#define LONG_A "-8@%q[a]"
#define ULONG_A "8@%q[a]"
#define ULONG_B "8@%q[b]"
#define SEVEN "8@$7"
#define FLOAT "8f@%%xmm0"
#else
#define INT_A "-4@%w[a]"
#define LONG_A "-8@%x[a]"
#define ULONG_A "8@%x[a]"
#define ULONG_B "8@%x[b]"
#define SEVEN "8@7"
#define FLOAT "8f@d0"
#endif
#define PROBE(provider, name, semaphore, format, A, B)                                                                 \
    __asm__ volatile("990: nop\n"                                                                                      \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                      \
                     ".balign 4\n"                                                                                     \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                                                \
                     "991: .asciz \"stapsdt\"\n"                                                                       \
                     "992: .balign 4\n"                                                                                \
                     "993: .8byte 990b, _.stapsdt.base, " #semaphore "\n"                                              \
                     ".asciz \"" #provider "\"\n"                                                                      \
                     ".asciz \"" #name "\"\n"                                                                          \
                     ".asciz \"" format "\"\n"                                                                         \
                     "994: .balign 4\n"                                                                                \
                     ".popsection\n"                                                                                   \
                     ".ifndef _.stapsdt.base\n"                                                                        \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                           \
                     ".weak _.stapsdt.base\n"                                                                          \
                     ".hidden _.stapsdt.base\n"                                                                        \
                     "_.stapsdt.base: .space 1\n"                                                                      \
                     ".size _.stapsdt.base, 1\n"                                                                       \
                     ".popsection\n"                                                                                   \
                     ".endif\n" ::[a] "r"(A),                                                                          \
                     [b] "r"(B)                                                                                        \
                     : "memory")
#define PROBE_SEMAPHORE(name)                                                                                          \
    __attribute__((section(".probes"), visibility("hidden"), used)) volatile unsigned short name
