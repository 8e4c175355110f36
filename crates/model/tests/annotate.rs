//! Golden annotation streams: the answers in the comments were worked out by hand. Nesting and lost ends, critical sections,
//! tasks that are suspended, stolen and joined, flows, counters, and the lock probe's events.
use SliceKind::*;
use kasuri_base::annotation::Kind;
use kasuri_model::input::{Annotation, Setup};
use kasuri_model::{
    AnnotationVec, ArgValue, Input, SliceKind, StrIx, Strings, TaskEdgeKind, Time, Trace, open,
};

/// Streams of one process (pid 1), one a thread; names are interned as they come.
#[derive(Default)]
struct Program {
    strings: Strings,
    streams: Vec<AnnotationVec>,
}

impl Program {
    fn stream(&mut self, tid: i32) -> &mut Program {
        self.streams.push(AnnotationVec { pid: 1, tid, ..AnnotationVec::default() });
        self
    }

    fn put(&mut self, ns: i64, kind: Kind, name: &str, aux: u16, a: u64, b: u64) -> &mut Program {
        let name = if name.is_empty() { StrIx::NONE } else { self.strings.intern(name) };
        let e = Annotation { time: Time(ns), kind: kind as u8, aux, name, a, b };
        self.streams.last_mut().expect("a stream").events.push(e);
        self
    }

    fn begin(&mut self, ns: i64, name: &str) -> &mut Program {
        self.put(ns, Kind::Begin, name, 0, 0, 0)
    }

    fn end(&mut self, ns: i64, name: &str) -> &mut Program {
        self.put(ns, Kind::End, name, 0, 0, 0)
    }

    fn load(&mut self) -> Trace {
        let setup = Setup { span: Time(0)..Time(1000), ..Setup::default() };
        let (strings, streams) =
            (std::mem::take(&mut self.strings), std::mem::take(&mut self.streams));
        let trace = Input { setup, strings, streams, cpus: Vec::new() }.build().unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        trace
    }
}

/// (tid, name, start, end, depth, open) of every slice.
fn slices(trace: &Trace) -> Vec<(i32, &str, i64, i64, u16, u8)> {
    let s = &trace.slices;
    (0..s.start.len())
        .map(|r| {
            let tid = trace.threads[s.thread[r].ix()].tid;
            (tid, trace.strings.get(s.name[r]), s.start[r].0, s.end[r].0, s.depth[r], s.open[r])
        })
        .collect()
}

#[test]
fn slices_nest_and_two_streams_of_a_thread_are_one() {
    // Two modules of one program annotate the same thread: their stamps interleave.
    let mut p = Program::default();
    p.stream(7).begin(10, "outer").end(90, "");
    p.stream(7).begin(20, "inner").end(30, "inner");
    let trace = p.load();
    assert_eq!(slices(&trace), [(7, "outer", 10, 90, 0, 0), (7, "inner", 20, 30, 1, 0)]);
    assert_eq!(trace.slices.parent[1].ix(), 0);
    assert_eq!(trace.threads[0].slice_levels, 2);
}

/// The OpenMP library's client and the program's own stamp the same thread within one tick of the clock.
#[test]
fn equal_stamps_of_two_clients_do_not_cross() {
    // The program's stream comes first, and second.
    for program_first in [true, false] {
        let mut p = Program::default();
        let program = |p: &mut Program| {
            p.stream(7)
                .begin(5, "region")
                .begin(10, "smvp")
                .end(20, "")
                .begin(20, "smvp")
                .end(30, "smvp")
                .end(40, "region");
        };
        let library = |p: &mut Program| {
            p.stream(7)
                .put(10, Kind::TaskStart, "one", 0, 1, 0)
                .put(20, Kind::TaskEnd, "", 0, 1, 0)
                .put(20, Kind::TaskStart, "two", 0, 2, 0)
                .put(30, Kind::TaskEnd, "", 0, 2, 0)
                .put(30, Kind::TaskStart, "three", 0, 3, 0)
                .put(40, Kind::TaskEnd, "", 0, 3, 0);
        };
        if program_first {
            program(&mut p);
            library(&mut p);
        } else {
            library(&mut p);
            program(&mut p);
        }
        let trace = p.load();
        assert_eq!(
            slices(&trace),
            [
                (7, "region", 5, 40, 0, 0),
                (7, "one", 10, 20, 1, 0),
                (7, "smvp", 10, 20, 2, 0),
                (7, "two", 20, 30, 1, 0),
                (7, "smvp", 20, 30, 2, 0),
                (7, "three", 30, 40, 1, 0),
            ],
            "the program's stream first: {program_first}"
        );
    }
}

/// Without tasks, threads are done one by one: there too an end comes before what begins, the innermost first.
#[test]
fn equal_stamps_without_tasks_do_not_cross() {
    for chunk_first in [true, false] {
        let mut p = Program::default();
        let chunks = |p: &mut Program| {
            p.stream(7).begin(10, "chunk").end(20, "chunk").begin(20, "chunk").end(30, "chunk");
        };
        let steps = |p: &mut Program| {
            p.stream(7).begin(12, "step").end(20, "step").begin(22, "step").end(30, "step");
        };
        if chunk_first {
            chunks(&mut p);
            steps(&mut p);
        } else {
            steps(&mut p);
            chunks(&mut p);
        }
        assert_eq!(
            slices(&p.load()),
            [
                (7, "chunk", 10, 20, 0, 0),
                (7, "step", 12, 20, 1, 0),
                (7, "chunk", 20, 30, 0, 0),
                (7, "step", 22, 30, 1, 0),
            ]
        );
    }
}

#[test]
fn ends_without_a_beginning_enclose_what_came_before() {
    // begin(a) begin(b) were before the recording; c is whole. b's end comes first: it is the inner one.
    let mut p = Program::default();
    p.stream(7).begin(10, "c").end(20, "c").end(30, "b").begin(40, "d").end(50, "d").end(60, "a");
    let trace = p.load();
    let start = trace.threads[0].alive.start.0;
    let (unseen, whole) = (open::BEGIN_UNSEEN, 0);
    assert_eq!(
        slices(&trace),
        [
            (7, "a", start, 60, 0, unseen),
            (7, "b", start, 30, 1, unseen),
            (7, "c", 10, 20, 2, whole),
            (7, "d", 40, 50, 1, whole)
        ]
    );
}

