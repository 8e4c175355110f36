//! The traced program survives, and behaves as it does untraced: exit status, signals, standard streams, limits, daemons.
use crate::support::*;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn record(dir: &std::path::Path, words: &[&str]) -> std::process::Output {
    run(kasuri(dir).args(["record", "-q", "-o", "run.kasuri", "--"]).args(words))
}

#[test]
fn exit_status_is_the_programs() {
    let dir = scratch();
    for (script, status) in
        [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        assert_eq!(
            record(dir.path(), &["sh", "-c", script]).status.code(),
            Some(status),
            "{script}"
        );
        assert!(dir.path().join("run.kasuri").exists());
        std::fs::remove_file(dir.path().join("run.kasuri")).unwrap();
    }
}

#[test]
fn a_program_that_cannot_run_leaves_nothing_behind() {
    let dir = scratch();
    std::fs::write(dir.path().join("plain"), "no program").unwrap();
    for (program, status, text) in [
        ("./nowhere", 127, "program not found"),
        ("nowhere-in-path", 127, "program not found"),
        ("./plain", 126, "cannot run"),
    ] {
        let output = record(dir.path(), &[program]);
        assert_eq!(output.status.code(), Some(status), "{program}");
        assert!(said(&output).contains(text), "{}", said(&output));
        assert!(
            !dir.path().join("run.kasuri.d").exists() && !dir.path().join("run.kasuri").exists()
        );
    }
}

#[test]
fn standard_streams_pass_through() {
    let dir = scratch();
    let mut child = kasuri(dir.path())
        .args(["record", "-q", "-o", "run.kasuri", "--", "sh", "-c", "cat; echo err >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn_guarded();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = child.wait_with_output();
    assert_eq!(output.stdout, b"hello");
    assert!(said(&output).contains("err\n"));
}

#[test]
fn signal_mask_and_sigpipe_are_the_default_ones() {
    let dir = scratch();
    let output = record(dir.path(), &["sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mask = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk"), 0);
    assert_eq!(mask("SigIgn") >> 12 & 1, 0, "SIGPIPE is not ignored");
}

#[test]
fn every_annotation_of_every_process_is_kept() {
    let families = program("families");
    let families = families.to_str().unwrap();
    for (kind, processes, events) in
        [("fork", 3, 30), ("exec", 1, 10), ("again", 1, 20), ("once", 1, 10)]
    {
        let dir = scratch();
        let output = record(dir.path(), &[families, kind]);
        assert!(output.status.success(), "{kind}: {}", said(&output));
        let facts = facts(&dir.path().join("run.kasuri"));
        assert_eq!(
            (facts.by_pid.len(), facts.annotations, facts.lost),
            (processes, events, 0),
            "{kind}: {facts:?}"
        );
        assert!(facts.names.contains(&"tick".to_owned()));
    }
}

#[test]
fn a_daemon_left_behind_is_recorded_until_the_program_ends_and_goes_on() {
    let dir = scratch();
    let output = record(dir.path(), &[program("families").to_str().unwrap(), "daemon"]);
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!((10..=30).contains(&facts.annotations), "{facts:?}");
}

#[test]
fn a_program_that_drops_root_is_unharmed() {
    if !is_root() {
        return skip("needs root");
    }
    let families = program("families");
    for (kind, least) in [("leave", 0), ("early", 10)] {
        let dir = scratch();
        let output = record(dir.path(), &[families.to_str().unwrap(), kind]);
        assert!(output.status.success(), "{kind}: {}", said(&output));
        assert!(facts(&dir.path().join("run.kasuri")).annotations >= least, "{kind}");
    }
}

#[test]
fn events_of_thousands_of_short_threads_are_all_kept() {
    let dir = scratch();
    let output = record(dir.path(), &[program("threads").to_str().unwrap(), "4000"]);
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (12_000, 0), "{facts:?}");
    assert!(facts.streams > 3_900, "{facts:?}");
}

#[test]
fn emitted_is_kept_plus_lost_under_each_policy() {
    let emitter = program("emitter");
    for options in [&[][..], &["--discard", "--ring-mb", "1"], &["--ring-mb", "1"]] {
        let dir = scratch();
        let output = run(kasuri(dir.path())
            .args(["record", "-q", "-o", "run.kasuri"])
            .args(options)
            .arg("--")
            .arg(&emitter)
            .args(["3", "400000", "counts"]));
        assert!(output.status.success(), "{}", said(&output));
        let facts = facts(&dir.path().join("run.kasuri"));
        let emitted = counted(&dir.path().join("counts"));
        assert_eq!(emitted, 1_200_000);
        assert_eq!(facts.annotations + facts.lost, emitted, "{options:?}: {} lost", facts.lost);
        if options.is_empty() {
            assert_eq!(facts.lost, 0, "growing loses nothing");
        }
    }
}

#[test]
fn hundreds_of_short_processes_lose_nothing() {
    let dir = scratch();
    let families = program("families");
    let script = format!(
        "i=0; while [ $i -lt 300 ]; do {} once; i=$((i+1)); done; sleep 1.2",
        families.display()
    );
    let output = record(dir.path(), &["sh", "-c", &script]);
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert_eq!((facts.by_pid.len(), facts.annotations, facts.lost), (300, 3_000, 0));
}

#[test]
fn a_program_in_a_pid_namespace_is_not_taken_for_another() {
    if !is_root() {
        return skip("needs root");
    }
    // Its threads are 1, 2, 3... to itself: other, or no, threads of the machine.
    let dir = scratch();
    let emitter = program("emitter");
    let words =
        ["unshare", "--pid", "--fork", emitter.to_str().unwrap(), "3", "200000", "counts", "40000"];
    let output = record(dir.path(), &words);
    if said(&output).contains("unshare failed") {
        return skip("no pid namespaces");
    }
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (counted(&dir.path().join("counts")), 0));
    assert_eq!(facts.annotations, 600_000);
}

