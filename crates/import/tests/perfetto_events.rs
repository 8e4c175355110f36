//! Perfetto's packets, field by field: what a writer may send and which annotations come of it. The packets are encoded here
//! from the numbers in Perfetto's .proto files; the golden files of `perfetto.rs` hold only what two writers happened to use.
use kasuri_import::{File, Options, load};
use kasuri_model::{ArgValue, SliceKind, ThreadIx, Time, Trace};

/// A message under construction.
#[derive(Clone, Default)]
struct Msg(Vec<u8>);

impl Msg {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn int(mut self, field: u32, value: i64) -> Msg {
        self.varint(u64::from(field) << 3);
        self.varint(value as u64);
        self
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Msg {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u32, text: &str) -> Msg {
        self.bytes(field, text.as_bytes())
    }

    fn msg(self, field: u32, message: Msg) -> Msg {
        self.bytes(field, &message.0)
    }

    fn fixed(mut self, field: u32, value: u64) -> Msg {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn double(self, field: u32, value: f64) -> Msg {
        self.fixed(field, value.to_bits())
    }
}

fn msg() -> Msg {
    Msg::default()
}

const BEGIN: i64 = 1;
const END: i64 = 2;
const INSTANT: i64 = 3;
const COUNTER: i64 = 4;

/// Threads 11 and 12 of process 10 are tracks 1 and 2.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Writer {
        let mut file = Writer::default();
        for (uuid, tid) in [(1, 11), (2, 12)] {
            let thread = msg().int(1, 10).int(2, tid).text(5, &format!("t{tid}"));
            file.describe(msg().int(1, uuid).msg(4, thread));
        }
        file
    }

    fn packet(&mut self, packet: Msg) {
        self.0.extend(msg().msg(1, packet.int(10, 1)).0);
    }

    fn describe(&mut self, descriptor: Msg) {
        self.packet(msg().msg(60, descriptor));
    }

    /// A track event at a stamp.
    fn at(&mut self, ns: i64, event: Msg) {
        self.packet(msg().int(8, ns).msg(11, event));
    }

    fn load(&self) -> Trace {
        self.try_load(false).unwrap()
    }

    fn try_load(&self, salvage: bool) -> Result<Trace, kasuri_import::Error> {
        let file = File { name: "t.pftrace", bytes: &self.0 };
        let options = Options { salvage, ..Options::default() };
        let trace = load(&[file], &options)?;
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        Ok(trace)
    }
}

/// An event of a type on a track.
fn event(kind: i64, track: i64) -> Msg {
    msg().int(9, kind).int(11, track)
}

fn named(kind: i64, track: i64, name: &str) -> Msg {
    event(kind, track).text(23, name)
}

/// An event with the `LegacyEvent` that Chrome's converter writes.
fn legacy(track: i64, phase: char, name: &str, more: Msg) -> Msg {
    let mut fields = msg().int(2, phase as i64);
    fields.0.extend(more.0);
    event(0, track).text(23, name).msg(6, fields)
}

fn at(trace: &Trace, time: Time) -> i64 {
    trace.origin_monotonic_ns + time.ns()
}

fn tid(trace: &Trace, thread: ThreadIx) -> i32 {
    trace.threads[thread.ix()].tid
}

fn arrows(trace: &Trace) -> Vec<(i64, i32, i64, i32)> {
    let f = &trace.flows;
    let row = |i: usize| {
        let (from, to) = (f.from_thread[i], f.to_thread[i]);
        let times = (at(trace, f.from_time[i]), at(trace, f.to_time[i]));
        (times.0, tid(trace, from), times.1, tid(trace, to))
    };
    (0..f.id.len()).map(row).collect()
}

/// (thread, kind, name, start, end) of each slice.
fn slices(trace: &Trace) -> Vec<(i32, SliceKind, &str, i64, i64)> {
    let s = &trace.slices;
    let row = |i: usize| {
        let name = trace.strings.get(s.name[i]);
        let (start, end) = (at(trace, s.start[i]), at(trace, s.end[i]));
        (tid(trace, s.thread[i]), s.kind[i], name, start, end)
    };
    (0..s.start.len()).map(row).collect()
}

fn counters(trace: &Trace) -> Vec<(&str, Vec<f64>)> {
    let mut all: Vec<_> =
        (trace.counters.iter()).map(|c| (trace.strings.get(c.name), c.value.clone())).collect();
    all.sort_by_key(|c| c.0);
    all
}

#[test]
fn flow_ids_pass_through_and_terminating_ones_end() {
    let mut file = Writer::new();
    file.at(100, named(INSTANT, 1, "a").fixed(47, 7));
    file.at(200, named(INSTANT, 2, "b").int(36, 7));
    file.at(300, named(INSTANT, 1, "c").fixed(48, 7));
    // The id's next use is another arrow.
    file.at(400, named(INSTANT, 2, "d").int(42, 7));
    file.at(500, named(INSTANT, 2, "e").fixed(47, 7));
    file.at(600, named(INSTANT, 1, "f").fixed(48, 7));
    assert_eq!(arrows(&file.load()), [(100, 11, 200, 12), (200, 12, 300, 11), (500, 12, 600, 11)]);
}

#[test]
fn arrows_of_converted_events_go_by_phase_or_by_direction() {
    let bound = |direction| msg().int(8, 7).int(13, direction);
    let mut file = Writer::new();
    file.at(100, legacy(1, 's', "", msg().int(6, 7)));
    file.at(200, legacy(2, 't', "", msg().int(6, 7)));
    file.at(300, legacy(1, 'f', "", msg().int(6, 7)));
    // 2 out, 3 both, 1 in.
    file.at(400, legacy(1, 'i', "x", bound(2)));
    file.at(500, legacy(2, 'i', "x", bound(3)));
    file.at(600, legacy(1, 'i', "x", bound(1)));
    file.at(700, legacy(2, 'i', "x", bound(1)));
    assert_eq!(
        arrows(&file.load()),
        [
            (100, 11, 200, 12),
            (200, 12, 300, 11),
            (400, 11, 500, 12),
            (500, 12, 600, 11),
            // What only receives leaves the arrow for others.
            (500, 12, 700, 12)
        ]
    );
    // Chrome's ids are another space than those of flow_ids.
    let mut file = Writer::new();
    file.at(100, legacy(1, 's', "", msg().int(6, 7)));
    file.at(200, named(INSTANT, 2, "b").fixed(48, 7));
    assert_eq!(arrows(&file.load()), []);
}

