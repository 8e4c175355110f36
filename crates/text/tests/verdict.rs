//! What `kasuri locks` says of one recording agrees with itself: class, prediction, advice and shares, over many random
//! recordings, sound ones and nonsense.
use kasuri_analyze::{LockRow, Locks, Options, Use, locks};
use kasuri_answers::Answer;
use kasuri_answers::locks::LocksAnswer;
use kasuri_answers::verdict::{Advice, Verdict, WORTH_A_LOOK};
use kasuri_base::random::Rng;
use kasuri_model::input::{Annotation, Event, KnownThread, Setup};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};
use kasuri_predict::{Class, Machine, Prediction};
use kasuri_text::table::{self, Layout};
use std::collections::VecDeque;

const REQUEST: u8 = 7;
const ACQUIRED: u8 = 8;
const RELEASED: u8 = 9;
const T: StrIx = StrIx(0);
const SLICE: i64 = 3_000_000;

/// Threads that compute, take one of some locks and hold it, over and over, on one CPU.
#[derive(Clone, Copy, Debug)]
struct Planted {
    threads: usize,
    rounds: usize,
    locks: usize,
    outside: i64,
    inside: i64,
}

/// What a thread of the simulation does next, and how long.
#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Outside(i64),
    Asks,
    Inside(i64),
    Done,
}

struct Runner {
    doing: Doing,
    rounds: usize,
    lock: usize,
    has_asked: bool,
    events: Vec<Annotation>,
}

impl Planted {
    fn lock_of(&self, rng: &mut Rng) -> usize {
        rng.below(self.locks)
    }

    /// A recording of it, as the probe and the scheduler would have made it.
    #[expect(clippy::too_many_lines, reason = "one loop, whose steps share all its state")]
    fn trace(&self, rng: &mut Rng) -> Trace {
        let mut strings = Strings::default();
        strings.intern("worker");
        let names: Vec<StrIx> =
            (0..self.locks).map(|i| strings.intern(&format!("&lock{i}"))).collect();
        let mut threads: Vec<Runner> = (0..self.threads)
            .map(|_| Runner {
                doing: Doing::Outside(self.outside),
                rounds: self.rounds,
                lock: self.lock_of(rng),
                has_asked: false,
                events: Vec::new(),
            })
            .collect();
        let mut owner: Vec<Option<usize>> = vec![None; self.locks];
        let mut asleep: Vec<VecDeque<usize>> = vec![VecDeque::new(); self.locks];
        let mut ready: VecDeque<usize> = (0..self.threads).collect();
        let mut cpu = Vec::new();
        let tid = |thread: usize| 10 + thread as i32;
        let (mut now, mut last) = (1_000, 0);
        while let Some(thread) = ready.pop_front() {
            cpu.push(Event::switch(now, last, left(last, &threads), tid(thread), T));
            last = tid(thread);
            let until = now + SLICE;
            loop {
                let t = &mut threads[thread];
                let mut put = |time: i64, kind: u8, lock: usize| {
                    t.events.push(Annotation {
                        time: Time(time),
                        kind,
                        aux: 0,
                        name: names[lock],
                        a: 0x1000 + 16 * lock as u64,
                        b: 0,
                    });
                };
                match t.doing {
                    Doing::Outside(ns) | Doing::Inside(ns) if now + ns > until => {
                        let rest = ns - (until - now);
                        t.doing = match t.doing {
                            Doing::Outside(_) => Doing::Outside(rest),
                            _ => Doing::Inside(rest),
                        };
                        now = until;
                        ready.push_back(thread);
                        break;
                    }
                    Doing::Outside(ns) => {
                        now += ns;
                        t.doing = Doing::Asks;
                    }
                    Doing::Asks if owner[t.lock].is_none() => {
                        now += 50;
                        put(now, ACQUIRED, t.lock);
                        owner[t.lock] = Some(thread);
                        t.has_asked = false;
                        t.doing = Doing::Inside(self.inside);
                    }
                    Doing::Asks => {
                        if !t.has_asked {
                            put(now, REQUEST, t.lock);
                            t.has_asked = true;
                        }
                        now += 500;
                        asleep[t.lock].push_back(thread);
                        break;
                    }
                    Doing::Inside(ns) => {
                        now += ns;
                        put(now, RELEASED, t.lock);
                        owner[t.lock] = None;
                        if let Some(next) = asleep[t.lock].pop_front() {
                            cpu.push(Event::waking(now, tid(thread), tid(next), T));
                            ready.push_back(next);
                        }
                        t.rounds -= 1;
                        t.lock = rng.below(self.locks);
                        t.doing = match t.rounds {
                            0 => Doing::Done,
                            _ => Doing::Outside(self.outside),
                        };
                    }
                    Doing::Done => break,
                }
            }
        }
        cpu.push(Event::switch(now, last, ThreadState::Sleeping, 0, T));
        let events = threads.into_iter().map(|t| t.events).collect();
        build(strings, cpu, events, now)
    }
}

