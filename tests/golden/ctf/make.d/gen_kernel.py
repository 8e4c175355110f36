#!/usr/bin/env python3
"""gen_kernel.py OUT [be] [large] [natural] [tid]: a kernel trace as lttng-modules 2.13 writes it, of a simulated machine.

This repository's machines have no LTTng kernel modules, so metadata and streams are written here by hand, event by event,
with LTTng's names, fields and framing: compact or large heads whose stamps wrap, sub-buffers of one page or more, a
second channel, system calls, interrupts, discarded events, the dump of running processes. be: big-endian; natural: fields
aligned as such machines' compilers do; tid: a context with the running thread's id.
"""
import os
import random
import struct
import sys
import uuid

FLAGS = set(sys.argv[2:])
BE, LARGE, NATURAL, TID = ("be" in FLAGS), ("large" in FLAGS), ("natural" in FLAGS), ("tid" in FLAGS)
OUT = sys.argv[1]
UUID = uuid.UUID("2a6422d0-6cee-11e0-8c08-cb07d7b3a564")
OFFSET = 1_700_000_000_123_456_789
START = 5_000_000_000_000
N_CPUS = 2
rng = random.Random(5)


def align(bits):
    return bits if NATURAL else 8


def ty(bits, signed, encoding="none", order=""):
    return (f"integer {{ size = {bits}; align = {align(bits)}; signed = {int(signed)}; "
            f"encoding = {encoding}; base = 10; {order}}}")


I8T, U32, I32, I64, U64 = "text", (32, 0), (32, 1), (64, 1), (64, 0)
EVENTS = {
    0: {
        "sched_switch": [("prev_comm", 16), ("prev_tid", I32), ("prev_prio", I32), ("prev_state", I64),
                         ("next_comm", 16), ("next_tid", I32), ("next_prio", I32)],
        "sched_waking": [("comm", 16), ("tid", I32), ("prio", I32), ("target_cpu", I32)],
        "sched_wakeup": [("comm", 16), ("tid", I32), ("prio", I32), ("target_cpu", I32)],
        "sched_wakeup_new": [("comm", 16), ("tid", I32), ("prio", I32), ("target_cpu", I32)],
        "sched_migrate_task": [("comm", 16), ("tid", I32), ("prio", I32), ("orig_cpu", I32), ("dest_cpu", I32)],
        "sched_process_fork": [("parent_comm", 16), ("parent_tid", I32), ("parent_pid", I32), ("parent_ns_inum", U32),
                               ("child_comm", 16), ("child_tid", I32), ("vtids", "seq"), ("child_pid", I32),
                               ("child_ns_inum", U32)],
        "sched_process_exec": [("filename", "str"), ("tid", I32), ("old_tid", I32)],
        "sched_process_exit": [("comm", 16), ("tid", I32), ("prio", I32)],
        "sched_process_free": [("comm", 16), ("tid", I32), ("prio", I32)],
        "irq_handler_entry": [("irq", I32), ("name", "str")],
        "irq_handler_exit": [("irq", I32), ("ret", I32)],
        "irq_softirq_raise": [("vec", U32)],
        "irq_softirq_entry": [("vec", U32)],
        "irq_softirq_exit": [("vec", U32)],
        "lttng_statedump_start": [],
        "lttng_statedump_process_state": [("tid", I32), ("pid", I32), ("ppid", I32), ("name", 16), ("type", I32),
                                          ("status", I32), ("cpu", U32)],
        "lttng_statedump_end": [],
    },
    1: {
        "syscall_entry_openat": [("dfd", I32), ("filename", "str"), ("flags", I32), ("mode", U32)],
        "syscall_exit_openat": [("ret", I64)],
        "syscall_entry_futex": [("uaddr", U64), ("op", I32), ("val", U32), ("utime", U64), ("uaddr2", U64), ("val3", U32)],
        "syscall_exit_futex": [("ret", I64), ("uaddr", U64), ("uaddr2", U64)],
    },
}
# Ids beyond those that the compact head holds.
IDS = {0: {n: i if i < 14 else i + 40 for i, n in enumerate(EVENTS[0])}, 1: {n: i for i, n in enumerate(EVENTS[1])}}