#[test]
fn converted_events_have_phases_and_lengths() {
    let mut file = Writer::new();
    file.at(1000, legacy(1, 'X', "whole", msg().int(3, 5)));
    file.at(2000, legacy(1, 'X', "inner", msg().int(3, 3)));
    file.at(7000, legacy(1, 'B', "open", msg()));
    file.at(8000, legacy(1, 'E', "", msg()));
    file.at(9000, legacy(1, 'i', "tick", msg()));
    // Another thread than that of the track.
    file.at(9500, legacy(1, 'X', "other", msg().int(3, 1).int(18, 10).int(19, 12)));
    let trace = file.load();
    let work = SliceKind::Work;
    assert_eq!(
        slices(&trace),
        [
            (11, work, "whole", 1000, 6000),
            (11, work, "inner", 2000, 5000),
            (11, work, "open", 7000, 8000),
            (12, work, "other", 9500, 10_500),
        ]
    );
    assert_eq!(trace.instants.time.len(), 1);
}

#[test]
fn complete_events_stand_among_begins_and_ends_in_any_order() {
    // Chrome writes a complete event when it is over: after what it holds.
    let mut file = Writer::new();
    file.at(1000, named(BEGIN, 1, "outer"));
    file.at(3000, named(BEGIN, 1, "inner"));
    file.at(4000, event(END, 1).msg(4, msg().text(10, "n").int(4, 7)));
    file.at(2000, legacy(1, 'X', "whole", msg().int(3, 4)));
    file.at(9000, event(END, 1));
    // Both end at 12,000; the end is that of the slice that begins with a B.
    file.at(10_000, named(BEGIN, 1, "b"));
    file.at(11_000, legacy(1, 'X', "x", msg().int(3, 1)));
    file.at(12_000, event(END, 1));
    file.at(13_000, legacy(1, 'X', "backwards", msg().int(3, -1)));
    let trace = file.load();
    let work = SliceKind::Work;
    assert_eq!(
        slices(&trace),
        [
            (11, work, "outer", 1000, 9000),
            (11, work, "whole", 2000, 6000),
            (11, work, "inner", 3000, 4000),
            (11, work, "b", 10_000, 12_000),
            (11, work, "x", 11_000, 12_000),
            (11, work, "backwards", 13_000, 13_000),
        ]
    );
    assert_eq!(trace.slices.depth, [0, 1, 2, 0, 1, 0]);
    assert!(trace.slices.open.iter().all(|&open| open == 0));
    assert_eq!(trace.args.slice[0].0, 2, "that of the slice that ends");
    assert!(has(&trace, "1 complete events with a duration below 0"));
}

#[test]
fn arguments_of_an_end_are_its_slices_and_not_those_of_a_point_before() {
    let mut file = Writer::new();
    file.at(100, named(BEGIN, 1, "a"));
    file.at(150, named(INSTANT, 1, "tick"));
    file.at(200, event(END, 1).msg(4, msg().text(10, "n").int(4, 7)));
    let trace = file.load();
    assert_eq!(trace.args.slice[0].0, 0);
    assert!(!trace.args.instant[0].is_some());
}

#[test]
fn counters_and_samples_of_chrome() {
    let arg = |name: &str, value| msg().text(10, name).int(4, value);
    let mut file = Writer::new();
    let mut both = legacy(1, 'C', "heap", msg());
    both = both.msg(4, arg("used", 5)).msg(4, arg("free", 6));
    file.at(100, both);
    file.at(200, legacy(1, 'C', "queue", msg()).msg(4, arg("value", 3)));
    file.at(300, legacy(1, 'P', "sample", msg()));
    file.at(400, legacy(1, 'O', "object", msg()));
    let trace = file.load();
    assert_eq!(
        counters(&trace),
        [("heap: free", vec![6.0]), ("heap: used", vec![5.0]), ("queue", vec![3.0])]
    );
    assert_eq!(trace.instants.time.len(), 1);
    assert!(has(&trace, "1 converted events of phase O"));
}

#[test]
fn ids_of_asynchronous_events_have_scopes() {
    const UNSCOPED: u32 = 6;
    const SCOPE: u32 = 7;
    const LOCAL: u32 = 10;
    let of = |pid: i64, kind: char, id: Msg| {
        let mut more = msg().int(18, pid).int(19, pid);
        more.0.extend(id.0);
        legacy(1, kind, "get", more)
    };
    let mut file = Writer::new();
    // One id in two scopes, and one that each process has for itself.
    let scoped = |scope: &str| msg().int(UNSCOPED, 1).text(SCOPE, scope);
    file.at(100, of(10, 'b', scoped("a")));
    file.at(110, of(10, 'b', scoped("b")));
    file.at(120, of(10, 'e', scoped("a")));
    file.at(140, of(10, 'e', scoped("b")));
    file.at(200, of(10, 'b', msg().int(LOCAL, 7)));
    file.at(210, of(20, 'b', msg().int(LOCAL, 7)));
    file.at(230, of(10, 'e', msg().int(LOCAL, 7)));
    file.at(260, of(20, 'e', msg().int(LOCAL, 7)));
    // An id that is not local joins processes; an end need not repeat the name.
    file.at(300, of(10, 'b', msg().int(UNSCOPED, 9)));
    let end = msg().int(18, 20).int(19, 20).int(UNSCOPED, 9);
    file.at(350, legacy(1, 'e', "", end));
    let mut found: Vec<_> = (slices(&file.load()).iter()).map(|s| (s.3, s.4)).collect();
    found.sort();
    assert_eq!(found, [(100, 120), (110, 140), (200, 230), (210, 260), (300, 350)]);
}

#[test]
fn arguments_of_asynchronous_events_are_kept() {
    let arg = |name: &str, value| msg().text(10, name).int(4, value);
    let mut file = Writer::new();
    file.at(100, legacy(1, 'b', "get", msg().int(6, 1)).msg(4, arg("a", 1)));
    file.at(150, legacy(1, 'n', "step", msg().int(6, 1)).msg(4, arg("b", 2)));
    file.at(200, legacy(1, 'e', "get", msg().int(6, 1)).msg(4, arg("c", 3)));
    let trace = file.load();
    let args = &trace.args;
    let found: Vec<_> = (0..args.name.len())
        .map(|i| (trace.strings.get(args.name[i]), args.slice[i].is_some(), args.value[i]))
        .collect();
    let int = ArgValue::Int;
    assert_eq!(found, [("a", true, int(1)), ("c", true, int(3)), ("b", false, int(2))]);
}

