#!/usr/bin/env python3
"""answers.py DIR: what babeltrace2 reads in a CTF trace, as JSON on stdout.

Stamps are ns since 1970 as babeltrace2 computes them. Kernel traces: each thread's time on CPUs, switches, migrations
and wake-ups, from the events alone, by code that shares nothing with Kasuri's. Other traces: every event with its
thread and its fields; names of structures' members are joined with dots, arrays are text, enumerations their label
where they have exactly one, hidden lengths of sequences are left out.
"""
import collections
import json
import sys

import bt2


def text(field):
    """A field as an array element."""
    flat = {}
    walk("", field, flat)
    return ", ".join(str(v) for v in flat.values())


def walk(name, field, out):
    kind = type(field).__name__
    if "Structure" in kind:
        for member in field:
            walk(f"{name}.{member}" if name else member, field[member], out)
    elif "Variant" in kind:
        option = field.cls.option_at_index(field.selected_option_index).name
        walk(f"{name}.{option}" if option else name, field.selected_option, out)
    elif "Option" in kind:
        if field.has_field:
            walk(name, field.field, out)
    elif "Blob" in kind:
        out[name] = bytes(field.data).hex()
    elif "Array" in kind and "Bit" not in kind:
        elements = [f for f in field]
        if elements and "Structure" in type(elements[0]).__name__:
            for member in elements[0]:
                out[f"{name}.{member}"] = "[" + ", ".join(text(e[member]) for e in elements) + "]"
        else:
            out[name] = "[" + ", ".join(text(e) for e in elements) + "]" if elements else None
    elif "Enumeration" in kind:
        labels = list(field.labels)
        out[name] = labels[0] if len(labels) == 1 else int(field)
    elif "Real" in kind:
        out[name] = float(field)
    elif "String" in kind:
        out[name] = str(field)
    elif "BitArray" in kind:
        out[name] = int(field.value_as_integer)
    elif "Bool" in kind:
        out[name] = int(bool(field))
    else:
        out[name] = int(field)


def without_lengths(fields):
    return {
        n: v
        for n, v in fields.items()
        if v is not None
        and not (n.endswith("_length") and n.startswith("_") and n[1 : -len("_length")] in fields)
    }


class Kernel:
    """Threads on CPUs, from sched_switch alone."""

    def __init__(self):
        self.on = {}  # CPU: (tid, since)
        self.first = {}
        self.cpu_ns = collections.Counter()
        self.ins = collections.Counter()
        self.outs = collections.Counter()
        self.preempted = collections.Counter()
        self.moves = []
        self.woken = {}
        self.wakeups = []
        self.known = {}

    def event(self, time, cpu, name, f):
        if name == "sched_switch":
            prev, nxt = f["prev_tid"], f["next_tid"]
            tid, since = self.on.get(cpu, (prev, None))
            assert tid == prev, "the trace contradicts itself"
            if since is None:
                self.first[cpu] = (prev, time)
            else:
                self.cpu_ns[prev] += time - since
            self.on[cpu] = (nxt, time)
            self.outs[prev] += 1
            self.ins[nxt] += 1
            if f["prev_state"] in (0, 0x100):
                self.preempted[prev] += 1
            if nxt in self.woken:
                row = self.woken.pop(nxt)
                self.wakeups[row][2] = time - self.wakeups[row][0]
        elif name in ("sched_waking", "sched_wakeup_new"):
            tid = f["tid"]
            running = any(t == tid for t, _ in self.on.values())
            self.woken[tid] = len(self.wakeups)
            self.wakeups.append([time, tid, 0 if running else -1])
        elif name == "sched_migrate_task":
            self.moves.append([time, f["tid"], f["orig_cpu"], f["dest_cpu"]])
        elif name == "lttng_statedump_process_state":
            self.known[f["tid"]] = [f["pid"], f["ppid"], f["name"]]

    def answers(self, begin, end):
        for tid, time in self.first.values():
            self.cpu_ns[tid] += time - begin
        for tid, since in self.on.values():
            if since is not None:
                self.cpu_ns[tid] += end - since
        threads = sorted(set(self.cpu_ns) | set(self.ins) | set(self.outs))
        table = {
            str(t): {
                "on_cpu_ns": self.cpu_ns[t],
                "switches_in": self.ins[t],
                "switches_out": self.outs[t],
                "preemptions": self.preempted[t],
            }
            for t in threads
            if t != 0
        }
        return {"threads": table, "migrations": self.moves, "wakeups": self.wakeups, "known": self.known}


def main():
    events, by_name, user = 0, collections.Counter(), []
    kernel, begin, end = Kernel(), None, None
    discarded, discarded_packets = 0, 0
    for m in bt2.TraceCollectionMessageIterator(sys.argv[1]):
        kind = type(m).__name__
        if "DiscardedEvents" in kind:
            discarded += m.count or 0
        if "DiscardedPackets" in kind:
            discarded_packets += m.count or 0
        if "EventMessage" not in kind:
            continue
        e = m.event
        events += 1
        by_name[e.name] += 1
        time = m.default_clock_snapshot.ns_from_origin if hasattr(m, "default_clock_snapshot") else 0
        begin, end = min(time, begin or time), max(time, end or time)
        fields = {}
        if e.payload_field is not None:
            walk("", e.payload_field, fields)
        is_kernel = e.stream.trace.environment.get("domain") == "kernel"
        if is_kernel:
            cpu = int(e.packet.context_field["cpu_id"])
            kernel.event(time, cpu, e.name, fields)
            continue
        context = {}
        for part in (e.common_context_field, e.specific_context_field):
            if part is not None:
                walk("", part, context)
        ids = [context.pop(name, None) for name in ("vtid", "vpid", "procname")]
        fields = {**context, **without_lengths(fields)}
        user.append([time, e.name, ids[0], ids[1], fields])
    out = {
        "tool": f"babeltrace2 {bt2.__version__}",
        "events": events,
        "by_name": dict(sorted(by_name.items())),
        "discarded_events": discarded,
        "discarded_packets": discarded_packets,
    }
    # Of the events: packets may begin before their first and end long after their last.
    if end:
        out["span"] = [begin, end]
    if kernel.ins:
        out["kernel"] = kernel.answers(*out["span"])
    if user:
        out["user"] = user
    print(json.dumps(out, separators=(",", ":")))


main()