/// How the thread left the CPU.
fn left(tid: i32, threads: &[Runner]) -> ThreadState {
    match threads.get((tid - 10) as usize).filter(|_| tid >= 10) {
        Some(t) if matches!(t.doing, Doing::Outside(_) | Doing::Inside(_)) => {
            ThreadState::RunnablePreempted
        }
        Some(_) => ThreadState::Sleeping,
        None => ThreadState::RunnablePreempted,
    }
}

fn build(strings: Strings, cpu: Vec<Event>, threads: Vec<Vec<Annotation>>, end: i64) -> Trace {
    let known = |tid| KnownThread { time: Time(0), pid: 10, tid, ppid: 1, comm: "worker".into() };
    let tids = 10..10 + threads.len() as i32;
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 1,
        recorded: vec![0],
        known: tids.clone().map(known).collect(),
        span: Time(0)..Time(end + 1_000),
        ..Setup::default()
    };
    let streams =
        tids.zip(threads).map(|(tid, events)| AnnotationVec { pid: 10, tid, events, at: 0 });
    let streams = streams.collect();
    let input = Input { setup, strings, cpus: vec![cpu], streams };
    input.build().expect("a trace")
}

fn answers(trace: &Trace) -> (Locks, Option<Prediction>) {
    let wanted = kasuri_predict::Options {
        machine: Machine::default(),
        cpus: vec![2],
        what_if: false,
        ..kasuri_predict::Options::default()
    };
    let locks = locks(trace, &Options::default());
    let prediction = kasuri_predict::predict(trace, None, &wanted).ok();
    let prediction = prediction.filter(|_| !locks.locks.is_empty());
    (locks, prediction)
}

fn shares(u: &Use, what: &str) {
    for share in [u.lock_ratio, u.wait_ratio, u.contended_share].into_iter().flatten() {
        assert!((0.0..=1.0).contains(&share), "{what}: {u:?}");
    }
    assert!(u.inside_cpu_ns <= u.hold_cpu_ns, "{what}: {u:?}");
    let parts = u.hold_cpu_ns + u.hold_preempted_ns + u.hold_blocked_ns + u.hold_unknown_ns;
    assert_eq!(parts, u.hold_wall_ns, "{what}: {u:?}");
    assert!(u.wait_spin_ns <= u.wait_ns && u.wait_max_ns <= u.wait_ns, "{what}: {u:?}");
    assert!(u.hold_p50_ns <= u.hold_p99_ns && u.hold_p99_ns <= u.hold_max_ns, "{what}: {u:?}");
    assert!(u.contended <= u.requests, "{what}: {u:?}");
}

