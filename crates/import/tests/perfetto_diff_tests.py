#!/usr/bin/env python3
"""Asks Kasuri the questions of Perfetto's own diff tests (test/trace_processor/diff_tests), and counts the equal answers.

    cargo build -p kasuri-import --example columns
    pip install protobuf; crates/import/tests/perfetto_diff_tests.py CHECKOUT [PATTERN [-v]]

CHECKOUT is a checkout of github.com/google/perfetto; `protoc` makes the traces from their texts. Of each trace the columns are written
into tables of Perfetto's names in SQLite, the query is run there, and rows are compared without regard to their order. Only tests of
the folders in FOLDERS whose trace is generated are asked. Columns that Kasuri does not have are not compared (DROP).
"""
import collections
import csv
import glob
import io
import json
import os
import re
import sqlite3
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = os.environ.get("COLUMNS_EXAMPLE", os.path.join(HERE, "../../../target/debug/examples/columns"))
NONE = 4294967295
# Of `parser`, those about what Kasuri is for.
FOLDERS = tuple(
    ["tables"]
    + [
        "parser/" + name
        for name in "track_event parsing process_tracking atrace ftrace sched json linux generic_kernel translated_args gzip zip "
        "perf_text fs ufs chrome memory".split()
    ]
)
DROP = set(
    "errors track_errors profile_errors start_ts cmdline is_kthread end_state priority track_name track_type spill_count drop_count "
    "tokenizer_failures category arg_set_id source_arg_set_id thread_ts thread_dur thread_instruction_count "
    "thread_instruction_delta id stack_id is_main_thread unit desc has_first_packet_on_sequence description machine_id track_id "
    "utid upid track uid cat type".split()
)
# Names that Perfetto leaves out where ours is that of the other kind of row.
NAMES = "process thread_process process_name pname tname thread thread_name".split()
SCHEMA = """
create table process(id,upid,pid,name,parent_upid,start_ts,end_ts,cmdline,arg_set_id);
create table thread(id,utid,tid,upid,name,start_ts,end_ts,is_main_thread,is_idle);
create table track(id,name,parent_id,source_arg_set_id,type,dimension_arg_set_id);
create table thread_track(id,utid,name,parent_id);
create table process_track(id,upid,name,parent_id);
create table slice(id,ts,dur,track_id,name,category,depth,parent_id,arg_set_id,thread_dur,thread_ts,
    thread_instruction_count,thread_instruction_delta,stack_id,slice_id);
create table args(id,arg_set_id,key,flat_key,int_value,real_value,string_value,value_type,display_value);
create table counter(id,ts,value,track_id,arg_set_id);
create table counter_track(id,name,unit,type);
create table process_counter_track(id,name,upid,unit);
create table thread_counter_track(id,name,utid);
create table cpu_counter_track(id,name,cpu);
create table flow(id,slice_out,slice_in);
create table sched_slice(id,ts,dur,cpu,utid,end_state,priority,ucpu);
create table thread_state(id,ts,dur,utid,state,cpu,waker_utid,ucpu,io_wait,blocked_function,irq_context);
create table instant(ts,name,utid);
create table cpu(id,cpu);
create table ftrace_event(id,ts,name,cpu,utid,arg_set_id);
create table stats(name,idx,severity,source,value);
create view sched as select * from sched_slice;
create view counters as select * from counter join counter_track on counter.track_id=counter_track.id;
create view thread_or_process_slice as select * from slice;
create view slices as select * from slice;
create view state as select id,ts,dur,track_id,name as value,category from slice;
"""
STATES = {"RunnableWoken": "R", "RunnablePreempted": "R+", "Sleeping": "S", "DiskSleep": "D", "Dead": "X"}


def own_name(name):
    """None for a name that Kasuri made up."""
    made = name in ("", "?", "global", "(no name)") or re.fullmatch(r"(pid|tid|process|thread) -?\d+", name)
    return None if made else name