/// In containers, threads of several processes may have one tid; and a pid may be used again.
#[test]
fn threads_of_one_tid_have_their_own_names_and_reused_pids_are_told() {
    let mut file = Writer::new();
    let thread = |pid, name| msg().int(1, pid).int(2, 1).text(5, name);
    let process = |name| msg().int(1, 40).text(6, name);
    file.describe(msg().int(1, 3).msg(4, thread(20, "one")));
    file.describe(msg().int(1, 4).msg(4, thread(30, "two")));
    for (uuid, name) in [(5, "old"), (6, "young"), (6, "new")] {
        file.describe(msg().int(1, uuid).msg(3, process(name)));
    }
    file.at(100, named(INSTANT, 3, "a"));
    file.at(200, named(INSTANT, 4, "b"));
    file.at(300, named(INSTANT, 5, "c"));
    file.at(400, named(INSTANT, 6, "d"));
    let trace = file.load();
    let name_of = |ix: usize| {
        let thread = trace.instants.thread[ix];
        trace.strings.get(trace.threads[thread.ix()].name)
    };
    assert_eq!([name_of(0), name_of(1)], ["one", "two"]);
    let process = trace.processes.iter().find(|p| p.pid == 40).unwrap();
    assert_eq!(trace.strings.get(process.name), "new");
    let told = "1 processes have the pid of another";
    let is_told = trace.info.missing.iter().any(|line| line.starts_with(told));
    assert!(is_told, "{:?}", trace.info.missing);
}

#[test]
fn a_state_lasts_to_the_next_one() {
    const STATE: i64 = 5;
    let mut file = Writer::new();
    file.describe(msg().int(1, 9).text(2, "power").msg(18, msg()));
    file.at(100, named(STATE, 9, "on"));
    file.at(300, named(STATE, 9, "off"));
    file.at(400, event(STATE, 9));
    // Not on a track of states: a point in time.
    file.at(500, named(STATE, 1, "x"));
    let trace = file.load();
    let found: Vec<_> = (slices(&trace).into_iter()).map(|s| (s.2, s.3, s.4)).collect();
    assert_eq!(found, [("on", 100, 300), ("off", 300, 400)]);
    assert_eq!(trace.instants.time.len(), 1);
}

#[test]
fn stamps_before_the_clocks_zero_do_not_stretch_the_trace() {
    let mut file = Writer::new();
    file.at(1000, named(INSTANT, 1, "good"));
    let absolute = named(INSTANT, 1, "wrapped").int(16, i64::MIN / 1000);
    file.packet(msg().msg(11, absolute));
    let trace = file.load();
    assert_eq!(at(&trace, trace.span.start), 1000);
    assert!(has(
        &trace,
        "1 track events, counters and messages with stamps before their clock's zero"
    ));
}

#[test]
fn a_track_without_a_name_is_called_like_its_first_event() {
    let mut file = Writer::new();
    file.describe(msg().int(1, 9));
    file.at(100, named(INSTANT, 9, "frame"));
    file.at(200, named(INSTANT, 9, "later"));
    let trace = file.load();
    let names: Vec<_> =
        trace.threads.iter().filter(|t| t.tid < 0).map(|t| trace.strings.get(t.name)).collect();
    assert_eq!(names, ["frame"]);
}

#[test]
fn memory_of_processes_and_messages_of_logs() {
    const REALTIME: i64 = 1;
    let reading = |clock, ns| msg().int(1, clock).int(2, ns);
    let clocks = msg().msg(1, reading(6, 1000)).msg(1, reading(REALTIME, 5000));
    let process = msg().int(1, 10).int(3, 2).int(10, -900).int(22, 7);
    let line = |tid: i64, text: &str| {
        let entry = msg().int(2, 10).int(3, tid).int(5, 5500).text(6, "net");
        entry.text(8, text)
    };
    let mut file = Writer::new();
    file.packet(msg().msg(6, clocks));
    file.packet(msg().int(8, 2000).msg(9, msg().msg(1, process)));
    file.packet(msg().int(8, 9000).msg(39, msg().msg(1, line(11, "up\n")).msg(1, line(0, "down"))));
    let journal = msg().int(1, 10).int(2, 12).text(6, "sshd").text(7, "login");
    file.packet(msg().int(8, 3000).msg(132, journal));
    // Counts, and nothing that was logged.
    file.packet(msg().int(8, 9000).msg(132, msg().int(20, 4)));
    let trace = file.load();
    assert_eq!(
        counters(&trace),
        [
            ("mem.rss", vec![2048.0]),
            ("oom_score_adj", vec![-900.0]),
            ("runtime.kernel_ns", vec![7.0])
        ]
    );
    let i = &trace.instants;
    let mut found: Vec<_> = (0..i.time.len())
        .map(|n| (at(&trace, i.time[n]), tid(&trace, i.thread[n]), trace.strings.get(i.name[n])))
        .collect();
    found.sort();
    assert_eq!(found, [(1500, 10, "net: down"), (1500, 11, "net: up"), (3000, 12, "sshd: login")]);
    assert!(trace.info.missing.is_empty(), "{:?}", trace.info.missing);
}

#[test]
fn a_migration_to_a_cpu_that_no_machine_has_is_told() {
    let migrate = msg().int(1, 2000).int(2, 11).msg(491, msg().int(2, 12).int(4, 0).int(5, 70_000));
    let mut file = Writer::new();
    file.packet(msg().msg(1, bundle(&[migrate])));
    let trace = file.load();
    assert!(trace.migrations.time.is_empty());
    let losses: Vec<_> = trace.losses.iter().map(|l| (&*l.cause, l.count)).collect();
    assert_eq!(losses, [("migrations to or from CPUs that no machine has", 1)]);
}

#[test]
fn counters_of_differences_lose_nothing_in_their_sum() {
    let big = 1 << 53;
    let mut file = Writer::new();
    file.describe(msg().int(1, 9).text(2, "n").int(5, 1).msg(8, msg().int(5, 1)));
    // One more than a double can tell apart, and back.
    for (ns, delta) in [(100, big), (200, 1), (300, 1), (400, -big)] {
        file.at(ns, event(COUNTER, 9).int(30, delta));
    }
    let trace = file.load();
    assert_eq!(counters(&trace)[0].1.last(), Some(&2.0));
}

/// Events by kind, as `kasuri info` lists them.
fn kinds(trace: &Trace) -> Vec<(&str, u64)> {
    (trace.info.event_costs.iter()).map(|kind| (&*kind.name, kind.n)).collect()
}

fn has(trace: &Trace, begin: &str) -> bool {
    trace.info.missing.iter().any(|m| m.starts_with(begin))
}

