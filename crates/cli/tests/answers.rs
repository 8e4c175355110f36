//! The answers of the reading commands on golden files, compared with those of the last version, whole.
//!
//! Other tests say what is right about an answer; these say that nothing else about it changed. A change that is meant is taken over with
//! `INSTA_UPDATE=always cargo test -p kasuri-cli --test it answers::` and read in the diff of `tests/golden/answers`.
//! `tests/golden/kasuri/make` made the recordings; the other tools' files have a `make` of their own.
use crate::fold::fold;
use std::path::{Path, PathBuf};
use std::process::Command;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// `locks` replays on two CPUs with the waking times of the machine that it runs on: what follows from that is left out.
fn without_measurements(text: &str) -> String {
    let mut answer: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let fields = answer.as_object_mut().expect("an object");
    fields.retain(|key, _| {
        !["cap", "class", "look_at"].contains(&key.as_str())
            && !key.starts_with("speedup")
            && !key.contains("efficiency")
    });
    serde_json::to_string_pretty(&answer).expect("JSON")
}

/// What `kasuri COMMAND --json FILE` prints, as a snapshot named after both.
fn check(command: &str, file: &str) {
    let name = format!("{}-{command}", file.replace('/', "-"));
    check_with(&name, &[command, "--json", file]);
}

/// The same where the file's kernel is none that can be running: on the machine that it was recorded on, its kernel code would have
/// names.
fn check_without_its_kernel(command: &str, file: &str, build_id: &[u8]) {
    let mut bytes = std::fs::read(golden().join(file)).expect("the golden file");
    let places = bytes.windows(build_id.len()).enumerate();
    let places: Vec<usize> =
        places.filter(|(_, window)| *window == build_id).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{file} has another kernel");
    for at in places {
        bytes[at..at + build_id.len()].fill(0xee);
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join(file).parent().expect("a directory")).expect("made");
    std::fs::write(dir.path().join(file), bytes).expect("written");
    let name = format!("{}-{command}", file.replace('/', "-"));
    check_in(dir.path(), &name, &[command, "--json", file]);
}

/// What `kasuri ARGUMENTS` prints, as a snapshot.
fn check_with(name: &str, arguments: &[&str]) {
    check_in(&golden(), name, arguments);
}

/// The same in a directory.
fn check_in(dir: &Path, name: &str, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_kasuri"))
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .output()
        .expect("the command was built with this test");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kasuri {arguments:?}: {errors}");
    let text = match arguments[0] {
        "locks" => without_measurements(&text),
        _ => text,
    };
    let settings = {
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path(golden().join("answers"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
    };
    settings.bind(|| insta::assert_snapshot!(name, fold(&text)));
}

/// The commands that answer from the file alone (`predict` measures the machine), on each of our own recordings: loops, locks, tasks, system calls, several processes, a mix of losses.
#[test]
fn answers_on_our_recordings_are_unchanged() {
    for name in ["calls", "locks", "loops", "mix", "processes", "tasks"] {
        for command in ["stat", "critical", "locks"] {
            check(command, &format!("kasuri/{name}.kasuri"));
        }
    }
}

/// One file of each format of another tool.
#[test]
fn answers_on_other_tools_files_are_unchanged() {
    for file in [
        "chrome/node.json",
        "ctf/kernel",
        "ctf/ust-pid",
        "ftrace_text/trace.txt",
        "perfetto/sched.pftrace",
        "pprof/cpu.pb.gz",
        "trace-dat/lost.dat",
    ] {
        check("stat", file);
        check("info", file);
    }
    const KERNEL: [u8; 20] = [
        0xe4, 0xf1, 0x8d, 0x9d, 0xc1, 0xd0, 0xe6, 0xfc, 0x2b, 0x17, 0xe9, 0x3e, 0x88, 0x5a, 0x64,
        0x7b, 0x3c, 0x0a, 0x6f, 0xc1,
    ];
    for command in ["stat", "info"] {
        check_without_its_kernel(command, "perf_data/sched.data", &KERNEL);
    }
    let of_one = ["critical", "--json", "--process", "pingpong"];
    let of_one = [&of_one[..], &["ftrace_text/trace.txt"]].concat();
    check_with("ftrace_text-trace.txt-critical", &of_one);
    check("locks", "ctf/ust");
}

/// Stretches that begin and end inside of states, slices and waits, and a comparison, of runs that differ and of runs that do not.
#[test]
fn answers_on_stretches_and_pairs_are_unchanged() {
    for (name, range) in [
        ("calls", "20%..70%"),
        ("locks", "31%..33%"),
        ("loops", "40%..60%"),
        ("mix", "25%..75%"),
        ("processes", "10%..50%"),
        ("tasks", "30%..90%"),
    ] {
        let file = format!("kasuri/{name}.kasuri");
        let arguments = ["stat", "--json", "--all", "--range", range, &file];
        check_with(&format!("kasuri-{name}.kasuri-stat-range"), &arguments);
        check("info", &file);
    }
    let locks = "kasuri/locks.kasuri";
    let arguments = ["locks", "--json", "--all", "--range", "31%..33%", locks];
    check_with("kasuri-locks.kasuri-locks-range", &arguments);
    let (a, b) = ("kasuri/loops.kasuri", "kasuri/mix.kasuri");
    check_with("compare-one", &["compare", "--json", a, b]);
    let many = ["compare", "--json", "--before", a, a, b, "--after", b, b, a, b];
    check_with("compare-many", &many);
    check_with("compare-same", &["compare", "--json", a, a]);
}

#[test]
fn plans_are_unchanged() {
    let arguments = ["plan", "-P", "2,8", "--top", "5", "kasuri/tasks.kasuri"];
    check_with("kasuri-tasks.kasuri-plan", &arguments);
}