class Tables:
    """A trace's columns as tables of Perfetto's names."""

    def __init__(self, trace):
        self.trace, self.db = trace, sqlite3.connect(":memory:")
        self.db.executescript(SCHEMA)
        self.processes, self.threads, self.ids = trace["processes"], trace["threads"], {}
        self.rows()
        self.slices()
        self.counters()
        self.states()
        self.db.create_function("extract_arg", 2, self.arg)

    def put(self, table, **row):
        marks = ",".join("?" * len(row))
        self.db.execute(f"insert into {table}({','.join(row)}) values({marks})", list(row.values()))

    def arg(self, key, name):
        query = "select coalesce(string_value,int_value,real_value) from args where arg_set_id=? and key=?"
        return (self.db.execute(query, (key, name)).fetchone() or [None])[0]

    def pid(self, process):
        return self.processes[process]["pid"] if process < len(self.processes) else 0

    def rows(self):
        for i, r in enumerate(self.processes, 1):
            parent = None if r["parent"] == NONE else r["parent"] + 1
            self.put("process", id=i, upid=i, pid=r["pid"], name=own_name(r["name"]), parent_upid=parent)
        for u, r in enumerate(self.threads, 1):
            upid, pid, name = r["process"] + 1, self.pid(r["process"]), own_name(r["name"])
            if r["tid"] > 0:
                self.put("thread", id=u, utid=u, tid=r["tid"], upid=upid if pid else None, name=name)
                self.put("track", id=u)
                self.put("thread_track", id=u, utid=u)
                continue
            self.put("track", id=u, name=name)
            if pid > 0:
                self.put("process_track", id=u, upid=upid, name=name)

    def slices(self):
        t, rows = self.trace, []
        for j, r in enumerate(t["slices"]):
            rows.append((r["start"], 0, r["depth"], -1 if r["open"] & 2 else r["end"] - r["start"], str(j), r))
        for j, r in enumerate(t["instants"]):
            rows.append((r["time"], 1, 0, 0, f"i{j}", r))
        for j, r in enumerate(t["spans"]):
            if r["kind"] == "Syscall" and r["thread"] != NONE:
                named = dict(r, name="sys_" + r["name"])
                rows.append((r["start"], 0, 0, r["end"] - r["start"], f"k{j}", named))
        rows.sort(key=lambda r: r[:3])
        for i, (ts, _, depth, dur, key, r) in enumerate(rows, 1):
            self.ids[key] = i
            track = None if r["thread"] == NONE else r["thread"] + 1
            name = None if r["name"] == "(no name)" else r["name"]
            self.put("slice", id=i, slice_id=i, ts=ts, dur=dur, track_id=track, name=name, depth=depth, arg_set_id=i)
        for j, r in enumerate(t["args"]):
            key = self.ids.get(str(r["slice"]) if r["slice"] != NONE else f"i{r['instant']}")
            v, name = r["value"], "debug." + r["name"]
            of = lambda kind: v if isinstance(v, kind) else None
            self.put("args", id=j, arg_set_id=key, key=name, flat_key=re.sub(r"\[\d+\]", "", name), int_value=of(int),
                     real_value=of(float), string_value=of(str), display_value=str(v))
        for id, t0, from_thread, t1, to_thread in t["flows"]:
            out, into = self.at(rows, from_thread, t0, False), self.at(rows, to_thread, t1, True)
            self.put("flow", id=id % 2**62, slice_out=out, slice_in=into)

    def at(self, rows, thread, time, or_next):
        """The slice that a thread is in at a time."""
        best, after = None, None
        for ts, kind, _, dur, key, r in rows:
            if r["thread"] != thread:
                continue
            end = ts + dur if dur >= 0 else self.trace["end"]
            if ts <= time <= end and (kind == 0 or time == ts) and (best is None or ts >= best[0]):
                best = ts, self.ids[key]
            if ts > time and after is None:
                after = self.ids[key]
        return best[1] if best else after if or_next else None

    def counters(self):
        for j, r in enumerate(self.trace["counters"], 1000001):
            name, pid = re.sub("^thermal_degc ", "", r["name"]), self.pid(r["process"])
            if m := re.fullmatch(r"(\w+?)(_khz|_mhz)? \[(CPU|GPU) (\d+)\]", name):
                name, cpu = m[1], int(m[4])
                if name in ("cpufreq_min", "cpufreq_max"):
                    name = f"Cpu {cpu} {name[-3:].title()} Freq Limit"
                self.put("cpu_counter_track", id=j, name=name, cpu=cpu)
            self.put("counter_track", id=j, name=name)
            self.put("track", id=j, name=name)
            if pid > 0:
                self.put("process_counter_track", id=j, name=name, upid=r["process"] + 1)
            for ts, value in zip(r["time"], r["value"]):
                self.put("counter", ts=ts, value=value, track_id=j)

    def states(self):
        of = collections.defaultdict(list)
        for r in self.trace["states"]:
            of[r["thread"]].append(r)
        for thread, rows in of.items():
            for a, b in zip(rows, rows[1:] + [None]):
                dur, cpu = b["start"] - a["start"] if b else -1, None
                if a["state"] == "Running":
                    cpu = a["cpu"]
                    self.put("sched_slice", ts=a["start"], dur=dur, cpu=cpu, ucpu=cpu, utid=thread + 1)
                if a["state"] != "Unknown":
                    state = STATES.get(a["state"], a["state"])
                    self.put("thread_state", ts=a["start"], dur=dur, cpu=cpu, ucpu=cpu, utid=thread + 1, state=state)


def norm(v):
    """One form for numbers and absent values."""
    if v is None or v == "[NULL]":
        return None
    try:
        f = float(v)
        return int(f) if f == int(f) else round(f, 5)
    except (ValueError, OverflowError):
        return v


