//! Kills at random moments, in each mode, of each tree of processes and each side of it: emitted == kept + lost in every one, and `stat` says the same.
//!
//! And the same where nobody is killed, then to the event.
//!
//! `KASURI_KILLS=1000` runs so many, `KASURI_UNDISTURBED=500` of the others (`make test-kills`); `KASURI_SEED` repeats one run. Each trial is made from its number
//! alone, which is named where it fails.
use crate::support::*;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const THREADS: u64 = 2;
const CHUNK_SLOTS: u64 = 2040;

/// How it is recorded, and the library that this needs.
const MODES: [(&str, &[&str], &str); 8] = [
    ("plain", &[], ""),
    ("locks", &["--locks"], "lock/libkasuri-lock.so"),
    ("flight", &["--flight"], ""),
    ("budget", &["--budget", "2%"], ""),
    ("openmp", &["--openmp"], "openmp/libkasuri-openmp.so"),
    ("itt", &["--itt"], "collector/libkasuri-collector.so"),
    ("discard", &["--discard", "--ring-mb", "1"], ""),
    ("small", &["--ring-mb", "2"], ""),
];

/// The processes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    One,
    /// Forty programs, one after the other.
    Shell,
    /// Forty, four at a time.
    Make,
    /// One that annotates and forks.
    Forks,
    /// One that executes itself.
    Execs,
    /// One that has left its parent.
    Daemon,
}

const TREES: [Tree; 6] =
    [Tree::One, Tree::Shell, Tree::Make, Tree::Forks, Tree::Execs, Tree::Daemon];

/// Which process is killed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    Recorder,
    Program,
    Both,
    /// One of those that the program started.
    Child,
    Term,
    TwoInterrupts,
}

const KILLS: [Kill; 6] =
    [Kill::Recorder, Kill::Program, Kill::Both, Kill::Child, Kill::Term, Kill::TwoInterrupts];

/// What else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// More programs want the CPUs than there are.
    Load,
    /// The recorder gets no CPU for a while: the rings fill.
    Starved,
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize]
    }
}

