/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * test_compilers PROGRAM [PLAIN [ARGUMENT...]] - runs PROGRAM, which a plugin has annotated, under a small recorder. It
 * prints lines "count NAME N": there must be as many slices of each name, no others, each must have ended, and those of
 * loops lie in the slices that their names say. An END has its slice's name, but for one that another library began.
 * PLAIN is the same program without annotations: its results must be the same. A child of fork() may end what began in its
 * parent. KASURI_EXPECT_OPEN: so many slices are never ended, as their thread or process ends in them.
 * KASURI_EXPECT_OFF: a site of this name is switched off, and has no more slices than are needed to know that; its count
 * is not compared.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 400
static struct name {
    char text[120];
    long counted, begun;
} names[NAMES_MAX];
static struct reader *reader;
/* Begins and ends. */
static struct event {
    struct reader_event e;
    size_t order;
} * events;
static size_t n_events;
static char messages[20][160];
static int n_messages;
static uint32_t program; /* its pid */
static int has_libraries;

static struct name *name_of(const char *text) {
    for (int i = 0; i < NAMES_MAX; i++) {
        if (!names[i].text[0])
            snprintf(names[i].text, sizeof names[i].text, "%s", text);
        if (!strcmp(names[i].text, text))
            return &names[i];
    }
    exit(3);
}

static void on_event(void *context, const struct reader_event *e) {
    (void)context;
    if (e->kind == KASURI_EV_BEGIN || e->kind == KASURI_EV_END) {
        if (!(n_events & (n_events - 1)))
            events = realloc(events, (n_events ? 2 * n_events : 1) * sizeof *events);
        events[n_events] = (struct event){*e, n_events};
        n_events++;
    }
    if (e->kind == KASURI_EV_MESSAGE && n_messages < 20)
        snprintf(messages[n_messages++], sizeof messages[0], "%.*s", (int)e->aux, (const char *)e->payload);
}

/* What the program prints; null when it fails. In a session, if there is a reader. */
static char *output_of(char **arguments) {
    static char text[2][1 << 16];
    static int n;
    char *to = text[n++];
    int out[2];
    if (pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0)
        exit(3);
    pid_t pid = fork();
    program = (uint32_t)pid;
    if (pid == 0) {
        dup2(out[1], 1);
        if (reader)
            setenv("KASURI_SESSION", reader_path(reader), 1);
        execv(arguments[0], arguments);
        _exit(127);
    }
    close(out[1]);
    size_t have = 0;
    int status = 0, is_over = 0;
    while (!is_over) {
        usleep(500);
        is_over = waitpid(pid, &status, WNOHANG) == pid;
        for (ssize_t got; (got = read(out[0], to + have, sizeof text[0] - 1 - have)) > 0;)
            have += (size_t)got;
        if (reader)
            reader_poll(reader);
    }
    close(out[0]);
    to[have] = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? to : NULL;
}

/* Counts come behind the results, those of threads in any order. */
static size_t length_of_results(const char *output) {
    const char *counts = strstr(output, "count ");
    EXPECT(counts && counts > output);
    return counts ? (size_t)(counts - output) : 0;
}

static void read_counts(const char *output) {
    char copy[1 << 16], *rest = copy, *line;
    snprintf(copy, sizeof copy, "%s", output);
    while ((line = strsep(&rest, "\n")))
        if (!strncmp(line, "count ", 6)) {
            char *number = strrchr(line, ' ');
            *number = 0;
            name_of(line + 6)->counted = atol(number + 1);
        }
}

static int by_thread_and_time(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->e.tid != y->e.tid)
        return x->e.tid < y->e.tid ? -1 : 1;
    if (x->e.stamp != y->e.stamp)
        return x->e.stamp < y->e.stamp ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* A loop lies in the loop or function that its name says. */
static void check_parent(const char *name, const char *parent) {
    const char *last = strrchr(name, '.');
    if (!last || strncmp(last, ".loop", 5) != 0)
        return;
    size_t n = (size_t)(last - name);
    if (strlen(parent) != n || strncmp(name, parent, n) != 0) {
        fprintf(stderr, "%s begins in %s\n", name, parent);
        failed = 1;
    }
}

static void read_slices(int has_functions) {
    static const char *open[200] = {"(nothing)"};
    const char *left = getenv("KASURI_EXPECT_OPEN");
    int depth = 0, n_open = 0;
    uint32_t tid = 0;
    qsort(events, n_events, sizeof *events, by_thread_and_time);
    for (size_t i = 0; i < n_events; i++) {
        const struct reader_event *e = &events[i].e;
        if (e->tid != tid) {
            n_open += depth;
            depth = 0;
        }
        tid = e->tid;
        const char *name = reader_site(reader, e->pid, e->gen, e->site);
        if (e->kind == KASURI_EV_END) {
            EXPECT(depth > 0 || e->pid != program);
            EXPECT(name ? depth == 0 || !strcmp(name, open[depth]) : has_libraries);
            depth -= depth > 0;
            continue;
        }
        struct name *known = name_of(name ? name : "(no name)");
        known->begun++;
        if (has_functions)
            check_parent(known->text, open[depth]);
        if (depth < 199)
            open[++depth] = known->text;
    }
    n_open += depth;
    if (n_open != (left ? atoi(left) : 0))
        fprintf(stderr, "%d are never ended\n", n_open);
    EXPECT(n_open == (left ? atoi(left) : 0));
}

static void compare(void) {
    const char *off = getenv("KASURI_EXPECT_OFF");
    read_slices(!off);
    for (int i = 0; i < NAMES_MAX && names[i].text[0]; i++) {
        int is_off = off && !strcmp(off, names[i].text);
        if (is_off)
            EXPECT(names[i].begun < names[i].counted && names[i].begun >= 1000);
        else if (names[i].begun != names[i].counted) {
            fprintf(stderr, "%s: %ld, and %ld slices\n", names[i].text, names[i].counted, names[i].begun);
            failed = 1;
        }
    }
    int n_off = 0;
    for (int i = 0; i < n_messages; i++) {
        n_off += off && !strncmp(messages[i], off, strlen(off)) && strstr(messages[i], ": 1000 seen, then off (mean ");
        if (!off)
            fprintf(stderr, "message: %s\n", messages[i]);
    }
    EXPECT(n_messages == (off != NULL) && n_off == (off != NULL));
}

int main(int argc, char **argv) {
    char *plain = NULL;
    if (argc < 2)
        return 2;
    if (argc > 2)
        EXPECT((plain = output_of(&argv[2])) != NULL);
    struct reader_options options = {0};
    reader = reader_open(&options, on_event, NULL);
    if (!reader)
        return 3;
    char *only[] = {argv[1], NULL};
    has_libraries = argc > 3;
    if (has_libraries)
        argv[2] = argv[1];
    char *output = output_of(has_libraries ? &argv[2] : only);
    reader_finish(reader);
    EXPECT(output != NULL);
    if (output && plain)
        EXPECT(!strncmp(output, plain, length_of_results(output)));
    if (output)
        read_counts(output);
    EXPECT(reader_totals(reader)->lost == 0 && reader_totals(reader)->unnamed == 0);
    compare();
    EXPECT(n_events > 0);
    reader_close(reader);
    return failed;
}
