//! Files of every format, through every command that reads: what a file does not tell is said to be unknown or left out, never
//! printed as 0, and a command that has no answer says so and why.
use std::process::{Command, Output};

/// One file of each format that holds no switches.
const WITHOUT_SWITCHES: [&str; 5] = [
    "chrome/node.json",
    "perfetto/chromium.pftrace",
    "ctf/ust",
    "pprof/cpu.pb.gz",
    "perf_profile/clock.data",
];
/// One of each that holds some.
const WITH_SWITCHES: [&str; 3] =
    ["kasuri/mix.kasuri", "ftrace_text/trace.txt", "perfetto/sched.pftrace"];

fn kasuri(args: &[&str]) -> Output {
    let golden = format!("{}/../../tests/golden", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    let command = command.env("COLUMNS", "80").args(args);
    command.current_dir(golden).output().unwrap()
}

/// What is on stdout; the command must have an answer.
fn answer(args: &[&str]) -> String {
    let out = kasuri(args);
    assert!(out.status.success(), "{args:?}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// The error; the command must have no answer, and not print half of one.
fn refusal(args: &[&str]) -> String {
    let out = kasuri(args);
    assert_eq!(out.status.code(), Some(1), "{args:?}: {out:?}");
    assert!(out.stdout.is_empty(), "{args:?}: {out:?}");
    String::from_utf8(out.stderr).unwrap()
}

/// Numbers that only switches tell, as an answer must not print them without: beginnings of lines, and words.
const UNKNOWN: [&str; 10] = [
    "you got",
    "CPUs busy",
    "CPUs at work by region",
    "  switches ",
    "  wake-ups ",
    "  0 CPUs",
    ", 0 CPUs",
    "0 of 0",
    " NaN",
    " inf ",
];

#[test]
fn what_only_switches_tell_is_not_printed_without_them() {
    for file in WITHOUT_SWITCHES {
        let stat = answer(&["stat", file]);
        let texts = [
            answer(&["stat", "-v", file]),
            answer(&["locks", file]),
            answer(&["compare", file, file]),
        ];
        for text in texts.iter().chain([&stat]) {
            for number in UNKNOWN {
                assert!(!text.contains(number), "{file}: {number:?} in {text}");
            }
        }
        assert!(stat.contains("not known: the recording has no scheduler events"), "{file}");
        assert!(!stat.contains("kasuri critical"), "{file}: it has no answer");
        for command in ["critical", "predict"] {
            assert!(refusal(&[command, file]).contains("no scheduler events"), "{command} {file}");
        }
        // The remedy is the writer's own: a trace of another tool is not cured by a second look at this machine.
        let said = refusal(&["critical", file]);
        assert!(said.contains(&format!("kasuri info {file} says")), "{said}");
        assert!(answer(&["info", file]).contains("remedy: "), "{file}");
    }
}

/// Ratios of lock tables: `-` where the time that they are a share of is not known.
#[test]
fn ratios_of_an_unknown_time_are_dashes() {
    let text = answer(&["locks", "ctf/ust"]);
    let of_lock = text.lines().find(|line| line.trim_start().starts_with("lock [1]"));
    let words: Vec<&str> = of_lock.unwrap().split_whitespace().collect();
    assert_eq!(words[2..5], ["annotation", "-", "-"], "{text}");
}

#[test]
fn what_is_of_one_program_is_not_told_of_all_processes() {
    for file in WITH_SWITCHES {
        let found: serde_json::Value =
            serde_json::from_str(&answer(&["stat", "--json", file])).unwrap();
        let is_of_nobody = found["program"]["by"] == "nobody";
        if !is_of_nobody {
            assert!(answer(&["critical", file]).starts_with("critical path"), "{file}");
            continue;
        }
        let said = refusal(&["critical", file]);
        // What is proposed is a command that answers.
        let proposed = said.rsplit_once(": kasuri ").unwrap().1.trim();
        let words: Vec<&str> = proposed.split(' ').collect();
        assert!(answer(&words).starts_with("critical path"), "{file}: {proposed}");
        assert!(!answer(&["stat", file]).contains("you got"), "{file}");
    }
}