#[test]
fn limits_of_the_program_are_the_users() {
    let dir = scratch();
    let script = "ulimit -Sn 64; exec \"$0\" record -q -o run.kasuri -- sh -c 'ulimit -Sn'";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_kasuri")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "64\n", "{}", said(&output));
}

/// What a shell started with, the program gets: ignored signals stay ignored, and no other becomes so.
#[test]
fn ignored_signals_are_the_same_in_the_program() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let show = "grep -E 'Sig(Ign|Blk)' /proc/self/status";
    for ignored in ["CHLD", "PIPE", "XFSZ", "CHLD PIPE XFSZ USR1 HUP", ""] {
        let trap = match ignored {
            "" => String::new(),
            signals => format!("trap '' {signals}; "),
        };
        let alone = run(Command::new("sh").arg("-c").arg(format!("{trap}exec {show}")));
        let recorded = format!(
            "{trap}exec {} record -q -o run.kasuri -- {show}",
            env!("CARGO_BIN_EXE_kasuri")
        );
        let recorded = run(Command::new("sh").arg("-c").arg(recorded).current_dir(dir.path()));
        let shown = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(recorded.status.success(), "{ignored}: {}", said(&recorded));
        assert_eq!(shown(&recorded), shown(&alone), "{ignored}");
    }
}

/// Started in whatever way, the program is handed what it would have been handed alone: but for variables, which probes need.
#[test]
fn what_a_program_inherits_alone_it_inherits_recorded() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let (starter, path) = (program("surroundings"), |name: &str| dir.path().join(name));
    let starts = [
        "as_ever",
        "ignored",
        "blocked",
        "closed",
        "no_input",
        "descriptors",
        "limits",
        "umask",
        "nice",
        "batch",
        "one_cpu",
        "nowhere",
        "prctl",
        "timer",
    ];
    let probes =
        [("--locks", "lock/libkasuri-lock.so"), ("--openmp", "openmp/libkasuri-openmp.so")];
    let built = repository().join("build/probes");
    let probes = probes.iter().filter(|(_, library)| built.join(library).exists());
    let modes: Vec<&[&str]> = std::iter::once(&[][..])
        .chain(probes.map(|(mode, _)| std::slice::from_ref(mode)))
        .collect();
    let handed = |start: &str, words: &[&str], name: &str| {
        let mut command = Command::new(&starter);
        command.arg(start).args(words).arg(&starter).arg("say").arg(path(name));
        // One file for all runs: its number is among what is compared.
        let said = std::fs::File::options().append(true).create(true).open(path("said")).unwrap();
        command.env_remove("KASURI_SESSION").stdin(Stdio::null());
        command.stdout(said.try_clone().unwrap()).stderr(said);
        let status = command.status().unwrap();
        let said = std::fs::read_to_string(path("said")).unwrap();
        assert!(status.success(), "{start} {words:?}: {status:?} {said}");
        std::fs::read_to_string(path(name)).unwrap()
    };
    let output = path("run.kasuri").to_string_lossy().into_owned();
    for start in starts {
        let alone = handed(start, &[], "alone");
        assert!(alone.lines().count() > 30, "{alone}");
        for mode in &modes {
            let command =
                [&[env!("CARGO_BIN_EXE_kasuri"), "record", "-q", "-o", &output][..], mode, &["--"]]
                    .concat();
            assert_eq!(handed(start, &command, "recorded"), alone, "{start} {mode:?}");
        }
    }
}

/// `ulimit -f`: the program runs to its end, whatever it annotates, and what there was no room for is counted or said.
#[test]
fn a_limit_of_the_length_of_files_ends_no_program() {
    if !can_trace() {
        return;
    }
    // Blocks of 512 bytes. Below the least the recorder cannot begin, and says so.
    for blocks in [1, 100, 2000, 20_000] {
        let dir = scratch();
        let script = format!(
            "ulimit -f {blocks}; exec {} record -o run.kasuri -- sh -c '{} 2 30000 counts 0; echo $? >ended'",
            env!("CARGO_BIN_EXE_kasuri"),
            program("emitter").display()
        );
        let output = run(Command::new("sh").arg("-c").arg(script).current_dir(dir.path()));
        let said = said(&output);
        if blocks == 1 {
            assert_eq!(output.status.code(), Some(125), "{said}");
            assert!(said.contains("File too large"), "{said}");
            continue;
        }
        // A recorder that can write no more ends before the program, which goes on without it, and counts what it emitted until then.
        wait_until("the program ends well", || {
            std::fs::read(dir.path().join("ended")).is_ok_and(|text| text == b"0\n")
        });
        let counts = counted(&dir.path().join("counts"));
        if output.status.code() == Some(125) {
            assert!(said.contains("kasuri recover run.kasuri.d"), "{blocks}: {said}");
            let saved = run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
            assert!(saved.status.success(), "{blocks}: {saved:?}");
        }
        let facts = facts(&dir.path().join("run.kasuri"));
        assert_eq!(facts.annotations + facts.lost, counts, "{blocks}: {said}");
        assert!(counts == 60_000 || output.status.code() == Some(125), "{blocks}: {said}");
    }
}
