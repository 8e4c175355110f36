//! Small files about very many threads or locks: every command answers in bounded memory and CPU time. The limits are
//! far above what is needed (a loaded machine does not reach them: they are the process's own) and far below what a table
//! with a row for each pair would take.
use crate::crowd::Crowd;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const MEMORY: u64 = 640 << 20;
/// Of an unoptimised build.
const CPU_SECONDS: u64 = 60;

/// As many CPUs as it may use: a thread for each would take more memory on a larger machine.
const CPUS: usize = 4;

/// Runs `kasuri` with its own memory and CPU time limited.
fn limited(dir: &Path, arguments: &[&str]) -> Output {
    let limit = |n| Rlimit { current: Some(n), maximum: Some(n) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.args(arguments).current_dir(dir).stdin(Stdio::null());
    let mut cpus = CpuSet::new();
    let allowed = kasuri_record::host::allowed_cpus();
    allowed.iter().take(CPUS).for_each(|&cpu| cpus.set(cpu));
    // SAFETY: between fork and exec only setrlimit and sched_setaffinity are called, plain system calls.
    unsafe {
        command.pre_exec(move || {
            setrlimit(Resource::As, limit(MEMORY))?;
            setrlimit(Resource::Cpu, limit(CPU_SECONDS))?;
            sched_setaffinity(None, &cpus)?;
            Ok(())
        })
    };
    command.output().expect("kasuri runs")
}

const COMMANDS: [&[&str]; 5] = [
    &["locks", "--json", "run.kasuri"],
    &["stat", "run.kasuri"],
    &["critical", "run.kasuri"],
    &["report", "-o", "run.html", "run.kasuri"],
    &["predict", "--other-machine", "--cpus", "2,64", "run.kasuri"],
];

/// Runs all commands; returns the first one's answer.
fn all_answer(crowd: Crowd) -> serde_json::Value {
    let dir = tempfile::tempdir().expect("a directory");
    let crowd = crowd.with_states();
    std::fs::write(dir.path().join("run.kasuri"), crowd.recording()).expect("written");
    let outs = COMMANDS.map(|command| {
        let out = limited(dir.path(), command);
        assert!(
            out.status.success(),
            "{command:?} with {MEMORY} bytes and {CPU_SECONDS} s: {}: {}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
        out
    });
    serde_json::from_slice(&outs[0].stdout).expect("JSON")
}

#[test]
fn crowds_of_threads_at_one_lock() {
    let answer = all_answer(Crowd::threads_at_one_lock(13_333));
    // Each waits while all before it hold, in turn: told apart for the first ones, then together.
    let waits_for = answer["waits_for"].as_array().expect("a list");
    let of = |holder: &str| waits_for.iter().filter(|w| w["holder"] == holder).count();
    assert!(of("(many)") > 13_000 && waits_for.len() < 100_000);
    let sum = |rows: &str, key: &str| -> i64 {
        let rows = answer[rows].as_array().expect("a list");
        rows.iter().map(|r| r[key].as_i64().expect("ns")).sum()
    };
    assert_eq!(sum("waits_for", "ns"), sum("locks", "wait_ns"));
    let blamed: i64 = (waits_for.iter())
        .filter(|w| w["holder"] != "")
        .map(|w| w["ns"].as_i64().expect("ns"))
        .sum();
    assert_eq!(blamed, sum("locks", "holder_ns"));
}

#[test]
fn crowds_of_locks_held_at_once() {
    let answer = all_answer(Crowd::locks_held_at_once(8_000));
    assert_eq!(answer["locks"].as_array().map(Vec::len), Some(8_000));
    assert_eq!(answer["inversions"], serde_json::json!([]));
    // All are held nearly all the time, and yet no more than all of it is inside.
    let ratio = answer["total"]["lock_ratio"].as_f64().expect("known");
    assert!(ratio > 0.9 && ratio <= 1.0, "{ratio}");
}

#[test]
fn crowds_of_locks_one_after_the_other() {
    let answer = all_answer(Crowd::locks_one_after_the_other(8_000));
    assert_eq!(answer["locks"].as_array().map(Vec::len), Some(8_000));
}

#[test]
fn crowds_of_locks_held_in_both_orders() {
    let answer = all_answer(Crowd::locks_held_in_both_orders(4_000, 2));
    // Each lock and its neighbours, by two threads.
    let inversions = answer["inversions"].as_array().expect("a list");
    assert_eq!(inversions.len(), 256);
    assert!(inversions.iter().all(|i| i["can_deadlock"] == true
        && i["first_then_second"] == 2
        && i["second_then_first"] == 2));
    let look_at = answer["look_at"].as_str().expect("an advice");
    assert!(look_at.contains("both orders"), "{look_at}");
}

/// Writes the files where CROWD_FILES says: to look at them by hand.
#[test]
fn crowds_are_written_where_asked() {
    let Some(dir) = std::env::var_os("CROWD_FILES") else {
        return;
    };
    let dir = Path::new(&dir);
    let put = |name: &str, crowd: Crowd| {
        std::fs::write(dir.join(format!("{name}.kasuri")), crowd.recording()).expect("written");
        let with = crowd.with_states().recording();
        std::fs::write(dir.join(format!("{name}-states.kasuri")), with).expect("written");
    };
    put("threads", Crowd::threads_at_one_lock(13_333));
    put("held", Crowd::locks_held_at_once(8_000));
    put("after", Crowd::locks_one_after_the_other(8_000));
    put("orders", Crowd::locks_held_in_both_orders(4_000, 2));
}
