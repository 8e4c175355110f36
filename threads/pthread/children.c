/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Processes that light threads start: they have the thread's signal mask, not that of the kernel thread that it is on, which blocks all
 * signals, so that nobody could end them.
 *
 * A child of fork sets it itself (pool.c). posix_spawn is told of it, and waits until the child has opened its files and executed its
 * program, which may take what another thread does. system and popen use posix_spawn inside the C library: their
 * thread is pinned. vfork's child shares the memory, so it would be the light thread once more, without workers: it is a fork.
 */
#include "light.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const *, char *const *);

static int spawn_as(spawn_fn *spawn, pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attr, char *const *args, char *const *env) {
    posix_spawnattr_t own;
    short flags;
    ito_call call;
    if (attr)
        own = *attr;
    else
        posix_spawnattr_init(&own);
    posix_spawnattr_getflags(&own, &flags);
    if (!(flags & POSIX_SPAWN_SETSIGMASK)) {
        posix_spawnattr_setflags(&own, (short)(flags | POSIX_SPAWN_SETSIGMASK));
        posix_spawnattr_setsigmask(&own, &light_self.mask);
    }
    ito_blocking_begin(&call, "posix_spawn");
    int r = spawn(pid, file, actions, &own, args, env);
    ito_blocking_end(&call);
    return r;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attr, char *const args[], char *const env[]) {
    return light_here() ? spawn_as(REAL(posix_spawn), pid, path, actions, attr, args, env)
                        : REAL(posix_spawn)(pid, path, actions, attr, args, env);
}
EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attr, char *const args[], char *const env[]) {
    return light_here() ? spawn_as(REAL(posix_spawnp), pid, file, actions, attr, args, env)
                        : REAL(posix_spawnp)(pid, file, actions, attr, args, env);
}

EXPORT int system(const char *command) {
    if (command)
        light_pin("system");
    return REAL(system)(command);
}
EXPORT FILE *popen(const char *command, const char *mode) {
    light_pin("popen");
    return REAL(popen)(command, mode);
}

/* It returns twice, so vfork (arch/) goes on to the function that this one says with nothing of its own on the stack. */
void *light_vfork(void) __attribute__((used));
void *light_vfork(void) {
    return light_here() ? (void *)(uintptr_t)&fork : (void *)(uintptr_t)REAL(vfork);
}
ARCH_VFORK(light_vfork)