#[test]
fn unclosed_slices_last_until_the_thread_does() {
    let mut p = Program::default();
    p.stream(7).begin(10, "a").begin(20, "b").end(30, "b").begin(40, "c");
    let trace = p.load();
    let end = trace.threads[0].alive.end.0;
    let unseen = open::END_UNSEEN;
    assert_eq!(
        slices(&trace),
        [(7, "a", 10, end, 0, unseen), (7, "b", 20, 30, 1, 0), (7, "c", 40, end, 1, unseen)]
    );
}

#[test]
fn an_end_that_names_an_outer_slice_closes_what_is_inside() {
    let mut p = Program::default();
    p.stream(7).begin(10, "a").begin(20, "b").end(30, "a");
    assert_eq!(slices(&p.load()), [(7, "a", 10, 30, 0, 0), (7, "b", 20, 30, 1, open::END_UNSEEN)]);
}

#[test]
fn critical_sections_cross_work_on_levels_of_their_own() {
    // Lock X is held 15..35, across the end of work a and the beginning of b; Y 20..50 overlaps it.
    let mut p = Program::default();
    p.stream(7)
        .begin(10, "a")
        .put(12, Kind::LockRequest, "", 0, 0xa, 0)
        .put(15, Kind::LockAcquired, "", 0, 0xa, 0)
        .put(20, Kind::LockAcquired, "", 0, 0xb, 0)
        .end(25, "a")
        .begin(30, "b")
        .put(35, Kind::LockReleased, "", 0, 0xa, 0)
        .end(40, "b")
        .put(50, Kind::LockReleased, "", 0, 0xb, 0);
    let trace = p.load();
    assert_eq!(
        slices(&trace),
        [
            (7, "a", 10, 25, 0, 0),
            (7, "lock", 12, 15, 1, 0),
            (7, "lock", 15, 35, 2, 0),
            (7, "lock", 20, 50, 3, 0),
            (7, "b", 30, 40, 0, 0)
        ]
    );
    assert_eq!(trace.slices.kind, [Work, LockWait, LockHold, LockHold, Work]);
    assert_eq!(trace.slices.object, [0, 0xa, 0xa, 0xb, 0]);
}

#[test]
fn a_suspended_task_takes_its_open_slices_along() {
    let mut p = Program::default();
    p.stream(7)
        .begin(5, "worker")
        .put(8, Kind::TaskCreate, "fib", 0, 42, 0)
        .put(10, Kind::TaskStart, "", 0, 42, 0)
        .begin(12, "part")
        .put(20, Kind::TaskSuspend, "", 0, 42, 0)
        .end(25, "worker");
    p.stream(8).put(30, Kind::TaskResume, "", 0, 42, 0).end(35, "part").put(
        40,
        Kind::TaskEnd,
        "",
        0,
        42,
        0,
    );
    let trace = p.load();
    assert_eq!(
        slices(&trace),
        [
            (7, "worker", 5, 25, 0, 0),
            (7, "fib", 10, 20, 1, 0),
            (7, "part", 12, 20, 2, open::CONTINUES),
            (8, "fib", 30, 40, 0, 0),
            (8, "part", 30, 35, 1, open::CONTINUED)
        ]
    );
    let task = &trace.tasks[0];
    assert_eq!((task.created.0, task.started.0, task.ended.0), (8, 10, 40));
    let ran: Vec<bool> = trace.slices.task.iter().map(|t| t.is_some()).collect();
    assert_eq!(ran, [false, true, true, true, true]);
}

/// Task 1 is told to have folded tasks of two names, in parts; one of them is recorded after all, by another thread and before its
/// count is told. The first run of 1 says what is left. A count of a task that nobody created, or beyond all bounds, is a count.
#[test]
fn folded_tasks_are_counted() {
    const UNFOLDED: u16 = 2;
    let mut p = Program::default();
    p.stream(7)
        .put(10, Kind::TaskStart, "main", 0, 1, 0)
        .put(20, Kind::TaskFolded, "leaf", 0, 1, 5)
        .put(30, Kind::TaskSuspend, "sync", 0, 1, 0)
        .put(40, Kind::TaskResume, "", 0, 1, 0)
        .put(50, Kind::TaskFolded, "leaf", 0, 1, 3)
        .put(50, Kind::TaskFolded, "node", 0, 1, 1)
        .put(60, Kind::TaskEnd, "", 0, 1, 0)
        .put(70, Kind::TaskFolded, "leaf", 0, 9, u64::MAX)
        .put(71, Kind::TaskFolded, "node", 0, 9, u64::MAX)
        .put(72, Kind::TaskFolded, "node", 0, 9, u64::MAX);
    p.stream(8)
        .put(15, Kind::TaskCreate, "leaf", UNFOLDED, 2, 1)
        .put(15, Kind::TaskStart, "", 1, 2, 0)
        .put(18, Kind::TaskEnd, "", 0, 2, 0)
        .put(35, Kind::TaskCreate, "node", UNFOLDED, 3, 1);
    let trace = p.load();
    let folded = &trace.folded_tasks;
    let rows: Vec<(u64, &str, u64)> = (0..folded.task.len())
        .map(|row| {
            let task = &trace.tasks[folded.task[row].ix()];
            (task.id, trace.strings.get(folded.name[row]), folded.count[row])
        })
        .collect();
    let most = i64::MAX as u64;
    assert_eq!(rows, [(1, "leaf", 7), (9, "leaf", most), (9, "node", most)]);
    assert_eq!(folded.total(), u64::MAX);
    let args = &trace.args;
    assert_eq!(args.name.len(), 1);
    assert_eq!(trace.strings.get(args.name[0]), "leaf folded");
    assert_eq!(args.value[0], ArgValue::Uint(7));
    assert_eq!(trace.slices.start[args.slice[0].ix()], Time(10));
    assert_eq!(trace.tasks[1].parent, trace.slices.task[0]);
}

