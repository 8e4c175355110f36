//! Random traces, sensible and not: the account adds up, and its parts do.
//!
//! The events need not fit together: threads run on two CPUs at once, ends come before beginnings, stamps are near the ends of
//! i64. No answer can be compared, but sums must hold for any trace: CPUs' time to the capacity, a thread's
//! classes to the time it was alive, the accounts of parts to that of the whole.
use super::story::{by_cause, nonzero};
use kasuri_analyze::Options;
use kasuri_analyze::account::{Account, Class};
use kasuri_analyze::call_paths::{FlameOptions, TimeOf, flame, thread_times};
use kasuri_model::input::{Annotation, Event, Setup, What};
use kasuri_model::{
    AnnotationVec, Input, PathIx, SampleKind, StrIx, Strings, ThreadIx, ThreadState, Time, Trace,
};
use proptest::prelude::*;
use std::ops::Range;

fn what() -> impl Strategy<Value = What> {
    let tid = 0i32..6;
    let state = prop::sample::select(vec![
        ThreadState::Sleeping,
        ThreadState::DiskSleep,
        ThreadState::RunnablePreempted,
        ThreadState::Stopped,
        ThreadState::Dead,
    ]);
    let name = StrIx(0);
    prop_oneof![
        8 => (tid.clone(), state.clone(), tid.clone()).prop_map(move |(prev, left_as, next)| What::Switch { prev, prev_comm: name, left_as, next, next_comm: name }),
        6 => (tid.clone(), -1i32..4).prop_map(move |(tid, cpu)| What::Waking { tid, comm: name, cpu, in_softirq: cpu == 1 }),
        2 => (tid.clone(), 0u16..4, 0u16..4).prop_map(|(tid, from, to)| What::Migrate { tid, from, to }),
        2 => (tid.clone(), tid.clone(), any::<Option<bool>>()).prop_map(move |(parent, child, same_process)| What::Fork { parent, child, comm: name, pid: None, same_process }),
        1 => (tid.clone(), any::<bool>()).prop_map(|(tid, at_once)| What::Exit { tid, at_once }),
        1 => Just(What::Lost),
        1 => tid.clone().prop_map(|tid| What::In { tid }),
        1 => (tid, state).prop_map(|(tid, left_as)| What::Out { tid, left_as }),
        2 => prop_oneof![Just(What::IrqEntry { name: StrIx(1) }), Just(What::IrqExit), Just(What::SyscallEntry { name: StrIx(2) }), Just(What::SyscallExit)],
    ]
}

/// Stamps as a damaged or hostile file may claim them, among sensible ones.
fn hostile_time() -> impl Strategy<Value = i64> {
    let near = |x: i64| (-3i64..4).prop_map(move |d| x.saturating_add(d));
    prop_oneof![
        4 => 0i64..200,
        1 => near(i64::MAX),
        1 => near(i64::MIN),
        1 => near(1 << 62),
        1 => near(-(1 << 62)),
        1 => near(1 << 56),
        1 => any::<i64>(),
    ]
}

pub fn cpus(time: impl Strategy<Value = i64>) -> impl Strategy<Value = Vec<Vec<Event>>> {
    let event =
        (time, -1i32..6, any::<bool>(), what()).prop_map(|(ns, context, in_interrupt, what)| {
            Event { time: Time(ns), context, in_interrupt, what }
        });
    let cpu = prop::collection::vec(event, 0..80).prop_map(|mut events: Vec<Event>| {
        events.sort_by_key(|e| e.time);
        events
    });
    prop::collection::vec(cpu, 1..5)
}

pub fn streams(
    time: impl Strategy<Value = i64>,
    kinds: std::ops::Range<u8>,
) -> impl Strategy<Value = Vec<AnnotationVec>> {
    let event = (time, kinds, 0u16..6, 0u32..5, 0u64..3).prop_map(|(ns, kind, aux, name, a)| {
        Annotation { time: Time(ns), kind, aux, name: StrIx(name), a, b: 0 }
    });
    let stream = (1i32..3, 1i32..6, prop::collection::vec(event, 0..100)).prop_map(
        |(pid, tid, mut events)| {
            events.sort_by_key(|e: &Annotation| e.time);
            AnnotationVec { pid, tid, events, at: 0 }
        },
    );
    prop::collection::vec(stream, 0..5)
}