#[test]
fn every_packet_and_kernel_event_is_counted_by_name() {
    let kernel = |ns: i64, field: u32, body: Msg| msg().int(1, ns).int(2, 11).msg(field, body);
    let generic = |name: &str| msg().text(1, name);
    let compact = msg().bytes(1, &[1, 1, 1]).bytes(7, &[1, 1]);
    let described = msg().int(1, 70_000).msg(2, msg().text(1, "new_event"));
    let mut file = Writer::new();
    file.packet(
        msg().msg(
            1,
            bundle(&[
                kernel(2000, 13, msg()),
                kernel(2001, 13, msg()),
                kernel(2002, 327, generic("my_driver_irq")),
                kernel(2003, 70_000, msg().int(1, 5)),
                kernel(2004, 900, msg()),
            ])
            .msg(4, compact)
            .msg(11, described),
        ),
    );
    // A CPU that no machine has.
    file.packet(msg().msg(1, msg().int(1, 9000).msg(2, switch(3000, 0, 11))));
    file.packet(msg().int(8, 1).msg(38, msg()));
    file.packet(msg().int(8, 2).msg(38, msg()));
    file.packet(msg().msg(33, msg()));
    file.packet(msg().msg(1234, msg()));
    file.at(5000, named(INSTANT, 1, "x"));
    let trace = file.load();
    assert_eq!(
        kinds(&trace),
        [
            ("cpu_idle", 2),
            ("kernel event 900", 1),
            ("my_driver_irq", 1),
            ("new_event", 1),
            ("sched_switch", 5),
            ("sched_waking", 2),
            ("packet track_event", 1),
            ("packet trace_config", 1),
            ("packet battery", 2),
            ("packet track_descriptor", 2),
            ("packet 1234", 1),
        ]
    );
    let unread = [
        "5 kernel events of kinds that are not read: 2 cpu_idle, 1 kernel event 900, 1 my_driver_irq, 1 new_event",
        "3 packets of kinds that are not read: 2 packet battery, 1 packet 1234",
        "1 kernel events of CPUs with numbers that no machine has: they are left out: 1 sched_switch",
    ];
    for sentence in unread {
        assert!(has(&trace, sentence), "{:?}", trace.info.missing);
    }
}

#[test]
fn asynchronous_events_of_chrome_are_joined_by_name_and_id() {
    let id = |n| msg().int(6, n);
    let mut file = Writer::new();
    file.at(100, legacy(1, 'b', "get", id(1)));
    file.at(150, legacy(1, 'S', "put", id(2)));
    file.at(160, legacy(1, 'n', "step", id(1)));
    file.at(170, legacy(1, 'p', "step", id(1)));
    file.at(180, legacy(1, 'b', "none", msg()));
    file.at(200, legacy(2, 'e', "get", id(1)));
    file.at(300, legacy(1, 'F', "put", id(2)));
    let trace = file.load();
    let found: Vec<_> = slices(&trace).into_iter().map(|s| (s.2, s.3, s.4)).collect();
    assert_eq!(found, [("get", 100, 200), ("put", 150, 300)]);
    assert!(slices(&trace).iter().all(|s| s.0 < 0), "on tracks of their own");
    assert_eq!(trace.instants.time.len(), 2);
}

#[test]
fn names_are_sent_once_and_forgotten_with_the_state() {
    let entry = |iid, text: &str| msg().int(1, iid).text(2, text);
    let place = msg().int(1, 5).text(2, "main.cc").int(4, 42);
    let names = msg()
        .msg(1, entry(3, "lock wait"))
        .msg(2, entry(3, "parse"))
        .msg(3, entry(3, "n"))
        .msg(4, place)
        .msg(20, entry(3, "a log text"))
        .msg(29, entry(3, "an argument's text"));
    let with = |ns: i64, flags: i64, event: Msg| msg().int(8, ns).int(13, flags).msg(11, event);
    let mut file = Writer::new();
    let arg = msg().int(1, 3).int(17, 3);
    let first = event(INSTANT, 1).int(10, 3).int(34, 5).msg(4, arg);
    file.packet(with(100, 3, first).msg(12, names));
    file.packet(with(200, 2, event(BEGIN, 1).int(10, 3).int(3, 3)));
    file.packet(with(300, 2, event(END, 1)));
    // Without a name of its own an event has that of its log message.
    file.packet(with(350, 2, event(INSTANT, 1).msg(21, msg().int(2, 3))));
    // A packet was lost: names may be missing until the state is sent anew. What needs none is read.
    file.packet(with(400, 2, event(INSTANT, 1).int(10, 3)).int(42, 1));
    file.packet(with(450, 0, named(INSTANT, 1, "plain")));
    file.packet(with(500, 3, event(INSTANT, 1).int(10, 3)));
    file.packet(with(550, 2, event(INSTANT, 1).int(10, 3)));
    let trace = file.load();
    let points: Vec<_> = (0..trace.instants.time.len())
        .map(|i| {
            let name = trace.strings.get(trace.instants.name[i]);
            (at(&trace, trace.instants.time[i]), name)
        })
        .collect();
    assert_eq!(
        points,
        [
            (100, "parse"),
            (350, "a log text"),
            (450, "plain"),
            (500, "(no name)"),
            (550, "(no name)")
        ]
    );
    assert_eq!(slices(&trace), [(11, SliceKind::LockWait, "parse", 200, 300)]);
    let args = &trace.args;
    let ArgValue::Str(text) = args.value[0] else {
        panic!("{:?}", args.value);
    };
    let text = (trace.strings.get(args.name[0]), trace.strings.get(text));
    assert_eq!(text, ("n", "an argument's text"));
    let places: Vec<_> = trace.places.iter().map(|(n, p)| (trace.strings.get(*n), &**p)).collect();
    assert_eq!(places, [("parse", "main.cc:42")]);
    assert!(
        trace.info.missing.iter().any(|m| m.starts_with("1 track events whose names were lost")),
        "{:?}",
        trace.info.missing
    );
}