/// Task 2 runs as a call of 1, with a slice and a lock; 1 waits in it and goes on elsewhere, where task 3, which the call created
/// and which is no call, ran before the rest was stolen. The three go together, and what 2 does afterwards is its own.
#[test]
fn calls_go_where_their_task_goes() {
    const IN_PLACE: u16 = 2;
    let mut p = Program::default();
    p.stream(7)
        .put(10, Kind::TaskStart, "main", 0, 1, 0)
        .put(20, Kind::TaskCreate, "call", 0, 2, 1)
        .put(20, Kind::TaskStart, "", IN_PLACE, 2, 0)
        .begin(25, "phase")
        .put(30, Kind::TaskSuspend, "sync", 0, 1, 9);
    p.stream(8)
        .put(40, Kind::TaskResume, "", 0, 1, 0)
        .put(50, Kind::TaskCreate, "child", 0, 3, 2)
        .put(50, Kind::TaskStart, "", 0, 3, 0)
        .put(90, Kind::TaskEnd, "", 0, 3, 0);
    p.stream(9)
        .put(60, Kind::TaskResume, "steal", 0, 1, 0)
        .end(65, "phase")
        .put(70, Kind::TaskEnd, "", 0, 2, 0)
        .put(80, Kind::TaskEnd, "", 0, 1, 0);
    let trace = p.load();
    assert_eq!(
        slices(&trace),
        [
            (7, "main", 10, 30, 0, 0),
            (7, "call", 20, 30, 1, open::CONTINUES),
            (7, "phase", 25, 30, 2, open::CONTINUES),
            (8, "main", 40, 50, 0, 0),
            (8, "call", 40, 50, 1, open::CONTINUES),
            (8, "phase", 40, 50, 2, open::CONTINUED | open::CONTINUES),
            (8, "child", 50, 90, 3, 0),
            (9, "main", 60, 80, 0, 0),
            (9, "call", 60, 70, 1, 0),
            (9, "phase", 60, 65, 2, open::CONTINUED),
        ]
    );
}

/// Child first: task 1 creates 2 and runs it in its own place; the rest of 1 is stolen at 50. Nobody said at 20 that
/// 1 stopped, so its run there ends where the run of 2 began.
#[test]
fn a_stolen_continuation_ends_where_its_child_began() {
    let mut p = Program::default();
    p.stream(7)
        .put(10, Kind::TaskStart, "main", 0, 1, 0)
        .begin(12, "phase")
        .put(20, Kind::TaskCreate, "child", 0, 2, 1)
        .put(20, Kind::TaskStart, "", 0, 2, 0)
        .begin(55, "inside")
        .end(58, "inside")
        .put(60, Kind::TaskEnd, "", 0, 2, 0)
        .begin(70, "after")
        .end(75, "after");
    p.stream(8)
        .put(50, Kind::TaskResume, "steal", 0, 1, 0)
        .end(65, "phase")
        .put(66, Kind::TaskJoin, "", 0, 1, 2)
        .put(80, Kind::TaskEnd, "", 0, 1, 0);
    let trace = p.load();
    assert_eq!(
        slices(&trace),
        [
            (7, "main", 10, 20, 0, 0),
            (7, "phase", 12, 20, 1, open::CONTINUES),
            (7, "child", 20, 60, 2, 0),
            (7, "inside", 55, 58, 3, 0),
            (7, "after", 70, 75, 0, 0),
            (8, "main", 50, 80, 0, 0),
            (8, "phase", 50, 65, 1, open::CONTINUED),
        ]
    );
    let f = &trace.flows;
    let [main, child] = &trace.tasks[..] else { panic!("{:?}", trace.tasks) };
    let arrow = (f.from_time[0].0, f.to_time[0].0, trace.strings.get(f.name[0]));
    assert_eq!((f.id.len(), arrow), (1, (20, 50, "steal")));
    assert_eq!((child.joined.0, child.joiner.0, child.parent.0), (66, 0, 0));
    assert_eq!((main.joined, main.ended.0), (Time::MAX, 80));
}

/// Kind, task and the one it is on of each edge, by the rows of the tasks.
fn edges(trace: &Trace) -> Vec<(TaskEdgeKind, u32, u32)> {
    let e = &trace.task_edges;
    (0..e.kind.len()).map(|row| (e.kind[row], e.task[row].0, e.on[row].0)).collect()
}

/// The task's own row holds the first join; before, the second one was dropped.
#[test]
fn a_second_join_is_an_edge() {
    let mut p = Program::default();
    p.stream(7)
        .put(1, Kind::TaskCreate, "a", 0, 1, 0)
        .put(2, Kind::TaskCreate, "b", 0, 2, 0)
        .put(3, Kind::TaskCreate, "c", 0, 3, 0)
        .put(4, Kind::TaskStart, "", 0, 1, 0)
        .put(5, Kind::TaskEnd, "", 0, 1, 0)
        .put(6, Kind::TaskJoin, "", 0, 2, 1)
        .put(7, Kind::TaskJoin, "", 0, 3, 1)
        .put(8, Kind::TaskJoin, "", 0, 0, 1)
        .put(9, Kind::TaskJoin, "", 0, 3, 99);
    let trace = p.load();
    assert_eq!((trace.tasks[0].joined.0, trace.tasks[0].joiner.0), (6, 1));
    let none = kasuri_model::TaskIx::NONE.0;
    assert_eq!(edges(&trace), [(TaskEdgeKind::Join, 2, 0), (TaskEdgeKind::Join, none, 0)]);
    assert_eq!(trace.task_edges.n_unknown, 1, "no task has the id 99");
}

/// A wait whose object is the waiting task, as OpenMP's `taskwait`, joins what that task has created and nobody has joined.
#[test]
fn a_wait_of_a_task_for_itself_is_for_what_it_created() {
    const JOIN: u16 = 2;
    let mut p = Program::default();
    p.stream(7)
        .put(1, Kind::TaskCreate, "parent", 0, 1, 0)
        .put(2, Kind::TaskStart, "", 0, 1, 0)
        .put(3, Kind::TaskCreate, "first", 0, 2, 1)
        .put(4, Kind::TaskCreate, "second", 0, 3, 1)
        .put(5, Kind::TaskJoin, "", 0, 0, 3)
        .put(6, Kind::WaitBegin, "taskwait", JOIN, 1, 0)
        .put(7, Kind::TaskStart, "", 0, 2, 0)
        .put(8, Kind::TaskCreate, "grandchild", 0, 4, 2)
        .put(9, Kind::TaskEnd, "", 0, 2, 0)
        .put(10, Kind::WaitEnd, "", JOIN, 1, 0)
        .put(11, Kind::TaskCreate, "third", 0, 5, 1)
        .put(12, Kind::WaitBegin, "", JOIN, 77, 0)
        .put(13, Kind::WaitEnd, "", JOIN, 77, 0)
        .put(14, Kind::TaskCreate, "fourth", 0, 6, 1)
        .put(15, Kind::WaitBegin, "taskwait", JOIN, 1, 0)
        .put(16, Kind::WaitEnd, "", JOIN, 1, 0)
        .put(17, Kind::TaskCreate, "fifth", 0, 7, 1)
        .put(18, Kind::TaskEnd, "", 0, 1, 0);
    let trace = p.load();
    let joined: Vec<_> =
        (trace.tasks.iter()).map(|t| (trace.strings.get(t.name), t.joined, t.joiner.0)).collect();
    let none = kasuri_model::TaskIx::NONE.0;
    let expected = [
        ("parent", Time::MAX, none),
        ("first", Time(10), 0),
        ("second", Time(5), none),
        ("grandchild", Time::MAX, none),
        ("third", Time(16), 0),
        ("fourth", Time(16), 0),
        ("fifth", Time::MAX, none),
    ];
    assert_eq!(joined, expected);
}