pub fn trace(
    cpus: Vec<Vec<Event>>,
    streams: Vec<AnnotationVec>,
    targets: Vec<i32>,
    perf: bool,
    span: Range<Time>,
) -> Trace {
    let mut strings = Strings::default();
    for name in ["a", "ito: find work", "c", "ito worker 1", "e"] {
        strings.intern(name);
    }
    let setup = Setup {
        span,
        n_cpus: cpus.len(),
        root_pids: targets,
        recorded: vec![0],
        ..Setup::default()
    };
    let mut trace = Input { setup, strings, cpus, streams }.build().unwrap();
    trace.info.kernel_source = if perf { "perf" } else { "tracefs" }.into();
    trace
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_adds_up(cpus in cpus(0i64..200), streams in streams(0i64..220, 1..16), targets in prop::collection::vec(1i32..6, 0..3),
                         perf in any::<bool>(), cuts in (0i64..170, 0i64..170, 0i64..170)) {
        let trace = trace(cpus, streams, targets, perf, Time(10)..Time(150));
        let whole = Account::new(&trace, trace.span.clone());
        let n = whole.n_cpus() as i64;
        let sums = whole.sums(whole.from, whole.to);
        prop_assert_eq!(sums.iter().sum::<i64>(), n * 140, "{:?}", nonzero(&sums));
        prop_assert!(sums.iter().all(|&ns| ns >= 0), "{:?}", sums);
        // Every CPU by itself; columns sorted, no row twice.
        for (at, (_, rows)) in whole.segments.cpus.iter().enumerate() {
            prop_assert_eq!(whole.cpu_sums(at, whole.from, whole.to).iter().sum::<i64>(), 140);
            let rows = rows.start as usize..rows.end as usize;
            let starts = &whole.segments.start[rows.clone()];
            prop_assert!(starts.is_sorted() && starts.windows(2).all(|p| p[0] < p[1]));
            prop_assert_eq!(starts.first(), Some(&whole.from));
            prop_assert!(whole.segments.cause[rows].windows(2).all(|p| p[0] != p[1]));
        }
        // [a,b) + [b,c) = [a,c), also when each is read by itself, class by class.
        let mut cuts = [cuts.0, cuts.1, cuts.2];
        cuts.sort_unstable();
        let [a, b, c] = cuts.map(|t| Time(t.clamp(10, 150)));
        let part = |a: Time, b: Time| Account::new(&trace, a..b).sums(a, b);
        let (first, second, both) = (part(a, b), part(b, c), part(a, c));
        for class in 0..both.len() {
            prop_assert_eq!(first[class] + second[class], both[class], "class {} of {:?}", class, cuts);
        }
        prop_assert_eq!(both, whole.sums(a, c));
        // A thread's own time is the time it was alive.
        for (thread, own) in trace.threads.iter().zip(&whole.threads) {
            let alive = (thread.alive.end.min(whole.to) - thread.alive.start.max(whole.from)).ns().max(0);
            let is_target = trace.processes[thread.process.ix()].is_target;
            prop_assert_eq!(own.iter().sum::<i64>(), if is_target { alive } else { 0 }, "tid {}", thread.tid);
        }
        // Work is what the CPUs ran of the program, less what is named otherwise while on a CPU.
        let mut ran = 0;
        for cpu in 0..trace.cpus.len() {
            for run in trace.occupancy_of(cpu) {
                let own = run.thread.is_some() && trace.process_of(run.thread).is_target;
                if own && trace.cpus[cpu].recorded {
                    ran += (run.end - run.start).ns();
                }
            }
        }
        let on_cpu: i64 = by_cause(&whole).iter().zip(&whole.causes).filter(|(_, c)| c.on_cpu).map(|(ns, _)| ns).sum();
        let late: i64 = by_cause(&whole).iter().zip(&whole.causes)
            .filter(|(_, c)| !c.on_cpu && matches!(c.class, Class::Interference | Class::Oversubscription)).map(|(ns, _)| ns).sum();
        prop_assert!(on_cpu <= ran && ran <= on_cpu + late, "{} {} {}", on_cpu, ran, late);
    }
}

