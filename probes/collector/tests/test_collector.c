/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs a program of program.c, which is this program executed again, under a small recorder, and compares the events
 * with those expected. `test_collector NAME`. */
#define _GNU_SOURCE
#include "expect.h"
#include "program.h"
#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct event {
    struct reader_event e;
    uint64_t a;
    char text[64];
    size_t order;
};
static struct event events[20000];
static size_t n_events;

static void on_event(void *context, const struct reader_event *e) {
    (void)context;
    if (n_events == sizeof events / sizeof *events)
        exit(3);
    struct event *kept = &events[n_events];
    *kept = (struct event){.e = *e, .a = e->slots > 1 ? e->payload[0] : 0, .order = n_events};
    size_t bytes = (e->slots - 1) * (size_t)16;
    if (e->slots > 1)
        memcpy(kept->text, e->payload, bytes < sizeof kept->text ? bytes : sizeof kept->text - 1);
    n_events++;
}

static int by_stamp(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->e.stamp != y->e.stamp)
        return x->e.stamp < y->e.stamp ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static const char *name_of_site(struct reader *r, const struct event *e) {
    const char *name = e->e.site ? reader_site(r, e->e.pid, e->e.gen, e->e.site) : 0;
    return name ? name : "";
}

static double as_double(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* The number of a flow in the order of their beginnings: ids themselves are hashes. */
static size_t number_of(uint64_t flow) {
    size_t n = 0;
    for (size_t i = 0; i < n_events; i++) {
        n += events[i].e.kind == KASURI_EV_FLOW_OUT;
        if (events[i].e.kind == KASURI_EV_FLOW_OUT && events[i].a == flow)
            return n;
    }
    return 0;
}

static void write_event(char *to, size_t room, struct reader *r, const struct event *e) {
    const char *name = name_of_site(r, e);
    char value[80] = "";
    int length = (int)e->e.aux; /* of a text */
    switch (e->e.kind) {
    case KASURI_EV_BEGIN:
        snprintf(to, room, "BEGIN %s|", name);
        break;
    case KASURI_EV_END:
        snprintf(to, room, "END|");
        break;
    case KASURI_EV_INSTANT:
        snprintf(to, room, "INSTANT %s|", name);
        break;
    case KASURI_EV_COUNTER:
        snprintf(to, room, "COUNTER %s %g|", name, as_double(e->a));
        break;
    case KASURI_EV_LOCK_REQUEST:
        snprintf(to, room, "REQUEST %s|", name);
        break;
    case KASURI_EV_LOCK_ACQUIRED:
        snprintf(to, room, "ACQUIRED %s|", name);
        break;
    case KASURI_EV_LOCK_RELEASED:
        snprintf(to, room, "RELEASED %s|", name);
        break;
    case KASURI_EV_LOCK_GIVEN_UP:
        snprintf(to, room, "GIVEN_UP %s|", name);
        break;
    case KASURI_EV_WAIT_BEGIN:
        snprintf(to, room, "WAIT %s %u|", name, e->e.aux);
        break;
    case KASURI_EV_WAIT_END:
        snprintf(to, room, "WAITED %s %u|", name, e->e.aux);
        break;
    case KASURI_EV_FLOW_OUT:
        snprintf(to, room, "OUT %s %zu|", name, number_of(e->a));
        break;
    case KASURI_EV_FLOW_IN:
        snprintf(to, room, "IN %zu|", number_of(e->a));
        break;
    case KASURI_EV_THREAD_NAME:
        snprintf(to, room, "NAME %.*s|", length, e->text);
        break;
    case KASURI_EV_ARG:
        if (e->e.aux == KASURI_ARG_U64)
            snprintf(value, sizeof value, "u%llu", (unsigned long long)e->a);
        else if (e->e.aux == KASURI_ARG_I64)
            snprintf(value, sizeof value, "i%lld", (long long)e->a);
        else if (e->e.aux == KASURI_ARG_F64)
            snprintf(value, sizeof value, "f%g", as_double(e->a));
        else
            snprintf(value, sizeof value, "%s", e->text);
        snprintf(to, room, "ARG %s %s|", name, value);
        break;
    default:
        snprintf(to, room, "KIND %u %s|", e->e.kind, name);
        break;
    }
}

static size_t count(uint32_t kind) {
    size_t n = 0;
    for (size_t i = 0; i < n_events; i++)
        n += events[i].e.kind == kind;
    return n;
}

static size_t count_named(struct reader *r, const char *name) {
    size_t n = 0;
    for (size_t i = 0; i < n_events; i++)
        n += !strcmp(name_of_site(r, &events[i]), name);
    return n;
}

/* Whether each thread's requests and waits end before its next ones, as the same that they began as. */
static int is_asked_in_turn(void) {
    struct asked {
        uint32_t tid, by;
        uint64_t object;
    } all[8] = {{0}};
    for (size_t i = 0; i < n_events; i++) {
        const struct event *e = &events[i];
        struct asked *own = all;
        while (own->tid && own->tid != e->e.tid)
            if (++own == all + 8)
                return 0;
        own->tid = e->e.tid;
        switch (e->e.kind) {
        case KASURI_EV_LOCK_REQUEST:
        case KASURI_EV_WAIT_BEGIN:
            if (own->by || !e->a)
                return 0;
            own->by = e->e.kind, own->object = e->a;
            break;
        case KASURI_EV_LOCK_ACQUIRED:
        case KASURI_EV_LOCK_GIVEN_UP:
        case KASURI_EV_WAIT_END:
            if (own->object != e->a ||
                own->by != (e->e.kind == KASURI_EV_WAIT_END ? KASURI_EV_WAIT_BEGIN : KASURI_EV_LOCK_REQUEST))
                return 0;
            own->by = 0, own->object = 0;
            break;
        default:
            break;
        }
    }
    return 1;
}

/* What is not told by a text of all events. */
static void check_counts(struct reader *r, const char *name) {
    if (!strcmp(name, "itt_handles_are_one_for_each_text"))
        EXPECT(count(KASURI_EV_BEGIN) == 256 && count(KASURI_EV_END) == 256 && count(KASURI_EV_COUNTER) == 256);
    if (!strcmp(name, "deep_slices_are_left_out"))
        EXPECT(count(KASURI_EV_BEGIN) == 64 && count(KASURI_EV_END) == 64 && count(KASURI_EV_MESSAGE) == 1);
    if (!strcmp(name, "many_names_share_one")) {
        EXPECT(count(KASURI_EV_INSTANT) == 2 * 4099);
        EXPECT(count_named(r, "name 4095") == 2 && count_named(r, "name 4096") == 0);
        EXPECT(count_named(r, "(more names)") == 2 * 3);
    }
    if (!strcmp(name, "whoever_breaks_all_rules_harms_nobody"))
        EXPECT(n_events > 1000 && count(KASURI_EV_LOCK_REQUEST) > 0 && is_asked_in_turn());
    if (!strcmp(name, "without_a_recorder_nothing_happens"))
        EXPECT(n_events == 0);
}

static int test(const struct program *program) {
    int status = 0, is_recorded = strcmp(program->name, "without_a_recorder_nothing_happens") != 0;
    struct reader_options options = {0};
    struct reader *r = reader_open(&options, on_event, 0);
    if (!r)
        return 3;
    pid_t pid = fork();
    if (pid == 0) {
        if (is_recorded)
            setenv("KASURI_SESSION", reader_path(r), 1);
        execl("/proc/self/exe", "test_collector", "run", program->name, (char *)0);
        _exit(127);
    }
    while (waitpid(pid, &status, WNOHANG) != pid) {
        reader_poll(r);
        usleep(500);
    }
    reader_finish(r);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* An argument of a megabyte is counted as lost. */
    EXPECT(reader_totals(r)->lost == 0 || !strcmp(program->name, "whoever_breaks_all_rules_harms_nobody"));
    qsort(events, n_events, sizeof *events, by_stamp);
    static char all[1 << 16];
    for (size_t i = 0; program->expected && i < n_events; i++)
        if (events[i].e.tid == (uint32_t)pid)
            write_event(all + strlen(all), sizeof all - strlen(all), r, &events[i]);
    if (program->expected && strcmp(all, program->expected)) {
        fprintf(stderr, "expected %s\nfound    %s\n", program->expected, all);
        failed = 1;
    }
    check_counts(r, program->name);
    reader_close(r);
    return failed;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[argc - 1] : "";
    for (unsigned i = 0; i < n_programs; i++) {
        if (argc == 1)
            puts(programs[i].name);
        else if (!strcmp(programs[i].name, name))
            return argc == 3 ? programs[i].run() : test(&programs[i]);
    }
    return argc == 1 ? 0 : 2;
}