/// Every number is within its definition, and sums are sums.
fn numbers(l: &Locks, what: &str) {
    let json = serde_json::to_string(l).expect("JSON");
    assert!(!json.contains("NaN"), "{what}");
    shares(&l.total, what);
    let sum = |of: &dyn Fn(&Use) -> i64, rows: &mut dyn Iterator<Item = &Use>| -> i64 {
        rows.map(of).sum()
    };
    for of in [
        |u: &Use| u.hold_wall_ns,
        |u: &Use| u.wait_ns,
        |u: &Use| u.holds as i64,
        |u: &Use| u.contended as i64,
    ] {
        assert_eq!(sum(&of, &mut l.locks.iter().map(|r| &r.used)), of(&l.total), "{what}");
        assert_eq!(sum(&of, &mut l.threads.iter().map(|r| &r.used)), of(&l.total), "{what}");
        assert_eq!(sum(&of, &mut l.processes.iter().map(|r| &r.used)), of(&l.total), "{what}");
        assert!(sum(&of, &mut l.sites.iter().map(|r| &r.used)) <= of(&l.total), "{what}");
    }
    let inside: i64 = l.threads.iter().map(|r| r.used.inside_cpu_ns).sum();
    assert_eq!(inside, l.total.inside_cpu_ns, "{what}");
    assert!(inside <= l.cpu_ns, "{what}: {inside} of {}", l.cpu_ns);
    for row in &l.locks {
        shares(&row.used, what);
        let known = row.holder_running_ns + row.holder_preempted_ns + row.holder_blocked_ns;
        assert!(known <= row.holder_ns && row.holder_ns <= row.used.wait_ns, "{what}: {row:?}");
        assert!(row.path_share.is_none_or(|s| (0.0..=1.0).contains(&s)), "{what}");
        let waits: i64 = (l.waits_for.iter()).filter(|w| w.lock == row.name).map(|w| w.ns).sum();
        assert_eq!(waits, row.used.wait_ns, "{what}: the graph of {}", row.name);
    }
    for row in l.threads.iter().chain(&l.processes) {
        shares(&row.used, what);
    }
}

/// Class, prediction and advice are statements about one set of numbers.
fn consistent(l: &Locks, p: Option<&Prediction>, what: &str) {
    numbers(l, what);
    let verdict = Verdict::new(l, p);
    let layout = Layout::default();
    let document = LocksAnswer::new(l, p).document(layout.rows());
    let text = table::document(&document, &layout);
    assert_eq!(
        text.contains("  look at    nothing: "),
        matches!(verdict.advice, Some(Advice::Nothing(_)))
    );
    let is_unheld = |l: &LockRow| l.used.holds == 0 && l.used.wait_ratio >= Some(WORTH_A_LOOK);
    if l.locks.iter().any(is_unheld) {
        assert!(verdict.prediction.is_none(), "{what}: holders are not known");
        assert!(text.contains("not known: threads wait for"), "{what}: {text}");
    }
    if let Some(p) = verdict.prediction {
        let (class, efficiency) = (p.class.expect("known"), p.lock_efficiency.expect("known"));
        let cap = p.cap.as_ref().map(|c| c.speedup);
        assert_eq!(class, Class::of(efficiency, cap), "{what}");
        let two = p.at(2).expect("asked for");
        assert!(two.low <= two.speedup && two.speedup <= two.high, "{what}: {two:?}");
        assert!(two.speedup <= 2.0, "{what}: {two:?}");
        // Beyond it by what runs scatter.
        assert!(two.high <= 2.08 + 1e-9, "{what}: {two:?}");
        assert!(cap.is_none_or(|cap| two.speedup <= cap * 1.000_001), "{what}: {two:?} {cap:?}");
        let left = two.speedup / p.without_locks;
        // Without locks it is twice as fast at most.
        let bound = p.without_locks >= 2.0 && efficiency <= left + 1e-9;
        assert!(bound || (left - efficiency).abs() < 1e-6, "{what}: {left} {efficiency}");
        if two.speedup < 1.0 && p.without_locks >= two.speedup / 0.75 {
            assert_eq!(class, Class::High, "{what}: locks make it slower on two CPUs");
        }
        if matches!(verdict.advice, Some(Advice::Nothing(_))) {
            assert_eq!(class, Class::Low, "{what}");
        }
    }
    match &verdict.advice {
        Some(Advice::Nothing(lock)) => {
            assert!(lock.used.wait_ratio.is_none_or(|w| w < WORTH_A_LOOK), "{what}");
        }
        Some(Advice::NotHereYet(_)) => {
            assert!(verdict.waited.is_none_or(|w| w < WORTH_A_LOOK), "{what}");
            assert_ne!(verdict.prediction.and_then(|p| p.class), Some(Class::Low), "{what}");
        }
        _ => {}
    }
}