#[test]
fn kept_and_lost_are_what_was_emitted_whoever_is_killed() {
    if !can_trace() {
        return;
    }
    // Each mode and each tree at least twice.
    let trials = number("KASURI_KILLS").unwrap_or(16);
    let first = first_seed();
    let (mut lossy, mut recovered) = (0, 0);
    let mut table: BTreeMap<(&str, Tree), [u64; 3]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in first..first + trials {
        let outcome = trial(seed);
        lossy += u64::from(outcome.lost > 0);
        recovered += u64::from(outcome.recovered);
        let row = table.entry((outcome.mode, outcome.tree)).or_default();
        row[0] += 1;
        row[1] += u64::from(outcome.emitted > 0);
        row[2] += u64::from(outcome.wrong.is_some());
        if let Some(what) = outcome.wrong {
            println!("{what}");
            wrong.push(what);
        }
        let done = seed + 1 - first;
        if done.is_multiple_of(20) && trials > 20 {
            println!(
                "seed {seed}: {done} of {trials} kills, {recovered} recovered, {lossy} with losses"
            );
        }
    }
    println!("{trials} kills from seed {first}: {recovered} recovered, {lossy} with losses");
    println!("mode, tree: kills, after the first event, wrong");
    for ((mode, tree), [kills, after, wrong]) in table {
        println!("{mode:8} {tree:?}: {kills} {after} {wrong}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // It bites: without losses the equation would only say that what is kept is counted.
    assert!(trials < 30 || (lossy > 0 && recovered > 0));
}

/// Programs that end by themselves, also beside a load and where the recorder gets no CPU for two seconds.
#[test]
fn kept_and_lost_are_what_was_emitted_to_the_event_if_nobody_is_killed() {
    if !can_trace() {
        return;
    }
    let trials = number("KASURI_UNDISTURBED").unwrap_or(8);
    let first = first_seed();
    let (mut lossy, mut emitted) = (0, 0);
    let mut wrong = Vec::new();
    for seed in first..first + trials {
        let outcome = undisturbed(seed);
        lossy += u64::from(outcome.lost > 0);
        emitted += outcome.emitted;
        wrong.extend(outcome.wrong.inspect(|what| println!("{what}")));
    }
    println!("{trials} runs from seed {first}: {emitted} events, {lossy} with losses");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(emitted > 0 && (trials < 48 || lossy > 0));
}

/// Programs that live for some ms, one after the other and two beside each other, as make and servers start them: each grows its rings
/// and ends between two looks of the recorder, which gets no CPU for a while in every second round.
#[test]
fn children_that_end_between_two_looks_keep_their_events() {
    if !can_trace() {
        return;
    }
    const CHILDREN: u64 = 12;
    for seed in 1..=4 {
        let mut random = Random(seed);
        let dir = scratch();
        let emitter = program("emitter").display().to_string();
        let one = |events: u64, n: &str| format!("{emitter} 3 {events} counts${{i}}{n} 0");
        let script = format!(
            "for i in $(seq {CHILDREN}); do {} & {}; wait; done; sleep 1.3",
            one(60_000 + random.below(60_000), "a"),
            one(20_000, "b"),
        );
        let mut recorder = kasuri(dir.path())
            .args(["record", "-q", "-o", "run.kasuri", "--", "sh", "-c", &script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn_guarded();
        if seed.is_multiple_of(2) {
            wait_until("it emits", || dir.path().join("counts2a").exists());
            signal(recorder.id(), Signal::STOP);
            std::thread::sleep(Duration::from_millis(300 + random.below(900)));
            signal(recorder.id(), Signal::CONT);
        }
        assert!(recorder.wait().unwrap().success());
        let files = (1..=CHILDREN).flat_map(|i| ["a", "b"].map(|n| format!("counts{i}{n}")));
        let emitted: u64 = files.map(|name| counted(&dir.path().join(name))).sum();
        let facts = facts(&dir.path().join("run.kasuri"));
        let found = facts.annotations + facts.lost;
        assert_eq!(found, emitted, "seed {seed}: kept {} + lost {}", facts.annotations, facts.lost);
    }
}

struct Outcome {
    mode: &'static str,
    tree: Tree,
    emitted: u64,
    lost: u64,
    recovered: bool,
    wrong: Option<String>,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|n| n.parse().ok())
}

fn first_seed() -> u64 {
    number("KASURI_SEED").unwrap_or(1)
}

type Mode = (&'static str, &'static [&'static str], &'static str);

/// How, which tree, and the rest of a trial.
fn drawn(seed: u64) -> (Mode, Tree, Random) {
    // 7 has no factor in common with the number of kinds: neighbours differ in both, and all pairs come.
    let kind = (seed as usize).wrapping_mul(7) % (MODES.len() * TREES.len());
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        random.below(1);
    }
    (MODES[kind % MODES.len()], TREES[kind / MODES.len()], random)
}

const BESIDE: [Beside; 3] = [Beside::Nothing, Beside::Load, Beside::Starved];

fn loaded(beside: Beside) -> Vec<Running> {
    (0..if beside == Beside::Load { 3 } else { 0 })
        .map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn_guarded())
        .collect()
}

/// A run that ends by itself.
fn undisturbed(seed: u64) -> Outcome {
    let (mode, tree, mut random) = drawn(seed);
    let beside = random.of(&BESIDE);
    let what = format!("seed {seed}: {} {tree:?} undisturbed {beside:?}", mode.0);
    let dir = scratch();
    let load = loaded(beside);
    let each = random.of(&[500, 5_000, 20_000]);
    let mut recorder = record(dir.path(), &mode, tree, Size { one: each * 20, each }, &mut random);
    if beside == Beside::Starved {
        wait_until(&format!("it emits: {what}"), || emitted(dir.path()) > 0);
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        let _ = try_signal(recorder.id(), Signal::STOP);
        std::thread::sleep(Duration::from_secs(2));
        let _ = try_signal(recorder.id(), Signal::CONT);
    }
    assert!(recorder.wait().unwrap().success(), "{what}");
    drop(load);
    // A daemon may go on for a while.
    end_all(dir.path());
    assert!(!dir.path().join("run.kasuri.d").exists(), "{what}");
    assert_eq!(sessions_of(recorder.id()), Vec::<String>::new(), "{what}");
    let exact = |after: u64| Slack { too_few: 0, too_many: after };
    Outcome::new(&what, mode.0, tree, false, dir.path(), exact(emitted_after(dir.path())))
}

fn trial(seed: u64) -> Outcome {
    let (mode, tree, mut random) = drawn(seed);
    let kill = random.of(&KILLS);
    let beside = random.of(&BESIDE);
    let what = format!("seed {seed}: {} {tree:?} {kill:?} {beside:?}", mode.0);
    let dir = scratch();
    let load = loaded(beside);
    let each = [5_000, 40_000, 200_000][random.below(3) as usize];
    let size = Size { one: 20_000_000, each };
    let mut recorder = record(dir.path(), &mode, tree, size, &mut random);
    wait_until(&format!("it emits: {what}"), || emitted(dir.path()) > 0);
    std::thread::sleep(Duration::from_micros(random.below(match tree {
        Tree::One => 30_000,
        _ => 300_000,
    })));
    if beside == Beside::Starved {
        signal(recorder.id(), Signal::STOP);
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
    }
    strike(kill, &recorder, &mut random);
    if beside == Beside::Starved {
        let _ = try_signal(recorder.id(), Signal::CONT);
    }
    // A program that lost a child goes on as it likes: for as long as a user waits.
    if kill == Kill::Child {
        std::thread::sleep(Duration::from_micros(random.below(300_000)));
        let _ = try_signal(recorder.id(), Signal::TERM);
    }
    let recorder_died = matches!(kill, Kill::Recorder | Kill::Both);
    if recorder_died {
        // The program may go on for long, or for ever where it writes to no one.
        recorder.wait().unwrap();
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
    } else if kill != Kill::Program {
        // A shell or make that is told to end may wait for its children.
        wait_until("the recorder ends", || {
            kill_below(recorder.id());
            recorder.try_wait().unwrap().is_some()
        });
    }
    recorder.wait().unwrap();
    end_all(dir.path());
    drop(load);
    let left = dir.path().join("run.kasuri.d");
    let recover = || run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
    // Killed while it removed what it had packed, it leaves the recording, and a directory that is none any more.
    let is_torn = recorder_died && left.exists() && !left.join("meta.json").exists();
    if is_torn {
        let told = said(&recover());
        assert!(told.contains("while it removed what it had packed"), "{what}: {told}");
        assert!(facts(&dir.path().join("run.kasuri")).complete, "{what}");
    }
    // It may have ended by itself before; and a signal that comes while it packs ends the packing.
    let recovered = left.exists() && !is_torn;
    assert!(!recovered || kill != Kill::Program, "{what}");
    if recovered {
        let mut output = recover();
        // A process that the recorder had just forked has its lock for a moment more.
        wait_until(&format!("the lock is free: {what}"), || {
            let is_locked = said(&output).contains("being written by another recorder");
            if is_locked {
                output = recover();
            }
            !is_locked
        });
        assert!(output.status.success(), "{what}: {}", said(&output));
        // One that had completed the recording, and was packing it, left nothing unknown.
        let is_whole = !recorder_died || facts(&dir.path().join("run.kasuri")).complete;
        assert!(is_whole || !said(&output).contains("none lost"), "{what}: {}", said(&output));
    }
    assert_eq!(sessions_of(recorder.id()), Vec::<String>::new(), "{what}");
    let slack = slack_of_kills(dir.path(), mode.0 == "flight", tree, recorder_died);
    Outcome::new(&what, mode.0, tree, recovered, dir.path(), slack)
}

impl Outcome {
    fn new(
        what: &str,
        mode: &'static str,
        tree: Tree,
        recovered: bool,
        dir: &Path,
        slack: Slack,
    ) -> Outcome {
        let balance = balance(dir, slack);
        Outcome {
            mode,
            tree,
            emitted: emitted(dir),
            lost: balance.as_ref().copied().unwrap_or(0),
            recovered,
            wrong: balance.err().map(|why| format!("{what}: {why}")),
        }
    }
}

/// Events that each of the two threads of a process annotates: of a program that is one process, and of one of many.
struct Size {
    one: u64,
    each: u64,
}

fn record(
    dir: &Path,
    (_, mode, library): &Mode,
    tree: Tree,
    Size { one, each }: Size,
    random: &mut Random,
) -> Running {
    let is_there = library.is_empty() || repository().join("build/probes").join(library).exists();
    // Fast enough to fill rings, slow enough to be packed soon.
    let pause_us = random.of(&[0, 50, 200, 1000]);
    let emitter = program("emitter").display().to_string();
    let program = match tree {
        Tree::One => format!("exec {emitter} 2 {one} counts {pause_us}"),
        Tree::Shell => {
            format!("for i in $(seq 40); do {emitter} 2 {each} counts.$i {pause_us}; done")
        }
        Tree::Make => {
            // Targets that are no files: make removes those that it was making.
            let names = (1..=40).map(|n| format!(" t{n}")).collect::<String>();
            let recipe = format!("{emitter} 2 {each} counts.$* {pause_us}");
            let rules = format!("all:{names}\n{names}: t%:\n\t{recipe}\n");
            std::fs::write(dir.join("Makefile"), rules).unwrap();
            "exec make -s -j4".to_owned()
        }
        Tree::Forks => format!("exec {emitter} 2 {each} counts {pause_us} fork 40"),
        Tree::Execs => format!("exec {emitter} 2 {each} counts {pause_us} exec 40"),
        Tree::Daemon => {
            format!("{emitter} 2 {} counts {pause_us} daemon 0; exec sleep 2", each * 10)
        }
    };
    kasuri(dir)
        .args(["record", "-q", "-o", "run.kasuri"])
        .args(if is_there { *mode } else { &[] })
        .args(["--", "sh", "-c", &program])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn_guarded()
}

/// Living children of a process.
fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The program: the child of the recorder that is not of its own.
fn root_of(recorder: u32) -> Option<u32> {
    children_of(recorder).into_iter().find(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        !name.starts_with("kasuri")
    })
}

/// Kills what the program has started and waits for.
fn kill_below(recorder: u32) {
    let children = root_of(recorder).map(children_of).unwrap_or_default();
    children.into_iter().for_each(|pid| {
        let _ = try_signal(pid, Signal::KILL);
    });
}

/// Kills all that runs in a directory.
fn end_all(dir: &Path) {
    let dir = dir.canonicalize().unwrap();
    wait_until("all have ended", || {
        let is_here =
            |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir);
        let here: Vec<i32> = kasuri_record::procs::all().filter(is_here).collect();
        here.iter().for_each(|&pid| {
            let _ = try_signal(pid as u32, Signal::KILL);
        });
        here.is_empty()
    });
}