def compare(cols, want, got):
    """The rows of the columns that are compared; whether they are equal."""
    keep = [i for i, c in enumerate(cols) if c not in DROP]
    names = [j for j, i in enumerate(keep) if cols[i] in NAMES]
    got = [[norm(r[i]) for i in keep] for r in got]
    want = [[norm(r[i]) if i < len(r) else None for i in keep] for r in want]
    if len(got) == len(want):
        key = lambda r: [str(v) for j, v in enumerate(r) if j not in names]
        got, want = sorted(got, key=key), sorted(want, key=key)
        for a, b in zip(got, want):
            for j in names:
                a[j] = a[j] if b[j] is not None else None
    key = lambda r: [str(v) for v in r]
    return keep, want, got, sorted(got, key=key) == sorted(want, key=key)


def ask(trace, query, out):
    """`equal`, `different`, `refused`, or `cannot be asked`, and what there is to say."""
    run = subprocess.run([COLUMNS, trace], capture_output=True, text=True, timeout=60)
    if run.returncode:
        return ("panic" if "panicked" in run.stderr else "refused"), run.stderr[-300:]
    columns = json.loads(run.stdout)
    db = Tables(columns).db
    want = list(csv.reader(io.StringIO("\n".join(line.strip() for line in out.strip().splitlines()))))
    if query.count(";") > 1:
        return "cannot be asked", "several statements"
    try:
        cursor = db.execute(query.strip().rstrip(";"))
        got = [list(r) for r in cursor.fetchall()]
        cols = [c[0] for c in cursor.description]
    except Exception as error:
        return "cannot be asked", str(error)[:100]
    if not set(cols) - DROP:
        return "cannot be asked", "no columns"
    rows = want[1:]
    if "key" in cols and "name" not in cols and "value" not in cols:
        at = cols.index("key")
        rows = [r for r in rows if r[at].startswith("debug.") or r[at] == "[NULL]"]
    keep, rows, got, equal = compare(cols, rows, got)
    lines = [str([cols[i] for i in keep])] + [f"  want {r}" for r in rows] + [f"  got  {r}" for r in got[:30]]
    unread = [m for m in columns["missing"] if "not read" in m or "left out" in m]
    return ("equal", "") if equal else ("different", "\n".join(unread + lines))


def tests(checkout, pattern):
    """Name, trace, query and expected rows of each test."""
    base = os.path.join(checkout, "test/trace_processor/diff_tests")
    sys.path[:0] = [checkout, base]
    os.chdir(checkout)
    from include_index import fetch_all_diff_tests
    from python.generators.diff_tests import testing
    from python.generators.diff_tests.trace_generator import generate_trace_file

    descriptor = os.path.join(os.getcwd(), "all.desc")
    if not os.path.exists(descriptor):
        protos = ["protos/perfetto/trace/trace.proto", *glob.glob("protos/third_party/chromium/*.proto")]
        subprocess.run(["protoc", "--include_imports", "-I.", f"--descriptor_set_out={descriptor}", *protos], check=True)
    for name, blueprint in fetch_all_diff_tests(base):
        folder = os.path.relpath(blueprint.index_dir, base)
        if not folder.startswith(FOLDERS) or not re.search(pattern, name):
            continue
        if isinstance(blueprint.trace, testing.DataPath):
            continue
        if isinstance(blueprint.query, (testing.Metric, testing.MetricV2SpecTextproto, testing.StructuredQuery)):
            continue
        read = lambda part: open(os.path.join(blueprint.index_dir, part.filename)).read()
        case = type("Case", (), {"blueprint": blueprint, "trace_path": None})()
        if isinstance(blueprint.trace, testing.Path):
            case.trace_path = os.path.abspath(os.path.join(blueprint.index_dir, blueprint.trace.filename))
        try:
            made = generate_trace_file(case, descriptor, [], None)
        except Exception as error:
            print("no trace", name, repr(error)[:150], file=sys.stderr)
            continue
        query = read(blueprint.query) if isinstance(blueprint.query, testing.Path) else blueprint.query
        out = read(blueprint.out) if isinstance(blueprint.out, testing.Path) else getattr(blueprint.out, "contents", "")
        yield name, made.name if made else case.trace_path, query, out


def main():
    global COLUMNS
    COLUMNS = os.path.abspath(COLUMNS)
    words = [w for w in sys.argv[1:] if w != "-v"]
    counts = collections.Counter()
    for name, trace, query, out in tests(os.path.abspath(words[0]), words[1] if len(words) > 1 else "."):
        answer, why = ask(trace, query, out)
        counts[answer] += 1
        if answer != "equal":
            print(answer, name)
            if "-v" in sys.argv:
                print(why)
    for answer, n in sorted(counts.items()):
        print(f"{n:5} {answer}")


main()