def metadata():
    order = "be" if BE else "le"
    mapped = "map = clock.monotonic.value;"
    head_align = max(align(32), 8) if not LARGE else align(16)
    out = f"""/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = {align(16)}; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = {align(32)}; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = {align(64)}; signed = false; }} := uint64_t;
typealias integer {{ size = 64; align = {align(64)}; signed = false; }} := unsigned long;
typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;
typealias integer {{ size = 27; align = 1; signed = false; }} := uint27_t;

trace {{
	major = 1;
	minor = 8;
	uuid = "{UUID}";
	byte_order = {order};
	packet.header := struct {{
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	}};
}};

env {{
	hostname = "golden";
	domain = "kernel";
	sysname = "Linux";
	kernel_release = "6.1.0-18-amd64";
	kernel_version = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1";
	tracer_name = "lttng-modules";
	tracer_major = 2;
	tracer_minor = 13;
	tracer_patchlevel = 8;
	trace_name = "golden";
}};

clock {{
	name = "monotonic";
	uuid = "6e8b5cb5-2bd1-4f2c-8b6c-8c6a9e1a6cd0";
	description = "Monotonic Clock";
	freq = 1000000000; /* Frequency, in Hz */
	/* clock value offset from Epoch is: offset * (1/freq) */
	offset = {OFFSET};
}};

typealias integer {{ size = 27; align = 1; signed = false; {mapped} }} := uint27_clock_monotonic_t;
typealias integer {{ size = 32; align = {align(32)}; signed = false; {mapped} }} := uint32_clock_monotonic_t;
typealias integer {{ size = 64; align = {align(64)}; signed = false; {mapped} }} := uint64_clock_monotonic_t;

struct packet_context {{
	uint64_clock_monotonic_t timestamp_begin;
	uint64_clock_monotonic_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	unsigned long events_discarded;
	uint32_t cpu_id;
}};

struct event_header_compact {{
	enum : uint5_t {{ compact = 0 ... 30, extended = 31 }} id;
	variant <id> {{
		struct {{
			uint27_clock_monotonic_t timestamp;
		}} compact;
		struct {{
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		}} extended;
	}} v;
}} align({align(32) if NATURAL else 8});

struct event_header_large {{
	enum : uint16_t {{ compact = 0 ... 65534, extended = 65535 }} id;
	variant <id> {{
		struct {{
			uint32_clock_monotonic_t timestamp;
		}} compact;
		struct {{
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		}} extended;
	}} v;
}} align({align(16) if NATURAL else 8});
"""
    for stream in EVENTS:
        out += f"""
stream {{
	id = {stream};
	event.header := struct event_header_{"large" if LARGE else "compact"};
	packet.context := struct packet_context;
"""
        if TID:
            out += f"	event.context := struct {{\n		{ty(32, True)} _tid;\n	}};\n"
        out += "};\n"
        for name, fields in EVENTS[stream].items():
            out += f'\nevent {{\n	name = "{name}";\n	id = {IDS[stream][name]};\n	stream_id = {stream};\n	fields := struct {{\n'
            for field, kind in fields:
                if kind == "str":
                    out += f"		string _{field};\n"
                elif kind == "seq":
                    out += f"		{ty(8, False)} __{field}_length;\n		{ty(32, True)} _{field}[ __{field}_length ];\n"
                elif isinstance(kind, int):
                    out += f"		{ty(8, True, 'UTF8')} _{field}[{kind}];\n"
                else:
                    out += f"		{ty(*kind)} _{field};\n"
            out += "	};\n};\n"
    return out


def pack_metadata(text):
    """In packets of a page, as lttng-consumerd writes them."""
    e = ">" if BE else "<"
    out, data, room = b"", text.encode(), 4096 - 37
    for i in range(0, len(data), room):
        part = data[i:i + room]
        head = struct.pack(e + "I", 0x75D11D57) + UUID.bytes + struct.pack(e + "III", 0, (37 + len(part)) * 8, 4096 * 8)
        out += (head + bytes([0, 0, 0, 1, 8]) + part).ljust(4096, b"\0")
    return out