fn strike(kill: Kill, recorder: &Running, random: &mut Random) {
    let gap = Duration::from_micros(random.below(3_000));
    let recorder = recorder.id();
    let kill_it = |pid: Option<u32>| {
        // It may have ended by itself.
        let _ = pid.map(|pid| try_signal(pid, Signal::KILL));
    };
    match kill {
        Kill::Recorder => kill_it(Some(recorder)),
        Kill::Program => kill_it(root_of(recorder)),
        Kill::Both => {
            let both = [Some(recorder), root_of(recorder)];
            let first = random.below(2) as usize;
            kill_it(both[first]);
            std::thread::sleep(gap);
            kill_it(both[1 - first]);
        }
        Kill::Child => {
            kill_it(root_of(recorder).and_then(|root| children_of(root).into_iter().next()))
        }
        Kill::Term => signal(recorder, Signal::TERM),
        Kill::TwoInterrupts => {
            signal(recorder, Signal::INT);
            std::thread::sleep(gap);
            let _ = try_signal(recorder, Signal::INT);
        }
    }
}

/// The files in which emitters counted.
fn count_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let names = std::fs::read_dir(dir).unwrap().flatten();
    let is_one = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("counts");
    names.filter(|entry| is_one(&entry.file_name())).map(|entry| entry.path()).collect()
}