/// Puts samples into a trace whatever its threads did: (thread, time, kind, whether with a path).
fn add_samples(trace: &mut Trace, mut samples: Vec<(u32, i64, u8, bool)>) {
    let n = trace.threads.len() as u32;
    if n == 0 {
        return;
    }
    let kinds = [
        SampleKind::OnCpu,
        SampleKind::Blocked,
        SampleKind::BlockedRead,
        SampleKind::LockWait,
        SampleKind::Waker,
    ];
    let f = &mut trace.frames;
    // Work, and functions that spin, lock and sleep.
    let mut text = |text: &str| trace.strings.intern(text);
    let libc = text("libc.so.6");
    let calls = ["sched_yield", "pthread_mutex_lock", "nanosleep"].map(&mut text);
    f.function = vec![StrIx(0), calls[0], calls[1], calls[2]];
    f.module = vec![StrIx(2), StrIx(2), libc, libc];
    (f.file, f.line, f.address) = (vec![StrIx::NONE; 4], vec![1; 4], vec![0; 4]);
    f.kind = vec![kasuri_model::FrameKind::Native; 4];
    trace.paths.caller = vec![PathIx::NONE; 4];
    trace.paths.frame = (0..4).map(kasuri_model::FrameIx).collect();
    samples.iter_mut().for_each(|s| s.0 %= n);
    samples.sort_unstable();
    for (thread, ns, kind, has_path) in samples {
        let s = &mut trace.samples;
        s.time.push(Time(ns).within_horizon());
        s.thread.push(ThreadIx(thread));
        s.cpu.push(0);
        s.kind.push(kinds[usize::from(kind) % kinds.len()]);
        s.is_complete.push(has_path);
        let path = PathIx((usize::from(kind) / kinds.len() % 4) as u32);
        s.path.push(if has_path { path } else { PathIx::NONE });
    }
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
}

/// Each class's time by call path is its time in the account, twice: by what explains it, and by what happened meanwhile.
fn paths_add_up(trace: &Trace, range: Option<Range<Time>>) -> Result<(), TestCaseError> {
    let options = Options { range, ..Options::default() };
    let with = kasuri_analyze::summary(trace, &options);
    let mut bare = trace.clone();
    bare.samples = kasuri_model::Samples::default();
    let without = kasuri_analyze::summary(&bare, &options);
    prop_assert_eq!(with.account.capacity_ns, without.account.capacity_ns);
    let sum_of = |account: &kasuri_analyze::account::AccountSummary, keys: &[&str]| -> i64 {
        let rows = account.classes.iter().filter(|c| keys.contains(&c.class));
        rows.map(|c| c.ns).sum()
    };
    let on_cpu = ["work", "system_calls", "tracing", "spinning"];
    prop_assert_eq!(
        sum_of(&with.account, &on_cpu),
        sum_of(&without.account, &on_cpu),
        "what spins was work"
    );
    let is_other = |f: &kasuri_model::FrameIx| *f == kasuri_model::FrameIx(0);
    let by_samples = |c: &kasuri_analyze::account::CauseSummary| c.note == "by_samples";
    // They may show that threads ran the same.
    if trace.paths.frame.iter().all(is_other) && !with.account.causes.iter().any(by_samples) {
        // Samples name what runs alone, and what waits until nothing of the program ends that.
        let nameless = |account: &kasuri_analyze::account::AccountSummary| {
            let mut account = account.clone();
            account.causes.retain(|c| c.note != "serial_phase");
            for cause in &mut account.causes {
                if ["interrupt", "time_limit"].contains(&cause.note) {
                    (cause.note, cause.code_place) = ("interrupt", None);
                    cause.code.clear();
                }
                if cause.note == "process" || cause.class == "io_wait" {
                    (cause.code, cause.code_place) = (String::new(), None);
                }
            }
            account
        };
        prop_assert_eq!(
            nameless(&with.account),
            nameless(&without.account),
            "other samples change nothing in the account"
        );
    }
    let Some(paths) = &with.call_paths else {
        return Ok(());
    };
    let in_account =
        |key: &str| with.account.classes.iter().find(|c| c.class == key).map_or(0, |c| c.ns);
    for class in Class::ALL.map(Class::key) {
        let expected = match class {
            "tracing" => 0,
            "work" => in_account("work") + in_account("tracing"),
            key => in_account(key),
        };
        let row = paths.classes.iter().find(|c| c.class == class);
        prop_assert_eq!(row.map_or(0, |row| row.ns), expected, "{}", class);
        for shares in row.iter().flat_map(|row| std::iter::once(&row.paths).chain(&row.meanwhile)) {
            let sampled: i64 = shares.paths.iter().map(|p| p.ns).sum();
            prop_assert_eq!(
                sampled + shares.other_ns + shares.unsampled_ns + shares.without_code_ns,
                expected,
                "{}",
                class
            );
        }
    }
    explained_adds_up(paths)?;
    for class in &paths.classes {
        if let Some(chains) = &class.chains {
            prop_assert!(chains.ns <= class.ns);
            chains_add_up(chains)?;
        }
    }
    for part in [paths.on_cpu, paths.blocked] {
        prop_assert_eq!(part.complete_ns + part.incomplete_ns + part.unsampled_ns, part.ns);
        prop_assert!(part.gap_ns <= part.incomplete_ns);
    }
    Ok(())
}