/// A dependence may name a task that has ended, was joined, or is created later.
#[test]
fn a_dependence_names_the_task_created_last() {
    use TaskEdgeKind::Depends;
    let mut p = Program::default();
    p.stream(7)
        .put(1, Kind::TaskCreate, "a", 0, 1, 0)
        .put(2, Kind::TaskStart, "", 0, 1, 0)
        .put(3, Kind::TaskEnd, "", 0, 1, 0)
        .put(4, Kind::TaskJoin, "", 0, 0, 1)
        .put(5, Kind::TaskCreate, "b", 0, 2, 0)
        .put(6, Kind::TaskDepends, "", 0, 2, 1)
        .put(7, Kind::TaskDepends, "", 0, 2, 3)
        // The id 1 is used again: `c`, from 8 on.
        .put(8, Kind::TaskCreate, "c", 0, 1, 0)
        .put(9, Kind::TaskCreate, "d", 0, 3, 0)
        .put(10, Kind::TaskDepends, "", 0, 3, 1)
        .put(11, Kind::TaskDepends, "", 0, 3, 77)
        .put(12, Kind::TaskDepends, "", 0, 0, 1);
    let trace = p.load();
    let names: Vec<&str> = (trace.tasks.iter()).map(|t| trace.strings.get(t.name)).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(edges(&trace), [(Depends, 1, 0), (Depends, 1, 3), (Depends, 3, 2)]);
    assert_eq!(trace.task_edges.n_unknown, 2);
}

/// What has ended depends on nothing any more: the dependence is the next task's of that id, which is created after it.
#[test]
fn a_dependence_may_come_before_the_creation() {
    let mut p = Program::default();
    p.stream(7)
        .put(1, Kind::TaskCreate, "on", 0, 1, 0)
        .put(2, Kind::TaskCreate, "old", 0, 2, 0)
        .put(3, Kind::TaskStart, "", 0, 2, 0)
        .put(4, Kind::TaskEnd, "", 0, 2, 0)
        .put(5, Kind::TaskDepends, "", 0, 2, 1)
        .put(6, Kind::TaskCreate, "new", 0, 2, 0);
    let trace = p.load();
    assert_eq!(edges(&trace), [(TaskEdgeKind::Depends, 2, 0)]);
}

/// Help first: what was created on one thread and taken by another is an arrow from the one to the other.
#[test]
fn a_stolen_task_has_an_arrow() {
    let mut p = Program::default();
    p.stream(7)
        .put(10, Kind::TaskStart, "main", 0, 1, 0)
        .put(20, Kind::TaskCreate, "own", 0, 2, 1)
        .put(22, Kind::TaskCreate, "taken", 0, 3, 1)
        .put(24, Kind::TaskStart, "", 0, 2, 0)
        .put(26, Kind::TaskEnd, "", 0, 2, 0);
    p.stream(8).put(30, Kind::TaskStart, "", 1, 3, 0).put(40, Kind::TaskEnd, "", 0, 3, 0);
    let f = p.load().flows;
    let arrows: Vec<(u64, i64, i64)> =
        (0..f.id.len()).map(|r| (f.id[r], f.from_time[r].0, f.to_time[r].0)).collect();
    assert_eq!(arrows, [(3, 22, 30)]);
}

/// Two steals from one thread, outermost first; then what is left ends in its order.
#[test]
fn the_outermost_is_stolen_first() {
    let mut p = Program::default();
    p.stream(7);
    for task in 1..4 {
        let at = task as i64 * 10;
        p.put(at, Kind::TaskCreate, "t", 0, task, task - 1).put(
            at,
            Kind::TaskStart,
            "",
            0,
            task,
            0,
        );
    }
    p.put(60, Kind::TaskEnd, "", 0, 3, 0)
        .put(70, Kind::TaskCreate, "t", 0, 4, 0)
        .put(70, Kind::TaskStart, "", 0, 4, 0)
        .put(80, Kind::TaskEnd, "", 0, 4, 0);
    p.stream(8).put(40, Kind::TaskResume, "steal", 0, 1, 0).put(45, Kind::TaskEnd, "", 0, 1, 0);
    p.stream(9).put(50, Kind::TaskResume, "steal", 0, 2, 0).put(55, Kind::TaskEnd, "", 0, 2, 0);
    assert_eq!(
        slices(&p.load()),
        [
            (7, "t", 10, 20, 0, 0),
            (7, "t", 20, 30, 1, 0),
            (7, "t", 30, 60, 2, 0),
            (7, "t", 70, 80, 0, 0),
            (8, "t", 40, 45, 0, 0),
            (9, "t", 50, 55, 0, 0),
        ]
    );
}

#[test]
fn a_task_id_used_again_is_another_task() {
    let mut p = Program::default();
    p.stream(7);
    for start in [10, 110] {
        p.put(start, Kind::TaskCreate, "t", 0, 42, 0).put(start + 5, Kind::TaskStart, "", 0, 42, 0);
        p.put(start + 9, Kind::TaskEnd, "", 0, 42, 0);
    }
    let trace = p.load();
    let lives: Vec<(i64, i64, i64)> =
        trace.tasks.iter().map(|t| (t.created.0, t.started.0, t.ended.0)).collect();
    assert_eq!(lives, [(10, 15, 19), (110, 115, 119)]);
}

/// (created, started, ended) of each task.
fn lives(trace: &Trace) -> Vec<(i64, i64, i64)> {
    let life = |t: &kasuri_model::Task| (t.created.0, t.started.0, t.ended.0);
    trace.tasks.iter().map(life).collect()
}

