//! `kasuri where`: programs that hang, and who keeps them waiting.
use crate::support::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A program that hangs.
struct Hanging {
    program: Running,
    dir: tempfile::TempDir,
}

impl Hanging {
    /// `None`: its memory cannot be read here.
    fn begin(mode: &str) -> Option<Hanging> {
        if !is_root() {
            skip("who is no ancestor of a program may not read its memory everywhere");
            return None;
        }
        let mut command = Command::new(compile("tests/record/hang.c"));
        let mut program = command.arg(mode).stdout(Stdio::piped()).spawn_guarded();
        let mut line = String::new();
        let stdout = program.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "hangs\n");
        Some(Hanging { program, dir: scratch() })
    }

    /// What `kasuri where` says once it is so: the last thread may be on its way yet.
    fn finds(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut told = Value::Null;
        wait_until(what, || {
            told = serde_json::from_slice(&self.look(&["--json"])).expect("JSON");
            is_so(&told)
        });
        told
    }

    fn look(&self, more: &[&str]) -> Vec<u8> {
        let pid = self.program.id().to_string();
        let mut command = kasuri(self.dir.path());
        let output = run(command.env("COLUMNS", "80").args(["where", "-p", &pid]).args(more));
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    }
}

fn threads(told: &Value) -> &[Value] {
    told["threads"].as_array().expect("threads")
}

fn ids(of: &Value) -> Vec<i64> {
    of.as_array().expect("a list").iter().map(|id| id.as_i64().expect("an id")).collect()
}

/// The only thread that waits for such a thing, and who has it.
fn waits_for<'a>(told: &'a Value, on: &str) -> Option<(&'a Value, &'a [Value])> {
    let mut found = threads(told).iter().filter(|t| t["on"] == on);
    let thread = found.next()?;
    Some((thread, thread["by"].as_array()?))
}

