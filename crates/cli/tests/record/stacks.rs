//! Call paths of programs whose paths are known.
use crate::support::*;
use kasuri_format::call_paths::{ModuleKind, PathEnd, Sample, SampleKind, Tables};
use kasuri_format::container::{BlockKind, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The samples of a packed recording, with the functions of `program` on their paths, innermost first.
pub struct Taken {
    pub tables: Tables,
    samples: Vec<(Sample, Vec<String>)>,
    sources: BTreeSet<String>,
    lost: u64,
}

pub fn taken(file: &Path, program: &Path) -> Taken {
    let bytes = std::fs::read(file).expect("a recording");
    let recording = Recording::parse(&bytes).expect("sound");
    let functions = functions(program);
    let tables = recording.call_paths().clone();
    let mut samples = Vec::new();
    for (ix, block) in recording.blocks().iter().enumerate() {
        if block.kind == BlockKind::Samples {
            let block = recording.sample_block(ix).expect("sound");
            samples.extend(block.into_iter().map(|s| {
                let names = names(&tables, s.path, program, &functions);
                (s, names)
            }));
        }
    }
    let rows = recording.sampling();
    Taken {
        tables,
        samples,
        sources: rows.iter().map(|row| row.source.clone()).collect(),
        lost: rows.iter().map(|row| row.lost).sum(),
    }
}

pub fn functions(program: &Path) -> BTreeMap<u64, String> {
    let out = Command::new("nm").arg(program).output().expect("nm");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut functions = BTreeMap::new();
    for line in text.lines() {
        if let [address, "t" | "T", name] = line.split(' ').collect::<Vec<_>>()[..] {
            let name = name.split('.').next().unwrap_or(name);
            functions.insert(u64::from_str_radix(address, 16).expect("hex"), name.to_owned());
        }
    }
    functions
}

fn names(
    tables: &Tables,
    mut path: u32,
    program: &Path,
    functions: &BTreeMap<u64, String>,
) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(row) = tables.paths.get(path as usize) {
        let frame = tables.frames[row.frame as usize];
        let module = tables.modules.get(frame.module as usize);
        if module.is_some_and(|m| Path::new(&m.path).file_name() == program.file_name()) {
            let found = functions.range(..=frame.address).next_back();
            names.extend(found.map(|(_, name)| name.clone()));
        }
        path = row.caller;
    }
    names
}

impl Taken {
    pub fn of(&self, kind: SampleKind) -> impl Iterator<Item = &(Sample, Vec<String>)> {
        self.samples.iter().filter(move |(s, _)| s.kind == kind)
    }

    /// Share of the samples of this kind whose path is whole.
    pub fn complete(&self, kind: SampleKind) -> f64 {
        let n = self.of(kind).count();
        let complete = self.of(kind).filter(|(s, _)| s.end == PathEnd::Complete);
        complete.count() as f64 / n.max(1) as f64
    }

    fn assert_split(&self, least: usize) {
        let n = self.of(SampleKind::OnCpu).count();
        assert!(n >= least, "{n} samples; {} lost", self.lost);
        for (function, share) in [("sixty", 0.6), ("thirty", 0.3), ("ten", 0.1)] {
            let there = self.of(SampleKind::OnCpu).filter(|(_, names)| {
                // The caller of spin, or itself.
                names.iter().take(2).any(|name| name == function)
            });
            let found = there.count() as f64 / n as f64;
            // Four standard deviations.
            let tolerance = 4.0 * (share * (1.0 - share) / n as f64).sqrt() + 0.01;
            assert!((found - share).abs() < tolerance, "{function}: {found:.3} of {n} samples");
        }
    }
}

pub fn perf_allows() -> bool {
    match kasuri_record::perf::reach() {
        Some(_) => true,
        None => {
            skip("perf_event_open is refused");
            false
        }
    }
}

/// Whether this machine lets us sample where threads begin to wait.
fn switches_are_sampled() -> bool {
    let can = kasuri_record::perf::reach() == Some(kasuri_record::perf::Reach::System);
    if !can || !Path::new("/sys/kernel/tracing/events/sched/sched_switch/id").exists() {
        skip("the scheduler's events cannot be sampled");
        return false;
    }
    true
}

