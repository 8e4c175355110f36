//! `kasuri top`: its sums against the kernel's own, what it leaves behind, what it saves.
use crate::support;
use crate::support::{can_trace, kasuri, run, said, scratch};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// Two processes that want one CPU.
struct Rivals([Child; 2]);

impl Rivals {
    fn start() -> Rivals {
        let spin = || {
            let mut command = Command::new("taskset");
            command.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
            command.stdout(Stdio::null()).spawn().expect("taskset")
        };
        Rivals([spin(), spin()])
    }

    fn pids(&self) -> [i64; 2] {
        [i64::from(self.0[0].id()), i64::from(self.0[1].id())]
    }

    /// CPU time of each as the kernel counts it, ns.
    fn cpu_ns(&self) -> [i64; 2] {
        self.pids().map(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        })
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn number(row: &Value, key: &str) -> i64 {
    row[key].as_i64().unwrap_or_else(|| panic!("{key} in {row}"))
}

fn instances() -> usize {
    let dir = std::fs::read_dir("/sys/kernel/tracing/instances");
    let names = dir.into_iter().flatten().flatten();
    let pid = std::process::id();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("kasuri-{pid}-")))
        .count()
}

#[test]
fn sums_agree_with_the_kernels_own_and_with_each_other() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let rivals = Rivals::start();
    let before = rivals.cpu_ns();
    let out = run(kasuri(dir).args([
        "top",
        "--json",
        "-n",
        "3",
        "--interval",
        "400ms",
        "--save",
        "last.kasuri",
    ]));
    let after = rivals.cpu_ns();
    assert!(out.status.success(), "{}", said(&out));
    let text = String::from_utf8(out.stdout).unwrap();
    let windows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(windows.len(), 3);
    for window in &windows {
        let odd = kasuri_testkit::schema::violations("top", window);
        assert_eq!(odd, Vec::<String>::new());
    }
    let mut ran = [0; 2];
    let mut disturbed = [0; 2];
    for line in &windows {
        assert_eq!(line["schema"], "kasuri.top/1");
        let window = &line["window"];
        let length = number(window, "end_ns") - number(window, "start_ns");
        // Longer where the machine was too busy to end it in time.
        assert!(length >= 400_000_000);
        let cpus = ["busy_ns", "idle_ns", "unknown_ns"].map(|key| number(window, key));
        assert_eq!(cpus.iter().sum::<i64>(), length * number(window, "n_cpus"));
        let mut of_threads = 0;
        for row in window["threads"].as_array().unwrap() {
            let waits = ["own_ns", "others_ns", "idle_ns"].map(|key| number(&row["wait"], key));
            let states =
                ["run_ns", "asleep_ns", "disk_ns", "unknown_ns"].map(|key| number(row, key));
            let sum = waits.iter().chain(&states).sum::<i64>();
            assert!(sum <= length, "{row}");
            of_threads += number(row, "run_ns");
        }
        // What CPUs are known to run, some thread is known to run.
        assert!((of_threads - cpus[0]).abs() <= length / 1000, "{of_threads} and {}", cpus[0]);
        for (ix, pid) in rivals.pids().iter().enumerate() {
            let processes = window["processes"].as_array().unwrap();
            let of = processes.iter().find(|row| row["pid"] == *pid).expect("both are shown");
            ran[ix] += number(of, "run_ns");
            disturbed[ix] += number(&of["wait"], "others_ns");
        }
    }
    for ix in 0..2 {
        assert!(ran[ix] > 0 && ran[ix] <= after[ix] - before[ix], "{ran:?}, {before:?}, {after:?}");
        assert!(disturbed[ix] > 0, "each waits while the other runs");
    }
    let stat = run(kasuri(dir).args(["stat", "--json", "--all", "last.kasuri"]));
    assert!(stat.status.success(), "{}", said(&stat));
    let stat: Value = serde_json::from_slice(&stat.stdout).unwrap();
    assert_eq!(stat["schema"], "kasuri.stat/1");
}

#[test]
fn the_end_by_a_signal_leaves_whole_tables_and_no_instance() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let mut child = kasuri(dir)
        .args(["top", "--plain", "--interval", "200ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut table = String::new();
    while !table.contains("BLOCKED IN") {
        assert!(std::io::BufRead::read_line(&mut out, &mut table).unwrap() > 0, "{table}");
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(rest.is_empty() || rest.ends_with('\n'));
    assert!(table.starts_with("kasuri top"), "{table}");
    assert_eq!(instances(), 0);
}

#[test]
fn a_recording_that_cannot_be_made_is_an_error_that_names_it() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let out = run(kasuri(dir).args([
        "top",
        "--json",
        "-n",
        "1",
        "--interval",
        "100ms",
        "--save",
        "no/such/dir.kasuri",
    ]));
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("no/such"), "{}", said(&out));
}

/// A terminal of 80 columns, driven by its keys.
#[test]
fn keys_sort_filter_freeze_and_save_on_a_real_screen() {
    if !can_trace() {
        return;
    }
    if Command::new("tmux").arg("-V").output().is_err() {
        return support::skip("no tmux");
    }
    let dir = scratch();
    let dir = dir.path();
    let _rivals = Rivals::start();
    let socket = dir.join("tmux");
    let tmux = |args: &[&str]| {
        let out = Command::new("tmux").arg("-S").arg(&socket).args(args).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let command = format!(
        "cd {} && {} top --interval 200ms; echo ended $?; sleep 100",
        dir.display(),
        env!("CARGO_BIN_EXE_kasuri")
    );
    tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &command]);
    // A loaded machine may take long; only a program that never shows it fails.
    let until = |what: &str| {
        for _ in 0..600 {
            let screen = tmux(&["capture-pane", "-p"]);
            if screen.contains(what) {
                return screen;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{what:?} does not appear:\n{}", tmux(&["capture-pane", "-p"]));
    };
    let screen = until("BLOCKED IN");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    tmux(&["send-keys", "r"]);
    until("processes, by ready");
    tmux(&["send-keys", "/"]);
    until("filter: _");
    tmux(&["send-keys", "taskset"]);
    until("filter: taskset_");
    tmux(&["send-keys", "Escape"]);
    until("q quit");
    tmux(&["send-keys", "t"]);
    until("threads, by ready");
    tmux(&["send-keys", "Space"]);
    until("FROZEN");
    tmux(&["send-keys", "s"]);
    until("saved top.kasuri");
    tmux(&["send-keys", "q"]);
    until("ended 0");
    tmux(&["kill-server"]);
    let info = run(kasuri(dir).args(["info", "top.kasuri"]));
    assert!(info.status.success(), "{}", said(&info));
}