/// Stamps of two threads may be equal, so a task may be seen running before its creation: the two are one task.
#[test]
fn a_creation_after_the_start_is_that_tasks_until_it_has_ended() {
    let mut p = Program::default();
    p.stream(7).put(20, Kind::TaskCreate, "t", 0, 42, 0).put(60, Kind::TaskCreate, "u", 0, 42, 0);
    p.stream(8).put(15, Kind::TaskStart, "", 0, 42, 0).put(40, Kind::TaskEnd, "", 0, 42, 0);
    assert_eq!(lives(&p.load()), [(20, 15, 40), (60, i64::MAX, i64::MAX)]);

    // It has ended when its id is created: the creation is of the next task with this id.
    let mut p = Program::default();
    p.stream(8).put(15, Kind::TaskStart, "t", 0, 42, 0).put(40, Kind::TaskEnd, "", 0, 42, 0);
    p.stream(7).put(50, Kind::TaskCreate, "u", 0, 42, 0);
    let first = (i64::MIN, 15, 40);
    assert_eq!(lives(&p.load()), [first, (50, i64::MAX, i64::MAX)]);

    // It was created already and never ran: the id is another task's now.
    let mut p = Program::default();
    p.stream(7)
        .put(10, Kind::TaskCreate, "t", 0, 42, 0)
        .put(20, Kind::TaskCreate, "u", 0, 42, 0)
        .put(30, Kind::TaskStart, "", 0, 42, 0);
    let never = (10, i64::MAX, i64::MAX);
    assert_eq!(lives(&p.load()), [never, (20, 30, i64::MAX)]);
}

/// A process that turns out to have tasks is read a second time: what was found the first time must not count twice.
#[test]
fn a_process_with_tasks_has_its_locks_counters_and_flows_once() {
    let mut p = Program::default();
    p.stream(7)
        .put(5, Kind::LockDefine, "queue", 0xff, 0xa0, 0)
        .put(10, Kind::Counter, "n", 0, 2f64.to_bits(), 0)
        .put(11, Kind::LockRequest, "worker", 0, 0xa0, 8)
        .put(15, Kind::LockAcquired, "", 0, 0xa0, 0)
        .put(16, Kind::LockLeft, "", 0, 0xa0, 0)
        .put(17, Kind::LockCount, "", 0, 0xa0, 32)
        .put(18, Kind::FlowOut, "f", 0, 1, 0)
        .put(20, Kind::Instant, "tick", 0, 0, 0)
        .put(30, Kind::TaskCreate, "t", 0, 42, 0)
        .put(40, Kind::TaskStart, "", 0, 42, 0)
        .put(50, Kind::TaskEnd, "", 0, 42, 0);
    p.stream(8).put(60, Kind::FlowIn, "", 0, 1, 0);
    let trace = p.load();
    assert_eq!((trace.locks.len(), trace.lock_waits.start.len()), (1, 1));
    assert_eq!((trace.lock_counts.n.len(), trace.flows.id.len()), (1, 1));
    assert_eq!((trace.instants.time.len(), trace.tasks.len()), (1, 1));
    assert_eq!(trace.counters[0].value, [2.0]);
}

/// Exports draw one arrow for each flow, and one from a task's creation to its first run, if both were seen.
#[test]
fn arrows_are_flows_and_then_tasks_whose_creation_and_first_run_were_seen() {
    let mut p = Program::default();
    p.stream(7)
        .put(10, Kind::FlowOut, "f", 0, 1, 0)
        .put(20, Kind::TaskCreate, "early", 0, 41, 0)
        .put(22, Kind::TaskCreate, "never", 0, 42, 0)
        .put(24, Kind::TaskCreate, "split", 0, 43, 0)
        .put(60, Kind::FlowOut, "g", 0, 1, 0);
    p.stream(8)
        .put(15, Kind::FlowIn, "", 0, 1, 0)
        .put(30, Kind::TaskStart, "unseen", 0, 40, 0)
        .put(35, Kind::TaskEnd, "", 0, 40, 0)
        .put(36, Kind::TaskDepends, "", 0, 43, 40)
        .put(37, Kind::TaskDepends, "", 0, 42, 40)
        .put(38, Kind::TaskDepends, "", 0, 40, 43)
        .put(40, Kind::TaskStart, "", 0, 43, 0)
        .put(45, Kind::TaskSuspend, "", 0, 43, 0)
        .put(50, Kind::TaskStart, "", 0, 41, 0)
        .put(55, Kind::TaskEnd, "", 0, 41, 0)
        .put(65, Kind::FlowIn, "", 0, 1, 0)
        .put(70, Kind::TaskResume, "", 0, 43, 0)
        .put(75, Kind::TaskEnd, "", 0, 43, 0);
    let trace = p.load();
    let tid = |thread: kasuri_model::ThreadIx| trace.threads[thread.ix()].tid;
    let arrows: Vec<_> = kasuri_model::arrow::arrows(&trace).collect();
    let ends: Vec<_> = arrows
        .iter()
        .map(|a| (trace.strings.get(a.name), a.from.0.0, tid(a.from.1), a.to.0.0, tid(a.to.1)))
        .collect();
    assert_eq!(
        ends,
        [
            ("f", 10, 7, 15, 8),
            ("g", 60, 7, 65, 8),
            ("early", 20, 7, 50, 8),
            ("split", 24, 7, 40, 8),
            // Not: "never" did not run, and "unseen" began before "split" had ended.
            ("unseen", 35, 8, 40, 8),
        ]
    );
    let mut ids: Vec<u64> = arrows.iter().map(|a| a.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5, "formats pair the ends by id, though the program used 1 twice");
}

#[test]
fn flows_join_in_order_of_time() {
    // Id 1 twice: the k-th head takes the k-th tail. Id 2's head has no tail before it.
    let mut p = Program::default();
    p.stream(7).put(10, Kind::FlowOut, "f", 0, 1, 0).put(20, Kind::FlowOut, "f", 0, 1, 0).put(
        60,
        Kind::FlowOut,
        "",
        0,
        2,
        0,
    );
    p.stream(8).put(30, Kind::FlowIn, "", 0, 1, 0).put(40, Kind::FlowIn, "", 0, 1, 0).put(
        50,
        Kind::FlowIn,
        "",
        0,
        2,
        0,
    );
    let f = p.load().flows;
    let arrows: Vec<(u64, i64, i64)> =
        (0..f.id.len()).map(|r| (f.id[r], f.from_time[r].0, f.to_time[r].0)).collect();
    assert_eq!(arrows, [(1, 10, 30), (1, 20, 40)]);
}

#[test]
fn arguments_belong_to_the_innermost_slice_or_a_newer_instant() {
    let mut p = Program::default();
    p.stream(7)
        .begin(10, "a")
        .put(11, Kind::Arg, "n", 1, -5i64 as u64, 0)
        .put(12, Kind::Instant, "tick", 0, 0, 0)
        .put(13, Kind::Arg, "m", 2, 6, 0)
        .begin(14, "b")
        .put(15, Kind::Arg, "k", 3, 0.5f64.to_bits(), 0)
        .end(16, "b")
        .put(17, Kind::Arg, "o", 2, 8, 0);
    let trace = p.load();
    let args = &trace.args;
    assert_eq!(
        args.value,
        [ArgValue::Int(-5), ArgValue::Uint(8), ArgValue::Float(0.5), ArgValue::Uint(6)]
    );
    let slices: Vec<u32> = args.slice.iter().map(|s| s.0).collect();
    assert_eq!(slices, [0, 0, 1, u32::MAX]);
    assert_eq!(args.instant[3].0, 0);
}