pub fn record(dir: &Path, args: &[&str], program: &Path, rest: &[&str]) -> PathBuf {
    let mut command = kasuri(dir);
    command.args(["record", "-q", "-o", "run.kasuri"]).args(args);
    let output = run(command.arg("--").arg(program).args(rest));
    assert!(output.status.success(), "{}", said(&output));
    dir.join("run.kasuri")
}

/// How much of the time of the program's waits shorter than 8 us has a path, and all of that time, ns, of threads of which one of these
/// waits was sampled. Longer ones are those in which another program had the CPU. Two threads that wake each other go on for long in
/// a way in which one of them is preempted and never waits: a short time in turn that falls there meets no wait of it.
fn short_waits(bytes: &[u8]) -> (i64, i64) {
    let file = kasuri_import::File { name: "run.kasuri", bytes };
    let trace = kasuri_import::load(&[file], &Default::default()).expect("a sound recording");
    let session = kasuri_analyze::Session::new(&trace, &Default::default());
    let cover = session.cover();
    let (mut known, mut all) = (0, 0);
    for thread in (0..trace.threads.len() as u32).map(kasuri_model::ThreadIx) {
        let process = &trace.processes[trace.threads[thread.ix()].process.ix()];
        let states = trace.states_of(thread);
        let (mut of_thread, mut is_met) = ((0, 0), false);
        for row in states.filter(|row| process.is_target && row.state.is_blocked()) {
            if row.end.0 - row.start.0 < 8_000 {
                for (owner, length) in cover.between(thread, row.start, row.end) {
                    of_thread.1 += length.ns();
                    of_thread.0 += owner.sample().map_or(0, |_| length.ns());
                    is_met |= owner.sample().is_some() && !owner.is_estimated();
                }
            }
        }
        if is_met {
            (known, all) = (known + of_thread.0, all + of_thread.1);
        }
    }
    (known, all)
}

#[test]
fn stacks_off_takes_none() {
    let (dir, program) = (scratch(), program("paths"));
    let file = record(dir.path(), &["--stacks=off"], &program, &["split", "0.3"]);
    let taken = taken(&file, &program);
    assert!(taken.samples.is_empty() && taken.sources.is_empty());
}

