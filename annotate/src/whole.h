/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kasuri.h - annotate a program, see it on Kasuri's timeline.
 *
 * This one header is the whole client: include it, compile, run the program under `kasuri record`.
 * No library to link, nothing to initialise. Without a recorder an annotation is one load and one
 * predictable branch.
 *
 * annotate/amalgamate makes this file from the files of annotate/src in Kasuri's repository; change it there.
 */
#ifndef KASURI_H
#define KASURI_H

#include <stdint.h>

#include "abi.h"

/* ------------------------------------------------------------------------------------------------
 * Part 2: the API. Guide with examples: docs/guide/annotate.md.
 *
 * All macros below: any thread, also in signal handlers (KASURI_MESSAGE as far as vsnprintf is), never
 * block, never allocate, keep errno. A name or key is a string literal and names one call site. Other
 * arguments are evaluated only while a recorder listens. Objects are pointers or integers, ids uint64_t.
 * Before the #include one may define
 *   KASURI_DISABLE        annotations compile to nothing
 *   KASURI_DECLARE_ONLY   leave the slow path out of this file; some other file of the same module has it
 *   KASURI_TLS_MODEL      thread-local storage model, default "initial-exec" (musl plugins: "global-dynamic")
 *   KASURI_LAZY_START     do not attach when the module is loaded; it calls kasuri__start() itself
 * ---------------------------------------------------------------------------------------------- */

/* Elsewhere an annotated program still compiles, and runs as if not annotated: other systems and compilers, and registers of
 * 64 bits under addresses of 32 (x32), or system calls of 64-bit time alone (riscv32). */
#if !defined(KASURI_DISABLE) &&                                                                                        \
    (!defined(__linux__) || !defined(__GNUC__) ||                                                                      \
     (UINTPTR_MAX <= 0xffffffffu && (defined(__x86_64__) || defined(__riscv) || defined(__aarch64__))))
#define KASURI_DISABLE 1
#endif

#ifndef KASURI_DISABLE

#include "cpu.h"

#include "emit.h"

#include "api.h"

/* ------------------------------------------------------------------------------------------------
 * Part 3: the slow path. About once in 2,000 events; also all attaching, forking and failing.
 * docs/design/ring.md has the states, the races and the proof. Rules that hold for all of it:
 *   - it runs with all signals blocked, so that it never nests in itself;
 *   - system calls only, by their numbers: no libc, no errno, no locks of others, no allocation;
 *   - no file stays open: a program that closes "all" descriptors and reuses their numbers must not
 *     find our bytes in its files;
 *   - a wait is bounded; whatever fails, the event is dropped and counted.
 * ---------------------------------------------------------------------------------------------- */
#ifndef KASURI_DECLARE_ONLY

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "client.h"

#include "sys.h"

#include "chunks.h"

#include "sites.h"

#include "session.h"

#include "events.h"

#include "module.h"

#ifdef __cplusplus
}
#endif
#endif /* KASURI_DECLARE_ONLY */

#else
/* With KASURI_DISABLE. */

#include "disabled.h"
#endif /* KASURI_DISABLE */

#endif /* KASURI_H */
