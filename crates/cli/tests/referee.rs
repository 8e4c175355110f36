//! Independent tools as referees: `perf` and `trace-cmd` record the same run of a program that we did not write, at
//! the same time. Each thread's number of switches must be the same exactly, its time on a CPU within 0.1 %.
//!
//! The referee's events are compared, not its summaries: `perf sched timehist` leaves out each thread's first and last
//! slice, `perf sched latency` part of the switches. Needs root, tracefs, perf and one of pigz, pbzip2, xz.
use crate::events::Sched;
use crate::support::{measure, skip};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Threads that ran for less are compared by switches, and by time in the program's total alone: both tools stamp a
/// switch within about a microsecond of each other, which over hundreds of short runs is more than 0.1 % of them.
const MIN_ON_CPU_NS: i64 = 50_000_000;

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// What keeps the test from running here.
fn obstacle(referee: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root to record the scheduler's events".into());
    }
    if !Path::new("/sys/kernel/tracing/events/sched").exists() {
        return Some("needs tracefs at /sys/kernel/tracing; run `mount -t tracefs nodev /sys/kernel/tracing`".into());
    }
    let needed = [referee, program()?.0];
    needed.iter().find(|p| !has(p)).map(|p| format!("needs {p}; install it"))
}

/// A multi-threaded program that we did not write, and its arguments but the file.
fn program() -> Option<(&'static str, &'static [&'static str])> {
    let known: [(&str, &[&str]); 3] = [
        ("pigz", &["-p", "3", "-k", "-c"]),
        ("pbzip2", &["-p3", "-k", "-c"]),
        ("xz", &["-T3", "-0", "--block-size=1MiB", "-k", "-c"]),
    ];
    known.into_iter().find(|(name, _)| has(name)).or(Some(known[0]))
}

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// 24 MB of text-like bytes, the same each time.
fn input(dir: &Path) -> PathBuf {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let bytes: Vec<u8> = (0..24_000_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            b"etaoin shrdlucmfwypvbgk\n"[(state >> 59) as usize % 24]
        })
        .collect();
    let path = dir.join("input");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// `kasuri record` of the program; returns `kasuri stat --json` and the recording's window on CLOCK_MONOTONIC.
fn record(dir: &Path) -> (serde_json::Value, std::ops::Range<i64>) {
    let (name, args) = program().unwrap();
    let file = dir.join("run.kasuri");
    let kasuri = || Command::new(env!("CARGO_BIN_EXE_kasuri"));
    let done = kasuri()
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", name])
        .args(args)
        .arg(input(dir))
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let stat = kasuri().args(["stat", "--json"]).arg(&file).output().unwrap();
    let export =
        kasuri().args(["export", "-f", "chrome-json", "-o", "-"]).arg(&file).output().unwrap();
    let export: serde_json::Value = serde_json::from_slice(&export.stdout).unwrap();
    let at = |key: &str| export["otherData"][key].as_i64().unwrap();
    let window = at("start_monotonic_ns")..at("end_monotonic_ns");
    (serde_json::from_slice(&stat.stdout).unwrap(), window)
}

/// Compares each thread of the program; returns how many threads and switches were compared.
fn compare(stat: &serde_json::Value, referee: &Sched, name: &str) -> (usize, u64) {
    assert_eq!(stat["losses"], serde_json::json!([]), "a recording with losses proves nothing");
    let most = if referee.is_whole() { SEEN } else { INFERRED };
    let (mut threads, mut switches, mut total) = (0, 0, (0, 0));
    for thread in stat["threads"].as_array().unwrap() {
        let tid = thread["tid"].as_i64().unwrap() as i32;
        let ours = (thread["switches"].as_u64().unwrap(), thread["on_cpu_ns"].as_i64().unwrap());
        let theirs = referee.thread(tid);
        println!("{tid}: switches, on-CPU ns: kasuri {ours:?}, {name} {theirs:?}");
        assert_eq!(ours.0, theirs.0, "switches of thread {tid}");
        if theirs.1 >= MIN_ON_CPU_NS {
            within(most, ours.1, theirs.1, &format!("thread {tid}"));
        }
        total = (total.0 + ours.1, total.1 + theirs.1);
        threads += 1;
        switches += ours.0;
    }
    within(most, total.0, total.1, "all threads");
    (threads, switches)
}

/// Largest relative difference of times on a CPU, where the kernel reported all switches...
const SEEN: f64 = 0.001;
/// ...and where it hid some. Then both sides infer times, from not quite the same events; seen: mostly 0.0001, up to 0.02
/// where one of them knows of one wake-up less.
const INFERRED: f64 = 0.1;

fn within(most: f64, ours: i64, theirs: i64, what: &str) {
    let error = (ours - theirs).abs() as f64 / theirs as f64;
    assert!(error <= most, "on-CPU time of {what}: kasuri {ours} ns, referee {theirs} ns: {error}");
}

/// The test must have had something to compare, and must notice a difference.
fn compare_and_control(stat: &serde_json::Value, referee: &Sched, name: &str) {
    let (threads, switches) = compare(stat, referee, name);
    assert!(
        threads >= 3 && switches >= 20,
        "{threads} threads, {switches} switches are too few to prove anything"
    );
    let mut wrong = stat.clone();
    let first = &mut wrong["threads"][0]["switches"];
    *first = (first.as_u64().unwrap() + 1).into();
    let noticed = std::panic::catch_unwind(|| compare(&wrong, referee, name)).is_err();
    assert!(noticed, "control: one switch more must not pass");
}

/// A child that is stopped by a signal, in the end or when the test fails.
struct Referee(Child);

impl Referee {
    fn stop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        let _ = self.0.wait();
        self.kill_rest();
    }

    /// trace-cmd has children, which outlive it when it crashes (3.1.6 does, where function filters are refused).
    fn kill_rest(&self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Referee {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.stop();
        }
        self.kill_rest();
    }
}