#[test]
fn classes_of_planted_programs_are_theirs() {
    let base = Planted { threads: 2, rounds: 150, locks: 1, outside: 0, inside: 0 };
    let mut rng = Rng::new(5);
    for (percent, class) in
        [(2, Class::Low), (25, Class::Medium), (50, Class::High), (90, Class::High)]
    {
        let plan =
            Planted { inside: 20_000 * percent, outside: 2_000_000 - 20_000 * percent, ..base };
        let (l, p) = answers(&plan.trace(&mut rng));
        consistent(&l, p.as_ref(), &format!("{percent} %"));
        let p = p.expect("a prediction");
        assert_eq!(p.class, Some(class), "{percent} %: {:?} {:?}", p.lock_efficiency, p.cap);
        // Half of the time inside one lock: twice as fast at most, on any machine.
        let cap = p.cap.expect("both threads take it").speedup * percent as f64 / 100.0;
        assert!((cap - 1.0).abs() < 0.03, "{percent} %: {cap}");
    }
    // Many sections of 2 us, all of a thread's in one time slice: never waited for on one CPU, but they would be on two.
    let plan = Planted { threads: 2, rounds: 400, locks: 1, outside: 4_700, inside: 2_000 };
    let (l, p) = answers(&plan.trace(&mut rng));
    consistent(&l, p.as_ref(), "short sections");
    let verdict = Verdict::new(&l, p.as_ref());
    assert!(verdict.prediction.and_then(|p| p.class) > Some(Class::Low));
    assert!(matches!(verdict.advice, Some(Advice::NotHereYet("lock0"))), "{:?}", verdict.advice);
}

#[test]
fn statements_agree_over_random_programs() {
    let seed = 271;
    let mut rng = Rng::new(seed);
    let mut seen = [0; 3];
    for case in 0..150 {
        let outside = 10f64.powf(3.0 + 3.0 * rng.uniform()) as i64;
        let plan = Planted {
            threads: 1 + rng.below(6),
            rounds: 1 + rng.below(200),
            locks: 1 + rng.below(3),
            outside,
            inside: (outside as f64 * 10f64.powf(-3.0 + 3.5 * rng.uniform())) as i64 + 1,
        };
        let (l, p) = answers(&plan.trace(&mut rng));
        consistent(&l, p.as_ref(), &format!("seed {seed}, case {case}: {plan:?}"));
        if let Some(class) = p.and_then(|p| p.class) {
            seen[class as usize] += 1;
        }
    }
    assert!(seen.iter().all(|&n| n >= 10), "{seen:?}");
}

#[test]
fn statements_agree_over_nonsense() {
    let seed = 99;
    let mut rng = Rng::new(seed);
    for case in 0..300 {
        let mut strings = Strings::default();
        strings.intern("worker");
        let names = [strings.intern("&a"), strings.intern("&b"), strings.intern("&c")];
        let (n, end) = (1 + rng.below(4), 100_000);
        let times = |rng: &mut Rng, n: usize| {
            let mut all: Vec<i64> = (0..n).map(|_| rng.below(end) as i64).collect();
            all.sort_unstable();
            all
        };
        let threads = (0..n)
            .map(|_| {
                let n = rng.below(40);
                let at = times(&mut rng, n);
                at.into_iter()
                    .map(|ns| {
                        let lock = rng.below(3);
                        Annotation {
                            time: Time(ns),
                            kind: [REQUEST, ACQUIRED, RELEASED][rng.below(3)],
                            aux: 0,
                            name: names[lock],
                            a: 16 * (1 + lock as u64),
                            b: 0,
                        }
                    })
                    .collect()
            })
            .collect();
        let tid = |rng: &mut Rng| [0, 10, 11, 12, 13, 99][rng.below(6)];
        let n = rng.below(60);
        let at = times(&mut rng, n);
        let cpu = at
            .into_iter()
            .map(|ns| match rng.below(3) {
                0 => Event::waking(ns, tid(&mut rng), tid(&mut rng), T),
                _ => {
                    let state = [ThreadState::Sleeping, ThreadState::RunnablePreempted];
                    Event::switch(ns, tid(&mut rng), state[rng.below(2)], tid(&mut rng), T)
                }
            })
            .collect();
        let trace = build(strings, cpu, threads, end as i64);
        let (l, p) = answers(&trace);
        consistent(&l, p.as_ref(), &format!("seed {seed}, case {case}"));
    }
}