#[test]
fn counters_have_units_and_may_count_differences() {
    let counter = |uuid, name: &str, counter: Msg| msg().int(1, uuid).text(2, name).msg(8, counter);
    let mut file = Writer::new();
    file.describe(msg().int(1, 5).msg(3, msg().int(1, 10).text(6, "server")));
    for (uuid, name, fields) in [
        (6, "plain", msg()),
        (7, "kib", msg().int(4, 1024)),
        (8, "steps", msg().int(4, 10).int(5, 1)),
        (9, "cpu", msg().int(1, 1)),
    ] {
        file.describe(counter(uuid, name, fields).int(5, 5));
    }
    for (ns, track, value) in
        [(100, 6, 3), (110, 6, -4), (120, 7, 2), (130, 8, 1), (140, 8, 2), (150, 9, 9)]
    {
        file.at(ns, event(COUNTER, track).int(30, value));
    }
    file.at(160, event(COUNTER, 6).double(44, 0.5));
    // An event may carry values of counters: of the tracks that it names, or that the defaults name.
    let defaults = msg().msg(11, msg().int(11, 1).int(31, 6).int(31, 7));
    file.packet(msg().int(13, 1).msg(59, defaults));
    file.at(170, msg().int(9, INSTANT).text(23, "x").int(12, 8).int(12, 9));
    file.at(180, named(INSTANT, 1, "x").int(31, 7).int(12, 5));
    file.at(190, named(INSTANT, 1, "x").int(45, 6).double(46, 1.5));
    let trace = file.load();
    assert_eq!(
        counters(&trace),
        [
            ("kib", vec![2048.0, 9.0 * 1024.0, 5.0 * 1024.0]),
            ("plain", vec![3.0, -4.0, 0.5, 8.0, 1.5]),
            ("steps", vec![10.0, 30.0]),
        ]
    );
    assert!(
        trace.info.missing.iter().any(|m| m.starts_with("1 samples of threads' CPU time")),
        "{:?}",
        trace.info.missing
    );
    // The event without a track is that of the default track.
    assert!(trace.instants.thread.iter().all(|&t| tid(&trace, t) == 11));
    let process = trace.processes.iter().find(|p| p.pid == 10).unwrap();
    assert_eq!(trace.strings.get(process.name), "server");
}

#[test]
fn waits_and_critical_sections_go_by_their_category_and_object() {
    let held = |kind| event(kind, 3).text(22, "lock held").text(23, "m");
    let object = |value: Msg| value.text(10, "object");
    let mut file = Writer::new();
    // A track below thread 11, as exports make it for critical sections, which may cross slices.
    file.describe(msg().int(1, 3).int(5, 1).text(2, "locks"));
    file.at(100, named(BEGIN, 1, "m").text(22, "lock wait").msg(4, object(msg().int(7, 0xa0))));
    file.at(200, event(END, 1));
    file.at(200, held(BEGIN).msg(4, object(msg().int(3, 0xa0))));
    file.at(250, named(BEGIN, 1, "work"));
    file.at(300, event(END, 3));
    file.at(350, event(END, 1).msg(4, msg().text(10, "n").int(4, -1)));
    file.at(
        400,
        named(BEGIN, 1, "sync").text(22, "barrier wait").msg(4, object(msg().int(4, 0xb0))),
    );
    file.at(500, event(END, 1));
    file.at(600, named(INSTANT, 1, "end of an arrow").text(22, "arrow"));
    let trace = file.load();
    assert_eq!(
        slices(&trace),
        [
            (11, SliceKind::LockWait, "m", 100, 200),
            (11, SliceKind::LockHold, "m", 200, 300),
            (11, SliceKind::Work, "work", 250, 350),
            (11, SliceKind::Barrier, "sync", 400, 500),
        ]
    );
    assert_eq!(trace.slices.object, [0xa0, 0xa0, 0, 0xb0]);
    // The object is no argument beside.
    assert_eq!(trace.args.value, [ArgValue::Int(-1)]);
    assert_eq!(trace.args.slice[0].0, 2);
    assert!(trace.instants.time.is_empty(), "the arrows suffice");
}

#[test]
fn a_critical_section_gives_its_thread_no_name() {
    let mut file = Writer::new();
    file.describe(msg().int(1, 3).int(5, 2).text(2, "locks"));
    file.at(100, event(BEGIN, 3).text(22, "lock held").text(23, "m"));
    file.at(200, event(END, 3));
    let trace = file.load();
    assert_eq!(slices(&trace), [(12, SliceKind::LockHold, "m", 100, 200)]);
    let thread = trace.threads.iter().find(|t| t.tid == 12).unwrap();
    assert_eq!(trace.strings.get(thread.name), "t12");
}

#[test]
fn old_writers_put_microseconds_into_the_event() {
    let mut file = Writer::new();
    let thread = msg().int(1, 10).int(2, 13).text(5, "old").int(6, 1000);
    file.packet(msg().msg(43, msg().int(1, 10).text(6, "process")));
    file.packet(msg().msg(44, thread));
    let event = |kind: i64, more: Msg| {
        let mut event = msg().int(9, kind);
        event.0.extend(more.0);
        msg().msg(11, event)
    };
    file.packet(event(BEGIN, msg().int(1, 5).text(23, "a")));
    file.packet(event(END, msg().int(1, 7)));
    file.packet(event(INSTANT, msg().int(16, 1010).text(23, "absolute")));
    file.packet(event(INSTANT, msg().text(23, "never")));
    let trace = file.load();
    assert_eq!(slices(&trace), [(13, SliceKind::Work, "a", 1_005_000, 1_012_000)]);
    let points: Vec<_> = trace.instants.time.iter().map(|&t| at(&trace, t)).collect();
    assert_eq!(points, [1_010_000]);
    assert!(
        trace
            .info
            .missing
            .iter()
            .any(|m| m.starts_with("1 track events, counters and messages of clocks")),
        "{:?}",
        trace.info.missing
    );
    let process = trace.processes.iter().find(|p| p.pid == 10).unwrap();
    assert_eq!(trace.strings.get(process.name), "process");
}

#[test]
fn a_packets_clock_is_its_own_the_writers_or_the_traces() {
    const MONOTONIC: i64 = 3;
    let reading = |clock, ns| msg().int(1, clock).int(2, ns);
    let mut file = Writer::new();
    // CLOCK_BOOTTIME (6), the trace's, was 1000 ahead of CLOCK_MONOTONIC (3).
    file.packet(msg().msg(6, msg().msg(1, reading(6, 5000)).msg(1, reading(MONOTONIC, 4000))));
    let point = |ns: i64, name: &str| msg().int(8, ns).msg(11, named(INSTANT, 1, name));
    file.packet(point(6000, "trace"));
    file.packet(point(6000, "own").int(58, MONOTONIC));
    file.packet(msg().int(13, 1).msg(59, msg().int(58, MONOTONIC)));
    file.packet(point(7000, "writer"));
    file.packet(point(7000, "trace again").int(58, 6));
    file.packet(point(8000, "unknown").int(58, 9));
    let trace = file.load();
    let mut points: Vec<_> = (0..trace.instants.time.len())
        .map(|i| (trace.strings.get(trace.instants.name[i]), at(&trace, trace.instants.time[i])))
        .collect();
    points.sort_by_key(|p| (p.1, p.0));
    assert_eq!(points, [("trace", 6000), ("own", 7000), ("trace again", 7000), ("writer", 8000)]);
    assert_eq!(trace.info.missing.len(), 1, "{:?}", trace.info.missing);
}