fn emitted(dir: &Path) -> u64 {
    count_files(dir).iter().map(|file| counted_by_end(file).0).sum()
}

/// What was emitted when the recording had perhaps ended: children outlive their parent, and the recording of it.
fn emitted_after(dir: &Path) -> u64 {
    count_files(dir).iter().map(|file| counted_by_end(file).1).sum()
}

/// How far what is kept and lost may be from what was counted.
struct Slack {
    too_few: u64,
    too_many: u64,
}

fn slack_of_kills(dir: &Path, is_flight: bool, tree: Tree, recorder_died: bool) -> Slack {
    // Each thread that was killed may have emitted an event and not counted it: four processes at a time at most, and one that forks. A flight
    // recorder's was perhaps about to empty a chunk, whose events can then be counted to the slot only.
    let n_files = count_files(dir).len() as u64;
    let of_flight = n_files * THREADS * CHUNK_SLOTS;
    let after = emitted_after(dir);
    let (too_few, too_many) = match (is_flight, tree) {
        (true, Tree::One) => (of_flight, of_flight),
        // What children emit between its last snapshot and its end is in neither.
        (true, _) => (emitted(dir), of_flight + after),
        // A child that is forked after the recorder died is not in its recording: each thread has an event before it knows (docs/design/ring.md).
        (_, Tree::Forks) if recorder_died => (THREADS * n_files, THREADS * 5 + after),
        _ => (0, THREADS * n_files.min(5) + after),
    };
    Slack { too_few, too_many }
}

/// The equation, and that `stat` shows every loss: how many were lost, or what is wrong.
fn balance(dir: &Path, Slack { too_few, too_many }: Slack) -> Result<u64, String> {
    let file = dir.join("run.kasuri");
    let (facts, emitted, after) = (facts(&file), emitted(dir), emitted_after(dir));
    // The emitters count what their workers annotate; the lock probe annotates the main threads' joins, up to four events of each.
    let found = facts.annotations + facts.lost - facts.of_main_threads;
    if !(emitted.saturating_sub(too_few)..=emitted + too_many).contains(&found) {
        return Err(format!(
            "emitted {emitted}, and {after} at the end or after it, kept {} + lost {} - of main threads {}",
            facts.annotations, facts.lost, facts.of_main_threads
        ));
    }
    let stat = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(["stat", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    if !stat.status.success() {
        return Err(said(&stat));
    }
    let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
    let losses = stat["losses"].as_array().unwrap().iter();
    let own = losses.filter(|loss| loss["cpu"].is_null());
    let shown: u64 = own.map(|loss| loss["count"].as_u64().unwrap()).sum();
    match shown == facts.lost {
        true => Ok(facts.lost),
        false => Err(format!("stat shows {shown} lost, the file has {}", facts.lost)),
    }
}