/// The times that exports have: each thread's add up to its states, each class's to the account; and the flame graphs of all threads have the
/// same. Graphs without time are many, and a sweep each: of these only that of `pick`.
fn thread_times_add_up(trace: &Trace, pick: usize) -> Result<(), TestCaseError> {
    let rows = thread_times(trace);
    let sum = |of: TimeOf, is_wanted: &dyn Fn(ThreadIx) -> bool| -> i64 {
        let rows = rows.iter().filter(|row| row.of == of && is_wanted(row.thread));
        rows.map(|row| row.ns).sum()
    };
    for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
        let is_target = trace.process_of(thread).is_target;
        let lasting = |is_meant: fn(ThreadState) -> bool| -> i64 {
            let states = trace.states_of(thread).filter(|row| is_target && is_meant(row.state));
            states.map(|row| (row.end - row.start).ns()).sum()
        };
        let running = lasting(|state| state == ThreadState::Running);
        prop_assert_eq!(sum(TimeOf::OnCpu, &|t| t == thread), running);
        prop_assert_eq!(sum(TimeOf::Blocked, &|t| t == thread), lasting(ThreadState::is_blocked));
    }
    let account = Account::new(trace, trace.span.clone());
    let sums = account.sums(account.from, account.to);
    let mut tids: Vec<i32> = trace.threads.iter().map(|thread| thread.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    for class in Class::ALL {
        let of = TimeOf::Class(class);
        prop_assert_eq!(sum(of, &|_| true), sums[class as usize], "{:?}", class);
        let is_picked = class == Class::ALL[pick % Class::ALL.len()];
        if sums[class as usize] == 0 && !is_picked {
            continue;
        }
        let flame_of = |tid| {
            let options = FlameOptions { class: Some(class), tid, ..FlameOptions::default() };
            let flame = flame(trace, &options);
            let roots: i64 =
                flame.nodes.iter().filter(|node| node.depth == 0).map(|node| node.ns).sum();
            assert_eq!(roots + flame.unsampled_ns + flame.without_code_ns, flame.ns);
            flame.ns
        };
        prop_assert_eq!(flame_of(None), sums[class as usize]);
        for (at, &tid) in tids.iter().enumerate() {
            let is_mine = |t: ThreadIx| t.is_some() && trace.threads[t.ix()].tid == tid;
            let ns = sum(of, &is_mine);
            if ns != 0 || (is_picked && at == pick % tids.len()) {
                prop_assert_eq!(flame_of(Some(tid)), ns, "{:?} of {}", class, tid);
            }
        }
    }
    Ok(())
}