/// The message of kasuri-annotate's runtime, with its arguments; `site`: the interned name.
fn says_off(p: &mut Program, ns: i64, site: &str, mean_ns: u64, is_before: bool) {
    let name = u64::from(p.strings.intern(site).0);
    p.put(ns, Kind::Message, "a text", 0, 0, 0)
        .put(ns + 1, Kind::Arg, "kasuri.switched_off", 4, name, 0)
        .put(ns + 2, Kind::Arg, "kasuri.mean_ns", 2, mean_ns, 0)
        .put(ns + 3, Kind::Arg, "kasuri.is_before", 2, u64::from(is_before), 0);
}

#[test]
fn what_switched_itself_off_is_known_once() {
    let mut p = Program::default();
    p.stream(7).begin(10, "f").end(12, "f");
    says_off(&mut p, 20, "f", 212, false);
    p.stream(8);
    says_off(&mut p, 30, "g.loop3", 90, true);
    // Another thread says it again; and an argument of this name that is a number, or of a slice, says nothing.
    says_off(&mut p, 40, "f", 300, false);
    p.put(50, Kind::Instant, "tick", 0, 0, 0)
        .put(51, Kind::Arg, "kasuri.switched_off", 2, 3, 0)
        .begin(60, "h")
        .put(61, Kind::Arg, "kasuri.switched_off", 4, 0, 0)
        .end(62, "h");
    let trace = p.load();
    let off: Vec<_> = kasuri_model::switched_off::switched_off(&trace)
        .iter()
        .map(|o| (trace.strings.get(o.name).to_string(), o.mean_ns, o.at.map(Time::ns)))
        .collect();
    assert_eq!(off, [("f".into(), 212, Some(20)), ("g.loop3".into(), 90, None)]);
    let missing = trace.missing();
    assert_eq!(missing.len(), 1);
    assert!(missing[0].contains(": f, g.loop3;"), "{missing:?}");
    assert_eq!(Program::default().load().missing(), Vec::<String>::new(), "nothing is off");
}

#[test]
fn counters_of_two_threads_are_one_in_order_of_time() {
    let mut p = Program::default();
    p.stream(7).put(30, Kind::Counter, "queue", 0, 3f64.to_bits(), 0);
    p.stream(8).put(20, Kind::Counter, "queue", 0, 2f64.to_bits(), 0);
    let trace = p.load();
    assert_eq!(trace.counters.len(), 1);
    assert_eq!(trace.counters[0].value, [2.0, 3.0]);
}

/// Of two threads: the locks' slices, by (tid, kind, name, start, end).
fn lock_slices(trace: &Trace) -> Vec<(i32, SliceKind, &str, i64, i64)> {
    let s = &trace.slices;
    (0..s.start.len())
        .map(|row| {
            let tid = trace.threads[s.thread[row].ix()].tid;
            let name = trace.strings.get(s.name[row]);
            (tid, s.kind[row], name, s.start[row].0, s.end[row].0)
        })
        .collect()
}

#[test]
fn probed_locks_have_names_waits_and_lives() {
    let mut p = Program::default();
    // Thread 1: free at the first try, named by a symbol; released by mistake once more: no hold comes of it.
    p.stream(1)
        .put(10, Kind::LockDefine, "main", 1 | 0x100, 0xa0, 0)
        .put(10, Kind::LockDefine, "queue", 0xff, 0xa0, 0)
        .put(11, Kind::LockTaken, "", 0, 0xa0, 0)
        .put(50, Kind::LockLeft, "", 0, 0xa0, 0)
        .put(60, Kind::LockLeft, "", 0, 0xa0, 0)
        // A second life at the same address: a spin lock that has no symbol.
        .put(500, Kind::LockDefine, "init", 6, 0xa0, 0)
        .put(510, Kind::LockCount, "", 0, 0xa0, 32)
        .put(510, Kind::LockTaken, "", 0, 0xa0, 0)
        .put(520, Kind::LockLeft, "", 0, 0xa0, 0);
    // Thread 2 waits for thread 1; then asks in vain.
    p.stream(2)
        .put(20, Kind::LockRequest, "worker", 0, 0xa0, 1)
        .put(55, Kind::LockAcquired, "", 0, 0xa0, 0)
        .put(70, Kind::LockLeft, "", 0, 0xa0, 0)
        .put(80, Kind::LockRequest, "worker", 0, 0xa0, 0)
        .put(90, Kind::LockGivenUp, "", 0, 0xa0, 0);
    let trace = p.load();
    assert_eq!(
        lock_slices(&trace),
        [
            (1, LockHold, "queue", 11, 50),
            (1, LockHold, "spin lock at init", 510, 520),
            (2, LockWait, "queue", 20, 55),
            (2, LockHold, "queue", 55, 70),
            (2, LockWait, "queue", 80, 90),
        ]
    );
    let locks: Vec<_> =
        trace.locks.iter().map(|l| (l.object, l.since.0, l.kind, l.robust)).collect();
    use kasuri_model::LockKind::{Mutex, Spin};
    assert_eq!(locks, [(0xa0, 10, Mutex, true), (0xa0, 500, Spin, false)]);
    let process = trace.locks[0].process;
    let at = |ns| trace.lock_of(process, 0xa0, Time(ns)).map(|ix| ix.0);
    assert_eq!([at(5), at(499), at(500)], [Some(0), Some(0), Some(1)]);
    assert_eq!(trace.lock_of(process, 0xa1, Time(50)), None);
    let w = &trace.lock_waits;
    let site = |row: usize| trace.strings.get(w.site[row]);
    assert_eq!((w.start.len(), site(0), w.holder[0]), (2, "worker", 1));
    let c = &trace.lock_counts;
    assert_eq!((&c.n[..], c.time[0]), (&[32][..], Time(510)));
}