/// A bundle of CPU 0 of switches 0 -> 11 at 1000 and 11 -> 0 at 9000, and these events of the kernel.
fn bundle(events: &[Msg]) -> Msg {
    let switch = |ns: i64, prev: i64, state: i64, next: i64| {
        let names = msg().text(1, "a").int(2, prev).int(4, state).text(5, "b").int(6, next);
        msg().int(1, ns).int(2, prev).msg(4, names)
    };
    let mut bundle = msg().int(1, 0).msg(2, switch(1000, 0, 0, 11));
    for event in events {
        bundle = bundle.msg(2, event.clone());
    }
    bundle.msg(2, switch(9000, 11, 1, 0))
}

#[test]
fn marks_in_bundles_are_the_threads_that_wrote_them() {
    let print =
        |ns: i64, text: &str| msg().int(1, ns).int(2, 11).msg(3, msg().int(1, 1).text(2, text));
    let mut file = Writer::new();
    file.packet(msg().msg(
        1,
        bundle(&[
            print(2000, "B|10|parse\n"),
            print(3000, "C|10|queue|7\n"),
            print(4000, "E|10\n"),
            print(5000, "free text\n"),
        ]),
    ));
    let trace = file.load();
    assert_eq!(slices(&trace), [(11, SliceKind::Work, "parse", 2000, 4000)]);
    assert_eq!(counters(&trace), [("queue", vec![7.0])]);
    assert_eq!(trace.instants.time.len(), 1);
}

/// Track events and texts of `trace_marker` of one thread: the ends of one are not those of the other. A row's slices nest, so
/// a text's slice that outlives the event around it is cut, and that is said.
#[test]
fn an_end_of_a_track_event_is_not_that_of_a_mark() {
    let print =
        |ns: i64, text: &str| (msg().int(1, ns).int(2, 11)).msg(3, msg().int(1, 1).text(2, text));
    let mut file = Writer::new();
    file.packet(msg().msg(
        1,
        bundle(&[
            print(1500, "E|10\n"),
            print(3000, "B|10|mark\n"),
            print(4000, "C|10|queue|7\n"),
            print(6000, "E|10\n"),
            print(8000, "B|10|endless\n"),
        ]),
    ));
    file.at(1000, named(BEGIN, 1, "first"));
    file.at(2000, event(END, 1));
    file.at(2500, named(BEGIN, 1, "event"));
    file.at(5000, event(END, 1));
    file.at(7000, named(BEGIN, 1, "last"));
    file.at(9000, event(END, 1));
    let trace = file.load();
    let work = |name, from, to| (11, SliceKind::Work, name, from, to);
    assert_eq!(
        slices(&trace),
        [
            work("first", 1000, 2000),
            work("event", 2500, 5000),
            work("mark", 3000, 5000),
            work("last", 7000, 9000),
            work("endless", 8000, 9000),
        ]
    );
    assert_eq!(counters(&trace), [("queue", vec![7.0])]);
    for told in ["1 slices overlapped", "1 slices begin and never", "1 ends of slices have"] {
        let is_told = trace.info.missing.iter().any(|line| line.starts_with(told));
        assert!(is_told, "{told}: {:?}", trace.info.missing);
    }
}

#[test]
fn what_the_kernel_did_comes_from_bundles() {
    let kernel = |ns: i64, flags: i64, field: u32, body: Msg| {
        msg().int(1, ns).int(2, 11).int(5, flags).msg(field, body)
    };
    let mut file = Writer::new();
    file.packet(msg().msg(
        1,
        bundle(&[
            kernel(2000, 0, 329, msg().int(1, 0)),
            kernel(2500, 0, 330, msg()),
            kernel(3000, 0, 36, msg().int(1, 24).text(2, "virtio0")),
            kernel(3100, 0, 37, msg()),
            kernel(3200, 0, 24, msg().int(1, 9)),
            kernel(3300, 0, 25, msg()),
            // sched_waking in an interrupt (0x08) has no waker; the other one has.
            kernel(4000, 8, 20, msg().text(1, "b").int(2, 12).int(5, 0)),
            kernel(5000, 0, 20, msg().text(1, "b").int(2, 12).int(5, 0)),
        ]),
    ));
    let trace = file.load();
    let w = &trace.wakeups;
    let wakers: Vec<_> = w.waker.iter().map(|t| t.is_some()).collect();
    assert_eq!((wakers, w.time.len()), (vec![false, true], 2));
    let k = &trace.kernel_spans;
    let mut spans: Vec<_> = (0..k.start.len())
        .map(|i| (at(&trace, k.start[i]), at(&trace, k.end[i]), trace.strings.get(k.name[i])))
        .collect();
    spans.sort();
    assert_eq!(spans.len(), 3, "{spans:?}");
    assert_eq!((spans[0].0, spans[0].1), (2000, 2500));
    assert_eq!(spans[1], (3000, 3100, "virtio0"));
    assert_eq!(spans[2], (3200, 3300, "RCU"));
}

/// A switch on the CPU of a bundle, in which the thread that leaves sleeps.
fn switch(ns: i64, prev: i64, next: i64) -> Msg {
    let fields = msg().text(1, "a").int(2, prev).int(4, 1).text(5, "b").int(6, next);
    msg().int(1, ns).int(2, prev).msg(4, fields)
}

/// When CPU 0 is known to have another occupant, and which: a thread, 0 idle, -1 not known.
fn occupancy(trace: &Trace) -> Vec<(i64, i32)> {
    let o = &trace.occupancy;
    let who = |i: usize| match (o.thread[i].is_some(), o.idle[i]) {
        (true, _) => tid(trace, o.thread[i]),
        (false, idle) => i32::from(idle) - 1,
    };
    (0..o.start.len()).map(|i| (at(trace, o.start[i]), who(i))).collect()
}

