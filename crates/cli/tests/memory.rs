//! Recordings that are larger than the memory they may have: the same answers, from columns in files that nobody else can open.
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Two threads that take turns on a CPU: columns of more than the smallest block that counts.
const SWITCHES: usize = 80_000;

/// A directory of its own for each test, with a trace in it.
fn scratch(name: &str) -> (PathBuf, PathBuf) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("files")).expect("a directory");
    let mut text = String::from("# tracer: nop\n#\n");
    for turn in 0..SWITCHES {
        let (prev, next) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let pid = |name| if name == "a" { 11 } else { 12 };
        let (old, new, us) = (pid(prev), pid(next), 10 * turn + turn % 7);
        writeln!(
            text,
            "{prev}-{old} [000] d..2 {}.{:06}: sched_switch: prev_comm={prev} prev_pid={old} prev_prio=120 prev_state=S ==> next_comm={next} next_pid={new} next_prio=120",
            us / 1_000_000,
            us % 1_000_000
        )
        .expect("written");
    }
    let file = dir.join("trace.txt");
    std::fs::write(&file, text).expect("written");
    (file, dir.join("files"))
}

/// `kasuri` with so much memory, and a directory for files.
fn kasuri(memory: &str, files: &Path, args: &[&str], file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.args(args).arg(file).stdin(Stdio::null());
    command.env("KASURI_MEMORY", memory).env("TMPDIR", files);
    command
}

fn output(mut command: Command) -> Output {
    let out = command.output().expect("kasuri runs");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    out
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).expect("a directory").count() == 0
}

#[test]
fn answers_do_not_depend_on_how_much_is_held_in_memory() {
    let (file, files) = scratch("answers");
    let args = ["stat", "--json", "--all"];
    let in_memory = output(kasuri("", &files, &args, &file));
    assert!(in_memory.stdout.len() > 1000);
    for memory in ["0", "1M"] {
        let out = output(kasuri(memory, &files, &args, &file));
        assert!(out.stdout == in_memory.stdout, "with {memory}");
    }
    // No room for files, and none where they could be: memory then.
    let nowhere = output(kasuri("0", Path::new("/nonexistent"), &args, &file));
    assert!(nowhere.stdout == in_memory.stdout);
    assert!(is_empty(&files));
}

#[test]
fn files_beyond_memory_have_no_name_and_only_the_owner_may_read_them() {
    let (file, files) = scratch("files");
    let args = ["export", "-f", "chrome-json", "-o", "-"];
    let mut command = kasuri("0", &files, &args, &file);
    let mut exporting = command.stdout(Stdio::piped()).spawn().expect("kasuri runs");
    // It writes more than a pipe takes, so once something came it has the columns, and waits.
    let mut line = String::new();
    let out = exporting.stdout.as_mut().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("the beginning");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", exporting.id())).expect("maps");
    let mapped = maps.lines().filter(|l| l.contains(&*files.to_string_lossy()));
    let mapped: Vec<&str> = mapped.collect();
    assert!(!mapped.is_empty(), "columns in files:\n{maps}");
    assert!(mapped.iter().all(|l| l.ends_with("(deleted)")), "{mapped:?}");
    for fd in std::fs::read_dir(format!("/proc/{}/fd", exporting.id())).expect("files") {
        use std::os::unix::fs::MetadataExt;
        let fd = fd.expect("an entry").path();
        let to = std::fs::read_link(&fd).unwrap_or_default();
        if to.starts_with(&files) {
            let facts = std::fs::metadata(&fd).expect("facts");
            assert_eq!((facts.mode() & 0o077, facts.nlink()), (0, 0));
        }
    }
    assert!(is_empty(&files));
    exporting.kill().expect("killed");
    exporting.wait().expect("ended");
}

#[test]
fn a_number_of_bytes_that_is_none_is_refused() {
    let (file, files) = scratch("refused");
    let out = kasuri("2X", &files, &["stat"], &file).output().expect("kasuri runs");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("KASURI_MEMORY=2X: is no number of bytes, needed one such as 2G or 500M"),
        "{errors}"
    );
}