/// A task of thread 1 takes the lock at 20, is suspended from 30 to 60 and comes back on thread 2, which gives it back at 70;
/// meanwhile thread 1 runs another task that asks at 35 and has it from 75 on.
#[test]
fn a_suspended_task_takes_its_hold_and_its_wait_along() {
    let lock = 0xa0;
    let mut p = Program::default();
    p.stream(1)
        .put(5, Kind::TaskCreate, "first", 0, 1, 0)
        .put(6, Kind::TaskCreate, "second", 0, 2, 0)
        .put(10, Kind::TaskStart, "", 0, 1, 0)
        .put(20, Kind::LockTaken, "", 0, lock, 0)
        .put(30, Kind::TaskSuspend, "", 0, 1, 0)
        .put(32, Kind::TaskStart, "", 0, 2, 0)
        .put(35, Kind::LockRequest, "", 0, lock, 0)
        .put(40, Kind::TaskSuspend, "", 0, 2, lock)
        .put(72, Kind::TaskResume, "", 0, 2, 0)
        .put(75, Kind::LockAcquired, "", 0, lock, 0)
        .put(80, Kind::LockLeft, "", 0, lock, 0)
        .put(90, Kind::TaskEnd, "", 0, 2, 0);
    p.stream(2).put(60, Kind::TaskResume, "", 0, 1, 0).put(70, Kind::LockLeft, "", 0, lock, 0).put(
        85,
        Kind::TaskEnd,
        "",
        0,
        1,
        0,
    );
    let trace = p.load();
    let mut found = lock_slices(&trace);
    found.retain(|s| s.1 != TaskRun);
    assert_eq!(
        found,
        [
            (1, LockHold, "lock", 20, 30),
            (1, LockWait, "lock", 35, 40),
            (1, LockWait, "lock", 72, 75),
            (1, LockHold, "lock", 75, 80),
            (2, LockHold, "lock", 60, 70),
        ]
    );
    let s = &trace.slices;
    let bits = |kind| -> Vec<u8> {
        let rows = (0..s.start.len()).filter(|&r| s.kind[r] == kind);
        rows.map(|r| s.open[r]).collect()
    };
    assert_eq!(bits(LockHold), [open::CONTINUES, 0, open::CONTINUED]);
    assert_eq!(bits(LockWait), [open::CONTINUES, open::CONTINUED]);
}

/// Calls of a probed lock function on one CPU. The shortest of them, 10 ns, is what the probes cost: it is taken off the others,
/// and what is left is a wait when it is longer than that.
#[test]
fn probed_functions_are_locks_without_the_price_of_the_probes() {
    use kasuri_model::input::{Event, LockStep, What};
    let mut strings = Strings::default();
    let name = strings.intern("take");
    let call = |ns, step, object| Event {
        time: Time(ns),
        context: 7,
        in_interrupt: false,
        what: What::LockCall { step, function: 0, object, name },
    };
    let cpu = vec![
        call(100, LockStep::Acquired, 1), // began before the recording
        call(110, LockStep::Request, 0xa0),
        call(120, LockStep::Acquired, 1),
        call(150, LockStep::Released, 0xa0),
        call(200, LockStep::Request, 0xa0),
        call(300, LockStep::Acquired, 1),
        call(310, LockStep::Request, 0xb0), // inside the other
        call(328, LockStep::Acquired, 1),
        call(340, LockStep::Released, 0xb0),
        call(350, LockStep::Released, 0xa0),
    ];
    let setup =
        Setup { span: Time(0)..Time(1000), n_cpus: 1, recorded: vec![0], ..Setup::default() };
    let input = Input { setup, strings, cpus: vec![cpu], streams: Vec::new() };
    let trace = input.build().unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let expected = "lock at take";
    assert_eq!(
        lock_slices(&trace),
        [
            (7, LockHold, expected, 120, 150),
            (7, LockWait, expected, 210, 300),
            (7, LockHold, expected, 300, 350),
            (7, LockHold, expected, 328, 340),
        ]
    );
    let sources: Vec<_> = trace.locks.iter().map(|l| (l.object, l.source)).collect();
    let uprobe = kasuri_model::types::LockSource::Uprobe;
    assert_eq!(sources, [(0xa0, uprobe), (0xb0, uprobe)]);
}

/// A condition waited for in turns of 5 ms: (start, end) of its slices, with their kind and name.
fn waits(trace: &Trace) -> Vec<(i64, i64, SliceKind, &str)> {
    let s = &trace.slices;
    let rows = (0..s.start.len()).filter(|&r| s.kind[r] != LockHold);
    rows.map(|r| {
        let name = trace.strings.get(s.name[r]);
        (s.start[r].ns(), s.end[r].ns(), s.kind[r], name)
    })
    .collect()
}

/// The waits of one thread for the condition 0xc of the mutex 0xa: (begin, end, whether the time limit ended it); as the probe
/// writes them. `mutex`: the mutex's symbol.
fn timed_waits(mutex: &str, turns: &[(i64, i64, bool)]) -> Trace {
    let symbol = kasuri_base::annotation::lock_type::SYMBOL;
    let mut p = Program::default();
    p.stream(1).put(5, Kind::LockDefine, "x", 1, 0xa, 0);
    p.put(5, Kind::LockDefine, mutex, symbol, 0xa, 0);
    p.put(5, Kind::LockTaken, "", 0, 0xa, 0);
    for &(begin, end, timed_out) in turns {
        p.put(begin, Kind::LockLeft, "", 0, 0xa, 0);
        p.put(begin, Kind::WaitBegin, "take", 3, 0xc, 0xa);
        p.put(end, Kind::WaitEnd, "", 3, 0xc, u64::from(timed_out));
        p.put(end, Kind::LockTaken, "", 0, 0xa, 0);
    }
    p.load()
}

#[test]
fn a_wait_whose_time_limit_ends_it_and_that_goes_on_is_one() {
    let trace = timed_waits("m", &[(10, 20, true), (21, 30, true), (32, 40, false)]);
    assert_eq!(waits(&trace), [(10, 40, Cond, "take")]);
    // Signalled: the next wait is another one.
    let trace = timed_waits("m", &[(10, 20, false), (21, 30, false)]);
    assert_eq!(waits(&trace), [(10, 20, Cond, "take"), (21, 30, Cond, "take")]);
}

#[test]
fn a_wait_after_other_work_is_another() {
    let mut p = Program::default();
    p.stream(1).put(10, Kind::WaitBegin, "take", 3, 0xc, 0xa);
    p.put(20, Kind::WaitEnd, "", 3, 0xc, 1);
    p.begin(21, "work").end(22, "work");
    p.put(23, Kind::WaitBegin, "take", 3, 0xc, 0xa);
    p.put(30, Kind::WaitEnd, "", 3, 0xc, 1);
    // Another condition.
    p.put(31, Kind::WaitBegin, "take", 3, 0xd, 0xa);
    p.put(40, Kind::WaitEnd, "", 3, 0xd, 0);
    let found: Vec<_> = waits(&p.load()).iter().map(|w| (w.0, w.1)).collect();
    assert_eq!(found, [(10, 20), (21, 22), (23, 30), (31, 40)]);
}