class Writer:
    """One channel of one CPU."""

    def __init__(self, stream, cpu, page):
        self.stream, self.cpu, self.page = stream, cpu, page
        self.out, self.seq, self.discarded = b"", 0, 0
        self.e = ">" if BE else "<"
        self.last = START
        self.open(START)

    def pad(self, bits):
        self.buf += b"\0" * (-len(self.buf) % (align(bits) // 8))

    def num(self, bits, value):
        self.pad(bits)
        self.buf += (value % (1 << bits)).to_bytes(bits // 8, "big" if BE else "little")

    def open(self, begin):
        self.buf, self.begin = b"", begin
        self.num(32, 0xC1FC1FC1)
        self.buf += UUID.bytes
        self.num(32, self.stream)
        self.num(64, self.cpu)
        self.pad(64)
        self.context_at = len(self.buf)
        for _ in range(6):
            self.num(64, 0)
        self.num(32, self.cpu)
        self.head_bytes = len(self.buf)

    def close(self, end):
        content = len(self.buf)
        size = -(-content // self.page) * self.page
        values = (self.begin, end, content * 8, size * 8, self.seq, self.discarded)
        context = struct.pack(self.e + "6Q", *values)
        at = self.context_at
        self.out += (self.buf[:at] + context + self.buf[at + 48:]).ljust(size, b"\0")
        self.seq += 1

    def event(self, time, name, values, tid):
        event_id = IDS[self.stream][name]
        start = self.buf
        self.head(event_id, time)
        if TID:
            self.num(32, tid)
        # An empty structure has no alignment; others that of their largest member.
        fields = EVENTS[self.stream][name]
        widths = [8 if k == "str" or isinstance(k, int) else 32 if k == "seq" else k[0] for _, k in fields]
        if widths:
            self.pad(max(widths))
        for (_, kind), value in zip(fields, values):
            if kind == "str":
                self.buf += value.encode() + b"\0"
            elif kind == "seq":
                self.num(8, len(value))
                # A sequence is aligned as its elements are, also when it has none.
                self.pad(32)
                for v in value:
                    self.num(32, v)
            elif isinstance(kind, int):
                self.buf += value.encode().ljust(kind, b"\0")
            else:
                self.num(kind[0], value)
        if len(self.buf) > self.page and len(start) > self.head_bytes:
            self.buf = start
            self.close(self.last)
            self.open(time)
            self.last = time
            return self.event(time, name, values, tid)
        self.last = time

    def head(self, event_id, time):
        far = (time - self.last) >> (32 if LARGE else 27)
        if LARGE:
            self.pad(16)
            # The structure's alignment is that of its largest member where fields are aligned.
            if event_id < 65535 and not far:
                self.num(16, event_id)
                self.num(32, time)
            else:
                self.num(16, 65535)
                self.pad(64)
                self.num(32, event_id)
                self.num(64, time)
            return
        self.pad(32)
        if event_id < 31 and not far:
            low = time & ((1 << 27) - 1)
            word = event_id << 27 | low if BE else low << 5 | event_id
            self.buf += struct.pack(self.e + "I", word)
        else:
            self.buf += bytes([31 << 3 if BE else 31])
            self.pad(64)
            self.num(32, event_id)
            self.num(64, time)


class Machine:
    """Threads that run, sleep, wake each other, move and end; every step is an event."""

    def __init__(self):
        self.now = START
        self.w = {(s, c): Writer(s, c, 4096) for s in EVENTS for c in range(N_CPUS)}
        self.run = [0] * N_CPUS
        self.comm = {0: "swapper", 100: "app", 101: "app", 102: "worker", 103: "worker", 7: "kthread"}
        self.pid = {0: 0, 100: 100, 101: 100, 102: 102, 103: 102, 7: 7}
        self.ready = [[100], [102]]
        self.asleep = [101, 103, 7]
        self.in_call = {}

    def at(self, least=50, most=40_000):
        self.now += rng.randint(least, most)
        return self.now

    def put(self, cpu, name, *values, stream=0):
        self.w[stream, cpu].event(self.at(), name, values, self.run[cpu])

    def name(self, tid, cpu):
        return f"swapper/{cpu}" if tid == 0 else self.comm[tid]

    def switch(self, cpu, state):
        prev = self.run[cpu]
        nxt = self.ready[cpu].pop(0) if self.ready[cpu] else 0
        if prev == nxt:
            return
        if prev and state in (0, 0x100):
            self.ready[cpu].append(prev)
        elif prev and state in (1, 2):
            self.asleep.append(prev)
        # The context is that of the one that leaves.
        self.put(cpu, "sched_switch", self.name(prev, cpu), prev, 20, state if prev else 0,
                 self.name(nxt, cpu), nxt, 20)
        self.run[cpu] = nxt

    def wake(self, cpu, interrupt):
        if not self.asleep:
            return
        tid = self.asleep.pop(rng.randrange(len(self.asleep)))
        if interrupt:
            self.put(cpu, "irq_handler_entry", 24, "virtio1-req.0")
        home = rng.randrange(N_CPUS)
        self.put(cpu, "sched_waking", self.comm[tid], tid, 20, home)
        if rng.random() < 0.4:
            to = 1 - home
            self.put(cpu, "sched_migrate_task", self.comm[tid], tid, 20, home, to)
            home = to
        self.put(cpu, "sched_wakeup", self.comm[tid], tid, 20, home)
        self.ready[home].append(tid)
        if interrupt:
            self.put(cpu, "irq_handler_exit", 24, 1)
            self.put(cpu, "irq_softirq_raise", 4)
            self.put(cpu, "irq_softirq_entry", 4)
            self.put(cpu, "irq_softirq_exit", 4)

    def fork(self, cpu):
        parent, child = self.run[cpu], max(self.comm) + 1
        same = rng.random() < 0.5
        self.comm[child] = self.comm[parent]
        self.pid[child] = self.pid[parent] if same else child
        self.put(cpu, "sched_process_fork", self.comm[parent], parent, self.pid[parent], 4026531836, self.comm[child],
                 child, [child] if rng.random() < 0.7 else [], self.pid[child], 4026531836)
        self.put(cpu, "sched_wakeup_new", self.comm[child], child, 20, cpu)
        self.ready[cpu].append(child)
        if not same:
            self.put(cpu, "sched_process_exec", "/bin/true", parent, parent)

    def leave(self, cpu):
        tid = self.run[cpu]
        self.put(cpu, "sched_process_exit", self.comm[tid], tid, 20)
        self.switch(cpu, 0x10)
        self.put(cpu, "sched_process_free", self.comm[tid], tid, 20)

    def step(self):
        cpu = rng.randrange(N_CPUS)
        tid, dice = self.run[cpu], rng.random()
        if dice < 0.02:
            # Longer than the compact head's stamps reach.
            self.now += rng.choice([130_000_000, 140_000_000, 5_000_000_000])
        if tid == 0:
            self.wake(cpu, True) if dice < 0.5 else self.switch(cpu, 0)
        elif dice < 0.25:
            self.wake(cpu, dice < 0.1)
        elif dice < 0.45:
            self.switch(cpu, 0x100) if self.ready[cpu] else None
        elif dice < 0.7:
            self.switch(cpu, rng.choice([1, 1, 2]))
        elif dice < 0.75 and tid > 100 and len(self.comm) < 40:
            self.fork(cpu)
        elif dice < 0.77 and tid > 103:
            self.leave(cpu)
        elif dice < 0.88:
            self.put(cpu, "syscall_entry_openat", -100, "/etc/hosts", 0, 0, stream=1)
            self.put(cpu, "syscall_exit_openat", 3, stream=1)
        else:
            self.put(cpu, "syscall_entry_futex", 0x7F0000001000, 128, 0, 0, 0, 0, stream=1)
            self.put(cpu, "syscall_exit_futex", 0, 0x7F0000001000, 0, stream=1)

    def go(self, steps):
        self.put(0, "lttng_statedump_start")
        for tid in sorted(self.comm)[1:]:
            self.put(0, "lttng_statedump_process_state", tid, self.pid[tid], 1, self.comm[tid], 0, 5, 0)
        self.put(0, "lttng_statedump_end")
        for _ in range(steps):
            self.step()
        end = self.at()
        os.makedirs(OUT, exist_ok=True)
        with open(f"{OUT}/metadata", "wb") as f:
            f.write(pack_metadata(metadata()))
        for (stream, cpu), w in self.w.items():
            w.close(end)
            with open(f"{OUT}/channel{stream}_{cpu}", "wb") as f:
                f.write(w.out)


Machine().go(400)