#[test]
fn stamps_of_bundles_are_of_the_clock_that_the_bundle_names() {
    const MONOTONIC_RAW: i64 = 5;
    // (the bundle's clock and pair of readings, when the switch at its 1000 was on the trace's clock)
    for (head, expected) in [
        (msg(), Some(1000)),
        // ftrace's clock showed 600 when CLOCK_BOOTTIME was 9600.
        (msg().int(5, 1).int(6, 600).int(7, 9600), Some(10_000)),
        // CLOCK_MONOTONIC_RAW, by the snapshot below, is 50 behind.
        (msg().int(5, 4), Some(1050)),
        (msg().int(5, 2), Some(1000)),
    ] {
        let reading = |clock, ns| msg().int(1, clock).int(2, ns);
        let clocks = msg().msg(1, reading(6, 550)).msg(1, reading(MONOTONIC_RAW, 500));
        let mut file = Writer::new();
        file.packet(msg().msg(6, clocks));
        file.packet(msg().msg(1, head.msg(2, switch(1000, 0, 11)).msg(2, switch(1500, 11, 0))));
        let trace = file.load();
        let came = occupancy(&trace).iter().find(|row| row.1 == 11).map(|row| row.0);
        assert_eq!(came, expected);
    }
    // No snapshot relates the clock: the events are not read, and counted.
    let mut file = Writer::new();
    let head = msg().int(5, 4);
    file.packet(msg().msg(1, head.msg(2, switch(1000, 0, 11)).msg(2, switch(1500, 11, 0))));
    file.at(100, named(INSTANT, 1, "x"));
    let trace = file.load();
    let losses: Vec<_> = trace.losses.iter().map(|l| (&*l.cause, l.count)).collect();
    assert_eq!(losses, [("kernel events of an unknown clock", 2)]);
}

#[test]
fn a_bundle_after_a_loss_begins_with_nothing_known() {
    let mut file = Writer::new();
    file.packet(msg().msg(1, msg().msg(2, switch(1000, 0, 11))));
    file.packet(msg().msg(1, msg().int(3, 1).msg(2, switch(5000, 12, 0))));
    let trace = file.load();
    assert_eq!(occupancy(&trace), [(1000, 11), (1000, -1), (5000, 0)][1..].to_vec());
    let loss = &trace.losses[0];
    let when = (at(&trace, loss.when.start), at(&trace, loss.when.end));
    assert_eq!((&*loss.cause, loss.cpu, when), ("kernel buffer overrun", Some(0), (1000, 5000)));
}

#[test]
fn what_a_damaged_bundle_holds_behind_the_damage_is_missing_and_said() {
    // The middle one's second switch has a name of 127 bytes of which there are none.
    let broken = msg().int(1, 3000).bytes(4, &[0x0a, 0x7f]);
    let good = |from, to| msg().msg(2, switch(from, 0, 11)).msg(2, switch(to, 11, 0));
    for has_more in [true, false] {
        let mut file = Writer::new();
        file.packet(msg().msg(1, good(1000, 1500)));
        file.packet(msg().msg(1, msg().msg(2, switch(2000, 0, 11)).msg(2, broken.clone())));
        if has_more {
            file.packet(msg().msg(1, good(5000, 6000)));
        }
        file.at(9000, named(INSTANT, 1, "later"));
        assert!(file.try_load(false).is_err());
        let trace = file.try_load(true).unwrap();
        let on_cpu = occupancy(&trace);
        assert!(on_cpu.contains(&(1000, 11)) && on_cpu.contains(&(1500, 0)), "{on_cpu:?}");
        let causes: Vec<&str> = trace.losses.iter().map(|l| &*l.cause).collect();
        assert!(causes.iter().any(|c| c.starts_with("file damaged at byte")), "{causes:?}");
        if has_more {
            // 11 came at 2000; whether it stayed is not known.
            let later: Vec<_> = on_cpu.iter().filter(|row| row.0 >= 2000).copied().collect();
            assert_eq!(later, [(2000, -1), (5000, 11), (6000, 0)]);
            assert!(causes.contains(&"kernel buffer overrun"), "{causes:?}");
        }
    }
}

/// A kernel event: its stamp, the thread that ran, the number of its message.
fn kernel(ns: i64, tid: i64, number: u32, message: Msg) -> Msg {
    msg().int(1, ns).int(2, tid).msg(number, message)
}

#[test]
fn the_kernels_counters_are_of_a_cpu_a_process_or_the_machine() {
    let mut file = Writer::new();
    // Thread 12 is of process 10.
    let rss =
        |own: i64, space: i64, bytes: i64| msg().int(1, 1).int(2, bytes).int(3, own).int(4, space);
    file.packet(msg().msg(
        1,
        bundle(&[
            kernel(100, 0, 11, msg().int(1, 2_400_000).int(2, 3)),
            kernel(110, 0, 12, msg().int(1, 5).int(2, 7).int(3, 3)),
            kernel(120, 12, 313, rss(1, 77, 4096)),
            // kswapd takes pages of that process, and of one that nobody named.
            kernel(130, 60, 313, rss(0, 77, 0)),
            kernel(140, 60, 313, rss(0, 78, 1)),
            kernel(150, 0, 322, msg().text(1, "ddr").int(2, 800)),
            kernel(160, 0, 341, msg().int(2, 41_000).text(4, "cpu")),
        ]),
    ));
    let trace = file.load();
    assert_eq!(
        counters(&trace),
        [
            ("clock_hz ddr", vec![800.0]),
            ("cpufreq_khz [CPU 3]", vec![2_400_000.0]),
            ("cpufreq_max_khz [CPU 3]", vec![7.0]),
            ("cpufreq_min_khz [CPU 3]", vec![5.0]),
            ("mem.rss.anon", vec![4096.0, 0.0]),
            ("thermal_mdegc cpu", vec![41_000.0]),
        ]
    );
    let of = |name: &str| {
        let named = |c: &&kasuri_model::Counter| trace.strings.get(c.name) == name;
        let counter = trace.counters.iter().find(named).unwrap();
        trace.processes[counter.process.ix()].pid
    };
    assert_eq!((of("mem.rss.anon"), of("cpufreq_khz [CPU 3]")), (10, 0));
    assert!(has(&trace, "1 changes of a process's memory by another"));
    assert!(!has(&trace, "7 kernel events of kinds that are not read"));
}