#[test]
fn pythons_condition_is_the_gil() {
    let turns = [(10, 20, true), (21, 30, false)];
    for mutex in ["_PyRuntime", "_PyRuntime+440"] {
        let trace = timed_waits(mutex, &turns);
        assert_eq!(waits(&trace), [(10, 30, LockWait, "GIL (_PyRuntime)")]);
        let gil = trace.lock_of(trace.threads[0].process, 0xc, Time(10));
        let gil = &trace.locks[gil.unwrap().ix()];
        assert_eq!(trace.strings.get(gil.name), "GIL (_PyRuntime)");
    }
    let trace = timed_waits("_PyRuntimeless", &turns);
    assert_eq!(waits(&trace), [(10, 30, Cond, "take")]);
}

/// Two threads wait twice at a barrier (object 7). The second wait of thread 2 begins at 50; thread 1 comes at 60, and goes on
/// at 61: so did thread 2, which wrote nothing. A wait at another barrier (8) that nobody leaves lasts to the end, and so does
/// one after which no other thread went on (9).
#[test]
fn a_barrier_lets_go_a_thread_that_does_not_say_so() {
    const BARRIER: u16 = 1;
    let mut p = Program::default();
    p.stream(1);
    for (from, to) in [(10, 21), (60, 61)] {
        p.put(from, Kind::WaitBegin, "", BARRIER, 7, 0);
        p.put(to, Kind::WaitEnd, "", BARRIER, 7, 0);
    }
    p.put(70, Kind::WaitBegin, "", BARRIER, 9, 0);
    p.put(80, Kind::WaitEnd, "", BARRIER, 9, 0);
    p.stream(2);
    p.put(20, Kind::WaitBegin, "", BARRIER, 7, 0);
    p.put(22, Kind::WaitEnd, "", BARRIER, 7, 0);
    p.put(50, Kind::WaitBegin, "", BARRIER, 7, 0);
    p.stream(3).put(40, Kind::WaitBegin, "", BARRIER, 8, 0);
    p.stream(4).put(90, Kind::WaitBegin, "", BARRIER, 9, 0);
    let trace = p.load();
    let unseen = open::END_UNSEEN;
    let name = "barrier";
    assert_eq!(
        slices(&trace),
        [
            (1, name, 10, 21, 0, 0),
            (1, name, 60, 61, 0, 0),
            (1, name, 70, 80, 0, 0),
            (2, name, 20, 22, 0, 0),
            (2, name, 50, 61, 0, unseen),
            (3, name, 40, 1000, 0, unseen),
            (4, name, 90, 1000, 0, unseen),
        ]
    );
}

/// Probes on one CPU, of threads 7 and 8.
fn probed() -> Trace {
    use kasuri_base::annotation::ArgType;
    use kasuri_base::usdt::Side::{self, Begin, End, Point};
    use kasuri_model::input::{Event, What};
    let mut strings = Strings::default();
    let mut intern = |text: &str| strings.intern(text);
    // Of each pair: the slice's name, its beginning's and its end's own.
    let names: Vec<[kasuri_model::StrIx; 3]> = ["gc", "call", "job", "late"]
        .iter()
        .map(|n| [intern(n), intern(&format!("{n}_start")), intern(&format!("{n}_done"))])
        .collect();
    let arg = intern("arg1");
    let event = |ns, context, what| Event { time: Time(ns), context, in_interrupt: false, what };
    let probe = |ns, tid, side: Side, pair: u16| {
        let [name, begin, end] = names[usize::from(pair)];
        let probe = if side == End { end } else { begin };
        let what = What::Probe { side, pair, name, probe };
        event(ns, tid, what)
    };
    let value = |ns, tid, value| {
        let what = What::ProbeArg { kind: ArgType::U64, name: arg, value };
        event(ns, tid, what)
    };
    let cpu = vec![
        probe(100, 7, Begin, 0),
        value(100, 7, 1),
        probe(110, 7, Begin, 1), // left by an exception
        probe(120, 7, Point, 3),
        value(120, 7, 2),
        probe(130, 7, End, 0),
        value(130, 7, 3),
        probe(140, 7, Begin, 2), // ends on the other thread
        probe(150, 8, End, 2),
        value(150, 8, 4),
        probe(160, 8, Begin, 3), // still open at the end
    ];
    let setup =
        Setup { span: Time(0)..Time(1000), n_cpus: 1, recorded: vec![0], ..Setup::default() };
    let input = Input { setup, strings, cpus: vec![cpu], streams: Vec::new() };
    input.build().unwrap()
}

/// (thread, slice, start, end), and the instants.
#[test]
fn pairs_of_probes_are_slices_and_what_moves_between_threads_is_not() {
    let trace = probed();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    // Arguments are no events of their own, and the program made no annotation.
    assert_eq!((trace.n_kernel_events, trace.n_annotation_events), (7, 0));
    let name = |ix| trace.strings.get(ix);
    let s = &trace.slices;
    let slices: Vec<_> = (0..s.start.len())
        .map(|ix| {
            let tid = trace.threads[s.thread[ix].ix()].tid;
            (tid, name(s.name[ix]), s.start[ix].ns(), s.end[ix].ns())
        })
        .collect();
    let expected = [(7, "gc", 100, 130), (7, "call", 110, 130), (8, "late", 160, 1000)];
    assert_eq!(slices, expected);
    let i = &trace.instants;
    let instants: Vec<_> =
        (0..i.time.len()).map(|ix| (i.time[ix].ns(), name(i.name[ix]))).collect();
    let expected = [(120, "late_start"), (140, "job_start"), (150, "job_done")];
    assert_eq!(instants, expected);
}

#[test]
fn arguments_of_probes_are_those_of_their_slices_and_marks() {
    let trace = probed();
    let a = &trace.args;
    let args: Vec<_> = (0..a.name.len()).map(|ix| (a.slice[ix].is_some(), a.value[ix])).collect();
    let expected = [(false, 2), (false, 4), (true, 1), (true, 3)];
    let mut found: Vec<(bool, u64)> = args
        .into_iter()
        .map(|(of_slice, value)| match value {
            kasuri_model::ArgValue::Uint(n) => (of_slice, n),
            other => panic!("{other:?}"),
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}