/// A setting of the kernel, which has its value again when this goes.
struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    fn set(path: &'static str, value: &str) -> Option<Setting> {
        let before = std::fs::read_to_string(path).ok()?;
        let setting = Setting { path, before };
        if setting.before.trim() != value {
            std::fs::write(path, value).ok()?;
        }
        let now = std::fs::read_to_string(path).ok()?;
        (now.trim() == value).then_some(setting)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let now = std::fs::read_to_string(self.path);
        if now.is_ok_and(|now| now != self.before) {
            // It was written before, by this very process.
            let _ = std::fs::write(self.path, &self.before);
        }
    }
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn code_that_takes_60_30_and_10_percent_is_found_to() {
        if !perf_allows() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let file = record(dir.path(), &[], &program, &["split", "3"]);
            let taken = taken(&file, &program);
            taken.assert_split(300);
            assert!(taken.complete(SampleKind::OnCpu) >= 0.98);
            let (_, names) = taken.of(SampleKind::OnCpu).nth(20).expect("more than 20");
            assert!(names.contains(&"main".to_owned()), "{names:?}");
        });
    }

    /// Timers, bursts that begin at ticks and short threads, with which a clock may be in step. `bench/shares` has many more.
    #[test]
    fn planted_shares_lie_within_the_points_said() {
        if !switches_are_sampled() {
            return;
        }
        measure(|| {
            let (mut within, mut all) = (0, 0);
            for family in ["timer", "late", "tick", "threads", "long", "crowd"] {
                for (truth, share, points) in planted(family) {
                    let off = 100.0 * (truth - share).abs();
                    all += 1;
                    within += u32::from(off <= points);
                    assert!(off <= 2.0 * points, "{family}: {truth} {share} {points}");
                }
            }
            // 95 of 100 should, and the four of a program do or do not together.
            assert!(all == 24 && within >= 20, "{within} of {all}");
        });
    }

    /// Of each function of a program of `shares.c`: its true share of them all, the one that the samples tell, and how many points that may be off.
    fn planted(family: &str) -> Vec<(f64, f64, f64)> {
        let (dir, program) = (scratch(), program("shares"));
        let mut command = kasuri(dir.path());
        command.args(["record", "-q", "-o", "run.kasuri", "--"]);
        let output = run(command.arg(program).args([family, "7", "1.5"]));
        assert!(output.status.success(), "{}", said(&output));
        let truth = String::from_utf8(output.stdout).expect("text");
        let truth: Vec<(&str, f64)> = truth
            .lines()
            .map(|line| line.split_once(' ').expect("a name and a number"))
            .map(|(name, ns)| (name, ns.parse().expect("ns")))
            .collect();
        let flame = run(kasuri(dir.path()).args(["flame", "--json", "run.kasuri"]));
        let flame: serde_json::Value = serde_json::from_slice(&flame.stdout).expect("JSON");
        let found = |name: &str| -> f64 {
            let nodes = flame["nodes"].as_array().expect("nodes").iter();
            let of_name = nodes.filter(|node| node["frame"]["function"] == name);
            of_name.filter_map(|node| node["ns"].as_f64()).sum()
        };
        let ours: f64 = truth.iter().map(|(name, _)| found(name)).sum();
        let everything: f64 = truth.iter().map(|(_, ns)| ns).sum();
        let number = |key: &str| flame[key].as_f64().expect("a number");
        let samples = number("independent_samples") * ours / number("ns");
        let row = |(name, ns): (&str, f64)| {
            let share = found(name) / ours;
            let points = kasuri_analyze::call_paths::points_off(share, samples as u64);
            (ns / everything, share, points)
        };
        truth.into_iter().map(row).collect()
    }

    #[test]
    fn each_long_wait_shows_where_it_waits() {
        if !perf_allows() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let file = record(dir.path(), &[], &program, &["block"]);
            let taken = taken(&file, &program);
            assert!(taken.complete(SampleKind::BlockedRead) >= 0.999);
            for function in ["in_sleep", "in_cond", "in_read", "in_poll", "in_semaphore"] {
                let there: Vec<i32> = taken
                    .of(SampleKind::BlockedRead)
                    .filter(|(_, names)| names.first().is_some_and(|name| name == function))
                    .map(|(s, _)| s.tid)
                    .collect();
                assert!((8..=13).contains(&there.len()), "{function}: {} of 12 waits", there.len());
                assert!(there.iter().all(|&tid| tid == there[0]), "one thread waits there");
            }
        });
    }

    /// Waits that are over before anyone could read their stacks, and what ended them.
    #[test]
    fn each_short_wait_shows_where_it_begins_and_who_ends_it() {
        if !switches_are_sampled() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let file = record(dir.path(), &[], &program, &["short"]);
            let taken = taken(&file, &program);
            let blocked = taken.of(SampleKind::Blocked).count() as f64;
            for function in ["in_nap", "in_answer"] {
                let there = taken.of(SampleKind::Blocked);
                let there = there.filter(|(_, names)| names.first().is_some_and(|n| n == function));
                let share = there.count() as f64 / blocked;
                // Of four waits in turn; the other thread's two are in `answer`.
                assert!((share - 0.25).abs() < 0.05, "{function}: {share} of {blocked}");
            }
            assert!(taken.complete(SampleKind::Blocked) >= 0.99);
            let gives = |names: &Vec<String>| names.first().is_some_and(|n| n == "give_answer");
            let gave = taken.of(SampleKind::Waker).filter(|(_, names)| gives(names));
            assert!(gave.count() > 100);
            let stat = run(kasuri(dir.path()).args(["stat", "--json", "run.kasuri"]));
            let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).expect("JSON");
            let slept = &stat["call_paths"]["blocked"];
            let part = |key: &str| slept[key].as_f64().expect("a number");
            assert!(part("complete_ns") >= 0.95 * part("ns"), "{slept}");
        });
    }

    /// Hundreds of thousands of waits a second cost no more than their share: few are sampled, that is said, and they stand for the others.
    #[test]
    fn a_storm_of_waits_is_sampled_for_short_times_in_turn() {
        if !switches_are_sampled() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let file = record(dir.path(), &[], &program, &["storm"]);
            let bytes = std::fs::read(&file).expect("a recording");
            let recording = Recording::parse(&bytes).expect("sound");
            let rows = recording.sampling();
            for source in ["switch", "wake"] {
                let said = rows.iter().filter(|row| row.source == source);
                let said: Vec<&str> = said.map(|row| row.reason.as_str()).collect();
                assert!(
                    said.iter().any(|r| r.contains("short times in turn")),
                    "{source}: {said:?}"
                );
            }
            let taken = taken(&file, &program);
            let n = taken.of(SampleKind::Blocked).count() + taken.of(SampleKind::Waker).count();
            assert!((50..10_000).contains(&n), "{n} of 400,000 waits and wake-ups");
            let (known, all) = short_waits(&bytes);
            assert!(all > 30_000_000 && known as f64 > 0.9 * all as f64, "{known} of {all} ns");
        });
    }

    /// Samples that others' timers added must not make the ordinary ones look rare.
    #[test]
    fn time_after_a_storm_of_timers_has_samples() {
        if !switches_are_sampled() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let file = record(dir.path(), &[], &program, &["timer"]);
            let stat = (kasuri(dir.path()).args(["stat", "--json"]).arg(&file)).output();
            let stat: serde_json::Value =
                serde_json::from_slice(&stat.expect("kasuri").stdout).expect("JSON");
            let ran = &stat["call_paths"]["on_cpu"];
            let ns = |key: &str| ran[key].as_i64().expect("ns");
            assert!(ns("ns") > 1_000_000_000, "{ran}");
            assert!(ns("unsampled_ns") * 20 < ns("ns"), "{ran}");
        });
    }

    #[test]
    fn a_running_process_is_sampled() {
        if !perf_allows() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let mut running =
                Command::new(&program).args(["split", "30"]).spawn().expect("it runs");
            let mut command = kasuri(dir.path());
            command.args(["record", "-q", "-o", "run.kasuri", "--duration", "3s", "-p"]);
            let output = run(command.arg(running.id().to_string()));
            let _ = running.kill();
            let _ = running.wait();
            assert!(output.status.success(), "{}", said(&output));
            taken(&dir.path().join("run.kasuri"), &program).assert_split(40);
        });
    }

    #[test]
    fn the_flight_recorder_keeps_the_samples_of_its_time() {
        if !perf_allows() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let file = record(dir.path(), &["--flight", "--keep", "1s"], &program, &["split", "3"]);
            let taken = taken(&file, &program);
            taken.assert_split(20);
            let times = || taken.samples.iter().map(|(s, _)| s.time_ns);
            let kept = times().max().unwrap_or(0) - times().min().unwrap_or(0);
            assert!(kept <= 1_000_000_000, "{kept} ns");
        });
    }

    #[test]
    fn a_killed_recorder_leaves_its_samples() {
        if !perf_allows() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let mut recorder = kasuri(dir.path())
                .args(["record", "-q", "-o", "run.kasuri", "--"])
                .arg(&program)
                .args(["split", "30"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("kasuri runs");
            let pid = program_of(&recorder, "paths");
            let log = dir.path().join("run.kasuri.d/call-paths.log");
            wait_until("there are samples", || {
                std::fs::metadata(&log).is_ok_and(|meta| meta.len() > 2000)
            });
            std::thread::sleep(Duration::from_millis(300));
            recorder.kill().expect("it runs");
            let _ = recorder.wait();
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid as i32).expect("a pid"),
                rustix::process::Signal::KILL,
            );
            // In the middle of a record.
            let len = std::fs::metadata(&log).expect("the log").len();
            let cut = std::fs::OpenOptions::new().write(true).open(&log);
            cut.and_then(|file| file.set_len(len - 3)).expect("cut");
            let output = run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
            assert!(output.status.success(), "{}", said(&output));
            assert!(!said(&output).contains("call-paths.log"), "{}", said(&output));
            taken(&dir.path().join("run.kasuri"), &program).assert_split(20);
        });
    }

    #[test]
    fn without_root_code_and_waits_are_sampled() {
        if !is_root() || !perf_allows() {
            return;
        }
        let Some(_paranoid) = Setting::set("/proc/sys/kernel/perf_event_paranoid", "2") else {
            return skip("perf_event_paranoid cannot be set to 2");
        };
        let yama = Setting::set("/proc/sys/kernel/yama/ptrace_scope", "1");
        if yama.is_none() {
            eprintln!(
                "without yama's ptrace_scope, which this kernel lacks or which cannot be set"
            );
        }
        measure(|| {
            let dir = tempfile::tempdir_in("/tmp").expect("a directory");
            std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).expect("chown");
            let program = program("paths");
            for (from, to) in
                [(program.clone(), "paths"), (env!("CARGO_BIN_EXE_kasuri").into(), "kasuri")]
            {
                copy_program(from, dir.path().join(to));
            }
            let as_nobody = |args: &[&str]| {
                let mut command = Command::new("setpriv");
                command
                    .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                    .arg("./kasuri")
                    .args(args)
                    .current_dir(dir.path())
                    .stdin(Stdio::null());
                command.output().expect("setpriv")
            };
            let doctor = String::from_utf8(as_nobody(&["doctor"]).stdout).unwrap();
            assert!(doctor.contains("the code of waits under 20 ms"), "{doctor}");
            assert!(
                yama.is_none() || doctor.contains("ptrace_scope is 1: of programs that"),
                "{doctor}"
            );
            for rest in [&["split", "3"][..], &["block"]] {
                let begin = ["record", "-q", "-o", "run.kasuri", "--", "./paths"];
                let output = as_nobody(&[&begin, rest].concat());
                assert!(output.status.success(), "{}", said(&output));
                let taken = taken(&dir.path().join("run.kasuri"), &program);
                assert!(taken.sources.contains("cpu-clock"), "{:?}", taken.sources);
                match rest[0] {
                    "split" => taken.assert_split(100),
                    _ => {
                        assert!(taken.of(SampleKind::BlockedRead).count() >= 30);
                        let mut names = taken.tables.names.iter();
                        assert!(names.any(|names| names.calls[0].function == "pipe"));
                    }
                }
            }
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn strange_code_and_stacks_harm_nobody_and_are_said_to_be_unknown() {
        if !perf_allows() {
            return;
        }
        let program = program("strange_code");
        for mode in ["no-elf", "fifo", "mappings", "stack"] {
            measure(|| {
                let dir = scratch();
                let file = record(dir.path(), &[], &program, &[mode]);
                let taken = taken(&file, &program);
                let n = taken.of(SampleKind::OnCpu).count();
                assert!(n >= 10, "{mode}: {n} samples");
                let whole = taken.complete(SampleKind::OnCpu);
                let unreadable = |m: &kasuri_format::call_paths::Module| {
                    m.kind == ModuleKind::Unreadable && m.path.ends_with("garbage.so")
                };
                match mode {
                    "no-elf" | "fifo" | "mappings" => {
                        assert!(taken.tables.modules.iter().any(unreadable), "{mode}");
                    }
                    _ => assert!(whole < 0.5, "{mode}: {whole} are complete"),
                }
            });
        }
    }

    /// Everyone's long waits, too: of a program that began before the recording, and of one that began in it.
    #[test]
    fn waits_of_the_whole_system_are_read() {
        if !switches_are_sampled() {
            return;
        }
        measure(|| {
            let (dir, program) = (scratch(), program("paths"));
            let start = || {
                let mut command = Command::new(&program);
                command.arg("block").spawn().expect("it runs")
            };
            let mut before = start();
            let mut command = kasuri(dir.path());
            command.args(["record", "-q", "-o", "run.kasuri", "--duration", "4s", "-a"]);
            let mut recorder = command.spawn().expect("kasuri runs");
            std::thread::sleep(Duration::from_millis(1000));
            let mut within = start();
            let status = recorder.wait().expect("it ends");
            for child in [&mut before, &mut within] {
                let _ = child.kill();
                let _ = child.wait();
            }
            assert!(status.success());
            let taken = taken(&dir.path().join("run.kasuri"), &program);
            let read: Vec<&(Sample, Vec<String>)> = taken
                .of(SampleKind::BlockedRead)
                .filter(|(s, _)| s.pid == within.id() as i32)
                .collect();
            // On a machine with many threads each has its turn, not each of its waits.
            let mut n = 0;
            for function in ["in_sleep", "in_cond", "in_read", "in_poll", "in_semaphore"] {
                let is_there =
                    |names: &[String]| names.first().is_some_and(|name| name == function);
                let there = read.iter().filter(|(_, names)| is_there(names)).count();
                assert!(there >= 1, "{function}: none of 12 waits");
                n += there;
            }
            assert!(n >= 10, "{n} of 60 waits");
            // Those of others are read, too: this test waits for the recorder.
            let others = taken
                .of(SampleKind::BlockedRead)
                .filter(|(s, _)| s.pid == std::process::id() as i32);
            assert!(others.count() > 0);
        });
    }
}