#[test]
fn marks_of_drivers_kprobes_and_functions_are_slices() {
    let mut file = Writer::new();
    let kprobe = |kind: i64| msg().text(1, "vfs_read").int(2, kind);
    let sde = |kind: char, value: i64| {
        let message = msg().int(1, 10).text(2, "commit").int(3, kind as i64);
        message.int(4, value)
    };
    file.packet(
        msg().msg(12, msg().msg(26, msg().int(1, 9).text(2, "do_idle"))).msg(
            1,
            msg()
                .msg(2, kernel(100, 11, 542, kprobe(1)))
                .msg(2, kernel(150, 11, 542, kprobe(3)))
                .msg(2, kernel(200, 11, 542, kprobe(2)))
                .msg(2, kernel(300, 11, 333, sde('B', 0)))
                .msg(2, kernel(310, 11, 333, sde('C', 5)))
                .msg(2, kernel(400, 11, 333, sde('E', 0)))
                .msg(2, kernel(500, 12, 437, msg().int(2, 9)))
                .msg(2, kernel(600, 12, 438, msg().int(3, 9)))
                .msg(2, kernel(700, 12, 437, msg().int(2, 0xabc)))
                .msg(2, kernel(800, 12, 438, msg())),
        ),
    );
    let trace = file.load();
    let found: Vec<_> = (slices(&trace).into_iter()).map(|s| (s.0, s.2, s.3, s.4)).collect();
    assert_eq!(
        found,
        [
            (11, "vfs_read", 100, 200),
            (11, "commit", 300, 400),
            (12, "do_idle", 500, 600),
            (12, "0xabc", 700, 800),
        ]
    );
    assert_eq!(trace.instants.time.len(), 1);
    assert_eq!(counters(&trace), [("commit", vec![5.0])]);
}

#[test]
fn the_machines_counters_are_read_from_proc_and_sys() {
    let pair = |key: i64, value: i64| msg().int(1, key).int(2, value);
    let mut file = Writer::new();
    let stats = msg()
        .msg(1, pair(1, 4))
        .msg(2, pair(49, 7))
        .msg(2, pair(5000, 1))
        .msg(3, msg().int(1, 2).int(2, 30).int(6, 40))
        .int(4, 11)
        .msg(10, msg().text(1, "ddr").int(2, 9))
        .int(11, 1000)
        .int(11, 2000)
        .msg(13, msg().text(1, "sda").int(2, 2))
        .msg(14, pair(3, 99))
        .msg(15, msg().text(1, "z0").int(2, 29).text(3, "x86_pkg_temp"))
        .msg(16, msg().int(1, 1).msg(2, msg().text(1, "C8").int(2, 5)))
        .int(17, 300);
    file.packet(msg().int(8, 100).msg(7, stats));
    let trace = file.load();
    assert_eq!(
        counters(&trace),
        [
            ("cpu_time.iowait_ns [CPU 2]", vec![40.0]),
            ("cpu_time.user_ns [CPU 2]", vec![30.0]),
            ("cpufreq_khz [CPU 0]", vec![1000.0]),
            ("cpufreq_khz [CPU 1]", vec![2000.0]),
            ("cpuidle.C8_us [CPU 1]", vec![5.0]),
            ("devfreq ddr", vec![9.0]),
            ("disk.read_bytes sda", vec![1024.0]),
            ("forks", vec![11.0]),
            ("gpufreq_mhz [GPU 0]", vec![300.0]),
            ("meminfo.mem_total", vec![4096.0]),
            ("pressure.io_some_ns", vec![99.0]),
            ("thermal_degc x86_pkg_temp", vec![29.0]),
            ("vmstat.5000", vec![1.0]),
            ("vmstat.pgfault", vec![7.0]),
        ]
    );
}

#[test]
fn what_the_recorder_lost_is_a_loss() {
    let cpu = |overrun: i64, dropped: i64| msg().int(1, 2).int(3, overrun).int(8, dropped);
    let mut file = Writer::new();
    file.at(100, named(INSTANT, 1, "x"));
    file.packet(msg().msg(34, msg().int(1, 1).msg(2, cpu(5, 1))));
    file.packet(msg().msg(34, msg().int(1, 2).msg(2, cpu(12, 1)).text(6, "sched/no_such")));
    let full = msg().int(13, 2048).int(3, 4).int(19, 3);
    file.packet(msg().msg(35, msg().msg(1, msg()).msg(1, full)));
    let trace = file.load();
    let lost: Vec<_> = (trace.losses.iter()).map(|l| (l.cause.as_str(), l.cpu, l.count)).collect();
    assert_eq!(
        lost,
        [
            ("kernel buffer overrun, counted by the kernel", Some(2), 7),
            ("buffer 1 of the recorder: packets that found no room", None, 3),
        ]
    );
    assert!(has(&trace, "buffer 1 of the recorder was too small for all"));
    assert!(has(
        &trace,
        "1 events that the recorder asked for, and the kernel does not have: sched/no_such"
    ));
}

#[test]
fn threads_of_another_kernel_run_where_it_says() {
    const RUNNING: i64 = 3;
    const SLEEPING: i64 = 4;
    let mut file = Writer::new();
    let mut state = |ns: i64, tid: i64, state: i64| {
        let task = msg().int(1, 1).text(2, "w").int(3, tid).int(4, state);
        file.packet(msg().int(8, ns).msg(117, task));
    };
    state(100, 50, 1);
    state(200, 50, RUNNING);
    state(300, 50, SLEEPING);
    state(350, 50, 2);
    state(400, 50, RUNNING);
    // Another runs without a word about the one before.
    state(500, 51, RUNNING);
    state(600, 1 << 40, RUNNING);
    state(700, 51, 7);
    // No CPU told this.
    file.packet(msg().int(8, 800).msg(117, msg().text(2, "w").int(3, 50).int(4, 7)));
    let trace = file.load();
    assert_eq!(
        occupancy(&trace).into_iter().filter(|&(_, tid)| tid > 0).collect::<Vec<_>>(),
        [(200, 50), (400, 50), (500, 51)]
    );
    let thread = trace.threads.iter().find(|t| t.tid == 50).unwrap();
    let rows = thread.states.start as usize..thread.states.end as usize;
    use kasuri_model::ThreadState::*;
    assert_eq!(
        &trace.states.state[rows],
        [RunnableWoken, Running, Sleeping, RunnableWoken, Running, Unknown]
    );
    assert!(has(&trace, "1 states of threads with an id above 2^31"));
}

#[test]
fn a_mark_that_begins_again_with_an_open_cookie_is_a_point() {
    let mut file = Writer::new();
    let text = |ns, words: &str| kernel(ns, 11, 3, msg().text(2, words));
    file.packet(msg().msg(
        1,
        bundle(&[
            text(100, "S|10|load|0\n"),
            text(110, "S|10|load|0\n"),
            text(130, "F|10|load|0\n"),
            text(130, "S|10|load|0\n"),
            text(150, "F|10|load|0\n"),
        ]),
    ));
    let trace = file.load();
    let found: Vec<_> = slices(&trace).into_iter().map(|s| (s.3, s.4)).collect();
    assert_eq!(found, [(100, 130), (130, 150)]);
    assert_eq!(trace.instants.time.len(), 1);
}