/// What is known of a time, and why the rest is not.
fn explained_adds_up(
    paths: &kasuri_analyze::call_paths::CallPathSummary,
) -> Result<(), TestCaseError> {
    let known = &paths.explained;
    let nameless: i64 = known.nameless.iter().map(|row| row.ns).sum();
    let unsampled: i64 = known.unsampled.iter().map(|row| row.ns).sum();
    prop_assert_eq!(known.named_ns + nameless + unsampled, known.ns);
    let own = paths.classes.iter();
    let own = own.filter(|row| !["interference", "oversubscription"].contains(&row.class));
    let (all, none) = own.fold((0, 0), |(all, none), row| {
        let coded = row.ns - row.paths.without_code_ns;
        (all + coded, none + row.paths.unsampled_ns)
    });
    prop_assert_eq!((known.ns, unsampled), (all, none));
    Ok(())
}

/// What a wait waited for is as long as the wait.
fn chains_add_up(chains: &kasuri_analyze::call_paths::WaitChains) -> Result<(), TestCaseError> {
    let sum_behind = |from: usize, depth: u32| -> i64 {
        let behind = chains.nodes[from..].iter().take_while(|n| n.depth >= depth);
        behind.filter(|n| n.depth == depth).map(|n| n.ns).sum()
    };
    prop_assert_eq!(sum_behind(0, 0) + chains.rest_ns, chains.ns);
    for (at, node) in chains.nodes.iter().enumerate() {
        let expected = if node.did == "waited" { node.ns } else { 0 };
        let behind = sum_behind(at + 1, node.depth + 1) + node.rest_ns;
        prop_assert_eq!(behind, expected, "{:?}", node);
    }
    Ok(())
}