/// A named pipe, open both ways so that opening never blocks.
fn fifo(path: &Path) -> File {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    File::options().read(true).write(true).open(path).unwrap()
}

/// Sends perf a command and waits for its answer.
fn tell(control: &mut File, answers: &mut File, command: &str) {
    writeln!(control, "{command}").unwrap();
    // Some versions send the string's NUL too: it comes before the next answer.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        let mut byte = [0];
        answers.read_exact(&mut byte).unwrap();
        answer.extend(byte.into_iter().filter(|&b| b != 0));
    }
    assert_eq!(answer, b"ack\n");
}

fn trace_cmd_counts_the_same_switches() {
    let dir = scratch("referee-trace-cmd");
    let data = dir.join("trace.dat");
    // Some machines refuse writes to ftrace_enabled, which trace-cmd wants to make although sched events do not need
    // them: it runs in a mount namespace of its own in which an ordinary file lies over that one.
    let covers = dir.join("covers");
    std::fs::create_dir(&covers).unwrap();
    let script = r#"
        for f in /proc/sys/kernel/ftrace_enabled /sys/kernel/tracing/instances/referee-of-kasuri/set_ftrace_filter \
                 /sys/kernel/tracing/instances/referee-of-kasuri/set_ftrace_notrace /sys/kernel/tracing/instances/referee-of-kasuri/set_ftrace_pid; do
            [ -e $f ] || continue
            c="$1/$(basename $f)"; : > "$c"; mount --bind "$c" $f || exit 9
        done
        exec trace-cmd record -B referee-of-kasuri -C mono -b 16384 -e sched:sched_switch -e sched:sched_waking -e sched:sched_wakeup_new -o "$2"
    "#;
    let instance = Path::new("/sys/kernel/tracing/instances/referee-of-kasuri");
    let _ = std::fs::remove_dir(instance);
    std::fs::create_dir(instance).unwrap();
    let child = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .args([&covers, &data])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(dir.join("trace-cmd.err")).unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut referee = Referee(child);
    let running = wait_until(|| {
        let is = |file: &str, value: &str| {
            std::fs::read_to_string(instance.join(file)).is_ok_and(|t| t.trim() == value)
        };
        is("events/sched/sched_switch/enable", "1") && is("tracing_on", "1")
    });
    if !running || referee.0.try_wait().unwrap().is_some() {
        let why = std::fs::read_to_string(dir.join("trace-cmd.err")).unwrap_or_default();
        referee.stop();
        let _ = std::fs::remove_dir(instance);
        let why = format!("trace-cmd does not record here: {}", why.trim());
        return kasuri_testkit::skip_for(kasuri_testkit::Need::Machine, &why);
    }
    let (stat, window) = record(&dir);
    referee.stop();
    let _ = std::fs::remove_dir(instance);
    let report =
        Command::new("trace-cmd").args(["report", "-t", "-R", "-i"]).arg(&data).output().unwrap();
    let report = String::from_utf8_lossy(&report.stdout);
    assert!(
        !report.contains("EVENTS DROPPED") && !report.contains("[LOST"),
        "trace-cmd lost events: no referee"
    );
    compare_and_control(&stat, &Sched::parse(&report, window), "trace-cmd");
}

fn wait_until(mut is_true: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if is_true() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn referee_perf_counts_the_same_switches() {
        if let Some(why) = obstacle("perf") {
            return skip(&why);
        }
        measure(|| {
            let dir = scratch("referee-perf");
            let (control, answers) = (dir.join("control"), dir.join("answers"));
            let (mut to, mut from) = (fifo(&control), fifo(&answers));
            let data = dir.join("perf.data");
            let perf = Command::new("perf")
                .args(["record", "-q", "-a", "-k", "CLOCK_MONOTONIC", "-m", "4M", "-D", "-1"])
                .args([
                    "-e",
                    "sched:sched_switch",
                    "-e",
                    "sched:sched_waking",
                    "-e",
                    "sched:sched_wakeup_new",
                ])
                .arg(format!("--control=fifo:{},{}", control.display(), answers.display()))
                .arg("-o")
                .arg(&data)
                .stdout(Stdio::null())
                .stderr(File::create(dir.join("perf.err")).unwrap())
                .process_group(0)
                .spawn()
                .unwrap();
            let mut perf = Referee(perf);
            tell(&mut to, &mut from, "enable");
            let (stat, window) = record(&dir);
            tell(&mut to, &mut from, "disable");
            perf.stop();
            let script = Command::new("perf")
                .args([
                    "script",
                    "--ns",
                    "--show-lost-events",
                    "-F",
                    "comm,tid,cpu,time,event,trace",
                    "-i",
                ])
                .arg(&data)
                .output()
                .unwrap();
            let script = String::from_utf8_lossy(&script.stdout);
            assert!(!script.contains("PERF_RECORD_LOST"), "perf lost events: no referee");
            compare_and_control(&stat, &Sched::parse(&script, window), "perf");
        });
    }

    #[test]
    fn referee_trace_cmd_counts_the_same_switches() {
        if let Some(why) = obstacle("trace-cmd") {
            return skip(&why);
        }
        measure(trace_cmd_counts_the_same_switches);
    }
}