#[test]
fn threads_that_wait_for_each_others_mutex_are_a_circle() {
    let Some(hanging) = Hanging::begin("circle") else {
        return;
    };
    let told = hanging.finds("the circle", |told| told["circles"] != serde_json::json!([]));
    let circles = told["circles"].as_array().unwrap();
    let [circle] = &circles[..] else {
        panic!("{told}");
    };
    let mut circle = ids(circle);
    circle.sort_unstable();
    let with_mutex = threads(&told).iter().filter(|t| t["on"] == "mutex");
    let mut waiting: Vec<i64> = with_mutex.map(|t| t["tid"].as_i64().unwrap()).collect();
    waiting.sort_unstable();
    assert_eq!(circle, waiting, "{told}");
    assert_eq!((circle.len(), threads(&told).len()), (2, 3), "{told}");
    let text = String::from_utf8(hanging.look(&[])).unwrap();
    assert!(text.contains("dead-lock"), "{text}");
    assert!(text.contains("first_then_second"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn a_thread_that_is_waited_for_and_loops_is_named_with_its_loop() {
    let Some(hanging) = Hanging::begin("join") else {
        return;
    };
    let told = hanging.finds("a join, and the loop", |told| {
        let is_loop =
            |t: &Value| t["state"] == "runs" && t["path"][0]["function"] == "spin_forever";
        waits_for(told, "thread").is_some() && threads(told).iter().any(is_loop)
    });
    let (_, by) = waits_for(&told, "thread").unwrap();
    let looping = threads(&told).iter().find(|t| t["state"] == "runs").unwrap();
    assert_eq!(by[0]["tid"], looping["tid"], "{told}");
    assert_eq!(looping["waiters"], 1, "{told}");
}

#[test]
fn the_kernel_knows_who_has_a_mutex_with_priority_inheritance() {
    let Some(hanging) = Hanging::begin("inherited") else {
        return;
    };
    let told = hanging.finds("a waiter", |told| waits_for(told, "mutex").is_some());
    let (_, by) = waits_for(&told, "mutex").unwrap();
    let keeper = threads(&told).iter().find(|t| t["path"][1]["function"] == "keep_first");
    assert_eq!(by[0]["tid"], keeper.expect("its holder")["tid"], "{told}");
}

#[test]
fn readers_wait_for_the_writer_of_a_rwlock() {
    let Some(hanging) = Hanging::begin("rwlock") else {
        return;
    };
    let told = hanging.finds("a reader", |told| waits_for(told, "rwlock").is_some());
    let (_, by) = waits_for(&told, "rwlock").unwrap();
    let writer = by[0]["tid"].as_i64().unwrap();
    let writer = threads(&told).iter().find(|t| t["tid"] == writer).unwrap();
    assert_eq!(writer["path"][1]["function"], "write_shared", "{told}");
    assert_eq!(writer["waiters"], 2, "the reader, and who joins it: {told}");
}

#[test]
fn processes_at_the_other_end_and_children_are_named() {
    for (mode, on, name) in [
        ("child", "child", "the-child"),
        ("socket", "socket", "the-peer"),
        ("pipe", "pipe", "hang"),
        ("flock", "file lock", "hang"),
    ] {
        let Some(hanging) = Hanging::begin(mode) else {
            return;
        };
        let is_named = |told: &Value| {
            let by = waits_for(told, on).map_or(&[][..], |(_, by)| by);
            matches!(by, [by] if by["name"] == name)
        };
        let told = hanging.finds(mode, is_named);
        assert_eq!(threads(&told).len(), 1, "{told}");
    }
}

/// The words in a program's memory are the program's: a number that is no thread of it names nobody.
#[test]
fn a_mutex_that_lies_about_its_owner_names_nobody() {
    let Some(hanging) = Hanging::begin("liar") else {
        return;
    };
    let in_lock =
        |t: &Value| t["path"][0]["function"].as_str().is_some_and(|f| f.contains("mutex"));
    let told = hanging.finds("the lock", |told| threads(told).iter().any(in_lock));
    let asker = threads(&told).iter().find(|t| in_lock(t)).unwrap();
    assert_eq!(asker["by"], serde_json::json!([]), "{told}");
}

#[test]
fn a_process_whose_first_thread_has_ended_is_looked_at() {
    let Some(hanging) = Hanging::begin("leaderless") else {
        return;
    };
    let pid = hanging.program.id();
    wait_until("the first thread ends", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") Z ")
    });
    let told = hanging.finds("the other thread", |told| {
        threads(told).iter().any(|t| t["path"][1]["function"] == "sleep_on")
    });
    assert!(threads(&told).iter().all(|t| t["state"] != "runs"), "{told}");
}

/// Blocked time of a recording of threads that do not move is all of it, each with its path.
#[test]
fn threads_that_slept_through_a_recording_have_their_time() {
    let Some(hanging) = Hanging::begin("circle") else {
        return;
    };
    if !can_trace() {
        return;
    }
    hanging.finds("the circle", |told| told["circles"] != serde_json::json!([]));
    let pid = hanging.program.id().to_string();
    let record = ["record", "-q", "-o", "d.kasuri", "--duration", "1s", "-p", &pid];
    let output = run(kasuri(hanging.dir.path()).args(record));
    assert!(output.status.success(), "{}", said(&output));
    let stat = run(kasuri(hanging.dir.path()).args(["stat", "--json", "d.kasuri"]));
    let stat: Value = serde_json::from_slice(&stat.stdout).expect("JSON");
    let wall = stat["wall_ns"].as_i64().unwrap();
    let rows = stat["threads"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        assert_eq!(row["blocked_ns"].as_i64(), Some(wall), "{row}");
    }
    let hints = stat["hints"].as_array().unwrap();
    assert!(hints.iter().any(|hint| hint["kind"] == "dead_lock"), "{hints:?}");
    let told = run(kasuri(hanging.dir.path()).args(["where", "d.kasuri"]));
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(text.contains("dead-lock"), "{text}");
}

mod measured {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_wait_is_as_old_as_it_is() {
        let begun = Instant::now();
        let Some(hanging) = Hanging::begin("join") else {
            return;
        };
        std::thread::sleep(Duration::from_secs(2));
        measure(|| {
            let told: Value = serde_json::from_slice(&hanging.look(&["--json"])).unwrap();
            let (thread, _) = waits_for(&told, "thread").unwrap();
            let since = Duration::from_nanos(thread["since_ns"].as_u64().unwrap());
            assert!(since >= Duration::from_millis(1900), "{since:?}");
            assert!(since <= begun.elapsed(), "{since:?} of {:?}", begun.elapsed());
        });
    }
}