/// The pieces of each CPU follow each other from the begin to the end, those of a class have the times that its flame graph has. Of the classes
/// without time only that of `pick` is looked at.
fn pieces_add_up(trace: &Trace, range: Range<Time>, pick: usize) -> Result<(), TestCaseError> {
    use kasuri_analyze::call_paths::{self, FlameOptions, Whereabouts, flame};
    let options = Options { range: Some(range.clone()), pieces: true, ..Options::default() };
    let kasuri_analyze::Answers { summary, account, pieces, .. } =
        kasuri_analyze::Session::new(trace, &options).into_answers();
    prop_assert_eq!(summary, kasuri_analyze::summary(trace, &options));
    let plain = Account::new(trace, range);
    prop_assert_eq!(account.sums(account.from, account.to), plain.sums(plain.from, plain.to));
    if trace.samples.time.is_empty() {
        prop_assert!(pieces.is_empty());
        return Ok(());
    }
    let mut sums = [[0; 3]; kasuri_analyze::account::N_CLASSES];
    for (at, piece) in pieces.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &pieces[at]);
        let same_cpu = before.filter(|before| before.cpu == piece.cpu);
        prop_assert_eq!(piece.from, same_cpu.map_or(account.from, |before| before.to));
        prop_assert!(piece.to > piece.from && piece.to <= account.to);
        let is_new = |before: &&call_paths::Piece| {
            let key = |piece: &call_paths::Piece| (piece.class, piece.at, piece.is_complete);
            key(before) != key(piece)
        };
        prop_assert!(same_cpu.is_none() || same_cpu.as_ref().is_some_and(is_new));
        let sort = match piece.at {
            Whereabouts::WithoutCode => 0,
            Whereabouts::Unsampled => 1,
            Whereabouts::At(_) => 2,
        };
        sums[piece.class as usize][sort] += (piece.to - piece.from).ns();
    }
    let in_account = account.sums(account.from, account.to);
    for class in Class::ALL {
        let sums = sums[class as usize];
        prop_assert_eq!(sums.iter().sum::<i64>(), in_account[class as usize]);
        if sums == [0; 3] && class != Class::ALL[pick % Class::ALL.len()] {
            continue;
        }
        let options = FlameOptions {
            options: Options { range: Some(account.from..account.to), ..Options::default() },
            class: Some(class),
            ..FlameOptions::default()
        };
        let flame = flame(trace, &options);
        let without = [flame.without_code_ns, flame.unsampled_ns];
        prop_assert_eq!([sums[0], sums[1]], without, "{:?}", class);
        prop_assert_eq!(sums.iter().sum::<i64>(), flame.ns, "{:?}", class);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn call_paths_add_up_to_the_account(
        cpus in cpus(0i64..200), streams in streams(0i64..220, 1..16), targets in prop::collection::vec(1i32..6, 0..3),
        perf in any::<bool>(), part in (0i64..170, 0i64..170), pick in any::<usize>(),
        samples in prop::collection::vec((any::<u32>(), prop_oneof![0i64..200, any::<i64>()], any::<u8>(), any::<bool>()), 1..60),
    ) {
        let mut trace = trace(cpus, streams, targets, perf, Time(10)..Time(150));
        add_samples(&mut trace, samples);
        thread_times_add_up(&trace, pick)?;
        paths_add_up(&trace, None)?;
        let range = Time(part.0.min(part.1))..Time(part.0.max(part.1));
        paths_add_up(&trace, Some(range.clone()))?;
        pieces_add_up(&trace, range, pick)?;
        // The accounts of parts add up, spinning included.
        let whole = Account::new(&trace, trace.span.clone());
        let mid = Time(part.0).max(whole.from).min(whole.to);
        let [left, right] = [whole.from..mid, mid..whole.to].map(|part| Account::new(&trace, part));
        let both = |a: &Account| a.sums(whole.from, whole.to);
        for class in Class::ALL {
            let sum = both(&left)[class as usize] + both(&right)[class as usize];
            prop_assert_eq!(sum, both(&whole)[class as usize], "{:?}", class);
        }
        // None that spins.
        trace.paths.frame.fill(kasuri_model::FrameIx(0));
        paths_add_up(&trace, None)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without annotated waits: where an instant of a CPU is charged to the disk, the chain of waits that is printed below ends at a device,
    /// and nowhere else. Each instant is compared where it is added (`Chains::agrees`, in builds with debug assertions).
    #[test]
    fn a_headline_says_the_disk_where_its_chain_does(
        cpus in cpus(0i64..200), targets in prop::collection::vec(1i32..6, 0..3),
        samples in prop::collection::vec((any::<u32>(), 0i64..200, any::<u8>(), any::<bool>()), 1..60),
    ) {
        let mut trace = trace(cpus, Vec::new(), targets, false, Time(10)..Time(150));
        add_samples(&mut trace, samples);
        let paths = kasuri_analyze::summary(&trace, &Options::default()).call_paths;
        for class in paths.iter().flat_map(|paths| &paths.classes) {
            let ends = class.chains.iter().flat_map(|chains| &chains.nodes);
            let mut ends = ends.filter(|node| node.did != "waited").map(|node| node.did);
            if class.class == "io_wait" {
                prop_assert!(ends.all(|did| ["device", "unknown", "more"].contains(&did)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    /// What a file claims about times is its own affair: no stamp makes an answer panic, and the account still adds up.
    /// (Built with overflow checks, as tests are, this also finds every sum that would wrap.)
    #[test]
    fn no_stamp_is_too_hostile(cpus in cpus(hostile_time()), streams in streams(hostile_time(), 1..32),
                               targets in prop::collection::vec(1i32..6, 0..3), perf in any::<bool>(),
                               span in (hostile_time(), hostile_time()), part in (hostile_time(), hostile_time())) {
        let trace = trace(cpus, streams, targets, perf, Time(span.0)..Time(span.1));
        prop_assert_eq!(trace.broken_rules(), Vec::<String>::new());
        let whole = Account::new(&trace, trace.span.clone());
        let length = (trace.span.end - trace.span.start).ns();
        prop_assert_eq!(whole.sums(whole.from, whole.to).iter().sum::<i64>(), whole.n_cpus() as i64 * length);
        for range in [None, Some(Time(part.0)..Time(part.1))] {
            for all_processes in [false, true] {
                let options = Options { range: range.clone(), all_processes, ..Options::default() };
                let summary = kasuri_analyze::summary(&trace, &options);
                prop_assert_eq!(summary.account.classes.iter().map(|c| c.ns).sum::<i64>(), summary.account.capacity_ns);
                let _ = kasuri_analyze::compare::compare(std::slice::from_ref(&summary), std::slice::from_ref(&summary));
                let _ = kasuri_analyze::locks(&trace, &options);
            }
        }
        let _ = kasuri_analyze::critical_path::critical_path(&trace);
        let _ = kasuri_analyze::contents(&trace);
    }
}
