"""What perf says of a perf.data file, as JSON: the expectation that crates/import/tests/perf_data.rs compares with.

All numbers are taken from `perf script --ns`, event by event, and worked out here without any of Kasuri's code:

- occupancy: [cpu, ns, tid] for each change of who is on a CPU, tid 0: idle, -1: somebody left, who came is told later;
- wakeups: [ns, waker tid, wakee tid, latency ns to its next switch-in; none: did not come on again];
- migrations: [ns, tid, from, to];
- threads: tid -> [switches in, switches out, ns on a CPU in slices whose both ends were seen];
- timehist: [us, cpu, tid, delay us, run us] as `perf sched timehist` prints them, cut to us, not rounded. It prints a row
  when a thread leaves a CPU, and works out the rest from what it saw before: the first slice of a thread whose coming
  on was not recorded has run time 0, a slice that did not end before the recording did has no row, and a slice that
  ended by a switch it did not see is missing. It forgets a wake-up that comes while its thread is on the way to sleep but
  still on the CPU, and shows no delay then. It has lost the name of a thread that ended (":-1"), and its delay. `timehist_first` counts the rows of the first kind: those with run time 0.
"""
import json
import re
import subprocess
import sys

LINE = re.compile(r"^\s*(?P<tid>-?\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<s>\d+)\.(?P<ns>\d{9}):\s+(?P<event>\S+?):?(?:\s(?P<rest>.*))?$")
SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) prev_prio=\S+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) next_prio=")
WAKING = re.compile(r"comm=(.*) pid=(\d+) prio=\d+ target_cpu=(\d+)")
MIGRATE = re.compile(r"comm=(.*) pid=(\d+) prio=\d+ orig_cpu=(\d+) dest_cpu=(\d+)")


def run(*command):
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    return out.stdout.decode("utf-8", "replace")


def lines(path):
    fields = ["-F", "tid,cpu,time,event,trace", "--ns", "--show-switch-events", "--show-task-events"]
    for line in run("perf", "script", "-i", path, *fields).splitlines():
        match = LINE.match(line)
        if match:
            stamp = int(match["s"]) * 1_000_000_000 + int(match["ns"])
            yield int(match["tid"]), int(match["cpu"]), stamp, match["event"], match["rest"] or ""


def expect(path):
    occupancy, wakeups, migrations, counts = [], [], [], {}
    events = list(lines(path))
    by_tracepoint = any(e[3] == "sched:sched_switch" for e in events)
    # Of a program only: sched_switch says when its threads leave, and only records say when they come.
    by_record = any(e[3] == "PERF_RECORD_SWITCH" for e in events)
    kinds = {}
    for _, _, _, event, _ in events:
        kinds[event] = kinds.get(event, 0) + 1
    has_waking = "sched:sched_waking" in kinds
    on, since, comms = {}, {}, {}

    def count(tid):
        return counts.setdefault(tid, [0, 0, 0])

    for tid, cpu, stamp, event, rest in events:
        switch = None
        if event == "sched:sched_switch":
            match = SWITCH.search(rest)
            comms[match[2]], comms[match[5]] = match[1], match[4]
            switch = int(match[2]), int(match[5])
            if by_record:
                switch = switch[0], -1
        elif event.startswith("PERF_RECORD_SWITCH") and (by_record or not by_tracepoint):
            is_out = rest.strip().startswith("OUT")
            if is_out and by_tracepoint:
                continue
            # perf has no name for a thread that has ended: -1.
            switch = (tid if tid >= 0 else on.get(cpu, -1), -1) if is_out else (-1, tid)
        if switch:
            left, came = switch
            if left > 0:
                count(left)[1] += 1
                if on.get(cpu) == left and cpu in since:
                    count(left)[2] += stamp - since[cpu]
            if came > 0:
                count(came)[0] += 1
            on[cpu], since[cpu] = came, stamp
            occupancy.append([cpu, stamp, came])
        elif event.startswith("PERF_RECORD_EXIT") and by_record:
            # No switch away follows.
            ended = int(re.search(r"\(\d+:(\d+)\):", event)[1])
            if on.get(cpu) == ended:
                count(ended)[2] += stamp - since[cpu]
            on[cpu] = -1
            occupancy.append([cpu, stamp, -1])
        elif event in ("sched:sched_waking", "sched:sched_wakeup_new") or (event == "sched:sched_wakeup" and not has_waking):
            match = WAKING.search(rest)
            wakeups.append([stamp, tid, int(match[2]), None])
        elif event == "sched:sched_migrate_task":
            match = MIGRATE.search(rest)
            migrations.append([stamp, int(match[2]), int(match[3]), int(match[4])])
    latencies(wakeups, occupancy, events)
    out = {
        "perf": run("perf", "--version").strip(),
        "events": kinds,
        "occupancy": occupancy,
        "wakeups": wakeups,
        "migrations": migrations,
        "threads": counts,
        "comms": comms,
    }
    if by_tracepoint and path.endswith("sched.data"):
        timehist(path, out)
    return out


def latencies(wakeups, occupancy, events):
    """To the wakee's next switch-in; none when it was seen on a CPU before that, or woken again: a switch is not in the file then."""
    came, seen = {}, {}
    for _, stamp, tid in sorted(occupancy, key=lambda o: o[1]):
        came.setdefault(tid, []).append(stamp)
    for tid, _, stamp, _, _ in events:
        seen.setdefault(tid, []).append(stamp)
    for stamp, _, tid, _ in wakeups:
        seen.setdefault(tid, []).append(stamp)
    for stamps in seen.values():
        stamps.sort()
    for wakeup in wakeups:
        later = [stamp for stamp in came.get(wakeup[2], []) if stamp > wakeup[0]]
        ran = [stamp for stamp in seen.get(wakeup[2], []) if stamp > wakeup[0]]
        if later and not (ran and ran[0] < later[0]):
            wakeup[3] = later[0] - wakeup[0]


def timehist(path, out):
    rows = []
    row = re.compile(r"^\s*(\d+)\.(\d{6}) \[(\d+)\]\s+(.*?)\s+(\d+)\.(\d{3})\s+(\d+)\.(\d{3})\s+(\d+)\.(\d{3})\s*$")
    for line in run("perf", "sched", "timehist", "-i", path).splitlines():
        match = row.match(line)
        if not match or match[4] == "<idle>":
            continue
        # "name[tid/pid]", "name[tid]", ":tid" of a thread without a name, or a name alone.
        tid = re.search(r"(?:\[|^:)(\d+)(?:/\d+)?\]?$", match[4])
        tid = int(tid[1]) if tid else None
        us = int(match[1]) * 1_000_000 + int(match[2])
        delay = int(match[7]) * 1000 + int(match[8])
        ran = int(match[9]) * 1000 + int(match[10])
        rows.append([us, int(match[3]), tid, delay, ran])
    out["timehist"] = rows
    out["timehist_first"] = sum(row[4] == 0 for row in rows)


if __name__ == "__main__":
    json.dump(expect(sys.argv[1]), sys.stdout, separators=(",", ":"))
    print()
