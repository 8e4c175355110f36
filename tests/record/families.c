/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * families KIND - a program that does not stay one process. Each process that annotates emits ten instants.
 *   fork: two children that annotate, waited for        exec: annotates, then becomes "true"
 *   again: annotates, becomes itself once, annotates     daemon: annotates, leaves a daemon behind that annotates
 *   leave: drops root, then annotates                    early: annotates, then drops root and annotates
 */
#define _GNU_SOURCE
#include <grp.h>
#include <kasuri.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void ten(void) {
    for (int i = 0; i < 10; i++)
        KASURI_INSTANT("tick");
}

static int leave(void) {
    return setgroups(0, 0) || setgid(65534) || setuid(65534) || getuid() != 65534;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    if (!strcmp(kind, "leave"))
        return leave() ? 1 : (ten(), 0);
    ten();
    if (!strcmp(kind, "fork")) {
        for (int i = 0; i < 2; i++)
            if (fork() == 0) {
                ten();
                _exit(0);
            }
        while (wait(0) > 0)
            ;
    } else if (!strcmp(kind, "exec")) {
        execlp("true", "true", (char *)0);
        return 1;
    } else if (!strcmp(kind, "again")) {
        execl("/proc/self/exe", argv[0], "once", (char *)0);
        return 1;
    } else if (!strcmp(kind, "daemon")) {
        if (daemon(0, 0))
            return 1;
        ten();
        sleep(1);
        ten();
    } else if (!strcmp(kind, "early")) {
        if (leave())
            return 1;
        ten();
    }
    return 0;
}
